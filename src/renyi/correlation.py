r"""Maximal correlation (Hirschfeld, Gebelein, Rényi) of categorical columns.

.. math:: \rho(X, Y) = \max E[f(X) g(Y)], \quad E f = E g = 0, \; E f^2 = E g^2 = 1

is the second singular value of ``P(x, y) / √(P(x) P(y))``; its singular vectors give
the maximising f and g. It is 0 iff X and Y are independent, 1 iff some functions of
the two agree almost surely; for a binary Y with q = P(Y = 0) (the paper's lemma)

.. math:: \rho^2 = 1 - \frac{1}{q (1 - q)} \sum_x \frac{p_0(x) p_1(x)}{p_0(x) + p_1(x)}.

Over all distributions with given pairwise marginals, ρ(X_1 … X_d, Y) is at least the
first canonical correlation of the one-hot vectors,
``σ_max((Q_c⁺)^½ F_c diag(P_y)^{-½})``; at K = 2 that is ``√(1 − γ/(q(1−q)))``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting.onehot import spans
from renyi.counting.pair_counts import pair_counts
from renyi.counting.sparse_counts import dense
from renyi.encoding.encoder import Encoder
from renyi.limits import check_memory
from renyi.marginals.consistency import check_exact
from renyi.marginals.marginals import Marginals

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_COPIES = 6  # copies of a table that its decomposition needs


@dataclass(frozen=True, eq=False)
class HGR:
    """Maximal correlation of two columns, and the functions that attain it.

    The functions give each category a number, such that the two columns of numbers are
    as correlated as possible. ``float()`` returns the correlation rho alone.

    Parameters
    ----------
    rho : float
        The correlation, between 0 and 1.
    f, g : Series
        Values of the maximising functions by category, with mean 0 and variance 1; NaN
        for a category of probability 0. Both are 0 if a column has a single category.

    See Also
    --------
    hgr : Compute it from two columns.
    hgr_table : Compute it from a table of counts.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> result = renyi.hgr(X["physician-fee-freeze"], y)
    >>> round(float(result), 3)
    0.914
    >>> len(result.f), len(result.g)
    (3, 2)
    """

    rho: float
    f: pd.Series
    g: pd.Series

    def __float__(self) -> float:
        """Return rho."""
        return self.rho

    def __str__(self) -> str:
        """Return rho and the two functions as text."""
        lines = [f"maximal correlation {self.rho:.4f}"]
        for values in (self.f, self.g):
            shown = ", ".join(f"{k} {v:+.2f}" for k, v in values[:8].items())
            more = f", … {len(values) - 8} more" if len(values) > 8 else ""
            lines.append(f"  {values.index.name or values.name}: {shown}{more}")
        return "\n".join(lines)


def hgr_table(P: ArrayLike) -> HGR:
    """Compute the maximal correlation of a table of counts or probabilities.

    The result is 0 if rows and columns of the table are independent, and 1 if a
    function of the rows equals a function of the columns. Use it for a published table.

    Parameters
    ----------
    P : array or frame of shape (categories of x, categories of y)
        Nonnegative, not all zero; it need not sum to 1.

    Returns
    -------
    HGR
        The correlation and the functions that attain it.

    See Also
    --------
    hgr : Compute it from two columns.

    Examples
    --------
    >>> round(float(hgr_table([[30, 10], [10, 30]])), 3)
    0.5
    >>> float(hgr_table([[1, 2], [2, 4]])) < 1e-12
    True
    """
    import pandas as pd

    try:
        table = np.asarray(P, np.float64)
    except (TypeError, ValueError):
        table = np.empty(0)
    if table.ndim != 2:
        raise ValueError(
            "P must be a table of numbers with rows and columns. Count two columns "
            "with pandas.crosstab, or pass them to hgr()."
        )
    if not np.isfinite(table).all() or table.min(initial=0) < 0 or not table.any():
        raise ValueError(
            "P must contain finite counts that are not negative and not all zero."
        )
    frame = P if isinstance(P, pd.DataFrame) else pd.DataFrame(table)
    table = np.asarray(frame, np.float64) / table.max()  # so that no sum overflows
    rows = table.sum(axis=1) > 0
    cols = table.sum(axis=0) > 0
    f = np.full(len(rows), np.nan)
    g = np.full(len(cols), np.nan)
    rho, f[rows], g[cols] = _maximal(table[np.ix_(rows, cols)] / table.sum())
    return HGR(
        rho, pd.Series(f, frame.index, name="f"), pd.Series(g, frame.columns, name="g")
    )


def _maximal(P: Floats) -> tuple[float, Floats, Floats]:
    """Return rho, f and g of a table without empty rows or columns."""
    if min(P.shape) < 2:
        return 0.0, np.zeros(P.shape[0]), np.zeros(P.shape[1])
    a = np.sqrt(P.sum(axis=1))
    b = np.sqrt(P.sum(axis=0))
    # Written in bases of the functions of mean 0, the second singular value is the
    # first, also where it is repeated (1) or the matrix vanishes (independence).
    inner = _reflected(a, P / np.outer(a, b))[1:]
    inner = _reflected(b, inner.T)[1:].T
    U, sigma, Vt = np.linalg.svd(inner, full_matrices=False)
    f = _reflected(a, U[:, 0], 1) / a
    g = _reflected(b, Vt[0], 1) / b
    sign = 1.0 if f[np.abs(f).argmax()] > 0 else -1.0
    return float(min(1.0, sigma[0])), sign * f, sign * g


def _reflected(unit: Floats, M: Floats, missing: int = 0) -> Floats:
    """Apply the reflection that takes a unit vector, not negative, to −e_1.

    Its other rows are a basis of the functions of mean 0; first rows `missing` are 0.
    """
    v = unit.copy()
    v[0] += 1
    M = np.concatenate([np.zeros((missing, *M.shape[1:])), M])
    return np.asarray(M - np.multiply.outer(v, v @ M / v[0]))


def hgr(x: ArrayLike, y: ArrayLike) -> HGR:
    """Compute the maximal correlation of two columns of equal length.

    It measures any dependence between categories, not only a linear one: 0 means
    independent. Numbers are cut into bins, and missing cells are a category.

    See Also
    --------
    hgr_matrix : Compute it for all pairs of columns.
    hgr_table : Compute it from a table of counts.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> round(float(renyi.hgr(X["physician-fee-freeze"], y)), 3)
    0.914
    """
    import pandas as pd

    names = [str(getattr(v, "name", None) or k) for v, k in ((x, "x"), (y, "y"))]
    first, a = _codes(x, names[0])
    second, b = _codes(y, names[1])
    if len(a) != len(b):
        raise ValueError(
            f"x and y must have the same length, not {len(a)} and {len(b)} rows."
        )
    m = len(first.texts)
    k = len(second.texts)
    _check_block(names, m, k)
    counts = np.bincount(a.astype(np.intp) * k + b, minlength=m * k).reshape(m, k)
    index = pd.Index(first.texts)
    columns = pd.Index(second.texts)
    return hgr_table(
        pd.DataFrame(counts, index.rename(names[0]), columns.rename(names[1]))
    )


def _check_block(names: Sequence[str], rows: int, columns: int) -> None:
    """Raise an error if the decomposition of a table would not fit into memory."""
    what = f"The table of {names[0]!r} and {names[1]!r}, {rows:,} by {columns:,},"
    more = "merge rare labels, leave one of them out, or give it more"
    check_memory(_COPIES * 8 * rows * columns, what, more)


def _codes(column: object, name: str) -> tuple[Any, NDArray[Any]]:
    import pandas as pd

    if hasattr(column, "to_frame"):  # a series of pandas or polars, or an index
        frame = column.to_frame(name)
    else:
        # A list goes to pandas as it is: an array would write its NaN as text.
        cells = column if isinstance(column, list) else np.asarray(column)
        if np.ndim(cells) != 1:
            raise ValueError(f"{name} must be one column, a sequence of cells.")
        frame = pd.DataFrame({name: cells})
    if not len(frame):
        raise ValueError(f"{name} has no rows.")
    encoder, codes = Encoder().fit_transform(frame)
    return encoder.columns[0].levels, codes[0]


def hgr_matrix(data: object) -> pd.DataFrame:
    """Compute the maximal correlation of all pairs of columns.

    Use it to find columns that say the same. A cell is NaN if the marginals lack the
    pair. A column with a single category has the correlation 0.

    See Also
    --------
    HGRDisplay : Plot the matrix as a clustered map.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> matrix = renyi.hgr_matrix(X[["crime", "immigration", "mx-missile"]])
    >>> matrix.loc["crime"].round(2).tolist()
    [1.0, 0.18, 0.56]
    """
    import pandas as pd

    if isinstance(data, Marginals):
        counts = data.counts
        columns = data.columns
        unknown = data.absent
    else:
        encoder, codes = Encoder().fit_transform(data)
        columns = encoder.columns
        unknown = frozenset()
        counts = pair_counts(codes, columns.sizes)
    names = list(columns.names)
    places = spans(columns.sizes)
    matrix = np.eye(len(names))
    if len(names) > 1:
        i, j = np.argsort(columns.sizes)[-2:].tolist()
        _check_block((names[i], names[j]), *columns.sizes[[i, j]].tolist())
    for i, own in enumerate(places):
        for j, other in enumerate(places[:i]):
            known = frozenset((names[i], names[j])) not in unknown
            rho = float(hgr_table(dense(counts[own, other]))) if known else np.nan
            matrix[i, j] = matrix[j, i] = rho
        if np.count_nonzero(counts.diagonal()[own]) < 2:
            matrix[i, i] = 0.0  # a constant does not vary, not even with itself
    return pd.DataFrame(matrix, index=names, columns=names)


def ranking(m: Marginals) -> pd.Series:
    """Return the maximal correlation of each feature with the target, largest first."""
    import pandas as pd

    _check_marginals(m)
    columns = m.encoder.columns
    counts = m.target_counts
    places = zip(columns.names, spans(columns.sizes), strict=True)
    by_name = {name: float(hgr_table(counts[own])) for name, own in places}
    # Equal up to rounding is equal: then the order is that of the columns.
    order = sorted(by_name, key=lambda name: -round(by_name[name], 12))
    return pd.Series(by_name, name="rho")[order]


def hgr_lower_bound(m: Marginals, features: Iterable[str] | None = None) -> float:
    """Compute the least maximal correlation of features and target, over all joints.

    Every distribution with the marginals m has a maximal correlation of at least this
    between (X_1, …, X_d) and Y. It cannot be less than that of any feature alone.

    Parameters
    ----------
    m : Marginals
        The marginals.
    features : iterable of str, optional
        Names of features, or one name (default: all).

    See Also
    --------
    hgr : Compute the correlation of two columns.

    Examples
    --------
    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> round(hgr_lower_bound(m), 3)
    0.935
    """
    _check_marginals(m)
    check_exact(m, "The least maximal correlation")
    if features is not None:
        m = m.select([features] if isinstance(features, str) else features)
    return canonical_correlation(m.Q, m.F, m.class_probabilities)


def _check_marginals(m: object) -> None:
    if not isinstance(m, Marginals):
        raise TypeError(
            f"m must be Marginals, not a {type(m).__name__}. Count them with "
            "Marginals.from_data."
        )


def canonical_correlation(Q: Floats, F: Floats, priors: Floats) -> float:
    """Return the canonical correlation ``σ_max((Q_c⁺)^½ F_c D^{-½})`` of W and e_Y."""
    if not len(Q):
        return 0.0
    mu = np.diag(Q)
    values, vectors = np.linalg.eigh(Q - np.outer(mu, mu))
    cutoff = max(1e-12, values[-1] * len(values) * np.finfo(float).eps * 8)
    kept = values > cutoff
    present = priors > 0
    R = (F - np.outer(mu, priors))[:, present] / np.sqrt(priors[present])
    scaled = (vectors[:, kept] / np.sqrt(values[kept])).T @ R
    if not scaled.size:
        return 0.0
    return min(1.0, float(np.linalg.norm(scaled, 2)))
