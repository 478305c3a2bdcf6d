"""Numbers as text, rounded outwards: up from above, down from below; lines that fit.

A bound that is shown with few digits must still be true. Tables become CSV here, too.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

_ROUNDING = 1e-9  # of a share; what is less is not rounded outwards
WIDTH = 80
# Controls of terminals (but tab and new line), line ends and directions of Unicode.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
# Cells that a spreadsheet computes; numbers are not among them.
_FORMULA = re.compile(r"[=@\t\r].|[+-](?![\d.]+(e[+-]?\d+)?$).", re.I | re.S)


def at_most(share: float, digits: int = 2) -> str:
    """Return a bound from above as a percentage, rounded up."""
    return percent(rounded_up(share, digits + 2), digits)


def at_least(share: float, digits: int = 2) -> str:
    """Return a bound from below as a percentage, rounded down."""
    return percent(rounded_down(share, digits + 2), digits)


def percent(share: float, digits: int = 1) -> str:
    """Return a share that is no bound as a percentage."""
    return f"{100 * share:.{digits}f} %"


def interval_text(low: float, high: float) -> str:
    """Return an interval of shares as a percentage.

    >>> interval_text(0.0, 0.0362), interval_text(0.051, 0.068)
    ('0 to 3.6 %', '5.1 to 6.8 %')
    """
    start = "0" if low == 0 else f"{100 * low:.1f}"
    return f"{start} to {percent(high)}"


def chosen_percent(share: float) -> str:
    """Return a share that was chosen, such as a confidence, with all its digits.

    >>> chosen_percent(0.95), chosen_percent(0.9975)
    ('95 %', '99.75 %')
    """
    return f"{100 * share:.10g} %"


def capitalised(text: str) -> str:
    """Return a text with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def point_digits(most: float) -> int:
    """Return how many digits points are shown with, none of which exceeds `most`."""
    return 4 if most >= 0.1 or most <= 0 else min(3 - math.floor(math.log10(most)), 9)


def either(words: Sequence[str]) -> str:
    """Return words as a sentence lists them.

    >>> either([".csv", ".csv.gz", ".parquet"])
    '.csv, .csv.gz or .parquet'
    """
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def number_of(count: float, what: str) -> str:
    """Return how many there are, in words.

    >>> number_of(1, "row"), number_of(12_345_678_901, "row"), number_of(2.5, "row")
    ('1 row', '12,345,678,901 rows', '2.5 rows')
    """
    digits = f"{int(count):,}" if float(count).is_integer() else f"{count:,.10g}"
    return f"{digits} {what}{'s' * (count != 1)}"


def number_of_rows(n: float) -> str:
    """Return how many rows there are, or what they weigh if that is no whole number.

    >>> number_of_rows(3.0), number_of_rows(2.5)
    ('3 rows', '2.5 units of weight')
    """
    if float(n).is_integer():  # a row of weight 2 counts as two rows
        return number_of(n, "row")
    return f"{number_of(n, 'unit')} of weight"


def rounded_up(share: float, digits: int = 4) -> float:
    """Return a bound from above with few digits; one above zero is never shown as 0."""
    unit = 10.0**digits
    return max(math.ceil(unit * (share - _ROUNDING)), int(share > 0)) / unit


def rounded_down(share: float, digits: int = 4) -> float:
    """Return a bound from below with few digits."""
    unit = 10.0**digits
    return math.floor(unit * (share + _ROUNDING)) / unit


def printable(text: str) -> str:
    r"""Return text that a terminal shows as it is, controls written as escapes.

    >>> print(printable("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    """
    return HIDDEN.sub(lambda match: ascii(match[0])[1:-1], text)


def cut(text: str, width: int) -> str:
    """Return a text that is no longer than so many characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def wrapped(text: str, first: str = "", then: str = "") -> str:
    """Return a text in lines, never broken between a number and its percent sign."""
    kept = text.replace(" %", "\N{NO-BREAK SPACE}%")
    broken = fill(
        kept,
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return broken.replace("\N{NO-BREAK SPACE}%", " %")


# ---- tables as CSV


class _Lines(io.StringIO):
    r"""Records of a CSV writer that ends them with \r\n, ended with \n instead.

    Python's csv quotes a cell for the characters of its line end and no others. It was
    told of both, and sends each record in one call.
    """

    def write(self, record: str) -> int:
        """Add a record."""
        return super().write(record.removesuffix("\r\n") + "\n")


def csv_text(
    table: pd.DataFrame, *, header: bool = True, inert: bool = False, sep: str = ","
) -> str:
    """Return a table as CSV; if `inert`, no text is a formula to a spreadsheet.

    A cell with a carriage return is quoted like one with a new line: readers take both
    for the end of a row.
    """
    # Each time for itself: pandas looks at a whole column for its format.
    times = table.select_dtypes(["datetime", "datetimetz", "timedelta"])
    texts = {str(n): times[n].map(str, na_action="ignore") for n in times}
    table = table.assign(**texts)
    if inert:
        table = _without_formulas(table)
    lines = _Lines(newline="")
    table.to_csv(lines, index=False, header=header, lineterminator="\r\n", sep=sep)
    return lines.getvalue()


def _without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table in which no text is a formula to a spreadsheet."""

    def harmless(cell: object) -> object:
        formula = isinstance(cell, str) and _FORMULA.match(cell)
        return f"'{cell}" if formula else cell

    texts = table.select_dtypes(exclude=["number", "bool"])
    table = table.assign(**{str(n): texts[n].map(harmless) for n in texts})
    return table.rename(columns=harmless)
