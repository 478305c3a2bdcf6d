"""The model card: a README with a header for model hubs, and CycloneDX for inventories.

Both read the record of a report. What a card should tell and a model cannot know (for
whom it is meant, who measured, who paid) is "not known", to be filled in by hand: the
items are those of TRIPOD+AI (Collins and others, BMJ 2024; 385: e078378).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from renyi.encoding.columns import MISSING_TEXT
from renyi.exports.point_tables import markdown_table, markdown_text
from renyi.formatting import number_of, percent
from renyi.report.page import name
from renyi.writing import encoded

if TYPE_CHECKING:
    from renyi.report.record import Report

README = "README.md"
BILL = "modelcard.cdx.json"  # how files of CycloneDX are to end
FILES = (README, BILL)
_LARGEST = 2**24  # bytes of a README that are looked at
UNKNOWN = "not known"
_TUNED = ("alpha", "order", "calibration", "objective", "intercept", "seed")

# Number and subject of every item; what is known of it is told by `_known`.
_ITEMS = (
    ("1", "Title"),
    ("2", "Abstract"),
    ("3a", "Context and rationale"),
    ("3b", "Target population, purpose and users"),
    ("3c", "Known inequalities between groups"),
    ("4", "Objectives"),
    ("5a", "Sources of data"),
    ("5b", "Dates of the data"),
    ("6a", "Setting"),
    ("6b", "Who was eligible"),
    ("6c", "Treatments received"),
    ("7", "Preparation of the data"),
    ("8a", "Outcome"),
    ("8b", "Who assessed the outcome"),
    ("8c", "Blinding when the outcome was assessed"),
    ("9a", "Choice of predictors"),
    ("9b", "Predictors"),
    ("9c", "Blinding when predictors were assessed"),
    ("10", "Sample size"),
    ("11", "Missing data"),
    ("12a", "How data were used, and partitioned"),
    ("12b", "Form of the predictors"),
    ("12c", "Type of model, how it was built and tuned"),
    ("12d", "Differences between clusters"),
    ("12e", "Measures of performance"),
    ("12f", "Updating of the model"),
    ("12g", "How predictions are computed"),
    ("13", "Class imbalance"),
    ("14", "Fairness"),
    ("15", "Output of the model"),
    ("16", "Differences between development and evaluation data"),
    ("17", "Ethical approval"),
    ("18a", "Funding"),
    ("18b", "Conflicts of interest"),
    ("18c", "Protocol"),
    ("18d", "Registration"),
    ("18e", "Sharing of data"),
    ("18f", "Sharing of code"),
    ("19", "Involvement of patients and the public"),
    ("20a", "Flow of participants"),
    ("20b", "Characteristics of participants"),
    ("20c", "Comparison of development and evaluation data"),
    ("21", "Participants and outcomes in each analysis"),
    ("22", "Full specification of the model"),
    ("23a", "Performance, with intervals"),
    ("23b", "Differences in performance between clusters"),
    ("24", "Results of updating"),
    ("25", "Interpretation"),
    ("26", "Limitations"),
    ("27a", "Inputs that are poor or absent"),
    ("27b", "What users must know and do"),
    ("27c", "Next steps"),
)


def check_place(folder: Path) -> None:
    """Refuse to write over a README that is not as `readme` left it."""
    place = folder / README
    if place.is_file():
        with place.open("rb") as stream:
            text = stream.read(_LARGEST).decode("utf-8", "replace")
        body, _, _ = text.rpartition("<!--")
        if not body or text != signed(body):
            raise ValueError(
                f"{place} is not a model card, or was filled in, and would be "
                "overwritten: name a page in another folder."
            )


def signed(body: str) -> str:
    """Return a text with a last line that tells whether it was changed."""
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f"{body}<!-- renyi {digest[:16]} -->\n"


# ---- README


def readme(report: Report, model: str | None = None) -> str:
    """Return the README: header, verdict, figures, features, use, TRIPOD+AI."""
    rungs = [(r.name, r.shown, r.meaning) for r in report.ladder]
    features = [
        (name(f.name), str(len(f.categories)), importance)
        for f, importance in report.most_important()
    ]
    more = report.data.features - len(features)
    known = _known(report)
    items = [(number, text, known.get(number, UNKNOWN)) for number, text in _ITEMS]
    parts = [
        _header(report, model),
        f"# {markdown_text(_title(report))}",
        markdown_text(report.verdict),
        *(f"**{markdown_text(text)}**" for text in report.warnings),
        "## How often it errs",
        markdown_table(("what", "error", "meaning"), rungs, 3),
        *map(markdown_text, report.ranking),
        "## Features",
        markdown_table(("feature", "categories", "importance"), features, 1),
        *([f"And {number_of(more, 'feature')} more."] if more > 0 else []),
        "## How to use it",
        _use(report, model),
        "## How it was made",
        markdown_table(("setting", "value"), [*report.made.items()], 2),
        "## TRIPOD+AI",
        "What follows from the model and its counts is filled in; please complete the "
        "rest.",
        markdown_table(("item", "subject", "here"), items, 3),
    ]
    return signed(encoded("\n\n".join(parts) + "\n\n").decode())


def _title(report: Report) -> str:
    return f"A {report.title.removeprefix('Report of a ')}"


def _header(report: Report, model: str | None) -> str:
    """Return the header in YAML, of which JSON texts are part."""
    metrics = []
    for rung in report.ladder:
        if rung.kind != "reference":
            metrics += ["    - type: error", f"      name: {_quoted(rung.title)}"]
            metrics.append(f"      value: {rung.figure:.6f}")
    index = [
        "model-index:",
        f"- name: {_quoted(name(_title(report)))}",
        "  results:",
        "  - task:",
        "      type: tabular-classification",
        "    dataset:",
        f"      name: {_quoted(', '.join(report.data.source) or UNKNOWN)}",
        "      type: tabular",
        "    metrics:",
        *metrics,
    ]
    lines = [
        "---",
        "library_name: renyi",
        "license: unknown",
        "pipeline_tag: tabular-classification",
        "tags:",
        *(f"- {tag}" for tag in ("renyi", "sklearn", "tabular-classification")),
        *([f"model_file: {_quoted(model)}", "model_format: json"] if model else []),
        *(index if metrics else []),
        "---",
    ]
    return "\n".join(lines)


def _text(text: str) -> str:
    """Return a text on one line, with escapes for what is not printed."""
    plain = " ".join(text.split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in plain)


def _quoted(text: str) -> str:
    """Return a text as YAML has it."""
    return json.dumps(_text(text), ensure_ascii=False)


def _use(report: Report, model: str | None) -> str:
    file = model or "model.json"
    if report.columns and report.columns[0].kind == "variant":
        given = shlex.quote(_text(file))
        return f"```\nrenyi predict {given} samples.bed --out answers.tsv\n```"
    return (
        "```python\nimport renyi\n\n"
        f"clf = renyi.RenyiClassifier.load({ascii(file)})\n"
        "clf.predict_proba(rows)  # a data frame with the columns of training\n```\n\n"
        "`renyi export` writes it as a function without dependencies."
    )


def _known(report: Report) -> dict[str, str]:
    """Return what is known of the items of TRIPOD+AI."""
    data = report.data
    made = report.made
    rows = data.size or UNKNOWN
    shares = ""
    if data.shares:
        each = (f"{percent(p)} {name(c)}" for c, p in data.shares.items())
        shares = f" ({', '.join(each)})"
    kinds = {column.kind for column in report.columns}
    cells = "Genotypes" if "variant" in kinds else "Cells became categories"
    bins = ", and numbers bins between quantiles" if "number" in kinds else ""
    gaps = sum(MISSING_TEXT in column.categories for column in report.columns)
    refused = any(c.kind == "label" and c.other is None for c in report.columns)
    classes = ", ".join(map(name, report.classes))
    proven = report.certificate is not None
    counted = any(column.counts for column in report.columns)
    found = {
        "1": _title(report),
        "2": report.verdict,
        "4": f"To tell {classes} apart",
        "5a": ", ".join(data.source),
        "7": cells + bins,
        "8a": f"{name(report.target or 'class')}: {classes}",
        "9b": f"{number_of(data.columns, 'column')}, named in the JSON of the report",
        "10": f"{rows}; the reason for this number is {UNKNOWN}",
        "11": f"Missing cells are a category of {number_of(gaps, 'column')}",
        "12a": "; ".join(r.name for r in report.ladder if r.kind == "estimate"),
        "12b": f"{number_of(data.features, 'feature')}, {data.categories:,} categories",
        "12c": "; ".join(f"{key} {made[key]}" for key in _TUNED if key in made),
        "12e": "Share of errors"
        + (", and the largest over all populations with these pairs" * proven),
        "12g": "Points of the categories are added up",
        "13": f"Class weights: {made.get('class weight', 'none')}",
        "15": f"A class, by the rule {report.rule}, and probabilities of {classes}",
        "18e": "No row is in the model or its report",
        "18f": f"renyi {made.get('renyi', '')}, free software (MIT)",
        "20b": "Counts of categories are in the JSON of the report" * counted,
        "21": f"{rows}{shares}",
        "22": "The points of every category, in the model file",
        "23a": "The table of errors above",
        "26": "; ".join([*report.warnings, *_limits(report)]),
    }
    if "variant" not in kinds:
        done = "is refused" if refused else "counts as the mean of its feature"
        found["27a"] = f"A label unseen in training {done}"
    return {number: text for number, text in found.items() if text}


def _limits(report: Report) -> list[str]:
    if report.certificate is None:
        return ["No worst case is proven"]
    return ["What is proven holds for populations with the same counts of pairs"]


# ---- CycloneDX


def bill(report: Report, digest: str | None = None) -> dict[str, Any]:
    """Return a bill of materials of CycloneDX 1.6 with the model and its card.

    `digest` is the SHA-256 of the model file.
    """
    data = report.data
    made = report.made
    kinds = {"label": "category", "number": "number", "variant": "genotype"}
    inputs = sorted({kinds[column.kind] for column in report.columns})
    model: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": _text(_title(report)),
        "description": _text(report.verdict),
        "modelCard": {
            "modelParameters": {
                "approach": {"type": "supervised"},
                "task": "classification",
                "architectureFamily": "scorecard",
                "modelArchitecture": "Rényi classifier, points per category",
                "datasets": [
                    {
                        "type": "dataset",
                        "name": _text(", ".join(data.source) or UNKNOWN),
                        "description": _text(
                            f"{data.size or UNKNOWN}, {data.columns:,} columns"
                        ),
                    }
                ],
                "inputs": [{"format": kind} for kind in inputs],
                "outputs": [{"format": "class"}, {"format": "probability"}],
            },
            "quantitativeAnalysis": {
                "performanceMetrics": [
                    {"type": f"error: {_text(r.title)}", "value": f"{r.figure:.6f}"}
                    for r in report.ladder
                ]
            },
            "considerations": {
                "users": [UNKNOWN],
                "useCases": [UNKNOWN],
                "technicalLimitations": [
                    _text(text) for text in [*report.warnings, *_limits(report)]
                ],
                "ethicalConsiderations": [
                    {"name": UNKNOWN, "mitigationStrategy": UNKNOWN}
                ],
            },
            "properties": [
                {"name": _text(f"renyi:{key}"), "value": _text(value)}
                for key, value in made.items()
            ],
        },
    }
    if digest is not None:
        model["hashes"] = [{"alg": "SHA-256", "content": digest}]
    maker = {"type": "application", "name": "renyi", "version": made.get("renyi", "")}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"tools": {"components": [maker]}},
        "components": [model],
    }
