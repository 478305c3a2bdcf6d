"""Read files with a line per sample: phenotypes, covariates, groups, lists.

Samples are named by FID and IID, or by IID alone; a header is optional, as in plink2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi.formatting import number_of
from renyi.genotypes.tables import lines
from renyi.limits import check_memory
from renyi.sources.files import existing, require

NO_VALUE = frozenset(("", "-9", "NA", "nan", "NaN", "."))  # as in PLINK
_UNKNOWN = NO_VALUE | {"0"}  # in a phenotype: 1 is a control and 2 a case
_MEMORY_PER_BYTE = 60  # memory while text is read

Row = tuple[int, list[str]]  # number of a line, its fields


class SampleColumns(NamedTuple):
    """Columns of a file, with a row for each requested sample."""

    path: Path
    texts: pd.DataFrame  # of dtype object, None for samples that the file lacks
    lines: NDArray[np.int64]  # numbers of their lines; 0 if the file lacks them

    def chosen(self, names: Sequence[str] | None) -> SampleColumns:
        """Return the columns of some names."""
        if names is None:
            return self
        require(self.path, list(self.texts.columns), names)
        return self._replace(texts=self.texts[list(dict.fromkeys(names))])

    def numbers(self) -> pd.DataFrame:
        """Return the columns as numbers, with NaN for missing values."""
        columns = {name: self._numbers(str(name)) for name in self.texts}
        return pd.DataFrame(columns, dtype=float)

    def _numbers(self, name: str) -> list[float]:
        numbers = []
        for text, line in zip(self.texts[name], self.lines, strict=True):
            number = math.nan
            if text is not None and text not in NO_VALUE:
                number = math.inf if "_" in text else _by_number(text)[0]
                if not math.isfinite(number):
                    raise ValueError(
                        f"{self.path}, line {line}: {text!r:.40} in column {name!r} is "
                        "not a number: covariates are numbers, or NA where missing."
                    )
            numbers.append(
                math.nan if number == -9 else number
            )  # also -9.0, as in PLINK
        return numbers


def read_sample_columns(
    path: str | Path, samples: pd.DataFrame, named: str = "PHENO"
) -> SampleColumns:
    """Read columns of a file and find each sample's row in it.

    A header starts with FID IID, IID or #IID. Without a header, columns are `named`
    PHENO1, PHENO2, …, after FID IID or IID, whichever are ids of samples.
    """
    place, rows = _read(path)
    if not rows:
        raise ValueError(f"{place} is empty: it needs a line per sample.")
    line, first = rows[0]
    has_header, ids = _ids_of(place, rows, samples, 1)
    if has_header:
        names = [first[0].removeprefix("#"), *first[1:]]
        rows = rows[1:]
        if not rows:
            raise ValueError(f"{place} has a header only.")
        if len({*names}) < len(names):
            raise ValueError(f"{place}, line {line}: the header has a name twice.")
    else:
        names = [f"{named}{k - ids + 1}" for k in range(len(first))]
    for line, fields in rows:
        if len(fields) != len(names):
            raise ValueError(
                f"{place}, line {line} has {len(fields)} fields, the first line "
                f"{len(names)}: write NA where a value is missing."
            )
    at = _rows_of(place, rows, ids, samples)
    if (at < 0).all():
        raise ValueError(
            f"No sample of {place} is among the genotypes: it begins with "
            f"{' '.join(rows[0][1][:ids])!r:.60}, they with "
            f"{samples['fid'].iloc[0]} {samples['iid'].iloc[0]}."
        )
    numbers = np.array([line for line, _ in rows] + [0])[at]
    cells = [fields[ids:] for _, fields in rows] + [[None] * (len(names) - ids)]
    texts = pd.DataFrame([cells[k] for k in at], columns=names[ids:], dtype=object)
    return SampleColumns(place, texts, numbers)


def listed_samples(path: str | Path, samples: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which samples a file lists, by FID and IID or by IID alone."""
    place, rows = _read(path)
    has_header, ids = _ids_of(place, rows, samples, 0)
    rows = rows[has_header:]
    for line, fields in rows:
        if len(fields) < ids:
            raise ValueError(
                f"{place}, line {line}: FID and IID of a sample are needed."
            )
    return _rows_of(place, rows, ids, samples) >= 0


