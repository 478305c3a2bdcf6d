"""Write a scorecard in any of its formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from renyi.exports import functions, onnx, points
from renyi.validation import check_choice

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

TEXTS: dict[str, Callable[[Scorecard, float], str]] = {
    "csv": points.csv,
    "md": points.text,
    "python": functions.python,
    "javascript": functions.javascript,
}
BINARY = ("onnx",)


def text(card: Scorecard, format: str, odds: float = 1.0) -> str:
    """Return a scorecard as a text; see `Scorecard.to_text`."""
    check_choice("format", format, tuple(TEXTS))
    return TEXTS[format](card, odds)


def written(card: Scorecard, format: str, odds: float = 1.0) -> str | bytes:
    """Return the contents of a file of a format."""
    if format == "onnx":
        return onnx.model_bytes(card, odds)
    return text(card, format, odds)
