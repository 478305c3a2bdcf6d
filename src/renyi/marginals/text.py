"""Marginals in words: one line, a page, and a table for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from renyi.encoding.columns import Column
    from renyi.marginals.marginals import Marginals

_FEATURES = 12  # in a text
_ROWS = 50  # in a notebook
_LABELS = 6  # of a column


def headline(m: Marginals) -> str:
    """Return rows, features and classes in one line."""
    what = f"{m.n:,.10g} total weight" if m.weighted else f"{m.n:,} rows"
    features = f"{len(m.feature_names)} features"
    if m.order > 1:
        features += f" of {m.order} columns each"
    sizes = int(m.columns.sizes.sum()) - len(m.classes)
    return (
        f"Marginals of {what}: {features} ({sizes} categories), "
        f"target {m.target!r} ({_levels(m, m._column(m.target))})"
    )


def page(m: Marginals) -> str:
    """Return the headline and a line for each of the first features."""
    features = [c for c in m.columns if c.name != m.target]
    first = features[:_FEATURES]
    width = max((len(c.name) for c in first), default=0)
    lines = [headline(m), *(f"  {c.name:<{width}}  {_levels(m, c)}" for c in first)]
    if len(features) > len(first):
        lines.append(f"  … and {len(features) - len(first)} more features")
    return "\n".join(lines)


def html(m: Marginals) -> str:
    """Return the headline and a table of the columns, as a notebook shows them."""
    rows = "".join(
        f"<tr><td>{escape(c.name)}</td><td>{escape(_levels(m, c))}</td></tr>"
        for c in m.columns[:_ROWS]
    )
    return f"<p>{escape(headline(m))}</p><table>{rows}</table>"


def _levels(m: Marginals, column: Column) -> str:
    """Return the first categories of a column with their counts."""
    totals = np.diag(m.counts)[m._spans([column.name])]
    texts = column.levels.texts
    shown = [f"{t} {c:,.10g}" for t, c in zip(texts[:_LABELS], totals, strict=False)]
    if len(texts) > _LABELS:
        shown.append(f"… {len(texts) - _LABELS} more")
    return ", ".join(shown)
