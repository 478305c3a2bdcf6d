"""What counts tell of the rows they are of: classes, and columns that are no use.

Rows that are counted as they are read can be judged only afterwards, by the rules that
`renyi.cli.inputs` has for rows in memory.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from renyi.cli.inputs import class_labels, constant_names
from renyi.encoding.columns import Column, Columns, Levels, label_text
from renyi.marginals.marginals import Marginals


def shares(m: Marginals) -> dict[str, float]:
    """Return the share of each class."""
    pairs = zip(m.classes, m.class_probabilities, strict=True)
    return {label_text(label): float(p) for label, p in pairs}


def with_texts(m: Marginals) -> Marginals:
    """Return marginals whose classes are texts if some are fractions.

    `renyi.cli.inputs.class_labels` does the same with rows in memory.
    """
    if not any(isinstance(label, float) for label in m.classes):
        return m
    texts = class_labels(m.classes).tolist()
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
    features = [column for column in m.columns if column.name != m.target]
    gone = constant_names(source, features, len(features))
    return m.select(n for n in m.feature_names if n not in gone) if gone else m
