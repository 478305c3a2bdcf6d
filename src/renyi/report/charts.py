"""Small charts as SVG: no script draws them, and each has its numbers in a table.

`intervals` and `bars` are tables themselves: a row has its label, its mark on a common
scale, and its numbers as text. `lines` has its table behind it. Marks differ by form
and by place, never by colour alone. Coordinates along a scale are percentages, so that
a mark keeps its form at any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from renyi.formatting import percent
from renyi.report.page import Child, Head, Html, cell, details, join, table, tag

Kind = Literal["estimate", "bound", "interval", "reference"]
Point = tuple[float, float]

_HEIGHT = 22  # of a row
_WIDTH = 420  # of lines
_SIDE = 300
_LEFT = 56
_BOTTOM = 46
_ACROSS = _WIDTH - _LEFT - 14  # what the axes span
_UP = _SIDE - _BOTTOM - 12


@dataclass(frozen=True)
class Mark:
    """A row of `intervals`: a number, what is known of it, and what it means."""

    label: str
    value: float | None  # the dot of an estimate, or None
    low: float | None = None
    high: float | None = None
    kind: Kind = "estimate"
    shown: str = ""  # the numbers as text
    note: str = ""


_HALVES = (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10)  # whose half is round
_QUARTERS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)


def scale_end(values: Iterable[float], steps: Sequence[float] = _HALVES) -> float:
    """Return a round number at which a scale from 0 can end.

    >>> scale_end([0.046, 0.122]), scale_end([0.38]), scale_end([])
    (0.16, 0.4, 1.0)
    """
    most = max((v for v in values if math.isfinite(v)), default=0.0)
    if most <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(most))
    return next(round(k * unit, 12) for k in steps if k * unit >= most * (1 - 1e-9))


def intervals(marks: Sequence[Mark], caption: str) -> Html:
    """Return dots, bounds and intervals on one scale that begins at 0.

    An estimate is a dot, a bound from above an arrow from the left to a bar, an
    interval a line between two bars, a reference a diamond.
    """
    end = scale_end(map(_end, marks))
    rows = []
    for m in marks:
        label = [m.label, tag("small", m.note)] if m.note else m.label
        rows.append((join(label), _mark(m, end), m.shown))
    axis = join(["Share of wrong answers", _axis(end, _percent)])
    return _chart(("What is known", axis, "Numbers"), rows, caption)


def _percent(share: float) -> str:
    """Return what a scale of shares writes at a place."""
    return percent(share, 0 if share >= 0.1 or share == 0 else 1)


def _chart(
    heads: tuple[str, str, str], rows: Iterable[tuple[str, Html, str]], caption: str
) -> Html:
    """Return a table of labels, their drawings, and the numbers as text."""
    body = [
        (label, cell(drawn, class_="chart", role="cell"), shown)
        for label, drawn, shown in rows
    ]
    top = [Head(text, number=k == 2) for k, text in enumerate(heads)]
    return table(top, body, caption, class_="chart")


def _axis(end: float, form: Callable[[float], str]) -> Html:
    ticks = [
        tag("text", form(end * k / 2), x=f"{50 * k}%", y=11, class_=f"tick{k}")
        for k in range(3)
    ]
    return tag("svg", ticks, class_="axis", height=14, width="100%", aria_hidden="true")


def _mark(mark: Mark, end: float) -> Html:
    """Return one row's drawing."""
    middle = _HEIGHT / 2

    def at(value: float) -> str:
        return f"{100 * min(max(value / end, 0), 1):.2f}%"

    def bar(value: float) -> Html:
        x = at(value)
        return tag("line", x1=x, x2=x, y1=middle - 6, y2=middle + 6, class_="cap")

    def shape(value: float, path: str, class_: str) -> Html:
        return tag("svg", tag("path", d=path, class_=class_), x=at(value), y=middle)

    parts = [
        tag("line", x1=x, x2=x, y1=0, y2=_HEIGHT, class_="grid")
        for x in ("0%", "50%", "100%")
    ]
    low = mark.low
    high = mark.high
    if high is not None:
        x1 = at(low or 0.0)
        x2 = at(high)
        line = tag("line", x1=x1, x2=x2, y1=middle, y2=middle, class_="reach")
        parts += [line, bar(high)]
        if low is not None:
            parts.append(bar(low))
        else:
            parts.append(shape(high, "M-9 -4L-1 0L-9 4Z", "arrow"))
    if mark.value is not None:
        form = "M0 -5A5 5 0 1 1 0 5A5 5 0 1 1 0 -5Z"
        name = "dot"
        if mark.kind == "reference":
            form = "M0 -6L6 0L0 6L-6 0Z"
            name = "diamond"
        parts.append(shape(mark.value, form, name))
    return tag("svg", parts, height=_HEIGHT, width="100%", aria_hidden="true")


def bar(value: float, most: float, *, both: bool = False) -> Html:
    """Return one bar; on a scale of both signs it begins in the middle."""
    share = 0.0 if most <= 0 else min(abs(value) / most, 1.0)
    start, width = (50.0, 50 * share) if both else (0.0, 100 * share)
    if both and value < 0:
        start -= width
    sign = "minus" if value < 0 else "plus"
    inside = tag("rect", x=f"{start:.3g}%", width=f"{width:.3g}%", class_=sign)
    return tag("svg", inside, class_="bar both" if both else "bar", aria_hidden="true")


