"""Drawings of results, in the manner of scikit-learn's displays.

A display holds what is drawn; ``from_…`` computes and draws it, ``plot(ax=…)`` draws it
again. Afterwards ``ax_`` and ``figure_`` are what it was drawn on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from renyi.drawing import literal
from renyi.encoding.columns import Label, label_text
from renyi.selection import short


def shown(label: Label, width: int) -> str:
    """Return a name as drawings have it, no longer than `width`."""
    return literal(short(label_text(label), width))


def owner_of(attribute: str, estimator: Any) -> Any:
    """Return who has an attribute: the estimator, or the classifier inside of it."""
    if hasattr(estimator, attribute):
        return estimator
    return getattr(estimator, "classifier_", estimator)


def place_of(label: Any, classes: Sequence[Any]) -> int:
    """Return the place of a class among all; an unknown one is an error."""
    known = [label_text(each) for each in classes]
    if label_text(label) not in known:
        raise ValueError(
            f"label must be one of the classes {known!r:.200}, not {label!r:.60}."
        )
    return known.index(label_text(label))
