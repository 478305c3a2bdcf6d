r"""Marginals: the pair counts of a table, and nothing else.

The whole method needs only ``E[W Wᵀ]``, where W is the one-hot vector of a row: the
counts of all pairs of categories. `Marginals` contain them for all columns. The target
is one more column, so that

* ``Q = E[W Wᵀ]`` of the features and ``F = E[W e_Yᵀ]`` are blocks of one table;
* the same counts can be used for another target;
* counts of disjoint rows add up, and subtracting removes rows completely.

They contain no rows.

Rows in memory are counted here. Every other source has a module in `renyi.sources`, to
which the class methods ``from_*`` delegate. Every input path gives the same marginals
for the same rows. Sums of weights may differ in the last bits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi.counting import sparse_counts
from renyi.counting.pair_counts import (
    check_table_size,
    class_pair_counts,
    pair_counts,
)
from renyi.encoding.columns import ColumnLike, Columns, Label, TableLike
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import TrainingRows, coded_rows, in_tuples
from renyi.encoding.rules import check_total
from renyi.encoding.tuples import Interactions, Pairs, encoder_of_order
from renyi.marginals import arithmetic, consistency, file
from renyi.marginals.uncertainty import Uncertainty

if TYPE_CHECKING:
    import os

    import pandas as pd


@dataclass(frozen=True, eq=False)
class Marginals:
    """Pair counts of a table, for all pairs of columns.

    They are all that training needs. Make them from rows (`from_data`), files
    (`from_file`), Arrow batches (`from_arrow`) or published tables (`from_tables`).
    Counts of several sites add up: ``a + b``.

    Parameters
    ----------
    counts : ndarray of shape (D, D)
        Rows (or weight) with both categories, for every pair of the D categories of
        all columns, the target's included. int64, or float64 when rows have weights.
        A scipy.sparse.csr_array if columns have thousands of categories.
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
    uncertainty : Intervals or Noise, optional
        What is known of counts that are not exact. `counts` and `n` are then an
        estimate computed from it alone. None for exact counts.

    See Also
    --------
    RenyiClassifier.fit_marginals : Train on pair counts.
    certify : Compute the guarantee of a model for other pair counts.

    Notes
    -----
    Guide: :doc:`/guides/counts`.

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

    counts: sparse_counts.Table
    n: float
    columns: Columns
    target: str
    settings: Encoder = field(default_factory=Encoder)
    class_counts: NDArray[Any] | None = None
    absent: frozenset[frozenset[str]] = frozenset()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    uncertainty: Uncertainty | None = None

    def __post_init__(self) -> None:
        """Check the number of rows, and store the counts as all are."""
        check_total(self.n)
        if self.uncertainty is not None:
            arithmetic.check_record(self.columns, self.uncertainty)
        counts = sparse_counts.stored(self.counts, self.columns.sizes)
        object.__setattr__(self, "counts", counts)

    # ---- the columns

    @property
    def weighted(self) -> bool:
        """Whether the counts are sums of weights."""
        return self.uncertainty is None and bool(self.counts.dtype.kind == "f")

    @property
    def order(self) -> int:
        """Number of columns in a feature."""
        return self.settings.order

    @property
    def interactions(self) -> Pairs | None:
        """The pairs of columns that are features, together with the single columns."""
        return self.settings.interactions

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features, which are all columns but the target."""
        return tuple(name for name in self.columns.names if name != self.target)

    @property
    def is_exact(self) -> bool:
        """Whether all counts are exact: none is hidden, rounded, noisy or absent."""
        return self.uncertainty is None and not self.absent

    @cached_property
    def encoder(self) -> Encoder:
        """The fitted encoder of the features."""
        columns = self.columns.take(self.columns.places(self.feature_names))
        return dataclasses.replace(self.settings, columns=columns)

    @property
    def categories(self) -> dict[str, tuple[Label, ...]]:
        """Categories of each column, None being the missing level."""
        return {column.name: column.categories for column in self.columns}

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes: categories of the target."""
        return self.columns.named(self.target).categories

    # ---- blocks of the table

    def block(self, first: str, second: str) -> pd.DataFrame:
        """Return the contingency table of two columns."""
        import pandas as pd

        consistency.check_counted(self, [(first, second)])
        rows = self.columns.named(first).levels
        columns = self.columns.named(second).levels
        return pd.DataFrame(
            self._counts_of([first], [second]),
            index=pd.Index(rows.texts, name=first),
            columns=pd.Index(columns.texts, name=second),
        )

    @property
    def feature_counts(self) -> sparse_counts.Table:
        """Pair counts of the features, stored as `counts` are."""
        names = self.feature_names
        if self.absent:
            consistency.check_counted(self, ((a, b) for a in names for b in names))
        if names == tuple(self.columns.names[:-1]):
            size = self.counts.shape[0] - len(self.classes)
            return self.counts[:size, :size]
        places = self.columns.spans(names)
        return self.counts[np.ix_(places, places)]

    @property
    def target_counts(self) -> NDArray[Any]:
        """Counts of every category of the features with every class."""
        names = self.feature_names
        if self.absent:
            consistency.check_counted(self, ((name, self.target) for name in names))
        return self._counts_of(names, [self.target])

    def _counts_of(self, first: Iterable[str], second: Iterable[str]) -> NDArray[Any]:
        rows = self.columns.spans(first)
        return sparse_counts.block(self.counts, rows, self.columns.spans(second))

    @property
    def Q(self) -> NDArray[np.float64]:
        """The matrix ``E[W Wᵀ]``: probabilities of all pairs of feature categories."""
        check_table_size(self.encoder.columns.sizes, 1, 0)
        return sparse_counts.dense(self.feature_counts) / self.n

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
        return np.asarray(F[:, 1] - F[:, 0], np.float64)

    @property
    def class_probabilities(self) -> NDArray[np.float64]:
        """Probability of each class."""
        alone = self.counts.diagonal()[self.columns.spans([self.target])]
        return np.asarray(alone / self.n, np.float64)

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

    def coarsen(self, edges: Mapping[str, Sequence[float]]) -> Marginals:
        """Return the counts with neighbouring bins of numbers merged.

        The counts are those of counting the rows with the coarser bins. Intervals of
        counts are added up.

        Parameters
        ----------
        edges : dict
            For each column to change, the edges that stay. They must be edges of the
            column: bins can be merged, not cut.

        Examples
        --------
        >>> import pandas as pd
        >>> import renyi
        >>> X = pd.DataFrame({"age": [12, 25, 40, 41, 70]})
        >>> y = ["n", "n", "p", "p", "n"]
        >>> encoder = renyi.Encoder(bins={"age": [18, 30, 65]})
        >>> m = renyi.Marginals.from_data(X, y, encoder=encoder)
        >>> m.coarsen({"age": [30]}).block("age", "y")
        y            n  p
        age
        up to 29     2  0
        30 and more  1  2
        """
        return arithmetic.coarsened(self, edges)

    def __add__(self, other: Marginals) -> Marginals:
        """Return the marginals of the rows of both.

        Intervals add, and exact counts are intervals of width zero. Noise adds to noise
        only; `merged` adds it to exact counts.
        """
        if not isinstance(other, Marginals):
            return NotImplemented
        return arithmetic.added(self, other)

    def merged(self, other: Marginals, *, allow_mixed: bool = False) -> Marginals:
        """Return the sum, with `allow_mixed` even of noisy and of exact counts.

        No privacy budget protects the rows that were counted exactly.
        """
        return arithmetic.added(self, other, allow_mixed)

    def __radd__(self, other: object) -> Marginals:
        """Let ``sum`` start from 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Marginals) -> Marginals:
        """Return the marginals without the rows of `other`, as if never counted.

        A negative count raises an error. If there is none, this does not prove that the
        rows were included.
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
        """Return whether the same columns have the same counts, in the same order."""
        if not isinstance(other, Marginals):
            return NotImplemented
        plain: tuple[str, ...] = ("target", "columns", "absent", "uncertainty")
        tables: tuple[str, ...] = ()
        if self.uncertainty is None:  # otherwise the counts follow from the record
            plain = (*plain, "n")
            tables = ("counts", "class_counts")
        return all(getattr(self, a) == getattr(other, a) for a in plain) and all(
            sparse_counts.equal(getattr(self, a), getattr(other, a)) for a in tables
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def digest(self) -> file.DataDigest:
        """Digest of names, categories and counts: the same for the same data."""
        return file.digest(self)

    # ---- where counts come from

    @classmethod
    def from_data(
        cls,
        X: TableLike,
        y: ColumnLike = None,
        *,
        target: str | None = None,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        sample_weight: ArrayLike | None = None,
        order: int = 1,
        interactions: Interactions | None = None,
    ) -> Marginals:
        """Count the pairs of a table of rows.

        Parameters
        ----------
        X : frame or array
            The features; with `target`, a frame that also contains the target.
        y : sequence, optional
            The classes, if they are not a column of X.
        target : str, optional
            Name of the column to predict; with `y`, the name to give it.
        encoder : Encoder, optional
            How cells become categories. A fitted encoder gives the bins to use.
        class_conditional : bool, default=False
            Also count the pairs of features within each class.
        sample_weight : sequence of float, optional
            Weights of the rows; a row of weight 2 counts as two rows.
        order : int, default=1
            Number of columns in a feature. At order 2 every pair of columns is one
            feature, and pairs of these pairs are counted.
        interactions : sequence of pairs of names, optional
            Pairs of columns that are features, together with the single columns, as in
            ``interactions=[("age", "sex")]``.
        """
        tuples = encoder_of_order(encoder, order, interactions)
        first = tuples.single.fresh
        fine = tuples.order > 1 and first.is_fine
        rows = coded_rows(X, y, target, first if fine else tuples, sample_weight)
        if fine:  # tuples of merged bins
            rows = in_tuples(rows, order, interactions)
        return count_rows(rows, class_conditional)

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

        Labels may appear in any block. Which columns are numeric, their bins and the
        labels merged as rare are decided by the first block, or by a fitted `encoder`.
        No column is rejected as an identifier. Other parameters are as in `from_data`.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> pieces = ((X[s : s + 100], y[s : s + 100]) for s in range(0, 435, 100))
        >>> renyi.Marginals.from_blocks(pieces) == renyi.Marginals.from_data(X, y)
        True
        """
        total: Marginals | None = None
        for block in blocks:
            X, y = block if isinstance(block, tuple) else (block, None)
            rows = coded_rows(X, y, target, encoder, refuse_identifiers=False)
            m = count_rows(rows, class_conditional)
            if total is None:
                encoder = m.encoder
            total = m if total is None else total + m
        if total is None:
            raise ValueError("There are no blocks to count.")
        return total

    @classmethod
    def from_file(
        cls,
        path: Any = None,
        *,
        target: str,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        sql: str | None = None,
        table: str | None = None,
        weight: str | None = None,
        progress: Any = None,
        sep: str | None = None,
        header: bool = True,
        names: Sequence[str] | None = None,
    ) -> Marginals:
        """Count the pairs of a table in files or a database, of any size.

        Files are CSV and other text, Parquet or Arrow; databases are DuckDB and SQLite
        files, and PostgreSQL. Rows without a target are left out, with a warning.

        Parameters
        ----------
        path : path, sequence of paths, or None
            A file, a pattern (``*``, ``?``, ``**``), a folder of Parquet files, or
            several of these, with columns in any order. None with `sql` only. With
            `table`, a database: a file, or an address such as
            ``"postgresql://host/base"``, which needs the extra ``databases``.
        target, encoder, class_conditional
            As in `from_data`.
        columns : sequence of str, optional
            The features; by default all columns but the target and the weight.
        where : str, optional
            A condition in SQL, such as ``"year = 2024"``, for the rows to count. Needs
            the extra ``duckdb``.
        sql : str, optional
            A query for DuckDB whose rows are counted. It may name files itself; those
            of `path` are its table ``data``.
        table : str, optional
            A table of the database `path`; `where` is then in the database's SQL.
        weight : str, optional
            A column of weights; a row of weight 2 counts as two rows.
        progress : callable, optional
            Called with a `renyi.progress.Progress` now and then, such as ``print``.
        sep : str, optional
            What separates the cells of a text table: a character, or ``" "`` for any
            number of spaces and tabs. By default it is recognised.
        header : bool, default=True
            Whether the first row of a text table names the columns; if not, they are
            called ``x1``, ``x2``, …
        names : sequence of str, optional
            The columns of a text table without header.

        Examples
        --------
        >>> import renyi
        >>> votes = renyi.datasets.path("votes")
        >>> renyi.Marginals.from_file(votes, target="party").n
        435
        """
        from renyi.sources import files
        from renyi.sources.layouts import Layout

        return files.marginals(
            path,
            target,
            encoder,
            class_conditional,
            columns=columns,
            where=where,
            sql=sql,
            table=table,
            weight=weight,
            progress=progress,
            layout=Layout.of(sep, header, names),
        )

    @classmethod
    def from_arrow(
        cls,
        stream: Any,
        *,
        target: str,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        weight: str | None = None,
    ) -> Marginals:
        """Count a stream: a frame, a query, a reader or an iterable of Arrow batches.

        Memory stays bounded. If a column needs a first pass, a source that can be read
        only once (a reader, a generator) is written to a temporary file. Other
        parameters are as in `from_file`.

        >>> import pyarrow as pa
        >>> import renyi
        >>> table = pa.table({"sex": ["f", "m", "f"], "y": ["n", "p", "p"]})
        >>> renyi.Marginals.from_arrow(table, target="y").n
        3
        """
        from renyi.sources import arrow

        return arrow.marginals(stream, target, encoder, class_conditional, weight)

    @classmethod
    def from_tables(
        cls,
        tables: Iterable[Any] | Mapping[Any, Any],
        *,
        target: str,
        count: str = "count",
        encoder: Encoder | None = None,
        tolerance: float = consistency.TOLERANCE,
        rounding: int | None = None,
        suppressed_below: int | None = None,
        perturbed_by: int | None = None,
        secondary: bool = False,
        total: str | None = None,
    ) -> Marginals:
        """Combine existing contingency tables, as exact or as published counts.

        Parameters
        ----------
        tables : iterable of frames or series
            Each is a cross table or counts in long format. A cross table is like that
            of `pandas.crosstab`: the names of its index and columns are the two
            columns. Long format is a frame with a column `count`, or a series indexed
            by the columns (``value_counts``); it counts for all pairs of its columns.
        target, count : str
            The column to predict, and the column of counts in long format.
        encoder : Encoder, optional
            Gives the missing codes.
        tolerance : float, default=1e-6
            Allowed disagreement of margins, as a share of all rows.
        rounding : int, optional
            Counts were rounded to the nearest multiple of this: each is an interval.
        suppressed_below : int, optional
            Counts below this are hidden by a mark, such as ``*``, ``..`` or ``<10``.
        perturbed_by : int, optional
            Noise of at most this was added to each count, as by a cell-key method.
        secondary : bool, default=False
            Whether marks also hide larger counts, so that no small one follows from the
            totals. A mark then stands for any count that the totals allow.
        total : str, optional
            A label of totals, besides "Total" and "All". Tables with one of the
            parameters from `rounding` on use rows and columns of totals.

        Examples
        --------
        >>> import pandas as pd
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> X = X.fillna("?")  # crosstab would leave the missing cells out
        >>> crossed = [pd.crosstab(X["crime"], y), pd.crosstab(X["immigration"], y)]
        >>> m = renyi.Marginals.from_tables(crossed, target="party")
        >>> m.feature_names, m.n
        (('crime', 'immigration'), 435)
        """
        stated = (rounding, suppressed_below, perturbed_by, total)
        if secondary or any(each is not None for each in stated):
            from renyi.sources import published

            rules = published.Rules.of(
                rounding=rounding,
                suppressed_below=suppressed_below,
                perturbed_by=perturbed_by,
                secondary=secondary,
                total=total,
            )
            return published.marginals(tables, target, rules, count, encoder)
        from renyi.sources import tables as source

        return source.marginals(tables, target, count, encoder, tolerance)

    @classmethod
    def from_spark(
        cls,
        df: Any,
        target: str,
        *,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        weight: str | None = None,
    ) -> Marginals:
        """Count the pairs of a Spark DataFrame on its cluster; no row leaves it.

        `df` is a frame of Spark 4, classic or Connect. It is read twice if columns of
        integers or floats need bins, and once with a fitted `encoder`: cache a frame
        that is expensive or random. The workers need the same version of renyi. Other
        parameters are as in `from_file`.

        >>> import renyi
        >>> df = spark.read.table("visits")  # doctest: +SKIP
        >>> m = renyi.Marginals.from_spark(df, "readmitted")  # doctest: +SKIP
        """
        from renyi.sources import spark

        return spark.marginals(df, target, encoder, class_conditional, weight)

    # ---- validation

    def validate(self, tolerance: float = consistency.TOLERANCE) -> Marginals:
        """Return these marginals, if some distribution of rows could have them.

        An error names the columns, and by how much they are off. It is raised if a cell
        is negative, if the margins of two tables disagree, or if the whole table (with
        the target) is not positive semidefinite. The `tolerance` is a share of all
        rows.
        """
        return consistency.validate(self, tolerance)

    def absent_places(self) -> list[tuple[int, int]]:
        """Return the positions of pairs without joint counts, in both orders."""
        where = {name: j for j, name in enumerate(self.columns.names)}
        pairs = [tuple(where[name] for name in pair) for pair in self.absent]
        return [(a, b) for a, b in pairs] + [(b, a) for a, b in pairs]

    # ---- files and texts

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the counts to a file: npz with a JSON header and a checksum."""
        file.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Marginals:
        """Read the counts that `save` wrote; the file may be untrusted.

        >>> import os, tempfile
        >>> import renyi
        >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
        >>> place = os.path.join(tempfile.mkdtemp(), "votes.renyi")
        >>> m.save(place)
        >>> renyi.Marginals.load(place) == m
        True
        """
        return file.read(path, cls)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<{file.headline(self)}>"

    def __str__(self) -> str:
        """Return a readable summary."""
        return file.page(self)

    def _repr_html_(self) -> str:
        return file.html(self)


def count_rows(rows: TrainingRows, class_conditional: bool = False) -> Marginals:
    """Count the pairs of encoded rows, and of them and their classes."""
    target = rows.target
    columns = Columns.of([*rows.encoder.columns, target])
    dtype = np.min_scalar_type(int(columns.sizes.max()))
    codes = np.concatenate([rows.codes, rows.y[None, :]], dtype=dtype, casting="unsafe")
    weights = rows.sample_weight
    counts = pair_counts(codes, columns.sizes, weights)
    inner = None
    if class_conditional:
        inner = class_pair_counts(codes, columns.sizes, weights)
    n = codes.shape[1] if weights is None else float(weights.sum())
    return Marginals(counts, n, columns, target.name, rows.encoder.settings(), inner)
