"""Groupings: the statements that count the rows of a table by some of its columns.

One statement can count by many sets of columns. Engines with GROUPING SETS do so in
one pass; GROUPING() tells the sets apart, since a NULL may be a missing cell or a
column that is not in the set. SQLite sorts the rows for every GROUP BY: there the rows
are grouped once by all the columns, and the sets are added up from the groups, which
are far fewer.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from renyi.sources.dialects import Dialect


class Counted(NamedTuple):
    """The rows that are counted: of which table, and where.

    Parameters
    ----------
    dialect : Dialect
        The dialect of the engine.
    table : str
        The table, quoted.
    conditions : tuple of str
        What holds for the rows.
    weight : str or None
        The column of weights, quoted.

    Examples
    --------
    >>> from renyi.sources.dialects import DIALECTS
    >>> rows = Counted(DIALECTS["sqlite"], '"t"', ("x > 1",))
    >>> print(rows.by({"a": '"a"', "b": '"b"'}))
    SELECT "a", "b", COUNT(*)
    FROM (SELECT "a", "b" FROM "t" WHERE x > 1) AS "counted"
    GROUP BY "a", "b"
    """

    dialect: Dialect
    table: str
    conditions: tuple[str, ...] = ()
    weight: str | None = None

    def source(self) -> str:
        """Return the table and its conditions."""
        held = " AND ".join(self.conditions)
        return self.table + (f" WHERE {held}" if held else "")

    def by(self, expressions: Mapping[str, str], rows: bool = False) -> str:
        """Return the statement that counts by some columns.

        `expressions` say what each column is; with `rows`, rows are counted before
        their weights are added up.
        """
        names = ", ".join(self._quoted(expressions))
        masses = ["COUNT(*)"] if rows and self.weight is not None else []
        return (
            f"SELECT {', '.join([names, *masses, self._mass()])}\n"
            f"{self._from(expressions)}\nGROUP BY {names}"
        )

    def by_sets(
        self, expressions: Mapping[str, str], sets: Sequence[Sequence[str]]
    ) -> str:
        """Return the statement that counts by several sets of columns.

        The answer begins with a number for the set: a bit for each column, the last
        one lowest, which is set if the column is not in it.

        >>> from renyi.sources.dialects import DIALECTS
        >>> columns = {"a": '"a"', "b": '"b"', "c": '"c"'}
        >>> sets = [["a", "b"], ["a", "c"]]
        >>> print(Counted(DIALECTS["duckdb"], '"t"').by_sets(columns, sets))
        SELECT GROUPING("a", "b", "c"), "a", "b", "c", COUNT(*)
        FROM (SELECT "a", "b", "c" FROM "t") AS "counted"
        GROUP BY GROUPING SETS (("a", "b"), ("a", "c"))
        >>> print(Counted(DIALECTS["sqlite"], '"t"').by_sets(columns, sets))
        WITH "groups" AS (
        SELECT "a", "b", "c", COUNT(*) AS "mass"
        FROM (SELECT "a", "b", "c" FROM "t") AS "counted"
        GROUP BY "a", "b", "c"
        )
        SELECT 1, "a", "b", NULL, SUM("mass") FROM "groups" GROUP BY "a", "b"
        UNION ALL
        SELECT 2, "a", NULL, "c", SUM("mass") FROM "groups" GROUP BY "a", "c"
        """
        if self.dialect.grouping:
            return self._grouping_sets(expressions, sets)
        return self._added_up(expressions, sets)

    def _grouping_sets(
        self, expressions: Mapping[str, str], sets: Sequence[Sequence[str]]
    ) -> str:
        names = ", ".join(self._quoted(expressions))
        listed = ", ".join(f"({', '.join(self._quoted(each))})" for each in sets)
        return (
            f"SELECT GROUPING({names}), {names}, {self._mass()}\n"
            f"{self._from(expressions)}\nGROUP BY GROUPING SETS ({listed})"
        )

    def _added_up(
        self, expressions: Mapping[str, str], sets: Sequence[Sequence[str]]
    ) -> str:
        names = ", ".join(self._quoted(expressions))
        mass = _unlike("mass", {name.lower() for name in expressions})
        groups = _unlike("groups", self.source().lower())
        arms = []
        for each in sets:
            shown = [
                quoted if name in each else "NULL"
                for name, quoted in zip(
                    expressions, self._quoted(expressions), strict=True
                )
            ]
            number = sum(1 << k for k, q in enumerate(shown[::-1]) if q == "NULL")
            arms.append(
                f"SELECT {number}, {', '.join(shown)}, SUM({mass}) FROM {groups} "
                f"GROUP BY {', '.join(self._quoted(each))}"
            )
        return (
            f"WITH {groups} AS (\nSELECT {names}, {self._mass()} AS {mass}\n"
            f"{self._from(expressions)}\nGROUP BY {names}\n)\n"
            + "\nUNION ALL\n".join(arms)
        )

    def _quoted(self, names: Sequence[str] | Mapping[str, str]) -> list[str]:
        return [self.dialect.identifier(name) for name in names]

    def _mass(self) -> str:
        if self.weight is None:
            return "COUNT(*)"
        return f"SUM({self.dialect.as_double(self.weight)})"

    def _from(self, expressions: Mapping[str, str]) -> str:
        inner = [
            made if made == quoted else f"{made} AS {quoted}"
            for made, quoted in zip(
                expressions.values(), self._quoted(expressions), strict=True
            )
        ]
        if self.weight is not None:
            inner.append(self.weight)
        return f'FROM (SELECT {", ".join(inner)} FROM {self.source()}) AS "counted"'


def _unlike(name: str, taken: Container[str]) -> str:
    """Return a name that is not taken, quoted."""
    while name in taken:
        name += "_"
    return f'"{name}"'
