"""Questions: the rows that a model is asked about, batch by batch.

A model knows what its columns are, so that each row is read for itself, whatever batch
it comes in. Columns that are copied beside the answers keep every space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from renyi.encoding.frame_columns import label_text
from renyi.encoding.text_cells import typed
from renyi.estimators.classifier import RenyiClassifier
from renyi.sources import csv, files
from renyi.sources.formats import reader_of

_ROWS = 2**16  # of a batch


class Batch(NamedTuple):
    """Some rows: the model's columns, those to copy, and the target if it is there."""

    X: pa.Table
    ids: pa.Table
    truth: pa.ChunkedArray | None


@dataclass(frozen=True)
class Questions:
    """The rows to answer.

    Parameters
    ----------
    clf : RenyiClassifier
        The model.
    paths : list of Path
        Files with the model's columns.
    ids : list of str
        Columns to copy.
    target : str, optional
        The column of classes, if the files have it.
    where : str, optional
        A condition in SQL: other rows are not asked about.

    Examples
    --------
    >>> import renyi
    >>> clf = RenyiClassifier().fit(*renyi.datasets.load("votes"))
    >>> asked = Questions(clf, [renyi.datasets.path("votes")], ["crime"], "party")
    >>> [batch.X.shape for batch in asked.batches()]
    [(435, 16)]
    """

    clf: RenyiClassifier
    paths: list[Path]
    ids: list[str]
    target: str | None = None
    where: str | None = None

    @property
    def features(self) -> list[str]:
        """Names of the model's columns."""
        return list(self.clf.encoder_.input_names)

    @property
    def _csv(self) -> bool:
        return reader_of(self.paths[0]) is csv

    @property
    def _judged(self) -> list[str]:
        """Names of the columns whose cells are understood, not just copied."""
        return self.features + ([] if self.target is None else [self.target])

    def id_types(self) -> dict[str, pa.DataType]:
        """Return the types of the columns to copy."""
        schemas = [reader_of(path).read_schema(path) for path in self.paths]
        if self._csv:
            return dict.fromkeys(self.ids, pa.string())
        parts = [pa.schema([schema.field(n) for n in self.ids]) for schema in schemas]
        whole = pa.unify_schemas(parts, promote_options="permissive")
        return dict(zip(whole.names, whole.types, strict=True))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows in order, a bounded number at a time."""
        kinds, types = self._kinds(), self.id_types()
        for table in files.batches(
            self.paths,
            list(dict.fromkeys([*self._judged, *self.ids])),
            missing=self.clf.encoder_.missing,
            kinds={**kinds, **dict.fromkeys(self.ids, "verbatim")},
            where=self.where,
        ):
            for start in range(0, table.num_rows, _ROWS):
                yield self._batch(table.slice(start, _ROWS), kinds, types)
            del table  # before the next one is read

    def _batch(
        self, table: pa.Table, kinds: dict[str, str], types: dict[str, pa.DataType]
    ) -> Batch:
        copied = {name: table[name].cast(kind) for name, kind in types.items()}
        if self._csv:
            missing = frozenset(map(label_text, self.clf.encoder_.missing))
            for name in {*self._judged} & {*self.ids}:
                column = typed(name, table[name], missing, kinds.get(name))
                place = table.column_names.index(name)
                table = table.set_column(place, name, column)
        truth = None if self.target is None else table[self.target]
        return Batch(table.select(self.features), pa.table(copied), truth)

    def _kinds(self) -> dict[str, str]:
        """Return what the columns of a CSV file are, whatever their cells look like."""
        kinds = files.column_kinds(self.clf.encoder_.single)
        if self.target is not None:
            texts = any(isinstance(label, str) for label in self.clf.classes_.tolist())
            kinds[self.target] = "label" if texts else "figure"
        return kinds
