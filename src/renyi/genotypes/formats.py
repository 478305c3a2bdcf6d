r"""Write and read points per variant in formats of plink2 and the PGS Catalog.

*plink2 --score* only sums over alleles. Let w₂, w₁, w₀ be the points of 2, 1 and 0
copies of A1, and m those of a missing genotype. Two passes with `no-mean-imputation`,
in which a missing genotype adds nothing, give every point exactly:

    additive    A1: w₂ − w₁ + (w₀ − m)/2,    A2: (w₀ − m)/2
    dominant    A1: 2w₁ − w₂ − w₀            (1 for one or two copies)

with the offset Σm. Copies of 2, 1 and 0 add w₂ − m, w₁ − m and w₀ − m to it. plink2
rejects the second pass on X, Y and MT, and so does this module.

*PGS Catalog scoring file 2.0*: it has a weight per dosage and no `effect_weight`, since
a program that knows only the latter would silently score additively. Three additions
are optional when a file is read: the columns `missing_weight` and `mean_weight` (points
of missing genotypes, mean points in training), and the header line `renyi_model`.
"""

from __future__ import annotations

import gzip
import json
import shlex
import zlib
from codecs import BOM_UTF8
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from renyi.files import (
    InvalidFileError,
    Place,
    first_line,
    parse,
    replace_together,
    replacing,
    valid,
)
from renyi.genotypes.files import genotype_shares
from renyi.genotypes.matching import NO_ID, chromosomes, variant_names
from renyi.genotypes.packed import CODES, MISSING, NONE, ONE, TWO
from renyi.genotypes.suffixes import PLINK2
from renyi.genotypes.tables import HAPLOID, NO_ALLELE
from renyi.limits import check_memory

Floats = NDArray[np.float64]

REVERSED = [NONE, MISSING, ONE, TWO]
PGS = "###PGS CATALOG SCORING FILE"
_ONE_COPY = ("X", *HAPLOID)  # chromosomes with one copy in some samples
_PIECE = 2**24  # bytes of text read at a time
_LONGEST = 2**20  # bytes of a line of the header
_MOST_LINES = 10_000
_MEMORY_PER_BYTE = 2  # memory while columns are read
_PGS_HEADER = """\
{pgs} - see https://www.pgscatalog.org/downloads/#dl_ftp_scoring for additional \
information
#format_version=2.0
##POLYGENIC SCORE (PGS) INFORMATION
#pgs_id=NR
#pgs_name={name}
#trait_reported={trait}
#trait_mapped=NR
#trait_efo=NR
#weight_type=NR
#genome_build={build}
#variants_number={d}
##SOURCE INFORMATION
#pgp_id=NR
#citation=NR
##RENYI
#renyi_model={model}
"""
_PLINK2_NOTE = """\
Score of a sample = {offset!r} + ADDITIVE_SUM + DOMINANT_SUM of these two passes:

plink2 --bfile STUDY --score {prefix}.additive.tsv header-read no-mean-imputation \
cols=+scoresums,-scoreavgs --out {prefix}.additive
plink2 --bfile STUDY --score {prefix}.dominant.tsv header-read dominant \
no-mean-imputation cols=+scoresums,-scoreavgs --out {prefix}.dominant

Missing genotypes have their points in it. plink2 prints six digits, and takes alleles
as they are named: whichever is A1, but on no other strand.
"""
_DOSAGES = [f"dosage_{copies}_weight" for copies in range(3)]
_NUMBERS = (*_DOSAGES, "effect_weight", "missing_weight", "mean_weight")
_NUMBERS += ("allelefrequency_effect",)
_TEXT_COLUMNS = ["rsID", "chr_name", "effect_allele", "other_allele"]
_TEXT_COLUMNS += ["reference_allele", "hm_rsID", "hm_chr"]
_POSITIONS = ("chr_position", "hm_pos")
_MODELS = ("is_dominant", "is_recessive")
_REFUSED = ("is_interaction", "is_haplotype", "is_diplotype")


# ---- plink2


def write_plink2(
    prefix: str, variants: pd.DataFrame, w: Floats, intercept: float, note: str = ""
) -> float:
    """Write the files of two passes; see `GenotypeScores.to_plink2`."""
    ids, a1, a2 = (variants[name] for name in ("id", "a1", "a2"))
    _check_for_plink2(variants)
    half = (w[:, NONE] - w[:, MISSING]) / 2
    first = w[:, TWO] - w[:, ONE] + half
    dominant = 2 * w[:, ONE] - w[:, TWO] - w[:, NONE]
    additive: list[Any] = [ids, a1, first]
    if half.any():
        pairs = ((ids, ids), (a1, a2), (first, half))
        additive = [np.concatenate(pair) for pair in pairs]
    offset = float(w[:, MISSING].sum()) + intercept
    text = _PLINK2_NOTE.format(offset=offset, prefix=shlex.quote(str(prefix))) + note
    writers: list[Any] = []
    for name, columns in (("ADDITIVE", additive), ("DOMINANT", [ids, a1, dominant])):
        table = pa.table(dict(zip(("ID", "ALLELE", name), columns, strict=True)))
        table = table.filter(pc.field("ALLELE") != NO_ALLELE)
        writers.append(lambda stream, table=table: _write_tsv(stream, table))
    writers.append(lambda stream: stream.write(text.encode()))
    places = [Path(f"{prefix}{ending}") for ending in PLINK2]
    replace_together(dict(zip(places, writers, strict=True)))
    return offset


