"""Scorecards of random points, odd cells, and scores computed by an engine."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from renyi.encoding.encoder import Encoder
from renyi.scorecard import Scorecard
from support.warehouses import engine_of, load

WORDS = [
    *("a", "b", "it's", 'so "it" is', "back\\slash", "\\'", "two\nlines", "ünï→cøde"),
    *("${a}", "%s", "?", "", " a", "A", "(rare)", "(missing)", "NULL", "a\tb"),
    *("1", "1.0", "01", "2.5", "2.50", "-9", "1e3", "1000", "True", "true", "nan"),
    *("NaN", "inf", "Infinity", "9007199254740993", "1e+22"),
]
REALS = [
    *(0.0, -0.0, 1.0, 2.5, -9.0, 0.1, 1000.0, 1e22, 1e-5, 1234567890123456.5),
    *(float("nan"), float("inf"), float("-inf"), 5e-324, 1.7976931348623157e308),
]
WHOLES = [0, 1, 2, -9, 1000, 2**53, 2**53 + 1, -(2**62)]


def card_of(
    train: pa.Table, encoder: Encoder, classes: int = 2, seed: int = 0
) -> Scorecard:
    """A scorecard of random points over the categories of a table."""
    rng = np.random.default_rng(seed)
    fitted, codes = encoder.fit_transform(train, refuse_identifiers=False)
    sizes = fitted.columns.sizes
    counts = np.concatenate(
        [
            np.bincount(row, minlength=size)
            for row, size in zip(codes, sizes, strict=True)
        ]
    )
    shape = (sizes.sum(),) if classes == 2 else (sizes.sum(), classes)
    labels = ("no", "it's", "may\\be", "yes")[:classes]
    return Scorecard(
        fitted,
        labels,
        rng.normal(size=shape),
        rng.normal(size=shape[1:]),
        np.maximum(counts, fitted.order > 1),
    )


def scores_in(connection: Any, card: Scorecard, rows: pa.Table) -> NDArray[Any]:
    """Scores that the engine computes, one column per class if there are many."""
    engine = engine_of(connection)
    load(connection, "cells", rows.append_column("k", pa.array(range(len(rows)))))
    labels = [None] if card.n_classes == 2 else list(card.classes)
    made = ", ".join(card.to_sql(engine, label) for label in labels)
    answer = connection.execute(f"SELECT {made} FROM cells ORDER BY k").fetchall()
    return np.array(answer, np.float64)


def assert_same(found: NDArray[Any], card: Scorecard, rows: pa.Table) -> None:
    expected = card.scores(card.encoder.transform(rows))
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def every_cell() -> tuple[pa.Table, Encoder]:
    """Rows with all odd cells, and an encoder that met some of them."""
    n = 4 * len(WORDS)
    rng = np.random.default_rng(7)

    def column(values: list[Any], kind: pa.DataType) -> pa.Array:
        filled = [*values, None]
        return pa.array([filled[k % len(filled)] for k in rng.permutation(n)], kind)

    days = [datetime.date(2024, 2, k) for k in (1, 28)]
    table = pa.table(
        {
            "word": column(WORDS, pa.string()),
            "whole": column(WHOLES, pa.int64()),
            "label": column([0.0, 1.0, 2.5, 0.1, float("nan")], pa.float64()),
            "real": column(REALS, pa.float64()),
            "many": column(list(range(-30, 30)), pa.int64()),
            "truth": column([True, False], pa.bool_()),
            "day": column(days, pa.date32()),
        }
    )
    return table, Encoder(missing=("?", "", "-9"), numeric=("real", "many"), bins=4)
