"""Inputs: from what the user names to files that hold one table between them.

Several files are one table cut into pieces: they have the same columns, perhaps in
another order, and a column has one type in all of them. A file that differs is named.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from renyi.encoding.text_cells import TextKind
from renyi.sources import csv, duckdb, parquet
from renyi.sources.formats import column_names, existing, reader_of, require
from renyi.streaming.arrow_values import look_at, without
from renyi.streaming.run import FileError, Source, Unit
from renyi.streaming.spec import family

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]

_SAMPLE = 2**20  # bytes of a CSV file that are looked at first


def matching(paths: Paths) -> list[Path]:
    """Return the files that a path, a pattern, a folder or a list of these stands for.

    >>> import renyi
    >>> pattern = renyi.datasets.path("votes").with_name("vot*.csv")
    >>> [path.name for path in matching(pattern)]
    ['votes.csv']
    """
    if isinstance(paths, (str, os.PathLike)):
        found = _matching(paths)
    else:
        found = [path for each in paths for path in _matching(each)]
    if not found:
        raise ValueError("No file is named: give at least one.")
    _refuse_twins(found)
    return found


def _refuse_twins(paths: list[Path]) -> None:
    """Refuse a file that is named twice, be it by another path or by a link to it."""
    known: dict[Path, Path] = {}
    for path in paths:
        place = path.resolve()
        if place in known:
            twin = f"{path} is the same file as {known[place]}"
            named = f"{path} is named twice" if known[place] == path else twin
            raise ValueError(f"{named}: its rows would count twice.")
        known[place] = path


def _matching(path: str | os.PathLike[str]) -> list[Path]:
    place, text = Path(path), os.fspath(path)
    if place.is_dir():
        inside = [each for each in sorted(place.iterdir()) if _is_part(each)]
        if not inside:
            raise ValueError(f"The folder {place} holds no Parquet file: name files.")
        return inside
    if place.is_file() or not glob.has_magic(text):
        return [existing(path)]
    found = [Path(each) for each in sorted(glob.glob(text, recursive=True))]
    found = [each for each in found if each.is_file()]
    if not found:
        raise ValueError(f"No file matches {text!r}: check the pattern and the folder.")
    return found


def _is_part(path: Path) -> bool:
    """Whether a file in a folder is part of a table; engines leave others there."""
    name = path.name.lower()
    hidden = name.startswith((".", "_"))
    return path.is_file() and not hidden and name.endswith(parquet.ENDINGS)


def gathered(
    paths: Sequence[Path],
    columns: Sequence[str] | None = None,
    verbatim: Collection[str] = (),
) -> Source:
    """Return files as one source, whose columns agree.

    Parameters
    ----------
    paths : sequence of Path
        The files, all of one format.
    columns : sequence of str, optional
        The columns that are needed, in this order; all by default.
    verbatim : collection of str
        Columns of CSV files whose cells keep the spaces around them.

    Examples
    --------
    >>> import renyi
    >>> gathered([renyi.datasets.path("votes")], ["crime", "party"]).schema.names
    ['crime', 'party']
    """
    first, reader = paths[0], reader_of(paths[0])
    names = column_names(first)
    wanted = names if columns is None else list(columns)
    for path in paths:
        if reader_of(path) is not reader:
            raise ValueError(
                f"{path} is of another format than {first}: count the files of each "
                "format for themselves, and add the marginals."
            )
        found = names if path is first else column_names(path)
        require(path, found, wanted)
        if columns is None:
            require(first, names, found)
    schema = _one_schema(paths, reader, wanted)
    read = reader.units
    if reader is csv:
        read = partial(csv.units, verbatim=verbatim)

    def units(columns: list[str]) -> Iterator[Unit]:
        for file, path in enumerate(paths):
            try:
                yield from read(file, path, columns)
            except ValueError as error:
                raise FileError(file, str(error)) from None

    return Source(tuple(paths), schema, units)


def _one_schema(
    paths: Sequence[Path], reader: ModuleType, columns: list[str]
) -> pa.Schema:
    """Return the types that the columns have in all files.

    A column without any value has no type of its own in some files.
    """
    types: dict[str, tuple[pa.DataType, Path]] = {}
    for path in paths:
        schema = reader.read_schema(path)
        for name in columns:
            kind = schema.field(name).type
            known, where = types.setdefault(name, (kind, path))
            if pa.types.is_null(known):
                types[name] = (kind, path)
            elif not pa.types.is_null(kind) and family(name, kind) != family(
                name, known
            ):
                raise ValueError(
                    f"{path} has the column {name!r} as {kind}, but {where} as "
                    f"{known}: give it one type in all files."
                )
    return pa.schema([(name, types[name][0]) for name in columns])


# ---- text that may be numbers


def text_kinds(
    path: Path,
    columns: list[str],
    missing: frozenset[str],
    condition: duckdb.Condition | None = None,
) -> dict[str, TextKind]:
    """Return what the first records of a CSV file hold; nothing for other formats.

    With a condition, only rows that it keeps are looked at, as in any later pass.

    >>> import renyi
    >>> kinds = text_kinds(renyi.datasets.path("adult"), ["age", "sex"], frozenset("?"))
    >>> kinds["age"].may_be_number, kinds["sex"].may_be_number
    (True, False)
    """
    if not columns or reader_of(path) is not csv:
        return {}
    header = csv.read_header(path)
    kinds = {name: TextKind() for name in columns}
    needed = columns if condition is None else [*columns, *condition.columns]
    for piece in csv.pieces(path, header, _SAMPLE):
        batch = csv.parse(path, header, piece.data, list(dict.fromkeys(needed)))
        if batch is not None:
            batch = batch if condition is None else condition.kept(batch)
            for name in columns:
                look_at(kinds[name], batch.column(name), missing)
            break
    return kinds


# ---- conditions on rows


def condition_on(path: Path, text: str, missing: frozenset[str]) -> duckdb.Condition:
    """Return a condition in SQL on the rows of files such as this one.

    >>> import renyi
    >>> condition_on(renyi.datasets.path("votes"), "crime = 'y'", frozenset()).columns
    ['crime']
    """
    schema = reader_of(path).read_schema(path)
    asked = _begin_as(path, duckdb.mentioned_columns(text, schema.names), missing)
    types = {"integers": "BIGINT", "numbers": "DOUBLE"}
    return duckdb.Condition(text, schema, {n: types[k] for n, k in asked.items()})


def _begin_as(
    path: Path, columns: list[str], missing: frozenset[str]
) -> dict[str, str]:
    """Return those columns of a CSV file that begin as "integers" or "numbers"."""
    found = text_kinds(path, columns, missing).items()
    return {name: kind.name for name, kind in found if kind.name != "words"}


def kept(source: Source, condition: duckdb.Condition) -> Source:
    """Return a source of those rows only for which a condition is true."""

    def read(unit: Unit, columns: list[str]) -> Iterator[pa.RecordBatch]:
        for batch in unit.read():
            yield condition.kept(batch).select(columns)

    def units(columns: list[str]) -> Iterator[Unit]:
        needed = list(dict.fromkeys([*columns, *condition.columns]))
        for unit in source.units(needed):
            yield unit._replace(read=partial(read, unit, columns))

    return dataclasses.replace(source, units=units)


def answered(sql: str, missing: frozenset[str], files: Sequence[Path] = ()) -> Source:
    """Return the rows of a query as a source; it has no files of its own."""
    query = duckdb.Query(sql, _as_data(files, missing) if files else None)

    def units(columns: list[str]) -> Iterator[Unit]:
        def read() -> Iterator[pa.RecordBatch]:
            for batch in query.batches():
                yield batch.select(columns)

        yield Unit(0, 0, 1.0, read)

    return Source((), query.schema, units)


def _as_data(files: Sequence[Path], missing: frozenset[str]) -> Any:
    """Return files as a table for DuckDB."""
    reader = reader_of(files[0])
    if reader is parquet:
        return duckdb.scan("read_parquet", files)
    if reader is csv:
        return _typed_rows(gathered(files), missing)
    from pyarrow import dataset

    return dataset.dataset([str(path) for path in files], format="ipc")


def _typed_rows(source: Source, missing: frozenset[str]) -> duckdb.Stream:
    """Return the rows of CSV files, with the types that their columns begin with.

    DuckDB is given cells that were read here: it would guess other quotes and types of
    a CSV file than renyi does, yes and no as truths, codes such as 007 as numbers.
    """
    names = source.schema.names
    types = {"integers": pa.int64(), "numbers": pa.float64()}
    kinds = _begin_as(source.paths[0], names, missing)
    schema = pa.schema([(n, types.get(kinds.get(n, ""), pa.string())) for n in names])

    def batches() -> Iterator[pa.RecordBatch]:
        for unit in source.units(names):
            for batch in unit.read():
                cells = [_read_as(f, batch.column(f.name), missing) for f in schema]
                yield pa.RecordBatch.from_arrays(cells, schema=schema)

    return duckdb.Stream(schema, batches)


def _read_as(field: pa.Field, column: Any, missing: frozenset[str]) -> Any:
    """Return text as a type, what means missing as null."""
    coded = pa.types.is_dictionary(column.type)
    texts = without(column.dictionary if coded else column, missing)
    try:
        cells = texts.cast(field.type)
    except pa.ArrowInvalid as error:
        word = re.search(r"'.*'", str(error))
        raise ValueError(
            f"Column {field.name!r} begins as numbers ({field.type}) but holds "
            f"{word[0] if word else 'others':.60} later: correct the cell, or let the "
            "query read the files itself, by read_csv with the types you want."
        ) from None
    return cells.take(column.indices) if coded else cells
