"""Comparisons: figures against other ways to them, intervals against enumeration."""

from __future__ import annotations

import itertools
import json
import math
from html import escape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi
from renyi.certificates.heldout import share_interval
from renyi.cli.compare import _panels, comparison_page, how_evaluated, summary
from renyi.cli.evaluation import (
    Comparison,
    Estimate,
    Evaluation,
    Intervals,
    _splits,
    compare,
)
from renyi.cli.methods import DEFAULT, Method, Settings, every_method, named_methods
from renyi.files import encoded
from support.browser import opened
from support.noisyrows import noisy

KNOWN = every_method(Settings(renyi.Encoder(), 0))


def compared(names, rows, **how) -> Comparison:
    return compare(named_methods(names, KNOWN), *rows, target="y", **how)


def entry(found, name):
    return next(each for each in found.entries if each.name == name)


# ---- intervals


def test_test_rows_have_the_interval_of_clopper_and_pearson():
    wrong = np.arange(40) < 3
    intervals = Intervals(np.zeros(40, int), None, 0.9)
    assert intervals.error(wrong) == (3 / 40, *share_interval(3, 40, 0.9))


def test_folds_have_the_corrected_interval_of_t():
    rng = np.random.default_rng(0)
    place, a, b = np.arange(100) % 5, rng.random(100) < 0.3, rng.random(100) < 0.2
    intervals = Intervals(place, 5, 0.95)
    means = [a[place == k].mean() - b[place == k].mean() for k in range(5)]
    wide = stats.t.ppf(0.975, 4) * math.sqrt((1 / 5 + 1 / 4) * np.var(means, ddof=1))
    middle = a.mean() - b.mean()
    assert intervals.difference(a, b) == pytest.approx(
        (middle, middle - wide, middle + wide)
    )
    # Folds that agree by chance do not make an error certain.
    none = np.zeros(100, bool)
    assert intervals.error(none) == (0.0, *share_interval(0, 100, 0.95))
    same = intervals.difference(none, none)
    assert same.low < 0 < same.high


@pytest.mark.parametrize("folds", range(2, 9))
@pytest.mark.parametrize("each", [2, 3, 7, 10])
def test_folds_that_are_all_alike_make_nothing_certain(folds, each):
    """Means of 1/3 or 1/7 spread by their rounding, which was taken for a spread."""
    intervals = Intervals(np.repeat(np.arange(folds), each), folds, 0.95)
    none, one = np.zeros(folds * each, bool), np.arange(folds * each) % each == 0
    found = intervals.difference(one, none)
    n, sure = folds * each, 0.975
    more, less = share_interval(folds, n, sure), share_interval(0, n, sure)
    assert found == pytest.approx((1 / each, more[0] - less[1], more[1] - less[0]))
    limit = intervals.at_most(none, one, 0.95)
    low = stats.beta.ppf(0.025, folds, n - folds + 1)
    assert limit == pytest.approx(1 - 0.025 ** (1 / n) - low)
    loss = intervals.mean(np.where(one, 1.6, 0.2))
    assert loss.low < loss.value < loss.high


@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.4, 0.05), (0.0, 0.3), (0.5, 0.5)])
def test_difference_on_test_rows_covers_as_often_as_it_says(shares):
    # Exactly, over all outcomes of 12 rows: only a wrong, only b, or neither.
    n, covered = 12, 0.0
    intervals = Intervals(np.zeros(n, int), None, 0.8)
    for i, j in itertools.product(range(n + 1), repeat=2):
        if i + j > n:
            continue
        rest = 1 - sum(shares)
        ways = math.factorial(n) / math.prod(map(math.factorial, (i, j, n - i - j)))
        chance = ways * shares[0] ** i * shares[1] ** j * rest ** (n - i - j)
        a, b = np.arange(n) < i, np.arange(n) >= n - j
        low, high = intervals.difference(a, b)[1:]
        covered += chance * (low <= shares[0] - shares[1] <= high)
    assert covered >= 0.8


def test_the_best_is_among_those_that_may_be():
    rng, n, failed = np.random.default_rng(0), 60, 0
    sure = 1 - 0.2 / 3
    for _ in range(150):
        wrong = rng.random((4, n)) < np.array([0.2, 0.2, 0.25, 0.4])[:, None]
        intervals = Intervals(np.zeros(n, int), None, 0.8)
        failed += any(
            intervals.at_most(other, wrong[0], sure) < 0 for other in wrong[1:]
        )
    assert failed / 150 <= 0.2
    far = np.arange(n) < 40
    assert intervals.at_most(np.zeros(n, bool), far, sure) < 0


# ---- rows


@pytest.mark.parametrize("folds", [2, 7])
def test_folds_share_out_every_class(folds):
    truth = np.repeat(["a", "b", "c"], [50, 31, 9])
    parts = _splits(truth, folds, 3)
    assert sorted(np.concatenate([rows for _, rows in parts])) == list(range(90))
    for train, rows in parts:
        assert not set(train) & set(rows) and len(train) + len(rows) == 90
        for label in "abc":
            share = (truth == label).sum() / folds
            assert abs((truth[rows] == label).sum() - share) <= 1
    assert not np.array_equal(parts[0][1], _splits(truth, folds, 4)[0][1])


