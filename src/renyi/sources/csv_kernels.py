"""Cells of a plain piece of a CSV file as codes, by a compiled loop.

Most pieces are plain: no carriage return, no quote within quotes, rows of the same
number of cells, few labels a column. Looking these up is most of the work of reading,
and a loop made for it takes half of the time of Arrow's reader
(``benchmarks/bench_csv.py``). Whatever is not plain is left to Arrow, which also says
what is wrong with a file.

Eight bytes are looked at together: where one of them is the delimiter or a newline, an
exclusive or makes it zero, and a few operations on the whole word find the first zero.
A cell of up to 16 bytes thus is two words and a length, by which it is looked up among
the labels of its column. Importing this module imports numba.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from renyi.compiled import compile_loop

MOST = 2**11
"""Labels of a column that are told apart."""

FEW = 2**5
"""Labels of each of many columns, for whose tables a cache has room."""

RAGGED = -1
CROWDED = -2
"""In place of a number of rows: a row that is odd, or too many labels."""

_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)
# Ends a cell, quoted or not; and the loop reads eight bytes at a time.
_MARGIN = b'\n"\n' + bytes(8)


def read_cells(
    data: bytearray, delimiter: str, names: list[str], columns: list[str]
) -> list[pa.DictionaryArray] | None:
    """Return some columns of whole records, or None if they are not plain.

    `data` holds no carriage return; it grows and shrinks meanwhile.
    """
    size = len(data)
    wanted = np.full(len(names), -1, np.intp)
    where = {name: j for j, name in enumerate(names)}
    wanted[[where[name] for name in columns]] = range(len(columns))
    codes = np.empty((len(columns), data.count(b"\n") + 1), np.int32)
    data.extend(_MARGIN)
    view = np.frombuffer(data, np.uint8)
    try:
        for most in _tried(len(columns)):
            starts = np.empty((len(columns), most), np.intp)
            lengths = np.empty_like(starts)
            sizes = np.zeros(len(columns), np.intp)
            bits = (2 * most - 1).bit_length()  # a table more than half full is slow
            found = (wanted, codes, starts, lengths, sizes, bits)
            rows = encode_cells(view, size, np.uint8(ord(delimiter)), *found)
            if rows != CROWDED:
                break
    finally:
        del view  # a bytearray that is looked at cannot shrink
        del data[size:]
    if rows < 0:
        return None
    used = np.arange(starts.shape[1]) < sizes[:, None]
    ends = zip(starts[used].tolist(), lengths[used].tolist(), strict=True)
    texts = pa.array([bytes(data[a : a + b]) for a, b in ends], pa.binary())
    try:
        labels = texts.cast(pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return None
    made = []
    first = 0
    for own, count in zip(codes, sizes.tolist(), strict=True):
        cells = pa.array(own[:rows])
        texts = labels.slice(first, count)
        made.append(pa.DictionaryArray.from_arrays(cells, texts, safe=False))
        first += count
    return made


def _tried(columns: int) -> list[int]:
    """Return how many labels of a column are made room for, one after the other."""
    share = 2 ** (64 * MOST // max(columns, 1)).bit_length() // 2
    return sorted({min(MOST, max(FEW, share)), MOST})


@intrinsic
def _word(context, data, place):  # type: ignore[no-untyped-def]
    """Return eight bytes from any place, the first one lowest."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        start = builder.gep(array.data, [arguments[1]])
        word = builder.bitcast(start, ir.IntType(64).as_pointer())
        return builder.load(word, align=1)

    return types.uint64(data, types.intp), generate


@intrinsic
def _first_bit(context, word):  # type: ignore[no-untyped-def]
    """Return the number of zero bits below the lowest one."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@compile_loop
def _same(data, first, second, length):  # type: ignore[no-untyped-def]
    """Whether two cells are the same bytes."""
    k = 0
    while k < length and data[first + k] == data[second + k]:
        k += 1
    return k == length


@compile_loop
def encode_cells(  # type: ignore[no-untyped-def]
    data, end, delimiter, wanted, codes, starts, lengths, sizes, bits
):
    """Write the code of every cell; return the number of rows, or what is wrong.

    `data` holds whole records up to `end`, without carriage returns, then a newline, a
    quote, and eight bytes more. A quoted cell may not hold a quote. ``wanted[k]`` is
    the row of `codes` for column k of the file, -1 if it is not needed. Codes are
    numbered in the order of first sight; `starts` and `lengths` are filled with where
    the first cell of each label is, and `sizes`, zero before, with the numbers of
    labels, at most those of a row of `starts`, which are looked up in ``2**bits``
    slots. One function: a call for each cell would make it five times slower.
    """
    count = wanted.size
    most = starts.shape[1]
    slots = 1 << bits
    shift = np.uint64(64 - bits)
    shape = (codes.shape[0], slots)
    mask = slots - 1
    used = np.zeros(shape, np.int32)  # code + 1 of the label in each slot
    lows = np.empty(shape, np.uint64)
    highs = np.empty(shape, np.uint64)
    breaks = np.uint64(10) * _ONES
    parts = np.uint64(delimiter) * _ONES
    quotes = np.uint64(34) * _ONES
    place = np.intp(0)
    row = 0
    while place < end:
        if data[place] == 10:  # a blank line is no row
            place += 1
            continue
        for column in range(count):
            first = breaks
            second = parts
            quoted = data[place] == 34
            if quoted:
                first = quotes
                second = quotes
                place += 1
            begin = place
            found = _ZERO
            low = high = mixed = _ZERO
            while not found:
                word = _word(data, place)
                x = word ^ first
                y = word ^ second
                found = (((x - _ONES) & ~x) | ((y - _ONES) & ~y)) & _HIGHS
                step = np.intp(8)
                if found:
                    below = _first_bit(found) & ~np.uint64(7)
                    word &= (_ONE << below) - _ONE
                    step = np.intp(below >> np.uint64(3))
                if place == begin:
                    low = word
                elif place == begin + 8:
                    high = word
                mixed = (mixed ^ word) * _FACTOR
                place += step
            length = place - begin
            if quoted:
                place += 1
                if place > end or (data[place] != 10 and data[place] != delimiter):
                    return RAGGED
            if (data[place] == 10) != (column == count - 1):
                return RAGGED
            k = wanted[column]
            if k >= 0:
                slot = np.intp((mixed ^ np.uint64(length)) * _FACTOR >> shift)
                slot = (slot + k) & mask  # one label of all columns: not one cache line
                while used[k, slot]:
                    code = used[k, slot] - 1
                    same = lows[k, slot] == low and highs[k, slot] == high
                    if same and lengths[k, code] == length:
                        if length <= 16:
                            break
                        if _same(data, starts[k, code], begin, length):
                            break
                    slot = (slot + 1) & mask
                if not used[k, slot]:
                    if sizes[k] == most:
                        return CROWDED
                    starts[k, sizes[k]] = begin
                    lengths[k, sizes[k]] = length
                    lows[k, slot] = low
                    highs[k, slot] = high
                    sizes[k] += 1
                    used[k, slot] = sizes[k]
                codes[k, row] = used[k, slot] - 1
            place += 1
        row += 1
    return row
