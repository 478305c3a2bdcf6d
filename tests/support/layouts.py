"""Write tables of text as public data sets come: the same cells in every layout."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

Rows = Sequence[Sequence[str]]


def plain(names: Sequence[str], rows: Rows, separator: str = ",") -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows([names, *rows])
    return text.getvalue()


def in_blanks(names: Sequence[str], rows: Rows) -> str:
    """Cells between two blanks or a tab, in quotes where they need them."""
    lines = [
        ("  ", "\t")[k % 2].join(map(blank_cell, row))
        for k, row in enumerate([names, *rows])
    ]
    return "\n".join(lines) + "\n"


def blank_cell(cell: str) -> str:
    if cell and not {*' \t"'} & {*cell}:
        return cell
    return '"' + cell.replace('"', '""') + '"'


def orange(
    names: Sequence[str], rows: Rows, types: Sequence[str] = (), flags: Rows = ()
) -> str:
    """Three rows of names, types and flags; the last column is the class."""
    types = types or ["d"] * len(names)
    flags = flags or [*[""] * (len(names) - 1), "class"]
    return plain(names, [types, flags, *rows], "\t")


def arff(
    names: Sequence[str], rows: Rows, keel: bool = False, quote: str | None = "'"
) -> str:
    """A header of ARFF, or of KEEL with inputs and an output, the last column."""
    columns = [[row[j] for row in rows] for j in range(len(names))]
    quoted = [arff_cell(name, quote) for name in names]
    lines = ["% made for a test", "@relation 'a test'", ""]
    for name, cells in zip(quoted, columns, strict=True):
        values = ",".join(arff_cell(cell, quote) for cell in sorted({*cells} - {"?"}))
        lines.append(f"@attribute {name} {{{values}}}")
    if keel:
        lines += ["@inputs " + ", ".join(quoted[:-1]), f"@outputs {quoted[-1]}"]
    lines += ["@DATA", "% rows"]
    lines += [",".join(arff_cell(cell, quote) for cell in row) for row in rows]
    return "\n".join(lines) + "\n"


def arff_cell(cell: str, quote: str | None = "'") -> str:
    plain = cell and not {*" ,'\"\\%{}\t"} & {*cell}
    if quote is None or plain:
        return cell
    return quote + cell.replace("\\", "\\\\").replace(quote, f"\\{quote}") + quote


LAYOUTS: dict[str, Callable[[Sequence[str], Rows], str]] = {
    "keel.dat": lambda names, rows: arff(names, rows, keel=True),
    "keel.csv": lambda names, rows: arff(names, rows, keel=True),
    "weka.arff": lambda names, rows: arff(names, rows, quote='"'),
    "orange.tab": orange,
    "orange.tsv": orange,
    "orange.txt": orange,
    "blanks.data": in_blanks,
    "blanks.dat": in_blanks,
    "semicolons.csv": lambda names, rows: plain(names, rows, ";"),
    "bars.txt": lambda names, rows: plain(names, rows, "|"),
    "tabs.csv": lambda names, rows: plain(names, rows, "\t"),
    "commas.data": plain,
}
