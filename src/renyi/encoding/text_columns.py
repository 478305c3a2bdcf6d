"""Columns of text, as in CSV files: what their cells are.

A CSV file has no types, and a reader that guesses them block by block changes its mind
in the middle of a file. Here a whole column of text is looked at: if its cells are all
integers, or all numbers, it becomes one, missing codes apart. Cells such as "007" are
codes, not numbers, and keep their zeros. Spaces around a cell are dropped. A `TextKind`
is that rule: it sees a column piece by piece, and keeps just what the rule needs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.encoding.arrow_cells import (
    CODE,
    INTEGER,
    NOT_A_NUMBER,
    NUMBER,
    Array,
    coded,
    figures,
    occurring,
    text_floats,
    trimmed,
    without,
)
from renyi.encoding.column_rules import MAX_INTEGER_LABELS
from renyi.warnings import warn

_COMMA = r"^[+-]?\d+,\d+$"
_NUMBERLIKE = r"[+-]?\.?\d|(nan|NaN|NAN)$"  # how a number begins, or none at all
_SMALL_INTEGER = r"^-?\d{1,18}$"
_FEW = 64
_MANY, _SHORT = 256, 4096  # columns and rows of tables whose columns are read together
_CELLS = 2**20  # that are read together
_MOST_WORDS = 2
_ROWS = 2**14  # that are looked at at once: their texts stay in cache


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
        found = [(text, count) for text, count in pairs if count and text is not None]
        if any(text != text.strip() for text, _ in found):
            return False
        words = [(text, count) for text, count in found if text not in missing]
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
        leading = pc.match_substring_regex(texts, CODE)
        self.codes = self.codes or pc.any(leading).as_py()
        self.integers = self.integers and _reads(texts, INTEGER, pa.int64())
        if self.integers:
            self.figures = _some(self.figures, texts, MAX_INTEGER_LABELS)
            return
        matches = pc.match_substring_regex(texts, NUMBER)
        found = texts.filter(matches)
        self.whole_figures = self.whole_figures and _reads(found, INTEGER)
        self.figures = _some(self.figures, found, MAX_INTEGER_LABELS)
        places = np.flatnonzero(~matches.to_numpy(zero_copy_only=False))
        if len(places):
            self.word_cells += int(counts[places].sum())
            words = texts.take(places)
            absent = pc.is_in(words, pa.array(NOT_A_NUMBER))
            self.numbers = self.numbers and pc.all(absent).as_py()
            self.words = _some(self.words, words, _MOST_WORDS)

    def merge(self, other: TextKind) -> None:
        """Add what another one saw."""
        self.known += other.known
        self.codes |= other.codes
        self.integers &= other.integers
        self.numbers &= other.numbers
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
            return "words"  # integers of too many digits
        return "numbers" if self.numbers and self.figures else "words"

    def warn(self, column: str) -> None:
        """Warn of a column that would be binned but for a word or two, such as NA."""
        if self.name != "words" or self.codes or not self.word_cells:
            return
        if all(re.match(_COMMA, word) for word in self.words):
            warn(
                f"Column {column!r} holds numbers with a decimal comma, such as "
                f"{min(self.words)!r}, and was taken as labels: write them with a "
                "point to use them as numbers."
            )
            return
        if len(self.figures) <= MAX_INTEGER_LABELS and self.whole_figures:
            return  # labels either way
        if self.word_cells * 2 <= self.known and len(self.words) <= _MOST_WORDS:
            shown = " and ".join(map(repr, sorted(self.words)))
            warn(
                f"Column {column!r} would be numeric but for {shown} "
                f"({self.word_cells:,} of {self.known:,} cells), and was taken as "
                "labels: if that means missing, name it as a missing code (--missing "
                f"{min(self.words)})."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        both = {"figures": sorted(self.figures), "words": sorted(self.words)}
        return {**vars(self), **both}

    @classmethod
    def from_dict(cls, data: Any) -> TextKind:
        """Return what a plain form holds, checked."""
        made = cls()
        good = isinstance(data, dict) and set(data) == set(vars(made))
        for name, value in vars(made).items():
            wanted = list if isinstance(value, set) else type(value)
            good = good and type(data[name]) is wanted
        texts = [*data["figures"], *data["words"]] if good else [None]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("what is known of a column of text is not valid")
        for name, value in data.items():
            setattr(made, name, set(value) if isinstance(value, list) else value)
        return made


def _some(known: set[str], texts: Array, most: int) -> set[str]:
    """Add different texts to those known, until there are more than `most`."""
    return known if len(known) > most else known | {*texts[: most + 1].to_pylist()}


def _reads(texts: Array, pattern: str, kind: Any = None) -> bool:
    """Whether all texts match a pattern, and can be read as a type."""
    for some in (texts[:_FEW], texts):  # most columns of labels show it at once
        matches = pc.match_substring_regex(some, pattern)
        if not pc.all(matches, min_count=0).as_py():
            return False
    try:
        if kind is not None:
            texts.cast(kind)
    except pa.ArrowInvalid:  # more digits than an integer holds
        return False
    return True


# ---- whole columns of CSV files


def typed_columns(
    columns: Mapping[str, pa.ChunkedArray],
    missing: frozenset[str],
    kinds: Mapping[str, str],
) -> list[Array]:
    """Return columns of text, each as `typed` does; short ones many at a time."""
    found = dict.fromkeys(columns)
    groups: dict[str | None, list[str]] = {}
    rows = len(next(iter(columns.values()), ()))
    if 0 < rows < _SHORT and len(columns) >= _MANY:
        for name in columns:
            groups.setdefault(kinds.get(name), []).append(name)
    step = max(1, _CELLS // max(rows, 1))
    for kind, names in groups.items():
        for low in range(0, len(names), step):
            some = names[low : low + step]
            cells = pa.concat_arrays([c for n in some for c in columns[n].chunks])
            found.update(zip(some, _together(cells, rows, missing, kind), strict=True))
    return [
        typed(name, column, missing, kinds.get(name)) if cells is None else cells
        for (name, column), cells in zip(columns.items(), found.values(), strict=True)
    ]


def _together(
    cells: Array, rows: int, missing: frozenset[str], kind: str | None
) -> list[Array | None]:
    """Return the columns of `rows` cells each; None for one that `typed` must look at.

    That is any column whose cells are not all words, all integers, or all numbers.
    """
    count = len(cells) // rows
    if kind == "verbatim":
        return [cells.slice(j * rows, rows) for j in range(count)]
    indices, dictionary = coded(cells)
    dictionary = trimmed(dictionary)
    if kind == "figure":
        dictionary = figures(dictionary)
    texts = without(dictionary, missing)
    patterns = (INTEGER, _SMALL_INTEGER, NUMBER, CODE, rf"^({_NUMBERLIKE})")
    flags = [pc.match_substring_regex(texts, pattern) for pattern in patterns]
    integer, small, number, code, like = (pc.fill_null(each, False) for each in flags)
    odd = pc.or_(code, pc.and_not(integer, small))
    plain = pc.and_not(number, odd)
    try:
        floats = pc.if_else(plain, texts, None).cast(pa.float64()).take(indices)
    except pa.ArrowInvalid:  # a number that Arrow does not read
        return [None] * count
    whole = pc.and_(plain, small)
    integers = pc.if_else(whole, texts, None).cast(pa.int64()).take(indices)
    words = dictionary.take(indices)

    def every(*flags: Array) -> NDArray[np.bool_]:
        """Whether all known cells of a column are of one of these."""
        held = reduce(pc.or_, (texts.is_null(), *flags))
        found = pc.fill_null(held.take(indices), True).to_numpy(zero_copy_only=False)
        return np.asarray(found.reshape(count, rows).all(axis=1))

    empty, no_number = every(), every(pc.invert(like))
    whole, known = every(whole), every(plain)
    if kind == "label":
        empty[:] = True
    elif kind == "number":
        whole[:] = no_number[:] = False
    made: list[Array | None] = []
    for j in range(count):
        found = None
        if empty[j] or no_number[j]:
            found = words
        elif known[j]:
            found = integers if whole[j] else floats
        made.append(None if found is None else found.slice(j * rows, rows))
    return made


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
    if kind == "figure":
        indices, dictionary = coded(column.combine_chunks())
        column = pa.chunked_array([figures(dictionary).take(indices)])
        few = _few(column)
    if kind == "label":
        return column
    if kind != "number" and few is not None:
        known = [cell.strip() for cell in few if cell and cell.strip() not in missing]
        if not any(re.match(_NUMBERLIKE, cell) for cell in known):
            return column
    cells = without(column, missing)
    if cells.null_count == len(cells):
        return column
    if kind == "number":
        return text_floats(name, cells)
    found, present = TextKind(), cells.drop_null()
    for low in range(0, len(present), _ROWS):
        seen = pc.value_counts(present[low : low + _ROWS])
        found.add(seen.field("values"), seen.field("counts").to_numpy())
    if kind is None:
        found.warn(name)
    if found.name == "words":
        return column
    try:
        return cells.cast(pa.int64() if found.name == "integers" else pa.float64())
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
