"""Columns of a table on a server, as they are counted there.

A column is asked for its values and their counts. What `Encoder.fit` would make of the
rows is read off these, since a count weighs as much as repetition does: which columns
are numbers, their bins, the labels and which of them are rare. From then on labels are
grouped by as they are, and numbers by the bin that a CASE expression finds.

A number may have any number of different values: they are read in blocks, and beyond
2**16 of them neighbours share a cell (`renyi.encoding.bins`), as they do on every
other road. The values of a number must be those that the expression compares: floats
of an unknown driver are asked for once more, as the engine makes doubles of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.encoding.bins import MOST, Sketch, bin_cells, bin_codes
from renyi.encoding.column_rules import (
    check_identifiers,
    check_row_numbers,
    check_target,
    missing_texts,
)
from renyi.encoding.columns import Column, Label, Levels
from renyi.encoding.encoder import Encoder, target_encoder
from renyi.encoding.frame_columns import Numbers, parts, resolve
from renyi.sources.databases import Database, Row, cell_of, key_of
from renyi.sources.dialects import binned
from renyi.sources.pair_queries import FilteredTable

MAX_LABELS = 20_000


class SqlColumn(NamedTuple):
    """A column as it is counted.

    `expression` is what SQL groups by, `codes` the code of each of its values, `counts`
    the rows (or weight) of each category.
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
    weights: NDArray[Any]

    @classmethod
    def of(cls, answer: Sequence[Row], name: str) -> Values:
        """Return the values of an answer to `FilteredTable.count_by`."""
        cells = [cell_of(row[0], name) for row in answer]
        rows = np.array([int(row[1]) for row in answer], np.int64)
        if answer and len(answer[0]) > 2:
            return cls(cells, rows, np.array([float(row[2]) for row in answer]))
        return cls(cells, rows, rows)


