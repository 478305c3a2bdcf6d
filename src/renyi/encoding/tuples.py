"""Tuples of columns as features: the encoder of orders above one.

At order r there is one feature for every r of the columns, and its value is the tuple
of theirs. Rows become codes of the columns first, then codes of the tuples, so that all
that follows (counts, ridge, scorecard, certificate) knows nothing but features.

A category is written ``y & n``, a missing cell as ``(missing)``. Every feature has one
more category, ``(new)``, which no training row is in: a tuple of known labels that
training never saw. Ridge gives it no points, as it would to any
category without rows; a label that was never seen counts as the feature's mean.

Two rows agree in ``C(a, r)`` of the features if they agree in a of the columns.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.columns import (
    AND,
    MISSING_TEXT,
    Column,
    Columns,
    Levels,
    PlainData,
    TableLike,
    label_text,
)
from renyi.encoding.encoder import Encoder, Weights
from renyi.validation import InputError, check_whole

NEW = "(new)"
MAX_FEATURES = 200_000
_MAX_TUPLES = 5_000_000  # of one feature, whether they occur or not
_MAX_CODES = 4e9  # bytes


class Factors(NamedTuple):
    """Codes of the columns that the tuples are made of."""

    codes: NDArray[Any]
    order: int


@dataclass(frozen=True)
class TupleEncoder(Encoder):
    """Turn the columns of a table into codes of their tuples.

    Parameters
    ----------
    order : int, default=2
        Number of columns in a tuple.
    base : Columns
        The fitted columns of the table; empty before `fit`. Those of the tuples are
        `columns`.

    The other settings are those of `Encoder`, and apply to the columns of the table.
    """

    order: int = 2
    base: Columns = field(default_factory=lambda: Columns.of([]))

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.order) is not int or self.order < 2:
            raise ValueError(f"a tuple has two columns or more, not {self.order!r}")

    @property
    def single(self) -> Encoder:
        """The encoder of the columns that the tuples are made of."""
        return Encoder(**{**_settings(self), "columns": self.base})

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the columns of the table."""
        return self.base.names

    def fit_transform(
        self,
        X: TableLike,
        sample_weight: Weights = None,
        *,
        refuse_identifiers: bool = True,
    ) -> tuple[Encoder, NDArray[Any]]:
        """Learn the columns of X and their tuples; return the encoder and the codes."""
        single, codes = self.single.fit_transform(
            X, sample_weight, refuse_identifiers=refuse_identifiers
        )
        fitted = self.learned(single.columns, codes)
        return fitted, fitted.of_codes(codes)

    def learned(self, base: Columns, codes: NDArray[Any]) -> TupleEncoder:
        """Return the encoder of the tuples that occur in codes of some columns."""
        subsets = _subsets(base, self.order, codes.shape[1])
        columns = Columns.of(_learned(base, S, codes) for S in subsets)
        return dataclasses.replace(self, columns=columns, base=base)

    def transform(self, X: TableLike) -> NDArray[Any]:
        """Codes of X, one row per tuple; one with an unseen label has ``size``."""
        return self.of_codes(self.single.transform(X))

    def of_codes(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Codes of the tuples from codes of the columns."""
        dtype = np.min_scalar_type(int(self.columns.sizes.max(initial=0)))
        out = np.empty((len(self.columns), codes.shape[1]), dtype)
        for row, S, table in zip(out, self.members, self.tables, strict=True):
            row[:] = table[tuple(codes[i] for i in S)]
        return out

    @cached_property
    def members(self) -> list[tuple[int, ...]]:
        """The columns of each tuple, by their names."""
        where = {_escaped(name): i for i, name in enumerate(self.base.names)}
        try:
            return [
                tuple(where[part] for part in name.split(AND))
                for name in self.columns.names
            ]
        except KeyError as error:
            raise ValueError(f"the encoder has no column {error} for tuples") from None

    @cached_property
    def tables(self) -> list[NDArray[Any]]:
        """Code of every tuple of codes; one more place on each axis for the unseen."""
        known = [code_of_text(column.levels) for column in self.base]
        return [
            _table(column.levels, [known[i] for i in S])
            for column, S in zip(self.columns, self.members, strict=True)
        ]

    def factors(self, codes: NDArray[Any]) -> Factors | None:
        """Codes of the columns behind codes of all their tuples, without unseen ones.

        None if some tuples were left out, for then agreements are not binomial.
        """
        d = len(self.base)
        if len(self.columns) != math.comb(d, self.order):
            return None
        dtype = np.min_scalar_type(int(self.base.sizes.max()))
        out = np.empty((d, codes.shape[1]), dtype)
        for i in range(d):
            where = next(s for s, S in enumerate(self.members) if i in S)
            axis = self.members[where].index(i)
            back = np.zeros(len(self.columns[where].categories) + 1, out.dtype)
            table = self.tables[where]
            back[table.ravel()] = np.indices(table.shape)[axis].ravel()
            out[i] = back[codes[where]]
        return Factors(out, self.order)

    def joined(self, other: Encoder) -> Encoder:
        """Return the encoder that knows the columns of both."""
        super().joined(other)
        assert isinstance(other, TupleEncoder)
        if self.base.names != other.base.names:
            raise ValueError("The marginals have different columns.")
        pairs = zip(self.base, other.base, strict=True)
        return dataclasses.replace(self, base=Columns.of(a.union(b) for a, b in pairs))

    @classmethod
    def from_dict(cls, data: PlainData) -> TupleEncoder:
        """Return the encoder of a plain form, checked: it may be untrusted."""
        encoder = super().from_dict(data)
        assert isinstance(encoder, cls)
        _subsets(encoder.base, encoder.order, 1)
        if any(len(set(S)) != encoder.order for S in encoder.members):
            raise ValueError("the tuples of the encoder are not of its order")
        return encoder


def _settings(encoder: Encoder) -> dict[str, Any]:
    return {f.name: getattr(encoder, f.name) for f in dataclasses.fields(Encoder)}


def encoder_of_order(encoder: Encoder | None, order: int) -> Encoder:
    """Return the encoder of tuples, unless single columns are asked for."""
    check_whole("order", order, 1)
    encoder = encoder or Encoder()
    if order in (1, encoder.order):
        return encoder
    if encoder.order > 1:
        raise InputError(
            f"The encoder makes tuples of {encoder.order} columns, but {{order}} "
            "was requested: give an encoder of single columns.",
            order=order,
        )
    settings = _settings(encoder.settings())
    return TupleEncoder(**settings, order=int(order), base=encoder.columns)


def encoder_from_dict(data: PlainData) -> Encoder:
    """Return the encoder of a plain form, of single columns or of tuples."""
    kind = TupleEncoder if isinstance(data, dict) and "order" in data else Encoder
    return kind.from_dict(data)


def _subsets(columns: Columns, order: int, n: int) -> Iterable[tuple[int, ...]]:
    """Return the tuples of columns, if their number can be dealt with."""
    d = len(columns)
    if d < order:
        raise InputError(
            f"{{order}} needs at least {order} columns, and the table has {d} "
            "feature(s).",
            order=order,
        )
    count = math.comb(d, order)
    if count > MAX_FEATURES or count * n > _MAX_CODES:
        raise InputError(
            f"{{order}} makes {count:,} features of {d:,} columns, too many: "
            "select columns first, or use a lower order.",
            order=order,
        )
    largest = math.prod(sorted((columns.sizes + 1).tolist())[-order:])
    if largest > _MAX_TUPLES:
        name = columns.names[int(columns.sizes.argmax())]
        raise InputError(
            f"{{order}} makes a feature of {largest:,} tuples; column {name!r} "
            f"has {columns.sizes.max():,} labels: merge rare ones.",
            "min_count",
            python="min_count",
            order=order,
        )
    return combinations(range(d), order)


def _learned(columns: Columns, S: tuple[int, ...], codes: NDArray[Any]) -> Column:
    """Column of the tuples of some columns that occur."""
    sizes = tuple(int(columns.sizes[i]) for i in S)
    flat = np.ravel_multi_index([codes[i] for i in S], sizes)
    occurring = np.flatnonzero(np.bincount(flat, minlength=math.prod(sizes)))
    levels = [columns[i].levels for i in S]
    labels = tuple_labels(levels, np.unravel_index(occurring, sizes))
    name = AND.join(_escaped(columns.names[i]) for i in S)
    return Column(name, Levels("label", tuple(sorted([*labels, NEW]))))


def tuple_labels(levels: Sequence[Levels], codes: Sequence[NDArray[Any]]) -> list[str]:
    """Return the labels of tuples, given the codes of each of their columns."""
    texts = [list(code_of_text(each)) for each in levels]
    return [
        AND.join(text[k] for text, k in zip(texts, place, strict=True))
        for place in zip(*codes, strict=True)
    ]


def _escaped(text: str) -> str:
    """Return a text in which `` & `` does not occur, and which is not ``(missing)``."""
    text = text.replace("\\", "\\\\").replace("&", "\\&")
    return "\\" + text if text == MISSING_TEXT else text


def code_of_text(levels: Levels) -> dict[str, int]:
    """Code of each category by its text within a tuple."""
    return {
        MISSING_TEXT if c is None else _escaped(label_text(c)): k
        for k, c in enumerate(levels.categories)
    }


def _table(levels: Levels, known: list[dict[str, int]]) -> NDArray[Any]:
    """Code of every tuple of codes: its own, that of (new), or that of the unseen."""
    size = len(levels.categories)
    labels = {label_text(c): k for k, c in enumerate(levels.categories)}
    table = np.full([len(texts) + 1 for texts in known], size, np.min_scalar_type(size))
    table[tuple(slice(len(texts)) for texts in known)] = labels.pop(NEW, size)
    for label, code in labels.items():
        try:
            pairs = zip(label.split(AND), known, strict=True)
            table[tuple(texts[part] for part, texts in pairs)] = code
        except (KeyError, ValueError):
            raise ValueError(
                f"the encoder has no labels for the tuple {label!r:.60}"
            ) from None
    return table
