r"""Store genotypes as PLINK does, four to a byte, and multiply by their one-hot W.

A genotype is one of four codes, the two bits of a .bed file: 0 two copies of the first
allele A1, 1 missing, 2 one copy, 3 none. W has four indicators per variant and is never
built. numpy and the compiled loops of `renyi.genotypes.kernels` add in the same order,
whatever the number of threads. So they agree to the last bit.

*Copies as numbers.* The two bits of codes 0, 2, 3 say whether there is at least one
copy of A2, and whether there are two. So the squared distance of two samples is the
number of variants where any bit differs, plus three times the number where both do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.compiled import cores, run_all
from renyi.counting.onehot import (
    COMPARE_SECONDS,
    bit_planes,
    kernels_for,
    mirror,
    read_only,
    subtract_differences,
)
from renyi.limits import check_memory

Floats = NDArray[np.float64]

CODES = 4
TWO, MISSING, ONE, NONE = range(CODES)  # copies of A1
OBSERVED = [TWO, ONE, NONE]
COPIES = np.array([0.0, np.nan, 1.0, 2.0])
"""Copies of the second allele by code."""
KERNELS = "renyi.genotypes.kernels"
BLOCK = 2**22  # genotypes unpacked at a time
CHUNK = 4_096  # variants whose points are summed before they are added to the rest
SPAN = 16  # bytes of a variant to sum before they are added to the rest
TOGETHER = 16  # variants that are added to a score at a time
MANY = 4  # variants whose sums by code are computed in parallel
WAYS = (False, 1), (True, 3)  # whether both planes must differ, and the factor
PRODUCT_SECONDS = 2e-9  # per genotype and output, with numpy
COUNT_SECONDS = 3e-10  # per genotype, with numpy
_UNPACKED: NDArray[np.uint8] = (
    np.arange(256)[:, None] >> np.arange(0, 8, 2) & 3
).astype(np.uint8)


@dataclass(frozen=True, eq=False)
class PackedGenotypes:
    """Genotypes of some samples at some variants of a file.

    Parameters
    ----------
    data : ndarray of uint8, shape (variants in the file, bytes per variant)
        Four samples to a byte, the first in its lowest two bits; may be a memory map.
    n_in_file : int
        Samples in the file.
    samples, variants : ndarray of int64 or None
        Indices of those kept, ascending; None keeps all.

    Examples
    --------
    >>> G = PackedGenotypes.from_codes([[0, 2, 3, 1, 3], [3, 3, 2, 0, 0]])
    >>> G.n, G.d, G.data.shape
    (5, 2, (2, 2))
    >>> G.take(samples=[0, 4]).codes().tolist()
    [[0, 3], [3, 0]]
    """

    data: NDArray[np.uint8]
    n_in_file: int
    samples: NDArray[np.int64] | None = None
    variants: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Check that the bytes are as many as the samples need."""
        width = variant_bytes(self.n_in_file)
        if self.data.dtype != np.uint8 or self.data.shape[1:] != (width,):
            raise ValueError(
                f"{self.n_in_file} samples need packed genotypes of shape (variants, "
                f"{width} bytes per variant), not {self.data.dtype} of shape "
                f"{self.data.shape}."
            )
        for name, size in (("samples", self.n_in_file), ("variants", len(self.data))):
            _check_kept(name, getattr(self, name), size)

    @classmethod
    def from_codes(cls, codes: ArrayLike) -> PackedGenotypes:
        """Pack codes of shape (variants, samples)."""
        table = np.asarray(codes, np.uint8)
        if table.ndim != 2 or table.max(initial=0) >= CODES:
            raise ValueError("codes of genotypes must be 0 to 3, (variants, samples).")
        d, n = table.shape
        data = np.empty((d, variant_bytes(n)), np.uint8)
        pack(np.pad(table, ((0, 0), (0, -n % 4))), data)
        return cls(data, n)

    @property
    def n(self) -> int:
        """Samples kept."""
        return self.n_in_file if self.samples is None else len(self.samples)

    @property
    def d(self) -> int:
        """Variants kept."""
        return len(self.data) if self.variants is None else len(self.variants)

    def rows(self, low: int, high: int) -> NDArray[np.uint8]:
        """Return the packed bytes of some of the variants kept."""
        if self.variants is None:
            return self.data[low:high]
        return self.data[self.variants[low:high]]

    @property
    def places(self) -> NDArray[np.int64]:
        """Place in the file of every sample kept."""
        return np.arange(self.n) if self.samples is None else self.samples

    def file_rows(self, part: slice, multiple: int = 1) -> NDArray[np.int64]:
        """Return the rows of some of the variants kept, and filler."""
        count = part.stop - part.start
        rows = np.arange(part.start, part.start - (-count // multiple) * multiple)
        if self.variants is not None:
            rows[:count] = self.variants[part]
        rows[count:] = rows[0]
        return rows

    def codes(self, low: int = 0, high: int | None = None) -> NDArray[np.uint8]:
        """Return unpacked codes of variants `low` to `high` of those kept."""
        packed = self.rows(low, self.d if high is None else min(high, self.d))
        codes = _UNPACKED[packed].reshape(len(packed), 4 * self.data.shape[1])
        if self.samples is None:
            return codes[:, : self.n_in_file]
        return codes[:, self.samples]

    def take(
        self, samples: ArrayLike | None = None, variants: ArrayLike | None = None
    ) -> PackedGenotypes:
        """Keep fewer: indices or truth values among those kept."""
        return PackedGenotypes(
            self.data,
            self.n_in_file,
            _kept(self.samples, samples, self.n),
            _kept(self.variants, variants, self.d),
        )


class HasGenotypes(Protocol):
    """An object that has packed genotypes, as those that `read_genotypes` returns."""

    @property
    def packed(self) -> PackedGenotypes:
        """The genotypes."""


AnyGenotypes = PackedGenotypes | HasGenotypes


def variant_bytes(n: int) -> int:
    """Return the bytes of a variant of n samples."""
    return -(-n // 4)


def pack(codes: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
    """Write codes of whole bytes of samples, (variants, 4 x bytes), four to a byte."""
    np.copyto(out, codes[:, 0::4])
    for place in range(1, 4):
        out |= codes[:, place::4] << np.uint8(2 * place)


def packed_of(G: AnyGenotypes) -> PackedGenotypes:
    """Return packed genotypes, or those of an object that has them as ``packed``."""
    genotypes = getattr(G, "packed", G)
    if not isinstance(genotypes, PackedGenotypes):
        raise TypeError(
            f"genotypes must be packed (read_genotypes reads them), not {type(G)}."
        )
    return genotypes


def _check_kept(name: str, indices: NDArray[Any] | None, size: int) -> None:
    """Raise ValueError for indices that do not ascend or lie outside of the file."""
    if indices is None or not len(indices):
        return
    if indices[0] < 0 or indices[-1] >= size or (np.diff(indices) <= 0).any():
        raise ValueError(f"{name} must be ascending indices below {size}.")


def _kept(
    before: NDArray[np.int64] | None, now: ArrayLike | None, size: int
) -> NDArray[np.int64] | None:
    """Return places in the file of a selection among those kept before."""
    if now is None:
        return before
    chosen = np.asarray(now)
    if chosen.dtype == bool:
        if len(chosen) != size:
            raise ValueError(f"a selection of {size} has {len(chosen)} truth values.")
        chosen = np.flatnonzero(chosen)
    chosen = chosen.astype(np.int64)
    _check_kept("a selection", chosen, size)
    return chosen if before is None else before[chosen]


def _blocks(G: PackedGenotypes) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    """Unpack one block of variants after the other."""
    for block in _slices(G.d, BLOCK // max(1, G.n_in_file)):
        yield block, G.codes(block.start, block.stop)


def _slices(size: int, step: int) -> Iterator[slice]:
    for low in range(0, size, max(1, step)):
        yield slice(low, min(low + step, size))


def _side_by_side(function: Callable[..., None], tasks: Iterable[object]) -> None:
    """Call a function of every task, so that each core is kept busy."""
    waiting = deque(tasks)

    def work() -> None:
        while True:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            function(task)

    run_all([work] * max(1, min(cores(), len(waiting))))


# ---- counts


def code_counts(G: PackedGenotypes) -> NDArray[np.int64]:
    """Count the samples of every variant and code: (d, 4)."""
    out = np.zeros((G.d, CODES), np.int64)
    kernels = kernels_for(COUNT_SECONDS * G.n * G.d, KERNELS)
    if kernels is None:
        for block, codes in _blocks(G):
            for code in range(CODES):
                out[block, code] = np.count_nonzero(codes == code, axis=1)
        return out
    bits = np.zeros((8 * -(-G.data.shape[1] // 8), 8), np.uint8)
    bits.reshape(-1, 2)[G.places, 0] = 1
    mask = np.packbits(bits, bitorder="little").view(np.uint64)
    data = read_only(G.data)
    _side_by_side(
        lambda part: kernels.mask_counts(data, G.file_rows(part), mask, G.n, out[part]),
        _slices(G.d, CHUNK),
    )
    return out


def missing_per_sample(G: PackedGenotypes) -> NDArray[np.int64]:
    """Count the missing genotypes of every sample: (n,)."""
    points = np.tile(np.arange(CODES) == MISSING, (G.d, 1))
    return scores(G, points).astype(np.int64)


# ---- W Wᵀ


def agreement(G: PackedGenotypes) -> Floats:
    """Count the variants on which two samples have the same code: W Wᵀ, exact."""
    out = _square(G, float(G.d))
    _subtract(G, out, False)
    return out


def copy_products(G: PackedGenotypes) -> Floats:
    """Multiply the copies of A2 of every two samples, missing as none: exact.

    From squared distances: ``2 xᵀy = ‖x‖² + ‖y‖² − ‖x − y‖²``.
    """
    norms = scores(G, np.tile(np.nan_to_num(COPIES**2), (G.d, 1)))
    out = _square(G, 0.0)
    out += norms
    out += norms[:, None]
    _subtract(G, out, True)
    out /= 2
    return out


def _subtract(G: PackedGenotypes, out: Floats, copies: bool) -> None:
    """Subtract from `out` the number of differing variants, or squared distances.

    In squared distances, missing genotypes count as code 0.
    """
    kernels = kernels_for(COMPARE_SECONDS * G.d * float(G.n) ** 2, KERNELS)
    if kernels is None:
        for _, codes in _blocks(G):
            if copies:
                codes[codes == MISSING] = 0
            planes = bit_planes(np.ascontiguousarray(codes.T), 2)
            subtract_differences(planes, out)
            if copies:
                subtract_differences(planes, out, np.bitwise_and, 3)
    else:
        _subtract_compiled(G, kernels, copies, out)
    mirror(out)


def _subtract_compiled(
    G: PackedGenotypes, kernels: ModuleType, copies: bool, out: Floats
) -> None:
    """Subtract differences by planes of bits, some thousand variants at a time."""
    planes, size, squares = kernels.layout(G.n, G.d)
    data = read_only(G.data)
    samples = read_only(G.places)
    threads = cores()
    for part in _slices(G.d, size):
        rows = G.file_rows(part)
        _side_by_side(
            lambda t, rows=rows: kernels.write_codes(
                data, rows, samples, t, threads, copies, planes
            ),
            range(threads),
        )
        for both, times in WAYS[: 1 + copies]:
            _side_by_side(
                lambda square, both=both, times=times: kernels.subtract_differences(
                    planes, square, both, times, out
                ),
                reversed(range(squares)),  # the largest first
            )


def missing_products(G: PackedGenotypes, table: Floats) -> Floats:
    """Add ``table[j, code of b]`` to (a, b) and (b, a) for all j that a misses."""
    out = _square(G, 0.0)
    kernels = kernels_for(PRODUCT_SECONDS * G.n * G.d, KERNELS)
    if kernels is None:
        for block, codes in _blocks(G):
            missing = codes == MISSING
            some = np.flatnonzero(missing.any(axis=1))
            places = codes[some].astype(np.intp)
            values = np.take_along_axis(table[block][some], places, 1)
            for row, value in zip(missing[some], values, strict=True):
                out[row] += value
    else:
        data = read_only(G.data)
        samples = read_only(G.places)
        for part in _slices(G.d, CHUNK):
            rows = G.file_rows(part)
            points = read_only(table[part])
            _side_by_side(
                lambda some, rows=rows, points=points: kernels.add_missing(
                    data, rows, samples, some.start, some.stop, points, out
                ),
                _slices(G.n, -(-G.n // cores())),
            )
    out += out.T.copy()
    return out


def _square(G: PackedGenotypes, value: float) -> Floats:
    """Return a matrix of all pairs of samples, if it fits into memory."""
    check_memory(
        3 * 8 * G.n**2,
        f"Comparing every two of {G.n:,} samples",
        "use conjugate gradients (solver='cg'), or allow more",
    )
    return np.full((G.n, G.n), value)


# ---- W z


def scores(G: PackedGenotypes, points: ArrayLike) -> Floats:
    """Add up the points of every sample, (d, 4) or (d, 4, k): W z, (n,) or (n, k)."""
    given = np.asarray(points, np.float64)
    if given.shape[:2] != (G.d, CODES):
        raise ValueError(
            f"points must be of shape ({G.d}, {CODES}), not {given.shape[:2]}."
        )
    columns = given[:, :, None] if given.ndim == 2 else given
    k = columns.shape[2]
    kernels = kernels_for(PRODUCT_SECONDS * G.n * G.d * k, KERNELS)
    add = _add_scores if kernels is None else kernels.code_scores
    data = read_only(G.data)
    out = np.zeros((k, 4 * G.data.shape[1]))
    parts = list(_slices(G.d, CHUNK))
    wave = max(1, cores())
    some = np.empty((wave, *out.shape))

    def add_part(task: tuple[int, slice]) -> None:
        t, part = task
        rows = G.file_rows(part, TOGETHER)
        some[t] = 0
        for column in range(k):
            table = np.zeros((len(rows), CODES))
            table[: part.stop - part.start] = columns[part, :, column]
            add(data, rows, table, some[t, column])

    for low in range(0, len(parts), wave):
        _side_by_side(add_part, enumerate(parts[low : low + wave]))
        for t in range(len(parts[low : low + wave])):
            out += some[t]  # in the order of the parts, whatever the threads
    totals = out[:, G.places].T
    return totals[:, 0].copy() if given.ndim == 2 else np.ascontiguousarray(totals)


def _add_scores(
    data: NDArray[np.uint8], rows: NDArray[np.int64], points: Floats, out: Floats
) -> None:
    """Add up points in the order of the compiled loop: four variants per lookup."""
    tables = points[0::4]
    for k in range(1, 4):
        more = points[k::4, :, None] + tables[:, None, :]
        tables = more.reshape(len(tables), -1)
    for low in range(0, len(rows), TOGETHER):
        x = data[rows[low : low + TOGETHER]].astype(np.uint32).reshape(4, 4, -1)
        word = x[:, 0] | x[:, 1] << 8 | x[:, 2] << 16 | x[:, 3] << 24
        swap = (word ^ word >> 6) & 0x00CC00CC
        word ^= swap ^ swap << 6
        swap = (word ^ word >> 12) & 0x0000F0F0
        word ^= swap ^ swap << 12
        codes = word.astype("<u4").view(np.uint8)
        a, b, c, e = (
            table[code]
            for table, code in zip(tables[low // 4 : low // 4 + 4], codes, strict=True)
        )
        out += (a + b) + (c + e)


# ---- Wᵀ v


def sums(G: PackedGenotypes, V: ArrayLike) -> Floats:
    """Add up the values (n,) or (n, k) by code: Wᵀ v, (d, 4) or (d, 4, k)."""
    given = np.asarray(V, np.float64)
    if len(given) != G.n:
        raise ValueError(
            f"there are {G.n} samples, but the number of values is {len(given)}."
        )
    columns = given[:, None] if given.ndim == 1 else given
    k = columns.shape[1]
    length = G.data.shape[1]
    kernels = kernels_for(PRODUCT_SECONDS * G.n * G.d * k, KERNELS)
    add = _add_sums if kernels is None else kernels.code_sums
    data = read_only(G.data)
    out = np.zeros((k, G.d + -G.d % MANY, CODES))
    for value, target in zip(columns.T, out, strict=True):
        padded = np.zeros(4 * length)
        padded[G.places] = value
        vectors = _pair_vectors(padded)

        def add_part(
            part: slice, vectors: Floats = vectors, to: Floats = target
        ) -> None:
            rows = G.file_rows(part, MANY)
            add(data, rows, vectors, to[part.start : part.start + len(rows)])

        _side_by_side(add_part, _slices(G.d, CHUNK))
    out = out[:, : G.d]
    return out[0] if given.ndim == 1 else np.moveaxis(out, 0, 2).copy()


def _pair_vectors(values: Floats) -> Floats:
    """Return the sums of two samples by code: (pairs, half a byte, codes)."""
    first = np.arange(16) & 3
    second = np.arange(16) >> 2
    eye = np.eye(CODES)
    pairs = values.reshape(-1, 2)
    one: Floats = pairs[:, :1, None] * eye[first]
    one += pairs[:, 1:, None] * eye[second]
    return one


def _add_sums(
    data: NDArray[np.uint8], rows: NDArray[np.int64], vectors: Floats, out: Floats
) -> None:
    """Add up values in the order of the compiled loop: two samples per lookup."""
    for part in _slices(len(rows), BLOCK // max(1, data.shape[1])):
        packed = data[rows[part]]
        for span in _slices(data.shape[1], SPAN):
            even, odd = np.zeros((2, len(packed), CODES))
            for byte in range(span.start, span.stop):
                even += vectors[2 * byte][packed[:, byte] & 15]
                odd += vectors[2 * byte + 1][packed[:, byte] >> 4]
            out[part] += even + odd
