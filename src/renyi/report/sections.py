"""The sections of a report's page, each a reader of the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from renyi.certificates.record import Certificate
from renyi.certificates.text import ALONE, rule_lines
from renyi.figures import (
    at_least,
    at_most,
    chosen_percent,
    number_of,
    percent,
    point_digits,
)
from renyi.report.charts import Line, Mark, bar, bars, intervals, lines
from renyi.report.errors import pairs, quoted, sentence
from renyi.report.page import (
    Head,
    Html,
    Section,
    cell,
    details,
    join,
    name,
    page,
    table,
    tag,
    text,
)
from renyi.report.parts import FEW, Feature, Rung

if TYPE_CHECKING:
    from renyi.report.record import Report

SHOWN = 50  # features that the page shows at once; the others are found by search
_ROWS = 400  # of the scorecard that are shown at once
_IMPORTANT = 20
_CARD = 150


def report_page(report: Report) -> str:
    """Return the page of a report."""
    found = [
        _data(report),
        _ladder(report),
        _importance(report),
        _scorecard(report),
        _card(report),
        _path(report),
        _whatif(report),
        _heldout(report),
        _worst(report),
        _made(report),
    ]
    footer = tag(
        "p",
        "Made by renyi from a model and counts of pairs. No row of the data is in this "
        "file, and it loads nothing.",
    )
    return page(
        report.title,
        [each for each in found if each is not None],
        lead=_lead(report),
        data=_page_data(report),
        scripts=("report.js",),
        footer=footer,
    )


def _signed(x: float, digits: int = 4) -> str:
    return f"{'−' if x < 0 else '+'}{abs(x):.{digits}f}"


def _lead(report: Report) -> Html:
    tiles = [
        tag("li", tag("strong", tile.value), name(tile.label), tag("small", tile.note))
        for tile in report.tiles
    ]
    warned = [
        tag("p", tag("strong", "Note. "), each, class_="warning")
        for each in report.warnings
    ]
    return join(
        [
            tag("p", report.verdict, class_="verdict"),
            tag("ul", tiles, class_="tiles"),
            *warned,
        ]
    )


def _facts(given: Sequence[tuple[str, str]]) -> Html:
    return tag("dl", [join([tag("dt", key), tag("dd", value)]) for key, value in given])


# ---- sections


def _data(report: Report) -> Section:
    d = report.data
    facts = []
    if report.target is not None:
        facts.append(("Predicts", name(report.target)))
    if d.rows is not None:
        what = "units of weight" if d.weighted else f"{d.unit}s"
        facts.append(("Learned from", f"{d.rows:,.10g} {what}"))
    size = f"{number_of(d.columns, 'column' if d.unit == 'row' else 'variant')}"
    if d.order > 1:
        size += f", {number_of(d.features, 'feature')} of {d.order} columns each"
    facts.append(("Looks at", f"{size}, {d.categories:,} categories in all"))
    if d.certified is not None:
        what = "of other marginals than those of the training"
        facts.append(("Certified on", f"{number_of(d.certified, 'row')} {what}"))
    if d.source:
        facts.append(("Counted from", ", ".join(map(name, d.source))))
    body = [_facts(facts)]
    rare = sum(0 < n < FEW for f in report.features for n in f.counts or ())
    if rare and d.unit == "row":
        told = (
            f"Categories of fewer than {FEW} rows: {rare:,}. A rare label may tell of "
            "a person: merge such labels (--min-count) before handing this on."
        )
        body.append(tag("p", told, class_="note"))
    if d.uncertainty is not None:
        known = [(str(key), str(value)) for key, value in d.uncertainty.items()]
        body += [tag("h3", "Uncertainty of the counts"), _facts(known)]
    if d.shares:
        rows = [
            (name(label), share, percent(share)) for label, share in d.shares.items()
        ]
        heads = ("Class", "Share of the rows", "Share")
        body += [
            tag("h3", "The classes"),
            bars(rows[:SHOWN], "Shares of the classes", heads=heads),
        ]
    return Section("data", "Data", join(body))


def _ladder(report: Report) -> Section | None:
    if not report.ladder:
        return None
    marks = [_mark(rung) for rung in report.ladder]
    body = [
        tag(
            "p",
            "How often the model is wrong: a dot is an estimate, an arrow to a bar "
            "says “at most”, a line between two bars “in between”, a diamond is a "
            "comparison.",
        ),
        intervals(
            marks,
            "Estimates and bounds of the error",
            heads=("What is known", "Share of wrong answers", "Numbers"),
        ),
        *(tag("p", each) for each in report.ranking),
    ]
    if report.certificate is not None:
        c = Certificate.from_dict(report.certificate)
        rules = [line.strip() for line in rule_lines(c)]
        body.append(
            details(
                "Bounds of all three rules",
                tag("p", _scope(c)),
                tag("ul", [tag("li", each) for each in rules]),
            )
        )
    title = "What is proven" if report.certificate else "How often it is wrong"
    return Section("certificate", title, join(body))


def _scope(c: Certificate) -> str:
    """Say where the bounds of a certificate hold."""
    if c.confidence is not None:
        sure = f"With confidence {chosen_percent(c.confidence)} in each by itself, on"
        return f"{sure} any population with the {pairs(c)} of the one sampled:"
    if c.doubtful:
        return ALONE
    return f"On any population with the very counts of {pairs(c)}:"


def _mark(rung: Rung) -> Mark:
    shown = "" if rung.value is None else percent(rung.value)
    if rung.high is not None:
        shown = f"at most {at_most(rung.high)}"
        if rung.low is not None:
            shown = f"{at_least(rung.low)} to {at_most(rung.high)}"
    note = rung.meaning + ("; stopped before the end" if rung.stopped else "")
    return Mark(
        name(rung.name), rung.value, rung.low, rung.high, rung.kind, shown, note
    )


def _importance(report: Report) -> Section:
    some = report.features[:_IMPORTANT]
    digits = point_digits(max((f.importance for f in some), default=0.0))
    rows = [(name(f.name), f.importance, f"{f.importance:.{digits}f}") for f in some]
    what = (
        "How much a feature moves the score from row to row: the standard deviation of "
        "its points."
    )
    if report.data.unit == "sample":
        what = "How far the points of a variant's genotypes differ at most."
    more = len(report.features) + report.left_out - len(some)
    rest = (
        f" The {len(some)} largest of {more + len(some):,} are shown." if more else ""
    )
    heads = ("Feature", "Weight in the score", "Weight")
    body = [
        tag("p", what + rest),
        bars(rows, "The features that matter most", heads=heads),
    ]
    return Section("importance", "What it looks at", join(body))


def _scorecard(report: Report) -> Section:
    classes, two = report.classes, len(report.classes) == 2
    shown = _begun(report)
    most = _most(report)
    heads = [Head("Feature"), Head("Category"), Head("Rows", True)]
    if two:
        heads += [
            Head(f"← {name(classes[0])}   {name(classes[1])} →", sorted=False),
            Head("Points", True),
        ]
    else:
        heads += [Head(name(label), True) for label in classes]
    body = [
        _card_row(feature, k, most, two)
        for feature in shown
        for k in range(len(feature.categories))
    ]
    start = report.scale.intercept
    told = "answer" if report.rule == "map" else "likelier class"
    if two:
        how = (
            f"A row starts from {_signed(start[0], point_digits(most))} and adds the "
            f"points of its categories; above 0 the {told} is {quoted(classes[1])}, "
            f"else {quoted(classes[0])}."
        )
    else:
        begun = ", ".join(
            f"{name(c)} {_signed(s)}" for c, s in zip(classes, start, strict=True)
        )
        how = (
            f"A row starts from {begun} and adds the points of its categories; the "
            f"{told} has the highest score."
        )
    if report.rule != "map":
        how += (
            f" The rule {report.rule} draws its answer at random, where it is unsure."
        )
    total = len(report.features)
    rest = ""
    if total > len(shown):
        rest = (
            f" The {len(shown)} most important of {total:,} features are listed; "
            "search finds the others."
        )
    if report.left_out:
        rest += (
            f" {report.left_out:,} more, the least important, are in the model file "
            "only."
        )
    points = table(
        heads,
        body,
        "Points of every category",
        id="points",
        sortable=True,
        search="Find a feature or category",
    )
    return Section(
        "scorecard", "Scorecard", join([tag("p", how + rest), _tall(points)])
    )


def _tall(box: Html) -> Html:
    return Html(box.replace('class="scroll"', 'class="scroll tall"', 1))


def _begun(report: Report) -> list[Feature]:
    """Return the features whose rows the page begins with."""
    found: list[Feature] = []
    rows = 0
    for feature in report.features[:SHOWN]:
        rows += len(feature.categories)
        if found and rows > _ROWS:
            break
        found.append(feature)
    return found


def _most(report: Report) -> float:
    return max(
        (abs(x) for f in report.features for p in f.points for x in p), default=0.0
    )


def _card_row(feature: Feature, k: int, most: float, two: bool) -> list[str]:
    points, counts = feature.points[k], feature.counts
    row = [name(feature.name), name(feature.categories[k])]
    row.append("" if counts is None else f"{counts[k]:,.10g}")
    shown = [text(_signed(x, point_digits(most))) for x in points]
    if two:
        return [*row, cell(bar(points[0], most, both=True), class_="bars"), *shown]
    drawn = [bar(x, most, both=True) for x in points]
    return [*row, *map(join, zip(shown, drawn, strict=True))]


def _card(report: Report) -> Section | None:
    card = report.card
    if card is None:
        return None
    head, *totals = card.totals
    points = [tuple(map(name, row)) for row in card.points]
    heads = [Head("Feature"), Head("Category"), Head("Points", True)]
    more = len(points) - _CARD
    body = [
        *(tag("p", each) for each in card.sentences),
        tag(
            "div",
            tag(
                "div",
                tag("h3", "Points"),
                _tall(table(heads, points[:_CARD], "Whole points")),
            ),
            tag(
                "div",
                tag("h3", "What a total means"),
                _tall(
                    table(
                        [Head(name(h)) for h in head],
                        [tuple(map(name, row)) for row in totals],
                        "Totals",
                    )
                ),
            ),
            class_="pair",
        ),
    ]
    if more > 0:
        body.append(
            tag(
                "p", f"{more:,} more rows: 'renyi export MODEL --points 10' writes all."
            )
        )
    return Section("card", "Points by hand", join(body))


def _path(report: Report) -> Section | None:
    if not report.path:
        return None
    steps = report.path
    bound = [(k, s.bound) for k, s in enumerate(steps, 1) if s.bound is not None]
    rows = [
        (
            f"{k}. {name(s.feature)}",
            "—" if s.gamma is None else f"{s.gamma:.4f}",
            "—" if s.bound is None else at_most(s.bound),
            "—" if s.hgr is None else f"{s.hgr:.4f}",
        )
        for k, s in enumerate(steps[:SHOWN], 1)
    ]
    heads = [
        Head("Feature"),
        Head("Risk γ", True),
        Head("Wrong at most", True),
        Head("Correlation at least", True),
    ]
    chart = lines(
        [Line("worst error with the first k features", bound, dots=len(bound) <= 40)],
        "What the first features are worth.",
        x="features, in order of entry",
        y="wrong at most",
        x_end=4.0 * -(-len(steps) // 4),
        form_y=_tick,
        rows=(heads, rows),
    )
    about = (
        "Features in the order in which the selection path takes them up, and what a "
        "model of the first ones promises."
    )
    return Section("path", "Selection path", join([tag("p", about), chart]))


def _tick(share: float) -> str:
    return percent(share, 0 if abs(100 * share - round(100 * share)) < 1e-6 else 1)


def _whatif(report: Report) -> Section:
    random = report.rule != "map"
    heads = [Head("Class"), Head("Probability"), Head("Share", True)]
    heads += [Head("Answered", True)] * random
    answer = tag("p", "", id="answer", class_="answer", role="status")
    pushes = [Head("Feature"), Head("Push"), Head("Points", True)]
    result = tag(
        "div",
        answer,
        tag("p", "", id="score", class_="note"),
        table(heads, [], "Probability of each class", id="chances"),
        tag("h3", "What pushes most"),
        table(
            pushes,
            [],
            "Points of the chosen categories, the largest first",
            id="pushes",
        ),
        tag("h3", "What would turn it"),
        tag("p", "", id="turns-note"),
        tag("ul", "", id="turns", class_="turns"),
        class_="result",
    )
    find = tag("input", id="find-column", type="search", autocomplete="off")
    choices = tag(
        "div",
        tag("label", "Find a column ", find, class_="search"),
        tag("button", "Start again", type="button", id="again", class_="plain"),
        tag("p", "", id="choices-note", class_="note", role="status"),
        tag("div", "", id="numbers"),
        tag(
            "div",
            "",
            id="choices",
            class_="choices",
            role="group",
            aria_label="Categories to choose",
            tabindex=0,
        ),
    )
    body = [
        tag(
            "p",
            "Choose categories and see what the model answers. It begins with the most "
            "frequent category of each column: nobody need be like that.",
        ),
        tag("p", "This panel needs JavaScript.", id="no-script", class_="note"),
        tag("div", result, choices, id="panel", class_="panel", hidden=True),
    ]
    return Section("whatif", "What if", join(body))


def _heldout(report: Report) -> Section | None:
    h, classes = report.heldout, report.classes
    if h is None:
        return None
    two = len(classes) == 2
    rows: list[list[str]] = [
        [name(label), *(f"{n:,}" for n in counts), _off(counts, k)]
        for k, (label, counts) in enumerate(zip(classes, h.confusion, strict=True))
    ]
    heads = [
        Head("True class"),
        *(Head(f"answered {name(c)}", True) for c in classes),
        Head("wrong", True),
    ]
    whose = f"of {name(classes[1])}" if two else "of the answer"
    bins = [(b.probability, b.share) for b in h.bins]
    diagonal = Line("perfect", [(0.0, 0.0), (1.0, 1.0)], dashed=True)
    whole: dict[str, Any] = {"x_end": 1.0, "y_end": 1.0}
    whole |= {"form_x": lambda v: percent(v, 0), "form_y": lambda v: percent(v, 0)}
    calibration = lines(
        [Line("this model", bins, dots=True), diagonal],
        "Are probabilities right?",
        x=f"probability {whose}",
        y="how often it was so",
        rows=(
            [Head("Rows", True), Head("Probability", True), Head("Share", True)],
            [(f"{b.rows:,}", percent(b.probability), percent(b.share)) for b in h.bins],
        ),
        **whole,
    )
    charts = [calibration]
    facts = [("Held-out rows", f"{h.rows:,}"), ("Log loss", f"{h.log_loss:.4f}")]
    if h.auc is not None:
        area, low, high = h.auc
        facts.append(("AUC", f"{area:.4f} (95 %: {low:.4f} to {high:.4f})"))
        guess = Line("guessing", [(0.0, 0.0), (1.0, 1.0)], dashed=True)
        charts.append(
            lines(
                [Line("this model", h.roc), guess],
                "Does the score rank well?",
                x=f"{name(classes[0])} taken for {name(classes[1])}",
                y=f"{name(classes[1])} found",
                **whole,
            )
        )
    caption = "Answers by true class"
    if report.rule != "map":
        caption += ", were the likelier one answered"
    body = [
        *(tag("p", sentence(each)) for each in h.certificate["warnings"]),
        _facts(facts),
        table(heads, rows, caption, visible_caption=True),
    ]
    if min(b.rows for b in h.bins) < FEW:
        few = "Some of these figures are of few rows, and may tell of single ones."
        body.append(tag("p", few, class_="note"))
    return Section(
        "heldout", "On held-out rows", join([*body, tag("div", charts, class_="pair")])
    )


def _off(counts: Sequence[int], k: int) -> str:
    """Return the share of a class that was answered wrongly, if it has rows."""
    return percent(1 - counts[k] / sum(counts)) if any(counts) else "—"


def _worst(report: Report) -> Section | None:
    w = report.worst
    if w is None:
        return None
    about = (
        f"A made-up population of {number_of(w.outcomes, 'kind')} of rows that has the "
        "very counts of pairs of the data, and on which every rule, this one included, "
        f"is wrong on at least {at_least(w.error)}."
    )
    body = [tag("p", about)]
    if w.rows:
        heads = [Head(name(each)) for each in w.head]
        rows = [[name(each) for each in row] for row in w.rows]
        body.append(table(heads, rows, "Its likeliest kinds", visible_caption=True))
    if w.outcomes > len(w.rows):
        few = (
            f"Only the likeliest are shown, and none that stands for fewer than {FEW} "
            "rows: counts of few rows may settle what the rows themselves are."
        )
        body.append(tag("p", few, class_="note"))
    return Section("worst", "The worst population", join(body))


def _made(report: Report) -> Section:
    return Section("made", "How it was made", _facts([*report.made.items()]))


# ---- what the script reads


def _page_data(report: Report) -> dict[str, Any]:
    """Return points and columns in few bytes; see report.js."""
    levels: dict[tuple[tuple[str, ...], str | None], int] = {}
    columns = []
    for column in report.columns:
        level = levels.setdefault((column.categories, column.other), len(levels))
        shown = [name(column.name), level, column.start]
        columns.append([*shown, None if column.counts is None else list(column.counts)])
    single = report.data.order == 1
    return {
        "classes": [name(each) for each in report.classes],
        "rule": report.rule,
        "intercept": report.scale.intercept,
        "rule_intercept": report.scale.rule_intercept,
        "slope": report.scale.slope,
        "covariates": [[name(k), v] for k, v in report.scale.covariates.items()],
        "levels": [[[name(t) for t in texts], other] for texts, other in levels],
        "columns": columns,
        "features": [list(_feature_data(f, single)) for f in report.features],
        "shown": len(_begun(report)),
        "most": _most(report),
        "digits": point_digits(_most(report)),
    }


def _feature_data(f: Feature, single: bool) -> Iterator[Any]:
    yield f.members
    yield [x for each in f.points for x in each]
    yield f.unseen
    yield f.keys
    yield f.new
    yield None if single else f.counts
    yield None if single else name(f.name)
    if f.rule_points is not None:
        yield [x for each in f.rule_points for x in each]
        yield f.rule_unseen
