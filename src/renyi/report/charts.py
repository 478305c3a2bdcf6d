"""Small charts as SVG: no script draws them, and each has its numbers in a table.

Every function returns markup in which labels are escaped. Marks differ by form and by
place, never by colour alone. Coordinates along a scale are percentages, so that a mark
keeps its form at any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from renyi.formatting import percent

Point = tuple[float, float]

_HEIGHT = 22  # of a row
_MIDDLE = _HEIGHT / 2
_WIDTH = 420  # of lines
_SIDE = 300
_LEFT = 56
_BOTTOM = 46
_ACROSS = _WIDTH - _LEFT - 14  # what the axes span
_UP = _SIDE - _BOTTOM - 12

_HALVES = (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10)  # whose half is round
_QUARTERS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)
_FAR = 3.0  # times the median, beyond which a mark is off the scale

_ARROW = "M-9 -4L-1 0L-9 4Z"
_DOT = "M0 -5A5 5 0 1 1 0 5A5 5 0 1 1 0 -5Z"
_DIAMOND = "M0 -6L6 0L0 6L-6 0Z"


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


def share_tick(share: float) -> str:
    """Return what a scale of shares writes at a place."""
    return percent(share, 0 if share >= 0.1 or share == 0 else 1)


def decimal_tick(value: float) -> str:
    """Return what a scale of other numbers writes at a place."""
    return f"{value:.2g}"


# ---- marks on one scale


@dataclass(frozen=True)
class Mark:
    """A figure on a scale: an estimate is a dot, a baseline a diamond.

    A bound is an arrow from the left to a bar at `high`; with `low` it is a line
    between two bars.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    baseline: bool = False
    shown: str = ""  # the numbers as text

    @property
    def end(self) -> float:
        """The largest of its figures."""
        return max(x for x in (self.value, self.low, self.high) if x is not None)


def axis(end: float, tick: Callable[[float], str] = share_tick) -> Markup:
    """Return the scale above the marks."""
    ticks = [
        Markup('<text x="{}%" y="11" class="tick{}">{}</text>').format(
            50 * k, k, tick(end * k / 2).replace(" %", "\N{NO-BREAK SPACE}%")
        )
        for k in range(3)
    ]
    head = '<svg class="axis" height="14" width="100%" aria-hidden="true">'
    return Markup(head + "".join(ticks) + "</svg>")


def mark(figure: Mark, end: float) -> Markup:
    """Return the drawing of one mark on a scale from 0 to `end`."""

    def at(value: float) -> str:
        return f"{100 * min(max(value / end, 0), 1):.2f}%"

    parts = [_upright(x, 0, _HEIGHT, "grid") for x in ("0%", "50%", "100%")]
    if figure.high is not None:
        left = at(figure.low or 0.0)
        right = at(figure.high)
        across = f'x1="{left}" x2="{right}" y1="{_MIDDLE}" y2="{_MIDDLE}"'
        parts.append(f'<line {across} class="reach"/>')
        parts.append(_bar_end(right))
        parts.append(_shape(right, _ARROW, "arrow") if figure.low is None else "")
    if figure.low is not None:
        parts.append(_bar_end(at(figure.low)))
    if figure.value is not None:
        form = _DIAMOND if figure.baseline else _DOT
        kind = "diamond" if figure.baseline else "dot"
        parts.append(_shape(at(figure.value), form, kind))
    head = f'<svg height="{_HEIGHT}" width="100%" aria-hidden="true">'
    return Markup(head + "".join(parts) + "</svg>")


def _upright(x: str, top: float, bottom: float, kind: str) -> str:
    return f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" class="{kind}"/>'


def _bar_end(x: str) -> str:
    return _upright(x, _MIDDLE - 6, _MIDDLE + 6, "cap")


def _shape(x: str, path: str, kind: str) -> str:
    return f'<svg x="{x}" y="{_MIDDLE}"><path d="{path}" class="{kind}"/></svg>'


def bar(value: float, most: float, both: bool = False) -> Markup:
    """Return one bar; on a scale of both signs it begins in the middle."""
    share = 0.0 if most <= 0 else min(abs(value) / most, 1.0)
    width = 50 * share if both else 100 * share
    start = 50.0 if both else 0.0
    if both and value < 0:
        start -= width
    sign = "minus" if value < 0 else "plus"
    kind = "bar both" if both else "bar"
    inside = f'<rect x="{start:.3g}%" width="{width:.3g}%" class="{sign}"/>'
    return Markup(f'<svg class="{kind}" aria-hidden="true">{inside}</svg>')


