"""Tables with large features: sparse counts give the same fit as dense ones."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renyi import Marginals, RenyiClassifier
from renyi.counting import sparse_counts
from renyi.solvers import krylov, ridge, ridge_sparse
from renyi.warnings import DataWarning

EPS = np.finfo(float).eps


@pytest.fixture
def sparse(monkeypatch):
    """Store every table sparse, whatever its size."""

    def switch(on: bool, affordable: float = np.inf) -> None:
        monkeypatch.setattr(sparse_counts, "FEW", 0 if on else 10**9)
        monkeypatch.setattr(sparse_counts, "OWN_SHARE", 0.0)
        monkeypatch.setattr(ridge_sparse, "AFFORDABLE", affordable)

    return switch


def rows(seed: int, n: int = 60, classes: int = 2, separable: bool = False):
    """Return a table with a large column, one that follows from it, and empty cells."""
    rng = np.random.default_rng(seed)
    label = rng.integers(rng.integers(3, 15), size=n)
    X = pd.DataFrame(
        {
            "small": rng.choice(["a", "b", "c"], n),
            "label": [f"label {k}" for k in label],
            "group": [f"group {k % 3}" for k in label],
            "number": rng.normal(size=n).round(1),
        }
    )
    X.loc[rng.random(n) < 0.1, "label"] = None
    y = label % classes if separable else rng.integers(classes, size=n)
    y[:classes] = np.arange(classes)
    return X, y, rng.choice([0.5, 1.0, 2.0, 3.0], n)


def facts(clf: RenyiClassifier, X: pd.DataFrame) -> list[np.ndarray]:
    """Return all that a fit is to agree in."""
    choice, c = clf.alpha_choice_, clf.certificate_
    estimates = [np.nan if v is None else v for v in (choice.risk, choice.error)]
    bounds = [c.gamma, *c.bounds.values()]
    scores = clf.decision_function(X)
    return [np.array(v) for v in (choice.alpha, estimates, bounds, scores)]


@given(
    seed=st.integers(0, 10**6),
    classes=st.sampled_from([2, 3]),
    separable=st.booleans(),
    weighted=st.booleans(),
    fit_intercept=st.booleans(),
    alpha=st.sampled_from(["auto", "loo", 0.0, 1e-9, 1e-6, 1e-3, 0.3]),
    by_rows=st.booleans(),
    class_weight=st.sampled_from([None, "balanced"]),
)
def test_the_fit_is_that_of_the_dense_road(
    seed, classes, separable, weighted, fit_intercept, alpha, by_rows, class_weight
) -> None:
    X, y, weights = rows(seed, classes=classes, separable=separable)
    weights = weights if weighted else None
    by_rows |= alpha == "loo"
    clf = RenyiClassifier(
        alpha=alpha,
        fit_intercept=fit_intercept,
        class_weight=class_weight,
        calibration=None,  # scores as they are fitted
    )
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for few in (10**9, 0):
            patch.setattr(sparse_counts, "FEW", few)
            patch.setattr(sparse_counts, "OWN_SHARE", 0.0)
            if by_rows:
                clf.fit(X, y, sample_weight=weights)
            else:
                clf.fit_marginals(
                    Marginals.from_data(
                        X, y, sample_weight=weights, class_conditional=True
                    )
                )
            assert sparse_counts.is_sparse(clf.marginals_.counts) == (few == 0)
            found.append((*facts(clf, X), clf.z_, np.array(clf.alpha_choice_.risks)))
    dense, own = found
    # At alpha the equations' condition is 1/alpha, where scores do not hang on it.
    near = 1e-9 if alpha in ("auto", "loo", 0.0) else 1e-9 + EPS / alpha
    for k, close in enumerate((1e-9, near, 1e-9, 1e-9, near)):
        np.testing.assert_allclose(own[k], dense[k], rtol=close, atol=close)
    kept = ridge.alpha_grid(4) >= 1e-6 if len(own[5]) else slice(None)
    np.testing.assert_allclose(own[5][kept], dense[5][kept], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.1, "auto", "loo"])
def test_a_single_column_without_intercept(sparse, alpha) -> None:
    X, y, _ = rows(7, classes=3)
    clf = RenyiClassifier(alpha=alpha, fit_intercept=False)
    found = []
    for on in (False, True):
        sparse(on)
        found.append(facts(clf.fit(X[["label"]], y), X[["label"]]))
    for k, (dense, own) in enumerate(zip(*found, strict=True)):
        some = slice(1 if k == 1 else None)  # labels of one row tie, left out
        np.testing.assert_allclose(own.ravel()[some], dense.ravel()[some], atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_products_alone_give_the_same_points(sparse, classes) -> None:
    X, y, _ = rows(3, 900, classes)
    rng = np.random.default_rng(0)
    X["other"] = [f"other {k}" for k in rng.integers(60, size=900)]
    m = Marginals.from_data(X, y)
    clf = RenyiClassifier().fit_marginals(m)
    sparse(True, affordable=0)
    m = Marginals.from_data(X, y)
    own = RenyiClassifier().fit_marginals(m)
    assert own.alpha_ == clf.alpha_
    np.testing.assert_allclose(own.z_, clf.z_, rtol=0, atol=1e-9)
    assert own.certificate_.gamma == pytest.approx(clf.certificate_.gamma, abs=1e-12)
    # The degrees of freedom are estimated, all else is exact.
    np.testing.assert_allclose(
        own.alpha_choice_.risks, clf.alpha_choice_.risks, rtol=5e-3
    )
    # What takes a decomposition is done as ever.
    for alpha in (0.0, "loo"):
        own = RenyiClassifier(alpha=alpha).fit(X, y)
        assert sparse_counts.is_sparse(own.marginals_.counts)
        sparse(False)
        clf = RenyiClassifier(alpha=alpha).fit(X, y)
        sparse(True, affordable=0)
        np.testing.assert_allclose(own.z_, clf.z_, rtol=0, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), size=st.integers(1, 40))
def test_one_run_of_lanczos_serves_every_alpha(seed, size) -> None:
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(size, size))
    A, R = half @ half.T / size, rng.normal(size=(size, 2))
    alphas = np.logspace(-4, 1, 7)
    fit, norm, degrees = krylov.spectrum(lambda V: A @ V, R, alphas)
    values = np.linalg.eigvalsh(A)
    for k, alpha in enumerate(alphas):
        Z = np.linalg.solve(A + alpha * np.eye(size), R)
        assert fit[k] == pytest.approx((R * Z).sum(), rel=1e-6)
        assert norm[k] == pytest.approx((Z * Z).sum(), rel=1e-6)
        inverse = np.linalg.inv(A + alpha * np.eye(size))
        beside = A @ inverse - np.diag(np.diag(A @ inverse))
        error = np.sqrt(2 * (beside**2).sum() / krylov.PROBES)
        exact = (values / (values + alpha)).sum()
        assert abs(degrees[k] - exact) <= 6 * error + 1e-6 * size
        found = krylov.solve(lambda V: A @ V, R, alpha, np.diag(A))
        np.testing.assert_allclose(found, Z, rtol=0, atol=1e-8 * np.abs(Z).max())


@pytest.mark.parametrize("alpha", ["auto", "loo", 1e-4, 0.01])
@pytest.mark.parametrize("classes", [2, 3])
def test_fewer_rows_than_categories_by_counts_or_by_rows(
    sparse, classes: int, alpha: float | str
) -> None:
    """Which of the two is a matter of cost alone: leave-one-out chooses alpha."""
    for seed, weighted in ((0, False), (1, True), (2, True)):
        rng = np.random.default_rng(seed)
        label = rng.permutation(np.append(np.arange(51), rng.integers(51, size=9)))
        X = pd.DataFrame({"label": label, "group": label % 7, "small": label % 8 // 3})
        X, y = X.astype(str), rng.integers(classes, size=60)
        w = rng.choice([0.5, 1.0, 2.0, 3.0], 60) if weighted else None
        found = []
        for on in (False, True):
            sparse(on, affordable=0)
            clf = RenyiClassifier(alpha=alpha).fit(X, y, sample_weight=w)
            assert (clf.marginals_ is not None) == on
            found.append([*facts(clf, X), clf.predict_proba(X)])
        for plain, other in zip(*found, strict=True):
            np.testing.assert_allclose(other, plain, rtol=1e-8, atol=1e-9)
        for other in ({"alpha": 0.0}, {"alpha": alpha, "class_weight": "balanced"}):
            assert RenyiClassifier(**other).fit(X, y).marginals_ is None


@pytest.mark.parametrize("affordable", [0, np.inf])
def test_marginals_that_no_rows_have_are_refused(sparse, affordable) -> None:
    X, y, _ = rows(5)
    sparse(True, affordable)
    m = Marginals.from_data(X, y)
    wrong = m.counts.toarray()
    a, b, c = (
        m.columns.spans(["small"]),
        m.columns.spans(["group"]),
        m.columns.spans(["label"]),
    )
    wrong[np.ix_(a, b)], wrong[np.ix_(b, a)] = 0, 0
    wrong[np.ix_(c, a)], wrong[np.ix_(a, c)] = m.n, m.n
    with pytest.raises(ValueError, match="positive semidefinite"):
        RenyiClassifier().fit_marginals(
            Marginals(wrong, m.n, m.columns, m.target, m.settings)
        )


def test_many_labels_cost_as_much_as_their_counts() -> None:
    rng = np.random.default_rng(0)
    label, x = np.arange(30_000) % 6_000, rng.integers(4, size=30_000)
    X = pd.DataFrame({"label": [f"{k:05}" for k in label], "x": x.astype(str)})
    y = (label % 7 + x + rng.integers(3, size=30_000)) % 2
    clf = RenyiClassifier().fit(X, y)
    assert clf.marginals_.counts.nnz < 100_000
    assert clf.certificate_.gamma < 0.25
    again = RenyiClassifier().fit_marginals(Marginals.from_data(X, y))
    np.testing.assert_allclose(again.z_, clf.z_, atol=1e-12)


def test_what_does_not_converge_is_told(monkeypatch) -> None:
    """Points that are not quite those of alpha have a certificate all the same."""
    A = np.diag(np.logspace(-6, 0, 50))
    R = np.ones((50, 1))
    whole = krylov.solve(lambda V: A @ V, R, 1e-9, np.ones(50))
    np.testing.assert_allclose((A + 1e-9 * np.eye(50)) @ whole, R, rtol=1e-6)
    monkeypatch.setattr(krylov, "_ROUNDS", 3)
    with pytest.warns(DataWarning, match="conjugate gradients") as told:
        krylov.solve(lambda V: A @ V, R, 1e-9, np.ones(50))
    assert told[0].message.code == "not-converged"


def test_conjugate_gradients_end_at_a_residual_and_tell_of_it() -> None:
    rng = np.random.default_rng(3)
    B = rng.normal(size=(60, 80))
    A, R = B @ B.T, rng.normal(size=(60, 2))
    R[:, 1] *= 1e6  # shares are of each column

    def solved(rounds: int = 100) -> krylov.Solution:
        given = (lambda V: A @ V), R, 5.0, np.diag(A)
        return krylov.conjugate_gradients(*given, 1e-4, rounds)

    found = solved()
    left = np.linalg.norm(R - A @ found.Z - 5 * found.Z, axis=0)
    share = (left / np.linalg.norm(R, axis=0)).max()
    assert share <= 1e-4
    np.testing.assert_allclose(found.residual, share, rtol=1e-6)
    short = solved(found.rounds - 1)
    assert short.rounds == found.rounds - 1
    assert short.residual > 1e-4 >= found.residual


def test_estimates_that_have_not_settled_are_told_of(monkeypatch) -> None:
    values, alphas = np.linspace(0, 1, 400)[:, None], np.array([1e-6, 0.1])
    fit, _, _ = krylov.spectrum(lambda V: values * V, np.ones((400, 1)), alphas)
    exact = (1 / (values + alphas)).sum(axis=0)
    np.testing.assert_allclose(fit, exact, rtol=1e-6)
    monkeypatch.setattr(krylov, "_STEPS", 60)
    with pytest.warns(DataWarning, match="Lanczos") as told:
        krylov.spectrum(lambda V: values * V, np.ones((400, 1)), alphas)
    assert told[0].message.code == "not-converged"
    krylov.spectrum(lambda V: values * V, np.ones((400, 1)), alphas[1:])
