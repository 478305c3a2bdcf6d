"""Cells of Arrow arrays, as labels and as numbers.

Labels come as indices into a dictionary, so that the work per label is done once per
dictionary, not once per row. Decimals are floats, but those without a fraction are
integers: that is what engines make of a sum of integers.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.column_rules import (
    label_numbers,
    not_numeric,
    without_missing,
)
from renyi.encoding.columns import Label, label_text, plain_label, ranked, time_texts

Floats = NDArray[np.float64]
Array = Any  # of pyarrow, which has no types

INTEGER = r"^[+-]?\d+$"
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
CODE = r"^[+-]?0\d"  # leading zeros: a code
NOT_A_NUMBER = ("nan", "NaN", "NAN")
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}  # of a second
_DAYS = (-12_687_428, 11_248_737)  # of the years that Arrow writes as texts
_WITHOUT_VIEWS = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}
_LABELS = pa.dictionary(pa.int32(), pa.string())


# ---- types


def check_type(name: str, kind: pa.DataType) -> None:
    """Raise an error that names a column whose cells are no labels and no numbers."""
    if pa.types.is_nested(kind) and not pa.types.is_dictionary(kind):
        raise TypeError(
            f"Column {name!r} holds nested values ({kind}): give it one value a row."
        )
    if pa.types.is_interval(kind):
        raise TypeError(
            f"Column {name!r} holds intervals of months, days and hours ({kind}): make "
            "texts or numbers of them."
        )


def check_moments(name: str, values: Array) -> None:
    """Raise an error that names a column of moments for which Arrow has no text."""
    kind = values.type
    if pa.types.is_date32(kind):
        day, ticks = 1, values.cast(pa.int32())
    elif pa.types.is_date64(kind) or pa.types.is_timestamp(kind):
        day, ticks = (
            86_400 * _TICKS[getattr(kind, "unit", "ms")],
            values.cast(pa.int64()),
        )
    else:
        return
    found = pc.min_max(ticks).as_py()
    low, high = found["min"], found["max"]
    first, last = _DAYS
    if low is not None and not first * day <= low <= high < (last + 1) * day:
        raise ValueError(
            f"Column {name!r} holds moments outside the years -32767 to 32767 "
            f"({kind}): correct them, or make texts or numbers of them."
        )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that `storage` gives values of a type."""
    if isinstance(kind, pa.BaseExtensionType):
        named = {"arrow.uuid": _LABELS, "arrow.bool8": pa.bool_()}
        return named.get(kind.extension_name) or plain_type(kind.storage_type)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    return _WITHOUT_VIEWS.get(kind, kind)


