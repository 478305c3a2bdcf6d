"""Tables in files: CSV (also tab-separated, also gzipped), Parquet and Arrow.

A table is read whole (`read_table`), batch by batch (`batches`), or counted as it is
read (`marginals`), in memory that does not grow with the number of rows. Several files
are one table cut into pieces: they have the same columns, perhaps in another order, and
a column has one type in all of them. A file that differs is named.

Every cell of a CSV file is read as text first; `renyi.encoding.arrow` then makes
numbers of columns of numbers. For a new file, the guess may differ from that
of the training files. So `kinds` says what a model's columns are: a column of labels is
compared by its text in the file.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from renyi.counting.compiled import in_threads
from renyi.encoding.arrow import (
    LONG_INTEGER,
    TextKind,
    first_word,
    null_missing,
    plain_array,
    plain_type,
    requested_floats,
    typed,
    without,
)
from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import MISSING_CODES, check_names, missing_texts
from renyi.limits import check_memory, memory_budget
from renyi.marginals.marginals import Marginals
from renyi.progress import ProgressCallback
from renyi.sources import csv, databases, duckdb, suffixes
from renyi.sources.arrow import IpcFile, ParquetFile
from renyi.sources.csv import CsvFile
from renyi.sources.databases import DatabaseTable
from renyi.sources.kept_rows import KeptRows
from renyi.sources.layouts import PLAIN, Header, Layout, superfluous
from renyi.sources.run import Job, RowChoice, Source, Unit, written
from renyi.sources.spec import CountSpec, family, fitted_text
from renyi.validation import InputError
from renyi.warnings import warn

_EMPTY_QUERY = "The query returns no rows."
_FIRST = 2**16  # rows that are looked at first
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_COSTS = (2, 12, 64)  # bytes in memory of a byte, a cell and a row of a file

TableFile = CsvFile | ParquetFile | IpcFile | DatabaseTable
AnyPath = str | os.PathLike[str] | TableFile
Paths = AnyPath | Iterable[AnyPath]

# Files that `renyi.genotypes` reads, or converts.
_GENOTYPES = (".bed", ".pgen", ".vcf", ".vcf.gz", ".bgen", ".bcf", ".ped")
_FORMATS = (CsvFile, ParquetFile, IpcFile)


# ---- from what the user names to files


def existing(path: str | os.PathLike[str], others: Iterable[str] = ()) -> Path:
    """Return the path of a file, or say what is there instead.

    `others` are names that would have been understood too, to suggest one of them.
    """
    if not os.fspath(path):
        raise ValueError("The name of a file is empty: name a file.")
    place = Path(path)
    if place.is_file():
        return place
    if place.is_dir():
        raise ValueError(f"{place} is a folder: name a file in it.")
    if place.exists():
        raise ValueError(
            f"{place} is a pipe or a device, which can be read only once: save its "
            "contents to a file first."
        )
    nearby = [str(p) for p in place.parent.glob("*") if p.is_file()]
    close = get_close_matches(str(place), [*others, *nearby], n=1, cutoff=0.7)
    hint = f"did you mean {close[0]!r}?" if close else "check the name and the folder."
    raise ValueError(f"There is no file {str(place)!r}: {hint}")


def opened(path: AnyPath, layout: Layout = PLAIN) -> TableFile:
    """Return a file whose header has been read and checked; its ending says how."""
    if isinstance(path, TableFile):
        return path
    place = existing(path)
    kinds = [k for k in _FORMATS if place.name.lower().endswith(k.ENDINGS)]
    if place.name.lower().endswith(_GENOTYPES):
        raise ValueError(
            f"{place} contains genotypes, not a table: use 'renyi genotypes fit' or "
            "'renyi genotypes predict'."
        )
    if not kinds:
        what = f"ends in {place.suffix!r}" if place.suffix else "has no ending"
        raise ValueError(
            f"{place} {what}, so its format is unknown: renyi reads {suffixes.TABLES}; "
            "save the table as one of these, or rename the file."
        )
    if not place.stat().st_size:
        raise ValueError(f"{place} is empty: take a copy that contains a table.")
    table: TableFile
    if kinds[0] is CsvFile:
        table = CsvFile(place, layout)
    elif layout != PLAIN:
        raise superfluous(f"{place} is not a text table")
    else:
        table = kinds[0](place)
    try:
        check_names(table.schema.names, place)
    except ValueError as error:
        if not isinstance(table, CsvFile) or table.header.form == "ARFF":
            raise
        raise InputError(str(error), "no_header", python="header=False") from None
    return table


def _listed(paths: Paths) -> list[AnyPath]:
    if isinstance(paths, (str, os.PathLike, TableFile)):
        return [paths]
    return list(paths)


def matching(paths: Paths) -> list[Path]:
    """Return the files that a path, a pattern, a folder or a list of these names."""
    files = distinct(path for each in _listed(paths) for path in _matching(each))
    if not files:
        raise ValueError("No file is named: give at least one.")
    return files


def is_searched(path: str | os.PathLike[str]) -> bool:
    """Whether a name stands for the files of a folder, or those that match it."""
    place = Path(path)
    name = os.fspath(path)
    if not name or databases.is_address(name):  # which may end in ?host=…
        return False
    return place.is_dir() or (glob.has_magic(name) and not place.is_file())


def distinct(paths: Iterable[Path]) -> list[Path]:
    """Return paths, of which no two are one file, through links of any kind."""
    known: dict[tuple[int, int], Path] = {}
    for path in paths:
        status = path.stat()
        first = known.setdefault((status.st_dev, status.st_ino), path)
        if first is not path:
            twice = "named twice" if first == path else f"the same file as {first}"
            raise ValueError(f"{path} is {twice}: its rows would count twice.")
    return list(known.values())


def _matching(path: AnyPath) -> list[Path]:
    if isinstance(path, TableFile):
        return [Path(path.path)]
    if not is_searched(path):
        return [existing(path)]
    place = Path(path)
    text = os.fspath(path)
    if place.is_dir():
        named = [  # engines leave other files next to the parts of a table
            each
            for each in sorted(place.iterdir())
            if each.name.lower().endswith(ParquetFile.ENDINGS)
            and not each.name.startswith((".", "_"))
        ]
        problem = f"The folder {place} contains no Parquet file: name files."
    else:
        named = [Path(each) for each in sorted(glob.glob(text, recursive=True))]
        problem = f"No file matches {text!r}: check the pattern and the folder."
    files = [each for each in named if each.is_file()]
    if not files:
        raise ValueError(problem)
    return files


def open_tables(paths: Paths, layout: Layout = PLAIN) -> list[TableFile]:
    """Return all files of a table, all of one format; files that are open stay so."""
    given = _listed(paths)
    if len(given) == 1 and isinstance(given[0], DatabaseTable):
        return [given[0]]
    known = {each.path: each for each in given if isinstance(each, TableFile)}
    tables = [known.get(path) or opened(path, layout) for path in matching(given)]
    for table in tables:
        if type(table) is not type(tables[0]):
            raise ValueError(
                f"{table.path} has another format than {tables[0].path}: count the "
                "files of each format separately, and add the marginals."
            )
    return tables


def text_header(tables: Sequence[TableFile]) -> Header | None:
    """Return the header of the first file, if it is a text table."""
    first = tables[0] if tables else None
    return first.header if isinstance(first, CsvFile) else None


def require(path: object, names: Collection[str], wanted: Iterable[str]) -> None:
    """Raise an error that names a column which a file lacks."""
    known = set(names)
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, names, n=1, cutoff=0.65)
            columns = ", ".join(repr(n[:60]) for n in list(names)[:5])
            more = ", …" if len(names) > 5 else "."
            hint = f"did you mean {close[0]!r}?" if close else f"it has {columns}{more}"
            raise ValueError(f"{path} has no column {name!r}: {hint}")


def no_rows(tables: Sequence[TableFile], where: str | None = None) -> ValueError:
    """Return what is said of files without rows, or none that meets a condition."""
    names = ", ".join(str(table.path) for table in tables[:3])
    names += ", …" * (len(tables) > 3)
    if isinstance(tables[0], DatabaseTable):
        where = tables[0].where
    if where is not None:
        return ValueError(f"No row of {names} meets the condition {where!r}.")
    header = "a header but " if isinstance(tables[0], CsvFile) else ""
    return ValueError(f"{names} has {header}no rows.")


# ---- rows in memory, whole or batch by batch


def read_table(
    paths: Paths,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING_CODES,
    kinds: Mapping[str, str] | None = None,
    where: str | None = None,
) -> pa.Table:
    """Read the rows of files into memory, if the job may use so much."""
    if isinstance(paths, (str, os.PathLike, TableFile)):
        tables = [opened(paths)]
    else:
        tables = open_tables(paths)
    texts = missing_texts(missing)
    wanted = tables[0].schema.names if columns is None else list(columns)
    source = _rows(tables, wanted, verbatim=wanted)
    choice = _choice(tables, where, texts, None)
    if choice is not None:
        source = source.chosen(choice)
    schema = _promoted(tables, wanted)
    read = in_threads if source.paths else map
    parts = []
    size = 0.0
    share = 0.0
    units = source.units(wanted)
    for unit, batches in read(lambda unit: (unit, list(unit.read())), units):
        size += sum(map(_training_bytes, batches))
        share += unit.share / len(tables)
        if size > memory_budget():
            of = f"Holding the rows of {tables[0].path}"
            check_memory(max(size, size / share), of)
        parts += [batch.cast(schema) for batch in batches]
    rows = pa.Table.from_batches(parts, schema).unify_dictionaries()
    if not rows.num_rows:
        raise no_rows(tables, where)
    return _typed(tables[0], rows, texts, kinds or {})


def _training_bytes(batch: pa.RecordBatch) -> float:
    """Return the bytes that training on some rows takes.

    Their text is needed cell by cell, and each cell as a number and as a code. Classes
    and answers are needed by row.
    """
    size = 0
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and column.type.value_type in _TEXTS:
            lengths = pc.binary_length(plain_array(column.dictionary))
            size += pc.sum(lengths.take(column.indices)).as_py() or 0
        else:
            size += column.nbytes
    counts = (size, batch.num_rows * batch.num_columns, batch.num_rows)
    return float(np.dot(_COSTS, counts))


def _typed(
    file: TableFile,
    rows: pa.Table,
    missing: frozenset[str],
    kinds: Mapping[str, str],
) -> pa.Table:
    """Return rows of a file, text of CSV as what it is."""
    if not isinstance(file, CsvFile):
        return rows
    plain = rows.cast(pa.schema([(name, pa.string()) for name in rows.column_names]))
    columns = [
        typed(name, column, missing, kinds.get(name))
        for name, column in zip(plain.column_names, plain.columns, strict=True)
    ]
    return pa.table(columns, names=plain.column_names)


def batches(
    paths: Paths,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING_CODES,
    kinds: Mapping[str, str] | None = None,
    where: str | None = None,
    choose: RowChoice | None = None,
) -> Iterator[pa.Table]:
    """Read files batch by batch, in the order of their rows.

    `where` and `choose` say which rows. A column of a CSV file that is not among
    `kinds` may be of numbers in one batch and of text in another, as its cells are.
    """
    kinds = kinds or {}
    texts = missing_texts(missing)
    tables = open_tables(paths)
    verbatim = [name for name, kind in kinds.items() if kind == "verbatim"]
    source = _rows(tables, columns, verbatim)
    choice = _choice(tables, where, texts, choose)
    if choice is not None:
        source = source.chosen(choice)
    for unit in source.units(list(source.schema.names if columns is None else columns)):
        for batch in unit.read():
            if batch.num_rows:
                yield _typed(tables[0], pa.Table.from_batches([batch]), texts, kinds)


def first_rows(
    table: TableFile,
    columns: list[str],
    missing: Iterable[Label],
    kinds: Mapping[str, str],
) -> tuple[pa.Table, bool]:
    """Return some columns of the first rows of a file, and whether they are all."""
    if isinstance(table, CsvFile):
        batch = table.sample(columns)
        whole = table.sampled_whole
        first = None if batch is None else pa.Table.from_batches([batch])
    else:
        read = []
        rows = 0
        left = batches(table, columns)
        while rows <= _FIRST and (batch := next(left, None)) is not None:
            read.append(batch)
            rows += batch.num_rows
        first = pa.concat_tables(read) if read else None
        whole = rows <= _FIRST
    if first is None:
        return pa.table({name: [] for name in columns}), whole
    return _typed(table, first, missing_texts(missing), kinds)[:_FIRST], whole


# ---- counting


def marginals(
    path: Paths | None,
    target: str,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    sql: str | None = None,
    weight: str | None = None,
    progress: ProgressCallback | None = None,
    *,
    table: str | None = None,
    kinds: Mapping[str, str] | None = None,
    layout: Layout = PLAIN,
) -> Marginals:
    """Count the pairs of the columns of files; see `Marginals.from_file`.

    `kinds` says what some columns are, "label" or "number", whatever they look like.
    """
    if layout != PLAIN and (table is not None or path is None):
        raise superfluous("Rows of a database or a query are not a text table")
    encoder = encoder or Encoder()
    request = CountRequest(
        target, encoder, class_conditional, columns, where, sql, weight, kinds or {}
    )
    if table is None:
        tables = None if path is None else open_tables(path, layout)
        header = text_header(tables or [])
        if header is not None and sql is None:
            if header.aside:
                warn(f"{path}: {header.said}.", "ignored-column")
            own = header.label_kinds(request.needed)
            request = request._replace(kinds={**own, **request.kinds})
        return count(tables, request, progress)
    missing = missing_texts(encoder.missing)
    name = _database_name(path)
    with databases.open_table(name, table, where, missing) as opened_table:
        return count(opened_table, request._replace(where=None), progress)


class CountRequest(NamedTuple):
    """What is read of files: columns, how they are coded, and which rows count."""

    target: str
    encoder: Encoder
    class_conditional: bool = False
    columns: Sequence[str] | None = None
    where: str | None = None
    sql: str | None = None
    weight: str | None = None
    kinds: Mapping[str, str] = MappingProxyType({})
    choose: RowChoice | None = None

    @property
    def needed(self) -> list[str]:
        """The columns that are not features: the target, and the weight."""
        return [self.target] if self.weight is None else [self.target, self.weight]

    @property
    def wanted(self) -> list[str] | None:
        """The columns to read; None means all."""
        features = self.columns
        if self.encoder.columns:
            features = self.encoder.feature_names
        if features is None:
            return None
        return list(dict.fromkeys([*features, *self.needed]))


def count(
    path: Paths | None,
    request: CountRequest,
    progress: ProgressCallback | None = None,
) -> Marginals:
    """Count the pairs of the rows of files, or of a query."""
    tables = [] if path is None else open_tables(path)
    counter = _job(tables, request, progress).count()
    if not counter.seen:
        raise _no_rows_error(tables, request)
    return counter.finish()


def code_rows(
    tables: Sequence[TableFile],
    request: CountRequest,
    store: KeptRows,
    progress: ProgressCallback | None = None,
) -> None:
    """Write the codes of the rows of files to `store`."""
    coder = _job(tables, request, progress).code(store)
    if not coder.seen:
        raise _no_rows_error(tables, request)
    coder.finish()


def _no_rows_error(tables: Sequence[TableFile], request: CountRequest) -> ValueError:
    """Return the error for files or a query without rows."""
    if request.sql is None:
        return no_rows(tables, request.where)
    return ValueError(_EMPTY_QUERY)


def _job(
    tables: Sequence[TableFile],
    request: CountRequest,
    progress: ProgressCallback | None,
) -> Job:
    """Return the passes over files, or over the rows of a query."""
    encoder = request.encoder
    needed = request.needed
    missing = missing_texts(encoder.missing)
    source = _requested(tables, request)
    choice = None
    if request.sql is None:
        choice = _choice(tables, request.where, missing, request.choose)
    if choice is not None:
        source = source.chosen(choice)
    source = _with_floats(source, request.kinds)
    wanted = request.wanted or source.schema.names
    schema = pa.schema([source.schema.field(name) for name in wanted])
    kinds = {**request.kinds, **column_kinds(encoder)}
    texts = set[str]()
    if request.sql is None:
        text_kinds = _text_kinds(tables[0], schema.names, missing, choice)
        texts = _undecided(text_kinds, kinds, needed) - {request.weight}
    spec = CountSpec.of(
        schema,
        request.target,
        encoder,
        request.class_conditional,
        request.weight,
        texts,
    )
    return Job(source, _with_kinds(spec, kinds), progress)


def check_one_choice(where: str | None, sql: str | None) -> None:
    """Raise an error if both a condition and a query say which rows to read."""
    if where is not None and sql is not None:
        raise InputError(
            "Give a condition or a query, not both.",
            "where",
            "sql",
            python="where=, sql=",
        )


def _requested(tables: Sequence[TableFile], request: CountRequest) -> Source:
    """Return the rows of files or of a query, whatever condition they meet."""
    check_one_choice(request.where, request.sql)
    if request.sql is not None:
        source = query(request.sql, missing_texts(request.encoder.missing), tables)
        require("The query", source.schema.names, request.wanted or request.needed)
        return source
    if not tables:
        raise InputError("Give the files to read, or a query.", "sql", python="sql=")
    source = _rows(tables, request.wanted)
    require(tables[0].path, source.schema.names, request.needed)
    return source


def save_rows(
    tables: Sequence[TableFile], sql: str | None, missing: frozenset[str], place: Path
) -> IpcFile:
    """Write the rows of a query or a database to a file, and return it.

    A second reading of a query or of PostgreSQL may have the rows in another order.
    """
    source = _rows(tables) if sql is None else query(sql, missing, tables)
    units = source.units(source.schema.names)
    batches = (batch for unit in units for batch in unit.read())
    rows = 0
    with place.open("wb") as stream:
        for batch in written(batches, stream):
            rows += batch.num_rows
    if not rows:
        raise no_rows(tables) if sql is None else ValueError(_EMPTY_QUERY)
    return IpcFile(place)


def _database_name(path: Paths | None) -> str:
    """Return the name of the one database that has a table."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueError("A table is that of one database: give its file or address.")
    name = os.fspath(path)
    return name if databases.is_address(name) else str(existing(name))


