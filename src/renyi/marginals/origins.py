"""Origins: every road by which counts of pairs come to be marginals.

Rows in memory, files, databases, streams and clusters each have a module in
`renyi.sources`; the class methods here delegate to them, and `Marginals` inherits
them. All roads give the same marginals for the same rows, with two exceptions: weights
are summed in another order, hence to rounding; and a stream that can be read but once
bins a column of more than a few hundred different numbers by cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from renyi.encoding.tuples import encoder_of_order

if TYPE_CHECKING:
    import os

    from renyi.encoding.encoder import Encoder
    from renyi.marginals.marginals import Marginals


class Origins:
    """The class methods ``from_*`` of `Marginals`.

    >>> import renyi
    >>> issubclass(renyi.Marginals, Origins)
    True
    """

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
        order: int = 1,
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
        order : int, default=1
            Number of columns in a feature. At order 2 every pair of columns is one
            feature, and pairs of these pairs are counted.
        """
        from renyi.sources import frames

        encoder = encoder_of_order(encoder, order)
        return frames.marginals(X, y, target, encoder, class_conditional, sample_weight)

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
        No column is refused as an identifier.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> pieces = ((X[s : s + 100], y[s : s + 100]) for s in range(0, 435, 100))
        >>> renyi.Marginals.from_blocks(pieces) == renyi.Marginals.from_data(X, y)
        True
        """
        from renyi.sources import frames

        return frames.from_blocks(blocks, target, encoder, class_conditional)

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
        weight: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Any = None,
    ) -> Marginals:
        """Count the pairs of a table in files: CSV, Parquet or Arrow, of any size.

        `path` is a file, a list of files, a pattern such as ``"visits-*.csv"``, or a
        folder of Parquet files; the parameters are those of
        `renyi.sources.files.marginals`. Rows without a target are left out, with a
        warning.

        >>> import renyi
        >>> votes = renyi.datasets.path("votes")
        >>> renyi.Marginals.from_file(votes, target="party").n
        435
        """
        from renyi.sources import files

        return files.marginals(
            path,
            target,
            encoder,
            class_conditional,
            columns=columns,
            where=where,
            sql=sql,
            weight=weight,
            checkpoint=checkpoint,
            progress=progress,
        )

    @classmethod
    def from_sql(
        cls,
        connection: Any,
        table: str | Sequence[str],
        target: str,
        *,
        columns: Sequence[str] | None = None,
        encoder: Encoder | None = None,
        class_conditional: bool = False,
        where: str | None = None,
        weight: str | None = None,
        progress: Any = None,
    ) -> Marginals:
        """Count the pairs of a table in a database; from a server only counts leave.

        `connection` is any DB-API 2 one; the parameters are those of
        `renyi.sources.sql.marginals`. SQLite and DuckDB run in this process, and their
        rows are read in batches. Rows without a target are left out, with a warning.

        >>> import sqlite3
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> database = sqlite3.connect(":memory:")
        >>> rows = X.assign(party=y).to_sql("votes", database, index=False)
        >>> renyi.Marginals.from_sql(database, "votes", "party").n
        435
        """
        from renyi.sources import sql

        kept = (columns, encoder, class_conditional, where, weight, progress)
        return sql.marginals(connection, table, target, *kept)

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

        Memory stays bounded. A source that can be read but once (a reader, a generator)
        is counted in one pass, its numbers in up to 512 cells a column; others get a
        first pass if a column needs one. Rows without a target are left out, with a
        warning. `weight` names a column of weights.

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
        fan_in: int = 8,
    ) -> Marginals:
        """Count the pairs of a Spark DataFrame on its cluster; no row leaves it.

        The frame is read twice if columns of integers or floats are still to be binned,
        once with a fitted `encoder`: cache a frame that is dear or random. The workers
        need renyi too, in the same version. Rows without a target are left out, with a
        warning.

        Parameters
        ----------
        df : pyspark.sql.DataFrame
            Of a classic session or of Spark Connect; Spark 4.0 or newer.
        target : str
            The column to predict.
        encoder : Encoder, optional
            How cells become categories. A fitted one gives the bins to use.
        class_conditional : bool, default=False
            Count the pairs of features within each class too.
        weight : str, optional
            The column that holds the weights of the rows.
        fan_in : int, default=8
            Number of partitions whose counts a worker merges at a time.

        Examples
        --------
        >>> import renyi
        >>> df = spark.read.table("visits")  # doctest: +SKIP
        >>> m = renyi.Marginals.from_spark(df, "readmitted")  # doctest: +SKIP
        """
        from renyi.sources import spark

        return spark.marginals(df, target, encoder, class_conditional, weight, fan_in)
