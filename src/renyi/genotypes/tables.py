"""Read files of variants and samples (.bim, .pvar, .fam, .psam).

They may have millions of lines, so Arrow reads them. Only a file with an error is read
line by line, to name the line. Tabs or spaces separate fields, as in PLINK.
"""

from __future__ import annotations

import io
import mmap
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from renyi.limits import check_memory
from renyi.warnings import warn

VARIANTS = ("chromosome", "id", "position", "a1", "a2")
SAMPLES = ("fid", "iid", "father", "mother", "sex", "phenotype")
NO_ALLELE = "0"  # in .pvar a point
HAPLOID = ("Y", "MT")
_BIM = ("chromosome", "id", "centimorgans", "position", "a1", "a2")
_PVAR = dict(zip(("#CHROM", "ID", "POS", "ALT", "REF"), VARIANTS, strict=True))
_PSAM = {"FID": "fid", "PAT": "father", "MAT": "mother", "SEX": "sex"}
_SEXES = {"1": "1", "2": "2", "M": "1", "F": "2", "m": "1", "f": "2"}
_CHROMOSOMES = {"23": "X", "24": "Y", "25": "XY", "26": "MT", "M": "MT"}
_CHROMOSOMES |= dict.fromkeys(("PAR1", "PAR2"), "XY")  # diploid in both sexes
_CHROMOSOMES |= {name: name for name in ("X", "Y", "XY", "MT")}
_MEMORY_PER_BYTE = 6  # memory while text is read
_LONGEST = 2**24  # bytes of a line


# ---- variants


def read_bim(path: Path) -> pd.DataFrame:
    """Read the variants of a .bim file."""
    return _variants(path, _fields(path, _BIM, VARIANTS), 0)


def read_pvar(path: Path) -> pd.DataFrame:
    """Read the variants of a .pvar file; without a header it is a .bim file."""
    names, skip = _header(path, "#CHROM")
    if not names:
        return read_bim(path)
    for name in _PVAR:
        if names.count(name) != 1:
            raise ValueError(
                f"{path}, line {skip}: the header needs one column {name}."
            )
    names = [_PVAR.get(name, f"other {k}") for k, name in enumerate(names)]
    variants = _variants(path, _fields(path, names, VARIANTS, skip), skip)
    several = variants["a1"].str.contains(",", regex=False)
    advice = "leave such sites out with 'plink2 --max-alleles 2 --make-pgen'."
    _check_rows(path, skip, several, f"there are several alternative alleles: {advice}")
    return variants


def _variants(path: Path, table: pa.Table, skip: int) -> pd.DataFrame:
    """Return variants with whole positions and unique ids."""
    whole = pc.match_substring_regex(table["position"], r"^-?[0-9]{1,10}$")
    wrong = pc.invert(whole).to_pandas()
    _check_rows(path, skip, wrong, "the position is not a whole number.")
    a1, a2 = (
        pc.if_else(pc.equal(table[name], "."), NO_ALLELE, table[name])
        for name in ("a1", "a2")
    )
    chromosomes = _chromosomes(table["chromosome"])
    positions = table["position"].cast(pa.int64())
    columns = [chromosomes, table["id"], positions, a1, a2]
    frame: pd.DataFrame = pa.table(columns, list(VARIANTS)).to_pandas()
    twice = frame["id"].duplicated() & (frame["id"] != ".")
    advice = "drop such variants with 'plink2 --rm-dup exclude-all'."
    _check_rows(path, skip, twice, f"the id is also in an earlier line: {advice}")
    return frame


def chromosome_name(text: str) -> str:
    """Return the standard name of a chromosome, which has many spellings.

    >>> [chromosome_name(text) for text in ("chr7", "23", "chrM", "PAR1", "HLA_A")]
    ['7', 'X', 'MT', 'XY', 'HLA_A']
    """
    bare = text[3:] if text[:3].lower() == "chr" else text
    return _CHROMOSOMES.get(bare.upper(), bare)


def _chromosomes(texts: pa.ChunkedArray) -> pa.Array:
    """Return a column of chromosomes, each by its one name."""
    named = texts.combine_chunks().dictionary_encode()
    names = pa.array([chromosome_name(text) for text in named.dictionary.to_pylist()])
    return names.take(named.indices)


# ---- samples


def read_fam(path: Path) -> pd.DataFrame:
    """Read the samples of a .fam file."""
    return _samples(path, _fields(path, SAMPLES, SAMPLES).to_pandas(), 0)


