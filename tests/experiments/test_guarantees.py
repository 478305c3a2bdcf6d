"""The guarantee bench: its errors and bounds recomputed in other ways."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import renyi
from experiments import guarantees, promises
from experiments.populations import (
    NAMES,
    OFTEN,
    RARE,
    SAME,
    SETTINGS,
    WORST,
    population,
)
from experiments.promises import PROMISES, RENYI, Sample
from experiments.theorems import marginals_of
from renyi.certificates.heldout import clopper_pearson

OURS = [name for name, promise in PROMISES.items() if promise.package == RENYI]


def drawn(name, n=120, seed=0):
    known = population(name)
    return Sample(known, *known.sample(n, np.random.default_rng(seed)), seed)


def test_populations_have_all_rows_of_their_sets():
    for name in NAMES[:-1]:  # adult takes a second
        known = population(name)
        assert known.p.sum() == pytest.approx(1)
        assert 0.2 < known.p[:, 1].sum() < 0.8
        assert (known.joint is not None) == (name in NAMES[:5])
        assert known.onehot.sum(axis=1) == pytest.approx(known.codes.shape[1])
    X, y = renyi.datasets.load("votes")
    clf = renyi.RenyiClassifier().fit(X, y)
    votes = population("votes")
    rows = np.repeat(np.arange(len(votes.p)), 2)
    weights = np.rint(435 * votes.p).astype(int).ravel()
    places = np.repeat(rows, weights)
    same = renyi.RenyiClassifier().fit(
        votes.codes[places], np.repeat(np.tile([0, 1], len(votes.p)), weights)
    )
    error = votes.errors(1 - same.rule_proba(votes.codes))[SAME]
    assert error == pytest.approx((clf.predict(X) != y).mean())


def test_errors_in_the_settings():
    sample = drawn("logistic")
    known = sample.population
    clf = renyi.RenyiClassifier().fit(known.codes[sample.rows], sample.y)
    found = known.errors(1 - clf.rule_proba(known.codes))
    assert set(found) == set(SETTINGS)
    m = marginals_of(known.joint)
    worst = renyi.worst_case(clf, m)
    assert found[WORST] == pytest.approx(worst.lower, abs=1e-6)
    shown = worst.distribution
    error = shown.error(clf.rule_proba(shown.outcomes))
    assert found[WORST] == pytest.approx(error, abs=1e-6)
    assert found[WORST] >= found[SAME]
    wrong = (clf.predict(known.codes)[:, None] != [0, 1]) * known.p
    first, second = wrong.sum(axis=0) / known.p.sum(axis=0)
    assert found[RARE] == pytest.approx(0.9 * first + 0.1 * second)
    assert found[OFTEN] == pytest.approx(0.1 * first + 0.9 * second)


def test_bounds_are_those_of_the_public_classes():
    sample = drawn("votes", seed=3)
    known, rows, y, _ = sample
    X, W = known.codes[rows], known.onehot
    found = promises.claims(RENYI, sample)
    assert list(found) == OURS
    mixture = renyi.CrossFitClassifier(method="mixture", random_state=3).fit(X, y)
    claim = found["cross-fit mixture, map"]
    assert claim.bound == mixture.certificate_.sampled_error
    assert np.array_equal(claim.loss, 1 - mixture.rule_proba(known.codes))
    average = renyi.CrossFitClassifier(random_state=3).fit(X, y)
    claim = found["cross-fit average, sharp, 2γ"]
    assert claim.bound == average.certificate_.bounds["sharp"]
    assert np.array_equal(claim.loss, 1 - average.rule_proba(known.codes, "sharp"))
    first = renyi.RenyiClassifier().fit(X[:60], y[:60])
    held = renyi.certify(first, X[60:], y[60:], confidence=0.95)
    assert found["held-out, map"].bound == held.sampled_error
    assert found["held-out, map, 4γ"].bound == held.bounds["map"]
    whole = renyi.RenyiClassifier().fit(X, y).certificate_
    assert found["in-sample, sharp, 2γ"].bound == 2 * whole.gamma
    answers = promises._trained(sample).predict(W)
    wrong = int((answers[rows[60:]] != y[60:]).sum())
    claim = found["logistic regression, Clopper–Pearson"]
    assert binomial_tail(wrong, 60, claim.bound) == pytest.approx(0.05)
    by_class = found["logistic regression, Clopper–Pearson by class"].bound
    assert by_class[SAME] >= max(by_class[RARE], by_class[OFTEN])
    assert by_class[RARE] + by_class[OFTEN] <= 2 * by_class[SAME]


def binomial_tail(errors, n, p):
    from math import comb

    return sum(comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(errors + 1))


def cell(violated, bound, error, samples=100, spread=0.0, size=0.0):
    squares = samples * (error**2 + spread**2)
    return [violated, samples * bound, samples * error, squares, samples * size]


def results(violated, missed):
    """A hundred samples each: of a held-out bound, and of conformal sets."""
    bounds = {SAME: cell(violated, 0.2, 0.1), WORST: cell(100, 0.2, 0.3)}
    sets = {SAME: cell(50, 0.05, missed, spread=0.02, size=1.5)}
    return {
        "votes 200 renyi 0-100": {"held-out, map": bounds},
        "votes 200 crepes 0-100": {"crepes": sets},
    }


SMALL = {"samples": 100, "slow": 100, "rows": [200], "command": ["python"]}


def test_a_broken_promise_is_told_from_none():
    report = guarantees.report(results(4, 0.052), SMALL)
    tables = list(report.tables.values())
    short, same, worst = (tables[k].iloc[0] for k in (1, 2, 3))
    assert short[["same", "worst", "bound, n = 200"]].to_list() == [
        *("4.0", "(100.0)", "20.0")
    ]
    assert same["n = 200"] == "4.0 %, at most 4.0 (votes)"
    assert (same["promised"], same["kept"]) == ("yes", "yes")
    assert worst["promised"] == "no" and worst["kept"] == ""
    assert worst["n = 200"].startswith("100.0 %")
    assert tables[4].iloc[0]["votes"] == "20.0 (10.0)"
    assert tables[-1].iloc[0]["votes"] == "5.2 (1.50)"
    assert tables[-1].iloc[0]["kept"] == "yes"
    report = guarantees.report(results(20, 0.07), SMALL)
    tables = list(report.tables.values())
    assert tables[2].iloc[0]["kept"] == "no: votes 200"
    assert tables[-1].iloc[0]["kept"] == "no: votes 200"


def test_samples_of_a_piece_add_up():
    parts = {"votes 200 renyi 0-25": results(1, 0.05)["votes 200 renyi 0-100"]}
    table = guarantees.summary(parts)
    assert table["samples"].to_list() == [25, 25]
    settings = {"seed": 0, "rows": [100], "samples": 3, "slow": 3}
    key = "additive 100 renyi 0-2"
    assert key.replace("0-2", "0-3") in guarantees.keys(settings)
    both = guarantees.work(key, settings)
    last = guarantees.work(key.replace("0-2", "1-2"), settings)
    first = guarantees.work(key.replace("0-2", "0-1"), settings)
    assert list(both) == OURS
    for claim in OURS:
        for setting in SETTINGS:
            total = np.add(first[claim][setting], last[claim][setting])
            np.testing.assert_allclose(both[claim][setting], total, rtol=1e-7)


def test_packages_that_are_not_there_are_named(monkeypatch):
    monkeypatch.setattr(promises, "find_spec", lambda name: name == RENYI or None)
    notes = guarantees.missing()
    assert [note.split()[0] for note in notes] == ["mapie", "crepes", "MRCpy"]
    keys = guarantees.keys({"samples": 60, "slow": 1, "rows": [200]})
    assert len(keys) == 2 * 3 * len(NAMES) + 2 * len(NAMES) - 1  # crepes without adult
    ours = [key for key in keys if guarantees.possible(key)]
    assert {key.split()[2] for key in ours} == {RENYI}
    assert ours[-1] == "adult 200 renyi 50-60"
    notes = guarantees.report(results(1, 0.05), SMALL).notes
    assert any(note.startswith("mapie is not in the tables") for note in notes)
    assert any(note.startswith("crepes") and "100 samples" in note for note in notes)


def test_packages_claim_what_is_said_of_them():
    sample = drawn("additive", 200)
    for package in promises.installed():
        found = promises.claims(package, sample)
        said = [name for name, told in PROMISES.items() if told.package == package]
        assert sorted(found) == sorted(said)
        for bound, loss, _ in found.values():
            bounds = [bound] if isinstance(bound, float) else bound.values()
            assert all(0 < each <= 1 for each in bounds)
            assert loss.shape == (72, 2) and loss.min() >= 0 and loss.max() <= 1


class Controller:
    """Grants thresholds by bounds of Clopper and Pearson, nine at a time."""

    def __init__(self, proba, risk, *, target_level, list_predict_params, **others):
        assert (risk, others["fwer_method"]) == ("accuracy", "bonferroni")
        self.proba, self.target, self.params = proba, target_level, list_predict_params
        self.each = 1 - (1 - others["confidence_level"]) / len(list_predict_params)

    def calibrate(self, X, y):
        answers = self.proba(X)[:, [1]] >= self.params
        wrong = (answers != y[:, None]).sum(axis=0)
        upper = [clopper_pearson(int(k), len(y), self.each) for k in wrong]
        self.valid_predict_params = self.params[np.array(upper) <= 1 - self.target]
        self.best_predict_param = next(iter(self.valid_predict_params), None)


def test_the_accuracy_granted_is_the_largest(monkeypatch):
    module = SimpleNamespace(BinaryClassificationController=Controller)
    monkeypatch.setitem(sys.modules, "mapie", SimpleNamespace(risk_control=module))
    monkeypatch.setitem(sys.modules, "mapie.risk_control", module)
    sample = drawn("votes-5", 300)
    bound, loss, _ = promises.claims(promises.MAPIE, sample)["MAPIE, risk control"]
    proba = promises._trained(sample).predict_proba(sample.population.onehot)[:, 1]
    _, (rows, y) = sample.halves
    wrong = [((proba[rows] >= c) != y).sum() for c in promises._THRESHOLDS]
    least = clopper_pearson(int(min(wrong)), len(y), 1 - 0.05 / 9)
    assert least <= bound <= least + 2.0**-12
    assert loss[rows, y].sum() == min(wrong)
