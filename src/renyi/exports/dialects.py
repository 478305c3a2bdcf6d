r"""Write names, texts and numbers in the SQL dialects of the engines.

A number must keep its float value. But 0.1 is a decimal in DuckDB and PostgreSQL, and
SQLite rounds numbers in texts differently, so there a float is written as a fraction. A
text must keep all its letters. But in Spark a backslash starts an escape, and ``${``
starts the name of a variable.

`typeof` also differs. It is needed because labels are compared by text: the text of the
float 1.0 is "1", but that of the string "1.0" is "1.0". Texts are compared letter by
letter, even if a column has a collation that ignores case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from renyi.encoding.columns import Label


@dataclass(frozen=True)
class Dialect:
    """The syntax and type names of one engine; "" if it has no such type."""

    name: str
    double: str = "DOUBLE PRECISION"
    text: str = "VARCHAR"
    # The name of an expression's type. In PostgreSQL, COALESCE with a bare NULL is of
    # the base type of a domain.
    kind: str = "typeof({})"
    reals: tuple[str, ...] = ()  # types that are read as floats
    integers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    boolean: str = ""
    date: str = ""
    moments: tuple[str, ...] = ()  # dates with a time, without a zone
    time: str = ""  # of the day
    collation: str = ""  # compares texts letter by letter
    nan: str = "({0} <> {0} OR ({0} > 0 AND -{0} > 0))"  # "" if there is no NaN

    def identifier(self, name: str) -> str:
        """Return a name in quotes, whatever it contains."""
        if self.name in ("spark", "sqlite"):  # SQLite may take "x" for a text
            return "`" + name.replace("`", "``") + "`"
        return '"' + name.replace('"', '""') + '"'

    def table(self, name: str | Iterable[str]) -> str:
        """Return the name of a table: ``"schema.table"``, or a tuple of its parts."""
        parts = name.split(".") if isinstance(name, str) else list(name)
        if not parts or not all(parts):
            raise ValueError(
                f"The name of a table, {name!r:.60}, has an empty part: name the table "
                "that the query scores."
            )
        return ".".join(self.identifier(part) for part in parts)

    def literal(self, value: Label) -> str:
        """Return the literal of a value."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, float):
            return self.number(value)
        if not isinstance(value, int):
            return self.string(value)
        if self.name == "sqlite" and not -(2**63) <= value < 2**63:
            raise ValueError(
                f"{value} is beyond the integers of SQLite: turn the classes into text."
            )
        return str(value)

    def string(self, text: str) -> str:
        """Return the literal of a text."""
        if self.name == "spark":
            # Spark replaces ${name} by a variable, so every dollar is escaped.
            text = text.replace("\\", "\\\\").replace("'", "\\'")
            return "'" + text.replace("$", "\\u0024").replace("\0", "\\u0000") + "'"
        quoted = "'" + text.replace("'", "''") + "'"
        if self.name == "postgres" and "\\" in text:
            return "E" + quoted.replace("\\", "\\\\")
        if self.name == "sqlite" and "\0" in text:  # which would end the statement
            return "(" + quoted.replace("\0", "' || char(0) || '") + ")"
        return quoted

    def number(self, value: float) -> str:
        """Return the literal of a float, exact to the last bit."""
        if not math.isfinite(value):
            if self.name == "sqlite":
                return "9e999" if value > 0 else "-9e999"
            sign = "" if value > 0 else "-"
            return f"CAST('{sign}Infinity' AS {self.double})"
        if self.name == "sqlite":
            return _fraction(value)
        digits = repr(float(value))
        if self.name == "postgres":
            # A sign in front binds less than the cast, which is harmless.
            return f"{digits}::float8"
        if self.name == "spark":
            return digits + "D"
        return digits if "e" in digits else digits + "e0"

    def as_double(self, expression: str) -> str:
        """Return an expression as a float."""
        return f"CAST({expression} AS {self.double})"

    def as_text(self, expression: str) -> str:
        """Return an expression as a text, which is compared letter by letter."""
        return self.by_letters(f"CAST({expression} AS {self.text})")

    def by_letters(self, text: str) -> str:
        """Return a text that is compared letter by letter."""
        return f"{text} COLLATE {self.collation}" if self.collation else text

    def is_nan(self, expression: str) -> str:
        """Return the test for NaN; "" if the engine has no NaN."""
        return self.nan.format(expression)

    def is_of(self, expression: str, kinds: Iterable[str]) -> str:
        """Return the test whether an expression is of one of some types."""
        names = ", ".join(f"'{kind}'" for kind in kinds)
        return f"{self.kind.format(expression)} IN ({names})"

    def is_enum(self, expression: str) -> str:
        """Return the test for a PostgreSQL enumeration; "" in other engines."""
        if self.name != "postgres":
            return ""
        kind = f"pg_typeof(COALESCE({expression}, NULL))"
        return f"EXISTS (SELECT 1 FROM pg_enum WHERE enumtypid = {kind})"


DIALECTS = {
    each.name: each
    for each in (
        Dialect(
            "duckdb",
            double="DOUBLE",
            kind="split_part(typeof({}), '(', 1)",
            reals=("FLOAT", "DOUBLE", "DECIMAL"),
            integers=tuple(
                f"{sign}{size}"
                for sign in ("", "U")
                for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
            ),
            texts=("VARCHAR", "ENUM"),
            boolean="BOOLEAN",
            date="DATE",
            moments=("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
            time="TIME",
            collation='"C"',
            nan="isnan({0})",
        ),
        Dialect(
            "postgres",
            text="TEXT",
            kind="CAST(pg_typeof(COALESCE({}, NULL)) AS TEXT)",
            reals=("real", "double precision", "numeric"),
            integers=("smallint", "integer", "bigint"),
            texts=("text", "character varying", "character", "name", "citext"),
            boolean="boolean",
            date="date",
            moments=("timestamp without time zone",),
            time="time without time zone",
            collation='"C"',
            nan="{0} = 'NaN'",
        ),
        Dialect(
            "spark",
            double="DOUBLE",
            text="STRING",
            kind="split_part(typeof({}), '(', 1)",
            reals=("float", "double", "decimal"),
            integers=("tinyint", "smallint", "int", "bigint"),
            texts=("string", "varchar", "char"),
            boolean="boolean",
            date="date",
            moments=("timestamp_ntz",),
            nan="isnan({0})",
        ),
        Dialect(
            "sqlite",
            double="REAL",
            text="TEXT",
            reals=("real",),
            integers=("integer",),
            texts=("text",),
            collation="BINARY",
            nan="",
        ),
    )
}


def named(dialect: str) -> Dialect:
    """Return a dialect by its name."""
    if dialect not in DIALECTS:
        known = ", ".join(map(repr, DIALECTS))
        raise ValueError(f"dialect must be one of {known}, not {dialect!r}.")
    return DIALECTS[dialect]


def _fraction(value: float) -> str:
    """Return a float as integers and powers of two, which any engine reads exactly."""
    whole, power = value.as_integer_ratio()
    if power == 1 and abs(whole) < 2**53:
        return f"{whole}.0"
    mantissa, exponent = math.frexp(value)
    whole = int(mantissa * 2**53)
    exponent = exponent - 53
    while whole % 2 == 0:
        whole = whole // 2
        exponent = exponent + 1
    step = "*" if exponent > 0 else "/"
    factors, rest = divmod(abs(exponent), 62)  # 2**62 is the largest in 64 bits
    steps = [2**62] * factors + [2**rest] * (rest > 0)
    return f"({whole}.0 " + " ".join(f"{step} {each}" for each in steps) + ")"
