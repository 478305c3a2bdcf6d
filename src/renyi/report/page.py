"""Pages of one file, from a template in which every text of a user stays text.

The template escapes what it writes, and charts escape their labels. Data are embedded
as JSON that cannot end its script. The content security policy lets nothing be loaded
and no script run but ours, named by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from renyi.certificates.error_table import pairs_text
from renyi.certificates.record import Certificate
from renyi.certificates.text import ALONE, doubts, rule_lines
from renyi.files import encoded, replace_together, to_bytes
from renyi.formatting import (
    at_least,
    at_most,
    capitalised,
    chosen_percent,
    number_of,
    number_of_rows,
    percent,
    point_digits,
    printable,
)
from renyi.report import charts
from renyi.report.charts import Line, LineChart, Mark
from renyi.report.summary import Entry, name, quoted

if TYPE_CHECKING:
    import jinja2

FORMAT = "renyi-report"
VERSION = 1
ENDINGS = (".html", ".htm")
FEW = 5  # rows; a figure of fewer may reveal a person

SHOWN = 50  # features that the page shows at once; the others are found by search
_ROWS = 400  # of the scorecard that are shown at once
_CARD_ROWS = 150
_IMPORTANT = 20  # features that are shown as such

_SECTIONS = (
    ("data", "Data"),
    ("certificate", "What is proven"),
    ("importance", "Features"),
    ("scorecard", "Scorecard"),
    ("card", "Points by hand"),
    ("path", "Selection path"),
    ("whatif", "What if"),
    ("heldout", "On held-out rows"),
    ("worst", "The worst population"),
    ("made", "How it was made"),
)


class Report:
    """Everything that is shown of a model; `RenyiClassifier.report` makes one.

    In a notebook it shows itself; `save` writes it as a page of one file.

    Parameters
    ----------
    facts : dict
        Plain values, as ``report.json`` has them.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> facts = renyi.RenyiClassifier().fit(X, y).report().to_dict()
    >>> facts["headline"][0]["value"], facts["features"][0]["name"]
    ('4.6 %', 'physician-fee-freeze')
    """

    def __init__(self, facts: Entry) -> None:
        self._facts = facts

    def to_dict(self) -> Entry:
        """Plain form for JSON."""
        return self._facts

    def to_html(self) -> str:
        """Return the page."""
        return render_report(self._facts)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, and the same as JSON beside it (`record_place`)."""
        place = Path(path)
        if place.suffix not in ENDINGS:
            raise ValueError(f"{place} must end in .html: a report is a page.")
        page = encoded(self.to_html())
        facts = to_bytes(self._facts, indent=1) + b"\n"
        replace_together(
            {
                place: lambda stream: stream.write(page),
                record_place(place): lambda stream: stream.write(facts),
            }
        )

    def __str__(self) -> str:
        """Return the summary."""
        return str(self._facts["summary"])

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, for a notebook."""
        inside = escape(encoded(self.to_html()).decode(), quote=True)
        return (
            f'<iframe title="{escape(self._facts["title"], quote=True)}" '
            f'srcdoc="{inside}" width="100%" height="720" style="border:0" '
            'sandbox="allow-scripts"></iframe>'
        )


def page_place(model: Path) -> Path:
    """Return where the page of a model goes that has no other place: beside it.

    >>> page_place(Path("votes.json")).name, page_place(Path("report.json")).name
    ('votes.report.html', 'report.report.html')
    """
    return model.with_suffix(".report.html")


def record_place(page: Path) -> Path:
    """Return where the record of a page goes: never where its model may be.

    >>> str(record_place(Path("report.html"))), str(record_place(Path("votes.html")))
    ('report.json', 'votes.report.json')
    """
    ours = page.stem.endswith("report")
    return page.with_suffix(".json" if ours else ".report.json")


# ---- the template


class Head(NamedTuple):
    """The head of a column of a table."""

    text: str
    number: bool = False  # aligned and sorted as such
    sortable: bool = True  # where the table is


class Section(NamedTuple):
    """A part of the page, with a place among its links."""

    id: str
    title: str


def shown(value: object) -> object:
    """Return a text as it is shown, controls written as escapes; else the value."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value).replace(" %", "\N{NO-BREAK SPACE}%")
    return value


