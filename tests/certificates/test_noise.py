"""Guarantees of tables with noise: coverage by simulation, and their parts."""

import dataclasses

import numpy as np
import pytest

import renyi
from renyi import rules
from renyi.certificates.closed_form import closed_form
from renyi.certificates.intervals import Functional, squared_error
from renyi.certificates.noise import (
    discrete_gaussian,
    noise_bound,
    noisy_tables,
    shortest,
)
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.repair import Projection
from renyi.marginals.uncertainty import Budget, Noise
from renyi.robust.saddle import ridge_at, scores_of
from renyi.scorecard import class_points
from tests.support.releases import own_blocks, random_card, random_marginals


def private(m, scale, rng, public=True, releases=1):
    """Return one noisy release of marginals."""
    apart = np.triu(~own_blocks(m))
    noise = np.zeros(m.counts.shape, np.int64)
    for _ in range(releases):
        noise[apart] += discrete_gaussian((scale,), int(apart.sum()), rng).astype(int)
    noisy = np.where(own_blocks(m), 0, m.counts + noise + noise.T)
    n = int(m.n) if public else None
    return with_uncertainty(m, Noise(noisy, (scale,) * releases, n, Budget(rho=1.0)))


def test_the_discrete_gaussian_has_its_variance():
    rng = np.random.default_rng(0)
    for scale in (0.4, 3.0, 80.0):
        draws = discrete_gaussian((scale, scale), 200_000, rng)
        assert (draws == np.rint(draws)).all()
        k = np.arange(-2000, 2001)
        weights = np.exp(-(k**2) / (2 * scale**2))
        variance = 2 * (weights @ k**2) / weights.sum()
        assert draws.var() == pytest.approx(variance, rel=0.02)
        assert abs(draws.mean()) < 0.02 * scale


def test_the_projection_is_least_squares():
    rng = np.random.default_rng(0)
    sizes = np.array([3, 2, 4])
    which = np.repeat(np.arange(3), sizes)
    noise = np.triu(rng.standard_normal((9, 9)), 1)
    noise[which[:, None] == which] = 0.0
    noise = noise + noise.T
    # A basis of the tables that agree: margins of any rows, plus what has no margins.
    codes = np.column_stack([rng.integers(0, m, 4000) for m in sizes])
    rows = np.concatenate(
        [(codes[:, j] == np.arange(sizes[j])[:, None]) for j in range(3)]
    )
    apart = which[:, None] < which
    basis = np.array([np.outer(w, w)[apart] for w in np.unique(rows.T, axis=0) * 1.0])
    best = basis.T @ np.linalg.lstsq(basis.T, noise[apart], rcond=None)[0]
    table, _ = Projection(sizes).of(noise)
    np.testing.assert_allclose(table[apart], best, atol=1e-9)
    again, _ = Projection(sizes).of(table)
    np.testing.assert_allclose(again, table, atol=1e-9)
    fixed, n = Projection(sizes).of(noise, 7.0)
    assert n == 7.0
    np.testing.assert_allclose(np.add.reduceat(fixed.diagonal(), [0, 3, 5]), 7.0)


def card_of(m, points, intercept):
    """Return a scorecard of the points of all classes."""
    card = random_card(m, np.random.default_rng(0))
    if len(m.classes) == 2:
        points, intercept = points[:, 1], intercept[1]
    return dataclasses.replace(card, z=points, intercept=np.asarray(intercept))


def failures(seeds, scale, n_classes=None, public=True, confidence=0.9):
    """Count releases whose true tables are not within the stated noise."""
    failed = 0
    exceeded = 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        m = random_marginals(rng, n_classes)
        known = private(m, scale, rng, public)
        stated = noisy_tables(known, confidence)
        size = len(m.classes)
        names = [*m.feature_names, m.target]
        places = m.columns.spans(names)
        true = m.counts[np.ix_(places, places)]
        G = true[:-size, :-size] - stated.tables.Q
        H = true[:-size, -size:] - stated.tables.F
        H = H - H.mean(axis=1, keepdims=True)
        failed += (
            np.linalg.eigvalsh(G)[-1] > stated.pair_error
            or np.linalg.norm(H) > stated.class_error
            or abs(m.n - stated.n) > stated.n_error + 1e-9
        )
        trained = ridge_at(stated.start, 0.05, m.n, True)
        for points in (class_points(random_card(m, rng)), scores_of(trained)):
            card = card_of(m, *points)
            U = shortest(*points, stated.sizes)
            exact = closed_form(card, card.match(m)).gamma
            exceeded += exact > noise_bound(squared_error(U), stated) / 2
    return failed, exceeded


