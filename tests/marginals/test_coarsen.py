"""Merging neighbouring bins of counts is the same as counting with coarser bins."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from renyi import Encoder, Marginals, RenyiClassifier, certify
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.uncertainty import Intervals
from renyi.releases.publication import private_release


def table(n=300, seed=0, missing=True):
    r = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": r.integers(18, 90, n),
            "sex": r.choice(["f", "m"], n),
            "dose": r.exponential(1, n).round(2),
        }
    )
    if missing:
        X.loc[::17, "dose"] = np.nan
    return X, pd.Series(r.choice(["n", "p"], n), name="y")


def some_edges(m, name, keep):
    edges = m.columns.named(name).levels.edges
    return [edge for edge, stays in zip(edges, keep, strict=False) if stays]


@given(
    st.lists(st.booleans(), min_size=12, max_size=12),
    st.booleans(),
    st.booleans(),
    st.integers(0, 5),
)
@settings(max_examples=25, deadline=None)
def test_coarser_counts_are_counted_again(keep, class_conditional, weighted, seed):
    X, y = table(120, seed)
    weights = 2.0 ** np.random.default_rng(seed).integers(-2, 3, len(y))
    how = {"class_conditional": class_conditional}
    if weighted:
        how["sample_weight"] = weights
    fine = Marginals.from_data(X, y, encoder=Encoder(bins=12), **how)
    coarse = fine.coarsen(
        {"age": some_edges(fine, "age", keep), "dose": some_edges(fine, "dose", keep)}
    )
    again = Marginals.from_data(X, y, encoder=coarse.encoder, **how)
    assert coarse == again  # powers of two add up exactly
    assert coarse.n == again.n and coarse.weighted == weighted
    # One step or two: the same.
    two = fine.coarsen({"age": some_edges(fine, "age", keep)})
    assert two.coarsen({"dose": some_edges(fine, "dose", keep)}) == coarse


def test_bins_are_named_as_those_that_a_user_gives():
    X, y = table()
    own = Encoder(bins={"age": [30, 50], "dose": [0.5]})
    fine = Encoder(bins={"age": [20, 30, 40, 50], "dose": [0.25, 0.5, 2]})
    m = Marginals.from_data(X, y, encoder=fine)
    coarse = m.coarsen({"age": [30, 50], "dose": [0.5]})
    assert coarse == Marginals.from_data(X, y, encoder=own)
    assert coarse.categories["age"] == ("up to 29", "30 to 49", "50 and more")
    assert coarse.categories["dose"] == ("below 0.5", "from 0.5", None)
    assert m.coarsen({"age": []}).categories["age"] == ("any number",)


def test_sparse_counts_are_merged():
    X, y = table(3000, missing=False)
    X["label"] = [f"v{k % 2500}" for k in range(3000)]
    m = Marginals.from_data(X, y, encoder=Encoder(bins=8, min_count=1))
    assert hasattr(m.counts, "indptr")
    coarse = m.coarsen({"age": m.columns.named("age").levels.edges[:2]})
    assert coarse == Marginals.from_data(X, y, encoder=coarse.encoder)


def test_intervals_add_up_and_contain_the_counts():
    X, y = table(200)
    m = Marginals.from_data(X, y, encoder=Encoder(bins=6))
    low = np.asarray(m.counts // 5 * 5)
    known = with_uncertainty(m, Intervals(low, low + 4, m.n, m.n))
    edges = {"age": m.columns.named("age").levels.edges[1:2]}
    ends = known.coarsen(edges).uncertainty
    exact = m.coarsen(edges).counts
    assert (ends.low <= exact).all() and (exact <= ends.high).all()
    start = m.columns.spans(["age"])[0]
    sex = m.columns.spans(["sex"])[0]
    first = slice(start, start + 2)  # the first two bins are one
    new = m.coarsen(edges).columns.spans(["sex"])[0]
    assert ends.low[0, new] == known.uncertainty.low[first, sex].sum()
    assert ends.high[0, new] == known.uncertainty.high[first, sex].sum()


def test_what_cannot_be_merged_is_said():
    X, y = table()
    m = Marginals.from_data(X, y, encoder=Encoder(bins={"age": [30, 50]}))
    for edges, words in [
        (
            {"age": [40]},
            "Column 'age' has no edge at 40.0: bins can be merged",
        ),
        ({"sex": [1]}, "Column 'sex' has labels, not bins of numbers"),
        ({"y": [1]}, "'y' is the target"),
        ({"old": [1]}, "There is no column 'old'"),
    ]:
        with pytest.raises(ValueError, match=words):
            m.coarsen(edges)
    public = Encoder(columns=m.columns)
    release = private_release(m, encoder=public, rho=1.0)
    with pytest.raises(ValueError, match="Bins of a private release cannot be merged"):
        release.coarsen({"age": [30]})
    pairs = Marginals.from_data(X, y, interactions=[("age", "sex")])
    with pytest.raises(ValueError, match="count tuples of columns"):
        pairs.coarsen({"age": pairs.columns.named("age").levels.edges[:1]})


def test_a_model_is_certified_by_finer_counts():
    X, y = table(400)
    fine = Marginals.from_data(X, y, encoder=Encoder(bins=16))
    coarse = fine.coarsen({"age": fine.columns.named("age").levels.edges[::4]})
    clf = RenyiClassifier().fit_marginals(coarse)
    for rule, bound in certify(clf, fine).bounds.items():
        assert bound == pytest.approx(clf.certificate_.bounds[rule], abs=1e-9)
    other = RenyiClassifier().fit_marginals(fine)
    with pytest.raises(ValueError, match="binned differently"):
        certify(other, coarse)
