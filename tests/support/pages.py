"""Pages of the documentation, run as a reader would run them.

A page has commands (lines of ``code-block:: console`` that begin with ``$``, or lines
of a fence ``sh`` in Markdown) and Python examples (``>>>``, or a fence ``python``).
They run in order, in one folder and one session. A number with a decimal point may
differ by one unit in its last digit from what the page shows, but not a percentage.
"""

from __future__ import annotations

import contextlib
import doctest
import glob
import io
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from renyi.cli import main

_DECIMAL = re.compile(r"(?<![\w.])[-+]?\d[\d,]*\.\d+(?:e[-+]?\d+)?(?![\w])")
_RELATIVE = Decimal("1e-6")  # numbers with more digits than a machine agrees on
_CONSOLE = re.compile(
    r"^\.\. code-block:: console\n\n((?:(?:   .*)?\n)+)"
    r"|^```(sh|python)\n((?:(?!```).*\n)*)```$",
    re.MULTILINE,
)
_COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

Kind = Literal["text", "terminal", "shell", "python"]


def same_output(shown: str, printed: str) -> bool:
    """Say whether a page shows what was printed, but for last digits.

    Percentages have few digits, and must be the same.
    White space counts as one blank, and ``...`` is any text.
    """
    pattern = ""
    position = 0
    shown = " ".join(shown.split())
    numbers = [
        number
        for number in _DECIMAL.finditer(shown)
        if not shown[number.end() :].lstrip().startswith("%")
    ]
    for number in numbers:
        pattern += _escaped(shown[position : number.start()])
        pattern += r"(?<![\w.])([-+]?\d[\d,]*\.\d+(?:e[-+]?\d+)?)(?!\w)"
        position = number.end()
    pattern += _escaped(shown[position:])
    match = re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL)
    return match is not None and all(
        _close(number.group(), other)
        for number, other in zip(numbers, match.groups(), strict=True)
    )


def _escaped(text: str) -> str:
    """Return a pattern of the text, in which ``...`` is any text."""
    return ".*?".join(map(re.escape, text.split("...")))


def _close(shown: str, printed: str) -> bool:
    expected = Decimal(shown.replace(",", ""))
    got = Decimal(printed.replace(",", ""))
    exponent = expected.as_tuple().exponent
    assert isinstance(exponent, int)
    unit = Decimal(1).scaleb(exponent)
    return abs(got - expected) <= max(unit, abs(expected) * _RELATIVE)


class Checker(doctest.OutputChecker):
    """The check of doctest, by `same_output`."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Say whether the output is as the page shows it."""
        return same_output(want.replace("<BLANKLINE>", ""), got)


