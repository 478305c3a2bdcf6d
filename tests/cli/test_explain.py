"""The points of rows, as the command shows and writes them, against Python's."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from renyi import RenyiClassifier
from renyi.cli import predict
from support.commandline import FIT, Done, save, table

FEATURES = ["colour", "size", "length"]


@pytest.fixture
def frame(good: Callable[..., Done]) -> pd.DataFrame:
    rows = table()
    good("fit", save(rows.drop(columns="id")), *FIT)
    save(rows, "n.csv")
    return rows


def test_points_are_those_of_python(
    frame: pd.DataFrame, good: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    clf = RenyiClassifier.load("m.json")
    points = clf.explain(frame[FEATURES])
    monkeypatch.setattr(predict, "_ROWS", 7)  # so that there are many batches
    done = good("explain", "m.json", "n.csv", "--id", "id", "--out", "e.csv")
    assert "Wrote e.csv (200 rows)" in done.err
    got = pd.read_csv("e.csv")
    assert got["id"].tolist() == frame["id"].tolist()
    assert got["prediction"].tolist() == clf.predict(frame[FEATURES]).tolist()
    for name in FEATURES:
        assert np.allclose(got[f"points_{name}"], points[name], atol=5e-7)
    assert np.allclose(got["intercept"], points["intercept"], atol=5e-7)
    assert np.allclose(got["total"], clf.decision_function(frame[FEATURES]), atol=5e-7)
    told = good("explain", "m.json", "n.csv", "--json").json
    assert told["points_for"] == "yes"
    assert told["rows"] == 200
    exact = [row["points_length"] for row in told["answers"]]
    assert exact == points["length"].tolist()
    good("explain", "m.json", "n.csv", "--out", "e.parquet")
    assert pd.read_parquet("e.parquet")["points_length"].tolist() == exact


def test_one_row_is_shown_with_its_total(
    frame: pd.DataFrame, good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    clf = RenyiClassifier.load("m.json")
    row = frame[FEATURES][16:17]
    lines = good("explain", "m.json", "n.csv", "--id", "id", "--row", "17").out
    head, names, *points, total = lines.splitlines()
    assert head == f"Row 17 (id p0016): {str(clf.predict(row)[0])!r}"
    assert names.split() == ["column", "value", "points", "for", "'yes'"]
    exact = clf.explain(row).iloc[0]
    shown = {line.split()[0]: float(line.split()[-1]) for line in points}
    assert shown == {
        **{name: round(exact[name], 4) for name in FEATURES},
        "every": round(exact["intercept"], 4),
    }
    sizes = [abs(value) for value in list(shown.values())[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    side = "above" if exact.sum() > 0 else "not above"
    assert total.split(maxsplit=1)[1] == f"{exact.sum():+.4f}   ({side} 0)"
    message = bad("explain", "m.json", "n.csv", "--row", "201")
    assert "--row 201 is beyond the last row: there are 200 rows." in message
    assert "--row" in bad("explain", "m.json", "n.csv", "--row", "0")
    assert "same name" in bad(
        *("explain", "m.json"),
        save(frame.assign(total=1), "o.csv"),
        *("--id", "total", "--out", "o.parquet"),
    )


def test_the_first_rows_are_shown_and_unseen_cells_named(
    frame: pd.DataFrame, good: Callable[..., Done]
) -> None:
    save(frame.assign(colour=["green", *frame["colour"][1:]]), "n.csv")
    done = good("explain", "m.json", "n.csv")
    heads = [line[:6] for line in done.out.splitlines() if line.startswith("Row")]
    assert heads == ["Row 1:", "Row 2:", "Row 3:"]
    assert done.out.count("total") == 3
    assert "The first 3 rows. Another: --row N; all: --out FILE.csv" in done.out
    assert re.search(r"colour +\(unseen\)", done.out)
    assert "1 cell has a label unseen in training, in 'colour'" in done.err


def test_points_of_many_classes_are_those_of_the_answer(
    good: Callable[..., Done],
) -> None:
    rng = np.random.default_rng(0)
    y = rng.choice(list("pqr"), 300)
    noise = rng.choice(list("pqr"), 300)
    X = pd.DataFrame({"a": np.where(rng.random(300) < 0.7, y, noise), "b": noise})
    good("fit", save(X.assign(y=y)), *FIT)
    clf = RenyiClassifier.load("m.json")
    got = good("explain", "m.json", "t.csv", "--json").json
    assert got["points_for"] == "prediction"
    answers = clf.predict(X)
    points = clf.explain(X)
    for k in range(20):
        own = points[answers[k]].iloc[k]
        row = got["answers"][k]
        assert row["prediction"] == answers[k]
        assert row["points_a"] == own["a"]
        assert row["total"] == pytest.approx(own.sum())
        assert row["total"] == pytest.approx(clf.decision_function(X)[k].max())
    text = good("explain", "m.json", "t.csv", "--row", "1").out
    second = np.sort(clf.decision_function(X)[0])[-2]
    assert f"points for {str(answers[0])!r}" in text
    assert f"{second:+.4f})" in text


def test_rows_of_a_file_without_rows(
    frame: pd.DataFrame, bad: Callable[..., str]
) -> None:
    save(frame[:0], "n.csv")
    assert "no rows" in bad("explain", "m.json", "n.csv")
    lacking = save(frame.drop(columns=["size", "length"]), "n.csv")
    assert "lacks 2 columns" in bad("explain", "m.json", lacking)


def test_tables_can_be_read_again(
    frame: pd.DataFrame, good: Callable[..., Done]
) -> None:
    good("explain", "m.json", "n.csv", "--out", "e.csv.gz", "--row", "3")
    assert len(pd.read_csv("e.csv.gz")) == 1
    (row,) = good("explain", "m.json", "n.csv", "--row", "3", "--json").json["answers"]
    assert pd.read_csv("e.csv.gz")["prediction"].tolist() == [row["prediction"]]
