"""How the names of files end, for readers, writers and the help of commands."""

from __future__ import annotations

from collections.abc import Sequence

TEXT = (".csv", ".tsv", ".txt")  # packed by gzip, too
CSV = (*TEXT, *(f"{each}.gz" for each in TEXT))
PARQUET = (".parquet", ".pq")
ARROW = (".arrow", ".feather", ".ipc")
DATABASE = (".duckdb", ".db", ".sqlite", ".sqlite3")
WRITTEN = (".csv", ".csv.gz", ".parquet")  # of tables
PICTURE = (".svg", ".png", ".pdf")
EXPORTS = {  # of a model, by format
    "csv": ".csv",
    "md": ".md",
    "html": ".html",
    "python": ".py",
    "javascript": ".js",
    "onnx": ".onnx",
}
MARGINALS = ".renyi"


def either(endings: Sequence[str]) -> str:
    """Return endings as a sentence lists them.

    >>> either(WRITTEN)
    '.csv, .csv.gz or .parquet'
    """
    return " or ".join(filter(None, [", ".join(endings[:-1]), endings[-1]]))


TABLES = f"{', '.join(TEXT)} (also .gz), {PARQUET[0]}, {ARROW[0]}"  # in words
