"""KernelRenyiClassifier: choice, weights, honest errors, explanations and its file."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi import KernelRenyiClassifier, RenyiClassifier
from renyi.certificates import text
from renyi.certificates.left_out import error_interval
from renyi.files import checksum
from renyi.fitting import kernel
from renyi.fitting.kernel import ORDERS, KernelSettings
from renyi.solvers import ridge, ridge_kernel
from support.manners import all_checks


@pytest.mark.parametrize(("estimator", "check"), all_checks([KernelRenyiClassifier()]))
def test_estimator_checks(estimator, check):
    check(estimator)


def table(n, K=2, seed=0):
    """Return rows of six columns, of which two interact."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 3, (n, 6)), columns=[*"abcdef"]).astype(str)
    score = 2.0 * (X["a"] == X["b"]) + (X["c"] == "1") + rng.normal(size=n) / 2
    y = pd.Series(np.digitize(score, np.linspace(0.5, 2.5, K - 1)), name="outcome")
    return X, y.map(lambda k: f"class {k}")


@pytest.fixture(scope="module", params=[2, 3])
def fitted(request):
    X, y = table(300, request.param)
    return KernelRenyiClassifier(random_state=0).fit(X, y), X, y


# ---- what it learns


def test_interactions_are_learned():
    X, y = table(600)
    clf = KernelRenyiClassifier().fit(X[:300], y[:300])
    alone = RenyiClassifier().fit(X[:300], y[:300])
    assert clf.score(X[300:], y[300:]) > alone.score(X[300:], y[300:]) + 0.1
    low, high = error_interval(clf.loo_error_, clf.certificate_.loo_rows)
    assert low < clf.loo_error_ < high
    assert low < 1 - clf.score(X[300:], y[300:]) < high


@pytest.mark.parametrize("K", [2, 3])
def test_order_one_is_the_scorecard(K):
    X, y = table(200, K)
    clf = KernelRenyiClassifier(rho=0, alpha=0.01).fit(X, y)
    # The kernel is divided by its mean diagonal: the alpha of the scorecard follows.
    W = pd.get_dummies(X).to_numpy(float)
    spread = ((W - W.mean(axis=0)) ** 2).sum() / len(W)
    card = RenyiClassifier(alpha=0.01 * spread).fit(X, y)
    np.testing.assert_allclose(
        clf.decision_function(X), card.decision_function(X), atol=1e-9
    )
    assert clf.loo_error_ == pytest.approx(card.certificate_.loo_error, abs=0.02)
    assert clf.order_shares_ == {**dict.fromkeys(ORDERS, 0.0), ORDERS[0]: 1.0}
    ours = clf.main_effects_.set_index(["feature", "category"])
    theirs = card.scorecard_.frame().set_index(["feature", "category"])
    means = theirs.iloc[:, 2:].mul(theirs["share"], axis=0).groupby("feature").sum()
    centred = theirs.iloc[:, 2:].sub(means, level="feature")
    columns = centred.columns
    np.testing.assert_allclose(ours[columns], centred.loc[ours.index], atol=1e-9)


@pytest.mark.parametrize("K", [2, 3])
def test_weights_are_repetition(K):
    X, y = table(90, K)
    weights = np.arange(90) % 3
    rows = np.repeat(np.arange(90), weights)
    weighed = KernelRenyiClassifier(class_weight="balanced").fit(X, y, weights)
    repeated = KernelRenyiClassifier(class_weight="balanced").fit(
        X.iloc[rows].reset_index(drop=True), y.iloc[rows].reset_index(drop=True)
    )
    np.testing.assert_allclose(
        weighed.decision_function(X), repeated.decision_function(X), atol=1e-9
    )
    assert weighed.alpha_ == repeated.alpha_
    assert weighed.rho_ == repeated.rho_
    assert weighed.loo_error_ == pytest.approx(repeated.loo_error_, abs=1e-9)
    used = [clf.certificate_.loo_rows for clf in (weighed, repeated)]
    assert used[0] == pytest.approx(used[1], abs=1e-9)
    figures = [clf.fit_.left_out_details["log_loss"] for clf in (weighed, repeated)]
    assert figures[0] == pytest.approx(figures[1], abs=1e-9)


def test_weights_of_the_classes_move_the_answers():
    X, y = table(300)
    rare = KernelRenyiClassifier(class_weight={"class 0": 1, "class 1": 30}).fit(X, y)
    plain = KernelRenyiClassifier().fit(X, y)
    assert (rare.predict(X) == "class 1").sum() > (plain.predict(X) == "class 1").sum()


@pytest.mark.parametrize("K", [2, 4])
def test_noise_is_not_mistaken_for_knowledge(K):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (160, 8)).astype(str)
    clf = KernelRenyiClassifier(random_state=0).fit(X, rng.integers(0, K, 160))
    assert clf.loo_error_ > 1 - 1 / K - 0.1


