"""Build the report of a genotype model from its points per variant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.certificates.error_table import NEW_ROWS, ErrorTable, estimate
from renyi.certificates.three_lines import UNKNOWN
from renyi.encoding.columns import MISSING_TEXT
from renyi.formatting import number_of
from renyi.genotypes.files import genotype_shares
from renyi.genotypes.packed import MISSING, OBSERVED
from renyi.genotypes.scores import GenotypeScores, filled_points, mean_of_unused
from renyi.report import summary
from renyi.report.build import MOST_CATEGORIES, about, rounded_points
from renyi.report.page import FORMAT, VERSION, Report
from renyi.report.summary import Entry, quoted
from renyi.validation import is_number

_GENOTYPES = [*OBSERVED, MISSING]  # to choose from
_MOST_SAMPLES = 1e15  # largest number of samples that a model may state
_LEFT_OUT = "leaving out samples"
_NO_GUARANTEE = (
    "none. Pair counts of these samples say little about other samples unless there "
    "are far more samples than variants."
)


def genotype_report(
    model: GenotypeScores,
    made: dict[str, str] | None = None,
    title: str | None = None,
) -> Report:
    """Return the report of points per variant.

    It has no guarantee: one for all populations with the same pair counts is useless
    where variants outnumber samples.
    """
    if model.classes is None:
        raise ValueError(
            "These scores do not predict classes: there is nothing to report."
        )
    order = np.argsort(-model.importance, kind="stable")
    shown, left = np.split(order, [MOST_CATEGORIES // len(_GENOTYPES)])
    columns, features = _variants(model, shown)
    c = model.calibration
    meta = dict(model.meta)
    first, second = model.classes
    shares = None
    if model.share is not None:
        shares = {first: 1 - model.share, second: model.share}
    samples = _known(meta, "samples", _MOST_SAMPLES)
    error = _known(meta, "loo_error", 1.0)
    facts: Entry = {
        "format": FORMAT,
        "version": VERSION,
        "title": title or f"Genotype model of {quoted(second)}",
        "about": "",
        "notes": [],
        "target": None,
        "classes": [first, second],
        "rule": "map",
        "data": {
            "rows": samples,
            "size": None if samples is None else number_of(samples, "sample"),
            "unit": "sample",
            "weighted": False,
            "columns": len(order),
            "features": len(order),
            "categories": len(order) * len(_GENOTYPES),
            "order": 1,
            "interactions": None,
            "shares": shares,
            "source": [],
            "uncertainty": None,
            "certified": None,
        },
        "certificate": None,
        "ranking": [],
        "columns": columns,
        "features": features,
        "left_out": len(left),
        "scale": {
            "intercept": rounded_points(
                [model.intercept + mean_of_unused(model, shown)]
            ),
            "slope": None if c is None else c.factor(2),
            "calibration": None if c is None else c.kind,
            "rule_intercept": None,
            "covariates": {k: float(v) for k, v in model.covariates.items()},
        },
        "made": {
            "renyi": __version__,
            "genome build": model.build or "not known",
            **{key.replace("_", " "): str(value) for key, value in meta.items()},
            **(made or {}),
        },
        "card": None,
        "path": [],
        "heldout": None,
        "left_out_rows": None,
        "worst": None,
    }
    whose = None if title is None else f"Genotype model of {quoted(second)}"
    facts["about"] = about(whose, facts["data"])
    return Report({**facts, **_errors(error, samples, shares)})


def _known(meta: dict[str, Any], key: str, most: float) -> float | None:
    """Return a number that the model file states, if it is valid."""
    value: Any = meta.get(key)
    return value if is_number(value) and 0 <= value <= most else None


def _errors(
    error: float | None, samples: float | None, shares: dict[str, float] | None
) -> Entry:
    """Return the first screen, and all error figures: they are few."""
    rows = []
    if error is not None:
        rows.append(estimate(_LEFT_OUT, NEW_ROWS, error, samples or None))
    if shares:
        rows.append(summary.always_row(shares))
    table = ErrorTable(tuple(rows))
    unknown = "the model file does not contain it"
    figures = summary.headline(table, unknown)
    text = summary.summary(table, [f"Guarantee: {_NO_GUARANTEE}"])
    return {
        "summary": text.replace(UNKNOWN, f"unknown: {unknown}"),
        "headline": figures,
        "guarantee": {"text": _NO_GUARANTEE, "place": None},
        "findings": summary.findings(table, None, ()),
        "errors": [summary.error_entry(row) for row in rows],
    }


def _variants(
    model: GenotypeScores, shown: NDArray[np.int64]
) -> tuple[list[Entry], list[Entry]]:
    """Return some variants as columns and features, with the likeliest genotypes."""
    table = model.variants.iloc[shown]
    points = filled_points(model)[shown][:, _GENOTYPES]
    importance = model.importance[shown].tolist()
    frequency = np.full(len(shown), 0.5)
    if "frequency" in table:
        frequency = np.nan_to_num(table["frequency"].to_numpy(np.float64), nan=0.5)
    likely = genotype_shares(frequency).argmax(axis=1).tolist()
    columns = []
    features = []
    for j, row in enumerate(table.itertuples(index=False)):
        title = f"{row.id} ({row.chromosome}:{row.position})"
        texts = [
            f"{row.a1}/{row.a1}",
            f"{row.a1}/{row.a2}",
            f"{row.a2}/{row.a2}",
            MISSING_TEXT,
        ]
        own = [rounded_points([x]) for x in points[j].tolist()]
        column = {"name": title, "kind": "variant", "categories": texts}
        columns.append({**column, "counts": None, "other": None, "start": likely[j]})
        features.append(
            {
                "name": title,
                "members": [j],
                "importance": importance[j],
                "categories": texts,
                "counts": None,
                "points": own,
                "unseen": own[-1],
                "keys": None,
                "new": None,
                "rule_points": None,
                "rule_unseen": None,
            }
        )
    return columns, features
