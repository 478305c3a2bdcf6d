"""MinimaxProbabilityMachine: the cone program, the guarantee, manners."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.multiclass import OneVsRestClassifier

from renyi import Encoder, Marginals
from renyi.baselines import MinimaxProbabilityMachine
from renyi.baselines.mpm import fit_half_space, indicator_moments
from renyi.datasets import random_joint
from support.joints import one_hot, outcomes, worst_case
from support.manners import all_checks, by_any_road, refuses


def root(S: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(S)
    return np.sqrt(np.maximum(values, 0))[:, None] * vectors.T


def cone_program(means: np.ndarray, covariances: np.ndarray) -> float:
    """Minimum of √(aᵀΣ₀a) + √(aᵀΣ₁a) subject to aᵀ(μ₁ − μ₀) = 1, by Clarabel."""
    D = means.shape[1]
    cost = np.concatenate([np.zeros(D), [1.0, 1.0]])
    rows = [np.concatenate([means[1] - means[0], [0.0, 0.0]])[None, :]]
    for y in (0, 1):
        head = np.zeros((1, D + 2))
        head[0, D + y] = -1.0
        rows += [head, np.hstack([-root(covariances[y]), np.zeros((D, 2))])]
    b = np.zeros(1 + 2 * (D + 1))
    b[0] = 1.0
    cones = [clarabel.ZeroConeT(1), *[clarabel.SecondOrderConeT(D + 1)] * 2]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    A = sp.csc_matrix(np.vstack(rows))
    nothing = sp.csc_matrix((D + 2, D + 2))
    found = clarabel.DefaultSolver(nothing, cost, A, b, cones, settings).solve()
    assert str(found.status) in {"Solved", "AlmostSolved"}
    return float(found.obj_val)


def moments(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class shares, means and covariances of a joint table, by enumeration."""
    W = one_hot(outcomes(table.shape[:-1]), table.shape[:-1])
    P = table.reshape(len(W), -1)
    shares = P.sum(axis=0)
    means = (P / shares).T @ W
    covariances = [
        (W - mean).T @ ((p / p.sum())[:, None] * (W - mean))
        for p, mean in zip(P.T, means, strict=True)
    ]
    return shares, means, np.array(covariances)


# ---- the half space


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("noise", [0.0, 1e-3, 0.1])
def test_agrees_with_the_cone_program(seed: int, noise: float) -> None:
    """One-hot covariances: singular, unless there is noise."""
    sizes = np.array((3, 2, 4, 2)[: 2 + seed % 3])
    table = random_joint(tuple(sizes), 2, random_state=seed)
    _, means, plain = moments(table)
    covariances = plain + noise * np.eye(plain.shape[1])
    space = fit_half_space(means, covariances, sizes)
    truth = cone_program(means, covariances)
    assert 1 / space.kappa == pytest.approx(truth, abs=1e-6, rel=1e-6)
    spread = [np.sqrt(max(space.a @ S @ space.a, 0)) for S in covariances]
    assert sum(spread) == pytest.approx(1 / space.kappa, rel=1e-6)
    assert space.a @ (means[1] - means[0]) == pytest.approx(1.0)
    distance = [space.b - space.a @ means[0], space.a @ means[1] - space.b]
    assert distance == pytest.approx(space.kappa * np.array(spread), rel=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_the_cone_program_on_full_covariances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(2, 6, 6))
    means = rng.normal(size=(2, 6))
    covariances = np.stack([A @ A.T, 0.01 * B @ B.T])
    space = fit_half_space(means, covariances, np.ones(6, int))
    assert 1 / space.kappa == pytest.approx(cone_program(means, covariances), rel=1e-6)


def test_moments_from_counts_are_those_of_the_rows(votes) -> None:
    X, y = votes
    m = Marginals.from_data(X, y, class_conditional=True)
    sizes = m.encoder.columns.sizes
    shares, means, covariances = indicator_moments(m.class_counts, sizes)
    W = one_hot(m.encoder.transform(X).T.astype(int), sizes)
    for k, label in enumerate(m.classes):
        rows = W[(y == label).to_numpy()]
        assert shares[k] == pytest.approx(len(rows) / len(W))
        np.testing.assert_allclose(means[k], rows.mean(axis=0), atol=1e-12)
        truth = np.cov(rows.T, bias=True)
        np.testing.assert_allclose(covariances[k], truth, atol=1e-12)


