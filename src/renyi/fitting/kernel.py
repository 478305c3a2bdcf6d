"""Fitting every order at once: from encoded rows to a `KernelFit`, the trained model.

The mathematics is in `renyi.solvers.ridge_kernel`. Form, ρ and penalty are chosen by
left-out risk on at most `SEARCHED` different rows. One exact solution of all different
rows follows, or of landmarks where there are more than `max_rows`.

The model contains the codes of its different training rows, as a support vector machine
does. It has no guarantee from pair counts: its risk depends on counts of every order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi import rules
from renyi.certificates import text
from renyi.certificates.closed_form import best_left_out_feature
from renyi.certificates.left_out import left_out_details, left_out_error
from renyi.certificates.record import EVERY_ORDER, Certificate
from renyi.certification import Warned, majority_of, warning_fields
from renyi.counting.onehot import label_sums, offsets
from renyi.encoding import rules as column_rules
from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import SAMPLE, Pieces, TrainingRows, merged_rows
from renyi.files import NUMBER, check_fields, finite_numbers
from renyi.fitting.record import Trained
from renyi.fitting.settings import Settings, check_calibration
from renyi.fitting.training import FOLD_ROWS, weighed_rows, weight_notes
from renyi.formatting import number_of, percent
from renyi.marginals.file import DataDigest, class_digest
from renyi.rules import Scorer
from renyi.scorecard import Scorecard
from renyi.solvers import calibration as maps
from renyi.solvers import ridge, ridge_kernel
from renyi.solvers.calibration import Calibration
from renyi.solvers.ridge import AlphaChoice, LeftOut
from renyi.solvers.ridge_kernel import Groups, Kernel, KernelModel, Solution, System
from renyi.validation import (
    InputError,
    ParameterError,
    check_choice,
    check_whole,
    import_cupy,
    is_number,
)

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Codes = NDArray[Any]

SEARCHED = 1_000
"""Different rows on which form, ρ and penalty are chosen, if there are more."""
LANDMARKS = 2_000
DEVICES = ("cpu", "cuda")
ORDERS = ("single columns", "pairs", "triples", "more")
INTERACTIONS = "interactions"  # all of them together


@dataclass(frozen=True)
class KernelSettings(Settings):
    """The parameters of a fit of every order; see `KernelRenyiClassifier`."""

    rho: float | str = "auto"
    device: str = "cpu"
    max_rows: int = 12_000

    def __post_init__(self) -> None:
        """Raise ValueError if a parameter is not valid."""
        super().__post_init__()
        for name in ("rho", "alpha"):
            value = getattr(self, name)
            least = "0 or more" if name == "rho" else "positive"
            good = is_number(value) and (value > 0 or (value == 0 and name == "rho"))
            if value != "auto" and not good:
                raise ParameterError(
                    name, f"must be 'auto' or a number, {least}, not {value!r}."
                )
        check_choice("device", self.device, DEVICES)
        check_whole("max_rows", self.max_rows, 2)


@dataclass(frozen=True, eq=False)
class KernelCard(Scorer):
    """A model of every order: the rows that it compares with, and their weights.

    Parameters
    ----------
    encoder : Encoder
        The fitted encoder of the columns.
    classes : tuple of labels
        The K classes.
    kernel : Kernel
        Form and ρ.
    rows : ndarray of shape (columns, rows)
        Codes of different training rows.
    coef : ndarray of shape (rows,) or (rows, K)
        Their weights: for two classes those of the second one.
    intercept : ndarray of shape () or (K,)
        Score without any rows.
    counts : ndarray
        Training rows (or weight) in each category of each column.
    target : str
        Name of the column that it predicts.
    calibration : Calibration or None
        How scores become probabilities.
    device : {"cpu", "cuda"}
        Where scores are computed.
    """

    encoder: Encoder
    classes: tuple[Label, ...]
    kernel: Kernel
    rows: Codes
    coef: Floats
    intercept: Floats
    counts: NDArray[Any]
    target: str | None
    calibration: Calibration | None = None
    device: str = "cpu"

    @property
    def order(self) -> int:
        """The number that stands for every order."""
        return EVERY_ORDER

    @property
    def model(self) -> KernelModel:
        """The arrays that score rows."""
        sizes = self.encoder.columns.sizes
        starts = offsets(sizes)[:-1]
        totals = np.add.reduceat(self.counts.astype(np.float64), starts)
        return KernelModel(
            self.kernel,
            sizes,
            self.rows,
            self.coef.reshape(len(self.coef), -1),
            np.atleast_1d(self.intercept),
            self.counts / np.repeat(totals, sizes),
        )

    def _multiplied(self, slope: Floats) -> KernelCard:
        """Return the model of K classes with its weights times a matrix (K × K)."""
        return replace(self, coef=self.coef @ slope)

    def scores(self, codes: Codes) -> Floats:
        """Return the scores (rows × 1 or K) of codes made by the encoder."""
        return ridge_kernel.scores(_module(self.device), self.model, codes)

    @cached_property
    def main_effects(self) -> Scorecard:
        """The part of the score that single columns explain, as points."""
        model = self.model
        points = ridge_kernel.main_effects(model)
        start = ridge_kernel.constant(model)
        two = self.n_classes == 2
        return Scorecard(
            self.encoder,
            self.classes,
            points[:, 0] if two else points,
            np.asarray(start[0] if two else start),
            self.counts,
            self.target,
            calibration=self.calibration,
        )

    # ---- plain form

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain values for JSON, the rows as codes by column."""
        plain: dict[str, Any] = {
            "encoder": self.encoder.to_dict(),
            "classes": list(self.classes),
            "form": self.kernel.form,
            "rho": float(self.kernel.rho),
        }
        plain |= {name: getattr(self, name).tolist() for name in _ARRAYS}
        if self.calibration is not None:
            plain["calibration"] = self.calibration.to_dict()
        return plain

    @classmethod
    def from_dict(cls, data: object) -> KernelCard:
        """Check plain values, which may be untrusted, and return their model."""
        check_fields(data, _FIELDS, "kernel", {"calibration": (dict,)})
        assert isinstance(data, dict)
        encoder = Encoder.from_dict(data["encoder"])
        classes = data["classes"]
        column_rules.check_class_list(classes)
        K = len(classes)
        width: tuple[int, ...] = () if K == 2 else (K,)
        sizes = encoder.columns.sizes
        n = len(data["coef"])
        rows = finite_numbers(data["rows"], (len(sizes), n), "rows")
        if rows.dtype.kind != "i" or not n or not len(sizes):
            raise ValueError("its rows are not codes")
        if (rows < 0).any() or (rows >= sizes[:, None]).any():
            raise ValueError("its rows have codes outside the categories")
        counts = finite_numbers(data["counts"], (int(sizes.sum()),), "counts")
        starts = offsets(sizes)[:-1]
        if counts.min() < 0 or np.maximum.reduceat(counts, starts).min() <= 0:
            raise ValueError("its counts are negative, or none at all in a column")
        coef = finite_numbers(data["coef"], (n, *width), "weights").astype(float)
        intercept = finite_numbers(data["intercept"], width, "intercept").astype(float)
        if not np.abs(coef).sum() + np.abs(intercept).sum() <= _LARGEST:
            raise ValueError("its weights are too large to add up")
        if data["form"] not in ridge_kernel.FORMS or not 0 <= data["rho"] <= _LARGEST:
            raise ValueError("its form or rho is not valid")
        seen = np.add.reduceat((counts > 0).astype(np.int64), starts)
        stored = data.get("calibration")
        return cls(
            encoder,
            tuple(classes),
            ridge_kernel.kernel_of(data["form"], float(data["rho"]), seen),
            rows.astype(np.min_scalar_type(int(sizes.max()))),
            coef,
            intercept,
            counts,
            None,
            None if stored is None else Calibration.from_dict(stored, K),
        )


