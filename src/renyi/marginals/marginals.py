r"""Marginals: counts of pairs of columns, and nothing else.

Everything in this method needs ``E[W Wᵀ]``, W being the one-hot vector of a row: the
counts of all pairs of categories. `Marginals` hold them for all columns, the target
being one more column, so that

* ``Q = E[W Wᵀ]`` of the features and ``F = E[W e_Yᵀ]`` are blocks of one table;
* another target asks another question of the same counts;
* counts of disjoint rows add up, and subtracting is never having seen.

No row can be read off them, and no row is kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import offsets
from renyi.encoding.columns import Column, Columns, Label
from renyi.encoding.encoder import Encoder
from renyi.marginals import arithmetic, consistency, overview
from renyi.marginals.digest import DataDigest, digest
from renyi.marginals.origins import Origins

if TYPE_CHECKING:
    import os

    import pandas as pd


@dataclass(frozen=True, eq=False)
class Marginals(Origins):
    """Counts of all pairs of columns of a table.

    Made by `from_data`, `from_blocks`, `from_tables` or `load`, rarely by hand.

    Parameters
    ----------
    counts : ndarray of shape (D, D)
        Rows (or weight) with both categories, for every pair of the D categories of
        all columns, the target's included. int64, or float64 when rows have weights.
    n : int or float
        Number of rows, or total weight.
    columns : Columns
        The columns in the order of the table.
    target : str
        The column to predict.
    settings : Encoder
        How cells become categories (missing codes, bins, …).
    class_counts : ndarray of shape (K, D', D'), optional
        Pair counts of the features within each class.
    absent : frozenset of pairs of names
        Pairs of columns whose joint counts are not known.
    provenance : dict
        Where the counts came from, in plain words; kept in the file.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> m.n, m.classes, m.Q.shape
    (435, ('democrat', 'republican'), (48, 48))
    >>> m.block("physician-fee-freeze", "party")
    party                 democrat  republican
    physician-fee-freeze
    n                          245           2
    y                           14         163
    (missing)                    8           3
    >>> half, rest = renyi.Marginals.from_data(X[:200], y[:200]), X[200:]
    >>> half + renyi.Marginals.from_data(rest, y[200:]) == m
    True
    """

    counts: NDArray[Any]
    n: float
    columns: Columns
    target: str
    settings: Encoder = field(default_factory=Encoder)
    class_counts: NDArray[Any] | None = None
    absent: frozenset[frozenset[str]] = frozenset()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    # ---- the columns

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights."""
        return self.counts.dtype.kind == "f"

    @property
    def order(self) -> int:
        """Number of columns in a feature."""
        return self.settings.order

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, which are all columns but the target."""
        return tuple(name for name in self.columns.names if name != self.target)

    @property
    def encoder(self) -> Encoder:
        """The fitted encoder of the features."""
        names = self.feature_names
        columns = self.columns.take(self.columns.places(names))
        return dataclasses.replace(self.settings, columns=columns)

    @property
    def categories(self) -> dict[str, tuple[Label, ...]]:
        """Categories of each column, None being the missing level."""
        return {column.name: column.categories for column in self.columns}

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes: categories of the target."""
        return self._column(self.target).categories

    def _column(self, name: str) -> Column:
        return self.columns[self.columns.places([name])[0]]

    def _spans(self, names: Iterable[str]) -> NDArray[np.intp]:
        """Places in `counts` of the categories of some columns."""
        starts = offsets(self.columns.sizes)
        spans = [
            np.arange(starts[j], starts[j + 1]) for j in self.columns.places(names)
        ]
        return np.concatenate(spans) if spans else np.empty(0, np.intp)

    # ---- blocks of the table

    def block(self, first: str, second: str) -> pd.DataFrame:
        """Contingency table of two columns."""
        import pandas as pd

        self._need([(first, second)])
        rows, columns = self._column(first).levels, self._column(second).levels
        return pd.DataFrame(
            self.counts[np.ix_(self._spans([first]), self._spans([second]))],
            index=pd.Index(rows.texts, name=first),
            columns=pd.Index(columns.texts, name=second),
        )

    @property
    def feature_counts(self) -> NDArray[Any]:
        """Pair counts of the features."""
        names = self.feature_names
        if self.absent:
            self._need((a, b) for a in names for b in names)
        if names == tuple(self.columns.names[:-1]):
            size = len(self.counts) - len(self.classes)
            return self.counts[:size, :size]
        places = self._spans(names)
        return self.counts[np.ix_(places, places)]

    @property
    def target_counts(self) -> NDArray[Any]:
        """Counts of every category of the features with every class."""
        names = self.feature_names
        self._need((name, self.target) for name in names)
        return self.counts[np.ix_(self._spans(names), self._spans([self.target]))]

    @property
    def Q(self) -> NDArray[np.float64]:
        """The matrix ``E[W Wᵀ]``: probabilities of all pairs of feature categories."""
        return self.feature_counts / self.n

    @property
    def F(self) -> NDArray[np.float64]:
        """The matrix ``E[W e_Yᵀ]``: probabilities of feature category and class."""
        return self.target_counts / self.n

    @property
    def dvec(self) -> NDArray[np.float64]:
        """The paper's vector d for two classes: ``F[:, 1] - F[:, 0]``."""
        if len(self.classes) != 2:
            raise ValueError(
                f"dvec is defined for two classes; {self.target!r} has "
                f"{len(self.classes)}. Use F."
            )
        F = self.F
        difference: NDArray[np.float64] = F[:, 1] - F[:, 0]
        return difference

    @property
    def class_probabilities(self) -> NDArray[np.float64]:
        """Probability of each class."""
        places = self._spans([self.target])
        return np.asarray(self.counts[places, places] / self.n, np.float64)

    def _need(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Raise an error that names a pair of columns without joint counts."""
        for pair in pairs:
            if frozenset(pair) in self.absent:
                first, second = pair
                raise ValueError(
                    f"The joint counts of {first!r} and {second!r} are not among the "
                    "tables: add a table of the two, or leave one out with select()."
                )

    # ---- operations

    def with_target(self, name: str) -> Marginals:
        """Return the same counts with another column to predict."""
        self.columns.places([name])
        if name == self.target:
            return self
        if self.order > 1:
            raise ValueError(
                f"The features are tuples of {self.order} columns, none of which can "
                "be the target: count at order 1."
            )
        return dataclasses.replace(self, target=name, class_counts=None)

    def select(self, features: Iterable[str]) -> Marginals:
        """Return the marginals of some of the features and the target."""
        return arithmetic.selected(self, list(features))

    def __add__(self, other: Marginals) -> Marginals:
        """Marginals of the rows of both."""
        if not isinstance(other, Marginals):
            return NotImplemented
        return arithmetic.added(self, other)

    def __radd__(self, other: object) -> Marginals:
        """Let ``sum`` start from 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Marginals) -> Marginals:
        """Marginals without the rows of `other`, as if they had never been seen.

        A count that would be negative is an error; a difference that goes through is
        no proof that the rows were in it.
        """
        if not isinstance(other, Marginals):
            return NotImplemented
        return arithmetic.subtracted(self, other)

    def __mul__(self, factor: float) -> Marginals:
        """Scale every count; an integer factor keeps the counts integers."""
        if isinstance(factor, np.generic):
            factor = factor.item()
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            return NotImplemented
        return arithmetic.scaled(self, factor)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Whether the same columns have the same counts, in the same order."""
        if not isinstance(other, Marginals):
            return NotImplemented
        inner, theirs = self.class_counts, other.class_counts
        same = (
            self.target == other.target
            and self.n == other.n
            and self.columns == other.columns
            and self.absent == other.absent
            and np.array_equal(self.counts, other.counts)
            and (inner is None) == (theirs is None)
        )
        if inner is None or theirs is None:
            return same
        return same and np.array_equal(inner, theirs)

    __hash__ = None  # type: ignore[assignment]

    @property
    def digest(self) -> DataDigest:
        """Digest of names, categories and counts: the same for the same data."""
        return digest(self)

    # ---- validation

    def validate(self, tolerance: float = 1e-6) -> Marginals:
        """Check that some distribution of rows could have these marginals.

        Raises an error that names the offending columns, and by how much, if a cell is
        negative, if the margins of two tables disagree, or if the whole table (with
        the target) is not positive semidefinite. Returns the marginals themselves.

        Parameters
        ----------
        tolerance : float, default=1e-6
            What is allowed, as a share of all rows.

        Examples
        --------
        >>> import renyi
        >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
        >>> m.validate() is m
        True
        """
        return consistency.validate(self, tolerance)

    def absent_places(self) -> list[tuple[int, int]]:
        """Positions of the pairs of columns without joint counts, in both orders."""
        return consistency.absent_places(self)

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file: npz with a JSON header and a checksum."""
        from renyi.marginals import file

        file.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Marginals:
        """Read the counts that `save` wrote; the file may come from a stranger.

        >>> import os, tempfile
        >>> import renyi
        >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
        >>> place = os.path.join(tempfile.mkdtemp(), "votes.renyi")
        >>> m.save(place)
        >>> renyi.Marginals.load(place) == m
        True
        """
        from renyi.marginals import file

        return file.read(path)

    # ---- texts

    def __str__(self) -> str:
        """Return a readable summary."""
        return overview.page(self)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<{overview.headline(self)}>"

    def _repr_html_(self) -> str:
        return overview.html(self)
