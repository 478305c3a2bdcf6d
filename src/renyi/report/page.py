"""Pages of one file, from a template in which every text of a user stays text.

The template escapes what it writes, and charts escape their labels. Data are embedded
as JSON that cannot end its script. The content security policy lets nothing be loaded
and no script run but ours, named by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from renyi.certificates.error_table import pairs_text
from renyi.certificates.record import Certificate
from renyi.certificates.text import ALONE, rule_lines
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
from renyi.report.charts import Mark, Spot
from renyi.report.summary import Entry, name, quoted

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

FORMAT = "renyi-report"
VERSION = 1
ENDINGS = (".html", ".htm")
FEW = 5  # rows; a figure of fewer may reveal a person

SHOWN = 50  # features that the page shows at once; the others are found by search
_ROWS = 400  # of the scorecard that are shown at once
_CARD_ROWS = 150
_IMPORTANT = 20  # features that are shown as such

_SECTIONS = (
    ("whatif", "What if"),
    ("scorecard", "Scorecard"),
    ("importance", "Importance"),
    ("card", "Points to add by hand"),
    ("heldout", "Errors by class"),
    ("left_out_rows", "Errors by class"),
    ("errors", "All error figures"),
    ("path", "Selection path"),
    ("worst", "The worst population"),
    ("made", "How it was made"),
    ("data", "Data and privacy"),
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
        """Write the page, and the same as JSON next to it (`record_place`)."""
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
        """Return the page in a separate frame, for a notebook."""
        inside = escape(encoded(self.to_html()).decode(), quote=True)
        return (
            f'<iframe title="{escape(self._facts["title"], quote=True)}" '
            f'srcdoc="{inside}" width="100%" height="720" style="border:0" '
            'sandbox="allow-scripts"></iframe>'
        )


def page_place(model: Path) -> Path:
    """Return the default place of a model's page: next to the model.

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


def unbroken(text: str) -> Markup:
    """Return a text as markup in which no line ends within the name of an option."""
    from markupsafe import Markup, escape

    option = r"(?<![\w-])(--?[a-z][\w-]*)"
    whole = r'<span class="whole">\1</span>'
    return Markup(re.sub(option, whole, str(escape(shown(text)))))


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
    environment.filters.update(
        name=name,
        quoted=quoted,
        percent=percent,
        at_most=at_most,
        at_least=at_least,
        number_of=number_of,
        point_digits=point_digits,
        number_of_rows=number_of_rows,
        capitalised=capitalised,
        unbroken=unbroken,
    )
    environment.globals.update(
        Head=Head,
        Mark=Mark,
        bar=charts.bar,
        mark=charts.mark,
        axis=charts.axis,
        strip=charts.strip,
        key=charts.key,
    )
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
    ``path`` and ``errors`` empty: their parts of the page are then left out. So is the
    panel if ``whatif`` is False.
    """
    sections = [Section(id, title) for id, title in _SECTIONS if facts.get(id, True)]
    most = largest_points(facts["features"])
    interactive = facts.get("whatif", True)
    return render(
        facts["title"],
        sections,
        data=page_data(facts, most) if interactive else None,
        report=facts,
        view=_view(facts, most),
    )


def _view(facts: Entry, most: float) -> Entry:
    """Return what the template shows and the record does not have as it is shown."""
    view = {
        "unit": _unit(facts["data"]),
        "spots": _spots(facts),
        "rare": _rare_categories(facts),
        "errors": _error_marks(facts["errors"]),
        "scope": "",
        "important": facts["features"][:_IMPORTANT],
        "features": shown_features(facts["features"]),
        "most": most,
        "signed": lambda points: signed(points, most),
        "shown": SHOWN,
        "card_rows": _CARD_ROWS,
        "few": FEW,
    }
    if facts["certificate"]:
        c = Certificate.from_dict(facts["certificate"])
        view["scope"] = _scope(c)
        view["rules"] = [line.strip() for line in rule_lines(c)]
        view["doubts"] = [*map(capitalised, c.warnings)] if c.doubtful else []
    return view


def _unit(data: Entry) -> str:
    """Return what is chosen in the panel and has points: a feature is of columns."""
    if data["unit"] != "row":
        return "variant"
    return "column" if data["order"] == 1 else "feature"


def _spots(facts: Entry) -> list[Spot]:
    """Return the figures of the first screen, for one axis."""
    spots = [
        Spot(each["kind"], each["place"], each["low"], each["high"])
        for each in facts["headline"]
        if each["place"] is not None and each["kind"] in charts.FORMS
    ]
    if facts["guarantee"]["place"] is not None:
        spots.append(Spot("guarantee", facts["guarantee"]["place"]))
    return spots


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


def _rare_categories(facts: Entry) -> int:
    """Return how many categories have few rows; none of genotypes, which have names."""
    if facts["data"]["unit"] != "row":
        return 0
    counts = (n for f in facts["features"] for n in f["counts"] or ())
    return sum(0 < n < FEW for n in counts)


def _error_marks(errors: Sequence[Entry]) -> Entry:
    """Return the error figures on one scale, without those that say little."""
    shown = [each for each in errors if not each["doubtful"]]
    marks = [
        Mark(
            value=each["value"],
            low=each["low"],
            high=each["high"],
            baseline=each["kind"] == "baseline",
        )
        for each in shown
    ]
    end = charts.scale_end(mark.end for mark in marks)
    return {"end": end, "rows": [*zip(shown, marks, strict=True)]}


def _scope(c: Certificate) -> str:
    """Say where the bounds of a certificate hold."""
    if c.confidence is not None:
        sure = f"with {chosen_percent(c.confidence)} confidence in each bound"
        return f"On any population with the {pairs_text(c)} of the one sampled, {sure}:"
    if c.doubtful:
        return ALONE
    return f"On any population with the same counts of {pairs_text(c)}:"


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
