"""What counts tell of the rows they are of: classes, and columns that are no use.

Rows that are counted as they are read can be judged only afterwards, by the rules that
`renyi.cli.inputs` has for rows in memory.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from renyi.cli.inputs import columns_text, listed
from renyi.encoding.columns import Column, Columns, Levels
from renyi.encoding.frame_columns import MAX_INTEGER_LABELS, label_text
from renyi.marginals.marginals import Marginals
from renyi.warnings import warn


def check_classes(m: Marginals, source: str) -> None:
    """Refuse a target of one value, or of too many."""
    count = len(m.classes)
    if count < 2:
        shown = label_text(m.classes[0])
        raise ValueError(
            f"The target {m.target!r} of {source} has only one class, {shown!r}: a "
            "classifier needs rows of at least two."
        )
    if count > MAX_INTEGER_LABELS and any(isinstance(c, float) for c in m.classes):
        raise ValueError(
            f"The target {m.target!r} of {source} is a number with {count:,} values, "
            "not a class: cut it into classes first."
        )


def shares(m: Marginals) -> dict[str, float]:
    """Return the share of each class."""
    pairs = zip(m.classes, m.class_probabilities, strict=True)
    return {label_text(label): float(p) for label, p in pairs}


def with_texts(m: Marginals) -> Marginals:
    """Return marginals whose classes are texts if some are fractions.

    A classifier takes no fractions for classes; `renyi.cli.inputs` does the
    same with rows in memory.
    """
    if not any(isinstance(label, float) for label in m.classes):
        return m
    texts = [label_text(label) for label in m.classes]
    order = np.argsort(np.array(texts, object), kind="stable")
    answer = Column(m.target, Levels("label", tuple(sorted(texts))))
    K = len(texts)
    where = np.arange(len(m.counts))
    where[-K:] = where[-K:][order]
    return dataclasses.replace(
        m,
        counts=m.counts[np.ix_(where, where)],
        columns=Columns.of([*m.columns[:-1], answer]),
        class_counts=None if m.class_counts is None else m.class_counts[order],
    )


def usable(m: Marginals, source: str) -> Marginals:
    """Return marginals without columns that do not tell rows apart; note these."""
    alone = {name: c[0] for name, c in m.categories.items() if len(c) == 1}
    empty = [name for name, label in alone.items() if label is None]
    constant = [name for name, label in alone.items() if label is not None]
    if len(alone) == len(m.feature_names):
        raise ValueError(
            f"No usable column is left in {source}: {listed([*constant, *empty])} hold "
            "one value or none."
        )
    for names, what in ((constant, "one category only"), (empty, "no value")):
        if names:
            warn(f"Dropped {columns_text(len(names))} with {what}: {listed(names)}.")
    return m.select(n for n in m.feature_names if n not in alone) if alone else m
