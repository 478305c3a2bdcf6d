r"""Evaluate several methods or models on the same rows.

**Folds.** Every row is evaluated once, by a model that was trained on the other folds.
The folds' means are not independent, since their training rows overlap. Intervals are
those of the corrected resampled t test (Nadeau and Bengio 2003),

.. math:: \bar d \pm t_{k-1} \sqrt{\left(\frac1k + \frac{1}{k-1}\right) s^2},

where s² is the variance of the folds' means. They apply to the method, trained on this
number of rows, and are approximate. The interval of an error is never narrower than
Clopper and Pearson's.

**Test rows** that no model has seen. Intervals of errors are Clopper and Pearson's and
hold at any number of rows. The difference of two errors is the difference of two
shares: rows on which only the one or only the other is wrong. Each share has an
interval at half the failure probability. Intervals of the log loss use the t
distribution and are approximate.

**The best.** Each interval holds by itself. The statement that a method *may be the
best* holds for all m methods together (Hsu 1981). Let b be the true best. All
differences e_i − e_b are at least 0, and at most their one-sided upper bounds at
δ/(m − 1) (Bonferroni). So a method with such a bound below 0 is not b, at confidence
1 − δ.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy  # its parts are loaded when they are used
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from renyi.certificates.error_table import error_table
from renyi.certificates.heldout import clopper_pearson, share_interval
from renyi.certificates.record import Certificate
from renyi.certification import certify
from renyi.cli.messages import with_options
from renyi.cli.methods import Classifier, Method, Rows
from renyi.encoding.arrow import without_views
from renyi.encoding.columns import label_text
from renyi.encoding.rows import has_few_rows, take_rows
from renyi.estimators.minimax import RuleClassifier
from renyi.formatting import at_most
from renyi.marginals.consistency import n_indicators
from renyi.progress import Progress, ProgressCallback
from renyi.solvers.metrics import log_losses
from renyi.validation import InputError, check_share, check_whole

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]  # training rows, test rows

_EQUAL = 1e-12  # means that differ by less are the same
SEEN = (
    "these rows have the counts of its training rows: if they are the same rows, its "
    "figures here are not valid"
)
# What a method may be unable to do: too many classes, an extra that is missing.
_REASONS = (ValueError, TypeError, ImportError, MemoryError, NotImplementedError)


class Estimate(NamedTuple):
    """A mean over rows, and its interval."""

    value: float
    low: float
    high: float

    def texts(self, digits: int, unit: float = 1.0, sign: str = "") -> tuple[str, str]:
        """Return the mean and its interval as they are shown.

        >>> Estimate(0.125, 0.1, 0.15).texts(1, 100)
        ('12.5', '10.0 – 15.0')
        """
        value, low, high = (f"{unit * x:{sign}.{digits}f}" for x in self)
        return value, f"{low} – {high}"

    def shown(self, digits: int, unit: float = 1.0, end: str = "") -> str:
        """Return both in one text, the interval in parentheses."""
        value, interval = self.texts(digits, unit)
        return f"{value}{end} ({interval})"


@dataclass(frozen=True)
class Evaluation:
    """What is known of one method or model."""

    name: str
    about: str
    error: Estimate | None = None
    log_loss: Estimate | None = None
    difference: Estimate | None = None  # of its error to the least observed
    log_loss_difference: Estimate | None = None  # likewise
    may_be_best: bool = False
    worst_case: float | None = None  # with the marginals of its training rows
    doubtful: bool = False  # whether that says little about new rows
    population: float | None = None  # error on the population at most, by unseen rows
    population_worst: float | None = None  # on every population with its pairs
    seconds: float | None = None  # to train
    note: str = ""
    failure: str = ""  # why there is nothing else


@dataclass(frozen=True)
class Comparison:
    """Several methods or models on the same rows."""

    target: str
    classes: tuple[str, ...]
    rows: int  # evaluated
    folds: int | None  # None if there are models only
    confidence: float
    seed: int
    always: str  # the most frequent class
    baseline: float  # error of always answering it
    entries: tuple[Evaluation, ...]  # the least error first

    @property
    def evaluated(self) -> list[Evaluation]:
        """The entries that have figures."""
        return [entry for entry in self.entries if entry.error is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""

        def plain(value: object) -> object:
            return value._asdict() if isinstance(value, Estimate) else value

        entries = [{k: plain(v) for k, v in vars(e).items()} for e in self.entries]
        return {**vars(self), "entries": entries}


class Answers(NamedTuple):
    """Whether each evaluated row was answered wrongly, and its log loss."""

    wrong: Flags
    loss: Floats | None


def compare(
    them: Sequence[Method],
    X: Rows,
    y: ArrayLike,
    *,
    target: str,
    folds: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Train and evaluate on the same rows.

    By `folds`; without, all rows are test rows, of models only.
    """
    check_share("confidence", confidence)
    truth = _texts(y)
    splits = _splits(truth, folds, seed)
    begun = time.monotonic()
    if isinstance(X, pa.Table):
        X = without_views(X)
    answers: dict[str, Answers] = {}
    entries: dict[str, Evaluation] = {}
    for k, method in enumerate(them):
        if progress is not None:
            seconds = time.monotonic() - begun
            progress(Progress("comparing", seconds, k / len(them), method.name))
        if not method.trained:
            method = method._replace(X=X)
        try:
            result = _evaluated(method, y, truth, splits)
            bounds = _bounds(method, result.model, y, confidence)
            entries[method.name] = Evaluation(
                method.name, method.about, seconds=result.seconds, **bounds
            )
            answers[method.name] = result.answers
        except _REASONS as error:
            reason = " ".join(with_options(error).split())
            entries[method.name] = Evaluation(method.name, method.about, failure=reason)
    if not answers:
        raise ValueError(next(iter(entries.values())).failure)
    place = np.empty(len(truth), np.intp)
    for k, (_, rows) in enumerate(splits):
        place[rows] = k
    intervals = Intervals(place, folds, confidence)
    labels, counts = np.unique(truth, return_counts=True)
    return Comparison(
        target=target,
        classes=tuple(labels.tolist()),
        rows=len(truth),
        folds=folds,
        confidence=confidence,
        seed=seed,
        always=str(labels[counts.argmax()]),
        baseline=float(1 - counts.max() / len(truth)),
        entries=tuple(_with_figures(answers, entries, intervals)),
    )


