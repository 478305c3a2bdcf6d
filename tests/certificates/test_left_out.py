"""The error to expect, against explicit refits and against an independent interval."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.special

import renyi
from renyi.certificates.closed_form import best_feature, best_left_out_feature
from renyi.certificates.error_table import LEAVE_ONE_OUT, error_table
from renyi.certificates.left_out import effective_number, error_interval
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.rows import FOLDS, dealt
from renyi.solvers import ridge


def table_of(n: int, K: int, seed: int = 0):
    """Return rows whose class depends on two columns, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, [3, 2, 4, 2], size=(n, 4))
    y = (X[:, 0] + X[:, 1] * (X[:, 2] > 1) + (rng.random(n) < 0.3)) % K
    return X.astype(str).astype(object), y


def onehot(X, categories):
    """Return the indicators of all categories."""
    return np.hstack([X[:, [j]] == np.array(c) for j, c in enumerate(categories)])


def left_out_scores(clf, X, y, weights):
    """Return scores of each row by a refit without one copy of it; n·alpha is kept."""
    columns = clf.encoder_.columns
    W = onehot(X, [column.levels.texts for column in columns]).astype(float)
    K = len(clf.classes_)
    targets = np.eye(K)[np.searchsorted(clf.classes_, y)] - 1 / K
    total = clf.alpha_choice_.alpha * weights.sum()
    scores = np.empty((len(y), K))
    for i in range(len(y)):
        w = weights.copy()
        w[i] -= min(w[i], 1.0)
        centre = w @ W / w.sum()
        base = w @ targets / w.sum()
        off = W - centre
        A = off.T @ (w[:, None] * off) + total * np.eye(W.shape[1])
        Z = np.linalg.solve(A, off.T @ (w[:, None] * (targets - base)))
        scores[i] = base + (W[i] - centre) @ Z
    return scores


def losses(clf, scores, y):
    """Return how often each row is answered wrongly, computed from its definition."""
    K = len(clf.classes_)
    t = scores + 1 / K
    own = np.searchsorted(clf.classes_, y)
    calibration = clf.scorecard_.calibration
    if clf.rule == "map":
        if K > 2:
            t = scores @ calibration.slope + calibration.intercept
        return (t.argmax(axis=1) != own).astype(float)
    out = []
    for row, k in zip(t, own, strict=True):
        # The nearest probabilities, by bisection of what is subtracted.
        low, high = row.min() - 1, row.max()
        for _ in range(100):
            middle = (low + high) / 2
            more = np.maximum(row - middle, 0).sum() > 1
            low, high = (middle, high) if more else (low, middle)
        p = np.maximum(row - low, 0)
        q = p @ p
        r = p**2 / q if clf.rule == "renyi" else np.maximum(0, 2 * p - q)
        if clf.rule == "sharp":
            r[p.argmax()] += 1 - r.sum()
        out.append(1 - r[k])
    return np.array(out)


def fold_losses(clf, X, y, weights):
    """Return how often a model of the other nine folds is wrong at each row.

    Copies of a row may be in several folds.
    """
    own_class = np.searchsorted(clf.classes_, y)
    pieces = dealt(clf.encoder_.transform(X), own_class, weights)
    wrong = np.zeros(len(y))
    for k in range(FOLDS):
        held = np.bincount(pieces.places, pieces.share * (pieces.fold == k), len(y))
        other = renyi.RenyiClassifier(alpha=clf.alpha_choice_.alpha)
        other.fit(X, y, sample_weight=weights * np.where(held < 1, 1 - held, 0))
        wrong += held * (other.predict(X) != y)
    return wrong


