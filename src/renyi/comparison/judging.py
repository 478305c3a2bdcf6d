r"""Several methods or models on the same rows: errors, log loss, certificates.

**Folds.** Every row is judged once, by a model that was trained on the other folds. The
folds' means are not independent, since their training rows overlap: intervals are those
of the corrected resampled t test (Nadeau and Bengio 2003),

.. math:: \bar d \pm t_{k-1} \sqrt{\left(\frac1k + \frac{1}{k-1}\right) s^2},

s² the variance of the folds' means; they are about the method, trained on so many rows,
and approximate. That of an error is never narrower than Clopper and Pearson's.

**Test rows** that no model has seen. Intervals of errors are Clopper and Pearson's and
hold at any number of rows. The difference of two errors is that of two shares, of the
rows that only one of the two answers wrongly: each has an interval of its own at half
the failure probability. Those of the log loss are of the t distribution, approximate.

**The best.** Each interval holds by itself. Whether a method *may be the best* holds
for all of m methods together (Hsu 1981): with the true best b, all differences
e_i − e_b are at least 0, and at most their one-sided upper bounds at δ/(m − 1)
(Bonferroni). So a method that has such a bound below 0 is not b, at confidence 1 − δ.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy  # its parts are loaded when they are used
from numpy.typing import NDArray

from renyi.certificates.heldout import clopper_pearson, share_interval
from renyi.certification import certify
from renyi.comparison.methods import METHODS, Settings
from renyi.encoding.columns import label_text
from renyi.encoding.rows import take_rows
from renyi.estimators.minimax_classifier import RuleClassifier
from renyi.formatting import at_most, chosen_percent
from renyi.marginals.consistency import has_few_rows
from renyi.progress import Progress, ProgressCallback
from renyi.solvers.metrics import log_losses
from renyi.validation import check_share, check_whole

Floats = NDArray[np.float64]

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

    def texts(
        self, digits: int, unit: float = 1.0, sign: Literal["", "+"] = ""
    ) -> tuple[str, str]:
        """Return the mean and its interval as they are shown.

        >>> Estimate(0.125, 0.1, 0.15).texts(1, 100)
        ('12.5', '10.0 – 15.0')
        """
        value, low, high = (f"{unit * x:{sign}.{digits}f}" for x in self)
        return value, f"{low} – {high}"


@dataclass(frozen=True)
class Compared:
    """What came of one method or model."""

    name: str
    about: str
    error: Estimate | None = None
    log_loss: Estimate | None = None
    difference: Estimate | None = None  # of its error to the least that was seen
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
    rows: int  # judged
    folds: int | None  # None for test rows
    trained: int | None  # rows, where methods were trained
    confidence: float
    seed: int
    entries: tuple[Compared, ...]  # the least error first

    @property
    def judged(self) -> list[Compared]:
        """The entries that have figures."""
        return [entry for entry in self.entries if entry.error is not None]

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""

        def plain(value: Any) -> Any:
            return value._asdict() if isinstance(value, Estimate) else value

        entries = [{k: plain(v) for k, v in vars(e).items()} for e in self.entries]
        return {**vars(self), "entries": entries}


class Answers(NamedTuple):
    """How one method answered every row that is judged."""

    wrong: NDArray[np.bool_]
    loss: Floats | None


class Candidate(NamedTuple):
    """Something to compare: trained on some of the rows, or trained already."""

    name: str
    about: str
    make: Callable[[], Any] | None  # None for a model
    model: Any = None
    X: Any = None  # the rows as the model takes them; methods take those of all
    probabilities: bool = True


def candidates(names: Sequence[str], settings: Settings) -> list[Candidate]:
    """Return methods of these names; an unknown one is an error."""
    found = []
    for name in dict.fromkeys(names):
        if name not in METHODS:
            raise ValueError(f"Unknown method {name!r}: choose from {[*METHODS]}.")
        about, make, sure = METHODS[name]
        make = partial(make, settings)
        found.append(Candidate(name, about, make, probabilities=sure))
    return found


def compare(
    them: Sequence[Candidate],
    X: Any,
    y: Any,
    *,
    target: str,
    folds: int | None = None,
    test: float | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Train and judge on the same rows.

    By `folds`, or on a share `test` of the rows; with neither all rows are test rows,
    of models only.
    """
    check_share("confidence", confidence)
    truth = _texts(y)
    parts = _parts(truth, folds, test, seed)
    judged = np.sort(np.concatenate([rows for _, rows in parts]))
    steps = len(them) * (len(parts) + (folds is not None))
    begun = time.monotonic()
    done = itertools.count()

    def tell(name: str) -> None:
        share = next(done) / steps
        if progress is not None:
            seconds = time.monotonic() - begun
            progress(Progress("comparing", seconds, share, name))

    found: dict[str, Answers] = {}
    entries: dict[str, Compared] = {}
    for each in them:
        one = each if each.make is None else each._replace(X=X)
        try:
            (wrong, loss), model, seconds = _answers(one, y, truth, parts, tell)
            rows = judged if folds is None or one.make is None else None
            promises = _promises(one, model, y, rows, confidence)
            entries[one.name] = Compared(
                one.name, one.about, seconds=seconds, **promises
            )
            loss = None if loss is None else loss[judged]
            found[one.name] = Answers(wrong[judged], loss)
        except _REASONS as error:
            reason = " ".join(str(error).split())
            entries[one.name] = Compared(one.name, one.about, failure=reason)
    if not found:
        raise ValueError(next(iter(entries.values())).failure)
    place = np.empty(len(truth), np.intp)
    for k, (_, rows) in enumerate(parts):
        place[rows] = k
    judge = _Intervals(place[judged], folds, confidence)
    return Comparison(
        target,
        tuple(np.unique(truth).tolist()),
        len(judged),
        folds,
        len(parts[0][0]) or None,
        confidence,
        seed,
        tuple(_with_figures(found, entries, judge)),
    )


