"""Calibrated classifiers: the same model by every input path, and what stays."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi
from renyi import Marginals, RenyiClassifier, certify, verify
from renyi.certificates import heldout
from renyi.crossfitting import Half, deciding_card, judged_half, split_rows
from renyi.encoding import rows as training_rows
from renyi.robust.worst import worst_case
from renyi.solvers import calibration, ridge

CERTIFIED = ("gamma", "bounds", "majority", "loo_risk", "loo_error", "warnings")


def table(n, K, d=5, m=3, seed=0):
    """Rows whose classes have logits that add up over the columns."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, m, (n, d))
    g = sum(1.5 * rng.normal(size=(m, K))[X[:, j]] for j in range(d))
    y = (g + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    frame = pd.DataFrame(X.astype(str), columns=[f"q{j}" for j in range(d)])
    return frame, pd.Series(np.array([*"abcdef"])[y], name="class")


def ordered(n, seed=0):
    """Three classes on a line: of the middle one the scores are never the largest."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, 6))
    s = X.sum(axis=1) + rng.normal(scale=0.5, size=n)
    frame = pd.DataFrame(X.astype(str), columns=[f"q{j}" for j in range(6)])
    return frame, np.digitize(s, [8.0, 10.0])


@pytest.mark.parametrize("n", [40, 300])
def test_two_classes_keep_every_decision_and_certificate_bit(n):
    X, y = table(n, 2, 12, 5)
    clf = RenyiClassifier().fit(X, y)
    plain = RenyiClassifier(calibration=None).fit(X, y)
    assert (clf.marginals_ is None) == (n == 40)
    assert clf.scorecard_.calibration.kind == "temperature"
    assert plain.scorecard_.calibration is None
    np.testing.assert_array_equal(clf.predict(X), plain.predict(X))
    np.testing.assert_array_equal(clf.decision_function(X), plain.decision_function(X))
    np.testing.assert_array_equal(clf.explain(X), plain.explain(X))
    for name in CERTIFIED:
        assert getattr(clf.certificate_, name) == getattr(plain.certificate_, name)
    m = Marginals.from_data(X, y, class_conditional=True)
    assert certify(clf, m).bounds == certify(plain, m).bounds
    assert clf.scorecard_.to_sql() == plain.scorecard_.to_sql()
    assert clf.scorecard_.frame().equals(plain.scorecard_.frame())


def test_the_temperature_is_fitted_to_rows_that_were_left_out():
    X, y = table(30, 2, 3)
    clf = RenyiClassifier(alpha=0.05).fit(X, y)
    scores = []
    for i in range(30):  # at an unchanged total penalty
        rest = np.arange(30) != i
        without = RenyiClassifier(alpha=0.05 * 30 / 29, calibration=None)
        scores.append(without.fit(X[rest], y[rest]).decision_function(X[~rest])[0])
    codes, ones = (y == "b").to_numpy().astype(int), np.ones(30)
    rows = ridge.LeftOut(np.array(scores)[:, None], codes, ones, ones, 0.0)
    by_hand = calibration.temperature(rows, 2)
    assert float(by_hand.slope) == pytest.approx(
        float(clf.scorecard_.calibration.slope), rel=1e-6
    )


MODELS = [
    (2, 300, {}),
    (2, 300, {"calibration": "sigmoid"}),
    (2, 25, {"calibration": "sigmoid"}),  # the dual road
    (3, 300, {}),
    (3, 300, {"calibration": "temperature"}),
    (4, 25, {}),  # the dual road
    (3, 120, {"order": 2}),
    (3, 4000, {}),  # so many rows that alpha is not chosen by leaving them out
    (3, 200, {"class_weight": "balanced", "fit_intercept": False}),
    (4, 300, {"calibration": None}),
    (5, 300, None),  # on marginals
]


def model(K, n, settings):
    """A classifier, and rows of its table."""
    if settings is None:
        X, y = table(n, K)
        return RenyiClassifier().fit_marginals(Marginals.from_data(X, y)), X
    X, y = table(n, K, 6 if n < 50 else 4, 6 if n < 50 else 3)
    weights = np.random.default_rng(1).random(n) if n == 120 else None
    return RenyiClassifier(**settings).fit(X, y, weights), X


@pytest.mark.parametrize(("K", "n", "settings"), MODELS)
def test_the_most_probable_class_is_the_answer(K, n, settings, tmp_path):
    clf, X = model(K, n, settings)
    odd = pd.concat([X, X[:1].assign(q0="never seen")])
    p, answers = clf.predict_proba(odd), clf.predict(odd)
    np.testing.assert_array_equal(clf.classes_[p.argmax(axis=1)], answers)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    scores, why = clf.decision_function(odd), clf.explain(odd)
    if len(clf.classes_) == 2:
        scores = np.column_stack([-scores, scores])
    else:
        totals = [why[label].sum(axis=1) for label in clf.classes_]
        np.testing.assert_allclose(np.stack(totals, axis=1), scores, atol=1e-9)
    np.testing.assert_array_equal(clf.classes_[scores.argmax(axis=1)], answers)
    rule = clf.rule_proba(odd, "map")
    np.testing.assert_array_equal(clf.classes_[rule.argmax(axis=1)], answers)
    if clf.calibration is not None:
        assert p.min() > 0
    place = tmp_path / "m.json"
    clf.save(place)
    for other in (pickle.loads(pickle.dumps(clf)), RenyiClassifier.load(place)):
        np.testing.assert_array_equal(other.predict_proba(odd), p)
        assert other.calibration == clf.calibration
        assert other.certificate_.bounds == clf.certificate_.bounds
        assert other.alpha_choice_.error == clf.alpha_choice_.error


def test_more_classes_are_not_masked_and_the_certificate_says_so():
    X, y = ordered(900)
    clf = RenyiClassifier().fit(X[:600], y[:600])
    plain = RenyiClassifier(calibration=None).fit(X[:600], y[:600])
    wrong = [(m.predict(X[600:]) != y[600:]).mean() for m in (clf, plain)]
    assert wrong[0] < 0.9 * wrong[1]
    losses = [log_loss(y[600:], m.predict_proba(X[600:])) for m in (clf, plain)]
    assert losses[0] < 0.9 * losses[1]
    assert clf.alpha_choice_.error < plain.alpha_choice_.error
    assert clf.alpha_choice_.error == pytest.approx(wrong[0], abs=0.05)
    mine, theirs = clf.certificate_, plain.certificate_
    assert mine.bounds["map"] >= theirs.bounds["map"]
    for name in ("renyi", "sharp"):
        assert mine.bounds[name] == theirs.bounds[name]
        np.testing.assert_array_equal(
            clf.rule_proba(X, name), plain.rule_proba(X, name)
        )
    assert mine.gamma == theirs.gamma


def rare(n, share=0.05, d=6, seed=0):
    """Two classes, the second in a share of the rows, with additive logits."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (n, d))
    g = sum(rng.normal(size=4)[X[:, j]] for j in range(d)) * 2.5 / np.sqrt(d)
    g += rng.logistic(size=n)
    frame = pd.DataFrame(X.astype(str), columns=[f"q{j}" for j in range(d)])
    return frame, pd.Series(np.where(g > np.quantile(g, 1 - share), "yes", "no"))


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_a_rare_class_gets_an_intercept(share):
    X, y = rare(8000, share)
    train, test = slice(0, 3000), slice(3000, None)
    clf = RenyiClassifier().fit(X[train], y[train])
    slope = RenyiClassifier(calibration="temperature").fit(X[train], y[train])
    assert clf.scorecard_.calibration.kind == "sigmoid"
    p, before = (m.predict_proba(X[test])[:, 1] for m in (clf, slope))
    truth = (y[test] == "yes").to_numpy()
    assert log_loss(truth, p) < 0.9 * log_loss(truth, before)
    likeliest = np.argsort(-p)[: int(share * len(p))]
    assert p[likeliest].mean() == pytest.approx(truth[likeliest].mean(), abs=0.12)
    assert before[likeliest].mean() < 0.6 * truth[likeliest].mean()
    np.testing.assert_array_equal(clf.predict(X[test]) == "yes", p > 0.5)
    errors = [(m.predict(X[test]) != y[test]).mean() for m in (clf, slope)]
    assert errors[0] <= errors[1] + 0.002
    error = clf.certificate_.loo_error
    assert error == pytest.approx(errors[0], abs=0.012)
    few = RenyiClassifier(calibration="sigmoid").fit(X[:300], y[:300])
    assert few.certificate_.loo_error == few.alpha_choice_.error
    assert error == pytest.approx((clf.predict(X[train]) != y[train]).mean(), abs=0.01)


def bundled(share, seed):
    """Rows of adult, most of the rarer class left out."""
    X, y = renyi.datasets.load("adult")
    rng = np.random.default_rng(seed)
    common = rng.permutation(np.flatnonzero(y == "<=50K"))[:8000]
    others = rng.permutation(np.flatnonzero(y == ">50K"))
    count = round(share / (1 - share) * len(common))
    order = rng.permutation(np.concatenate([common, others[:count]]))
    y = y.iloc[order].eq(">50K").map({True: "yes", False: "no"})
    encoder, codes = renyi.Encoder().fit_transform(X.iloc[order])
    cells = pd.DataFrame(codes.T.astype(str), columns=[*encoder.feature_names])
    return cells, y.reset_index(drop=True)


@pytest.mark.parametrize("share", [0.01, 0.05])
@pytest.mark.parametrize("make", [rare, bundled])
def test_log_loss_of_a_rare_class_is_near_that_of_logistic_regression(make, share):
    """So are the probabilities: those of the likeliest rows are their shares."""
    models = {
        "peer": make_pipeline(
            OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=500)
        ),
        "default": RenyiClassifier(),
        "average": renyi.CrossFitClassifier(),
        "logistic": RenyiClassifier(objective="logistic"),
    }
    losses = {name: [] for name in models}
    tops = {name: [] for name in models}
    for seed in range(2):
        X, y = make(8000, share, seed=seed) if make is rare else make(share, seed)
        truth = (y[5000:] == "yes").to_numpy()
        for name, clf in models.items():
            p = clf.fit(X[:5000], y[:5000]).predict_proba(X[5000:])[:, 1]
            losses[name].append(log_loss(truth, p))
            likeliest = np.argsort(-p)[: truth.sum()]
            tops[name].append((p[likeliest].mean(), truth[likeliest].mean()))
    best = np.mean(losses.pop("peer"))
    for name, values in losses.items():
        assert np.mean(values) < (1.05 if name == "logistic" else 1.25) * best
        mean, seen = np.mean(tops[name], axis=0)
        assert mean < seen + 0.1
        if name != "average":  # each half of which has seen half of the rare rows
            assert mean > seen - 0.1


