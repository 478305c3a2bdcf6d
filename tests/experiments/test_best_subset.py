"""Best subsets: branch and bound against all subsets, forward against greed."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mutual_info_score

import renyi
from experiments import best_subset as experiment
from experiments import rankings
from experiments.branch_and_bound import best_subset
from renyi.solvers import ridge
from renyi.solvers.forward_selection import ALPHA, forward, subset_value
from support.joints import largest_brier_risk, marginal_constraints, one_hot

ROUNDING = 1e-10  # machine precision times the condition number, 1/ALPHA


class Sample:
    """Random rows, and their centred moments by matrix products."""

    def __init__(self, seed, d=7, n=80, K=2, twice=False):
        rng = np.random.default_rng([seed, d, n, K])
        sizes = rng.integers(2, 5, d)
        X = np.stack([rng.integers(0, m, n) for m in sizes], axis=1)
        X[:, 0] = np.minimum(X[:, 1] + rng.integers(0, 2, n), sizes[0] - 1)
        if twice:
            X, sizes = np.hstack([X, X[:, :2]]), np.append(sizes, sizes[:2])
        score = sum(rng.normal(size=(m, K))[X[:, j]] for j, m in enumerate(sizes))
        y = (score + rng.normal(size=(n, K))).argmax(axis=1)
        self.sizes, self.K = sizes, K
        W, Y = one_hot(X, sizes), (y[:, None] == np.arange(K)).astype(float)
        self.W, self.Y = W - W.mean(axis=0), Y - Y.mean(axis=0)
        self.equations = ridge.moments(W.T @ W / n, W.T @ Y / n, Y.mean(axis=0), True)

    def value(self, features):
        """γ_S by least squares on the rows of some columns."""
        owner = np.repeat(np.arange(len(self.sizes)), self.sizes)
        W, n = self.W[:, np.isin(owner, features)], len(self.W)
        Y = self.Y[:, 1:] if self.K == 2 else self.Y
        penalty = np.sqrt(n * ALPHA) * np.eye(W.shape[1])
        A = np.vstack([W, penalty])
        right = np.vstack([Y, np.zeros((len(penalty), Y.shape[1]))])
        z = np.linalg.lstsq(A, right)[0]
        return ((right - A @ z) ** 2).sum() / n * (1 if self.K == 2 else 0.5)


@pytest.mark.parametrize("K", [2, 3])
def test_value_of_a_set(K):
    sample = Sample(0, K=K)
    for features in ([], [2], [0, 1], [1, 4, 6], range(7)):
        expected = sample.value(list(features))
        value = subset_value(sample.equations, sample.sizes, list(features))
        assert value == pytest.approx(expected, abs=ROUNDING)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("K", [2, 3])
def test_the_best_of_all_subsets(seed, K):
    sample = Sample(seed, K=K)
    for k in range(8):
        best = best_subset(sample.equations, sample.sizes, k)
        values = [sample.value(list(S)) for S in combinations(range(7), k)]
        assert len(best.features) == k
        assert best.value == pytest.approx(min(values), abs=ROUNDING)
        assert sample.value(best.features) == pytest.approx(min(values), abs=ROUNDING)


def test_duplicated_columns():
    sample = Sample(5, d=5, twice=True)
    for k in range(1, 7):
        best = best_subset(sample.equations, sample.sizes, k)
        values = [sample.value(list(S)) for S in combinations(range(7), k)]
        assert best.value == pytest.approx(min(values), abs=ROUNDING)
        assert len(set(best.features)) == k


@pytest.mark.parametrize("K", [2, 3])
def test_forward_selection_is_greedy(K):
    sample = Sample(6, K=K)
    found = forward(sample.equations, sample.sizes)
    chosen: list[int] = []
    for step in found[1:]:
        rest = [i for i in range(7) if i not in chosen]
        chosen.append(min(rest, key=lambda i: sample.value([*chosen, i])))
        assert step.features == tuple(chosen)
        assert step.value == pytest.approx(sample.value(chosen), abs=ROUNDING)
    assert found[0].value == pytest.approx(sample.value([]), abs=1e-12)


def test_branches_are_closed_and_the_best_is_no_worse_than_greed():
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    equations = ridge.moments(m.Q, m.F, m.class_probabilities, True)
    sizes = np.full(16, 3)
    steps = forward(equations, sizes)
    for k in (2, 4, 14):
        best = best_subset(equations, sizes, k)
        assert best.value <= steps[k].value + ROUNDING
        # There are 65,536 subsets.
        assert 0 < best.nodes < 1_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 8}, "k=8"),
        ({"k": -1}, "k=-1"),
        ({"k": 2, "alpha": 0.0}, "alpha"),
        ({"k": 2, "sizes": np.array([2, 2])}, "sizes"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    sample = Sample(7)
    given = {"sizes": sample.sizes, **arguments}
    for solve in (best_subset, forward):
        with pytest.raises(ValueError, match=message):
            solve(sample.equations, **given)


def test_too_many_features_are_refused():
    sample = Sample(8, d=21)
    with pytest.raises(ValueError, match="at most 20 features, not 21"):
        best_subset(sample.equations, sample.sizes, 3)


@pytest.fixture(scope="module")
def votes():
    return experiment.Data.load("votes")


def test_selections_are_compared_as_they_are(votes):
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    equations = ridge.moments(m.Q, m.F, m.class_probabilities, True)
    names = m.feature_names
    ranked = [rankings.by_information(m), rankings.by_mrmr(m)]
    for k, of_path, usual, greedy, *of_ranked, best in experiment.risks(
        votes, votes.orders(3)
    ):
        chosen = renyi.RenyiSelector(n_features=int(k)).fit(X, y).features_
        sets = [chosen, *(ranking[:k] for ranking in ranked)]
        expected = [
            subset_value(equations, m.encoder.columns.sizes, [*map(names.index, each)])
            for each in sets
        ]
        assert [usual, *of_ranked] == pytest.approx(expected, abs=1e-12)
        assert best <= min(of_path, usual, greedy, *of_ranked) + 1e-9


def test_information_of_all_sets(votes):
    X, y = renyi.datasets.load("votes")
    texts = X.astype(object).fillna("?")

    def information(places):
        rows = texts.iloc[:, list(places)].agg(" ".join, axis=1)
        return mutual_info_score(rows, y)

    orders = votes.orders(2)
    for k, *own, of_best, largest in experiment.informations(votes, orders):
        expected = [information(order[:k]) for order in orders]
        assert own == pytest.approx(expected)
        assert of_best == pytest.approx(information(votes.best(k)))
        every = [information(places) for places in combinations(range(16), k)]
        assert largest == pytest.approx(max(every))


def test_the_best_pair_by_correlation(votes, monkeypatch):
    few = combinations(range(4), 2)
    monkeypatch.setattr(experiment, "combinations", lambda places, k: few)
    rows = experiment.correlations(votes, votes.orders(2))
    values = {row["pair"]: row["correlation"] for row in rows}
    X, y = renyi.datasets.load("votes")
    texts = X.astype(object).fillna("?")
    variance = np.prod(y.value_counts(normalize=True))
    expected = []
    for pair in combinations(X.columns[:4], 2):
        cells = pd.crosstab([texts[name] for name in pair], y, normalize=True)
        cells = cells.unstack(fill_value=0)
        joint = cells.to_numpy().reshape(len(cells), 2, -1).swapaxes(1, 2)
        risk = largest_brier_risk(*marginal_constraints(joint))
        expected.append(np.sqrt(1 - risk / variance))
    assert values["largest of all"] == pytest.approx(max(expected), abs=1e-5)
    assert values["least γ"] <= max(expected) + 1e-5


def test_counts_of_a_report():
    row = [0.2, 0.1, 0.1, 0.3, 0.1, 0.1]
    result = {
        "features": 3,
        "rows": [[1, *row], [2, *row[:-1], 0.05]],
        "informed": [[1, 0.5, 0.4, 0.5, 0.4, 0.4, 0.5, 0.5]],
    }
    tables = experiment.report({"credit": result}, {}).tables
    (line,) = tables["How often a selection is as good as the best"].to_dict("records")
    assert line["Algorithm 1 as good"] == line["mutual information"] == "0 of 2"
    assert line["forward selection as good"] == line["mRMR"] == "1 of 2"
    assert line["of mutual information"] == "500.0 %"
    title = "How often a selection has the largest I(X_S; Y)"
    (line,) = tables[title].to_dict("records")
    good = [line[each] for each in ("Algorithm 1", "mRMR", "least γ")]
    assert good == ["1 of 1", "0 of 1", "1 of 1"]


def _informed_sentence(text):
    """Return the sentence on the largest information, where the least γ is known."""
    part = text.split("has the largest I(X_S; Y)\n")[1].split("\n## ")[0]
    lines = [line.split("|")[1:-1] for line in part.splitlines() if " of " in line]
    known = [line for line in lines if line[-1].strip() != "-"][-3:]
    counts = [[int(cell.split(" of ")[0]) for cell in line[2:-1]] for line in known]
    path, forward, _, ranked, mrmr = np.sum(counts, axis=0)
    return (
        f"forward selection finds {forward}, mRMR {mrmr}, mutual information {ranked} "
        f"and Algorithm 1 {path}."
    )


def test_the_documentation_has_the_committed_counts():
    folder = Path(experiment.__file__).parent
    text = (folder / "results/best_subset/table.md").read_text(encoding="utf-8")
    lines = [line.split("|")[1:-1] for line in text.splitlines() if "proven" in line]
    counts = [[int(cell.split(" of ")[0]) for cell in line[4:9]] for line in lines]
    path, usual, greedy, ranked, mrmr = np.sum(counts, axis=0)
    page = (folder.parent / "docs/selection.rst").read_text(encoding="utf-8")
    words = " ".join(page.split())
    assert f"finds {usual} of these 30 sets with its small penalty" in words
    assert f"and {greedy} without, Algorithm 1 finds {path}" in words
    assert f"mutual information finds {ranked}, and mRMR {mrmr}." in words
    assert _informed_sentence(text) in words
    words = " ".join(renyi.RenyiSelector.__doc__.split())
    assert f"in {usual} of 30 cases, without that penalty in {greedy}" in words
