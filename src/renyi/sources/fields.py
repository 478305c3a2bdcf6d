"""Fields: the columns of a table in a database, as they are counted there.

A column is asked for its values and their counts. What `Encoder.fit` would make of the
rows is read off these, since a count weighs as much as repetition does: which columns
are numbers, their bins, the labels and which of them are rare. From then on labels are
grouped by as they are, and numbers by the bin that a CASE expression finds.

The values of a number must be those that the expression compares: a decimal, or a float
of single precision, is asked for once more as the engine makes a double of it.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.columns import Levels
from renyi.encoding import Encoder
from renyi.factoring import label_text
from renyi.sources.databases import Database, Row
from renyi.sources.dialects import Dialect, binned
from renyi.sources.rows import take_rows

MOST_NUMBERS = 2**20
MOST_LABELS = 20_000

_PLAIN = (str, bool, int, float, bytes, datetime.date, datetime.time)
_STRAY = -1  # the bin of a text among numbers


class Counted(NamedTuple):
    """The rows that are counted: of which table, and where.

    Parameters
    ----------
    dialect : Dialect
        The dialect of the engine.
    table : str
        The table, quoted.
    conditions : tuple of str
        What holds for the rows.
    weight : str or None
        The column of weights, quoted.

    Examples
    --------
    >>> from renyi.sources.dialects import DIALECTS
    >>> rows = Counted(DIALECTS["sqlite"], '"t"', ("x > 1",))
    >>> print(rows.by({"a": '"a"', "b": '"b"'}))
    SELECT "a", "b", COUNT(*)
    FROM (SELECT "a", "b" FROM "t" WHERE x > 1) AS "counted"
    GROUP BY "a", "b"
    """

    dialect: Dialect
    table: str
    conditions: tuple[str, ...] = ()
    weight: str | None = None

    def source(self) -> str:
        """Return the table and its conditions."""
        held = " AND ".join(self.conditions)
        return self.table + (f" WHERE {held}" if held else "")

    def by(
        self,
        expressions: Mapping[str, str],
        sets: Sequence[Sequence[str]] = (),
        rows: bool = False,
    ) -> str:
        """Return the statement that counts by some columns, or by sets of them.

        `expressions` say what each column is; with `rows`, rows are counted before
        their weights are added up.
        """
        quoted = {name: self.dialect.identifier(name) for name in expressions}
        inner = [
            made if made == quoted[name] else f"{made} AS {quoted[name]}"
            for name, made in expressions.items()
        ]
        masses = ["COUNT(*)"] if rows or self.weight is None else []
        if self.weight is not None:
            inner.append(self.weight)
            masses.append(f"SUM({self.dialect.as_double(self.weight)})")
        names = ", ".join(quoted.values())
        chosen, groups = [names], names
        if sets:
            listed = (", ".join(quoted[name] for name in each) for each in sets)
            groups = f"GROUPING SETS ({', '.join(f'({each})' for each in listed)})"
            chosen = [f"GROUPING({names})", names]
        return (
            f"SELECT {', '.join([*chosen, *masses])}\n"
            f'FROM (SELECT {", ".join(inner)} FROM {self.source()}) AS "counted"\n'
            f"GROUP BY {groups}"
        )


class Field(NamedTuple):
    """A column as it is counted.

    `expression` is what SQL groups by, `codes` the code of each answer, `counts` the
    rows (or weight) of each category.
    """

    name: str
    expression: str
    levels: Levels
    codes: Mapping[Any, int]
    counts: NDArray[Any]


class Values(NamedTuple):
    """The different values of a column, the rows of each and their weight."""

    cells: list[Any]
    rows: NDArray[np.int64]
    mass: NDArray[Any]

    @classmethod
    def of(cls, answer: Sequence[Row], name: str) -> Values:
        """Values of the answer to a statement made by `Counted.by`."""
        # Of a number and a text that are one label, the number gives the name.
        answer = sorted(answer, key=lambda row: isinstance(row[0], str))
        cells = [cell_of(row[0], name) for row in answer]
        rows = np.array([int(row[1]) for row in answer], np.int64)
        if answer and len(answer[0]) > 2:
            return cls(cells, rows, np.array([float(row[2]) for row in answer]))
        return cls(cells, rows, rows)


def cell_of(value: Any, name: str) -> Any:
    """Return a value of a driver as encoders take it; NaN is a missing value.

    A decimal without a fraction is an integer, as sums of integers are.

    >>> cell_of(decimal.Decimal("2.50"), "price"), cell_of(memoryview(b"a"), "code")
    (2.5, b'a')
    """
    if isinstance(value, (memoryview, bytearray)):
        value = bytes(value)
    elif isinstance(value, decimal.Decimal):
        value = int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, (list, dict, set, tuple)):
        raise TypeError(
            f"Column {name!r} holds nested values ({value!r:.60}): give it one value "
            "a row, for example in a view."
        )
    if value is None or value != value:
        return None
    return value if isinstance(value, _PLAIN) else str(value)


def key_of(cell: Any) -> tuple[type, Any]:
    """Return what tells cells apart: True is not 1, which hashing takes for one.

    SQLite takes 1 and 1.0 for one, and answers now with this, now with that.

    >>> key_of(1) == key_of(1.0), key_of(1) == key_of(True)
    (True, False)
    """
    return (float if type(cell) is int else type(cell)), cell


def labels_of(database: Database, rows: Counted, name: str, encoder: Encoder) -> Field:
    """Return a column whose values are all labels, as the target's are."""
    column = database.grouped(name)
    sql = rows.by({name: column}, rows=True)
    values = Values.of(database.ask(sql, f"the values of {name!r}"), name)
    levels, codes = _learned(name, values, encoder)
    return _label_field(name, column, values, levels, codes)


