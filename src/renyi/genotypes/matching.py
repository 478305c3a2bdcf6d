"""Match the variants of a file to those of a model, and their alleles.

A variant is found by its id if both files have it once, otherwise by chromosome and
position. It is never found by position if the files have different genome builds. They
do if the builds were stated so, or if variants of the same id have other positions.

Alleles agree as named (A1 is A1), swapped (A1 is A2: points are read backwards), or on
the other strand of the DNA, either way. For A/T and C/G variants the other strand looks
like a swap. The frequencies of A1 decide, if both are at least 0.1 away from ½.
Otherwise the variant is dropped, unless the strands are known to be the same. They are
if the caller says so, or if the variants of both files are the same, line by line. An
allele that no sample has ("0" in PLINK's files) agrees with any, if the other one does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.formatting import number_of, printable
from renyi.genotypes.tables import NO_ALLELE, chromosome_name

Places = NDArray[np.int64]
Truths = NDArray[np.bool_]
Frequencies = Callable[[Places], NDArray[np.float64]]

NO_ID = (".", "0", "", "NA")
REASONS = {
    "absent": "not in the file",
    "alleles": "other alleles",
    "palindromic": "A/T or C/G, strand unknown",
    "ambiguous": "several variants fit",
}
BUILDS = {"hg18": "NCBI36", "hg19": "GRCh37", "hg38": "GRCh38"}
BUILDS |= {name.lower(): name for name in BUILDS.values()}
_COMPLEMENT = str.maketrans("ACGT", "TGCA")
_MARGIN = 0.1  # least distance from ½ of a frequency that decides
_MOVED = 0.1  # share of ids at other positions that indicates two genome builds
_MOST_AT_ONE_PLACE = 16
_SHOWN = 3


@dataclass(frozen=True, eq=False)
class MatchRecord:
    """How many variants of a model were found in a file, and how."""

    variants: int  # of the model
    matched: int
    by_id: int
    by_position: int
    swapped: int
    complemented: int
    by_frequency: int  # A/T and C/G variants that frequencies decided
    build: str | None
    file_build: str | None
    moved: int  # variants of one id at two positions
    dropped: pd.DataFrame = field(repr=False)  # id, chromosome, position, reason

    @property
    def counts(self) -> dict[str, int]:
        """Number of dropped variants, by reason."""
        counts = self.dropped["reason"].value_counts()
        return {each: int(counts[each]) for each in REASONS if each in counts.index}

    def to_dict(self) -> dict[str, object]:
        """Return a plain form for JSON, without the names."""
        names = [n for n in self.__dataclass_fields__ if n != "dropped"]
        return {**{n: getattr(self, n) for n in names}, "dropped": self.counts}

    def lines(self) -> list[str]:
        """Return the record in words."""
        builds = f"genome build {self.build or 'not stated'}"
        if self.file_build != self.build:
            builds += f", of the file {self.file_build or 'not stated'}"
        of = f"of {number_of(self.variants, 'variant')} of the model"
        how = f"{self.by_id:,} by id, {self.by_position:,} by position"
        text = [f"matched {self.matched:,} {of} ({how}; {builds})"]
        turned = {
            "swapped alleles": self.swapped,
            "on the other strand": self.complemented,
            "A/T or C/G, decided by frequency": self.by_frequency,
        }
        text += [f"{count:,} {what}" for what, count in turned.items() if count]
        if self.moved:
            text.append(f"{self.moved:,} of the same id have other positions")
        for reason, count in self.counts.items():
            some = self.dropped[self.dropped["reason"] == reason].head(_SHOWN)
            names = ", ".join(printable(name)[:40] for name in variant_names(some))
            more = ", …" if count > _SHOWN else ""
            text.append(f"dropped {count:,}: {REASONS[reason]} ({names}{more})")
        return text

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Match(NamedTuple):
    """Pairs of variants in the order of the file, and whether A1 is the model's A2."""

    model: Places
    file: Places
    swapped: Truths
    record: MatchRecord


def variant_names(variants: pd.DataFrame) -> list[str]:
    """Return ids, or chromosome and position of variants that have none."""
    columns = (variants[name].tolist() for name in ("id", "chromosome", "position"))
    return [
        i if i not in NO_ID else f"{c}:{p}" for i, c, p in zip(*columns, strict=True)
    ]


def build_of(name: str | None) -> str | None:
    """Return the standard name of a genome build; None if none is stated."""
    if name is None or name.strip().upper() in ("", "NR", "NA"):
        return None
    return BUILDS.get(name.strip().lower(), name.strip())


def texts_of(*columns: pd.Series) -> pa.Array:
    """Return columns of texts, one after the other."""
    parts = [pa.array(column).cast(pa.large_string()) for column in columns]
    chunks = [p.chunks if isinstance(p, pa.ChunkedArray) else [p] for p in parts]
    return pa.concat_arrays([*chain(*chunks), pa.array([], pa.large_string())])