def _undecided(
    text_kinds: Mapping[str, TextKind],
    kinds: Mapping[str, str],
    needed: Sequence[str],
) -> set[str]:
    """Return the columns of text that may turn out to be numbers; warn of others."""
    texts = {n for n, kind in text_kinds.items() if kind.undecided or n in kinds}
    for name, kind in text_kinds.items():
        if name not in texts and name not in needed:
            kind.warn(name)
    return {name for name in texts if kinds.get(name) != "label"}


def _with_kinds(spec: CountSpec, kinds: Mapping[str, str]) -> CountSpec:
    """Return the spec with columns decided whose kind is given."""
    decided = {}
    for name, column in spec.by_name.items():
        if name in kinds and column.levels is None:
            kind = "number" if kinds[name] == "number" else "label"
            text = "numbers" if column.text and kind == "number" else ""
            decided[name] = column._replace(kind=kind, text=text)
    return spec.decided(decided)


def column_kinds(encoder: Encoder) -> dict[str, str]:
    """Return how `read_table` should take the columns of a fitted encoder."""
    kinds = {"numbers": "number", "words": "label", "figures": "figure"}
    return {each.name: kinds[fitted_text(each.levels)] for each in encoder.columns}


def _with_floats(source: Source, kinds: Mapping[str, str]) -> Source:
    """Return a source whose columns said to be numbers are floats, but for text."""
    fields = []
    changed = set[str]()
    for field in source.schema:
        if kinds.get(field.name) == "number" and field.type != csv.TEXT:
            field = field.with_type(pa.float64())
            changed.add(field.name)
        fields.append(field)

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        for k, name in enumerate(batch.schema.names):
            if name in changed:
                cells = requested_floats(name, batch.column(k))
                batch = batch.set_column(k, name, cells)
        return batch

    return source.mapped(change, pa.schema(fields)) if changed else source