@pytest.mark.parametrize("n", [40, 900])
def test_certificates_are_those_of_the_shifted_card(n):
    X, y = rare(n, 0.15, 3 if n == 900 else 12)
    clf = RenyiClassifier(calibration="sigmoid").fit(X, y)
    assert (clf.marginals_ is None) == (n == 40)
    card = clf.scorecard_
    c = card.calibration
    shifted = replace(
        card,
        intercept=card.intercept + float(c.intercept) / float(c.slope),
        calibration=None,
    )
    scores = shifted.scores(card.encoder.transform(X))[:, 0]
    np.testing.assert_array_equal(clf.decision_function(X), scores)
    np.testing.assert_array_equal(clf.predict(X) == "yes", scores > 0)
    assert clf.explain(X).sum(axis=1).to_numpy() == pytest.approx(scores)
    m = Marginals.from_data(X, y, class_conditional=True)
    pairs = replace(m, class_counts=None)
    for counts in (m, pairs):
        mine, theirs = certify(clf, counts), certify(shifted, counts)
        assert mine.bounds["map"] == theirs.bounds["map"]
        assert mine.auc == theirs.auc
        assert mine.class_scores == theirs.class_scores
        assert mine.error_at(0.2) == theirs.error_at(0.2)
    assert clf.certificate_.bounds["map"] == pytest.approx(
        certify(clf, pairs).bounds["map"]
    )
    assert clf.certificate_.class_scores == pytest.approx(
        certify(clf, pairs).class_scores
    )
    plain = RenyiClassifier(calibration=None).fit(X, y)
    assert clf.certificate_.gamma == plain.certificate_.gamma
    for rule in ("renyi", "sharp"):
        assert clf.certificate_.bounds[rule] == plain.certificate_.bounds[rule]
        shares = (each.rule_proba(X, rule) for each in (clf, plain))
        np.testing.assert_array_equal(*shares)
    held = certify(clf, X, y)
    assert held.bounds["map"] == certify(shifted, X, y).bounds["map"]
    assert held.observed_error == (clf.predict(X) != y).mean()
    if n == 900:
        worst = worst_case(clf, m)
        assert worst.upper == pytest.approx(worst_case(shifted, m).upper)
        for level in ("lp", "exact"):
            steps = [certify(each, m, level=level).steps for each in (clf, shifted)]
            assert [s.upper for s in steps[0]] == pytest.approx(
                [s.upper for s in steps[1]]
            )