def test_a_feature_that_tells_the_classes_apart(votes) -> None:
    """κ is infinite where neither class varies."""
    X, y = votes
    told = X.assign(answer=y.to_numpy())
    clf = MinimaxProbabilityMachine(regularisation=0.0).fit(told, y)
    assert clf.kappa_ == np.inf
    assert clf.guarantee_ == pytest.approx(0.0, abs=1e-12)
    assert clf.score(told, y) == 1.0
    some = MinimaxProbabilityMachine(regularisation=0.1).fit(told, y)
    assert np.isfinite(some.kappa_)
    assert 0 < some.guarantee_ < 1 / (1 + some.kappa_**2)


def test_one_class_that_does_not_vary() -> None:
    """The first class is always "a": the best share s is at its end."""
    X = [["a"]] * 50 + [["a"]] * 10 + [["b"]] * 40
    y = [0] * 50 + [1] * 50
    clf = MinimaxProbabilityMachine(regularisation=0.0).fit(X, y)
    _, means, covariances = indicator_moments(
        clf.marginals_.class_counts, np.array([2])
    )  # fmt: skip
    truth = cone_program(means, covariances)
    assert 1 / clf.kappa_ == pytest.approx(truth, abs=1e-6)
    assert clf.kappa_ == pytest.approx(0.8 / np.sqrt(0.16), rel=1e-6)
    assert clf.predict([["a"], ["b"]]).tolist() == [0, 1]
    assert clf.guarantee_ == pytest.approx(0.5 / (1 + clf.kappa_**2), abs=1e-4)


def test_equal_means_leave_the_larger_class() -> None:
    X = [["a"], ["b"]] * 30
    y = [0, 0] * 10 + [1, 1] * 20
    for regularisation in (0.0, 0.1):
        clf = MinimaxProbabilityMachine(regularisation).fit(X, y)
        assert clf.kappa_ == 0
        assert clf.guarantee_ == pytest.approx(1 / 3)
        assert clf.predict(X).tolist() == [1] * 60


# ---- the guarantee


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_no_distribution_with_these_pairs_errs_more(seed: int, noise: float) -> None:
    table = random_joint((2, 3, 2), 2, random_state=seed)
    codes = outcomes(table.shape)
    clf = MinimaxProbabilityMachine(noise)
    clf.fit(codes[:, :-1].astype(str), codes[:, -1], sample_weight=table.ravel())
    # P(X_i, X_j, Y) of all pairs fix the means and covariances of both classes.
    W = one_hot(codes[:, :-1], table.shape[:-1])
    second = np.einsum("ni,nj->ijn", W, W).reshape(-1, len(W))
    A = sp.csr_array(np.vstack([second * (codes[:, -1] == y) for y in (0, 1)]))
    X = outcomes(table.shape[:-1]).astype(str)
    proba = np.eye(2)[clf.predict(X)]
    worst = worst_case(proba, A, A @ table.ravel())
    assert worst <= clf.guarantee_ + 1e-9
    assert clf.guarantee_ <= 1 / (1 + clf.kappa_**2) + 1e-9
    if not noise:
        assert clf.guarantee_ == pytest.approx(1 / (1 + clf.kappa_**2), abs=1e-9)


def tables_of(shape: tuple[int, ...], n: int) -> Iterator[np.ndarray]:
    """Every table of n rows in which each class and each category occurs."""
    cells = 2 * int(np.prod(shape))
    for bars in combinations(range(n + cells - 1), cells - 1):
        counts = np.diff([-1, *bars, n + cells - 1]) - 1
        table = counts.reshape(*shape, 2)
        axes = range(table.ndim)
        if all(table.sum(axis=tuple({*axes} - {i})).all() for i in axes):
            yield table


