"""Readings: what the cells of an Arrow column are, as labels or as numbers.

The rules are those of `renyi.encoding.frame_columns` and `renyi.encoding.column_rules`,
which look at a whole table. Here a few thousand rows are looked at, and the spec of the
column in the spec says what its cells are. Labels come as indices into a dictionary, so
that the work per label is done once per dictionary, not once per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.arrow_cells import (
    as_floats,
    entries,
    from_decimals,
    plain_label,
    storage,
)
from renyi.encoding.column_rules import check_names, check_weights
from renyi.encoding.columns import Label, label_text
from renyi.encoding.frame_columns import Numbers, parts, resolve
from renyi.encoding.text_cells import TextKind, figures
from renyi.storage import first_line
from renyi.streaming.spec import ColumnSpec, CountSpec, family

ROWS = 61_440
"""Rows that are read at a time: what they become stays in cache."""

Floats = NDArray[np.float64]
Array = Any  # of pyarrow, which has no types


class Slice(NamedTuple):
    """Some rows: one array per column asked for, and their weights."""

    columns: list[Array]
    weights: Floats | None
    rows: int


def slices(
    spec: CountSpec,
    batch: pa.RecordBatch,
    names: Sequence[str],
    start: int = 0,
    most: int = ROWS,
) -> Iterator[Slice]:
    """Yield some columns of a batch, a few thousand rows at a time."""
    check_schema(spec, batch.schema)
    if isinstance(batch, pa.Table):
        for piece in batch.to_batches():
            yield from slices(spec, piece, names, start, most)
            start += piece.num_rows
        return
    columns = [storage(batch.column(name)) for name in names]
    for low in range(0, batch.num_rows, most):
        rows = min(most, batch.num_rows - low)
        weights = None
        if spec.weight is not None:
            cells = storage(batch.column(spec.weight)).slice(low, rows)
            weights = _weights(spec.weight, cells, start + low)
        yield Slice([column.slice(low, rows) for column in columns], weights, rows)


def check_schema(spec: CountSpec, schema: pa.Schema) -> None:
    """Refuse a batch whose columns are not those of the spec."""
    types = dict(zip(schema.names, schema.types, strict=True))
    check_names(schema.names)
    for name in spec.read_columns:
        if name not in types:
            raise ValueError(
                f"Column {name!r} is missing from some of the rows: give every batch "
                "the same columns."
            )
    for name, column_spec in zip(spec.names, spec.columns, strict=True):
        found = family(name, types[name])
        if found not in (column_spec.family, "null"):
            raise ValueError(
                f"Column {name!r} holds {column_spec.family} in the first rows and "
                f"{found} ({types[name]}) later: give it one type throughout."
            )
    for name in types.keys() - spec.ignored - set(spec.read_columns):
        raise ValueError(
            f"Column {name!r} is in some of the rows only: give every batch the same "
            "columns."
        )


def _weights(name: str, column: Array, start: int) -> Floats:
    try:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if family(name, column.type) == "text":
            column = trimmed(column)
        values = as_floats(column).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(
            f"The column of weights {name!r} is not of numbers ({first_line(error)}): "
            "correct it, or name another one."
        ) from None
    check_weights(values, name, start)
    return np.asarray(values, np.float64)


# ---- labels


def coded(column: Array) -> tuple[Array, Array]:
    """Return the cells of a column as indices, and what they are indices into.

    A null index is a missing cell.
    """
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.int32()), pa.array([], pa.string())
    if not pa.types.is_dictionary(kind):
        if pa.types.is_decimal(kind):
            column = from_decimals(column)
        # Never null_encoding="encode": on string views it turns null into "".
        column = column.dictionary_encode()
    dictionary = column.dictionary
    if pa.types.is_string_view(dictionary.type):  # which Arrow cannot take from
        dictionary = dictionary.cast(pa.string())
    return column.indices, dictionary


def occurring(column: Array) -> Array:
    """Return a dictionary array whose dictionary has what occurs, and nothing else."""
    size = len(column.dictionary)
    places = column.indices.drop_null().to_numpy(zero_copy_only=False)
    if size <= len(column) and (np.bincount(places, minlength=size) > 0).all():
        return column
    return column.dictionary_decode().dictionary_encode()


def look_at(kind: TextKind, column: Array, missing: frozenset[str]) -> None:
    """Let what is known of a column of text grow by some of its cells."""
    if pa.types.is_dictionary(column.type):
        column = occurring(column)
    indices, dictionary = coded(column)
    counts = np.bincount(indices.drop_null().to_numpy(), minlength=len(dictionary))
    texts = without(trimmed(dictionary), missing)
    known = texts.is_valid().to_numpy(zero_copy_only=False)
    kind.add(texts.filter(pa.array(known)), counts[known])


def labels(
    dictionary: Array, column_spec: ColumnSpec, missing: frozenset[str]
) -> list[Label]:
    """Return the label of each entry of a dictionary, None if it means missing."""
    if column_spec.text:
        dictionary = _typed(dictionary, column_spec, missing)
    found = [plain_label(value) for value in entries(dictionary)]
    return [None if label_text(label) in missing else label for label in found]


def _typed(texts: Array, column_spec: ColumnSpec, missing: frozenset[str]) -> Array:
    """Return text as its spec says: trimmed, figures, integers or numbers."""
    texts = trimmed(texts)
    if column_spec.text in ("guess", "words"):
        return texts
    if column_spec.text == "figures":
        return figures(texts)
    texts = without(texts, missing)
    return texts.cast(pa.int64() if column_spec.text == "integers" else pa.float64())


def trimmed(texts: Array) -> Array:
    """Return text without the spaces around it."""
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    return pc.utf8_trim_whitespace(texts)


def without(texts: Array, missing: frozenset[str]) -> Array:
    """Return text with null for what means missing."""
    gone = pc.is_in(texts, pa.array(sorted(missing), pa.string()))
    return pc.if_else(gone, pa.scalar(None, pa.string()), texts)


# ---- numbers


def numbers(
    name: str, column: Array, column_spec: ColumnSpec, missing: frozenset[str]
) -> tuple[Floats, bool]:
    """Return cells as floats, NaN if missing, and whether they are whole by type."""
    if column_spec.text in ("integers", "numbers"):
        values, whole = (
            _from_text(name, column, missing),
            column_spec.text == "integers",
        )
    elif column_spec.family in ("integer", "float") or pa.types.is_null(column.type):
        values = as_floats(column).to_numpy(zero_copy_only=False)
        whole = column_spec.family == "integer"
    else:
        return _from_labels(name, column, column_spec, missing)
    (part,) = resolve(Numbers(name, values, whole), frozenset([name]), missing)
    assert isinstance(part, Numbers)
    return part.values, whole


def _from_labels(
    name: str, column: Array, column_spec: ColumnSpec, missing: frozenset[str]
) -> tuple[Floats, bool]:
    """Read labels as numbers, as the user asked for."""
    indices, dictionary = coded(column)
    if column_spec.text:
        dictionary = trimmed(dictionary)
    column = pa.DictionaryArray.from_arrays(indices, dictionary)
    values = np.empty(len(column))
    whole = True
    for part in parts(pa.table([column], names=[name]), [name]):
        for piece in resolve(part, frozenset([name]), missing):
            assert isinstance(piece, Numbers)
            values, whole = piece.values, piece.integer
    return values, whole


def _from_text(name: str, column: Array, missing: frozenset[str]) -> Floats:
    if pa.types.is_dictionary(column.type):
        column = occurring(column)
        indices, texts = column.indices, trimmed(column.dictionary)
    else:
        indices, texts = None, trimmed(column)
    try:
        values = without(texts, missing).cast(pa.float64())
    except pa.ArrowInvalid:
        raise ValueError(
            f"Column {name!r} is of numbers but holds {_word(texts, missing)!r:.60}: "
            "correct the cell, name it as a missing code (on the command line, "
            "--missing), or make the column one of labels."
        ) from None
    if indices is not None:
        values = values.take(indices)
    floats: Floats = values.to_numpy(zero_copy_only=False)
    return floats


def _word(texts: Array, missing: frozenset[str]) -> str:
    """Return the first text that is not a number."""
    for text in texts.to_pylist():
        try:
            if text is not None and text not in missing:
                pa.scalar(text).cast(pa.float64())
        except pa.ArrowInvalid:
            return str(text)
    return ""