def storage(column: Array) -> Array:
    """Return the values of an extension type, or of one that Arrow can do little with.

    UUIDs are their texts, runs are decoded, and views are plain texts or bytes.
    """
    kind = column.type
    if getattr(kind, "extension_name", "") == "arrow.uuid":
        cells = column.storage.dictionary_encode()
        texts = [str(UUID(bytes=value)) for value in cells.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(
            cells.indices, pa.array(texts, pa.string())
        )
    if isinstance(kind, pa.BaseExtensionType):
        return storage(column.storage).cast(plain_type(kind))
    if pa.types.is_run_end_encoded(kind):
        return storage(pc.run_end_decode(column))
    made = plain_type(kind)
    return column if made is kind else column.cast(made)


def without_views(table: pa.Table) -> pa.Table:
    """Return a table from which Arrow can take rows, which it cannot do from views."""
    if _WITHOUT_VIEWS.keys().isdisjoint(table.schema.types):
        return table
    plain = _WITHOUT_VIEWS
    fields = [
        field.with_type(plain.get(field.type, field.type)) for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def as_floats(column: Array) -> Array:
    """Return numbers, or texts of numbers, as the nearest floats."""
    if pa.types.is_decimal(column.type):
        # Arrow's own cast is a unit in the last place off for one value in eight.
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=not pa.types.is_integer(column.type))


def requested_floats(name: str, column: Array) -> Array:
    """Return a column of some type as floats, as the user asked for."""
    try:
        return as_floats(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"Column {name!r} is numeric but holds {column.type} that are no numbers: "
            "correct it, or leave it out of --numeric."
        ) from None


def from_decimals(column: Array) -> Array:
    """Return decimals as floats, whole ones as integers unless of over 64 bits."""
    if column.type.scale != 0:
        return as_floats(column)
    if column.type.bit_width < 128:  # of which Arrow makes no integers
        column = column.cast(pa.decimal128(column.type.precision, 0))
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        return column


# ---- labels


def entries(dictionary: Array) -> list[Any]:
    """Return the values of a dictionary, times as texts."""
    if pa.types.is_temporal(dictionary.type):
        dictionary = time_texts(dictionary)
    values: list[Any] = dictionary.to_pylist()
    return values


def coded(column: Array) -> tuple[Array, Array]:
    """Return the cells of a column as indices, null if missing, and into what."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.int32()), pa.array([], pa.string())
    if not pa.types.is_dictionary(kind):
        if pa.types.is_decimal(kind):
            column = from_decimals(column)
        # Never null_encoding="encode": on string views it turns null into "".
        column = column.dictionary_encode()
    dictionary = column.dictionary
    values = storage(dictionary)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    return column.indices, values


def filled(indices: Array) -> NDArray[Any]:
    """Return indices as an array, -1 for null, which alone would make them floats."""
    if pa.types.is_unsigned_integer(indices.type):
        indices = indices.cast(pa.int64())
    found: NDArray[Any] = pc.fill_null(indices, -1).to_numpy()
    return found


def labels(dictionary: Array, text: str, missing: frozenset[str]) -> list[Label]:
    """Return the label of each entry of a dictionary, None if it means missing.

    Text is read as "integers", "numbers" or "figures", any other is trimmed; "" is of
    columns of other types, and of text that is taken as it stands.
    """
    if text:
        dictionary = trimmed(dictionary)
    if text == "figures":
        dictionary = figures(dictionary)
    elif text in ("integers", "numbers"):
        kind = pa.int64() if text == "integers" else pa.float64()
        dictionary = without(dictionary, missing).cast(kind)
    found = [plain_label(value) for value in entries(dictionary)]
    return [None if label_text(label) in missing else label for label in found]


def trimmed(texts: Array) -> Array:
    """Return text without the spaces around it."""
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    return pc.utf8_trim_whitespace(texts)


def without(texts: Array, missing: frozenset[str]) -> Array:
    """Return text with null for what means missing."""
    gone = pc.is_in(texts, pa.array(sorted(missing), pa.string()))
    return pc.if_else(gone, pa.scalar(None, pa.string()), texts)


def number_text(text: str) -> str:
    """Return a number as labels are compared, and any other text as it is."""
    if re.match(CODE, text):
        return text
    if re.match(INTEGER, text):
        return label_text(int(text))  # a float may not tell it from its neighbours
    return label_text(float(text)) if re.match(NUMBER, text) else text


def figures(texts: Array) -> Array:
    """Return labels that are numbers as these are compared, each cell for itself."""
    known = (None if text in NOT_A_NUMBER else text for text in texts.to_pylist())
    return pa.array([text and number_text(text) for text in known], pa.string())


# ---- numbers


def numbers(
    name: str, column: Array, family: str, text: str, missing: frozenset[str]
) -> tuple[Floats, bool]:
    """Return cells as floats, NaN if missing, and whether they are whole by type."""
    if text in ("integers", "numbers"):
        whole, indices = text == "integers", None
        if pa.types.is_dictionary(column.type):
            column = occurring(column)
            column, indices = column.dictionary, column.indices
        cells = text_floats(name, without(trimmed(column), missing))
        cells = cells if indices is None else cells.take(indices)
    elif family in ("integer", "float") or pa.types.is_null(column.type):
        whole, cells = family == "integer", as_floats(column)
    else:  # labels that the user wants as numbers
        indices, dictionary = coded(column)
        found = labels(dictionary, "words" if text else "", frozenset())
        ordered, places = ranked(found)
        codes = np.array([*places, len(ordered)])[filled(indices)]
        return label_numbers(name, ordered, codes, missing)
    return without_missing(cells.to_numpy(zero_copy_only=False), missing), whole


def text_floats(name: str, texts: Array) -> Array:
    """Return text as floats; the first that is no number is named."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        for text in pc.unique(texts.drop_null()):
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                raise not_numeric(name, text.as_py()) from None
        raise


def occurring(column: Array) -> Array:
    """Return a dictionary array whose dictionary has what occurs, and nothing else."""
    size = len(column.dictionary)
    places = column.indices.drop_null().to_numpy(zero_copy_only=False)
    if size <= len(column) and (np.bincount(places, minlength=size) > 0).all():
        return column
    return column.dictionary_decode().dictionary_encode()
