"""Compiled counting by bit planes, present with the extra ``fast``.

The caller is :mod:`renyi.counting.bitplanes`. The indicator of a category is a
*plane*: one bit per row, 64 rows to a word. The count of a pair of categories is the
number of bits that two planes share, ``popcount(x & y)``: 64 rows by one instruction,
512 by one vector instruction where the processor can count the bits of vectors.

Loops over words would do, but no compiler finds by itself the form that is fast: nine
counts at a time, of three planes with three others, so that each word is loaded once
for three counts and no sum waits for the one before. Hence the two intrinsics, which
write vector instructions of LLVM. These are not tied to a processor: without vectors of
eight words or without an instruction that counts their bits, LLVM makes the same of
what there is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from renyi.compiled import compile_loop
from renyi.counting.kernels import popcount

LANES = 8  # words of a vector
SIDE = 3  # planes on each side of a tile: 9 sums and 6 planes fit in 32 registers
WORDS = 256  # of a plane in a block of rows: 200 planes of 2 kB stay in the near cache
BLOCK = 64 * WORDS  # rows
PANEL = 60  # planes that every other plane meets before the next ones are fetched
NONE = 255  # short code of a row that is in none of the planes

_WORD, _BYTE = ir.IntType(64), ir.IntType(8)
_VECTOR = ir.VectorType(_WORD, LANES)
_BYTES = ir.VectorType(_BYTE, 64)


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Return the address of the first element of an array."""
    return context.make_array(kind)(context, builder, array).data


def _function(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Declare a function of LLVM's own."""
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)


@intrinsic
def _write_plane(context, codes, code, words, plane):  # type: ignore[no-untyped-def]
    """Set bit r of `plane` where ``codes[r] == code``, for 64 times `words` rows."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        source = _data(context, builder, signature.args[0], arguments[0])
        target = _data(context, builder, signature.args[3], arguments[3])
        wanted = builder.insert_element(
            ir.Constant(_BYTES, ir.Undefined), arguments[1], ir.Constant(_WORD, 0)
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(wanted, wanted, everywhere)
        with cgutils.for_range(builder, arguments[2]) as loop:
            first = builder.mul(loop.index, ir.Constant(_WORD, 64))
            place = builder.gep(source, [first])
            some = builder.load(builder.bitcast(place, _BYTES.as_pointer()), align=1)
            same = builder.icmp_unsigned("==", some, wanted)
            word = builder.gep(target, [loop.index])
            builder.store(builder.bitcast(same, _WORD), word)
        return context.get_dummy_value()

    return types.void(codes, types.uint8, types.intp, plane), generate


@intrinsic
def _add_tile(context, planes, i, j, steps, out):  # type: ignore[no-untyped-def]
    """Add to ``out[i : i + 3, j : j + 3]`` the bits that planes i.. and j.. share.

    Each plane has `WORDS` words, of which the first `LANES` times `steps` are counted.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data, first, second, steps, out = arguments
        data = _data(context, builder, signature.args[0], data)
        count = _function(builder, f"llvm.ctpop.v{LANES}i64", _VECTOR, _VECTOR)
        zero = ir.Constant(_VECTOR, [0] * LANES)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(SIDE**2)]
        left, right = (_starts(builder, data, each) for each in (first, second))
        with cgutils.for_range(builder, steps) as loop:
            xs = [_vector(builder, start, loop.index) for start in left]
            ys = [_vector(builder, start, loop.index) for start in right]
            shared = [builder.and_(x, y) for x in xs for y in ys]
            for total, bits in zip(sums, shared, strict=True):
                more = builder.add(builder.load(total), builder.call(count, [bits]))
                builder.store(more, total)
        table = context.make_array(signature.args[4])(context, builder, out)
        _add_sums(builder, table, first, second, sums)
        return context.get_dummy_value()

    signature = types.void(planes, types.intp, types.intp, types.intp, out)
    return signature, generate


def _starts(builder: Any, data: Any, plane: Any) -> Any:
    """Return where each of the three planes from `plane` on begins."""
    begin = builder.mul(plane, ir.Constant(_WORD, WORDS))
    return [
        builder.gep(data, [builder.add(begin, ir.Constant(_WORD, side * WORDS))])
        for side in range(SIDE)
    ]


def _vector(builder: Any, start: Any, step: Any) -> Any:
    """Load the vector number `step` of a plane."""
    place = builder.gep(start, [builder.mul(step, ir.Constant(_WORD, LANES))])
    return builder.load(builder.bitcast(place, _VECTOR.as_pointer()), align=8)


