"""Tables in files: CSV (also tab-separated, also gzipped) and Parquet.

Every cell of a CSV file is read as text first; `renyi.sources.cells` then makes numbers
of columns of numbers. A model is asked with files that were guessed differently:
`kinds` says what its columns are, so that a column of labels is compared by its text as
it stands in the file.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import warnings
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from renyi.columns import RARE
from renyi.encoding import Encoder
from renyi.factoring import Label, label_text
from renyi.marginals import Marginals
from renyi.sources import rows
from renyi.sources.cells import DataWarning, is_missing, typed

_CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
_PARQUET = (".parquet", ".pq")
_BLOCK = 16 * 2**20

MISSING: tuple[Label, ...] = ("?", "")


def read_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING,
    kinds: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read a CSV or Parquet file.

    Parameters
    ----------
    path : path
        A file that ends in .csv, .tsv, .txt (each also with .gz) or .parquet.
    columns : sequence of str, optional
        The columns to read, in this order; all by default.
    missing : iterable of labels
        Cells that mean "missing"; they do not keep a column from being numeric.
    kinds : mapping of name to {"label", "number", "verbatim"}, optional
        What some columns of a CSV file are, whatever their cells look like: labels,
        numbers, or text that is copied with its spaces.

    Returns
    -------
    pyarrow.Table

    Examples
    --------
    >>> import renyi
    >>> read_table(renyi.datasets.path("votes")).shape
    (435, 17)
    """
    place = existing(path)
    names = column_names(place)
    wanted = names if columns is None else list(columns)
    require(place, names, wanted)
    if _is_parquet(place):
        return _read_parquet(place, wanted)
    table = _read_csv(place, names, wanted)
    if not table.num_rows:
        raise ValueError(f"{place} has a header but no rows: there is nothing to read.")
    texts = frozenset(label_text(code) for code in missing)
    kinds = kinds or {}
    made = [
        typed(name, column, texts, kinds.get(name))
        for name, column in zip(wanted, table.columns, strict=True)
    ]
    return pa.table(made, names=wanted)


def marginals(
    path: str | os.PathLike[str],
    target: str,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
) -> Marginals:
    """Count the pairs of a file's columns; see `Marginals.from_file`.

    >>> import renyi
    >>> marginals(renyi.datasets.path("votes"), "party").n
    435
    """
    encoder = encoder or Encoder()
    columns = None
    if encoder.columns:
        columns = [*encoder.feature_names, target]
    kinds = column_kinds(encoder)
    table = read_table(path, columns, missing=encoder.missing, kinds=kinds)
    require(path, table.column_names, [target])
    table = labelled(table, target, encoder.missing)
    X, y = table.drop_columns([target]), table[target]
    return rows.marginals(X, y, target, encoder, class_conditional)


def column_kinds(encoder: Encoder) -> dict[str, str]:
    """Return how `read_table` should take the columns of a fitted encoder.

    Integer labels are left to the reader: "1.0" in a file is then the label 1.

    >>> column_kinds(Encoder().fit(pa.table({"a": ["x", "y"], "b": [0.5, 1.5]})))
    {'a': 'label', 'b': 'number'}
    """
    kinds = {}
    for column in encoder.columns:
        labels = {*column.categories, *column.levels.rare} - {RARE}
        if column.kind == "number":
            kinds[column.name] = "number"
        elif any(isinstance(label, str) for label in labels):
            kinds[column.name] = "label"
    return kinds


def labelled(table: pa.Table, target: str, missing: Iterable[Label]) -> pa.Table:
    """Return the rows whose target is known; warn of those left out.

    >>> import warnings
    >>> with warnings.catch_warnings(record=True, action="always"):
    ...     labelled(pa.table({"y": ["a", "?", "b"]}), "y", ("?",)).num_rows
    2
    """
    gone = is_missing(table[target], frozenset(label_text(code) for code in missing))
    count = pc.sum(gone).as_py()
    if not count:
        return table
    if count == table.num_rows:
        raise ValueError(f"The target {target!r} is missing in every row.")
    warnings.warn(
        f"{count:,} row{'s were' if count > 1 else ' was'} left out: their target "
        f"{target!r} is missing.",
        DataWarning,
        stacklevel=2,
    )
    return table.filter(pc.invert(gone))


def existing(path: str | os.PathLike[str], others: Iterable[str] = ()) -> Path:
    """Return the path of a file, or say what is there instead.

    Parameters
    ----------
    path : path
        The file.
    others : iterable of str
        Names that would have been understood too, to suggest one of them.

    Examples
    --------
    >>> import renyi
    >>> existing(renyi.datasets.path("votes")).name
    'votes.csv'
    """
    place = Path(path)
    if place.is_file():
        return place
    if place.is_dir():
        raise ValueError(f"{place} is a folder: name a file in it.")
    nearby: list[str] = []
    if place.parent.is_dir():
        nearby = [str(p) for p in place.parent.iterdir() if p.is_file()]
    close = get_close_matches(str(place), [*others, *nearby], n=1, cutoff=0.7)
    hint = f"did you mean {close[0]!r}?" if close else "check the name and the folder."
    raise ValueError(f"There is no file {str(place)!r}: {hint}")


