"""``fit --order all``: one file that the other commands take, or refuse by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi import KernelRenyiClassifier
from renyi.encoding import tuples
from renyi.formatting import percent
from support.commandline import save, votes


@pytest.fixture
def model(good) -> str:
    """A model of the first 300 rows of votes; the others are test.csv."""
    frame = votes()
    save(frame[:300], "train.csv")
    save(frame[300:], "test.csv")
    asked = ("--target", "party", "--order", "all", "--out", "m")
    good("fit", "train.csv", *asked)
    return "m.json"


def trained() -> tuple[KernelRenyiClassifier, pd.DataFrame]:
    frame = votes()
    X = frame.drop(columns="party")
    clf = KernelRenyiClassifier(random_state=0).fit(X[:300], frame["party"][:300])
    return clf, X[300:]


def test_the_file_predicts_as_the_estimator(good, model):
    clf, X = trained()
    done = good("predict", model, "test.csv", "--score", "--json")
    answers = pd.DataFrame(done.json["answers"])
    assert answers["prediction"].tolist() == clf.predict(X).tolist()
    np.testing.assert_allclose(answers["score"], clf.decision_function(X), atol=1e-9)
    assert done.json["error"]["rows"] == 135
    seen = good("predict", model, "train.csv").err
    assert "these are the training rows, so the error is too low" in seen


def test_explain_adds_up_to_the_score(good, model):
    clf, X = trained()
    done = good("explain", model, "test.csv", "--json")
    table = pd.DataFrame(done.json["answers"])
    np.testing.assert_allclose(table["total"], clf.decision_function(X), atol=1e-9)
    parts = [c for c in table if c.startswith("points_")]
    total = table[[*parts, "interactions", "intercept"]].sum(axis=1)
    np.testing.assert_allclose(total, table["total"], atol=1e-9)
    assert "  interactions  " in good("explain", model, "test.csv", "--row", "1").out


def test_fit_says_what_the_model_contains(good, bad):
    done = good("fit", "votes", "--order", "all", "--details")
    text = " ".join(done.out.split())
    assert "The model contains the categories of 342 training rows." in text
    assert "single columns 96.5 %, pairs 3.4 %" in text
    assert "none follows from pair counts for a model of every order" in text
    assert max(map(len, done.out.splitlines())) <= 80
    facts = good("fit", "votes", "--order", "all", "--json").json
    assert facts["order"] == "all"
    assert facts["every_order"]["contained_rows"] == 342
    assert facts["loo_error"] == pytest.approx(15 / 435)
    held = good("fit", "votes", "--order", "all", "--confidence", "0.95", "--json").json
    assert held["heldout"]["n"] == 130
    assert held["heldout"]["observed_error"] < held["heldout"]["sampled_error"] < 0.15


def test_certify_report_and_compare_take_unseen_rows(good, model):
    clf, X = trained()
    y = votes()["party"][300:]
    own = renyi.certify(clf, X, y)
    c = good("certify", model, "--rows", "test.csv", "--json").json
    assert c["sampled_error"] == pytest.approx(own.sampled_error)
    good("report", model, "--rows", "test.csv")
    page = Path("m.report.html").read_text("utf-8")
    facts = json.loads(Path("m.report.json").read_text("utf-8"))
    assert facts["heldout"]["confusion"] == confusion(clf, X, y)
    assert facts["whatif"] is False
    assert 'id="whatif"' not in page and 'id="page-data"' not in page
    assert "contains the categories of" in page
    assert "adds interactions of columns" in page
    done = good("compare", "test.csv", "--models", model, "--json").json
    (entry,) = done["entries"]
    assert entry["error"]["value"] == pytest.approx((clf.predict(X) != y).mean())
    assert entry["population"] == pytest.approx(own.sampled_error)


def confusion(clf, X, y):
    answers = clf.predict(X)
    return [
        [int(((y == a) & (answers == b)).sum()) for b in clf.classes_]
        for a in clf.classes_
    ]


@pytest.mark.parametrize(
    "argv",
    [
        ("export", "m.json", "--sql", "duckdb"),
        ("export", "m.json", "--points", "10"),
        ("certify", "m.json", "v.renyi"),
        ("report", "m.json", "v.renyi"),
        ("report", "m.json", "--path"),
    ],
)
def test_what_needs_points_or_counts_says_so(good, bad, model, argv):
    good("marginals", "build", "train.csv", "--target", "party", "--out", "v.renyi")
    assert "m.json is a model of every order" in bad(*argv)


def test_verify_does_not_prove_it(run, good, model):
    good("marginals", "build", "train.csv", "--target", "party", "--out", "v.renyi")
    done = run("verify", model, "v.renyi")
    assert done.code == 1
    assert "about rows" in done.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--interactions", "2"), "--interactions is for scorecards"),
        (("--rule", "sharp"), "--rule sharp is for scorecards"),
        (("--objective", "ranking"), "--objective ranking is for scorecards"),
        (("--no-intercept",), "--no-intercept is for scorecards"),
        (("--class-conditional",), "--class-conditional is for scorecards"),
        (("--marginals", "--out", "m"), "--marginals is for scorecards"),
        (("--alpha", "loo"), "--alpha must be"),
    ],
)
def test_options_of_scorecards_are_refused(bad, argv, message):
    assert message in bad("fit", "votes", "--order", "all", *argv)


def test_counts_have_no_order_to_choose(good, bad):
    good("marginals", "build", "votes", "--out", "v.renyi")
    assert "--order all compares rows" in bad("fit", "v.renyi", "--order", "all")
    assert "--order auto chooses" in bad("fit", "v.renyi", "--order", "auto")


# ---- which order


def interacting(n: int, K: int = 2) -> pd.DataFrame:
    """Rows of which the class depends on two columns together."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (n, 6)), columns=[*"abcdef"])
    score = 2.0 * (X["a"] == X["b"]) + (X["c"] == 1) + rng.normal(size=n) / 2
    labels = np.digitize(score, np.linspace(0.5, 2.5, K - 1))
    return X.astype(str).assign(y=[f"class {k}" for k in labels])


