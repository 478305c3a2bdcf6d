"""Cells as labels and numbers: times, decimals, and whatever Python holds.

A moment is one label, whether its column counts seconds or nanoseconds, and in whatever
zone it is shown. The text is therefore that of Arrow without the zeros that end a
fraction of a second, in UTC where there is a zone; a duration is a number of seconds.

Decimals are floats, but those without a fraction are integers: that is what engines
make of a sum of integers.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from renyi.encoding.columns import Label

# Digits of a second in each unit of time.
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# The zeros that end a fraction, and what is left of it.
_ZEROS, _REST = r"(?:\.0+|(\.\d*[1-9])0+)(Z?)$", r"\1\2"
_TIMES = (
    *(datetime.date, datetime.time, datetime.timedelta),
    *(np.datetime64, np.timedelta64),
)


def plain_label(value: Any) -> Label:
    """Return a cell as str, int, float or bool; None if it is missing."""
    if isinstance(value, str):
        return str(value)
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return None
    if isinstance(value, _TIMES):
        (text,) = time_texts(pa.array([value])).to_pylist()
        return str(text)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Decimal):
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (dict, list, set)):
        raise TypeError(
            f"A cell holds {value!r}: argument must be a string or a number."
        )
    return str(value)


def time_texts(times: Any) -> Any:
    """Return the texts of an array of dates, times or durations."""
    kind = times.type
    if pa.types.is_duration(kind):
        power = -_DIGITS[kind.unit]
        ticks = times.cast(pa.int64()).to_pylist()
        found = (n if n is None else f"{Decimal(n).scaleb(power):f}" for n in ticks)
        texts = pa.array(found, pa.string())
    elif pa.types.is_timestamp(kind) and kind.tz:
        texts = times.cast(pa.timestamp(kind.unit, "UTC")).cast(pa.string())
    else:
        texts = times.cast(pa.string())
    return pc.replace_substring_regex(texts, _ZEROS, _REST)


def as_floats(column: Any) -> Any:
    """Return numbers, or texts of numbers, as the nearest floats."""
    if pa.types.is_decimal(column.type):
        # Arrow's own cast is a unit in the last place off for one value in eight.
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=not pa.types.is_integer(column.type))


def from_decimals(column: Any) -> Any:
    """Return decimals as floats, and those of whole numbers as integers.

    Integers of more than 64 bits stay what they are.
    """
    if column.type.scale != 0:
        return as_floats(column)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def entries(dictionary: Any) -> list[Any]:
    """Return the values of a dictionary: times as texts, whole decimals as integers."""
    kind = dictionary.type
    if pa.types.is_temporal(kind):
        dictionary = time_texts(dictionary)
    values: list[Any] = dictionary.to_pylist()
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def storage(column: Any) -> Any:
    """Return the values of an extension type."""
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def check_type(name: str, kind: pa.DataType) -> None:
    """Raise an error that names a column whose cells are no labels and no numbers."""
    if pa.types.is_run_end_encoded(kind):
        raise TypeError(
            f"Column {name!r} is run-end encoded: decode it with "
            "pyarrow.compute.run_end_decode."
        )
    if pa.types.is_nested(kind) and not pa.types.is_dictionary(kind):
        raise TypeError(
            f"Column {name!r} holds nested values ({kind}): give it one value a row."
        )
    if pa.types.is_interval(kind):
        raise TypeError(
            f"Column {name!r} holds intervals of months, days and hours ({kind}): make "
            "texts or numbers of them."
        )
