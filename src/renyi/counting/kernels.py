"""Compiled inner loops, present when the extra ``fast`` (numba) is installed.

The callers are :mod:`renyi.counting.pair_counts` and :mod:`renyi.counting.onehot`; each
kernel does in one pass what numpy does in several. Counts are exact; sums of weights
and scores are added in the same order, so that they keep the same bits with and without
it (:func:`level_sums` is the exception, and is chosen by the shape of the table alone).

Contiguous arrays are cut into slices before each inner loop. An index such as
``x[low + r]`` makes numba test for negative values and prevents the vectorised form:
with slices a million rows of 21 columns take 29 ms instead of 47 ms.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from renyi.compiled import compile_loop

LANES = 8  # words of a vector
SIDE = 3  # planes on each side of a tile: 9 sums and 6 planes fit in 32 registers
WORDS = 256  # of a plane in a block of rows: 200 planes of 2 kB stay in the near cache
BLOCK = 64 * WORDS  # rows
PANEL = 60  # planes that every other plane meets before the next ones are fetched
NONE = 255  # short code of a row that is in none of the planes


@compile_loop
def pack(  # type: ignore[no-untyped-def]
    codes, columns, strides, starts, low, size, packed
):
    """Write the codes of all super-columns for `size` rows from `low` to `packed`."""
    for group in range(starts.size - 1):
        target = packed[group, :size]
        target[:] = 0
        for c in range(starts[group], starts[group + 1]):
            source = codes[columns[c], low : low + size]
            stride = np.uint32(strides[c])
            for r in range(target.size):
                target[r] += stride * np.uint32(source[r])


@compile_loop
def joint_histograms(  # type: ignore[no-untyped-def]
    codes,
    weights,
    columns,
    strides,
    starts,
    first,
    second,
    widths,
    begins,
    tables,
    rows,
):
    """Add the joint histogram of each pair of super-columns to its piece of `tables`.

    Pair ``p`` joins super-columns ``first[p]`` and ``second[p]``, the latter of
    ``widths[p]`` values, in ``tables[begins[p] : begins[p + 1]]``. `weights` is None
    (then the counts are exact integers) or one number per row; weights are summed
    within a block of `rows` rows before they join the table, as numpy does it. A block
    has fewer than 65,536 rows, so that 16 bits hold its counts.
    """
    n = codes.shape[1]
    packed = np.empty((starts.size - 1, min(rows, n)), np.uint32)
    codes_of_pair = np.empty(min(rows, n), np.uint32)
    brief_codes = np.empty(min(rows, n), np.uint16)
    short = np.zeros(2**16, np.uint16)
    for low in range(0, n, rows):
        size = min(rows, n - low)
        pack(codes, columns, strides, starts, low, size, packed)
        joint = codes_of_pair[:size]
        for p in range(first.size):
            a = packed[first[p], :size]
            b = packed[second[p], :size]
            width = np.uint32(widths[p])
            table = tables[begins[p] : begins[p + 1]]
            if weights is None and table.size <= min(2**16, 2 * size):
                # Short counts keep twice or four times as many cells in cache.
                brief = brief_codes[:size]
                for r in range(brief.size):
                    brief[r] = np.uint16(a[r] * width + b[r])
                for r in range(brief.size):
                    short[brief[r]] += np.uint16(1)
                for cell in range(table.size):
                    table[cell] += short[cell]
                short[: table.size] = 0
                continue
            for r in range(joint.size):
                joint[r] = a[r] * width + b[r]
            if weights is None:
                for r in range(joint.size):
                    table[joint[r]] += 1
            else:
                block = np.zeros(table.size)
                block_weights = weights[low : low + size]
                for r in range(joint.size):
                    block[joint[r]] += block_weights[r]
                for cell in range(table.size):
                    table[cell] += block[cell]


@compile_loop
def lookup_sum(codes, tables, starts, rows, out):  # type: ignore[no-untyped-def]
    """Add ``tables[starts[j] + codes[j, r], k]`` to ``out[k, r]``, columns in order."""
    n = codes.shape[1]
    for low in range(0, n, rows):
        high = min(low + rows, n)
        for k in range(out.shape[0]):
            target = out[k, low:high]
            for j in range(codes.shape[0]):
                table = tables[k, starts[j] :]
                source = codes[j, low:high]
                for r in range(target.size):
                    target[r] += table[source[r]]


@intrinsic
def popcount(context, value):  # type: ignore[no-untyped-def]
    """Count the bits of a 64-bit integer by the machine's own instruction."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@compile_loop
def bit_differences(left, right, a, first, low, high, out):  # type: ignore[no-untyped-def]
    """Subtract the bits in which row a differs from the rows ``first`` and on.

    Four rows at a time, so that each word of row a is read once for four.
    """
    row = left[a, 0, low:high]
    b = first
    while b + 4 <= right.shape[0]:
        y0, y1 = right[b, 0, low:high], right[b + 1, 0, low:high]
        y2, y3 = right[b + 2, 0, low:high], right[b + 3, 0, low:high]
        c0, c1, c2, c3 = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
        for w in range(row.size):
            x = row[w]
            c0 += popcount(x ^ y0[w])
            c1 += popcount(x ^ y1[w])
            c2 += popcount(x ^ y2[w])
            c3 += popcount(x ^ y3[w])
        out[b] -= c0
        out[b + 1] -= c1
        out[b + 2] -= c2
        out[b + 3] -= c3
        b += 4
    while b < right.shape[0]:
        y0, c0 = right[b, 0, low:high], np.uint64(0)
        for w in range(row.size):
            c0 += popcount(row[w] ^ y0[w])
        out[b] -= c0
        b += 1


