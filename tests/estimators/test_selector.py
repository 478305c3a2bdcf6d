"""RenyiSelector: exactly k, refits, pairs, and the manners of scikit-learn."""

from __future__ import annotations

import warnings
from itertools import combinations, product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

import renyi
from renyi import selection
from renyi.datasets import load
from renyi.selecting import assign_folds, cross_validate_forward
from renyi.selection import counts_problem
from renyi.solvers.l1inf import RowsProblem
from renyi.solvers.l1inf_path import solve_path
from support.manners import SEPARATE, all_checks
from support.noisyrows import noisy
from support.repeats import few

# ---- exactly k


def test_exactly_k_for_every_k_with_copies_and_constants():
    X, y = noisy(n=120, d=5)
    X = X.assign(again=X["c0"], constant="a", twice=X["c0"], c1_again=X["c1"])
    d = X.shape[1]
    sets = []
    for k in range(1, d + 1):
        selector = renyi.RenyiSelector(n_features=k).fit(X, y)
        assert len(selector.features_) == selector.get_support().sum() == k
        assert selector.transform(X).shape == (120, k)
        sets.append(set(selector.features_))
    assert {"c0", "c1"} == sets[1]
    assert all(a < b for a, b in zip(sets, sets[1:], strict=False))
    copies = {"again", "twice", "c1_again", "constant"}
    assert not copies & sets[4]
    assert set(selector.features_[-4:]) == copies
    assert np.isnan(selector.path_.lambdas[-4:]).all()
    by_cv = renyi.RenyiSelector().fit(X, y)
    assert {"c0", "c1"} <= set(by_cv.features_)
    assert not copies & set(by_cv.features_)


def test_exactly_k_from_marginals_and_with_more_categories_than_rows():
    X, y = noisy(n=20, d=7)
    m = renyi.Marginals.from_data(X, y)
    for k in (1, 5, 7):
        by_rows = renyi.RenyiSelector(n_features=k).fit(X, y)
        by_counts = clone(by_rows).fit_marginals(m)
        assert len(by_rows.features_) == k
        assert set(by_rows.features_) == set(by_counts.features_)


# ---- refit


def test_refit_is_the_classifier_of_the_selected_columns(votes):
    X, y = votes
    selector = renyi.RenyiSelector(n_features=4).fit(X, y)
    columns = selector.get_feature_names_out().tolist()
    alone = renyi.RenyiClassifier(random_state=0).fit(X[columns], y)
    clf = selector.classifier_
    np.testing.assert_array_equal(clf.z_, alone.z_)
    assert clf.alpha_choice_ == alone.alpha_choice_
    assert clf.feature_names_in_.tolist() == columns
    np.testing.assert_array_equal(selector.predict(X), alone.predict(X[columns]))
    proba = selector.predict_proba(X)
    np.testing.assert_array_equal(proba, alone.predict_proba(X[columns]))
    scores = selector.decision_function(X)
    np.testing.assert_array_equal(scores, alone.decision_function(X[columns]))
    assert selector.score(X, y) == alone.score(X[columns], y)
    frame = clone(selector).set_output(transform="pandas").fit_transform(X, y)
    np.testing.assert_array_equal(clf.predict(frame), alone.predict(X[columns]))


def test_certificate_tells_of_the_selection(votes):
    X, y = votes
    some = renyi.RenyiSelector(n_features=4).fit(X, y).classifier_
    every = renyi.RenyiSelector(n_features=16).fit(X, y).classifier_
    told = "the features were selected on the same rows"
    assert any(told in text for text in some.certificate_.warnings)
    assert not any(told in text for text in every.certificate_.warnings)
    m = renyi.Marginals.from_data(X, y)
    counted = renyi.RenyiSelector(n_features=4).fit_marginals(m).classifier_
    assert any(told in text for text in counted.certificate_.warnings)