@cache
def _environment() -> jinja2.Environment:
    """Return the templates of this package, which escape all that they write."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.policies["json.dumps_kwargs"] = {
        "separators": (",", ":"),
        "allow_nan": False,
    }
    environment.filters["name"] = name
    environment.filters["percent"] = percent
    environment.filters["at_most"] = at_most
    environment.globals["Head"] = Head
    environment.globals["bar"] = charts.bar
    environment.globals["mark"] = charts.mark
    environment.globals["axis"] = charts.axis
    return environment


def render(
    title: str,
    sections: Sequence[Section],
    *,
    data: object = None,
    **values: object,
) -> str:
    """Return a page of one file, made from ``template.html``.

    Parameters
    ----------
    title : str
        The page's title.
    sections : sequence of Section
        The parts to show, in the order of their links.
    data : plain value, optional
        What ``page.js`` reads, embedded as JSON in the element ``page-data``.
    **values
        What the parts of the template show.
    """
    from markupsafe import Markup

    style = _file("page.css")
    script = _file("page.js")
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    page = (
        _environment()
        .get_template("template.html")
        .render(
            title=title,
            sections=sections,
            data=data,
            style=Markup(style),
            script=Markup(script),
            policy=policy,
            **values,
        )
    )
    return f"{page.strip()}\n"


def _file(name: str) -> str:
    """Return a text of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    """Return what a policy names a script or a style by."""
    digest = hashlib.sha256(encoded(script)).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


# ---- the page of a report


def render_report(facts: Entry) -> str:
    """Return the page of a report from its plain values, those of ``report.json``.

    `renyi.report.build.report` makes them of a model of tables; a report of genotypes
    has the same keys. ``certificate``, ``card``, ``heldout`` and ``worst`` may be None,
    ``path`` and ``errors`` empty: their parts of the page are then left out.
    """
    certificate = facts["certificate"] and Certificate.from_dict(facts["certificate"])
    present = {**facts, "certificate": facts["errors"]}
    titles = {
        "certificate": "What is proven" if certificate else "How often it is wrong"
    }
    sections = [
        Section(id, titles.get(id, title))
        for id, title in _SECTIONS
        if present.get(id, True)
    ]
    most = largest_points(facts["features"])
    return render(
        facts["title"],
        sections,
        data=page_data(facts, most),
        report=facts,
        view=_view(facts, certificate, most),
    )


def _view(facts: Entry, certificate: Certificate | None, most: float) -> Entry:
    """Return what the template shows and the record does not have as it is shown."""
    return {
        "facts": _data_facts(facts),
        "rare": _rare_note(facts),
        "shares": _share_rows(facts),
        "errors": _error_marks(facts["errors"]),
        "doubts": doubts(certificate) if certificate and certificate.doubtful else "",
        "reasons": [*map(capitalised, certificate.warnings)] if certificate else [],
        "scope": certificate and _scope(certificate),
        "rules": [line.strip() for line in rule_lines(certificate)]
        if certificate
        else [],
        "important": _important(facts),
        "scorecard": _scorecard_text(facts, most),
        "features": shown_features(facts["features"]),
        "most": most,
        "signed": lambda points: signed(points, most),
        "card_rows": _CARD_ROWS,
        "path": _path_chart(facts["path"]) if facts["path"] else None,
        "path_rows": _path_rows(facts["path"]),
        "heldout": facts["heldout"] and _heldout_view(facts),
        "worst": facts["worst"] and _worst_text(facts["worst"]),
        "few": FEW,
    }


def signed(x: float, most: float) -> str:
    """Return points as text, none of which exceeds `most`."""
    return f"{'−' if x < 0 else '+'}{abs(x):.{point_digits(most)}f}"


def largest_points(features: Sequence[Entry]) -> float:
    """Return the largest points of any category."""
    points = (abs(x) for f in features for row in f["points"] for x in row)
    return max(points, default=0.0)


def shown_features(features: Sequence[Entry]) -> list[Entry]:
    """Return the features whose rows the page begins with."""
    first: list[Entry] = []
    rows = 0
    for feature in features[:SHOWN]:
        rows += len(feature["categories"])
        if first and rows > _ROWS:
            break
        first.append(feature)
    return first


def _data_facts(facts: Entry) -> list[tuple[str, str]]:
    data = facts["data"]
    rows = []
    if facts["target"] is not None:
        rows.append(("Predicts", name(facts["target"])))
    if data["size"] is not None:
        rows.append(("Learned from", data["size"]))
    size = number_of(data["columns"], "column" if data["unit"] == "row" else "variant")
    if data["order"] > 1:
        features = number_of(data["features"], "feature")
        size += f", {features} of {data['order']} columns each"
    rows.append(("Looks at", f"{size}, {data['categories']:,} categories in all"))
    if data["certified"] is not None:
        what = "of other marginals than those used in training"
        rows.append(("Certified on", f"{number_of_rows(data['certified'])} {what}"))
    if data["source"]:
        rows.append(("Counted from", ", ".join(map(name, data["source"]))))
    return rows


