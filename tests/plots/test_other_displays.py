"""Maps of correlations and paths show what was computed."""

from __future__ import annotations

import pickle
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.certificates.heldout import clopper_pearson, share_interval
from support.noisyrows import noisy

# ---- maximal correlations


def test_map_shows_the_matrix_in_the_order_of_its_tree(votes):
    m = renyi.Marginals.from_data(*votes)
    display = renyi.HGRDisplay.from_marginals(m)
    matrix = renyi.hgr_matrix(m)
    assert sorted(display.order) == sorted(matrix.columns)
    assert display.order != list(matrix.columns)
    drawn = np.asarray(display.im_.get_array())
    np.testing.assert_array_equal(drawn, matrix.loc[display.order, display.order])
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    bold = [
        t.get_text() for t in display.ax_.get_yticklabels() if t.get_weight() == "bold"
    ]
    assert labels.index("party") == display.order.index("party") and bold == ["party"]
    # Neighbours are alike: more so than in the order of the table.
    beside = [matrix.loc[a, b] for a, b in pairwise(display.order)]
    before = np.diag(matrix.to_numpy(), 1)
    assert np.mean(beside) > np.mean(before)


def test_columns_that_belong_together_stand_together():
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 300))
    X = pd.DataFrame({"a": a, "b": b, "c": a, "d": b, "e": a}).astype(str)
    display = renyi.HGRDisplay.from_data(X)
    groups = ["ace".find(name) >= 0 for name in display.order]
    assert groups in ([True] * 3 + [False] * 2, [False] * 2 + [True] * 3)
    # The last of the tree joins the two groups, at the distance of their means.
    between = 1 - display.matrix.loc[["a", "c", "e"], ["b", "d"]].to_numpy()
    assert display.linkage[-1, 2] == pytest.approx(between.mean())
    cells = [text.get_text() for text in display.ax_.texts]
    assert cells.count("1.00") == 9 + 4


def test_unknown_pairs_are_masked_and_constants_are_drawn():
    matrix = pd.DataFrame([[1, np.nan], [np.nan, 1]], ["a", "b"], ["a", "b"])
    display = renyi.HGRDisplay(matrix).plot()
    assert np.ma.getmaskarray(display.im_.get_array()).sum() == 2
    assert [text.get_text() for text in display.ax_.texts].count("?") == 2
    one = renyi.HGRDisplay.from_data(pd.DataFrame({"x": ["a"] * 5}))
    assert one.order == ["x"]
    assert one.im_.get_array().tolist() == [[0.0]]


def test_of_many_columns_the_most_correlated_are_shown(votes):
    clf = renyi.RenyiClassifier().fit(*votes)
    display = renyi.HGRDisplay.from_estimator(clf, n_columns=3)
    best = renyi.correlation.ranking(clf.marginals_)[:3]
    assert set(display.order) == {*best.index, "party"}
    again = pickle.loads(pickle.dumps(clf))
    assert again.marginals_ is None  # as of a model file
    with pytest.raises(
        ValueError, match=r"RenyiClassifier has no pair counts.*from_data"
    ):
        renyi.HGRDisplay.from_estimator(again)


# ---- paths


def test_path_of_a_selector_marks_what_was_selected(votes):
    selector = renyi.RenyiSelector(n_features=3).fit(*votes)
    display = renyi.PathDisplay.from_estimator(selector)
    lines = {line.get_label(): line for line in display.ax_.lines}
    for rule in ("map", "sharp"):
        drawn = lines[f"guarantee, rule {rule}"].get_ydata()
        np.testing.assert_array_equal(drawn, selector.path_.bounds[rule])
    marked = lines["selected"].get_xdata()
    chosen = {selector.path_.entries[k - 1] for k in marked}
    assert chosen == set(selector.features_)
    same = renyi.PathDisplay.from_path(selector.path_, ax=display.ax_)
    assert same.ax_ is display.ax_
    with pytest.raises(TypeError, match="DataFrame has no path"):
        renyi.PathDisplay.from_estimator(votes[0])


# ---- intervals and left-out rows


def test_interval_of_a_share_is_clopper_pearson():
    assert share_interval(0, 20, 0.95)[0] == 0 and share_interval(20, 20, 0.95)[1] == 1
    low, high = share_interval(3, 20, 0.95)
    assert high == clopper_pearson(3, 20, 0.975)
    assert low == pytest.approx(0.03207, abs=1e-5)  # as tables have it
    assert high == pytest.approx(0.37893, abs=1e-5)


def test_leave_one_out_of_three_classes_gives_the_certified_error():
    X, y = noisy(300, n_classes=3)
    clf = renyi.RenyiClassifier(calibration=None).fit(X, y)
    rows = clf.fit_.left_out
    wrong = np.average(rows.scores.argmax(axis=1) != rows.y, weights=rows.weights)
    assert wrong == pytest.approx(clf.certificate_.loo_error)


# ---- matplotlib


def test_figures_are_those_of_pyplot_where_it_is_in_use(monkeypatch, votes):
    from matplotlib.figure import Figure

    made = []
    pyplot = SimpleNamespace(
        figure=lambda **how: made.append(Figure(**how)) or made[-1]
    )
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    display = renyi.HGRDisplay.from_data(votes[0].iloc[:, :2])
    assert made == [display.figure_]
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot")
    renyi.HGRDisplay.from_data(votes[0].iloc[:, :2])
    assert len(made) == 1


def test_without_matplotlib_it_says_how_to_get_it(monkeypatch, votes):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
        renyi.HGRDisplay.from_data(votes[0].iloc[:, :2])
