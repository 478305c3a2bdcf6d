"""partial_fit: blocks of rows give what all rows give at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import Encoder, RenyiClassifier
from renyi.encoding.rows import RowSample
from support.models import (
    assert_same_certificate,
    assert_same_choice,
    assert_same_model,
    make_frame,
)


def in_blocks(X, y, ends, weights=None, **settings):
    """A classifier trained block after block."""
    clf = RenyiClassifier(**settings)
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        block = None if weights is None else weights[start:end]
        clf.partial_fit(
            X[start:end], y[start:end], classes=np.unique(y), sample_weight=block
        )
    return clf


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("alpha", ["auto", "loo", 0.02])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("d", "ends"),
    [
        (4, [30, 31, 90, 120]),  # labels of a block of one row are all late
        (25, [10, 20, 40]),  # more categories than rows, to the end
        (12, [10, 20, 80]),  # first more categories, then more rows
    ],
)
def test_partial_fit_equals_fit(K, alpha, weighted, d, ends):
    X, y = make_frame(ends[-1], K, d)
    X.loc[:25, "q0"] = "a"  # "b" and "c" appear late
    X.loc[ends[-1] - 2 :, "q1"] = None
    weights = np.random.default_rng(3).random(len(y)) * 3 if weighted else None
    clf = in_blocks(X, y, ends, weights, alpha=alpha)
    whole = RenyiClassifier(alpha=alpha).fit(X, y, sample_weight=weights)
    assert_same_model(clf, whole)
    assert_same_choice(clf, whole)
    assert_same_certificate(clf, whole)
    np.testing.assert_array_equal(clf.predict(X), whole.predict(X))
    np.testing.assert_allclose(clf.predict_proba(X), whole.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_partial_fit_drops_rows_and_still_equals_fit(weighted, class_weight):
    X, y = make_frame(900, 2, 2, labels="ab")
    weights = np.random.default_rng(3).integers(1, 3, 900) if weighted else None
    settings = {"class_weight": class_weight}
    clf = in_blocks(X, y, [100, 500, 700, 900], weights, **settings)
    assert isinstance(clf._blocks, RowSample)
    assert clf.alpha_choice_.method == "gcv"
    whole = RenyiClassifier(**settings).fit(X, y, sample_weight=weights)
    assert_same_model(clf, whole)
    assert_same_choice(clf, whole)
    assert_same_certificate(clf, whole)


@pytest.mark.parametrize("ends", [[100, 200], [600, 800]])
def test_partial_fit_of_blocks_with_and_without_weights(ends):
    X, y = make_frame(ends[-1], 2, 2, labels="ab")
    weights = np.random.default_rng(3).integers(1, 3, ends[-1]).astype(float)
    weights[: ends[0]] = 1
    clf = RenyiClassifier().partial_fit(
        X[: ends[0]], y[: ends[0]], classes=["no", "yes"]
    )
    clf.partial_fit(X[ends[0] :], y[ends[0] :], sample_weight=weights[ends[0] :])
    whole = RenyiClassifier().fit(X, y, sample_weight=weights)
    assert_same_model(clf, whole)
    assert_same_choice(clf, whole)
    assert_same_certificate(clf, whole)


def test_partial_fit_takes_the_bins_of_a_fitted_encoder():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 10, 200), "sex": list("mf") * 100})
    X.loc[150:160, "age"] = np.nan
    y = (X["age"].fillna(40) + rng.normal(0, 5, 200) > 42).astype(int)
    encoder = Encoder(bins=4).fit(X)
    clf = in_blocks(X, y, [50, 100, 200], encoder=encoder)
    assert_same_model(clf, RenyiClassifier(encoder=encoder).fit(X, y))


def test_partial_fit_takes_no_block_for_identifiers():
    k = np.arange(1000)
    y = pd.Series(np.where((k * 13) % 17 < 8, "no", "yes"))
    X = pd.DataFrame({"town": [f"t{v}" for v in k * 7 % 200], "odd": k % 3})
    with pytest.raises(ValueError, match=r"Column 'town' \(25 different labels"):
        RenyiClassifier().fit(X[:25], y[:25])
    clf = in_blocks(X, y, list(range(25, 1001, 25)), alpha=0.01)
    assert_same_model(clf, RenyiClassifier(alpha=0.01).fit(X, y))
    assert len(clf.encoder_.categories["town"]) == 200


def test_partial_fit_may_begin_with_constant_columns():
    X, y = make_frame(40)
    clf = RenyiClassifier().partial_fit(X[:1], y[:1], classes=["no", "yes"])
    assert clf.predict(X[:1]).tolist() == y[:1].tolist()
    clf.partial_fit(X[1:], y[1:])
    assert_same_model(clf, RenyiClassifier().fit(X, y))


def test_partial_fit_continues_a_fit():
    X, y = make_frame(200)
    clf = (
        RenyiClassifier(alpha=0.01).fit(X[:120], y[:120]).partial_fit(X[120:], y[120:])
    )
    assert_same_model(clf, RenyiClassifier(alpha=0.01).fit(X, y))


def test_partial_fit_errors(tmp_path):
    X, y = make_frame(40)
    clf = RenyiClassifier()
    with pytest.raises(ValueError, match="classes must be passed"):
        clf.partial_fit(X, y)
    with pytest.raises(ValueError, match="'yes', which is not among the classes"):
        clf.partial_fit(X, y, classes=["no", "perhaps"])
    clf.partial_fit(X, y, classes=["no", "yes"])  # a failed first call left no trace
    with pytest.raises(ValueError, match="'never'"):
        clf.partial_fit(X, ["never"] * 40)
    wide = make_frame(10, d=30)
    with pytest.raises(ValueError, match="start with partial_fit"):
        RenyiClassifier().fit(*wide).partial_fit(*wide)
    RenyiClassifier().fit(X, y).save(tmp_path / "model.json")
    with pytest.raises(ValueError, match="read from a file"):
        RenyiClassifier.load(tmp_path / "model.json").partial_fit(X, y)
