"""Repetitions of a test: some in every run, all of them with the long tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def few(usual: int, values: Iterable[Any]) -> list[Any]:
    """Leave all values but the first few to the long tests."""
    return [_case((v,), k < usual) for k, v in enumerate(values)]


def in_full(usual: Iterable[Any], full: Iterable[Any]) -> list[Any]:
    """Some cases for every run, and others for the long tests."""
    return [_case(v, True) for v in usual] + [_case(v, False) for v in full]


def covering(*values: Sequence[Any], together: int = 2) -> list[Any]:
    """All combinations of the values; every run takes some.

    In these each two values of different parameters meet, or, with ``together=1``, each
    value occurs. The others are left to the long tests.
    """
    cases = list(product(*(range(len(each)) for each in values)))
    parts = {case: {*combinations(enumerate(case), together)} for case in cases}
    missing, usual = set().union(*parts.values()), set()
    while missing:
        best = max(cases, key=lambda case: len(parts[case] & missing))
        usual.add(best)
        missing -= parts[best]
    return [
        _case([each[k] for each, k in zip(values, case, strict=True)], case in usual)
        for case in cases
    ]


def _case(values: Iterable[Any], usual: bool) -> Any:
    return pytest.param(*values, marks=() if usual else pytest.mark.long)