def test_nobody_is_told_to_go_by_an_estimate_after_selection():
    """Few rows: no bound is shown, and the estimate is too good to go by."""
    X, y = load("promoters")
    some = renyi.RenyiSelector(n_features=20).fit(X, y).classifier_.certificate_
    every = renyi.RenyiClassifier().fit(X, y).certificate_
    assert some.doubtful and every.doubtful
    warning = "selected on the same rows: expect more errors"
    assert warning in " ".join(str(some).split())
    assert warning not in " ".join(str(every).split())
    for c in (some, every):
        assert "Guarantee: none useful." in str(c)
    assert some.loo_error < every.loo_error


def test_arrays_arrow_tables_and_pipelines(votes, tmp_path):
    X, y = votes
    known = renyi.RenyiSelector(n_features=3).fit(X, y)
    array = renyi.RenyiSelector(n_features=3).fit(X.to_numpy(), y.to_numpy())
    assert not hasattr(array.classifier_, "feature_names_in_")
    assert array.features_[0] == "x3"
    np.testing.assert_array_equal(array.predict(X.to_numpy()), known.predict(X))
    table = pa.Table.from_pandas(X)
    np.testing.assert_array_equal(known.predict(table), known.predict(X))
    by_marginals = renyi.RenyiSelector(n_features=3).fit_marginals(
        renyi.Marginals.from_data(X.to_numpy(), y.to_numpy())
    )
    assert by_marginals.predict(X.to_numpy()).shape == (435,)
    pipe = make_pipeline(
        renyi.RenyiSelector(n_features=3), renyi.RenyiClassifier()
    ).fit(X, y)  # fmt: skip
    assert pipe.score(X, y) == known.score(X, y)
    assert isinstance(known, SelectorMixin)
    known.classifier_.save(tmp_path / "m.json")
    again = renyi.RenyiClassifier.load(tmp_path / "m.json")
    np.testing.assert_array_equal(
        again.predict(X[again.feature_names_in_]), known.predict(X)
    )


def test_noise_leaves_one_feature_at_least():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (60, 4)).astype(str)
    y = np.array([0, 1] * 30)
    selector = renyi.RenyiSelector().fit(X, y)
    assert len(selector.features_) >= 1
    constant = np.array([["a", "b"]] * 30 + [["a", "c"]] * 30)
    one = renyi.RenyiSelector().fit(constant, y)
    assert one.features_.tolist() == ["x1"]


def test_columns_go_back_to_their_places():
    X, y = load("votes")
    selector = renyi.RenyiSelector(n_features=3).fit(X, y)
    few = selector.set_output(transform="pandas").transform(X)
    assert few.isna().any(axis=None)  # votes has missing cells
    whole = pd.DataFrame(selector.inverse_transform(few), columns=X.columns)
    chosen = selector.get_support()
    pd.testing.assert_frame_equal(
        whole.loc[:, chosen], few.reset_index(drop=True), check_dtype=False
    )
    assert whole.loc[:, ~chosen].isna().all(axis=None)
    np.testing.assert_array_equal(selector.predict(whole), selector.predict(X))
    with pytest.raises(ValueError, match="3 columns"):
        selector.inverse_transform(X)


def test_numbers_go_back_as_numbers():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (60, 4))
    selector = renyi.RenyiSelector(n_features=2).fit(X, X[:, 1] > 0)
    whole = selector.inverse_transform(selector.transform(X))
    assert whole.dtype == np.float64
    chosen = selector.get_support()
    np.testing.assert_array_equal(whole[:, chosen], X[:, chosen])