def _add_sums(
    builder: Any, table: Any, first: Any, second: Any, sums: list[Any]
) -> None:
    """Add the lanes of each sum to its cell of the table."""
    add = _function(builder, f"llvm.vector.reduce.add.v{LANES}i64", _WORD, _VECTOR)
    width = cgutils.unpack_tuple(builder, table.shape)[1]
    for cell, total in enumerate(sums):
        row = builder.add(first, ir.Constant(_WORD, cell // SIDE))
        column = builder.add(second, ir.Constant(_WORD, cell % SIDE))
        place = builder.add(builder.mul(row, width), column)
        place = builder.gep(table.data, [place])
        more = builder.call(add, [builder.load(total)])
        builder.store(builder.add(builder.load(place), more), place)


@compile_loop
def _short(code, base):  # type: ignore[no-untyped-def]
    """Return ``code - base`` as a byte, `NONE` where it does not fit."""
    return np.uint8(min(np.uint32(code - base), np.uint32(NONE)))


@compile_loop
def short_codes(source, order, low, high, base, short):  # type: ignore[no-untyped-def]
    """Write ``code - base`` of some rows as bytes, `NONE` where that does not fit.

    The rows are `low` to `high`, or with an order those at these places of it.
    """
    target = short[: high - low]
    if order is not None:
        rows = order[low:high]
        for r in range(target.size):
            target[r] = _short(source[rows[r]], base)
    elif base == 0:  # for bytes a mere copy
        part = source[low:high]
        for r in range(target.size):
            target[r] = _short(part[r], 0)
    else:
        part = source[low:high]
        for r in range(target.size):
            target[r] = _short(part[r], base)
    short[high - low :] = NONE


@compile_loop
def make_planes(  # type: ignore[no-untyped-def]
    codes, order, columns, kept, low, high, short, planes
):
    """Write the planes of some rows; return how many words of each are in use."""
    words = LANES * ((high - low + 64 * LANES - 1) // (64 * LANES))
    used = short[: 64 * words]
    plane = 0
    for j in range(columns.size):
        for base in range(0, kept[j], NONE):
            short_codes(codes[columns[j]], order, low, high, base, used)
            for code in range(min(kept[j] - base, NONE)):
                _write_plane(used, np.uint8(code), words, planes[plane])
                plane += 1
    return words


@compile_loop
def plane_counts(  # type: ignore[no-untyped-def]
    codes, order, columns, kept, owner, low, high, margins, pairs
):
    """Add the bits of every plane to `margins`, those that two share to `pairs`.

    The first ``kept[j]`` categories of each of the `columns` have a plane; `owner` is
    the column of every plane, filled up to a multiple of `SIDE`. Rows are those from
    `low` to `high`, or with an `order` those at these places of it. Of `pairs` only
    cells right of the diagonal whose columns differ are meant.
    """
    total = owner.size
    # A vector that lies in two lines of the cache is loaded twice.
    raw = np.zeros(total * WORDS + LANES, np.uint64)
    shift = -(raw.ctypes.data // 8) % LANES
    planes = raw[shift : shift + total * WORDS].reshape((total, WORDS))
    short = np.empty(BLOCK, np.uint8)
    for start in range(low, high, BLOCK):
        end = min(high, start + BLOCK)
        words = make_planes(codes, order, columns, kept, start, end, short, planes)
        for plane in range(total):
            margins[plane] += _ones(planes[plane, :words])
        for panel in range(0, total, PANEL):
            stop = min(total, panel + PANEL)
            for i in range(0, stop, SIDE):
                for j in range(max(i, panel), stop, SIDE):
                    if owner[i] != owner[j + SIDE - 1]:
                        _add_tile(planes, i, j, words // LANES, pairs)


@compile_loop
def _ones(words):  # type: ignore[no-untyped-def]
    """Return the number of bits that are set."""
    count = np.uint64(0)
    for w in range(words.size):
        count += popcount(words[w])
    return np.int64(count)


@compile_loop
def complete(margins, pairs, kept, n, out):  # type: ignore[no-untyped-def]
    """Fill `out` with the counts of all categories, the last ones included.

    The last indicator of a column is 1 minus the others, so in every row of `pairs` the
    counts of a column add up to the margin of the row, and the rows of a column to all
    margins.
    """
    full = np.empty(len(out), np.int64)
    _widen(margins, n, kept, 0, full, 0)
    plane = begin = 0
    for i in range(kept.size):
        end = begin + kept[i]
        last = out[end]
        last[end + 1 :] = full[end + 1 :]
        for c in range(begin, end):
            row = out[c]
            _widen(pairs[plane], full[c], kept, i + 1, row, end + 1)
            for b in range(end + 1, last.size):
                last[b] -= row[b]
            plane += 1
        for c in range(begin, end + 1):
            out[c, c] = full[c]
        begin = end + 1
    _mirror(out)


@compile_loop
def _widen(counts, total, kept, first, out, start):  # type: ignore[no-untyped-def]
    """Copy counts of the columns from `first` on, each with what is left of `total`.

    Column j of `out` begins at `start`, that of `counts` one place less per column.
    """
    place = start
    for j in range(first, kept.size):
        left = total
        for q in range(place, place + kept[j]):
            out[q] = counts[q - j]
            left -= counts[q - j]
        place += kept[j]
        out[place] = left
        place += 1


@compile_loop
def _mirror(table):  # type: ignore[no-untyped-def]
    """Copy what is above the diagonal below it, square by square."""
    side = 32
    for low in range(0, len(table), side):
        for first in range(0, low + 1, side):
            for i in range(low, min(low + side, len(table))):
                row = table[i]
                for j in range(first, min(first + side, i)):
                    row[j] = table[j, i]
