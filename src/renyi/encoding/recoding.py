"""Recoding: categories that were made elsewhere, as codes of an encoder.

`codes_in` maps the categories of any marginals to those of a model; each gets the code
of a cell with its label. `union` finds the categories that two encoders tell apart
between them: bins between the edges of both, and every label that either of them knows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from renyi.encoding.bins import LARGEST, bin_codes, bin_names, single_values
from renyi.encoding.columns import (
    AND,
    MISSING_TEXT,
    RARE,
    Column,
    Columns,
    Label,
    Levels,
    label_text,
    ranked,
)
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import (
    beyond_exact,
    has_whole_bins,
    missing_numbers,
    missing_texts,
)
from renyi.encoding.tuples import (
    NEW,
    TupleEncoder,
    features_text,
    same_pairs,
    tuple_labels,
)
from renyi.validation import InputError

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals

Codes = NDArray[np.intp]

UNNAMED = "y"  # the name that `fit` gives to labels without one
_COUNT = "Marginals.from_data(X, y, encoder=card.encoder)"

# ---- categories of marginals


def of_features(encoder: Encoder, target: str | None, m: Marginals) -> Marginals:
    """Return the marginals of a model's features, in its order.

    Marginals of another order, target or other columns are an error.
    """
    names = encoder.feature_names
    order = encoder.order
    if m.order != order and encoder.interactions is not None:
        raise InputError(
            f"The marginals have {features_text(m.encoder)}, but the model has "
            f"{features_text(encoder)}: count with the model's encoder.",
            python="Marginals.from_data(X, y, encoder=clf.encoder_)",
        )
    if m.order != order:
        raise InputError(
            f"The marginals have order {m.order}, but the model has order {order}: "
            "count with that order.",
            f"order={order}",
            python=f"order={order}",
        )
    # A target without a name matches any name.
    named = all(str(v).rstrip("_") != UNNAMED for v in (target, m.target))
    if target not in (None, m.target) and named:
        raise InputError(
            f"The model predicts {target!r}, but the target of the marginals "
            f"is {m.target!r}: give marginals of {target!r}.",
            python="Marginals.with_target() makes them",
        )
    known = set(m.feature_names)
    for name in names:
        if name not in known:
            raise ValueError(
                f"The marginals have no column {name!r}, which is a feature of the "
                "model."
            )
    same = tuple(m.feature_names) == tuple(names)
    return m if same else m.select(names)


def class_places(
    own: Sequence[Label], labels: Sequence[Label], whose: str
) -> NDArray[np.intp]:
    """Return the positions of classes among a model's; unknown ones are an error."""
    known = {label_text(label): k for k, label in enumerate(own)}
    for label in labels:
        if label is None or label_text(label) not in known:
            raise ValueError(
                f"{whose} has the class {label!r}, which the model does not know."
            )
    return np.array([known[label_text(label)] for label in labels], np.intp)


def codes_in(encoder: Encoder, m: Marginals) -> list[NDArray[np.intp]]:
    """Return the model's code of each category of the marginals, by feature."""
    theirs = m.encoder
    if not isinstance(encoder, TupleEncoder) or not isinstance(theirs, TupleEncoder):
        if encoder is theirs:  # of a model trained on these marginals
            return [np.arange(size) for size in theirs.columns.sizes.tolist()]
        pairs = zip(encoder.columns, theirs.columns, strict=True)
        return [_column_codes(encoder, *pair, m.settings) for pair in pairs]
    shares = m.feature_counts.diagonal()
    starts = np.append(0, np.cumsum(theirs.columns.sizes))
    for start, column in zip(starts, theirs.columns, strict=False):
        several = AND in column.name
        if (
            several
            and NEW in column.categories
            and shares[start + column.categories.index(NEW)]
        ):
            raise ValueError(
                f"Feature {column.name!r} of the marginals has rows in {NEW!r}, a "
                "category of unknown labels: count the rows again."
            )
    single = encoder.single
    settings = theirs.single
    where = {name: i for i, name in enumerate(theirs.base.names)}
    of_column = {}
    for i in sorted({i for S in encoder.members for i in S}):
        mine = encoder.base[i]
        other = theirs.base[where[mine.name]]
        of_column[i] = _column_codes(single, mine, other, settings)
    codes_of = []
    for s, members in enumerate(encoder.members):
        table = theirs.tables[s]
        size = len(theirs.columns[s].categories)
        inner = table[tuple(slice(0, k - 1) for k in table.shape)]
        cell = np.zeros(size + 1, np.intp)  # of each tuple, by the codes of its columns
        cell[inner.ravel()] = np.arange(inner.size)
        parts = np.unravel_index(cell[:size], inner.shape)
        mine_parts = [of_column[i][p] for i, p in zip(members, parts, strict=True)]
        codes_of.append(encoder.tables[s][tuple(mine_parts)].astype(np.intp))
    return codes_of