_ARRAYS = ("rows", "coef", "intercept", "counts")
_FIELDS: dict[str, tuple[type, ...]] = {
    "encoder": (dict,),
    "classes": (list,),
    "form": (str,),
    "rho": NUMBER,
    "rows": (list,),
    "coef": (list,),
    "intercept": (list, *NUMBER),
    "counts": (list,),
}
_LARGEST = 1e12  # sum of all weights; they cancel


class Landmarks(NamedTuple):
    """How many rows stand for all, and the left-out risks of half of them and all."""

    used: int
    rows: int  # different rows
    half_risk: float
    risk: float


@dataclass(frozen=True, eq=False)
class KernelFit(Trained):
    """A trained model of every order, and what is known of its error.

    Parameters
    ----------
    settings : KernelSettings
        The parameters.
    kernel_ : KernelCard
        The model, calibrated.
    alpha_choice_ : AlphaChoice
        How the penalty was chosen.
    certificate_ : Certificate
        The error to expect; no guarantee follows from pair counts.
    data_digest_ : DataDigest or None
        Digest of the training data.
    named : bool
        Whether the columns of the training table had names.
    left_out_details : dict or None
        Errors by class, AUC and log loss on left-out rows.
    landmarks : Landmarks or None
        What landmarks cost, if there were too many different rows.
    heldout : Certificate or None
        What rows prove that were held out of the training.
    """

    settings: KernelSettings
    kernel_: KernelCard
    alpha_choice_: AlphaChoice
    certificate_: Certificate
    data_digest_: DataDigest | None
    named: bool = True
    left_out_details: dict[str, Any] | None = None
    landmarks: Landmarks | None = None
    heldout: Certificate | None = None

    @property
    def card(self) -> KernelCard:
        """The model, calibrated."""
        return self.kernel_

    @property
    def target(self) -> str:
        """Name of the column that it predicts."""
        assert self.kernel_.target is not None
        return self.kernel_.target

    # ---- what it looks at

    @cached_property
    def order_shares(self) -> dict[str, float]:
        """Share of the score's variance by order, if columns were independent."""
        variances = ridge_kernel.variance_by_order(self.kernel_.model)
        total = float(variances.sum())
        shares = variances / total if total > 0 else np.zeros(len(ORDERS))
        return dict(zip(ORDERS, shares.tolist(), strict=True))

    def interaction(self, a: str, b: str) -> pd.DataFrame:
        """Return what two columns add beyond their main effects, as a table."""
        import pandas as pd

        names = [*self.encoder_.feature_names]
        for name in (a, b):
            if name not in names:
                raise ValueError(f"interaction: there is no column {name!r}.")
        if a == b:
            raise ValueError(f"interaction needs two columns; {a!r} is given twice.")
        i, j = names.index(a), names.index(b)
        columns = self.encoder_.columns
        table = ridge_kernel.interaction(self.kernel_.mapped.model, i, j)
        index = pd.Index(columns[i].levels.texts, name=a)
        head: Any = pd.Index(columns[j].levels.texts, name=b)
        flat = np.concatenate([*np.moveaxis(table, 2, 0)], axis=1)
        if table.shape[2] > 1:
            head = pd.MultiIndex.from_product(
                [self.classes_.tolist(), head], names=[self.target, b]
            )
        return pd.DataFrame(flat, index=index, columns=head)

    def parts(self, codes: Codes) -> Floats:
        """Return what columns, interactions and intercept give: (n, parts, 1 or K)."""
        card = self.kernel_.main_effects.mapped
        points = card.points_of(codes)
        n, _, K = points.shape
        start = np.broadcast_to(card.intercept, (n, 1, K))
        total = self.kernel_.mapped.scores(codes)[:, None]
        rest = total - points.sum(axis=1, keepdims=True) - start
        return np.concatenate([points, rest, start], axis=1)

    @property
    def part_names(self) -> list[str]:
        """What the parts of a score are called."""
        return [*self.encoder_.feature_names, INTERACTIONS, "intercept"]