# ---- sources of rows


def _rows(
    tables: Sequence[TableFile],
    columns: Sequence[str] | None = None,
    verbatim: Collection[str] = (),
) -> Source:
    """Return files, whose columns agree, as one source.

    `columns` are those that are needed, in this order, all by default; the cells of
    `verbatim` columns of CSV files keep the spaces around them.
    """
    first = tables[0].path
    names = tables[0].schema.names
    wanted = names if columns is None else list(columns)
    for table in tables:
        require(table.path, table.schema.names, wanted)
        if columns is None:
            require(first, names, table.schema.names)

    def units(columns: list[str]) -> Iterator[Unit]:
        for file, table in enumerate(tables):
            if isinstance(table, CsvFile):
                yield from table.units(file, columns, verbatim)
            else:
                yield from table.units(file, columns)

    paths = tuple(table.path for table in tables if isinstance(table.path, Path))
    return Source(_one_schema(tables, wanted), units, paths)


def _one_schema(tables: Sequence[TableFile], columns: list[str]) -> pa.Schema:
    """Return the types that the columns have in all files.

    A column without any value has no type in some files.
    """
    types: dict[str, tuple[pa.DataType, object]] = {}
    for table in tables:
        for name in columns:
            kind = table.schema.field(name).type
            known, where = types.setdefault(name, (kind, table.path))
            if pa.types.is_null(known):
                types[name] = (kind, table.path)
            elif kind not in (known, pa.null()) and (
                family(name, kind) != family(name, known)
            ):
                raise ValueError(
                    f"{table.path} has the column {name!r} as {kind}, but {where} as "
                    f"{known}: give it one type in all files."
                )
    return pa.schema([(name, types[name][0]) for name in columns])


