"""The command report: a page and its record, and what it rejects."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commandline import Done, save, table

FIT = ("--target", "y", "--id", "id", "--out", "m")


@pytest.fixture
def model(good: Callable[..., Done]) -> str:
    good("fit", save(table()), *FIT)
    return "m.json"


def test_page_and_record_are_written_with_how_they_were_made(
    good: Callable[..., Done], model: str
) -> None:
    told = good("report", model)
    assert "m.report.html" in told.out and "m.report.json" in told.out
    page, plain = Path("m.report.html").read_text("utf-8"), Path("m.report.json")
    found = json.loads(plain.read_text("utf-8"))
    assert found["made"]["report"] == "renyi report m.json"
    assert found["made"]["command"].startswith("renyi fit")
    assert found["card"] is not None  # by the marginals that lie beside the model
    assert found["summary"].split()[0] in page
    facts = json.loads(good("report", model, "-o", "m.html", "--json").out)
    assert facts["written"] == {"page": "m.html", "record": "m.report.json"}
    assert facts["summary"] == found["summary"]


def test_rows_path_and_bounds_are_shown_when_asked_for(
    good: Callable[..., Done], model: str
) -> None:
    rows = save(table(seed=5), "rows.csv")
    good("report", model, "m.renyi", "--rows", rows, "--path", "--level", "lp")
    found = json.loads(Path("m.report.json").read_text("utf-8"))
    assert found["heldout"]["rows"] == len(table(seed=5))
    assert len(found["path"]) == 3
    assert any(row["name"] == "linear program" for row in found["errors"])


def test_what_cannot_be_is_refused_in_words(
    bad: Callable[..., str], model: str
) -> None:
    assert "m.json" in bad("report", model, "-o", "m.json")
    assert ".html" in bad("report", model, "-o", "page.pdf")
    assert "--time-limit" in bad("report", model, "--time-limit", "9")
    assert "--target" in bad("report", model, "--target", "y")
    assert "nothing.json" in bad("report", "nothing.json")
    assert "The name of a file is empty" in bad("report", "")
    Path("m.renyi").unlink()
    assert "--path" in bad("report", model, "--path")
    assert "m.renyi" in bad("report", model, "--exact")
    assert not Path("m.report.html").exists()


def test_pages_of_two_models_do_not_overwrite_each_other(
    good: Callable[..., Done], model: str
) -> None:
    Path("other").mkdir()
    copy = Path(model).read_bytes()
    for name in ("n.json", "other/m.json"):
        Path(name).write_bytes(copy)
    first = good("report", model).out
    pages = {
        path: path.read_bytes() for path in map(Path, first.split()) if path.is_file()
    }
    assert {path.name for path in pages} >= {"m.report.html", "m.report.json"}
    good("report", "n.json")
    good("report", "other/m.json")
    assert all(path.read_bytes() == old for path, old in pages.items())
    assert Path("n.report.html").is_file() and Path("other/m.report.html").is_file()


def test_the_page_has_the_title_that_the_user_gives(
    good: Callable[..., Done], model: str
) -> None:
    good("report", model)
    assert "<h1>Model of &#39;y&#39;</h1>" in Path("m.report.html").read_text("utf-8")
    good("report", model, "--title", "Will White win?")
    assert "<h1>Will White win?</h1>" in Path("m.report.html").read_text("utf-8")
