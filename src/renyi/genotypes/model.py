"""Two classes from packed genotypes, many variants and few samples.

The fit has n unknowns however many variants there are (`renyi.genotypes.fit`). Every
metric is of samples that the fit which scores them has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from renyi import rules
from renyi.genotypes import packed
from renyi.genotypes.files import Genotypes
from renyi.genotypes.fit import (
    MISSING_AS,
    GenotypeKernel,
    KernelFit,
    Samples,
    covariates_alone,
    fit_kernel,
    fit_products,
    unpenalised,
)
from renyi.genotypes.packed import AnyGenotypes, PackedGenotypes, packed_of
from renyi.limits import memory_budget
from renyi.solvers.calibration import Calibration, temperature
from renyi.solvers.metrics import auc, left_out_auc
from renyi.solvers.ridge import AlphaChoice, LeftOut, check_alpha
from renyi.validation import InputError, check_choice

Floats = NDArray[np.float64]

EXACT_SAMPLES = 15_000
"""Up to so many, a factorisation is sooner done than conjugate gradients."""
FOLDS = 5
CHOICE_SAMPLES = 2_000  # of whom alpha is chosen where there are too many
TOLERANCE = 1e-6
_LEVEL = 1e-10  # scores that are further apart are never taken for equal
_ROUNDING = 1e-14  # of scores, times d/alpha; smaller differences rank nobody
_LEFT_OUT = {
    "sample": "leave-one-out",
    "group": "leave-one-group-out",
    "fold": f"{FOLDS}-fold cross-fit",
}


@dataclass(frozen=True)
class GenotypeMetrics:
    """Figures of a fit on left-out samples."""

    method: str  # "leave-one-out", by group, or by folds
    error: float  # error rate
    risk: float  # mean of (s − y)² with the estimate s of P(class 1)
    auc: float
    auc_interval: tuple[float, float]  # of 95 %, 1.5 times as wide as DeLong's
    majority_error: float  # of always answering the larger class
    balanced_threshold: float  # score of the share of class 1, for equal classes
    balanced_error: float  # error rate at that threshold
    covariates_error: float | None = None  # of a fit to the covariates alone
    covariates_auc: float | None = None
    residual: float = 0.0  # share of the equations that conjugate gradients left


class GenotypeModel:
    """What `GenotypeClassifier` learns and answers, without scikit-learn."""

    alpha_choice_: AlphaChoice
    calibration_: Calibration | None
    metrics_: GenotypeMetrics

    def __init__(
        self,
        alpha: float | str = "auto",
        dominance: bool = True,
        missing: str = "category",
        solver: str = "auto",
        device: str = "cpu",
        random_state: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.dominance = dominance
        self.missing = missing
        self.solver = solver
        self.device = device
        self.random_state = random_state

    def fit(
        self,
        G: AnyGenotypes,
        y: ArrayLike,
        covariates: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit to samples of two classes.

        Parameters
        ----------
        G : PackedGenotypes, or an object that has them as ``packed``
            The genotypes.
        y : array-like of shape (n,)
            The class of every sample.
        covariates : array-like of shape (n, q), optional
            Numbers in addition to the genotypes, fitted without penalty.
        groups : array-like of shape (n,), optional
            Samples with the same group are left out together, such as a family.

        Returns
        -------
        self
        """
        genotypes = packed_of(G)
        alpha = self._check()
        self.classes_, samples = _known_samples(y, covariates, groups, genotypes.n)
        if not genotypes.d:
            raise ValueError("there are no variants to fit: keep at least one.")
        kernel = self._kernel(genotypes)
        if self._exact(genotypes.n):
            fit = fit_kernel(kernel.matrix(), samples, alpha, genotypes.d)
        else:
            fit = self._iterate(kernel, samples, alpha)
        self._keep(kernel, fit, samples)
        return self

    def _check(self) -> float | str:
        check_choice("missing", self.missing, MISSING_AS)
        check_choice("solver", self.solver, ("auto", "exact", "cg"))
        check_choice("device", self.device, ("cpu", "cuda"))
        alpha = check_alpha(self.alpha)
        if alpha == 0:
            raise ValueError(
                "alpha must be positive: with more variants than samples a fit without "
                "penalty is not determined. Give a small number."
            )
        return alpha

    def _kernel(self, G: PackedGenotypes) -> GenotypeKernel:
        return GenotypeKernel.of(G, self.dominance, self.missing, self.device)

    def _exact(self, n: int) -> bool:
        if self.solver == "auto":
            return n <= EXACT_SAMPLES and 4 * 8 * n**2 <= memory_budget()
        return self.solver == "exact"

    def _iterate(
        self, kernel: GenotypeKernel, samples: Samples, alpha: float | str
    ) -> KernelFit:
        """Fit by conjugate gradients; choose alpha by a factorisation of some samples.

        The best total penalty n·alpha is a ratio of two variances. It does not grow
        with the number of samples.
        """
        G = kernel.G
        rng = np.random.default_rng(self.random_state)
        members = np.arange(G.n) if samples.groups is None else samples.groups
        folds = rng.permutation(np.arange(members.max() + 1) % FOLDS)[members]
        method = "given"
        if isinstance(alpha, str):
            some = np.sort(rng.permutation(G.n)[:CHOICE_SAMPLES])
            few = samples.take(some)
            if len(np.unique(few.y)) < 2:
                raise ValueError(
                    "one class is too rare to choose alpha from some samples: give a "
                    "number."
                )
            part = replace(kernel, G=G.take(samples=some), on_gpu=None)
            chosen = fit_kernel(part.matrix(), few, alpha, G.d).choice
            method = chosen.method
            alpha = chosen.alpha * len(some) / G.n
        diagonal = float(G.d if self.dominance else 1.5 * G.d)
        fit = fit_products(kernel.multiply, samples, alpha, folds, diagonal, TOLERANCE)
        return fit._replace(choice=replace(fit.choice, method=method))

    def _keep(self, kernel: GenotypeKernel, fit: KernelFit, samples: Samples) -> None:
        """Store points, coefficients and figures."""
        G = kernel.G
        y, C, _ = samples
        coefficients = fit.coefficients
        self.points_ = kernel.points(fit.beta)
        fitted = y - G.n * fit.choice.alpha * fit.beta
        if not len(coefficients):
            rest = fitted - packed.scores(G, self.points_)
            solution = np.linalg.lstsq(unpenalised(G.n, C), rest)[0]
            coefficients = np.asarray(solution, np.float64)
        self.intercept_ = float(coefficients[0]) - 0.5
        self.covariate_coef_ = coefficients[1:]
        self.alpha_choice_ = fit.choice
        self.alpha_ = fit.choice.alpha
        _check_determined(fit)
        self.left_out_ = fit.left_out
        condition = G.d / fit.choice.alpha
        scores = _comparable(fit.left_out, y, fit.together, condition)
        self.left_out_scores_ = scores
        self.left_out_genetic_ = scores
        alone = None
        if C is not None:
            alone = covariates_alone(samples, fit.together)
            self.left_out_genetic_ = _levelled(fit.left_out - alone, condition)
        self.left_out_cells_ = _runs(fitted, condition)
        self.metrics_ = _figures(fit, scores, samples, alone, self.left_out_cells_)
        self.loo_error_ = self.metrics_.error
        ones = np.ones(G.n)
        rows = LeftOut(fit.left_out[:, None] - 0.5, y, ones, ones, 0.0)
        self.calibration_ = temperature(rows, 2)
        self.n_features_in_ = G.d

    def decision_function(
        self, G: AnyGenotypes, covariates: ArrayLike | None = None
    ) -> Floats:
        """Return scores; a score above 0 means the second class."""
        genotypes = self._same_variants(G)
        C = _covariates(covariates, genotypes.n)
        q = 0 if C is None else C.shape[1]
        if q != len(self.covariate_coef_):
            raise ValueError(
                f"the model has {len(self.covariate_coef_)} covariates, but {q} are "
                "given."
            )
        scores = packed.scores(genotypes, self.points_) + self.intercept_
        return scores if C is None else scores + C @ self.covariate_coef_

    def _same_variants(self, G: AnyGenotypes) -> PackedGenotypes:
        genotypes = packed_of(G)
        if genotypes.d != len(self.points_):
            raise ValueError(
                f"the model has {len(self.points_):,} variants and these genotypes "
                f"{genotypes.d:,}: keep the same, in the same order."
            )
        return genotypes

    def predict(
        self, G: AnyGenotypes, covariates: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the likelier class of every sample."""
        scores = self.decision_function(G, covariates)
        return np.asarray(self.classes_[(scores > 0).astype(np.intp)])

    def predict_proba(
        self, G: AnyGenotypes, covariates: ArrayLike | None = None
    ) -> Floats:
        """Return the probabilities of both classes, (n, 2)."""
        assert self.calibration_ is not None
        scores = self.decision_function(G, covariates)[:, None]
        both = np.hstack([-scores, scores])
        return rules.logistic(both, self.calibration_.factor(2))

    def score(
        self, G: AnyGenotypes, y: ArrayLike, covariates: ArrayLike | None = None
    ) -> float:
        """Return the accuracy."""
        return float(np.mean(self.predict(G, covariates) == np.asarray(y)))

    # ---- leave chromosomes out

    def leave_chromosomes_out(
        self,
        G: AnyGenotypes,
        y: ArrayLike,
        covariates: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        chromosomes: ArrayLike | None = None,
    ) -> pd.DataFrame:
        """Return scores of the training samples without each chromosome in turn.

        Each comes from a fit to the variants of all other chromosomes and, at the same
        penalty, to all other samples (groups, folds). The score of the covariates alone
        is subtracted. Use it for the rest of the genome when you test the variants of a
        chromosome one by one.

        Parameters
        ----------
        G, y, covariates, groups
            The arguments of `fit`.
        chromosomes : array-like of shape (d,), optional
            The chromosome of every variant (default: that of ``G.variants``).

        Returns
        -------
        DataFrame of shape (n, chromosomes)
            A column for each, in the order of the file.
        """
        whole = self._same_variants(G)
        samples = _known_samples(y, covariates, groups, whole.n)[1]
        if chromosomes is None and isinstance(G, Genotypes):
            chromosomes = G.variants["chromosome"]
        names = np.asarray(chromosomes).astype(str)
        if names.shape != (whole.d,):
            raise ValueError(f"chromosomes must be given for all {whole.d} variants.")
        if (names == names[0]).all():
            raise ValueError(
                f"all variants are on chromosome {names[0]}: without it none is left."
            )

        exact = self._exact(whole.n)
        columns = {}
        if exact:
            A = self._kernel(whole).matrix()
        for name in pd.unique(names):
            if exact:  # A is the sum over the chromosomes
                part = whole.take(variants=names == name)
                rest = self._kernel(part).matrix()
                np.subtract(A, rest, out=rest)
                fit = fit_kernel(rest, samples, self.alpha_, whole.d)
            else:
                part = whole.take(variants=names != name)
                fit = self._iterate(self._kernel(part), samples, self.alpha_)
            _check_determined(fit)
            alone = covariates_alone(samples, fit.together)
            columns[str(name)] = fit.left_out - alone
        return pd.DataFrame(columns)


# ---- checks of arguments


def _known_samples(
    y: ArrayLike, covariates: ArrayLike | None, groups: ArrayLike | None, n: int
) -> tuple[NDArray[Any], Samples]:
    """Return the two classes, and the facts of every sample."""
    classes, labels = np.unique(_known(y, n, "y"), return_inverse=True)
    if len(classes) != 2:
        few = ", ".join(map(repr, classes[:5].tolist()))
        raise InputError(
            f"y must have two classes, but has {len(classes)} ({few}): keep the "
            "samples of two.",
            "classes",
        )
    C = _covariates(covariates, n)
    return classes, Samples(labels.astype(np.int64), C, _groups(groups, n))


def _known(values: ArrayLike, n: int, name: str) -> NDArray[Any]:
    given = np.asarray(values)
    if given.shape != (n,) or pd.isna(given).any():
        raise ValueError(
            f"{name} must have a value for each of {n} samples: leave out the others."
        )
    return given


def _covariates(covariates: ArrayLike | None, n: int) -> Floats | None:
    if covariates is None:
        return None
    table = np.asarray(covariates, np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n:
        raise ValueError(f"covariates must have a row for each of {n} samples.")
    wrong = np.flatnonzero(~np.isfinite(table).all(axis=0))
    if wrong.size:
        raise ValueError(
            f"covariate {wrong[0] + 1} has values that are missing or infinite: leave "
            "those samples out."
        )
    return table if table.shape[1] else None


def _groups(groups: ArrayLike | None, n: int) -> NDArray[np.int64] | None:
    if groups is None:
        return None
    known = _known(groups, n, "groups")
    names, members = np.unique(known, return_inverse=True)
    if len(names) < 2:
        raise ValueError("groups must be two or more, to leave one out.")
    return None if len(names) == n else members.astype(np.int64)


# ---- figures


def _figures(
    fit: KernelFit,
    scores: Floats,
    samples: Samples,
    alone: Floats | None,
    cells: NDArray[np.intp],
) -> GenotypeMetrics:
    """Evaluate left-out scores, and those of the covariates alone."""
    y, C, groups = samples
    kind = "fold" if fit.rounds else "sample" if groups is None else "group"
    area, low, high = left_out_auc(scores, y, cells, groups)
    error, risk = _error_and_risk(fit.left_out, y)
    metrics = GenotypeMetrics(
        method=_LEFT_OUT[kind],
        error=error,
        risk=risk,
        auc=area,
        auc_interval=(low, high),
        majority_error=float(min(y.mean(), 1 - y.mean())),
        balanced_threshold=float(y.mean() - 0.5),
        balanced_error=float(((scores > 0) != y).mean()),
        residual=fit.residual,
    )
    if alone is None or C is None:
        return metrics
    _, equal = np.unique(C, axis=0, return_inverse=True)
    level = _comparable(alone, y, fit.together)
    return replace(
        metrics,
        covariates_error=_error_and_risk(alone, y)[0],
        covariates_auc=auc(level, y, cells=equal.ravel())[0],
    )


def _error_and_risk(s: Floats, y: NDArray[np.int64]) -> tuple[float, float]:
    return float(((s > 0.5) != y).mean()), float(((s - y) ** 2).mean())


def _check_determined(fit: KernelFit) -> None:
    if fit.choice.risk is None:
        raise ValueError(
            "without some sample or group the covariates do not determine a fit: "
            "merge groups, leave a covariate out, or give a larger alpha."
        )


def _comparable(
    left_out: Floats,
    y: NDArray[np.int64],
    together: NDArray[np.int64] | None,
    condition: float = 1.0,
) -> Floats:
    """Return left-out scores minus the share of class 1 in their fits.

    The share is smaller without a sample of class 1. So for pure noise all samples of
    class 1 would rank last.
    """
    if together is None:
        together = np.arange(len(y))
    inside = np.bincount(together, y)
    size = np.bincount(together)
    share = (y.sum() - inside) / np.maximum(len(y) - size, 1)
    return _levelled(left_out - share[together], condition)


def _levelled(scores: Floats, condition: float) -> Floats:
    """Return scores without rounding differences, which would rank equal samples."""
    runs = _runs(scores, condition)
    _, first, place = np.unique(runs, return_index=True, return_inverse=True)
    level = scores[first[place]]
    return np.where(np.abs(level) < _ROUNDING * max(1.0, condition), 0.0, level)


def _runs(scores: Floats, condition: float) -> NDArray[np.intp]:
    """Return a number for each score, equal if they differ only by rounding."""
    near = min(_ROUNDING * max(1.0, condition), _LEVEL)
    order = np.argsort(scores, kind="stable")
    ranked = scores[order]
    begun = np.append(True, np.diff(ranked) > near)
    first = np.flatnonzero(begun)
    size = np.diff(first, append=len(ranked))
    wide = np.repeat(ranked[first + size - 1] - ranked[first] > 4 * near, size)
    numbers = np.empty(len(scores), np.intp)
    numbers[order] = np.cumsum(begun | wide)
    return numbers
