"""Certificates: honest texts, any model on any marginals, plain and safe forms."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from renyi import Certificate, Encoder, Marginals, RenyiClassifier, certify
from renyi.datasets import load
from renyi.encoding.columns import Columns, Levels
from renyi.fitting import record
from renyi.formatting import at_most
from renyi.marginals import consistency
from support.scorings import risk_at_rows


@pytest.fixture(scope="module")
def votes():
    X, y = load("votes")
    return X, y, RenyiClassifier().fit(X, y)


@pytest.fixture(scope="module")
def promoters():
    X, y = load("promoters")
    return X, y, RenyiClassifier().fit(X, y)


# ---- honesty


def test_promoters_lead_with_leave_one_out(promoters):
    """More categories than rows: the bound alone would be a false promise."""
    c = promoters[2].certificate_
    assert c.warnings
    assert c.doubtful
    assert "categories and only 106 rows" in c.warnings[0]
    text = str(c)
    assert text.startswith("  Error to expect on new rows ")
    assert f" {100 * c.loo_error:.1f} %   (95 % interval" in text.splitlines()[0]
    assert "Guarantee: none useful. There are 228 categories and only 106 rows" in text
    assert "at most" not in text
    assert c.loo_risk > c.gamma


def test_votes_need_no_warning(votes):
    c = votes[2].certificate_
    assert c.warnings == ()
    assert not c.doubtful
    bound = at_most(c.bounds["map"], 1)
    assert f"Guarantee: wrong on at most {bound} of any population" in str(c)
    assert "An estimate by leave-one-out." in str(c)


def test_optimism_alone_is_a_reason_to_warn(votes):
    """A risk on new rows of 1.5 gamma and more, however many rows there are."""
    X, y, _ = votes
    noise = np.random.default_rng(0).integers(0, 9, (435, 16)).astype(str)
    wide = pd.concat(
        [X, pd.DataFrame(noise, columns=[f"n{j}" for j in range(16)])], axis=1
    )
    c = RenyiClassifier(alpha=1e-6).fit(wide, y).certificate_
    assert c.n > 2 * c.n_indicators
    assert c.loo_risk > 1.5 * c.gamma
    assert "times gamma" in c.warnings[0]
    assert "Guarantee: none useful. The model fits these rows far better" in str(c)


def test_tiny_risks_are_no_reason_to_hide_a_bound(votes):
    """Separable tables: 0.0001 is far above a gamma of 1e-7, and yet tiny."""
    c = replace(votes[2].certificate_, gamma=1e-7, loo_risk=1e-4)
    assert not c.doubtful
    assert "Guarantee: wrong on at most" in str(c)
    assert replace(c, loo_risk=0.01).doubtful


def test_every_warning_has_a_code(votes, promoters):
    X, y, _ = votes
    assert promoters[2].certificate_.warning_codes == ("few-rows", "optimistic")
    weighted = RenyiClassifier(class_weight="balanced")
    weighted.fit(X, y, sample_weight=np.full(len(y), 5.0))
    c = weighted.certificate_
    assert c.warning_codes == ("class-weight", "sample-weight", "class-conditional")
    assert len(c.warnings) == 3
    other = certify(weighted, Marginals.from_data(X[:300], y[:300]))
    assert other.warning_codes == ("class-weight",)


def test_marginals_alone_with_more_categories_than_rows(promoters):
    X, y, clf = promoters
    m = Marginals.from_data(X, y)
    c = RenyiClassifier(alpha=clf.alpha_).fit_marginals(m).certificate_
    assert c.warnings
    assert c.loo_error is None
    assert c.gamma == pytest.approx(clf.certificate_.gamma, abs=1e-10)
    assert "unknown: pair counts do not contain it" in str(c).splitlines()[0]
    assert "at most" not in str(c)


def test_no_degree_of_freedom_left_means_no_estimate():
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (12, 30)), np.arange(12) % 2
    m = Marginals.from_data(X, y)
    c = RenyiClassifier(alpha=0.0).fit_marginals(m).certificate_
    assert c.gamma < 1e-9
    assert c.loo_risk is None
    assert "unknown: pair counts do not contain it" in str(c)
    own = RenyiClassifier(alpha=0.0).fit(X, y).certificate_
    assert own.loo_error is None
    assert "unknown: not defined at this penalty" in str(own)
    assert "choose a larger alpha" in " ".join(str(own).split())
    assert Certificate.from_dict(own.to_dict()).warning_codes == own.warning_codes


def test_random_labels_promise_nothing():
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 3, (3000, 3)), rng.integers(0, 3, 3000)
    clf = RenyiClassifier().fit(X, y)
    c = clf.certificate_
    assert c.bounds["map"] == 1.0
    assert 0.6 < c.bounds["sharp"] < 2 / 3 + 1e-9
    huge = replace(clf.scorecard_, z=100 * clf.scorecard_.z + 7)
    assert set(certify(huge, clf.marginals_).bounds.values()) == {1.0}


# ---- lazy and frozen


def test_certificate_is_computed_when_asked_for(votes, monkeypatch):
    X, y, _ = votes
    calls = []
    real = record.certificate

    def counted(*args, **more):
        calls.append(args)
        return real(*args, **more)

    monkeypatch.setattr(record, "certificate", counted)
    clf = RenyiClassifier(alpha=0.1).fit(X, y)
    clf.predict(X)
    assert calls == []
    first = clf.certificate_
    assert clf.certificate_ is first
    assert len(calls) == 1
    clf.fit(X[:100], y[:100])
    assert clf.certificate_.n == 100


def test_certificate_is_frozen(votes):
    c = votes[2].certificate_
    with pytest.raises(FrozenInstanceError):
        c.gamma = 0.0
    with pytest.raises(TypeError, match="cannot be changed"):
        c.bounds["map"] = 0.0
    for change in (
        c.bounds.clear,
        c.bounds.popitem,
        lambda: c.bounds.update(map=0.0),
        lambda: c.bounds.pop("map"),
        lambda: c.bounds.setdefault("map", 0.0),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert (c.basis, c.confidence, c.order, c.separable) == ("marginals", None, 1, None)


# ---- any model on any marginals


def test_certificate_of_the_training_rows(votes, promoters):
    for X, y, clf in (votes, promoters):
        gamma, expected = risk_at_rows(clf, X, y)
        c = clf.certificate_
        assert c.gamma == pytest.approx(gamma, abs=1e-12)
        assert c.bounds["map"] == pytest.approx(min(expected, 4 * gamma), abs=1e-10)
        by_counts = certify(clf, Marginals.from_data(X, y))
        assert by_counts.gamma == pytest.approx(gamma, abs=1e-12)
        assert by_counts.bounds == pytest.approx(c.bounds, abs=1e-10)


@pytest.mark.parametrize("K", [2, 3])
def test_other_rows_with_labels_the_model_never_saw(K):
    rng = np.random.default_rng(K)
    X = pd.DataFrame(rng.choice(list("abcde"), (300, 3)), columns=["p", "q", "r"])
    y = (X["p"].map(ord) + rng.integers(0, 2, 300)).rename("answer") % K
    known = ~X.isin(["e"]).any(axis=1)
    clf = RenyiClassifier().fit(X[known], y[known])
    m = Marginals.from_data(X, y)
    c = certify(clf, m)
    gamma, expected = risk_at_rows(clf, X, y)
    assert c.gamma == pytest.approx(gamma, abs=1e-12)
    assert c.bounds["map"] == pytest.approx(expected, abs=1e-10)
    assert c.n == 300
    assert certify(clf.scorecard_, m).gamma == pytest.approx(gamma, abs=1e-12)


def test_rows_of_fewer_classes_and_columns_in_another_order():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.choice(list("abc"), (200, 3)), columns=["p", "q", "r"])
    y = (X["p"].map(ord) + rng.integers(0, 2, 200)).rename("answer") % 3
    clf = RenyiClassifier().fit(X, y)
    some = y != 0
    m = Marginals.from_data(X.loc[some, ["r", "p", "q"]].assign(extra="1"), y[some])
    gamma, _ = risk_at_rows(clf, X[some], y[some])
    assert certify(clf, m).gamma == pytest.approx(gamma, abs=1e-12)


def test_numbers_need_the_same_bins():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 10, 200), "sex": list("mf") * 100})
    y = (X["age"] > 45).rename("ill")
    clf = RenyiClassifier().fit(X[:100], y[:100])
    with pytest.raises(ValueError, match="'age' is binned differently"):
        certify(clf, Marginals.from_data(X[100:], y[100:]))
    m = Marginals.from_data(X[100:], y[100:], encoder=clf.encoder_)
    assert certify(clf, m).gamma == pytest.approx(
        risk_at_rows(clf, X[100:], y[100:])[0]
    )
    words = X.assign(age="young")
    words.loc[::2, "age"] = "old"
    with pytest.raises(ValueError, match="'age' is binned differently"):
        certify(clf, Marginals.from_data(words, y, encoder=Encoder()))


def test_what_does_not_fit_is_named(votes):
    X, y, clf = votes
    with pytest.raises(ValueError, match="no column 'crime'"):
        certify(clf, Marginals.from_data(X.drop(columns="crime"), y))
    with pytest.raises(
        ValueError, match="class 'green', which the model does not know"
    ):
        certify(clf, Marginals.from_data(X, y.where(y.index > 3, "green")))
    with pytest.raises(TypeError, match="the first is a Marginals"):
        certify(Marginals.from_data(X, y), clf)
    with pytest.raises(ValueError, match="'magic'"):
        certify(clf, Marginals.from_data(X, y), level="magic")


def test_absent_pairs_are_intervals():
    X, y = load("votes")
    tables = [pd.crosstab(X[name].fillna("?"), y) for name in ("crime", "immigration")]
    m = Marginals.from_tables(tables, target="party")
    clf = RenyiClassifier().fit(X[["crime", "immigration"]], y)
    c = certify(clf, m)
    assert c.basis == "intervals"
    exact = certify(clf, Marginals.from_data(X[["crime", "immigration"]], y))
    assert exact.gamma <= c.gamma
    assert Certificate.from_dict(c.to_dict()) == c


# ---- the encoder of the model, not that of the marginals


def test_labels_that_the_model_merged_as_rare():
    """By the points of "(rare)", not by the mean effect of an unseen label."""
    rng = np.random.default_rng(0)
    rare = np.array([f"t{k}" for k in range(8)])
    often = rng.choice(["a", "b"], 300)
    X = pd.DataFrame({"town": np.r_[often, rare], "odd": np.arange(308) % 2})
    y = pd.Series(np.r_[np.zeros(300, int), np.ones(8, int)], name="ill")
    clf = RenyiClassifier(alpha=1e-4, encoder=Encoder(min_count=10)).fit(X, y)
    later = pd.DataFrame({"town": np.repeat(rare, 30), "odd": np.arange(240) % 2})
    sick = pd.Series(np.arange(240) % 30 == 0, name="ill").astype(int)
    c = certify(clf, Marginals.from_data(later, sick))
    gamma, _ = risk_at_rows(clf, later, sick)
    assert c.gamma == pytest.approx(gamma, abs=1e-12)
    assert (clf.predict(later) != sick).mean() > 0.9
    assert c.bounds["map"] > 0.9


def test_labels_merged_otherwise_in_the_marginals_are_refused():
    X = pd.DataFrame({"town": list("aaabbbcd") * 4, "odd": list("xy") * 16})
    y = pd.Series([0, 1, 1, 0] * 8, name="ill")
    clf = RenyiClassifier().fit(X, y)
    with pytest.raises(
        ValueError, match="'town' merges 'c' and 'd' in the marginals, but the model"
    ):
        certify(clf, Marginals.from_data(X, y, encoder=Encoder(min_count=5)))
    X["town"] = X["town"].replace("d", None)
    clf = RenyiClassifier().fit(X, y)
    with pytest.raises(ValueError, match="'town' merges 'c' and '.missing.'"):
        certify(clf, Marginals.from_data(X, y, encoder=Encoder(missing=("c",))))


def test_bins_are_matched_by_place_and_missing_numbers_by_code():
    rng = np.random.default_rng(1)
    age = rng.integers(20, 80, 300).astype(float)
    X = pd.DataFrame({"age": age, "sex": list("mf") * 150})
    y = pd.Series(age + rng.normal(0, 9, 300) > 50, name="ill").astype(int)
    X.loc[:20, "age"] = -9
    clf = RenyiClassifier(encoder=Encoder(missing=("-9",))).fit(X, y)
    column, *rest = clf.encoder_.columns
    levels = column.levels
    texts = (*(f"bin {k}" for k in range(len(levels.edges) + 1)), None)
    other = Levels("number", texts, levels.edges)
    columns = Columns.of([column._replace(levels=other), *rest])
    m = Marginals.from_data(X, y, encoder=replace(clf.encoder_, columns=columns))
    assert m.categories["age"][0] == "bin 0"
    gamma, _ = risk_at_rows(clf, X, y)
    assert certify(clf, m).gamma == pytest.approx(gamma, abs=1e-12)
    kept = replace(clf.encoder_, missing=())  # -9 would be in the lowest bin
    with pytest.raises(ValueError, match="'age' is binned differently"):
        certify(clf, Marginals.from_data(X, y, encoder=kept))


# ---- marginals that no rows have


def impossible():
    """Three binary columns that all differ from each other; margins that agree."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (400, 3)), columns=["p", "q", "r"])
    m = Marginals.from_data(X, pd.Series(rng.integers(0, 2, 400), name="y"))
    counts = np.full((8, 8), 100.0)
    counts[:6, :6] = 200 * np.kron(1 - np.eye(3), 1 - np.eye(2)) + 200 * np.eye(6)
    counts[6:, 6:] = 200 * np.eye(2)
    return replace(m, counts=counts, n=400.0)


