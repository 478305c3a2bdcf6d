"""Exported models, run by Python, by a JavaScript engine and by onnxruntime."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from renyi.encoding.columns import MISSING_TEXT, label_text, plain_label
from renyi.scorecard import Scorecard
from support.engines import onnxruntime, py_mini_racer

Answers = tuple[list[Any], NDArray[np.float64]]


@pytest.fixture(scope="module")
def engine() -> Iterator[py_mini_racer.MiniRacer]:
    """A JavaScript engine; it must be closed, or Python does not end."""
    with py_mini_racer.MiniRacer() as found:
        yield found


def in_python(text: str, rows: pd.DataFrame) -> Answers:
    space: dict[str, Any] = {}
    exec(compile(text, "exported.py", "exec"), space)
    cells = records(rows)
    return (
        [space["predict"](row) for row in cells],
        np.array([space["predict_proba"](row) for row in cells]),
    )


def in_javascript(engine: Any, text: str, rows: pd.DataFrame) -> Answers:
    engine.eval(text)
    given = json.dumps([list(row.items()) for row in records(rows)])
    # Cells that JSON has no word for are written as JavaScript has them.
    found = engine.eval(f"""JSON.stringify({given}.map((cells) => {{
        const row = Object.fromEntries(cells);
        return [renyiModel.predict(row), renyiModel.predictProba(row)];
    }}))""")
    answers = json.loads(found)
    return [a for a, _ in answers], np.array([p for _, p in answers])


def in_onnx(card: Scorecard, rows: pd.DataFrame, odds: float = 1.0) -> Answers:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(card.to_onnx(odds=odds), options)
    numbers = card.encoder.single.columns.numeric_names
    gap = next(iter(map(str, card.encoder.missing)), MISSING_TEXT)
    given = {}
    for name in card.encoder.input_names:
        cells = [plain_label(cell) for cell in rows[name].tolist()]
        if name in numbers:
            values = [np.nan if v in (None, "", "?") else float(v) for v in cells]
            given[name] = np.array(values, np.float64)[:, None]
        else:
            texts = [gap if v is None else label_text(v) for v in cells]
            given[name] = np.array(texts, object)[:, None]
    answers, shares = session.run(None, given)
    return np.asarray(answers).tolist(), shares


def records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    names = [str(name) for name in rows.columns]
    columns = [rows.iloc[:, j].astype(object).tolist() for j in range(len(names))]
    return [
        dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)
    ]