def read_psam(path: Path) -> pd.DataFrame:
    """Read the samples of a .psam file; without a header it is a .fam file."""
    names, skip = _header(path, "#FID", "#IID")
    if not names:
        return read_fam(path)
    names = [name.removeprefix("#") for name in names]
    if "IID" not in names or len({*names}) < len(names):
        raise ValueError(
            f"{path}, line {skip}: the header needs a column IID, and no name twice."
        )
    frame = _fields(path, names, names, skip).to_pandas()
    samples = pd.DataFrame({"fid": "0", "iid": frame["IID"]}, dtype=object)
    for name, ours in _PSAM.items():
        samples[ours] = frame[name] if name in names else "0"
    others = [name for name in names if name not in ("IID", "SID", *_PSAM)]
    chosen = next((n for n in ("PHENO", "PHENO1") if n in others), (others or [""])[0])
    samples["phenotype"] = frame[chosen] if others else "-9"
    if len(others) > 1:
        warn(
            f"{path} has {len(others)} columns of phenotypes: {chosen!r} is used. Give "
            "another one in a separate file, with --pheno."
        )
    return _samples(path, samples.astype(frame["IID"].dtype), skip)


def _samples(path: Path, frame: pd.DataFrame, skip: int) -> pd.DataFrame:
    """Return samples with the codes of their sex, of which no two have one id."""
    sexes = [_SEXES.get(text, "0") for text in frame["sex"]]
    frame["sex"] = pd.Series(sexes, dtype=frame["iid"].dtype)
    twice = frame.duplicated(["fid", "iid"])
    _check_rows(path, skip, twice, "the sample is in an earlier line too: drop one.")
    return frame


# ---- lines and fields


def lines(path: Path, between: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of the lines that hold something, with their numbers."""
    for number, line in _raw_lines(path):
        try:
            fields = line.decode().rstrip("\r\n").split(between)
        except UnicodeDecodeError:
            raise ValueError(f"{path}, line {number} is not text in UTF-8.") from None
        if any(fields):
            yield number, fields


def _raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their numbers, the first without a byte order mark."""
    with path.open("rb") as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_LONGEST), b""), 1):
            yield number, line.removeprefix(BOM_UTF8 if number == 1 else b"")


def _header(path: Path, *begins: str) -> tuple[list[str], int]:
    """Return the names in a header and how many lines it takes; none without one."""
    for number, line in _raw_lines(path):
        if line.startswith(b"##"):
            continue
        names = line.decode(errors="replace").split()
        return (names, number) if names[:1] and names[0] in begins else ([], 0)
    if path.stat().st_size:
        raise ValueError(f"{path} has a header only.")
    return [], 0


def _fields(
    path: Path, names: Sequence[str], wanted: Sequence[str], skip: int = 0
) -> pa.Table:
    """Read some of the columns of a file, as text."""
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty.")
    check_memory(_MEMORY_PER_BYTE * path.stat().st_size, f"Reading {path}")
    table = None
    between = "\t" if path.suffix == ".pvar" and skip else _between(path)
    if between is not None:
        table = _parsed(str(path), between, names, wanted, skip)
    if table is None:
        rows = (b"\t".join(line.split()) for _, line in _raw_lines(path))
        tidy = io.BytesIO(b"\n".join(rows))
        table = _parsed(tidy, "\t", names, wanted, skip)
    if table is None:
        for line, fields in lines(path, between if path.suffix == ".pvar" else None):
            if line > skip and len(fields) != len(names):
                raise ValueError(
                    f"{path}, line {line} has {len(fields)} fields, but {len(names)} "
                    f"are needed ({' '.join(names)})."
                )
        raise ValueError(f"{path} cannot be read as a table of text in UTF-8.")
    if not table.num_rows:
        raise ValueError(f"{path} has only empty lines.")
    return table


def _between(path: Path) -> str | None:
    """Return the one character between all fields, or None if there are several."""
    with (
        path.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text,
    ):
        separators = [each for each in "\t " if text.find(each.encode()) >= 0]
    return None if len(separators) > 1 else (separators or ["\t"])[0]


def _parsed(
    source: str | io.BytesIO,
    between: str,
    names: Sequence[str],
    wanted: Sequence[str],
    skip: int,
) -> pa.Table | None:
    """Read columns of text; None where a line has other fields, or one is empty."""
    try:
        table = csv.read_csv(
            source,
            csv.ReadOptions(
                column_names=list(names), skip_rows=skip, block_size=_LONGEST
            ),
            csv.ParseOptions(delimiter=between, quote_char=False, escape_char=False),
            csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=list(wanted),
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    empty = any(pc.any(pc.equal(table[name], "")).as_py() for name in wanted)
    return None if empty else table


def _check_rows(path: Path, skip: int, bad: pd.Series, problem: str) -> None:
    """Raise ValueError with the line of the first row that has a problem."""
    if bad.any():
        rows = (line for line, _ in lines(path) if line > skip)
        line = next(islice(rows, int(bad.to_numpy(bool).argmax()), None))
        raise ValueError(f"{path}, line {line}: {problem}")
