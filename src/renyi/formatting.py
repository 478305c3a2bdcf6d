"""Write numbers, lines and tables as text.

A bound that is printed with few digits must still be true. So upper bounds are rounded
up, and lower bounds down. This module also writes tables as CSV.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

_ROUNDING = 1e-9  # of a share; a smaller excess does not change the last digit
WIDTH = 80
# Control characters except tab and new line; Unicode line ends and text directions.
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
)
# Cells that a spreadsheet would evaluate as a formula; numbers do not match. It may
# drop blanks before them, and take full-width characters for plain ones.
_FORMULA = re.compile(
    r"[\t\r].|[\s\u200b-\u200d\u2060\ufeff]*"
    r"([=@\uff1d\uff20].|[+\-\uff0b\uff0d](?![\d.]+(e[+-]?\d+)?$).)",
    re.I | re.S,
)


def at_most(share: float, digits: int = 2) -> str:
    """Return an upper bound as a percentage, rounded up."""
    return percent(rounded_up(share, digits + 2), digits)


def at_least(share: float, digits: int = 2) -> str:
    """Return a lower bound as a percentage, rounded down."""
    return percent(rounded_down(share, digits + 2), digits)


def percent(share: float, digits: int = 1) -> str:
    """Return a share that is not a bound as a percentage, rounded to nearest."""
    return f"{100 * share:.{digits}f} %"


def interval_text(low: float, high: float) -> str:
    """Return an interval of shares as a percentage.

    >>> interval_text(0.0, 0.0362), interval_text(0.051, 0.068)
    ('0 to 3.6 %', '5.1 to 6.8 %')
    """
    start = "0" if low == 0 else f"{100 * low:.1f}"
    return f"{start} to {percent(high)}"


def chosen_percent(share: float) -> str:
    """Return a share that a user chose, such as a confidence, with all its digits.

    >>> chosen_percent(0.95), chosen_percent(0.9975)
    ('95 %', '99.75 %')
    """
    return f"{100 * share:.10g} %"


def capitalised(text: str) -> str:
    """Return a text with a capital first letter."""
    return f"{text[:1].upper()}{text[1:]}"


def point_digits(most: float) -> int:
    """Return the number of decimals for points whose largest size is `most`."""
    return 4 if most >= 0.1 or most <= 0 else min(3 - math.floor(math.log10(most)), 9)


def either(words: Sequence[str]) -> str:
    """Return alternatives as a sentence lists them.

    >>> either([".csv", ".csv.gz", ".parquet"])
    '.csv, .csv.gz or .parquet'
    """
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def listed(names: Sequence[str]) -> str:
    """Return some names, and how many more there are.

    >>> print(listed(["a", "b"]))
    'a', 'b'
    """
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def number_of(count: float, what: str) -> str:
    """Return a count with its noun, in the singular or plural.

    >>> number_of(1, "row"), number_of(12_345_678_901, "row"), number_of(2.5, "row")
    ('1 row', '12,345,678,901 rows', '2.5 rows')
    """
    digits = f"{int(count):,}" if float(count).is_integer() else f"{count:,.10g}"
    return f"{digits} {what}{'s' * (count != 1)}"


def number_of_rows(n: float) -> str:
    """Return the number of rows, or their weight if it is not a whole number.

    >>> number_of_rows(3.0), number_of_rows(2.5)
    ('3 rows', '2.5 units of weight')
    """
    if float(n).is_integer():  # a row of weight 2 counts as two rows
        return number_of(n, "row")
    return f"{number_of(n, 'unit')} of weight"


def rounded_up(share: float, digits: int = 4) -> float:
    """Return an upper bound with few digits; one above zero never becomes 0."""
    unit = 10.0**digits
    return max(math.ceil(unit * (share - _ROUNDING)), int(share > 0)) / unit


def rounded_down(share: float, digits: int = 4) -> float:
    """Return a lower bound with few digits."""
    unit = 10.0**digits
    return math.floor(unit * (share + _ROUNDING)) / unit


def four_digits(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares with four significant digits each, or 22 decimals if these are few.

    >>> import numpy as np
    >>> four_digits(np.array([0.123456, 0.00001234567, 0.0, 1.0])).tolist()
    [0.1235, 1.235e-05, 0.0, 1.0]
    """
    import numpy as np

    size = np.floor(np.log10(np.maximum(np.abs(values), 1e-22)))
    unit = 10.0 ** np.minimum(3 - size, 22)  # a power of ten that a float is exactly
    return np.asarray(np.round(values * unit) / unit)


def printable(text: str) -> str:
    r"""Return text that is safe to print, with control characters as escapes.

    >>> print(printable("\x1b[31mred\u202e"))
    \x1b[31mred\u202e
    """
    return HIDDEN.sub(lambda match: ascii(match[0])[1:-1], text)


def cut(text: str, width: int) -> str:
    """Return a text that is shortened to at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def wrapped(text: str, first: str = "", then: str = "") -> str:
    """Break a text into lines, but never between a number and its percent sign."""
    text = text.replace(" %", "\N{NO-BREAK SPACE}%")
    lines = fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines.replace("\N{NO-BREAK SPACE}%", " %")


# ---- tables as CSV


class _Lines(io.StringIO):
    r"""A stream for a CSV writer that replaces each record's \r\n by \n.

    Python's csv quotes a cell if it contains a character of the line end. With \r\n as
    the line end it quotes both kinds of line breaks. It writes each record in one call.
    """

    def write(self, record: str) -> int:
        """Add a record."""
        return super().write(record.removesuffix("\r\n") + "\n")


def csv_text(
    table: pd.DataFrame, *, header: bool = True, inert: bool = False, sep: str = ","
) -> str:
    """Return a table as CSV; with `inert`, a spreadsheet evaluates none of its texts.

    A cell with a carriage return is quoted like one with a new line, because readers
    take both for the end of a row.
    """
    # Format each time by itself: pandas would choose one format per column.
    times = table.select_dtypes(["datetime", "datetimetz", "timedelta"])
    texts = {str(n): times[n].map(str, na_action="ignore") for n in times}
    table = table.assign(**texts)
    if inert:
        table = _without_formulas(table)
    lines = _Lines(newline="")
    table.to_csv(lines, index=False, header=header, lineterminator="\r\n", sep=sep)
    return lines.getvalue()


def _without_formulas(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with a quote before texts that a spreadsheet would evaluate."""

    def harmless(cell: object) -> object:
        formula = isinstance(cell, str) and _FORMULA.match(cell)
        return f"'{cell}" if formula else cell

    texts = table.select_dtypes(exclude=["number", "bool"])
    table = table.assign(**{str(n): texts[n].map(harmless) for n in texts})
    return table.rename(columns=harmless)
