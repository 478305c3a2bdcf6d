"""Marginals of rows in memory: frames, arrays, and blocks of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.counting.pair_counts import class_pair_counts, pair_counts
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import as_objects, column_names, refuse_twins
from renyi.marginals.marginals import Marginals
from renyi.streaming.spec import need_column


def marginals(
    X: Any,
    y: Any = None,
    target: str | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
    sample_weight: Any = None,
    *,
    refuse_identifiers: bool = True,
) -> Marginals:
    """Count the pairs of a table; see `Marginals.from_data`."""
    encoder = encoder or Encoder()
    X, y, target = _split(X, y, target)
    weights = checked_weights(sample_weight, len(y))
    if weights is not None and not weights.all():
        kept = np.flatnonzero(weights)
        X, y, weights = take_rows(X, kept), take_rows(y, kept), weights[kept]
    features, codes = encoder.fit_transform(
        X, weights, refuse_identifiers=refuse_identifiers
    )
    classes, class_codes = Encoder(missing=encoder.missing, numeric=()).fit_transform(
        _as_column(y, target), refuse_identifiers=refuse_identifiers
    )
    answer = classes.columns[0]
    if None in answer.categories:
        count = int((class_codes[0] == len(answer.categories) - 1).sum())
        raise ValueError(
            f"The target {target!r} is missing in {count} rows: leave these rows out."
        )
    return from_codes(
        features, codes, answer, class_codes[0], class_conditional, weights
    )


def _as_column(y: Any, name: str) -> Any:
    """Return the classes as a frame of one column."""
    if hasattr(y, "columns"):
        raise ValueError("y must be one column of classes; it is a whole table.")
    if isinstance(y, pd.Series):
        return y.to_frame(name)
    if isinstance(y, (pa.Array, pa.ChunkedArray)):
        return pa.table([y], names=[name])
    if hasattr(y, "__arrow_c_stream__"):
        return pa.table([pa.chunked_array(y)], names=[name])
    array = as_objects(y)
    if array.ndim != 1:
        raise ValueError(f"y must be one column of classes; it has {array.ndim} axes.")
    return pd.DataFrame({name: array})


def from_codes(
    encoder: Encoder,
    codes: NDArray[Any],
    target: Column,
    y: NDArray[Any],
    class_conditional: bool = False,
    weights: NDArray[np.float64] | None = None,
) -> Marginals:
    """Count the pairs of codes made by `encoder`, and of the classes y."""
    columns = Columns.of([*encoder.columns, target])
    dtype = np.min_scalar_type(int(columns.sizes.max()))
    everything = np.concatenate([codes, y[None, :]], dtype=dtype, casting="unsafe")
    counts = pair_counts(everything, columns.sizes, weights)
    inner = None
    if class_conditional:
        size = len(target.categories)
        inner = class_pair_counts(codes, encoder.columns.sizes, y, size, weights)
    n = codes.shape[1] if weights is None else float(weights.sum())
    return Marginals(counts, n, columns, target.name, encoder.settings(), inner)


def from_blocks(
    blocks: Iterable[Any],
    target: str | None = None,
    encoder: Encoder | None = None,
    class_conditional: bool = False,
) -> Marginals:
    """Count block after block; see `Marginals.from_blocks`."""
    total: Marginals | None = None
    for block in blocks:
        X, y = block if isinstance(block, tuple) else (block, None)
        m = marginals(
            X, y, target, encoder, class_conditional, refuse_identifiers=False
        )
        if total is None:
            total, encoder = m, m.encoder
        else:
            total = total + m
    if total is None:
        raise ValueError("There are no blocks to count.")
    return total


def _split(X: Any, y: Any, target: str | None) -> tuple[Any, Any, str]:
    """Return features, classes and the target's name."""
    if y is not None:
        name = target or getattr(y, "name", None) or "y"
        names = column_names(X)
        if names is not None and str(name) in names:
            raise ValueError(
                f"The target is named {str(name)!r} like a column of X: give it "
                "another name with target=, or drop that column."
            )
        if len(y) != len(X):
            raise ValueError(f"X has {len(X)} rows, but y has {len(y)}.")
        return X, y, str(name)
    if target is None:
        raise ValueError("Give the classes y, or the name of their column as target=.")
    names = column_names(X)
    if names is None:
        raise ValueError("With an array, give the classes y: columns have no names.")
    need_column(names, target, "to predict")
    refuse_twins(names)
    rest = [name for name in names if name != target]
    if not rest:
        raise ValueError(f"The table has no column beside the target {target!r}.")
    if hasattr(X, "iloc"):
        where = [str(c) for c in X.columns].index(target)
        keep = [j for j in range(len(names)) if j != where]
        return X.iloc[:, keep], X.iloc[:, where], target
    return X.select(rest), X[target], target


def take_rows(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a frame, an array or a sequence."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "take") and not isinstance(X, np.ndarray):
        return X.take(rows)
    return X[rows] if hasattr(X, "__arrow_c_stream__") else as_objects(X)[rows]


def checked_weights(weights: Any, n: int) -> NDArray[np.float64] | None:
    """Return the weights as floats; what cannot be a weight is an error."""
    if weights is None:
        return None
    if np.ndim(weights) == 0:
        weights = np.full(n, weights)
    values = np.asarray(weights, np.float64)
    if values.shape != (n,):
        raise ValueError(
            f"sample_weight has the shape {values.shape}, expected ({n},): give one "
            "weight a row."
        )
    for wrong, what in (
        (~np.isfinite(values), "infinite or NaN"),
        (values < 0, "negative"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise ValueError(
                f"The weight of row {row} is {values[row]:g}: weights must be finite "
                f"and not negative ({int(wrong.sum())} are {what})."
            )
    if not values.any():
        raise ValueError("All weights are zero: at least one row must count.")
    return values