@compile_loop
def plane_differences(left, right, a, first, low, high, out):  # type: ignore[no-untyped-def]
    """Do the same for codes of several bits, which differ where any plane does."""
    differ = np.empty(high - low, np.uint64)
    for b in range(first, right.shape[0]):
        differ[:] = 0
        for p in range(left.shape[1]):
            x, y = left[a, p, low:high], right[b, p, low:high]
            for w in range(differ.size):
                differ[w] |= x[w] ^ y[w]
        count = np.uint64(0)
        for w in range(differ.size):
            count += popcount(differ[w])
        out[b] -= count


@compile_loop
def plane_agreements(left, right, same, block, out):  # type: ignore[no-untyped-def]
    """Subtract from ``out[a, b]`` the columns on which rows a and b differ.

    Row a has its codes as bits: plane p holds bit p of all codes, in 64-bit words.
    Words are taken in blocks that stay in cache. With `same`, right is left, each pair
    is compared once and written twice.
    """
    words = left.shape[2]
    for low in range(0, words, block):
        high = min(words, low + block)
        for a in range(left.shape[0]):
            first = a if same else 0
            if left.shape[1] == 1:
                bit_differences(left, right, a, first, low, high, out[a])
            else:
                plane_differences(left, right, a, first, low, high, out[a])
    if same:
        for a in range(left.shape[0]):
            for b in range(a):
                out[a, b] = out[b, a]


@compile_loop
def level_masks(rows, first, count, low, level, masks):  # type: ignore[no-untyped-def]
    """Set bit r of ``masks[j]`` where row ``first + r`` has the level in a column.

    The columns are those from `low` on; there are at most 8 rows.
    """
    wanted, size = np.uint8(level), masks.size
    if count < 8:
        masks[:] = 0
        for r in range(count):
            codes, shift = rows[first + r, low : low + size], np.uint8(r)
            for j in range(size):
                masks[j] |= np.uint8(np.uint8(codes[j] == wanted) << shift)
        return
    c0, c1 = rows[first, low : low + size], rows[first + 1, low : low + size]
    c2, c3 = rows[first + 2, low : low + size], rows[first + 3, low : low + size]
    c4, c5 = rows[first + 4, low : low + size], rows[first + 5, low : low + size]
    c6, c7 = rows[first + 6, low : low + size], rows[first + 7, low : low + size]
    for j in range(size):
        masks[j] = (
            np.uint8(c0[j] == wanted)
            | np.uint8(c1[j] == wanted) << np.uint8(1)
            | np.uint8(c2[j] == wanted) << np.uint8(2)
            | np.uint8(c3[j] == wanted) << np.uint8(3)
            | np.uint8(c4[j] == wanted) << np.uint8(4)
            | np.uint8(c5[j] == wanted) << np.uint8(5)
            | np.uint8(c6[j] == wanted) << np.uint8(6)
            | np.uint8(c7[j] == wanted) << np.uint8(7)
        )


@compile_loop
def level_sums(rows, values, block, out):  # type: ignore[no-untyped-def]
    """Add ``values[r]`` to ``out[j, code]`` for the code of every row r and column j.

    `rows` has shape (n, d). Of 8 rows, those at a level make a byte, and what these add
    is looked up among the sums of all 256 subsets.
    """
    n, d = rows.shape
    masks, sums = np.empty(block, np.uint8), np.zeros(256)
    for first in range(0, n, 8):
        count = min(8, n - first)
        for r in range(count):
            half = 1 << r
            for subset in range(half):
                sums[half + subset] = sums[subset] + values[first + r]
        for low in range(0, d, block):
            some = masks[: min(block, d - low)]
            for level in range(out.shape[1]):
                level_masks(rows, first, count, low, level, some)
                target = out[low : low + some.size, level]
                for j in range(some.size):
                    target[j] += sums[some[j]]


@compile_loop
def class_level_counts(rows, y, block, out):  # type: ignore[no-untyped-def]
    """Add 1 to ``out[j, code, y[r]]`` for the code of every row r and column j.

    Sums are kept in bytes, 64 to an instruction, and emptied before they overflow.
    """
    n, d = rows.shape
    levels, classes = out.shape[1], out.shape[2]
    small = np.zeros((classes, levels, min(block, d)), np.uint8)
    for low in range(0, d, block):
        high = min(d, low + block)
        for r in range(n):
            codes = rows[r, low:high]
            for level in range(levels):
                target, wanted = small[y[r], level, : high - low], np.uint8(level)
                for j in range(codes.size):
                    target[j] += np.uint8(codes[j] == wanted)
            if r % 255 == 254 or r == n - 1:
                for j in range(codes.size):
                    for level in range(levels):
                        for k in range(classes):
                            out[low + j, level, k] += small[k, level, j]
                small[:] = 0


# ---- bit planes

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
