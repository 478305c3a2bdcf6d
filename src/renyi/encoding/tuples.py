"""Tuples of columns as features: orders above one, and chosen pairs of columns.

A feature is a tuple of columns, and its value the tuple of theirs. At order r there is
one for every r of the columns. With chosen pairs (interactions) there is one for every
column, and one for each of the pairs. Rows become codes of the columns first, then
codes of the tuples, so that all that follows (counts, ridge, scorecard, certificate)
knows nothing but features.

A category is written ``y & n``, a missing cell as ``(missing)``. Every feature of
several columns has one more category, ``(new)``, which no training row is in: a tuple
of known labels that training never saw. Ridge gives it no points, as it would to any
category without rows; a label that was never seen counts as the feature's mean. The
feature of one column has the categories of the column.

Two rows agree in ``C(a, r)`` of the features of order r if they agree in a of the
columns.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

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
from renyi.formatting import number_of
from renyi.validation import InputError, ParameterError, check_whole

Pairs: TypeAlias = tuple[tuple[str, str], ...]
Interactions: TypeAlias = Sequence[tuple[str, str]]

NEW = "(new)"
MAX_FEATURES = 200_000
MAX_TUPLES = 5_000_000  # of one feature, whether they occur or not
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
    interactions : tuple of pairs of names, optional
        The features are all single columns and these pairs, at order 2. None means all
        tuples of the order.
    base : Columns
        The fitted columns of the table; empty before `fit`. Those of the tuples are
        `columns`.

    The other settings are those of `Encoder`, and apply to the columns of the table.
    """

    order: int = 2
    interactions: Pairs | None = None
    base: Columns = field(default_factory=lambda: Columns.of([]))

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.order) is not int or self.order < 2:
            raise ValueError(f"a tuple has two columns or more, not {self.order!r}")
        if self.interactions is None:
            return
        if self.order != 2:
            raise ValueError(f"chosen pairs have order 2, not {self.order!r}")
        pairs = checked_pairs(self.interactions)
        if self.base:
            pairs = tuple(_in_order(self.base, pair) for pair in pairs)
        object.__setattr__(self, "interactions", tuple(dict.fromkeys(pairs)))

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
        fitted = dataclasses.replace(self, base=base)
        subsets = fitted._subsets(codes.shape[1])
        columns = Columns.of(_learned(base, S, codes) for S in subsets)
        return dataclasses.replace(fitted, columns=columns)

    def _subsets(self, n: int) -> list[tuple[int, ...]]:
        """Return the columns of each feature, if n rows of them can be dealt with."""
        base = self.base
        if self.interactions is None:
            return _all_subsets(base, self.order, n)
        place = {name: i for i, name in enumerate(base.names)}
        pairs = [(place[a], place[b]) for a, b in self.interactions]
        for pair in pairs:
            _check_tuples(base, pair, "A pair of columns", {})
        return [*((i,) for i in range(len(base))), *pairs]

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
        alone = {single_name(name): (i,) for i, name in enumerate(self.base.names)}
        try:
            return [
                alone.get(name) or tuple(where[part] for part in name.split(AND))
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
            if len(S) > 1
            else np.append(self.base[S[0]].places(column), len(column.categories))
            for column, S in zip(self.columns, self.members, strict=True)
        ]

    def factors(self, codes: NDArray[Any]) -> Factors | None:
        """Codes of the columns behind codes of all their tuples, without unseen ones.

        None if some tuples were left out, for then agreements are not binomial.
        """
        d = len(self.base)
        if self.interactions is not None or len(self.columns) != math.comb(
            d, self.order
        ):
            return None
        dtype = np.min_scalar_type(int(self.base.sizes.max()))
        behind = self.columns_behind(codes)
        return Factors(np.array([*behind.values()], dtype), self.order)

    def columns_behind(self, codes: NDArray[Any]) -> dict[int, NDArray[np.intp]]:
        """Return codes of the columns behind codes of their tuples, by column.

        The tuples must be known ones; columns of which there is none are left out.
        """
        out = {}
        for i in range(len(self.base)):
            where = next((s for s, S in enumerate(self.members) if i in S), None)
            if where is None:
                continue
            axis = self.members[where].index(i)
            table = self.tables[where]
            back = np.zeros(len(self.columns[where].categories) + 1, np.intp)
            back[table.ravel()] = np.indices(table.shape)[axis].ravel()
            out[i] = back[codes[where]]
        return out

    def joined(self, other: Encoder) -> Encoder:
        """Return the encoder that knows the columns of both."""
        super().joined(other)
        assert isinstance(other, TupleEncoder)
        if self.base.names != other.base.names:
            raise ValueError("The marginals have different columns.")
        if not same_pairs(self.interactions, other.interactions):
            raise ValueError(
                f"The marginals have different features, {features_text(self)} and "
                f"{features_text(other)}: count both with the same pairs."
            )
        pairs = zip(self.base, other.base, strict=True)
        return dataclasses.replace(self, base=Columns.of(a.union(b) for a, b in pairs))

    @classmethod
    def from_dict(cls, data: PlainData) -> TupleEncoder:
        """Return the encoder of a plain form, checked: it may be untrusted."""
        encoder = super().from_dict(data)
        assert isinstance(encoder, cls)
        possible = encoder._subsets(1)
        if not {*encoder.members} <= {*possible}:
            raise ValueError("the tuples of the encoder are not of its order")
        for column, S in zip(encoder.columns, encoder.members, strict=True):
            own = encoder.base[S[0]]
            if len(S) == 1 and own.union(column) != own:
                raise ValueError(f"column {column.name!r:.60} has two descriptions")
        return encoder


