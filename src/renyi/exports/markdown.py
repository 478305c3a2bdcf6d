"""Markdown in which every text stays text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from renyi.figures import printable

# An underscore within a word is a letter.
_MARKS = re.compile(r"[\\`*|<>&\[\]#~]|(?<!\w)_|_(?!\w)")


def plain(text: str) -> str:
    r"""Return a text on one line, in which nothing means anything to Markdown.

    >>> print(plain("a|b\n<i>"))
    a\|b \<i\>
    """
    return _MARKS.sub(r"\\\g<0>", " ".join(printable(text).split()))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> str:
    """Return a table; columns after the first `left` ones are of numbers."""
    rule = ["---" if k < left else "---:" for k in range(len(head))]
    lines = [[plain(cell) for cell in head], rule]
    lines += [[plain(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
