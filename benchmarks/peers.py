"""The tables that several benchmarks share, and the peers they are compared with."""

from __future__ import annotations

import timing  # noqa: F401  # isort: skip  # before numpy: limits the threads

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import solve
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi


def tall(n: int = 1_000_000) -> tuple[np.ndarray, np.ndarray]:
    """Return n x 20 integers of 10 categories, and two classes that depend on them."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 10, (n, 20))
    points = rng.normal(size=(20, 10))
    score = sum(points[j][X[:, j]] for j in range(20)) + 2 * rng.normal(size=n)
    return X, (score > 0).astype(np.int64)


def binned_adult() -> tuple[pd.DataFrame, pd.Series]:
    """Return adult with every column cut into string categories, and the classes."""
    X, y = renyi.datasets.load("adult")
    encoder, codes = renyi.Encoder().fit_transform(X)
    columns = zip(encoder.columns, codes, strict=True)
    texts = {c.name: np.array(c.levels.texts, object)[row] for c, row in columns}
    return pd.DataFrame(texts, dtype="str"), y


def one_hot_ridge(penalty: float, solver: str = "auto") -> Pipeline:
    """Return the scikit-learn pipeline; `penalty` is alpha times the rows."""
    return make_pipeline(
        OneHotEncoder(handle_unknown="ignore"), RidgeClassifier(penalty, solver=solver)
    )


def tabmat_ridge(
    X: np.ndarray, y: np.ndarray, alpha: float, trusted: int | None = None
) -> tuple[np.ndarray, float]:
    """Encode, sandwich and solve the same ridge system with tabmat.

    The classes are coded 0 and 1; returned are the coefficients of all categories and
    the intercept. With `trusted` categories the integers are taken as codes unseen:
    nothing is looked up or checked, less than the others do. Else tabmat finds the
    categories of each column, sooner if the columns are contiguous.
    """
    import tabmat

    n, target = len(X), y.astype(np.float64)
    if trusted is None:
        columns = np.asfortranarray(X).T
    else:
        columns = [_as_is(column, trusted) for column in X.T]
    matrix = tabmat.SplitMatrix([tabmat.CategoricalMatrix(each) for each in columns])
    Q = matrix.sandwich(np.ones(n)) / n
    mean, base = np.diag(Q).copy(), target.mean()
    A = Q - np.outer(mean, mean)
    A.flat[:: len(A) + 1] += alpha
    right = matrix.transpose_matvec(target) / n - mean * base
    z = solve(A, right, assume_a="pos", overwrite_a=True, check_finite=False)
    return z, float(base - mean @ z)


def _as_is(column: np.ndarray, size: int) -> pd.Categorical:
    codes = column.astype(np.int32)
    return pd.Categorical.from_codes(codes, categories=range(size), validate=False)


def fit_task(model: Any, X: Any, y: Any) -> partial[Any]:
    """Return the task of fitting a fresh copy of a model."""
    return partial(_fit, model, X, y)


def _fit(model: Any, X: Any, y: Any) -> Any:
    return clone(model).fit(X, y)