def test_copies_are_dealt_to_folds_whatever_the_order_and_however_they_are_weighted():
    X, y = table_of(120, 3)
    codes = np.unique(X, return_inverse=True)[1].reshape(X.shape).T
    weights = np.random.default_rng(1).integers(1, 25, len(y))
    row = np.random.default_rng(2).permutation(np.repeat(np.arange(len(y)), weights))
    totals = []
    kind = np.unique(np.vstack([codes, y]), axis=1, return_inverse=True)[1].ravel()
    for place, mass in ((np.arange(len(y)), weights.astype(float)), (row, None)):
        pieces = dealt(codes[:, place], y[place], mass)
        own = np.ones(len(place)) if mass is None else mass
        share = np.bincount(pieces.places, pieces.share)
        np.testing.assert_allclose(share, 1)
        totals.append(np.zeros((kind.max() + 1, FOLDS)))
        each = own[pieces.places] * pieces.share
        np.add.at(totals[-1], (kind[place][pieces.places], pieces.fold), each)
    np.testing.assert_allclose(*totals)
    per_fold = totals[0].sum(axis=0)
    assert per_fold.max() - per_fold.min() <= 1
    # A fraction stays with its copies.
    pieces = dealt(codes[:, :4], y[:4], np.array([0.3, 1.9, 2.5, 1.0]))
    assert sorted(pieces.share.tolist()) == [0.5, 0.5, 1.0, 1.0, 1.0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("rule", ["map", "sharp", "renyi"])
@pytest.mark.parametrize("method", ["loo", "gcv"])
def test_estimate_is_that_of_refits(monkeypatch, method, rule, K, weighted) -> None:
    if method == "gcv":
        monkeypatch.setattr(ridge, "ROWS_PER_INDICATOR", 1)
    X, y = table_of(150, K)
    weights = np.ones(len(y))
    if weighted:
        weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0, 3.5], len(y))
    clf = renyi.RenyiClassifier(rule=rule)
    clf.fit(X, y, sample_weight=weights if weighted else None)
    assert clf.alpha_choice_.method == method
    scores = left_out_scores(clf, X, y, weights)
    seen = clf.fit_.left_out.scores
    np.testing.assert_allclose(seen, scores[:, -seen.shape[1] :], atol=1e-9)
    wrong = losses(clf, scores, y)
    if rule == "map" and K > 2:  # the calibration decides, which is fitted to all rows
        wrong = fold_losses(clf, X, y, weights)
    error = weights @ wrong / weights.sum()
    assert clf.certificate_.loo_error == pytest.approx(error, abs=1e-9)
    number = weights.sum() ** 2 / (weights @ np.minimum(weights, 1))
    assert clf.certificate_.loo_rows == pytest.approx(number)


def test_estimate_is_there_with_many_rows_and_from_every_setting() -> None:
    X, y = table_of(3000, 2)
    for more in ({}, {"calibration": None}, {"alpha": 0.01}, {"objective": "ranking"}):
        clf = renyi.RenyiClassifier(**more).fit(X, y)
        assert clf.alpha_choice_.method != "loo"
        row = error_table(clf.certificate_).named(LEAVE_ONE_OUT)
        assert row.n == 3000
        assert row.low < row.value < row.high
    by_counts = renyi.RenyiClassifier()
    by_counts.fit_marginals(renyi.Marginals.from_data(X, y))
    assert by_counts.certificate_.loo_error is None


@pytest.mark.parametrize(("K", "n"), [(3, 60), (3, 90), (4, 60), (4, 200)])
def test_estimate_is_not_optimistic_about_noise_of_several_classes(K, n) -> None:
    rng = np.random.default_rng(5)
    errors = []
    for _ in range(20):
        X = rng.integers(0, 3, (n, 5)).astype(str).astype(object)
        c = renyi.RenyiClassifier().fit(X, rng.integers(0, K, n)).certificate_
        errors.append(c.loo_error)
        assert "ten-fold cross-validation" in str(c)
    assert abs(np.mean(errors) - (1 - 1 / K)) < 0.05


def test_estimate_of_another_rule_is_not_kept() -> None:
    X, y = table_of(100, 2)
    c = renyi.RenyiClassifier().fit(X, y).certificate_
    assert c.of_rule("sharp").loo_error is None
    own = renyi.RenyiClassifier(rule="sharp").fit(X, y).certificate_
    assert own.loo_error != c.loo_error
    assert error_table(own).estimate.about == "sharp"


def test_no_estimate_where_a_row_is_fitted_alone() -> None:
    X = np.array([["a"], ["b"], ["b"], ["c"], ["c"], ["c"]], object)
    clf = renyi.RenyiClassifier(alpha=0.0).fit(X, [0, 1, 0, 1, 1, 0])
    assert clf.certificate_.loo_error is None


def test_details_by_definition() -> None:
    X, y = table_of(200, 2)
    clf = renyi.RenyiClassifier().fit(X, y)
    details = clf.fit_.left_out_details
    scores = clf.fit_.left_out.scores[:, 0]
    wrong = (scores > 0) != y
    for entry, k in zip(details["by_class"], (0, 1), strict=True):
        assert entry["class"] == str(k)
        assert entry["rows"] == (y == k).sum()
        assert entry["error"] == pytest.approx(wrong[y == k].mean())
    ahead = scores[y == 1][:, None] - scores[y == 0]
    assert details["auc"] == pytest.approx(((ahead > 0) + (ahead == 0) / 2).mean())
    slope = float(clf.scorecard_.calibration.slope)
    signed = np.where(y == 1, scores, -scores)
    loss = np.log1p(np.exp(-slope * signed)).mean()
    assert details["log_loss"] == pytest.approx(loss)