@pytest.mark.parametrize(
    "estimator",
    [
        renyi.RenyiClassifier(),
        renyi.RenyiSelector(),
        renyi.baselines.TreeAugmentedNaiveBayes(),
        renyi.baselines.DiscreteChebyshevClassifier(),
        renyi.baselines.MinimaxProbabilityMachine(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_rows_in_place_of_marginals(estimator):
    X, _ = load("votes")
    with pytest.raises(TypeError, match="takes Marginals, not a DataFrame"):
        estimator.fit_marginals(X)


# ---- how many, otherwise


def test_penalty_by_number(votes):
    X, y = votes
    m = renyi.Marginals.from_data(X, y)
    found = solve_path(counts_problem(m), np.array([0.05]))
    for selector in (
        renyi.RenyiSelector(penalty=0.05, method="path").fit(X, y),
        renyi.RenyiSelector(penalty=0.05, method="path").fit_marginals(m),
    ):
        np.testing.assert_array_equal(selector.get_support(), found.active[0])
        assert selector.penalty_ == pytest.approx(0.05)
        assert selector.cv_ is None


@pytest.mark.parametrize("rule", ["map", "sharp"])
def test_fewest_features_for_a_certified_error(votes, rule):
    X, y = votes
    cap = {"map": 0.14, "sharp": 0.07}[rule]
    selector = renyi.RenyiSelector(max_error=cap, rule=rule).fit(X, y)
    k = len(selector.features_)
    assert selector.classifier_.certificate_.bounds[rule] <= cap
    for fewer in range(1, k):
        S = list(selector.path_.features(fewer))
        clf = renyi.RenyiClassifier(rule=rule).fit(X[S], y)
        assert clf.certificate_.bounds[rule] > cap
    with pytest.raises(ValueError, match=r"max_error=0\.001 cannot be certified"):
        renyi.RenyiSelector(max_error=0.001).fit(X, y)


@pytest.mark.parametrize("rule", few(1, ["map", "sharp"]))
def test_all_features_are_tried_for_a_certified_error(rule):
    X, y = load("credit")
    one = renyi.RenyiSelector(n_features=1, method="path").fit(X, y)
    entered = set(one.path_.entries)
    entered |= set(renyi.selection_path(renyi.Marginals.from_data(X, y)).entries)
    assert len(entered) < 15
    reached = renyi.RenyiClassifier(rule=rule).fit(X, y).certificate_.bounds[rule]
    without = renyi.RenyiClassifier(rule=rule).fit(X[[c for c in X if c in entered]], y)
    cap = reached + 1e-5
    assert without.certificate_.bounds[rule] > cap
    selector = renyi.RenyiSelector(max_error=cap, rule=rule, method="path").fit(X, y)
    assert selector.classifier_.certificate_.bounds[rule] <= cap
    assert len(selector.features_) > len(entered)
    message = "cannot be certified: a model of all 15 features reaches"
    with pytest.raises(ValueError, match=message):
        renyi.RenyiSelector(max_error=reached - 0.01, rule=rule).fit(X, y)


def test_passes_have_a_limit(monkeypatch):
    X, y = noisy(n=30, d=12)
    few = renyi.RenyiSelector(n_features=12, method="path")
    monkeypatch.setattr(selection, "TOL", 1e-9)
    assert few.fit(X, y).path_.lasso.converged
    monkeypatch.setattr(selection, "MAX_PASSES", 5)
    with pytest.warns(ConvergenceWarning, match="within 5 passes"):
        assert not few.fit(X, y).path_.lasso.converged


def test_marginals_alone_choose_by_generalised_cross_validation():
    X, y = noisy(n=400, d=12)
    m = renyi.Marginals.from_data(X, y)
    selector = renyi.RenyiSelector().fit_marginals(m)
    k = len(selector.features_)
    risks = []
    for j in range(1, len(selector.path_.entries) + 1):
        S = list(selector.path_.features(j))
        alphas = len(selector.path_.entries) * np.logspace(-8, 1, 10)
        fits = [
            renyi.RenyiClassifier(alpha=a).fit_marginals(m.select(S)) for a in alphas
        ]
        risks.append(min(fit.alpha_choice_.risk for fit in fits))
    assert risks[k - 1] == pytest.approx(min(risks), rel=1e-9)
    assert {"c0", "c1"} <= set(selector.features_)
    assert k < 12
    with pytest.raises(ValueError, match="total weight 1 "):
        renyi.RenyiSelector().fit_marginals(m * (1 / m.n))


@pytest.mark.parametrize("method", ["forward", "path"])
def test_weights_count_as_repetition(method):
    X, y = noisy(n=80)
    weights = np.arange(80) % 3
    kept = np.repeat(np.arange(80), weights)
    a = renyi.RenyiSelector(method=method).fit(X, y, sample_weight=weights)
    b = renyi.RenyiSelector(method=method).fit(X.iloc[kept], y[kept])
    assert a.features_.tolist() == b.features_.tolist()
    assert a.penalty_ == pytest.approx(b.penalty_, nan_ok=method == "forward")
    np.testing.assert_allclose(a.cv_.risks, b.cv_.risks, rtol=1e-6)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-9)


# ---- pairs


def pair_columns(X):
    return pd.DataFrame(
        {f"{a} & {b}": X[a] + " & " + X[b] for a, b in combinations(X.columns, 2)}
    )


@pytest.mark.parametrize("n", [400, 30])
def test_pairs_are_selected_as_columns_of_pairs_would_be(n, monkeypatch):
    """With fewer categories than rows, and with more."""
    X, y = noisy(n=n, d=5)
    monkeypatch.setattr(selection, "TOL", 1e-6)
    settings = {"method": "path", "penalty": 0.1}
    pairs = renyi.RenyiSelector(order=2, **settings).fit(X, y)
    made = pair_columns(X)
    columns = renyi.RenyiSelector(**settings).fit(made, y)
    assert pairs.features_.tolist() == columns.features_.tolist()
    assert len(pairs.features_) > 2
    np.testing.assert_allclose(pairs.path_.gamma, columns.path_.gamma, atol=1e-9)
    np.testing.assert_allclose(
        pairs.decision_function(X), columns.decision_function(made), atol=1e-9
    )
    used = {name for pair in pairs.features_ for name in pair.split(" & ")}
    assert set(pairs.get_feature_names_out()) == used
    assert pairs.transform(X).shape == (n, len(used))
    counted = renyi.Marginals.from_data(X, y, order=2)
    two = renyi.RenyiSelector(n_features=2, order=2, method="path")
    by_counts = clone(two).fit_marginals(counted)
    by_rows = clone(two).fit(X, y)
    assert by_counts.features_.tolist() == by_rows.features_.tolist()
    np.testing.assert_array_equal(by_counts.predict(X), by_rows.predict(X))
    first = renyi.selection_path(counted).features(2)
    assert first == tuple(by_rows.features_)


def test_model_of_pairs_can_be_kept(tmp_path):
    X, y = noisy(d=5)
    selector = renyi.RenyiSelector(order=2, n_features=2).fit(X, y)
    selector.classifier_.save(tmp_path / "m.json")
    again = renyi.RenyiClassifier.load(tmp_path / "m.json")
    columns = selector.get_feature_names_out().tolist()
    np.testing.assert_array_equal(again.predict(X[columns]), selector.predict(X))


@pytest.mark.long
def test_pairs_of_chess():
    X, y = load("kr-vs-kp")
    rng = np.random.default_rng(0)
    held = rng.random(len(y)) < 0.3
    selector = renyi.RenyiSelector(order=2).fit(X[~held], y[~held])
    assert 20 < len(selector.features_) < 400
    assert selector.score(X[held], y[held]) > 0.97


# ---- bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_features": 17}, "n_features=17"),
        ({"n_features": 0}, "n_features"),
        ({"n_features": 2.0}, "n_features"),
        ({"penalty": 0}, "penalty must be .* not 0"),
        ({"penalty": -1.0}, "penalty must be .* not -1.0"),
        ({"penalty": "min"}, "penalty must be .* not 'min'"),
        ({"penalty": 5.0, "method": "path"}, "penalty=5.0 .* below 0.87"),
        ({"penalty": 5.0}, "the λ of Algorithm 1: choose method='path'"),
        ({"method": "lasso"}, "method must be 'forward' or 'path', not 'lasso'"),
        ({"max_error": 1.0}, "max_error must lie between 0 and 1"),
        (
            {"n_features": 2, "penalty": 0.1, "method": "path"},
            "n_features and penalty",
        ),
        ({"n_features": 2, "max_error": 0.1}, "n_features and max_error"),
        ({"max_error": "a"}, "max_error must lie between 0 and 1, not be 'a'"),
        ({"rule": "best"}, "rule"),
        ({"calibration": "best"}, "calibration must be"),
        ({"refit_alpha": -1}, "alpha must be finite and not negative"),
        ({"order": 0}, "order must be a whole number"),
        ({"order": 20}, "order=20 needs at least 20 columns"),
    ],
)
def test_bad_settings(votes, settings, message):
    with pytest.raises(ValueError, match=message):
        renyi.RenyiSelector(**settings).fit(*votes)


