"""Certificate: what is guaranteed of a model, as a record that can be written down.

Its plain form goes into model files, which may be untrusted. Reading one checks
the type of every field; `renyi verify` recomputes the numbers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from types import NoneType
from typing import Any, Literal, NoReturn, get_args

from renyi.certificates import text
from renyi.encoding.rows import has_few_rows
from renyi.files import LABEL, NUMBER, check_fields
from renyi.limits import CLOSED_GAP
from renyi.rules import RULES
from renyi.validation import check_share, is_number

Basis = Literal["marginals", "intervals", "noisy", "heldout", "crossfit", "rows"]
Status = Literal["bounded", "solved", "stopped"]
WarningCode = Literal[
    "few-rows",
    "optimistic",
    "class-weight",
    "class-conditional",
    "sample-weight",
    "selected-features",
    "merged-bins",
    "no-left-out",
    "training-rows",
    "shared-bins",
    "unknown-class",
    "folds",
    "scale-free",
    "landmarks",
    "order",
]

EVERY_ORDER = 0
"""The order of a model of single columns, pairs, triples and so on, all at once."""

# The bound is not shown bare when the estimated risk exceeds gamma by this factor, and
# by so much that the bounds would be others.
_OPTIMISM = 1.5
_EXCESS = 1e-3

_FIELDS: dict[str, tuple[type, ...]] = {
    "gamma": (*NUMBER, NoneType),
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
    "steps": (list,),
    "sampled_error": (*NUMBER, NoneType),
    "observed_error": (*NUMBER, NoneType),
    "warning_codes": (list,),
    "loo_rows": (*NUMBER, NoneType),
    "auc": (*NUMBER, NoneType),
    "class_scores": (list, NoneType),
    "interactions": (int, NoneType),
}
_STEP: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "upper": NUMBER,
    "lower": (*NUMBER, NoneType),
    "seconds": (*NUMBER, NoneType),
    "status": (str,),
}
# What a certificate of each basis must state.
_STATED = {
    "marginals": ("majority", "one_feature"),
    "intervals": ("majority", "one_feature"),
    "noisy": ("majority", "one_feature", "confidence"),
    "heldout": ("confidence", "sampled_error"),
    "crossfit": ("confidence", "sampled_error"),
    "rows": ("majority",),
}


@dataclass(frozen=True)
class Step:
    """One bound on the error of a model, or on the guarantee of any rule.

    Steps are equal whatever time they took. "bounded": the method has no more to say;
    "solved": the interval is closed; "stopped": by the time limit or Ctrl-C.
    """

    name: str  # for any rule, where its guarantee comes from
    upper: float  # proved: no distribution with the marginals has a larger error
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

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("the bounds of a certificate cannot be changed")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[type[Bounds], tuple[dict[str, float]]]:
        """Let pickle and deepcopy make them anew rather than fill them."""
        return Bounds, (dict(self),)


@dataclass(frozen=True)
class Certificate:
    """The error figures of a model: estimate, bound and guarantee.

    `print` shows the most useful first: the error to expect on new rows, with its
    interval and the baselines. A bound with its confidence follows, if there are rows
    that the model has not seen. The guarantee, ``bounds[rule]``, covers every
    population with the same pair counts, however the columns interact beyond pairs. A
    trained model has its certificate as ``certificate_``.

    Parameters
    ----------
    gamma : float or None
        The risk ``E‖t − e_Y‖²/2`` of this model, the same for every distribution with
        these marginals; for unseen rows its upper confidence bound. None where the
        scores do not estimate probabilities, as in a model made elsewhere, and for a
        model of every order.
    bounds : dict
        Guarantee of each rule, "map", "renyi" and "sharp"; for the model's own rule,
        the smallest upper bound of all `steps`. Only "map" where gamma is None; empty
        for a model of every order.
    majority : tuple of (label, float), or None
        The most frequent class, and the share of the rows that are not of it.
    one_feature : tuple of (str, float), or None
        The best single feature, and the leave-one-out error of answering by it alone;
        None for unseen rows.
    loo_risk : float or None
        Leave-one-out estimate of `gamma` on new rows, no bound. None where it is
        undefined, and under other marginals than those of the training.
    loo_error : float or None
        Leave-one-out share of errors of the model's rule; of a rule that answers at
        random the mean. By ten folds where a calibration decides that was fitted to
        few rows: the code "folds" then is among the warnings. None without rows.
    rule : str
        The rule the model uses.
    n : float
        Rows (or weight) behind the marginals, held-out rows, or those of both halves.
    n_indicators : int
        Categories that have rows, of all features; for unseen rows all of the model.
    basis : {"marginals", "intervals", "noisy", "heldout", "crossfit", "rows"}
        What the bounds rest on. Bounds from intervals hold for every population whose
        pair counts lie in them. Bounds from noisy counts hold for the pair counts
        before the noise. Of both, `majority` and `one_feature` are estimates. Bounds
        from held-out rows, and from halves that evaluate each other's models, hold for
        every population with the pair frequencies of the one that the rows come from.
        With "rows", of a model of every order, there are none.
    confidence : float or None
        Confidence of each bound by itself; None where it is exact for the marginals.
    order : int
        Number of columns in a feature; 0 for a model of every order.
    interactions : int or None
        Number of features that are chosen pairs of columns; the others are single
        columns. None if there are no chosen pairs.
    separable : bool or None
        Whether γ = θ; None if that was not looked into.
    warnings : tuple of str
        Why the bound may say little about new rows, and which populations it covers.
    steps : tuple of Step
        Bounds of the model's own rule, from the cheap to the exact.
    sampled_error : float or None
        Unseen rows: upper confidence bound on the error of the model's answers. It
        covers the sampled population and no other. Where no smaller bound is proved, it
        is the bound of the rule.
    observed_error : float or None
        Unseen rows: share of errors seen. With halves it is that of their two models,
        each on the rows of the other; None from marginals alone, and `of_rule`.
    warning_codes : tuple of str
        What kind each of the `warnings` is: "few-rows", "optimistic", "class-weight",
        "class-conditional", "sample-weight", "selected-features", "merged-bins",
        "no-left-out", "training-rows", "shared-bins", "unknown-class", "folds",
        "scale-free", "landmarks" or "order".
    auc : float or None
        Two classes: lower bound on the area under the ROC curve, for every population
        with these pair counts, after any change of the classes' shares. The area is the
        probability that a row of the second class scores above a row of the first. The
        bound is larger where pairs were counted within the classes. None for more
        classes, and for unseen rows.
    class_scores : tuple of four floats, or None
        What `auc`, `error_at` and `any_prevalence` rest on: mean and variance of the
        score in the first class, and in the second, rounded outwards. Without pairs
        within the classes, the variances are upper bounds.
    loo_rows : float or None
        Left-out rows behind `loo_error`, from which its interval follows; all `n` of
        them where this is None.

    See Also
    --------
    renyi.certify : The certificate from other pair counts, or from rows.
    renyi.CrossFitClassifier : All rows for training, and a bound.
    renyi.write_proof : A proof for ``renyi verify``.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> print(renyi.RenyiClassifier().fit(X, y).certificate_)
      Error to expect on new rows     4.6 %   (95 % interval 2.8 to 7.0 %)
        always answering 'democrat'  38.6 %
        best single column            4.4 %   'physician-fee-freeze'
      An estimate by leave-one-out. It assumes new rows from the same source.
    <BLANKLINE>
    Guarantee: wrong on at most 12.2 % of any population with the same pair counts,
      however the columns interact beyond pairs. Proved.
      Smaller guarantees for the same scorecard:
        6.2 %    with rule="sharp", which answers at random where unsure (more
                 errors to expect)
        exact    takes minutes: certify(model, marginals, level="exact")
    """

    gamma: float | None
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
    loo_rows: float | None = None
    interactions: int | None = None

    def __post_init__(self) -> None:
        """Keep a copy of the bounds that nobody can write to."""
        object.__setattr__(self, "bounds", Bounds(self.bounds))

    @property
    def from_rows(self) -> bool:
        """Whether the bounds rest on rows that the model has not seen."""
        return self.basis in ("heldout", "crossfit", "rows")

    @property
    def doubtful(self) -> bool:
        """Whether the bound says little about new rows."""
        return not self.from_rows and (
            bool(has_few_rows(self.n, self.n_indicators))
            or is_optimistic(self.gamma, self.loo_risk)
        )

    def error_at(self, prevalence: float, threshold: float = 0.0) -> float | None:
        """Guarantee of the rule map where the second class has another share.

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
        assert self.class_scores is not None
        both = (1 - prevalence) * missed[0] + prevalence * missed[1]
        if "class-conditional" in self.warning_codes or max(missed) == 1:
            return both
        first, width, second, other = self.class_scores
        return min(
            both,
            _shared(
                (1 - prevalence, threshold - first, width),
                (prevalence, second - threshold, other),
            ),
        )

    @property
    def any_prevalence(self) -> float | None:
        """Guarantee of the rule map whatever the shares of two classes."""
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
        if rule not in self.bounds:
            raise ValueError(f"There is no bound of rule {rule!r}: {text.SCALE_FREE}")
        # What was seen are errors of the rule's own answers.
        known = None if self.sampled_error is None else self.bounds.get(rule)
        return replace(
            self,
            rule=rule,
            steps=(),
            loo_error=None,
            loo_rows=None,
            sampled_error=known,
            observed_error=None,
        )

    def __str__(self) -> str:
        """Return the certificate in sentences."""
        return text.certificate_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        fields["bounds"] = dict(self.bounds)
        fields["steps"] = [asdict(step) for step in self.steps]
        return {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Return plain values."""
        return self.to_dict()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_restored(state).__dict__)

    @classmethod
    def from_dict(cls, data: object) -> Certificate:
        """Return the certificate of a plain form, after a check of all types."""
        plain = _checked(data)
        if not _has_valid_parts(plain):
            raise ValueError("its certificate is not valid")
        return _restored(plain)


def _tail(mean: float, variance: float) -> float:
    """Return how often a variable may be 0 or less, by Cantelli's inequality."""
    if mean <= 0 or variance == 0:
        return float(mean <= 0)
    return 1 / (1 + mean * mean / variance)


def _shared(*classes: tuple[float, float, float]) -> float:
    """Return the largest error of two classes that share their variance.

    Each has its share of the rows, its mean, and the variance if it had all of it. At
    the share x of the variance, and 1 − x for the other, a class is missed at most
    ``x/(x + r)`` by Cantelli's inequality, ``r = mean²/variance``.
    """
    (a, mean, variance), (b, other_mean, other) = classes
    if not variance > 0 or not other > 0:
        return 0.0
    r = mean * mean / variance
    q = other_mean * other_mean / other
    if not (r > 0 and q > 0 and math.isfinite(r + q)):
        return 1.0
    first = math.sqrt(a * r)
    second = math.sqrt(b * q)
    x = min(1.0, max(0.0, (first * (1 + q) - second * r) / (first + second)))
    return a * x / (x + r) + b * (1 - x) / (1 - x + q)


def is_optimistic(gamma: float | None, loo_risk: float | None) -> bool:
    """Whether the risk estimated for new rows is far above that of the bound."""
    if loo_risk is None or gamma is None:
        return False
    return loo_risk > _OPTIMISM * gamma and loo_risk - gamma > _EXCESS


@dataclass(frozen=True, eq=False)
class BoundReport:
    """Bounds on the error of a model, next to the guarantees of any rule."""

    certificate: Certificate  # with the best of the bounds
    model: tuple[Step, ...]  # of this model's rule, from the cheap to the exact
    any_rule: tuple[Step, ...]  # of rules that look at the same columns
    all_columns: bool = True  # of the marginals; the others might prove more
    minimax: Any = None  # what was found of any rule, if anything

    @property
    def upper(self) -> float:
        """Smallest proved bound on the error of the model."""
        return min(step.upper for step in self.model)

    @property
    def lower(self) -> float:
        """Largest error below which no rule has a guarantee; 0 if none is known."""
        return max((step.lower or 0.0 for step in self.any_rule), default=0.0)

    @property
    def best_guarantee(self) -> float:
        """Smallest error that some rule is known to guarantee."""
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
            "best_guarantee": self.best_guarantee,
            "model": [asdict(step) for step in self.model],
            "any_rule": [asdict(step) for step in self.any_rule],
            "certificate": self.certificate.to_dict(),
        }