def field_of(database: Database, rows: Counted, name: str, encoder: Encoder) -> Field:
    """Return a column as the encoder takes it; a fitted one has decided already."""
    known = {column.name: column.levels for column in encoder.columns}.get(name)
    settings = _settings(encoder, name)
    if known is not None and known.kind == "number":
        return _fitted_number(database, rows, name, encoder, known)
    column = database.grouped(name)
    sql = rows.by({name: column}, rows=True)
    answer = database.ask(sql, f"the values of {name!r}")
    values = Values.of(answer, name)
    real = name in database.reals
    levels, codes = _learned(name, values, settings, real)
    if levels.kind == "label":
        return _label_field(name, column, values, levels, codes)
    texts = any(isinstance(cell, str) for cell in values.cells)
    if texts:
        _check_texts(database, rows, name, values, encoder)
    elif _inexact(rows.dialect, answer):
        again = rows.by({name: rows.dialect.as_double(column)}, rows=True)
        values = Values.of(database.ask(again, f"the numbers of {name!r}"), name)
        levels, codes = _learned(name, values, settings, real)
    counts = _added(codes, values.mass, levels)
    return _number_field(rows, name, encoder, levels, counts, texts)


def _settings(encoder: Encoder, name: str) -> Encoder:
    """Return the encoder of one column."""
    if encoder.columns:
        return encoder.select([name])
    if isinstance(encoder.numeric, str):
        return encoder
    numeric = (name,) if name in encoder.numeric else ()
    return dataclasses.replace(encoder, numeric=numeric)


def _learned(
    name: str, values: Values, settings: Encoder, real: bool = False
) -> tuple[Levels, NDArray[Any]]:
    """Return what the encoder makes of a column, and the code of each value."""
    column = _as_column(name, values.cells, real)
    mass = values.mass.astype(np.float64)
    fitted, codes = settings.fit_transform(column, mass, refuse_identifiers=False)
    levels = fitted.columns[0].levels
    if levels.kind == "label" and len(values.cells) > MOST_LABELS:
        raise ValueError(
            f"Column {name!r} has {len(values.cells):,} different labels, more than "
            f"{MOST_LABELS:,}: leave it out with `columns`, or make fewer of them in "
            "a view."
        )
    n = int(values.rows.sum())
    if not settings.columns and 2 * len(values.cells) > n:
        # Few rows a value: let the encoder look at them as rows, and refuse a column
        # that identifies them.
        repeated = np.repeat(np.arange(len(values.cells)), values.rows)
        each = np.repeat(mass / values.rows, values.rows)
        settings.fit(take_rows(column, repeated), each)
    return levels, codes[0]