# ---- intervals


@pytest.mark.parametrize("n", [1, 7, 100, 3196.5, 48_842, 5e6])
@pytest.mark.parametrize("error", [0.0, 1e-5, 0.0123, 0.25, 0.5, 0.97, 1.0])
def test_interval_is_that_of_beta_quantiles(error, n) -> None:
    low, high = error_interval(error, n)
    count = error * n
    if count > 0:
        expected = scipy.special.betaincinv(count, n - count + 1, 0.025)
        assert low == pytest.approx(expected, abs=1e-9)
    else:
        assert low == 0
    if count < n:
        expected = scipy.special.betaincinv(count + 1, n - count, 0.975)
        assert high == pytest.approx(expected, abs=1e-9)
    else:
        assert high == 1


def test_hundred_rows_without_an_error() -> None:
    X = np.array([["a"], ["b"]] * 50, object)
    c = renyi.RenyiClassifier().fit(X, ["n", "y"] * 50).certificate_
    row = error_table(c).estimate
    assert f"{row.shown} ({row.interval})" == "0 % (95 % interval 0 to 3.6 %)"


def test_effective_number() -> None:
    assert effective_number(np.array([2.0, 1.0, 3.0])) == 6  # as repeated rows
    assert effective_number(np.full(10, 0.1)) == pytest.approx(10)
    assert effective_number(np.array([1.0, 0.5])) == pytest.approx(2.25 / 1.25)


# ---- the best single column


def single_column_error(x, y) -> float:
    """Leave each row out and answer by the others; a tie counts half."""
    wrong = 0.0
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        same = others & (x == x[i])
        counts = np.bincount(y[same if same.any() else others], minlength=3)
        best = np.flatnonzero(counts == counts.max())
        if len(best) > 1:
            wrong += 0.5 if y[i] in best else 1.0
        else:
            wrong += best[0] != y[i]
    return wrong / len(y)


@pytest.mark.parametrize("seed", range(8))
def test_single_column_against_brute_force(seed) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    X = np.column_stack([rng.integers(0, size, n) for size in (2, 5, 15, 40)])
    y = np.where(rng.random(n) < 0.5, X[:, 1] % 3, rng.integers(0, 3, n))
    expected = {}
    F = []
    columns = []
    for j, x in enumerate(X.T):
        labels = np.unique(x)
        F += [np.bincount(y[x == label], minlength=3) for label in labels]
        columns.append(Column(f"x{j}", Levels("label", tuple(labels.tolist()))))
        expected[f"x{j}"] = single_column_error(x, y)
        own = Columns.of([columns[-1]])
        part = np.array(F[-len(labels) :])
        _, error = best_left_out_feature(part, own, n)
        assert error == pytest.approx(expected[f"x{j}"])
    name, error = best_left_out_feature(np.array(F) / n, Columns.of(columns), n)
    assert error == pytest.approx(min(expected.values()))
    assert expected[name] == pytest.approx(error)


def test_free_text_is_not_better_than_the_baseline() -> None:
    X, y = table_of(90, 2)
    X = np.column_stack([X, [f"text {i % 60}" for i in range(90)]]).astype(object)
    c = renyi.RenyiClassifier().fit(X, y).certificate_
    table = error_table(c)
    m = renyi.Marginals.from_data(X, y)
    assert best_feature(m.F, m.encoder.columns)[0] == "x4"
    assert c.one_feature[0] != "x4"
    m = renyi.Marginals.from_data(X[:, 4:], y)
    _, error = best_left_out_feature(m.F, m.encoder.columns, m.n)
    assert error >= table.always.value


def test_verdict_by_the_interval() -> None:
    X, y = table_of(400, 2)
    c = renyi.RenyiClassifier().fit(X, y).certificate_
    _, high = error_interval(c.loo_error, c.n)
    better = replace(c, majority=(0, high + 0.002))
    assert error_table(better).verdict == "better"
    barely = replace(c, majority=(0, high - 1e-6))
    assert error_table(barely).verdict == "barely"
    useless = replace(c, majority=(0, c.loo_error))
    assert error_table(useless).verdict == "no better"
