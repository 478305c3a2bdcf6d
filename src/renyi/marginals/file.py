"""The file of marginals: npz with a JSON header and a checksum.

The header says what the counts are of (columns, target, encoder, absent pairs, where
they came from), the arrays are the counts. A file may come from a stranger: what its
header says must make sense, the arrays must have the shapes that follow from it, and
the counts must agree with each other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.encoding.columns import Columns
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import encoder_from_dict
from renyi.marginals import consistency
from renyi.storage import read_arrays, read_header, write_arrays

if TYPE_CHECKING:
    import os

    from renyi.marginals.marginals import Marginals

FORMAT = "renyi-marginals"
# By how much the counts of a file may disagree, as a share of all rows: without a word
# sums of floats, and at most what tables that were rounded for publication do.
_TOLERANCE = 1e-6
_MOST = 0.05


def write(m: Marginals, path: str | os.PathLike[str]) -> None:
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
            f"The counts disagree with each other by {off:.1%} of all rows, more than "
            "a file may hold: validate() names those that do."
        )
    if off > _TOLERANCE:
        header["tolerance"] = min(1.01 * off, _MOST)
    arrays = {"counts": m.counts.astype(m.counts.dtype.newbyteorder("<"))}
    if m.class_counts is not None:
        kind = m.class_counts.dtype.newbyteorder("<")
        arrays["class_counts"] = m.class_counts.astype(kind)
    write_arrays(path, header, arrays)


def read(path: str | os.PathLike[str], make: Callable[..., Marginals]) -> Marginals:
    """Read marginals, made by their class, from a file; see `Marginals.load`."""
    header = read_header(path, FORMAT)
    with _valid(path):
        facts = _facts(header)
    arrays = read_arrays(path, FORMAT, header, facts.shapes)
    with _valid(path):
        return _marginals(facts, arrays, make)


@contextlib.contextmanager
def _valid(path: Any) -> Iterator[None]:
    """Let errors name the file."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} is not valid: it lacks {error}.") from None
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"{path} is not valid: {reason}.") from None


class _Facts(NamedTuple):
    """What a header says."""

    n: float
    columns: Columns
    target: str
    settings: Encoder
    absent: frozenset[frozenset[str]]
    provenance: dict[str, Any]
    tolerance: float

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the arrays that belong to these columns."""
        size = int(self.columns.sizes.sum())
        (j,) = self.columns.places([self.target])
        classes = int(self.columns.sizes[j])
        width = size - classes
        return {"counts": (size, size), "class_counts": (classes, width, width)}


def _facts(header: dict[str, Any]) -> _Facts:
    """Return what a header says, checked."""
    columns = Columns.from_dict(header["columns"])
    empty = Columns.of([]).to_dict()
    settings = encoder_from_dict({**header["encoder"], "columns": empty})
    n, target, provenance = header["n"], header["target"], header["provenance"]
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
    tolerance = header.get("tolerance", _TOLERANCE)
    if type(tolerance) is not float or not 0 < tolerance <= _MOST:
        raise ValueError(f"its tolerance is {tolerance!r:.20}, not from 0 to {_MOST}")
    return _Facts(n, columns, target, settings, absent, provenance, tolerance)


def _marginals(
    facts: _Facts, arrays: dict[str, NDArray[Any]], make: Callable[..., Marginals]
) -> Marginals:
    """Marginals of a file's contents, which must agree with each other."""
    counts, inner = arrays["counts"], arrays.get("class_counts")
    m = make(
        counts,
        facts.n,
        facts.columns,
        facts.target,
        facts.settings,
        inner,
        facts.absent,
        facts.provenance,
    )
    if not np.isfinite(counts).all() or not np.array_equal(counts, counts.T):
        raise ValueError("its counts are not finite and symmetric")
    if inner is not None and inner.dtype != counts.dtype:
        raise ValueError("its class counts are of another type than its counts")
    consistency.check_counts(m, facts.tolerance)
    return m
