"""Cells of a CSV file: whether a column is of integers, of numbers or of labels.

A CSV file has no types, and a reader that guesses them block by block changes its mind
in the middle of a file. Here a whole column of text is looked at: if its cells are all
integers, or all numbers, it becomes one, missing codes apart. Cells such as "007" are
codes, not numbers, and keep their zeros. Spaces around a cell are dropped.

A `TextKind` is that rule. It sees a column piece by piece, and keeps just what the rule
needs: whether all cells so far were integers, or numbers, whether one had leading
zeros, and the words among numbers, of which the owner of the table is warned.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding import arrow_cells
from renyi.encoding.column_rules import MAX_INTEGER_LABELS
from renyi.encoding.columns import label_text
from renyi.warnings import DataWarning

_INTEGER = r"^[+-]?\d+$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_CODE = r"^[+-]?0\d"  # leading zeros: a code
_NOT_A_NUMBER = ("nan", "NaN", "NAN")
_NUMBERLIKE = r"[+-]?\.?\d|(nan|NaN|NAN)$"  # how a number begins, or none at all
_FEW = 64
_MOST_WORDS = 2
_ROWS = 2**14  # that are looked at at once: their texts stay in cache


def is_missing(column: pa.ChunkedArray, missing: frozenset[str]) -> pa.ChunkedArray:
    """Return which cells are null, NaN or a missing code."""
    null = pc.is_null(column, nan_is_null=True)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pa.chunked_array([c.dictionary_decode() for c in column.chunks])
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        found = pc.is_in(column, pa.array(sorted(missing), kind))
        return pc.or_(null, found)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        codes = [float(text) for text in sorted(missing) if re.match(_NUMBER, text)]
        values = column.cast(pa.float64(), safe=False)
        return pc.or_(null, pc.is_in(values, pa.array(codes, pa.float64())))
    return null


class TextKind:
    """What a column of text holds, as far as it was seen."""

    def __init__(self) -> None:
        self.known = 0  # cells that are not missing
        self.codes = False  # cells with leading zeros
        self.integers = self.numbers = True
        self.whole_figures = True  # are the numbers among the cells all integers
        self.figures: set[str] = set()  # some of the numbers
        self.words: set[str] = set()  # some of the others
        self.word_cells = 0

    def add(self, texts: Any, counts: NDArray[np.int64]) -> None:
        """Add different trimmed texts, none of them missing, with their cells."""
        if not len(texts):
            return
        self.known += int(counts.sum())
        if self._settled:
            return
        self.codes = self.codes or _any(texts, _CODE)
        self.integers = self.integers and _reads(texts, _INTEGER, pa.int64())
        if self.integers:
            self.figures = _some(self.figures, texts, MAX_INTEGER_LABELS)
            return
        matches = pc.match_substring_regex(texts, _NUMBER)
        figures = texts.filter(matches)
        self.whole_figures = self.whole_figures and _reads(figures, _INTEGER)
        self.figures = _some(self.figures, figures, MAX_INTEGER_LABELS)
        self._add_words(texts, counts, ~matches.to_numpy(zero_copy_only=False))

    def _add_words(
        self, texts: Any, counts: NDArray[np.int64], chosen: NDArray[np.bool_]
    ) -> None:
        places = np.flatnonzero(chosen)
        if not len(places):
            return
        self.word_cells += int(counts[places].sum())
        words = texts.take(places)
        absent = pc.is_in(words, pa.array(_NOT_A_NUMBER))
        self.numbers = self.numbers and bool(pc.all(absent).as_py())
        self.words = _some(self.words, words, _MOST_WORDS)

    def merge(self, other: TextKind) -> None:
        """Add what another one saw."""
        self.known += other.known
        self.codes |= other.codes
        self.integers &= other.integers
        self.numbers &= other.numbers
        self.whole_figures &= other.whole_figures
        figures = sorted(self.figures | other.figures)
        self.figures = set(figures[: MAX_INTEGER_LABELS + 1])
        self.words = set(sorted(self.words | other.words)[: _MOST_WORDS + 1])
        self.word_cells += other.word_cells

    @property
    def _settled(self) -> bool:
        """Whether nothing can make the column anything but words, without warning."""
        return self.codes or (
            len(self.words) > _MOST_WORDS and not self.integers and not self.numbers
        )

    @property
    def may_be_number(self) -> bool:
        """Whether the column can still turn out to be of integers or numbers."""
        return not self.codes and (self.integers or self.numbers)

    @property
    def undecided(self) -> bool:
        """Whether more cells may make it a column of numbers, or nearly one.

        One that begins with several words, or with words alone, is not worth another
        look.
        """
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
            return "words"  # integers of too many digits
        return "numbers" if self.numbers and self.figures else "words"

    def warn(self, column: str) -> None:
        """Warn of a column that would be binned but for a word or two, such as NA."""
        if self.name != "words" or self.codes or not self.word_cells:
            return
        if len(self.figures) <= MAX_INTEGER_LABELS and self.whole_figures:
            return  # labels either way
        if self.word_cells * 2 <= self.known and len(self.words) <= _MOST_WORDS:
            shown = " and ".join(map(repr, sorted(self.words)))
            warnings.warn(
                f"Column {column!r} would be numeric but for {shown} "
                f"({self.word_cells:,} of {self.known:,} cells), and was taken as "
                "labels: if that means missing, name it as a missing code (--missing "
                f"{min(self.words)}).",
                DataWarning,
                stacklevel=3,
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        figures, words = sorted(self.figures), sorted(self.words)
        return {**vars(self), "figures": figures, "words": words}

    @classmethod
    def from_dict(cls, data: Any) -> TextKind:
        """Return what a plain form holds, checked."""
        made = cls()
        good = isinstance(data, dict) and set(data) == set(vars(made))
        for name, value in vars(made).items():
            wanted = list if isinstance(value, set) else type(value)
            good = good and type(data[name]) is wanted
        if not good or not _all_texts([*data["figures"], *data["words"]]):
            raise ValueError("what is known of a column of text is not valid")
        for name, value in data.items():
            setattr(made, name, set(value) if isinstance(value, list) else value)
        return made


def _some(known: set[str], texts: Any, most: int) -> set[str]:
    """Add different texts to those known, until there are more than `most`."""
    if len(known) > most:
        return known
    return known | set(texts[: most + 1].to_pylist())


def _all_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _any(texts: Any, pattern: str, match: bool = True) -> bool:
    """Whether some text matches a pattern, or does not."""
    found = pc.match_substring_regex(texts, pattern)
    return bool(pc.any(found if match else pc.invert(found)).as_py())


def _reads(texts: Any, pattern: str, kind: Any = None) -> bool:
    """Whether all texts match a pattern, and can be read as a type."""
    for some in (texts[:_FEW], texts):  # most columns of labels show it at once
        if _any(some, pattern, False):
            return False
    try:
        if kind is not None:
            texts.cast(kind)
    except pa.ArrowInvalid:  # more digits than an integer holds
        return False
    return True


def typed(
    name: str,
    column: pa.ChunkedArray,
    missing: frozenset[str],
    kind: str | None = None,
) -> pa.ChunkedArray:
    """Return a column of text as integers or numbers if that is what its cells are."""
    if kind == "verbatim":
        return column
    few = _few(column)
    if few is None or any(cell != cell.strip() for cell in few):
        column = pc.utf8_trim_whitespace(column)
    if kind == "figure":
        coded = column.combine_chunks().dictionary_encode()
        column = pa.chunked_array([figures(coded.dictionary).take(coded.indices)])
        few = _few(column)
    if kind == "label" or (kind != "number" and _are_words(few, missing)):
        return column
    gone = is_missing(column, missing)
    known = column.filter(pc.invert(gone))
    if not len(known):
        return column
    filled = pc.if_else(gone, None, column)
    if kind == "number":
        return _numbers(name, filled, known)
    found = _looked_at(known)
    if kind is None:
        found.warn(name)
    return _cast(filled, found.name, column)


def _looked_at(known: pa.ChunkedArray) -> TextKind:
    """Return what a whole column holds; different texts are looked at once."""
    found = TextKind()
    for low in range(0, len(known), _ROWS):
        cells = pc.value_counts(known[low : low + _ROWS])
        found.add(cells.field("values"), cells.field("counts").to_numpy())
    return found


def _few(column: pa.ChunkedArray) -> list[str] | None:
    """Return the different cells of a column that begins as one of few labels.

    A file of thousands of columns is read much sooner if each needs a look at a few
    texts only.
    """
    if len(pc.unique(column[:_FEW])) == min(len(column), _FEW) > 1:
        return None
    values = pc.unique(column)
    if len(values) > _FEW:
        return None
    cells: list[str] = values.to_pylist()
    return cells


def _are_words(few: list[str] | None, missing: frozenset[str]) -> bool:
    """Whether no cell but a missing one could be a number."""
    if few is None:
        return False
    known = [cell.strip() for cell in few if cell and cell.strip() not in missing]
    return not any(re.match(_NUMBERLIKE, cell) for cell in known)


def as_floats(name: str, column: Any) -> Any:
    """Return a column of some type as floats, as the user asked for."""
    try:
        return arrow_cells.as_floats(column)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"Column {name!r} is to be numeric but holds {column.type} that are no "
            "numbers: correct it, or leave it out of --numeric."
        ) from None


def number_text(text: str) -> str:
    """Return a number as labels are compared, and any other text as it is."""
    if re.match(_CODE, text):
        return text
    if re.match(_INTEGER, text):
        return label_text(int(text))  # a float may not tell it from its neighbours
    return label_text(float(text)) if re.match(_NUMBER, text) else text


def figures(texts: Any) -> pa.Array:
    """Return text of a column whose labels are numbers as these are compared.

    Each cell is read for itself, whatever the others are.
    """
    known = (None if text in _NOT_A_NUMBER else text for text in texts.to_pylist())
    return pa.array([text and number_text(text) for text in known], pa.string())


def _cast(cells: pa.ChunkedArray, kind: str, column: pa.ChunkedArray) -> Any:
    if kind == "words":
        return column
    try:
        return cells.cast(pa.int64() if kind == "integers" else pa.float64())
    except pa.ArrowInvalid:  # a number that Arrow does not read
        return column


def _numbers(name: str, cells: Any, known: Any) -> pa.ChunkedArray:
    try:
        return cells.cast(pa.float64())
    except pa.ArrowInvalid:
        bad = known.filter(pc.invert(pc.match_substring_regex(known, _NUMBER)))
        shown = bad[0].as_py() if len(bad) else "text"
        raise ValueError(
            f"Column {name!r} is numeric but holds {shown!r}: correct the cell, or "
            "name it as a missing code (on the command line, --missing)."
        ) from None
