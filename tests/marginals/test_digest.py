"""Digests: equal for the same data by any input path, otherwise different."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals, RenyiClassifier, datasets


@pytest.fixture
def votes():
    return datasets.load("votes")


def test_the_order_of_rows_columns_and_labels_does_not_matter(votes):
    X, y = votes
    known = Marginals.from_data(X, y).digest
    shuffled = np.random.default_rng(0).permutation(len(X))
    other = X.iloc[shuffled, ::-1]
    assert Marginals.from_data(other, y.iloc[shuffled]).digest == known
    table = pd.concat([y, X], axis=1)
    assert Marginals.from_data(table, target="party").digest == known


def test_a_file_has_the_digest_of_its_rows(votes, tmp_path):
    X, y = votes
    whole = pd.concat([X.iloc[:, :5], y, X.iloc[:, 5:]], axis=1)
    whole.to_csv(tmp_path / "votes.csv", index=False)
    whole.to_parquet(tmp_path / "votes.parquet")
    known = Marginals.from_data(X, y).digest
    for name in ("votes.csv", "votes.parquet"):
        found = Marginals.from_file(tmp_path / name, target="party").digest
        assert found == known


def test_weights_count_as_copies_and_rounding_does_not(votes):
    X, y = votes
    rng = np.random.default_rng(1)
    copies = rng.integers(1, 4, len(X))
    repeated = Marginals.from_data(X.loc[X.index.repeat(copies)], y.repeat(copies))
    weighted = Marginals.from_data(X, y, sample_weight=copies.astype(float))
    assert weighted.digest == repeated.digest
    w = rng.random(len(X))
    forth = Marginals.from_data(X, y, sample_weight=w)
    back = Marginals.from_data(X[::-1], y[::-1], sample_weight=w[::-1])
    assert forth.digest == back.digest
    assert forth.digest != weighted.digest


def test_one_row_more_or_another_cell_is_seen(votes):
    X, y = votes
    known = Marginals.from_data(X, y).digest
    changed = X.copy()
    changed.iloc[7, 3] = "y" if X.iloc[7, 3] != "y" else "n"
    for other in (
        Marginals.from_data(X[1:], y[1:]),
        Marginals.from_data(changed, y),
        Marginals.from_data(X.rename(columns={"crime": "crimes"}), y),
        Marginals.from_data(X.drop(columns="crime"), y),
        Marginals.from_data(X, X["crime"].fillna("x").rename("law")),
    ):
        assert not other.digest.matches(known)


def test_pairs_tell_apart_what_single_columns_cannot():
    y = [0, 0, 1, 1]
    first = Marginals.from_data([["a", "c"], ["b", "d"], ["a", "c"], ["b", "d"]], y)
    second = Marginals.from_data([["a", "d"], ["b", "c"], ["a", "c"], ["b", "d"]], y)
    assert first.digest.classes == second.digest.classes
    assert first.digest.pairs != second.digest.pairs


@pytest.mark.parametrize("order", [1, 2])
def test_a_model_keeps_the_digest_of_its_data(votes, order, tmp_path):
    X, y = votes
    m = Marginals.from_data(X.iloc[:, :4], y, order=order)
    clf = RenyiClassifier(order=order).fit(X.iloc[:, :4], y)
    assert clf.data_digest_ == m.digest
    assert RenyiClassifier(order=order).fit_marginals(m).data_digest_ == m.digest
    clf.save(tmp_path / "model.json")
    again = RenyiClassifier.load(tmp_path / "model.json")
    assert again.data_digest_ == m.digest
    again.save(tmp_path / "again.json")
    assert RenyiClassifier.load(tmp_path / "again.json").data_digest_ == m.digest


def test_a_wide_model_keeps_the_digest_of_its_class_counts(votes):
    X, y = votes
    few, labels = X[:30], y[:30]  # more categories than rows
    clf = RenyiClassifier().fit(few, labels)
    assert clf.marginals_ is None and clf.data_digest_.pairs is None
    assert clf.data_digest_.matches(Marginals.from_data(few, labels).digest)
    assert not clf.data_digest_.matches(Marginals.from_data(X[:31], y[:31]).digest)


def test_partial_fit_has_the_digest_of_all_blocks(votes):
    X, y = votes
    clf = RenyiClassifier()
    for at in (0, 200):
        clf.partial_fit(X[at : at + 200], y[at : at + 200], classes=np.unique(y))
    assert clf.data_digest_ == Marginals.from_data(X[:400], y[:400]).digest
