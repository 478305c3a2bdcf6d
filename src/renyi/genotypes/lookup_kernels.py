# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Comparing samples by lookups: for processors that count no bits of vectors.

Half a byte is what two variants say of a sample. In how many of them it differs from
each of *two* other samples is one byte, a count in each half, that depends on what
those say of the same variants: one of 256 tables of 16 bytes, and a shuffle of bytes
looks 32 samples up in it at once. A shuffle and an addition thus compare 64 pairs of
samples on two variants, where the counting of bits takes ten instructions for 256. The
halves hold seven such counts and are then added to bytes, those after 126 steps to 16
bits.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from renyi.compiled import compile_loop
from renyi.counting.kernels import (
    _COUNTS_VECTORS,
    _function,
    _place,
    _pointer,
    _splat,
    _vector,
    has,
)
from renyi.genotypes.kernels import _turn_codes

PAYS = has("avx2") and not _COUNTS_VECTORS

SEVEN = 7  # counts of at most 2 that half a byte holds
STEPS = 18 * SEVEN  # pairs of variants whose counts a byte holds
PERIODS = 64  # of so many steps, before counts of 16 bits are written
WIDE = 128  # samples that are looked up: 16 kB in the nearest cache
TALL = 256  # samples that look up: their counts lie in the near cache
_PAIRS = 2  # of a tile: eight sums, four vectors and two tables
_VECTORS = 4

_BYTES = _vector(8, 32)
_SHORTS = _vector(16, 32)


def _tables(both):
    """Return the counts of two samples by what they say of two variants: (256, 16).

    In how many of the variants either bit differs, or both do.
    """
    codes = np.arange(16)
    apart = codes[:, None] ^ codes
    first = apart & 3
    second = apart >> 2
    least = 3 if both else 1
    counts = (first >= least).astype(np.uint8) + (second >= least)
    one = np.arange(256) & 15
    other = np.arange(256) >> 4
    return (counts[one] | counts[other] << 4).astype(np.uint8)


_TABLES = np.stack([_tables(False), _tables(True)])


