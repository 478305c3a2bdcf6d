"""Tables in files: CSV (also tab-separated, also gzipped), Parquet and Arrow.

A table is read whole (`read_table`), batch by batch (`batches`), or counted as it is
read (`marginals`), in memory that does not grow with the number of rows.

Every cell of a CSV file is read as text first; `renyi.encoding.text_cells` then makes
numbers of columns of numbers. A model is asked with files that were guessed
differently: `kinds` says what its columns are, so that a column of labels is compared
by its text as it stands in the file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from renyi import __version__
from renyi.encoding.column_rules import missing_texts
from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.encoding.text_cells import as_floats, typed
from renyi.marginals.marginals import Marginals
from renyi.sources import csv as csvfiles
from renyi.sources import inputs
from renyi.sources.formats import column_names as column_names
from renyi.sources.formats import existing as existing
from renyi.sources.formats import reader_of
from renyi.sources.formats import require as require
from renyi.streaming.checkpoint import Checkpoint
from renyi.streaming.passes import Passes, Progress
from renyi.streaming.run import Source, Unit
from renyi.streaming.spec import ColumnSpec, CountSpec, fitted_text
from renyi.warnings import DataWarning as DataWarning

MISSING: tuple[Label, ...] = ("?", "")


def read_table(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING,
    kinds: Mapping[str, str] | None = None,
) -> pa.Table:
    """Read a file into memory.

    Parameters
    ----------
    path : path
        A file that ends in .csv, .tsv, .txt (each also with .gz), .parquet or .arrow.
    columns : sequence of str, optional
        The columns to read, in this order; all by default.
    missing : iterable of labels
        Cells that mean "missing"; they do not keep a column from being numeric.
    kinds : mapping of name to {"label", "number", "figure", "verbatim"}, optional
        What some columns of a CSV file are, whatever their cells look like: labels,
        numbers, labels that are numbers ("1.0" is then "1"), or text that is copied
        with its spaces.

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
    reader = reader_of(place)
    table: pa.Table = reader.read_whole(place, wanted)
    if reader is not csvfiles:
        return table
    if not table.num_rows:
        raise ValueError(f"{place} has a header but no rows: there is nothing to read.")
    return _typed(table, missing, kinds or {})


def _typed(
    table: pa.Table, missing: Iterable[Label], kinds: Mapping[str, str]
) -> pa.Table:
    """Return text as what it is."""
    texts = missing_texts(missing)
    made = [
        typed(name, column, texts, kinds.get(name))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.table(made, names=table.column_names)


def batches(
    path: inputs.Paths | None,
    columns: Sequence[str] | None = None,
    *,
    missing: Iterable[Label] = MISSING,
    kinds: Mapping[str, str] | None = None,
    where: str | None = None,
    sql: str | None = None,
) -> Iterator[pa.Table]:
    """Read files batch by batch, in the order of their rows.

    The parameters are those of `read_table` and of `Marginals.from_file`. A column of a
    CSV file that is not among `kinds` may be of numbers in one batch and of text in
    another, as its cells are.

    >>> import renyi
    >>> votes = renyi.datasets.path("votes")
    >>> [batch.num_rows for batch in batches(votes, ["party"], where="crime = 'y'")]
    [248]
    """
    kinds, missing = kinds or {}, list(missing)
    verbatim = [name for name, kind in kinds.items() if kind == "verbatim"]
    texts = missing_texts(missing)
    source = _source(path, columns, texts, where, sql, verbatim)
    wanted = list(source.schema.names if columns is None else columns)
    csv = bool(source.paths) and reader_of(source.paths[0]) is csvfiles
    for unit in source.units(wanted):
        for batch in unit.read():
            if batch.num_rows:
                table = pa.Table.from_batches([batch])
                yield _typed(_decoded(table), missing, kinds) if csv else table


def _decoded(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))


