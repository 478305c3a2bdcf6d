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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.columns import Column, Columns
from renyi.encoding import Encoder
from renyi.factoring import Label, refuse_twins
from renyi.indicators import offsets

if TYPE_CHECKING:
    import os

    import pandas as pd

FORMAT = "renyi-marginals"

# Weights that cancel leave this share of the total behind, at most.
_DUST = 1e-12


@dataclass(frozen=True, eq=False)
class Marginals:
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

    # ---- where marginals come from

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any = None,
        *,
        target: str | None = None,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        sample_weight: Any = None,
    ) -> Marginals:
        """Count the pairs of a table of rows.

        Parameters
        ----------
        X : frame or array
            The features; or, with `target`, a frame that holds the target too.
        y : sequence, optional
            The classes, if they are not a column of X.
        target : str, optional
            Name of the column to predict; with `y`, the name to give it.
        encoder : Encoder, optional
            How cells become categories. A fitted one gives the bins to use.
        class_conditional : bool, default=False
            Count the pairs of features within each class too.
        sample_weight : sequence of float, optional
            Weights of the rows; a row of weight 2 counts as two rows.
        """
        from renyi.sources import rows

        return rows.marginals(X, y, target, encoder, class_conditional, sample_weight)

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[Any],
        *,
        target: str | None = None,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
    ) -> Marginals:
        """Count block after block, each a pair ``(X, y)`` or a frame with the target.

        Labels may appear in any block. The bins of numeric columns are those of the
        first block, or of the fitted `encoder`.

        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> pieces = ((X[s : s + 100], y[s : s + 100]) for s in range(0, 435, 100))
        >>> renyi.Marginals.from_blocks(pieces) == renyi.Marginals.from_data(X, y)
        True
        """
        from renyi.sources import rows

        return rows.from_blocks(blocks, target, encoder, class_conditional)

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        target: str,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
    ) -> Marginals:
        """Count the pairs of a table in a CSV or Parquet file.

        Rows without a target are left out, with a warning.

        >>> import renyi
        >>> votes = renyi.datasets.path("votes")
        >>> renyi.Marginals.from_file(votes, target="party").n
        435
        """
        from renyi.sources import files

        return files.marginals(path, target, encoder, class_conditional)

    @classmethod
    def from_tables(
        cls,
        tables: Iterable[Any] | Mapping[Any, Any],
        *,
        target: str,
        count: str = "count",
        encoder: Encoder | None = None,
        tolerance: float = 1e-6,
    ) -> Marginals:
        """Assemble contingency tables that the user has.

        Parameters
        ----------
        tables : iterable of frames or series
            Each one either a cross table (`pandas.crosstab`: the index and the columns
            are named after the two columns), or counts in long format: a frame with a
            column `count`, or a series indexed by the columns (``value_counts``).
            A long table over several columns counts for all their pairs.
        target : str
            The column to predict.
        count : str, default="count"
            Name of the column that holds the counts of a long table.
        encoder : Encoder, optional
            Gives the missing codes.
        tolerance : float, default=1e-6
            Disagreement of margins that is allowed, as a share of all rows.

        >>> import pandas as pd
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> crossed = [pd.crosstab(X["crime"], y), pd.crosstab(X["immigration"], y)]
        >>> m = renyi.Marginals.from_tables(crossed[:1], target="party")
        >>> m.feature_names
        ('crime',)
        """
        from renyi.sources import tables as source

        return source.marginals(tables, target, count, encoder, tolerance)

    # ---- the columns

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights."""
        return self.counts.dtype.kind == "f"

    @property
    def order(self) -> int:
        """Number of columns in a feature; 1 here."""
        return 1

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
        return dataclasses.replace(self, target=name, class_counts=None)

    def select(self, features: Iterable[str]) -> Marginals:
        """Return the marginals of some of the features and the target."""
        features = list(features)
        refuse_twins(features)
        if self.target in features:
            raise ValueError(f"{self.target!r} is the target: it cannot be a feature.")
        names = [*features, self.target]
        places = self._spans(names)
        kept = set(names)
        class_counts = self.class_counts
        if class_counts is not None:
            inner = self._feature_places(features)
            class_counts = class_counts[:, inner[:, None], inner]
        return dataclasses.replace(
            self,
            counts=self.counts[np.ix_(places, places)],
            columns=self.columns.take(self.columns.places(names)),
            class_counts=class_counts,
            absent=frozenset(pair for pair in self.absent if pair <= kept),
        )

    def _feature_places(self, features: Sequence[str]) -> NDArray[np.intp]:
        """Places of features in `class_counts`, which leaves the target out."""
        everything = self._spans(self.feature_names)
        return np.searchsorted(everything, self._spans(features))

    def __add__(self, other: Marginals) -> Marginals:
        """Marginals of the rows of both."""
        if not isinstance(other, Marginals):
            return NotImplemented
        columns = self._union(other)
        first, second = self._spread(columns), other._spread(columns)
        return first._combined(second, 1)

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
        columns = self._union(other)
        rest = self._spread(columns)._combined(other._spread(columns), -1)
        if rest.weighted:
            rest = rest._without_dust(_DUST * self.n)
        rest._refuse_negative("after the subtraction")
        if rest.n <= 0:
            raise ValueError(
                f"Nothing is left after the subtraction: {self.n:g} rows less "
                f"{other.n:g}."
            )
        return rest._occurring()

    def __mul__(self, factor: float) -> Marginals:
        """Scale every count; an integer factor keeps the counts integers."""
        if isinstance(factor, np.generic):
            factor = factor.item()
        if isinstance(factor, bool) or not isinstance(factor, (int, float)):
            return NotImplemented
        if not 0 < factor < np.inf:
            raise ValueError(f"the factor must be positive and finite, not {factor!r}")
        if isinstance(factor, int) and self.n * factor > np.iinfo(np.int64).max:
            raise ValueError(
                f"{self.n:g} rows times {factor:g} is more than integers of 64 bits "
                f"hold: use the factor {float(factor)!r}."
            )
        inner = None if self.class_counts is None else self.class_counts * factor
        return dataclasses.replace(
            self, counts=self.counts * factor, n=self.n * factor, class_counts=inner
        )

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

    def _union(self, other: Marginals) -> Columns:
        """Columns of both; what does not fit together is named."""
        mine, theirs = set(self.columns.names), set(other.columns.names)
        if mine != theirs:
            name = min(mine ^ theirs)
            raise ValueError(
                f"The marginals are of different tables: column {name!r} is in "
                f"{'the first' if name in mine else 'the second'} only."
            )
        if self.target != other.target:
            raise ValueError(
                f"The marginals have different targets, {self.target!r} and "
                f"{other.target!r}: use with_target() first."
            )
        if self.settings != other.settings:
            raise ValueError(
                "The marginals were made with different encoders "
                f"({_difference(self.settings, other.settings)}): use one for both."
            )
        where = other.columns.places(self.columns.names)
        return Columns.of(
            column.union(other.columns[j])
            for column, j in zip(self.columns, where, strict=True)
        )

    def _spread(self, columns: Columns) -> Marginals:
        """Return the same counts over the larger `columns`."""
        if self.columns == columns:
            return self
        places = self._places_in(columns)
        size = int(columns.sizes.sum())
        counts = np.zeros((size, size), self.counts.dtype)
        counts[np.ix_(places, places)] = self.counts
        inner = None
        if self.class_counts is not None:
            inner = self._spread_classes(columns)
        return dataclasses.replace(
            self, counts=counts, columns=columns, class_counts=inner
        )

    def _places_in(self, columns: Columns) -> NDArray[np.intp]:
        starts = offsets(columns.sizes)
        where = columns.places(self.columns.names)
        return np.concatenate(
            [
                starts[j] + column.places(columns[j])
                for column, j in zip(self.columns, where, strict=True)
            ]
        )

    def _spread_classes(self, columns: Columns) -> NDArray[Any]:
        assert self.class_counts is not None
        (j,) = columns.places([self.target])
        classes = self._column(self.target).places(columns[j])
        keep = [k for k in range(len(columns)) if k != j]
        mine = self.columns.take(self.columns.places(self.feature_names))
        wide = columns.take(keep)
        places = dataclasses.replace(self, columns=mine)._places_in(wide)
        size = int(wide.sizes.sum())
        inner = np.zeros(
            (len(columns[j].categories), size, size), self.class_counts.dtype
        )
        inner[np.ix_(classes, places, places)] = self.class_counts
        return inner

    def _combined(self, other: Marginals, sign: int) -> Marginals:
        inner = None
        if self.class_counts is not None and other.class_counts is not None:
            inner = self.class_counts + sign * other.class_counts
        return dataclasses.replace(
            self,
            counts=self.counts + sign * other.counts,
            n=self.n + sign * other.n,
            class_counts=inner,
            absent=self.absent | other.absent,
        )

    def _without_dust(self, dust: float) -> Marginals:
        """Set to zero what the subtraction of floats left of equal weights."""
        inner = self.class_counts
        return dataclasses.replace(
            self,
            counts=np.where(np.abs(self.counts) <= dust, 0, self.counts),
            n=0.0 if abs(self.n) <= dust else self.n,
            class_counts=None
            if inner is None
            else np.where(np.abs(inner) <= dust, 0, inner),
        )

    def _occurring(self) -> Marginals:
        """Drop the labels that no row has; bins of numbers stay."""
        totals = np.diag(self.counts)
        starts = offsets(self.columns.sizes)
        keep = np.ones(len(totals), bool)
        columns = []
        for j, column in enumerate(self.columns):
            held = totals[starts[j] : starts[j + 1]] > 0
            if column.kind == "number":
                held[: len(column.levels.edges) + 1] = True
            keep[starts[j] : starts[j + 1]] = held
            kept = tuple(c for c, h in zip(column.categories, held, strict=True) if h)
            columns.append(
                column._replace(levels=column.levels._replace(categories=kept))
            )
        if keep.all():
            return self
        inner = self.class_counts
        if inner is not None:
            features = keep[self._spans(self.feature_names)]
            classes = keep[self._spans([self.target])]
            inner = inner[np.ix_(classes, features, features)]
        return dataclasses.replace(
            self,
            counts=self.counts[np.ix_(keep, keep)],
            columns=Columns.of(columns),
            class_counts=inner,
        )

    # ---- validation

    def _refuse_negative(self, when: str) -> None:
        if self.counts.size and self.counts.min() < 0:
            a, b = np.unravel_index(int(self.counts.argmin()), self.counts.shape)
            raise ValueError(
                f"The count of {self._name(int(a))} with {self._name(int(b))} is "
                f"{self.counts[a, b]:g} {when}: counts cannot be negative."
            )
        inner = self.class_counts
        if inner is not None and inner.size and inner.min() < 0:
            k = int(np.unravel_index(int(inner.argmin()), inner.shape)[0])
            label = self._column(self.target).levels.texts[k]
            raise ValueError(
                f"A count within {self.target} = {label} is {inner.min():g} {when}: "
                "counts cannot be negative."
            )

    def _name(self, place: int) -> str:
        """Return ``column = category`` for a place in `counts`."""
        starts = offsets(self.columns.sizes)
        j = int(np.searchsorted(starts, place, side="right")) - 1
        column = self.columns[j]
        return f"{column.name} = {column.levels.texts[place - starts[j]]}"

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
        self._refuse_negative("in the marginals")
        self._check_margins(tolerance)
        self._check_semidefinite(tolerance)
        return self

    def _check_margins(self, tolerance: float) -> None:
        starts = offsets(self.columns.sizes)[:-1]
        totals = np.diag(self.counts)
        sums = np.add.reduceat(self.counts, starts, axis=0)  # column j against place
        off = np.abs(sums - totals)
        for first, second in self.absent_places():
            off[first, self._spans([self.columns.names[second]])] = 0
        j, place = map(int, np.unravel_index(int(off.argmax()), off.shape))
        if off[j, place] > tolerance * self.n:
            column = self._name(place)
            raise ValueError(
                f"The margins disagree: {column} has {totals[place]:g} rows by itself, "
                f"but {sums[j, place]:g} in its table with {self.columns.names[j]!r} "
                f"(off by {off[j, place]:g})."
            )

    def absent_places(self) -> list[tuple[int, int]]:
        """Positions of the pairs of columns without joint counts, in both orders."""
        where = {name: j for j, name in enumerate(self.columns.names)}
        pairs = [tuple(where[name] for name in pair) for pair in self.absent]
        return [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]

    def _check_semidefinite(self, tolerance: float) -> None:
        names = self._fully_known()
        places = self._spans(names)
        values, vectors = np.linalg.eigh(self.counts[np.ix_(places, places)] / self.n)
        if values[0] >= -tolerance:
            return
        sizes = self.columns.sizes[self.columns.places(names)]
        share = np.add.reduceat(vectors[:, 0] ** 2, offsets(sizes)[:-1])
        worst = [names[j] for j in np.argsort(-share)[:3].tolist()]
        raise ValueError(
            "No distribution has these marginals: the table of all pairs, target "
            f"included, has the eigenvalue {values[0]:.3g}, which cannot be negative. "
            f"The counts of {', '.join(map(repr, worst))} contradict each other most."
        )

    def _fully_known(self) -> list[str]:
        """Columns without absent pairs among them: the target and who goes with it."""
        if not self.absent:
            return list(self.columns.names)
        known = [self.target]
        for name in self.feature_names:
            if all(frozenset((name, other)) not in self.absent for other in known):
                known.append(name)
        return known

    # ---- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file: npz with a JSON header and a checksum."""
        from renyi import __version__
        from renyi.storage import write_arrays

        settings = self.settings.settings().to_dict()
        del settings["columns"]
        header = {
            "format": FORMAT,
            "version": 1,
            "n": self.n,
            "order": self.order,
            "target": self.target,
            "columns": self.columns.to_dict(),
            "encoder": settings,
            "absent": sorted(sorted(pair) for pair in self.absent),
            "provenance": {**self.provenance, "renyi": __version__},
        }
        arrays = {"counts": self.counts.astype(self.counts.dtype.newbyteorder("<"))}
        if self.class_counts is not None:
            kind = self.class_counts.dtype.newbyteorder("<")
            arrays["class_counts"] = self.class_counts.astype(kind)
        write_arrays(path, header, arrays)

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
        from renyi.storage import read_arrays

        header, arrays = read_arrays(path, FORMAT)
        try:
            return _from_header(header, arrays)
        except KeyError as error:
            raise ValueError(f"{path} is not valid: it lacks {error}.") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{path} is not valid: {error}.") from None

    # ---- texts

    def __str__(self) -> str:
        """Return a readable summary."""
        return "\n".join([self._headline(), *self._lines(12)])

    def __repr__(self) -> str:
        """Return one line."""
        return f"<{self._headline()}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(c.name)}</td><td>{escape(self._levels(c))}</td></tr>"
            for c in self.columns[:50]
        )
        return f"<p>{escape(self._headline())}</p><table>{rows}</table>"

    def _headline(self) -> str:
        what = "total weight" if self.weighted else "rows"
        features = self.feature_names
        sizes = int(self.columns.sizes.sum()) - len(self.classes)
        return (
            f"Marginals of {self.n:,g} {what}"
            if self.weighted
            else f"Marginals of {self.n:,} {what}"
        ) + (
            f": {len(features)} features ({sizes} categories), "
            f"target {self.target!r} ({self._levels(self._column(self.target))})"
        )

    def _lines(self, limit: int) -> list[str]:
        features = [c for c in self.columns if c.name != self.target]
        width = max((len(c.name) for c in features[:limit]), default=0)
        lines = [f"  {c.name:<{width}}  {self._levels(c)}" for c in features[:limit]]
        if len(features) > limit:
            lines.append(f"  … and {len(features) - limit} more features")
        return lines

    def _levels(self, column: Column) -> str:
        totals = np.diag(self.counts)[self._spans([column.name])]
        texts = column.levels.texts
        shown = [f"{t} {c:,g}" for t, c in zip(texts[:6], totals, strict=False)]
        if len(texts) > 6:
            shown.append(f"… {len(texts) - 6} more")
        return ", ".join(shown)