@pytest.mark.parametrize(
    ("shape", "n", "count"),
    [
        ((3,), 6, 211),
        ((4,), 5, 88),
        ((2, 2), 4, 172),
        pytest.param((3,), 8, 777, marks=pytest.mark.long),
        pytest.param((4,), 6, 324, marks=pytest.mark.long),
    ],
)
def test_rows_behind_the_counts_err_no_more(shape, n, count) -> None:
    """One class may not vary at all: rows at the threshold, variances of rounding."""
    found = 0
    for table in tables_of(shape, n):
        codes = np.repeat(outcomes(table.shape), table.ravel(), axis=0)
        X, y = codes[:, :-1].astype(str), codes[:, -1]
        clf = MinimaxProbabilityMachine(regularisation=0.0).fit(X, y)
        assert (clf.predict(X) != y).mean() <= clf.guarantee_ + 1e-9, table.tolist()
        # Nor is it larger than the machine's promise.
        if clf.kappa_ > 0:
            assert clf.guarantee_ <= 1 / (1 + clf.kappa_**2) + 1e-4, table.tolist()
        found += 1
    assert found == count


# ---- the estimator


@pytest.mark.parametrize(
    ("estimator", "check"),
    all_checks(
        [
            MinimaxProbabilityMachine(),
            MinimaxProbabilityMachine(regularisation=0.0, encoder=Encoder(bins=3)),
        ]
    ),
)
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


@pytest.mark.parametrize("regularisation", [0.0, 0.01])
def test_weights_are_repetitions(regularisation: float) -> None:
    """To the last bit: scikit-learn 1.6 compares two targets where it checks this."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, y, w = rng.random((15, 9)), rng.integers(0, 2, 15), rng.integers(0, 5, 15)
        order = rng.permutation(15)
        clf = MinimaxProbabilityMachine(regularisation, Encoder(bins=3))
        scores = clf.fit(X.repeat(w, axis=0), y.repeat(w)).decision_function(X)
        clf.fit(X[order], y[order], sample_weight=w[order])
        assert clf.decision_function(X).tolist() == scores.tolist()


def test_any_road_to_the_same_model(votes) -> None:
    X, y = votes

    def same(a, b) -> None:
        assert a.kappa_ == pytest.approx(b.kappa_)
        scores = [clf.decision_function(X) for clf in (a, b)]
        np.testing.assert_allclose(*scores, atol=1e-7)

    a, b = by_any_road(MinimaxProbabilityMachine(), X, y, same)
    assert a.guarantee_ == pytest.approx(b.guarantee_, abs=1e-12)
    np.testing.assert_allclose(a.decision_function(X), b.decision_function(X))
    assert (a.predict(X) != y).mean() <= a.guarantee_


def test_an_unseen_label_has_the_mean_effect(votes) -> None:
    X, y = votes
    clf = MinimaxProbabilityMachine().fit(X, y)
    other = X[:1].copy()
    other["crime"] = "abstained"
    shares = X["crime"].fillna("?").value_counts(normalize=True)
    mean = sum(
        share * clf.decision_function(X[:1].assign(crime=label))[0]
        for label, share in shares.items()
    )
    assert clf.decision_function(other)[0] == pytest.approx(mean)


def test_more_classes_one_against_the_rest() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    noise = rng.random((200, 4)) < 0.3
    X = np.where(noise, rng.integers(0, 3, (200, 4)), y[:, None])
    with pytest.raises(ValueError, match="there are 3 classes"):
        MinimaxProbabilityMachine().fit(X, y)
    many = OneVsRestClassifier(MinimaxProbabilityMachine()).fit(X, y)
    assert many.score(X, y) > 0.9


def test_bad_input_is_refused_in_a_sentence(votes) -> None:
    X, y = votes
    with pytest.raises(ValueError, match="regularisation must be a variance"):
        MinimaxProbabilityMachine(regularisation=-1).fit(X, y)
    with pytest.raises(ValueError, match="zero or more; it is 'x'"):
        MinimaxProbabilityMachine("x").fit(X, y)
    refuses(MinimaxProbabilityMachine(), X, y)