def _promoted(tables: Sequence[TableFile], columns: Sequence[str]) -> pa.Schema:
    """Return types that contain those of the columns in all files."""
    own = [pa.schema([t.schema.field(name) for name in columns]) for t in tables]
    return pa.unify_schemas(own, promote_options="permissive")


def _text_kinds(
    table: TableFile,
    columns: list[str],
    missing: frozenset[str],
    choose: RowChoice | None = None,
) -> dict[str, TextKind]:
    """Return what the first records of a CSV file hold; nothing for other formats.

    Only rows that are chosen are looked at, as in any later pass.
    """
    if not columns or not isinstance(table, CsvFile):
        return {}
    kinds = {name: TextKind() for name in columns}
    batch = table.sample(columns)
    if batch is not None:
        if choose is not None:
            batch = batch.filter(pa.array(choose(0, 0, batch.num_rows)))
        for name in columns:
            kinds[name].look_at(batch.column(name), missing)
    return kinds


def _whole_types(
    tables: Sequence[TableFile], columns: list[str], missing: frozenset[str]
) -> dict[str, pa.DataType]:
    """Return the types of columns of CSV files, after a look at all rows.

    A column that begins as numbers stays one: where it has a word later, reading it as
    a number raises an error that names the cell.
    """
    first = _text_kinds(tables[0], columns, missing)
    kinds = {name: TextKind() for name in columns}
    for unit in _rows(tables, columns).units(columns) if columns else ():
        for batch in unit.read():
            for name in columns:
                kinds[name].look_at(batch.column(name), missing)
    types = {}
    for name, kind in kinds.items():
        stopped = kind.name == "words" and first[name].name != "words"
        types[name] = _type_of(first[name] if stopped else kind)
    return types