def listed_variants(path: str | Path, variants: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which variants a file lists, by their ids."""
    ids = [field for _, fields in _read(path)[1] for field in fields]
    return variants["id"].isin(ids).to_numpy(bool)


def _read(path: str | Path) -> tuple[Path, list[Row]]:
    """Return the path of a file and its lines, if they fit into memory."""
    place = existing(path)
    check_memory(_MEMORY_PER_BYTE * place.stat().st_size, f"Reading {place}")
    return place, list(lines(place))


def _ids_of(
    path: Path, rows: list[Row], samples: pd.DataFrame, values: int
) -> tuple[bool, int]:
    """Return whether there is a header, and how many fields are ids: FID IID, or IID.

    At least `values` more fields follow.
    """
    line, first = rows[0] if rows else (0, [""])
    head = first[0].removeprefix("#")
    if head == "FID" and first[1:2] != ["IID"]:
        raise ValueError(f"{path}, line {line}: the header names FID without IID.")
    if head in ("FID", "IID"):
        return True, 2 if head == "FID" else 1
    if len(first) == 1 + values:
        return False, 1
    alone = {*samples["iid"]}
    if _without_families(samples):
        both = sum(len(fields) > 1 and fields[1] in alone for _, fields in rows)
    else:
        pairs = {*zip(samples["fid"], samples["iid"], strict=True)}
        both = sum(tuple(fields[:2]) in pairs for _, fields in rows)
    one = sum(fields[0] in alone for _, fields in rows)
    return False, 2 if both >= one else 1


def _without_families(samples: pd.DataFrame) -> bool:
    """Return whether no sample has a FID, as in a VCF file; then IID is the key."""
    return bool((samples["fid"] == "0").all())


def _rows_of(
    path: Path, rows: list[Row], ids: int, samples: pd.DataFrame
) -> NDArray[np.int64]:
    """Return the row of each sample, or -1 if there is none."""
    families = ids == 2 and not _without_families(samples)
    row_of: dict[tuple[str, ...], int] = {}
    for k, (line, fields) in enumerate(rows):
        key = tuple(fields[:ids] if families else fields[:ids][-1:])
        if row_of.setdefault(key, k) != k:
            raise ValueError(
                f"{path}, line {line}: the sample {' '.join(key)} is also in line "
                f"{rows[row_of[key]][0]}."
            )
    if families or not rows:
        keys = zip(samples["fid"], samples["iid"], strict=True)
        return np.array([row_of.get(key, -1) for key in keys], np.int64)
    twice = samples["iid"].duplicated().to_numpy()
    if twice.any():
        raise ValueError(
            f"{path} names samples by IID alone, and the IID "
            f"{samples['iid'].iloc[int(twice.argmax())]!r} belongs to two samples: "
            "write FID and IID."
        )
    return np.array([row_of.get((iid,), -1) for iid in samples["iid"]], np.int64)


# ---- two classes


def two_classes(
    texts: Sequence[str | None], source: str, classes: Sequence[str] | None = None
) -> tuple[NDArray[np.int64], tuple[str, str]]:
    """Return the class of each sample, 0, 1 or -1 for neither, and the two classes.

    Without `classes` there must be exactly two values, apart from 0, -9 and NA, which
    mean missing. The second is the larger number, or the later in the alphabet.
    """
    values = {text for text in texts if text is not None}
    if classes is None:
        classes = sorted(values - _UNKNOWN, key=_by_number)
        if len(classes) != 2:
            raise _classes_error(classes, source)
    first, second = classes
    if first == second:
        raise ValueError(f"--classes needs two different values, not {first!r} twice.")
    if _by_number(first)[0] == _by_number(second)[0] < math.inf:
        raise ValueError(
            f"{source} has the classes {first!r} and {second!r}, which are the same "
            "number: write it in one way, or give two classes with --classes."
        )
    places: dict[str | None, int] = {first: 0, second: 1}
    y = np.array([places.get(text, -1) for text in texts], np.int64)
    for k, name in enumerate((first, second)):
        if not (y == k).any():
            raise ValueError(
                f"No sample has the class {name!r} in {source}: its values are "
                f"{_some(sorted(values, key=_by_number))}."
            )
    return y, (first, second)


def _classes_error(values: list[str], source: str) -> ValueError:
    """Return the error for a phenotype that does not have two values."""
    zero = "; to count 0 as a class, add --classes 0 1" * ({*values} == {"1"})
    advice = "name a file with --pheno, and its column with --pheno-name"
    if len(values) > 2:
        advice = f"choose two, such as --classes {values[0]} {values[1]}"
    return ValueError(
        f"{source} has {number_of(len(values), 'value')} ({_some(values) or 'none'}), "
        f"where two classes are needed (0, -9 and NA mean missing{zero}): {advice}."
    )


def _some(values: Sequence[str]) -> str:
    more = f" and {len(values) - 8:,} more" if len(values) > 8 else ""
    return ", ".join(value[:40] for value in values[:8]) + more


def _by_number(text: str) -> tuple[float, str]:
    """Return a key that sorts numbers before words."""
    try:
        return float(text), text
    except ValueError:
        return math.inf, text