def _splits(truth: NDArray[Any], folds: int | None, seed: int) -> list[Split]:
    """Return training and test rows, one pair or as many as folds, by class."""
    n = len(truth)
    if folds is None:
        return [(np.empty(0, np.intp), np.arange(n))]
    order = np.random.default_rng(seed).permutation(n)
    order = order[np.argsort(truth[order], kind="stable")]
    check_whole("folds", folds, 2)
    if folds > n // 2:
        most = f"use at most {n // 2}" if n > 3 else "give more rows"
        raise InputError(f"{{folds}} is too many for {n} rows: {most}.", folds=folds)
    dealt = np.arange(n) % folds
    return [
        (np.sort(order[dealt != k]), np.sort(order[dealt == k])) for k in range(folds)
    ]


# ---- answers and bounds


class _Result(NamedTuple):
    """The answers to every row, and the model to use with its seconds."""

    answers: Answers
    model: Classifier
    seconds: float | None


def _evaluated(
    method: Method, y: ArrayLike, truth: NDArray[np.object_], splits: Sequence[Split]
) -> _Result:
    """Answer rows by models that were not trained on them.

    The model to use is trained on all rows after folds.
    """
    tests = [rows for _, rows in splits]
    if method.trained:
        models = [method.estimator] * len(splits)
        answers = _answers(method, models, tests, truth)
        return _Result(answers, method.estimator, None)
    results = cross_validate(
        method.estimator,
        method.X,
        y,
        cv=splits,
        scoring=_after_fit,
        return_estimator=True,
        return_indices=True,
        error_score="raise",
    )
    models = results["estimator"]
    answers = _answers(method, models, results["indices"]["test"], truth)
    model = clone(method.estimator)
    begun = time.perf_counter()
    model.fit(method.X, y)
    _check_finished(model)
    return _Result(answers, model, time.perf_counter() - begun)


