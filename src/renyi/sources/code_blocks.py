"""Marginals of blocks of codes: the narrow waist of every source of rows.

A source knows what its columns are and yields its rows as small integers, one row of a
block per column of the table; counting sees nothing else. A new source of rows is a
class of this shape, and `marginals` counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from renyi.counting.pair_counts import class_pair_counts, pair_counts
from renyi.encoding.columns import Column, Columns
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals


class CodeBlock(NamedTuple):
    """Some rows: codes of shape (features, rows), codes of their classes, weights."""

    codes: NDArray[Any]
    y: NDArray[Any]
    weights: NDArray[np.float64] | None = None


class CodeSource(Protocol):
    """A source of code blocks: a fitted encoder, the target, and the rows."""

    @property
    def encoder(self) -> Encoder:
        """The encoder whose columns are the features."""

    @property
    def target(self) -> Column:
        """The column to predict."""

    def blocks(self) -> Iterator[CodeBlock]:
        """Yield all rows, as often as asked."""


def marginals(source: CodeSource, class_conditional: bool = False) -> Marginals:
    """Count the pairs of all rows of a source, block by block."""
    total: Marginals | None = None
    for block in source.blocks():
        m = from_codes(source.encoder, source.target, block, class_conditional)
        total = m if total is None else total + m
    if total is None:
        raise ValueError("There are no rows to count.")
    return total


def from_codes(
    encoder: Encoder, target: Column, block: CodeBlock, class_conditional: bool = False
) -> Marginals:
    """Count the pairs of one block of codes made by `encoder`."""
    codes, y, weights = block
    columns = Columns.of([*encoder.columns, target])
    dtype = np.min_scalar_type(int(columns.sizes.max()))
    everything = np.concatenate([codes, y[None, :]], dtype=dtype, casting="unsafe")
    counts = pair_counts(everything, columns.sizes, weights)
    inner = None
    if class_conditional:
        size = len(target.categories)
        inner = class_pair_counts(codes, encoder.columns.sizes, y, size, weights)
    n = codes.shape[1] if weights is None else float(weights.sum())
    return Marginals(counts, n, columns, target.name, encoder.settings(), inner)
