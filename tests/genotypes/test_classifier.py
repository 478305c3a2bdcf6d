"""GenotypeClassifier against dense algebra, refits and RenyiClassifier."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from renyi import RenyiClassifier
from renyi.genotypes import fit as genotype_fit
from renyi.genotypes import model as genotype_model
from renyi.genotypes import packed
from renyi.genotypes.classifier import GenotypeClassifier
from renyi.genotypes.metrics import nagelkerke_r2
from renyi.genotypes.packed import PackedGenotypes

N, D = 37, 150


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, N)
    copies = rng.binomial(2, np.where(y == 1, 0.45, 0.3), (D, N))
    codes = np.array([3, 2, 0])[copies]
    codes[rng.random((D, N)) < 0.05] = 1
    C = rng.normal(size=(N, 2)) + y[:, None] * [0.5, 0]
    groups = rng.integers(0, 12, N)
    return codes, y, C, groups, PackedGenotypes.from_codes(codes)


def features(codes, dominance, missing, trained=None):
    """The design matrix of a coding, written out: (n, columns)."""
    seen = codes if trained is None else trained
    columns = []
    for row, base in zip(codes, seen, strict=True):
        known = base[base != 1]
        if dominance:
            B = np.eye(4)
            if missing == "mean":
                B[1] = [np.mean(known == c) if c != 1 else 0 for c in range(4)]
        else:
            B = np.array([[0.0], [0], [1], [2]])
            if missing == "mean":
                B[1] = B[known].mean()
            else:
                B = np.column_stack([B, [0, 1, 0, 0]])
        columns.append(B[row])
    return np.concatenate(columns, axis=1)


def ridge(F, y, X, penalty):
    """Points of the features, and coefficients of the columns that are not penalised.

    By the normal equations.
    """
    p = X.shape[1]
    Z = np.concatenate([X, F], axis=1)
    shrink = np.r_[np.zeros(p), np.full(F.shape[1], penalty)]
    found = np.linalg.solve(Z.T @ Z + np.diag(shrink), Z.T @ y)
    return found[:p], found[p:]


CODINGS = [(True, "category"), (True, "mean"), (False, "category"), (False, "mean")]


@pytest.mark.parametrize("solver", ["exact", "cg"])
@pytest.mark.parametrize("dominance, missing", CODINGS)
@pytest.mark.parametrize("beside", [False, True])
def test_fit_is_that_of_the_design_matrix(
    study, monkeypatch, solver, dominance, missing, beside
):
    monkeypatch.setattr(genotype_model, "TOLERANCE", 1e-13)
    codes, y, C, _, G = study
    covariates = C if beside else None
    clf = GenotypeClassifier(2.5, dominance, missing, solver, random_state=0)
    clf.fit(G, y, covariates)
    F = features(codes, dominance, missing)
    X = np.column_stack([np.ones(N), C] if beside else [np.ones(N)])
    b, z = ridge(F, y, X, N * 2.5)
    expected = X @ b + F @ z - 0.5
    assert_allclose(clf.decision_function(G, covariates), expected, atol=1e-9)
    assert_allclose(clf.intercept_, b[0] - 0.5, atol=1e-9)
    assert_allclose(clf.covariate_coef_, b[1:], atol=1e-9)
    if dominance and missing == "category":
        assert_allclose(clf.points_.ravel(), z, atol=1e-9)


@pytest.mark.parametrize("dominance, missing", CODINGS)
@pytest.mark.parametrize("grouped", [False, True])
def test_left_out_scores_are_those_of_refits(study, dominance, missing, grouped):
    """The means that stand for missing genotypes stay those of all samples."""
    codes, y, C, groups, G = study
    members = groups if grouped else np.arange(N)
    clf = GenotypeClassifier(2.5, dominance, missing)
    clf.fit(G, y, C, groups if grouped else None)
    F, X = features(codes, dominance, missing), np.column_stack([np.ones(N), C])
    for g in np.unique(members):
        kept, out = members != g, members == g
        b, z = ridge(F[kept], y[kept], X[kept], N * 2.5)
        assert_allclose(clf.left_out_[out], X[out] @ b + F[out] @ z, atol=1e-9)
        b = np.linalg.lstsq(X[kept], y[kept])[0]
    wrong = (clf.left_out_ > 0.5) != y
    assert clf.loo_error_ == clf.metrics_.error == wrong.mean()
    assert clf.metrics_.method == "leave-one-" + "group-" * grouped + "out"


def test_cross_fit_scores_are_those_of_refits(study, monkeypatch):
    monkeypatch.setattr(genotype_model, "TOLERANCE", 1e-13)
    codes, y, C, groups, G = study
    clf = GenotypeClassifier(2.5, solver="cg", random_state=5).fit(G, y, C, groups)
    members = np.unique(groups, return_inverse=True)[1]
    rng = np.random.default_rng(5)
    folds = rng.permutation(np.arange(members.max() + 1) % 5)[members]
    F, X = features(codes, True, "category"), np.column_stack([np.ones(N), C])
    for fold in range(5):
        kept, out = folds != fold, folds == fold
        b, z = ridge(F[kept], y[kept], X[kept], N * 2.5)
        assert_allclose(clf.left_out_[out], X[out] @ b + F[out] @ z, atol=1e-9)
    assert clf.metrics_.method == "5-fold cross-fit"
    assert 0 < clf.metrics_.residual <= 1e-13


def test_conjugate_gradients_tell_how_far_they_came(study, monkeypatch):
    monkeypatch.setattr(genotype_model, "TOLERANCE", 1e-3)
    *_, G = study
    y = study[1]
    rough = GenotypeClassifier(2.5, solver="cg", random_state=0).fit(G, y)
    assert 1e-9 < rough.metrics_.residual <= 1e-3
    exact = GenotypeClassifier(2.5).fit(G, y)
    # ‖Δs‖ ≤ ‖residual‖: no eigenvalue of A(A + α)⁻¹ is above 1.
    off = rough.decision_function(G) - exact.decision_function(G)
    assert np.linalg.norm(off) <= 2e-3 * np.linalg.norm(y - y.mean())


@pytest.mark.parametrize("alpha", [0.01, 2.5, "auto"])
def test_numbers_are_those_of_renyi_classifier(study, alpha):
    codes, y, _, _, G = study
    X = pd.DataFrame(codes.T.astype(str)).astype("category")
    clf = GenotypeClassifier(alpha).fit(G, y)
    other = RenyiClassifier(alpha=alpha if alpha != "auto" else "loo").fit(X, y)
    assert_allclose(clf.alpha_, other.alpha_, rtol=1e-12)
    assert_allclose(
        clf.decision_function(G), other.decision_function(X), rtol=0, atol=1e-9
    )
    assert_allclose(clf.alpha_choice_.risk, other.alpha_choice_.risk, rtol=1e-9)
    assert clf.alpha_choice_.error == other.alpha_choice_.error
    assert (clf.predict(G) == other.predict(X)).all()
    assert_allclose(clf.predict_proba(G), other.predict_proba(X), atol=1e-6)


def test_many_samples_go_downhill_to_the_same_alpha(study, monkeypatch):
    _, y, C, groups, G = study
    alphas = genotype_fit.alpha_grid(G.d)
    everywhere = GenotypeClassifier().fit(G, y, C).alpha_choice_
    monkeypatch.setattr(genotype_fit, "EIGEN_ROWS", 0)
    some = GenotypeClassifier().fit(G, y, C).alpha_choice_
    assert len(some.alphas) < len(everywhere.alphas) == len(alphas)
    assert some.risk <= 1.02 * everywhere.risk
    for alpha, risk in zip(some.alphas, some.risks, strict=True):
        place = int(np.argmin(np.abs(alphas - alpha)))
        assert_allclose(risk, everywhere.risks[place], rtol=1e-9)
    grouped = GenotypeClassifier().fit(G, y, C, groups)
    assert grouped.alpha_ in alphas


def test_alpha_of_conjugate_gradients_is_that_of_some_samples(study, monkeypatch):
    _, y, *_, G = study
    monkeypatch.setattr(genotype_model, "CHOICE_SAMPLES", 20)
    clf = GenotypeClassifier(solver="cg", random_state=0).fit(G, y)
    grid = genotype_fit.alpha_grid(G.d) * 20 / N
    assert np.isclose(clf.alpha_, grid).any()


class Elsewhere:
    """Products as on a GPU, counted."""

    calls: set[str] = set()

    def __init__(self, G):
        self.G = G

    def agreement(self):
        self.calls.add("agreement")
        return packed.agreement(self.G)

    def sums(self, V):
        self.calls.add("sums")
        return packed.sums(self.G, V)

    def scores(self, points):
        self.calls.add("scores")
        return packed.scores(self.G, points)

    def gram(self, V):
        self.calls.add("gram")
        return packed.scores(self.G, packed.sums(self.G, V))


@pytest.mark.parametrize("missing", ["category", "mean"])
@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_products_on_another_device(study, monkeypatch, solver, missing):
    _, y, C, _, G = study
    monkeypatch.setattr(genotype_fit, "DeviceGenotypes", Elsewhere)
    given = {"solver": solver, "missing": missing, "random_state": 0}
    here = GenotypeClassifier(2.5, **given).fit(G, y, C)
    Elsewhere.calls.clear()
    there = GenotypeClassifier(2.5, device="cuda", **given).fit(G, y, C)
    assert_allclose(there.points_, here.points_, atol=1e-12)
    assert_allclose(there.left_out_, here.left_out_, atol=1e-12)
    work = {"gram"} if missing == "category" else {"sums", "scores"}
    assert Elsewhere.calls == ({"agreement"} if solver == "exact" else work) | {"sums"}


def test_covariates_alone(study):
    _, y, C, groups, G = study
    X = np.column_stack([np.ones(N), C])
    for given in (None, groups):
        members = np.arange(N) if given is None else given
        alone = np.empty(N)
        for g in np.unique(members):
            kept, out = members != g, members == g
            alone[out] = X[out] @ np.linalg.lstsq(X[kept], y[kept])[0]
        found = GenotypeClassifier(2.5).fit(G, y, C, given).metrics_
        assert found.covariates_error == np.mean((alone > 0.5) != y)


@pytest.mark.parametrize("size", [1, 3])
def test_the_auc_of_noise_is_a_half_on_average(size):
    """Scores of fits without a sample each have an intercept that gives it away."""
    found = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        codes = rng.choice([0, 2, 3], (200, 48))
        y, groups = rng.permutation(np.arange(48) % 2), np.arange(48) // size
        clf = GenotypeClassifier().fit(
            PackedGenotypes.from_codes(codes), y, None, groups
        )
        found.append(clf.metrics_.auc)
    assert np.mean(found) == pytest.approx(0.5, abs=4 * np.std(found) / 30**0.5)
    assert np.std(found) < 0.2


def test_noise_adds_nothing_to_covariates():
    """A left-out score with the covariates in it gives a sample's class away."""
    added, with_them = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        G = PackedGenotypes.from_codes(rng.choice([0, 2, 3], (200, 150)))
        y, C = rng.integers(0, 2, 150), rng.normal(size=(150, 4))
        clf = GenotypeClassifier(alpha=3000.0).fit(G, y, C)
        alone = genotype_fit.covariates_alone(genotype_fit.Samples(y, C, None), None)
        assert_allclose(clf.left_out_genetic_, clf.left_out_ - alone, atol=1e-9)
        added.append(nagelkerke_r2(clf.left_out_genetic_, y, C))
        with_them.append(nagelkerke_r2(clf.left_out_scores_, y, C))
    assert np.mean(added) < 0.03 and np.mean(with_them) > 0.5
    clf.fit(G, y)
    assert (clf.left_out_genetic_ == clf.left_out_scores_).all()


