r"""What two samples have in common, and the points of variants, under one coding.

A coding gives variant j a matrix B_j of four rows, one per code; two samples have
``A[a, b] = Σ_j B_j[code of a] · B_j[code of b]`` in common, and weights β of samples
make points ``B_j B_jᵀ s_j`` of the four codes, s_j the sums of β by code.

* Categories: B_j is the identity; A counts agreements.
* Missing as the mean: the row of a missing genotype is the variant's observed
  frequencies μ_j of the codes 0, 2, 3.
* Additive: one column, the copies of A2; where missing their mean, or 0 beside a column
  of its own that marks what is missing.

A differs from whole numbers, which are counted exactly, only by terms of the missing
genotypes: where a misses, B_j[missing]·B_j[code of b], half of it where b misses too,
minus what the count had there; then the same with a and b exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from renyi.counting.gpu import DeviceGenotypes
from renyi.counting.packed import (
    CODES,
    COPIES,
    MISSING,
    NONE,
    OBSERVED,
    ONE,
    PackedGenotypes,
    agreement,
    code_counts,
    copy_products,
    missing_products,
    scores,
    sums,
)

Floats = NDArray[np.float64]

MISSING_AS = ("category", "mean")
"""What a missing genotype counts as."""


@dataclass(frozen=True, eq=False)
class GenotypeKernel:
    """Genotypes under a coding, with the means that stand for missing ones.

    `means` are the frequencies of the codes 0, 2, 3 among those observed, (d, 3), or
    None if missing is a category. Products are computed `on_gpu` if there is one.
    """

    G: PackedGenotypes
    dominance: bool
    means: Floats | None
    on_gpu: DeviceGenotypes | None = None

    @classmethod
    def of(
        cls, G: PackedGenotypes, dominance: bool, missing: str, device: str = "cpu"
    ) -> GenotypeKernel:
        """Take the means of these samples, if need be."""
        on_gpu = DeviceGenotypes(G) if device == "cuda" else None
        if missing == "category":
            return cls(G, dominance, None, on_gpu)
        seen = code_counts(G)[:, OBSERVED].astype(np.float64)
        means = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
        return cls(G, dominance, means, on_gpu)

    def matrix(self) -> Floats:
        """Return A."""
        if not self.dominance:
            A = copy_products(self.G)
        elif self.on_gpu is None:
            A = agreement(self.G)
        else:
            A = self.on_gpu.agreement()
        table = self._of_missing()
        if table is not None:
            A += missing_products(self.G, table)
        return A

    def multiply(self, V: Floats) -> Floats:
        """Return A V of V (n, k)."""
        if self.on_gpu is None:
            return scores(self.G, self.points(V))
        if self.dominance and self.means is None:
            return self.on_gpu.gram(V)
        return self.on_gpu.scores(self.points(V))

    def points(self, beta: Floats) -> Floats:
        """Return the points of the codes, (d, 4) or (d, 4, k), from weights β."""
        found = sums(self.G, beta) if self.on_gpu is None else self.on_gpu.sums(beta)
        return self._coded(found)

    def _of_missing(self) -> Floats | None:
        """Return what the counts lack where one sample misses: by the other's code."""
        table = np.zeros((self.G.d, CODES))
        if self.means is None:
            if self.dominance:
                return None
            table[:, MISSING] = 0.5
            return table
        if self.dominance:
            table[:, OBSERVED] = self.means
            table[:, MISSING] = ((self.means**2).sum(axis=1) - 1) / 2
        else:
            mean = self._mean_copies()
            table[:, OBSERVED] = mean[:, None] * COPIES[OBSERVED]
            table[:, MISSING] = mean**2 / 2
        return table

    def _mean_copies(self) -> Floats:
        assert self.means is not None
        return np.asarray(self.means @ COPIES[OBSERVED])

    def _coded(self, sums: Floats) -> Floats:
        """Return the points of the codes from sums of weights by code."""
        if self.dominance and self.means is None:
            return sums
        S = sums[:, :, None] if sums.ndim == 2 else sums
        out = S.copy()
        if self.dominance:
            assert self.means is not None
            out[:, OBSERVED] += self.means[:, :, None] * S[:, [MISSING]]
            out[:, MISSING] = (self.means[:, :, None] * out[:, OBSERVED]).sum(axis=1)
        else:
            per_copy = S[:, ONE] + 2 * S[:, NONE]
            if self.means is not None:
                mean = self._mean_copies()[:, None]
                per_copy += mean * S[:, MISSING]
                out[:, MISSING] = mean * per_copy
            out[:, OBSERVED] = COPIES[OBSERVED, None] * per_copy[:, None]
        return out[:, :, 0] if sums.ndim == 2 else out
