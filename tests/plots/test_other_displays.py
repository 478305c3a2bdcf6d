"""Maps of correlations, paths and curves of calibration show what was computed."""

from __future__ import annotations

import pickle
import sys
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import renyi
from renyi.certificates.heldout import clopper_pearson, share_interval
from renyi.rules import logistic
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
    heights = [path.vertices[:, 1].max() for path in display.tree_.get_paths()]
    assert max(heights) == pytest.approx(between.mean())
    cells = [text.get_text() for text in display.ax_.texts]
    assert cells.count("1.00") == 9 + 4


def test_unknown_pairs_are_masked_and_constants_are_drawn():
    matrix = pd.DataFrame([[1, np.nan], [np.nan, 1]], ["a", "b"], ["a", "b"])
    display = renyi.HGRDisplay(matrix).plot()
    assert np.ma.getmaskarray(display.im_.get_array()).sum() == 2
    assert [text.get_text() for text in display.ax_.texts].count("?") == 2
    one = renyi.HGRDisplay.from_data(pd.DataFrame({"x": ["a"] * 5}))
    assert one.order == ["x"] and one.tree_ is None
    assert one.im_.get_array().tolist() == [[0.0]]


def test_of_many_columns_the_most_correlated_are_shown(votes):
    clf = renyi.RenyiClassifier().fit(*votes)
    display = renyi.HGRDisplay.from_estimator(clf, n_columns=3)
    best = renyi.correlation.ranking(clf.marginals_)[:3]
    assert set(display.order) == {*best.index, "party"}
    again = pickle.loads(pickle.dumps(clf))
    again.marginals_ = None
    with pytest.raises(ValueError, match=r"RenyiClassifier keeps no counts.*from_data"):
        renyi.HGRDisplay.from_estimator(again)


# ---- paths


def test_path_of_a_selector_marks_what_was_selected(votes):
    selector = renyi.RenyiSelector(n_features=3).fit(*votes)
    display = renyi.PathDisplay.from_estimator(selector)
    lines = {line.get_label(): line for line in display.ax_.lines}
    for rule in ("map", "sharp"):
        drawn = lines[f"worst error, rule {rule}"].get_ydata()
        np.testing.assert_array_equal(drawn, selector.path_.bounds[rule])
    marked = lines["selected"].get_xdata()
    chosen = {selector.path_.entries[k - 1] for k in marked}
    assert chosen == set(selector.features_)
    same = renyi.PathDisplay.from_path(selector.path_, ax=display.ax_)
    assert same.ax_ is display.ax_
    m = renyi.Marginals.from_data(votes[0].iloc[:, :3], votes[1])
    assert len(renyi.PathDisplay.from_marginals(m).path.entries) == 3
    for make, given in (("from_estimator", votes[0]), ("from_path", [1])):
        with pytest.raises(TypeError, match=type(given).__name__):
            getattr(renyi.PathDisplay, make)(given)


# ---- calibration


def test_interval_of_a_share_is_clopper_pearson():
    assert share_interval(0, 20, 0.95)[0] == 0 and share_interval(20, 20, 0.95)[1] == 1
    low, high = share_interval(3, 20, 0.95)
    assert high == clopper_pearson(3, 20, 0.975)
    assert low == pytest.approx(0.03207, abs=1e-5)  # as tables have it
    assert high == pytest.approx(0.37893, abs=1e-5)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_curve_is_that_of_the_rows_in_each_bin(strategy):
    rng = np.random.default_rng(1)
    p = rng.random(500)
    y = np.where(rng.random(500) < p, "yes", "no")
    display = renyi.CalibrationDisplay.from_predictions(
        y, p, n_bins=4, strategy=strategy, confidence=0.9
    )
    (curve,) = display.curves
    edges = np.linspace(0, 1, 5)
    if strategy == "quantile":
        edges = np.quantile(p, edges)
    for k in range(4):
        rows = (p > edges[k] if k else p >= edges[0]) & (p <= edges[k + 1])
        hits = int((y[rows] == "yes").sum())
        assert curve.counts[k] == rows.sum()
        assert curve.prob_true[k] == pytest.approx(hits / rows.sum())
        assert curve.prob_pred[k] == pytest.approx(p[rows].mean())
        interval = share_interval(hits, int(rows.sum()), 0.9)
        assert (curve.lower[k], curve.upper[k]) == pytest.approx(interval)
    (line,), (bars,) = display.lines_, display.intervals_
    np.testing.assert_array_equal(line.get_ydata(), curve.prob_true)
    ends = np.array([path.vertices[:, 1] for path in bars.get_paths()])
    np.testing.assert_array_equal(ends, np.column_stack([curve.lower, curve.upper]))


