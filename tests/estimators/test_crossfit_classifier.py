"""CrossFitClassifier: one scorecard of two, its file, and scikit-learn's checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from renyi import (
    CrossFitClassifier,
    Encoder,
    Marginals,
    RenyiClassifier,
    Scorecard,
    certify,
    verify,
)
from renyi.certificates.heldout import average, crossfit_bounds
from renyi.crossfitting import judged_half, split_rows
from renyi.datasets import load
from renyi.encoding import recoding
from renyi.formatting import at_most
from support.manners import all_checks
from support.noisyrows import noisy

ESTIMATORS = [CrossFitClassifier(), CrossFitClassifier(method="mixture")]


@pytest.mark.parametrize(("estimator", "check"), all_checks(ESTIMATORS))
def test_estimator_checks(estimator, check):
    check(estimator)


# ---- the average


def table(n, seed, K=2):
    """Rare labels, missing cells, floats, and integers around the limit of labels."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "label": rng.choice(list("abcdefgh"), n, p=rng.dirichlet(np.full(8, 0.4))),
            "float": rng.normal(size=n).round(2),
            "whole": rng.integers(0, 22, n),
            "many": rng.integers(0, 500, n),
            "gap": np.where(rng.random(n) < 0.04, "?", rng.choice(["x", "y"], n)),
        }
    )
    frame.loc[rng.random(n) < 0.05, "float"] = np.nan
    y = (frame["float"].fillna(0) + rng.normal(size=n) > 0).astype(int)
    return frame, (y + (K > 2) * rng.integers(0, K - 1, n)).rename("class")


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize(("K", "min_count"), [(2, 1), (3, 4)])
def test_average_scores_are_the_mean_of_both(order, K, min_count):
    X, y = table(90, K + order, K)
    clf = RenyiClassifier(order=order, alpha=0.05, encoder=Encoder(min_count=min_count))
    safe = CrossFitClassifier(clf).fit(X, y)
    strange = table(60, 99)[0].assign(label="(rare)")
    strange.loc[::2, "label"] = "never seen"
    strange.loc[::3, "gap"] = "z"
    strange["float"] = np.linspace(-5, 5, 60)
    strange["whole"] = np.arange(60) - 10
    first, second = safe.halves_
    rows = pd.concat([X, strange])
    mean = (first.decision_function(rows) + second.decision_function(rows)) / 2
    np.testing.assert_allclose(safe.decision_function(rows), mean, atol=1e-12)
    assert safe.scorecard_.counts.sum() == len(X) * len(first.encoder_.columns)
    t = safe.scorecard_.estimates(safe.scorecard_.encoder.transform(rows))
    assert safe.predict(rows).tolist() == safe.classes_[t.argmax(axis=1)].tolist()


def test_integers_may_be_labels_in_one_half_and_numbers_in_the_other():
    rng = np.random.default_rng(0)
    whole, other = rng.integers(0, 22, 100), rng.integers(0, 3, 100)
    X, y = pd.DataFrame({"whole": whole, "other": other}), (whole > 11).astype(int)
    clf = RenyiClassifier(alpha=0.1, calibration="temperature")
    kinds = set()
    for seed in range(8):
        safe = CrossFitClassifier(clf, random_state=seed).fit(X, y)
        halves = safe.halves_
        kinds.add(tuple(half.encoder_.columns[0].kind for half in halves))
        rows = pd.DataFrame({"whole": np.arange(-5, 30), "other": 1})
        between = rows.assign(whole=rows["whole"] + 0.5)
        for cells in (rows, between):
            scores = [half.decision_function(cells) for half in halves]
            mean = np.mean(scores, axis=0)
            found = safe.decision_function(cells)
            np.testing.assert_allclose(found, mean, atol=1e-12)
    assert len(kinds) > 1


def large_ids(seed):
    """Rows of 21 ids beyond 2**53, one of them rare: a half may have 20, or all."""
    rng = np.random.default_rng(seed)
    weights = np.append(np.ones(20), 0.15)
    places = rng.choice(21, 400, p=weights / weights.sum())
    flipped = rng.random(400) < 0.1
    X = pd.DataFrame({"id": 2**53 + places, "other": rng.integers(0, 3, 400)})
    return X, (places % 2) ^ flipped


def test_whole_numbers_beyond_floats_are_never_cut_at_floats():
    refused = 0
    for seed in range(8):
        X, y = large_ids(seed)
        safe = CrossFitClassifier(random_state=seed)
        try:
            safe.fit(X, y)
        except ValueError as error:
            assert "'id' holds labels in one half" in str(error)
            refused += 1
            continue
        mean = np.mean([half.decision_function(X) for half in safe.halves_], axis=0)
        np.testing.assert_allclose(safe.decision_function(X), mean, atol=1e-12)
    assert 0 < refused < 8


