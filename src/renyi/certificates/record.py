"""Certificate: what is guaranteed of a model, as a record that can be written down.

Its plain form goes into model files, which may come from a stranger: every field is
checked when it is read, and so is whether the fields go together.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from types import NoneType
from typing import Any, Final, Literal, NoReturn, get_args

from renyi.certificates import text
from renyi.files import LABEL, NUMBER, check_fields
from renyi.limits import CLOSED_GAP
from renyi.rules import RULES
from renyi.validation import check_share, has_few_rows, is_number

Basis = Literal["marginals", "heldout", "crossfit"]
Status = Literal["bounded", "solved", "stopped"]
WarningCode = Literal[
    "few-rows",
    "optimistic",
    "class-weight",
    "class-conditional",
    "sample-weight",
    "selected-features",
    "training-rows",
    "shared-bins",
    "other",
]

CLOSED = "closed form"
CONDITIONAL: Final = "class-conditional"
PROGRAM = "linear program"
EXACT = "exact worst case"

# The bound is not shown bare when the estimated risk exceeds gamma by this factor, and
# by so much that the bounds would be others.
_OPTIMISM = 1.5
_EXCESS = 1e-3

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
    "warning_codes": (list,),
    "auc": (*NUMBER, NoneType),
    "class_scores": (list, NoneType),
}
_STEP: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "upper": NUMBER,
    "lower": (*NUMBER, NoneType),
    "seconds": (*NUMBER, NoneType),
}
# How the warnings of files without codes begin.
_SENTENCES: dict[str, WarningCode] = {
    "there are ": "few-rows",
    "the risk estimated for new rows": "optimistic",
    "the classes were weighted": "class-weight",
    "the features were selected": "selected-features",
    "the rows have as many": "training-rows",
}


@dataclass(frozen=True)
class Step:
    """One bound on the worst error of a model, or on what any rule can promise.

    Steps are equal whatever time they took. "bounded": the method has no more to say;
    "solved": the interval is closed; "stopped": by the time limit or Ctrl-C.
    """

    name: str  # of any rule what the promise comes from
    upper: float  # proven: no distribution with the marginals makes it err more often
    lower: float | None = None  # under a distribution that was found, ties as errors
    seconds: float | None = field(default=None, compare=False)
    status: Status = "bounded"

    @property
    def finished(self) -> bool:
        """Whether it says all it can."""
        return self.status != "stopped"


def exact_status(upper: float, lower: float | None) -> Status:
    """Return whether a search for the exact value closed its interval."""
    return "solved" if lower is not None and upper - lower <= CLOSED_GAP else "stopped"


class Bounds(dict[str, float]):
    """Bounds by rule, for reading only; otherwise a dict, for JSON too."""

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
        these marginals; for unseen rows its upper confidence bound.
    bounds : dict
        Worst error of each rule, "map", "renyi" and "sharp"; of the model's own rule
        the least upper bound of all `steps`.
    majority : tuple of (label, float), or None
        The most frequent class, and the error of always answering it; None for unseen
        rows, which only estimate it.
    one_feature : tuple of (str, float), or None
        The best single feature, and the error of answering by it alone; likewise.
    loo_risk : float or None
        Leave-one-out estimate of `gamma` on new rows, no bound. None where it is
        undefined, and under other marginals than those of the training.
    loo_error : float or None
        Leave-one-out share of errors of the rule map.
    rule : str
        The rule the model uses.
    n : float
        Rows (or weight) behind the marginals, held-out rows, or those of both halves.
    n_indicators : int
        Categories that have rows, of all features; for unseen rows all of the model.
    basis : {"marginals", "heldout", "crossfit"}
        What the bounds rest on. Those of held-out rows, and of halves that judge each
        other's models, hold for every distribution with the marginals of the population
        that the rows were drawn from.
    confidence : float or None
        Confidence of each bound by itself; None where it is exact for the marginals.
    order : int
        Number of columns in a feature.
    separable : bool or None
        Whether γ = θ; None if that was not looked into.
    warnings : tuple of str
        Why the bound may say little about new rows, and of which populations it speaks.
    steps : tuple of Step
        Bounds of the model's own rule, from the cheap to the exact.
    sampled_error : float or None
        Unseen rows: upper confidence bound on the error of the model's answers on the
        sampled population, and on no other; the bound of its rule where no smaller one
        is proven.
    observed_error : float or None
        Unseen rows: share of errors seen. With halves it is that of their two models,
        each on the rows of the other; None from marginals alone, and `of_rule`.
    warning_codes : tuple of str
        What kind each of the `warnings` is: "few-rows", "optimistic", "class-weight",
        "class-conditional", "sample-weight", "selected-features", "training-rows",
        "shared-bins" or "other".
    auc : float or None
        Two classes: at least so often a row of the second class has a higher score than
        an independent row of the first (the area under the ROC curve), for every
        distribution with these marginals and after any change of the classes' shares.
        Larger where pairs were counted within the classes. None for more classes, and
        for unseen rows.
    class_scores : tuple of four floats, or None
        What `auc`, `error_at` and `any_prevalence` rest on: mean and variance of the
        score in the first class, and in the second; rounded outwards, and without
        pairs within the classes upper bounds of the variances.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> print(renyi.RenyiClassifier().fit(X, y).certificate_)
    On every population with these marginals (435 rows, 48 categories):
      rule map    errs at most 12.2 %  <- this model
      rule renyi  errs at most  6.2 %
      rule sharp  errs at most  6.2 %
    At any prevalence: AUC at least 0.917, rule map errs at most 28.2 %.
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
    basis: Basis = "marginals"
    confidence: float | None = None
    order: int = 1
    separable: bool | None = None
    warnings: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    sampled_error: float | None = None
    observed_error: float | None = None
    warning_codes: tuple[WarningCode, ...] = ()
    auc: float | None = None
    class_scores: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Keep a copy of the bounds that nobody can write to."""
        object.__setattr__(self, "bounds", Bounds(self.bounds))

    @property
    def doubtful(self) -> bool:
        """Whether the bound says little about new rows."""
        return self.basis == "marginals" and (
            bool(has_few_rows(self.n, self.n_indicators))
            or is_optimistic(self.gamma, self.loo_risk)
        )

    @property
    def trust(self) -> str:
        """What to make of the leave-one-out estimate, in a sentence."""
        selected = "selected-features" in self.warning_codes
        return "Expect more." if selected else "Rely on this estimate."

    def error_at(self, prevalence: float, threshold: float = 0.0) -> float | None:
        """Worst error of the rule map where the second class has another share.

        The rows within each class must be as before. None where `class_scores` are.

        Parameters
        ----------
        prevalence : float
            Share of the second of two classes.
        threshold : float, default=0
            Of the score, above which the second class is answered.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
        >>> c = renyi.RenyiClassifier().fit_marginals(m).certificate_
        >>> print(f"{c.auc:.3f} {c.error_at(0.01):.3f} {c.any_prevalence:.3f}")
        0.940 0.136 0.137
        """
        check_share("prevalence", prevalence)
        if not is_number(threshold):
            raise ValueError(f"threshold must be a number, not {threshold!r}.")
        if (missed := self._missed(threshold)) is None:
            return None
        return (1 - prevalence) * missed[0] + prevalence * missed[1]

    @property
    def any_prevalence(self) -> float | None:
        """Worst error of the rule map whatever the shares of two classes."""
        missed = self._missed(0.0)
        return None if missed is None else max(missed)

    def _missed(self, threshold: float) -> tuple[float, float] | None:
        """Return the largest share of each of two classes that is missed."""
        if self.class_scores is None:
            return None
        first, width, second, other = self.class_scores
        return _tail(threshold - first, width), _tail(second - threshold, other)

    def of_rule(self, rule: str) -> Certificate:
        """Return the certificate of the same model under another of the rules."""
        if rule == self.rule:
            return self
        # What was seen are errors of the rule's own answers.
        known = None if self.sampled_error is None else self.bounds[rule]
        seen: Any = {"sampled_error": known, "observed_error": None}
        return replace(self, rule=rule, steps=(), **seen)

    def __str__(self) -> str:
        """Return the certificate in sentences."""
        return text.certificate_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.auc is None:  # as in files of before
            del fields["auc"], fields["class_scores"]
        fields["bounds"] = dict(self.bounds)
        fields["steps"] = [asdict(step) for step in self.steps]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return plain values."""
        return self.to_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        plain = not isinstance(state["bounds"], Bounds)  # as of earlier pickles
        self.__dict__.update(_restored(state).__dict__ if plain else state)

    @classmethod
    def from_dict(cls, data: Any) -> Certificate:
        """Certificate of a plain form, checked: it may come from a stranger's file."""
        check_fields(data, _FIELDS, "certificate", _LATER)
        check_fields(data["bounds"], dict.fromkeys(RULES, NUMBER), "certificate")
        for step in data.get("steps", []):
            check_fields(step, _STEP, "certificate", {"status": (str,)})
        full = {**dict.fromkeys(_LATER), "steps": [], **data}
        if full["warning_codes"] is None:  # of an earlier version
            full["warning_codes"] = [_code_of(str(text)) for text in data["warnings"]]
        if not (_is_valid(full) and _in_range(full) and _goes_together(full)):
            raise ValueError("its certificate is not valid")
        return _restored(full)


