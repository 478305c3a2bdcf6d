"""The sections of a report's page, each a reader of the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from renyi.certificates.record import Certificate
from renyi.certificates.text import ALONE, doubts, pairs_text, rule_lines
from renyi.formatting import (
    at_least,
    at_most,
    capitalised,
    chosen_percent,
    number_of,
    number_of_rows,
    percent,
    point_digits,
)
from renyi.report.charts import Line, Mark, bar, bars, intervals, lines
from renyi.report.page import (
    Head,
    Html,
    Section,
    cell,
    details,
    join,
    name,
    page,
    quoted,
    table,
    tag,
    text,
)

if TYPE_CHECKING:
    from renyi.report.record import Feature, Report

SHOWN = 50  # features that the page shows at once; the others are found by search
_ROWS = 400  # of the scorecard that are shown at once
_CARD = 150


def report_page(report: Report) -> str:
    """Return the page of a report."""
    parts = (_data, _ladder, _importance, _scorecard, _card, _path, _whatif, _heldout)
    sections = (part(report) for part in (*parts, _worst, _made))
    footer = (
        "Made by renyi from a model and counts of pairs. No row of the data is in this "
        "file, and it loads nothing."
    )
    return page(
        report.title,
        filter(None, sections),
        lead=_lead(report),
        data=_page_data(report),
        scripts=("report.js",),
        footer=tag("p", footer),
    )


def _signed(x: float, most: float) -> str:
    """Return points as text, none of which exceeds `most`."""
    return f"{'−' if x < 0 else '+'}{abs(x):.{point_digits(most)}f}"


def _lead(report: Report) -> list[Html]:
    tiles = [
        tag("li", tag("strong", tile.value), name(tile.label), tag("small", tile.note))
        for tile in report.tiles
    ]
    warned = [
        tag("p", tag("strong", "Note. "), each, class_="warning")
        for each in report.warnings
    ]
    verdict = tag("p", report.verdict, class_="verdict")
    return [verdict, tag("ul", tiles, class_="tiles"), *warned]


def _note(text: str) -> Html:
    return tag("p", text, class_="note")


def _facts(given: Sequence[tuple[str, str]]) -> Html:
    return tag("dl", [join([tag("dt", key), tag("dd", value)]) for key, value in given])


# ---- sections


def _data(report: Report) -> Section:
    d = report.data
    facts = []
    if report.target is not None:
        facts.append(("Predicts", name(report.target)))
    if d.size is not None:
        facts.append(("Learned from", d.size))
    size = number_of(d.columns, "column" if d.unit == "row" else "variant")
    if d.order > 1:
        size += f", {number_of(d.features, 'feature')} of {d.order} columns each"
    facts.append(("Looks at", f"{size}, {d.categories:,} categories in all"))
    if d.certified is not None:
        what = "of other marginals than those used in training"
        facts.append(("Certified on", f"{number_of_rows(d.certified)} {what}"))
    if d.source:
        facts.append(("Counted from", ", ".join(map(name, d.source))))
    body = [_facts(facts)]
    rare = sum(0 < n < report.few for f in report.features for n in f.counts or ())
    if rare and d.unit == "row":
        few = f"fewer than {report.few} rows"
        few = f"a weight below {report.few}" if d.weighted else few
        told = (
            f"Categories of {few}: {rare:,}. A rare label may "
            "tell of a person, and those merged by --min-count are still listed: leave "
            "such columns out (--drop), or merge their labels in the data, before "
            "handing this on."
        )
        body.append(_note(told))
    if d.uncertainty is not None:
        known = [(str(key), str(value)) for key, value in d.uncertainty.items()]
        body += [tag("h3", "Uncertainty of the counts"), _facts(known)]
    if d.shares:
        rows = [(name(label), p, percent(p)) for label, p in d.shares.items()]
        heads = ("Class", f"Share of the {'weight' if d.weighted else 'rows'}", "Share")
        drawn = bars(rows[:SHOWN], "Shares of the classes", heads=heads)
        body += [tag("h3", "The classes"), drawn]
    return Section("data", "Data", body)


def _ladder(report: Report) -> Section | None:
    if not report.ladder:
        return None
    marks = []
    for rung in report.ladder:
        note = rung.meaning + "; stopped before the end" * rung.stopped
        ends = rung.value, rung.low, rung.high
        marks.append(Mark(name(rung.name), *ends, rung.kind, rung.shown, note))
    c = report.certificate and Certificate.from_dict(report.certificate)
    body: list[Html] = []
    if c and c.doubtful:
        reasons = [tag("li", capitalised(each)) for each in c.warnings]
        body = [tag("p", doubts(c)), tag("ul", reasons)]
    body += [
        tag(
            "p",
            "How often the model is wrong: a dot is an estimate, an arrow to a bar "
            "says “at most”, a line between two bars “in between”, a diamond is a "
            "comparison.",
        ),
        intervals(marks, "Estimates and bounds of the error"),
        *(tag("p", each) for each in report.ranking),
    ]
    if c:
        rules = [line.strip() for line in rule_lines(c)]
        body.append(
            details(
                "Bounds of all three rules",
                tag("p", _scope(c)),
                tag("ul", [tag("li", each) for each in rules]),
            )
        )
    title = "What is proven" if c else "How often it is wrong"
    return Section("certificate", title, body)


def _scope(c: Certificate) -> str:
    """Say where the bounds of a certificate hold."""
    if c.confidence is not None:
        sure = f"With confidence {chosen_percent(c.confidence)} in each by itself, on"
        return f"{sure} any population with the {pairs_text(c)} of the one sampled:"
    if c.doubtful:
        return ALONE
    return f"On any population with exactly the counts of {pairs_text(c)}:"


def _importance(report: Report) -> Section:
    some = report.most_important()
    rows = [(name(f.name), f.importance, importance) for f, importance in some]
    what = (
        "How much a feature moves the score from row to row: the standard deviation of "
        "its points."
    )
    if report.data.unit == "sample":
        what = "How far the points of a variant's genotypes differ at most."
    total = report.data.features
    rest = ""
    if total > len(some):
        rest = f" The {len(some)} largest of {total:,} are shown."
    heads = ("Feature", "Weight in the score", "Weight")
    drawn = bars(rows, "The features that matter most", heads=heads)
    return Section("importance", "Features", [tag("p", what + rest), drawn])


def _scorecard(report: Report) -> Section:
    classes = report.classes
    two = len(report.classes) == 2
    shown = _begun(report)
    most = _most(report)
    heads = [Head("Feature"), Head("Category")]
    heads.append(Head("Weight" if report.data.weighted else "Rows", True))
    start = [_signed(each, most) for each in report.scale.intercept]
    told = "answer" if report.rule == "map" else "likelier class"
    if two:
        sides = Head(f"← {name(classes[0])}   {name(classes[1])} →", sorted=False)
        heads += [sides, Head("Points", True)]
        first, second = map(quoted, classes)
        answer = f"above 0 the {told} is {second}, else {first}"
    else:
        heads += [Head(name(label), True) for label in classes]
        both = zip(map(name, classes), start, strict=True)
        start = [*map(" ".join, both)]
        answer = f"the {told} has the highest score"
    how = (
        f"A row starts from {', '.join(start)} and adds the points of its categories; "
        f"{answer}."
    )
    if report.rule != "map":
        how += f" The rule {report.rule} draws its answer at random where it is unsure."
    total = len(report.features)
    if total > len(shown):
        how += (
            f" The {len(shown)} most important of {total:,} features are listed; "
            "search finds the others."
        )
    if report.left_out:
        how += (
            f" {report.left_out:,} more, the least important, are in the model file "
            "only."
        )
    points = table(
        heads,
        (_card_row(f, k, most, two) for f in shown for k in range(len(f.categories))),
        "Points of every category",
        id="points",
        sortable=True,
        search="Find a feature or category",
        tall=True,
    )
    return Section("scorecard", "Scorecard", [tag("p", how), points])


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
    points = feature.points[k]
    counts = feature.counts
    row = [name(feature.name), name(feature.categories[k])]
    row.append("" if counts is None else f"{counts[k]:,.10g}")
    shown = [text(_signed(x, most)) for x in points]
    if two:
        return [*row, cell(bar(points[0], most, both=True), class_="bars"), *shown]
    drawn = [bar(x, most, both=True) for x in points]
    return [*row, *map(join, zip(shown, drawn, strict=True))]


def _card(report: Report) -> Section | None:
    card = report.card
    if card is None:
        return None
    head, *totals = card.totals
    heads = [Head("Feature"), Head("Category"), Head("Points", True)]
    both = []
    for title, top, texts, caption in (
        ("Points", heads, card.points[:_CARD], "Whole points"),
        ("What a total means", [Head(name(h)) for h in head], totals, "Totals"),
    ):
        drawn = table(top, [[*map(name, row)] for row in texts], caption, tall=True)
        both.append(tag("div", tag("h3", title), drawn))
    body = [tag("p", each) for each in card.sentences]
    body.append(tag("div", both, class_="pair"))
    if len(card.points) > _CARD:
        more = f"{len(card.points) - _CARD:,} more rows"
        body.append(tag("p", f"{more}: 'renyi export MODEL --points 10' writes all."))
    return Section("card", "Points by hand", body)


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
    return Section("path", "Selection path", [tag("p", about), chart])


def _tick(share: float) -> str:
    return percent(share, 0 if abs(100 * share - round(100 * share)) < 1e-6 else 1)


def _whatif(report: Report) -> Section:
    heads = [Head("Class"), Head("Probability"), Head("Share", True)]
    heads += [Head("Answered", True)] * (report.rule != "map")
    pushes = [Head("Feature"), Head("Push"), Head("Points", True)]
    what = "Points of the chosen categories, the largest first"
    result = tag(
        "div",
        tag("p", id="answer", class_="answer", role="status"),
        tag("p", id="score", class_="note"),
        table(heads, [], "Probability of each class", id="chances"),
        tag("h3", "What pushes most"),
        table(pushes, [], what, id="pushes"),
        tag("h3", "What would change the answer"),
        tag("p", id="turns-note"),
        tag("ul", id="turns", class_="turns"),
        class_="result",
    )
    find = tag("input", id="find-column", type="search", autocomplete="off")
    group = {"role": "group", "aria_label": "Categories to choose", "tabindex": 0}
    choices = tag(
        "div",
        tag("label", "Find a column ", find, class_="search"),
        tag("button", "Start again", type="button", id="again", class_="plain"),
        tag("p", id="choices-note", class_="note", role="status"),
        tag("div", id="numbers"),
        tag("div", id="choices", class_="choices", **group),
    )
    about = (
        "Choose categories and see what the model answers. It starts with the most "
        "frequent category of each column; no row need have this combination."
    )
    body = [
        tag("p", about),
        tag("p", "This panel needs JavaScript.", id="no-script", class_="note"),
        tag("div", result, choices, id="panel", class_="panel", hidden=True),
    ]
    return Section("whatif", "What if", body)


def _heldout(report: Report) -> Section | None:
    h = report.heldout
    classes = report.classes
    if h is None:
        return None
    two = len(classes) == 2
    rows: list[list[str]] = []
    for k, (label, counts) in enumerate(zip(classes, h.confusion, strict=True)):
        off = percent(1 - counts[k] / sum(counts)) if any(counts) else "—"
        rows.append([name(label), *(f"{n:,}" for n in counts), off])
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
        y="observed frequency",
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
        *(tag("p", capitalised(each)) for each in h.certificate["warnings"]),
        _facts(facts),
        table(heads, rows, caption, visible_caption=True),
    ]
    if min(b.rows for b in h.bins) < report.few:
        few = "Some of these figures come from few rows, and may reveal single rows."
        body.append(_note(few))
    body.append(tag("div", charts, class_="pair"))
    return Section("heldout", "On held-out rows", body)


def _worst(report: Report) -> Section | None:
    w = report.worst
    if w is None:
        return None
    about = (
        f"A made-up population of {number_of(w.outcomes, 'kind')} of rows that has "
        "exactly the counts of pairs of the data, and on which every rule, this one "
        f"included, is wrong on at least {at_least(w.error, 1)}."
    )
    body = [tag("p", about)]
    if w.rows:
        heads = [Head(name(each)) for each in w.head]
        rows = [[name(each) for each in row] for row in w.rows]
        body.append(table(heads, rows, "Its likeliest kinds", visible_caption=True))
    if w.outcomes > len(w.rows):
        few = (
            "Only the likeliest are shown, and none that stands for fewer than "
            f"{report.few} rows: counts of few rows may reveal the rows themselves."
        )
        body.append(_note(few))
    return Section("worst", "The worst population", body)


def _made(report: Report) -> Section:
    return Section("made", "How it was made", _facts([*report.made.items()]))


# ---- what the script reads


def _page_data(report: Report) -> dict[str, Any]:
    """Return points and columns in few bytes; see report.js."""
    levels: dict[tuple[tuple[str, ...], str | None], int] = {}
    columns = []
    for column in report.columns:
        level = levels.setdefault((column.categories, column.other), len(levels))
        columns.append([name(column.name), level, column.start, column.counts])
    single = report.data.order == 1
    most = _most(report)
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
        "most": most,
        "digits": point_digits(most),
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
