r"""Certificates: the worst error a model can have, and why.

For any scores, with t_y = 1/K + s_y the estimates and B = E‖t − e_Y‖² (the same number
for every distribution with the given marginals), the worst case over all of them is

* for the rules renyi and sharp at most ``B = 2γ``;
* for map at most ``2[1 − 1/K − (E[t_Y − t̄])₊² / E‖t − t̄·1‖²] ≤ 4γ``, t̄ the mean of
  the t_y: the decision does not depend on the scale of s − s̄, so the best scale counts.

A certificate computed from the marginals a model was trained on is exact *for those
marginals*. About the population it says little when rows are few; then its text opens
with the leave-one-out estimate, and `warnings` say why.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.columns import Columns
from renyi.factoring import label_text
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
        Leave-one-out estimate of `gamma` on new rows. An estimate, not a bound.
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
    bounds: dict[str, float]
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
            return "No estimate for new rows: it would need the rows themselves."
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
        if not good:
            raise ValueError("its certificate is not valid")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        return cls(**values)


def _percent(share: float) -> str:
    return f"{100 * share:4.1f} %"


class Evidence(NamedTuple):
    """All that the closed form needs to know of a model under some marginals."""

    n: float
    n_indicators: int
    priors: Floats
    square: float  # E‖t‖²
    hit: float  # E t_Y
    spread: float  # E‖t − t̄·1‖²
    lead: float  # E[t_Y − t̄]
    F: NDArray[Any]  # P(category, class), or its counts
    columns: Columns


def evidence_of_marginals(card: Scorecard, m: Marginals) -> Evidence:
    """Return the moments of a scorecard's estimates under some marginals."""
    m = _aligned(card, m)
    P, b = _points_on(card, m)
    F, priors = _by_class(card, m)
    Q, K = m.Q, card.n_classes
    mu = np.diag(Q)
    mean = mu @ P + b  # E s_y
    squares = _quadratic(Q, P) + 2 * b * (mu @ P) + b**2  # E s_y²
    average, shift = P.mean(axis=1, keepdims=True), b.mean()
    middle = float(_quadratic(Q, average)[0] + 2 * shift * (mu @ average)[0] + shift**2)
    hit = float((F * P).sum() + priors @ b)  # E s_Y
    return Evidence(
        m.n,
        len(mu),
        priors,
        float(squares.sum() + 2 * mean.sum() / K + 1 / K),
        hit + 1 / K,
        max(0.0, float(squares.sum()) - K * middle),
        hit - float(mean.mean()),
        F,
        m.encoder.columns,
    )


def _quadratic(Q: Floats, P: Floats) -> Floats:
    return np.asarray((P * (Q @ P)).sum(axis=0))


def evidence_of_rows(
    t: Floats, y: NDArray[Any], mass: Floats | None, F: NDArray[Any], columns: Columns
) -> Evidence:
    """Return the same from the rows, where the pairs would be too many to count."""
    share = np.full(len(y), 1 / len(y)) if mass is None else mass / mass.sum()
    own = t[np.arange(len(y)), y]
    middle = t.mean(axis=1)
    priors = np.bincount(y, share, minlength=t.shape[1]).astype(np.float64)
    return Evidence(
        float(len(y) if mass is None else mass.sum()),
        int(columns.sizes.sum()),
        priors,
        float(share @ (t**2).sum(axis=1)),
        float(share @ own),
        float(share @ ((t - middle[:, None]) ** 2).sum(axis=1)),
        float(share @ (own - middle)),
        F,
        columns,
    )


def best_feature(F: NDArray[Any], columns: Columns) -> tuple[str, float]:
    """Return the feature that errs least when it answers alone, and its error."""
    starts = offsets(columns.sizes)
    total = F[: starts[1]].sum()  # 1, or the number of rows
    errors = 1 - np.add.reduceat(F.max(axis=1), starts[:-1]) / total
    best = int(errors.argmin())
    return columns.names[best], max(0.0, float(errors[best]))


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
    B = max(0.0, evidence.square - 2 * evidence.hit + 1)
    gained = max(0.0, evidence.lead) ** 2
    scaled = gained / evidence.spread if evidence.spread > 0 else 0.0
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
        Of the training rows or of any others; features and labels are matched by name.
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
    choice = getattr(model, "alpha_choice_", None)
    return certificate(
        evidence_of_marginals(card, m),
        card,
        getattr(model, "rule", "map"),
        choice.risk if choice else None,
        choice.error if choice else None,
        getattr(model, "_notes", lambda: ())(),
    )


def _aligned(card: Scorecard, m: Marginals) -> Marginals:
    """Return the marginals of the card's features; what is missing is named."""
    for name in card.encoder.feature_names:
        if name not in m.feature_names:
            raise ValueError(
                f"The marginals have no column {name!r}, a model's feature."
            )
    known = {label_text(label) for label in card.classes}
    for label in m.classes:
        if label is None or label_text(label) not in known:
            raise ValueError(
                f"The target {m.target!r} of the marginals has the class {label!r}, "
                "which the model does not know."
            )
    return m.select(card.encoder.feature_names)


def _points_on(card: Scorecard, m: Marginals) -> tuple[Floats, Floats]:
    """Points and intercept on the categories and classes of the marginals."""
    points = card._per_class()
    means = card.mean_points
    if card.n_classes == 2:
        means = np.hstack([-means, means])
    starts = offsets(card.encoder.columns.sizes)
    pieces = []
    pairs = zip(card.encoder.columns, m.encoder.columns, strict=True)
    for j, (mine, theirs) in enumerate(pairs):
        if mine.kind != theirs.kind or mine.levels.edges != theirs.levels.edges:
            raise ValueError(
                f"Column {mine.name!r} is binned differently in the marginals and in "
                "the model: build the marginals with the model's encoder."
            )
        table = np.vstack([points[starts[j] : starts[j + 1]], means[j]])
        pieces.append(table[theirs.places(mine)])
    b = np.atleast_1d(card.intercept)
    b = np.concatenate([-b, b]) if card.n_classes == 2 else b
    return np.concatenate(pieces), b


def _by_class(card: Scorecard, m: Marginals) -> tuple[Floats, Floats]:
    """F and the class probabilities in the order of the model's classes."""
    order = {label_text(label): k for k, label in enumerate(card.classes)}
    places = [order[label_text(label)] for label in m.classes]
    F = np.zeros((int(m.encoder.columns.sizes.sum()), card.n_classes))
    priors = np.zeros(card.n_classes)
    F[:, places], priors[places] = m.F, m.class_probabilities
    return F, priors