def test_whole_points_decide_as_the_shifted_card():
    X, y = rare(3000, 0.1, 5)
    clf = RenyiClassifier().fit(X, y)
    assert clf.scorecard_.calibration.kind == "sigmoid"
    card = clf.scorecard_.rounded(20, marginals=clf.marginals_)
    codes = card.scorecard.encoder.transform(X)
    assert (card.predict(X) == clf.predict(X)).mean() > 0.98
    p = card.scorecard.probabilities(codes)[:, 1]
    np.testing.assert_array_equal(card.predict(X) == "yes", p > 0.5)
    assert p == pytest.approx(clf.predict_proba(X)[:, 1], abs=0.15)
    assert card.certificate.bounds == certify(card.scorecard, clf.marginals_).bounds


def test_a_shifted_model_is_proved(tmp_path):
    for seed in range(6):
        X, y = rare(400, 0.1, 4, seed)
        m = Marginals.from_data(X, y, class_conditional=seed % 2 == 0)
        clf = RenyiClassifier(calibration="sigmoid").fit(X, y)
        m.save(tmp_path / "m.renyi")
        clf.save(tmp_path / "m.json")
        paths = str(tmp_path / "m.renyi"), str(tmp_path / "m.json")
        code, why, claims = verify.answer(*paths)
        assert (code, why) == (0, "")
        bound = certify(clf, m).bounds["map"]
        exact = verify.Counts(paths[0]).bounds(clf.scorecard_.to_dict())["map"]
        assert float(exact) <= bound <= float(exact) + 1e-9


