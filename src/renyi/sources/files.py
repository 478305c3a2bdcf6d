"""Tables in files: CSV (also tab-separated, also gzipped), Parquet and Arrow.

A table is read whole (`read_table`), batch by batch (`batches`), or counted as it is
read (`marginals`), in memory that does not grow with the number of rows. Several files
are one table cut into pieces: they have the same columns, perhaps in another order, and
a column has one type in all of them. A file that differs is named.

Every cell of a CSV file is read as text first; `renyi.encoding.arrow_cells` then makes
numbers of columns of numbers. A model is asked with files that were guessed
differently: `kinds` says what its columns are, so that a column of labels is compared
by its text as it stands in the file.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from renyi import __version__
from renyi.encoding.arrow_cells import TextKind, requested_floats, typed, without
from renyi.encoding.column_rules import MISSING_CODES, missing_texts
from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.progress import ProgressCallback
from renyi.sources import csv, duckdb
from renyi.sources.columnar import IpcFile, ParquetFile
from renyi.sources.csv import CsvFile
from renyi.streaming.checkpoint import Checkpoint
from renyi.streaming.run import FileError, Job, Source, Unit
from renyi.streaming.spec import ColumnSpec, CountSpec, family, fitted_text
from renyi.warnings import DataWarning as DataWarning

_FIRST = 2**16  # rows that are looked at first

TableFile = CsvFile | ParquetFile | IpcFile
AnyPath = str | os.PathLike[str] | TableFile
Paths = AnyPath | Iterable[AnyPath]

_FORMATS: tuple[type[TableFile], ...] = (CsvFile, ParquetFile, IpcFile)


# ---- from what the user names to files


def existing(path: str | os.PathLike[str], others: Iterable[str] = ()) -> Path:
    """Return the path of a file, or say what is there instead.

    `others` are names that would have been understood too, to suggest one of them.
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


def opened(path: AnyPath) -> TableFile:
    """Return a file whose header has been read and checked."""
    if isinstance(path, TableFile):
        return path
    place = existing(path)
    table = _format(place)(place)
    first: dict[str, int] = {}
    for k, name in enumerate(table.schema.names, 1):
        if name in first:
            raise ValueError(
                f"{place} has two columns named {name!r} (numbers {first[name]} and "
                f"{k}): rename one of them."
            )
        first[name] = k
    return table


def _format(path: Path) -> type[TableFile]:
    """Return what reads a file, by the ending of its name."""
    name = path.name.lower()
    for kind in _FORMATS:
        if name.endswith(kind.ENDINGS):
            if not path.stat().st_size:
                raise ValueError(f"{path} is empty: take a copy that holds a table.")
            return kind
    ending = path.suffix or "no ending"
    raise ValueError(
        f"{path} has {ending!r} for an ending: renyi reads .csv, .tsv and .txt "
        "(also .gz), .parquet and .arrow; save the table as one of these."
    )


def _listed(paths: Paths) -> list[AnyPath]:
    if isinstance(paths, (str, os.PathLike, TableFile)):
        return [paths]
    return list(paths)


def matching(paths: Paths) -> list[Path]:
    """Return the files that a path, a pattern, a folder or a list of these stands for.

    >>> import renyi
    >>> pattern = renyi.datasets.path("votes").with_name("vot*.csv")
    >>> [path.name for path in matching(pattern)]
    ['votes.csv']
    """
    found = [path for each in _listed(paths) for path in _matching(each)]
    if not found:
        raise ValueError("No file is named: give at least one.")
    known: dict[Path, Path] = {}
    for path in found:
        place = path.resolve()
        if place in known:
            first = known[place]
            twice = "named twice" if first == path else f"the same file as {first}"
            raise ValueError(f"{path} is {twice}: its rows would count twice.")
        known[place] = path
    return found


def _matching(path: AnyPath) -> list[Path]:
    if isinstance(path, TableFile):
        return [path.path]
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
    return path.is_file() and not hidden and name.endswith(ParquetFile.ENDINGS)


