"""MinimaxClassifier: guarantee, regularisation, and manners of an estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from renyi import Encoder, Marginals
from renyi.datasets import load, random_joint
from renyi.estimators.minimax import MinimaxClassifier
from renyi.robust.ambiguity_set import Ambiguity, shortfall
from renyi.robust.minimax_problem import minimax
from renyi.robust.pairwise_program import solve_local
from support.joints import (
    error,
    marginal_constraints,
    minimax_error,
    outcomes,
    worst_case,
)
from support.manners import all_checks

TOL = 1e-6


@pytest.mark.parametrize(
    ("estimator", "check"),
    all_checks(
        [MinimaxClassifier(), MinimaxClassifier(margin=0.2, encoder=Encoder(bins=3))]
    ),
)
def test_estimator_checks(estimator, check) -> None:
    check(estimator)


def test_guarantee_is_the_worst_case_of_the_rule() -> None:
    for seed in range(8):
        K = 2 + seed % 2
        table = random_joint((3, 2, 3), K, random_state=seed)
        codes = outcomes(table.shape).astype(str)
        clf = MinimaxClassifier(method="exact")
        clf.fit(codes[:, :-1], codes[:, -1], sample_weight=table.ravel())
        A, b = marginal_constraints(table)
        X = outcomes(table.shape[:-1]).astype(str)
        assert clf.guarantee_ == pytest.approx(minimax_error(A, b, K), abs=TOL)
        proba = clf.rule_proba(X)
        assert worst_case(proba, A, b) == pytest.approx(clf.guarantee_, abs=TOL)
        picked = np.eye(K)[np.searchsorted(clf.classes_, clf.predict(X))]
        assert worst_case(picked, A, b) <= 2 * clf.guarantee_ + TOL
        np.testing.assert_array_equal(proba, clf.predict_proba(X))


def test_rows_and_marginals_give_the_same_model(votes) -> None:
    X, y = votes
    a = MinimaxClassifier().fit(X, y)
    b = MinimaxClassifier().fit_marginals(Marginals.from_data(X, y))
    assert a.guarantee_ == pytest.approx(19 / 435, abs=1e-8)
    assert a.guarantee_ == pytest.approx(b.guarantee_, abs=1e-12)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))
    assert b.feature_names_in_.tolist() == list(X.columns)
    assert a.result_.method == "lp"
    assert a.marginals_ == b.marginals_
    wrong = a.rule_proba(X)[np.arange(len(y)), (y != "republican").astype(int)]
    assert wrong.mean() <= a.guarantee_ + 1e-9  # the rows are a member of C


def test_few_rows_are_told_first(votes) -> None:
    X, y = votes
    result = minimax(Marginals.from_data(X[:20], y[:20]), method="lp")
    assert result.upper < 1e-6  # with more categories than rows
    assert result.status == "bounded"  # no distribution was exhibited
    lines = str(result).splitlines()
    assert lines[0].startswith("Warning: there are ")
    assert "categories and only 20 rows" in lines[0]
    assert "at most 0.01 % of any population with exactly the tables" in lines[2]
    many = minimax(Marginals.from_data(X, y), method="lp")
    assert many.note == ""
    assert str(many).startswith("minimax error")


def test_few_rows_are_noted(votes) -> None:
    X, y = votes
    assert MinimaxClassifier().fit(X, y).note_ == ""
    for margin in (0.0, 1.0):
        few = MinimaxClassifier(margin=margin).fit(X[:90], y[:90])
        assert "46 categories and only 90 rows" in few.note_
    assert few.fit(X[:100], y[:100]).note_ == ""
    with pytest.raises(ValueError, match="time_limit"):
        MinimaxClassifier(margin=1.0, time_limit=0).fit(X, y)
    with pytest.raises(NotFittedError):
        MinimaxClassifier().note_  # noqa: B018


def test_weights_are_copies(votes) -> None:
    X, y = votes
    weights = np.arange(len(y)) % 3
    a = MinimaxClassifier().fit(X, y, sample_weight=weights)
    b = MinimaxClassifier().fit(X.loc[X.index.repeat(weights)], y.repeat(weights))
    assert a.guarantee_ == pytest.approx(b.guarantee_, abs=1e-9)


def test_class_conditional_pairs_strengthen_the_guarantee(votes) -> None:
    X, y = votes
    loose = MinimaxClassifier().fit(X, y)
    tight = MinimaxClassifier(class_conditional=True).fit(X, y)
    assert tight.guarantee_ < loose.guarantee_ - 1e-3
    wrong = tight.rule_proba(X)[np.arange(len(y)), (y != "republican").astype(int)]
    assert wrong.mean() <= tight.guarantee_ + 1e-9


def noisy_worst_case(proba: np.ndarray, amb: Ambiguity, room: np.ndarray) -> float:
    """Worst error over all distributions with tables within `room` of the given."""
    X = outcomes(amb.sizes)
    A = amb.constraint_matrix(X).toarray()
    answer = linprog(
        -(1 - proba).ravel(),
        A_ub=np.vstack([A, -A]),
        b_ub=np.concatenate([amb.b + room, room - amb.b]),
        A_eq=np.ones((1, A.shape[1])),
        b_eq=[1.0],
        options={"presolve": False},
    )
    return -answer.fun


@pytest.mark.parametrize("seed", range(6))
def test_margin_guarantees_all_marginals_near_by(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = random_joint((2, 3, 2), 2 + seed % 2, random_state=rng)
    rows = rng.choice(table.size, 60, p=table.ravel())
    codes = outcomes(table.shape)[rows].astype(str)
    clf = MinimaxClassifier(margin=1.0).fit(codes[:, :-1], codes[:, -1])
    plain = MinimaxClassifier().fit(codes[:, :-1], codes[:, -1])
    assert clf.result_ is None
    assert clf.guarantee_ > plain.guarantee_
    amb = clf.rule_.ambiguity
    room = np.sqrt(np.maximum(amb.b * (1 - amb.b), 1 / 60) / 60)
    X = outcomes(amb.sizes)
    worst = noisy_worst_case(clf.rule_.of_codes(X.T), amb, room)
    assert worst <= clf.guarantee_ + TOL
    # The plain rule was not made for this.
    other = noisy_worst_case(plain.rule_.of_codes(X.T), amb, room)
    assert worst <= other + 0.05
    assert shortfall(clf.rule_.functions(X.T)) < 1e-8


def noisy_minimax(amb: Ambiguity, room: np.ndarray | float) -> float:
    """Largest Bayes error of any distribution with tables within `room`."""
    X, K = outcomes(amb.sizes), amb.n_classes
    A = amb.constraint_matrix(X).toarray()
    N, cells = len(X), A.shape[1]
    # Variables p, then v(x) ≥ p(x, y) for every y: the error is 1 − Σ v.
    under = np.hstack([np.eye(cells), -np.kron(np.eye(N), np.ones((K, 1)))])
    near = np.hstack([np.vstack([A, -A]), np.zeros((2 * len(A), N))])
    answer = linprog(
        np.concatenate([np.zeros(cells), np.ones(N)]),
        A_ub=np.vstack([under, near]),
        b_ub=np.concatenate([np.zeros(cells), amb.b + room, room - amb.b]),
        A_eq=np.concatenate([np.ones(cells), np.zeros(N)])[None],
        b_eq=[1.0],
        options={"presolve": False},
    )
    return 1 - answer.fun


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 2)])
def test_margin_is_the_minimax_over_all_marginals_near_by(sizes, K, inner) -> None:
    for seed in range(4):
        table = random_joint(sizes, K, random_state=seed)
        table = np.where(table < np.quantile(table, 0.2), 0, table)
        codes = outcomes(table.shape).astype(str)
        m = Marginals.from_data(
            codes[:, :-1],
            codes[:, -1],
            sample_weight=table.ravel(),
            class_conditional=inner,
        )
        amb = Ambiguity.of(m)
        for room in (0.002, 0.03):
            value, exact = solve_local(amb, room).value, noisy_minimax(amb, room)
            assert value >= exact - TOL
            if len(sizes) <= 2:  # the pairs are the whole joint table
                assert value == pytest.approx(exact, abs=TOL)


@pytest.mark.parametrize("seed", range(4))
def test_a_margin_adds_the_penalty_of_the_coefficients(seed: int) -> None:
    table = random_joint((3, 2, 2), 2, random_state=seed)
    codes = outcomes(table.shape).astype(str)
    m = Marginals.from_data(codes[:, :-1], codes[:, -1], sample_weight=table.ravel())
    amb = Ambiguity.of(m)
    found = solve_local(amb, 0.01)
    # One constant may be moved between the functions and the mass, which is 1; the
    # penalty is least where it makes some coefficient zero.
    a, first = found.multiplier, np.arange(len(amb.b)) < amb.starts[1]
    costs = [amb.b @ a + 0.01 * np.abs(a - c * first).sum() for c in (0, *a[first])]
    assert min(costs) == pytest.approx(found.value, abs=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_saddle_point_of_the_classifier(seed: int) -> None:
    """Theory: the rule is best against P*, and P* is worst for the rule."""
    K = 2 + seed % 2
    table = random_joint((3, 2, 2, 2), K, random_state=seed)
    codes = outcomes(table.shape).astype(str)
    clf = MinimaxClassifier(method="exact")
    clf.fit(codes[:, :-1], codes[:, -1], sample_weight=table.ravel())
    A, b = marginal_constraints(table)
    X = outcomes(table.shape[:-1])
    proba = clf.rule_proba(X.astype(str))
    shown = clf.result_.worst_distribution
    worst = np.zeros((len(X), K))
    worst[np.ravel_multi_index(shown.outcomes.T, table.shape[:-1])] = shown.p
    np.testing.assert_allclose(A @ worst.ravel(), b, atol=1e-9)
    # The rule's worst case over all of C is its error under P* ...
    assert error(proba, worst) == pytest.approx(worst_case(proba, A, b), abs=TOL)
    # ... and no rule errs less under P*, the best one answering what is most likely.
    best = worst.max(axis=1)
    assert error(proba, worst) == pytest.approx(1 - best.sum(), abs=TOL)
    assert (proba * (best[:, None] - worst)).max() < TOL


def seen_with(m: Marginals, codes: np.ndarray) -> np.ndarray:
    """Which classes were seen with every known category of each row: (n, K)."""
    good = np.ones((codes.shape[1], len(m.classes)), bool)
    for name, row in zip(m.feature_names, codes, strict=True):
        cells = m.block(name, m.target).to_numpy() > 0
        known = row < len(cells)
        good[known] &= cells[row[known]]
    return good


def test_a_class_never_seen_with_a_category_is_not_answered() -> None:
    """It is never right there; a corner of the program answers it in one of ten."""
    X, y = load("kr-vs-kp")
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:2237], order[2237:]
    clf = MinimaxClassifier().fit(X.iloc[train], y.iloc[train])
    good = seen_with(clf.marginals_, clf.encoder_.transform(X.iloc[test]))
    decided = good.sum(axis=1) == 1
    assert decided.mean() > 0.1
    only = clf.classes_[good[decided].argmax(axis=1)]
    assert (clf.predict(X.iloc[test])[decided] == only).mean() > 0.99


@pytest.mark.parametrize(
    ("name", "margin", "limit"),
    [
        ("votes", 0.0, 5.0),
        pytest.param("votes", 1.0, 4.5, marks=pytest.mark.long),
        pytest.param("credit", 0.0, 14.5, marks=pytest.mark.long),
        pytest.param("kr-vs-kp", 0.0, 8.6, marks=pytest.mark.long),
    ],
)
def test_error_on_new_rows(name: str, margin: float, limit: float) -> None:
    X, y = load(name)
    errors = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = np.split(order, [round(0.7 * len(y))])
        clf = MinimaxClassifier(margin=margin).fit(X.iloc[train], y.iloc[train])
        errors.append(np.mean(clf.predict(X.iloc[test]) != y.iloc[test]))
    assert 100 * np.mean(errors) <= limit


def test_unseen_labels_and_errors(votes) -> None:
    X, y = votes
    clf = MinimaxClassifier().fit(X, y)
    other = X[:5].copy()
    other["crime"] = "abstained"
    assert clf.predict_proba(other).sum(axis=1) == pytest.approx(np.ones(5))
    strict = MinimaxClassifier(encoder=Encoder(unseen="error")).fit(X, y)
    with pytest.raises(ValueError, match="abstained"):
        strict.predict(other)


def test_several_classes_and_numbers() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    X = pd.DataFrame({"a": y + rng.normal(0, 0.4, 300), "b": rng.normal(size=300)})
    clf = MinimaxClassifier().fit(X, y)
    assert (clf.predict(X) == y).mean() >= 1 - 2 * clf.guarantee_
    assert clf.guarantee_ <= minimax(clf.marginals_, "lp").upper + 1e-9
    assert clf.classes_.tolist() == [0, 1, 2]


def test_cross_validation_and_clones(votes) -> None:
    X, y = votes
    clf = clone(MinimaxClassifier(margin=1.0))
    assert cross_val_score(clf, X, y, cv=3).mean() > 0.93


def test_bad_settings_are_refused(votes) -> None:
    X, y = votes
    with pytest.raises(ValueError, match="margin"):
        MinimaxClassifier(margin=-1).fit(X, y)
    with pytest.raises(ValueError, match="margin .* inf"):
        MinimaxClassifier(margin=np.inf).fit(X, y)
    with pytest.raises(ValueError, match="margin .* method"):
        MinimaxClassifier(margin=1, method="exact").fit(X, y)
    with pytest.raises(ValueError, match="method"):
        MinimaxClassifier(method="quick").fit(X, y)
    with pytest.raises(ValueError, match="only one class"):
        MinimaxClassifier().fit(X, ["a"] * len(y))
    with pytest.raises(ValueError, match="No usable column"):
        MinimaxClassifier().fit(X.assign(**dict.fromkeys(X, "n")), y)
    with pytest.raises(ValueError, match="within each class"):
        m = Marginals.from_data(X, y)
        MinimaxClassifier(class_conditional=True).fit_marginals(m)
    with pytest.raises(NotFittedError):
        MinimaxClassifier().guarantee_  # noqa: B018