def contains_rows(fit: KernelFit) -> str:
    """Say plainly what a file of the model contains."""
    rows = number_of(fit.kernel_.rows.shape[1], "training row")
    return (
        f"The model contains the categories of {rows}. Where rows are confidential, "
        "share a scorecard instead."
    )


def shares_text(shares: dict[str, float]) -> str:
    """Say how much of the score is of single columns, pairs and so on."""
    parts = ", ".join(f"{name} {percent(share)}" for name, share in shares.items())
    return f"Variance of the score, if columns were independent: {parts}."


# ---- training


def fit_kernel(rows: TrainingRows, settings: KernelSettings) -> KernelFit:
    """Train on encoded rows."""
    classes = column_rules.class_array(rows.target.categories)
    K = len(classes)
    if settings.calibration == "discriminant":
        raise InputError(
            "{calibration} is for models from pair counts: use 'auto'.",
            calibration="discriminant",
        )
    check_calibration(settings, K, has_rows=True)
    before = rows.encoder.columns
    rows = merged_rows(rows)
    weighed = weighed_rows(rows, settings, classes)
    groups, place = ridge_kernel.grouped(weighed)
    xp = _module(settings.device)
    random = rules.random_of(settings.random_state)
    choice = _chosen_kernel(xp, groups, settings, random)
    landmarks = None
    system = None
    if groups.n > settings.max_rows and settings.device == "cpu":
        solution, landmarks = _by_landmarks(groups, choice, settings, random)
    else:
        system = ridge_kernel.system_of(xp, groups, choice.kernel)
        solution = _exact(xp, system, choice, settings)
    left_out = _left_out(weighed, solution, place)
    calibration = _calibration(settings.calibration, K, left_out)
    if system is not None and _needs_folds(calibration, weighed.effective_n, K):
        pieces, mapped = _fold_scores(xp, system, solution, weighed, place, settings)
        left_out = left_out.of_folds(pieces, None, mapped)
    counts = _class_counts(rows, K)
    coef, start = solution.coef, solution.start
    card = KernelCard(
        rows.encoder,
        tuple(rows.target.categories),
        choice.kernel,
        solution.codes,
        coef[:, 0] if K == 2 else coef,
        np.asarray(start[0] if K == 2 else start),
        counts.sum(axis=1),
        rows.target.name,
        calibration,
        settings.device,
    )
    risk, error = solution.held_out.at(0)
    method = "loo" if settings.alpha == "auto" else "given"
    alpha_choice = AlphaChoice(method, solution.alpha, risk, error)
    merges = text.merged_bins(before, rows.encoder.columns, has_guarantee=False)
    notes = (*_notes(rows, left_out, landmarks), *merges)
    return KernelFit(
        settings,
        card,
        alpha_choice,
        _certificate(card, counts, rows.effective_n, left_out, risk, notes),
        class_digest(card.encoder.columns, card.classes, counts, _total(card, counts)),
        left_out_details=left_out_details(left_out, card, "map"),
        landmarks=landmarks,
    )