def open_tables(paths: Paths) -> list[TableFile]:
    """Return all files of a table, all of one format; files that are open stay so."""
    given = _listed(paths)
    known = {each.path: each for each in given if isinstance(each, TableFile)}
    tables = [known.get(path) or opened(path) for path in matching(given)]
    for table in tables:
        if type(table) is not type(tables[0]):
            raise ValueError(
                f"{table.path} is of another format than {tables[0].path}: count the "
                "files of each format for themselves, and add the marginals."
            )
    return tables


def require(path: Any, names: Collection[str], wanted: Iterable[str]) -> None:
    """Raise an error that names a column which a file lacks."""
    known = set(names)
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, names, n=1, cutoff=0.65)
            columns = ", ".join(repr(n[:60]) for n in list(names)[:5])
            more = ", …" if len(names) > 5 else ""
            hint = f"did you mean {close[0]!r}?" if close else f"it has {columns}{more}"
            raise ValueError(f"{path} has no column {name!r}: {hint}")


def column_names(path: AnyPath) -> list[str]:
    """Return the names of a file's columns, checked."""
    names: list[str] = opened(path).schema.names
    return names


# ---- rows in memory, whole or batch by batch


def read_table(
    path: AnyPath,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING_CODES,
    kinds: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read a file into memory."""
    table = opened(path)
    names = table.schema.names
    wanted = names if columns is None else list(columns)
    require(table.path, names, wanted)
    found: pa.Table = table.read_whole(wanted)
    if not found.num_rows:
        raise ValueError(_no_rows(table.path, isinstance(table, CsvFile)))
    if not isinstance(table, CsvFile):
        return found
    return _typed(found, missing_texts(missing), kinds or {})


def _typed(
    table: pa.Table, missing: frozenset[str], kinds: Mapping[str, str]
) -> pa.Table:
    """Return text as what it is."""
    made = [
        typed(name, column, missing, kinds.get(name))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(made, names=table.column_names)


def batches(
    path: Paths | None,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING_CODES,
    kinds: Mapping[str, str] | None = None,
    where: str | None = None,
    sql: str | None = None,
) -> Iterator[pa.Table]:
    """Read files batch by batch, in the order of their rows.

    The parameters are those of `read_table` and of `Marginals.from_file`. A column of a
    CSV file that is not among `kinds` may be of numbers in one batch and of text in
    another, as its cells are.
    """
    kinds, texts = kinds or {}, missing_texts(missing)
    verbatim = [name for name, kind in kinds.items() if kind == "verbatim"]
    tables = [] if path is None else open_tables(path)
    condition = _condition(tables, where, sql, texts)
    source = _source(tables, columns, texts, condition, sql, verbatim)
    wanted = list(source.schema.names if columns is None else columns)
    for unit in source.units(wanted):
        for batch in unit.read():
            if batch.num_rows and sql is None and isinstance(tables[0], CsvFile):
                yield _typed(_table(batch), texts, kinds)
            elif batch.num_rows:
                yield pa.Table.from_batches([batch])


def _table(batch: pa.RecordBatch) -> pa.Table:
    """Return cells of a CSV file as plain text."""
    schema = pa.schema([(name, pa.string()) for name in batch.schema.names])
    return pa.Table.from_batches([batch]).cast(schema)


def first_rows(
    path: AnyPath, columns: list[str], missing: Iterable[Label]
) -> tuple[pa.Table, bool]:
    """Return some columns of the first rows of a file, and whether they are all."""
    table, texts = opened(path), missing_texts(missing)
    if isinstance(table, CsvFile):
        batch, whole = table.sample(columns), table.sampled_whole
        found = None if batch is None else _typed(_table(batch), texts, {})
    else:
        found = next(batches(table, columns), None)
        whole = found is not None and found.num_rows <= _FIRST
    empty = pa.table({name: [] for name in columns})
    return empty if found is None else found[:_FIRST], whole


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
    checkpoint: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    interval: float = 3.0,
) -> Marginals:
    """Count the pairs of the columns of files, in bounded memory.

    The result is that of `Marginals.from_data` with all rows in memory.

    Parameters
    ----------
    path : path, sequence of paths, or None
        A file, a pattern (``*``, ``?``, ``**``), a folder of Parquet files, or several
        of these. Their columns may come in different orders. None with `sql` only.
    target : str
        The column to predict.
    encoder : Encoder, optional
        How cells become categories. A fitted one gives the bins to use.
    class_conditional : bool, default=False
        Count the pairs of features within each class too.
    columns : sequence of str, optional
        The columns to count, beside the target; all by default.
    where : str, optional
        A condition in SQL, such as ``"year = 2024"``: other rows are not counted. Needs
        the extra ``duckdb``.
    sql : str, optional
        A query for DuckDB whose rows are counted. It may name files itself; those given
        as `path` are its table ``data``. Where numbers need bins it is asked twice, and
        must give the same rows.
    weight : str, optional
        The column that holds the weights of the rows.
    checkpoint : path, optional
        A file in which to keep, every few seconds, what has been counted. The same call
        goes on from there after a kill. It is deleted when all is done.
    progress : callable, optional
        Called with a `renyi.progress.Progress` after every piece; `print` will do.
    kinds : mapping of name to {"label", "number"}, optional
        What some columns are, whatever they look like.
    interval : float, default=3
        Seconds between two writings of the checkpoint, at least.
    """
    encoder = encoder or Encoder()
    wanted = _wanted(target, encoder, columns, weight)
    missing = missing_texts(encoder.missing)
    tables = [] if path is None else open_tables(path)
    condition = _condition(tables, where, sql, missing)
    source = _source(tables, wanted, missing, condition, sql)
    if wanted is None:
        name = source.paths[0] if source.paths else "The query"
        require(name, source.schema.names, _needed(target, weight))
        wanted = source.schema.names
    source = _with_floats(source, kinds or {})
    schema = pa.schema([source.schema.field(name) for name in wanted])
    requested = {**(kinds or {}), **column_kinds(encoder)}
    texts = set[str]()
    if source.paths:
        texts = _texts(tables[0], schema.names, missing, condition, requested)
    spec = CountSpec.of(
        schema, target, encoder, class_conditional, weight, texts - {weight}
    )
    spec = spec.decided(_requested_columns(spec, requested))
    kept = None
    if checkpoint is not None:
        kept = _checkpoint(checkpoint, source, spec, where, interval)
    with nullcontext() if kept is None else kept.held():
        counter = Job(source, spec, kept, progress).count()
        if not counter.seen:
            raise ValueError(_nothing(source, where))
        m: Marginals = counter.finish()
        if kept is not None:
            kept.remove()
        return m


def _needed(target: str, weight: str | None) -> list[str]:
    return [target] if weight is None else [target, weight]


def _wanted(
    target: str, encoder: Encoder, columns: Sequence[str] | None, weight: str | None
) -> list[str] | None:
    """Return the columns to read; None means all."""
    if encoder.columns:
        columns = encoder.feature_names
    if columns is None:
        return None
    return list(dict.fromkeys([*columns, *_needed(target, weight)]))


def _texts(
    table: TableFile,
    columns: list[str],
    missing: frozenset[str],
    condition: duckdb.Condition | None,
    kinds: Mapping[str, str],
) -> set[str]:
    """Return the columns of CSV files whose text may turn out to be numbers."""
    found = text_kinds(table, columns, missing, condition)
    texts = {name for name, kind in found.items() if kind.undecided}
    known = {name for name, kind in kinds.items() if kind in ("number", "figure")}
    texts |= known & {*found}
    return texts - {name for name, kind in kinds.items() if kind == "label"}


def _requested_columns(
    spec: CountSpec, kinds: Mapping[str, str]
) -> dict[str, ColumnSpec]:
    """Return the specs of the columns that the user said the kinds of."""
    found = {}
    for name, kind in kinds.items():
        if name in spec.names and spec.column(name).levels is None:
            column = spec.column(name)
            text = "numbers" if column.text and kind == "number" else ""
            kind = "number" if kind == "number" else "label"
            found[name] = column._replace(kind=kind, text=text)
    return found


def _with_floats(source: Source, kinds: Mapping[str, str]) -> Source:
    """Return a source whose columns said to be numbers are floats, but for text."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for field in source.schema:
        name, text = field.name, field.type == csv.TEXT
        if kinds.get(name) == "number" and not text and field.type != pa.float64():
            readers[name] = partial(requested_floats, name)
    if not readers:
        return source

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        for k, name in enumerate(batch.schema.names):
            if name in readers:
                batch = batch.set_column(k, name, readers[name](batch.column(k)))
        return batch

    fields = [
        (f.name, pa.float64() if f.name in readers else f.type) for f in source.schema
    ]
    return source.mapped(change, pa.schema(fields))


def _checkpoint(
    path: str | os.PathLike[str],
    source: Source,
    spec: CountSpec,
    where: str | None,
    interval: float,
) -> Checkpoint:
    if not source.paths:
        raise ValueError("A query cannot be resumed: leave out the checkpoint.")
    request = {
        "target": spec.target,
        "where": where,
        **spec.to_dict(),
        "version": __version__,
        "piece": csv.PIECE,
    }
    return Checkpoint(path, request, source.paths, interval)


def _nothing(source: Source, where: str | None) -> str:
    if not source.paths:
        return "The query returns no rows."
    names = ", ".join(map(str, source.paths[:3])) + ", …" * (len(source.paths) > 3)
    if where is not None:
        return f"No row of {names} meets the condition {where!r}."
    return _no_rows(names, source.schema.types[0] == csv.TEXT)


def _no_rows(name: Any, header: bool) -> str:
    return f"{name} has {'a header but ' * header}no rows."


# ---- sources of rows


def _source(
    tables: Sequence[TableFile],
    columns: Sequence[str] | None,
    missing: frozenset[str],
    condition: duckdb.Condition | None = None,
    sql: str | None = None,
    verbatim: Sequence[str] = (),
) -> Source:
    """Return what the rows are read from: files, some of their rows, or a query."""
    if sql is not None:
        source = query(sql, missing, tables)
        require("The query", source.schema.names, columns or ())
        return source
    if not tables:
        raise ValueError("Give the files to read, or a query (sql).")
    if condition is None:
        return gathered(tables, columns, verbatim)
    if columns is not None:
        columns = list(dict.fromkeys([*columns, *condition.columns]))
    source = gathered(tables, columns, verbatim)
    return source.mapped(condition.kept, needed=condition.columns)


def gathered(
    tables: Sequence[TableFile],
    columns: Sequence[str] | None = None,
    verbatim: Collection[str] = (),
) -> Source:
    """Return files as one source, whose columns agree.

    `columns` are those that are needed, in this order, all by default; the cells of
    `verbatim` columns of CSV files keep the spaces around them.
    """
    first, names = tables[0].path, tables[0].schema.names
    wanted = names if columns is None else list(columns)
    for table in tables:
        require(table.path, table.schema.names, wanted)
        if columns is None:
            require(first, names, table.schema.names)

    def units(columns: list[str]) -> Iterator[Unit]:
        for file, table in enumerate(tables):
            how = (verbatim,) if isinstance(table, CsvFile) else ()
            try:
                yield from table.units(file, columns, *how)
            except ValueError as error:
                raise FileError(file, str(error)) from None

    paths = tuple(table.path for table in tables)
    return Source(_one_schema(tables, wanted), units, paths)


def _one_schema(tables: Sequence[TableFile], columns: list[str]) -> pa.Schema:
    """Return the types that the columns have in all files.

    A column without any value has no type of its own in some files.
    """
    types: dict[str, tuple[pa.DataType, Path]] = {}
    for table in tables:
        for name in columns:
            kind = table.schema.field(name).type
            known, where = types.setdefault(name, (kind, table.path))
            if pa.types.is_null(known):
                types[name] = (kind, table.path)
            elif not pa.types.is_null(kind) and family(name, kind) != family(
                name, known
            ):
                raise ValueError(
                    f"{table.path} has the column {name!r} as {kind}, but {where} as "
                    f"{known}: give it one type in all files."
                )
    return pa.schema([(name, types[name][0]) for name in columns])


def text_kinds(
    table: TableFile,
    columns: list[str],
    missing: frozenset[str],
    condition: duckdb.Condition | None = None,
) -> dict[str, TextKind]:
    """Return what the first records of a CSV file hold; nothing for other formats.

    With a condition, only rows that it keeps are looked at, as in any later pass.
    """
    if not columns or not isinstance(table, CsvFile):
        return {}
    kinds = {name: TextKind() for name in columns}
    needed = columns if condition is None else [*columns, *condition.columns]
    batch = table.sample(list(dict.fromkeys(needed)))
    if batch is not None:
        batch = batch if condition is None else condition.kept(batch)
        for name in columns:
            kinds[name].look_at(batch.column(name), missing)
    return kinds


def _first_types(
    table: TableFile, columns: list[str], missing: frozenset[str], types: dict[str, Any]
) -> dict[str, Any]:
    """Return the types of those columns of a CSV file that begin as numbers."""
    found = text_kinds(table, columns, missing).items()
    return {name: types[kind.name] for name, kind in found if kind.name != "words"}


def _condition(
    tables: Sequence[TableFile],
    where: str | None,
    sql: str | None,
    missing: frozenset[str],
) -> duckdb.Condition | None:
    """Return a condition in SQL on the rows of files, if there is one."""
    if where is None:
        return None
    if sql is not None:
        raise ValueError("Give a condition (where) or a query (sql), not both.")
    if not tables:
        raise ValueError("Give the files to read, or a query (sql).")
    schema = tables[0].schema
    spoken_of = duckdb.mentioned_columns(where, schema.names)
    names = {"integers": "BIGINT", "numbers": "DOUBLE"}
    types = _first_types(tables[0], spoken_of, missing, names)
    return duckdb.Condition(where, schema, types)


def query(sql: str, missing: frozenset[str], files: Sequence[TableFile] = ()) -> Source:
    """Return the rows of a query as a source; it has no files of its own."""
    found = duckdb.Query(sql, _as_data(files, missing) if files else None)

    def units(columns: list[str]) -> Iterator[Unit]:
        def read() -> Iterator[pa.RecordBatch]:
            for batch in found.batches():
                yield batch.select(columns)

        yield Unit(0, 0, 1.0, read)

    return Source(found.schema, units, fixed=False)


def _as_data(tables: Sequence[TableFile], missing: frozenset[str]) -> Any:
    """Return files as a table for DuckDB."""
    paths = [table.path for table in tables]
    if isinstance(tables[0], ParquetFile):
        return duckdb.scan("read_parquet", paths)
    if isinstance(tables[0], CsvFile):
        return _typed_rows(tables, missing)
    from pyarrow import dataset

    return dataset.dataset([str(path) for path in paths], format="ipc")


def _typed_rows(tables: Sequence[TableFile], missing: frozenset[str]) -> duckdb.Stream:
    """Return the rows of CSV files, with the types that their columns begin with.

    DuckDB is given cells that were read here: it would guess other quotes and types of
    a CSV file than renyi does, yes and no as truths, codes such as 007 as numbers.
    """
    source = gathered(tables)
    names = source.schema.names
    types = {"integers": pa.int64(), "numbers": pa.float64()}
    kinds = _first_types(tables[0], names, missing, types)
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])

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


# ---- for models that read files


def column_kinds(encoder: Encoder) -> dict[str, str]:
    """Return how `read_table` should take the columns of a fitted encoder."""
    kinds = {"numbers": "number", "words": "label", "figures": "figure"}
    return {each.name: kinds[fitted_text(each.levels)] for each in encoder.columns}
