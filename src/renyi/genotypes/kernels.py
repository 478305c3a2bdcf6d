# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Compiled products of packed genotypes.

*Agreement.* 64 variants of 64 samples are split into low and high bits and transposed,
so that every sample has two planes of bits. Two samples differ where either plane does.
A tile counts four pairs at a time.

*Sums by code.* Half a byte is two genotypes. The sums that their two samples add to the
four codes are one of 16 vectors. So two genotypes take one load and one addition.

*Scores.* Four variants of four samples are transposed within a word of 32 bits. Each
byte then has the four codes of one sample, which add one of 256 numbers to its score.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from renyi.counting.compiled import compile_loop
from renyi.counting.kernels import (
    LANES,
    counted_bits,
    element_pointer,
    empty_planes,
    place_of,
    popcount,
)
from renyi.genotypes.packed import MANY, SPAN, TOGETHER

WORDS = 128  # words of a plane to compare before the next are loaded
BLOCKS = 2  # blocks of these words to compare before counts are written
SQUARE = 96  # samples to compare with as many others, all in the near cache
STRIP = 12  # samples of these that fit in the nearest cache
TALL = 2  # samples of a tile: four sums and eight planes fit in 16 registers
WIDE = 2
QUADS = TOGETHER // 4  # groups of four variants that are added to scores at a time
BYTES = 512  # bytes of a variant whose scores stay in the nearest cache

_WORD = ir.IntType(64)
_BYTE = ir.IntType(8)
_FOUR = ir.VectorType(ir.DoubleType(), 4)


# ---- loads


@intrinsic
def _word_at(context, data, row, byte):
    """Return eight bytes of a row, from any position."""

    def generate(context, builder, signature, arguments):
        address = element_pointer(context, builder, data, *arguments)
        return builder.load(builder.bitcast(address, _WORD.as_pointer()), align=1)

    return types.uint64(data, types.intp, types.intp), generate


@compile_loop
def _word(data, row, byte):
    """Return eight bytes of a row, with zeros after its end."""
    if byte + 8 <= data.shape[1]:
        return _word_at(data, row, byte)
    word = np.uint64(0)
    for place in range(byte, data.shape[1]):
        word |= np.uint64(data[row, place]) << np.uint64(8 * (place - byte))
    return word


# ---- planes


@compile_loop
def _squeeze(words, shift, out, high):
    """Write every other bit of `words`, from `shift` on, to a half of `out`."""
    for k in range(out.size):
        x = (words[k] >> np.uint64(shift)) & np.uint64(0x5555555555555555)
        x = (x | (x >> np.uint64(1))) & np.uint64(0x3333333333333333)
        x = (x | (x >> np.uint64(2))) & np.uint64(0x0F0F0F0F0F0F0F0F)
        x = (x | (x >> np.uint64(4))) & np.uint64(0x00FF00FF00FF00FF)
        x = (x | (x >> np.uint64(8))) & np.uint64(0x0000FFFF0000FFFF)
        x = (x | (x >> np.uint64(16))) & np.uint64(0x00000000FFFFFFFF)
        out[k] |= x << np.uint64(high)


@compile_loop
def _turn(square):
    """Transpose 64 words as a square of bits."""
    half = 32
    mask = np.uint64(0x00000000FFFFFFFF)
    while half:
        shift = np.uint64(half)
        for low in range(0, 64, 2 * half):
            x = square[low : low + half]
            y = square[low + half : low + 2 * half]
            for k in range(x.size):
                t = ((x[k] >> shift) ^ y[k]) & mask
                y[k] ^= t
                x[k] ^= t << shift
        half //= 2
        mask ^= mask << np.uint64(half)


