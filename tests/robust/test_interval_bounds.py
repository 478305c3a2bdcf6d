"""Guarantees of intervals, against explicit programs over all distributions."""

import dataclasses

import numpy as np
import pytest

import renyi
from renyi import rules
from renyi.certificates.closed_form import closed_form
from renyi.certificates.heldout import bounds_of_marginals
from renyi.certificates.intervals import (
    KnownTables,
    box_bound,
    folded,
    map_error,
    squared_error,
)
from renyi.crossfitting import CrossFitSettings, cross_fit_counts
from renyi.fitting.settings import Settings
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.uncertainty import Intervals
from renyi.robust.interval_bounds import interval_bounds
from renyi.robust.interval_program import IntervalProgram
from renyi.robust.saddle import certified_points
from renyi.robust.worst import least_guarantee, worst_case
from renyi.scorecard import class_points
from tests.support.releases import (
    KINDS,
    Joint,
    random_card,
    random_marginals,
    released,
    without_pairs,
)

pytest.importorskip("highspy")


def losses(card, joint, rule):
    """Return the probability of an error at each outcome and class, ties included."""
    t = card.estimates(joint.X.T)
    own = t[np.arange(len(t)), joint.y]
    if rule == "map":
        others = t.copy()
        others[np.arange(len(t)), joint.y] = -np.inf
        return (others.max(axis=1) >= own - 1e-12).astype(float)
    return 1 - rules.rule_proba(t, rule)[np.arange(len(t)), joint.y]


def check_by_programs(m, known, card):
    """The stated bounds are at least the largest values over the joint."""
    match = card.match(known)
    joint = Joint(known)
    proved = interval_bounds(card, match, "map")
    t = card.estimates(joint.X.T)
    squares = ((t - np.eye(joint.K)[joint.y]) ** 2).sum(axis=1)
    worst = joint.largest(squares)
    assert worst is not None  # the true tables are among them
    assert worst / 2 <= proved.gamma + 1e-9
    for rule in rules.RULES:
        assert joint.largest(losses(card, joint, rule)) <= proved.bounds[rule] + 1e-9
    box, program = proved.steps
    assert program.upper <= box.upper + 1e-9
    exact = closed_form(card, card.match(m))
    assert exact.gamma <= proved.gamma + 1e-9
    return worst / 2, proved.gamma


def run_programs(seeds):
    tight = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        m = random_marginals(rng)
        known = released(
            m, KINDS[seed % len(KINDS)], rng, *((4, 3) if seed % 2 else ())
        )
        worst, stated = check_by_programs(m, known, random_card(m, rng))
        tight += stated <= worst * 1.0001
    return tight


def test_no_distribution_exceeds_a_guarantee():
    assert run_programs(range(60)) > 10  # the program is often exact


@pytest.mark.long
def test_no_distribution_exceeds_a_guarantee_at_full_count():
    run_programs(range(1000, 1600))