BALANCED = ["votes", "credit", "kr-vs-kp", "promoters", 0, 1, 2]


@pytest.mark.parametrize("name", BALANCED)
def test_balanced_tables_keep_their_decisions(name):
    if isinstance(name, str):
        X, y = renyi.datasets.load(name)
    else:
        X, y = rare(1000, 0.5, 6, name)
    clf = RenyiClassifier().fit(X, y)
    plain = RenyiClassifier(calibration=None).fit(X, y)
    assert clf.scorecard_.calibration.kind == "temperature"
    np.testing.assert_array_equal(clf.predict(X), plain.predict(X))


def apparent_and_true(n, share, seeds, d=6):
    """Mean error by leaving out rows, and on 20,000 other rows."""
    errors = []
    for seed in seeds:
        X, y = rare(n + 20_000, share, d, seed)
        if y[:n].nunique() < 2:
            continue
        clf = RenyiClassifier().fit(X[:n], y[:n])
        true = (clf.predict(X[n:]) != y[n:]).mean()
        errors.append((clf.certificate_.loo_error, true))
    return np.array(errors)


@pytest.mark.parametrize(("n", "share"), [(300, 0.05), (300, 0.2)])
def test_the_error_to_expect_is_not_too_good(n, share):
    """One coefficient decides, which was fitted to the rows: leaving out will do."""
    apparent, true = apparent_and_true(n, share, range(12)).mean(axis=0)
    assert apparent > true - 0.012


