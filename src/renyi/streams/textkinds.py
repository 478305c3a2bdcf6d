"""Kinds of text: whether a column of a CSV file is of integers, numbers or words.

The rule is that of `renyi.sources.cells.typed`, which sees a whole column. A `TextKind`
sees it piece by piece, and keeps just what the rule needs: whether all cells so far
were integers, or numbers, whether one had leading zeros, and the words among numbers,
of which the owner of the table is warned.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi.factoring import MAX_INTEGER_LABELS
from renyi.sources import cells
from renyi.sources.cells import DataWarning

_MOST_WORDS = 2
_INTEGER, _NUMBER, _CODE = cells._INTEGER, cells._NUMBER, cells._CODE


class TextKind:
    """What a column of text holds, as far as it was seen.

    Examples
    --------
    >>> kind = TextKind()
    >>> kind.add(pa.array(["1", "2"]), np.array([5, 3]))
    >>> kind.name("size")
    'integers'
    >>> kind.add(pa.array(["2.5"]), np.array([1]))
    >>> kind.name("size")
    'numbers'
    """

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
        absent = pc.is_in(words, pa.array(cells._NOT_A_NUMBER))
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

    def name(self, column: str) -> str:
        """Return "integers", "numbers" or "words"; warn if but a word or two differ."""
        if not self.known or self.codes:
            return "words"
        if self.integers:
            return "integers"
        if self.whole_figures and self.word_cells == 0:
            return "words"  # integers of too many digits
        if self.numbers and self.figures:
            return "numbers"
        self._warn(column)
        return "words"

    def _warn(self, column: str) -> None:
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
                stacklevel=2,
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        figures, words = sorted(self.figures), sorted(self.words)
        return {**vars(self), "figures": figures, "words": words}

    @classmethod
    def from_dict(cls, data: Any) -> TextKind:
        """Return what a plain form holds, checked.

        >>> TextKind.from_dict(TextKind().to_dict()).name("a")
        'words'
        """
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


def _any(texts: Any, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _reads(texts: Any, pattern: str, kind: Any = None) -> bool:
    """Whether all texts match a pattern, and can be read as a type."""
    if pc.any(pc.invert(pc.match_substring_regex(texts, pattern))).as_py():
        return False
    try:
        if kind is not None:
            texts.cast(kind)
    except pa.ArrowInvalid:  # more digits than an integer holds
        return False
    return True
