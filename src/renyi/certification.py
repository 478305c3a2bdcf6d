r"""Certificates: the worst error a model can have, and why.

A certificate rests on one of two things.

* **Marginals.** The bound holds for *every* distribution that has them. It is climbed
  in steps from the cheap to the exact: the closed form
  (`renyi.certificates.closed_form`), the pairs within each class where they were
  counted (`renyi.certificates.cantelli`), a linear program and the exact worst case
  (`renyi.robust.worst`). Computed from the marginals a model was trained on, it is
  exact *for those marginals*. About the population it says little when rows are few;
  then its text opens with the leave-one-out estimate, and `warnings` say why.
* **Held-out rows.** The bound holds, with a stated confidence, for every distribution
  with the marginals of the population that the rows were drawn from
  (`renyi.certificates.heldout`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from renyi.certificates import heldout
from renyi.certificates.closed_form import ClosedForm, closed_form
from renyi.certificates.record import EXACT, is_optimistic
from renyi.certificates.record import Certificate as Certificate
from renyi.certificates.record import Step as Step
from renyi.certificates.score_moments import ScoreMoments, best_feature
from renyi.marginals.consistency import check_possible
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard, scorecard_of

LEVELS = ("closed", "lp", "exact")
WEIGHTED = (
    "the classes were weighted in training; the certificate speaks of the unweighted "
    "marginals."
)
# Of the time for programs that the linear one may take before the exact one.
_SHARE = 0.5


def certificate(
    closed: ClosedForm,
    card: Scorecard,
    rule: str,
    loo_risk: float | None = None,
    loo_error: float | None = None,
    notes: tuple[str, ...] = (),
    timed: bool = False,
) -> Certificate:
    """Certificate of a model from its closed form."""
    moments = closed.moments
    took = closed.seconds if timed else (None, None)
    steps = [Step("closed form", closed.bounds[rule], seconds=took[0])]
    if closed.conditional is not None and rule == "map":
        steps.append(Step("class-conditional", closed.conditional, seconds=took[1]))
    top = int(moments.priors.argmax())
    return Certificate(
        gamma=closed.gamma,
        bounds=closed.best,
        majority=(card.classes[top], float(1 - moments.priors[top])),
        one_feature=best_feature(moments.F, moments.columns),
        loo_risk=loo_risk,
        loo_error=loo_error,
        rule=rule,
        n=moments.n,
        n_indicators=moments.n_indicators,
        order=card.encoder.order,
        warnings=(*_warnings(moments, closed.gamma, loo_risk), *notes),
        steps=tuple(steps),
    )


def _warnings(
    moments: ScoreMoments, gamma: float, loo_risk: float | None
) -> tuple[str, ...]:
    texts = []
    if moments.n_indicators >= moments.n / 2:
        texts.append(
            f"there are {moments.n_indicators} categories and only {moments.n:,.10g} "
            "rows: the bound holds for the marginals of these rows and says little "
            "about the population they come from."
        )
    if loo_risk is not None and is_optimistic(gamma, loo_risk):
        texts.append(
            f"the risk estimated for new rows, {loo_risk:.4f}, is "
            f"{_times(loo_risk, gamma)} gamma: expect the estimate, not the bound."
        )
    return tuple(texts)


def _times(risk: float, gamma: float) -> str:
    return f"{risk / gamma:.1f} times" if gamma > 1e-6 else "far above"


def certify(
    model: Any,
    m: Any,
    y: Any = None,
    *,
    level: str = "closed",
    confidence: float | None = None,
    time_limit: float | None = None,
    separable: bool = False,
    progress: Callable[[Any], None] | None = None,
) -> Certificate:
    """Worst error of a model over every distribution with the marginals m.

    With rows and their classes instead of marginals: over every distribution with the
    marginals of the population that the rows were drawn from, at some confidence.

    Parameters
    ----------
    model : RenyiClassifier or Scorecard
        Any scorecard will do: trained, rounded or written by hand.
    m : Marginals, or frame or array of rows
        Marginals of the training rows or of any others. Features are matched by name,
        labels as `predict` would take them; where the marginals merge labels that the
        model tells apart, that is an error. Rows must be independent of each other and
        must not have been used in training, which cannot be seen from them; only the
        very rows of the training are recognised and refused.
    y : sequence of labels, optional
        Classes of the rows. A class that the model does not know is an error.
    level : {"closed", "lp", "exact"}
        How far to go for the model's own rule: the closed form, and the bound by pairs
        within the classes where m has them; a linear program; the exact worst case.
        The last two need the extra ``exact``.
    confidence : float, optional
        Confidence of each bound from rows; 0.95 by default.
    time_limit : float, optional
        Seconds for the programs together; what they have proven by then counts, and
        so it does if Ctrl-C ends them.
    separable : bool, default=False
        Whether to look into γ = θ, see `renyi.separable`.
    progress : callable, optional
        Told how the search for the exact worst case goes, see `renyi.worst_case`.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    >>> later = renyi.Marginals.from_data(X[300:], y[300:])
    >>> round(renyi.certify(clf, later).bounds["sharp"], 3)
    0.11

    >>> print(renyi.certify(clf, X[300:], y[300:], confidence=0.9))
    With confidence 90 %, on every population with the marginals of the one
    these 135 rows were drawn from:
      rule map    errs at most 79.8 %  <- this model
      rule renyi  errs at most 38.2 %
      rule sharp  errs at most 38.2 %
    On the sampled population itself: at most 10.4 % (Clopper–Pearson; 6.7 % seen).
    Each bound by itself; the rows must not have been used in training.
    """
    card = scorecard_of(model)
    if level not in LEVELS:
        raise ValueError(f"level must be 'closed', 'lp' or 'exact', not {level!r}.")
    if not isinstance(m, Marginals):
        _refuse_for_rows(m, y, level, separable)
        return _certify_rows(
            model, card, m, y, 0.95 if confidence is None else confidence
        )
    if y is not None or confidence is not None:
        raise ValueError(
            f"{'confidence' if y is None else 'y'} belongs to held-out rows, and "
            "marginals were given: leave it out, or give the rows in their place."
        )
    _check_time_limit(time_limit)
    m = card.match(m).marginals
    check_possible(m)
    found = _closed(model, card, m)
    if level != "closed":
        found = _climbed(found, model, m, level, time_limit, progress)
    if separable:
        from renyi.robust.separability import separable as test

        found = replace(found, separable=test(m).answer)
    return found


def _check_time_limit(time_limit: float | None) -> None:
    if time_limit is not None and not time_limit > 0:
        raise ValueError(
            f"time_limit must be a positive number of seconds, not {time_limit!r}."
        )


# ---- from marginals


def _closed(model: Any, card: Scorecard, m: Marginals) -> Certificate:
    """Return what needs no search, with what is known of the training rows."""
    rule = getattr(model, "rule", "map")
    found = certificate(closed_form(card, m), card, rule, timed=True)
    own: Certificate | None = getattr(model, "certificate_", None)
    if own is None:
        return found
    notes = tuple(text for text in own.warnings if text == WEIGHTED)
    if not (_agree(own, found)):
        return replace(found, warnings=(*found.warnings, *notes))
    return replace(
        found,
        loo_risk=own.loo_risk,
        loo_error=own.loo_error,
        warnings=own.warnings,
    )


def _climbed(
    found: Certificate,
    model: Any,
    m: Marginals,
    level: str,
    time_limit: float | None,
    progress: Callable[[Any], None] | None,
) -> Certificate:
    """Add the bounds of the programs, and take the least of all."""
    from renyi.robust.worst import worst_case

    begun = time.monotonic()
    share = 1.0 if level == "lp" else _SHARE
    limit = None if time_limit is None else share * time_limit
    worst = worst_case(model, m, method="lp", time_limit=limit)
    steps = [*found.steps, _step("linear program", worst)]
    if level == "exact" and not worst.interrupted:
        if time_limit is not None:
            limit = max(time_limit - (time.monotonic() - begun), 0.1)
        worst = worst_case(model, m, time_limit=limit, progress=progress, start=worst)
        steps.append(_step(EXACT, worst))
    upper = min(step.upper for step in steps)
    bounds = {**found.bounds, found.rule: upper}
    return replace(found, steps=tuple(steps), bounds=bounds)


def _step(name: str, worst: Any) -> Step:
    lower = None if worst.distribution is None else worst.lower
    return Step(name, worst.upper, lower, worst.seconds)


def _agree(own: Certificate, other: Certificate) -> bool:
    """Whether two certificates of a model may well be of the same rows."""
    return own.basis == other.basis and all(
        math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-7)
        for a, b in zip(_figures(own), _figures(other), strict=True)
    )


def _figures(c: Certificate) -> list[float]:
    pairs = (c.majority, c.one_feature)
    return [c.n, c.gamma, *(pair[1] for pair in pairs if pair is not None)]


# ---- from held-out rows


def _refuse_for_rows(X: Any, y: Any, level: str, separable: bool) -> None:
    """Refuse rows without classes, and what rows cannot tell."""
    if y is None:
        raise ValueError(
            "certify takes marginals second, or rows and their classes y: the second "
            f"is a {type(X).__name__}, and y is not given."
        )
    if level != "closed" or separable:
        what = "separable=True" if separable else f"level={level!r}"
        raise ValueError(
            f"{what} needs marginals, and rows were given: build them with "
            "Marginals.from_data(X, y)."
        )


def _certify_rows(
    model: Any, card: Scorecard, X: Any, y: Any, confidence: float
) -> Certificate:
    """Return what rows prove that the model has not seen."""
    rows = heldout.read_rows(card, X, y)
    rule = getattr(model, "rule", "map")
    seed = getattr(model, "random_state", None)
    found = heldout.bounds_of_rows(card, rows, rule, seed, confidence)
    return Certificate(
        gamma=found.gamma,
        bounds=found.bounds,
        majority=None,
        one_feature=None,
        loo_risk=None,
        loo_error=None,
        rule=rule,
        n=found.n,
        n_indicators=len(card.z),
        order=card.encoder.order,
        basis="heldout",
        confidence=found.confidence,
        warnings=_suspicions(model, card, rows),
        sampled_error=found.sampled_error,
        observed_error=found.observed_error,
    )


def _suspicions(
    model: Any, card: Scorecard, rows: heldout.HeldoutRows
) -> tuple[str, ...]:
    """Refuse the training rows, as far as they can be told from others."""
    if not heldout.counted_as_in_training(card, rows):
        return ()
    own: Certificate | None = getattr(model, "certificate_", None)
    if own is None or own.basis != "marginals":
        return (
            "the rows have as many of each category as those of the training: if they "
            "are the same rows, these bounds are worth nothing.",
        )
    if math.isclose(own.gamma, rows.gamma, rel_tol=1e-7, abs_tol=1e-7):
        raise ValueError(
            f"These {len(rows.y)} rows are those that the model was trained on, and "
            "prove nothing about new ones: hold rows back from the training, or "
            "certify their marginals."
        )
    return ()
