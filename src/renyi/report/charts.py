"""Small charts as SVG: no script draws them, and each has its numbers in a table.

Every function returns markup in which labels are escaped. Marks differ by form and by
place, never by colour alone. Coordinates along a scale are percentages, so that a mark
keeps its form at any width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from markupsafe import Markup

from renyi.formatting import percent

_HEIGHT = 22  # of a row
_MIDDLE = _HEIGHT / 2

_ROUND = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10)  # whose half and quarter are short
_FAR = 3.0  # times the median, beyond which a mark is off the scale

_ARROW = "M-9 -4L-1 0L-9 4Z"
_DOT = "M0 -5A5 5 0 1 1 0 5A5 5 0 1 1 0 -5Z"
_DIAMOND = "M0 -6L6 0L0 6L-6 0Z"
_BLOCK = "M-3 -9H3V9H-3Z"
_BRACKET = "M-6 -9H1V9H-6"


def scale_end(values: Iterable[float]) -> float:
    """Return a round number at which a scale from 0 can end.

    >>> scale_end([0.046, 0.122]), scale_end([0.38]), scale_end([])
    (0.16, 0.4, 1.0)
    """
    most = max((v for v in values if math.isfinite(v)), default=0.0)
    if most <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(most))
    return next(round(k * unit, 12) for k in _ROUND if k * unit >= most * (1 - 1e-9))


def share_tick(share: float) -> str:
    """Return what a scale of shares writes at a place."""
    whole = abs(100 * share - round(100 * share)) < 1e-6
    return percent(share, 0 if whole else 1)


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
    expected: float | None = None  # a diamond next to the dot
    shown: str = ""  # the numbers as text

    @property
    def end(self) -> float:
        """The largest of its figures."""
        return max(x for x in (self.value, self.low, self.high) if x is not None)


def axis(end: float, tick: Callable[[float], str] = share_tick) -> Markup:
    """Return the scale above the marks."""
    ticks = [_tick(k, 2, 11, end, tick) for k in range(3)]
    head = '<svg class="axis" height="14" width="100%" aria-hidden="true">'
    return Markup(head + "".join(ticks) + "</svg>")


def _tick(
    k: int, parts: int, y: int, end: float, tick: Callable[[float], str]
) -> Markup:
    """Return the number at the k-th of some parts of a scale."""
    text = tick(end * k / parts).replace(" %", "\N{NO-BREAK SPACE}%")
    anchor = {0: 0, parts: 2}.get(k, 1)
    drawn = Markup('<text x="{}%" y="{}" class="tick{}">{}</text>')
    return drawn.format(100 * k / parts, y, anchor, text)


def mark(figure: Mark, end: float) -> Markup:
    """Return the drawing of one mark on a scale from 0 to `end`."""
    at = partial(_place, end=end)
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
    if figure.expected is not None:
        parts.append(_shape(at(figure.expected), _DIAMOND, "diamond"))
    if figure.value is not None:
        form = _DIAMOND if figure.baseline else _DOT
        kind = "diamond" if figure.baseline else "dot"
        parts.append(_shape(at(figure.value), form, kind))
    head = f'<svg height="{_HEIGHT}" width="100%" aria-hidden="true">'
    return Markup(head + "".join(parts) + "</svg>")


def _place(value: float, end: float) -> str:
    return f"{100 * min(max(value / end, 0), 1):.2f}%"


# ---- several figures on one axis


FORMS = {
    "estimate": (_DOT, "dot"),
    "bound": (_BLOCK, "block"),
    "baseline": (_DIAMOND, "diamond"),
    "guarantee": (_BRACKET, "bracket"),
}


@dataclass(frozen=True)
class Spot:
    """A figure on an axis that it shares with others; an estimate has an interval."""

    kind: str  # one of FORMS
    place: float
    low: float | None = None
    high: float | None = None


def strip(spots: Sequence[Spot]) -> Markup:
    """Return one axis with all figures; each kind has another form."""
    end = scale_end(max(spot.place, spot.high or 0.0) for spot in spots)
    at = partial(_place, end=end)
    level = f'y1="{_MIDDLE}" y2="{_MIDDLE}"'
    parts = [f'<line x1="0%" x2="100%" {level} class="grid"/>']
    for k in range(5):
        parts.append(_upright(f"{25 * k}%", _MIDDLE - 4, _MIDDLE + 4, "grid"))
        parts.append(_tick(k, 4, _HEIGHT + 14, end, share_tick))
    for spot in spots:
        if spot.low is not None and spot.high is not None:
            across = f'x1="{at(spot.low)}" x2="{at(spot.high)}"'
            parts.append(f'<line {across} {level} class="span"/>')
    parts += [_shape(at(spot.place), *FORMS[spot.kind]) for spot in spots]
    size = f'height="{_HEIGHT + 18}" width="100%"'
    head = f'<svg class="strip" {size} aria-hidden="true">'
    return Markup(head + "".join(parts) + "</svg>")


def key(kind: str) -> Markup:
    """Return the form of one kind of figure, for a legend."""
    drawn = _shape("10", *FORMS[kind])
    return Markup(
        f'<svg width="20" height="{_HEIGHT}" aria-hidden="true">{drawn}</svg>'
    )


# ---- parts of drawings


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
    """A column of marks with a separate scale; None where a row has no figure."""

    head: str
    marks: Sequence[Mark | None]
    tick: Callable[[float], str] = share_tick

    @property
    def end(self) -> float:
        """Where the scale ends: marks far beyond the others are off it."""
        ends = [each.end for each in self.marks if each is not None]
        most = _FAR * sorted(ends)[len(ends) // 2] if ends else 0.0
        return scale_end(end for end in ends if end <= most)