@pytest.mark.long
@pytest.mark.parametrize("n", [150, 400, 1000])
@pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("d", [6, 20])
def test_the_error_to_expect_is_right_on_average(n, share, d):
    errors = apparent_and_true(n, share, range(60), d)
    off = errors[:, 0] - errors[:, 1]
    width = off.std() / np.sqrt(len(off))
    assert off.mean() > -3 * width - 0.003


@pytest.mark.parametrize("n", [30, 200])
def test_bounds_of_map_are_those_of_the_mapped_points(n):
    X, y = table(n, 3, 3, 12 if n == 30 else 2)
    clf = RenyiClassifier(calibration="affine").fit(X, y)
    assert (clf.marginals_ is None) == (n == 30)
    m = Marginals.from_data(X, y, class_conditional=True)
    card = clf.scorecard_.mapped
    alone = certify(card, replace(m, class_counts=None))
    assert clf.certificate_.bounds["map"] == pytest.approx(alone.bounds["map"])
    assert certify(clf, m).bounds["map"] == certify(card, m).bounds["map"]
    wrong = (clf.predict(X) != y).mean()
    if n == 200:
        worst = worst_case(clf, m)
        assert wrong - 1e-9 <= worst.upper <= clf.certificate_.bounds["map"] + 1e-9
        assert worst.upper == pytest.approx(worst_case(card, m).upper)
    held = certify(clf, X, y)
    assert held.observed_error == wrong
    assert held.bounds["map"] == certify(card, X, y).bounds["map"]
    assert held.bounds["sharp"] == certify(clf, X, y).bounds["sharp"]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_lead_to_the_model_of_all_rows(K, weighted, monkeypatch):
    monkeypatch.setattr(training_rows, "SAMPLE", 512)
    X, y = table(3000, K, 3, 2)
    w = np.random.default_rng(0).random(3000) + 0.5 if weighted else np.ones(3000)
    whole = RenyiClassifier().fit(X, y, w)
    assert whole.alpha_choice_.method == "gcv"
    blocks = RenyiClassifier()
    for s in np.split(np.arange(3000), [400, 1000, 2900]):
        blocks.partial_fit(X.iloc[s], y.iloc[s], [*"abc"[:K]], w[s])
    assert 500 < len(blocks._blocks.rows.y) < 524
    p = whole.predict_proba(X)
    np.testing.assert_allclose(blocks.predict_proba(X), p, rtol=1e-6)
    monkeypatch.undo()
    everything = RenyiClassifier().fit(X, y, w).predict_proba(X)
    np.testing.assert_allclose(p, everything, atol=0.1)


def test_samples_are_spread_over_periods_and_sorted_rows():
    kept = training_rows.in_sample(np.arange(300_000), 300_000)
    assert abs(kept.sum() - training_rows.SAMPLE) < 10
    for period in (2, 3, 7, 8, 1000):
        found = np.bincount(np.flatnonzero(kept) % period, minlength=period)
        assert abs(found - kept.sum() / period).max() < 8
    assert abs(kept[:1000].sum() - training_rows.SAMPLE / 300) < 3
    more = training_rows.in_sample(np.arange(300_000), 400_000)
    assert not (more & ~kept).any()


@pytest.mark.parametrize("K", [3, 4, 5, 6])
def test_an_average_of_halves_answers_as_well_as_one_model(K):
    """It is the mean of the halves' calibrated scores, and the card it certifies."""
    n = 1500
    X, y = table(n + 4000, K, 8, 4)
    whole = RenyiClassifier().fit(X[:n], y[:n])
    safe = renyi.CrossFitClassifier().fit(X[:n], y[:n])
    errors = [(m.predict(X[n:]) != y[n:]).mean() for m in (whole, safe)]
    assert errors[1] < errors[0] + 0.01
    losses = [log_loss(y[n:], m.predict_proba(X[n:])) for m in (whole, safe)]
    assert losses[1] < 1.06 * losses[0]
    scores = [half.decision_function(X) for half in safe.halves_]
    np.testing.assert_allclose(safe.decision_function(X), np.mean(scores, axis=0))
    slopes = [half.scorecard_.calibration.slope for half in safe.halves_]
    assert safe.scorecard_.calibration.slope == pytest.approx(np.mean(slopes))
    c = safe.certificate_
    assert errors[1] <= c.sampled_error <= c.bounds["map"]
    assert c.bounds["map"] == pytest.approx(min(1, 4 * c.gamma))
    halves = [Marginals.from_data(X[k:n:2], y[k:n:2]) for k in (0, 1)]
    counted = renyi.CrossFitClassifier().fit_halves(*halves)
    assert (counted.predict(X[n:]) != y[n:]).mean() < errors[0] + 0.02