def run_releases(seeds):
    """Train on releases; the guarantees hold for the true counts and all like them."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        m = random_marginals(rng)
        known = released(m, KINDS[seed % len(KINDS)], rng, 10 if seed % 3 else 5)
        alpha = "auto" if seed % 25 == 0 else 0.05
        model = renyi.RenyiClassifier(alpha=alpha, calibration=None)
        model.fit_marginals(known)
        c = model.certificate_
        card = model.scorecard_
        assert closed_form(card, card.match(m)).gamma <= c.gamma + 1e-9
        joint = Joint(known)
        assert joint.largest(losses(card, joint, "map")) <= c.bounds["map"] + 1e-9


def test_guarantees_of_releases_hold():
    run_releases(range(300))


@pytest.mark.long
def test_guarantees_of_releases_hold_at_full_count():
    run_releases(range(10_000, 20_000))


@pytest.mark.parametrize("name", ["votes", "kr-vs-kp", "credit"])
@pytest.mark.parametrize("kind", ["both", "perturbed", "absent"])
def test_guarantees_hold_for_the_true_counts_of_bundled_sets(name, kind):
    m = renyi.Marginals.from_data(
        *renyi.datasets.load(name), encoder=renyi.Encoder(bins=5)
    )
    rng = np.random.default_rng(0)
    known = without_pairs(m, rng, 0.1) if kind == "absent" else released(m, kind, rng)
    model = renyi.RenyiClassifier(alpha=0.05).fit_marginals(known)
    stated = model.certificate_.bounds
    true = renyi.certify(model, m).bounds
    assert all(true[rule] <= stated[rule] + 1e-9 for rule in rules.RULES)


# ---- figures


def least_box(known):
    """Return the smallest 2γ by the box, over penalties."""
    from renyi.robust import saddle

    def largest(function):
        nothing = np.zeros(function.U.shape[1])
        gauges = folded(function.U, nothing, known)
        return min(box_bound(squared_error(U), known) for U in gauges), None

    return saddle.smallest_guarantee(known, largest).bound


@pytest.mark.parametrize(
    ("name", "most", "expected", "program"),
    [
        ("votes", 0.129, 0.1271, 0.0787),
        ("kr-vs-kp", 0.209, 0.2072, 0.1873),
        pytest.param("credit", 0.256, 0.2468, 0.2091, marks=pytest.mark.long),
    ],
)
def test_figures_of_cells_below_10_hidden_and_rounded_to_5(
    name, most, expected, program
):
    m = renyi.Marginals.from_data(
        *renyi.datasets.load(name), encoder=renyi.Encoder(bins=5)
    )
    known = KnownTables.of(released(m, "both", None))
    box = least_box(known)
    assert box <= most
    assert box == pytest.approx(expected, abs=2e-4)
    assert certified_bound(known) == pytest.approx(program, abs=2e-4)


def certified_bound(known):
    points = certified_points(known, True)
    z = np.hstack([-points.z, points.z])
    b = np.append(-points.intercept, points.intercept)
    U = next(folded(z, b, known))
    return IntervalProgram(known).largest(squared_error(U)).bound


@pytest.mark.parametrize("seed", range(3))
def test_votes_with_a_tenth_of_the_pairs_absent(seed):
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    known = without_pairs(m, np.random.default_rng(seed), 0.1)
    model = renyi.RenyiClassifier().fit_marginals(known)
    assert 0.0594 < model.certificate_.bounds["sharp"] < 0.074
    assert model.certificate_.basis == "intervals"


def test_width_zero_gives_the_closed_form():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    model = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes"))
    known = with_uncertainty(m, Intervals.exact(m.counts, m.n))
    exact = renyi.certify(model, m)
    stated = renyi.certify(model, known)
    assert stated.gamma == pytest.approx(exact.gamma, abs=1e-9)
    assert stated.bounds["sharp"] == pytest.approx(exact.bounds["sharp"], abs=1e-9)
    assert stated.gamma >= exact.gamma - 1e-12


# ---- training


def test_training_is_deterministic():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    known = released(m, "both", None)
    first = renyi.RenyiClassifier().fit_marginals(known)
    second = renyi.RenyiClassifier().fit_marginals(known)
    np.testing.assert_array_equal(first.z_, second.z_)
    assert first.certificate_ == second.certificate_


def test_training_is_better_than_the_estimate_alone():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    known = without_pairs(m, np.random.default_rng(1), 0.1)
    auto = renyi.RenyiClassifier().fit_marginals(known).certificate_
    for alpha in (0.3, 0.1, 0.03, 0.01, 0.001):
        fixed = renyi.RenyiClassifier(alpha=alpha).fit_marginals(known).certificate_
        assert auto.gamma < fixed.gamma


def test_three_classes_train_and_certify():
    rng = np.random.default_rng(3)
    m = random_marginals(rng, 3)
    known = released(m, "rounded", rng)
    model = renyi.RenyiClassifier().fit_marginals(known)
    card = model.scorecard_
    joint = Joint(known)
    moved = dataclasses.replace(card.mapped, calibration=None)
    worst = joint.largest(losses(moved, joint, "map"))
    assert worst <= model.certificate_.bounds["map"] + 1e-9


def test_any_scale_of_the_map_bound_is_valid():
    rng = np.random.default_rng(8)
    for _ in range(10):
        m = random_marginals(rng)
        known = released(m, "rounded", rng)
        card = random_card(m, rng)
        tables = KnownTables.of(known)
        U = next(folded(*class_points(card), tables))
        program = IntervalProgram(tables)
        joint = Joint(known)
        worst = joint.largest(losses(card, joint, "map"))
        K = len(m.classes)
        for beta in (0.0, 0.3, 1.0, 3.0):
            scales = rng.uniform(0.5, 2, K) * (rng.random(K) < 0.7)
            bound = program.largest(map_error(U, beta, scales)).bound
            valid = (scales >= 1) | (scales == 0)
            if valid.all():
                assert worst <= bound + 1e-9


# ---- what is refused


def test_contradictory_intervals_are_refused():
    X = np.array([[0, 1, 0], [1, 0, 1]] * 10).astype(str)
    exact = renyi.Marginals.from_data(X, np.array(["a", "b"] * 10))
    # All margins agree, but the class decides these two columns otherwise.
    counts = np.array(exact.counts)
    first, third = exact.columns.spans(["x0"]), exact.columns.spans(["x2"])
    counts[np.ix_(first, third)] = counts[np.ix_(first, third)][:, ::-1]
    counts[np.ix_(third, first)] = counts[np.ix_(first, third)].T
    known = with_uncertainty(exact, Intervals(counts, counts, 20, 20))
    with pytest.raises(ValueError, match="No tables agree with each other"):
        renyi.RenyiClassifier().fit_marginals(known)
    card = random_card(exact, np.random.default_rng(0))
    with pytest.raises(ValueError, match="No tables agree with each other"):
        renyi.certify(card, known)


def run_exact(seeds):
    """Exact worst cases equal programs over the joint written by themselves."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        m = random_marginals(rng)
        known = released(m, KINDS[seed % len(KINDS)], rng)
        card = random_card(m, rng)
        joint = Joint(known)
        for rule in rules.RULES:
            worst = worst_case(card, known, rule=rule)
            right = joint.largest(losses(card, joint, rule))
            assert worst.upper == pytest.approx(right, abs=1e-6)
            assert worst.upper >= right - 1e-9
            assert worst.upper <= worst.closed_form
        low, high = least_guarantee(known)
        assert low <= high <= low + 1e-5
        assert renyi.minimax(m, method="exact").lower <= high + 1e-6
        answer = rng.integers(0, joint.K, len(joint.X))
        _, place = np.unique(joint.X, axis=0, return_inverse=True)
        wrong = (answer[place.ravel()] != joint.y).astype(float)
        assert low <= joint.largest(wrong) + 1e-9


