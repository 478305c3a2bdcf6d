"""The pages for users run as a reader would run them, commands and Python in turn.

A page has a folder and a session of its own. Lines of ``code-block:: console`` that
begin with ``$`` are run in this process; what stands below one is what it must print.
Every ``renyi`` command of the other pages and of the README is at least understood by
the parser.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from renyi.cli import main
from renyi.cli.parser import parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = [DOCS / "quickstart.rst", *sorted((DOCS / "guides").glob("*.rst"))]
CONSOLE = re.compile(r"^\.\. code-block:: console\n\n((?:(?:   .*)?\n)+)", re.MULTILINE)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks(page: str) -> Iterator[tuple[bool, str]]:
    """Yield what is text with examples, and (True) what is typed into a terminal."""
    for number, part in enumerate(CONSOLE.split(page)):
        yield number % 2 == 1, part


def typed(block: str) -> list[tuple[str, str]]:
    """Return the commands of a block, each with what it is said to print."""
    block = re.sub("^   ", "", block, flags=re.MULTILINE)
    found = COMMAND.findall(block)
    return [(re.sub(r"\\\n\s*", "", line), output.strip()) for line, output in found]


def run_command(line: str, expected: str) -> None:
    """Run one command; raise where it fails or prints something else."""
    name, *arguments = shlex.split(line)
    assert name == "renyi", line
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        assert main(arguments) == 0, line
    same = doctest.OutputChecker().check_output(
        f"{expected}\n", f"{out.getvalue().strip()}\n", FLAGS
    )
    assert not expected or same, f"{line}\n{out.getvalue()}"


def run_page(path: Path) -> int:
    """Run everything on a page, in order; return how many pieces there were."""
    session: dict[str, object] = {}
    runner, pieces = doctest.DebugRunner(optionflags=FLAGS), 0
    for number, (terminal, part) in enumerate(blocks(path.read_text("utf-8"))):
        if terminal:
            for line, expected in typed(part):
                run_command(line, expected)
                pieces += 1
            continue
        name = f"{path.name}, part {number}"
        test = doctest.DocTestParser().get_doctest(part, session, name, str(path), 0)
        try:
            runner.run(test, clear_globs=False)
        except doctest.DocTestFailure as failure:
            raise AssertionError(f"{failure.example.source}{failure.got}") from None
        session.update(test.globs)
        pieces += len(test.examples)
    return pieces


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: path.stem)
def test_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(path) > 5


def test_a_wrong_output_of_a_command_is_noticed() -> None:
    with pytest.raises(AssertionError, match="datasets"):
        run_command("renyi datasets", "none")
    ((terminal, _), (_, block), *_) = blocks(
        "a\n\n.. code-block:: console\n\n   $ renyi datasets\n   none\n\nb\n"
    )
    assert (terminal, typed(block)) == (False, [("renyi datasets", "none")])


def documented() -> list[str]:
    """Return every command of the other pages and of the README."""
    pages = [ROOT / "README.md", *sorted(DOCS.glob("*.rst"))]
    lines: list[str] = []
    for path in pages:
        text = re.sub(r"\\\n\s*", "", path.read_text("utf-8"))
        start = r"   +(?:\$ )?" if path.suffix == ".rst" else ""
        lines += re.findall(rf"^{start}(renyi [a-z]+ .*)$", text, re.MULTILINE)
    return lines


@pytest.mark.parametrize("line", documented())
def test_the_parser_knows_every_command(line: str) -> None:
    _, *arguments = shlex.split(line, comments=True)
    if "--help" not in arguments:
        parser().parse_args(arguments)
