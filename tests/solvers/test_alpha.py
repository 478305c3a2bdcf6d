"""The choice of alpha: what may be chosen, and what not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals, RenyiClassifier
from renyi.solvers.alpha import (
    FLOOR_ROWS,
    AlphaChoice,
    HeldOut,
    alpha_floor,
    check_alpha,
    choose,
)


def test_choice_takes_the_largest_alpha_among_equals():
    """Equal but for rounding: the choice must be the same on every machine."""
    risks = np.array([3.0, 1.0, 1.0 + 1e-13, 2.0])
    held_out = HeldOut.of_risk(risks)
    choice = choose("gcv", np.array([0.1, 0.2, 0.3, 0.4]), held_out)
    assert choice.alpha == 0.3
    assert choice.risk == pytest.approx(1.0)


@pytest.mark.parametrize(
    "change",
    [
        {"method": "guess"},
        {"alpha": -1.0},
        {"alpha": float("inf")},
        {"alpha": 10**400},
        {"risk": -0.1},
        {"risk": float("nan")},
        {"risk": 10**400},
        {"error": 1.5},
        {"error": -0.5},
    ],
)
def test_choices_that_no_fit_makes_are_refused(change):
    good = {"method": "loo", "alpha": 0.1, "risk": 0.2, "error": 0.3}
    assert AlphaChoice(**good).risk == 0.2
    with pytest.raises(ValueError, match="alpha|estimated"):
        AlphaChoice(**{**good, **change})


@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, True, "big"])
def test_bad_alpha_is_named(alpha):
    with pytest.raises(ValueError, match=str(alpha)):
        check_alpha(alpha)


def separable_table(n):
    """Rows whose class one column tells, beside a coarser copy of it and noise."""
    rng = np.random.default_rng(n)
    noise = {f"noise{j}": rng.choice(list("abcd"), n) for j in range(18)}
    key = rng.choice(list("uvxy"), n)
    X = pd.DataFrame({**noise, "key": key, "side": np.where(key < "x", "l", "r")})
    return X, np.where(key < "x", "no", "yes")


@pytest.mark.parametrize("road", ["rows", "marginals", "loo"])
def test_alpha_does_not_fall_to_the_rounding_errors_of_a_separable_table(road):
    n = 2_400
    X, y = separable_table(n)
    clf = RenyiClassifier(alpha="loo" if road == "loo" else "auto")
    if road == "marginals":
        clf.fit_marginals(Marginals.from_data(X, y))
    else:
        clf.fit(X, y)
    assert clf.alpha_ >= FLOOR_ROWS / n
    assert not (clf.predict(X) != y).any()
    # The estimate for new rows is one, not rounding: it agrees with the risk seen.
    assert clf.alpha_choice_.risk == pytest.approx(clf.certificate_.gamma, rel=0.2)
    card = clf.scorecard_.frame()
    side = card[card.feature == "side"].set_index("category")["yes"]
    assert side["l"] < 0 < side["r"]


def test_no_floor_with_more_categories_than_rows():
    assert alpha_floor(100, 99) == FLOOR_ROWS / 100
    assert alpha_floor(100, 100) == 0.0


def test_choice_keeps_to_the_floor():
    alphas, risks = np.array([0.1, 0.2, 0.3]), np.array([1.0, 3.0, 2.0])
    choice = choose("loo", alphas, HeldOut.of_risk(risks), floor=0.15)
    assert choice.alpha == 0.3
    assert choice.risks == (1.0, 3.0, 2.0)
