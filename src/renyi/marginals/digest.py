"""Digests of counts: whether two sets of marginals are of the same data.

A digest is a SHA-256 over names, categories and counts in an order of its own, so that
the same data have the same digest whatever source they were counted from: columns and
labels are sorted by their text, whole weights count as integers, and others are taken
to a millionth of their total, which no order of summation can change.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.columns import Columns, Levels

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

_GRID = 1e6  # counts of fractional weights are compared to this part of their total
_CHUNK = 2**22  # numbers that are hashed at a time


@dataclass(frozen=True)
class DataDigest:
    """Digests of the counts of some data.

    Parameters
    ----------
    classes : str
        Of the counts of every category with every class.
    pairs : str, optional
        Of the counts of all pairs of categories; None where these were never counted.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> m.digest.matches(renyi.Marginals.from_data(X[::-1], y[::-1]).digest)
    True
    >>> m.digest.matches(renyi.Marginals.from_data(X[:-1], y[:-1]).digest)
    False
    """

    classes: str
    pairs: str | None = None

    def matches(self, other: DataDigest) -> bool:
        """Whether both are of the same counts, as far as both know them."""
        if self.pairs is None or other.pairs is None:
            return self.classes == other.classes
        return self == other


def digest(m: Marginals) -> DataDigest:
    """Return the digest of marginals."""
    (target,) = m.columns.places([m.target])
    features = [j for j in range(len(m.columns)) if j != target]
    order, text = _canonical(m.columns, features)
    classes, answers = _canonical(m.columns, [target], named=False)
    head = text + answers + json.dumps(sorted(map(sorted, m.absent)))
    both = np.concatenate([order, classes])
    return DataDigest(
        _hashed(head, m.counts, m.n, order, classes),
        _hashed(head, m.counts, m.n, both, both),
    )


def class_digest(
    columns: Columns, classes: tuple[Any, ...], counts: NDArray[Any], n: float
) -> DataDigest:
    """Return the digest of counts of each category of the features with each class."""
    order, text = _canonical(columns, list(range(len(columns))))
    answer = Columns(["y"], [Levels("label", classes)], np.zeros(1, np.intp))
    places, answers = _canonical(answer, [0], named=False)
    head = text + answers + json.dumps([])
    return DataDigest(_hashed(head, counts, n, order, places))


def _canonical(
    columns: Columns, chosen: list[int], named: bool = True
) -> tuple[NDArray[np.intp], str]:
    """Return the places of the categories in canonical order, and their description."""
    described = [_sorted_levels(levels) for levels in columns.levels]
    chosen = sorted(chosen, key=lambda j: columns.names[j])
    starts, which = offsets(columns.sizes), columns.which.tolist()
    places = [starts[j] + described[which[j]][0] for j in chosen]
    names = [columns.names[j] if named else "" for j in chosen]
    levels = [described[which[j]][1] for j in chosen]
    text = json.dumps([names, levels])
    return np.concatenate(places) if places else np.empty(0, np.intp), text


def _sorted_levels(levels: Levels) -> tuple[NDArray[np.intp], str]:
    """Return the order of a column's categories and their description."""
    texts = levels.texts
    missing = [category is None for category in levels.categories]
    order = np.arange(len(texts))
    if levels.kind == "label":
        order = np.array(sorted(order, key=lambda k: (missing[k], texts[k])), np.intp)
    edges = [float(edge).hex() for edge in levels.edges]
    shown = texts if levels.kind == "label" else ()
    labels = [shown[k] for k in order.tolist()] if shown else []
    return order, json.dumps([levels.kind, labels, edges, missing[-1]])


def _hashed(
    head: str,
    counts: NDArray[Any],
    n: float,
    rows: NDArray[np.intp],
    columns: NDArray[np.intp],
) -> str:
    """Hash a description and the counts at some rows and columns, piece by piece."""
    step = max(1, _CHUNK // max(1, len(columns)))
    pieces = [rows[at : at + step] for at in range(0, len(rows), step)]
    whole = all(_is_whole(counts[np.ix_(piece, columns)]) for piece in pieces)
    total = hashlib.sha256(head.encode("utf-8", "surrogatepass"))
    total.update(str(round(n) if whole else "weighted").encode())
    for piece in pieces:
        found = counts[np.ix_(piece, columns)]
        grid = found if whole else np.rint(found * (_GRID / n))
        total.update(grid.astype("<i8").tobytes())
    return total.hexdigest()


def _is_whole(counts: NDArray[Any]) -> bool:
    if counts.dtype.kind != "f":
        return True
    return bool(((counts == np.rint(counts)) & (np.abs(counts) < 2**53)).all())
