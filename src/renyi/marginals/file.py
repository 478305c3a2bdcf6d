"""Write marginals to a file, compute their digest, and describe them in words.

A file is npz with a JSON header and a checksum. The header describes the counts
(columns, target, encoder, absent pairs, provenance); the arrays are the counts. Sparse
tables have version 2 of the format. Their `counts` are those on and above the diagonal
that are not zero, row by row. Their `places` are the positions in the D x D table,
``row * D + column``, and the header has their number. Counts that are not exact have
version 3. Their header and arrays are those of `Marginals.uncertainty`, and `counts`
and `n`, which follow from them, are left out. A file may be untrusted. So the
header must be valid, the arrays must have the shapes that follow from it, and the
counts must agree with each other.

A digest is a SHA-256 over names, categories and counts in a canonical order. The same
data have the same digest whatever source they were counted from. Columns and labels are
sorted by their text, and whole weights count as integers. Other weights are rounded to
a millionth of their total, so that the order of summation does not matter.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.counting import sparse_counts
from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import check_table_size
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.tuples import encoder_from_dict, features_text
from renyi.files import (
    Sink,
    read_arrays,
    read_header,
    valid,
    write_arrays,
)
from renyi.formatting import number_of, number_of_rows
from renyi.marginals import arithmetic, consistency, uncertainty

if TYPE_CHECKING:
    import os

    from renyi.marginals.marginals import Marginals

FORMAT = "renyi-marginals"
# Largest disagreement of the counts of a file, as a share of all rows. It allows tables
# that were rounded for publication.
_MOST = 0.05

_GRID = 1e6  # fractional weights are rounded to this part of their total
_CHUNK = 2**22  # numbers that are hashed at a time
# Most features in a text, columns in a notebook, and labels of each.
_FEATURES = 12
_ROWS = 50
_LABELS = 6

Places = NDArray[np.intp]


def write(m: Marginals, path: Sink) -> None:
    """Write marginals to a file; see `Marginals.save`."""
    settings = m.settings.settings().to_dict()
    del settings["columns"]
    header = {
        "format": FORMAT,
        "version": 1,
        "n": m.n,
        "order": m.order,
        "target": m.target,
        "columns": m.columns.to_dict(),
        "encoder": settings,
        "absent": sorted(sorted(pair) for pair in m.absent),
        "provenance": {**m.provenance, "renyi": __version__},
    }
    off = consistency.disagreement(m)
    if not off <= _MOST:
        raise ValueError(
            f"The counts disagree with each other by {off:.1%} of all rows, too much "
            "for a file: count again (Marginals.validate() names the columns)."
        )
    if off > consistency.TOLERANCE:
        header["tolerance"] = min(1.01 * off, _MOST)
    arrays: dict[str, NDArray[Any]] = {"counts": m.counts}
    if sparse_counts.is_sparse(m.counts):
        rows, columns, counts = sparse_counts.entries(m.counts)
        arrays = {"counts": counts, "places": rows * m.counts.shape[0] + columns}
        header |= {"version": 2, "entries": len(counts)}
    if m.class_counts is not None:
        arrays["class_counts"] = m.class_counts
    if m.uncertainty is not None:
        arrays = dict(m.uncertainty.arrays)
        header |= {"version": 3, "uncertainty": m.uncertainty.to_dict()}
        del header["n"]
    little = {k: a.astype(a.dtype.newbyteorder("<")) for k, a in arrays.items()}
    write_arrays(path, header, little)


def read(path: str | os.PathLike[str], make: Callable[..., Marginals]) -> Marginals:
    """Read marginals from a file, and build them by `make`; see `Marginals.load`."""
    header = read_header(path, FORMAT, 3)
    with valid(path):
        facts = _facts(header)
        columns = facts["columns"]
        target = facts["target"]
        size = int(columns.sizes.sum())
        classes = int(columns.sizes[columns.places([target])[0]])
        inner = (classes, size - classes, size - classes)
        shapes: dict[str, tuple[int, ...]]
        shapes = {"counts": (size, size), "class_counts": inner}
        if header["version"] == 2:
            number = (_entries(header, size),)
            check_table_size(columns.sizes, 0, 2 * number[0])
            shapes |= {"counts": number, "places": number}
        if header["version"] == 3:
            names = uncertainty.ARRAYS[
                uncertainty.kind_of_header(header["uncertainty"])
            ]
            shapes = dict.fromkeys(names, (size, size))
    arrays = read_arrays(path, FORMAT, header, shapes)
    with valid(path):
        if header["version"] == 3:
            record = uncertainty.from_header(header["uncertainty"], arrays)
            empty = make(np.zeros((size, size)), **facts)
            return arithmetic.with_uncertainty(empty, record)
        counts = arrays["counts"]
        if header["version"] == 2:
            counts = _table(counts, arrays["places"], size)
        elif not np.isfinite(counts).all() or not np.array_equal(counts, counts.T):
            raise ValueError("its counts are not finite and symmetric")
        m = make(counts, class_counts=arrays.get("class_counts"), **facts)
        if m.class_counts is not None and m.class_counts.dtype != m.counts.dtype:
            raise ValueError("its class counts are of another type than its counts")
        consistency.check_counts(m, _tolerance(header))
        return m


def _entries(header: dict[str, Any], size: int) -> int:
    """Return the number of counts of a sparse table, from a header."""
    number = header["entries"]
    if type(number) is not int or not 0 < number <= size * (size + 1) // 2:
        raise ValueError(f"its number of counts is {number!r:.20}")
    return number


def _table(counts: NDArray[Any], places: NDArray[Any], size: int) -> Any:
    """Return the sparse table of a file, checked."""
    if places.dtype.kind != "i" or not (np.diff(places, prepend=-1) > 0).all():
        raise ValueError("the places of its counts are not in order")
    rows, columns = np.divmod(places, size)
    if rows[-1] >= size or (rows > columns).any():
        raise ValueError("the places of its counts are not in the table")
    if not (np.isfinite(counts) & (counts != 0)).all():
        raise ValueError("its counts are not finite, or are zero")
    return sparse_counts.from_entries([(rows, columns, counts)], size, counts.dtype)


def _facts(header: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a header about the marginals, checked."""
    columns = Columns.from_dict(header["columns"])
    empty = Columns.of([]).to_dict()
    settings = encoder_from_dict({**header["encoder"], "columns": empty})
    # Where counts are not exact, their number is estimated later.
    n = 1 if header["version"] == 3 else header["n"]
    target = header["target"]
    provenance = header["provenance"]
    if type(header["order"]) is not int or header["order"] != settings.order:
        raise ValueError(f"its order is {header['order']!r:.20}, not its encoder's")
    if not isinstance(target, str) or target not in columns.names:
        raise ValueError(f"its target {target!r:.60} is not a column")
    if type(n) not in (int, float) or not np.isfinite(n) or n <= 0:
        raise ValueError(f"its number of rows is {n!r:.60}")
    if not isinstance(header["absent"], list) or not isinstance(provenance, dict):
        raise ValueError("its absent pairs or its provenance are not valid")
    absent = frozenset(frozenset(pair) for pair in header["absent"])
    if any(len(pair) != 2 for pair in absent):
        raise ValueError("its absent pairs are not pairs of columns")
    columns.places({name for pair in absent for name in pair})
    _tolerance(header)
    known = {"n": n, "columns": columns, "target": target, "settings": settings}
    return {**known, "absent": absent, "provenance": provenance}


