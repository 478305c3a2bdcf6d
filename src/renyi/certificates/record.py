"""Certificate: what is guaranteed of a model, as a record that can be written down.

A record is frozen. Its plain form goes into model files, which may come from a
stranger: every field is checked when it is read, and so is whether the fields go
together. Files of earlier versions lack the fields that were added later.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from html import escape
from types import NoneType
from typing import Any, NoReturn

from renyi.certificates import text as wording
from renyi.figures import CLOSED
from renyi.rules import RULES
from renyi.storage import LABEL, NUMBER, checked_fields

BASES = ("marginals", "heldout")
EXACT = "exact worst case"
# Why the estimate for new rows is too good.
SELECTED = (
    "the features were selected on the same rows, which the estimate for new rows does "
    "not know of: expect more errors, the more so the more features there were to "
    "choose from."
)
# The bound is not shown bare when the estimated risk exceeds it by this factor.
_OPTIMISM = 1.5

_FIELDS: dict[str, tuple[type, ...]] = {
    "gamma": NUMBER,
    "bounds": (dict,),
    "majority": (list, NoneType),
    "one_feature": (list, NoneType),
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
_LATER: dict[str, tuple[type, ...]] = {  # not in the files of the first version
    "steps": (list,),
    "sampled_error": (*NUMBER, NoneType),
    "observed_error": (*NUMBER, NoneType),
}
_STEP: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "upper": NUMBER,
    "lower": (*NUMBER, NoneType),
    "seconds": (*NUMBER, NoneType),
}


@dataclass(frozen=True)
class Step:
    """One way of bounding the worst error of a model.

    Parameters
    ----------
    name : str
        "closed form", "class-conditional", "linear program" or "exact worst case".
    upper : float
        Proven: no distribution with the marginals makes the model err more often.
    lower : float or None
        Error under a distribution with the marginals that was found; None if none was.
    seconds : float or None
        Time it took, if that was measured. Steps are equal whatever time they took.

    Examples
    --------
    >>> Step("closed form", 0.12, None, 0.01) == Step("closed form", 0.12)
    True
    """

    name: str
    upper: float
    lower: float | None = None
    seconds: float | None = field(default=None, compare=False)

    @property
    def finished(self) -> bool:
        """Whether it says all it can: an exact one, if its interval is closed."""
        if self.name != EXACT:
            return True
        return self.lower is not None and self.upper - self.lower <= CLOSED


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
        these marginals; for held-out rows its upper confidence bound.
    bounds : dict
        Worst error of each rule, "map", "renyi" and "sharp"; of the model's own rule
        the least upper bound of all `steps`.
    majority : tuple of (label, float), or None
        The most frequent class, and the error of always answering it. None for
        held-out rows, which give an estimate of it and no more.
    one_feature : tuple of (str, float), or None
        The best single feature, and the error of answering by it alone; likewise.
    loo_risk : float or None
        Leave-one-out estimate of `gamma` on new rows. An estimate, not a bound. None
        where it is undefined, and under other marginals than those of the training.
    loo_error : float or None
        Leave-one-out share of errors of the rule map.
    rule : str
        The rule the model uses.
    n : float
        Rows (or weight) behind the marginals, or held-out rows.
    n_indicators : int
        Categories of all features together, without those that have no rows; for
        held-out rows all that the model has.
    basis : {"marginals", "heldout"}
        What the bounds rest on. Those of held-out rows hold for every distribution
        with the marginals of the population that the rows were drawn from.
    confidence : float or None
        Confidence of each bound by itself; None where it is exact for the marginals.
    order : int
        Number of columns in a feature.
    separable : bool or None
        Whether γ = θ; None if that was not looked into.
    warnings : tuple of str
        Why the bound may say little about new rows.
    steps : tuple of Step
        How the worst error of the model's own rule was bounded, from the cheap to the
        exact.
    sampled_error : float or None
        Held-out rows: upper confidence bound on the error of the model's answers on
        the sampled population, and on no other (Clopper and Pearson).
    observed_error : float or None
        Held-out rows: share of errors seen.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> print(renyi.RenyiClassifier().fit(X, y).certificate_)
    On every population with these marginals (435 rows, 48 categories):
      rule map    errs at most 12.2 %  <- this model
      rule renyi  errs at most  6.2 %
      rule sharp  errs at most  6.2 %
    For comparison, errors known exactly:
      always 'democrat'                        38.6 %
      by 'physician-fee-freeze' alone           4.4 %
    Leave-one-out estimate for new rows: 4.6 % errors (risk 0.0365, gamma 0.0305).
    """

    gamma: float
    bounds: Bounds | dict[str, float]
    majority: tuple[Any, float] | None
    one_feature: tuple[str, float] | None
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
    steps: tuple[Step, ...] = ()
    sampled_error: float | None = None
    observed_error: float | None = None

    def __post_init__(self) -> None:
        """Keep a copy of the bounds that nobody can write to."""
        object.__setattr__(self, "bounds", Bounds(self.bounds))

    @property
    def doubtful(self) -> bool:
        """Whether the bound says little about new rows."""
        return self.basis == "marginals" and (
            self.n <= 2 * self.n_indicators or is_optimistic(self.gamma, self.loo_risk)
        )

    @property
    def trust(self) -> str:
        """What to make of the leave-one-out estimate, in a sentence."""
        return "Expect more." if SELECTED in self.warnings else "Go by this."

    def __str__(self) -> str:
        """Return the certificate in sentences."""
        return wording.text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["bounds"] = dict(self.bounds)
        fields["steps"] = [asdict(step) for step in self.steps]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

    @classmethod
    def from_dict(cls, data: Any) -> Certificate:
        """Certificate of a plain form, checked: it may come from a stranger's file."""
        checked_fields(data, _FIELDS, "certificate", _LATER)
        checked_fields(data["bounds"], dict.fromkeys(RULES, NUMBER), "certificate")
        for step in data.get("steps", []):
            checked_fields(step, _STEP, "certificate")
        if not (_is_told_well(data) and _in_range(data) and _goes_together(data)):
            raise ValueError("its certificate is not valid")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        values["steps"] = tuple(Step(**step) for step in data.get("steps", []))
        return cls(**values)


