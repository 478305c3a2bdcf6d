"""RenyiClassifier(order="auto"): the order of the least left-out risk, and why."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import renyi
from renyi import RenyiClassifier
from renyi.fitting import training


def rows(n=240, d=5, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 2, (n, d)), columns=[*"abcdefgh"][:d])
    return X, rng


def of_order(r, X):
    """Return classes that only r columns together determine."""
    return X.iloc[:, :r].sum(axis=1) % 2


@pytest.mark.parametrize("r", [1, 2, 3])
def test_the_order_that_is_needed_is_chosen(r):
    X, _ = rows()
    y = of_order(r, X)
    clf = RenyiClassifier(order="auto").fit(X.astype(str), y)
    assert clf.order_ == r
    assert clf.score(X.astype(str), y) == 1
    assert clf.get_params()["order"] == "auto"
    given = RenyiClassifier(order=r).fit(X.astype(str), y)
    np.testing.assert_array_equal(clf.z_, given.z_)
    assert clf.certificate_ == given.certificate_


def test_it_is_the_least_left_out_risk():
    X, rng = rows(d=6)
    y = (X["a"] ^ X["b"]) + X["c"] + (rng.random(240) < 0.2)
    clf = RenyiClassifier(order="auto").fit(X.astype(str), y)
    fits = [RenyiClassifier(order=r).fit(X.astype(str), y) for r in (1, 2, 3)]
    risks = [each.alpha_choice_.risk for each in fits]
    assert clf.order_ == 1 + int(np.argmin(risks))
    again = clone(clf).fit(X.astype(str), y)
    np.testing.assert_array_equal(again.z_, clf.z_)


def test_weights_are_repetition():
    X, rng = rows(60)
    y = of_order(2, X) ^ (rng.random(60) < 0.1)
    w = rng.integers(1, 4, 60)
    place = np.repeat(np.arange(60), w)
    weighted = RenyiClassifier(order="auto").fit(X, y, w)
    repeated = RenyiClassifier(order="auto").fit(X.iloc[place], y.iloc[place])
    assert weighted.order_ == repeated.order_
    a, b = (each.decision_function(X) for each in (weighted, repeated))
    np.testing.assert_allclose(a, b, atol=1e-7)


def test_what_was_skipped_is_said(monkeypatch):
    X, _ = rows(d=2)
    clf = RenyiClassifier(order="auto").fit(X.astype(str), X["a"])
    assert (
        "order 3 was not tried: the table has only 2 columns."
        in clf.certificate_.warnings
    )
    assert "order" in clf.certificate_.warning_codes
    X, _ = rows()
    monkeypatch.setattr(training, "_MOST_TUPLES", 60)
    clf = RenyiClassifier(order="auto").fit(X.astype(str), of_order(3, X))
    text = "\n".join(clf.certificate_.warnings)
    assert "order 3 was not tried: 10 features of 3 columns in 240 rows" in text
    assert "order 2 was" not in text


def test_it_needs_rows_and_single_columns():
    X, y = renyi.datasets.load("votes")
    auto = RenyiClassifier(order="auto")
    with pytest.raises(
        ValueError, match="only marginals are given, which have order 1"
    ):
        auto.fit_marginals(renyi.Marginals.from_data(X, y))
    with pytest.raises(ValueError, match="Blocks of rows cannot be added"):
        auto.partial_fit(X, y, classes=y.unique())
    with pytest.raises(ValueError, match="interactions"):
        RenyiClassifier(order="auto", interactions=2).fit(X, y)
    with pytest.raises(ValueError, match="order must be"):
        RenyiClassifier(order="most").fit(X, y)
    pairs = RenyiClassifier(order=2).fit(X.iloc[:, :3], y).encoder_
    with pytest.raises(ValueError, match="encoder of single columns"):
        RenyiClassifier(order="auto", encoder=pairs).fit(X.iloc[:, :3], y)
    with pytest.raises(ValueError, match="another order in each half"):
        renyi.CrossFitClassifier(auto).fit(X, y)


def test_halves_may_choose_for_themselves():
    X, _ = rows(400)
    clf = renyi.CrossFitClassifier(RenyiClassifier(order="auto"), method="mixture")
    clf.fit(X.astype(str), of_order(2, X))
    assert clf.certificate_.observed_error == 0
