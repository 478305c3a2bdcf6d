"""Cells of a plain piece of a CSV file as codes, by a compiled loop.

Most pieces are plain: no carriage return, no quote within quotes, rows of the same
number of cells, few labels a column. Looking these up is most of the work of reading,
and a loop made for it takes less than half of the time of Arrow's reader. Whatever is
not plain is left to Arrow, which also says what is wrong with a file.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from renyi import compiled

if TYPE_CHECKING:
    from renyi.sources.csv import Header

# What the loop saves, as seconds of numpy's time: numba is loaded for large files.
_SAVED = 1e-9  # a byte
# Ends a cell, quoted or not; and the loop reads eight bytes at a time.
_MARGIN = b'\n"\n' + bytes(8)


def encoded(
    header: Header, data: bytearray, columns: list[str]
) -> list[pa.DictionaryArray] | None:
    r"""Return some columns of whole records, or None if they are not plain.

    They are not if it is not worth while to load the compiled loop, either.

    >>> from renyi.sources.csv import Header
    >>> header = Header(",", ["u", "v"], 1, 4)
    >>> print(encoded(header, bytearray(b"a,x\r\n"), ["v"]))
    None
    """
    delimiter = header.delimiter.encode()
    plain = len(header.names) > 1 and len(delimiter) == 1
    if not plain or sys.byteorder != "little" or b"\r" in data:
        return None
    loops = "renyi.sources.csv_kernels"
    if compiled.load_for(loops, len(data) * _SAVED) is None:
        return None
    size = len(data)
    data.extend(_MARGIN)
    try:
        return _encoded(header, data, size, delimiter[0], columns)
    finally:
        del data[size:]


def _encoded(
    header: Header, data: bytearray, size: int, delimiter: int, columns: list[str]
) -> list[pa.DictionaryArray] | None:
    from renyi.sources import csv_kernels

    wanted = np.full(len(header.names), -1, np.intp)
    wanted[[header.names.index(name) for name in columns]] = range(len(columns))
    codes = np.empty((len(columns), data.count(b"\n", 0, size) + 1), np.int32)
    starts = np.empty((len(columns), csv_kernels.MOST), np.intp)
    lengths, sizes = np.empty_like(starts), np.zeros(len(columns), np.intp)
    bytes_of = np.frombuffer(data, np.uint8)
    rows = csv_kernels.encode_cells(
        bytes_of, size, np.uint8(delimiter), wanted, codes, starts, lengths, sizes
    )
    del bytes_of  # a bytearray that is looked at cannot shrink
    if rows < 0:
        return None
    made = []
    for k, count in enumerate(sizes):
        ends = zip(starts[k, :count], lengths[k, :count], strict=True)
        texts = pa.array([bytes(data[a : a + b]) for a, b in ends], pa.binary())
        try:
            labels = texts.cast(pa.string())
        except pa.ArrowInvalid:  # no UTF-8
            return None
        made.append(pa.DictionaryArray.from_arrays(pa.array(codes[k, :rows]), labels))
    return made