def test_every_class_of_more_than_two_has_a_curve():
    X, y = noisy(600, n_classes=3)
    clf = renyi.RenyiClassifier().fit(X[:400], y[:400])
    display = renyi.CalibrationDisplay.from_estimator(clf, X[400:], y[400:], n_bins=5)
    assert [line.get_label() for line in display.lines_] == ["0", "1", "2"]
    for k, curve in enumerate(display.curves):
        assert curve.counts.sum() == 200
        share = float(curve.counts @ curve.prob_true) / 200
        assert share == pytest.approx((y[400:] == k).mean())
    one = renyi.CalibrationDisplay.from_estimator(clf, X[400:], y[400:], label=2)
    assert [curve.label for curve in one.curves] == ["2"]


def test_marks_of_many_classes_differ():
    y = np.arange(36) % 12
    display = renyi.CalibrationDisplay.from_predictions(y, np.full((36, 12), 1 / 12))
    looks = {(line.get_marker(), line.get_markerfacecolor()) for line in display.lines_}
    assert len(looks) == 12


def test_without_rows_it_is_leave_one_out():
    X, y = noisy(60, d=3)
    clf = renyi.RenyiClassifier(alpha=0.01).fit(X, y)
    display = renyi.CalibrationDisplay.from_estimator(clf, n_bins=1)
    slope = clf.scorecard_.calibration.slope
    scores = []
    for i in range(len(y)):  # by 60 refits, with the same ridge on the sum
        kept = np.arange(len(y)) != i
        part = renyi.RenyiClassifier(alpha=0.01 * 60 / 59).fit(X[kept], y[kept])
        scores.append(part.decision_function(X[i : i + 1])[0])
    t = np.column_stack([-np.array(scores), scores]) + 0.5
    p = logistic(t, float(slope) / 2)[:, 1]
    (curve,) = display.curves
    assert curve.counts @ curve.prob_pred == pytest.approx(p.sum(), rel=1e-6)
    assert "leave-one-out, 60 rows" in display.ax_.get_title()
    with pytest.raises(ValueError, match="RenyiClassifier has no rows"):
        renyi.CalibrationDisplay.from_estimator(pickle.loads(pickle.dumps(clf)))


def test_leave_one_out_of_three_classes_gives_the_certified_error():
    X, y = noisy(300, n_classes=3)
    clf = renyi.RenyiClassifier().fit(X, y)
    p, places, weights = clf._model.left_out()
    wrong = np.average(p.argmax(axis=1) != places, weights=weights)
    assert wrong == pytest.approx(clf.certificate_.loo_error)


def test_weighted_rows_have_no_interval(votes):
    weights = np.random.default_rng(0).random(435)
    clf = renyi.RenyiClassifier().fit(*votes, sample_weight=weights)
    display = renyi.CalibrationDisplay.from_estimator(clf)
    assert display.intervals_ == [None] and "interval" not in display.ax_.get_title()


def test_calibration_names_what_is_wrong(votes):
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X, y)
    show = renyi.CalibrationDisplay
    for message, call in (
        ("y is missing", lambda: show.from_estimator(clf, X)),
        ("label .*whig", lambda: show.from_estimator(clf, X, y, label="whig")),
        ("strategy", lambda: show.from_estimator(clf, X, y, strategy="even")),
        ("'green'", lambda: show.from_estimator(clf, X[:2], ["green", "democrat"])),
        (
            r"y_prob .*\(3, 2\)",
            lambda: show.from_predictions([0, 1, 2], np.ones((3, 2))),
        ),
        ("1.5 is not one", lambda: show.from_predictions([0, 1], [0.5, 1.5])),
        ("nan is not one", lambda: show.from_predictions([0, 1], [0.5, np.nan])),
        ("only one class, '1'", lambda: show.from_predictions([1, 1], [0.5, 0.5])),
    ):
        with pytest.raises(ValueError, match=message):
            call()


# ---- matplotlib


def test_figures_are_those_of_pyplot_where_it_is_in_use(monkeypatch, votes):
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
