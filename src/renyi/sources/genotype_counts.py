"""Counts of genotypes of cases and controls: a table with a line per variant.

Separated by tabs, with a header: ID, A1, A2, CHROM and POS if they are known, and six
counts, CASE_A1A1, CASE_A1A2, CASE_A2A2 and the same of CONTROL.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from renyi.checks import check_memory
from renyi.sources.files import existing, require
from renyi.sources.genotype_tables import MEMORY_PER_BYTE, chromosome_name
from renyi.storage import first_line

GROUPS = ("CONTROL", "CASE")
GENOTYPES = ("A1A1", "A1A2", "A2A2")
_TEXTS = {"ID": "id", "A1": "a1", "A2": "a2"}
_MOST = 10**12  # people
_COUNTS = [f"{group}_{genotype}" for group in GROUPS for genotype in GENOTYPES]


@dataclass(frozen=True, eq=False)
class GenotypeCounts:
    """Variants, and counts of shape (d, 2, 3): controls and cases, 2, 1, 0 copies."""

    variants: pd.DataFrame
    counts: NDArray[np.int64]
    path: str


def read_genotype_counts(path: str | os.PathLike[str]) -> GenotypeCounts:
    """Read the counts of a file."""
    place = existing(path)
    check_memory(MEMORY_PER_BYTE * place.stat().st_size, f"Reading {place}")
    kinds = dict.fromkeys((*_TEXTS, "CHROM"), pa.string())
    kinds |= dict.fromkeys((*_COUNTS, "POS"), pa.int64())
    try:
        table = csv.read_csv(
            place,
            parse_options=csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=csv.ConvertOptions(
                column_types=kinds, null_values=[], strings_can_be_null=False
            ),
        )
        names = table.column_names
    except pa.ArrowInvalid as error:
        raise ValueError(f"{place} cannot be read: {first_line(error)}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{place} is not text in UTF-8.") from None
    names = [name.removeprefix("#") for name in names]
    if len(set(names)) < len(names):
        raise ValueError(f"{place} names a column twice in its header.")
    table = table.rename_columns(names)
    require(place, names, [*_TEXTS, *_COUNTS])
    if not table.num_rows:
        raise ValueError(f"{place} has no variants below its header.")
    frame = table.select([*_TEXTS]).to_pandas().rename(columns=_TEXTS)
    frame["chromosome"] = "0"
    if "CHROM" in names:
        texts = table["CHROM"].to_pandas()
        frame["chromosome"] = texts.map({t: chromosome_name(t) for t in texts.unique()})
    frame["position"] = table["POS"].to_numpy() if "POS" in names else 0
    counts = np.stack([table[name].to_numpy() for name in _COUNTS], axis=1)
    _check_counts(place, frame, counts)
    return GenotypeCounts(frame, counts.reshape(-1, 2, 3), str(place))


def _check_counts(path: object, frame: pd.DataFrame, counts: NDArray[np.int64]) -> None:
    """Refuse counts below 0, and variants without cases or without controls."""
    none = counts.reshape(-1, 2, 3).sum(axis=2).min(axis=1) <= 0
    for bad, what in (
        (counts.min(axis=1) < 0, "a negative count"),
        (counts.max(axis=1) > _MOST, f"a count above {_MOST:,}"),
        (none, "no counts"),
    ):
        if bad.any():
            row = int(bad.argmax())
            where = " of cases or of controls" if what == "no counts" else ""
            raise ValueError(
                f"{path}, line {row + 2}: variant {frame['id'].iloc[row]!r:.60} has "
                f"{what}{where}."
            )