def features_text(encoder: Encoder) -> str:
    """Return what the features are, in words."""
    if encoder.interactions is not None:
        return f"single columns and {number_of(len(encoder.interactions), 'pair')}"
    return "single columns" if encoder.order == 1 else f"order {encoder.order}"


def _settings(encoder: Encoder) -> dict[str, Any]:
    return {f.name: getattr(encoder, f.name) for f in dataclasses.fields(Encoder)}


def encoder_of_order(
    encoder: Encoder | None, order: int, interactions: Interactions | None = None
) -> Encoder:
    """Return the encoder of tuples, unless single columns are asked for."""
    check_whole("order", order, 1)
    encoder = encoder or Encoder()
    if interactions is not None:
        check_interactions(interactions, order)
        return _encoder_of_pairs(encoder, checked_pairs(interactions))
    if order in (1, encoder.order):
        return encoder
    if encoder.order > 1:
        raise InputError(
            f"The encoder makes {features_text(encoder)}, but {{order}} was requested: "
            "give an encoder of single columns.",
            order=order,
        )
    settings = _settings(encoder.settings())
    return TupleEncoder(**settings, order=int(order), base=encoder.columns)


def _encoder_of_pairs(encoder: Encoder, pairs: Pairs) -> Encoder:
    """Return the encoder of single columns and chosen pairs."""
    if encoder.order == 1:
        settings = _settings(encoder.settings())
        return TupleEncoder(**settings, interactions=pairs, base=encoder.columns)
    if not same_pairs(encoder.interactions, pairs):
        raise ParameterError(
            "interactions",
            f"needs an encoder of single columns, and this one makes "
            f"{features_text(encoder)}: leave one of them out.",
        )
    return encoder


def check_interactions(interactions: object, order: object) -> None:
    """Raise an error unless these are pairs, their number, "auto" or None."""
    if interactions is None:
        return
    if isinstance(interactions, numbers.Number):
        check_whole("interactions", interactions, 1)
    elif interactions != "auto":
        checked_pairs(interactions)
    if order != 1:
        raise InputError(
            "{interactions} adds pairs to single columns, and {order} has no single "
            "columns: leave one of them out.",
            order=order,
            interactions=interactions,
        )