@pytest.mark.parametrize("public", [True, False])
def test_coverage_is_at_least_the_confidence(public):
    failed, exceeded = failures(range(30), 4.0, public=public)
    assert failed <= 8  # 3 expected at most; 9 or more have a chance of 0.2 %
    assert exceeded <= failed


@pytest.mark.long
@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_coverage_at_full_count(n_classes, public):
    failed, exceeded = failures(range(500, 1500), 4.0, n_classes, public)
    assert failed <= 125  # 100 expected at most, standard deviation 9.5
    assert exceeded <= failed


def test_the_bound_holds_for_any_function_of_the_tables():
    rng = np.random.default_rng(0)
    m = random_marginals(rng, 3)
    stated = noisy_tables(private(m, 0.1, rng))  # hardly any noise
    K = len(m.classes)
    D = int(stated.sizes.sum())
    U = rng.standard_normal((D, K))
    cells = (U**2).sum(axis=1, keepdims=True) + rng.standard_normal((D, K))
    function = Functional(U, cells, np.zeros(K), 0.5)
    value = function.at(stated.start, stated.sizes)
    bound = noise_bound(function, stated)
    assert value - 1e-6 <= bound <= value + 0.5


def test_certificates_of_noise():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    known = private(m, 2.0, np.random.default_rng(1))
    model = renyi.RenyiClassifier().fit_marginals(known)
    c = model.certificate_
    assert (c.basis, c.confidence) == ("noisy", 0.95)
    assert renyi.Certificate.from_dict(c.to_dict()) == c
    true = renyi.certify(model, m)
    assert all(true.bounds[rule] <= c.bounds[rule] for rule in rules.RULES)
    assert 0.08 < c.bounds["sharp"] < 0.25
    shown = " ".join(str(c).split())
    assert "unknown: pair counts do not contain it" in shown
    assert "the pair counts that were released with noise" in shown
    assert "This has 95 % confidence." in shown
    sure = renyi.certify(model, known, confidence=0.99)
    assert sure.gamma > c.gamma
    assert renyi.certify(model, known).gamma == c.gamma
    again = renyi.RenyiClassifier().fit_marginals(known)
    np.testing.assert_array_equal(model.z_, again.z_)


def test_one_release_serves_every_target_and_subset():
    X, y = renyi.datasets.load("votes")
    X = X[["crime", "immigration", "education-spending", "mx-missile"]].fillna("?")
    m = renyi.Marginals.from_data(X, y, encoder=renyi.Encoder(missing=()))
    known = private(m, 4.0, np.random.default_rng(2))
    other = known.with_target("crime")
    model = renyi.RenyiClassifier().fit_marginals(other)
    true = renyi.certify(model, m.with_target("crime"))
    assert true.gamma <= model.certificate_.gamma
    few = renyi.RenyiClassifier().fit_marginals(known.select(["crime", "immigration"]))
    whole = renyi.certify(few, known)  # as if these columns were chosen by the noise
    assert whole.gamma >= few.certificate_.gamma
    assert renyi.certify(few, m).gamma <= whole.gamma


def test_merged_releases_add_their_noise():
    X, y = renyi.datasets.load("votes")
    halves = [
        renyi.Marginals.from_data(X[s], y[s]) for s in (slice(200), slice(200, 435))
    ]
    sizes = halves[0].columns
    assert sizes == halves[1].columns
    rng = np.random.default_rng(3)
    parts = [private(m, 3.0, rng) for m in halves]
    total = parts[0] + parts[1]
    c = renyi.RenyiClassifier().fit_marginals(total).certificate_
    assert c.n == 435
    one = private(halves[0] + halves[1], 3.0, rng)
    assert c.gamma > renyi.RenyiClassifier().fit_marginals(one).certificate_.gamma


def test_what_noise_cannot_do_is_refused():
    rng = np.random.default_rng(4)
    m = random_marginals(rng, 2)
    known = private(m, 2.0, rng)
    model = renyi.RenyiClassifier().fit_marginals(known)
    for level in ("lp", "exact"):
        with pytest.raises(ValueError, match="no program to solve"):
            renyi.certify(model, known, level=level)
    for compute in (renyi.minimax, renyi.theta, renyi.separable):
        with pytest.raises(ValueError, match="exact counts, but these have noise"):
            compute(known)
    with pytest.raises(ValueError, match="exact counts, but these have noise"):
        renyi.hgr_lower_bound(known)
    with pytest.raises(ValueError, match="exact counts, but these have noise"):
        renyi.worst_case(model, known)
    with pytest.raises(ValueError, match="for held-out rows"):
        renyi.certify(model, m, confidence=0.9)
    half = renyi.CrossFitClassifier()
    with pytest.raises(ValueError, match="Halves with noise"):
        half.fit_halves(known, known)
