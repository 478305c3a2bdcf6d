"""Fields: the columns of a table in a database, as they are counted there.

A column is asked for its values and their counts. What `Encoder.fit` would make of the
rows is read off these, since a count weighs as much as repetition does: which columns
are numbers, their bins, the labels and which of them are rare. From then on labels are
grouped by as they are, and numbers by the bin that a CASE expression finds.

A number may have any number of different values: the answer is read in blocks, and
beyond 2**16 of them neighbours share a cell (`renyi.encoding.sketch`), as they do on
every other road.

The values of a number must be those that the expression compares: a decimal, or a float
of single precision, is asked for once more as the engine makes a double of it.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.encoding.bins import bin_cells, bin_codes
from renyi.encoding.column_rules import resolve
from renyi.encoding.columns import Levels
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import Label, label_text, parts
from renyi.encoding.identifiers import refuse_labels, refuse_row_numbers
from renyi.encoding.sketch import MOST, Sketch
from renyi.sources.databases import Database, Row
from renyi.sources.dialects import Dialect, binned
from renyi.sources.filtered_table import Counted

MOST_LABELS = 20_000

_PLAIN = (str, bool, int, float, bytes, datetime.date, datetime.time)
_STRAY = -1  # the bin of a text among numbers


class ColumnError(ValueError):
    """Says of one column why it cannot be counted as it is."""


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
    with closing(_stream(database, rows, name, column)) as blocks:
        values = Values.of(_begun(blocks), name)
        levels, codes = _learned(database, rows, name, values, encoder)
    return _label_field(name, column, values, levels, codes)


def field_of(database: Database, rows: Counted, name: str, encoder: Encoder) -> Field:
    """Return a column as the encoder takes it; a fitted one has decided already."""
    known = {column.name: column.levels for column in encoder.columns}.get(name)
    if known is not None and known.kind == "number":
        return _fitted_number(database, rows, name, encoder, known)
    settings, column = _settings(encoder, name), database.grouped(name)
    with closing(_stream(database, rows, name, column)) as blocks:
        first = _begun(blocks)
        values = Values.of(first, name)
        levels, codes = _learned(database, rows, name, values, settings)
        if levels.kind == "label":
            return _label_field(name, column, values, levels, codes)
        if not _inexact(rows.dialect, first):
            answer = chain([first], blocks)
            return _number_field(database, rows, name, settings, answer)
    with closing(
        _stream(database, rows, name, rows.dialect.as_double(column))
    ) as doubles:
        return _number_field(database, rows, name, settings, doubles)


def _stream(
    database: Database, rows: Counted, name: str, column: str
) -> Generator[list[Row]]:
    """Return the different values of a column with their counts, block by block."""
    sql = rows.by({name: column}, rows=True)
    return database.stream(sql, f"the values of {name!r}")


def _begun(blocks: Iterable[list[Row]]) -> list[Row]:
    """Return all of an answer, or enough to know the column is not one of labels."""
    rows: list[Row] = []
    for block in blocks:
        rows += block
        if len(rows) > MOST:
            break
    return rows


def _settings(encoder: Encoder, name: str) -> Encoder:
    """Return the encoder of one column."""
    if encoder.columns:
        return encoder.select([name])
    if isinstance(encoder.numeric, str):
        return encoder
    numeric = (name,) if name in encoder.numeric else ()
    return dataclasses.replace(encoder, numeric=numeric)


def _learned(
    database: Database, rows: Counted, name: str, values: Values, settings: Encoder
) -> tuple[Levels, NDArray[Any]]:
    """Return what the encoder makes of a column, and the code of each value."""
    column = _as_column(database, name, values.cells)
    mass = values.mass.astype(np.float64)
    fitted, codes = settings.fit_transform(column, mass, refuse_identifiers=False)
    levels = fitted.columns[0].levels
    if levels.kind == "label" and len(values.cells) > MOST_LABELS:
        raise _too_many(database, rows, name)
    if levels.kind == "label" and not settings.columns:
        with _refusing():
            refuse_labels(fitted.columns, int(values.rows.sum()))
    return levels, codes[0]


def _as_column(database: Database, name: str, cells: list[Any]) -> Any:
    """Return a table of one column, typed if all its cells are of one type."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) < 2:
        # Of a column without a value, the engine alone knows the type.
        kind = pa.float64() if name in database.reals and not kinds else None
        try:
            return pa.table({name: pa.array(cells, kind)})
        except (pa.ArrowException, OverflowError):
            pass  # integers of more than 64 bits
    return pd.DataFrame({name: pd.Series(cells, dtype=object)})