def test_impossible_marginals_are_refused():
    m = impossible()
    clf = RenyiClassifier(alpha=1.0)
    with pytest.raises(ValueError, match="No distribution has these pair counts"):
        clf.fit_marginals(m)
    assert not hasattr(clf, "classes_")  # nothing half done
    X = pd.DataFrame([[0, 0, 0], [1, 1, 1]] * 50, columns=["p", "q", "r"])
    model = RenyiClassifier().fit(X, pd.Series([0, 1] * 50, name="y"))
    with pytest.raises(ValueError, match="No distribution has these pair counts"):
        certify(model, m)
    # A column that the model does not use may be as impossible as it likes.
    two = RenyiClassifier().fit(X[["p", "q"]], pd.Series([0, 1] * 50, name="y"))
    assert certify(two, m).gamma > 0


def test_negative_risk_is_refused_whatever_the_size(monkeypatch):
    """Of large tables only the risk is looked at; it was clipped to 0 before."""
    monkeypatch.setattr(consistency, "_CHECKED_SIZE", 0)
    m = impossible()
    X = pd.DataFrame([[0, 0, 0], [1, 1, 1]] * 50, columns=["p", "q", "r"])
    card = RenyiClassifier().fit(X, pd.Series([0, 1] * 50, name="y")).scorecard_
    z = np.array([-1.0, 1.0] * 3)
    steep = replace(card, z=z, intercept=np.asarray(0.0))
    assert m.Q @ z @ z - m.dvec @ z + 0.25 < -1  # by hand, in the paper's letters
    with pytest.raises(ValueError, match="cannot be negative: .*validate"):
        certify(steep, m)