# ---- plain forms


def _restored(plain: Mapping[str, Any]) -> Certificate:
    """Return the certificate of a plain form, unchecked."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in plain.items()
    }
    values["steps"] = tuple(Step(**step) for step in plain["steps"])
    return Certificate(**values)


def _checked(data: object) -> dict[str, Any]:
    """Return a plain form with all its fields, each of the type it must have."""
    check_fields(data, _FIELDS, "certificate")
    assert isinstance(data, dict)
    plain: dict[str, Any] = data
    bounds = dict.fromkeys(RULES, NUMBER)
    if plain["gamma"] is None:
        bounds = {} if plain["order"] == EVERY_ORDER else {"map": NUMBER}
    check_fields(plain["bounds"], bounds, "certificate")
    for step in plain["steps"]:
        check_fields(step, _STEP, "certificate")
    return plain


def _has_valid_parts(plain: Mapping[str, Any]) -> bool:
    """Return whether the words are known, and lists contain what they must."""
    codes = plain["warning_codes"]
    warnings = plain["warnings"]
    statuses = [step["status"] for step in plain["steps"]]
    scores = plain["class_scores"]
    return (
        plain["rule"] in (plain["bounds"] or ["map"])
        and plain["basis"] in _STATED
        and (plain["gamma"] is None) >= (plain["order"] == EVERY_ORDER)
        and (plain["basis"] == "rows") <= (plain["order"] == EVERY_ORDER)
        and (plain["order"] == EVERY_ORDER) <= (plain["basis"] in ("rows", "heldout"))
        and all(plain[name] is not None for name in _STATED[plain["basis"]])
        and _is_pair(plain["majority"], LABEL)
        and _is_pair(plain["one_feature"], (str,))
        and all(isinstance(sentence, str) for sentence in warnings)
        and len(codes) == len(warnings)
        and all(code in get_args(WarningCode) for code in codes)
        and all(status in get_args(Status) for status in statuses)
        and (scores is None or len(scores) == 4)
        and all(map(_is_share, _shares(plain)))
        and all(map(_is_finite, _sizes(plain)))
    )


def _is_pair(value: list[object] | None, kind: tuple[type, ...]) -> bool:
    """Return whether a value is None, or a label or name with a number."""
    if value is None:
        return True
    return len(value) == 2 and isinstance(value[0], kind) and type(value[1]) in NUMBER


def _shares(plain: Mapping[str, Any]) -> list[object]:
    """Return all error rates of a plain form, and its AUC."""
    names = ("loo_error", "sampled_error", "observed_error", "auc", "confidence")
    shares = [plain[name] for name in names]
    shares += plain["bounds"].values()
    for step in plain["steps"]:
        shares += [step["upper"], step["lower"]]
    for name in ("majority", "one_feature"):
        shares += (plain[name] or [])[1:]
    return [share for share in shares if share is not None]


def _is_share(number: object) -> bool:
    return _is_finite(number) and 0 <= number <= 1 + 1e-9  # type: ignore[operator]


def _sizes(plain: Mapping[str, Any]) -> list[object]:
    """Return the other numbers of a plain form."""
    names = ("gamma", "loo_risk", "n", "n_indicators", "order", "loo_rows")
    sizes = [plain[name] for name in (*names, "interactions")]
    sizes += plain["class_scores"] or []
    sizes += [step["seconds"] for step in plain["steps"]]
    return [size for size in sizes if size is not None]


def _is_finite(number: object) -> bool:
    """Return whether a value is a number that a float can hold."""
    if type(number) not in NUMBER:
        return False
    return bool(abs(number) <= sys.float_info.max)  # type: ignore[arg-type]