def layout(n, d):
    """Return room for codes, the variants that it holds, and chunks of n samples.

    ``codes[chunk, pair, sample]`` is half a byte, what a pair of variants says of a
    sample; ``places[two samples, pair]`` is where their table begins.
    """
    pairs = STEPS * min(PERIODS, -(-d // (2 * STEPS)))
    chunks = -(-n // WIDE)
    codes = np.zeros((chunks, pairs, WIDE), np.uint8)
    places = np.zeros((chunks * WIDE // 2, pairs), np.uint16)
    return (codes, places), 2 * pairs, chunks


@compile_loop
def write_codes(data, rows, samples, first, step, merge, codes, places):
    """Write what pairs of variants say of the samples, of both sides of a comparison.

    Groups of four rows are taken from `first` on, every `step`-th; behind the last row
    all samples have code 0. With `merge` so has a missing one.
    """
    length = data.shape[1]
    words = np.empty(length, np.uint32)
    found = words.view(np.uint8)
    some = np.zeros(codes.shape[0] * WIDE, np.uint8)
    every = samples.size > 0 and samples[-1] == samples.size - 1
    four = np.zeros(4, np.int64)
    for quad in range(first, codes.shape[1] // 2, step):
        count = min(4, max(0, rows.size - 4 * quad))
        some[:] = 0
        if count:
            for k in range(4):
                four[k] = rows[4 * quad + min(k, count - 1)]
            _turn_codes(data, four, 0, 0, length, words)
            mask = np.uint8((1 << (2 * count)) - 1)
            if every:
                for i in range(samples.size):
                    some[i] = found[i] & mask
            else:
                for i in range(samples.size):
                    some[i] = found[samples[i]] & mask
            if merge:  # of 01 the lower bit goes
                for i in range(some.size):
                    x = some[i]
                    some[i] = x & ((x >> np.uint8(1)) | np.uint8(0xAA))
        for chunk in range(len(codes)):
            source = some[WIDE * chunk : WIDE * chunk + WIDE]
            low = codes[chunk, 2 * quad]
            high = codes[chunk, 2 * quad + 1]
            for i in range(source.size):
                low[i] = source[i] & np.uint8(15)
                high[i] = source[i] >> np.uint8(4)
        for k in range(len(places)):
            x = np.uint16(some[2 * k])
            y = np.uint16(some[2 * k + 1])
            low = x & np.uint16(15)
            high = y & np.uint16(15)
            places[k, 2 * quad] = (low | high << np.uint16(4)) << np.uint16(4)
            low = x >> np.uint16(4)
            high = y >> np.uint16(4)
            places[k, 2 * quad + 1] = (low | high << np.uint16(4)) << np.uint16(4)


@intrinsic
def _add_lookups(context, table, places, pair, codes, chunk, step, counts, row):
    """Add the counts of four samples with 128 others over one period.

    To ``counts[row : row + 4]``, for pairs of samples from `pair` on.
    """

    def generate(context, builder, signature, arguments):
        tables, offsets, pair, packed, chunk, step, target, row = arguments
        shuffle = _function(builder, "llvm.x86.avx2.pshuf.b", _BYTES, _BYTES, _BYTES)
        half = _vector(8, 16)
        zero = _place(0)
        base = _pointer(context, builder, table, tables, zero, zero)
        starts = [
            _pointer(
                context, builder, places, offsets, builder.add(pair, _place(k)), step
            )
            for k in range(_PAIRS)
        ]
        first = _pointer(context, builder, codes, packed, chunk, step, zero)
        first = builder.bitcast(first, _BYTES.as_pointer())
        twice = ir.Constant(_vector(32, 32), [*range(16), *range(16)])
        units = [(k, v) for k in range(_PAIRS) for v in range(_VECTORS)]
        low = {u: cgutils.alloca_once(builder, _BYTES) for u in units}
        high = {u: cgutils.alloca_once(builder, _BYTES) for u in units}
        for u in units:
            builder.store(_splat(_BYTES, 0), low[u])
            builder.store(_splat(_BYTES, 0), high[u])
        with cgutils.for_range(builder, _place(STEPS // SEVEN)) as loop:
            begin = builder.mul(loop.index, _place(SEVEN))
            sums: dict[tuple[int, int], ir.Value] = {}
            for s in range(SEVEN):
                now = builder.add(begin, _place(s))
                line = builder.mul(now, _place(_VECTORS))
                vectors = [
                    builder.load(
                        builder.gep(first, [builder.add(line, _place(v))]), align=1
                    )
                    for v in range(_VECTORS)
                ]
                for k in range(_PAIRS):
                    offset = builder.load(builder.gep(starts[k], [now]))
                    entry = builder.gep(base, [builder.zext(offset, _place(0).type)])
                    found = builder.bitcast(entry, half.as_pointer())
                    found = builder.load(found, align=1)
                    found = builder.shuffle_vector(found, found, twice)
                    for v in range(_VECTORS):
                        more = builder.call(shuffle, [found, vectors[v]])
                        u = (k, v)
                        sums[u] = builder.add(sums[u], more) if u in sums else more
            for u in units:
                part = builder.and_(sums[u], _splat(_BYTES, 15))
                builder.store(builder.add(builder.load(low[u]), part), low[u])
                part = builder.lshr(sums[u], _splat(_BYTES, 4))
                builder.store(builder.add(builder.load(high[u]), part), high[u])
        for k, v in units:
            for side, counted in ((0, low[k, v]), (1, high[k, v])):
                place = builder.add(row, _place(2 * k + side)), _place(32 * v)
                cell = _pointer(context, builder, counts, target, *place)
                cell = builder.bitcast(cell, _SHORTS.as_pointer())
                more = builder.zext(builder.load(counted), _SHORTS)
                more = builder.add(builder.load(cell, align=2), more)
                builder.store(more, cell, align=2)
        return context.get_dummy_value()

    place = types.intp
    kinds = table, places, place, codes, place, place, counts, place
    return types.void(*kinds), generate


@compile_loop
def subtract_differences(codes, places, chunk, both, times, out):
    """Subtract `times` the counts of a chunk of samples with all before them."""
    n = len(out)
    table = _TABLES[int(both)].copy()  # where no vector lies in two lines of the cache
    counts = np.zeros((TALL, WIDE), np.uint16)
    stop = min(n, WIDE * (chunk + 1))
    periods = codes.shape[1] // STEPS
    for low in range(0, stop, TALL):
        counts[:] = 0
        tall = min(TALL, stop - low)
        for period in range(periods):
            for a in range(0, tall, 2 * _PAIRS):
                pair = (low + a) // 2
                step = period * STEPS
                _add_lookups(table, places, pair, codes, chunk, step, counts, a)
        for a in range(tall):
            begin = max(WIDE * chunk, low + a)
            target = out[low + a, begin:stop]
            source = counts[a, begin - WIDE * chunk :]
            for b in range(target.size):
                target[b] -= times * np.int64(source[b])