def marginals(
    path: inputs.Paths | None,
    target: str,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    sql: str | None = None,
    weight: str | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
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
        Called with a `renyi.streaming.run.Pace` after every piece; `print` will do.
    kinds : mapping of name to {"label", "number"}, optional
        What some columns are, whatever they look like.
    interval : float, default=3
        Seconds between two writings of the checkpoint, at least.

    Examples
    --------
    >>> import renyi
    >>> votes = renyi.datasets.path("votes")
    >>> marginals(votes, "party").n
    435
    >>> marginals(votes, "party", where="crime = 'y'", columns=["immigration"]).n
    248
    """
    encoder = encoder or Encoder()
    wanted = _wanted(target, encoder, columns, weight)
    missing = missing_texts(encoder.missing)
    source = _source(path, wanted, missing, where, sql)
    if wanted is None:
        require(_named(source), source.schema.names, _needed(target, weight))
        wanted = source.schema.names
    source = _with_floats(source, kinds or {})
    schema = pa.schema([source.schema.field(name) for name in wanted])
    asked = {**(kinds or {}), **column_kinds(encoder)}
    texts = _texts(source, schema, missing, where, asked) - {weight}
    spec = CountSpec.of(schema, target, encoder, class_conditional, weight, texts)
    spec = spec.decided(_asked_columns(spec, asked))
    kept = None
    if checkpoint is not None:
        kept = _checkpoint(checkpoint, source, spec, where, interval)
    passes = Passes(source, spec, kept, progress)
    return _finished(passes, where)


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


def _source(
    path: inputs.Paths | None,
    columns: Sequence[str] | None,
    missing: frozenset[str],
    where: str | None,
    sql: str | None,
    verbatim: Sequence[str] = (),
) -> Source:
    """Return what the rows are read from: files, some of their rows, or a query."""
    if sql is not None:
        if where is not None:
            raise ValueError("Give a condition (where) or a query (sql), not both.")
        paths = [] if path is None else inputs.matching(path)
        source = inputs.answered(sql, missing, paths)
        require("The query", source.schema.names, columns or ())
        return source
    if path is None:
        raise ValueError("Give the files to read, or a query (sql).")
    paths = inputs.matching(path)
    if where is None:
        return inputs.gathered(paths, columns, verbatim)
    condition = inputs.condition_on(paths[0], where, missing)
    if columns is not None:
        columns = list(dict.fromkeys([*columns, *condition.columns]))
    return inputs.kept(inputs.gathered(paths, columns, verbatim), condition)


def _named(source: Source) -> str:
    return str(source.paths[0]) if source.paths else "The query"


def _texts(
    source: Source,
    schema: pa.Schema,
    missing: frozenset[str],
    where: str | None,
    kinds: Mapping[str, str],
) -> set[str]:
    """Return the columns of CSV files whose text may turn out to be numbers."""
    if not source.paths:
        return set()
    first, condition = source.paths[0], None
    if where is not None and reader_of(first) is csvfiles:
        condition = inputs.condition_on(first, where, missing)
    found = inputs.text_kinds(first, list(schema.names), missing, condition)
    texts = {name for name, kind in found.items() if kind.undecided}
    known = {name for name, kind in kinds.items() if kind in ("number", "figure")}
    texts |= known & {*found}
    return texts - {name for name, kind in kinds.items() if kind == "label"}


def _asked_columns(spec: CountSpec, kinds: Mapping[str, str]) -> dict[str, ColumnSpec]:
    """Return the columns of the columns that the user said the kinds of."""
    return {
        name: _asked(spec.column(name), kind)
        for name, kind in kinds.items()
        if name in spec.names and spec.column(name).levels is None
    }


def _asked(role: ColumnSpec, kind: str) -> ColumnSpec:
    """Return the role of a column that the user said the kind of."""
    if kind != "number":
        return role._replace(kind="label", text="")
    return role._replace(kind="number", text="numbers" if role.text else "")


def _with_floats(source: Source, kinds: Mapping[str, str]) -> Source:
    """Return a source whose columns said to be numbers are floats, but for text."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for field in source.schema:
        name, text = field.name, field.type == csvfiles.TEXT
        if kinds.get(name) == "number" and not text and field.type != pa.float64():
            readers[name] = partial(as_floats, name)
    if not readers:
        return source

    def read(unit: Unit) -> Iterator[pa.RecordBatch]:
        for batch in unit.read():
            for k, name in enumerate(batch.schema.names):
                if name in readers:
                    floats = readers[name](batch.column(k))
                    batch = batch.set_column(k, name, floats)
            yield batch

    def units(columns: list[str]) -> Iterator[Unit]:
        for unit in source.units(columns):
            yield unit._replace(read=partial(read, unit))

    fields = [
        (f.name, pa.float64() if f.name in readers else f.type) for f in source.schema
    ]
    return dataclasses.replace(source, schema=pa.schema(fields), units=units)


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
        "piece": csvfiles.PIECE,
    }
    return Checkpoint(path, request, source.paths, interval)


def _finished(passes: Passes, where: str | None) -> Marginals:
    """Count, and remove the checkpoint when all is done."""
    with passes.held():
        tally = passes.tally()
        if not tally.seen:
            raise ValueError(_nothing(passes.source, where))
        m: Marginals = tally.finish()
        if passes.checkpoint is not None:
            passes.checkpoint.remove()
        return m


def _nothing(source: Source, where: str | None) -> str:
    if not source.paths:
        return "The query returns no rows: there is nothing to count."
    names = ", ".join(map(str, source.paths[:3])) + ", …" * (len(source.paths) > 3)
    if where is not None:
        return f"No row of {names} fulfils {where!r}: there is nothing to count."
    header = "a header but " * (reader_of(source.paths[0]) is csvfiles)
    return f"{names} has {header}no rows: there is nothing to read."


def column_kinds(encoder: Encoder) -> dict[str, str]:
    """Return how `read_table` should take the columns of a fitted encoder.

    >>> table = pa.table({"a": ["x", "y"], "b": [0.5, 1.5], "c": [1, 2]})
    >>> column_kinds(Encoder().fit(table))
    {'a': 'label', 'b': 'number', 'c': 'figure'}
    """
    kinds = {"numbers": "number", "words": "label", "figures": "figure"}
    return {each.name: kinds[fitted_text(each.levels)] for each in encoder.columns}