def _answers(
    method: Method,
    models: Sequence[Classifier],
    tests: Sequence[NDArray[np.intp]],
    truth: NDArray[np.object_],
) -> Answers:
    """Return the errors and the log loss of every row that some model has not seen."""
    wrong = np.zeros(len(truth), bool)
    loss = np.zeros(len(truth))
    for model, rows in zip(models, tests, strict=True):
        part = take_rows(method.X, rows)
        wrong[rows] = _texts(model.predict(part)) != truth[rows]
        if method.probabilities:
            loss[rows] = _log_loss(model, part, truth[rows])
    return Answers(wrong, loss if method.probabilities else None)


def _texts(labels: ArrayLike) -> NDArray[np.object_]:
    """Return labels as texts; as objects, which keep every character in little room."""
    texts = [label_text(label) for label in np.asarray(labels, object).tolist()]
    return np.array(texts, object)


def _check_finished(model: Classifier) -> None:
    """Pass an interrupt on: a search may keep what it has reached by then."""
    if getattr(getattr(model, "result_", None), "interrupted", False):
        raise KeyboardInterrupt


def _after_fit(model: Classifier, X: Rows, y: ArrayLike) -> float:
    """Score nothing, since errors are counted row by row; pass an interrupt on."""
    _check_finished(model)
    return 0.0


def _log_loss(model: Classifier, X: Rows, truth: NDArray[np.object_]) -> Floats:
    """Return −log of the probability of each row's class."""
    p = np.asarray(model.predict_proba(X), np.float64)
    texts = [label_text(each) for each in np.asarray(model.classes_).tolist()]
    place = {text: k for k, text in enumerate(texts)}
    own = [
        p[i, place[each]] if each in place else 0.0
        for i, each in enumerate(truth.tolist())
    ]
    return np.asarray(log_losses(own))


def _bounds(
    method: Method, model: Classifier, y: ArrayLike, confidence: float
) -> dict[str, Any]:
    """Return the bounds on a model's error: by its certificate, or by unseen rows.

    A model that was trained before is evaluated by these rows only.
    """
    if not method.trained:
        return _own_bounds(model)
    labels = np.asarray(y, object).tolist()
    c = certify(model, method.X, labels, confidence=confidence)
    if "training-rows" in c.warning_codes:
        return {"note": SEEN}  # rows that it has seen show nothing of it
    return {"note": _unknown_classes(c), **_of_certificate(c)}


def _unknown_classes(c: Certificate) -> str:
    """Return how many rows have classes that a model does not know, if any."""
    noted = zip(c.warning_codes, c.warnings, strict=True)
    texts = [text for code, text in noted if code == "unknown-class"]
    return texts[0].removesuffix(".") if texts else ""


def _of_certificate(c: Certificate) -> dict[str, Any]:
    """Return the bounds of a certificate, from its error table."""
    table = error_table(c)
    guarantees = [row for row in table.of_kind("guarantee") if row.about == c.rule]
    if table.bound is not None:
        worst = guarantees[0].high if guarantees else None
        return {"population": table.bound.high, "population_worst": worst}
    if not guarantees:  # of every order
        return {}
    least = min(row.high for row in guarantees if row.high is not None)
    return {"worst_case": least, "doubtful": c.doubtful}


def _own_bounds(model: Classifier) -> dict[str, Any]:
    """Return what a fitted model guarantees of the answers of its `predict`."""
    c: Certificate | None = getattr(model, "certificate_", None)
    if c is not None:
        return _of_certificate(c)
    guarantee = getattr(model, "guarantee_", None)
    if guarantee is None:
        return {}
    m = getattr(model, "marginals_", None)
    assert m is not None  # every model with a guarantee has them
    doubtful = bool(has_few_rows(m.n, n_indicators(m)))
    notes = []
    if m.class_counts is not None:
        notes.append("its guarantee is for the pair counts within each class")
    if isinstance(model, RuleClassifier):
        notes.append(
            f"answering at random, it is wrong on at most {at_most(guarantee)}"
        )
        guarantee = 2 * guarantee
    bounds = {"worst_case": min(1.0, guarantee), "doubtful": doubtful}
    return bounds | {"note": "; ".join(notes)}


