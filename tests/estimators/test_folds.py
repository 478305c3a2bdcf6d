"""Cross-validation of the penalty: folds, held-out risks, and what they choose."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi import selection
from renyi.selecting import assign_folds
from renyi.solvers.l1inf import RowsProblem
from renyi.solvers.l1inf_path import solve_path
from support.joints import one_hot
from support.noisyrows import noisy


def test_folds_are_balanced_and_within_classes():
    X, y = noisy(n=103)
    codes = X.astype(int).to_numpy().T
    folds = assign_folds(RowsProblem(codes, np.full(6, 3), y, 2), 5, 0)
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    for label in (0, 1):
        per_fold = folds[:, y == label].sum(axis=1)
        assert per_fold.max() - per_fold.min() <= 1


def test_folds_take_weights_as_repetition_in_any_order():
    X, y = noisy(n=40)
    codes = X.astype(int).to_numpy().T
    rng = np.random.default_rng(0)
    copies = rng.integers(1, 4, 40)
    weighted = assign_folds(
        RowsProblem(codes, np.full(6, 3), y, 2, copies.astype(float)), 5, 3
    )
    row = rng.permutation(np.repeat(np.arange(40), copies))
    repeated = assign_folds(RowsProblem(codes[:, row], np.full(6, 3), y[row], 2), 5, 3)
    summed = np.stack([np.bincount(row, fold, minlength=40) for fold in repeated])
    # Identical rows may change places: compare the totals of each.
    keys, same = np.unique(np.vstack([codes, y]), axis=1, return_inverse=True)
    for a, b in zip(weighted, summed, strict=True):
        np.testing.assert_allclose(
            np.bincount(same.ravel(), a), np.bincount(same.ravel(), b)
        )
    assert keys.shape[1] > 30


@pytest.mark.parametrize(("n", "n_classes"), [(200, 2), (200, 3), (15, 2)])
def test_held_out_risk_against_refits_on_the_rows_of_folds(n, n_classes, monkeypatch):
    """Also with more categories (18) than rows."""
    X, y = noisy(n=n, n_classes=n_classes)
    monkeypatch.setattr(selection, "TOL", 1e-8)
    monkeypatch.setattr(selection, "N_LAMBDAS", 8)
    selector = renyi.RenyiSelector(method="path").fit(X, y)
    encoder, codes = renyi.Encoder().fit_transform(X)
    sizes, tried = encoder.columns.sizes, selector.cv_
    folds = assign_folds(RowsProblem(codes, sizes, y, n_classes), 5, 0) > 0
    W = one_hot(codes.T, sizes)
    T = np.eye(n_classes)[y] - 1 / n_classes if n_classes > 2 else y[:, None] - 0.5
    total, wrong = np.zeros(8), np.zeros(8)
    for fold in folds:
        train = RowsProblem(codes[:, ~fold], sizes, y[~fold], n_classes)
        found = solve_path(train, tried.lambdas, tol=1e-3)
        for k in range(8):
            z = found.z[k].reshape(len(W.T), -1)
            s = W[fold] @ z + found.intercepts[k]
            total[k] += ((T[fold] - s) ** 2).sum() / (1 if n_classes == 2 else 2)
            best = s.argmax(axis=1) if n_classes > 2 else s[:, 0] > 0
            wrong[k] += (best != y[fold]).sum()
    np.testing.assert_allclose(tried.risks, total / n, rtol=2e-2)
    np.testing.assert_allclose(tried.error_rates, wrong / n, atol=2.5 / n)
    best = np.flatnonzero(selector.path_.lasso.lambdas == selector.penalty_)[0]
    active = selector.path_.lasso.active[best]
    if active.any():
        assert selector.penalty_ == tried.lambdas[tried.risks.argmin()]
        np.testing.assert_array_equal(selector.get_support(), active)


def test_folds_are_as_many_as_there_are_rows():
    X, y = noisy(n=4)
    selector = renyi.RenyiSelector().fit(X, y)
    assert selector.cv_.n_folds == 4


@pytest.mark.parametrize(("n", "d"), [(2, 6), (20, 12)])
def test_a_fold_may_leave_one_class(n, d):
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.integers(0, 4, (n, d)).astype(str))
    y = np.zeros(n, int)
    y[0] = 1
    selector = renyi.RenyiSelector().fit(X, y)  # a warning would be an error
    assert np.isfinite(selector.cv_.risks).all()
    assert len(selector.features_) >= 1
    # Where the one row is held out, nothing can be learned: 1 is its risk.
    assert selector.cv_.risks[0] >= 1 / n


@pytest.mark.parametrize("method", ["forward", "path"])
def test_a_feature_is_kept_where_none_helps(method):
    seen = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.integers(0, 3, (80, 5)).astype(str))
        selector = renyi.RenyiSelector(method=method).fit(X, rng.integers(0, 2, 80))
        if selector.cv_.best() == 0:
            seen += 1
            assert selector.features_.tolist() == [selector.path_.entries[0]]
            if method == "path":
                assert selector.penalty_ == selector.path_.lambdas[0]
                assert selector.penalty_ < selector.cv_.lambdas[0]
    assert seen