def require(path: Any, names: Collection[str], wanted: Iterable[str]) -> None:
    """Raise an error that names a column which a file lacks.

    >>> require("a.csv", ["age", "sex"], ["sex"])
    """
    known = set(names)
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, names, n=1)
            columns = ", ".join(repr(n) for n in list(names)[:5])
            more = ", …" if len(names) > 5 else ""
            hint = f"did you mean {close[0]!r}?" if close else f"it has {columns}{more}"
            raise ValueError(f"{path} has no column {name!r}: {hint}")


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of a file's columns, checked.

    >>> import renyi
    >>> column_names(renyi.datasets.path("votes"))[-1]
    'party'
    """
    place = existing(path)
    names = _parquet_names(place) if _is_parquet(place) else _header(place).names
    first: dict[str, int] = {}
    for k, name in enumerate(names, 1):
        if name in first:
            raise ValueError(
                f"{place} has two columns named {name!r} (numbers {first[name]} and "
                f"{k}): rename one of them."
            )
        first[name] = k
    return names


def _is_parquet(path: Path) -> bool:
    name = path.name.lower()
    if not name.endswith(_CSV + _PARQUET):
        ending = path.suffix or "no ending"
        raise ValueError(
            f"{path} has {ending!r} for an ending: renyi reads .csv, .tsv and .txt "
            "(also .gz) and .parquet; save the table as one of these."
        )
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty: it needs a header and rows.")
    return name.endswith(_PARQUET)


# ---- Parquet


def _parquet_names(path: Path) -> list[str]:
    try:
        names: list[str] = pa.parquet.read_schema(path).names
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_not_parquet(path, error)) from None
    # pandas stores an unnamed index as a column, which is no data of the user's.
    return [name for name in names if not re.fullmatch(r"__index_level_\d+__", name)]


def _read_parquet(path: Path, columns: list[str]) -> pa.Table:
    try:
        table = pa.parquet.read_table(path, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_not_parquet(path, error)) from None
    if not table.num_rows:
        raise ValueError(f"{path} has no rows: there is nothing to read.")
    return table.select(columns).replace_schema_metadata(None)


def _not_parquet(path: Path, error: Exception) -> str:
    reason = str(error).splitlines()[0].rstrip(".")
    return f"{path} is damaged or no Parquet file ({reason:.160}): take a fresh copy."


# ---- CSV


def _open(path: Path) -> IO[bytes]:
    if path.suffix.lower() == ".gz":
        return cast(IO[bytes], gzip.open(path))
    return path.open("rb")


class _Header(NamedTuple):
    """How a CSV file begins: its delimiter, its names, the lines they end at."""

    delimiter: str
    names: list[str]
    skip: int


def _header(path: Path) -> _Header:
    try:
        with _open(path) as raw:
            stream = io.TextIOWrapper(raw, "utf-8-sig", newline="")
            line = _first_record(stream)
        delimiter = _delimiter(path, line)
        with _open(path) as raw:
            stream = io.TextIOWrapper(raw, "utf-8-sig", newline="")
            records = enumerate(csv.reader(stream, delimiter=delimiter), 1)
            named = ((k, c) for k, c in records if "".join(c).strip())
            skip, cells = next(named, (0, []))
    except UnicodeDecodeError:
        raise ValueError(_not_utf8(path)) from None
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV ({error}).") from None
    if not cells:
        raise ValueError(f"{path} is empty: it needs a header and rows.")
    names = [name.strip() or f"column {k}" for k, name in enumerate(cells, 1)]
    return _Header(delimiter, names, skip)


def _first_record(stream: Iterable[str]) -> str:
    """Return the first line that is not blank, and those that its quotes go on to."""
    record = ""
    for text in stream:
        if record or text.strip():
            record += text
        if record and record.count('"') % 2 == 0:
            break
        if len(record) > _BLOCK:  # a quote that is never closed
            break
    return record


def _delimiter(path: Path, record: str) -> str:
    """Return what separates the cells; a header without commas may have another."""
    if ".tsv" in path.name.lower():
        return "\t"
    bare = re.sub(r'"[^"]*("|$)', "", record)  # names may hold what separates others
    others = [c for c in ";\t" if c in bare]
    return others[0] if others and "," not in bare else ","


def _read_csv(path: Path, names: list[str], columns: list[str]) -> pa.Table:
    delimiter, _, skip = _header(path)
    try:
        table = pa.csv.read_csv(
            path,
            pa.csv.ReadOptions(
                column_names=names, skip_rows_after_names=skip, block_size=_BLOCK
            ),
            pa.csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                # Of a single column, a blank line is an empty cell.
                ignore_empty_lines=len(names) > 1,
            ),
            pa.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=columns,
                strings_can_be_null=False,
            ),
        )
    except (pa.ArrowException, OSError) as error:
        raise ValueError(_trouble(path, delimiter, len(names), error)) from None
    return table


def _trouble(path: Path, delimiter: str, width: int, error: Exception) -> str:
    """Say where a CSV file is wrong, by reading it once more, line by line."""
    try:
        with _open(path) as raw:
            stream = io.TextIOWrapper(raw, "utf-8-sig", newline="")
            reader = csv.reader(stream, delimiter=delimiter)
            before = 0
            for cells in reader:
                if cells and len(cells) != width:
                    count = f"{len(cells)} cell{'s' * (len(cells) > 1)}"
                    return (
                        f"{path}, line {before + 1}: {count} where the header has "
                        f"{width}; correct the line, or quote cells that hold "
                        f"{delimiter!r}."
                    )
                before = reader.line_num
    except UnicodeDecodeError:
        return _not_utf8(path)
    except (OSError, EOFError, zlib.error, csv.Error) as other:
        error = other
    reason = str(error).splitlines()[0].rstrip(".")
    return f"{path} cannot be read as CSV ({reason:.160})."


def _not_utf8(path: Path) -> str:
    with _open(path) as stream:
        for number, line in enumerate(stream, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as error:
                return (
                    f"{path}, line {number}: byte {error.start + 1} "
                    f"(0x{line[error.start]:02x}) is not UTF-8; save the file as UTF-8."
                )
    return f"{path} is not UTF-8: save the file as UTF-8."
