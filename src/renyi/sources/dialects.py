r"""Dialects of SQL: how engines write names, texts and numbers.

A number must arrive as the float it was: 0.1 is a decimal in DuckDB and PostgreSQL, and
SQLite rounds texts of numbers in its own way, so that there a float is written as the
fraction it is. A text must arrive letter for letter: a backslash begins an escape in
Spark, and so does ``${`` there, which names a variable.

`typeof` differs too, and is needed: labels are compared by text, and the text of the
float 1.0 is "1" while that of the string "1.0" is "1.0". Texts are compared letter by
letter, even if a column has a collation that ignores case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from renyi.encoding.columns import Label
from renyi.encoding.rules import missing_numbers


@dataclass(frozen=True)
class Dialect:
    """The syntax and the names of types of one engine; "" where it has no such type."""

    name: str
    embedded: bool = False  # does it run in this process, so that rows need not travel
    double: str = "DOUBLE PRECISION"
    text: str = "VARCHAR"
    kind: str = "typeof({})"  # gives the name of an expression's type
    reals: tuple[str, ...] = ()  # types that are read as floats
    integers: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    boolean: str = ""
    binary: str = ""
    zoned: str = ""  # times with a zone
    date: str = ""
    moments: tuple[str, ...] = ()  # dates with a time, without a zone
    time: str = ""  # of the day
    collation: str = ""  # compares texts letter by letter
    nan: str = "({0} <> {0} OR ({0} > 0 AND -{0} > 0))"  # "" if there is no NaN
    grouping: int = 0  # columns that GROUPING takes; 0 without GROUPING SETS

    def identifier(self, name: str) -> str:
        """Return a name in quotes, whatever it holds."""
        if self.name in ("spark", "sqlite"):  # SQLite takes "x" for a text if it must
            return "`" + name.replace("`", "``") + "`"
        return '"' + name.replace('"', '""') + '"'

    def table(self, name: str | Iterable[str]) -> str:
        """Return the name of a table: ``"schema.table"``, or a tuple of its parts."""
        parts = name.split(".") if isinstance(name, str) else list(name)
        return ".".join(self.identifier(part) for part in parts)

    def literal(self, value: Label | bytes) -> str:
        """Return the literal of a value."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return str(value).upper()
        if isinstance(value, bytes):
            made = {"duckdb": "unhex('{}')", "postgres": "decode('{}', 'hex')"}
            return made.get(self.name, "X'{}'").format(value.hex())
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
            # ${name} would be replaced by a variable: no dollar is written as itself.
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
            # A sign in front would bind less than the cast, which is no harm.
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

    def in_utc(self, moment: str) -> str:
        """Return the label of a zoned time, as `renyi.encoding.arrow` has it."""
        if self.name == "spark":
            form = "'timestampFormat', 'y-MM-dd HH:mm:ss.SSSSSS'"
            options = f"map('timeZone', 'UTC', {form})"
            text = f"to_json(named_struct('t', {moment}), {options})"
            digits = f"trim(TRAILING '0' FROM get_json_object({text}, '$.t'))"
            return f"trim(TRAILING '.' FROM {digits}) || 'Z'"
        there = f"{moment} AT TIME ZONE 'UTC'"
        if self.name == "postgres":  # whose texts of times depend on settings
            text = f"to_char({there}, 'YYYY-MM-DD HH24:MI:SS.US')"
            label = f"rtrim(rtrim({text}, '0'), '.') || 'Z'"
            return f"COALESCE({label}, {self.as_text(there)})"  # it may be infinite
        if self.name == "duckdb":
            return self.by_letters(f"{self.moment_text(there)} || 'Z'")
        return self.as_text(there) + " || 'Z'"

    def moment_text(self, moment: str) -> str:
        """Return the label of a moment in DuckDB, which counts years BC backwards."""
        text = f"CAST({moment} AS {self.text})"
        year = f"year({moment})"
        sign = f"CASE WHEN {year} < 0 THEN '-' ELSE '' END"
        bare = f"replace({text}, ' (BC)', '')"
        rest = f"substr({bare}, strpos({bare}, '-'))"
        early = f"{sign} || printf('%04d', -{year}) || {rest}"
        return f"(CASE WHEN {year} <= 0 THEN {early} ELSE {text} END)"

    def is_nan(self, expression: str) -> str:
        """Return the test for NaN; "" where there is no such float."""
        return self.nan.format(expression)

    def is_of(self, expression: str, kinds: Iterable[str]) -> str:
        """Return the test whether an expression is of one of some types."""
        names = ", ".join(f"'{kind}'" for kind in kinds)
        return f"{self.kind.format(expression)} IN ({names})"


