r"""Certificates: the worst error a model can have, and why.

For any scores, with t_y = 1/K + s_y the estimates and B = E‖t − e_Y‖² (the same number
for every distribution with the given marginals), the worst case over all of them is

* for the rules renyi and sharp at most ``B = 2γ``;
* for map at most ``2[1 − 1/K − (E[t_Y − t̄])₊² / E‖t − t̄·1‖²] ≤ 4γ``, t̄ the mean of
  the t_y: the decision does not depend on the scale of s − s̄, so the best scale counts.

A certificate computed from the marginals a model was trained on is exact *for those
marginals*. About the population it says little when rows are few; then its text opens
with the leave-one-out estimate, and `warnings` say why.

*Rounding.* Adding g to all points of one feature and −g to another's changes no score,
but a large g would drown the moments: each feature's mean is first moved to the
intercept. Sums of d points in floating point are still off by up to ε, a few d units in
the last place of Σ_i max|points_i|, in `predict` as here. The bounds therefore speak of
every t' with |t' − t| ≤ ε at each class: (E‖t' − e_Y‖²)^½ ≤ B^½ + K^½ε, and so on.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from html import escape
from types import NoneType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from renyi.evidence import (
    Evidence,
    aligned,
    best_feature,
    evidence_of_marginals,
    refuse_impossible,
    same_counts,
)
from renyi.indicators import offsets
from renyi.marginals import Marginals
from renyi.rules import RULES
from renyi.scorecard import LABEL, NUMBER, Scorecard, checked_fields

Floats = NDArray[np.float64]

_FIELDS: dict[str, tuple[type, ...]] = {
    "gamma": NUMBER,
    "bounds": (dict,),
    "majority": (list,),
    "one_feature": (list,),
    "loo_risk": (*NUMBER, NoneType),
    "loo_error": (*NUMBER, NoneType),
    "rule": (str,),
    "n": NUMBER,
    "n_indicators": (int,),
    "basis": (str,),
    "confidence": (*NUMBER, NoneType),
    "order": (int,),
    "separable": (bool, NoneType),
    "warnings": (list,),
}

# The bound is not shown bare when the estimated risk exceeds it by this factor.
_OPTIMISM = 1.5
BASES = ("marginals",)
WEIGHTED = (
    "the classes were weighted in training; the certificate speaks of the unweighted "
    "marginals."
)
_EPS = float(np.finfo(np.float64).eps)


class Bounds(dict[str, float]):
    """Bounds by rule, for reading only; otherwise a dict, for JSON too.

    >>> Bounds(map=0.2)["map"]
    0.2
    """

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("the bounds of a certificate cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Bounds], tuple[dict[str, float]]]:
        """Let pickle and deepcopy make them anew rather than fill them."""
        return Bounds, (dict(self),)


@dataclass(frozen=True)
class Certificate:
    """What error is possible at worst.

    Parameters
    ----------
    gamma : float
        The risk ``E‖t − e_Y‖²/2`` of this model, the same for every distribution with
        these marginals.
    bounds : dict
        Worst error of each rule, "map", "renyi" and "sharp".
    majority : tuple of (label, float)
        The most frequent class, and the error of always answering it.
    one_feature : tuple of (str, float)
        The best single feature, and the error of answering by it alone.
    loo_risk : float or None
        Leave-one-out estimate of `gamma` on new rows. An estimate, not a bound. None
        where it is undefined, and under other marginals than those of the training.
    loo_error : float or None
        Leave-one-out share of errors of the rule map.
    rule : str
        The rule the model uses.
    n : float
        Rows (or weight) behind the marginals.
    n_indicators : int
        Categories of all features together.
    basis : str
        What the bound rests on: "marginals".
    confidence : float or None
        Confidence of the bound; None, since it is exact for these marginals.
    order : int
        Number of columns in a feature.
    separable : bool or None
        Whether γ = θ; None if that was not looked into.
    warnings : tuple of str
        Why the bound may say little about new rows.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> print(renyi.RenyiClassifier().fit(X, y).certificate_)
    On every population with these marginals (435 rows, 48 categories):
      rule map    errs at most 12.2 %  <- this model
      rule renyi  errs at most  6.1 %
      rule sharp  errs at most  6.1 %
    For comparison, errors known exactly:
      always 'democrat'                        38.6 %
      by 'physician-fee-freeze' alone           4.4 %
    Leave-one-out estimate for new rows: 4.6 % errors (risk 0.0365, gamma 0.0305).
    """

    gamma: float
    bounds: Bounds | dict[str, float]
    majority: tuple[Any, float]
    one_feature: tuple[str, float]
    loo_risk: float | None
    loo_error: float | None
    rule: str
    n: float
    n_indicators: int
    basis: str = "marginals"
    confidence: float | None = None
    order: int = 1
    separable: bool | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Keep a copy of the bounds that nobody can write to."""
        object.__setattr__(self, "bounds", Bounds(self.bounds))

    @property
    def doubtful(self) -> bool:
        """Whether the bound says little about new rows."""
        return _is_optimistic(self.gamma, self.loo_risk, self.n, self.n_indicators)

    def __str__(self) -> str:
        """Return the certificate in sentences."""
        estimate = self._estimate()
        if self.doubtful:
            head = [estimate, *(f"Warning: {text}" for text in self.warnings), ""]
            return "\n".join([*head, *self._bounds("Of these very rows alone", "")])
        title = "On every population with these marginals"
        size = f" ({self.n:,g} rows, {self.n_indicators} categories)"
        lines = [*self._bounds(title, size), estimate]
        return "\n".join([*lines, *(f"Note: {text}" for text in self.warnings)])

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _bounds(self, title: str, size: str) -> list[str]:
        label, always = self.majority
        feature, alone = self.one_feature
        rules = [
            f"  rule {rule:<6} errs at most {_percent(self.bounds[rule])}"
            + ("  <- this model" if rule == self.rule else "")
            for rule in RULES
        ]
        return [
            f"{title}{size}:",
            *rules,
            "For comparison, errors known exactly:",
            f"  {f'always {label!r}':<40} {_percent(always)}",
            f"  {f'by {feature!r} alone':<40} {_percent(alone)}",
        ]

    def _estimate(self) -> str:
        if self.loo_risk is None:
            return "No estimate for new rows: try the model on rows it has not seen."
        numbers = f"risk {self.loo_risk:.4f}, gamma {self.gamma:.4f}"
        if self.loo_error is None:
            return f"Estimate for new rows, by generalised cross-validation: {numbers}."
        return (
            f"Leave-one-out estimate for new rows: {100 * self.loo_error:.1f} % errors "
            f"({numbers})."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["bounds"] = dict(self.bounds)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

    @classmethod
    def from_dict(cls, data: Any) -> Certificate:
        """Certificate of a plain form, checked: it may come from a stranger's file."""
        checked_fields(data, _FIELDS, "certificate")
        checked_fields(data["bounds"], dict.fromkeys(RULES, NUMBER), "certificate")
        pairs = [data["majority"], data["one_feature"]]
        good = (
            all(len(pair) == 2 and type(pair[1]) in NUMBER for pair in pairs)
            and isinstance(pairs[0][0], LABEL)
            and isinstance(pairs[1][0], str)
            and all(isinstance(text, str) for text in data["warnings"])
            and data["rule"] in RULES
        )
        if not good or not _in_range(data):
            raise ValueError("its certificate is not valid")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        return cls(**values)


def _in_range(data: dict[str, Any]) -> bool:
    """Whether the numbers of a plain form can be those of a certificate."""
    shares = [*data["bounds"].values(), data["majority"][1], data["one_feature"][1]]
    if data["loo_error"] is not None:
        shares.append(data["loo_error"])
    risks = [data["gamma"], *([] if data["loo_risk"] is None else [data["loo_risk"]])]
    largest = sys.float_info.max  # an integer may be larger
    return bool(
        all(0 <= share <= 1 + 1e-9 for share in shares)
        and all(0 <= risk <= largest for risk in risks)
        and 0 < data["n"] <= largest
        and 0 < data["n_indicators"] <= largest
        and data["order"] == 1
        and data["basis"] in BASES
        and data["confidence"] is None  # exact for the marginals
    )


def _percent(share: float) -> str:
    return f"{100 * share:4.1f} %"


def certificate(
    evidence: Evidence,
    card: Scorecard,
    rule: str,
    loo_risk: float | None = None,
    loo_error: float | None = None,
    notes: tuple[str, ...] = (),
) -> Certificate:
    """Closed-form certificate of a model from its moments."""
    K = len(evidence.priors)
    B, scaled = _risk(evidence, card), _gain(evidence, card)
    bounds = {
        "map": min(1.0, max(0.0, 2 * (1 - 1 / K - scaled)), 2 * B),
        "renyi": min(1.0, B),
        "sharp": min(1.0, B),
    }
    top = int(evidence.priors.argmax())
    return Certificate(
        gamma=B / 2,
        bounds=bounds,
        majority=(card.classes[top], float(1 - evidence.priors[top])),
        one_feature=best_feature(evidence.F, evidence.columns),
        loo_risk=loo_risk,
        loo_error=loo_error,
        rule=rule,
        n=evidence.n,
        n_indicators=evidence.n_indicators,
        warnings=(*_warnings(evidence, B / 2, loo_risk), *notes),
    )


def _risk(evidence: Evidence, card: Scorecard) -> float:
    """Return B, rounded up; infinite where points are too large to square."""
    if not math.isfinite(evidence.risk + evidence.rounding):
        return math.inf
    if evidence.risk < -(1e-7 + evidence.rounding):
        raise ValueError(
            f"The model's risk under these marginals is {evidence.risk / 2:.3g}, which "
            "cannot be negative: no rows have these marginals; call validate() on them."
        )
    error = _score_error(card) * math.sqrt(card.n_classes)
    return (math.sqrt(max(0.0, evidence.risk)) + error) ** 2 + evidence.rounding


def _gain(evidence: Evidence, card: Scorecard) -> float:
    """Return (E[t_Y − t̄])₊² / E‖t − t̄·1‖², rounded down."""
    error, rounding = _score_error(card), evidence.off_rounding
    if not math.isfinite(evidence.spread + error + rounding):
        return 0.0
    lead = max(0.0, evidence.lead - 2 * error - rounding)
    spread = math.sqrt(evidence.spread) + error * math.sqrt(card.n_classes)
    return lead**2 / (spread**2 + rounding)


def _score_error(card: Scorecard) -> float:
    """Bound the rounding error of a score, in `predict` or in its moments here."""
    sizes = card.encoder.columns.sizes
    points = np.abs(card.z.reshape(len(card.z), -1))
    largest = np.maximum.reduceat(points, offsets(sizes)[:-1]).sum(axis=0)
    total = float((largest + np.abs(card.intercept)).max()) + 1
    return _EPS * (len(sizes) + int(sizes.max()) + 4) * total


def _is_optimistic(gamma: float, loo_risk: float | None, n: float, D: int) -> bool:
    return n <= 2 * D or (loo_risk is not None and loo_risk > _OPTIMISM * gamma)


def _warnings(
    evidence: Evidence, gamma: float, loo_risk: float | None
) -> tuple[str, ...]:
    texts = []
    if evidence.n_indicators >= evidence.n / 2:
        texts.append(
            f"there are {evidence.n_indicators} categories and only {evidence.n:,g} "
            "rows: the bound holds for the marginals of these rows and says little "
            "about the population they come from."
        )
    if loo_risk is not None and loo_risk > _OPTIMISM * gamma:
        texts.append(
            f"the risk estimated for new rows, {loo_risk:.4f}, is "
            f"{_times(loo_risk, gamma)} gamma: expect the estimate, not the bound."
        )
    return tuple(texts)


def _times(risk: float, gamma: float) -> str:
    return f"{risk / gamma:.1f} times" if gamma > 1e-6 else "far above"


def certify(model: Any, m: Marginals, *, level: str = "closed") -> Certificate:
    """Worst error of a model over every distribution with the marginals m.

    Parameters
    ----------
    model : RenyiClassifier or Scorecard
        Any scorecard will do: trained, rounded or written by hand.
    m : Marginals
        Of the training rows or of any others. Features are matched by name, labels as
        `predict` would take them; where the marginals merge labels that the model
        tells apart, that is an error.
    level : {"closed"}
        The closed form.

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
    """
    if level != "closed":
        raise ValueError(f"level must be 'closed', not {level!r}.")
    card = getattr(model, "scorecard_", model)
    if not isinstance(card, Scorecard):
        raise TypeError(
            "certify takes a fitted classifier or a Scorecard first, and the marginals "
            f"second; the first is a {type(model).__name__}."
        )
    m = aligned(card, m)
    refuse_impossible(m)
    own: Certificate | None = getattr(model, "certificate_", None)
    rule = getattr(model, "rule", "map")
    found = certificate(evidence_of_marginals(card, m), card, rule)
    if own is None:
        return found
    notes = tuple(text for text in own.warnings if text == WEIGHTED)
    if not (_agree(own, found) and same_counts(card, m)):
        return replace(found, warnings=(*found.warnings, *notes))
    return replace(
        found,
        loo_risk=own.loo_risk,
        loo_error=own.loo_error,
        warnings=own.warnings,
    )


def _agree(own: Certificate, other: Certificate) -> bool:
    """Whether two certificates of a model may well be of the same rows."""
    near = [
        (own.n, other.n),
        (own.majority[1], other.majority[1]),
        (own.one_feature[1], other.one_feature[1]),
        (own.gamma, other.gamma),
    ]
    return (
        own.majority[0] == other.majority[0]
        and own.n_indicators == other.n_indicators
        and all(math.isclose(a, b, rel_tol=1e-7, abs_tol=1e-7) for a, b in near)
    )