def test_halves_decide_by_scores_at_a_scale_of_their_own():
    X, y = table(400, 3)
    rows: list[Half] = split_rows(X, (y.map(ord) - ord("a")).to_numpy(), 0)
    fit = RenyiClassifier().fit(rows[0].table, rows[0].y).fit_
    card = deciding_card(fit)
    codes = card.encoder.transform(X)
    ratio = card.scores(codes) / fit.scorecard_.mapped.scores(codes)
    assert ratio == pytest.approx(np.full(ratio.shape, ratio[0, 0]))
    p = fit.scorecard_.probabilities(codes)
    np.testing.assert_allclose(card.probabilities(codes), p, atol=1e-9)
    judged = judged_half(fit, rows[1])
    risks = heldout.squared_residuals(judged.deciding.t, judged.y)
    for factor in (0.7, 1.4):  # near the best multiple on other rows
        other = 1 / 3 + factor * (judged.deciding.t - 1 / 3)
        assert risks.mean() < heldout.squared_residuals(other, judged.y).mean()


def test_a_mixture_has_a_guarantee_where_calibrations_decide():
    X, y = ordered(1500)
    mixture = renyi.CrossFitClassifier(method="mixture").fit(X, y)
    average = renyi.CrossFitClassifier().fit(X, y)
    bounds = mixture.certificate_.bounds
    assert bounds["map"] == pytest.approx(average.certificate_.bounds["map"])
    assert bounds["map"] < 1
    assert bounds["sharp"] < average.certificate_.bounds["sharp"]


def test_a_rare_class_is_answered_by_the_average():
    X, y = rare(8000, 0.05)
    safe = renyi.CrossFitClassifier().fit(X[:3000], y[:3000])
    whole = RenyiClassifier().fit(X[:3000], y[:3000])
    assert safe.scorecard_.calibration.kind == "temperature"
    p = safe.predict_proba(X[3000:])
    np.testing.assert_allclose(p, whole.predict_proba(X[3000:]), atol=0.15)
    np.testing.assert_array_equal(safe.predict(X[3000:]) == "yes", p[:, 1] > 0.5)
    assert log_loss(y[3000:], p) < 1.02 * log_loss(
        y[3000:], whole.predict_proba(X[3000:])
    )


def log_odds(model, X):
    """Scores of rows times their slope."""
    slope = float(model.scorecard_.calibration.slope)
    return slope * model.decision_function(X)


@pytest.mark.parametrize(("n", "share"), [(1500, 0.01), (3000, 0.005), (800, 0.02)])
def test_an_average_has_the_mean_log_odds_of_halves_with_few_rare_rows(n, share):
    """Of 5 to 10 rare rows, one half may learn much and the other nothing."""
    ratios = []
    losses = []
    for seed in range(6):
        X, y = rare(n + 4000, share, 6, seed)
        safe = renyi.CrossFitClassifier().fit(X[:n], y[:n])
        whole = RenyiClassifier().fit(X[:n], y[:n])
        losses.append([log_loss(y[n:], m.predict_proba(X[n:])) for m in (safe, whole)])
        means = np.mean([log_odds(half, X) for half in safe.halves_], axis=0)
        slopes = [half.scorecard_.calibration.slope for half in safe.halves_]
        ratios.append(max(slopes) / min(slopes))
        if ratios[-1] > 1.5:  # one with an intercept, at least
            np.testing.assert_allclose(log_odds(safe, X), means, atol=1e-9)
    mine, best = np.transpose(losses)
    assert (mine < 1.35 * best).all()
    assert mine.mean() < 1.15 * best.mean()
    assert max(ratios) > 4