def coded(*columns: pd.Series) -> tuple[list[Places], pa.Array]:
    """Return texts of several columns as numbers, and the distinct texts."""
    encoded = texts_of(*columns).dictionary_encode()
    codes = encoded.indices.to_numpy().astype(np.int64)
    cuts = np.cumsum([len(column) for column in columns])[:-1]
    return np.split(codes, cuts), encoded.dictionary


def chromosomes(*columns: pd.Series) -> tuple[list[Places], list[str]]:
    """Return chromosomes as numbers, and the standard name of each."""
    codes, texts = coded(*columns)
    plain = [chromosome_name(text) for text in texts.to_pylist()]
    names = {name: k for k, name in enumerate(dict.fromkeys(plain))}
    table = np.array([names[name] for name in plain], np.int64)
    return [table[code] for code in codes], list(names)


def match_variants(
    model: pd.DataFrame,
    file: pd.DataFrame,
    frequencies: Frequencies,
    builds: tuple[str | None, str | None] = (None, None),
    same_strand: bool = False,
) -> Match:
    """Find the variants of a model in a file.

    `model` may have a column `frequency`, of A1; `frequencies` returns those of rows of
    the file.
    """
    alleles = _Alleles(model, file)
    same_strand = same_strand or _same_list(model, file)
    places = np.full(len(model), -1)
    by_position = np.zeros(len(model), bool)
    named = _by_id(model["id"], file["id"])
    fits = alleles.fit(np.arange(len(model)), named)
    places[fits > 0] = named[fits > 0]
    keys = _positions(model, file)
    both = (named >= 0) & (keys[0] >= 0) & (keys[1][named] >= 0)
    moved = int((keys[0][both] != keys[1][named[both]]).sum())
    one, other = map(build_of, builds)
    several = np.zeros(len(model), bool)
    if not (one and other and one != other) and moved <= _MOVED * both.sum():
        rest = np.flatnonzero((places < 0) & (keys[0] >= 0))
        at_place, several[rest], seen = _by_position(keys, rest, alleles)
        by_position[rest] = at_place >= 0
        places[rest] = at_place
        named[rest[(named[rest] < 0) & seen]] = 0  # present, but with other alleles
    reasons = np.full(len(model), "", object)
    lost = places < 0
    reasons[lost] = np.where(named[lost] >= 0, "alleles", "absent")
    reasons[several] = "ambiguous"
    used = np.bincount(places[places >= 0], minlength=len(file))
    twice = (places >= 0) & (used[places] > 1)
    reasons[twice & by_position] = "ambiguous"
    rows = np.flatnonzero(reasons == "")
    at = places[rows]
    fits = alleles.fit(rows, at)
    swapped = fits % 2 == 0
    turned = fits > 2
    decided = np.zeros(len(rows), bool)
    doubt = alleles.palindromic(rows, at)
    if not same_strand and doubt.any():
        own = model["frequency"].to_numpy(float) if "frequency" in model else None
        ours = np.full(int(doubt.sum()), np.nan) if own is None else own[rows[doubt]]
        theirs = frequencies(at[doubt])
        clear = np.minimum(abs(ours - 0.5), abs(theirs - 0.5)) >= _MARGIN  # not NaN
        decided[doubt] = clear
        flip = (ours > 0.5) != (theirs > 0.5)
        turned[doubt] = flip != swapped[doubt]
        swapped[doubt] = flip
        reasons[rows[doubt][~clear]] = "palindromic"
    sure = reasons[rows] == ""
    order = np.flatnonzero(sure)[np.argsort(at[sure], kind="stable")]
    rows = rows[order]
    at = at[order]
    dropped = model.loc[reasons != "", ["id", "chromosome", "position"]]
    record = MatchRecord(
        variants=len(model),
        matched=len(rows),
        by_id=int((~by_position[rows]).sum()),
        by_position=int(by_position[rows].sum()),
        swapped=int(swapped[order].sum()),
        complemented=int(turned[order].sum()),
        by_frequency=int(decided[order].sum()),
        build=one,
        file_build=other,
        moved=moved,
        dropped=dropped.assign(reason=reasons[reasons != ""]).reset_index(drop=True),
    )
    return Match(rows, at, swapped[order], record)


def _same_list(model: pd.DataFrame, file: pd.DataFrame) -> bool:
    """Return whether variants and alleles are the same, line by line."""
    if len(model) != len(file):
        return False
    same = {
        name: model[name].to_numpy() == file[name].to_numpy()
        for name in ("id", "position", "chromosome", "a1", "a2")
    }
    # A scoring file starts with the known allele.
    turned = (file["a1"] == NO_ALLELE) & (model["a2"] == NO_ALLELE)
    turned &= model["a1"].to_numpy() == file["a2"].to_numpy()
    alleles = same.pop("a1") & same.pop("a2") | turned.to_numpy()
    return bool(alleles.all()) and all(each.all() for each in same.values())


