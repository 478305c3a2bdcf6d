"""The error table: each figure of a certificate once, and whom it covers."""

from __future__ import annotations

from typing import Any

import pytest

import renyi
from renyi.certificates.error_table import (
    ALWAYS,
    ANY_RULE,
    HALVES,
    HELDOUT,
    LEAVE_ONE_OUT,
    SINGLE,
    error_table,
)
from renyi.certificates.three_lines import guarantee_text
from renyi.certification import bound_report
from renyi.formatting import at_most


def test_rows_of_training_counts_are_the_fields_of_the_certificate(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier(rule="sharp").fit(X, y)
    table = error_table(clf.certificate_)
    estimate = table.estimate
    assert estimate is not None
    assert (estimate.name, estimate.about) == (LEAVE_ONE_OUT, "sharp")
    assert estimate.value == clf.certificate_.loo_error
    assert table.bound is None  # no row was unseen
    guarantees = {row.about: row.high for row in table.of_kind("guarantee")}
    assert guarantees == dict(clf.certificate_.bounds)
    assert next(iter(guarantees)) == "sharp"  # its own rule first
    always, single = table.of_kind("baseline")
    assert (always.name, always.about) == (ALWAYS, "democrat")
    assert always.value == pytest.approx((y != "democrat").mean())
    column = X[single.about].fillna("?")
    wrong = 0
    for i in range(len(y)):  # no tie occurs
        others = y[(column == column[i]) & (y.index != i)]
        wrong += others.value_counts().index[0] != y[i]
    assert single.name == SINGLE
    assert single.value == pytest.approx(wrong / len(y))


def test_unseen_rows_give_estimate_bound_and_guarantee_their_confidence(
    votes: Any,
) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    unseen = renyi.certify(clf, X[300:], y[300:], confidence=0.9)
    table = error_table(clf.certificate_, unseen=unseen)
    estimate = table.estimate
    bound = table.bound
    assert estimate is not None
    assert bound is not None
    assert (estimate.name, estimate.n) == (HELDOUT, 135)
    wrong = clf.predict(X[300:]) != y[300:]
    assert estimate.value == pytest.approx(wrong.mean())
    (always,) = table.of_kind("baseline")  # of the same rows as the estimate
    most = y[300:].value_counts().index[0]
    assert (always.name, always.about) == (ALWAYS, most)
    assert always.value == pytest.approx((y[300:] != most).mean())
    assert bound.high == unseen.sampled_error
    assert bound.certainty == "confidence 90 %"
    assert bound.confidence == 0.9
    assert bound.shown == f"at most {at_most(unseen.sampled_error, 1)}"
    rows = [row for row in table.of_kind("guarantee") if row.name == HELDOUT]
    assert {row.certainty for row in rows} == {"confidence 90 %"}
    assert rows[0].high == unseen.bounds["map"]


def test_a_guarantee_below_the_bound_of_unseen_rows_is_not_to_be_quoted(
    votes: Any,
) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    own = clf.certificate_
    unseen = renyi.certify(clf, X[300:], y[300:])
    assert own.bounds["map"] < unseen.sampled_error
    assert "do not quote" in guarantee_text(error_table(own, unseen=unseen), own)
    assert own.bounds["map"] > error_table(own).estimate.high
    assert "do not quote" not in guarantee_text(error_table(own), own)


def test_halves_have_the_share_of_their_rows_as_a_baseline(votes: Any) -> None:
    _, y = votes
    c = renyi.CrossFitClassifier(random_state=0).fit(*votes).certificate_
    table = error_table(c)
    assert {row.name for row in table.rows} == {HALVES, ALWAYS}
    assert table.always is not None
    assert table.always.value == pytest.approx((y != "democrat").mean())
    assert table.bound is not None
    assert table.bound.high == c.sampled_error


def test_a_search_adds_its_steps_and_what_any_rule_could_promise(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X.iloc[:, :4], y)
    bounds = bound_report(clf, clf.marginals_, level="exact")
    table = error_table(clf.certificate_, bounds=bounds)
    own = [row for row in table.of_kind("guarantee") if row.about == "map"]
    assert [(row.low, row.high) for row in own] == [
        (step.lower, step.upper) for step in bounds.model
    ]
    others = [row for row in table.rows if row.about == ANY_RULE]
    assert [row.high for row in others] == [step.upper for step in bounds.any_rule[2:]]
    assert len(table.of_kind("baseline")) == 2  # once, though the search has them too


def test_pairs_within_each_class_are_named(votes: Any) -> None:
    X, y = votes
    m = renyi.Marginals.from_data(X, y, class_conditional=True)
    c = renyi.RenyiClassifier().fit_marginals(m).certificate_
    covers = {row.covers for row in error_table(c).of_kind("guarantee")}
    assert covers == {"every population with the same pairs within each class"}
    assert "the same pair counts within each class" in " ".join(str(c).split())
