"""Integer scorecards: cheap by their certificate, true to it, safe to print."""

from __future__ import annotations

import copy
import io
import pickle
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import renyi
from renyi import certify
from renyi.certificates.error_table import error_table
from renyi.datasets import random_joint
from renyi.exports.integer_card import tables
from renyi.formatting import at_most
from renyi.solvers.integer_points import nearest, scales, search
from support.counted import marginals
from support.joints import marginal_constraints, outcomes, worst_case
from support.noisyrows import noisy

SIZES = [(2, 2, 2), (3, 2), (2, 3, 2), (4, 2)]
SETS = ("votes", "credit", "kr-vs-kp", "promoters", "adult")
TARGET = "<b>é|*</b>"


def tiny(seed):
    kind = ("dirichlet", "additive", "logistic")[seed % 3]
    sizes = SIZES[seed % len(SIZES)]
    table = random_joint(sizes, 2, kind=kind, random_state=seed)
    return table, marginals(table, n=1e4)  # rows enough for points to be improved


def card_of(m, alpha=1e-3):
    return renyi.RenyiClassifier(alpha=alpha).fit_marginals(m).scorecard_


def pairs_of(m):
    """The moments of the solver, by its own formulas."""
    from renyi.solvers.integer_points import Pairs

    prior, mean = float(np.diff(m.class_probabilities)[0]), m.Q.diagonal()
    return Pairs(m.Q, mean, m.dvec - prior * mean, m.encoder.columns.sizes)


@pytest.mark.parametrize("seed", range(24))
def test_bounds_are_never_below_the_worst_case(seed):
    table, m = tiny(seed)
    card = card_of(m).rounded(1 + seed % 4, marginals=m)
    codes = outcomes(table.shape[:-1]).T
    answers = np.eye(2)[(card.scorecard.scores(codes)[:, 0] > 0).astype(int)]
    worst = worst_case(answers, *marginal_constraints(table))
    assert worst <= card.certificate.bounds["map"] + 1e-7
    for rule in ("renyi", "sharp"):
        t = card.scorecard.estimates(codes)
        found = worst_case(
            renyi.rules.rule_proba(t, rule), *marginal_constraints(table)
        )
        assert found <= card.certificate.bounds[rule] + 1e-7


@pytest.mark.parametrize(("sizes", "most"), [((3, 3, 2), 1), ((4, 3, 2), 2)])
def test_among_all_cards_of_small_tables_it_finds_the_best(sizes, most):
    cards = np.array(list(product(range(most + 1), repeat=sum(sizes))))
    missed = []
    for seed in range(15):
        table = random_joint(sizes, 2, concentration=0.15, random_state=seed)
        m = marginals(table, n=1e4)
        pairs, z = pairs_of(m), card_of(m).z
        lead = np.maximum(cards @ pairs.dvec, 0)
        spread = ((cards @ pairs.Q) * cards).sum(axis=1) - (cards @ pairs.mean) ** 2
        best = (lead**2 / np.where(spread > 1e-9, spread, np.inf)).max()
        found = pairs.value(search(z, pairs, most))
        rounded = [
            nearest(z, pairs.sizes, s, most) for s in scales(z, pairs.sizes, most)
        ]
        missed.append(best - max(map(pairs.value, rounded)))
        assert found == pytest.approx(best, abs=1e-9)
    assert max(missed) > 0.001  # nearest integers alone do not


@pytest.mark.parametrize("name", ["votes", "credit", "kr-vs-kp"])
@pytest.mark.parametrize("most", [1, 3, 10])
def test_never_worse_than_the_nearest_integers_of_any_scale(name, most):
    m = renyi.Marginals.from_data(*renyi.datasets.load(name))
    z, pairs = card_of(m).z, pairs_of(m)
    found = search(z, pairs, most)
    assert found.min() == 0 <= found.max() <= most
    for scale in scales(z, pairs.sizes, most):
        rounded = nearest(z, pairs.sizes, scale, most)
        assert rounded.max() <= most
        assert pairs.value(found) >= pairs.value(rounded) * (1 - 1e-9)


