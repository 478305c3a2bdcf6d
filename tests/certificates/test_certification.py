"""The steps of a certificate, from the closed form to the exact worst case."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from renyi import Certificate, Marginals, RenyiClassifier, certify, rules, theta
from renyi.certificates import closed_form
from renyi.certificates.record import Step
from renyi.certificates.text import detail_lines
from renyi.datasets import load
from renyi.robust import pairwise_program, worst
from support.joints import marginal_constraints, outcomes, worst_case
from support.scorings import estimates as estimates_of
from support.scorings import (
    losing_ties,
    make_table,
    map_bound,
    scaled_bound,
    worst_given_classes,
)

SLACK = 1e-7  # of the linear programs
CASES = [(K, seed) for K in (2, 3) for seed in (0, 2, 3)]
NAMES = ["closed form", "class-conditional", "linear program", "exact worst case"]


def marginals_of(table, class_conditional=True):
    """Marginals of a table whose cells are all positive: weighted rows."""
    codes = outcomes(table.shape)
    names = [f"f{j}" for j in range(table.ndim - 1)]
    X = pd.DataFrame(codes[:, :-1], columns=names).astype(str)
    y = pd.Series(codes[:, -1], name="answer")
    return Marginals.from_data(
        X, y, sample_weight=table.ravel(), class_conditional=class_conditional
    )


def estimates(clf, table):
    """Estimates at all outcomes, from the public scores."""
    codes = outcomes(table.shape[:-1])
    names = [f"f{j}" for j in range(codes.shape[1])]
    scores = clf.decision_function(pd.DataFrame(codes, columns=names).astype(str))
    K = table.shape[-1]
    return (np.stack([-scores, scores], axis=1) if K == 2 else scores) + 1 / K


def steps_of(c):
    return {step.name: step for step in c.steps}


@pytest.fixture(scope="module")
def votes():
    X, y = load("votes")
    m = Marginals.from_data(X, y, class_conditional=True)
    return X, y, m, RenyiClassifier().fit_marginals(m)


# ---- pairs within the classes


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_pairs_within_classes_help_and_stay_true(K, seed):
    """Between the linear program over all outcomes and the closed form."""
    table = make_table(K, seed)
    m = marginals_of(table)
    clf = RenyiClassifier(alpha=0.01).fit_marginals(m)
    t = estimates(clf, table)
    c = certify(clf, m)
    found = steps_of(c)["class-conditional"].upper
    P = clf.z_ if K > 2 else np.stack([-clf.z_, clf.z_], axis=1)
    b = np.ravel(clf.intercept_) if K > 2 else clf.intercept_ * np.array([-1, 1])
    closed = map_bound(estimates_of(table, P, b), table.reshape(-1, K))
    assert closed <= scaled_bound(table, P, b) + 1e-9
    assert steps_of(c)["closed form"].upper == pytest.approx(closed, abs=1e-9)
    assert worst_given_classes(table, losing_ties(t)) <= found + SLACK
    assert found <= closed + 1e-9
    assert c.bounds["map"] == min(found, steps_of(c)["closed form"].upper)


@pytest.mark.parametrize("rule", rules.RULES)
def test_steps_are_those_of_the_model_s_rule(votes, rule):
    X, y, m, _ = votes
    plain = Marginals.from_data(X, y)
    clf = RenyiClassifier(alpha=0.01, rule=rule).fit_marginals(plain)
    without, with_counts = certify(clf, plain), certify(clf, m)
    assert [step.name for step in without.steps] == NAMES[:1]
    names = NAMES[:2] if rule == "map" else NAMES[:1]
    assert [step.name for step in with_counts.steps] == names
    for c in (without, with_counts):
        assert c.steps[0].upper == without.bounds[rule]
        assert all(step.lower is None and step.seconds >= 0 for step in c.steps)
        assert c.bounds[rule] == min(step.upper for step in c.steps)
    # The bound of map uses the counts whatever the model's rule is.
    assert with_counts.bounds["map"] < without.bounds["map"]
    assert with_counts.bounds["sharp"] == without.bounds["sharp"]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("rule", ["map", "sharp"])
def test_certificate_of_a_fit_on_such_marginals(K, rule):
    m = marginals_of(make_table(K, 0)) * 1000
    clf = RenyiClassifier(rule=rule, alpha=0.01).fit_marginals(m)
    assert clf.certificate_ == certify(clf, m)
    assert len(clf.certificate_.steps) == (2 if rule == "map" else 1)


def test_weighted_classes_bring_their_counts_along(votes):
    X, y, _, _ = votes
    clf = RenyiClassifier(class_weight="balanced", alpha=0.01).fit(X, y)
    c = clf.certificate_
    assert [step.name for step in c.steps] == NAMES[:2]
    assert (clf.predict(X) != y).mean() <= c.bounds["map"] < c.steps[0].upper


def test_other_marginals_with_fewer_classes_and_columns_in_another_order():
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.choice(list("abc"), (400, 3)), columns=["p", "q", "r"])
    y = (X["p"].map(ord) + (rng.random(400) < 0.2)).rename("answer") % 3
    clf = RenyiClassifier().fit(X, y)
    some = y != 0
    Z = X.loc[some, ["r", "p", "q"]].assign(extra="1")
    m = Marginals.from_data(Z, y[some], class_conditional=True)
    found = steps_of(certify(clf, m))["class-conditional"].upper
    t = clf.decision_function(X[some])
    expected = 0.0
    for k in (1, 2):  # moments of the rows themselves
        inside = t[(y[some] == k).to_numpy()]
        lead = inside[:, [k]] - np.delete(inside, k, axis=1)
        share = len(inside) / len(t)
        expected += share * closed_form._missed(
            lead.mean(axis=0), np.cov(lead.T, bias=True)
        )
    assert found == pytest.approx(expected, abs=1e-9)
    assert (clf.predict(X[some]) != y[some]).mean() <= found


def test_impossible_counts_within_a_class_are_refused():
    """Three columns that all differ from each other in one class, and agree in one."""
    codes = np.repeat(outcomes((2, 2, 2, 2)), 25, axis=0)
    X = pd.DataFrame(codes[:, :3], columns=["p", "q", "r"])
    m = Marginals.from_data(X, pd.Series(codes[:, 3], name="y"), class_conditional=True)
    apart = np.kron(1 - np.eye(3), 1 - np.eye(2)) + np.eye(6)
    alike = np.kron(1 - np.eye(3), np.eye(2)) + np.eye(6)
    inner = 100 * np.stack([apart, alike])
    assert (inner.sum(axis=0) == m.feature_counts).all()
    clf = RenyiClassifier().fit(X, codes[:, :3].sum(axis=1) > 1)
    card = replace(clf.scorecard_, classes=(0, 1))
    with pytest.raises(ValueError, match="within y = 0 is negative"):
        certify(card, replace(m, class_counts=inner))


# ---- programs


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("rule", rules.RULES)
@pytest.mark.parametrize(("K", "seed"), [(2, 0), (2, 3), (3, 0)])
def test_ladder_leads_down_to_the_program_over_all_outcomes(K, seed, rule, conditional):
    table = make_table(K, seed)
    m = marginals_of(table, conditional)
    clf = RenyiClassifier(alpha=0.01, rule=rule).fit_marginals(m)
    r = rules.rule_proba(estimates(clf, table), rule)
    if conditional:
        exact = worst_given_classes(table, 1 - r)
    else:
        exact = worst_case(r, *marginal_constraints(table))
    c = certify(clf, m, level="exact")
    names = [n for n in NAMES if n != NAMES[1] or (conditional and rule == "map")]
    assert [step.name for step in c.steps] == names
    uppers = [step.upper for step in c.steps]
    assert all(a >= b - 1e-9 for a, b in zip(uppers, uppers[1:], strict=False))
    assert c.steps[-1].upper == pytest.approx(exact, abs=1e-6)
    assert c.steps[-1].lower == pytest.approx(exact, abs=1e-6)
    assert c.bounds[rule] == min(uppers)
    plain = certify(clf, m)
    for other in set(rules.RULES) - {rule}:
        assert c.bounds[other] == plain.bounds[other]
    assert certify(clf, m, level="lp").steps == c.steps[:-1]


def test_linear_program_is_solved_once(monkeypatch):
    """The exact search begins with its multiplier, and never ends above its bound."""
    monkeypatch.setattr(worst, "MAX_DIRECT", 0)
    m = marginals_of(make_table(2, 0), False)
    clf = RenyiClassifier(alpha=0.01).fit_marginals(m)
    solved, solve = [], worst.solve_worst

    def counted(losses, semidefinite, time_limit):
        if semidefinite:
            return pairwise_program.Bound(np.inf, np.zeros(0), "declined")
        solved.append(time_limit)
        return solve(losses, time_limit=time_limit)

    def stop(told):
        raise KeyboardInterrupt

    monkeypatch.setattr(worst, "solve_worst", counted)
    c = certify(clf, m, level="exact", progress=stop)
    assert len(solved) == 1
    closed, lp, exact = (step.upper for step in c.steps)
    assert exact <= lp < closed


def test_interruption_of_the_linear_program_ends_the_steps(monkeypatch):
    m = marginals_of(make_table(2, 0), False)
    clf = RenyiClassifier(alpha=0.01).fit_marginals(m)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(worst, "solve_worst", stop)
    c = certify(clf, m, level="exact")
    assert [step.name for step in c.steps] == ["closed form", "linear program"]
    assert c.bounds["map"] == c.steps[0].upper == c.steps[1].upper


def test_scorecards_take_the_rule_map():
    m = marginals_of(make_table(2, 0))
    clf = RenyiClassifier(alpha=0.01, rule="sharp").fit_marginals(m)
    c = certify(clf.scorecard_, m, level="exact")
    assert c.rule == "map"
    assert (
        c.bounds["map"]
        == certify(clf.set_params(rule="map"), m, level="exact").bounds["map"]
    )


def test_time_limit_keeps_what_was_proven(votes):
    _, _, m, clf = votes
    c = certify(clf, m, level="exact", time_limit=0.2)
    assert [step.name for step in c.steps] == NAMES
    assert c.bounds["map"] <= c.steps[1].upper
    assert c.bounds["map"] >= 0.04  # no rule can promise less on votes


def test_progress_is_told(votes):
    """Eight columns are too many outcomes for one program, and few enough to solve."""
    X, y, _, _ = votes
    m = Marginals.from_data(X.iloc[:, :8], y)
    clf, seen = RenyiClassifier(alpha=0.01).fit_marginals(m), []
    c = certify(clf, m, level="exact", progress=seen.append)
    assert seen
    assert all(0 <= told.lower <= told.upper <= 1 for told in seen)
    assert c.steps[-1].upper - c.steps[-1].lower <= 1e-6
    assert c.steps[-1].lower <= min(told.upper for told in seen) + 1e-9


@pytest.mark.parametrize("limit", [0, -1.0, float("nan")])
def test_time_limit_is_positive(votes, limit):
    _, _, m, clf = votes
    with pytest.raises(ValueError, match="time_limit"):
        certify(clf, m, level="exact", time_limit=limit)


def test_closed_form_needs_no_solver():
    code = (
        "import renyi, sys; X, y = renyi.datasets.load('votes');"
        "clf = renyi.RenyiClassifier(alpha=0.1).fit(X[:200], y[:200]);"
        "renyi.certify(clf, renyi.Marginals.from_data(X, y));"
        "renyi.certify(clf, X[200:], y[200:]);"
        "print([n for n in ('highspy', 'clarabel') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


# ---- separability


@pytest.mark.parametrize(("K", "seed"), CASES)
def test_separability_on_request(K, seed):
    """γ = θ, by the cone program that gives θ; additive conditionals are separable."""
    m = marginals_of(make_table(K, seed), class_conditional=False)
    clf = RenyiClassifier(alpha=0.0).fit_marginals(m)
    assert certify(clf, m).separable is None
    c = certify(clf, m, separable=True)
    assert c.separable is (seed == 2)
    assert c.separable is (abs(c.gamma - theta(m).theta) < 1e-6)
    assert ("are separable" if c.separable else "are not separable") in "".join(
        detail_lines(c)
    )


# ---- rules set after the fit, texts and files


def test_steps_follow_the_rule(votes, tmp_path):
    _, _, m, _ = votes
    clf = RenyiClassifier(alpha=0.01).fit_marginals(m)
    clf.save(tmp_path / "m.json")
    loaded = RenyiClassifier.load(tmp_path / "m.json")
    assert loaded.certificate_ == clf.certificate_
    fresh = RenyiClassifier(alpha=0.01, rule="sharp").fit_marginals(m).certificate_
    assert clf.set_params(rule="sharp").certificate_ == fresh
    changed = loaded.set_params(rule="sharp").certificate_
    assert changed == replace(fresh, steps=())  # the file tells of one rule's
    loaded.save(tmp_path / "again.json")
    assert RenyiClassifier.load(tmp_path / "again.json").certificate_ == changed
    assert clf.set_params(rule="map").certificate_ == certify(clf, m)


def test_files_of_the_same_fit_are_the_same(votes, tmp_path):
    _, _, m, _ = votes
    for name in ("one", "two"):
        RenyiClassifier(alpha=0.01).fit_marginals(m).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_text_tells_the_steps():
    c = Certificate(
        0.03,
        {"map": 0.086, "renyi": 0.06, "sharp": 0.06},
        ("d", 0.4),
        ("f", 0.05),
        None,
        None,
        "map",
        435,
        48,
        steps=(
            Step("closed form", 0.12, None, 0.001),
            Step("linear program", 0.09, None, 2.34),
            Step("exact worst case", 0.086, 0.0857, 71.0, "stopped"),
        ),
    )
    assert detail_lines(c)[4:8] == [
        "bounds of rule map, from the cheap to the exact",
        "  closed form        at most  12.00 %                        0.0 s",
        "  linear program     at most   9.00 %                        2.3 s",
        "  exact worst case   at most   8.60 %  at least   8.57 %    71.0 s  stopped",
    ]
    one = replace(c, steps=c.steps[:1])
    assert "cheap to the exact" not in str(one)


def test_plain_form_of_steps(votes):
    _, _, m, clf = votes
    c = certify(clf, m)
    plain = json.loads(json.dumps(c.to_dict(), allow_nan=False))
    again = Certificate.from_dict(plain)
    assert again == c
    assert again.steps[0].seconds == c.steps[0].seconds
    step = plain["steps"][1]
    for steps in (
        "none",
        [1],
        [{**step, "upper": "x"}],
        [{**step, "upper": 1.5}],
        [{**step, "lower": -0.5}],
        [{**step, "more": 1}],
        [{"name": "closed form"}],
    ):
        with pytest.raises(ValueError, match="its certificate"):
            Certificate.from_dict({**plain, "steps": steps})
