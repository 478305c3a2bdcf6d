"""A model's bounds, what any rule could guarantee, and the sentence about both."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import renyi
from renyi import Marginals, RenyiClassifier, rules
from renyi.certificates.record import BoundReport, Step
from renyi.certificates.text import TIES, bound_sentence, detail_lines, table
from renyi.certification import bound_report
from renyi.cli.certify import minimax_facts
from renyi.datasets import random_joint
from renyi.formatting import at_least, at_most, wrapped
from renyi.progress import Progress
from renyi.robust import minimax_problem, worst
from renyi.robust.ambiguity_set import Ambiguity
from renyi.robust.pairwise_program import quadratic_rule
from support import counted
from support.joints import (
    constraint_matrix,
    marginal_constraints,
    minimax_error,
    outcomes,
    worst_case,
)

pytest.importorskip("highspy")


marginals = partial(counted.marginals, n=1000)


def true_worst(clf: RenyiClassifier, table: np.ndarray) -> float:
    card = clf.scorecard_.of_rule(clf.rule)
    t = card.estimates(outcomes(table.shape[:-1]).T)
    return worst_case(rules.rule_proba(t, clf.rule), *marginal_constraints(table))


def test_what_promises_most_is_named() -> None:
    """Of many columns that are nearly independent, least squares promises more."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    X = (rng.random((4000, 8)) < np.where(y[:, None] == 1, 0.6, 0.4)).astype(int)
    for d, name in ((2, "linear program"), (8, "least squares")):
        m = Marginals.from_data(X[:, :d], y)
        found = renyi.minimax(m, method="lp")
        squares = quadratic_rule(Ambiguity.of(m))[0]
        assert found.origin == name
        assert (found.upper == squares) == (name == "least squares")
        clf = RenyiClassifier().fit_marginals(m)
        assert bound_report(clf, m, level="lp").any_rule[-1].name == name
        told = minimax_facts(m, found)
        assert told["rules"][-1]["name"] == name
        assert told["rules"][-1]["upper"] == found.upper
    exact = renyi.minimax(Marginals.from_data(X[:, :2], y))
    assert exact.origin == "all outcomes"


@pytest.mark.parametrize("rule", rules.RULES)
@pytest.mark.parametrize("K", [2, 3])
def test_ends_with_what_the_linear_programs_over_all_outcomes_say(
    rule: str, K: int
) -> None:
    for seed in range(3):
        table = random_joint((2, 3, 2), K, random_state=seed)
        m = marginals(table)
        clf = RenyiClassifier(alpha=0.01, rule=rule).fit_marginals(m)
        found = bound_report(clf, m)
        e_star = minimax_error(*marginal_constraints(table), K)
        assert found.upper == pytest.approx(true_worst(clf, table), abs=1e-6)
        assert found.lower == pytest.approx(e_star, abs=1e-6)
        assert found.best_guarantee == pytest.approx(e_star, abs=1e-6)
        last = (found.model[-1], found.any_rule[-1])
        assert [step.status for step in last] == ["solved", "solved"]
        for steps in (found.model, found.any_rule[1:]):
            for cheap, dear in pairwise(steps):
                assert dear.upper <= cheap.upper + 1e-7
        assert found.certificate.bounds[rule] == found.upper


def test_rules_of_one_column_or_none_err_exactly_as_told() -> None:
    table = random_joint((2, 3, 2), 3, random_state=5)
    found = bound_report(
        RenyiClassifier().fit_marginals(marginals(table)), marginals(table)
    )
    always, alone = found.any_rule[:2]
    assert always.upper == pytest.approx(1 - table.sum(axis=(0, 1, 2)).max())
    axes = [(1, 2), (0, 2), (0, 1)]
    errors = [1 - table.sum(axis=a).max(axis=1).sum() for a in axes]
    assert alone.upper == pytest.approx(min(errors))
    assert f"'x{int(np.argmin(errors))}'" in alone.name


def test_pairs_within_the_classes_make_a_step_and_less_doubt() -> None:
    table = random_joint((2, 2, 3), 2, random_state=1)
    m = marginals(table, class_conditional=True)
    clf = RenyiClassifier(alpha=0.01).fit_marginals(m)
    found = bound_report(clf, m)
    names = [step.name for step in found.model]
    assert names[:2] == ["closed form", "class-conditional"]
    # One program per class and pair of columns: all P(X_i, X_j, Y).
    X, cells = outcomes(table.shape), []
    for i, j in ((0, 1), (0, 2), (1, 2)):
        place = np.ravel_multi_index(
            (X[:, i], X[:, j], X[:, 3]), (table.shape[i], table.shape[j], 2)
        )
        cells.append(np.eye(place.max() + 1)[place].T)
    A = np.vstack(cells)
    assert found.lower == pytest.approx(
        minimax_error(_sparse(A), A @ table.ravel(), 2), abs=1e-6
    )
    loose = bound_report(clf, marginals(table))
    assert found.upper <= loose.upper + 1e-7
    assert found.lower <= loose.lower + 1e-7