def test_marginals_of_another_order(votes):
    m = renyi.Marginals.from_data(*votes)
    with pytest.raises(ValueError, match=r"order 1, .* count with order=2"):
        renyi.RenyiSelector(order=2).fit_marginals(m)


def test_marginals_without_a_pair(votes):
    X, y = votes
    X = X.fillna("?")
    tables = [pd.crosstab(X[c], y) for c in ("crime", "immigration")]
    m = renyi.Marginals.from_tables(tables, target="party")
    with pytest.raises(ValueError, match="'crime' and 'immigration' are not among"):
        renyi.RenyiSelector(n_features=1).fit_marginals(m)


# ---- scikit-learn


ESTIMATORS = [renyi.RenyiSelector()]


@pytest.mark.parametrize(("estimator", "check"), all_checks(ESTIMATORS))
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.long
def test_no_check_fails():
    with warnings.catch_warnings(action="ignore"):  # of checks that are skipped
        results = check_estimator(renyi.RenyiSelector(), on_fail=None)
    found = {result["check_name"]: result["status"] for result in results}
    assert not [name for name, status in found.items() if status == "failed"]
    assert {n for n, s in found.items() if s == "skipped"} <= {SEPARATE}
    assert len(found) > 40


# ---- forward selection and the letter of Algorithm 1