def _type_of(kind: TextKind) -> pa.DataType:
    """Return the type that a column of text has in SQL."""
    if kind.name == "integers":
        return LONG_INTEGER if kind.long else pa.int64()
    return pa.float64() if kind.name == "numbers" else pa.string()


def query(sql: str, missing: frozenset[str], files: Sequence[TableFile] = ()) -> Source:
    """Return the rows of a query as a source, which has no files."""
    answer = duckdb.Query(sql, _as_data(files, missing) if files else None)

    def units(columns: list[str]) -> Iterator[Unit]:
        yield Unit(0, 0, 1.0, lambda: (b.select(columns) for b in answer.batches()))

    return Source(answer.schema, units, is_repeatable=False)


def _as_data(tables: Sequence[TableFile], missing: frozenset[str]) -> Any:
    """Return files as a table for DuckDB."""
    paths = [str(table.path) for table in tables]
    if isinstance(tables[0], ParquetFile):
        return duckdb.parquet_scan(paths)
    if isinstance(tables[0], IpcFile):
        from pyarrow import dataset

        return dataset.dataset(paths, format="ipc")
    return _stream(tables, tables[0].schema.names, missing)


def _choice(
    tables: Sequence[TableFile],
    where: str | None,
    missing: frozenset[str],
    choose: RowChoice | None,
) -> RowChoice | None:
    """Return the choice of the rows that meet a condition in SQL, and are chosen."""
    if where is None:
        return choose
    columns = duckdb.mentioned_columns(where, tables[0].schema.names)
    number = "row number"
    while any(number in text.lower() for text in (where, *columns)):
        number += "_"
    stream = _stream(tables, columns, missing, number)
    meeting = duckdb.Condition(where, stream, number).rows().chosen
    if choose is None:
        return meeting
    return lambda file, start, rows: (
        meeting(file, start, rows) & choose(file, start, rows)
    )