# ---- labels


def _label_field(
    name: str, column: str, values: Values, levels: Levels, codes: NDArray[Any]
) -> Field:
    places = dict(zip(map(key_of, values.cells), codes.tolist(), strict=True))
    return Field(name, column, levels, places, _added(codes, values.mass, levels))


def _too_many(database: Database, rows: Counted, name: str) -> ColumnError:
    """Return what is said of a column of too many labels to ask for them all."""
    column = database.grouped(name)
    sql = f"SELECT COUNT(*), COUNT(DISTINCT {column}) FROM {rows.source()}"
    ((total, count),) = database.ask(sql, f"the number of labels of {name!r}")
    return ColumnError(
        f"Column {name!r} has {count:,} different labels in {total:,} rows, more than "
        f"{MOST_LABELS:,}: drop it (on the command line, --id or --drop), or make "
        "fewer of them in a view."
    )


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ColumnError(str(error)) from None


def _added(codes: NDArray[Any], mass: NDArray[Any], levels: Levels) -> NDArray[Any]:
    counts = np.zeros(len(levels.categories), mass.dtype)
    np.add.at(counts, codes, mass)
    return counts


# ---- numbers


def _number_field(
    database: Database,
    rows: Counted,
    name: str,
    settings: Encoder,
    answer: Iterable[list[Row]],
) -> Field:
    """Return a number whose bins are those of all its values."""
    missing = frozenset(label_text(code) for code in settings.missing)
    seen = _Seen(missing)
    for block in answer:
        values = Values.of(block, name)
        cells = parts(_as_column(database, name, values.cells), [name])
        with _mixed(name, settings, values.cells, missing):
            (numbers,) = resolve(next(cells), frozenset([name]), missing)
        seen.add(numbers, values)
    if seen.spelled:
        check_texts(database, rows, name, missing)
    if settings.numeric == "auto" and seen.whole and not seen.gaps:
        with _refusing():
            refuse_row_numbers(name, seen.sketch, seen.rows)
    levels, counts = seen.binned(settings.bins)
    made = _bin_expression(rows, name, settings, levels.edges, seen.texts)
    return _binned_field(name, made, levels, counts.astype(seen.kind))


@contextmanager
def _mixed(
    name: str, settings: Encoder, cells: list[Any], missing: frozenset[str]
) -> Iterator[None]:
    """Tell of a word among very many numbers, of a column not named as numeric."""
    try:
        yield
    except ValueError:
        texts = {_decoded(cell) for cell in cells if isinstance(cell, (str, bytes))}
        words = sorted(text for text in texts - missing if _read(text) is None)
        if settings.numeric != "auto" or not words:
            raise
        raise ColumnError(
            f"Column {name!r} holds more than {MOST:,} numbers and also "
            f"{words[0]!r:.60}: correct it, or name it as a missing code."
        ) from None


def _decoded(cell: str | bytes) -> str:
    return cell.decode(errors="replace") if isinstance(cell, bytes) else cell


def _read(text: str) -> float | None:
    """Return the number that a text is, if it is one."""
    try:
        return float(text)
    except ValueError:
        return None


