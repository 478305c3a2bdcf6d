"""Feature selection: the path as a result, and RenyiSelector."""

from __future__ import annotations

import sys
import warnings
from itertools import combinations

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
from manners import SEPARATE, all_checks
from renyi import group_lasso, paths
from renyi.commandline.summary import certificate_text
from renyi.datasets import load
from renyi.folds import deal
from renyi.lasso.materials import FromRows, cheaper, counts_pay
from renyi.lasso.nested import nested_fits
from renyi.ridge import moments
from renyi.subsets import subset_value


def one_hot(codes, sizes):
    return np.concatenate([np.eye(s)[c] for c, s in zip(codes, sizes, strict=True)], 1)


def noisy(n=300, d=6, levels=3, seed=0, n_classes=2):
    """Rows whose class follows from the first two columns, the others being noise."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, levels, (n, d))
    score = codes[:, 0] + 0.7 * codes[:, 1] + rng.normal(0, 0.6, n)
    cuts = np.quantile(score, np.arange(1, n_classes) / n_classes)
    y = np.searchsorted(cuts, score)
    X = pd.DataFrame(codes.astype(str), columns=[f"c{j}" for j in range(d)])
    return X, y


@pytest.fixture(scope="module")
def votes():
    return load("votes")


@pytest.fixture(scope="module")
def votes_path(votes):
    return renyi.selection_path(renyi.Marginals.from_data(*votes))


# ---- the path


def least_squares(X, y, alpha=1e-6):
    """Scores and γ of a ridge fit with intercept on the rows, by lstsq."""
    encoder, codes = renyi.Encoder().fit_transform(X)
    W = one_hot(codes, encoder.columns.sizes)
    W = W - W.mean(axis=0)
    classes = np.unique(y)
    T = (np.asarray(y)[:, None] == classes).astype(float)
    n, D = W.shape
    A = np.vstack([W / np.sqrt(n), np.sqrt(alpha) * np.eye(D)])
    B = np.vstack([(T - T.mean(axis=0)) / np.sqrt(n), np.zeros((D, len(classes)))])
    t = T.mean(axis=0) + W @ np.linalg.lstsq(A, B)[0]
    return t, T


@pytest.mark.parametrize("n_classes", [2, 3])
def test_figures_of_the_path_against_least_squares_on_rows(n_classes):
    X, y = noisy(n_classes=n_classes)
    path = renyi.selection_path(renyi.Marginals.from_data(X, y))
    for k in range(1, len(path.entries) + 1):
        S = list(path.features(k))
        t, T = least_squares(X[S], y)
        risk = ((t - T) ** 2).sum(axis=1).mean()
        assert path.gamma[k - 1] == pytest.approx(risk / 2, abs=1e-9)
        assert path.bounds["sharp"][k - 1] == pytest.approx(risk, abs=1e-9)
        lead = (t * T).sum(axis=1).mean() - t.mean()
        spread = ((t - t.mean(axis=1, keepdims=True)) ** 2).sum(axis=1).mean()
        scaled = 2 * (1 - 1 / n_classes - lead**2 / spread)
        assert path.bounds["map"][k - 1] == pytest.approx(min(scaled, 1), abs=1e-8)
        m = renyi.Marginals.from_data(X[S], y)
        assert path.hgr[k - 1] == pytest.approx(renyi.hgr_lower_bound(m), abs=1e-4)
        assert path.hgr[k - 1] <= renyi.hgr_lower_bound(m) + 1e-9


def test_figures_are_those_of_a_refitted_classifier(votes, votes_path):
    X, y = votes
    for k in (1, 5, len(votes_path.entries)):
        S = list(votes_path.features(k))
        clf = renyi.RenyiClassifier(alpha=1e-6).fit(X[S], y)
        for rule in ("map", "sharp"):
            bound = clf.certificate_.bounds[rule]
            assert votes_path.bounds[rule][k - 1] == pytest.approx(bound, abs=1e-9)


def test_entries_solve_the_penalised_problem(votes_path):
    """KKT: a feature has points at its entry, none before; the gap is small."""
    lasso = votes_path.lasso
    assert lasso.converged
    for name, place, lam in zip(
        votes_path.entries, votes_path.places, votes_path.lambdas, strict=True
    ):
        where = int(np.flatnonzero(lasso.lambdas == lam)[0])
        assert lasso.active[where, place], name
        assert not lasso.active[:where, place].any(), name
    assert (np.diff(votes_path.lambdas) <= 0).all()
    assert (votes_path.gaps <= 1e-4 * lasso.objectives[0]).all()


def test_steps_are_smaller_where_several_features_enter():
    m = renyi.Marginals.from_data(*load("kr-vs-kp"))
    path = renyi.selection_path(m)
    plain = group_lasso.path(m.Q, m.dvec, m.encoder.columns.sizes)
    assert set(plain.lambdas).issubset(path.lasso.lambdas)
    together = len(path.entries) - len(set(path.lambdas))
    first = plain.active[:, plain.active.any(axis=0)].argmax(axis=0)
    assert together < len(first) - len(set(first))


def test_frame_text_and_features(votes_path):
    table = votes_path.frame()
    assert table.index.name == "n_features"
    assert table["feature"].tolist() == list(votes_path.entries)
    assert (np.diff(table["gamma"]) <= 1e-12).all()
    text = str(votes_path)
    assert len(text.splitlines()) == 1 + len(table)
    for line, (_, row) in zip(text.splitlines()[1:], table.iterrows(), strict=True):
        hgr, worst, sharp = map(float, line.split()[-3:])
        assert row["map"] - 1e-9 <= worst <= row["map"] + 1e-4
        assert row["sharp"] - 1e-9 <= sharp <= row["sharp"] + 1e-4
        assert row["hgr"] - 1e-4 <= hgr <= row["hgr"] + 1e-9
    assert votes_path.features(0) == ()
    with pytest.raises(ValueError, match="so there is no set of 17"):
        votes_path.features(17)


def test_bounds_that_say_nothing_are_not_printed():
    m = renyi.Marginals.from_data(*load("promoters"))
    path = renyi.selection_path(m)
    many = 4 * np.arange(1, len(path.entries) + 1) >= 53
    np.testing.assert_array_equal(path.doubtful, many)
    assert str(path).splitlines()[20].split()[-4:] == ["-"] * 4


def test_indicators_are_categories_with_rows(votes):
    X, y = votes
    X = X.iloc[:60, :4].fillna("?")
    selector = renyi.RenyiSelector(order=2, n_features=6).fit(X, y[:60])
    path = selector.path_
    known = [len(X[name.split(" & ")].drop_duplicates()) for name in path.entries]
    np.testing.assert_array_equal(path.n_indicators, np.cumsum(known))
    m = renyi.Marginals.from_data(X, y[:60], encoder=None).with_target("party")
    known = [X[name].nunique() for name in renyi.selection_path(m).entries]
    found = renyi.selection_path(m).n_indicators
    np.testing.assert_array_equal(found, np.cumsum(known))


def test_pairs_of_too_many_categories_are_not_held(monkeypatch):
    X, y = noisy(n=120, d=8)
    X = X.assign(again=X["c0"])
    whole = renyi.RenyiSelector(n_features=9).fit(X, y).path_
    monkeypatch.setattr(paths, "_MOST_CATEGORIES", 3 * 5)
    part = renyi.RenyiSelector(n_features=9).fit(X, y)
    assert len(part.features_) == 9
    path = part.path_
    k = 4  # one of five that were looked at is the copy, which comes last
    assert path.entries[-1] == "again"
    assert path.entries[:k] == whole.entries[:k]
    for name in ("gamma", "hgr"):
        figures = getattr(path, name)
        np.testing.assert_allclose(figures[:k], getattr(whole, name)[:k])
        assert np.isnan(figures[k:]).all() and len(figures) == 9
    assert np.isnan(path.bounds["map"][k:]).all()
    assert str(path).splitlines()[k].split()[-1] != "-"
    assert str(path).splitlines()[k + 1].split()[-4:] == ["-"] * 4


def test_plot(votes_path):
    pytest.importorskip("matplotlib")
    ax = votes_path.plot()
    lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["γ"], votes_path.gamma)
    assert votes_path.plot(ax) is ax


def test_plot_without_matplotlib_says_how_to_get_it(votes_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'renyi\[plot\]'"):
        votes_path.plot()


def test_path_refuses_what_it_cannot_use(votes):
    with pytest.raises(TypeError, match="takes marginals, not a DataFrame"):
        renyi.selection_path(votes[0])
    m = renyi.Marginals.from_data(*votes)
    for settings, message in [
        ({"alpha": 0}, "alpha must be positive"),
        ({"alpha": np.inf}, "alpha must be positive, not inf"),
        ({"n_lambdas": 2.5}, "n_lambdas must be a whole number of at least 2"),
        ({"n_lambdas": 1}, "n_lambdas must be a whole number of at least 2"),
        ({"ratio": "a"}, "ratio must lie between 0 and 1"),
        ({"tol": 0}, "tol must be positive"),
        ({"max_passes": 0}, "max_passes must be a whole number"),
    ]:
        with pytest.raises(ValueError, match=message):
            renyi.selection_path(m, **settings)


def test_nested_fits_against_separate_ones(votes):
    m = renyi.Marginals.from_data(*votes)
    equations = moments(m.Q, m.F, m.class_probabilities, fit_intercept=True)
    sizes = m.encoder.columns.sizes
    fits = nested_fits(equations, sizes, m.class_probabilities, 0.01)
    for k in (1, 7, 16):
        p = 3 * k
        A, R = equations.A[:p, :p], equations.R[:p]
        z = np.linalg.solve(A + 0.01 * np.eye(p), R)
        gamma = equations.variance - 2 * np.vdot(R, z) + np.vdot(z, A @ z)
        df = 1 + np.trace(np.linalg.solve(A + 0.01 * np.eye(p), A))
        assert fits.gamma[k - 1] == pytest.approx(gamma, abs=1e-12)
        assert fits.df[k - 1] == pytest.approx(df, abs=1e-9)
        value = subset_value(equations, sizes, range(k), 0.01)
        assert value - 0.01 * np.vdot(z, z) == pytest.approx(gamma, abs=1e-10)
    np.testing.assert_allclose(fits.gcv(435), fits.gamma / (1 - fits.df / 435) ** 2)
    assert np.isinf(fits.gcv(2.0)).all()


# ---- from rows and from counts


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_and_counts_agree(n_classes):
    X, y = noisy(n=60, n_classes=n_classes)
    encoder, codes = renyi.Encoder().fit_transform(X)
    mass = np.random.default_rng(1).uniform(0.5, 2, 60)
    rows = FromRows(codes, encoder.columns.sizes, y, n_classes, mass)
    counts = rows.counted()
    found, other = rows.path(tol=1e-8), counts.path(tol=1e-8)
    np.testing.assert_allclose(found.objectives, other.objectives, rtol=1e-6)
    np.testing.assert_allclose(rows.risks(found), counts.risks(found), atol=1e-12)
    z = found.z[-1].reshape(found.z.shape[1], -1)
    b = found.intercepts[-1].reshape(-1)
    np.testing.assert_allclose(rows.norms(z, b), counts.norms(z, b), atol=1e-12)
    weight = 1.0 if n_classes == 2 else 0.5
    penalty = [
        lam * np.abs(step.reshape(6, -1)).max(axis=1).sum()
        for lam, step in zip(found.lambdas, found.z, strict=True)
    ]
    np.testing.assert_allclose(rows.risks(found) + penalty, found.objectives)
    # KKT: features without points have a gradient within the penalty.
    assert (2 * weight * rows.norms(z, b) <= found.lambdas[-1] + 1e-4).all()


def test_the_shape_decides_between_rows_and_counts():
    sizes = np.full(5, 4)
    wide = FromRows(np.zeros((5, 10), int), sizes, np.zeros(10, int), 2)
    long = FromRows(np.zeros((5, 100), int), sizes, np.zeros(100, int), 2)
    assert not counts_pay(wide) and cheaper(wide) is wide
    assert counts_pay(long) and cheaper(long) is not long


# ---- folds


def test_folds_are_balanced_and_within_classes():
    X, y = noisy(n=103)
    codes = X.astype(int).to_numpy().T
    folds = deal(FromRows(codes, np.full(6, 3), y, 2), 5, 0)
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    for label in (0, 1):
        per_fold = folds[:, y == label].sum(axis=1)
        assert per_fold.max() - per_fold.min() <= 1


def test_folds_take_weights_as_repetition_in_any_order():
    X, y = noisy(n=40)
    codes = X.astype(int).to_numpy().T
    rng = np.random.default_rng(0)
    copies = rng.integers(1, 4, 40)
    weighted = deal(FromRows(codes, np.full(6, 3), y, 2, copies.astype(float)), 5, 3)
    row = rng.permutation(np.repeat(np.arange(40), copies))
    repeated = deal(FromRows(codes[:, row], np.full(6, 3), y[row], 2), 5, 3)
    summed = np.stack([np.bincount(row, fold, minlength=40) for fold in repeated])
    # Identical rows may change places: compare the totals of each.
    keys, same = np.unique(np.vstack([codes, y]), axis=1, return_inverse=True)
    for a, b in zip(weighted, summed, strict=True):
        np.testing.assert_allclose(
            np.bincount(same.ravel(), a), np.bincount(same.ravel(), b)
        )
    assert keys.shape[1] > 30


@pytest.mark.parametrize(("n", "n_classes"), [(200, 2), (200, 3), (15, 2)])
def test_held_out_risk_against_refits_on_the_rows_of_folds(n, n_classes):
    """Also with more categories (18) than rows."""
    X, y = noisy(n=n, n_classes=n_classes)
    selector = renyi.RenyiSelector(tol=1e-8, n_lambdas=8).fit(X, y)
    encoder, codes = renyi.Encoder().fit_transform(X)
    sizes, tried = encoder.columns.sizes, selector.cv_
    folds = deal(FromRows(codes, sizes, y, n_classes), 5, 0) > 0
    W = one_hot(codes, sizes)
    T = np.eye(n_classes)[y] - 1 / n_classes if n_classes > 2 else y[:, None] - 0.5
    total, wrong = np.zeros(8), np.zeros(8)
    for fold in folds:
        found = group_lasso.path_rows(
            codes[:, ~fold], sizes, y[~fold], tried.lambdas, n_classes=n_classes,
            tol=1e-3,
        )  # fmt: skip
        for k in range(8):
            z = found.z[k].reshape(len(W.T), -1)
            s = W[fold] @ z + found.intercepts[k]
            total[k] += ((T[fold] - s) ** 2).sum() / (1 if n_classes == 2 else 2)
            best = s.argmax(axis=1) if n_classes > 2 else s[:, 0] > 0
            wrong[k] += (best != y[fold]).sum()
    np.testing.assert_allclose(tried.risks, total / n, rtol=2e-2)
    np.testing.assert_allclose(tried.mistakes, wrong / n, atol=2.5 / n)
    best = np.flatnonzero(selector.path_.lasso.lambdas == selector.penalty_)[0]
    active = selector.path_.lasso.active[best]
    if active.any():
        assert selector.penalty_ == tried.lambdas[tried.risks.argmin()]
        np.testing.assert_array_equal(selector.get_support(), active)


def test_one_standard_error_takes_no_more_features():
    X, y = noisy(n=150, d=12)
    most = renyi.RenyiSelector().fit(X, y)
    fewer = renyi.RenyiSelector(penalty="cv-1se").fit(X, y)
    assert fewer.penalty_ >= most.penalty_
    least = most.cv_.risks.argmin()
    limit = most.cv_.risks[least] + most.cv_.standard_errors[least]
    expected = most.cv_.lambdas[most.cv_.risks <= limit][0]
    assert fewer.penalty_ == expected


def test_folds_are_as_many_as_there_are_rows():
    X, y = noisy(n=4)
    selector = renyi.RenyiSelector().fit(X, y)
    assert selector.cv_.n_folds == 4
    assert renyi.RenyiSelector(n_folds=3).fit(X, y).cv_.n_folds == 3


@pytest.mark.parametrize("n", [2, 20])
def test_a_fold_may_leave_one_class(n):
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.integers(0, 4, (n, 12)).astype(str))
    y = np.zeros(n, int)
    y[0] = 1
    selector = renyi.RenyiSelector().fit(X, y)  # a warning would be an error
    assert np.isfinite(selector.cv_.risks).all()
    assert len(selector.features_) >= 1
    # Where the one row is held out, nothing can be learned: 1 is its risk.
    assert selector.cv_.risks[0] >= 1 / n


def test_a_feature_is_kept_where_none_helps():
    seen = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = pd.DataFrame(rng.integers(0, 3, (80, 5)).astype(str))
        selector = renyi.RenyiSelector().fit(X, rng.integers(0, 2, 80))
        if selector.cv_.best() == 0:
            seen += 1
            assert selector.features_.tolist() == [selector.path_.entries[0]]
            assert selector.penalty_ == selector.path_.lambdas[0]
            assert selector.penalty_ < selector.cv_.lambdas[0]
    assert seen


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
    X, y = noisy(n=20, d=9)
    m = renyi.Marginals.from_data(X, y)
    for k in (1, 5, 9):
        by_rows = renyi.RenyiSelector(n_features=k, n_lambdas=10).fit(X, y)
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
    told, other = certificate_text(some), certificate_text(every)
    assert "errors. Expect more. No bound is shown" in " ".join(" ".join(told).split())
    assert "errors. Go by this. No bound is shown" in " ".join(" ".join(other).split())
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
    selector = renyi.RenyiSelector(penalty="cv-1se").fit(X, y)
    assert len(selector.features_) >= 1
    constant = np.array([["a", "b"]] * 30 + [["a", "c"]] * 30)
    one = renyi.RenyiSelector().fit(constant, y)
    assert one.features_.tolist() == ["x1"]


# ---- how many, otherwise


def test_penalty_by_number(votes):
    X, y = votes
    m = renyi.Marginals.from_data(X, y)
    found = group_lasso.path(m.Q, m.dvec, [3] * 16, [0.05])
    for selector in (
        renyi.RenyiSelector(penalty=0.05).fit(X, y),
        renyi.RenyiSelector(penalty=0.05).fit_marginals(m),
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


@pytest.mark.parametrize("rule", ["map", "sharp"])
def test_all_features_are_tried_for_a_certified_error(rule):
    X, y = load("credit")
    entered = set(renyi.RenyiSelector(n_features=1).fit(X, y).path_.entries)
    entered |= set(renyi.selection_path(renyi.Marginals.from_data(X, y)).entries)
    assert len(entered) < 15
    reached = renyi.RenyiClassifier(rule=rule).fit(X, y).certificate_.bounds[rule]
    without = renyi.RenyiClassifier(rule=rule).fit(X[[c for c in X if c in entered]], y)
    cap = reached + 1e-5
    assert without.certificate_.bounds[rule] > cap
    selector = renyi.RenyiSelector(max_error=cap, rule=rule).fit(X, y)
    assert selector.classifier_.certificate_.bounds[rule] <= cap
    assert len(selector.features_) > len(entered)
    message = "cannot be certified: a model of all 15 features reaches"
    with pytest.raises(ValueError, match=message):
        renyi.RenyiSelector(max_error=reached - 0.01, rule=rule).fit(X, y)


def test_passes_have_a_limit_that_can_be_raised():
    X, y = noisy(n=30, d=12)
    few = renyi.RenyiSelector(n_features=12, tol=1e-9, max_passes=5)
    with pytest.warns(ConvergenceWarning, match="within 5 passes.* raise max_passes"):
        assert not few.fit(X, y).path_.lasso.converged
    more = few.set_params(max_passes=group_lasso.MAX_PASSES).fit(X, y)
    assert more.path_.lasso.converged


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
    with pytest.raises(ValueError, match="too small to choose features"):
        renyi.RenyiSelector().fit_marginals(m * (1 / m.n))


def test_weights_count_as_repetition():
    X, y = noisy(n=80)
    weights = np.arange(80) % 3
    kept = np.repeat(np.arange(80), weights)
    a = renyi.RenyiSelector().fit(X, y, sample_weight=weights)
    b = renyi.RenyiSelector().fit(X.iloc[kept], y[kept])
    assert a.features_.tolist() == b.features_.tolist()
    assert a.penalty_ == pytest.approx(b.penalty_)
    np.testing.assert_allclose(a.cv_.risks, b.cv_.risks, rtol=1e-6)
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-9)


# ---- pairs


def pair_columns(X):
    return pd.DataFrame(
        {f"{a} & {b}": X[a] + " & " + X[b] for a, b in combinations(X.columns, 2)}
    )


@pytest.mark.parametrize("n", [400, 30])
def test_pairs_are_selected_as_columns_of_pairs_would_be(n):
    """With fewer categories than rows, and with more."""
    X, y = noisy(n=n, d=5)
    pairs = renyi.RenyiSelector(order=2, tol=1e-6, penalty=0.1).fit(X, y)
    made = pair_columns(X)
    columns = renyi.RenyiSelector(tol=1e-6, penalty=0.1).fit(made, y)
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
    by_counts = renyi.RenyiSelector(n_features=2, order=2).fit_marginals(counted)
    by_rows = renyi.RenyiSelector(n_features=2, order=2).fit(X, y)
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
        ({"n_features": 17}, "n_features=17 is more than the 16 features"),
        ({"n_features": 0}, "n_features must be a whole number of at least 1, not 0"),
        ({"n_features": 2.0}, "n_features must be a whole number"),
        ({"penalty": 0}, "penalty must be a positive number, not 0"),
        ({"penalty": -1.0}, "penalty must be a positive number, not -1.0"),
        ({"penalty": "min"}, "penalty must be 'cv', 'cv-1se' or a positive number"),
        ({"penalty": 5.0}, "penalty=5 leaves no feature: take one below 0.87"),
        ({"max_error": 1.0}, "max_error must lie between 0 and 1"),
        ({"n_features": 2, "penalty": 0.1}, "n_features and penalty both say"),
        ({"n_features": 2, "max_error": 0.1}, "n_features and max_error both say"),
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2"),
        ({"ratio": 1.5}, "ratio must lie between 0 and 1"),
        ({"ratio": "a"}, "ratio must lie between 0 and 1, not be 'a'"),
        ({"max_error": "a"}, "max_error must lie between 0 and 1, not be 'a'"),
        ({"tol": 0}, "tol must be positive, not 0"),
        ({"max_passes": 1.5}, "max_passes must be a whole number of at least 1"),
        ({"rule": "best"}, "rule"),
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
    with pytest.raises(ValueError, match=r"of order 1, .* count with order=2"):
        renyi.RenyiSelector(order=2).fit_marginals(m)


def test_marginals_without_a_pair(votes):
    X, y = votes
    X = X.fillna("?")
    tables = [pd.crosstab(X[c], y) for c in ("crime", "immigration")]
    m = renyi.Marginals.from_tables(tables, target="party")
    with pytest.raises(ValueError, match="'crime' and 'immigration' are not among"):
        renyi.RenyiSelector(n_features=1).fit_marginals(m)


# ---- scikit-learn


ESTIMATORS = [renyi.RenyiSelector(n_lambdas=8)]  # fewer penalties, to be quick


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