def checked_pairs(pairs: object) -> Pairs:
    """Return pairs of names of columns; raise ParameterError if they are not."""
    problem = "must be 'auto', a number or pairs of columns, [('age', 'sex')], not "
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise ParameterError("interactions", f"{problem}{pairs!r:.60}.")
    for pair in pairs:
        two = isinstance(pair, Sequence) and not isinstance(pair, str)
        if not two or [isinstance(name, str) for name in pair] != [True, True]:
            raise ParameterError("interactions", f"{problem}{pair!r:.60}.")
        if pair[0] == pair[1]:
            raise ParameterError(
                "interactions", f"pairs column {pair[0]!r} with itself: name two."
            )
    return tuple((str(first), str(second)) for first, second in pairs)


def check_pairs_to_choose(columns: Columns) -> None:
    """Raise InputError if columns have too many pairs to choose from."""
    count = math.comb(len(columns), 2)
    if count > MAX_FEATURES:
        raise InputError(
            f"There are {count:,} pairs of {len(columns):,} columns, too many to "
            "choose from: select columns first, or name the pairs.",
            python="interactions=",
        )


def same_pairs(first: Interactions | None, second: Interactions | None) -> bool:
    """Whether the pairs are the same, in any order."""
    if first is None or second is None:
        return first is second
    return {frozenset(pair) for pair in first} == {frozenset(pair) for pair in second}


def _in_order(base: Columns, pair: tuple[str, str]) -> tuple[str, str]:
    """Return a pair of names in the order of the table."""
    for name in pair:
        if name not in base.names:
            raise ParameterError(
                "interactions",
                f"names {name!r}, which is not a column with several values. These "
                f"are {', '.join(base.names[:12])}{', …' * (len(base) > 12)}.",
            )
    first, second = sorted(pair, key=base.names.index)
    return first, second


def encoder_from_dict(data: PlainData) -> Encoder:
    """Return the encoder of a plain form, of single columns or of tuples."""
    kind = TupleEncoder if isinstance(data, dict) and "order" in data else Encoder
    return kind.from_dict(data)


def _all_subsets(columns: Columns, order: int, n: int) -> list[tuple[int, ...]]:
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
    largest = np.argsort(columns.sizes, kind="stable")[-order:]
    _check_tuples(columns, largest.tolist(), "{order}", {"order": order})
    return [*combinations(range(d), order)]


def _check_tuples(
    columns: Columns, S: Sequence[int], what: str, parameters: dict[str, int]
) -> None:
    """Raise an error if columns have too many tuples, named `what` makes them."""
    sizes = columns.sizes + 1
    count = math.prod(sizes[[*S]].tolist())
    if count <= MAX_TUPLES:
        return
    widest = max(S, key=lambda i: int(sizes[i]))
    raise InputError(
        f"{what} makes a feature of {count:,} tuples; column "
        f"{columns.names[widest]!r} has {columns.sizes[widest]:,} labels: merge rare "
        "ones.",
        "min_count",
        python="min_count",
        **parameters,
    )


def count_tuples(columns: Columns, codes: NDArray[Any], order: int) -> int:
    """Count the tuples of all features of an order that occur in codes of columns."""
    sizes = columns.sizes
    subsets = _all_subsets(columns, order, codes.shape[1])
    wide = codes.astype(np.int64)
    total = 0
    for S in subsets:
        flat = np.ravel_multi_index([wide[i] for i in S], tuple(sizes[[*S]].tolist()))
        total += int(np.count_nonzero(np.bincount(flat)))
    return total


def _learned(columns: Columns, S: tuple[int, ...], codes: NDArray[Any]) -> Column:
    """Column of the tuples of some columns that occur; a single column as it is."""
    if len(S) == 1:
        return columns[S[0]]._replace(name=single_name(columns.names[S[0]]))
    name = AND.join(_escaped(columns.names[i]) for i in S)
    sizes = tuple(int(columns.sizes[i]) for i in S)
    flat = np.ravel_multi_index([codes[i] for i in S], sizes)
    occurring = np.flatnonzero(np.bincount(flat, minlength=math.prod(sizes)))
    levels = [columns[i].levels for i in S]
    labels = tuple_labels(levels, np.unravel_index(occurring, sizes))
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


def single_name(name: str) -> str:
    """Return the name of a column as a feature: its own, unless that may be a pair."""
    return _escaped(name) if AND in name or "\\&" in name else name


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