class _Seen:
    """What is known of a number after some of its values."""

    def __init__(self, missing: frozenset[str]) -> None:
        self._missing = missing
        self.sketch = Sketch()
        self.whole = True  # are all values integers
        self.rows = 0
        self.gaps = 0.0  # rows (or weight) without a number
        self.kind = np.dtype(np.int64)  # of what is added up
        self.texts = False  # are some values texts
        self.spelled = False  # are some of the numbers

    def add(self, numbers: Any, values: Values) -> None:
        mass = values.mass.astype(np.float64)
        self.sketch.add(numbers.values, mass)
        self.whole &= numbers.integer
        self.rows += int(values.rows.sum())
        self.gaps += float(mass[np.isnan(numbers.values)].sum())
        self.kind = values.mass.dtype
        texts = {cell for cell in values.cells if isinstance(cell, str)}
        self.texts |= bool(texts)
        self.spelled |= bool(texts - self._missing)

    def binned(self, bins: int) -> tuple[Levels, NDArray[Any]]:
        """Return the bins and the rows (or weight) of each."""
        cells = self.sketch.cells
        edges, texts = bin_cells(cells, bins, self.whole)
        counts = np.bincount(bin_codes(cells.low, edges), cells.mass, len(texts))
        held: tuple[Label, ...] = texts
        if self.gaps:
            held, counts = (*texts, None), np.append(counts, self.gaps)
        return Levels("number", held, tuple(edges.tolist())), counts


def _binned_field(
    name: str, expression: str, levels: Levels, counts: NDArray[Any]
) -> Field:
    codes = {key_of(k): k for k in range(len(levels.categories))}
    return Field(name, expression, levels, codes, counts)


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
    made = _bin_expression(rows, name, encoder, known.edges, texts)
    wary = _bin_expression(rows, name, encoder, known.edges, texts, str(_STRAY))
    codes, mass = _bins_of(database, rows, name, wary)
    if _STRAY in codes:
        missing = frozenset(label_text(code) for code in encoder.missing)
        check_texts(database, rows, name, missing)
        codes, mass = _bins_of(database, rows, name, made)
    bins = tuple(c for c in known.categories if c is not None)
    held = (*bins, None) if len(bins) in codes else bins
    levels = Levels("number", held, known.edges)
    return _binned_field(name, made, levels, _added(codes, mass, levels))


def _bins_of(
    database: Database, rows: Counted, name: str, expression: str
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return the bins that occur and the rows (or weight) of each."""
    sql = rows.by({name: expression}, rows=True)
    values = Values.of(database.ask(sql, f"the bins of {name!r}"), name)
    return np.array([int(cell) for cell in values.cells], np.intp), values.mass


def _inexact(dialect: Dialect, answer: Sequence[Row]) -> bool:
    """Whether a driver's numbers may differ from the doubles that SQL compares."""
    cells = [row[0] for row in answer]
    if any(isinstance(cell, str) for cell in cells):
        return False
    exact = dialect.name in ("duckdb", "sqlite", "postgres")
    return any(
        isinstance(cell, decimal.Decimal) and cell.as_tuple().exponent != 0
        for cell in cells
    ) or (not exact and any(isinstance(cell, float) for cell in cells))


def check_texts(
    database: Database, rows: Counted, name: str, missing: frozenset[str]
) -> None:
    """Refuse texts which the engine reads as other numbers than Python does.

    SQLite makes a number of any text, and 0 of a word.
    """
    column = rows.dialect.identifier(name)
    gone = ", ".join(rows.dialect.string(text) for text in sorted(missing))
    number = rows.dialect.as_double(column)
    if missing:
        cell = rows.dialect.as_text(column)
        number = f"CASE WHEN {cell} IN ({gone}) THEN NULL ELSE {number} END"
    if rows.dialect.name == "sqlite":  # whose columns mix numbers and texts
        test = rows.dialect.is_of(column, rows.dialect.texts)
        rows = rows._replace(conditions=(*rows.conditions, test))
    sql = f"SELECT DISTINCT {column}, {number} FROM {rows.source()}"
    with closing(database.stream(sql, f"the numbers of {name!r}")) as blocks:
        for text, read in chain.from_iterable(blocks):
            known = isinstance(text, (str, bytes)) and read is not None
            if known and read != _read(_decoded(text)) and read == read:
                raise ValueError(
                    f"Column {name!r} holds the text {text!r:.60}, which the database "
                    f"reads as the number {read!r}: make numbers of it in a view."
                )