def _rare_note(facts: Entry) -> str:
    """Warn of categories of few rows, if there are any."""
    data = facts["data"]
    counts = (n for f in facts["features"] for n in f["counts"] or ())
    rare = sum(0 < n < FEW for n in counts)
    if not rare or data["unit"] != "row":
        return ""
    few = f"a weight below {FEW}" if data["weighted"] else f"fewer than {FEW} rows"
    return (
        f"Categories of {few}: {rare:,}. A rare label may tell of a person, and those "
        "merged as rare are still listed: leave such columns out, or merge their "
        "labels in the data, before handing this on."
    )


def _share_rows(facts: Entry) -> list[tuple[str, float]]:
    shares = facts["data"]["shares"] or {}
    return [*shares.items()][:SHOWN]


def _error_marks(errors: Sequence[Entry]) -> Entry:
    """Return all error figures on one scale."""
    marks = [
        Mark(
            value=each["value"],
            low=each["low"],
            high=each["high"],
            baseline=each["kind"] == "baseline",
        )
        for each in errors
    ]
    end = charts.scale_end(mark.end for mark in marks)
    return {"end": end, "rows": [*zip(errors, marks, strict=True)]}


def _scope(c: Certificate) -> str:
    """Say where the bounds of a certificate hold."""
    if c.confidence is not None:
        sure = f"With confidence {chosen_percent(c.confidence)} in each by itself, on"
        return f"{sure} any population with the {pairs_text(c)} of the one sampled:"
    if c.doubtful:
        return ALONE
    return f"On any population with exactly the counts of {pairs_text(c)}:"


def _important(facts: Entry) -> Entry:
    """Return the features that matter most, and what their importance is."""
    features = facts["features"][:_IMPORTANT]
    most = max((f["importance"] for f in features), default=0.0)
    digits = point_digits(most)
    text = (
        "How much a feature moves the score from row to row: the standard deviation of "
        "its points."
    )
    if facts["data"]["unit"] == "sample":
        text = "How far the points of a variant's genotypes differ at most."
    total = facts["data"]["features"]
    if total > len(features):
        text += f" The {len(features)} largest of {total:,} are shown."
    rows = [
        (f["name"], f["importance"], f"{f['importance']:.{digits}f}") for f in features
    ]
    return {"text": text, "rows": rows, "most": most}


def _scorecard_text(facts: Entry, most: float) -> str:
    """Say how points become an answer."""
    classes = facts["classes"]
    start = [signed(x, most) for x in facts["scale"]["intercept"]]
    answer = "answer" if facts["rule"] == "map" else "likelier class"
    if len(classes) == 2:
        first, second = map(quoted, classes)
        decision = f"above 0 the {answer} is {second}, else {first}"
    else:
        pairs = zip(map(name, classes), start, strict=True)
        start = [" ".join(pair) for pair in pairs]
        decision = f"the {answer} has the highest score"
    text = (
        f"A row starts from {', '.join(start)} and adds the points of its categories; "
        f"{decision}."
    )
    if facts["rule"] != "map":
        text += (
            f" The rule {facts['rule']} draws its answer at random where it is unsure."
        )
    return text + _listed_text(facts)


def _listed_text(facts: Entry) -> str:
    """Say which features the scorecard lists."""
    total = len(facts["features"])
    listed = len(shown_features(facts["features"]))
    text = ""
    if total > listed:
        text += (
            f" The {listed} most important of {total:,} features are listed; search "
            "finds the others."
        )
    if facts["left_out"]:
        text += (
            f" {facts['left_out']:,} more, the least important, are in the model file "
            "only."
        )
    return text