@pytest.mark.parametrize("name", SETS)
def test_every_bundled_set(name):
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_data(X, y)
    clf = renyi.RenyiClassifier(alpha=1e-3).fit_marginals(m)
    card = clf.scorecard_.rounded(5, marginals=clf.marginals_)
    assert card.points.dtype == np.int64 and card.points.min() == 0
    assert card.points.max() <= 5 and card.other_points.max() <= 5
    assert card.cost < 0.04
    # The certificate is that of anyone who looks at the rounded card.
    again = renyi.certify(card.scorecard, m)
    assert dict(again.bounds) == dict(card.certificate.bounds)
    # Adding up the points answers what the scorecard answers.
    rows, codes = X[:2000], clf.encoder_.transform(X[:2000])
    answers = np.asarray(card.scorecard.classes)[
        card.scorecard.estimates(codes).argmax(axis=1)
    ]
    assert (card.predict(rows) == answers).all()
    shown = card.totals().set_index("total")["probability"]
    p = card.scorecard.probabilities(codes)[:, 1]
    assert shown.loc[card.total(rows)].to_numpy() == pytest.approx(p, abs=1e-9)
    assert shown.is_monotonic_increasing
    assert ((shown > 0.5) == (shown.index >= card.threshold)).all()


def test_counts_are_needed_and_a_scorecard_has_none(tmp_path):
    X, y = noisy()
    clf = renyi.RenyiClassifier().fit(X, y)
    m = clf.marginals_
    card = clf.scorecard_.rounded(3, marginals=m)
    assert card.scorecard.calibration.kind == "temperature"
    clf.save(tmp_path / "m.json")
    read = renyi.RenyiClassifier.load(tmp_path / "m.json").scorecard_
    copied = pickle.loads(pickle.dumps(clf.scorecard_))
    for other in (read, copied, copy.deepcopy(clf.scorecard_)):
        with pytest.raises(ValueError, match="marginals="):
            other.rounded(3)
        assert (other.rounded(3, marginals=m).points == card.points).all()
    # The rounded scorecard is a model, and its file holds integers times a scale.
    card.scorecard.save(tmp_path / "card.json")
    again = renyi.Scorecard.load(tmp_path / "card.json")
    assert renyi.certify(again, m).bounds == card.certificate.bounds


def test_labels_of_other_marginals_are_taken_as_predict_takes_them():
    X, y = noisy(seed=1)
    clf = renyi.RenyiClassifier().fit(X, y)
    other = X.assign(c0=X["c0"].replace("2", "new"))
    m = renyi.Marginals.from_data(other, 1 - y)
    card = clf.scorecard_.rounded(4, marginals=m)
    # By these rows the classes are the other way round: points follow them.
    assert np.mean(card.predict(other) == 1 - y) > 0.6
    assert card.certificate.bounds["map"] < card.before.bounds["map"]


def test_points_that_tell_nothing_answer_the_likelier_class():
    X = pd.DataFrame({"a": ["x", "y"] * 30, "b": ["u"] * 60})
    y = np.array([0, 0, 1, 1] * 10 + [1] * 20)
    clf = renyi.RenyiClassifier().fit(X, y)
    card = clf.scorecard_.rounded(3, marginals=clf.marginals_)
    assert not card.points.any() and len(card.frame()) == 0
    assert (card.predict(X) == 1).all()
    assert card.certificate.bounds["map"] >= 1 / 3
    assert "Points for" in card.to_text("md") and str(card)


def test_few_rows_are_not_fitted_by_steps_of_the_points():
    X, y = noisy(n=30, d=8)
    m = renyi.Marginals.from_data(X, y)
    card, pairs = card_of(m, alpha=0.1), pairs_of(m)
    small = card.rounded(3, marginals=m)
    assert "few-rows" in small.certificate.warning_codes
    assert (small.points == search(card.z, pairs, 3, improve=False)).all()
    assert pairs.value(search(card.z, pairs, 3)) > pairs.value(small.points)
    assert "24 categories" in " ".join(str(small).split())