def test_an_average_that_is_not_the_mean_is_refused(monkeypatch):
    """As if whole numbers were cut at floats."""
    monkeypatch.setattr(recoding, "beyond_exact", lambda values: values != values)
    for seed in range(8):
        X, y = large_ids(seed)
        safe = CrossFitClassifier(random_state=seed)
        try:
            safe.fit(X, y)
        except ValueError as error:
            assert str(error).startswith("Column 'id' cannot be averaged")
            return
    raise AssertionError("no half had labels where the other had numbers")


def test_file_keeps_scores_and_certificate(tmp_path):
    X, y = table(120, 3)
    safe = CrossFitClassifier(RenyiClassifier(rule="sharp", random_state=1)).fit(X, y)
    safe.save(tmp_path / "model.json")
    loaded = RenyiClassifier.load(tmp_path / "model.json")
    unseen = X.assign(label="never seen", gap="nor this")
    for rows in (X, unseen):
        np.testing.assert_array_equal(
            loaded.decision_function(rows), safe.decision_function(rows)
        )
        np.testing.assert_array_equal(loaded.predict(rows), safe.predict(rows))
    assert loaded.certificate_ == safe.certificate_
    card = Scorecard.load(tmp_path / "model.json")
    np.testing.assert_array_equal(card.unseen, safe.scorecard_.unseen)
    card.save(tmp_path / "card.json")
    np.testing.assert_array_equal(
        Scorecard.load(tmp_path / "card.json").unseen, card.unseen
    )
    # Under another rule the population has the bound of all others.
    other = loaded.set_params(rule="map").certificate_
    assert other.sampled_error == other.bounds["map"] == safe.certificate_.bounds["map"]
    again = certify(safe, X, y)  # which are the training rows
    assert again.basis == "heldout"
    assert again.warning_codes == ("training-rows",)


@pytest.mark.parametrize("K", [2, 3])
def test_strangers_check_the_average(tmp_path, K):
    X, y = table(120, 4, K)
    X = X[["label", "gap"]]
    card = CrossFitClassifier().fit(X, y).scorecard_
    m = Marginals.from_data(X, y)
    m.save(tmp_path / "m.renyi")
    counts = verify.Counts(str(tmp_path / "m.renyi"))
    exact = counts.bounds(card.to_dict())
    bound = certify(card, m).bounds["map"]
    assert float(exact["map"]) == pytest.approx(bound, abs=1e-12)


def test_points_of_unseen_labels_of_a_stranger_are_checked():
    X, y = load("votes")
    plain = CrossFitClassifier().fit(X, y).scorecard_.to_dict()
    for wrong in ([[0.1]] * 3, [["a"]] * 16, [[float("nan")]] * 16, [[1e12]] * 16):
        with pytest.raises(ValueError, match="points"):
            Scorecard.from_dict({**plain, "unseen": wrong})


def test_scorecards_of_other_classes_have_no_average():
    X, y = load("votes")
    first = RenyiClassifier().fit(X, y).scorecard_
    second = RenyiClassifier().fit(X, y == "democrat").scorecard_
    with pytest.raises(ValueError, match="classes"):
        average(first, second)


# ---- the halves


def test_each_half_learns_alone():
    X, y = table(200, 5)
    safe = CrossFitClassifier(random_state=3).fit(X, y)
    parts = split_rows(X, y.to_numpy(), 3)
    for half, part in zip(safe.halves_, parts, strict=True):
        alone = RenyiClassifier().fit(part.table, part.y)
        assert half.encoder_ == alone.encoder_
        np.testing.assert_array_equal(half.z_, alone.z_)
    assert safe.halves_[0].encoder_ != safe.halves_[1].encoder_
    pairs = list(zip(safe.halves_, parts[::-1], strict=True))
    wrong = np.mean([np.mean(h.predict(p.table) != p.y) for h, p in pairs])
    judged = [judged_half(*pair) for pair in pairs]
    for method in ("average", "mixture"):
        found = crossfit_bounds(judged, "map", method, 0.95)
        c = CrossFitClassifier(method=method, random_state=3).fit(X, y).certificate_
        assert (c.sampled_error, c.gamma) == (found.sampled_error, found.gamma)
        assert c.observed_error == pytest.approx(wrong)


def test_mixture_answers_as_one_of_both():
    X, y = load("credit")
    safe = CrossFitClassifier(method="mixture").fit(X, y)
    both = np.stack([half.predict(X) for half in safe.halves_])
    answers = safe.predict(X)
    assert ((answers == both[0]) | (answers == both[1])).all()
    differ = both[0] != both[1]
    assert 0.3 < np.mean((answers == both[0])[differ]) < 0.7
    np.testing.assert_array_equal(safe.predict(X[::-1]), answers[::-1])
    assert set(np.unique(safe.rule_proba(X))) <= {0, 0.5, 1}
    average = CrossFitClassifier().fit(X, y).certificate_
    assert safe.certificate_.sampled_error == average.sampled_error / 2
    assert safe.certificate_.bounds == average.bounds
    for name in ("scorecard_", "decision_function", "explain", "save"):
        assert not hasattr(safe, name), name


