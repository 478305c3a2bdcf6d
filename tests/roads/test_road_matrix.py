"""Every input path × every property: the same marginals, or the same error."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from renyi import Marginals, RenyiClassifier
from renyi.encoding.columns import Column, Columns, Levels
from renyi.warnings import DataWarning
from support import warehouses
from support.commandline import Run
from support.roads import CANNOT, CASES, ROADS, Case, Place, in_memory, write

postgres = warehouses.postgres


def reference(case: Case) -> Marginals:
    with warnings.catch_warnings(action="ignore", category=DataWarning):
        return in_memory(case)


def rows() -> list[Any]:
    groups = {"spark": "spark", "postgres": "roads of postgres"}
    found = []
    for road in ROADS:
        for name in CASES:
            marks = [pytest.mark.xdist_group(groups[road])] if road in groups else []
            found.append(pytest.param(road, name, id=f"{road}-{name}", marks=marks))
    return found


def without_names(m: Marginals) -> Marginals:
    """Return marginals as those of an array, which has no names."""
    names = [f"x{j}" for j in range(len(m.columns) - 1)]
    pairs = zip([*names, "y"], m.columns, strict=True)
    return replace(m, columns=Columns.of(Column(n, c.levels) for n, c in pairs))


def assert_same(m: Marginals, want: Marginals, rounded: bool) -> None:
    assert m.columns == want.columns
    if rounded:
        np.testing.assert_allclose(m.counts, want.counts, rtol=1e-13)
    else:
        assert m.n == want.n
        np.testing.assert_array_equal(m.counts, want.counts)
        assert m.counts.dtype == want.counts.dtype


@pytest.mark.parametrize(("road", "name"), rows())
def test_road(
    road: str, name: str, tmp_path: Path, run: Run, request: pytest.FixtureRequest
) -> None:
    case, place = CASES[name], Place(tmp_path, run, request)
    error, mentions, labels = ValueError, case.mentions, case.categories
    expected = case
    if instead := CANNOT.get((road, name)):
        error, mentions, labels = instead.error and instead.error(), None, {}
        if instead.table is not None:
            expected = replace(case, table=instead.table(case.table), mentions=None)
    elif road == "array":
        labels = {}
        if mentions in case.table.column_names[:-1]:
            mentions = f"x{case.table.column_names.index(mentions)}"
    if mentions is not None or (instead and error is not None):
        with pytest.raises(error, match=mentions):
            ROADS[road](case, place)
        return
    with warnings.catch_warnings(record=True, action="always") as seen:
        m = ROADS[road](case, place)
    want = reference(expected)
    want = without_names(want) if road == "array" else want
    assert_same(m, want, rounded=name == "weights that round")
    for column, found in labels.items():
        levels = next(c.levels for c in m.columns if c.name == column)
        assert levels.texts == Levels("label", found).texts
    codes = {w.message.code for w in seen if isinstance(w.message, DataWarning)}
    assert ("dropped-rows" in codes) == case.dropped


def test_usable_features_are_the_same_in_memory_and_streamed(run: Run) -> None:
    """A column whose labels are all rare has one category, which tells nothing."""
    table = CASES["kinds"].table.append_column(
        "rare", pa.array([f"r{k // 5}" for k in range(60)])
    )
    path = write(table, Path("t.csv"))
    found = []
    for words in ((path,), (path, "--where", "true")):
        given = ("--target", "y", "--min-count", "15", "--out", "m", "--json")
        done = run("fit", *words, *given)
        assert done.code == 0, done.err
        found.append(RenyiClassifier.load("m.json").encoder_.feature_names)
    assert found[0] == found[1] == ("word", "few", "many", "real", "plain")
