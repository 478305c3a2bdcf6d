"""A certificate in sentences: what is covered first, then the bounds.

A bound that says little about new rows does not open the text: the leave-one-out
estimate does, and the reasons follow. A bound from held-out rows opens with its
confidence and with the populations it covers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from renyi.figures import at_least, at_most
from renyi.rules import RULES

if TYPE_CHECKING:
    from renyi.certification import Certificate, Step


def text(c: Certificate) -> str:
    """Return a certificate in sentences.

    >>> import renyi
    >>> clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("votes"))
    >>> print(text(clf.certificate_).splitlines()[0])
    On every population with these marginals (435 rows, 48 categories):
    """
    if c.basis == "heldout":
        return "\n".join(_of_heldout_rows(c))
    if c.doubtful:
        head = [_estimate(c), *(f"Warning: {each}" for each in c.warnings), ""]
        return "\n".join([*head, "Of these very rows alone:", *_of_marginals(c)])
    size = f"({c.n:,.10g} rows, {c.n_indicators} categories{_order(c)})"
    lines = [f"On every population with these marginals {size}:", *_of_marginals(c)]
    return "\n".join([*lines, _estimate(c), *_notes(c)])


def _order(c: Certificate) -> str:
    return "" if c.order == 1 else f", pairs of features of {c.order} columns"


def _of_marginals(c: Certificate) -> list[str]:
    lines = [*_rules(c), *_ladder(c)]
    if c.separable is not None:
        lines.append(
            f"These marginals are {'' if c.separable else 'not '}separable: additive "
            f"scores {'reach' if c.separable else 'miss'} the minimax Brier risk."
        )
    if c.majority is not None and c.one_feature is not None:
        (label, always), (feature, alone) = c.majority, c.one_feature
        lines += [
            "For comparison, errors known exactly:",
            f"  {f'always {label!r}':<40} {_percent(always)}",
            f"  {f'by {_short(feature)!r} alone':<40} {_percent(alone)}",
        ]
    return lines


def _rules(c: Certificate) -> list[str]:
    return [
        f"  rule {rule:<6} errs at most {at_most(c.bounds[rule], 1):>6}"
        + ("  <- this model" if rule == c.rule else "")
        for rule in RULES
    ]


def _ladder(c: Certificate) -> list[str]:
    """Tell how the bound of the model's rule came about, if in several steps."""
    if len(c.steps) < 2:
        return []
    head = f"Bounds for rule {c.rule}, from the cheap to the exact:"
    return [head, *(_step(step) for step in c.steps)]


def _step(step: Step) -> str:
    line = f"  {step.name:<18} at most {at_most(step.upper):>8}"
    known = "" if step.lower is None else f"at least {at_least(step.lower):>8}"
    seconds = "" if step.seconds is None else f"{step.seconds:8.1f} s"
    mark = "" if step.finished else "  stopped"
    return f"{line}  {known:<17}{seconds}{mark}".rstrip()


def _estimate(c: Certificate) -> str:
    if c.loo_risk is None:
        return "No estimate for new rows: try the model on rows it has not seen."
    numbers = f"risk {c.loo_risk:.4f}, gamma {c.gamma:.4f}"
    if c.loo_error is None:
        return f"Estimate for new rows, by generalised cross-validation: {numbers}."
    return (
        f"Leave-one-out estimate for new rows: {100 * c.loo_error:.1f} % errors "
        f"({numbers})."
    )


def _of_heldout_rows(c: Certificate) -> list[str]:
    assert c.confidence is not None
    lines = [
        f"With confidence {100 * c.confidence:.10g} %, on every population with the "
        "marginals of the one",
        f"these {c.n:,.10g} rows were drawn from:",
        *_rules(c),
    ]
    if c.sampled_error is not None and c.observed_error is not None:
        lines.append(
            "On the sampled population itself: at most "
            f"{at_most(c.sampled_error, 1)} (Clopper–Pearson; "
            f"{_percent(c.observed_error).strip()} seen)."
        )
    condition = "Each bound by itself; the rows must not have been used in training."
    return [*lines, condition, *_notes(c)]


def _notes(c: Certificate) -> list[str]:
    return [f"Note: {each}" for each in c.warnings]


def _short(name: str, width: int = 29) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def _percent(share: float) -> str:
    return f"{100 * share:4.1f} %"