def _stream(
    tables: Sequence[TableFile],
    columns: list[str],
    missing: frozenset[str],
    number: str | None = None,
) -> duckdb.Stream:
    """Return columns of files for DuckDB, and with a name also numbers of the rows.

    DuckDB gets the cells of CSV files from here. By itself it would guess other quotes
    and types than renyi does: yes and no as truths, codes such as 007 as numbers.
    """
    read = columns or tables[0].schema.names[:1]
    source = _rows(tables, read)
    schema = _promoted(tables, columns)
    types = dict(zip(schema.names, map(plain_type, schema.types), strict=True))
    if isinstance(tables[0], CsvFile):
        types = _whole_types(tables, columns, missing)
    schema = pa.schema([(name, types[name]) for name in columns])
    whole = schema if number is None else schema.append(pa.field(number, pa.int64()))

    def batches() -> Iterator[pa.RecordBatch]:
        for unit in source.units(read):
            start = unit.start or 0
            for batch in unit.read():
                cells = [_read_as(f, batch.column(f.name), missing) for f in schema]
                if number is not None:
                    rows = duckdb.row_numbers(unit.file, start, batch.num_rows)
                    cells.append(pa.array(rows))
                start += batch.num_rows
                yield pa.RecordBatch.from_arrays(cells, schema=whole)

    return duckdb.Stream(whole, batches)


def _read_as(field: pa.Field, column: pa.Array, missing: frozenset[str]) -> pa.Array:
    """Return cells as a type, what means missing as null."""
    coded = pa.types.is_dictionary(column.type)
    cells = column.dictionary if coded else column
    if column.type == csv.TEXT:
        cells = _cast_texts(field, without(cells, missing))
    cells = null_missing(cells, missing)
    if coded:
        cells = cells.take(column.indices)
    return cells if cells.type == field.type else cells.cast(field.type)


def _cast_texts(field: pa.Field, texts: pa.Array) -> pa.Array:
    """Return texts as a type; the first that is none of it is named."""
    if field.type in _TEXTS:
        return texts
    word = first_word(texts, not pa.types.is_floating(field.type))
    if word is not None:
        raise ValueError(
            f"Column {field.name!r} begins as numbers ({field.type}) but holds "
            f"{word!r:.60} later: correct the cell, or read the files in a query "
            "(--sql), by read_csv with the types you want."
        )
    return texts.cast(field.type)
