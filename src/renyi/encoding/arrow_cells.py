"""Cells of Arrow columns as labels: times and decimals.

A moment is one label, whether its column counts seconds or nanoseconds, and in whatever
zone it is shown. The text is therefore that of Arrow without the zeros that end a
fraction of a second, in UTC where there is a zone; a duration is a number of seconds.

Decimals are floats, but those without a fraction are integers: that is what engines
make of a sum of integers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

# Digits of a second in each unit of time.
_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# The zeros that end a fraction, and what is left of it.
_ZEROS, _REST = r"(?:\.0+|(\.\d*[1-9])0+)(Z?)$", r"\1\2"


def time_texts(times: Any) -> Any:
    """Return the texts of an array of dates, times or durations.

    >>> times = pa.array([0, 10_500], pa.timestamp("ms", "Asia/Tokyo"))
    >>> time_texts(times).to_pylist()
    ['1970-01-01 00:00:00Z', '1970-01-01 00:00:10.5Z']
    >>> time_texts(pa.array([90_000, 1_500], pa.duration("ms"))).to_pylist()
    ['90', '1.5']
    """
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
    """Return numbers, or texts of numbers, as the nearest floats.

    >>> as_floats(pa.array([Decimal("59927.34")]))[0].as_py()
    59927.34
    """
    if pa.types.is_decimal(column.type):
        # Arrow's own cast is a unit in the last place off for one value in eight.
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=not pa.types.is_integer(column.type))


def from_decimals(column: Any) -> Any:
    """Return decimals as floats, and those of whole numbers as integers.

    Integers of more than 64 bits stay what they are.

    >>> from_decimals(pa.array([2], pa.decimal128(38, 0))).type
    DataType(int64)
    """
    if column.type.scale != 0:
        return as_floats(column)
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


def entries(dictionary: Any) -> list[Any]:
    """Return the values of a dictionary: times as texts, whole decimals as integers.

    >>> entries(pa.array([2**70], pa.decimal128(38, 0))) == [2**70]
    True
    """
    kind = dictionary.type
    if pa.types.is_temporal(kind):
        dictionary = time_texts(dictionary)
    values: list[Any] = dictionary.to_pylist()
    if pa.types.is_decimal(kind) and kind.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def refuse_type(name: str, kind: pa.DataType) -> None:
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