def test_folds_and_interval_where_a_calibration_decides(fitted):
    clf, X, y = fitted
    codes = clf.certificate_.warning_codes
    assert ("folds" in codes) == (len(clf.classes_) > 2)
    Z, z = table(3000, len(clf.classes_), seed=1)
    low, high = error_interval(clf.loo_error_, clf.certificate_.loo_rows)
    assert low - 0.02 < 1 - clf.score(Z, z) < high + 0.02


def test_many_rows_are_searched_by_a_sample_that_repeats(monkeypatch):
    monkeypatch.setattr(kernel, "SEARCHED", 150)
    X, y = table(500)
    fits = [KernelRenyiClassifier(random_state=k).fit(X, y) for k in (1, 1, 2)]
    same, again, _ = (clf.decision_function(X[:50]) for clf in fits)
    np.testing.assert_array_equal(same, again)
    assert max(clf.loo_error_ for clf in fits) < 0.2


def test_landmarks_stand_for_too_many_rows_and_say_what_they_cost():
    X, y = table(400)
    X["h"] = (np.arange(400) % 50).astype(str)
    few = KernelRenyiClassifier(max_rows=40, random_state=0).fit(X, y)
    whole = KernelRenyiClassifier(random_state=0).fit(X, y)
    marks = few.fit_.landmarks
    assert marks.used == 40
    assert marks.rows > 380
    assert marks.risk < marks.half_risk
    assert few.kernel_.rows.shape[1] == 40
    assert few.loo_error_ > whole.loo_error_
    assert "landmarks" in few.certificate_.warning_codes
    note = few.certificate_.warnings[0]
    assert f"the risk of left-out rows is {marks.risk:.4g}" in note
    assert f"with 20 of them {marks.half_risk:.4g}" in note
    assert "More of them would lower the error: raise max_rows" in note
    assert whole.fit_.landmarks is None
    more = KernelRenyiClassifier(max_rows=350, random_state=0).fit(X, y)
    assert "more of them would hardly" in text.landmarks(40, 390, 0.2, 0.199)
    assert more.loo_error_ == pytest.approx(whole.loo_error_, abs=0.02)


# ---- what it says


def test_parts_add_up_to_the_score(fitted):
    clf, X, _ = fitted
    points = clf.explain(X[:20])
    scores = clf.decision_function(X[:20])
    if len(clf.classes_) == 2:
        total = points.sum(axis=1)
    else:
        total = points.T.groupby(level=0, sort=False).sum().T
    np.testing.assert_allclose(total, scores, atol=1e-9)
    assert [*points.columns][-1] in ("intercept", (clf.classes_[-1], "intercept"))
    pair = clf.interaction("a", "b")
    assert pair.index.name == "a"
    assert pair.shape == (3, 3 if len(clf.classes_) == 2 else 9)
    assert sum(clf.order_shares_.values()) == pytest.approx(1)
    # An answer for an unseen label is that of the column's mean.
    unseen = X[:5].assign(a="new")
    if len(clf.classes_) == 2:
        assert clf.explain(unseen)["a"].abs().max() < 1e-9


@pytest.mark.parametrize("columns", ["a", "abcdef"])
def test_a_row_of_unseen_labels_gets_the_mean_score(columns):
    X, y = table(60)
    clf = KernelRenyiClassifier(rho=0.5, alpha=0.1).fit(X[[*columns]], y)
    unseen = X[[*columns]][:2].assign(**dict.fromkeys(columns, "new"))
    mean = clf.explain(unseen)["intercept"]
    np.testing.assert_allclose(clf.decision_function(unseen), mean, atol=1e-9)


def test_interaction_names_what_is_wrong(fitted):
    clf, _, _ = fitted
    with pytest.raises(ValueError, match="no column 'z'"):
        clf.interaction("a", "z")
    with pytest.raises(ValueError, match="two columns"):
        clf.interaction("a", "a")


def test_probabilities_agree_with_answers_and_prevalence(fitted):
    clf, X, _ = fitted
    p = clf.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], clf.predict(X))
    if len(clf.classes_) == 2:
        rarer = clf.predict_proba(X, prevalence=0.01)
        assert (rarer[:, 1] < p[:, 1]).all()
        answers = clf.predict(X, prevalence=0.01)
        np.testing.assert_array_equal(clf.classes_[rarer.argmax(axis=1)], answers)
    else:
        with pytest.raises(ValueError, match="for two classes"):
            clf.predict(X, prevalence=0.1)