def _column_codes(
    encoder: Encoder, mine: Column, theirs: Column, settings: Encoder
) -> NDArray[np.intp]:
    """Return the model's code of each category of a column of the marginals."""
    finer = set(mine.levels.edges) <= set(theirs.levels.edges)
    if (
        mine.kind != theirs.kind
        or not finer
        or (mine.kind == "number" and _number_codes(encoder) != _number_codes(settings))
    ):
        raise InputError(
            f"Column {mine.name!r} is binned differently in the marginals and in "
            "the model: build the marginals with the model's encoder.",
            python=_COUNT,
        )
    labels = [label for label in theirs.categories if label is not None]
    if mine.kind == "number":
        inside = theirs.bins_in(mine).tolist()
        codes = [*inside, *encoder.code_table(mine.levels, ())]
        return np.array(codes[: len(theirs.categories)], np.intp)
    codes = encoder.code_table(mine.levels, labels).tolist()
    if RARE in labels and theirs.levels.rare:
        codes[labels.index(RARE)] = _one_code(encoder, mine, theirs.levels.rare)
    if None in theirs.categories:
        place = theirs.categories.index(None)
        codes[place] = _one_code(encoder, mine, (*settings.missing, None))
    return np.array(codes[: len(theirs.categories)], np.intp)


def _number_codes(encoder: Encoder) -> set[float]:
    """Return the missing codes that are numbers, such as -9."""
    codes = missing_numbers(missing_texts(encoder.missing))
    return {code for code in codes if math.isfinite(code)}


def _one_code(encoder: Encoder, mine: Column, merged: Sequence[Label]) -> int:
    """Return the model's one code of labels that are one category of the marginals.

    Labels that the model rejects do not count: it answers no row with them.
    """
    labels = [label for label in merged if label is not None]
    codes = encoder.code_table(mine.levels, labels).tolist()
    size = len(mine.categories)
    pairs = [*zip(merged, codes[: len(merged)], strict=True)]
    if encoder.unseen == "error":
        pairs = [pair for pair in pairs if pair[1] < size] or pairs
    first, own = pairs[0]
    for label, code in pairs:
        if code != own:
            texts = (
                MISSING_TEXT if v is None else label_text(v) for v in (first, label)
            )
            one, other = texts
            raise InputError(
                f"Column {mine.name!r} merges {one!r} and {other!r} in the "
                "marginals, but the model distinguishes them: build the marginals with "
                "the model's encoder.",
                python=_COUNT,
            )
    return int(own)


# ---- categories of two encoders


