r"""Ridge fits of nested sets of features, all from one factorisation.

With the features in some order, ``A + alpha·I = L Lᵀ`` and ``Y = L⁻¹ R``, the first
features alone have the factor and the right-hand side that stand at the top of L and Y.
With p categories among the first k features::

    fit_k = ‖Y[:p]‖²                     = tr Z_kᵀ R,     Z_k = (L⁻¹[:p])ᵀ Y[:p]
    df_k  = 1 + p − alpha·‖L⁻¹[:p]‖²

so that running sums give the risk of every set,

.. math:: \gamma(z_k) = w \, (\mathrm{variance} - \mathrm{fit}_k
          - \alpha \lVert Z_k \rVert^2),

(w = 1 for two classes, ½ for more), its worst cases by the closed form
(`renyi.certificates.closed_form`) and its maximal correlation. An intercept is part of
every fit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from renyi.counting.onehot import offsets
from renyi.solvers.ridge import Moments, cholesky, weight_of

Floats = NDArray[np.float64]


class NestedFits(NamedTuple):
    """What is known of the fits on the first 1, 2, …, d features."""

    gamma: Floats
    hgr: Floats
    map: Floats
    sharp: Floats
    df: Floats

    def gcv(self, n: float) -> Floats:
        """Return γ/(1 − df/n)², infinite where no degree of freedom is left."""
        left = 1 - self.df / n
        with np.errstate(divide="ignore", invalid="ignore"):
            risks = np.where(left > 1e-9, self.gamma / left**2, np.inf)
        return np.asarray(risks, np.float64)


def nested_fits(
    equations: Moments, sizes: NDArray[Any], priors: Floats, alpha: float
) -> NestedFits:
    """Fit the first feature, the first two, and so on.

    Parameters
    ----------
    equations : Moments
        With intercept; the features in the order in which they come in.
    sizes : ndarray of d ints
        Number of categories of each feature.
    priors : ndarray of shape (K,)
        Class probabilities.
    alpha : float
        Ridge penalty, positive.

    Examples
    --------
    >>> import renyi
    >>> from renyi.solvers.ridge import moments
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X[["crime", "immigration"]], y)
    >>> equations = moments(m.Q, m.F, m.class_probabilities, fit_intercept=True)
    >>> fits = nested_fits(equations, np.full(2, 3), m.class_probabilities, 1e-6)
    >>> fits.gamma.round(4), fits.sharp.round(4)
    (array([0.1481, 0.1478]), array([0.2961, 0.2955]))
    """
    ends = offsets(sizes)[1:]
    inverse, info = lapack.dtrtri(cholesky(equations.A, alpha), lower=1, overwrite_c=1)
    assert info == 0
    Y = inverse @ equations.R
    fit = np.cumsum((Y**2).sum(axis=1))[ends - 1]
    penalty = alpha * _squared_points(inverse, Y, ends)
    trace = np.cumsum(np.einsum("ij,ij->i", inverse, inverse))[ends - 1]
    weight = weight_of(equations.n_classes)
    gamma = weight * np.maximum(equations.variance - fit - penalty, 0)
    scaled = _scaled_bound(equations.base, fit, penalty, equations.n_classes)
    return NestedFits(
        gamma,
        _correlations(Y, ends, priors, gamma, equations.variance),
        np.minimum(np.minimum(scaled, 4 * gamma), 1.0),
        np.minimum(2 * gamma, 1.0),
        1 + ends - alpha * trace,
    )


def _squared_points(inverse: Floats, Y: Floats, ends: NDArray[Any]) -> Floats:
    """Return ‖Z_k‖², the points of each fit coming from those of the last."""
    Z, begin = np.zeros_like(Y), 0
    found = np.zeros(len(ends))
    for k, end in enumerate(ends.tolist()):
        Z[:end] += inverse[begin:end, :end].T @ Y[begin:end]
        found[k], begin = np.vdot(Z, Z), end
    return found


def _scaled_bound(base: Floats, fit: Floats, penalty: Floats, n_classes: int) -> Floats:
    """Worst error of the rule map: 2[1 − 1/K − (E[t_Y − t̄])² / E‖t − t̄·1‖²].

    Points of all classes sum to 0, so that t̄ = 1/K.
    """
    if n_classes == 2:  # one column stands for both
        start = float(((base - 0.5) ** 2).sum())
        lead, spread = 2 * (start + fit), 2 * (start + fit - penalty)
    else:
        off = base - 1 / n_classes
        lead, spread = float(base @ off) + fit, float(off @ off) + fit - penalty
    gain = np.where(spread > 0, lead**2 / np.where(spread > 0, spread, 1), 0)
    return np.maximum(2 * (1 - 1 / n_classes - gain), 0)


def _correlations(
    Y: Floats, ends: NDArray[Any], priors: Floats, gamma: Floats, variance: float
) -> Floats:
    """Return lower bounds of the maximal correlation with the class."""
    if len(priors) == 2:
        share = 1 - gamma / variance if variance > 0 else np.zeros_like(gamma)
        return np.asarray(np.sqrt(np.clip(share, 0, 1)))
    present = priors > 0
    scaled = Y[:, present] / np.sqrt(priors[present])
    total, begin = np.zeros((scaled.shape[1],) * 2), 0
    found = np.zeros(len(ends))
    for k, end in enumerate(ends.tolist()):
        total += scaled[begin:end].T @ scaled[begin:end]
        found[k], begin = np.linalg.eigvalsh(total)[-1], end
    return np.asarray(np.sqrt(np.clip(found, 0, 1)))
