"""Frames to train on, and whether two trained models are the same."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest


def make_frame(n, K=2, d=4, seed=0, labels="abc"):
    """A frame of labels with classes that depend on them."""
    rng = np.random.default_rng([seed, n, K, d])
    codes = rng.integers(0, len(labels), (n, d))
    noise = rng.integers(0, 2, n) * (rng.random(n) < 0.3)
    y = (codes[:, 0] + (codes[:, 1] == 1) + noise) % K
    X = pd.DataFrame(np.array(list(labels))[codes], columns=[f"q{j}" for j in range(d)])
    return X, pd.Series(np.array(["no", "yes", "zero"])[y], name="answer")


def assert_same_model(first, second, tolerance=1e-9):
    np.testing.assert_allclose(first.z_, second.z_, atol=tolerance)
    np.testing.assert_allclose(first.intercept_, second.intercept_, atol=tolerance)
    np.testing.assert_array_equal(first.classes_, second.classes_)
    assert first.encoder_.categories == second.encoder_.categories
    assert first.alpha_ == second.alpha_


def assert_same_choice(first, second):
    one, other = first.alpha_choice_, second.alpha_choice_
    assert one.method == other.method
    if other.risk is None:
        assert one.risk is None
    else:
        assert one.risk == pytest.approx(other.risk, rel=1e-7)
    assert one.error == pytest.approx(other.error, abs=1e-12)


def assert_same_certificate(first, second):
    one, other = first.certificate_, second.certificate_
    assert one.gamma == pytest.approx(other.gamma, abs=1e-10)
    assert one.bounds == pytest.approx(other.bounds, abs=1e-9)
    assert one.one_feature[1] == pytest.approx(other.one_feature[1])
    assert one.majority == pytest.approx(other.majority)
    assert one.n == pytest.approx(other.n)
    assert one.n_indicators == other.n_indicators