def _tail(mean: float, variance: float) -> float:
    """Return how often a variable may be 0 or less, by Cantelli's inequality."""
    if mean <= 0 or variance == 0:
        return float(mean <= 0)
    return 1 / (1 + mean * mean / variance)


def is_optimistic(gamma: float, loo_risk: float | None) -> bool:
    """Whether the risk estimated for new rows is far above that of the bound."""
    if loo_risk is None:
        return False
    return loo_risk > _OPTIMISM * gamma and loo_risk - gamma > _EXCESS


@dataclass(frozen=True, eq=False)
class BoundReport:
    """Bounds on the worst error of a model, beside what any rule could promise."""

    certificate: Certificate  # with the best of the bounds
    model: tuple[Step, ...]  # of this model's rule, from the cheap to the exact
    any_rule: tuple[Step, ...]  # of rules that look at the same columns
    all_columns: bool = True  # of the marginals; others might promise more by the rest
    minimax: Any = None  # what was found of any rule, if anything

    @property
    def upper(self) -> float:
        """Smallest proven bound on the worst error of the model."""
        return min(step.upper for step in self.model)

    @property
    def lower(self) -> float:
        """Largest error that no rule can promise to stay below; 0 if none is known."""
        return max((step.lower or 0.0 for step in self.any_rule), default=0.0)

    @property
    def promise(self) -> float:
        """Smallest error that some rule is known to promise."""
        return min(step.upper for step in (*self.any_rule, *self.model))

    @property
    def sentence(self) -> str:
        """What it comes to, in a sentence."""
        return text.report_sentence(self)

    def __str__(self) -> str:
        """Return the report as tables, with what it rests on and comes to."""
        return text.report_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        return {
            "sentence": self.sentence,
            "doubtful": self.certificate.doubtful,
            "upper": self.upper,
            "lower": self.lower or None,
            "promise": self.promise,
            "model": [asdict(step) for step in self.model],
            "any_rule": [asdict(step) for step in self.any_rule],
            "certificate": self.certificate.to_dict(),
        }


