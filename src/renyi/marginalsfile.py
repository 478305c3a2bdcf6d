"""The file of marginals: npz with a JSON header and a checksum.

The header says what the counts are of (columns, target, encoder, absent pairs, where
they came from), the arrays are the counts. A file may come from a stranger, so every
claim of its header is checked against its arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.columns import Columns
from renyi.encoding import Encoder
from renyi.storage import read_arrays, write_arrays

if TYPE_CHECKING:
    import os

    from renyi.marginals import Marginals

FORMAT = "renyi-marginals"


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
    arrays = {"counts": m.counts.astype(m.counts.dtype.newbyteorder("<"))}
    if m.class_counts is not None:
        kind = m.class_counts.dtype.newbyteorder("<")
        arrays["class_counts"] = m.class_counts.astype(kind)
    write_arrays(path, header, arrays)


def read(path: str | os.PathLike[str]) -> Marginals:
    """Read marginals from a file; see `Marginals.load`."""
    header, arrays = read_arrays(path, FORMAT)
    try:
        return _from_header(header, arrays)
    except KeyError as error:
        raise ValueError(f"{path} is not valid: it lacks {error}.") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is not valid: {error}.") from None


def _from_header(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Marginals:
    """Marginals of a file's contents, every claim of the header checked."""
    from renyi.marginals import Marginals

    columns = Columns.from_dict(header["columns"])
    empty = Columns.of([]).to_dict()
    settings = Encoder.from_dict({**header["encoder"], "columns": empty})
    counts = arrays.pop("counts")
    inner = arrays.pop("class_counts", None)
    n, target, size = header["n"], header["target"], int(columns.sizes.sum())
    if arrays:
        raise ValueError(f"it holds an unknown array {min(arrays)!r}")
    if header["order"] != 1:
        raise ValueError(f"its order is {header['order']!r:.20}; order 1 is known")
    if target not in columns.names:
        raise ValueError(f"its target {target!r:.60} is not a column")
    if type(n) not in (int, float) or not np.isfinite(n) or n <= 0:
        raise ValueError(f"its number of rows is {n!r:.60}")
    if counts.dtype not in ("<i8", "<f8") or counts.shape != (size, size):
        raise ValueError(
            f"its counts have the shape {counts.shape}, not {(size, size)}"
        )
    if not np.isfinite(counts).all() or not np.array_equal(counts, counts.T):
        raise ValueError("its counts are not finite and symmetric")
    pairs = frozenset(frozenset(pair) for pair in header["absent"])
    m = Marginals(
        counts, n, columns, target, settings, inner, pairs, header["provenance"]
    )
    columns.places(name for pair in pairs for name in pair)
    if not isinstance(header["provenance"], dict) or any(len(p) != 2 for p in pairs):
        raise ValueError("its header is not valid")
    if inner is not None:
        width = size - len(m.classes)
        if inner.shape != (len(m.classes), width, width) or inner.dtype != counts.dtype:
            raise ValueError("its class counts do not fit its columns")
    return m