def _check_for_plink2(variants: pd.DataFrame) -> None:
    """Raise ValueError for variants that plink2 cannot find, or score in two passes."""
    (codes,), names = chromosomes(variants["chromosome"])
    single = [k for k, name in enumerate(names) if name in _ONE_COPY]
    if np.isin(codes, single).any():
        raise ValueError(
            "plink2 cannot compute dominant scores on chromosome "
            f"{', '.join(names[k] for k in single)}, where samples may have one copy: "
            "fit without it (--chr 1-22)."
        )
    ids = variants["id"]
    bad = (ids.duplicated(keep=False) | ids.isin(NO_ID)).to_numpy(bool)
    if bad.any():
        raise ValueError(
            f"plink2 finds variants by id, but {variant_names(variants[bad][:1])[0]!r} "
            "has no unique id: set ids with 'plink2 --set-all-var-ids'."
        )


def _write_tsv(stream: IO[bytes], table: pa.Table) -> None:
    """Write a table with tabs between cells; reject cells with a tab or a quote."""
    stream.write(("\t".join(table.column_names) + "\n").encode())
    options = csv.WriteOptions(
        include_header=False, delimiter="\t", quoting_style="none", batch_size=2**16
    )
    csv.write_csv(table, stream, options)


# ---- PGS Catalog, written


def write_pgs(
    path: Place,
    table: pd.DataFrame,
    points: Floats,
    model: Mapping[str, Any],
    name: str,
    trait: str,
) -> None:
    """Write a scoring file; see `GenotypeScores.to_pgs`."""
    a1, a2 = (table[each].to_numpy(object) for each in ("a1", "a2"))
    lone = a1 == NO_ALLELE  # then A2 is the counted allele
    points = np.where(lone[:, None], points[:, REVERSED], points)
    columns: dict[str, Any] = {
        "rsID": table["id"].where(~table["id"].isin(NO_ID), ""),
        "chr_name": table["chromosome"],
        "chr_position": table["position"].to_numpy(np.int64),
        "effect_allele": np.where(lone, a2, a1),
        "other_allele": np.where(lone | (a2 == NO_ALLELE), "", a2),
    }
    for each, code in zip(_DOSAGES, (NONE, ONE, TWO), strict=True):
        columns[each] = points[:, code]
    columns["missing_weight"] = points[:, MISSING]
    if "frequency" in table:
        f = table["frequency"].to_numpy(np.float64)
        columns["allelefrequency_effect"] = np.where(lone, 1 - f, f)
    nameless = lone & (a2 == NO_ALLELE)
    if "mean" in table:
        mean = table["mean"].to_numpy(np.float64)
        columns["mean_weight"] = mean
        left = float(np.nan_to_num(mean[nameless]).sum())
        model = {**model, "intercept": model["intercept"] + left}
    arrays = {each: pa.array(x, from_pandas=True) for each, x in columns.items()}
    rows = pa.table(arrays).filter(pa.array(~nameless))
    head = _PGS_HEADER.format(
        pgs=PGS,
        name=" ".join(name.split()),
        trait=" ".join(trait.split()),
        build=model["build"] or "NR",
        d=rows.num_rows,
        model=json.dumps(model, allow_nan=False),
    )
    with replacing(path) as stream:
        out: Any = nullcontext(stream)
        if str(path).endswith(".gz"):
            out = gzip.GzipFile("", "wb", 4, cast(Any, stream), mtime=0)
        with out as opened:
            opened.write(head.encode())
            _write_tsv(opened, rows)


# ---- PGS Catalog, read


class PgsFile(NamedTuple):
    """Variants, points by code, genome build, and the header's facts of a model."""

    variants: pd.DataFrame
    points: Floats
    build: str | None
    model: dict[str, Any] | None


