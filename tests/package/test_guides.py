"""README and pages run as a reader would run them, commands and Python in turn.

A page has a folder and a session of its own. The folder has the files that the page
names: those of the small study of genotypes, and the visits of `pages.write_samples`.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import pages, warehouses
from support.pages import Block, blocks, run_command, same_output, typed
from support.postgres import address_of
from support.studies import PLINK2, plink2

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("_build", "auto_examples", "generated", "_templates")  # by Sphinx
PAGES = [
    ROOT / "README.md",
    *(
        path
        for path in sorted(DOCS.rglob("*.rst"))
        if path.relative_to(DOCS).parts[0] not in MADE
    ),
]
GUIDES = [DOCS / "quickstart.rst", *sorted((DOCS / "guides").glob("*.rst"))]

postgres = warehouses.postgres


def has_pieces(path: Path) -> bool:
    text = path.read_text("utf-8")
    return ">>> " in text or any(block.kind != "text" for block in blocks(text))


RUNNING = [path for path in PAGES if has_pieces(path)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the files that pages name, as the current one."""
    monkeypatch.chdir(tmp_path)
    pages.copy_files(DOCS / "study")
    pages.write_samples()
    yield tmp_path


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", RUNNING, ids=name_of)
def test_page_runs(path: Path, folder: Path, request: pytest.FixtureRequest) -> None:
    text = path.read_text("utf-8")
    address = ""
    if '$ renyi fit "postgresql://' in text:
        address = visits_on_a_server(request.getfixturevalue("postgres"))
    if "$ plink2" in text:
        if PLINK2 is None:
            pytest.skip("plink2 is not on the path: make tools")
        plink2("--bfile", "study", "--export", "vcf", "bgz", "--out", "study")
    pieces = pages.run_page(path, address)
    assert pieces > (5 if path in GUIDES else 0)


def visits_on_a_server(connection: Any) -> str:
    """Write the table of visits to a server; return its address."""
    import pyarrow.csv

    warehouses.load(connection, "visits", pyarrow.csv.read_csv("visits.csv"))
    return address_of(connection)


def test_every_command_of_the_documentation_is_in_a_block_that_runs() -> None:
    for path in PAGES:
        for block in blocks(path.read_text("utf-8")):
            if block.kind == "text":
                stray = re.findall(
                    r"^ +\$? ?renyi [a-z]+ .*$", block.text, re.MULTILINE
                )
                assert not stray, (name_of(path), stray)


def test_readers_see_digits_and_not_dots() -> None:
    for path in PAGES:
        shown = re.findall(r"\d\.\.\.|\.\.\. %", path.read_text("utf-8"))
        assert not shown, (name_of(path), shown)


def test_commands_are_at_most_72_columns_wide() -> None:
    for path in PAGES:
        for block in blocks(path.read_text("utf-8")):
            commands = [line for line in block.text.splitlines() if line[:2] == "$ "]
            wide = [line for line in commands if len(line) > 72]
            assert block.kind == "text" or not wide, (name_of(path), wide)


def test_a_wrong_output_of_a_command_is_noticed() -> None:
    with pytest.raises(AssertionError, match="datasets"):
        run_command("renyi datasets", "none")
    _, block, _ = blocks(
        "a\n\n.. code-block:: console\n\n   $ renyi datasets\n   none\n\nb\n"
    )
    assert (block.kind, typed(block.text)) == ("terminal", [("renyi datasets", "none")])


def test_a_fence_is_a_block() -> None:
    parts = list(blocks("a\n```sh\nrenyi datasets  # all\n```\nb\n```python\n1\n```\n"))
    assert [part.kind for part in parts] == [
        "text",
        "shell",
        "text",
        "python",
        "text",
    ]
    assert pages.lines(parts[1].text) == ["renyi datasets"]
    assert parts[3] == Block("python", "1\n")


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("error 5.9 %", "error 5.9 %", True),
        ("error 5.9 %", "error 6.0 %", False),
        ("5.9% wrong", "6.0% wrong", False),
        ("error 0.59", "error 0.60", True),
        ("error 0.59", "error 0.61", False),
        ("error 0.59", "error 0.591", True),
        ("0.03053751458315312", "0.030537514583153284", True),
        ("0.0305375", "0.0305385", False),
        ("3,196 rows", "3,197 rows", False),
        ("a  1.5\nb", "a 1.5 b", True),
        ("first\n...\nlast 2.0", "first\nsecond\nlast 2.1", True),
        ("first\n...\nlast", "first\nsecond", False),
        ("+0.32", "-0.32", False),
        ("1.5 and 2.5", "1.5", False),
    ],
)
def test_numbers_may_differ_in_their_last_digit(
    shown: str, printed: str, same: bool
) -> None:
    assert same_output(shown, printed) is same


def test_the_study_is_what_its_script_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(DOCS / "study" / "make_study.py", tmp_path)
    import runpy

    runpy.run_path(str(tmp_path / "make_study.py"), run_name="__main__")
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (DOCS / "study" / file.name).read_bytes(), file