def test_more_folds_than_pairs_of_rows_are_refused():
    truth = np.repeat(["a", "b"], [70, 30])
    with pytest.raises(ValueError, match=r"folds=60"):
        _splits(truth, 60, 0)


# ---- what is compared


def test_figures_are_those_of_models_trained_by_hand():
    X, y = noisy(240, d=4, n_classes=3)
    found = compared(["map", "logistic"], (X, y), folds=4)
    parts = _splits(y.astype(str), 4, 0)
    for name, make in (
        ("map", lambda: renyi.RenyiClassifier(random_state=0)),
        (
            "logistic",
            lambda: make_pipeline(OneHotEncoder(), LogisticRegression(max_iter=1000)),
        ),
    ):
        wrong, p = np.zeros(240), np.zeros((240, 3))
        for train, rows in parts:
            clf = make().fit(X.iloc[train], y[train])
            wrong[rows] = clf.predict(X.iloc[rows]) != y[rows]
            p[rows] = clf.predict_proba(X.iloc[rows])
        one = entry(found, name)
        assert one.error.value == wrong.mean()
        assert one.log_loss.value == pytest.approx(log_loss(y, p), rel=1e-4)
    whole = renyi.RenyiClassifier().fit(X, y).certificate_
    assert entry(found, "map").worst_case == whole.bounds["map"]
    assert found.entries[0].difference is None and found.entries[0].may_be_best


def test_every_method_is_judged_on_every_row(votes):
    X, y = votes[0].iloc[:, :6], votes[1]
    found = compared([*KNOWN], (X, y), folds=2)
    assert {e.name for e in found.entries} == set(KNOWN)
    assert all(e.failure == "" for e in found.entries)
    assert found.rows == 435
    errors = [e.error.value for e in found.entries]
    assert errors == sorted(errors)
    # The rows are votes: all but the last are far better than no column at all.
    assert found.entries[-1].name == "majority" and not found.entries[-1].may_be_best
    assert entry(found, "majority").error.value == pytest.approx(0.386, abs=0.01)
    for name in ("minimax", "dcc", "mpm"):  # no probabilities
        assert entry(found, name).log_loss is None
    twice = entry(found, "minimax")
    assert twice.worst_case > twice.error.value and "at random" in twice.note
    for name in ("map", "sharp", "order2"):
        one = entry(found, name)
        assert one.error.value < one.worst_case and one.population is None
    assert set(DEFAULT) < set(KNOWN)


def test_what_a_method_cannot_do_is_said_of_it():
    rows = noisy(120, d=3, n_classes=3)
    found = compared(["map", "mpm"], rows, folds=2)
    assert "class" in entry(found, "mpm").failure
    assert entry(found, "mpm").error is None and found.entries[-1].name == "mpm"
    with pytest.raises(ValueError, match="class"):
        compared(["mpm"], rows, folds=2)
    with pytest.raises(ValueError, match=r"method 'magic'.*'map'"):
        compared(["magic"], rows, folds=2)


def test_models_are_judged_as_they_are(votes):
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    seen = renyi.RenyiClassifier().fit(X[300:], y[300:])
    them = [
        Method("new", "", clf, trained=True, X=X[300:]),
        Method("seen", "", seen, trained=True, X=X[300:]),
    ]
    found = compare(them, X[300:], y[300:], target="party")
    wrong = clf.predict(X[300:]) != y[300:].to_numpy()
    one = entry(found, "new")
    assert one.error == (wrong.mean(), *share_interval(int(wrong.sum()), 135, 0.95))
    c = renyi.certify(clf, X[300:], y[300:])
    assert (one.population, one.population_worst) == (c.sampled_error, c.bounds["map"])
    assert "training rows" in entry(found, "seen").note and one.note == ""
    assert found.folds is None


def test_no_bound_of_its_training_is_that_of_a_model(votes):
    """Models of two halves have bounds of their own, which are not about these rows."""
    X, y = votes
    strong = renyi.CrossFitClassifier(confidence=0.99, random_state=0)
    clf = strong.fit(X[:300], y[:300]).classifier_
    model = Method("m", "", clf, trained=True, X=X[300:])
    found = compare([model], X[300:], y[300:], target="party", confidence=0.9)
    wrong = int((clf.predict(X[300:]) != y[300:].to_numpy()).sum())
    upper = stats.beta.ppf(0.9, wrong + 1, 135 - wrong)
    assert entry(found, "m").population == pytest.approx(upper, rel=1e-9)
    assert entry(found, "m").worst_case is None


def test_rows_of_a_class_that_a_model_does_not_know_are_errors(votes):
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    other = y[300:].where(y[300:].index % 9 != 0, "whig")
    model = Method("m", "", clf, trained=True, X=X[300:])
    found = compare([model], X[300:], other, target="party")
    wrong = int((clf.predict(X[300:]) != other.to_numpy()).sum())
    assert wrong >= (other == "whig").sum() > 0
    one = entry(found, "m")
    assert one.error.value == wrong / 135
    assert one.population == pytest.approx(stats.beta.ppf(0.95, wrong + 1, 135 - wrong))


