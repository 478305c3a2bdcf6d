"""A toy source plugs in: rows of bit planes become codes, and nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from renyi import Encoder, Marginals
from renyi.encoding.columns import Column, Columns, Levels
from renyi.sources import frames
from renyi.sources.frames import CodeBlock


@dataclass
class PackedBits:
    """Yes/no questions, eight answers to a byte: (questions, rows / 8)."""

    planes: np.ndarray
    answers: np.ndarray
    target: Column = field(default=Column("y", Levels("label", (0, 1))))

    @property
    def encoder(self) -> Encoder:
        yes_no = Levels("label", (0, 1))
        names = (f"x{j}" for j in range(len(self.planes)))
        return Encoder(columns=Columns.of(Column(name, yes_no) for name in names))

    def blocks(self) -> Iterator[CodeBlock]:
        for start in range(0, self.planes.shape[1], 16):
            codes = np.unpackbits(self.planes[:, start : start + 16], axis=1)
            yield CodeBlock(codes, self.answers[8 * start :][: codes.shape[1]])


@pytest.mark.parametrize("class_conditional", [False, True])
def test_a_toy_source_is_counted_like_a_table(class_conditional: bool) -> None:
    rng = np.random.default_rng(0)
    planes = rng.integers(0, 256, (5, 50), np.uint8)
    y = rng.integers(0, 2, 400)
    X = np.unpackbits(planes, axis=1).T
    m = frames.count_codes(PackedBits(planes, y), class_conditional)
    assert m == Marginals.from_data(X, y, class_conditional=class_conditional)


def test_an_empty_source_is_an_error() -> None:
    with pytest.raises(ValueError, match="no rows"):
        frames.count_codes(PackedBits(np.empty((1, 0), np.uint8), np.empty(0)))