def _sparse(A: np.ndarray) -> Any:
    return type(constraint_matrix((2,), 2))(A)


def test_level_lp_ends_with_the_programs() -> None:
    m = marginals(random_joint((2, 3, 2), 2, random_state=0))
    found = bound_report(RenyiClassifier().fit_marginals(m), m, level="lp")
    assert [step.name for step in found.model] == ["closed form", "linear program"]
    assert found.any_rule[-1].name == "linear program"
    assert all(step.lower is None for step in found.any_rule)
    with pytest.raises(ValueError, match="level must be 'lp' or 'exact', not 'best'"):
        bound_report(RenyiClassifier().fit_marginals(m), m, level="best")


def test_columns_that_the_model_leaves_out_are_told() -> None:
    m = marginals(random_joint((2, 3, 2), 2, random_state=3))
    few = m.select(["x0", "x1"])
    clf = RenyiClassifier(alpha=0.01).fit_marginals(few)
    found = bound_report(clf, m)
    assert not found.all_columns
    assert "No model of the same columns can guarantee" in found.sentence
    assert found.lower == pytest.approx(renyi.minimax(few).lower, abs=1e-9)
    assert bound_report(clf, few).all_columns


# ---- stopped early


@pytest.fixture(scope="module")
def wide() -> tuple[RenyiClassifier, Marginals]:
    """Thirteen bits: too many outcomes to list, so that both searches have rounds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    X = (rng.random((600, 13)) < np.where(y, 0.7, 0.3)[:, None]).astype(int)
    m = Marginals.from_data(X, y)
    return RenyiClassifier(alpha=0.02).fit_marginals(m), m


def test_ctrl_c_ends_the_climb_and_keeps_what_is_known(
    wide: tuple[RenyiClassifier, Marginals],
) -> None:
    rounds: list[str] = []

    def stop(name: str, state: Progress | None) -> None:
        if state is not None:
            rounds.append(name)
            raise KeyboardInterrupt

    found = bound_report(*wide, progress=stop)
    assert rounds == ["minimax error e*"]  # the other search does not begin
    assert found.model[-2].name == "linear program"
    for steps in (found.model, found.any_rule):
        last = steps[-1]
        assert last.status == "stopped"
        assert (last.lower or 0.0) <= last.upper <= steps[0].upper
    assert "stopped" in str(found)
    assert found.model[0].upper == renyi.certify(*wide).bounds["map"]


def test_ctrl_c_before_a_search_has_begun(
    wide: tuple[RenyiClassifier, Marginals], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: Any, **kwargs: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(minimax_problem, "minimax", stop)
    found, closed = bound_report(*wide), renyi.certify(*wide)
    assert [step.status for step in found.model] == ["bounded", "stopped"]
    assert found.upper == closed.bounds["map"]
    assert [step.status for step in found.any_rule[2:]] == ["stopped", "stopped"]
    assert closed.one_feature is not None
    assert found.best_guarantee == pytest.approx(closed.one_feature[1])


def test_each_program_is_solved_once_and_in_its_share_of_the_time(
    wide: tuple[RenyiClassifier, Marginals], monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, float]] = []
    worst_of, minimax = worst.worst_case, minimax_problem.minimax

    def bounded(model: Any, m: Any, **kwargs: Any) -> Any:
        method = kwargs.get("method", "exact")
        given.append((f"worst {method}", kwargs["time_limit"]))
        assert (kwargs.get("start") is not None) == (method == "exact")
        return worst_of(model, m, method="lp")

    def promised(m: Any, method: str, **kwargs: Any) -> Any:
        given.append((method, kwargs["time_limit"]))
        return minimax(m, method="lp")

    monkeypatch.setattr(worst, "worst_case", bounded)
    monkeypatch.setattr(minimax_problem, "minimax", promised)
    bound_report(*wide, time_limit=600)
    assert [name for name, _ in given] == ["lp", "worst lp", "exact", "worst exact"]
    seconds = [limit for _, limit in given]
    assert 150 < seconds[0] <= 200
    assert 150 < seconds[1] <= 200
    assert 250 < seconds[2] <= 300
    assert 500 < seconds[3] <= 600  # the others needed next to nothing
    given.clear()
    bound_report(*wide, time_limit=1e-9)
    assert all(limit > 0 for _, limit in given)


# ---- as text


def test_few_rows_open_with_the_warning() -> None:
    X, y = renyi.datasets.load("votes")
    few = X.iloc[:20, [2, 3, 4, 7, 8]]
    clf = RenyiClassifier().fit(few, y[:20])
    assert clf.certificate_.doubtful
    found = bound_report(clf, clf.marginals_)
    text = str(found)
    estimate = f"{100 * clf.certificate_.loo_error:.1f} % (95 % interval"
    assert text.startswith(f"Error to expect on new rows: {estimate}")
    flat = " ".join(text.split())
    for warning in clf.certificate_.warnings:
        assert warning in flat
    assert text.index("For these rows only") < text.index("at most")
    assert "with exactly the pair counts of these 20 rows" in found.sentence
    other = bound_report(clf, marginals_of_rows(clf, X[4:24], y[4:24]))
    assert str(other).startswith("The bounds below are about these rows only")


def marginals_of_rows(clf: RenyiClassifier, X: Any, y: Any) -> Marginals:
    names = list(clf.encoder_.feature_names)
    return Marginals.from_data(X[names], y, encoder=clf.encoder_)


def test_text_has_every_bound_and_the_sentence() -> None:
    m = marginals(random_joint((2, 3, 2), 2, random_state=0))
    found = bound_report(RenyiClassifier(rule="sharp").fit_marginals(m), m)
    lines = str(found).splitlines()
    for step in (*found.model, *found.any_rule):
        (line,) = [
            each
            for each in lines
            if each.startswith(f"  {step.name} ") and at_most(step.upper) in each
        ][:1]
        assert step.lower is None or line.count("%") == 2
    assert found.sentence in " ".join(str(found).split())
    assert max(map(len, lines)) <= 80
    told = json.loads(json.dumps(found.to_dict()))
    assert told["sentence"] == found.sentence
    assert [step["upper"] for step in told["model"]] == [
        step.upper for step in found.model
    ]


def test_notes_of_the_certificate_are_kept() -> None:
    m = marginals(random_joint((2, 3, 2), 2, random_state=0))
    found = bound_report(RenyiClassifier().fit_marginals(m), m, level="lp")
    assert "Note" not in str(found)
    note = "the classes were weighted."
    c = found.certificate
    noted = replace(c, warnings=(note,), warning_codes=("class-weight",))
    again = BoundReport(noted, found.model, found.any_rule)
    assert "\n  Note: the classes were weighted.\n" in str(again)


@given(st.floats(0, 1))
def test_percentages_are_rounded_outwards(share: float) -> None:
    above = float(at_most(share).removesuffix(" %"))
    below = float(at_least(share).removesuffix(" %"))
    assert below - 1e-6 <= 100 * share <= above + 1e-6
    assert above - below <= 0.01 + 1e-9


def test_verdicts_say_what_is_known_and_no_more() -> None:
    ask = ("this model", "these pair counts")
    assert bound_sentence(*ask, 0.2, 0.1, 0.11).endswith(
        "20.00 % of any population with these pair counts. No model can guarantee less "
        "than 10.00 %."
    )
    unknown = bound_sentence(*ask, 0.2, 0.0, 0.1)
    assert " Another rule guarantees 10.00 %. The smallest" in unknown
    assert "No model" not in unknown
    assert "Another rule" not in bound_sentence(*ask, 0.2, 0.0, 0.2)
    assert "error close to zero" in bound_sentence(*ask, 0.2, 0.0, 0.0)


def test_a_sentence_repeats_figures_as_the_table_above_it_has_them() -> None:
    step = Step("minimax error e*", 0.0436789, 0.0436788, 1.0, "solved")
    _, line = table("What any rule could guarantee", [step])
    ask = ("this model", "these marginals")
    text = bound_sentence(*ask, 0.2, step.lower or 0.0, step.upper)
    shown = re.findall(r"[\d.]+ %", line)
    assert re.findall(r"[\d.]+ %", text) == ["20.00 %", *reversed(shown)]


def test_lines_do_not_part_a_number_from_its_percent_sign() -> None:
    text = "word " * 15 + "1234 % and more"
    assert "1234 %" in wrapped(text)
    assert max(map(len, wrapped(text, "- ", "  ").splitlines())) <= 80


def test_a_lower_end_of_nothing_is_nothing() -> None:
    steps = (Step("a", 0.3, None, 0.0, "bounded"), Step("b", 0.2, 0.1, 0.0, "stopped"))
    m = marginals(random_joint((2, 2), 2, random_state=0))
    certificate = RenyiClassifier().fit_marginals(m).certificate_
    assert BoundReport(certificate, steps, steps[:1]).lower == 0.0
    assert BoundReport(certificate, steps, steps).lower == 0.1
    assert BoundReport(certificate, steps, steps[:1]).upper == 0.2


@pytest.mark.parametrize("rule", rules.RULES)
def test_it_is_said_that_a_worst_case_counts_ties_as_errors(rule: str) -> None:
    m = marginals(random_joint((2, 2), 2, random_state=1))
    clf = RenyiClassifier(rule=rule).fit_marginals(m)
    report = bound_report(clf, m)
    assert (TIES in str(report)) == (rule == "map")
    exact = renyi.certify(clf, m, level="exact")
    assert (f"  {TIES}" in detail_lines(exact)) == (rule == "map")
    assert TIES not in str(renyi.certify(clf, m, level="lp"))
    worst_case = worst.WorstCase(0.1, 0.2, None, rule, 0.3, 1.0)
    assert ("count as errors" in str(worst_case)) == (rule == "map")
