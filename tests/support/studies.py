"""Small studies as PLINK's files, and where real ones and plink2 are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

PLINK2 = shutil.which("plink2")
needs_plink2 = pytest.mark.skipif(
    PLINK2 is None, reason="plink2 is not on the path: make tools"
)


def plink2(*argv: object) -> None:
    """Run plink2; its log is shown if it fails."""
    assert PLINK2 is not None
    words = [PLINK2, *map(str, argv), "--threads", "1", "--memory", "1000"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def codes(n: int = 60, d: int = 40, seed: int = 0) -> NDArray[np.uint8]:
    """Return codes of .bed of d variants, some of which tell two halves apart."""
    rng = np.random.default_rng(seed)
    shares = rng.uniform(0.1, 0.5, (d, 1)) + np.where(np.arange(n) < n // 2, 0.3, 0)
    copies = rng.binomial(2, np.where(np.arange(d)[:, None] % 3, shares[:, :1], shares))
    found = np.array([3, 2, 0], np.uint8)[copies]
    found[rng.random((d, n)) < 0.05] = 1
    return found


def bed_bytes(table: NDArray[np.uint8]) -> bytes:
    """Pack codes bit by bit, not as the library does."""
    rows = []
    for codes in table.tolist():
        codes = codes + [0] * (-len(codes) % 4)
        quads = zip(*[iter(codes)] * 4, strict=True)
        rows.append(bytes(a | b << 2 | c << 4 | d << 6 for a, b, c, d in quads))
    return b"\x6c\x1b\x01" + b"".join(rows)


def save_study(
    stem: Path | str = "study",
    table: Any = None,
    chromosomes: Any = None,
    **columns: Any,
) -> Path:
    """Write a .bed with its .bim and .fam; the first half are controls."""
    table = codes() if table is None else np.asarray(table, np.uint8)
    d, n = table.shape
    place = Path(f"{stem}.bed")
    place.write_bytes(bed_bytes(table))
    where = chromosomes or [str(1 + k * 22 // d) for k in range(d)]
    lines = [f"{where[k]}\trs{k}\t0\t{1000 * (k + 1)}\tA\tG" for k in range(d)]
    place.with_suffix(".bim").write_text("\n".join(lines) + "\n")
    fam = pd.DataFrame(
        {
            "fid": [f"F{k // 2}" for k in range(n)],
            "iid": [f"I{k}" for k in range(n)],
            "father": "0",
            "mother": "0",
            "sex": [str(1 + k % 2) for k in range(n)],
            "phenotype": [str(1 + (k >= n // 2)) for k in range(n)],
        }
        | columns
    )
    fam.to_csv(place.with_suffix(".fam"), sep=" ", header=False, index=False)
    return place


def save_pgen(stem: Path | str, table: NDArray[np.uint8], beside: Path) -> Path:
    """Write codes as a .pgen file, with the .pvar and .psam of a study in .bed."""
    import pgenlib

    place, (d, n) = Path(f"{stem}.pgen"), table.shape
    calls = np.array([2, -9, 1, 0], np.int8)[table]
    with pgenlib.PgenWriter(str(place).encode(), n, d, False) as writer:
        for row in calls:
            writer.append_biallelic(row)
    bim = pd.read_csv(beside.with_suffix(".bim"), sep="\t", header=None, dtype=str)
    lines = ["##fileformat=VCFv4.2", "#CHROM\tPOS\tID\tREF\tALT"]
    for row in bim.itertuples(index=False):
        a1 = "." if row[4] == "0" else row[4]
        lines.append(f"{row[0]}\t{row[3]}\t{row[1]}\t{row[5]}\t{a1}")
    place.with_suffix(".pvar").write_text("\n".join(lines) + "\n")
    fam = pd.read_csv(beside.with_suffix(".fam"), sep=" ", header=None, dtype=str)
    fam.columns = ["#FID", "IID", "PAT", "MAT", "SEX", "PHENO1"]
    fam.to_csv(place.with_suffix(".psam"), sep="\t", index=False)
    return place