class ColumnReader:
    """Reads the columns of some rows of a table, as an encoder takes them."""

    def __init__(
        self, database: Database, table: FilteredTable, encoder: Encoder
    ) -> None:
        self._database, self._table, self._encoder = database, table, encoder
        self._missing = missing_texts(encoder.missing)

    def labels(self, name: str) -> SqlColumn:
        """Return a column whose values are all labels, as the target's are."""
        settings = target_encoder(self._encoder)
        column = self._database.expression(name)
        with closing(self._values(name, column)) as blocks:
            values = Values.of(_first(blocks), name)
            levels, codes = self._decided(name, values, settings, target=True)
        labels = tuple(label for label in levels.categories if label is not None)
        known = int(values.rows[codes < len(labels)].sum())
        check_target(Column(name, Levels("label", labels)), known)
        return _label_column(name, column, values, levels, codes)

    def column(self, name: str) -> SqlColumn:
        """Return a feature; a fitted encoder has decided already what it is."""
        encoder = self._encoder
        known = {column.name: column.levels for column in encoder.columns}.get(name)
        if known is not None and known.kind == "number":
            return self._fitted_number(name, known)
        settings, column = self._settings(name), self._database.expression(name)
        with closing(self._values(name, column)) as blocks:
            first = _first(blocks)
            values = Values.of(first, name)
            levels, codes = self._decided(name, values, settings)
            if levels.kind == "label":
                return _label_column(name, column, values, levels, codes)
            # Floats of an unknown driver may not be the doubles that SQL compares.
            floats = any(isinstance(cell, float) for cell in values.cells)
            if not floats or self._table.dialect.name == "postgres":
                return self._number(name, settings, chain([first], blocks))
        as_double = self._table.dialect.as_double(column)
        with closing(self._values(name, as_double)) as doubles:
            return self._number(name, settings, doubles)

    def _values(self, name: str, column: str) -> Generator[list[Row]]:
        """Return the different values of a column with their counts, block by block."""
        sql = self._table.count_by({name: column}, rows=True)
        return self._database.fetch_blocks(sql, f"the values of {name!r}")

    def _settings(self, name: str) -> Encoder:
        """Return the encoder of one column."""
        if self._encoder.columns:
            return self._encoder.select([name])
        if isinstance(self._encoder.numeric, str):
            return self._encoder
        numeric = (name,) if name in self._encoder.numeric else ()
        return dataclasses.replace(self._encoder, numeric=numeric)

    def _decided(
        self, name: str, values: Values, settings: Encoder, target: bool = False
    ) -> tuple[Levels, NDArray[Any]]:
        """Return what the encoder makes of a column, and the code of each value."""
        column = self._as_table(name, values.cells)
        weights = values.weights.astype(np.float64)
        fitted, codes = settings.fit_transform(
            column, weights, refuse_identifiers=False
        )
        levels = fitted.columns[0].levels
        if levels.kind == "label" and len(values.cells) > MAX_LABELS:
            raise ValueError(
                f"Column {name!r} has more than {MAX_LABELS:,} different labels: drop "
                "it (on the command line, --id or --drop), or make fewer of them in a "
                "view."
            )
        if levels.kind == "label" and not settings.columns and not target:
            check_identifiers(fitted.columns, int(values.rows.sum()))
        return levels, codes[0]

    def _as_table(self, name: str, cells: list[Any]) -> Any:
        """Return a table of one column, typed if all its cells are of one type."""
        kinds = {type(cell) for cell in cells if cell is not None}
        if len(kinds) < 2:
            # Of a column without a value, the engine alone knows the type.
            real = name in self._database.reals and not kinds
            try:
                return pa.table({name: pa.array(cells, pa.float64() if real else None)})
            except (pa.ArrowException, OverflowError):
                pass  # integers of more than 64 bits
        return pd.DataFrame({name: pd.Series(cells, dtype=object)})

    # ---- numbers

    def _number(
        self, name: str, settings: Encoder, answer: Iterable[list[Row]]
    ) -> SqlColumn:
        """Return a number whose bins are those of all its values."""
        sketch, whole, texts, n, gaps = Sketch(), True, False, 0, 0.0
        for block in answer:
            values = Values.of(block, name)
            weights = values.weights.astype(np.float64)
            part = next(parts(self._as_table(name, values.cells), [name]))
            (numbers,) = resolve(part, frozenset([name]), self._missing)
            assert isinstance(numbers, Numbers)
            sketch.add(numbers.values, weights)
            whole &= numbers.integer
            texts |= any(isinstance(cell, (str, bytes)) for cell in values.cells)
            n += int(values.rows.sum())
            gaps += float(weights[np.isnan(numbers.values)].sum())
        if settings.numeric == "auto" and whole and not gaps:
            check_row_numbers(name, sketch, n)
        edges, bins = bin_cells(sketch.cells, settings.bins, whole)
        codes = bin_codes(sketch.cells.low, edges)
        counts = np.bincount(codes, sketch.cells.weight, len(bins))
        categories: tuple[Label, ...] = bins
        if gaps:
            categories, counts = (*bins, None), np.append(counts, gaps)
        levels = Levels("number", categories, tuple(edges.tolist()))
        made = self._bin_expression(name, levels.edges, texts)
        dtype = np.int64 if self._table.weight is None else np.float64
        return _binned_column(name, made, levels, counts.astype(dtype))

    def _fitted_number(self, name: str, known: Levels) -> SqlColumn:
        """Return a number whose bins are known: only their counts are asked for."""
        texts = name not in self._database.reals
        made = self._bin_expression(name, known.edges, texts)
        sql = self._table.count_by({name: made}, rows=True)
        answer = self._database.fetch(sql, f"the bins of {name!r}")
        values = Values.of(answer, name)
        codes = np.array([int(cell) for cell in values.cells], np.intp)
        bins = tuple(c for c in known.categories if c is not None)
        categories = (*bins, None) if len(bins) in codes else bins
        levels = Levels("number", categories, known.edges)
        counts = _added(codes, values.weights, levels)
        return _binned_column(name, made, levels, counts)

    def _bin_expression(self, name: str, edges: Sequence[float], texts: bool) -> str:
        column = self._table.dialect.identifier(name)
        answers = [str(k) for k in range(len(edges) + 2)]
        return binned(
            self._table.dialect, column, edges, self._missing, answers, texts=texts
        )


def _first(blocks: Iterable[list[Row]]) -> list[Row]:
    """Return all of an answer, or enough to know the column is not one of labels."""
    rows: list[Row] = []
    for block in blocks:
        rows += block
        if len(rows) > MOST:
            break
    return rows


def _label_column(
    name: str, column: str, values: Values, levels: Levels, codes: NDArray[Any]
) -> SqlColumn:
    places = dict(zip(map(key_of, values.cells), codes.tolist(), strict=True))
    counts = _added(codes, values.weights, levels)
    return SqlColumn(name, column, levels, places, counts)


def _binned_column(
    name: str, expression: str, levels: Levels, counts: NDArray[Any]
) -> SqlColumn:
    codes = {key_of(k): k for k in range(len(levels.categories))}
    return SqlColumn(name, expression, levels, codes, counts)


def _added(codes: NDArray[Any], weights: NDArray[Any], levels: Levels) -> NDArray[Any]:
    counts = np.zeros(len(levels.categories), weights.dtype)
    np.add.at(counts, codes, weights)
    return counts
