"""The classifiers of the comparison: how each is trained and tested.

All see the same rows and the same categories. Parameters are chosen inside the training
rows. The ridge penalty is chosen by leave-one-out, or by generalised cross-validation
if rows far outnumber the categories. The number of selected features is chosen by 5
folds, and the one parameter of each other classifier by 3 folds over a short grid.

A fit fills one or several columns of the table. For each, `error` is the error rate on
the test rows, for a randomised rule its expectation. `bound` is the bound from
training, and `rule` the error rate of the rule that it covers. `rule` differs from
`error` for classifiers that answer deterministically but are bounded as randomised
rules.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from renyi.baselines import (
    DiscreteChebyshevClassifier,
    MinimaxProbabilityMachine,
    TreeAugmentedNaiveBayes,
)
from renyi.counting.onehot import offsets
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.estimators.classifier import RenyiClassifier
from renyi.estimators.minimax import MinimaxClassifier
from renyi.estimators.selector import RenyiSelector

Outcome = dict[str, float | None]
Outcomes = dict[str, Outcome]

FOLDS = 3
# What is chosen by cross-validation. With narrower grids 60 to 99 % of the choices were
# at an end of C, of TAN's smoothing and of DCC's on some data set.
C = (1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)
DCC_SMOOTHING = (0.0, 1.0, 5.0, 20.0, 100.0, 500.0, 2500.0)
GDCC_SMOOTHING = (0.0, 5.0, 100.0, 500.0, 2500.0)
TAN_SMOOTHING = (0.01, 0.1, 1.0, 5.0, 20.0, 100.0, 500.0, 2500.0)
FIVE_BINS = Encoder(bins=5)
REGULARISATION = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0, 100.0)


class Split(NamedTuple):
    """Training and test rows, and the seed of the folds."""

    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame
    y_test: NDArray[Any]
    seed: int


def random_split(
    X: pd.DataFrame, y: pd.Series, share: float, seed: Sequence[int]
) -> Split:
    """Return a random split in which the share of rows trains.

    >>> X, y = pd.DataFrame({"a": range(10)}), pd.Series(["n", "y"] * 5)
    >>> split = random_split(X, y, 0.7, [0, 0])
    >>> len(split.X), len(split.X_test)
    (7, 3)
    """
    random = np.random.default_rng(list(seed))
    order = random.permutation(len(X))
    cut = round(share * len(X))
    first, second = order[:cut], order[cut:]
    folds = int(random.integers(2**31))
    return Split(
        X.iloc[first], y.iloc[first], X.iloc[second], y.iloc[second].to_numpy(), folds
    )


def expected_error(proba: Any, classes: Any, truth: Any) -> float:
    """Error of a rule that answers with these probabilities, in the mean.

    >>> expected_error(np.array([[0.25, 0.75], [1.0, 0.0]]), ["a", "b"], ["b", "b"])
    0.625
    """
    right = np.asarray(truth)[:, None] == np.asarray(classes)[None, :]
    return float(1 - np.where(right, proba, 0.0).sum(axis=1).mean())


def _wrong(clf: Any, split: Split, X: Any = None) -> float:
    answers = clf.predict(split.X_test if X is None else X)
    return float((answers != split.y_test).mean())


def _outcome(
    error: float,
    bound: float | None = None,
    parameter: float | None = None,
    rule: float | None = None,
    features: int | None = None,
) -> Outcome:
    return {
        "error": error,
        "rule": error if rule is None else rule,
        "bound": bound,
        "parameter": parameter,
        "features": features,
    }


# ---- the Rényi classifier


def _renyi(split: Split, order: int, columns: dict[str, str]) -> Outcomes:
    clf = RenyiClassifier(order=order, calibration=None, encoder=FIVE_BINS)
    clf.fit(split.X, split.y)
    return {
        column: _of_rule(clf, split.X_test, split, rule, clf.alpha_)
        for column, rule in columns.items()
    }


def _of_rule(
    clf: Any, X: Any, split: Split, rule: str, parameter: float, n: int | None = None
) -> Outcome:
    error = expected_error(clf.rule_proba(X, rule), clf.classes_, split.y_test)
    bound = clf.certificate_.bounds[rule]
    return _outcome(error, bound, parameter, features=n)


def _first(split: Split) -> Outcomes:
    return _renyi(split, 1, {"δ̃map": "map", "δ̃": "renyi", "δ̃sharp": "sharp"})


def _second(split: Split) -> Outcomes:
    return _renyi(split, 2, {"δ̃map₂": "map", "δ̃₂": "renyi"})


def _selected(split: Split, order: int, columns: dict[str, str]) -> Outcomes:
    selector = RenyiSelector(
        order=order,
        method="path",
        calibration=None,
        random_state=split.seed,
        encoder=FIVE_BINS,
    ).fit(split.X, split.y)
    X = split.X_test.loc[:, selector.get_support()]
    return {
        column: _of_rule(
            selector.classifier_,
            X,
            split,
            rule,
            selector.penalty_,
            len(selector.features_),
        )
        for column, rule in columns.items()
    }


def _first_selected(split: Split) -> Outcomes:
    return _selected(split, 1, {"δ̃map_FS1": "map", "δ̃_FS1": "renyi"})


def _second_selected(split: Split) -> Outcomes:
    return _selected(split, 2, {"δ̃map_FS2": "map", "δ̃_FS2": "renyi"})


# ---- the others


def _tuned(clf: Any, name: str, grid: tuple[float, ...], split: Split) -> Any:
    """Choose a parameter by cross-validated error inside the training rows."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=split.seed)
    search = GridSearchCV(clf, {name: grid}, cv=folds, error_score="raise")
    return search.fit(split.X, split.y)