def test_class_that_one_half_never_saw():
    X, y = table(60, 7)
    y = y.to_numpy().copy()
    y[0] = 2
    safe = CrossFitClassifier().fit(X, y)
    assert safe.classes_.tolist() == [0, 1, 2]
    X2, y2 = table(40, 8)
    alone = np.zeros(40, int)
    alone[3] = 1  # one half has a single class
    found = CrossFitClassifier().fit(X2, alone)
    assert set(found.predict(X2)) <= {0, 1}
    assert found.certificate_.sampled_error > 0.1


def test_unseen_labels_are_judged_where_answers_are_refused():
    X, y = table(60, 9)
    encoder = Encoder(unseen="error")
    strict = CrossFitClassifier(RenyiClassifier(encoder=encoder)).fit(X, y)
    assert strict.certificate_ == CrossFitClassifier().fit(X, y).certificate_


def test_class_weight_is_told():
    X, y = load("votes")
    safe = CrossFitClassifier(RenyiClassifier(class_weight="balanced")).fit(X, y)
    assert safe.certificate_.warning_codes == ("class-weight",)


def test_mixture_is_judged_by_its_calibrated_answers():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (400, 2))
    X = pd.DataFrame(x, columns=["a", "b"])
    y = np.clip(x.sum(axis=1) // 4 + rng.integers(0, 2, 400), 0, 3)
    safe = CrossFitClassifier(method="mixture").fit(X, y)
    kinds = [half.scorecard_.calibration.kind for half in safe.halves_]
    assert kinds == ["affine", "affine"]
    c = safe.certificate_
    parts = split_rows(X, y, 0)
    wrong = [
        np.mean(half.predict(part.table) != part.y)
        for half, part in zip(safe.halves_, parts[::-1], strict=True)
    ]
    assert c.observed_error == pytest.approx(np.mean(wrong))
    linear = CrossFitClassifier(RenyiClassifier(calibration=None), method="mixture")
    assert linear.fit(X, y).certificate_.bounds["sharp"] == c.bounds["sharp"]
    for calibration in ("affine", "discriminant"):
        clf = RenyiClassifier(calibration=calibration, rule="sharp")
        with pytest.raises(ValueError, match="calibration"):
            CrossFitClassifier(clf).fit(X, y)
    for kept in (CrossFitClassifier(), CrossFitClassifier(method="mixture")):
        shares = kept.fit(X, y).predict_proba(X)
        assert (kept.classes_[shares.argmax(axis=1)] == kept.predict(X)).all()


# ---- in words


def test_sentence_says_what_holds_for_whom_and_how_surely():
    X, y = load("votes")
    c = CrossFitClassifier(confidence=0.9).fit(X, y).certificate_
    text = " ".join(str(c).split())
    bound = at_most(c.sampled_error, 1)
    assert f"Error at most, on this population {bound} <- quote this" in text
    assert "always answering 'democrat' 38.6 %" in text
    assert "The bound has 90 % confidence. It is from 435 rows in two halves" in text
    worst = at_most(c.bounds["map"], 1)
    assert f"keeps its pair counts, at most {worst} (90 % confidence)." in text
    assert not c.doubtful


# ---- what is refused


def test_weights_are_refused_with_the_reason():
    X, y = load("votes")
    with pytest.raises(ValueError, match="sample_weight.*drawn independently"):
        CrossFitClassifier().fit(X, y, sample_weight=np.ones(len(y)))
    with pytest.raises(TypeError, match="'colour'"):
        CrossFitClassifier().fit(X, y, colour=1)
    m = Marginals.from_data(X, y, sample_weight=np.full(len(y), 0.5))
    with pytest.raises(ValueError, match="weights"):
        CrossFitClassifier().fit_halves(m, Marginals.from_data(X[:100], y[:100]))


@pytest.mark.parametrize(
    ("settings", "error", "name"),
    [
        ({"method": "both"}, ValueError, "method"),
        ({"confidence": 95}, ValueError, "confidence"),
        ({"estimator": Encoder()}, TypeError, "estimator"),
        ({"estimator": RenyiClassifier(rule="any")}, ValueError, "rule"),
    ],
)
def test_parameters_are_checked(settings, error, name):
    with pytest.raises(error, match=name):
        CrossFitClassifier(**settings).fit([["a"], ["b"]] * 9, [0, 1] * 9)


def test_halves_that_cannot_judge_each_other():
    X, y = load("votes")
    first, second = Marginals.from_data(X[:200], y[:200]), Marginals.from_data(X, y)
    safe = CrossFitClassifier()
    with pytest.raises(ValueError, match="the same marginals"):
        safe.fit_halves(
            first, Marginals.from_data(X[:200].iloc[::-1], y[:200].iloc[::-1])
        )
    with pytest.raises(ValueError, match="mixture needs rows"):
        clone(safe).set_params(method="mixture").fit_halves(first, second)
    with pytest.raises(TypeError, match="DataFrame"):
        safe.fit_halves(first, X)
    other = Marginals.from_data(X[200:], y[200:].replace("democrat", "d"))
    with pytest.raises(ValueError, match="different classes"):
        safe.fit_halves(first, other)
    with pytest.raises(ValueError, match="n_samples=3"):
        safe.fit(X[:3], ["a", "b", "a"])


def test_bins_of_halves_must_be_the_same():
    X, y = table(200, 11)
    X = X[["float", "label"]]
    halves = [
        Marginals.from_data(X[:100], y[:100]),
        Marginals.from_data(X[100:], y[100:]),
    ]
    with pytest.raises(ValueError, match="'float' is binned differently in the two"):
        CrossFitClassifier().fit_halves(*halves)
    encoder = Encoder().fit(table(300, 12)[0][["float", "label"]])  # of other rows
    halves = [
        Marginals.from_data(X[part], y[part], encoder=encoder)
        for part in (slice(100), slice(100, 200))
    ]
    c = CrossFitClassifier().fit_halves(*halves).certificate_
    assert c.warning_codes == ("shared-bins",)
    assert "'float'" in c.warnings[0]


def test_a_half_that_may_be_part_of_the_other_is_told():
    X, y = table(200, 13)
    X = X[["label"]]
    first, second, whole = (
        Marginals.from_data(X[part], y[part])
        for part in (slice(90), slice(90, 200), slice(200))
    )
    for halves in ((first, whole), (whole, first)):
        c = CrossFitClassifier().fit_halves(*halves).certificate_
        assert c.warning_codes == ("training-rows",)
    assert not CrossFitClassifier().fit_halves(first, second).certificate_.warnings


@pytest.mark.parametrize("method", ["average", "mixture"])
def test_a_fitted_model_stays_what_was_certified(method):
    X, y = table(200, 14)
    safe = CrossFitClassifier(RenyiClassifier(), method=method).fit(X, y)
    before = safe.predict(X), safe.predict_proba(X)
    other = "mixture" if method == "average" else "average"
    safe.set_params(method=other, estimator__rule="sharp")
    assert (safe.predict(X) == before[0]).all()
    assert (safe.predict_proba(X) == before[1]).all()
    assert safe.rule == safe.certificate_.rule == "map"
    assert hasattr(safe, "explain") == (method == "average")


def test_the_rule_that_answers_is_the_one_that_rows_certify() -> None:
    """The seed of the split is not that of the draws of the rule sharp."""
    X, y = noisy(600, seed=0)
    fresh, truth = noisy(600, seed=1)
    inner = RenyiClassifier(rule="sharp", random_state=3)
    safe = CrossFitClassifier(inner, random_state=5).fit(X, y)
    found, wrong = certify(safe, fresh, truth), safe.predict(fresh) != truth
    assert found == certify(safe.classifier_, fresh, truth)
    assert found.observed_error == pytest.approx(wrong.mean())


def test_halves_that_were_scaled_or_added_twice_are_refused() -> None:
    X, y = noisy(60, seed=0)
    first, second = (Marginals.from_data(X[i::2], y[i::2]) for i in (0, 1))
    assert CrossFitClassifier().fit_halves(first, second).certificate_.n == 60
    for a, b in ((first * 10, second * 10), (first, second + second)):
        with pytest.raises(ValueError, match="multiples of"):
            CrossFitClassifier().fit_halves(a, b)


def test_halves_of_different_settings_are_refused() -> None:
    X, y = noisy(60, seed=0)
    first = Marginals.from_data(X[::2], y[::2])
    other = Encoder(missing=("?", "na"))
    second = Marginals.from_data(X[1::2], y[1::2], encoder=other)
    with pytest.raises(ValueError, match=r"different encoders \(missing"):
        CrossFitClassifier().fit_halves(first, second)


@pytest.mark.parametrize("method", ["average", "mixture"])
@pytest.mark.parametrize("kind", [str, object, "category", "list"])
def test_answers_have_the_type_of_those_of_a_single_model(method, kind):
    X, y = load("votes")
    labels = list(y) if kind == "list" else y.astype(kind)
    one = RenyiClassifier().fit(X, labels).predict(X)
    both = CrossFitClassifier(method=method).fit(X, labels).predict(X)
    assert type(both[0]) is type(one[0])
    assert both.dtype == one.dtype
