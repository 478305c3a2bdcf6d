"""Files as public tables come, on the command line; what was recognised is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import renyi
from support.commandline import Done, save, save_databases, table
from support.layouts import LAYOUTS, arff, in_blanks, orange, plain

Good = Callable[..., Done]
Bad = Callable[..., str]

SAID = {
    "keel.dat": "KEEL header, 17 columns, target 'party'; comma-separated",
    "weka.arff": "ARFF header, 17 columns; comma-separated",
    "orange.tsv": "Orange header, 17 columns, target 'party'; tab-separated",
    "blanks.data": "17 columns; separated by blanks",
    "semicolons.csv": "17 columns; semicolon-separated",
    "bars.txt": "17 columns; separated by '|'",
    "tabs.csv": "17 columns; tab-separated",
}
WITH_TARGET = [name for name, said in SAID.items() if "target" in said]


Rows = tuple[list[str], list[list[str]]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    lines = renyi.datasets.path("votes").read_text().splitlines()
    names, *rows = [line.split(",") for line in lines]
    return names, rows


@pytest.mark.parametrize("name", SAID)
def test_the_model_is_that_of_csv(name: str, rows: Rows, good: Good) -> None:
    Path(name).write_text(LAYOUTS[name](*rows))
    target = () if name in WITH_TARGET else ("--target", "party")
    told = good("fit", name, *target, "--out", "m", "--json").json
    plain_told = good("fit", "votes", "--out", "votes", "--json").json
    assert told["notes"] == [f"{name}: {SAID[name]}."]
    assert plain_told["notes"] == []
    assert told["rows"] == 435
    assert told["classes"] == plain_told["classes"]
    assert told["certificate"] == plain_told["certificate"]
    assert f"Notes\n  - {name}: {SAID[name]}." in good("fit", name, *target).out
    for model in ("m.json", "votes.json"):
        answers = good("predict", model, name)
        assert answers.err.startswith(f"note: {name}: {SAID[name]}.\n")
        assert answers.out == good("predict", "votes.json", "votes").out
    bound = good("certify", "m.json", "--rows", name, "--json").json
    other = good("certify", "votes.json", "--rows", "votes", "--json").json
    assert f"{name}: {SAID[name]}." in bound["notes"]
    assert bound["bounds"] == other["bounds"]


def test_other_commands_take_the_target_of_the_header(rows: Rows, good: Good) -> None:
    Path("t.dat").write_text(arff(*rows, keel=True))
    good("marginals", "build", "t.dat", "--out", "t.renyi")
    good("marginals", "build", "votes", "--out", "votes.renyi")
    load = renyi.Marginals.load
    assert load("t.renyi") == load("votes.renyi")
    assert good("hgr", "t.dat").out == good("hgr", "votes").out
    compare = ("--methods", "map", "majority", "--folds", "3", "--json")
    told = good("compare", "t.dat", *compare).json
    expected = good("compare", "votes", *compare).json
    assert told["target"] == "party"
    assert [entry["error"] for entry in told["entries"]] == [
        entry["error"] for entry in expected["entries"]
    ]
    good("encoder", "build", "t.dat", "--target", "party", "--out", "e.json")
    good("marginals", "build", "t.dat", "--encoder", "e.json", "--out", "e.renyi")
    assert load("e.renyi").target == "party"
    told = good("fit", "t.dat", "--target", "crime", "--json").json
    assert told["target"] == "crime"


def test_files_without_header(rows: Rows, good: Good, bad: Bad) -> None:
    names, cells = rows
    Path("plain.data").write_text(plain(names, cells).split("\n", 1)[1])
    Path("blanks.data").write_text(in_blanks(names, cells).split("\n", 1)[1])
    model = ("--target", "party", "--out", "m", "--json")
    named = ("--names", ", ".join(names))
    told = good("fit", "plain.data", *named, *model).json
    assert told["notes"] == []
    assert told["rows"] == 435
    answers = good("predict", "m.json", "blanks.data", *named)
    assert answers.out == good("predict", "m.json", "votes").out
    assert answers.err.startswith("note: blanks.data: 17 columns; separated by blanks")
    told = good("fit", "plain.data", "--no-header", "--target", "x17", "--json").json
    assert told["notes"] == ["plain.data: no header (so x1 to x17), 17 columns."]
    assert told["rows"] == 435
    given = ("--rows", "blanks.data", *named, "--sep", "space")
    assert "blanks.data" not in good("certify", "m.json", *given).err
    assert "(--no-header)" in bad("fit", "plain.data", "--target", "party")
    given = ("--no-header", "--target", "x17")
    assert "first row looks like names" in bad("fit", "votes", *given)
    other = [f"{name} " for name in "abcdefghijklmnopq"]
    given = ("--names", ",".join(other), "--target", "q")
    assert "leave --no-header and --names out" in bad("fit", "votes", *given)


def test_numbers_for_names_advise_no_header(good: Good, bad: Bad) -> None:
    frame = table().drop(columns=["id", "colour"])
    frame.to_csv("t.data", index=False, header=False)
    for given in ((), ("--target", "y")):
        assert "If its first row is data, pass --no-header." in bad(
            "fit", "t.data", *given
        )
    said = bad("fit", "t.data", "--target", frame["y"][0])
    assert "first row looks like data" in said
    assert "pass --no-header, or add a row of names" in said
    good("fit", "t.data", "--no-header", "--target", "x3")
    assert "no-header" not in bad("fit", save(frame), "--target", "z")


def test_columns_left_out_and_several_files(rows: Rows, good: Good) -> None:
    names, cells = rows
    flags = ["meta", *[""] * 15, "class"]
    for k, part in enumerate((cells[:200], cells[200:])):
        text = orange(names, part, flags=flags)
        Path(f"part{k}.tab").write_text(text)
    told = good("fit", "part*.tab", "--out", "m", "--json").json
    assert told["notes"] == [
        "part0.tab and 1 more: Orange header, 16 columns, target 'party', left out "
        "'handicapped-infants' (meta); tab-separated."
    ]
    expected = good("fit", "votes", "--drop", names[0], "--json").json
    assert told["certificate"] == expected["certificate"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("fit", "t.csv", "--sep", ";;"), "--sep must be one character, tab or space"),
        (
            ("fit", "t.csv", "--names", "a,b"),
            "--names has 2 names, but t.csv has 5 col",
        ),
        (("fit", "t.csv", "--names", "id,colour,size,length,Y"), "these names itself"),
        (("fit", "t.arff", "--no-header"), "t.arff has an ARFF header"),
        (("fit", "t.parquet", "--sep", "tab"), "t.parquet is not a text table"),
        (("fit", "m.renyi", "--sep", "tab"), "--sep is for tables; m.renyi holds"),
        (("fit", "--sql", "SELECT 1 AS y", "--sep", "tab"), "--sep is for FILE"),
        (
            ("fit", "shop.db", "--table", "visits", "--names", "a"),
            "--names is for files",
        ),
        (("certify", "m.json", "m.renyi", "--no-header"), "--no-header is for --rows"),
        (("certify", "--halves", "m.renyi", "m.renyi", "--sep", "tab"), "--halves"),
        (
            (
                "certify",
                "m.json",
                "--rows",
                "shop.db",
                "--table",
                "visits",
                "--sep",
                ";",
            ),
            "--sep is for files",
        ),
        (("report", "m.json", "--names", "a"), "--names is for --rows"),
        (
            ("marginals", "release", "m.renyi", "--sep", "tab", "--out", "r.renyi"),
            "--sep goes with --plan",
        ),
        (
            (
                "marginals",
                "build",
                "--tables",
                "t.csv",
                "--sep",
                "tab",
                "--out",
                "r.renyi",
            ),
            "--sep is for rows",
        ),
    ],
)
def test_options_that_do_not_fit(
    argv: tuple[str, ...], message: str, bad: Bad, good: Good
) -> None:
    frame = table()
    save(frame)
    save_databases(frame)
    frame.to_parquet("t.parquet")
    cells = frame.astype(str)
    Path("t.arff").write_text(arff(list(cells), cells.to_numpy().tolist()))
    good("fit", "t.csv", "--target", "y", "--id", "id", "--out", "m")
    target = ("--target", "y") if argv[0] == "fit" or "build" in argv else ()
    assert message in bad(*argv, *target)