def test_the_chosen_order_is_that_of_the_estimator(good):
    frame = interacting(400)
    save(frame)
    asked = ("fit", "t.csv", "--target", "y", "--order", "auto", "--out", "m")
    facts = good(*asked, "--json").json
    own = renyi.RenyiClassifier(order="auto").fit(frame.drop(columns="y"), frame["y"])
    assert facts["order"] == own.order_ > 1
    assert facts["loo_error"] == own.certificate_.loo_error
    read = renyi.RenyiClassifier.load("m.json")
    assert read.order_ == own.order_
    good("verify", "m.json", "m.renyi")  # of the order that was chosen


def test_what_was_chosen_is_said_where_it_is_single_columns(good):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 3, (400, 4)), columns=[*"abcd"])
    y = np.where((X["a"] > 0) ^ (rng.random(400) < 0.1), "yes", "no")
    save(X.astype(str).assign(y=y))
    asked = ("fit", "t.csv", "--target", "y")
    assert "\nOrder 1 chosen of 1, 2 and 3.\n" in good(*asked, "--order", "auto").out
    text = good(*asked, "--interactions", "auto").out
    assert "\nNo pair of columns chosen: none helps beyond chance.\n" in text
    assert "chosen" not in good(*asked).out


def test_points_of_single_columns_are_not_said_to_matter_most(good):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(0, 2, (400, 3)), columns=[*"abc"])
    save(X.astype(str).assign(y=np.where(X["a"] ^ X["b"], "yes", "no")))
    asked = ("fit", "t.csv", "--target", "y", "--order", "all")
    done = good(*asked, "--out", "m")
    facts = good(*asked, "--json").json
    share = facts["every_order"]["order_shares"]["single columns"]
    assert share < 0.02
    assert f"Points of single columns ({percent(share)} of the score)" in done.out
    assert "matter" not in done.out
    good("report", "m.json", "--out", "r.html")
    assert "Guarantees of all three rules" not in Path("r.html").read_text("utf-8")


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("n", [600, 2500])
def test_fit_says_where_pairs_would_clearly_help(good, n, K):
    frame = interacting(n, K)
    if n > 1000:  # too many tuples to look at all rows
        rng = np.random.default_rng(1)
        frame["g"] = rng.integers(0, 19, n).astype(str)
        frame["h"] = rng.integers(0, 19, n).astype(str)
    save(frame)
    done = good("fit", "t.csv", "--target", "y")
    look = good("fit", "t.csv", "--target", "y", "--json").json["look_at_pairs"]
    assert look["sampled"] == (n > 1000)
    assert f"{100 * look['pairs']:.1f} %" in done.out
    assert "--order 2" in done.out
    if n <= 1000:
        X = frame.drop(columns="y")
        errors = [
            renyi.RenyiClassifier(order=r).fit(X, frame["y"]).certificate_.loo_error
            for r in (1, 2)
        ]
        assert (look["single"], look["pairs"]) == pytest.approx(tuple(errors))
    for more in (("--order", "1"), ("--rule", "sharp"), ("--class-weight", "balanced")):
        asked = good("fit", "t.csv", "--target", "y", *more, "--json").json
        assert asked["look_at_pairs"] is None


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_said_where_columns_add_up_or_are_noise(good, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 3, (400, 6)), columns=[*"abcdef"])
    score = X["a"] - X["b"] + rng.normal(size=400)
    for labels in (score > 0, rng.random(400) < 0.4):
        save(X.assign(y=np.where(labels, "yes", "no")))
        done = good("fit", "t.csv", "--target", "y", "--categorical", *X)
        assert "--order 2" not in done.out


def test_what_is_too_large_to_look_at_is_trained(good, monkeypatch):
    save(interacting(300))
    asked = ("fit", "t.csv", "--target", "y")
    assert "--order 2" in good(*asked).out
    assert "--order 2" not in good(*asked, "--memory", "50K").out
    monkeypatch.setattr(tuples, "MAX_TUPLES", 5)
    assert "--order 2" not in good(*asked).out


def test_bundled_sets(good):
    assert "Order 2 would lower the error" in good("fit", "kr-vs-kp").out
    assert "Order 2" not in good("fit", "votes").out


def test_compare_has_every_order_where_it_is_affordable(good, monkeypatch):
    from renyi.cli import compare

    save(interacting(120))
    asked = ("compare", "t.csv", "--target", "y", "--folds", "3")
    names = {e["name"]: e for e in good(*asked, "--json").json["entries"]}
    assert {"map", "order2", "every-order"} <= {*names}
    assert names["every-order"]["seconds"] > 0
    assert names["every-order"]["error"]["value"] < names["map"]["error"]["value"]
    rows = compare._Rows([], [], "y", [], None, 20_000)
    assert [name for name, _ in compare._every_order(rows, 11)] == ["every-order"]
    monkeypatch.setattr(compare, "_MOST_OF_EVERY_ORDER", 1e3)
    done = good(*asked)
    assert "every-order" not in done.out
    assert "every-order (tuples of all sizes: 111 different rows)" in done.err