def union(first: Encoder, second: Encoder) -> tuple[Encoder, list[Codes], list[Codes]]:
    """Return the encoder that tells apart what either does, and its codes in both.

    The codes are those of each category of each feature; the number of categories is
    that of a label which the encoder does not know. Both have the same settings and
    columns of the same names.
    """
    if (
        first.input_names != second.input_names
        or first.order != second.order
        or not same_pairs(first.interactions, second.interactions)
    ):
        raise ValueError(
            "The two models have different columns: train both on the same columns."
        )

    @cache  # many columns share their levels
    def joined(mine: Levels, theirs: Levels) -> tuple[Levels, Codes, Codes]:
        return _joined(first, mine, theirs)

    pairs = zip(first.single.columns, second.single.columns, strict=True)
    joint = []
    for a, b in pairs:
        try:
            joint.append(joined(a.levels, b.levels))
        except (ValueError, OverflowError):
            raise InputError(
                f"Column {a.name!r} holds labels in one half of the rows and numbers "
                "in the other: convert it to text, or say that it is a number.",
                "numeric",
                python="numeric=",
            ) from None
    names = first.single.feature_names
    base = Columns.of(map(Column, names, (levels for levels, _, _ in joint)))
    codes = [mine for _, mine, _ in joint], [theirs for _, _, theirs in joint]
    if not isinstance(first, TupleEncoder) or not isinstance(second, TupleEncoder):
        return dataclasses.replace(first, columns=base), *codes
    columns = []
    own = []
    other = []
    for s, members in enumerate(first.members):
        if len(members) == 1:
            columns.append(base[members[0]]._replace(name=first.columns.names[s]))
            own.append(first.tables[s][codes[0][members[0]]])
            other.append(second.tables[s][codes[1][members[0]]])
            continue
        mine, theirs = (
            encoder.tables[s][np.ix_(*(each[i] for i in members))].astype(np.intp)
            for encoder, each in zip((first, second), codes, strict=True)
        )
        new = [each.columns[s].categories.index(NEW) for each in (first, second)]
        apart = np.nonzero((mine != new[0]) | (theirs != new[1]))
        labels = tuple_labels([base[i].levels for i in members], apart)
        order = sorted(range(len(labels) + 1), key=[*labels, NEW].__getitem__)
        levels = Levels("label", tuple([*labels, NEW][k] for k in order))
        columns.append(Column(first.columns.names[s], levels))
        own.append(np.append(mine[apart], new[0])[order])
        other.append(np.append(theirs[apart], new[1])[order])
    whole = dataclasses.replace(first, columns=Columns.of(columns), base=base)
    return whole, own, other


def _joined(
    encoder: Encoder, mine: Levels, theirs: Levels
) -> tuple[Levels, Codes, Codes]:
    """Return the levels that tell apart what either do, and their codes in both."""
    gaps = (None,) if None in (*mine.categories, *theirs.categories) else ()
    both = (mine, theirs)
    if mine.kind == theirs.kind == "label":
        known = ranked([v for each in both for v in (*each.categories, *each.rare)])[0]
        places = np.stack([encoder.code_table(each, known) for each in both])
        # Labels that are rare in one may have been kept in the other.
        rare = np.zeros(len(known), bool)
        if RARE in known and (mine.rare or theirs.rare):
            rare = (places[:, :-1] == places[:, [known.index(RARE)]]).all(axis=0)
        labels = [v for v, merged in zip(known, rare, strict=True) if not merged]
        if rare.any():
            labels = ranked([*labels, RARE])[0]
        merged = tuple(v for v, each in zip(known, rare, strict=True) if each)
        levels = Levels("label", (*labels, *gaps), (), merged)
        codes = [encoder.code_table(each, labels) for each in both]
    else:
        edges = np.array(sorted({e for each in both for e in _edges(each)}))
        whole = all(map(has_whole_bins, both))
        names = bin_names(edges, whole, single_values(edges.tolist()))
        levels = Levels("number", (*names, *gaps), tuple(edges.tolist()))
        starts = np.concatenate([[-math.inf], edges])  # one value of each bin
        codes = [_number_bins(encoder, each, starts) for each in both]
    size = len(levels.categories)
    return levels, codes[0][:size].astype(np.intp), codes[1][:size].astype(np.intp)


def _edges(levels: Levels) -> Sequence[float]:
    """Return the edges of bins; of whole numbers as labels, those around each."""
    if levels.kind == "number":
        return levels.edges
    known = (v for v in (*levels.categories, *levels.rare) if v not in (None, RARE))
    values = np.array([float(v) for v in known])
    if beyond_exact(values).any():
        raise ValueError("no edges lie between whole numbers that are one float")
    return [edge for v in values.tolist() for edge in (v, math.nextafter(v, LARGEST))]


def _number_bins(encoder: Encoder, levels: Levels, starts: NDArray[Any]) -> Codes:
    """Return the codes of bins by the number that each starts from; last, missing."""
    if levels.kind == "number":
        return bin_codes(np.append(starts, math.nan), np.array(levels.edges))
    return encoder.code_table(levels, [*map(float, starts)])