# ---- intervals


class Intervals(NamedTuple):
    """Intervals of means over rows, by folds or by test rows."""

    place: NDArray[np.intp]  # the fold of each row
    folds: int | None
    confidence: float

    def _spread(self, values: Floats) -> tuple[float, int]:
        """Return the standard error of a mean, and its degrees of freedom."""
        if self.folds is None:
            n = len(values)
            return float(values.std(ddof=1)) / math.sqrt(n), n - 1
        k = self.folds
        sizes = np.bincount(self.place, minlength=self.folds)
        means = np.bincount(self.place, values, k) / sizes
        if np.ptp(means) <= _EQUAL:  # only rounding
            return 0.0, k - 1
        return float(means.std(ddof=1)) * math.sqrt(1 / k + 1 / (k - 1)), k - 1

    def mean(self, values: Floats) -> Estimate:
        """Return a mean with the interval of the t distribution."""
        spread, df = self._spread(values)
        value = float(values.mean())
        if spread == 0:  # all folds are equal: use the rows
            spread, df = self._replace(folds=None)._spread(values)
        wide = spread * float(scipy.special.stdtrit(df, (1 + self.confidence) / 2))
        return Estimate(value, value - wide, value + wide)

    def error(self, wrong: Flags) -> Estimate:
        """Return the share of errors."""
        low, high = share_interval(int(wrong.sum()), len(wrong), self.confidence)
        if self.folds is not None:
            _, below, above = self.mean(wrong.astype(np.float64))
            low = min(low, max(0.0, below))
            high = max(high, min(1.0, above))
        return Estimate(float(wrong.mean()), low, high)

    def difference(self, a: Flags, b: Flags) -> Estimate:
        """Return the error of a less that of b, on the same rows."""
        off = a.astype(np.float64) - b
        mean = self.mean(off)
        if self.folds is not None and self._spread(off)[0] > 0:
            return mean
        n = len(a)
        each = (1 + self.confidence) / 2
        more = share_interval(int((a & ~b).sum()), n, each)
        less = share_interval(int((b & ~a).sum()), n, each)
        return Estimate(mean.value, more[0] - less[1], more[1] - less[0])

    def at_most(self, a: Flags, b: Flags, sure: float) -> float:
        """Return an upper bound on the error of a less that of b."""
        off = a.astype(np.float64) - b
        spread, df = self._spread(off)
        if self.folds is not None and spread > 0:
            return float(off.mean() + spread * scipy.special.stdtrit(df, sure))
        n = len(a)
        each = (1 + sure) / 2
        less = int((b & ~a).sum())
        low = 1 - clopper_pearson(n - less, n, each)
        return clopper_pearson(int((a & ~b).sum()), n, each) - low


def _with_figures(
    answers: dict[str, Answers], entries: dict[str, Evaluation], intervals: Intervals
) -> list[Evaluation]:
    """Return the entries with their figures, the least error first."""
    order = sorted(answers, key=lambda name: float(answers[name].wrong.mean()))
    best = answers[order[0]].wrong
    losses = [each.loss for each in answers.values() if each.loss is not None]
    least = min(losses, key=lambda loss: float(loss.mean()), default=None)
    sure = 1 - (1 - intervals.confidence) / max(1, len(answers) - 1)
    done = []
    for name in order:
        wrong, loss = answers[name]
        others = (answers[other].wrong for other in order if other != name)
        may = all(intervals.at_most(other, wrong, sure) >= 0 for other in others)
        figures: dict[str, Any] = {
            "error": intervals.error(wrong),
            "difference": None,
            "may_be_best": may,
        }
        if wrong is not best:
            figures["difference"] = intervals.difference(wrong, best)
        if loss is not None:
            mean = intervals.mean(loss)
            figures["log_loss"] = mean._replace(low=max(0.0, mean.low))
            if loss is not least and least is not None:
                figures["log_loss_difference"] = intervals.mean(loss - least)
        done.append(replace(entries[name], **figures))
    return done + [entry for entry in entries.values() if entry.failure]