def test_points_too_large_to_square_promise_nothing(votes):
    X, y, clf = votes
    huge = replace(clf.scorecard_, z=1e200 * clf.scorecard_.z)
    c = certify(huge, Marginals.from_data(X, y))
    assert set(c.bounds.values()) == {1.0}


# ---- whose leave-one-out


def test_leave_one_out_is_told_of_the_training_rows_only(votes, tmp_path):
    X, y, clf = votes
    clf.save(tmp_path / "votes.json")
    loaded = RenyiClassifier.load(tmp_path / "votes.json")
    m = Marginals.from_data(X, y)
    for model in (clf, loaded):
        assert certify(model, m) == clf.certificate_
        for other in (
            Marginals.from_data(X[:200], y[:200]),
            Marginals.from_data(X.sample(frac=1, random_state=0), y),
            m * 2,
        ):
            c = certify(model, other)
            assert c.loo_risk is None
            assert c.loo_error is None
            assert not c.doubtful
            assert c.warnings == ()
            assert "Guarantee: " in str(c)
            assert "leave-one-out" not in str(c)
            assert "unknown: pair counts do not contain it" in str(c)
    few = certify(clf, Marginals.from_data(X[:80], y[:80]))
    assert few.doubtful
    assert "only 80 rows" in few.warnings[0]
    assert "expect the estimate" not in str(few)