def test_exact_worst_cases():
    run_exact(range(30))


@pytest.mark.long
def test_exact_worst_cases_at_full_count():
    run_exact(range(30, 500))


def test_intervals_of_no_width_have_the_same_exact_worst_cases():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X[["crime", "immigration", "el-salvador-aid"]], y)
    record = Intervals(m.counts, m.counts, m.n, m.n)
    known = with_uncertainty(m, record)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    assert worst_case(clf, known).upper == pytest.approx(
        worst_case(clf, m).upper, abs=1e-6
    )
    least = renyi.minimax(m, method="exact").upper
    assert least_guarantee(known)[1] == pytest.approx(least, abs=1e-6)
    certificate = renyi.certify(clf, known, level="exact")
    assert certificate.steps[-1].name == "exact worst case"
    assert certificate.bounds["map"] == certificate.steps[-1].upper


def test_exact_worst_cases_of_large_tables_are_refused():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    known = with_uncertainty(m, Intervals(m.counts, m.counts + 1, m.n, m.n + 4))
    clf = renyi.RenyiClassifier().fit_marginals(m)
    with pytest.raises(ValueError, match="too many for their exact worst case"):
        renyi.certify(clf, known, level="exact")


def test_weights_of_classes_need_pairs_within_them():
    rng = np.random.default_rng(5)
    known = released(random_marginals(rng, 2), "rounded", rng)
    with pytest.raises(ValueError, match="needs the pair counts within each class"):
        renyi.RenyiClassifier(class_weight="balanced").fit_marginals(known)
    with pytest.raises(ValueError, match="needs the rows"):
        renyi.RenyiClassifier(alpha="loo").fit_marginals(known)


def test_without_the_solver_the_box_certifies(monkeypatch):
    from renyi.robust import interval_bounds as module

    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    known = released(m, "both", None)
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    c = renyi.RenyiClassifier().fit_marginals(known).certificate_
    assert [step.name for step in c.steps] == ["box of the intervals"]
    assert c.bounds["sharp"] < 0.129


def test_what_is_printed():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    text = str(
        renyi.RenyiClassifier().fit_marginals(released(m, "both", None)).certificate_
    )
    assert "unknown: pair counts do not contain it" in text
    shown = " ".join(text.split())
    guaranteed = "15.8 % of any population with pair counts within the known intervals"
    assert guaranteed in shown


def test_a_model_made_elsewhere_is_certified_for_rule_map():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    card = renyi.RenyiClassifier().fit_marginals(m).scorecard_
    odds = dataclasses.replace(card, z=8 * card.z, intercept=8 * card.intercept)
    own = renyi.certify(card, released(m, "both", None))
    c = renyi.certify(odds, released(m, "both", None))
    assert c.bounds["map"] == pytest.approx(own.bounds["map"], rel=0.02)


# ---- halves of one population


def halves_of(name, seed):
    X, y = renyi.datasets.load(name)
    order = np.random.default_rng(seed).permutation(len(y))
    parts = np.split(order, [len(y) // 2])
    return [renyi.Marginals.from_data(X.iloc[p], y.iloc[p]) for p in parts]


def test_halves_known_to_intervals_certify_each_other():
    halves = halves_of("votes", 0)
    known = [released(half, "rounded", None) for half in halves]
    settings = Settings(alpha=0.05)
    how = CrossFitSettings()
    fits = cross_fit_counts(*known, settings, how)
    c = fits.certificate
    assert c.basis == "crossfit"
    assert "training-rows" not in c.warning_codes
    cards = [fit.scorecard_ for fit in fits.halves]
    exact = [
        (closed_form(card, card.match(m)).gamma, m.n)
        for card, m in zip(cards, halves[::-1], strict=True)
    ]
    least = bounds_of_marginals(cards, exact, "map", how.confidence)
    assert least.gamma < c.gamma < least.gamma + 0.05


def test_one_half_that_may_contain_the_other_is_noted():
    half, _ = halves_of("votes", 0)
    both = released(half + half, "rounded", None)
    c = renyi.CrossFitClassifier().fit_halves(released(half, "rounded", None), both)
    assert "training-rows" in c.certificate_.warning_codes
