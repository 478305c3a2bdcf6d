"""Answers: what a model says of the rows of a table, batch by batch, in their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from renyi.cli.inputs import note
from renyi.encoding.frame_columns import label_text
from renyi.encoding.text_cells import number_text
from renyi.estimators.classifier import RenyiClassifier
from renyi.sources import files

PREDICTION = "prediction"
_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint8(): pd.UInt8Dtype(),
    pa.uint16(): pd.UInt16Dtype(),
    pa.uint32(): pd.UInt32Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
}


# ---- what is found out about the rows


class Unseen:
    """Cells whose labels training never saw, counted batch by batch.

    >>> import warnings
    >>> X = pd.DataFrame({"a": ["x", "y", "x", "y"]})
    >>> unseen = Unseen(RenyiClassifier(alpha=0.1).fit(X, [0, 1, 0, 1]))
    >>> unseen.add(pa.table({"a": ["x", "z"]}))
    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     unseen.note()
    >>> str(seen[0].message)[:7]
    '1 cells'
    """

    def __init__(self, clf: RenyiClassifier) -> None:
        self._encoder, self._order = clf.encoder_.single, clf.encoder_.order
        self._counts = np.zeros(len(self._encoder.columns), np.int64)

    def add(self, X: pa.Table) -> None:
        """Look at some rows."""
        codes = self._encoder.transform(X)
        self._counts += (codes >= self._encoder.columns.sizes[:, None]).sum(axis=1)

    def note(self) -> None:
        """Warn of what was found, if anything."""
        if not self._counts.any():
            return
        worst = self._encoder.feature_names[int(self._counts.argmax())]
        whose = "their column" if self._order == 1 else "each of their features"
        note(
            f"{self._counts.sum():,} cells hold labels that training never saw, most "
            f"of them in {worst!r}; they count as the mean of {whose}."
        )


def note_unseen(clf: RenyiClassifier, X: pa.Table) -> None:
    """Warn of cells whose labels training never saw.

    >>> import warnings
    >>> X = pd.DataFrame({"a": ["x", "y", "x", "y"]})
    >>> clf = RenyiClassifier(alpha=0.1).fit(X, [0, 1, 0, 1])
    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     note_unseen(clf, pa.table({"a": ["x", "z"]}))
    >>> str(seen[0].message)[:7]
    '1 cells'
    """
    unseen = Unseen(clf)
    unseen.add(X)
    unseen.note()


class Errors:
    """Wrong answers on the rows whose class is known, counted batch by batch.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> errors = Errors(RenyiClassifier().fit(X, y), "party")
    >>> errors.add(pa.chunked_array([["democrat", "republican", None]]), y[:3])
    >>> errors.told()
    {'rows': 2, 'wrong': 1, 'error': 0.5, 'unjudged': 1}
    """

    def __init__(self, clf: RenyiClassifier, target: str) -> None:
        self._labels, self._target = clf.classes_.tolist(), target
        self._rows = self._judged = self._wrong = 0

    def add(self, truth: pa.ChunkedArray, predictions: Any) -> None:
        """Compare some cells of the target with the answers."""
        cells = truth.combine_chunks().dictionary_encode()
        values = [_whole(v) for v in cells.dictionary.to_pylist()]
        meant = np.array([*known_classes(values, self._labels), None], object)
        classes = meant[cells.indices.fill_null(len(values)).to_numpy()]
        codes, different = pd.factorize(np.asarray(predictions))
        said = np.array([label_text(v) for v in different.tolist()], object)[codes]
        judged = classes != None  # noqa: E711, cell by cell
        self._rows += len(classes)
        self._judged += int(judged.sum())
        self._wrong += int((said != classes)[judged].sum())

    def told(self) -> dict[str, Any] | None:
        """Return the share of errors; None, and a note, if no class is known."""
        if not self._judged:
            note(
                f"The column {self._target!r} has none of the model's classes: no "
                "error told."
            )
            return None
        return {
            "rows": self._judged,
            "wrong": self._wrong,
            "error": self._wrong / self._judged,
            "unjudged": self._rows - self._judged,
        }


def known_classes(cells: list[Any], labels: list[Any]) -> list[str | None]:
    """Return the text of the class that each cell means; None where it means none.

    A number may be written in other ways than the class that training made of it.

    >>> known_classes(["1e-7", "0.50", "?"], ["1e-07", "0.5"])
    ['1e-07', '0.5', None]
    """
    exact = {label_text(label): label_text(label) for label in labels}
    loose = {number_text(text): text for text in exact}
    meant = {cell: exact.get(label_text(cell)) for cell in set(cells)}
    if len(loose) == len(exact):  # not so if "0.5" and "0.50" are two classes
        for cell, text in meant.items():
            if text is None:
                meant[cell] = loose.get(number_text(label_text(cell)))
    return [meant[cell] for cell in cells]


def _whole(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else str(value)


def require_features(path: Path, names: list[str], features: list[str]) -> None:
    """Raise an error that names a column of the model which a file lacks.

    >>> require_features(Path("new.csv"), ["age", "sex"], ["sex"])
    """
    try:
        files.require(path, names, features)
    except ValueError as error:
        lacking = len(set(features) - set(names))
        more = f" ({lacking} columns of the model are missing)" if lacking > 1 else ""
        text = str(error).rstrip(".")
        raise ValueError(f"{text}. The model needs this column{more}.") from None


# ---- answers


def answer(
    clf: RenyiClassifier,
    X: pa.Table,
    ids: pa.Table | None = None,
    proba: bool = False,
    score: bool = False,
) -> pd.DataFrame:
    """Return ids, predictions and what was asked for beside them, in row order.

    >>> import renyi
    >>> table = files.read_table(renyi.datasets.path("votes")).drop_columns(["party"])
    >>> clf = RenyiClassifier().fit(table, renyi.datasets.load("votes")[1])
    >>> answer(clf, table[:2], table.select(["crime"])[:2])
      crime  prediction
    0     y  republican
    1     y  republican
    """
    kept: dict[str, Any] = {}
    if ids is not None:
        kept = {name: _series(ids[name]) for name in ids.column_names}
    found: dict[str, Any] = {PREDICTION: clf.predict(X)}
    texts = [label_text(label) for label in clf.classes_.tolist()]
    if proba:
        shares = clf.predict_proba(X).T
        found |= {f"proba_{t}": p for t, p in zip(texts, shares, strict=True)}
    if score:
        scores = clf.decision_function(X)
        if scores.ndim == 1:
            found["score"] = scores
        else:
            found |= {f"score_{t}": s for t, s in zip(texts, scores.T, strict=True)}
    for name in kept:
        if name in found:
            raise ValueError(
                f"The --id column {name!r} has the name of a column of answers: rename "
                "it in the file."
            )
    return pd.DataFrame({**kept, **found})


def _series(column: pa.ChunkedArray) -> pd.Series:
    """Return a column as it is, integers with missing cells included."""
    return pd.Series(column.to_pandas(types_mapper=_NULLABLE.get))