def read_pgs(path: Path) -> PgsFile:
    """Read a scoring file; see `GenotypeScores.from_pgs`."""
    try:
        head, names, skip = _head(path)
        rows = _rows(path, names, skip)
        with valid(path):
            return _contents(head, rows)
    except InvalidFileError as error:
        raise ValueError(
            f"{path} is not a PGS Catalog scoring file: {error}."
        ) from None
    except (pa.ArrowException, EOFError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # a system error, such as a missing file
        raise ValueError(
            f"{path} cannot be read as a PGS Catalog scoring file: {first_line(error)}."
        ) from None


def _head(path: Path) -> tuple[dict[str, str], list[str], int]:
    """Return the facts of the header, the column names, and the lines to skip."""
    head = {}
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
        for skip in range(1, _MOST_LINES):
            line = stream.readline(_LONGEST).removeprefix(BOM_UTF8)
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text.startswith("#"):
                key, _, value = text.lstrip("#").partition("=")
                head[key.strip()] = value.strip()
                continue
            names = text.split("\t")
            if "effect_allele" not in names:
                break
            if len(set(names)) < len(names):
                raise InvalidFileError("a column name occurs twice")
            return head, names, skip
    raise InvalidFileError("no line names a column effect_allele")


def _rows(path: Path, names: list[str], skip: int) -> pa.Table:
    """Read the known columns."""
    kinds: dict[str, Any] = dict.fromkeys(_NUMBERS, pa.float64())
    kinds |= dict.fromkeys(_POSITIONS, pa.int64())
    kinds |= dict.fromkeys((*_TEXT_COLUMNS, *_MODELS, *_REFUSED), pa.string())
    kinds = {name: kind for name, kind in kinds.items() if name in names}
    reading = csv.ReadOptions(column_names=names, skip_rows=skip, block_size=_PIECE)
    layout = csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False)
    convert = csv.ConvertOptions(
        column_types=kinds,
        include_columns=list(kinds),
        null_values=["", "NA", "NR"],
        strings_can_be_null=False,
    )
    batches = []
    size = 0
    for batch in csv.open_csv(str(path), reading, layout, convert):
        batches.append(batch)
        size += batch.nbytes
        check_memory(_MEMORY_PER_BYTE * size, f"Reading {path}")
    if not size:
        raise InvalidFileError("it has no variants")
    return pa.Table.from_batches(batches)


def _contents(head: dict[str, str], rows: pa.Table) -> PgsFile:
    """Return the contents of a scoring file from its header and rows."""
    harmonised = "hm_chr" in rows.column_names and "hm_pos" in rows.column_names
    place = ("hm_chr", "hm_pos") if harmonised else ("chr_name", "chr_position")
    name = "rsID" if "rsID" in rows.column_names else "hm_rsID"
    second = "other_allele" in rows.column_names
    other = "other_allele" if second else "reference_allele"  # of format 1
    variants = pd.DataFrame(
        {
            "chromosome": _texts(rows, place[0], "0"),
            "id": _texts(rows, name, "."),
            "position": _numbers(rows, place[1], 0).astype(np.int64),
            "a1": _texts(rows, "effect_allele", NO_ALLELE),
            "a2": _texts(rows, other, NO_ALLELE),
        }
    )
    for flag in _REFUSED:
        _check_none(variants, _flags(rows, flag), f"has {flag}, which is not scored")
    points = np.empty((len(variants), CODES))
    points[:, [NONE, ONE, TWO]] = _weights(rows, variants)
    points[:, MISSING] = _numbers(rows, "missing_weight", np.nan)
    f = _numbers(rows, "allelefrequency_effect", np.nan)
    model = parse(head["renyi_model"].encode()) if "renyi_model" in head else None
    if np.isfinite(f).any():
        variants["frequency"] = f
        if model is not None:  # its intercept includes the means
            shares = genotype_shares(f)[:, ::-1]
            means = (shares * points[:, [NONE, ONE, TWO]]).sum(axis=1)
            known = _numbers(rows, "mean_weight", np.nan)
            means = np.where(np.isnan(known), means, known)
            variants["mean"] = np.where(np.isnan(means), 0.0, means)
    build = head.get("HmPOS_build") if harmonised else None
    build = build or head.get("genome_build")
    return PgsFile(variants, points, build, model)


def _weights(rows: pa.Table, variants: pd.DataFrame) -> Floats:
    """Return the weights of 0, 1 and 2 copies of the effect allele."""
    given = np.column_stack([_numbers(rows, name, np.nan) for name in _DOSAGES])
    alone = np.isnan(given).any(axis=1)
    one = _numbers(rows, "effect_weight", np.nan)[alone]
    dominant, recessive = (_flags(rows, flag)[alone] for flag in _MODELS)
    two = np.where(dominant | recessive, one, 2 * one)
    weights = [np.zeros(len(one)), np.where(recessive, 0, one), two]
    given[alone] = np.column_stack(weights)
    bad = np.asarray(~np.isfinite(given).all(axis=1))
    _check_none(variants, bad, "has no finite weight")
    return given


def _check_none(variants: pd.DataFrame, bad: NDArray[np.bool_], what: str) -> None:
    if bad.any():
        count = f" ({bad.sum():,} such variants)" if bad.sum() > 1 else ""
        first = variant_names(variants[bad][:1])[0]
        raise ValueError(f"its variant {first!r:.60} {what}{count}")


def _texts(rows: pa.Table, name: str, none: str) -> Any:
    """Return a column of texts, with `none` for empty cells or an absent column."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, none, object)
    column = rows[name]
    return pc.if_else(pc.equal(column, ""), none, column).to_pandas()


def _numbers(rows: pa.Table, name: str, none: float) -> Floats:
    """Return a column of numbers, with `none` for empty cells or an absent column."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, none)
    return np.asarray(rows[name].fill_null(none).to_numpy())


def _flags(rows: pa.Table, name: str) -> NDArray[np.bool_]:
    """Return a column of truth values."""
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, bool)
    return np.asarray(
        pc.is_in(pc.utf8_lower(rows[name]), pa.array(["true", "1", "yes"]))
    )