def _as_column(name: str, cells: list[Any], real: bool) -> Any:
    """Return a table of one column, typed if all its cells are of one type."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) < 2:
        # Of a column without a value, the engine alone knows the type.
        kind = pa.float64() if real and not kinds else None
        try:
            return pa.table({name: pa.array(cells, kind)})
        except (pa.ArrowException, OverflowError):
            pass  # integers of more than 64 bits
    return pd.DataFrame({name: pd.Series(cells, dtype=object)})


def _label_field(
    name: str, column: str, values: Values, levels: Levels, codes: NDArray[Any]
) -> Field:
    counts = _added(codes, values.mass, levels)
    keys = map(key_of, values.cells)
    return Field(
        name, column, levels, dict(zip(keys, codes.tolist(), strict=True)), counts
    )


def _added(codes: NDArray[Any], mass: NDArray[Any], levels: Levels) -> NDArray[Any]:
    counts = np.zeros(len(levels.categories), mass.dtype)
    np.add.at(counts, codes, mass)
    return counts


# ---- numbers


def _number_field(
    rows: Counted,
    name: str,
    encoder: Encoder,
    levels: Levels,
    counts: NDArray[Any],
    texts: bool,
) -> Field:
    made = _bin_expression(rows, name, encoder, levels.edges, texts)
    codes = {key_of(k): k for k in range(len(levels.categories))}
    return Field(name, made, levels, codes, counts)


def _bin_expression(
    rows: Counted,
    name: str,
    encoder: Encoder,
    edges: Sequence[float],
    texts: bool,
    stray: str | None = None,
) -> str:
    column = rows.dialect.identifier(name)
    missing = [label_text(code) for code in encoder.missing]
    answers = [str(k) for k in range(len(edges) + 2)]
    return binned(rows.dialect, column, edges, missing, answers, stray, texts)


def _fitted_number(
    database: Database, rows: Counted, name: str, encoder: Encoder, known: Levels
) -> Field:
    """Return a number whose bins are known: only their counts are asked for."""
    texts = name not in database.reals
    made = _bin_expression(rows, name, encoder, known.edges, texts, str(_STRAY))
    sql = rows.by({name: made}, rows=True)
    values = Values.of(database.ask(sql, f"the bins of {name!r}"), name)
    bins = tuple(c for c in known.categories if c is not None)
    codes = np.array([int(cell) for cell in values.cells], np.intp)
    if _STRAY in codes:
        raise ValueError(
            f"Column {name!r} is to be numeric but holds text: make numbers of it in a "
            "view, or name the text as a missing code."
        )
    held = (*bins, None) if len(bins) in codes else bins
    levels = Levels("number", held, known.edges)
    counts = _added(codes, values.mass, levels)
    return _number_field(rows, name, encoder, levels, counts, texts)


def _inexact(dialect: Dialect, answer: Sequence[Row]) -> bool:
    """Whether a driver's numbers may differ from the doubles that SQL compares."""
    cells = [row[0] for row in answer]
    exact = dialect.name in ("duckdb", "sqlite")
    return any(
        isinstance(cell, decimal.Decimal) and cell.as_tuple().exponent != 0
        for cell in cells
    ) or (not exact and any(isinstance(cell, float) for cell in cells))


def _check_texts(
    database: Database, rows: Counted, name: str, values: Values, encoder: Encoder
) -> None:
    """Refuse texts of numbers which the engine reads otherwise than Python does."""
    column = rows.dialect.identifier(name)
    missing = {label_text(code) for code in encoder.missing}
    texts = [c for c in values.cells if isinstance(c, str) and c not in missing]
    if not texts:
        return
    gone = ", ".join(rows.dialect.string(text) for text in sorted(missing))
    number = rows.dialect.as_double(column)
    if missing:
        number = f"CASE WHEN {column} IN ({gone}) THEN NULL ELSE {number} END"
    sql = f"SELECT DISTINCT {column}, {number} FROM {rows.source()}"
    for text, read in database.ask(sql, f"the numbers of {name!r}"):
        known = isinstance(text, str) and text not in missing
        if known and read != float(text) and read == read:
            raise ValueError(
                f"Column {name!r} holds the text {text!r:.60}, which the database "
                f"reads as the number {read!r}: make numbers of it in a view."
            )