def _tolerance(header: dict[str, Any]) -> float:
    """Return the allowed disagreement of the counts of a file, checked."""
    tolerance = header.get("tolerance", consistency.TOLERANCE)
    if type(tolerance) is not float or not 0 < tolerance <= _MOST:
        raise ValueError(f"its tolerance is {tolerance!r:.20}, not from 0 to {_MOST}")
    return tolerance


# ---- digests


@dataclass(frozen=True)
class DataDigest:
    """Digests of the counts of some data."""

    classes: str  # of every category with every class
    pairs: str | None = None  # of all pairs of categories, if counted

    def matches(self, other: DataDigest) -> bool:
        """Return whether the digests that both have are equal."""
        if self.pairs is None or other.pairs is None:
            return self.classes == other.classes
        return self == other


def digest(m: Marginals) -> DataDigest:
    """Return the digest of marginals."""
    names = m.feature_names
    features = m.columns.take(m.columns.places(names))
    order, classes, head = _canonical(
        features, m.columns.named(m.target).levels, m.absent
    )
    order = m.columns.spans(names)[order]
    classes = m.columns.spans([m.target])[classes]
    both = np.concatenate([order, classes])
    if m.uncertainty is not None:
        head += json.dumps(m.uncertainty.to_dict(), sort_keys=True)
        for name, known in m.uncertainty.arrays.items():
            head = _hashed(head + name, known, 1, both, both)
        return DataDigest(head, head)
    table = sparse_counts.dense(m.counts[np.ix_(order, classes)])
    everything = (np.arange(side) for side in table.shape)
    by_class = _hashed(head, table, m.n, *everything)
    if not sparse_counts.is_sparse(m.counts):
        return DataDigest(by_class, _hashed(head, m.counts, m.n, both, both))
    moved = sparse_counts.moved(m.counts, np.argsort(both), len(both))
    rows, columns, counts = sparse_counts.entries(moved)
    places = rows * len(both) + columns
    head += hashlib.sha256(places.astype("<i8").tobytes()).hexdigest()
    every = np.arange(len(counts))
    alone = np.zeros(1, np.intp)
    return DataDigest(by_class, _hashed(head, counts[:, None], m.n, every, alone))


def class_digest(
    columns: Columns, classes: tuple[Any, ...], counts: NDArray[Any], n: float
) -> DataDigest:
    """Return the digest of counts of each category of the features with each class."""
    order, places, head = _canonical(columns, Levels("label", classes))
    return DataDigest(_hashed(head, counts, n, order, places))


