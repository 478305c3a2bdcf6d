"""Blocks of encoded rows, and how one is put behind another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import Columns
from renyi.encoding.encoder import Encoder
from renyi.encoding.targets import class_factors
from renyi.solvers.ridge import Rows

Floats = NDArray[np.float64]


class Block:
    """Encoded rows.

    Parameters
    ----------
    encoder : Encoder
        The fitted encoder.
    codes : ndarray of shape (d, n)
        Codes of the cells, one row per column.
    y : ndarray of shape (n,)
        Codes of the classes.
    mass : ndarray of shape (n,) or None
        Weights of the rows; None means 1 throughout.

    Examples
    --------
    >>> encoder, codes = Encoder().fit_transform([["a"], ["b"]])
    >>> late, more = encoder.fit_transform([["c"]])
    >>> first = Block(encoder, codes, np.array([0, 1]), None)
    >>> both = first.joined(Block(late, more, np.array([1]), None))
    >>> both.codes, both.n_indicators
    (array([[0, 1, 2]], dtype=uint8), 3)
    """

    def __init__(
        self,
        encoder: Encoder,
        codes: NDArray[Any],
        y: NDArray[Any],
        mass: Floats | None,
    ) -> None:
        self.encoder = encoder
        self.codes = codes
        self.y = y
        self.mass = mass

    @property
    def n_indicators(self) -> int:
        """Number of categories of all columns."""
        return int(self.encoder.columns.sizes.sum())

    @property
    def copies(self) -> float:
        """Number of rows, a row of weight 2 counting twice."""
        return float(np.maximum(self._mass(), 1).sum())

    @property
    def heavy(self) -> tuple[str, ...]:
        """A note where weights stand for many more rows than there are."""
        n, total = len(self.y), float(self._mass().sum())
        if total <= 2 * n:
            return ()
        return (
            f"the {n:,} rows weigh {total:,.0f} and count as that many: survey weights "
            "should be divided by their mean first, or estimate and bound look better "
            "than they are.",
        )

    def rows(self, classes: NDArray[Any], class_weight: Any) -> Rows:
        """Rows with their weights: what each counts in the fit and in the report."""
        sizes, K = self.encoder.columns.sizes, len(classes)
        factors = self.encoder.factors(self.codes)
        if class_weight is None and self.mass is None:
            return Rows(self.codes, sizes, self.y, K, factors=factors)
        mass = self._mass()
        counts = np.bincount(self.y, mass, minlength=K).astype(np.float64)
        factor = class_factors(class_weight, classes, counts)[self.y]
        # A weight below 1 is a row by itself, a larger one several copies of a row.
        unit = np.minimum(mass, 1.0) * factor
        return Rows(self.codes, sizes, self.y, K, mass * factor, mass, unit, factors)

    def joined(self, other: Block) -> Block:
        """Rows of both, over the categories of both."""
        pairs = zip(self.encoder.columns, other.encoder.columns, strict=True)
        columns = Columns.of(a.union(b) for a, b in pairs)
        mass = None
        if self.mass is not None or other.mass is not None:
            mass = np.concatenate([self._mass(), other._mass()])
        return Block(
            replace(self.encoder.joined(other.encoder), columns=columns),
            np.hstack([self._over(columns), other._over(columns)]),
            np.concatenate([self.y, other.y]),
            mass,
        )

    def _mass(self) -> Floats:
        return np.ones(len(self.y)) if self.mass is None else self.mass

    def _over(self, columns: Columns) -> NDArray[Any]:
        """Codes of these rows in `columns`, which hold all their categories."""
        if self.encoder.columns == columns:
            return self.codes
        dtype = np.min_scalar_type(int(columns.sizes.max()))
        pairs = zip(self.encoder.columns, columns, self.codes, strict=True)
        return np.stack(
            [mine.places(wide).astype(dtype)[row] for mine, wide, row in pairs]
        )