def test_counts_that_are_stored_sparse():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    z, pairs = card_of(m).z, pairs_of(m)
    sparse = pairs._replace(Q=csr_array(pairs.Q))
    assert (search(z, sparse, 3) == search(z, pairs, 3)).all()
    X, y = noisy(n=5000, d=2)
    X["wide"] = [f"v{k % 2200}" for k in range(5000)]
    m = renyi.Marginals.from_data(X, y)
    assert hasattr(m.feature_counts, "indptr")
    card = card_of(m, alpha=0.01).rounded(3, marginals=m)
    assert card.points.max() <= 3
    assert card.certificate.bounds["map"] <= card.before.bounds["map"] + 0.1


def test_bad_requests():
    X, y = noisy(n_classes=3)
    card = renyi.RenyiClassifier().fit(X, y).scorecard_
    with pytest.raises(ValueError, match="two classes"):
        card.rounded()
    clf = renyi.RenyiClassifier().fit(*noisy())
    card = clf.scorecard_
    for most in (0, -1, 2.5, True, 10**6):
        with pytest.raises(ValueError, match="max_points"):
            card.rounded(most)
    with pytest.raises(TypeError, match="marginals"):
        card.rounded(2, marginals=noisy()[0])
    with pytest.raises(ValueError, match="format"):
        card.rounded(2, marginals=clf.marginals_).to_text("pdf")


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.cells = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        if self.cells:
            self.cells[-1] += data


def test_labels_are_escaped_in_every_format():
    X, y = noisy()
    evil = "<script>alert(1)</script>|\n*"
    X = X.rename(columns={"c0": evil}).replace("2", "\x1b[31m<i>")
    labels = np.where(y == 1, TARGET, "no")
    clf = renyi.RenyiClassifier().fit(X, labels)
    card = clf.scorecard_.rounded(5, marginals=clf.marginals_)
    page = card.to_text("html")
    read = _Cells()
    read.feed(page)
    assert not {"script", "b", "i"} & read.tags and evil in read.cells
    assert "\x1b" not in page and "\x1b" not in str(card)
    assert "<script" not in card._repr_html_()
    assert page.index("Add up the points") < page.index("<table")
    lines = card.to_text("md").splitlines()
    head = lines.index("| feature | category | points |")
    assert lines[head + 2].replace("\\|", "").count("|") == 4
    assert "<script" not in card.to_text("md").replace("\\<", "")
    table = pd.read_csv(io.StringIO(card.to_text("csv")))
    points = table.dropna(subset="points")
    assert points["points"].astype(int).tolist() == card.frame()["points"].tolist()
    totals = table.dropna(subset="total")
    assert totals["probability"].to_numpy() == pytest.approx(
        card.totals()["probability"].to_numpy()
    )


def test_what_rounding_costs_is_said():
    X, y = renyi.datasets.load("votes")
    clf = renyi.RenyiClassifier().fit(X, y)
    card = clf.scorecard_.rounded(3, marginals=clf.marginals_)
    text = " ".join(str(card).split())
    assert card.cost > 0
    own, before = card.certificate.bounds["map"], card.before.bounds["map"]
    assert f"Guarantee: the card is wrong on at most {at_most(own, 1)} of any" in text
    assert f"the model is wrong on at most {at_most(before, 1)}." in text
    assert "the model's calibrated score" in text
    unused = [name for name in X if name not in {*card.frame()["feature"]}]
    assert f"Not listed, because all points are 0: {', '.join(unused)}." in text
    assert "Always answering 'democrat' is wrong on 38.6 %." in text
    assert "Error to expect" not in text
    told = " ".join(str(replace(card, errors=error_table(clf.certificate_))).split())
    assert "Error to expect of the model before rounding: 4.6 % (95 %" in told
    tested = certify(clf, X, y)
    errors = error_table(clf.certificate_, heldout=tested)
    told = " ".join(str(replace(card, errors=errors)).split())
    bound = at_most(tested.sampled_error, 1)
    assert f"before rounding is wrong on at most {bound} of the population" in told
    m = renyi.Marginals.from_data(X, y)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    card = clf.scorecard_.rounded(3, marginals=clf.marginals_)
    assert "rough, not calibrated: the linear score" in " ".join(str(card).split())


