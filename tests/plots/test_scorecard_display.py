"""The drawing of a scorecard shows its points, shares and names, and nothing else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.plots import MARKERS
from support.noisyrows import noisy

ScorecardDisplay = renyi.ScorecardDisplay


@pytest.fixture(scope="module")
def clf(votes):
    return renyi.RenyiClassifier().fit(*votes)


def names(display):
    return [text.get_text() for text in display.ax_.get_yticklabels()]


def test_bars_are_the_points_of_the_second_class(clf):
    display = ScorecardDisplay.from_estimator(clf, n_features=3)
    frame = clf.scorecard_.frame()[:9]
    np.testing.assert_array_equal(
        [bar.get_width() for bar in display.bars_], frame["republican"]
    )
    bold = [
        t.get_text() for t in display.ax_.get_yticklabels() if t.get_weight() == "bold"
    ]
    assert bold == list(dict.fromkeys(frame["feature"]))
    # A category stands at the height of its bar.
    text = names(display)
    for bar, category in zip(display.bars_, frame["category"], strict=True):
        assert text[round(bar.get_y() + bar.get_height() / 2)] == category
    shares = [t.get_text() for t in display.ax_.texts[1:]]
    assert shares == [f"{100 * share:.0f} %" for share in frame["share"]]


def test_many_classes_have_marks_of_their_own():
    X, y = noisy(400, n_classes=5)
    clf = renyi.RenyiClassifier().fit(X, y)
    display = ScorecardDisplay.from_estimator(clf, n_features=2)
    frame = clf.scorecard_.frame()[:6]
    assert [line.get_label() for line in display.lines_] == list("01234")
    assert [line.get_marker() for line in display.lines_] == list(MARKERS[:5])
    for k, line in enumerate(display.lines_):
        np.testing.assert_array_equal(line.get_xdata(), frame[str(k)])
    low, high = display.ax_.get_xlim()
    assert low < frame.iloc[:, 4:].min().min() and high == -low


def test_of_many_categories_those_of_most_rows_are_shown():
    n = 400
    cells = np.repeat([f"k{j:02}" for j in range(40)], np.r_[[3] * 35, [59] * 5])
    X = pd.DataFrame({"many": cells, "few": ["a", "b"] * (n // 2)})
    clf = renyi.RenyiClassifier().fit(X, np.arange(n) % 2)
    display = ScorecardDisplay.from_estimator(clf, n_categories=5)
    text = names(display)
    assert "many  (5 of 40)" in text
    assert [t for t in text if t.startswith("k")] == [f"k{j}" for j in range(35, 40)]


def test_names_are_shown_as_they_are_and_fit():
    X = pd.DataFrame(
        {"$a_1$ costs\nmore": ["x^2", "$\\alpha$"] * 30, "b" * 200: ["\x1b", "é"] * 30}
    )
    y = ["yes", "no"] * 30
    display = ScorecardDisplay.from_estimator(renyi.RenyiClassifier().fit(X, y))
    display.figure_.draw_without_rendering()
    text = names(display)
    assert r"\$a_1\$ costs more" in text and "b" * 33 + "…" in text
    assert {r"\$\alpha\$", r"\x1b", "é", "x^2"} <= set(text)


def test_selectors_and_given_axes(votes, clf):
    selector = renyi.RenyiSelector(n_features=2).fit(*votes)
    display = ScorecardDisplay.from_estimator(selector)
    assert len(display.bars_) == 6
    again = ScorecardDisplay.from_estimator(clf, ax=display.ax_)
    assert again.ax_ is display.ax_ and again.figure_ is display.figure_
    assert len(ScorecardDisplay.from_estimator(clf.scorecard_, n_features=1).bars_) == 3


def test_what_cannot_be_drawn_is_said(clf):
    with pytest.raises(TypeError, match="dict"):
        ScorecardDisplay.from_estimator({})
    with pytest.raises(ValueError, match="'feature'; its columns are none"):
        ScorecardDisplay.from_estimator(pd.DataFrame())
    with pytest.raises(TypeError, match=r"ax must be matplotlib axes, not a str"):
        ScorecardDisplay.from_estimator(clf, ax="file.png")
    with pytest.raises(ValueError, match="n_features"):
        ScorecardDisplay.from_estimator(clf, n_features=0)
    constant = clf.scorecard_.frame()[:0]
    with pytest.raises(ValueError, match="nothing to plot"):
        ScorecardDisplay(constant, classes=("a", "b")).plot()