def least_risk(X, y, names, alpha=1e-9):
    """Return the least γ + alpha‖z‖² of some columns, by ridge on their indicators."""
    W = pd.get_dummies(X[list(names)]).to_numpy(float)
    W = W - W.mean(axis=0)
    T = pd.get_dummies(pd.Series(y)).to_numpy(float)
    T = T - T.mean(axis=0)
    z = np.linalg.solve(W.T @ W / len(W) + alpha * np.eye(W.shape[1]), W.T @ T / len(W))
    squares = ((W @ z - T) ** 2).sum(axis=1).mean() + alpha * (z**2).sum()
    return float(squares / 2)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_forward_selection_adds_the_column_that_lowers_the_risk_most(n_classes):
    X, y = noisy(n=300, d=7)
    rng = np.random.default_rng(1)
    if n_classes == 3:
        y = np.where((X["c2"] == X["c2"].iloc[0]) & (rng.random(300) < 0.7), 2, y)
    selector = renyi.RenyiSelector(n_features=5).fit(X, y)
    chosen = list[str]()
    for k in range(5):
        rest = [name for name in X if name not in chosen]
        risks = {name: least_risk(X, y, [*chosen, name], 5 / 300) for name in rest}
        chosen.append(min(risks, key=risks.get))
        least = least_risk(X, y, chosen)
        assert selector.path_.gamma[k] == pytest.approx(least, abs=1e-5)
    assert selector.features_.tolist() == chosen
    m = renyi.Marginals.from_data(X, y)
    by_counts = renyi.RenyiSelector(n_features=5).fit_marginals(m)
    assert by_counts.features_.tolist() == chosen