def _module(device: str) -> Any:
    """Return the module of arrays: numpy, or CuPy for a GPU."""
    return np if device == "cpu" else import_cupy()


def _chosen_kernel(
    xp: Any, groups: Groups, settings: KernelSettings, random: np.random.RandomState
) -> ridge_kernel.Choice:
    """Choose form, ρ and penalty on a sample of the different rows."""
    seen = ridge_kernel.categories_seen(groups.codes)
    share = groups.share
    squares = [(np.bincount(column, share) ** 2).sum() for column in groups.codes]
    rhos = ridge_kernel.rho_grid(len(seen), len(seen) - float(np.sum(squares)))
    if not isinstance(settings.rho, str):
        rhos = [float(settings.rho)]
    kernels = ridge_kernel.candidates(seen, rhos)
    penalty = None
    if not isinstance(settings.alpha, str):
        penalty = settings.alpha * groups.total
        if len(kernels) == 1:
            return ridge_kernel.Choice(kernels[0], penalty, 0.0, None)
    sample = groups.part(_some(groups.n, SEARCHED, random))
    return ridge_kernel.search(xp, sample, kernels, penalty)[0]


def _some(n: int, most: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Return the places of at most so many of n things, drawn at random."""
    if n <= most:
        return np.arange(n)
    return np.sort(random.permutation(n)[:most])


def _exact(
    xp: Any, system: System, choice: ridge_kernel.Choice, settings: KernelSettings
) -> Solution:
    """Solve for all different rows."""
    chosen = isinstance(settings.alpha, str) and system.groups.n > SEARCHED
    if chosen:
        return ridge_kernel.refined(xp, system, choice.penalty)
    return ridge_kernel.solve(xp, system, choice.penalty / system.groups.total)


def _by_landmarks(
    groups: Groups,
    choice: ridge_kernel.Choice,
    settings: KernelSettings,
    random: np.random.RandomState,
) -> tuple[Solution, Landmarks]:
    """Solve for functions of some rows, and of half of them to compare."""
    count = min(LANDMARKS, settings.max_rows)
    order = random.permutation(groups.n)
    half, whole = (
        ridge_kernel.landmark_solution(
            groups, choice.kernel, np.sort(order[:size]), choice.penalty
        )
        for size in (count // 2, count)
    )
    risks = [float(each.held_out.weighted[0]) for each in (half, whole)]
    return whole, Landmarks(count, groups.n, *risks)


def _left_out(
    weighed: ridge.Rows, solution: Solution, place: NDArray[np.intp]
) -> LeftOut:
    """Return how a sample of the rows is scored without each of them."""
    chosen = weighed.sampled
    rows = weighed.part(chosen)
    own = place[chosen]
    unit = 1.0 if rows.unit is None else rows.unit
    t = solution.t[own] - 1 / rows.n_classes
    return ridge.leave_out(rows, t, solution.leverage[own] * unit)


def _calibration(kind: str | None, K: int, left_out: LeftOut) -> Calibration | None:
    """Fit the calibration to left-out scores; of few rows and K > 2 one temperature."""
    if kind is None:
        return None
    few = left_out.weights.sum() < maps.ROWS_PER_COEFFICIENT * K * K
    if kind == "auto" and K > 2 and few:
        kind = "temperature"
    return maps.fitted(left_out, K, kind)


def _needs_folds(calibration: Calibration | None, n: float, K: int) -> bool:
    """Whether a calibration decides that few rows may have fitted optimistically."""
    decides = calibration is not None and calibration.by_class
    return decides and n <= min(SAMPLE, FOLD_ROWS * K * K)


def _fold_scores(
    xp: Any,
    system: System,
    solution: Solution,
    weighed: ridge.Rows,
    place: NDArray[np.intp],
    settings: KernelSettings,
) -> tuple[Pieces, Floats]:
    """Return the calibrated scores of rows, in pieces, by models of other folds."""
    rows, pieces = weighed.dealt()
    group = place[pieces.places]
    K = rows.n_classes
    out = np.zeros((rows.n, K))
    for k in np.unique(pieces.fold):
        own = pieces.fold == k
        scores, others = ridge_kernel.without_fold(
            xp, system, solution, rows, group, own
        )
        calibration = _calibration(settings.calibration, K, others)
        if calibration is not None and calibration.moves_decisions:
            scores = calibration.of(scores)
        elif calibration is not None:
            scores = float(calibration.slope) * scores
        out[own] = scores
    return pieces, out


# ---- what is known of it


def _class_counts(rows: TrainingRows, K: int) -> NDArray[Any]:
    """Return the rows (or weight) of each category and class."""
    classes = rows.y[:, None] == np.arange(K)
    sums = label_sums(
        rows.codes, rows.encoder.columns.sizes, classes * rows.weights[:, None]
    )
    return sums.astype(np.int64) if rows.sample_weight is None else sums


def _total(card: KernelCard, counts: NDArray[Any]) -> float:
    return float(counts[: card.encoder.columns.sizes[0]].sum())


def _notes(
    rows: TrainingRows, left_out: LeftOut, landmarks: Landmarks | None
) -> tuple[Warned, ...]:
    notes = weight_notes(rows)
    if not left_out.complete:
        notes = (*notes, ("no-left-out", text.NO_LEFT_OUT))
    elif left_out.mapped is not None:
        notes = (*notes, ("folds", text.FOLDS))
    if landmarks is not None:
        count, different, half_risk, risk = landmarks
        sentence = text.landmarks(count, different, half_risk, risk)
        notes = (*notes, ("landmarks", sentence))
    return notes


def _certificate(
    card: KernelCard,
    counts: NDArray[Any],
    effective_n: float,
    left_out: LeftOut,
    risk: float | None,
    notes: Sequence[Warned],
) -> Certificate:
    """Return the error to expect, next to the baselines."""
    n = _total(card, counts)
    first = counts[: card.encoder.columns.sizes[0]]
    unit = min(1.0, n / effective_n)
    error = left_out_error(left_out, card, "map")
    return Certificate(
        gamma=None,
        bounds={},
        majority=majority_of(card.classes, first.sum(axis=0) / n),
        one_feature=best_left_out_feature(counts, card.encoder.columns, n, unit),
        loo_risk=risk,
        loo_error=None if error is None else error.error,
        loo_rows=None if error is None else error.n,
        rule="map",
        n=n,
        n_indicators=int(np.count_nonzero(counts.sum(axis=1))),
        basis="rows",
        order=EVERY_ORDER,
        **warning_fields(notes),
    )