def _chebyshev(
    split: Split, structure: str, column: str, grid: tuple[float, ...]
) -> Outcomes:
    clf = DiscreteChebyshevClassifier(structure=structure, encoder=FIVE_BINS)
    best = _tuned(clf, "smoothing", grid, split).best_estimator_
    rule = expected_error(best.rule_proba(split.X_test), best.classes_, split.y_test)
    error = _wrong(best, split)
    return {column: _outcome(error, best.guarantee_, best.smoothing, rule)}


def _dcc(split: Split) -> Outcomes:
    return _chebyshev(split, "tree", "DCC", DCC_SMOOTHING)


def _gdcc(split: Split) -> Outcomes:
    return _chebyshev(split, "greedy", "gDCC", GDCC_SMOOTHING)


def _mpm(split: Split) -> Outcomes:
    clf = MinimaxProbabilityMachine(encoder=FIVE_BINS)
    best = _tuned(clf, "regularisation", REGULARISATION, split).best_estimator_
    error = _wrong(best, split)
    return {"MPM": _outcome(error, best.guarantee_, best.regularisation)}


def _tan(split: Split) -> Outcomes:
    clf = TreeAugmentedNaiveBayes(encoder=FIVE_BINS)
    best = _tuned(clf, "smoothing", TAN_SMOOTHING, split).best_estimator_
    return {"TAN": _outcome(_wrong(best, split), parameter=best.smoothing)}


def one_hot(codes: NDArray[Any], sizes: NDArray[Any]) -> Any:
    """Sparse indicators of codes (d, n); an unseen label has none.

    >>> one_hot(np.array([[0, 2], [1, 1]]), np.array([2, 2])).toarray()
    array([[1., 0., 0., 1.],
           [0., 0., 0., 1.]])
    """
    starts = offsets(sizes)
    known = codes < np.asarray(sizes)[:, None]
    feature, row = np.nonzero(known)
    places = starts[feature] + codes[feature, row]
    shape = (codes.shape[1], int(starts[-1]))
    return csr_matrix((np.ones(len(row)), (row, places)), shape=shape)


def _linear_svm(split: Split, encoder: Encoder, column: str) -> Outcomes:
    """Train on the indicators of the columns, or of the encoder's tuples."""
    fitted, codes = encoder.fit_transform(split.X)
    sizes = fitted.columns.sizes
    rows = split._replace(X=one_hot(codes, sizes))
    clf = LinearSVC(max_iter=10_000, random_state=0)
    with warnings.catch_warnings():
        # A large C may not converge; whether it is chosen is up to its errors.
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = _tuned(clf, "C", C, rows).best_estimator_
    later = one_hot(fitted.transform(split.X_test), sizes)
    return {column: _outcome(_wrong(best, split, later), parameter=best.C)}


def _svm(split: Split) -> Outcomes:
    return _linear_svm(split, FIVE_BINS, "SVM")


def _svm_of_pairs(split: Split) -> Outcomes:
    """Train the machine on the pairs of columns of δ̃map₂."""
    return _linear_svm(split, TupleEncoder(bins=5, order=2), "SVM₂")


def _minimax(split: Split) -> Outcomes:
    clf = MinimaxClassifier(method="lp", encoder=FIVE_BINS).fit(split.X, split.y)
    rule = expected_error(clf.rule_proba(split.X_test), clf.classes_, split.y_test)
    return {"minimax": _outcome(_wrong(clf, split), clf.guarantee_, rule=rule)}


def _majority(split: Split) -> Outcomes:
    shares = split.y.value_counts(normalize=True)
    error = float((split.y_test != shares.index[0]).mean())
    return {"majority": _outcome(error, float(1 - shares.iloc[0]))}


FITS: dict[tuple[str, ...], Callable[[Split], Outcomes]] = {
    ("δ̃map", "δ̃", "δ̃sharp"): _first,
    ("δ̃map₂", "δ̃₂"): _second,
    ("δ̃map_FS1", "δ̃_FS1"): _first_selected,
    ("δ̃map_FS2", "δ̃_FS2"): _second_selected,
    ("DCC",): _dcc,
    ("gDCC",): _gdcc,
    ("MPM",): _mpm,
    ("TAN",): _tan,
    ("SVM",): _svm,
    ("SVM₂",): _svm_of_pairs,
    ("minimax",): _minimax,
    ("majority",): _majority,
}
COLUMNS = tuple(column for columns in FITS for column in columns)
OF_PAIRS = tuple(column for column in COLUMNS if column.endswith(("₂", "2")))


def outcomes(split: Split, columns: Sequence[str] = COLUMNS) -> Outcomes:
    """Train every classifier that one of the columns asks for; see what comes of it.

    Parameters
    ----------
    split : Split
        The rows.
    columns : sequence of str
        Columns of the table; all by default.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> found = outcomes(random_split(X, y, 0.7, [0, 0]), ["δ̃map", "majority"])
    >>> found["δ̃map"]["error"] < 0.1 < found["majority"]["error"]
    True
    """
    found: Outcomes = {}
    for names, fit in FITS.items():
        if set(names).isdisjoint(columns):
            continue
        began = time.process_time()
        answers = fit(split)
        seconds = time.process_time() - began
        for name in names:
            if name in columns:
                found[name] = {**answers[name], "seconds": seconds}
    return found