DIALECTS = {
    each.name: each
    for each in (
        Dialect(
            "duckdb",
            embedded=True,
            double="DOUBLE",
            kind="split_part(typeof({}), '(', 1)",
            reals=("FLOAT", "DOUBLE", "DECIMAL"),
            integers=tuple(
                f"{sign}{size}"
                for sign in ("", "U")
                for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
            ),
            texts=("VARCHAR",),
            boolean="BOOLEAN",
            binary="BLOB",
            zoned="TIMESTAMP WITH TIME ZONE",
            date="DATE",
            moments=("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"),
            time="TIME",
            collation='"C"',
            nan="isnan({0})",
        ),
        Dialect(
            "postgres",
            text="TEXT",
            kind="CAST(pg_typeof({}) AS TEXT)",
            reals=("real", "double precision", "numeric"),
            integers=("smallint", "integer", "bigint"),
            texts=("text", "character varying", "character"),
            boolean="boolean",
            binary="bytea",
            zoned="timestamp with time zone",
            date="date",
            moments=("timestamp without time zone",),
            time="time without time zone",
            collation='"C"',
            nan="{0} = 'NaN'",
            grouping=31,
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
            binary="binary",
            zoned="timestamp",
            date="date",
            moments=("timestamp_ntz",),
            nan="isnan({0})",
        ),
        Dialect(
            "sqlite",
            embedded=True,
            double="REAL",
            text="TEXT",
            reals=("real",),
            integers=("integer",),
            texts=("text", "blob"),
            binary="blob",
            collation="BINARY",
            nan="",
        ),
    )
}

# Where NaN equals itself it is larger than all numbers, and so is its negative.
PORTABLE = Dialect("portable")

_MODULES = {
    "duckdb": ("duckdb", "_duckdb"),
    "postgres": ("psycopg", "psycopg2", "pg8000", "psycopg_pool"),
    "sqlite": ("sqlite3", "pysqlite3"),
}


def named(dialect: str) -> Dialect:
    """Return a dialect by its name."""
    if dialect not in DIALECTS:
        known = ", ".join(map(repr, DIALECTS))
        raise ValueError(f"dialect must be one of {known}, not {dialect!r}.")
    return DIALECTS[dialect]


def dialect_of(connection: Any) -> Dialect:
    """Return the dialect of a DB-API connection; plain SQL for an unknown driver."""
    # A pool hands out a wrapper, which knows the driver's own connection.
    inner = getattr(connection, "driver_connection", None) or connection
    packages = {each.__module__.partition(".")[0] for each in type(inner).__mro__}
    for name, modules in _MODULES.items():
        if packages & set(modules):
            return DIALECTS[name]
    return PORTABLE


def binned(
    dialect: Dialect,
    column: str,
    edges: Sequence[float],
    missing: Iterable[str],
    answers: Sequence[str],
    stray: str | None = None,
    texts: bool = True,
) -> str:
    """Return the CASE that finds the bin of a number in a quoted column.

    `answers` has one for each bin, and the last for a missing number, whose codes are
    the texts `missing`; `stray` is for a text that is no number, which SQLite would
    read as 0. `texts` says whether the column may be one of texts.
    """
    *bins, absent = answers
    value = dialect.as_double(column)
    codes = sorted(missing)
    branches = []
    is_text = dialect.is_of(column, dialect.texts)
    if texts and codes and dialect.texts:
        listed = ", ".join(dialect.string(text) for text in codes)
        same = f"{dialect.as_text(column)} IN ({listed})"
        branches.append(f"WHEN {is_text} AND {same} THEN {absent}")
    if texts and stray is not None and dialect.name == "sqlite":
        # Compared with a number, a text that is one becomes it, and others do not.
        branches.append(f"WHEN {is_text} AND {column} <> {value} THEN {stray}")
    tests = [f"{value} IS NULL", dialect.is_nan(value)]
    numbers = sorted(v for v in missing_numbers(frozenset(codes)) if not math.isnan(v))
    if numbers:
        tests.append(f"{value} IN ({', '.join(map(dialect.number, numbers))})")
    branches.append(f"WHEN {' OR '.join(filter(None, tests))} THEN {absent}")
    for edge, answer in zip(edges, bins[:-1], strict=True):
        branches.append(f"WHEN {value} < {dialect.number(edge)} THEN {answer}")
    return "CASE " + "\n  ".join([*branches, f"ELSE {bins[-1]} END"])


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
