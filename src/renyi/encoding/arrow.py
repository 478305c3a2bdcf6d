"""Cells of Arrow arrays and CSV files, as labels and as numbers.

Labels come as indices into a dictionary, so that the work per label is done once per
dictionary, not once per row. Decimals are floats, but those without a fraction are
integers: that is what engines make of a sum of integers.

A CSV file has no types, and a reader that guesses them block by block changes its mind
in the middle of a file. Here a whole column of text is looked at: if its cells are all
integers, or all numbers, it becomes one, missing codes apart. Cells such as "007" are
codes, not numbers, and keep their zeros. Spaces around a cell are dropped. A `TextKind`
is that rule: it sees a column piece by piece, and keeps just what the rule needs.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.columns import (
    DIGITS,
    Label,
    PlainData,
    label_text,
    plain_label,
    ranked,
    time_texts,
)
from renyi.encoding.rules import (
    MAX_INTEGER_LABELS,
    check_weights,
    is_binned,
    label_numbers,
    not_numeric_error,
    weight_error,
    without_missing,
)
from renyi.validation import InputError
from renyi.warnings import warn

Floats = NDArray[np.float64]
Array = Any  # of pyarrow, which has no types

LONG_INTEGER = pa.decimal128(38, 0)  # holds integers of more than 64 bits

_INTEGER = r"^[+-]?\d+$"
_READ_INTEGER = r"^-?\d{1,38}$"  # one that Arrow reads, if need be as a decimal
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_CODE = r"^[+-]?0\d"  # leading zeros: a code
_COMMA = r"^[+-]?(\d+,\d+|\d{1,3}(,\d{3})+)$"  # a decimal comma, or thousands
_NOT_A_NUMBER = ("nan", "NaN", "NAN")
_NUMBERLIKE = r"[+-]?\.?\d|(nan|NaN|NAN)$"  # how a number begins, or none at all
_PLAIN_INTEGER = r"(0|-?[1-9][0-9]{0,17})$"
_DAYS = (-719_162, 2_932_896)  # since 1970, from the year 1 to the year 9999
_READ = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating),
    *(pa.types.is_decimal, pa.types.is_date, pa.types.is_time, pa.types.is_timestamp),
    pa.types.is_null,
)
_NUMERIC = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_FEW = 64
_MOST_WORDS = 2
_ROWS = 2**14  # that are looked at at once: their texts stay in cache


# ---- types


class ColumnTypeError(TypeError):
    """A column of a type that renyi does not read."""

    options = ("drop",)  # as in `renyi.validation.InputError`


def check_type(name: str, kind: pa.DataType) -> None:
    """Raise an error that names a column whose type renyi does not read."""
    if not is_read(plain_type(kind)):
        raise ColumnTypeError(
            f"Column {name!r} has the type {str(kind):.60}, which renyi does not read. "
            "Cast it to text or to a number (in pandas, .astype(str); in SQL, "
            "CAST(… AS VARCHAR)), or leave it out."
        )


def is_read(kind: pa.DataType) -> bool:
    """Whether renyi reads cells of a type, which is not that of a dictionary."""
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return not zoned and any(is_kind(kind) for is_kind in _READ)


def check_moments(name: str, values: Array) -> None:
    """Raise an error that names a column of moments for which Arrow has no text."""
    kind = values.type
    date = pa.types.is_date(values.type)
    if not date and not pa.types.is_timestamp(kind):
        return
    day = 86_400 * 10 ** DIGITS["ms" if date else kind.unit]
    if pa.types.is_date32(kind):
        day = 1
    low, high = (each.value for each in pc.min_max(values).values())
    first, last = _DAYS
    if low is not None and not first * day <= low <= high < (last + 1) * day:
        raise ValueError(
            f"Column {name!r} has dates outside the years 1 to 9999 ({kind}): correct "
            "them, or cast them to text."
        )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the cells of a column, which may be a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def plain_array(column: Array) -> Array:
    """Return views of text as plain text, which Arrow can do more with."""
    views = pa.types.is_string_view(column.type)
    return column.cast(pa.large_string()) if views else column


def without_views(table: pa.Table) -> pa.Table:
    """Return a table from which Arrow can take rows, which it cannot do from views."""
    kinds = table.schema.types
    plain = [pa.large_string() if kind == pa.string_view() else kind for kind in kinds]
    if plain == kinds:
        return table
    return table.cast(pa.schema(zip(table.column_names, plain, strict=True)))


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
        raise InputError(
            f"Column {name!r} is numeric but holds {column.type} that are not numbers: "
            "correct it, or leave it out of the numeric columns.",
            "numeric",
        ) from None


def weight_floats(name: str, column: Array, start: int | None = 0) -> Floats:
    """Return a column of weights; of what cannot be one, the first row is named.

    No code means that a weight is missing. `start` is how many rows come before these,
    None if that is not known.
    """
    if not len(column):
        return np.empty(0)
    if isinstance(column, pa.ChunkedArray):
        pieces = column.chunks
    else:
        column = plain_array(column)
        if pa.types.is_dictionary(column.type):
            column = plain_array(column.dictionary_decode())
        check_type(name, column.type)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = trimmed(column)
        try:
            values = np.asarray(as_floats(column), np.float64)
            check_weights(values, name, start)
            return values
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if len(column) == 1:
                raise weight_error(start, column[0].as_py(), name) from None
            half = len(column) // 2
            pieces = column[:half], column[half:]
    weights = []
    for piece in pieces:
        weights.append(weight_floats(name, piece, start))
        start = None if start is None else start + len(piece)
    return np.concatenate(weights)


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
    return column.indices, plain_array(column.dictionary)


def filled(indices: Array) -> NDArray[Any]:
    """Return indices as an array, -1 for null, which alone would make them floats."""
    if pa.types.is_unsigned_integer(indices.type):
        indices = indices.cast(pa.int64())
    places: NDArray[Any] = pc.fill_null(indices, -1).to_numpy()
    return places


def labels(dictionary: Array, text: str, missing: frozenset[str]) -> list[Label]:
    """Return the label of each entry of a dictionary, None if it means missing.

    Text is read as "integers", "numbers" or "figures", any other is trimmed; "" is of
    columns of other types, and of text that is taken unchanged.
    """
    if text:
        dictionary = trimmed(dictionary)
    if text == "figures":
        dictionary = numeric_labels(dictionary)
    elif text in ("integers", "numbers"):
        known = without(dictionary, missing)
        whole = text == "integers"
        dictionary = whole_numbers(known) if whole else known.cast(pa.float64())
    values = [plain_label(value) for value in entries(dictionary)]
    return [None if label_text(label) in missing else label for label in values]


def trimmed(texts: Array) -> Array:
    """Return text without the spaces around it."""
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    return pc.utf8_trim_whitespace(texts)


def without(texts: Array, missing: frozenset[str]) -> Array:
    """Return text with null for what means missing."""
    gone = pc.is_in(texts, pa.array(sorted(missing), pa.string()))
    return pc.if_else(gone, pa.scalar(None, pa.string()), texts)


def null_missing(cells: Array, missing: frozenset[str]) -> Array:
    """Return cells of any type but dictionaries with null for what means missing.

    Numbers are compared by value, and NaN means missing; others by their texts. Cells
    of types that are not read, and those without any value, stay as they are.
    """
    cells = plain_array(cells)
    kind = cells.type
    if pa.types.is_null(kind) or not is_read(kind):
        return cells
    if any(is_kind(kind) for is_kind in _NUMERIC):
        values = as_floats(cells).to_numpy(zero_copy_only=False)
        gone = pa.array(np.isnan(without_missing(values, missing)))
    else:
        texts = _label_texts(cells)
        gone = pc.is_in(texts, pa.array(sorted(missing), texts.type))
    return pc.if_else(gone, pa.scalar(None, kind), cells)


def _label_texts(cells: Array) -> Array:
    """Return text, truths, dates or times as texts."""
    if pa.types.is_boolean(cells.type):
        return pc.if_else(cells, "True", "False")
    return time_texts(cells) if pa.types.is_temporal(cells.type) else cells


def number_text(text: str) -> str:
    """Return a number as labels are compared, and any other text as it is."""
    if re.match(_CODE, text):
        return text
    if re.match(_INTEGER, text):
        return label_text(int(text))  # a float may equal that of its neighbours
    return label_text(float(text)) if re.match(_NUMBER, text) else text


def numeric_labels(texts: Array) -> Array:
    """Return labels that are numbers as these are compared, each cell for itself."""
    known = (None if text in _NOT_A_NUMBER else text for text in texts.to_pylist())
    return pa.array([text and number_text(text) for text in known], pa.string())


# ---- numbers


def whole_numbers(texts: Array) -> Array:
    """Return texts of integers as integers, decimals if 64 bits are too few."""
    for kind in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            return texts.cast(kind)
    return texts.cast(LONG_INTEGER)


def numbers(
    name: str, column: Array, family: str, text: str, missing: frozenset[str]
) -> tuple[Floats, bool]:
    """Return cells as floats, NaN if missing, and whether they are whole by type."""
    if text in ("integers", "numbers"):
        whole = text == "integers"
        indices = None
        if pa.types.is_dictionary(column.type):
            column = occurring(column)
            indices = column.indices
            column = column.dictionary
        cells = _text_floats(name, without(trimmed(column), missing))
        cells = cells if indices is None else cells.take(indices)
    elif family in ("integer", "float") or pa.types.is_null(column.type):
        whole = family == "integer"
        cells = as_floats(column)
    else:  # labels that the user wants as numbers
        indices, dictionary = coded(column)
        known = labels(dictionary, "words" if text else "", frozenset())
        ordered, places = ranked(known)
        codes = np.array([*places, len(ordered)])[filled(indices)]
        return label_numbers(name, ordered, codes, missing)
    return without_missing(cells.to_numpy(zero_copy_only=False), missing), whole


def _text_floats(name: str, texts: Array) -> Array:
    """Return text as floats; the first that is not a number is named."""
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        for text in pc.unique(texts.drop_null()):
            try:
                text.cast(pa.float64())
            except pa.ArrowInvalid:
                raise not_numeric_error(name, text.as_py()) from None
        raise


def occurring(column: Array) -> Array:
    """Return a dictionary array whose dictionary has what occurs, and nothing else."""
    size = len(column.dictionary)
    places = column.indices.drop_null().to_numpy(zero_copy_only=False)
    if size <= len(column) and (np.bincount(places, minlength=size) > 0).all():
        return column
    return column.dictionary_decode().dictionary_encode()


# ---- what a column of text holds


class TextKind:
    """What a column of text holds, as far as it was seen."""

    def __init__(self) -> None:
        self.known = 0  # cells that are not missing
        self.codes = False  # cells with leading zeros
        self.integers = self.numbers = True
        self.long = False  # are some integers beyond 64 bits with a sign
        self.whole_figures = True  # are the numbers among the cells all integers
        self.figures: set[str] = set()  # some of the numbers
        self.words: set[str] = set()  # some of the others
        self.word_cells = 0

    def look_at(self, column: Array, missing: frozenset[str]) -> None:
        """Add some cells of the column."""
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column):
            column = occurring(column)
        indices, dictionary = coded(column)
        if indices.null_count:
            indices = indices.drop_null()
        counts = np.bincount(indices.to_numpy(), minlength=len(dictionary))
        if len(dictionary) <= _FEW and self._add_words(dictionary, counts, missing):
            return
        texts = without(trimmed(dictionary), missing)
        known = texts.is_valid().to_numpy(zero_copy_only=False) & (counts > 0)
        self.add(texts.filter(pa.array(known)), counts[known])

    def _add_words(
        self, dictionary: Array, counts: NDArray[np.int64], missing: frozenset[str]
    ) -> bool:
        """Add cells as `add` does if none of a few texts looks like a number."""
        pairs = zip(dictionary.to_pylist(), counts.tolist(), strict=True)
        counted = [(text, count) for text, count in pairs if count and text is not None]
        if any(text != text.strip() for text, _ in counted):
            return False
        words = [(text, count) for text, count in counted if text not in missing]
        if any(re.match(_NUMBERLIKE, text) for text, _ in words):
            return False
        cells = sum(count for _, count in words)
        self.known += cells
        many = len(self.words) > _MOST_WORDS
        if words and not self.codes and (not many or self.integers or self.numbers):
            self.integers = self.numbers = False
            self.word_cells += cells
            if not many:
                self.words |= {text for text, _ in words[: _MOST_WORDS + 1]}
        return True

    def add(self, texts: Array, counts: NDArray[np.int64]) -> None:
        """Add different trimmed texts, none of them missing, with their cells."""
        if not len(texts):
            return
        self.known += int(counts.sum())
        many = len(self.words) > _MOST_WORDS
        if self.codes or (many and not self.integers and not self.numbers):
            return  # nothing makes it anything but words, without warning
        leading = pc.match_substring_regex(texts, _CODE)
        self.codes = self.codes or pc.any(leading).as_py()
        self.integers = self.integers and _all_match(texts, _READ_INTEGER)
        if self.integers:
            self.long = self.long or whole_numbers(texts).type != pa.int64()
            self.figures = _some(self.figures, texts, MAX_INTEGER_LABELS)
            return
        matches = pc.match_substring_regex(texts, _NUMBER)
        figures = texts.filter(matches)
        self.whole_figures = self.whole_figures and _all_match(figures, _INTEGER)
        self.figures = _some(self.figures, figures, MAX_INTEGER_LABELS)
        places = np.flatnonzero(~matches.to_numpy(zero_copy_only=False))
        if len(places):
            self.word_cells += int(counts[places].sum())
            words = texts.take(places)
            absent = pc.is_in(words, pa.array(_NOT_A_NUMBER))
            self.numbers = self.numbers and pc.all(absent).as_py()
            self.words = _some(self.words, words, _MOST_WORDS)

    def merge(self, other: TextKind) -> None:
        """Add what another one saw."""
        self.known += other.known
        self.codes |= other.codes
        self.integers &= other.integers
        self.numbers &= other.numbers
        self.long |= other.long
        self.whole_figures &= other.whole_figures
        both = sorted(self.figures | other.figures)
        self.figures = set(both[: MAX_INTEGER_LABELS + 1])
        self.words = set(sorted(self.words | other.words)[: _MOST_WORDS + 1])
        self.word_cells += other.word_cells

    @property
    def may_be_number(self) -> bool:
        """Whether the column can still turn out to be of integers or numbers."""
        return not self.codes and (self.integers or self.numbers)

    @property
    def undecided(self) -> bool:
        """Whether more cells may make it a column of numbers, or nearly one."""
        # One that begins with several words, or words alone, is not worth a look.
        nearly = self.figures and not self.codes and len(self.words) <= _MOST_WORDS
        return self.may_be_number or bool(nearly)

    @property
    def name(self) -> str:
        """What the column is: "integers", "numbers" or "words"."""
        if not self.known or self.codes:
            return "words"
        if self.integers:
            return "integers"
        if self.whole_figures and self.word_cells == 0:
            return "words"  # integers with a plus sign, or of too many digits
        return "numbers" if self.numbers and self.figures else "words"

    def warn(self, column: str) -> None:
        """Warn of a column that would be binned but for a word or two, such as NA."""
        if self.name != "words" or self.codes or not self.word_cells:
            return
        if all(re.match(_COMMA, word) for word in self.words):
            warn(
                f"Column {column!r} has numbers with a comma, such as "
                f"{min(self.words)!r}, and was treated as labels. To use them as "
                "numbers, write a decimal comma as a point, and leave out a comma that "
                "groups thousands."
            )
            return
        if not is_binned(self.whole_figures, len(self.figures)):
            return  # labels either way
        if self.word_cells * 2 <= self.known and len(self.words) <= _MOST_WORDS:
            shown = " and ".join(map(repr, sorted(self.words)))
            warn(
                f"Column {column!r} would be numeric except for {shown} "
                f"({self.word_cells:,} of {self.known:,} cells), and was treated as "
                "labels: if this means missing, pass it as a missing code.",
                "note",
                f"missing={min(self.words)}",
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        both = {"figures": sorted(self.figures), "words": sorted(self.words)}
        return {**vars(self), **both}

    @classmethod
    def from_dict(cls, data: PlainData) -> TextKind:
        """Return what a plain form holds."""
        made = cls()
        for name, value in data.items():
            setattr(made, name, set(value) if isinstance(value, list) else value)
        return made


def _some(known: set[str], texts: Array, most: int) -> set[str]:
    """Add different texts to those known, until there are more than `most`."""
    return known if len(known) > most else known | {*texts[: most + 1].to_pylist()}


def _all_match(texts: Array, pattern: str) -> bool:
    """Whether all texts match a pattern."""
    for some in (texts[:_FEW], texts):  # most columns of labels show it at once
        matches = pc.match_substring_regex(some, pattern)
        if not pc.all(matches, min_count=0).as_py():
            return False
    return True


def first_word(texts: Array, whole: bool) -> str | None:
    """Return the first text that is not a number, or not a whole one; None if all are.

    Arrow reads more as numbers, such as 0x5.
    """
    numbers = pc.match_substring_regex(texts, _READ_INTEGER if whole else _NUMBER)
    if not whole:
        numbers = pc.or_(numbers, pc.is_in(texts, pa.array(_NOT_A_NUMBER)))
    codes = pc.match_substring_regex(texts, _CODE)
    words = texts.filter(pc.or_(pc.invert(numbers), codes))
    return words[0].as_py() if len(words) else None


# ---- whole columns of CSV files


def typed(
    name: str, column: pa.ChunkedArray, missing: frozenset[str], kind: str | None = None
) -> pa.ChunkedArray:
    """Return a column of text as integers or numbers if that is what its cells are.

    `kind` says what it is: "label", "number", "figure" (labels that are numbers), or
    "verbatim".
    """
    if kind == "verbatim":
        return column
    few = _few(column)
    if few is None or any(cell != cell.strip() for cell in few):
        column = pc.utf8_trim_whitespace(column)
    if kind == "label":
        return column
    if few is not None:
        known = [cell.strip() for cell in few if cell and cell.strip() not in missing]
        plain = all(re.match(_PLAIN_INTEGER, cell) for cell in known)
        if known and plain and kind != "number":
            return without(column, missing).cast(pa.int64())
        if not any(re.match(_NUMBERLIKE, cell) for cell in known) and kind is None:
            return column
    if kind == "figure":
        indices, dictionary = coded(column.combine_chunks())
        column = pa.chunked_array([numeric_labels(dictionary).take(indices)])
    cells = without(column, missing)
    if cells.null_count == len(cells):
        return column
    if kind == "number":
        return _text_floats(name, cells)
    text_kind = TextKind()
    present = cells.drop_null()
    for low in range(0, len(present), _ROWS):
        seen = pc.value_counts(present[low : low + _ROWS])
        text_kind.add(seen.field("values"), seen.field("counts").to_numpy())
    if kind is None:
        text_kind.warn(name)
    if text_kind.name == "words":
        return column
    try:
        whole = text_kind.name == "integers"
        return whole_numbers(cells) if whole else cells.cast(pa.float64())
    except pa.ArrowInvalid:  # a number that Arrow does not read
        return column


def _few(column: pa.ChunkedArray) -> list[str] | None:
    """Return the different cells of a column that begins as one of few labels.

    Thousands of columns are read much sooner if each needs a look at a few texts only.
    """
    if len(pc.unique(column[:_FEW])) == min(len(column), _FEW) > 1:
        return None
    values = pc.unique(column)
    return None if len(values) > _FEW else values.to_pylist()