class Block(NamedTuple):
    """A part of a page: its kind, and its lines."""

    kind: Kind
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Yield the parts of a page in order."""
    position = 0
    for match in _CONSOLE.finditer(page):
        yield Block("text", page[position : match.start()])
        console, language, fenced = match.groups()
        if console is not None:
            yield Block("terminal", re.sub("^   ", "", console, flags=re.MULTILINE))
        elif language == "sh":
            yield Block("shell", fenced)
        else:
            yield Block("python", fenced)
        position = match.end()
    yield Block("text", page[position:])


def typed(block: str) -> list[tuple[str, str]]:
    """Return the commands of a terminal, each with the output that the page shows."""
    found = _COMMAND.findall(block)
    return [(_joined(line), output.strip()) for line, output in found]


def lines(block: str) -> list[str]:
    """Return the commands of a shell block, one a line, without comments."""
    text = re.sub(r"\\\n\s*", "", block)
    words = [shlex.split(line, comments=True) for line in text.splitlines()]
    return [shlex.join(each) for each in words if each]


def _joined(line: str) -> str:
    return re.sub(r"\\\n\s*", "", line)


def _expanded(word: str, line: str) -> list[str]:
    """Return the files of a pattern, as a shell does where it is not in quotes."""
    quoted = f'"{word}"' in line or f"'{word}'" in line
    return [word] if quoted else sorted(glob.glob(word)) or [word]


def run_command(line: str, expected: str, address: str = "") -> str:
    """Run one command; raise where it fails or prints something else."""
    words = shlex.split(line, comments=True)
    if address:
        words = [re.sub(r"^postgresql://.*", address, word) for word in words]
    if words[0] == "plink2":
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    assert words[0] == "renyi", line
    words = [name for word in words for name in _expanded(word, line)]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(words[1:])
    assert code == 0, f"{line}\n{out.getvalue()}"
    printed = out.getvalue()
    assert not expected or same_output(expected, printed), f"{line}\n{printed}"
    return printed


def run_python(block: str, name: str, session: dict[str, object]) -> int:
    """Run the examples of a text; return how many there were."""
    test = doctest.DocTestParser().get_doctest(block, session, name, name, 0)
    runner = doctest.DebugRunner(checker=Checker(), optionflags=_FLAGS)
    try:
        # The runner empties the namespace it is given unless told not to.
        runner.run(test, clear_globs=False)
    except doctest.DocTestFailure as failure:
        raise AssertionError(f"{name}\n{failure.example.source}{failure.got}") from None
    session.update(test.globs)
    return len(test.examples)


def run_page(path: Path, address: str = "") -> int:
    """Run everything on a page, in order; return how many pieces there were."""
    session: dict[str, object] = {}
    pieces = 0
    for number, (kind, part) in enumerate(blocks(path.read_text("utf-8"))):
        name = f"{path.name}, part {number}"
        if kind == "terminal":
            for line, expected in typed(part):
                run_command(line, expected, address)
                pieces += 1
        elif kind == "shell":
            for line in lines(part):
                if line.startswith("renyi "):
                    run_command(line, "", address)
                    pieces += 1
        elif kind == "python" and ">>>" not in part:
            exec(compile(part, name, "exec"), session)
            pieces += 1
        else:
            pieces += run_python(part, name, session)
    return pieces


def copy_files(folder: Path) -> None:
    """Copy the files of a folder into the current one."""
    for file in folder.iterdir():
        if file.is_file():
            shutil.copy(file, os.getcwd())


def write_samples() -> None:
    """Write the files that pages name: visits of patients, as files of all kinds."""
    rng = np.random.default_rng(0)
    n = 1200
    ward = rng.choice(["north", "south", "east"], n, p=[0.5, 0.3, 0.2])
    age = rng.integers(18, 95, n)
    stay = rng.integers(1, 30, n)
    score = (age > 70) + (ward == "south") + (stay > 20) + rng.normal(0, 0.7, n)
    visits = pd.DataFrame(
        {
            "patient": [f"p{k}" for k in range(n)],
            "year": rng.choice([2023, 2024], n),
            "age": age,
            "ward": ward,
            "stay": stay,
            "smoker": rng.choice(["no", "yes"], n),
            "readmitted": np.where(score > 1.5, "yes", "no"),
        }
    )
    parts = {
        "patients": visits[:600],
        "visits": visits[:600],
        "part-1": visits[:300],
        "part-2": visits[300:600],
        "a": visits[:400],
        "b": visits[400:800],
        "pilot": visits[800:],
        "later": visits[600:900],
        "new-patients": visits[900:].drop(columns="readmitted"),
    }
    for name, rows in parts.items():
        rows.to_csv(f"{name}.csv", index=False)
    visits[:600].to_csv("visits.csv.gz", index=False)
    few = visits[["age", "ward", "readmitted"]]
    few[:600].to_csv("stays.data", index=False, header=False)
    few[["age", "ward"]][600:].to_csv("new.data", index=False, header=False)
    for year, rows in visits[:600].groupby("year"):
        rows.to_parquet(f"visits-{year}.parquet")
    with sqlite3.connect("hospital.db") as connection:
        visits[:600].to_sql("visits", connection, index=False)
    connection.close()
    _write_duckdb("hospital.duckdb", visits=visits[:600], later=visits[600:900])


def _write_duckdb(place: str, **tables: pd.DataFrame) -> None:
    import duckdb

    with duckdb.connect(place) as connection:
        for name, table in tables.items():
            connection.register("rows", table)
            connection.execute(f"CREATE TABLE {name} AS FROM rows")
            connection.unregister("rows")
