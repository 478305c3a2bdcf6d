"""Answers: what a model says of the rows of a table, in their order."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from renyi.classifier import RenyiClassifier
from renyi.factoring import label_text
from renyi.intake import note
from renyi.sources import files
from renyi.sources.cells import number_text
from renyi.storage import replacing


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
    codes = clf.encoder_.transform(X)
    unseen = (codes >= clf.encoder_.columns.sizes[:, None]).sum(axis=1)
    if unseen.any():
        worst = clf.encoder_.feature_names[int(unseen.argmax())]
        note(
            f"{unseen.sum():,} cells hold labels that training never saw, most of them "
            f"in {worst!r}; they count as the mean of their column."
        )


def answer(
    clf: RenyiClassifier,
    X: pa.Table,
    path: Path,
    ids: list[str],
    proba: bool = False,
    score: bool = False,
) -> pd.DataFrame:
    """Return ids, predictions and what was asked for beside them, in row order.

    >>> import renyi
    >>> path = renyi.datasets.path("votes")
    >>> table = files.read_table(path).drop_columns(["party"])
    >>> clf = RenyiClassifier().fit(table, renyi.datasets.load("votes")[1])
    >>> answer(clf, table, path, ["crime"]).head(2)
      crime  prediction
    0     y  republican
    1     y  republican
    """
    kept: dict[str, Any] = {}
    if ids:
        table = files.read_table(path, ids, kinds=dict.fromkeys(ids, "verbatim"))
        kept = {name: _series(table[name]) for name in ids}
    found: dict[str, Any] = {"prediction": clf.predict(X)}
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
                f"it in {path}."
            )
    return pd.DataFrame({**kept, **found})


def _series(column: pa.ChunkedArray) -> pd.Series:
    """Return a column as it is, integers with missing cells included."""
    mapper = {pa.int64(): pd.Int64Dtype()}.get
    return pd.Series(column.to_pandas(types_mapper=mapper))


def error_rate(
    clf: RenyiClassifier, path: Path, target: str, answers: pd.DataFrame
) -> dict[str, Any] | None:
    """Return the share of errors on the rows whose class is known.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> table = pd.DataFrame({"prediction": y})
    >>> clf = RenyiClassifier().fit(X, y)
    >>> error_rate(clf, renyi.datasets.path("votes"), "party", table)
    {'rows': 435, 'wrong': 0, 'error': 0.0, 'unjudged': 0}
    """
    labels = clf.classes_.tolist()
    kinds = {target: "label"} if any(isinstance(v, str) for v in labels) else {}
    table = files.read_table(path, [target], missing=clf.encoder_.missing, kinds=kinds)
    truth = known_classes([_whole(v) for v in table[target].to_pylist()], labels)
    judged = np.array([text is not None for text in truth])
    if not judged.any():
        note(f"The column {target!r} has none of the model's classes: no error told.")
        return None
    said = [label_text(v) for v in answers["prediction"].tolist()]
    wrong = (np.array(said, object) != np.array(truth, object))[judged]
    count = len(wrong)
    return {
        "rows": count,
        "wrong": int(wrong.sum()),
        "error": float(wrong.mean()),
        "unjudged": len(truth) - count,
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


def write_answers(place: Path, answers: pd.DataFrame) -> None:
    """Write answers as CSV or Parquet, whole or not at all.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "answers.csv"
    >>> write_answers(place, pd.DataFrame({"prediction": ["yes"]}))
    >>> place.read_text().split()
    ['prediction', 'yes']
    """
    with replacing(place) as stream:
        if place.suffix == ".parquet":
            answers.to_parquet(stream, index=False)
        else:
            stream.write(_csv(answers))


def _csv(answers: pd.DataFrame) -> bytes:
    text: str = answers.to_csv(index=False, lineterminator="\n")
    return text.encode()


def print_answers(answers: pd.DataFrame) -> None:
    """Print answers as CSV.

    >>> print_answers(pd.DataFrame({"prediction": ["yes"]}))
    prediction
    yes
    """
    # As bytes, so that the table is UTF-8 whatever the terminal is.
    sys.stdout.flush()
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(_csv(answers))
        sys.stdout.buffer.flush()
    else:
        sys.stdout.write(_csv(answers).decode())


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
