"""The ladder: bounds on an error from the cheap to the exact, side by side.

Of a given model, over every distribution with some marginals (the set C):

* the closed form of its rule, from pairs of columns;
* the class-conditional bound, where pairs were counted within each class;
* a linear program of polynomial size;
* the exact worst case, by cutting planes.

Each is proven, and the last, once solved, is the least. Beside them stands what *any*
rule could promise: always the most frequent class, the best single feature, the rule of
the polynomial program, and the minimax error e*. An upper end is proven; a lower end is
the error under a distribution in C that was exhibited. So no rule can promise much more
than a model whose upper end is near the lower end of e*, without other columns or other
counts; where they are far apart, `renyi.MinimaxClassifier` promises more.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from renyi.certificates.record import EXACT
from renyi.certificates.score_moments import best_feature
from renyi.certification import Certificate, certify
from renyi.encoding.frame_columns import label_text
from renyi.figures import table, verdict, wrapped
from renyi.marginals.marginals import Marginals
from renyi.robust.cutting_planes import Progress
from renyi.robust.minimax_problem import minimax

LEVELS = ("lp", "exact")
MINIMAX = "minimax error e*"
PROGRAM = "linear program"

_SHORTEST = 0.1  # seconds, when there is no time left

Report = Callable[[str, Progress | None], None]


@dataclass(frozen=True)
class Rung:
    """One bound of a ladder.

    Parameters
    ----------
    name : str
        What was done.
    upper : float
        The proven bound.
    lower : float or None
        What a distribution that was exhibited shows; None if there is none.
    seconds : float
        Time it took.
    status : str
        "bounded": the method has no more to say; "solved": the interval is closed;
        "stopped": by the time limit or Ctrl-C.

    Examples
    --------
    >>> Rung("exact worst case", 0.0858, 0.0857, 72.0, "stopped").status
    'stopped'
    """

    name: str
    upper: float
    lower: float | None
    seconds: float
    status: str


@dataclass(frozen=True, eq=False)
class Ladder:
    """Bounds on the worst error of a model, and on what any rule could promise.

    Parameters
    ----------
    certificate : Certificate
        The certificate of the model, with the best of the bounds.
    model : tuple of Rung
        Bounds of this model's rule, from the cheap to the exact.
    any_rule : tuple of Rung
        What any rule that looks at the same columns could promise.
    all_columns : bool
        Whether the model uses every column of the marginals; if not, others might
        promise more by the columns it leaves out.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> few = X[["physician-fee-freeze", "immigration", "crime"]]
    >>> clf = renyi.RenyiClassifier(rule="sharp").fit(few, y)
    >>> print(climb(clf, clf.marginals_).sentence)
    This model errs at most 4.63 % on any population with these marginals; no model can
    promise less than 4.36 %. The best possible promise is 4.3678 %.
    """

    certificate: Certificate
    model: tuple[Rung, ...]
    any_rule: tuple[Rung, ...]
    all_columns: bool = True

    @property
    def upper(self) -> float:
        """Smallest proven bound on the worst error of the model."""
        return min(rung.upper for rung in self.model)

    @property
    def lower(self) -> float:
        """Largest error that no rule can promise to stay below; 0 if none is known."""
        return max((rung.lower or 0.0 for rung in self.any_rule), default=0.0)

    @property
    def promise(self) -> float:
        """Smallest error that some rule is known to promise."""
        return min(rung.upper for rung in (*self.any_rule, *self.model))

    @property
    def sentence(self) -> str:
        """What it comes to, in a sentence."""
        subject = "this model"
        if self.certificate.doubtful:
            where = f"the very marginals of these {self.certificate.n:,.10g} rows"
        else:
            where = "these marginals"
        whose = "no model" if self.all_columns else "no model of the same columns"
        return verdict(subject, where, self.upper, self.lower, self.promise, whose)

    def __str__(self) -> str:
        """Return the ladder as a table, with what it rests on and comes to."""
        c = self.certificate
        if c.doubtful:
            head = [*_doubts(c), "", "Of these very rows alone:"]
        else:
            size = f"({c.n:,.10g} rows, {c.n_indicators:,} categories)"
            head = [f"On every population with these marginals {size}:"]
        notes = () if c.doubtful else c.warnings
        return "\n".join(
            [
                *head,
                "",
                *table(f"Worst error of this model (rule {c.rule})", self.model),
                "",
                *table("What any rule could promise", self.any_rule),
                "",
                wrapped(self.sentence),
                *(wrapped(f"Note: {text}") for text in notes),
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {
            "sentence": self.sentence,
            "doubtful": self.certificate.doubtful,
            "upper": self.upper,
            "lower": self.lower or None,
            "promise": self.promise,
            "model": [asdict(rung) for rung in self.model],
            "any_rule": [asdict(rung) for rung in self.any_rule],
            "certificate": self.certificate.to_dict(),
        }


def climb(
    model: Any,
    m: Marginals,
    *,
    level: str = "exact",
    time_limit: float | None = None,
    progress: Report | None = None,
) -> Ladder:
    """Bound the worst error of a model, and what any rule could promise.

    Parameters
    ----------
    model : RenyiClassifier or Scorecard
        Any scorecard will do.
    m : Marginals
        Of the training rows or of any others, as in `renyi.certify`.
    level : {"lp", "exact"}, default="exact"
        Where to stop: after the linear programs, or with the exact values.
    time_limit : float, optional
        Seconds for all of it. Half of what the cheap bounds leave is for e*; the worst
        case of the model gets the rest, and what e* did not need. Ctrl-C ends the
        search under way and keeps what it reached.
    progress : callable, optional
        Called with the name of a step, and None when it begins or a `Progress` after
        each round.

    Returns
    -------
    Ladder

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X[["crime", "immigration"]], y)
    >>> found = climb(clf, clf.marginals_)
    >>> [rung.name for rung in found.model]
    ['closed form', 'linear program', 'exact worst case']
    """
    if level not in LEVELS:
        raise ValueError(f"level must be 'lp' or 'exact', not {level!r}.")
    left = _clock(time_limit)
    report = progress or _silent
    closed = certify(model, m)
    card = getattr(model, "scorecard_", model)
    every, m = m, card.match(m).marginals
    rungs = simple_rules(m)
    report(PROGRAM, None)
    rungs.append(_promised(m, "lp", left(3), None))
    certificate = _certified(model, m, closed, "lp", left(3), None)
    if level == "exact":  # e* first, often the quicker: the other gets what it leaves
        report(MINIMAX, None)
        limit = left(2)
        rungs.append(_promised(m, "exact", limit, partial(report, MINIMAX)))
        if not _interrupted(rungs[-1], limit):
            report(EXACT, None)
            tell = partial(report, EXACT)
            certificate = _certified(model, m, certificate, level, left(1), tell)
    return Ladder(
        certificate,
        tuple(_own_rungs(certificate, level)),
        tuple(rungs),
        len(m.feature_names) == len(every.feature_names),
    )


def _interrupted(rung: Rung, limit: float | None) -> bool:
    """Whether a search was stopped by Ctrl-C: long before its time was over."""
    early = limit is None or rung.seconds < 0.8 * limit
    return rung.status == "stopped" and early


def _silent(name: str, state: Progress | None) -> None:
    return


def _clock(time_limit: float | None) -> Callable[[int], float | None]:
    """Return what tells a part of the time that is left."""
    begun = time.monotonic()

    def left(parts: int) -> float | None:
        if time_limit is None:
            return None
        return max(_SHORTEST, begun + time_limit - time.monotonic()) / parts

    return left


# ---- what any rule could promise


def simple_rules(m: Marginals) -> list[Rung]:
    """Return the rules of one column or none, whose errors are known exactly.

    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> [(rung.name, round(rung.upper, 4)) for rung in simple_rules(m)]
    [("always 'democrat'", 0.3862), ("by 'physician-fee-freeze' alone", 0.0437)]
    """
    begun = time.monotonic()
    top = int(m.class_probabilities.argmax())
    always = 1 - float(m.class_probabilities[top])
    seconds = time.monotonic() - begun
    found = [
        Rung(f"always {label_text(m.classes[top])!r}", always, None, seconds, "bounded")
    ]
    begun = time.monotonic()
    feature, alone = best_feature(m.F, m.encoder.columns)
    seconds = time.monotonic() - begun
    return [*found, Rung(f"by {feature!r} alone", alone, None, seconds, "bounded")]


def _promised(
    m: Marginals,
    method: str,
    time_limit: float | None,
    progress: Callable[[Progress], None] | None,
) -> Rung:
    """Return what the rule of a minimax program promises."""
    begun = time.monotonic()
    name = PROGRAM if method == "lp" else MINIMAX
    try:
        found = minimax(m, method=method, time_limit=time_limit, progress=progress)
    except KeyboardInterrupt:  # before it had begun to search
        alone = best_feature(m.F, m.encoder.columns)[1]
        return Rung(name, alone, None, time.monotonic() - begun, "stopped")
    lower = found.lower if found.worst_distribution is not None else None
    name = found.origin if method == "lp" else name
    return Rung(name, found.upper, lower, found.seconds, found.status)


# ---- the model


def _certified(
    model: Any,
    m: Marginals,
    known: Certificate,
    level: str,
    time_limit: float | None,
    progress: Callable[[Progress], None] | None,
) -> Certificate:
    """Return the certificate of a level; the one known if stopped before another."""
    try:
        return certify(model, m, level=level, time_limit=time_limit, progress=progress)
    except KeyboardInterrupt:
        return known


def _own_rungs(certificate: Certificate, level: str) -> Iterable[Rung]:
    for step in certificate.steps:
        status = "bounded"
        if step.name == EXACT:
            status = "solved" if step.finished else "stopped"
        yield Rung(step.name, step.upper, step.lower, step.seconds or 0.0, status)
    last = PROGRAM if level == "lp" else EXACT
    if certificate.steps[-1].name != last:
        yield Rung(last, certificate.bounds[certificate.rule], None, 0.0, "stopped")


# ---- as text


def _doubts(certificate: Certificate) -> list[str]:
    """Return why the bounds say little about new rows, and what to go by."""
    head = "The bounds below are about these very rows alone, because"
    if certificate.loo_error is not None:
        estimate = f"{100 * certificate.loo_error:.1f} % errors"
        estimate = f"Leave-one-out estimate for new rows: {estimate}."
        head = f"{estimate} {certificate.trust} {head}"
    why = [wrapped(text, "  - ", "    ") for text in certificate.warnings]
    return [wrapped(head), *why]