def is_optimistic(gamma: float, loo_risk: float | None) -> bool:
    """Whether the risk estimated for new rows is far above that of the bound.

    >>> is_optimistic(0.1, 0.2), is_optimistic(0.1, None)
    (True, False)
    """
    return loo_risk is not None and loo_risk > _OPTIMISM * gamma


# ---- what a plain form must be


def _is_told_well(data: dict[str, Any]) -> bool:
    """Whether labels, names and texts are such."""
    pairs = ((data["majority"], LABEL), (data["one_feature"], (str,)))
    return (
        all(
            pair is None
            or (
                len(pair) == 2 and isinstance(pair[0], kind) and type(pair[1]) in NUMBER
            )
            for pair, kind in pairs
        )
        and all(isinstance(text, str) for text in data["warnings"])
        and data["rule"] in RULES
        and data["basis"] in BASES
    )


def _in_range(data: dict[str, Any]) -> bool:
    """Whether the numbers of a plain form can be those of a certificate."""
    steps = data.get("steps", [])
    shares = [
        *data["bounds"].values(),
        *(data[key][1] for key in ("majority", "one_feature") if data[key]),
        *(data.get(key) for key in ("loo_error", "sampled_error", "observed_error")),
        *(step[key] for step in steps for key in ("upper", "lower")),
    ]
    sizes = [data["gamma"], data["loo_risk"], *(step["seconds"] for step in steps)]
    largest = sys.float_info.max  # an integer may be larger
    return bool(
        all(0 <= share <= 1 + 1e-9 for share in shares if share is not None)
        and all(0 <= size <= largest for size in sizes if size is not None)
        and 0 < data["n"] <= largest
        and 0 < data["n_indicators"] <= largest
        and 1 <= data["order"] <= largest
    )


def _goes_together(data: dict[str, Any]) -> bool:
    """Whether the basis, what it gives and the steps agree with each other."""
    from_rows = ["confidence", "sampled_error", "observed_error"]
    from_marginals = ["majority", "one_feature"]
    if data["basis"] == "marginals":  # exact for them
        given, absent = from_marginals, from_rows
    else:
        given, absent = from_rows, [*from_marginals, "loo_risk", "loo_error"]
    least = [step["upper"] for step in data.get("steps", [])]
    return bool(
        all(data.get(key) is not None for key in given)
        and all(data.get(key) is None for key in absent)
        and (data["confidence"] is None or 0 < data["confidence"] < 1)
        and (not least or data["bounds"][data["rule"]] == min(least))
    )
