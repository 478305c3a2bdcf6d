"""Which samples and variants are used: filters as PLINK has them, and haploid calls.

The filters are applied in PLINK's order: lists and places first, then samples with too
many missing calls, then variants with too many, then rare alleles. Frequencies are
those of founders; a male has one copy of X.

*Haploid calls.* A male's X is written as if he had two equal copies, and counts so
(plink2's ``--xchr-model 2``, which its ``--score`` uses too). A variant of X at which a
male is heterozygous is left out, as are Y and MT; a warning says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi.counting.packed import MISSING, ONE, TWO, code_counts, missing_per_sample
from renyi.figures import number_of
from renyi.sources.genotype_tables import HAPLOID, chromosome_name
from renyi.sources.genotypes import Genotypes
from renyi.sources.phenotypes import listed_samples, listed_variants
from renyi.warnings import warn

_UP = 1 + 1e-11  # a share that is equal to a limit stays within it, as in plink2
_REGION = re.compile(r"([^:]+):(\d[\d,]{0,20})-(\d[\d,]{0,20})")

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Say = Callable[[str], object]


@dataclass(frozen=True)
class Filters:
    """What to keep of some genotypes; lists and options that are empty keep all."""

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
        """Return what is kept; `say` is told of every step, in PLINK's manner."""
        found = self.apply_lists(genotypes, say)
        for option, path in (("extract", self.extract), ("exclude", self.exclude)):
            if path is not None:
                kept = listed_variants(path, found.variants) == (option == "extract")
                found = _narrowed(found, option, say, variants=kept)
        if self.chromosomes:
            kept = _on_chromosomes(found.variants, self.chromosomes)
            found = _narrowed(found, "chr", say, variants=kept)
        if self.regions:
            kept = _in_regions(found.variants, self.regions)
            found = _narrowed(found, "region", say, variants=kept)
        found = _without_male_heterozygotes(without_haploid(found))
        if self.mind is not None:
            kept = missing_per_sample(found.packed) <= self.mind * found.packed.d * _UP
            found = _narrowed(found, "mind", say, samples=kept)
        counts = None
        if self.geno is not None:
            counts = code_counts(found.packed)
            kept = counts[:, MISSING] <= self.geno * found.packed.n * _UP
            found, counts = _narrowed(found, "geno", say, variants=kept), counts[kept]
        if self.maf is not None:
            kept = minor_allele_frequencies(found, counts) >= self.maf / _UP
            found = _narrowed(found, "maf", say, variants=kept)
        return found

    def apply_lists(
        self, genotypes: Genotypes, say: Say = lambda line: None
    ) -> Genotypes:
        """Return the samples that lists keep."""
        found = genotypes
        for option, path in (("keep", self.keep), ("remove", self.remove)):
            if path is not None:
                kept = listed_samples(path, found.samples) == (option == "keep")
                found = _narrowed(found, option, say, samples=kept)
        return found


def _narrowed(
    genotypes: Genotypes,
    option: str,
    say: Say,
    samples: Mask | None = None,
    variants: Mask | None = None,
) -> Genotypes:
    """Return what an option keeps, unless that is nothing."""
    what, kept = ("sample", samples) if variants is None else ("variant", variants)
    assert kept is not None
    count = int(kept.sum())
    if not count:
        raise ValueError(
            f"--{option} leaves no {what} of {genotypes.path}: check its value, or "
            "whether the ids and chromosomes are written as there."
        )
    gone = number_of(len(kept) - count, what)
    say(f"--{option}: {number_of(count, what)} remaining ({gone} removed).")
    return genotypes if count == len(kept) else genotypes.select(samples, variants)


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
    kept = np.zeros(len(variants), bool)
    position = variants["position"].to_numpy()
    for region in regions:
        match = _REGION.fullmatch(region)
        if match is None:
            example = "6:25000000-34000000"
            raise ValueError(f"--region {region} is not a place such as {example}.")
        low, high = (int(text.replace(",", "")) for text in match.groups()[1:])
        there = variants["chromosome"] == chromosome_name(match[1])
        kept |= there.to_numpy(bool) & (low <= position) & (position <= high)
    return kept


# ---- haploid calls


def without_haploid(genotypes: Genotypes) -> Genotypes:
    """Leave out Y and MT, whose calls count as two copies of what is one."""
    haploid = genotypes.variants["chromosome"].isin(HAPLOID).to_numpy(bool)
    if haploid.all():
        raise ValueError(
            f"Only variants of Y and MT are left of {genotypes.path}: their calls are "
            "haploid, and they are neither learned from nor scored."
        )
    if not haploid.any():
        return genotypes
    many = number_of(int(haploid.sum()), "variant")
    warn(f"Left out {many} of Y and MT, because their calls are haploid.")
    return genotypes.select(variants=~haploid)


def _without_male_heterozygotes(genotypes: Genotypes) -> Genotypes:
    """Leave out where a male has two different copies of X."""
    on_x, males = _sex_linked(genotypes)
    if not (on_x.any() and males.any()):
        return genotypes
    wrong = np.zeros(genotypes.packed.d, np.int64)
    wrong[on_x] = code_counts(genotypes.packed.take(males, on_x))[:, ONE]
    if not wrong.any():
        return genotypes
    many, worst = number_of(int((wrong > 0).sum()), "variant"), int(wrong.argmax())
    warn(
        f"Left out {many} of X at which males are heterozygous, most often "
        f"{genotypes.variants['id'].iloc[worst]!r} ({wrong[worst]:,} of "
        f"{number_of(int(males.sum()), 'male')}): check their sex, or make such "
        "calls missing with plink2 --set-hh-missing."
    )
    return genotypes.select(variants=wrong == 0)


def _sex_linked(genotypes: Genotypes) -> tuple[Mask, Mask]:
    """Return which variants lie on X, and which samples are male."""
    on_x = (genotypes.variants["chromosome"] == "X").to_numpy(bool)
    return on_x, (genotypes.samples["sex"] == "1").to_numpy(bool)


# ---- frequencies


def minor_allele_frequencies(
    genotypes: Genotypes, counts: NDArray[np.int64] | None = None
) -> Floats:
    """Return the frequency of the rarer allele among founders, 0 without calls.

    `counts` are those of the codes of all samples, where they are known.
    """
    first = founders(genotypes.samples)
    (on_x, males), packed = _sex_linked(genotypes), genotypes.packed
    if counts is None or not first.all():
        counts = code_counts(packed.take(samples=first))
    copies, total = _allele_counts(counts)
    if on_x.any() and (males & first).any():
        one, of = _allele_counts(code_counts(packed.take(males & first, on_x)))
        copies[on_x] -= one / 2  # a male's two equal copies are one
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
