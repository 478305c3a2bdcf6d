"""Sets of distributions with absent pairs, against programs over all outcomes."""

import dataclasses

import numpy as np
import pytest

import renyi
from tests.robust.test_interval_bounds import losses
from tests.support.releases import Joint, random_card, random_marginals, without_pairs

pytest.importorskip("highspy")
pytest.importorskip("clarabel")


def examples(count):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        m = random_marginals(rng)
        yield rng, without_pairs(m, rng), m


def test_worst_cases_of_absent_pairs():
    for rng, known, m in examples(20):
        card = random_card(m, rng)
        worst = renyi.worst_case(card, known)
        assert worst.upper - worst.lower < 1e-6
        joint = Joint(known)
        assert worst.upper == pytest.approx(
            joint.largest(losses(card, joint, "map")), abs=1e-6
        )
        assert worst.upper >= renyi.worst_case(card, m).lower - 1e-6
        assert renyi.worst_case(card, known, method="lp").upper >= worst.upper - 1e-9


def test_minimax_and_theta_of_absent_pairs():
    for _, known, m in examples(8):
        exact = renyi.minimax(known, method="exact")
        assert exact.gap < 1e-6
        assert renyi.minimax(known, method="lp").upper >= exact.upper - 1e-7
        assert exact.upper >= renyi.minimax(m, method="exact").lower - 1e-6
        risk = renyi.theta(known)
        assert risk.lower - 1e-6 <= exact.upper <= 2 * risk.upper + 1e-6
        model = renyi.RenyiClassifier(calibration=None).fit_marginals(known)
        assert model.certificate_.gamma >= risk.lower - 1e-7


def test_a_trained_model_is_as_good_as_its_worst_case():
    for _, known, _ in examples(5):
        model = renyi.RenyiClassifier(calibration=None).fit_marginals(known)
        worst = renyi.worst_case(model, known)
        assert worst.upper <= model.certificate_.bounds["map"] + 1e-9


def test_what_absent_pairs_cannot_do_is_refused():
    m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    known = without_pairs(m, np.random.default_rng(0), 0.1)
    card = random_card(m, np.random.default_rng(0))
    with pytest.raises(ValueError, match="too many for their exact worst case"):
        renyi.worst_case(card, known)
    with pytest.raises(ValueError, match="are not among the tables"):
        renyi.separable(known)
    few = known.select(known.feature_names[:2])
    target = frozenset((few.feature_names[0], few.target))
    with pytest.raises(ValueError, match="are not among the tables"):
        renyi.RenyiClassifier().fit_marginals(
            dataclasses.replace(few, absent=few.absent | {target})
        )