def test_equal_samples_of_a_group_are_not_ranked_by_rounding():
    G = PackedGenotypes.from_codes(np.array([[3, 3, 3, 3, 2]]))
    clf = GenotypeClassifier(alpha=0.01, dominance=False, missing="mean")
    clf.fit(G, [0, 1, 0, 1, 1], groups=[1, 0, 0, 0, 1])
    assert len(set(clf.left_out_scores_[1:4].tolist())) == 1
    assert clf.left_out_cells_.tolist() == [1, 1, 1, 1, 2]
    assert clf.metrics_.auc == pytest.approx(7 / 12)  # 5 ties, 1 ranked


def test_samples_of_equal_genotypes_are_ties():
    """Each left out, a case came below every control of the same genotypes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    copies = rng.binomial(2, 0.35 + 0.1 * y)
    G = PackedGenotypes.from_codes(np.array([3, 2, 0])[copies][None])
    apart = np.sign(copies[y == 1][:, None] - copies[y == 0])
    found = GenotypeClassifier().fit(G, y).metrics_
    assert found.auc == pytest.approx((apart.mean() + 1) / 2, abs=1e-3)
    sex = y ^ (rng.random(2000) < 0.4)
    noise = PackedGenotypes.from_codes(rng.choice([0, 2, 3], (50, 2000)))
    found = GenotypeClassifier().fit(noise, y, sex[:, None]).metrics_
    apart = np.sign(sex[y == 1][:, None] * 1 - sex[y == 0])
    assert found.covariates_auc == pytest.approx((apart.mean() + 1) / 2, abs=1e-3)
    assert found.auc > 0.5


@pytest.mark.parametrize("alpha", [1.0, 1e-5, 1e-7])
def test_samples_that_differ_are_not_taken_for_equals(study, alpha):
    codes, y, _, _, G = study
    clf = GenotypeClassifier(alpha=alpha).fit(G, y)
    assert len(set(clf.left_out_scores_.tolist())) == N
    assert_allclose(
        clf.left_out_ - clf.left_out_scores_, (y.sum() - y) / (N - 1), atol=1e-9
    )


@pytest.mark.parametrize("alpha", ["auto", 1.0, 0.01])
def test_covariates_that_name_the_groups_are_refused(study, alpha):
    _, y, _, _, G = study
    sites = np.arange(N) % 2
    with pytest.raises(ValueError, match="do not determine a fit"):
        GenotypeClassifier(alpha=alpha).fit(G, y, sites[:, None], sites)


def test_the_likelier_class_is_the_answer_to_the_last_bit(study):
    G = PackedGenotypes.from_codes(np.array([[3, 3, 3, 3, 3, 3]]))
    for y in ([0, 1, 1, 1, 0, 0], [0, 1, 1, 1, 1, 0]):
        clf = GenotypeClassifier(alpha=1.0).fit(G, y)
        answers = clf.predict_proba(G).argmax(axis=1)
        assert (clf.classes_[answers] == clf.predict(G)).all()


def test_some_samples_and_variants(study):
    codes, y, *_ = study
    G = study[4].take(samples=np.arange(1, N, 2), variants=np.arange(0, D, 3))
    part = PackedGenotypes.from_codes(codes[::3, 1::2])
    one, other = (GenotypeClassifier(1.0).fit(g, y[1::2]) for g in (G, part))
    assert_allclose(one.points_, other.points_, atol=1e-12)
    assert one.metrics_ == other.metrics_


def test_what_cannot_be_fitted_is_named(study):
    _, y, C, groups, G = study
    with pytest.raises(ValueError, match="two classes"):
        GenotypeClassifier().fit(G, np.arange(N) % 3)
    with pytest.raises(ValueError, match=f"{N} samples"):
        GenotypeClassifier().fit(G, y[:-1])
    with pytest.raises(ValueError, match="covariate 2"):
        GenotypeClassifier().fit(G, y, np.column_stack([C[:, 0], 2 * C[:, 0] + 1]))
    for none in (np.nan, None):
        some = np.where(np.arange(N) == 3, none, y.astype(object))
        with pytest.raises(ValueError, match="y must have a value"):
            GenotypeClassifier().fit(G, some)
        with pytest.raises(ValueError, match="groups must have a value"):
            GenotypeClassifier().fit(G, y, groups=some)
    with pytest.raises(ValueError, match="covariates do not determine"):
        GenotypeClassifier(1.0, solver="cg").fit(G, y, np.arange(N) == 3)
    with pytest.raises(ValueError, match="covariate 1 .*missing"):
        GenotypeClassifier().fit(G, y, np.where(C > 2, np.nan, C))
    with pytest.raises(ValueError, match="groups"):
        GenotypeClassifier().fit(G, y, groups=np.zeros(N))
    for wrong in ({"missing": "zero"}, {"solver": "lu"}, {"device": "tpu"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            GenotypeClassifier(**wrong).fit(G, y)
    with pytest.raises(ValueError, match="alpha"):
        GenotypeClassifier(0.0).fit(G, y)
    with pytest.raises(TypeError, match="packed"):
        GenotypeClassifier().fit(np.zeros((3, N)), y)
    clf = GenotypeClassifier(1.0).fit(G, y, C)
    with pytest.raises(ValueError, match="covariates"):
        clf.predict(G)
    with pytest.raises(ValueError, match="variants"):
        clf.predict(G.take(variants=[0, 1]), C)


# ---- without a chromosome; two fits

CHROMOSOMES = np.repeat(["1", "2", "X"], [70, 30, D - 100])


@pytest.mark.parametrize("dominance, missing", CODINGS)
@pytest.mark.parametrize("grouped", [False, True])
def test_scores_without_a_chromosome_are_those_of_refits(
    study, dominance, missing, grouped
):
    """To the other samples and chromosomes, less the answer of covariates alone."""
    codes, y, C, groups, G = study
    members = groups if grouped else np.arange(N)
    clf = GenotypeClassifier(2.5, dominance, missing)
    given = (G, y, C, groups if grouped else None)
    found = clf.fit(*given).leave_chromosomes_out(*given, CHROMOSOMES)
    assert found.columns.tolist() == ["1", "2", "X"]
    X = np.column_stack([np.ones(N), C])
    for name in found:
        F = features(codes[name != CHROMOSOMES], dominance, missing)
        for g in np.unique(members):
            kept, out = members != g, members == g
            b, z = ridge(F[kept], y[kept], X[kept], N * 2.5)
            b = b - np.linalg.lstsq(X[kept], y[kept])[0]
            wanted = X[out] @ b + F[out] @ z
            assert_allclose(found[name][out], wanted, atol=1e-9)


@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_scores_without_a_chromosome_are_those_of_a_fit_to_the_others(
    study, monkeypatch, solver
):
    monkeypatch.setattr(genotype_model, "TOLERANCE", 1e-12)
    *_, G = study
    y = study[1]
    alpha = "auto" if solver == "exact" else 2.5
    clf = GenotypeClassifier(alpha, solver=solver, random_state=3).fit(G, y)
    found = clf.leave_chromosomes_out(G, y, chromosomes=CHROMOSOMES)
    again = clf.leave_chromosomes_out(G, y, chromosomes=CHROMOSOMES)
    assert found.equals(again)
    for name in found:
        other = GenotypeClassifier(clf.alpha_, solver=solver, random_state=3)
        other.fit(G.take(variants=name != CHROMOSOMES), y)
        assert_allclose(found[name], other.left_out_scores_, atol=1e-9)


def test_chromosomes_that_cannot_be_left_out_are_refused(study):
    *_, G = study
    y = study[1]
    clf = GenotypeClassifier(2.5).fit(G, y)
    for chromosomes, words in (
        (None, "chromosomes must be given"),
        (["7"] * D, "chromosome 7"),
        (["7"], str(D)),
    ):
        with pytest.raises(ValueError, match=words):
            clf.leave_chromosomes_out(G, y, chromosomes=chromosomes)
    with pytest.raises(ValueError, match="140"):
        clf.leave_chromosomes_out(G.take(variants=np.arange(140)), y)
