"""Read .bed files (memory map) and .pgen files (pgenlib), and filter genotypes.

Both become `PackedGenotypes` of PLINK's two-bit codes. A1 is the counted allele: the
first of .bim, ALT of .pvar.

*Filters* are applied in PLINK's order. Frequencies are those of founders; a male has
one copy of X. In scores a male's X counts as two equal copies, as in plink2's
``--score``. Variants of X at which a male is heterozygous, and all of Y and MT, are
left out with a warning.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from renyi.files import first_line
from renyi.formatting import number_of
from renyi.genotypes.packed import (
    MISSING,
    OBSERVED,
    ONE,
    TWO,
    PackedGenotypes,
    code_counts,
    missing_per_sample,
    pack,
    variant_bytes,
)
from renyi.genotypes.samples import listed_samples, listed_variants
from renyi.genotypes.suffixes import CALLS, GENOTYPES
from renyi.genotypes.tables import (
    HAPLOID,
    chromosome_name,
    read_bim,
    read_fam,
    read_psam,
    read_pvar,
)
from renyi.limits import check_memory
from renyi.progress import Progress, ProgressCallback
from renyi.sources.files import existing
from renyi.validation import import_extra
from renyi.warnings import warn

_MAGIC = b"\x6c\x1b"
_BED_HEAD = 3  # bytes before the genotypes, or before the index
_PGEN_HEAD = 12
_BLOCK = 2**25  # bytes of calls that are unpacked at a time
# Codes by copies of ALT: none, one, two; -9 (missing) is 3 in its last bits.
_CODES = np.array([*OBSERVED[::-1], MISSING], np.uint8)
_UP = 1 + 1e-11  # a share equal to a limit is within it, as in plink2
_REGION = re.compile(r"([^:]+):(\d[\d,]{0,20})-(\d[\d,]{0,20})")

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Say = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class Genotypes:
    r"""Genotypes with their samples and variants.

    A genotype is the number of copies of the allele A1 that a sample has: 0, 1, 2 or
    missing. Genotypes take two bits each, and those of a .bed file stay on disk until
    they are needed. `read_genotypes` makes this record from PLINK files, and `select`
    returns a part of it.

    Parameters
    ----------
    packed : PackedGenotypes
        Two-bit codes of .bed: 0 two copies of A1, 1 missing, 2 one copy, 3 none.
    samples : DataFrame
        Columns fid, iid, father, mother, sex (1 male, 2 female, 0 not known) and
        phenotype, all text; a row per sample.
    variants : DataFrame
        Columns chromosome, id, position, a1 and a2; a row per variant.
    path : str
        The file.

    See Also
    --------
    read_genotypes : Read the files.
    renyi.read_study : Also read phenotype, covariates and groups.
    renyi.GenotypeClassifier : Train on genotypes.

    Examples
    --------
    Two variants of three samples, of which the first two are selected:

    >>> import pathlib, tempfile
    >>> from renyi import read_genotypes
    >>> place = pathlib.Path(tempfile.mkdtemp(), "tiny.bed")
    >>> _ = place.write_bytes(bytes([0x6C, 0x1B, 1, 0b11_10_00, 0b00_11_01]))
    >>> variants = "1 rs1 0 100 A G\n1 rs2 0 200 C T\n"
    >>> _ = place.with_suffix(".bim").write_text(variants)
    >>> samples = "F1 a 0 0 1 1\nF2 b 0 0 2 2\nF3 c 0 0 2 1\n"
    >>> _ = place.with_suffix(".fam").write_text(samples)
    >>> genotypes = read_genotypes(place)
    >>> len(genotypes.samples), len(genotypes.variants)
    (3, 2)
    >>> genotypes.select(samples=[0, 1]).samples["iid"].tolist()
    ['a', 'b']
    """

    packed: PackedGenotypes
    samples: pd.DataFrame
    variants: pd.DataFrame
    path: str

    def __repr__(self) -> str:
        size = f"{len(self.samples):,} samples and {len(self.variants):,} variants"
        return f"<Genotypes of {size} from {self.path}>"

    def select(
        self, samples: ArrayLike | None = None, variants: ArrayLike | None = None
    ) -> Genotypes:
        """Return some samples and variants, by ascending indices or truth values."""
        part = replace(self, packed=self.packed.take(samples, variants))
        if samples is not None:
            rows = self.samples.iloc[np.asarray(samples)].reset_index(drop=True)
            part = replace(part, samples=rows)
        if variants is not None:
            rows = self.variants.iloc[np.asarray(variants)].reset_index(drop=True)
            part = replace(part, variants=rows)
        return part


_CONVERSIONS = {
    ".bgen": "--bgen {name} ref-first --sample {stem}.sample --make-pgen",
    ".vcf": "--vcf {name} --max-alleles 2 --make-pgen",
    ".vcf.gz": "--vcf {name} --max-alleles 2 --make-pgen",
    ".bcf": "--bcf {name} --max-alleles 2 --make-pgen",
    ".ped": "--pedmap {stem} --make-pgen",
}


def _genotype_file(name: str) -> Path:
    """Return the .bed or .pgen file of a name, with or without its ending.

    For a file of another program the error contains the command that converts it.
    """
    for ending, words in _CONVERSIONS.items():
        if name.endswith(ending):
            stem = name.removesuffix(ending)
            command = words.format(name=name, stem=stem)
            raise ValueError(
                f"{name} is not read directly: convert it with 'plink2 {command} "
                f"--out {stem}', then name {stem}.pgen."
            )
    if name.endswith(GENOTYPES):
        return existing(name)
    for ending in GENOTYPES:
        if os.path.isfile(name + ending) and not os.path.exists(name):
            return Path(name + ending)
    raise ValueError(
        f"{existing(name)} contains no genotypes: name a .bed or a .pgen file."
    )


def read_genotypes(
    path: str | os.PathLike[str], progress: ProgressCallback | None = None
) -> Genotypes:
    r"""Read a .bed or .pgen file, with its sample and variant files.

    A .bed file needs its .fam file (samples) and .bim file (variants) in the same
    folder, a .pgen file its .psam and .pvar files. A .bed file is mapped, not loaded.
    From a .pgen file, which needs the extra ``genetics``, the function reads the hard
    calls. It leaves out variants with negative positions, as PLINK does, and warns.

    Parameters
    ----------
    path : str or path
        The file, or its name without the ending.
    progress : callable, optional
        Called with a `Progress` while a .pgen file is read.

    Returns
    -------
    Genotypes

    See Also
    --------
    renyi.read_study : Also read phenotype, covariates and groups.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> place = pathlib.Path(tempfile.mkdtemp(), "tiny.bed")
    >>> _ = place.write_bytes(bytes([0x6C, 0x1B, 1, 0b11_10_00]))
    >>> _ = place.with_suffix(".bim").write_text("1 rs1 0 100 A G\n")
    >>> samples = "F1 a 0 0 1 1\nF2 b 0 0 2 2\nF3 c 0 0 2 1\n"
    >>> _ = place.with_suffix(".fam").write_text(samples)
    >>> genotypes = read_genotypes(place)
    >>> genotypes.samples["iid"].tolist(), genotypes.variants["id"].tolist()
    (['a', 'b', 'c'], ['rs1'])
    """
    place = _genotype_file(os.fspath(path))
    about = [_check_beside(place, Path(each)) for each in files_beside(str(place))]
    head = _head(place)
    is_bed = place.suffix == ".bed"
    samples = (read_fam if is_bed else read_psam)(about[0])
    variants = (read_bim if is_bed else read_pvar)(about[1])
    n = len(samples)
    d = len(variants)
    if head[2] == 1:  # a .pgen file may be a .bed file by its contents
        data = _mapped(place, n, d, about)
    else:
        data = _unpacked(place, head, n, d, about, progress)
    genotypes = Genotypes(PackedGenotypes(data, n), samples, variants, str(place))
    negative = (variants["position"] < 0).to_numpy(bool)
    return _leave_out(genotypes, negative, "with negative positions, as PLINK does")


def _leave_out(genotypes: Genotypes, gone: Mask, why: str) -> Genotypes:
    """Remove variants with a warning; raise ValueError if none is left."""
    if not gone.any():
        return genotypes
    many = f"{number_of(int(gone.sum()), 'variant')} of {genotypes.path}"
    if gone.all():
        raise ValueError(f"No variant is left without {many} {why}.")
    warn(f"Left out {many} {why}.")
    return genotypes.select(variants=~gone)


def files_beside(path: str) -> tuple[str, str]:
    """Return the sample file and the variant file of a genotype file."""
    stem, dot, ending = path.rpartition(".")
    samples, variants = CALLS[dot + ending]
    return stem + samples, stem + variants


def _check_beside(place: Path, beside: Path) -> Path:
    """Return the file; raise an error if it is compressed or absent."""
    packed = beside.with_name(beside.name + ".zst")
    if not beside.exists() and packed.exists():
        raise ValueError(
            f"{packed} is compressed: unpack it with 'plink2 --zst-decompress {packed} "
            f"{beside}'."
        )
    if not beside.exists():
        raise FileNotFoundError(
            f"There is no {beside}, which belongs to {place}: put it in the same "
            "folder."
        )
    return beside


def _head(place: Path) -> bytes:
    """Return the first bytes of a file, the mode third; check that it has genotypes."""
    with place.open("rb") as stream:
        head = stream.read(_PGEN_HEAD)
    magic = _MAGIC + b"\1" if place.suffix == ".bed" else _MAGIC
    if not head.startswith(magic) or len(head) < 3:
        raise ValueError(
            f"{place} is not a {place.suffix} file of PLINK: it begins with "
            f"{head[:3].hex(' ')!r}, not with {magic.hex(' ')!r}."
        )
    return head


# ---- .bed


def _mapped(place: Path, n: int, d: int, about: list[Path]) -> NDArray[np.uint8]:
    """Map the genotypes of a .bed file into memory, if its size is right."""
    width = variant_bytes(n)
    size = place.stat().st_size - _BED_HEAD
    needed = width * d
    if size != needed:
        raise ValueError(
            f"{place} is truncated, or belongs to other files: {n:,} samples "
            f"({about[0].name}) and {d:,} variants ({about[1].name}) take "
            f"{needed + _BED_HEAD:,} bytes, and it has {size + _BED_HEAD:,}."
        )
    return np.asarray(np.memmap(place, np.uint8, "r", _BED_HEAD, (d, width)))


# ---- .pgen


def _unpacked(
    place: Path,
    head: bytes,
    n: int,
    d: int,
    about: list[Path],
    progress: ProgressCallback | None,
) -> NDArray[np.uint8]:
    """Read the hard calls of a .pgen file, some variants at a time, and pack them."""
    if len(head) < _PGEN_HEAD:
        raise ValueError(f"{place} is truncated: it has {len(head)} bytes.")
    facts = (("samples", 7, n, about[0]), ("variants", 3, d, about[1]))
    for what, at, count, path in facts:
        declared = int.from_bytes(head[at : at + 4], "little")
        if declared != count:
            raise ValueError(
                f"{place} declares {declared:,} {what}, but {path} has {count:,}: the "
                "files do not belong together."
            )
    need = "Files .pgen need the package pgenlib"
    otherwise = ", or convert the file with 'plink2 --pfile … --make-bed'"
    reader = import_extra("pgenlib", "genetics", need, otherwise).PgenReader
    width = variant_bytes(n)
    check_memory(width * d + 3 * _BLOCK, f"Reading {place}")
    begun = time.monotonic()
    step = max(1, _BLOCK // (4 * width))
    try:
        with reader(os.fsencode(place), n, d) as calls:
            data = np.empty((d, width), np.uint8)
            copies = np.empty((min(step, d), n), np.int8)
            codes = np.zeros((min(step, d), 4 * width), np.uint8)
            for low in range(0, d, step):
                high = min(low + step, d)
                calls.read_range(low, high, copies[: high - low])
                codes[: high - low, :n] = _CODES[copies[: high - low] & 3]
                pack(codes[: high - low], data[low:high])
                if progress is not None:
                    spent = time.monotonic() - begun
                    progress(Progress(f"reading {place}", spent, high / d))
    except (RuntimeError, OSError) as error:
        reason = first_line(error).removeprefix("b'").partition(".\\n")[0]
        raise ValueError(
            f"{place} is damaged or truncated ({reason}): take a fresh copy of it."
        ) from None
    return data


# ---- filters


@dataclass(frozen=True)
class Filters:
    """Which genotypes to keep; empty lists and options keep all."""

    keep: str | None = None  # files of samples
    remove: str | None = None
    extract: str | None = None  # files of ids of variants
    exclude: str | None = None
    chromosomes: Sequence[str] = ()  # and ranges of them, such as 1-22
    regions: Sequence[str] = ()  # such as 6:25,000,000-34,000,000
    mind: float | None = None  # largest share of missing calls of a sample
    geno: float | None = None  # and of a variant
    maf: float | None = None  # smallest frequency of the rarer allele

    def apply(self, genotypes: Genotypes, say: Say = lambda line: None) -> Genotypes:
        """Return the kept genotypes; call `say` after every step, as PLINK logs it."""
        left = self.apply_lists(genotypes, say)
        for option, path in (("extract", self.extract), ("exclude", self.exclude)):
            if path is not None:
                mask = listed_variants(path, left.variants) == (option == "extract")
                left = _narrowed(left, option, say, variants=mask)
        if self.chromosomes:
            mask = _on_chromosomes(left.variants, self.chromosomes)
            left = _narrowed(left, "chr", say, variants=mask)
        if self.regions:
            mask = _in_regions(left.variants, self.regions)
            left = _narrowed(left, "region", say, variants=mask)
        left = _without_male_heterozygotes(without_haploid(left))
        if self.mind is not None:
            mask = missing_per_sample(left.packed) <= self.mind * left.packed.d * _UP
            left = _narrowed(left, "mind", say, samples=mask)
        counts = None
        if self.geno is not None:
            counts = code_counts(left.packed)
            mask = counts[:, MISSING] <= self.geno * left.packed.n * _UP
            left = _narrowed(left, "geno", say, variants=mask)
            counts = counts[mask]
        if self.maf is not None:
            mask = minor_allele_frequencies(left, counts) >= self.maf / _UP
            left = _narrowed(left, "maf", say, variants=mask)
        return left

    def apply_lists(
        self, genotypes: Genotypes, say: Say = lambda line: None
    ) -> Genotypes:
        """Return the samples that lists keep."""
        left = genotypes
        for option, path in (("keep", self.keep), ("remove", self.remove)):
            if path is not None:
                mask = listed_samples(path, left.samples) == (option == "keep")
                left = _narrowed(left, option, say, samples=mask)
        return left


def _narrowed(
    genotypes: Genotypes,
    option: str,
    say: Say,
    samples: Mask | None = None,
    variants: Mask | None = None,
) -> Genotypes:
    """Return what an option keeps; raise an error if that is nothing."""
    what, mask = ("sample", samples) if variants is None else ("variant", variants)
    assert mask is not None
    count = int(mask.sum())
    if not count:
        raise ValueError(
            f"--{option} leaves no {what} of {genotypes.path}: check its value, or "
            "whether the ids and chromosomes are written as there."
        )
    gone = number_of(len(mask) - count, what)
    say(f"--{option}: {number_of(count, what)} remaining ({gone} removed).")
    return genotypes if count == len(mask) else genotypes.select(samples, variants)


# ---- places


def _on_chromosomes(variants: pd.DataFrame, names: Sequence[str]) -> Mask:
    wanted: set[str] = set()
    for text in (part for name in names for part in name.split(",") if part):
        ends = [chromosome_name(end) for end in text.split("-")]
        if len(ends) == 2 and all(end.isdecimal() for end in ends):
            wanted |= {str(k) for k in range(int(ends[0]), min(int(ends[1]), 99) + 1)}
        elif len(ends) == 1:
            wanted.add(ends[0])
        else:
            raise ValueError(
                f"--chr {text} is not a chromosome or a range such as 1-22; name X, Y, "
                "XY and MT one by one."
            )
    return variants["chromosome"].isin(wanted).to_numpy(bool)


def _in_regions(variants: pd.DataFrame, regions: Sequence[str]) -> Mask:
    inside = np.zeros(len(variants), bool)
    position = variants["position"].to_numpy()
    for region in regions:
        match = _REGION.fullmatch(region)
        if match is None:
            example = "6:25000000-34000000"
            raise ValueError(f"--region {region} is not a place such as {example}.")
        low, high = (int(text.replace(",", "")) for text in match.groups()[1:])
        there = variants["chromosome"] == chromosome_name(match[1])
        inside |= there.to_numpy(bool) & (low <= position) & (position <= high)
    return inside


# ---- haploid calls


def without_haploid(genotypes: Genotypes) -> Genotypes:
    """Leave out Y and MT, whose calls count one copy as two."""
    haploid = genotypes.variants["chromosome"].isin(HAPLOID).to_numpy(bool)
    why = "on the chromosomes Y and MT, whose calls are haploid"
    return _leave_out(genotypes, haploid, why)


def _without_male_heterozygotes(genotypes: Genotypes) -> Genotypes:
    """Leave out variants of X at which a male is heterozygous."""
    on_x, males = _sex_linked(genotypes)
    if not (on_x.any() and males.any()):
        return genotypes
    wrong = np.zeros(genotypes.packed.d, np.int64)
    wrong[on_x] = code_counts(genotypes.packed.take(males, on_x))[:, ONE]
    worst = int(wrong.argmax())
    why = (
        "on X at which males are heterozygous, most often "
        f"{genotypes.variants['id'].iloc[worst]!r} ({wrong[worst]:,} of "
        f"{number_of(int(males.sum()), 'male')}): check their sex, or make such "
        "calls missing with plink2 --set-hh-missing"
    )
    return _leave_out(genotypes, wrong > 0, why)


def _sex_linked(genotypes: Genotypes) -> tuple[Mask, Mask]:
    """Return which variants are on X, and which samples are male."""
    on_x = (genotypes.variants["chromosome"] == "X").to_numpy(bool)
    return on_x, (genotypes.samples["sex"] == "1").to_numpy(bool)


# ---- frequencies


def minor_allele_frequencies(
    genotypes: Genotypes, counts: NDArray[np.int64] | None = None
) -> Floats:
    """Return the frequency of the rarer allele among founders, 0 without calls.

    `counts` are those of the codes of all samples, if they are known.
    """
    first = founders(genotypes.samples)
    packed = genotypes.packed
    (on_x, males) = _sex_linked(genotypes)
    if counts is None or not first.all():
        counts = code_counts(packed.take(samples=first))
    copies, total = _allele_counts(counts)
    if on_x.any() and (males & first).any():
        one, of = _allele_counts(code_counts(packed.take(males & first, on_x)))
        copies[on_x] -= one / 2  # two equal copies of a male are one
        total[on_x] -= of / 2
    share = np.zeros(len(total))
    np.divide(copies, total, out=share, where=total > 0)
    return np.minimum(share, 1 - share, out=share)


def founders(samples: pd.DataFrame) -> Mask:
    """Return which samples have no parents in the study."""
    alone = (samples["father"] == "0") & (samples["mother"] == "0")
    return alone.to_numpy(bool)


def frequency_of(counts: NDArray[Any]) -> Floats:
    """Return the frequency of A1 from counts (d, 4) by code; NaN if unobserved."""
    copies, total = _allele_counts(counts)
    with np.errstate(invalid="ignore"):
        return copies / total


def _allele_counts(counts: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return the copies of A1 and of both alleles at every variant."""
    numbers = counts.astype(np.float64)
    copies = 2 * numbers[:, TWO] + numbers[:, ONE]
    return copies, 2 * (numbers.sum(axis=1) - numbers[:, MISSING])


def genotype_shares(frequency: Floats) -> Floats:
    """Return the shares (d, 3) of two, one and no copies of A1 (Hardy–Weinberg)."""
    f = frequency
    return np.column_stack([f**2, 2 * f * (1 - f), (1 - f) ** 2])
