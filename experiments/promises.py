"""Methods with bounds: what each says about a rule that it trained, and where.

Every method sees the same sample. Methods with held-out rows train on its first half
and evaluate on the second; cross-fitting draws its own halves. Each method returns a
rule and a bound on its error, or sets of classes and the share of rows that they may
miss.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from experiments.populations import OFTEN, PREVALENCE, RARE, SAME, WORST, Population
from renyi import CrossFitClassifier, Marginals, RenyiClassifier, certify
from renyi.certificates.heldout import clopper_pearson

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

CONFIDENCE = 0.95
RENYI, MAPIE, CREPES, MRCPY = "renyi", "mapie", "crepes", "MRCpy"
PACKAGES = (RENYI, MAPIE, CREPES, MRCPY)
_THRESHOLDS = np.linspace(0.1, 0.9, 9)
_HALVINGS = 12  # of the interval in which the least accuracy granted is searched


class Promise(NamedTuple):
    """The bound that a method gives, and in which settings."""

    package: str
    text: str
    kept_on: tuple[str, ...] = ()
    how: str = "yes"
    sets: bool = False


PROMISES = {
    "cross-fit mixture, map": Promise(
        RENYI, "error on the sampled population", (SAME,)
    ),
    "cross-fit average, map": Promise(
        RENYI, "error on the sampled population", (SAME,)
    ),
    "cross-fit average, map, 4γ": Promise(
        RENYI,
        "error on every population with the pairs of the sampled one",
        (SAME, WORST),
    ),
    "cross-fit average, sharp, 2γ": Promise(
        RENYI,
        "error on every population with the pairs of the sampled one",
        (SAME, WORST),
    ),
    "held-out, map": Promise(RENYI, "error on the sampled population", (SAME,)),
    "held-out, map, 4γ": Promise(
        RENYI,
        "error on every population with the pairs of the sampled one",
        (SAME, WORST),
    ),
    "held-out, sharp, 2γ": Promise(
        RENYI,
        "error on every population with the pairs of the sampled one",
        (SAME, WORST),
    ),
    "in-sample, map": Promise(
        RENYI,
        "error on every population with the pairs of the sample, which the "
        "sampled one does not have; at a prevalence, with the pairs within its classes",
    ),
    "in-sample, sharp, 2γ": Promise(
        RENYI,
        "error on every population with the pairs of the sample, which the "
        "sampled one does not have",
    ),
    "logistic regression, Clopper–Pearson": Promise(
        RENYI, "error on the sampled population", (SAME,)
    ),
    "logistic regression, Clopper–Pearson by class": Promise(
        RENYI, "error within each class, hence at any prevalence", (SAME, RARE, OFTEN)
    ),
    "MAPIE, risk control": Promise(
        MAPIE, "accuracy on the sampled population at the threshold granted", (SAME,)
    ),
    "MRCpy, s = 0.3": Promise(
        MRCPY,
        "error on every distribution whose means of features are within s "
        "standard errors of the sample's; no confidence is claimed for the default s",
    ),
    "MRCpy, s for 95 %": Promise(
        MRCPY,
        "the same, s from normal quantiles, so that all means are within with "
        "95 % as n grows",
        (SAME, WORST),
        "as n grows",
    ),
    "crepes": Promise(
        CREPES,
        "share of classes outside their set, on average over samples and new rows",
        (SAME,),
        "on average",
        True,
    ),
    "crepes by class": Promise(
        CREPES,
        "the same within each class, hence at any prevalence",
        (SAME, RARE, OFTEN),
        "on average",
        True,
    ),
}


class Claim(NamedTuple):
    """A bound, one for all settings or one for each, and the losses it is about."""

    bound: float | Mapping[str, float]
    loss: Floats  # (rows of the population, 2)
    size: Floats | None = None  # classes in the set of each row


class Sample(NamedTuple):
    """Rows drawn from a population, and the number of their sample."""

    population: Population
    rows: Places
    y: Places
    seed: int

    @property
    def halves(self) -> tuple[tuple[Places, Places], tuple[Places, Places]]:
        """Return rows and classes to train on, and those to evaluate on."""
        half = len(self.y) // 2
        first, second = slice(half), slice(half, None)
        return (self.rows[first], self.y[first]), (self.rows[second], self.y[second])


def installed() -> list[str]:
    """Return the packages that can be used here."""
    return [name for name in PACKAGES if find_spec(name) is not None]


def claims(package: str, sample: Sample) -> dict[str, Claim]:
    """Return the bounds of a package's methods from a sample."""
    return dict(_METHODS[package](sample))