# ---- plain forms


def _restored(plain: Mapping[str, Any]) -> Certificate:
    """Return the certificate of a plain form, unchecked."""
    values: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()
    }
    values["steps"] = tuple(_step(**step) for step in plain["steps"])
    return Certificate(**values)


def _step(
    name: str, upper: float, lower: Any, seconds: Any, status: Status | None = None
) -> Step:
    if status is None:  # earlier versions told it by the interval
        status = exact_status(upper, lower) if name == EXACT else "bounded"
    return Step(name, upper, lower, seconds, status)


def _code_of(sentence: str) -> WarningCode:
    """Return the code of a warning of a file that has none."""
    if " rows weigh " in sentence:
        return "sample-weight"
    known = (code for head, code in _SENTENCES.items() if sentence.startswith(head))
    return next(known, "other")


def _is_valid(data: dict[str, Any]) -> bool:
    """Whether labels, names, codes and texts are such."""
    for pair, kind in ((data["majority"], LABEL), (data["one_feature"], (str,))):
        if pair is not None and not (
            len(pair) == 2 and isinstance(pair[0], kind) and type(pair[1]) in NUMBER
        ):
            return False
    codes = data["warning_codes"]
    warnings = data["warnings"]
    return (
        all(isinstance(text, str) for text in warnings)
        and len(codes) == len(warnings)
        and all(code in get_args(WarningCode) for code in codes)
        and all(s.get("status", "solved") in get_args(Status) for s in data["steps"])
        and data["rule"] in RULES
        and data["basis"] in get_args(Basis)
    )


def _in_range(data: dict[str, Any]) -> bool:
    """Whether the numbers of a plain form can be those of a certificate."""
    shares = [
        *data["bounds"].values(),
        *(data[key][1] for key in ("majority", "one_feature") if data[key]),
        *(data[k] for k in ("loo_error", "sampled_error", "observed_error", "auc")),
        *(step[key] for step in data["steps"] for key in ("upper", "lower")),
    ]
    sizes = [data["gamma"], data["loo_risk"], *(s["seconds"] for s in data["steps"])]
    scores = [0, 0, 0, 0] if data["class_scores"] is None else data["class_scores"]
    if len(scores) != 4 or not {type(number) for number in scores} <= set(NUMBER):
        return False
    sizes += [scores[1], scores[3]]
    largest = sys.float_info.max  # an integer may be larger
    return bool(
        all(0 <= share <= 1 + 1e-9 for share in shares if share is not None)
        and all(0 <= size <= largest for size in sizes if size is not None)
        and all(-largest <= score <= largest for score in scores)
        and 0 < data["n"] <= largest
        and 0 < data["n_indicators"] <= largest
        and 1 <= data["order"] <= largest
    )


def _goes_together(data: dict[str, Any]) -> bool:
    """Whether the basis, what it gives and the steps agree with each other."""
    given = ["majority", "one_feature"]
    absent = ["confidence", "sampled_error", "observed_error"]
    if data["basis"] != "marginals":
        given, absent = absent, [*given, "loo_risk", "loo_error", "auc"]
        given.remove("observed_error")  # marginals of the halves do not tell
    uppers = [step["upper"] for step in data["steps"]]
    lowers = [step["lower"] for step in data["steps"] if step["lower"] is not None]
    return bool(
        all(data[key] is not None for key in given)
        and all(data[key] is None for key in absent)
        and (data["auc"] is None) == (data["class_scores"] is None)
        and (data["confidence"] is None or 0 < data["confidence"] < 1)
        and (not uppers or data["bounds"][data["rule"]] == min(uppers))
        and max(lowers, default=0) <= min(uppers, default=1) + 1e-9
    )