def _parts(
    truth: NDArray[Any], folds: int | None, test: float | None, seed: int
) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return training and test rows, one pair or as many as folds, by class."""
    n = len(truth)
    if folds is None and test is None:
        return [(np.empty(0, np.intp), np.arange(n))]
    order = np.random.default_rng(seed).permutation(n)
    order = order[np.argsort(truth[order], kind="stable")]
    if folds is not None:
        check_whole("folds", folds, 2)
        if folds > n // 2:
            most = f"use at most {n // 2}" if n > 3 else "give more rows"
            raise ValueError(f"folds={folds} is too many for {n} rows: {most}.")
        dealt = np.arange(n) % folds
        return [
            (np.sort(order[dealt != k]), np.sort(order[dealt == k]))
            for k in range(folds)
        ]
    check_share("test", test)
    assert test is not None
    # Rows at even distances, so that every class has its share.
    steps = np.floor(np.arange(1, n + 1) * test) > np.floor(np.arange(n) * test)
    if not 2 <= steps.sum() <= n - 2:
        raise ValueError(f"test={test:g} of {n} rows leaves too few to train or judge.")
    return [(np.sort(order[~steps]), np.sort(order[steps]))]


# ---- answers and certificates


def _answers(
    one: Candidate, y: Any, truth: Any, parts: Any, tell: Callable[[str], None]
) -> tuple[Answers, Any, float | None]:
    """Return answers to rows by models not trained on them, the model and its seconds.

    It is the one to use: trained on all rows after folds, else that which was judged.
    """
    wrong = np.zeros(len(truth), bool)
    loss = np.zeros(len(truth))
    model = one.model
    seconds = None
    for train, rows in parts:
        tell(one.name)
        if one.make is not None:
            model = one.make()
            given = (take_rows(one.X, train), take_rows(y, train))
            seconds = _train(model, *given)
        part = take_rows(one.X, rows)
        wrong[rows] = _texts(model.predict(part)) != truth[rows]
        if one.probabilities:
            loss[rows] = _log_loss(model, part, truth[rows])
    if one.make is not None and len(parts) > 1:
        tell(one.name)
        model = one.make()
        seconds = _train(model, one.X, y)
    return Answers(wrong, loss if one.probabilities else None), model, seconds


def _texts(labels: Any) -> NDArray[np.object_]:
    """Return labels as texts; as objects, which keep every character in little room."""
    found = map(label_text, np.asarray(labels, object).tolist())
    return np.array([*found], object)


def _train(model: Any, X: Any, y: Any) -> float:
    """Train a model; return the seconds that it took."""
    begun = time.perf_counter()
    model.fit(X, y)
    if getattr(getattr(model, "result_", None), "interrupted", False):
        raise KeyboardInterrupt  # a search that keeps what it has reached
    return time.perf_counter() - begun


def _log_loss(model: Any, X: Any, truth: NDArray[Any]) -> Floats:
    """Return −log of the probability of each row's class."""
    p = np.asarray(model.predict_proba(X), np.float64)
    texts = [label_text(each) for each in np.asarray(model.classes_).tolist()]
    place = {text: k for k, text in enumerate(texts)}
    own = [
        p[i, place[each]] if each in place else 0.0
        for i, each in enumerate(truth.tolist())
    ]
    return np.asarray(log_losses(own))