def _renyi(sample: Sample) -> Iterator[tuple[str, Claim]]:
    yield from _crossfit(sample)
    yield from _heldout(sample)
    yield from _in_sample(sample)
    yield from _logistic(sample)


def _crossfit(sample: Sample) -> Iterator[tuple[str, Claim]]:
    codes = sample.population.codes
    X = codes[sample.rows]
    mixture = CrossFitClassifier(method="mixture", random_state=sample.seed)
    found: Any = mixture.fit(X, sample.y).certificate_
    yield "cross-fit mixture, map", Claim(found.sampled_error, _loss(mixture, codes))
    safe = CrossFitClassifier(random_state=sample.seed).fit(X, sample.y)
    found = safe.certificate_
    by_map = _loss(safe, codes)
    by_sharp = _loss(safe, codes, "sharp")
    yield "cross-fit average, map", Claim(found.sampled_error, by_map)
    yield "cross-fit average, map, 4γ", Claim(found.bounds["map"], by_map)
    yield "cross-fit average, sharp, 2γ", Claim(found.bounds["sharp"], by_sharp)


def _heldout(sample: Sample) -> Iterator[tuple[str, Claim]]:
    (rows, y), (others, truth) = sample.halves
    codes = sample.population.codes
    clf = RenyiClassifier().fit(codes[rows], y)
    found: Any = certify(clf, codes[others], truth, confidence=CONFIDENCE)
    by_map = _loss(clf, codes)
    by_sharp = _loss(clf, codes, "sharp")
    yield "held-out, map", Claim(found.sampled_error, by_map)
    yield "held-out, map, 4γ", Claim(found.bounds["map"], by_map)
    yield "held-out, sharp, 2γ", Claim(found.bounds["sharp"], by_sharp)


def _in_sample(sample: Sample) -> Iterator[tuple[str, Claim]]:
    codes = sample.population.codes
    X, y = codes[sample.rows], sample.y
    clf = RenyiClassifier().fit(X, y)
    found = clf.certificate_
    within: Any = certify(clf, Marginals.from_data(X, y, class_conditional=True))
    bounds = dict.fromkeys((SAME, WORST), found.bounds["map"])
    bounds |= {name: within.error_at(share) for name, share in PREVALENCE.items()}
    yield "in-sample, map", Claim(bounds, _loss(clf, codes))
    by_sharp = _loss(clf, codes, "sharp")
    yield "in-sample, sharp, 2γ", Claim(found.bounds["sharp"], by_sharp)


def _loss(model: Any, codes: Places, rule: str = "map") -> Floats:
    """Return how often the answers to each row are not each class."""
    return 1 - np.asarray(model.rule_proba(codes, rule))


# ---- logistic regression, and what its held-out rows say


def _trained(sample: Sample) -> LogisticRegression:
    (rows, y), _ = sample.halves
    clf = LogisticRegression(solver="newton-cholesky")
    return clf.fit(sample.population.onehot[rows], y)