@dataclass(frozen=True)
class Panel:
    """A column of marks with a scale of its own; None where a row has no figure."""

    head: str
    marks: Sequence[Mark | None]
    tick: Callable[[float], str] = share_tick

    @property
    def end(self) -> float:
        """Where the scale ends: marks far beyond the others are off it."""
        ends = [each.end for each in self.marks if each is not None]
        most = _FAR * sorted(ends)[len(ends) // 2] if ends else 0.0
        return scale_end(end for end in ends if end <= most)


# ---- lines


@dataclass(frozen=True)
class Line:
    """Points that are joined; `dots` marks each, `dashed` is for a comparison."""

    label: str
    points: Sequence[Point]
    dots: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class LineChart:
    """Lines from 0 on both axes."""

    caption: str
    series: Sequence[Line]
    x: str
    y: str
    x_end: float | None = None
    y_end: float | None = None
    tick_x: Callable[[float], str] = "{:g}".format
    tick_y: Callable[[float], str] = "{:g}".format

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """The points as text, for the table behind the chart."""
        return [
            (line.label, self.tick_x(a), self.tick_y(b))
            for line in self.series
            for a, b in line.points
        ]

    def svg(self) -> Markup:
        """Return the drawing."""
        points = [point for line in self.series for point in line.points]
        right = self.x_end or scale_end((p[0] for p in points), _QUARTERS)
        top = self.y_end or scale_end((p[1] for p in points), _QUARTERS)

        def place(point: Point) -> Point:
            across = round(_LEFT + _ACROSS * point[0] / right, 1)
            return across, round(12 + _UP * (1 - point[1] / top), 1)

        parts: list[str] = []
        for k in range(5):
            value = (right * k / 4, top * k / 4)
            parts += self._ticks(place(value), value)
        parts += self._titles()
        for k, line in enumerate(self.series):
            parts += _drawn(k, line, [place(point) for point in line.points])
        head = Markup(
            '<svg viewBox="0 0 {} {}" role="img" aria-label="{} The numbers are in the '
            'table below." class="lines">'
        ).format(_WIDTH, _SIDE, self.caption)
        return Markup(head + Markup("".join(parts)) + Markup("</svg>"))

    def _ticks(self, at: Point, value: Point) -> list[str]:
        """Return a line of the grid, and the numbers below and beside it."""
        x, y = at
        across = f'x1="{_LEFT}" x2="{_LEFT + _ACROSS}" y1="{y}" y2="{y}"'
        return [
            f'<line {across} class="grid"/>',
            _text(self.tick_y(value[1]), "tick2", x=_LEFT - 6, y=y + 4),
            _text(self.tick_x(value[0]), "tick1", x=x, y=12 + _UP + 18),
        ]

    def _titles(self) -> list[str]:
        """Return what the axes are called."""
        below = _text(self.x, "tick1 title", x=_LEFT + _ACROSS / 2, y=_SIDE - 6)
        turned = f"translate(13 {12 + _UP / 2}) rotate(-90)"
        beside = Markup('<text transform="{}" class="tick1 title">{}</text>')
        return [below, beside.format(turned, self.y)]

    def key(self) -> list[tuple[Markup, str]]:
        """Return what each line looks like, and its label."""
        return [(_sample(k, line), line.label) for k, line in enumerate(self.series)]


def _text(text: str, kind: str, x: float, y: float) -> str:
    shown = text.replace(" %", "\N{NO-BREAK SPACE}%")
    drawn = Markup('<text x="{}" y="{}" class="{}">{}</text>')
    return drawn.format(x, y, kind, shown)


def _drawn(k: int, line: Line, places: Sequence[Point]) -> list[str]:
    """Return a line, and its dots if it has any."""
    joined = " ".join(f"{a:g},{b:g}" for a, b in places)
    dots = [_dot(k, a, b) for a, b in places] if line.dots else []
    return [f'<polyline points="{joined}" class="{_line_class(k, line)}"/>', *dots]


def _dot(k: int, x: float, y: float) -> str:
    return f'<circle cx="{x}" cy="{y}" r="3.5" class="dot{k % 3}"/>'


def _line_class(k: int, line: Line) -> str:
    return f"line{k % 3}{' dashed' if line.dashed else ''}"


def _sample(k: int, line: Line) -> Markup:
    kind = _line_class(k, line)
    dot = _dot(k, 14, 7) if line.dots else ""
    drawn = f'<line x1="0" x2="28" y1="7" y2="7" class="{kind}"/>{dot}'
    return Markup(f'<svg width="28" height="14" aria-hidden="true">{drawn}</svg>')