def _promises(
    one: Candidate, model: Any, y: Any, rows: Any, confidence: float
) -> dict[str, Any]:
    """Return what is certified of a model: by itself, and by test rows if there are."""
    found = _certified(model, confidence)
    labels = np.asarray(y, object)
    if one.make is None:
        c = certify(model, one.X, labels.tolist(), confidence=confidence)
        if "training-rows" in c.warning_codes:
            found["note"] = SEEN  # which prove nothing of it
            rows = None
    if rows is not None and hasattr(model, "scorecard_") and "population" not in found:
        part = take_rows(one.X, rows)
        c = certify(model, part, labels[rows].tolist(), confidence=confidence)
        found["population"] = c.sampled_error
        found["population_worst"] = c.bounds[c.rule]
    return found


def _certified(model: Any, confidence: float) -> dict[str, Any]:
    """Return what a fitted model promises of the answers of its `predict`.

    What it promises with less confidence than is asked for is not taken.
    """
    c = getattr(model, "certificate_", None)
    if c is not None and c.basis == "marginals":
        return {"worst_case": c.bounds[c.rule], "doubtful": c.doubtful}
    if c is not None and (sure := c.confidence or 0.0) < confidence:
        own = chosen_percent(sure)
        return {"note": f"its own bound holds with confidence {own} only"}
    if c is not None:
        worst = {"population_worst": c.bounds[c.rule]}
        return {"population": c.sampled_error, **worst}
    promise = getattr(model, "guarantee_", None)
    if promise is None:
        return {}
    m = model.marginals_
    doubtful = bool(has_few_rows(m.n, m._n_indicators))
    if not isinstance(model, RuleClassifier):
        return {"worst_case": min(1.0, promise), "doubtful": doubtful}
    note = f"drawn at random, its answers err at most {at_most(promise)}"
    worst_case = min(1.0, 2 * promise)
    return {"worst_case": worst_case, "doubtful": doubtful, "note": note}


# ---- intervals


class _Intervals(NamedTuple):
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
        if np.ptp(means) <= _EQUAL:  # rounding is no spread
            return 0.0, k - 1
        return float(means.std(ddof=1)) * math.sqrt(1 / k + 1 / (k - 1)), k - 1

    def mean(self, values: Floats) -> Estimate:
        """Return a mean with the interval of the t distribution."""
        (spread, df), value = self._spread(values), float(values.mean())
        if spread == 0:  # folds that are all alike tell nothing of others: rows may
            spread, df = self._replace(folds=None)._spread(values)
        wide = spread * float(scipy.special.stdtrit(df, (1 + self.confidence) / 2))
        return Estimate(value, value - wide, value + wide)

    def error(self, wrong: NDArray[np.bool_]) -> Estimate:
        """Return the share of errors."""
        low, high = share_interval(int(wrong.sum()), len(wrong), self.confidence)
        if self.folds is not None:
            _, below, above = self.mean(wrong.astype(np.float64))
            low = min(low, max(0.0, below))
            high = max(high, min(1.0, above))
        return Estimate(float(wrong.mean()), low, high)

    def difference(self, a: NDArray[np.bool_], b: NDArray[np.bool_]) -> Estimate:
        """Return the error of a less that of b, on the same rows."""
        off = a.astype(np.float64) - b
        found = self.mean(off)
        if self.folds is not None and self._spread(off)[0] > 0:
            return found
        n = len(a)
        each = (1 + self.confidence) / 2
        more = share_interval(int((a & ~b).sum()), n, each)
        less = share_interval(int((b & ~a).sum()), n, each)
        return Estimate(found.value, more[0] - less[1], more[1] - less[0])

    def at_most(self, a: NDArray[np.bool_], b: NDArray[np.bool_], sure: float) -> float:
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
    found: dict[str, Answers], entries: dict[str, Compared], judge: _Intervals
) -> list[Compared]:
    """Return the entries with their figures, the least error first."""
    order = sorted(found, key=lambda name: float(found[name].wrong.mean()))
    best = found[order[0]].wrong
    losses = {n: a.loss for n, a in found.items() if a.loss is not None}
    least = min(losses.values(), key=lambda loss: float(loss.mean()), default=None)
    sure = 1 - (1 - judge.confidence) / max(1, len(found) - 1)
    done = []
    for name in order:
        wrong, loss = found[name]
        others = (found[other].wrong for other in order if other != name)
        may = all(judge.at_most(other, wrong, sure) >= 0 for other in others)
        figures: dict[str, Any] = {
            "error": judge.error(wrong),
            "difference": judge.difference(wrong, best) if wrong is not best else None,
            "may_be_best": may,
        }
        if loss is not None:
            mean = judge.mean(loss)
            figures["log_loss"] = mean._replace(low=max(0.0, mean.low))
            if loss is not least and least is not None:
                figures["log_loss_difference"] = judge.mean(loss - least)
        done.append(replace(entries[name], **figures))
    return done + [entry for entry in entries.values() if entry.failure]