def test_optimism_in_training_is_no_doubt_about_other_marginals(promoters):
    X, y, clf = promoters
    assert certify(clf, Marginals.from_data(X, y)).loo_risk == pytest.approx(
        clf.certificate_.loo_risk
    )
    m = Marginals.from_data(X[:90], y[:90]) * 10
    c = certify(clf, m)
    assert c.loo_risk is None
    assert not c.doubtful


def test_certificate_keeps_what_was_so_at_the_fit(votes, tmp_path):
    """A change of class_weight after the fit is of no concern to the model at hand."""
    X, y, _ = votes
    m = Marginals.from_data(X[:300], y[:300])
    for before, after in ((None, "balanced"), ("balanced", None)):
        clf = RenyiClassifier(class_weight=before).fit(X, y)
        clf.set_params(class_weight=after)
        expected = before is not None
        assert ("weighted in training" in str(clf.certificate_)) == expected
        assert ("weighted in training" in str(certify(clf, m))) == expected
        clf.save(tmp_path / "m.json")
        again = RenyiClassifier.load(tmp_path / "m.json")
        assert ("weighted in training" in str(certify(again, m))) == expected


# ---- copies and plain forms


def test_bounds_are_copied_and_told_as_json(votes):
    c = votes[2].certificate_
    for again in (pickle.loads(pickle.dumps(c)), copy.deepcopy(c), copy.copy(c)):
        assert again == c
        with pytest.raises(TypeError, match="cannot be changed"):
            again.bounds["map"] = 0.0
    assert json.loads(json.dumps(c.bounds)) == dict(c.bounds)
    given = {"map": 0.5, "renyi": 0.5, "sharp": 0.5}
    changed = replace(c, bounds=given)
    given["map"] = 0.0
    assert changed.bounds["map"] == 0.5
    assert c.bounds["map"] != 0.5
    c.to_dict()["bounds"]["map"] = 0.0  # a plain copy
    assert c.bounds["map"] > 0


