# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Compiled inner loops, available if the extra ``fast`` (numba) is installed.

Each does in one pass what numpy does in several. Counts are exact. Sums of weights and
scores are added in numpy's order and have the same bits. :func:`level_sums` is an
exception, chosen by the shape of the table alone.

Contiguous arrays are cut into slices before each inner loop. An index such as
``x[low + r]`` makes numba test for negative values and prevents the vectorised form:
with slices a million rows of 21 columns take 29 ms instead of 47 ms.

A *plane* has one bit per row of a category, 64 rows to a word. Two categories occur
together in as many rows as ``x & y`` has bits. The fast form computes nine counts at a
time, of three planes with three others. Each word is then loaded once for three counts,
and no sum waits for the one before. No compiler finds this form, hence the intrinsics,
which write LLVM vectors. If the processor counts the bits of whole vectors (AVX-512
VPOPCNTDQ), a tile uses that. Otherwise it counts the bits of bytes by two lookups, and
keeps the counts in bytes as long as they fit.
"""

from __future__ import annotations

from itertools import product

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from renyi.counting.compiled import compile_loop


def has(feature):
    """Return whether the processor has a feature; False if LLVM does not know."""
    try:
        return bool(llvm.get_host_cpu_features().get(feature))
    except RuntimeError:
        return False


_COUNTS_VECTORS = has("avx512vpopcntdq")
LINE = 8  # words of a cache line
LANES = 8 if _COUNTS_VECTORS else 4  # words of a vector
_FULL = 16  # counts of at most 8 that fit in a byte
SIDE = 3  # planes on each side of a tile
WORDS = 256  # words of a plane in a block: 200 planes of 2 kB stay in the cache
BLOCK = 64 * WORDS  # rows
PANEL = 60  # planes to combine with all others before the next ones are loaded
NONE = 255  # short code of a row that is in none of the planes

_WORD = ir.IntType(64)
_BYTES = ir.VectorType(ir.IntType(8), 64)


# ---- histograms


@compile_loop
def _pack(codes, columns, strides, starts, low, size, packed):
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
def joint_histograms(
    codes, weights, columns, strides, starts, ends, widths, begins, tables, rows
):
    """Add the joint histogram of each pair of super-columns to its piece of `tables`.

    Pair ``p`` joins super-columns ``ends[p]``, the latter of ``widths[p]`` values, in
    ``tables[begins[p] : begins[p + 1]]``. If `weights` is None, the counts are exact
    integers. Otherwise it is one number per row; as in numpy, weights are summed within
    a block of `rows` rows first. A block has fewer than 65,536 rows, so that its counts
    fit in 16 bits.
    """
    n = codes.shape[1]
    packed = np.empty((starts.size - 1, min(rows, n)), np.uint32)
    codes_of_pair = np.empty(min(rows, n), np.uint32)
    brief_codes = np.empty(min(rows, n), np.uint16)
    short = np.zeros(2**16, np.uint16)
    for low in range(0, n, rows):
        size = min(rows, n - low)
        _pack(codes, columns, strides, starts, low, size, packed)
        joint = codes_of_pair[:size]
        for p in range(widths.size):
            a = packed[ends[p, 0], :size]
            b = packed[ends[p, 1], :size]
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


# ---- products with the one-hot matrix


@compile_loop
def lookup_sum(codes, tables, starts, rows, out):
    """Add ``tables[k, starts[j] + codes[j, r]]`` to ``out[k, r]``, columns in order."""
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


@compile_loop
def _level_masks(rows, level, masks):
    """Set bit r of ``masks[j]`` where row r of 8 has the level in column j."""
    wanted = np.uint8(level)
    for j in range(masks.size):
        mask = np.uint8(0)
        for r in range(8):
            mask |= np.uint8(rows[r, j] == wanted) << np.uint8(r)
        masks[j] = mask


@compile_loop
def level_sums(rows, values, block, out):
    """Add ``values[r]`` to ``out[j, code]`` for the code of every row r and column j.

    `rows` has shape (n, d). Of 8 rows, those at a level form a byte. Their sum is
    looked up among the sums of all 256 subsets, two bytes at a time.
    """
    n, d = rows.shape
    masks = np.empty((2, block), np.uint8)
    sums = np.zeros((2, 256))
    rest = np.full((16, d), np.uint8(NONE))
    rest[: n % 16] = rows[n - n % 16 :]
    for first in range(0, n, 16):
        some = rows[first : first + 16] if first + 16 <= n else rest
        for r in range(min(16, n - first)):
            part = sums[r // 8]
            half = 1 << (r % 8)
            for subset in range(half):
                part[half + subset] = part[subset] + values[first + r]
        for low in range(0, d, block):
            high = min(d, low + block)
            for level in range(out.shape[1]):
                for g in range(2):
                    eight = some[8 * g : 8 * g + 8, low:high]
                    _level_masks(eight, level, masks[g, : high - low])
                target = out[low:high, level]
                for j in range(target.size):
                    target[j] = target[j] + sums[0, masks[0, j]] + sums[1, masks[1, j]]


@compile_loop
def class_level_counts(rows, y, block, out):
    """Add 1 to ``out[j, code, y[r]]`` for the code of every row r and column j.

    Sums are kept in bytes, 64 to an instruction, and flushed before they overflow. All
    rows start at the last level; those of other levels are subtracted from it.
    """
    n, d = rows.shape
    last = out.shape[1] - 1
    classes = out.shape[2]
    small = np.zeros((classes, last, min(block, d)), np.uint8)
    totals = np.bincount(y, minlength=classes)
    for low in range(0, d, block):
        size = min(d - low, block)
        part = out[low : low + size]
        for j in range(size):
            for k in range(classes):
                part[j, last, k] += totals[k]
        for r in range(n):
            codes = rows[r, low : low + size]
            for level in range(last):
                target = small[y[r], level, :size]
                wanted = np.uint8(level)
                for j in range(codes.size):
                    target[j] += np.uint8(codes[j] == wanted)
            if r % 255 == 254 or r == n - 1:
                for level in range(last):
                    for k in range(classes):
                        counted = small[k, level, :size]
                        for j in range(counted.size):
                            part[j, level, k] += counted[j]
                            part[j, last, k] -= counted[j]
                small[:] = 0


@intrinsic
def popcount(context, value):
    """Count the bits of a 64-bit integer by the machine instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@compile_loop
