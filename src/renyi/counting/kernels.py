"""Compiled inner loops, present when the extra ``fast`` (numba) is installed.

The callers are :mod:`renyi.counting.pair_counts` and :mod:`renyi.counting.onehot`; each
kernel does in one pass what numpy does in several. Counts are exact; sums of weights
and scores are added in the same order, so that they keep the same bits with and without
it (:func:`level_sums` is the exception, and is chosen by the shape of the table alone).

All kernels run in the calling thread and release the interpreter lock: numba's own
thread layers may abort a process which calls them from several Python threads.

Contiguous arrays are cut into slices before each inner loop. An index such as
``x[low + r]`` makes numba test for negative values and prevents the vectorised form:
with slices a million rows of 21 columns take 29 ms instead of 47 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.extending import intrinsic


def _compiled(function: Callable[..., Any]) -> Any:
    """Compile on first use and keep the machine code on disk where that is allowed."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        # Neither the package folder nor the home folder can be written.
        return numba.njit(nogil=True)(function)


@_compiled
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


@_compiled
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
    short_codes = np.empty(min(rows, n), np.uint16)
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
                brief = short_codes[:size]
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


@_compiled
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
def _popcount(context, value):  # type: ignore[no-untyped-def]
    """Count the bits of a 64-bit integer by the machine's own instruction."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_compiled
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
            c0 += _popcount(x ^ y0[w])
            c1 += _popcount(x ^ y1[w])
            c2 += _popcount(x ^ y2[w])
            c3 += _popcount(x ^ y3[w])
        out[b] -= c0
        out[b + 1] -= c1
        out[b + 2] -= c2
        out[b + 3] -= c3
        b += 4
    while b < right.shape[0]:
        y0, c0 = right[b, 0, low:high], np.uint64(0)
        for w in range(row.size):
            c0 += _popcount(row[w] ^ y0[w])
        out[b] -= c0
        b += 1


@_compiled
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
            count += _popcount(differ[w])
        out[b] -= count


@_compiled
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


@_compiled
def level_sums(rows, values, block, out):  # type: ignore[no-untyped-def]
    """Add ``values[r]`` to ``out[code, j]`` for the code of every row r and column j.

    `rows` has shape (n, d). One level at a time over a block of columns: a comparison
    and a masked addition vectorise, a scattered addition does not. Four rows at a time
    share the reading and writing of the sums.
    """
    n, d = rows.shape
    whole = n - n % 4
    for low in range(0, d, block):
        high = min(d, low + block)
        for level in range(out.shape[0]):
            target, wanted = out[level, low:high], np.uint8(level)
            for r in range(0, whole, 4):
                c0, c1 = rows[r, low:high], rows[r + 1, low:high]
                c2, c3 = rows[r + 2, low:high], rows[r + 3, low:high]
                v0, v1, v2, v3 = values[r], values[r + 1], values[r + 2], values[r + 3]
                for j in range(target.size):
                    x0 = v0 if c0[j] == wanted else 0.0
                    x1 = v1 if c1[j] == wanted else 0.0
                    x2 = v2 if c2[j] == wanted else 0.0
                    x3 = v3 if c3[j] == wanted else 0.0
                    target[j] += (x0 + x1) + (x2 + x3)
            for r in range(whole, n):
                c0, v0 = rows[r, low:high], values[r]
                for j in range(target.size):
                    target[j] += v0 if c0[j] == wanted else 0.0


@_compiled
def class_level_counts(rows, y, block, out):  # type: ignore[no-untyped-def]
    """Add 1 to ``out[y[r], code, j]`` for the code of every row r and column j.

    Sums are kept in bytes, 64 to an instruction, and emptied before they overflow.
    """
    n, d = rows.shape
    classes, levels = out.shape[0], out.shape[1]
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
                out[:, :, low:high] += small[:, :, : high - low]
                small[:] = 0