def test_pickle_joblib_and_clone(votes, tmp_path):
    X, _, clf = votes
    again = pickle.loads(pickle.dumps(clf))
    assert again.certificate_ == clf.certificate_
    joblib.dump(clf, tmp_path / "clf.joblib")
    other = joblib.load(tmp_path / "clf.joblib")
    np.testing.assert_array_equal(other.decision_function(X), clf.decision_function(X))
    fresh = clone(clf)
    assert not hasattr(fresh, "scorecard_")
    assert fresh.get_params() == clf.get_params()


def test_plain_form_comes_back(votes, promoters):
    for c in (votes[2].certificate_, promoters[2].certificate_):
        text = json.dumps(c.to_dict(), allow_nan=False)
        assert Certificate.from_dict(json.loads(text)) == c


@pytest.mark.parametrize(
    "change",
    [
        {"gamma": "0.1"},
        {"bounds": {"map": 0.1}},
        {"bounds": {"map": "x", "renyi": 0.1, "sharp": 0.1}},
        {"majority": ["democrat"]},
        {"one_feature": ["crime", None]},
        {"loo_risk": "low"},
        {"rule": "bayes"},
        {"warnings": [3]},
        {"separable": 1},
        {"more": 1},
        {"gamma": float("inf")},
        {"bounds": {"map": 1.5, "renyi": 0.1, "sharp": 0.1}},
        {"majority": ["democrat", 1.4]},
        {"loo_error": 1.2},
        {"basis": "hearsay"},
        {"basis": "heldout"},
        {"majority": None},
        {"class_scores": [0.1, 0.2]},
        {"warning_codes": ["few-rows"]},
        {"warnings": ["a"], "warning_codes": ["made up"]},
        {"steps": [{"name": "a", "upper": "b", "lower": None, "seconds": None}]},
    ],
)
def test_strange_plain_forms_are_refused(votes, change):
    plain = json.loads(json.dumps(votes[2].certificate_.to_dict()))
    with pytest.raises(ValueError, match="its certificate"):
        Certificate.from_dict({**plain, **change})


def test_the_status_of_a_step_is_one_of_three(votes):
    plain = json.loads(json.dumps(votes[2].certificate_.to_dict()))
    (step,) = plain["steps"]
    plain["steps"] = [{**step, "status": "stopped"}]
    assert Certificate.from_dict(plain).steps[0].status == "stopped"
    plain["steps"] = [{**step, "status": "tired"}]
    with pytest.raises(ValueError, match="its certificate"):
        Certificate.from_dict(plain)


def test_incomplete_plain_forms_are_refused(votes):
    plain = votes[2].certificate_.to_dict()
    del plain["gamma"]
    with pytest.raises(ValueError, match="lacks the field 'gamma'"):
        Certificate.from_dict(plain)
    with pytest.raises(ValueError, match="is not an object"):
        Certificate.from_dict([1, 2])


def test_errors_seen_of_one_rule_say_nothing_of_another(votes):
    X, y, _ = votes
    clf = RenyiClassifier().fit(X[:300], y[:300])
    c = certify(clf, X[300:], y[300:])
    assert c.of_rule("map") is c
    other = c.of_rule("sharp")
    assert (other.sampled_error, other.observed_error) == (c.bounds["sharp"], None)
    assert "Clopper" not in str(other)
    assert Certificate.from_dict(json.loads(json.dumps(other.to_dict()))) == other
    exact = clf.certificate_.of_rule("sharp")
    assert exact.sampled_error is None and exact.bounds == clf.certificate_.bounds