def test_the_same_seed_gives_the_same_comparison(votes):
    told = []
    rows = votes[0].iloc[:150, :2], votes[1].iloc[:150]
    first, second = (
        compared(["sharp", "renyi"], rows, folds=3, progress=told.append)
        for _ in range(2)
    )
    plain = [
        [{**e, "seconds": None} for e in found.to_dict()["entries"]]
        for found in (first, second)
    ]
    assert plain[0] == plain[1]
    json.dumps(first.to_dict(), allow_nan=False)
    assert [state.share for state in told[:2]] == [0, 0.5]


def test_a_search_that_was_interrupted_ends_the_comparison():
    class Interrupted(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.result_ = SimpleNamespace(interrupted=True)
            return self

    with pytest.raises(KeyboardInterrupt):
        compare([Method("one", "", Interrupted())], *noisy(60), target="y", folds=2)


# ---- the page


def test_page_has_every_figure_and_only_text_of_others():
    X, y = noisy(200, d=3)
    name = "<script>alert(1)</script>.json"
    clf = renyi.RenyiClassifier().fit(X, y)
    them = [
        *named_methods(["map", "minimax", "majority"], KNOWN),
        Method(name, "a model", clf, trained=True, X=X),
    ]
    found = compare(them, X, y, target="y", folds=3)
    page = comparison_page(found, "Comparison", "renyi compare '<b>'")
    page = page.replace("\N{NO-BREAK SPACE}", " ")
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert "&lt;b&gt;" in page
    for e in found.entries:
        reach = f"({100 * e.error.low:.1f} – {100 * e.error.high:.1f})"
        assert f"{100 * e.error.value:.1f} % {reach}" in page
        if e.log_loss is not None:
            assert f"{e.log_loss.value:.4f}" in page
    assert escape(summary(found)) in page and "corrected resampled t" in how_evaluated(
        found
    )
    assert "Models were evaluated as they are" in how_evaluated(found)


@pytest.mark.xdist_group("browser")
def test_page_in_a_browser(browser, tmp_path):
    from axe_playwright_python.sync_playwright import Axe

    them = named_methods(["map", "tan", "mpm", "majority"], KNOWN)
    found = compare(them, *noisy(150, d=3), target="y", folds=2)
    place = tmp_path / "compare.html"
    place.write_bytes(encoded(comparison_page(found, "Comparison", "renyi compare")))
    with opened(browser, place) as page:
        broken = Axe().run(page).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in broken] == []
        marks = page.locator("table.panels td.chart svg").count()
        assert marks >= 4 + 2 + 3  # errors, worst cases, losses; some off the scale
        page.locator("#figures thead button", has_text="Error").first.click()
        names = page.locator("#figures tbody th").all_inner_texts()
        assert names[0] == "majority"  # numbers are sorted from the largest


def test_verdict_says_what_the_rows_can_tell():
    sure = Estimate(0.1, 0.05, 0.2)
    base = {"target": "y", "classes": ("a", "b"), "rows": 9, "folds": None}
    base |= {"confidence": 0.95, "seed": 0}
    base |= {"always": "a", "baseline": 0.4}
    best = Evaluation("one", "", sure, may_be_best=True)
    other = Evaluation("two", "", sure)
    clear = Comparison(entries=(best, other), **base)
    assert "it is the best of these 2" in summary(clear)
    assert "Always answering 'a' is wrong on 40.0 %." in summary(clear)
    doubtful = Comparison(entries=(best, best), **base)
    assert "2 of 2 may be the best" in summary(doubtful)


def test_rows_of_the_training_prove_nothing_of_a_model():
    X, y = noisy(200, d=3)
    clf = renyi.RenyiClassifier().fit(X, y)
    model = Method("m.json", "a model", clf, trained=True, X=X)
    them = [*named_methods(["majority"], KNOWN), model]
    found = compare(them, X, y, target="y", folds=2)
    mine = entry(found, "m.json")
    assert mine.population is None and mine.population_worst is None
    assert found.entries[0] is mine
    assert "not valid" in summary(found)
    assert "confidence" not in summary(found)


def test_bounds_of_few_rows_are_named_as_such_and_not_drawn():
    found = compared(["map", "majority"], noisy(30, d=12), folds=2)
    assert entry(found, "map").doubtful
    assert comparison_page(found, "", "").count(", of few rows") == 1
    assert not any(panel.head == "Guarantee" for panel in _panels(found))


def test_classes_that_differ_in_a_null_are_told_apart():
    X = pd.DataFrame({"a": ["u", "v", "w"] * 30})
    y = pd.Series(["k", "k\0", "k"] * 30, dtype=object)
    found = compared(["map", "majority"], (X, y), folds=3)
    assert entry(found, "map").error.value == 0.0
    assert entry(found, "majority").error.value > 0.1
    assert found.classes == ("k", "k\0")