def agreements(planes, out):
    """Subtract from ``out[a, b]`` the columns on which rows a and b differ.

    Plane p of a row contains bit p of all its codes, in words. Rows differ in a column
    if any plane does.
    """
    words = planes.shape[2]
    differ = np.empty(min(words, WORDS), np.uint64)
    for low in range(0, words, WORDS):
        some = differ[: min(WORDS, words - low)]
        high = low + some.size
        for a in range(len(out)):
            for b in range(a + 1, len(out)):
                x = planes[a, 0, low:high]
                y = planes[b, 0, low:high]
                for w in range(some.size):
                    some[w] = x[w] ^ y[w]
                for p in range(1, planes.shape[1]):
                    x = planes[a, p, low:high]
                    y = planes[b, p, low:high]
                    for w in range(some.size):
                        some[w] |= x[w] ^ y[w]
                out[a, b] -= _ones(some)
    _mirror(out)


@compile_loop
def bit_agreements(rows, out):
    """Do the same for bytes 0 and 1: rows differ in |x| + |y| − 2|x & y| columns."""
    n, d = rows.shape
    words = min(WORDS, LINE * ((d + 64 * LINE - 1) // (64 * LINE)))
    planes = empty_planes(SIDE * ((n + SIDE - 1) // SIDE), words)
    pairs = np.zeros((len(planes), len(planes)), np.int64)
    rest = np.zeros(64, np.uint8)
    for low in range(0, d, 64 * words):
        whole, left = divmod(min(64 * words, d - low), 64)
        for r in range(n):
            planes[r, whole:] = 0
            source = rows[r, low:]
            _write_plane(source, np.uint8(1), whole, planes[r])
            if left:
                rest[:left] = source[64 * whole :]
                _write_plane(rest, np.uint8(1), 1, planes[r, whole:])
        _add_shared(planes, np.arange(len(planes)), pairs)
    for a in range(n):
        for b in range(a + 1, n):
            out[a, b] -= pairs[a, a] + pairs[b, b] - 2 * pairs[a, b]
    _mirror(out)


# ---- bit planes


def element_pointer(context, builder, kind, array, *place):
    """Return the address of an element of an array."""
    made = context.make_array(kind)(context, builder, array)
    return cgutils.get_item_pointer(context, builder, kind, made, place)


def _function(builder, name, result, *arguments):
    """Declare an intrinsic function of LLVM."""
    kind = ir.FunctionType(result, arguments)
    return cgutils.get_or_insert_function(builder.module, kind, name)


@intrinsic
def _write_plane(context, codes, code, words, plane):
    """Set bit r of `plane` where ``codes[r] == code``, for 64 times `words` rows."""

    def generate(context, builder, signature, arguments):
        source, code, words, target = arguments
        first = element_pointer(context, builder, codes, source, ir.Constant(_WORD, 0))
        first = builder.bitcast(first, _BYTES.as_pointer())
        word = element_pointer(context, builder, plane, target, ir.Constant(_WORD, 0))
        wanted = ir.Constant(_BYTES, ir.Undefined)
        wanted = builder.insert_element(wanted, code, ir.Constant(_WORD, 0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(wanted, wanted, everywhere)
        with cgutils.for_range(builder, words) as loop:
            some = builder.load(builder.gep(first, [loop.index]), align=1)
            same = builder.icmp_unsigned("==", some, wanted)
            builder.store(builder.bitcast(same, _WORD), builder.gep(word, [loop.index]))
        return context.get_dummy_value()

    return types.void(codes, types.uint8, types.intp, plane), generate


def _vector(bits, count):
    return ir.VectorType(ir.IntType(bits), count)


def _splat(kind, number):
    return ir.Constant(kind, [number] * kind.count)


def place_of(number):
    """Return a constant index."""
    return ir.Constant(_WORD, number)


def counted_bits(builder, addresses, steps, join):
    """Write the loop that counts bits of vectors; return the counts, 64 bits each.

    At each of the steps, `join` combines the vectors at all addresses into the vectors
    whose bits are counted.
    """
    lines = _vector(64, LANES)
    counted = lines if _COUNTS_VECTORS else _vector(8, 8 * LANES)
    wide_type = lines if _COUNTS_VECTORS else _vector(16, 4 * LANES)
    final = lines if _COUNTS_VECTORS else _vector(32, 4 * LANES)
    kind = f"v{counted.count}i{counted.element.width}"
    count = _function(builder, f"llvm.ctpop.{kind}", counted, counted)
    kind = f"v{final.count}i{final.element.width}"
    add = _function(builder, f"llvm.vector.reduce.add.{kind}", final.element, final)
    starts = [builder.bitcast(each, lines.as_pointer()) for each in addresses]
    results = len(join([_splat(lines, 0)] * len(starts)))
    totals = [
        cgutils.alloca_once_value(builder, _splat(wide_type, 0)) for _ in range(results)
    ]
    sums = [cgutils.alloca_once(builder, counted) for _ in totals]
    full = place_of(_FULL)
    spans = builder.udiv(builder.add(steps, place_of(_FULL - 1)), full)
    with cgutils.for_range(builder, spans) as span:
        base = builder.mul(span.index, full)
        left = builder.sub(steps, base)
        some = builder.select(builder.icmp_signed("<", left, full), left, full)
        for total in sums:
            builder.store(_splat(counted, 0), total)
        with cgutils.for_range(builder, some) as loop:
            step = builder.add(base, loop.index)
            vectors = [builder.load(builder.gep(x, [step]), align=8) for x in starts]
            for total, vector in zip(sums, join(vectors), strict=True):
                more = builder.call(count, [builder.bitcast(vector, counted)])
                builder.store(builder.add(builder.load(total), more), total)
        for total, part in zip(totals, sums, strict=True):
            more = builder.load(part)
            if not _COUNTS_VECTORS:  # every other byte, and those between
                more = builder.bitcast(more, wide_type)
                even = builder.and_(more, _splat(wide_type, 255))
                more = builder.add(even, builder.lshr(more, _splat(wide_type, 8)))
            builder.store(builder.add(builder.load(total), more), total)
    loaded = [builder.load(total) for total in totals]
    if _COUNTS_VECTORS:
        return [builder.call(add, [total]) for total in loaded]
    wide = [builder.call(add, [builder.zext(total, final)]) for total in loaded]
    return [builder.zext(total, _WORD) for total in wide]


@intrinsic
def _add_tile(context, planes, i, j, steps, out):
    """Add to ``out[i : i + 3, j : j + 3]`` the bits that planes i.. and j.. share.

    Of each plane the first `LANES` times `steps` words are counted.
    """

    def generate(context, builder, signature, arguments):
        data, i, j, steps, table = arguments
        rows, columns = (
            [builder.add(first, place_of(side)) for side in range(SIDE)]
            for first in (i, j)
        )
        starts = [
            element_pointer(context, builder, planes, data, plane, place_of(0))
            for plane in (*rows, *columns)
        ]

        def join(vectors):
            pairs = product(vectors[:SIDE], vectors[SIDE:])
            return [builder.and_(x, y) for x, y in pairs]

        counts = counted_bits(builder, starts, steps, join)
        for count, place in zip(counts, product(rows, columns), strict=True):
            cell = element_pointer(context, builder, out, table, *place)
            builder.store(builder.add(builder.load(cell), count), cell)
        return context.get_dummy_value()

    signature = types.void(planes, types.intp, types.intp, types.intp, out)
    return signature, generate


@compile_loop
def empty_planes(count, words):
    """Return planes without a bit.

    They start at a cache line: a vector across two lines would be loaded twice.
    """
    raw = np.zeros(count * words + LINE, np.uint64)
    shift = -(raw.ctypes.data // 8) % LINE
    return raw[shift : shift + count * words].reshape((count, words))


@compile_loop
def _add_shared(planes, owner, pairs):
    """Add the bits that two planes share, except for tiles of a single column."""
    total = owner.size
    for panel in range(0, total, PANEL):
        stop = min(total, panel + PANEL)
        for i in range(0, stop, SIDE):
            for j in range(max(i, panel), stop, SIDE):
                if owner[i] != owner[j + SIDE - 1]:
                    _add_tile(planes, i, j, planes.shape[1] // LANES, pairs)


@compile_loop
def _short(code, base):
    """Return ``code - base`` as a byte, or `NONE` if it does not fit."""
    return np.uint8(min(np.uint32(code - base), np.uint32(NONE)))


@compile_loop
def _short_codes(source, order, low, high, base, short):
    """Write ``code - base`` of some rows as bytes, or `NONE` if it does not fit.

    The rows are `low` to `high`, or with an order those at these places of it.
    """
    target = short[: high - low]
    if order is not None:
        rows = order[low:high]
        for r in range(target.size):
            target[r] = _short(source[rows[r]], base)
    else:
        part = source[low:high]
        if base == 0:  # for bytes a mere copy
            for r in range(target.size):
                target[r] = _short(part[r], 0)
        else:
            for r in range(target.size):
                target[r] = _short(part[r], base)
    short[high - low :] = NONE


@compile_loop
def plane_counts(codes, order, columns, planes_of, owner, low, high, margins, pairs):
    """Add the bits of every plane to `margins`, those that two share to `pairs`.

    The first ``planes_of[j]`` categories of each of the `columns` have a plane; `owner`
    is the column of every plane, padded to a multiple of `SIDE`. Rows are those from
    `low` to `high`, or with an `order` those at these places of it. Only cells of
    `pairs` right of the diagonal and of different columns are valid.
    """
    planes = empty_planes(owner.size, WORDS)
    short = np.empty(BLOCK, np.uint8)
    for start in range(low, high, BLOCK):
        end = min(high, start + BLOCK)
        words = LINE * ((end - start + 64 * LINE - 1) // (64 * LINE))
        used = short[: 64 * words]
        plane = 0
        for j in range(columns.size):
            for base in range(0, planes_of[j], NONE):
                _short_codes(codes[columns[j]], order, start, end, base, used)
                for code in range(min(planes_of[j] - base, NONE)):
                    _write_plane(used, np.uint8(code), words, planes[plane])
                    margins[plane] += _ones(planes[plane, :words])
                    plane += 1
        _add_shared(planes[:, :words], owner, pairs)


@compile_loop
def _ones(words):
    """Return the number of bits that are set."""
    count = np.uint64(0)
    for w in range(words.size):
        count += popcount(words[w])
    return np.int64(count)


@compile_loop
def complete(margins, pairs, planes_of, n, out):
    """Fill `out` with the counts of all categories, the last ones included.

    The last indicator of a column is 1 minus the others. So in every row of `pairs` the
    counts of a column add up to the margin of the row. The rows of a column add up to
    all margins.
    """
    full = np.empty(len(out), np.int64)
    _widen(margins, n, planes_of, 0, full, 0)
    plane = begin = 0
    for i in range(planes_of.size):
        end = begin + planes_of[i]
        last = out[end]
        last[end + 1 :] = full[end + 1 :]
        for c in range(begin, end):
            row = out[c]
            _widen(pairs[plane], full[c], planes_of, i + 1, row, end + 1)
            for b in range(end + 1, last.size):
                last[b] -= row[b]
            plane += 1
        for c in range(begin, end + 1):
            out[c, c] = full[c]
        begin = end + 1
    _mirror(out)


@compile_loop
def _widen(counts, total, planes_of, first, out, start):
    """Copy counts of the columns from `first` on, each with the rest of `total`.

    Column j of `out` begins at `start`, that of `counts` one place less per column.
    """
    place = start
    for j in range(first, planes_of.size):
        left = total
        for q in range(place, place + planes_of[j]):
            out[q] = counts[q - j]
            left -= counts[q - j]
        place += planes_of[j]
        out[place] = left
        place += 1


@compile_loop
def _mirror(table):
    """Copy the upper triangle to the lower one, square by square."""
    side = 32
    for low in range(0, len(table), side):
        for first in range(0, low + 1, side):
            for i in range(low, min(low + side, len(table))):
                row = table[i]
                for j in range(first, min(first + side, i)):
                    row[j] = table[j, i]
