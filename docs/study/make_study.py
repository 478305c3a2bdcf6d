"""Write the made-up study of the genotype guide, as PLINK files.

    python docs/study/make_study.py

300 samples come from two ancestries. 200 variants have other frequencies in each; 15
of them change the risk of a disease, and so does the ancestry. The first 200 samples
are ``study``, the others ``other``. No real genotype is in these files.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
SAMPLES = 300
VARIANTS = 200
CAUSAL = 15
BED_CODES = np.array([3, 2, 0])  # no, one and two copies of A1
MISSING = 1


def write(stem: str, codes: NDArray[np.int64], cases: NDArray[np.bool_]) -> None:
    """Write one .bed with its .bim and .fam; 1 is a control, 2 a case."""
    variants, samples = codes.shape
    padded = np.zeros((variants, -(-samples // 4) * 4), dtype=int)
    padded[:, :samples] = codes
    packed = padded.reshape(variants, -1, 4) @ [1, 4, 16, 64]
    magic = bytes([0x6C, 0x1B, 1])
    (HERE / f"{stem}.bed").write_bytes(magic + packed.astype(np.uint8).tobytes())
    bim = [
        f"{1 + k * 22 // variants}\trs{k + 1}\t0\t{1000 * (k + 1)}\tA\tG\n"
        for k in range(variants)
    ]
    (HERE / f"{stem}.bim").write_text("".join(bim))
    fam = [f"{stem}{i} {stem}{i} 0 0 0 {1 + case}\n" for i, case in enumerate(cases)]
    (HERE / f"{stem}.fam").write_text("".join(fam))


def write_components(stem: str, component: NDArray[np.float64]) -> None:
    """Write the first principal component of each sample."""
    rows = [f"{stem}{i} {stem}{i} {pc:.4f}\n" for i, pc in enumerate(component)]
    (HERE / f"{stem}-pcs.txt").write_text("FID IID PC1\n" + "".join(rows))


def main() -> None:
    """Draw samples, genotypes and cases; write both parts."""
    rng = np.random.default_rng(0)
    ancestry = rng.integers(0, 2, SAMPLES)
    first = rng.uniform(0.03, 0.5, VARIANTS)
    second = np.clip(first + rng.normal(0, 0.08, VARIANTS), 0.02, 0.6)
    frequency = np.where(ancestry[:, None] == 0, first, second)
    copies = rng.binomial(2, frequency)
    effect = np.zeros(VARIANTS)
    effect[rng.choice(VARIANTS, CAUSAL, replace=False)] = rng.normal(0, 1, CAUSAL)
    risk = (copies - 2 * first) @ effect
    liability = risk / risk.std() + 0.5 * ancestry + rng.normal(0, 0.5, SAMPLES)
    cases = liability > np.median(liability)
    component = np.linalg.svd(copies - copies.mean(0), full_matrices=False)[0][:, 0]
    codes = BED_CODES[copies].T
    codes[rng.random(codes.shape) < 0.01] = MISSING
    for stem, part in (("study", slice(0, 200)), ("other", slice(200, None))):
        write(stem, codes[:, part], cases[part])
        write_components(stem, component[part])


if __name__ == "__main__":
    main()
