"""Cells of a CSV file: whether a column is of integers, of numbers or of labels.

A CSV file has no types, and a reader that guesses them block by block changes its mind
in the middle of a file. Here a whole column of text is looked at: if its cells are all
integers, or all numbers, it becomes one, missing codes apart. Cells such as "007" are
codes, not numbers, and keep their zeros. Spaces around a cell are dropped.
"""

from __future__ import annotations

import re
import warnings
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from renyi.factoring import MAX_INTEGER_LABELS, label_text

_INTEGER = r"^[+-]?\d+$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_CODE = r"^[+-]?0\d"  # leading zeros: a code
_NOT_A_NUMBER = ("nan", "NaN", "NAN")
_NUMBERLIKE = r"[+-]?\.?\d|(nan|NaN|NAN)$"  # how a number begins, or none at all
_FEW = 64


class DataWarning(UserWarning):
    """What a reader did with a table that its owner should know.

    >>> issubclass(DataWarning, UserWarning)
    True
    """


def is_missing(column: pa.ChunkedArray, missing: frozenset[str]) -> pa.ChunkedArray:
    """Return which cells are null, NaN or a missing code.

    >>> is_missing(pa.chunked_array([[1, None, -9]]), frozenset(["-9"])).to_pylist()
    [False, True, True]
    """
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


def typed(
    name: str,
    column: pa.ChunkedArray,
    missing: frozenset[str],
    kind: str | None = None,
) -> pa.ChunkedArray:
    """Return a column of text as integers or numbers if that is what its cells are.

    >>> column = pa.chunked_array([[" 1", "2", "?"]])
    >>> typed("size", column, frozenset(["?"])).to_pylist()
    [1, 2, None]

    A `kind` says what the column is, whatever its cells look like: "label", "number",
    "verbatim" (text that keeps its spaces), or "figure" (see `figures`).
    """
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
    if pc.any(pc.match_substring_regex(known, _CODE)).as_py():
        return column
    if _all(known, _INTEGER):
        return _cast(filled, pa.int64(), column)
    absent = pc.is_in(known, pa.array(_NOT_A_NUMBER))
    if _all(known.filter(pc.invert(absent)), _NUMBER):
        return _cast(filled, pa.float64(), column)
    if kind is None:
        _warn_of_strays(name, known)
    return column


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


def number_text(text: str) -> str:
    """Return a number as labels are compared, and any other text as it is.

    >>> number_text("1e-7"), number_text("2.50"), number_text("007"), number_text("x")
    ('1e-07', '2.5', '007', 'x')
    """
    if re.match(_CODE, text):
        return text
    if re.match(_INTEGER, text):
        return label_text(int(text))  # a float may not tell it from its neighbours
    return label_text(float(text)) if re.match(_NUMBER, text) else text


def figures(texts: Any) -> pa.Array:
    """Return text of a column whose labels are numbers as these are compared.

    Each cell is read for itself, whatever the others are.

    >>> figures(pa.array(["1.0", "x", "nan", None])).to_pylist()
    ['1', 'x', None, None]
    """
    known = (None if text in _NOT_A_NUMBER else text for text in texts.to_pylist())
    return pa.array([text and number_text(text) for text in known], pa.string())


def _all(cells: Any, pattern: str) -> bool:
    # The first cells decide for most columns of labels, at no cost.
    return len(cells) > 0 and all(
        pc.all(pc.match_substring_regex(part, pattern)).as_py()
        for part in (cells[:100], cells)
    )


def _cast(cells: pa.ChunkedArray, kind: Any, column: pa.ChunkedArray) -> Any:
    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:  # more digits than an integer holds: labels
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


def _warn_of_strays(name: str, known: pa.ChunkedArray) -> None:
    """Warn of a column that would be binned but for a word or two, such as NA."""
    matches = pc.match_substring_regex(known, _NUMBER)
    numbers = pc.unique(known.filter(matches))
    if len(numbers) <= MAX_INTEGER_LABELS and _all(numbers, _INTEGER):
        return  # labels either way
    words = known.filter(pc.invert(matches))
    distinct = pc.unique(words).to_pylist()
    if len(words) * 2 <= len(known) and len(distinct) <= 2:
        shown = " and ".join(map(repr, distinct))
        warnings.warn(
            f"Column {name!r} would be numeric but for {shown} ({len(words):,} of "
            f"{len(known):,} cells), and was taken as labels: if that means missing, "
            f"name it as a missing code (--missing {distinct[0]}).",
            DataWarning,
            stacklevel=2,
        )