def _path_chart(steps: Sequence[Entry]) -> LineChart:
    points = [(k, s["bound"]) for k, s in enumerate(steps, 1) if s["bound"] is not None]
    label = "worst error with the first k features"
    return LineChart(
        "What the first features are worth.",
        [Line(label, points, dots=len(points) <= 40)],
        x="features, in order of entry",
        y="wrong at most",
        x_end=4.0 * -(-len(steps) // 4),
        tick_y=_tick,
    )


def _tick(share: float) -> str:
    whole = abs(100 * share - round(100 * share)) < 1e-6
    return percent(share, 0 if whole else 1)


def _path_rows(steps: Sequence[Entry]) -> list[list[str]]:
    return [
        [
            f"{k}. {name(step['feature'])}",
            "—" if step["gamma"] is None else f"{step['gamma']:.4f}",
            "—" if step["bound"] is None else at_most(step["bound"]),
            "—" if step["hgr"] is None else f"{step['hgr']:.4f}",
        ]
        for k, step in enumerate(steps[:SHOWN], 1)
    ]


def _whole_percent(share: float) -> str:
    return percent(share, 0)


def _heldout_view(facts: Entry) -> Entry:
    """Return tables and charts of held-out rows."""
    heldout = facts["heldout"]
    classes = [name(label) for label in facts["classes"]]
    rows = []
    for k, counts in enumerate(heldout["confusion"]):
        wrong = percent(1 - counts[k] / sum(counts)) if any(counts) else "—"
        rows.append([classes[k], *(f"{n:,}" for n in counts), wrong])
    figures = [
        ("Held-out rows", f"{heldout['rows']:,}"),
        ("Log loss", f"{heldout['log_loss']:.4f}"),
    ]
    charts = [_calibration_chart(heldout, classes)]
    if heldout["auc"] is not None:
        area, low, high = heldout["auc"]
        figures.append(("AUC", f"{area:.4f} (95 %: {low:.4f} to {high:.4f})"))
        charts.append(_roc_chart(heldout, classes))
    caption = "Answers by true class"
    if facts["rule"] != "map":
        caption += ", were the likelier one answered"
    return {
        "warnings": [*map(capitalised, heldout["certificate"]["warnings"])],
        "figures": figures,
        "caption": caption,
        "rows": rows,
        "few": min(each["rows"] for each in heldout["bins"]) < FEW,
        "charts": charts,
    }


_Chart = tuple[LineChart, list[Head], list[tuple[str, ...]]]


def _calibration_chart(heldout: Entry, classes: Sequence[str]) -> _Chart:
    whose = f"of {classes[1]}" if len(classes) == 2 else "of the answer"
    bins = heldout["bins"]
    points = [(each["probability"], each["share"]) for each in bins]
    chart = LineChart(
        "Are probabilities right?",
        [
            Line("this model", points, dots=True),
            Line("perfect", [(0.0, 0.0), (1.0, 1.0)], dashed=True),
        ],
        x=f"probability {whose}",
        y="observed frequency",
        x_end=1.0,
        y_end=1.0,
        tick_x=_whole_percent,
        tick_y=_whole_percent,
    )
    heads = [Head("Rows", True), Head("Probability", True), Head("Share", True)]
    rows = [
        (f"{each['rows']:,}", percent(each["probability"]), percent(each["share"]))
        for each in bins
    ]
    return chart, heads, [*rows]


def _roc_chart(heldout: Entry, classes: Sequence[str]) -> _Chart:
    points = [(false, true) for false, true in heldout["roc"]]
    chart = LineChart(
        "Does the score rank well?",
        [
            Line("this model", points),
            Line("guessing", [(0.0, 0.0), (1.0, 1.0)], dashed=True),
        ],
        x=f"{classes[0]} taken for {classes[1]}",
        y=f"{classes[1]} found",
        x_end=1.0,
        y_end=1.0,
        tick_x=_whole_percent,
        tick_y=_whole_percent,
    )
    heads = [Head("Line"), Head(chart.x, True), Head(chart.y, True)]
    return chart, heads, [*chart.rows]


def _worst_text(worst: Entry) -> str:
    return (
        f"A made-up population of {number_of(worst['outcomes'], 'kind')} of rows that "
        "has exactly the counts of pairs of the data, and on which every rule, this "
        f"one included, is wrong on at least {at_least(worst['error'], 1)}."
    )


# ---- what the script reads


def page_data(facts: Entry, most: float) -> Entry:
    """Return points and columns in few bytes; see page.js."""
    levels: dict[tuple[tuple[str, ...], str | None], int] = {}
    columns = []
    for column in facts["columns"]:
        key = (tuple(column["categories"]), column["other"])
        level = levels.setdefault(key, len(levels))
        columns.append([name(column["name"]), level, column["start"], column["counts"]])
    single = facts["data"]["order"] == 1
    scale = facts["scale"]
    return {
        "classes": [name(each) for each in facts["classes"]],
        "rule": facts["rule"],
        "intercept": scale["intercept"],
        "rule_intercept": scale["rule_intercept"],
        "slope": scale["slope"],
        "covariates": [[name(k), v] for k, v in scale["covariates"].items()],
        "levels": [[[name(t) for t in texts], other] for texts, other in levels],
        "columns": columns,
        "features": [[*_feature_data(f, single)] for f in facts["features"]],
        "shown": len(shown_features(facts["features"])),
        "most": most,
        "digits": point_digits(most),
    }


def _feature_data(feature: Entry, single: bool) -> Iterator[Any]:
    yield feature["members"]
    yield [x for row in feature["points"] for x in row]
    yield feature["unseen"]
    yield feature["keys"]
    yield feature["new"]
    yield None if single else feature["counts"]
    yield None if single else name(feature["name"])
    if feature["rule_points"] is not None:
        yield [x for row in feature["rule_points"] for x in row]
        yield feature["rule_unseen"]
