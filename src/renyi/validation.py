"""Whether some distribution of rows could have given marginals.

Necessary conditions, each checked with an error that names the columns at fault:

* no count is negative;
* the margins agree: a category has as many rows by itself as in its table with any
  other column;
* the table of all pairs, ``E[W Wᵀ]`` with the target in W, is positive semidefinite.

They are not sufficient, since deciding whether a distribution exists is NP-hard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from renyi.indicators import offsets

if TYPE_CHECKING:
    from renyi.marginals import Marginals


def validate(m: Marginals, tolerance: float) -> Marginals:
    """Return the marginals if they pass; see `Marginals.validate`."""
    refuse_negative(m, "in the marginals")
    _check_margins(m, tolerance)
    _check_semidefinite(m, tolerance)
    return m


def refuse_negative(m: Marginals, when: str) -> None:
    """Raise an error that names a negative count."""
    if m.counts.size and m.counts.min() < 0:
        a, b = np.unravel_index(int(m.counts.argmin()), m.counts.shape)
        raise ValueError(
            f"The count of {_name(m, int(a))} with {_name(m, int(b))} is "
            f"{m.counts[a, b]:g} {when}: counts cannot be negative."
        )
    inner = m.class_counts
    if inner is not None and inner.size and inner.min() < 0:
        k = int(np.unravel_index(int(inner.argmin()), inner.shape)[0])
        label = m._column(m.target).levels.texts[k]
        raise ValueError(
            f"A count within {m.target} = {label} is {inner.min():g} {when}: "
            "counts cannot be negative."
        )


def absent_places(m: Marginals) -> list[tuple[int, int]]:
    """Positions of the pairs of columns without joint counts, in both orders."""
    where = {name: j for j, name in enumerate(m.columns.names)}
    pairs = [tuple(where[name] for name in pair) for pair in m.absent]
    return [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]


def _name(m: Marginals, place: int) -> str:
    """Return ``column = category`` for a place in `counts`."""
    starts = offsets(m.columns.sizes)
    j = int(np.searchsorted(starts, place, side="right")) - 1
    column = m.columns[j]
    return f"{column.name} = {column.levels.texts[place - starts[j]]}"


def _check_margins(m: Marginals, tolerance: float) -> None:
    starts = offsets(m.columns.sizes)[:-1]
    totals = np.diag(m.counts)
    sums = np.add.reduceat(m.counts, starts, axis=0)  # column j against place
    off = np.abs(sums - totals)
    for first, second in absent_places(m):
        off[first, m._spans([m.columns.names[second]])] = 0
    j, place = map(int, np.unravel_index(int(off.argmax()), off.shape))
    if off[j, place] > tolerance * m.n:
        raise ValueError(
            f"The margins disagree: {_name(m, place)} has {totals[place]:g} rows by "
            f"itself, but {sums[j, place]:g} in its table with {m.columns.names[j]!r} "
            f"(off by {off[j, place]:g})."
        )


def _check_semidefinite(m: Marginals, tolerance: float) -> None:
    names = _fully_known(m)
    places = m._spans(names)
    values, vectors = np.linalg.eigh(m.counts[np.ix_(places, places)] / m.n)
    if values[0] >= -tolerance:
        return
    sizes = m.columns.sizes[m.columns.places(names)]
    share = np.add.reduceat(vectors[:, 0] ** 2, offsets(sizes)[:-1])
    worst = [names[j] for j in np.argsort(-share)[:3].tolist()]
    raise ValueError(
        "No distribution has these marginals: the table of all pairs, target "
        f"included, has the eigenvalue {values[0]:.3g}, which cannot be negative. "
        f"The counts of {', '.join(map(repr, worst))} contradict each other most."
    )


def _fully_known(m: Marginals) -> list[str]:
    """Columns without absent pairs among them: the target and who goes with it."""
    if not m.absent:
        return list(m.columns.names)
    known = [m.target]
    for name in m.feature_names:
        if all(frozenset((name, other)) not in m.absent for other in known):
            known.append(name)
    return known