def _canonical(
    columns: Columns, target: Levels, absent: Iterable[frozenset[str]] = ()
) -> tuple[Places, Places, str]:
    """Return features and classes in canonical order, and their description."""
    described = [sorted_levels(levels) for levels in columns.levels]
    chosen = sorted(range(len(columns)), key=lambda j: columns.names[j])
    starts = offsets(columns.sizes)
    which = columns.which.tolist()
    order = [starts[j] + described[which[j]][0] for j in chosen]
    names = [columns.names[j] for j in chosen]
    classes, answers = sorted_levels(target)
    features = [names, [described[which[j]][1] for j in chosen]]
    texts = [features, [[""], [answers]], sorted(map(sorted, absent))]
    places = np.concatenate([np.empty(0, np.intp), *order])
    return places, classes, "".join(map(json.dumps, texts))


def sorted_levels(levels: Levels) -> tuple[Places, str]:
    """Return the order of a column's categories and their description."""
    texts = levels.texts
    labels = []
    missing = [category is None for category in levels.categories]
    order = np.arange(len(texts))
    if levels.kind == "label":
        order = np.array(sorted(order, key=lambda k: (missing[k], texts[k])), np.intp)
        labels = [texts[k] for k in order.tolist()]
    edges = [float(edge).hex() for edge in levels.edges]
    return order, json.dumps([levels.kind, labels, edges, missing[-1]])


def _hashed(
    head: str, counts: NDArray[Any], n: float, rows: Places, columns: Places
) -> str:
    """Hash a description and the counts at some rows and columns, piece by piece."""
    step = max(1, _CHUNK // max(1, len(columns)))
    starts = range(0, len(rows), step)
    pieces = [np.ix_(rows[at : at + step], columns) for at in starts]
    tables = (counts[piece] for piece in pieces)
    whole = counts.dtype.kind != "f" or all(
        ((t == np.rint(t)) & (np.abs(t) < 2**53)).all() for t in tables
    )
    total = hashlib.sha256(head.encode("utf-8", "surrogatepass"))
    total.update(str(round(n) if whole else "weighted").encode())
    for piece in pieces:
        grid = counts[piece] if whole else np.rint(counts[piece] * (_GRID / n))
        total.update(grid.astype("<i8").tobytes())
    return total.hexdigest()


# ---- words


def headline(m: Marginals) -> str:
    """Return rows, features and classes in one line."""
    what = rows_text(m) + _known_how(m)
    if m.weighted:
        what = f"{m.n:,.10g} total weight"
    each = f" of {m.order} columns each" if m.order > 1 else ""
    if m.interactions is not None:
        each = f" ({features_text(m.settings)})"
    sizes = int(m.columns.sizes.sum()) - len(m.classes)
    return (
        f"Marginals of {what}: {len(m.feature_names)} features{each} ({sizes} "
        f"categories), target {m.target!r} ({_levels(m, m.columns.named(m.target))})"
    )


def rows_text(m: Marginals) -> str:
    """Return the number of rows, as far as it is known, in words."""
    record = m.uncertainty
    if isinstance(record, uncertainty.Intervals) and record.n_low < record.n_high:
        return f"{record.n_low:,} to {number_of(record.n_high, 'row')}"
    if isinstance(record, uncertainty.Noise) and record.n is None:
        return f"about {number_of(m.n, 'row')}"
    return number_of_rows(m.n)


def _known_how(m: Marginals) -> str:
    """Return how counts are known that are not exact."""
    record = m.uncertainty
    if isinstance(record, uncertainty.Intervals):
        return ", each count known to an interval"
    if isinstance(record, uncertainty.Noise):
        return f", counts with noise of scale {record.scale:.4g}"
    return ""


def page(m: Marginals) -> str:
    """Return the headline and a line for each of the first features."""
    features = [c for c in m.columns if c.name != m.target]
    first = features[:_FEATURES]
    width = max((len(c.name) for c in first), default=0)
    lines = [headline(m), *(f"  {c.name:<{width}}  {_levels(m, c)}" for c in first)]
    if len(features) > len(first):
        lines.append(f"  … and {len(features) - len(first)} more features")
    return "\n".join(lines)


def html(m: Marginals) -> str:
    """Return the headline and a table of the columns, as a notebook shows them."""
    rows = "".join(
        f"<tr><td>{escape(c.name)}</td><td>{escape(_levels(m, c))}</td></tr>"
        for c in m.columns[:_ROWS]
    )
    return f"<p>{escape(headline(m))}</p><table>{rows}</table>"


def _levels(m: Marginals, column: Column) -> str:
    """Return the first categories of a column with their counts."""
    totals = m.counts.diagonal()[m.columns.spans([column.name])]
    texts = column.levels.texts
    about = ""
    if m.uncertainty is not None:  # an estimate
        totals = np.rint(totals)
        about = "about "
    first = zip(texts[:_LABELS], totals, strict=False)
    shown = [f"{label}: {about}{count:,.10g}" for label, count in first]
    if len(texts) > _LABELS:
        shown.append(f"… {len(texts) - _LABELS} more")
    return "; ".join(shown)
