"""Options that say where rows come from: files, queries, tables of databases.

Only argparse is needed here, as in `renyi.cli.parser`.
"""

from __future__ import annotations

from typing import Any

DIALECTS = ("duckdb", "postgres", "spark", "sqlite")


def add_files(parser: Any, text: str, required: bool = True) -> None:
    """Add FILE, of which there may be several.

    >>> import argparse
    >>> parser = argparse.ArgumentParser()
    >>> add_files(parser, "tables", required=False)
    >>> parser.parse_args([]).files, parser.parse_args(["a.csv", "b.csv"]).files
    ([], ['a.csv', 'b.csv'])
    """
    action = parser.add_argument(
        "files", metavar="FILE", nargs="+", help=text, default=[]
    )
    # With nargs="*", a file that comes after options would not be found.
    action.required = required


def add_where(parser: Any, unless: str = "") -> None:
    """Add the condition on rows; it needs no extra for what `unless` names."""
    parser.add_argument(
        "--where",
        metavar="SQL",
        help='only rows that fulfil a condition, such as "year = 2024" (needs the '
        f"extra duckdb{unless})",
    )


def add_sources(parser: Any) -> None:
    """Add conditions, queries, tables of databases, and what a long count may need."""
    group = parser.add_argument_group("rows")
    add_where(group, ", but for a table of a SQLite database")
    group.add_argument(
        "--sql",
        metavar="QUERY",
        help="the rows of a query for DuckDB; the files, if any, are its table data",
    )
    group.add_argument(
        "--table",
        metavar="NAME",
        help="a table of a database (.duckdb, .db, .sqlite), counted inside it",
    )
    group.add_argument(
        "--checkpoint",
        metavar="FILE",
        help="keep what has been counted: the same command goes on after a kill",
    )


def add_print_sql(parser: Any) -> None:
    """Add what shows the statements that a database would be sent."""
    parser.add_argument(
        "--print-sql",
        action="store_true",
        help="print the statements for --table, and count no pairs: those about single "
        "columns are asked now, since bins depend on the answers; those about pairs "
        "are printed only",
    )


def add_export(parser: Any) -> None:
    """Add what the command export takes."""
    parser.add_argument("model", metavar="MODEL", help="a model that fit wrote (.json)")
    parser.add_argument(
        "--sql", choices=DIALECTS, required=True, help="the engine it is for"
    )
    parser.add_argument(
        "--table",
        metavar="NAME",
        help="write a SELECT that adds scores and answers to this table, not only the "
        "expression of a score",
    )
    parser.add_argument(
        "--label", metavar="CLASS", help="whose score (by default the second of two)"
    )
    parser.add_argument("--out", metavar="FILE.sql", help="where to write, not stdout")