def test_folds_of_forward_selection_are_models_of_the_other_rows():
    X, y = noisy(n=150, d=6)
    encoder, codes = renyi.Encoder().fit_transform(X)
    sizes = encoder.columns.sizes
    rows = RowsProblem(codes, sizes, y, 2)
    cv = cross_validate_forward(rows, rows.counted(), assign_folds(rows, 3))
    risks = np.zeros(7)
    error_rates = np.zeros(7)
    for fold in assign_folds(rows, 3):
        inside = fold > 0
        best = np.full(7, np.inf)
        held_out = np.zeros((2, 7))
        other = X[~inside]
        labels = y[~inside]
        c = y[inside] - 0.5
        mean = labels.mean() - 0.5
        held_out[0, 0] = ((mean - c) ** 2).sum()
        held_out[1, 0] = ((mean > 0) != (c > 0)).sum()
        order = renyi.RenyiSelector(n_features=6).fit(other, labels).features_
        for k, alpha in product(range(1, 7), 6 * np.logspace(-8, 1, 10)):
            names = order[:k].tolist()
            clf = renyi.RenyiClassifier(alpha=alpha, calibration=None)
            clf.fit(other[names], labels)
            df = degrees_of_freedom(other[names], alpha)
            gcv = clf.certificate_.gamma / (1 - df / len(labels)) ** 2
            if gcv < best[k]:
                best[k] = gcv
                scores = clf.decision_function(X[inside][names])
                held_out[0, k] = ((scores - c) ** 2).sum()
                held_out[1, k] = ((scores > 0) != (c > 0)).sum()
        risks += held_out[0] / 150
        error_rates += held_out[1] / 150
    np.testing.assert_allclose(cv.risks, risks, atol=1e-8)
    np.testing.assert_allclose(cv.error_rates, error_rates, atol=1e-12)
    assert cv.n_features.tolist() == [0, 1, 2, 3, 4, 5, 6]


def degrees_of_freedom(X, alpha):
    """Return the trace of the hat matrix of a ridge regression with intercept."""
    W = pd.get_dummies(X).to_numpy(float)
    W = W - W.mean(axis=0)
    Q = W.T @ W / len(W)
    return 1 + np.trace(np.linalg.solve(Q + alpha * np.eye(len(Q)), Q))


def test_algorithm_1_to_the_letter_has_no_intercept(votes, monkeypatch):
    X, y = votes
    m = renyi.Marginals.from_data(X, y)
    settings = {"method": "path", "penalty": 0.1}
    literal = renyi.RenyiSelector(**settings, fit_intercept=False)
    by_rows = clone(literal).fit(X, y)
    by_counts = clone(literal).fit_marginals(m)
    assert set(by_rows.features_) == set(by_counts.features_)
    assert len(by_rows.features_) == 3
    assert len(renyi.RenyiSelector(**settings).fit(X, y).features_) == 4
    assert by_rows.classifier_.intercept_ == 0
    # The conditions of a minimum of γ(z) + λ Σ max|z_i|, without an intercept.
    monkeypatch.setattr(selection, "TOL", 1e-10)
    path = renyi.selection_path(m, fit_intercept=False).lasso
    k = int(np.abs(path.lambdas - 0.1).argmin())
    gradient = m.dvec - 2 * m.Q @ path.z[k]
    sizes = m.encoder.columns.sizes
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    norms = np.add.reduceat(np.abs(gradient), starts)
    used = path.active[k]
    np.testing.assert_allclose(norms[used], path.lambdas[k], rtol=1e-4)
    assert (norms[~used] <= path.lambdas[k] * (1 + 1e-9)).all()
    assert (path.intercepts == 0).all()


def test_without_calibration_the_answer_is_the_sign_of_the_papers_score():
    # Where the class is rare, the calibration of the default has an intercept.
    X, _ = noisy(n=600, d=5)
    rng = np.random.default_rng(0)
    rare = (X["c1"] == X["c1"].iloc[0]) & (X["c2"] == X["c2"].iloc[0])
    y = (rng.random(600) < np.where(rare, 0.45, 0.02)).astype(int)
    usual = renyi.RenyiSelector(n_features=3).fit(X, y)
    plain = renyi.RenyiSelector(n_features=3, calibration=None).fit(X, y)
    assert plain.features_.tolist() == usual.features_.tolist()
    card = plain.classifier_.scorecard_
    assert card.calibration is None
    codes = card.encoder.transform(X[sorted(plain.features_)])
    answers = plain.classes_[(card.scores(codes)[:, 0] > 0).astype(int)]
    assert (plain.predict(X) == answers).all()
    assert usual.classifier_.scorecard_.calibration is not None