def _difference(first: Encoder, second: Encoder) -> str:
    for each in dataclasses.fields(first):
        a, b = getattr(first, each.name), getattr(second, each.name)
        if a != b:
            return f"{each.name} is {a!r} and {b!r}"
    return "same settings"


def _from_header(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Marginals:
    """Marginals of a file's contents, every claim of the header checked."""
    columns = Columns.from_dict(header["columns"])
    empty = Columns.of([]).to_dict()
    settings = Encoder.from_dict({**header["encoder"], "columns": empty})
    counts = arrays.pop("counts")
    inner = arrays.pop("class_counts", None)
    n, target, size = header["n"], header["target"], int(columns.sizes.sum())
    if arrays:
        raise ValueError(f"it holds an unknown array {min(arrays)!r}")
    if header["order"] != 1:
        raise ValueError(f"its order is {header['order']!r:.20}; order 1 is known")
    if target not in columns.names:
        raise ValueError(f"its target {target!r:.60} is not a column")
    if type(n) not in (int, float) or not np.isfinite(n) or n <= 0:
        raise ValueError(f"its number of rows is {n!r:.60}")
    if counts.dtype not in ("<i8", "<f8") or counts.shape != (size, size):
        raise ValueError(
            f"its counts have the shape {counts.shape}, not {(size, size)}"
        )
    if not np.isfinite(counts).all() or not np.array_equal(counts, counts.T):
        raise ValueError("its counts are not finite and symmetric")
    pairs = frozenset(frozenset(pair) for pair in header["absent"])
    m = Marginals(
        counts, n, columns, target, settings, inner, pairs, header["provenance"]
    )
    columns.places(name for pair in pairs for name in pair)
    if not isinstance(header["provenance"], dict) or any(len(p) != 2 for p in pairs):
        raise ValueError("its header is not valid")
    if inner is not None:
        width = size - len(m.classes)
        if inner.shape != (len(m.classes), width, width) or inner.dtype != counts.dtype:
            raise ValueError("its class counts do not fit its columns")
    return m
