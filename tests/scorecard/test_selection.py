"""The path of Algorithm 1 as a result: figures, text and plot; from rows or counts."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import renyi
from renyi import selection
from renyi.datasets import load
from renyi.selection import counts_problem
from renyi.solvers.forward_selection import subset_value
from renyi.solvers.l1inf_path import penalty_grid, solve_path
from renyi.solvers.ridge import moments
from support.joints import one_hot
from support.noisyrows import noisy
from support.scorings import map_bound


@pytest.fixture(scope="module")
def votes_path(votes):
    return renyi.selection_path(renyi.Marginals.from_data(*votes))


def least_squares(X, y, alpha=1e-6):
    """Scores and γ of a ridge fit with intercept on the rows, by lstsq."""
    encoder, codes = renyi.Encoder().fit_transform(X)
    W = one_hot(codes.T, encoder.columns.sizes)
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
        expected = map_bound(t, T / len(T))
        assert path.bounds["map"][k - 1] == pytest.approx(expected, abs=1e-8)
        m = renyi.Marginals.from_data(X[S], y)
        assert path.hgr[k - 1] == pytest.approx(renyi.hgr_lower_bound(m), abs=1e-4)
        assert path.hgr[k - 1] <= renyi.hgr_lower_bound(m) + 1e-9


def test_figures_are_those_of_a_refitted_classifier(votes, votes_path):
    X, y = votes
    for k in (1, 5, len(votes_path.entries)):
        S = list(votes_path.features(k))
        clf = renyi.RenyiClassifier(alpha=1e-6, calibration=None).fit(X[S], y)
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
    problem = counts_problem(m)
    plain = solve_path(problem, penalty_grid(problem, 30, 0.01))
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
        *_, hgr, worst, _, sharp, _ = line.split()
        hgr, worst, sharp = float(hgr), float(worst) / 100, float(sharp) / 100
        assert row["map"] - 1e-9 <= worst <= row["map"] + 1e-4
        assert row["sharp"] - 1e-9 <= sharp <= row["sharp"] + 1e-4
        assert row["hgr"] - 1e-4 <= hgr <= row["hgr"] + 1e-9
    assert votes_path.features(0) == ()
    with pytest.raises(ValueError, match="k=17"):
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
    nine = renyi.RenyiSelector(n_features=9, method="path")
    whole = nine.fit(X, y).path_
    monkeypatch.setattr(selection, "_MOST_CATEGORIES", 3 * 5)
    part = nine.fit(X, y)
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
    ax = renyi.PathDisplay.from_path(votes_path).ax_
    lines = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["γ"], votes_path.gamma)
    assert renyi.PathDisplay.from_path(votes_path, ax=ax).ax_ is ax


def test_plot_marks_names_and_counts_whole(votes, votes_path):
    path = votes_path
    ax = renyi.PathDisplay.from_path(path, selected=path.entries[:3]).ax_
    marked = {line.get_label(): line.get_xdata() for line in ax.lines}
    assert list(marked["selected"]) == [1, 2, 3]
    texts = [text.get_text() for text in ax.get_xticklabels()]
    assert texts[0] == f"1 {path.entries[0]}" and len(texts) == len(path.entries)
    pairs = renyi.Marginals.from_data(*votes, order=2)
    wide = renyi.selection_path(pairs)
    renyi.PathDisplay.from_path(wide, ax=ax)  # whose ticks were at fixed places
    ax.figure.draw_without_rendering()
    assert all(float(tick).is_integer() for tick in ax.get_xticks())
    with pytest.raises(TypeError, match=r"not a str.*savefig"):
        renyi.PathDisplay.from_path(path, ax="path.svg")


def test_plot_without_matplotlib_says_how_to_get_it(votes_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
        renyi.PathDisplay.from_path(votes_path)


def test_path_refuses_what_it_cannot_use(votes):
    with pytest.raises(TypeError, match="not a DataFrame"):
        renyi.selection_path(votes[0])


def test_nested_fits_against_separate_ones(votes):
    m = renyi.Marginals.from_data(*votes)
    equations = moments(m.Q, m.F, m.class_probabilities, fit_intercept=True)
    sizes = m.encoder.columns.sizes
    fits = selection.nested_fits(counts_problem(m), 0.01)
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


@pytest.mark.parametrize("width", [9, 12, 20, 40])
@pytest.mark.parametrize(
    "name", ["a" * 50, "left & right", " & ".join(["abcdefgh"] * 3)]
)
def test_short_names(name, width):
    text = selection.short(name, width)
    assert len(text) <= width
    assert (text == name) == (len(name) <= width)
    assert "…" in text or text == name
    if width >= 20:
        assert text.count(" & ") == name.count(" & ")