def test_certificate_is_an_estimate_and_unseen_rows_give_a_bound(fitted):
    clf, X, y = fitted
    own = clf.certificate_
    assert (own.basis, own.order, own.gamma, dict(own.bounds)) == ("rows", 0, None, {})
    assert renyi.Certificate.from_dict(own.to_dict()) == own
    assert "Guarantee: none follows from pair counts" in str(own)
    seen = renyi.certify(clf, X, y)
    assert seen.warning_codes == ("training-rows",)
    new = renyi.certify(clf, *table(400, len(clf.classes_), seed=7))
    assert new.observed_error < new.sampled_error < 1
    assert "quote this" in str(new)
    assert renyi.Certificate.from_dict(new.to_dict()) == new
    m = renyi.Marginals.from_data(X, y)
    for what in (renyi.certify, renyi.worst_case):
        with pytest.raises(ValueError, match="model of every order is not a scorecard"):
            what(clf, m)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rho": -1}, "rho must be"),
        ({"rho": "high"}, "rho must be"),
        ({"alpha": 0}, "alpha must be"),
        ({"device": "tpu"}, "device must be"),
        ({"max_rows": 1}, "max_rows must be"),
        ({"calibration": "discriminant"}, "pair counts"),
        ({"calibration": "affine"}, "three classes or more"),
    ],
)
def test_wrong_parameters_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        KernelRenyiClassifier(**wrong).fit(*table(30))


def test_an_encoder_of_tuples_is_refused():
    X, y = table(40)
    for encoder in (
        RenyiClassifier(order=2).fit(X, y).encoder_,
        RenyiClassifier(interactions=[("a", "b")]).fit(X, y).encoder_,
    ):
        with pytest.raises(ValueError, match="give an encoder of single columns"):
            KernelRenyiClassifier(encoder=encoder).fit(X, y)
    single = RenyiClassifier().fit(X, y).encoder_
    KernelRenyiClassifier(encoder=single, rho=1, alpha=0.1).fit(X, y)


# ---- its file


def test_file_answers_the_same_to_the_last_bit(fitted, tmp_path):
    clf, X, _ = fitted
    place = tmp_path / "model.json"
    clf.save(place)
    again = KernelRenyiClassifier.load(place)
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.certificate_ == clf.certificate_
    assert again.get_params()["rho"] == "auto"
    assert again.fit_.left_out_details == clf.fit_.left_out_details
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == place.read_bytes()
    for load in (RenyiClassifier.load, renyi.Scorecard.load):
        with pytest.raises(ValueError, match="model of every order"):
            load(place)
    RenyiClassifier().fit(X, X["a"]).save(place)
    with pytest.raises(ValueError, match="is a scorecard"):
        KernelRenyiClassifier.load(place)


def changed(data, path, value):
    *folders, last = path
    for name in folders:
        data = data[name]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("kernel", "rows", 0, 0), 3, "outside the categories"),
        (("kernel", "rows", 0, 0), -1, "outside the categories"),
        (("kernel", "rows", 0, 0), 0.5, "not codes"),
        (("kernel", "rows", 0), [0], "do not fit"),
        (("kernel", "coef"), [], "do not fit"),
        (("kernel", "coef", 0), 1e300, "too large"),
        (("kernel", "coef", 0), "1", "do not fit"),
        (("kernel", "rho"), -1.0, "rho"),
        (("kernel", "form"), "other", "form"),
        (("kernel", "counts", 0), -1, "negative"),
        (("kernel", "classes"), ["class 0"], "class"),
        (("classifier", "rho"), "high", "rho"),
        (("classifier", "max_rows"), 0, "max_rows"),
        (("certificate", "order"), 1, "certificate"),
        (("certificate", "basis"), "marginals", "certificate"),
        (("scorecard",), {}, "unknown field"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, path, value, message):
    place = tmp_path / "model.json"
    KernelRenyiClassifier().fit(*table(40)).save(place)
    data = json.loads(place.read_text())
    changed(data, path, value)
    data["checksum"] = checksum(data, {})
    place.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=message):
        KernelRenyiClassifier.load(place)


# ---- the GPU's code, on the CPU


def test_another_module_of_arrays_gives_the_same():
    # CuPy has numpy's functions, but not LAPACK's symmetric inverse.
    other = SimpleNamespace(**{name: getattr(np, name) for name in dir(np)})
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, (5, 60)).astype(np.uint8)
    y = rng.integers(0, 3, 60)
    groups, place = ridge_kernel.grouped(ridge.Rows(codes, np.full(5, 3), y, 3))
    kernel = ridge_kernel.kernel_of("plain", 0.5, np.full(5, 3))
    results = []
    for xp in (np, other):
        system = ridge_kernel.system_of(xp, groups, kernel)
        solution = ridge_kernel.refined(xp, system, 1.0)
        rows = ridge.Rows(codes, np.full(5, 3), y, 3)
        own = np.arange(60) % 4 == 0
        parts = ridge_kernel.without_fold(xp, system, solution, rows, place, own)
        path = ridge_kernel.path(xp, system, np.array([0.1, 1.0]))
        results.append((solution.t, solution.leverage, parts[0], path.risk))
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-10)


def test_without_a_gpu_one_sentence():
    assert KernelSettings(device="cuda").device == "cuda"
    with pytest.raises((ImportError, ValueError), match=r"CPU|'cpu'"):
        KernelRenyiClassifier(device="cuda").fit(*table(30))