def bars(
    rows: Sequence[tuple[str, float, str]],
    caption: str,
    *,
    heads: tuple[str, str, str],
) -> Html:
    """Return horizontal bars: of each the label, the number, and it as text."""
    most = max((abs(value) for _, value, _ in rows), default=0.0)
    both = any(value < 0 for _, value, _ in rows)
    drawn = ((label, bar(value, most, both=both), text) for label, value, text in rows)
    return _chart(heads, drawn, caption)


# ---- lines


@dataclass(frozen=True)
class Line:
    """Points that are joined; `dots` marks each, `dashed` is for a comparison."""

    label: str
    points: Sequence[Point]
    dots: bool = False
    dashed: bool = False


def lines(
    series: Sequence[Line],
    caption: str,
    *,
    x: str,
    y: str,
    x_end: float | None = None,
    y_end: float | None = None,
    form_x: Callable[[float], str] = "{:g}".format,
    form_y: Callable[[float], str] = "{:g}".format,
    rows: tuple[Sequence[Head], Sequence[Sequence[str]]] | None = None,
) -> Html:
    """Return lines from 0 on both axes, with their labels, and a table behind them.

    `rows` are head and rows of that table; by default the points.
    """
    shown = [p for s in series for p in s.points]
    right = x_end or scale_end((p[0] for p in shown), _QUARTERS)
    top = y_end or scale_end((p[1] for p in shown), _QUARTERS)

    def place(point: Point) -> tuple[float, float]:
        a = point[0] / right
        b = point[1] / top
        return round(_LEFT + _ACROSS * a, 1), round(12 + _UP * (1 - b), 1)

    quarters = [(right * k / 4, top * k / 4) for k in range(5)]
    parts = [
        mark
        for across, up in quarters
        for mark in _ticks(place((across, up)), form_x(across), form_y(up))
    ]
    middle = f"translate(13 {12 + _UP / 2}) rotate(-90)"
    parts += [
        tag("text", x, x=_LEFT + _ACROSS / 2, y=_SIDE - 6, class_="tick1 title"),
        tag("text", y, transform=middle, class_="tick1 title"),
    ]
    for k, each in enumerate(series):
        parts += _drawn(k, each, [place(p) for p in each.points])
    drawing = tag(
        "svg",
        parts,
        viewBox=f"0 0 {_WIDTH} {_SIDE}",
        role="img",
        aria_label=f"{caption} The numbers are in the table below.",
        class_="lines",
    )
    heads, body = rows or (
        [Head("Line"), Head(x, True), Head(y, True)],
        [(s.label, form_x(a), form_y(b)) for s in series for a, b in s.points],
    )
    key = tag("ul", [_key(k, s) for k, s in enumerate(series)], class_="key")
    return tag(
        "figure",
        tag("figcaption", caption),
        drawing,
        key,
        details("The numbers behind this chart", table(heads, body, caption)),
    )


def _ticks(at: tuple[float, float], across: str, up: str) -> list[Html]:
    """Return a line of the grid, and the numbers below and beside it."""
    a, b = at
    return [
        tag("line", x1=_LEFT, x2=_LEFT + _ACROSS, y1=b, y2=b, class_="grid"),
        tag("text", up, x=_LEFT - 6, y=b + 4, class_="tick2"),
        tag("text", across, x=a, y=12 + _UP + 18, class_="tick1"),
    ]


def _drawn(k: int, line: Line, places: Sequence[tuple[float, float]]) -> list[Html]:
    """Return a line, and its dots if it has any."""
    joined = " ".join(f"{a:g},{b:g}" for a, b in places)
    dots = [_dot(k, a, b) for a, b in places] if line.dots else []
    return [tag("polyline", points=joined, class_=_line_class(k, line)), *dots]


def _dot(k: int, x: float, y: float) -> Html:
    return tag("circle", cx=x, cy=y, r=3.5, class_=f"dot{k % 3}")


def _line_class(k: int, line: Line) -> str:
    return f"line{k % 3}{' dashed' if line.dashed else ''}"


def _key(k: int, line: Line) -> Html:
    """Return what a line looks like, and its label."""
    sample = [tag("line", x1=0, x2=28, y1=7, y2=7, class_=_line_class(k, line))]
    sample += [_dot(k, 14, 7)] if line.dots else []
    drawn = tag("svg", sample, width=28, height=14, aria_hidden="true")
    return tag("li", drawn, f" {line.label}")


# ---- several scales side by side

_FAR = 3.0  # times the median, beyond which a mark is off the scale


@dataclass(frozen=True)
class Panel:
    """A column of `panels`: its head, a mark for each row or None, and its scale."""

    head: str
    marks: Sequence[Mark | None]
    form: Callable[[float], str] = _percent


def panels(
    head: str, labels: Sequence[Html], columns: Sequence[Panel], caption: str
) -> Html:
    """Return one row for each label, with a mark and its numbers on every scale.

    Marks far beyond the others would leave no room to these: they have numbers only.
    """
    tops = [Head(head)]
    body = [[label] for label in labels]
    for panel in columns:
        known = [_end(mark) for mark in panel.marks if mark is not None]
        most = _FAR * sorted(known)[len(known) // 2] if known else 0.0
        end = scale_end(value for value in known if value <= most)
        tops.append(Head(join([panel.head, _axis(end, panel.form)])))
        for row, mark in zip(body, panel.marks, strict=True):
            drawn: Child = "–"
            if mark is not None and _end(mark) <= end:
                drawn = join([_mark(mark, end), mark.shown])
            elif mark is not None:
                drawn = f"off the scale: {mark.shown}"
            row.append(cell(drawn, class_="chart"))
    return table(tops, body, caption, class_="chart panels")


def _end(mark: Mark) -> float:
    return max(v for v in (mark.value, mark.low, mark.high) if v is not None)