def test_a_guarantee_above_the_baseline_is_called_useless():
    X, y = renyi.datasets.load("votes")
    coin = np.random.default_rng(0).random(len(y)) < 0.3
    clf = renyi.RenyiClassifier(alpha=1.0).fit(X, coin)
    card = clf.scorecard_.rounded(3, marginals=clf.marginals_)
    assert card.certificate.bounds["map"] >= coin.mean()
    text = " ".join(str(card).split())
    bound = at_most(card.certificate.bounds["map"], 1)
    assert (
        f"Guarantee: none useful. Pair counts prove at most {bound} for this card, and "
        f"always answering 'False' is wrong on {100 * coin.mean():.1f} %."
    ) in text


def test_numbers_have_no_other_label() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    X = pd.DataFrame({"x": y + rng.normal(0, 1, 300), "c": np.where(y, "a", "b")})
    X.loc[:20, "x"], X.loc[10:90, "c"] = np.nan, "d"
    for missing in (True, False):
        rows = slice(None) if missing else slice(21, None)
        clf = renyi.RenyiClassifier().fit(X[rows], y[rows])
        card = clf.scorecard_.rounded(10, marginals=clf.marginals_)
        listed = card.frame()
        other = listed[listed.category == "(any other)"]["feature"].tolist()
        assert other == ["c"]
        assert (listed[listed.category == "(missing)"]["feature"] == "x").all()


def added_up(card, X):
    """The totals of rows by the printed table alone; what it does not list has 0."""
    listed = {(a, b): n for a, b, n in card.frame().itertuples(index=False)}
    others = {name: listed.get((name, "(any other)"), 0) for name in X}
    return sum(
        np.array([listed.get((name, text), others[name]) for text in X[name]])
        for name in X
    )


@pytest.mark.parametrize("seed", range(12))
def test_what_is_printed_is_what_was_certified(seed):
    """Labels that only the later counts have, and labels that were merged as rare."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.choice(list("uvw"), (200, 2)), columns=["a", "b"])
    X["c"] = [f"r{k}" if k < 30 else "common" for k in range(200)]
    y = np.where((X["a"] == "u") ^ (rng.random(200) < 0.1) | (X["c"] != "common"), 1, 0)
    encoder = renyi.Encoder(min_count=3)
    clf = renyi.RenyiClassifier(encoder=encoder).fit(X, y)
    later = X.assign(b=np.where(rng.random(200) < 0.6, "NEW", X["b"]))
    truth = np.where(later["b"] == "NEW", 1, y)
    m = renyi.Marginals.from_data(later, truth, encoder=renyi.Encoder())
    for most in (1, 3):
        card = clf.scorecard_.rounded(most, marginals=m)
        totals = added_up(card, later)
        np.testing.assert_array_equal(totals, card.total(later))
        assert totals.max() <= card.totals()["total"].max()
        wrong = np.mean((totals >= card.threshold) != truth)
        assert wrong <= card.certificate.bounds["map"]
    frame = clf.scorecard_.rounded(1, marginals=clf.marginals_).frame()
    assert frame[frame.category.isin([*X["c"][:30], "(rare)"])].points.nunique() <= 1
    shown = clf.scorecard_.rounded(1, marginals=clf.marginals_).to_text("md")
    assert "(rare) of 'c' is any of 'r0', 'r1', 'r10'" in shown
    assert "and 18 more, which the CSV names." in shown and "| r1 |" not in shown


@pytest.mark.parametrize("label", ["total", "answer"])
def test_classes_may_have_the_names_of_columns(label: str) -> None:
    X = pd.DataFrame({"a": [*"uvw"] * 20, "b": [*"xy"] * 30})
    y = ["a", label, "a", label, "a", "a"] * 10
    clf = renyi.RenyiClassifier().fit(X, y)
    card = clf.scorecard_.rounded(3, marginals=clf.marginals_)
    _, *rows = tables(card)[1]
    assert rows[0][0].startswith("0") and {row[1] for row in rows} == {"a", label}
    assert all(row[2].endswith("%") for row in rows)
    assert str(card).count(f" {label}\n") >= 1 and label in card.to_text("md")
    assert clf.report().to_dict()["card"] is not None
