r"""Genotypes as PLINK packs them, four to a byte, and the products of their one-hot W.

A genotype is one of four codes, the two bits of a .bed file: 0 two copies of the first
allele A1, 1 missing, 2 one copy, 3 none. W has four indicators per variant; it is never
written out, and genotypes are unpacked to bytes for one block of variants at a time.
The products take numpy, or the compiled loops of `renyi.counting.packed_kernels`.

Counts are exact either way. Sums in floating point are added in another order by the
compiled loops, which the shape alone chooses; neither order depends on the number of
threads, and the score of a sample does not depend on the others.

*Copies as numbers.* The two bits of codes 0, 2, 3 say whether there is at least one
copy of A2, and whether there are two. So two samples differ by two copies where both
bits do, by one where only one does, and their squared distance is the number of
variants where any bit differs plus three times that of those where both do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.checks import check_memory
from renyi.counting.onehot import (
    bit_planes,
    lookup_sum,
    mirror,
    subtract_differences,
)

Floats = NDArray[np.float64]

MISSING = 1
CODES = 4
OBSERVED = [0, 2, 3]
COPIES = np.array([0.0, np.nan, 1.0, 2.0])
"""Copies of the second allele by code."""
BLOCK = 2**22  # genotypes unpacked at a time
CHUNK = 512  # variants whose points are added up before they join the rest
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
        Those kept, ascending; None keeps all.

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
        if self.data.dtype != np.uint8 or self.data.ndim != 2:
            raise ValueError(
                "packed genotypes must be bytes of shape (variants, bytes per variant),"
                f" not {self.data.dtype} of shape {self.data.shape}."
            )
        if self.data.shape[1] != -(-self.n_in_file // 4):
            raise ValueError(
                f"{self.n_in_file} samples take {-(-self.n_in_file // 4)} bytes per "
                f"variant, and the packed genotypes have {self.data.shape[1]}."
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
        padded = np.zeros((d, -(-n // 4) * 4), np.uint8)
        padded[:, :n] = table
        data = padded[:, 0::4].copy()
        for place in range(1, 4):
            data |= padded[:, place::4] << np.uint8(2 * place)
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

    def codes(self, low: int = 0, high: int | None = None) -> NDArray[np.uint8]:
        """Return unpacked codes of variants `low` to `high` of those kept."""
        packed = self.rows(low, self.d if high is None else min(high, self.d))
        found = _UNPACKED[packed].reshape(len(packed), 4 * self.data.shape[1])
        if self.samples is None:
            return found[:, : self.n_in_file]
        return found[:, self.samples]

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


def _check_kept(name: str, kept: NDArray[Any] | None, size: int) -> None:
    """Refuse indices that do not ascend, or lie outside of the file."""
    if kept is None or not len(kept):
        return
    if kept[0] < 0 or kept[-1] >= size or (np.diff(kept) <= 0).any():
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


def _blocks(
    G: PackedGenotypes, step: int | None = None
) -> Iterator[tuple[slice, NDArray[np.uint8]]]:
    """Unpack one block of variants after the other."""
    step = step or max(1, BLOCK // max(1, G.n_in_file))
    for low in range(0, G.d, step):
        block = slice(low, min(low + step, G.d))
        yield block, G.codes(block.start, block.stop)


# ---- counts


def code_counts(G: PackedGenotypes) -> NDArray[np.int64]:
    """Count the samples of every variant and code: (d, 4)."""
    return class_code_counts(G, np.zeros(G.n, np.int64), 1)[:, :, 0]


def class_code_counts(
    G: PackedGenotypes, y: ArrayLike, n_classes: int
) -> NDArray[np.int64]:
    """Count the samples of every variant, code and class: (d, 4, K)."""
    labels = np.asarray(y)
    out = np.zeros((G.d, CODES, n_classes), np.int64)
    for block, codes in _blocks(G):
        for k in range(n_classes):
            some = codes if n_classes == 1 else codes[:, labels == k]
            for code in range(CODES):
                out[block, code, k] = np.count_nonzero(some == code, axis=1)
    return out


def missing_per_sample(G: PackedGenotypes) -> NDArray[np.int64]:
    """Count the missing genotypes of every sample: (n,)."""
    points = np.zeros((G.d, CODES))
    points[:, MISSING] = 1
    return scores(G, points).astype(np.int64)


# ---- W Wᵀ


def agreement(G: PackedGenotypes) -> Floats:
    """Count the variants on which two samples have the same code: W Wᵀ, exact."""
    out = _square(G, float(G.d))
    for _, codes in _blocks(G):
        subtract_differences(bit_planes(_columns(codes), 2), out)
    mirror(out)
    return out


def copy_products(G: PackedGenotypes) -> Floats:
    """Multiply the copies of A2 of every two samples, missing as none: exact.

    From squared distances: ``2 xᵀy = ‖x‖² + ‖y‖² − ‖x − y‖²``.
    """
    squares = np.zeros((G.d, CODES))
    squares[:] = np.nan_to_num(COPIES**2)
    norms = scores(G, squares)
    out = _square(G, 0.0)
    out += norms
    out += norms[:, None]
    for _, codes in _blocks(G):
        codes[codes == MISSING] = 0
        planes = bit_planes(_columns(codes), 2)
        subtract_differences(planes, out)
        subtract_differences(planes, out, np.bitwise_and, 3)
    mirror(out)
    out /= 2
    return out


def missing_products(G: PackedGenotypes, table: Floats) -> Floats:
    """Add ``table[j, code of b]`` to (a, b) and (b, a) for all j that a misses.

    For every two samples, by going over missing genotypes only.
    """
    out = _square(G, 0.0)
    for block, codes in _blocks(G):
        missing = codes == MISSING
        some = np.flatnonzero(missing.any(axis=1))
        values = np.take_along_axis(table[block][some], codes[some].astype(np.intp), 1)
        for row, value in zip(missing[some], values, strict=True):
            out[row] += value
    out += out.T.copy()
    return out


def _square(G: PackedGenotypes, value: float) -> Floats:
    """Return a number for every two samples, if there is memory for so many."""
    check_memory(
        3 * 8 * G.n**2,
        f"Comparing every two of {G.n:,} samples",
        "use conjugate gradients (solver='cg'), or allow more",
    )
    return np.full((G.n, G.n), value)


def _columns(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(codes.T)


# ---- W z and Wᵀ v


def scores(G: PackedGenotypes, points: ArrayLike) -> Floats:
    """Add up the points of every sample, (d, 4) or (d, 4, k): W z, (n,) or (n, k)."""
    given = np.asarray(points, np.float64)
    if given.shape[:2] != (G.d, CODES):
        raise ValueError(
            f"points must be of shape ({G.d}, {CODES}), not {given.shape[:2]}."
        )
    table = given.reshape(G.d, CODES, *(given.shape[2:] or (1,)))
    out = np.zeros((G.n, table.shape[2]))
    for block, codes in _blocks(G, CHUNK):  # of one size, that bits be the same
        some = table[block].reshape(-1, table.shape[2])
        out += lookup_sum(codes, some, CODES * np.arange(len(codes)))
    return out[:, 0] if given.ndim == 2 else out


def sums(G: PackedGenotypes, V: ArrayLike) -> Floats:
    """Add up the values (n,) or (n, k) by code: Wᵀ v, (d, 4) or (d, 4, k)."""
    given = np.asarray(V, np.float64)
    if len(given) != G.n:
        raise ValueError(f"there are {G.n} samples, and values of {len(given)}.")
    values = given.reshape(G.n, *(given.shape[1:] or (1,)))
    out = np.zeros((G.d, CODES, values.shape[1]))
    for block, codes in _blocks(G):
        for code in range(CODES):
            out[block, code] = (codes == code).astype(np.float64) @ values
    return out[:, :, 0] if given.ndim == 1 else out