def _logistic(sample: Sample) -> Iterator[tuple[str, Claim]]:
    answers = _trained(sample).predict(sample.population.onehot)
    loss = 1 - np.eye(2)[answers]
    _, (rows, y) = sample.halves
    wrong = answers[rows] != y
    name = "logistic regression, Clopper–Pearson"
    yield name, Claim(clopper_pearson(int(wrong.sum()), len(y), CONFIDENCE), loss)
    each = 1 - (1 - CONFIDENCE) / 2
    parts = [wrong[y == k] for k in (0, 1)]
    upper = [clopper_pearson(int(part.sum()), len(part), each) for part in parts]
    bounds = dict.fromkeys((SAME, WORST), max(upper))  # whatever the prevalence is
    for setting, share in PREVALENCE.items():
        bounds[setting] = (1 - share) * upper[0] + share * upper[1]
    yield f"{name} by class", Claim(bounds, loss)


def _mapie(sample: Sample) -> Iterator[tuple[str, Claim]]:
    """Return the largest accuracy that MAPIE grants to one of nine thresholds.

    With Bonferroni's correction all bounds hold together, whatever target is asked for.
    """
    from mapie.risk_control import BinaryClassificationController

    proba = _trained(sample).predict_proba(sample.population.onehot)
    _, (rows, y) = sample.halves
    low, high, threshold = 0.0, 1.0, 0.5  # no accuracy at all is always granted
    for _ in range(_HALVINGS):
        target = (low + high) / 2
        controller = BinaryClassificationController(
            lambda places: proba[places],
            "accuracy",
            target_level=target,
            confidence_level=CONFIDENCE,
            list_predict_params=_THRESHOLDS,
            fwer_method="bonferroni",
        )
        with warnings.catch_warnings(action="ignore"):  # that none or all are granted
            controller.calibrate(rows, y)
        if len(controller.valid_predict_params):
            low, threshold = target, float(controller.best_predict_param)
        else:
            high = target
    answers = (proba[:, 1] >= threshold).astype(np.intp)
    yield "MAPIE, risk control", Claim(1 - low, 1 - np.eye(2)[answers])


def _crepes(sample: Sample) -> Iterator[tuple[str, Claim]]:
    from crepes import WrapClassifier

    W, clf = sample.population.onehot, _trained(sample)
    _, (rows, y) = sample.halves
    for name, by_class in (("crepes", False), ("crepes by class", True)):
        conformal = WrapClassifier(clf)
        conformal.calibrate(W[rows], y, class_cond=by_class, seed=sample.seed)
        inside = conformal.predict_set(W, labels=False, confidence=CONFIDENCE)
        yield name, Claim(1 - CONFIDENCE, 1.0 - inside, inside.sum(axis=1))


def _mrcpy(sample: Sample) -> Iterator[tuple[str, Claim]]:
    """Return the minimax risk classifiers of E[φ(X) Y], φ the one-hot columns.

    Where all outcomes are listed, the bound is one over all of them, else over the rows
    of the sample.
    """
    from MRCpy import MRC
    from MRCpy.phi import BasePhi
    from scipy.special import ndtri
    from sklearn.base import BaseEstimator

    class Phi(BasePhi, BaseEstimator):
        """Their linear map, which today's scikit-learn takes for an estimator."""

    population = sample.population
    W, y = population.onehot[sample.rows], sample.y
    means = W.shape[1] + 1
    quantile = float(ndtri(1 - (1 - CONFIDENCE) / (2 * means)))
    for name, s in (("s = 0.3", 0.3), ("s for 95 %", quantile)):
        clf = MRC(
            s=s, solver="cvx", deterministic=False, random_state=0, phi=Phi(n_classes=2)
        )
        clf.cvx_solvers = ["CLARABEL"]
        listed = population.joint is not None
        clf.fit(W, y, population.onehot if listed else np.unique(W, axis=0))
        upper = min(1.0, max(0.0, float(clf.get_upper_bound())))
        loss = 1 - clf.predict_proba(population.onehot)
        yield f"MRCpy, {name}", Claim(upper, np.asarray(loss))


_METHODS = {RENYI: _renyi, MAPIE: _mapie, CREPES: _crepes, MRCPY: _mrcpy}