@compile_loop
def write_codes(data, rows, samples, first, step, merge, planes):
    """Write the planes of samples for some rows of the data.

    Eight words are a cache line; every `step`-th line is written, starting with
    `first`. With `merge` a missing genotype becomes code 0.
    """
    place = np.full(4 * data.shape[1], -1)
    place[samples] = np.arange(samples.size)
    low = np.empty(64, np.uint64)
    high = np.empty(64, np.uint64)
    words = np.zeros((2, 64), np.uint64)
    groups = (place.size + 63) // 64
    for line in range(8 * first, len(planes) * WORDS, 8 * step):
        block = planes[line // WORDS]
        for group in range(groups):
            some = place[64 * group : 64 * group + 64]
            if some.max() < 0:
                continue
            for w in range(line, line + 8):
                count = min(64, max(0, rows.size - 64 * w))
                _read_words(data, rows[64 * w : 64 * w + count], 16 * group, words)
                low[:] = 0
                high[:] = 0
                for h in range(2):
                    _squeeze(words[h], 0, low, 32 * h)
                    _squeeze(words[h], 1, high, 32 * h)
                if merge:
                    for k in range(low.size):
                        low[k] &= high[k]
                _turn(low)
                _turn(high)
                word = w % WORDS
                for s in range(some.size):
                    if some[s] >= 0:
                        block[some[s], 0, word] = low[s]
                        block[some[s], 1, word] = high[s]


@compile_loop
def _read_words(data, rows, byte, words):
    """Read 16 bytes of up to 64 rows, zeros for the others."""
    for k in range(rows.size):
        words[0, k] = _word(data, rows[k], byte)
        words[1, k] = _word(data, rows[k], byte + 8)
    words[:, rows.size :] = 0


def layout(n, d):
    """Return two planes for each of n samples, their variants, and the squares.

    The words of a block are contiguous. At distances of powers of two, they would share
    few places of the cache.
    """
    blocks = min(BLOCKS, -(-d // (64 * WORDS)))
    squares = -(-n // SQUARE)
    planes = empty_planes(2 * blocks * squares * SQUARE, WORDS)
    shape = (blocks, squares * SQUARE, 2, WORDS)
    return planes.reshape(shape), 64 * WORDS * blocks, squares


def _tile(join, context, planes, cells):
    """Write the code of a tile; `join` combines two planes into one."""

    def generate(context, builder, signature, arguments):
        data, block, i, j, table, row, column = arguments
        samples = [builder.add(i, place_of(k)) for k in range(TALL)]
        samples += [builder.add(j, place_of(k)) for k in range(WIDE)]
        starts = [
            element_pointer(
                context, builder, planes, data, block, sample, place_of(p), place_of(0)
            )
            for sample in samples
            for p in range(2)
        ]
        pairs = [(x, y) for x in range(TALL) for y in range(WIDE)]

        def joined(vectors):
            low = vectors[::2]
            high = vectors[1::2]
            return [
                join(
                    builder,
                    builder.xor(low[x], low[TALL + y]),
                    builder.xor(high[x], high[TALL + y]),
                )
                for x, y in pairs
            ]

        counts = counted_bits(builder, starts, place_of(WORDS // LANES), joined)
        for count, (x, y) in zip(counts, pairs, strict=True):
            at = builder.add(row, place_of(x)), builder.add(column, place_of(y))
            cell = element_pointer(context, builder, cells, table, *at)
            builder.store(builder.add(builder.load(cell), count), cell)
        return context.get_dummy_value()

    kinds = planes, *[types.intp] * 3, cells, *[types.intp] * 2
    return types.void(*kinds), generate


@intrinsic
def _add_either(context, planes, block, i, j, cells, row, column):
    """Add the bits in which samples i.. and j.. differ in either plane of a block."""
    return _tile(ir.IRBuilder.or_, context, planes, cells)


@intrinsic
def _add_both(context, planes, block, i, j, cells, row, column):
    """Add the bits in which samples i.. and j.. differ in both planes of a block."""
    return _tile(ir.IRBuilder.and_, context, planes, cells)


@compile_loop
def _square_counts(planes, i, j, n, both, cells):
    """Count in how many variants a square of samples differs from another."""
    cells[:] = 0
    tall = min(SQUARE, n - i)
    wide = min(SQUARE, n - j)
    for block in range(len(planes)):
        for strip in range(0, wide, STRIP):
            for a in range(0, tall, TALL):
                for b in range(strip, min(strip + STRIP, wide), WIDE):
                    if j + b + WIDE <= i + a:
                        continue
                    if both:
                        _add_both(planes, block, i + a, j + b, cells, a, b)
                    else:
                        _add_either(planes, block, i + a, j + b, cells, a, b)


@compile_loop
def subtract_differences(planes, square, both, times, out):
    """Subtract `times` the counts of a square of samples with all before them."""
    n = len(out)
    j = square * SQUARE
    cells = np.zeros((SQUARE, SQUARE), np.int64)
    for i in range(0, j + 1, SQUARE):
        _square_counts(planes, i, j, n, both, cells)
        for a in range(min(SQUARE, n - i)):
            target = out[i + a, j : min(j + SQUARE, n)]
            for b in range(target.size):
                target[b] -= times * cells[a, b]


# ---- counts


@compile_loop
def mask_counts(data, rows, mask, total, out):
    """Count the samples of a mask by code: ``out[row, code]``.

    The mask has bit 2 s for sample s; `total` is their number.
    """
    for r in range(rows.size):
        row = rows[r]
        low = high = both = np.uint64(0)
        for w in range(mask.size):
            word = _word(data, row, 8 * w)
            x = word & mask[w]
            y = (word >> np.uint64(1)) & mask[w]
            low += popcount(x)
            high += popcount(y)
            both += popcount(x & y)
        out[r, 1] = low - both
        out[r, 2] = high - both
        out[r, 3] = both
        out[r, 0] = total - np.int64(low + high - both)


@compile_loop
def add_missing(data, rows, samples, first, last, table, out):
    """Add ``table[r, code of b]`` to ``out[a, b]`` for rows that sample a misses.

    Only samples from `first` to `last` are used as a.
    """
    n = samples.size
    codes = np.empty(n, np.uint8)
    missing = np.empty(n, np.int64)
    values = np.empty(n)
    for r in range(rows.size):
        packed = data[rows[r]]
        for b in range(n):
            s = samples[b]
            codes[b] = (packed[s >> 2] >> np.uint8(2 * (s & 3))) & np.uint8(3)
        count = 0
        for a in range(first, last):
            missing[count] = a
            count += codes[a] == 1
        if count:
            points = table[r]
            for b in range(n):
                values[b] = points[codes[b]]
            for a in missing[:count]:
                target = out[a]
                for b in range(n):
                    target[b] += values[b]


# ---- sums by code


@intrinsic
def _add_codes(context, data, rows, r, byte, count, vectors, out):
    """Add the vectors of some bytes of `MANY` rows from ``rows[r]`` on to ``out[r:]``.

    No sum waits for another.
    """

    def generate(context, builder, signature, arguments):
        packed, numbers, r, byte, count, table, target = arguments
        pair = builder.mul(byte, place_of(2))
        zero = place_of(0)
        table = element_pointer(context, builder, vectors, table, pair, zero, zero)
        table = builder.bitcast(table, _FOUR.as_pointer())
        places = [builder.add(r, place_of(k)) for k in range(MANY)]
        starts = []
        for place in places:
            row = builder.load(element_pointer(context, builder, rows, numbers, place))
            starts.append(element_pointer(context, builder, data, packed, row, byte))
        nothing = ir.Constant(_FOUR, [0.0] * 4)
        sums = [cgutils.alloca_once(builder, _FOUR) for _ in range(2 * MANY)]
        for total in sums:
            builder.store(nothing, total)
        with cgutils.for_range(builder, count) as loop:
            entry = builder.mul(loop.index, place_of(32))  # two tables of 16
            for k, start in enumerate(starts):
                both = builder.load(builder.gep(start, [loop.index]))
                low = builder.and_(both, ir.Constant(_BYTE, 15))
                high = builder.lshr(both, ir.Constant(_BYTE, 4))
                for side, half in enumerate((low, high)):
                    place = builder.add(entry, builder.zext(half, _WORD))
                    place = builder.add(place, place_of(16 * side))
                    more = builder.load(builder.gep(table, [place]), align=8)
                    total = sums[2 * k + side]
                    builder.store(builder.fadd(builder.load(total), more), total)
        for k, place in enumerate(places):
            cell = element_pointer(context, builder, out, target, place, zero)
            cell = builder.bitcast(cell, _FOUR.as_pointer())
            low = builder.load(sums[2 * k])
            high = builder.load(sums[2 * k + 1])
            total = builder.fadd(low, high)
            total = builder.fadd(builder.load(cell, align=8), total)
            builder.store(total, cell, align=8)
        return context.get_dummy_value()

    place = types.intp
    return types.void(data, rows, place, place, place, vectors, out), generate


@compile_loop
def code_sums(data, rows, vectors, out):
    """Add the values of all samples to ``out[r, code]``, for rows in groups of `MANY`.

    The vectors of `SPAN` bytes stay in the nearest cache.
    """
    length = data.shape[1]
    block = max(32, 2**18 // max(1, length)) // MANY * MANY
    for low in range(0, rows.size, block):
        high = min(rows.size, low + block)
        for byte in range(0, length, SPAN):
            count = min(SPAN, length - byte)
            for r in range(low, high, MANY):
                _add_codes(data, rows, r, byte, count, vectors, out)


# ---- scores


@compile_loop
def _point_table(points, first, table):
    """Write the sums of points of four variants, by the byte of their codes."""
    for code in range(4):
        table[code] = points[first, code]
    size = 4
    for k in range(1, 4):
        for code in range(3, -1, -1):
            more = points[first + k, code]
            target = table[code * size : (code + 1) * size]
            source = table[:size]
            for e in range(size):
                target[e] = source[e] + more
        size *= 4


@compile_loop
def _turn_codes(data, rows, first, low, high, words):
    """Write the codes of four variants, of four samples to a word."""
    target = words[: high - low]
    a = data[rows[first], low:high]
    b = data[rows[first + 1], low:high]
    c = data[rows[first + 2], low:high]
    e = data[rows[first + 3], low:high]
    for k in range(target.size):
        x = np.uint32(a[k]) | np.uint32(b[k]) << np.uint32(8)
        x |= np.uint32(c[k]) << np.uint32(16) | np.uint32(e[k]) << np.uint32(24)
        t = (x ^ (x >> np.uint32(6))) & np.uint32(0x00CC00CC)
        x ^= t ^ (t << np.uint32(6))
        t = (x ^ (x >> np.uint32(12))) & np.uint32(0x0000F0F0)
        target[k] = x ^ t ^ (t << np.uint32(12))


@compile_loop
def code_scores(data, rows, points, out):
    """Add the points of the rows, as many as a multiple of 16, to every sample.

    `out` has four places for every byte.
    """
    length = data.shape[1]
    tables = np.empty((QUADS, 256))
    words = np.empty((QUADS, min(BYTES, length)), np.uint32)
    codes = words.view(np.uint8)
    for low in range(0, length, BYTES):
        high = min(length, low + BYTES)
        target = out[4 * low : 4 * high]
        for first in range(0, rows.size, 4 * QUADS):
            for q in range(QUADS):
                _point_table(points, first + 4 * q, tables[q])
                _turn_codes(data, rows, first + 4 * q, low, high, words[q])
            s = tables[0]
            t = tables[1]
            u = tables[2]
            v = tables[3]
            a = codes[0]
            b = codes[1]
            c = codes[2]
            e = codes[3]
            for i in range(target.size):
                target[i] += (s[a[i]] + t[b[i]]) + (u[c[i]] + v[e[i]])