def test_the_guarantee_of_an_average_covers_its_own_scores():
    """A risk is convex: that of the card is below the weighted mean of the halves'."""
    X, y = rare(6500, 0.01, 6, 1)
    m = Marginals.from_data(X[1500:], y[1500:])
    X = X[:1500]
    y = y[:1500]
    safe = renyi.CrossFitClassifier().fit(X, y)
    slopes = [float(half.scorecard_.calibration.slope) for half in safe.halves_]
    assert max(slopes) > 4 * min(slopes)
    parts = split_rows(X, (y == "yes").to_numpy().astype(int), 0)
    pairs = zip(safe.halves_, parts[::-1], strict=True)
    judged = [judged_half(half.fit_, part) for half, part in pairs]
    gammas = [heldout.heldout_gamma(h.t, h.y, h.upper, 0.975) for h in judged]
    gamma = np.average(gammas, weights=slopes)
    assert safe.certificate_.gamma == pytest.approx(gamma)
    own = [certify(half.scorecard_, m).gamma for half in safe.halves_]
    assert certify(safe.scorecard_, m).gamma <= np.average(own, weights=slopes) + 1e-12
    assert certify(safe.scorecard_, m).gamma <= gamma


def test_calibrations_that_cannot_be_are_refused():
    two, three = table(60, 2), table(60, 3)
    for kind in ("affine", "discriminant"):
        with pytest.raises(ValueError, match=f"{kind}.* three classes"):
            RenyiClassifier(calibration=kind).fit(*two)
    with pytest.raises(ValueError, match="sigmoid.* two classes"):
        RenyiClassifier(calibration="sigmoid").fit(*three)
    for kind, rows in (("temperature", three), ("sigmoid", two), ("affine", three)):
        with pytest.raises(ValueError, match=f"{kind}.* needs the rows"):
            m = Marginals.from_data(*rows)
            RenyiClassifier(calibration=kind).fit_marginals(m)
    with pytest.raises(ValueError, match="^calibration must .* or None, not"):
        RenyiClassifier(calibration="isotonic").fit(*two)
    m = Marginals.from_data(*two)
    assert RenyiClassifier().fit_marginals(m).scorecard_.calibration is None


@pytest.mark.parametrize("marginals", [False, True])
def test_rows_that_are_fitted_one_by_one_are_not_taken_for_certain(marginals):
    """Their leverage is near 1, where there is no discriminant."""
    X = pd.DataFrame([list(r) for r in ("20", "02", "22", "21", "10", "13")])
    X.columns, y = ["a", "b"], ["k0", "k3", "k0", "k0", "k3", "k1"]
    clf = RenyiClassifier(alpha=1e-9 if marginals else "auto")
    if marginals:
        clf.fit_marginals(Marginals.from_data(X, y))
    else:
        clf.fit(X, y)
        assert clf.certificate_.loo_error == 0.5
    p = clf.predict_proba(X)
    assert p.min() > 0 and p.sum(axis=1) == pytest.approx(np.ones(6))
    assert clf.classes_[p.argmax(axis=1)].tolist() == clf.predict(X).tolist()


def test_a_temperature_of_three_classes_moves_no_decision():
    X, y = table(200, 3)
    clf = RenyiClassifier(calibration="temperature").fit(X, y)
    plain = RenyiClassifier(calibration=None).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), plain.predict(X))
    assert clf.certificate_.bounds == plain.certificate_.bounds


def test_probabilities_of_any_points_are_finite_and_decide_alike():
    rng = np.random.default_rng(0)
    t = np.array([[0.5, 0.5 + 2.0**-53], [0.5, 0.5], [-1e8, 1e8], [3.0, -2.0]])
    for slope in (1e-9, 4.0, 1e6):
        p = renyi.rules.logistic(t, slope)
        assert p.argmax(axis=1).tolist() == [1, 0, 1, 0]
        assert p.min() > 0
    many = rng.normal(size=(1000, 5)).round(1)
    found = renyi.rules.logistic(many, 2.0)
    np.testing.assert_array_equal(found.argmax(axis=1), many.argmax(axis=1))
    with pytest.raises(ValueError, match="not finite"):
        renyi.rules.logistic(np.array([[np.inf, 0.0]]), 1.0)