def _by_id(ours: pd.Series, theirs: pd.Series) -> Places:
    """Return the places of ids that both files have once, and -1 for others."""
    (one, other), texts = coded(ours, theirs)
    times = [np.bincount(codes, minlength=len(texts)) for codes in (one, other)]
    single = (times[0] == 1) & (times[1] == 1)
    single[pc.is_in(texts, pa.array(NO_ID, pa.large_string())).to_numpy(False)] = False
    place = np.full(len(texts), -1)
    place[other] = np.arange(len(other))
    return np.where(single[one], place[one], -1)


def _positions(model: pd.DataFrame, file: pd.DataFrame) -> tuple[Places, Places]:
    """Return one number for chromosome and position, or -1 without a position."""
    codes, names = chromosomes(model["chromosome"], file["chromosome"])
    none = [k for k, name in enumerate(names) if name in NO_ID]
    keys = []
    for code, frame in zip(codes, (model, file), strict=True):
        position = frame["position"].to_numpy(np.int64)
        known = (position > 0) & (position < 2**40) & ~np.isin(code, none)
        keys.append(np.where(known, code * 2**40 + position, -1))
    return keys[0], keys[1]


def _by_position(
    keys: tuple[Places, Places], rest: Places, alleles: _Alleles
) -> tuple[Places, Truths, Truths]:
    """Return the variant of the file at each position, and where several fit.

    The third array says whether any variant has the position.
    """
    order = np.argsort(keys[1], kind="stable")
    theirs = keys[1][order]
    ours = keys[0][rest]
    start = np.searchsorted(theirs, ours)
    many = np.searchsorted(theirs, ours, side="right") - start
    match = np.full(len(rest), -1)
    count = np.zeros(len(rest), np.int64)
    for k in range(min(int(many.max(initial=0)), _MOST_AT_ONE_PLACE)):
        some = np.flatnonzero(many > k)
        at = order[start[some] + k]
        fits = alleles.fit(rest[some], at) > 0
        count[some] += fits
        match[some[fits]] = at[fits]
    several = (count > 1) | (many > _MOST_AT_ONE_PLACE)
    match[several] = -1
    return match, several, many > 0


class _Alleles:
    """Alleles of both files as numbers, and those of the other strand."""

    def __init__(self, model: pd.DataFrame, file: pd.DataFrame) -> None:
        columns = [frame[name] for frame in (model, file) for name in ("a1", "a2")]
        codes, dictionary = coded(*columns)
        texts = [text.upper() for text in dictionary.to_pylist()]
        known = {text: k for k, text in enumerate(dict.fromkeys(texts))}
        self.none = known.get(NO_ALLELE, -1)
        other = np.full(len(known), -2)  # an allele with letters other than ACGT
        for text, k in known.items():
            if text and not set(text) - set("ACGT"):
                other[k] = known.get(text.translate(_COMPLEMENT)[::-1], -3)
        self.other = np.append(other, -2)
        table = np.array([known[text] for text in texts], np.int64)
        self.m1, self.m2, self.f1, self.f2 = (table[code] for code in codes)

    def fit(self, ours: Places, theirs: Places) -> Places:
        """Return 0 no fit, 1 as named, 2 swapped, 3 and 4 on the other strand."""
        m1 = self.m1[ours]
        m2 = self.m2[ours]
        none = self.none
        f1 = self.f1[theirs]
        f2 = self.f2[theirs]
        known = (m1 != none) & (m2 != none) & (f1 != none) & (f2 != none)

        def agree(a: Places, b: Places, c: Places, d: Places) -> Truths:
            loose = ((a == c) | (a == none) | (c == none)) & (
                (b == d) | (b == none) | (d == none)
            )
            sure = ((a == c) & (a != none)) | ((b == d) & (b != none))
            return np.asarray(loose & sure)

        o1 = self.other[m1]
        o2 = self.other[m2]
        cases = [
            (theirs < 0) | (m1 == m2) & (m1 != none),
            agree(m1, m2, f1, f2),
            agree(m1, m2, f2, f1),
            known & (o1 == f1) & (o2 == f2),
            known & (o1 == f2) & (o2 == f1),
        ]
        return np.select(cases, range(len(cases)))

    def palindromic(self, ours: Places, theirs: Places) -> Truths:
        """Return where the two alleles of either file are complements of each other."""
        ours_alike = self.other[self.m1[ours]] == self.m2[ours]
        return np.asarray(ours_alike | (self.other[self.f1[theirs]] == self.f2[theirs]))
