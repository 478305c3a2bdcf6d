"""Bins that follow the outcome, in every estimator and on every input path."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import (
    CrossFitClassifier,
    Encoder,
    KernelRenyiClassifier,
    Marginals,
    MinimaxClassifier,
    RenyiClassifier,
    RenyiSelector,
    baselines,
)
from renyi.certificates.text import FOLDS_OF_BINS, MERGED_BINS
from renyi.encoding.bins import FINE_BINS
from renyi.encoding.rows import SAMPLE, coded_rows, merged_rows
from renyi.fitting.settings import Settings
from renyi.fitting.training import fit_rows


def table(n=600, seed=0):
    """Rows whose second class is frequent between 40 and 60, and at small doses."""
    r = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": r.integers(18, 90, n),
            "sex": r.choice(["f", "m"], n),
            "dose": r.exponential(1, n),
            "noise": r.normal(size=n),
        }
    )
    p = 0.15 + 0.5 * X["age"].between(40, 59) + 0.3 * (X["dose"] < 0.3)
    y = pd.Series(np.where(r.random(n) < p, "p", "n"), name="y")
    X.loc[::23, "dose"] = np.nan
    return X, y


SUPERVISED = Encoder(binning="supervised")
FINE = Encoder(bins=FINE_BINS)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "encoder",
    [
        SUPERVISED,
        Encoder(binning="supervised", bins=3),
        Encoder(binning="supervised", bins={"dose": 4, "age": [30, 50]}),
        Encoder(binning="supervised", monotone={"dose": "decreasing", "noise": "auto"}),
    ],
)
def test_rows_and_marginals_give_the_same_model(encoder, weighted):
    X, y = table()
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else None
    clf = RenyiClassifier(encoder=encoder, alpha=0.02, calibration=None)
    rows = clf.fit(X, y, weights).scorecard_
    own_edges = "age" in encoder.binned_names
    for counted in (encoder,) if own_edges else (encoder, FINE):
        m = Marginals.from_data(X, y, encoder=counted, sample_weight=weights)
        card = clf.fit_marginals(m).scorecard_
        assert card.encoder.columns == rows.encoder.columns
        np.testing.assert_allclose(card.z, rows.z, atol=1e-12)
        # The merged counts are those of rows in the merged bins.
        again = Marginals.from_data(X, y, encoder=clf.encoder_, sample_weight=weights)
        np.testing.assert_allclose(clf.marginals_.counts, again.counts, atol=1e-9)
        assert clf.marginals_.columns == again.columns
    # Marginals that ask for it are merged by any model.
    m = Marginals.from_data(X, y, encoder=encoder, sample_weight=weights)
    plain = RenyiClassifier(alpha=0.02, calibration=None).fit_marginals(m)
    np.testing.assert_allclose(plain.z_, rows.z, atol=1e-12)


def test_bins_follow_the_outcome():
    X, y = table(4000)
    clf = RenyiClassifier(encoder=SUPERVISED).fit(X, y)
    edges = clf.encoder_.columns.named("age").levels.edges
    assert {40, 60} <= {*edges} and len(edges) <= 7
    assert clf.encoder_.binning == "merged"
    m = clf.marginals_
    known = m.counts.diagonal()[m.columns.spans(["dose"])][:-1]
    assert known.min() >= 20 and len(known) <= 8
    quantile = RenyiClassifier().fit(X, y)
    new, truth = table(20_000, seed=1)
    assert clf.score(new, truth) > quantile.score(new, truth)


def test_a_monotone_share_rises_or_falls():
    X, y = table(2000)
    for direction, sign in (("increasing", 1), ("decreasing", -1)):
        encoder = Encoder(binning="supervised", bins=10, monotone={"age": direction})
        m = RenyiClassifier(encoder=encoder).fit(X, y).marginals_
        share = m.block("age", "y")["p"] / m.block("age", "y").sum(axis=1)
        assert len(share) > 1 and (sign * np.diff(share) > 0).all()
    dose = RenyiClassifier(encoder=Encoder(binning="supervised", monotone=["dose"]))
    block = dose.fit(X, y).marginals_.block("dose", "y")[:-1]
    assert (np.diff(block["p"] / block.sum(axis=1)) < 0).all()
    with pytest.raises(ValueError, match="is for two classes, but there are 3"):
        dose.fit(X, np.arange(len(y)) % 3)


def test_a_fitted_encoder_keeps_its_bins():
    X, y = table()
    first = RenyiClassifier(encoder=SUPERVISED).fit(X, y)
    other, truth = table(seed=9)
    again = RenyiClassifier(encoder=first.encoder_, alpha=0.1, calibration=None)
    kept = again.fit(other, truth).encoder_
    edges = [column.levels.edges for column in first.encoder_.columns]
    assert [column.levels.edges for column in kept.columns] == edges
    z = again.z_
    m = Marginals.from_data(other, truth, encoder=first.encoder_)
    np.testing.assert_allclose(again.fit_marginals(m).z_, z, atol=1e-12)
    # Without its columns it learns bins anew, by the classes.
    fresh = RenyiClassifier(encoder=first.encoder_.settings()).fit(other, truth)
    wanted = RenyiClassifier(encoder=SUPERVISED).fit(other, truth)
    assert fresh.encoder_.columns == wanted.encoder_.columns


# ---- the error to expect


def test_each_fold_merges_its_own_bins():
    X, y = table(300)
    rows = coded_rows(X, y, encoder=SUPERVISED)
    settings = Settings(alpha=0.05, calibration=None)
    fit = fit_rows(rows, settings)
    pieces = rows.dealt()[1]
    fold = np.empty(300, np.intp)
    fold[pieces.places] = pieces.fold
    wrong = 0
    for k in range(10):
        part = fit_rows(merged_rows(rows.part(fold != k)), settings)
        codes = part.encoder_.transform(X[fold == k])
        wrong += (part.classes_[part.answers(codes)] != y[fold == k]).sum()
    assert fit.certificate_.loo_error == pytest.approx(wrong / 300, abs=1e-12)
    assert fit.certificate_.warnings[-1:] == (FOLDS_OF_BINS,)


def test_noise_is_not_taken_for_knowledge():
    r = np.random.default_rng(0)
    X = pd.DataFrame(r.normal(size=(400, 8)))
    y = r.integers(0, 2, 400)
    clf = RenyiClassifier(encoder=Encoder(binning="supervised", bins=8)).fit(X, y)
    assert clf.certificate_.loo_error > 0.44  # the left-out scores say 0.3
    assert clf.fit_.choice.error < 0.42


def test_many_rows_say_that_the_bins_saw_the_classes():
    X, y = table(SAMPLE + 1000)
    clf = RenyiClassifier(encoder=SUPERVISED).fit(X[["age", "sex"]], y)
    assert MERGED_BINS in clf.certificate_.warnings
    assert "merged-bins" in clf.certificate_.warning_codes


def test_bins_between_quantiles_need_no_note():
    X, y = table()
    encoder = Encoder(
        binning="supervised", bins={"age": [30], "dose": [1], "noise": [0]}
    )
    clf = RenyiClassifier(encoder=encoder).fit(X, y)
    assert not {"folds", "merged-bins"} & {*clf.certificate_.warning_codes}
    m = Marginals.from_data(X, y, encoder=encoder)
    assert m.encoder.is_fine
    models = [RenyiClassifier().fit_marginals(m)]
    models.append(KernelRenyiClassifier(encoder=encoder).fit(X, y))
    for model in models:
        assert "merged-bins" not in model.certificate_.warning_codes


def test_halves_learn_their_bins_from_their_own_rows():
    X, y = table(800)
    model = CrossFitClassifier(RenyiClassifier(encoder=SUPERVISED)).fit(X, y)
    order = np.random.RandomState(0).permutation(800)
    for half, places in zip(model.halves_, np.split(order, 2), strict=True):
        alone = RenyiClassifier(encoder=SUPERVISED)
        alone.fit(X.iloc[places], y.iloc[places])
        for name in ("age", "dose", "noise"):
            own = half.encoder_.columns.named(name).levels
            assert own.edges == alone.encoder_.columns.named(name).levels.edges
    first, second = (h.encoder_.columns.named("age").levels for h in model.halves_)
    assert first.edges != second.edges
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    parts = [
        Marginals.from_data(X[s], y[s], encoder=SUPERVISED.fit(X))
        for s in (slice(0, 400), slice(400, 800))
    ]
    assert CrossFitClassifier().fit_halves(*parts).certificate_.bounds["sharp"] > 0


# ---- other estimators


@pytest.mark.parametrize(
    "clf",
    [
        RenyiClassifier(order=2),
        RenyiClassifier(interactions=[("age", "dose")]),
        RenyiClassifier(interactions=1),
        KernelRenyiClassifier(random_state=0),
        RenyiSelector(n_features=3),
        baselines.TreeAugmentedNaiveBayes(),
    ],
)
def test_every_estimator_merges(clf):
    X, y = table(400)
    clf.set_params(encoder=SUPERVISED).fit(X, y)
    wanted = RenyiClassifier(encoder=SUPERVISED).fit(X, y).encoder_
    single = clf.encoder_.single
    assert single.columns == wanted.columns and single.binning == "merged"
    assert clf.score(X, y) > 0.6
    if isinstance(clf, RenyiClassifier):
        assert "folds" in clf.certificate_.warning_codes


def test_minimax_merges():
    X, y = table(400)
    clf = MinimaxClassifier(encoder=SUPERVISED).fit(X[["age", "sex"]], y)
    m = Marginals.from_data(X[["age", "sex"]], y, encoder=FINE)
    again = MinimaxClassifier(encoder=SUPERVISED).fit_marginals(m)
    assert clf.encoder_.columns == again.encoder_.columns
    assert clf.guarantee_ == pytest.approx(again.guarantee_)


def test_selection_by_counts_merges():
    X, y = table(400)
    rows = RenyiSelector(encoder=SUPERVISED, n_features=2).fit(X, y)
    m = Marginals.from_data(X, y, encoder=FINE)
    counts = RenyiSelector(encoder=SUPERVISED, n_features=2).fit_marginals(m)
    assert [*rows.features_] == [*counts.features_]
    codes = counts.classifier_.certificate_.warning_codes
    assert "merged-bins" in codes


def test_tuples_are_of_merged_bins():
    X, y = table(400)
    m = Marginals.from_data(X, y, order=2, encoder=SUPERVISED)
    rows = RenyiClassifier(order=2, encoder=SUPERVISED, alpha=0.1, calibration=None)
    counts = RenyiClassifier(order=2, alpha=0.1, calibration=None).fit_marginals(m)
    np.testing.assert_allclose(rows.fit(X, y).z_, counts.z_, atol=1e-12)
    # However the encoder came to ask for it.
    fitted = SUPERVISED.fit(X)
    model = rows.encoder_.single.settings()
    for encoder in (fitted, model):
        again = Marginals.from_data(X, y, order=2, encoder=encoder)
        assert again == m
        other = RenyiClassifier(order=2, encoder=encoder, alpha=0.1, calibration=None)
        np.testing.assert_allclose(other.fit(X, y).z_, counts.z_, atol=1e-12)
    with pytest.raises(ValueError, match="the marginals count tuples of columns"):
        rows.fit_marginals(Marginals.from_data(X, y, order=2))


def test_blocks_of_rows_are_refused():
    X, y = table()
    with pytest.raises(ValueError, match="binning='supervised', which would merge"):
        RenyiClassifier(encoder=SUPERVISED).partial_fit(X, y, classes=["n", "p"])


def test_a_saved_model_knows_how_its_bins_were_made(tmp_path):
    X, y = table()
    encoder = Encoder(binning="supervised", bins={"age": 4}, monotone=["dose"])
    clf = RenyiClassifier(encoder=encoder).fit(X, y)
    clf.save(tmp_path / "m.json")
    again = RenyiClassifier.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    assert again.encoder == encoder
    assert again.fit(X, y).encoder_ == clf.encoder_
    fine = Marginals.from_data(X, y, encoder=encoder)
    fine.save(tmp_path / "m.renyi")
    assert Marginals.load(tmp_path / "m.renyi").settings == fine.settings
