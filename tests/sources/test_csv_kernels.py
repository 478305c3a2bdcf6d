"""The compiled reading of cells gives what Arrow's reader gives, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from renyi import compiled
from renyi.marginals.marginals import Marginals
from renyi.sources import csv, csv_kernels
from renyi.sources.csv import Header

LONG = "a label of more than sixteen bytes"
CELLS = st.one_of(
    st.text(st.characters(exclude_characters='"\r\n,', exclude_categories=["Cs"])),
    st.sampled_from(["", " ", "x", "\0", "eight by", "eight by\0", "sixteen bytes 16"]),
    st.sampled_from([LONG, LONG[:-1] + "t", LONG + " and more", LONG[:16], LONG[:17]]),
)


@pytest.fixture(autouse=True)
def loaded() -> None:
    """Let the loop be worth while for any piece."""
    assert compiled.load("renyi.sources.csv_kernels") is not None


def header(count: int, delimiter: str = ",") -> Header:
    return Header(delimiter, [f"c{k}" for k in range(count)], 0)


def by_arrow(told: Header, text: str, columns: list[str]) -> list[list[str]]:
    data = bytearray(text.encode())
    found = csv._read_by_arrow(told, data, columns)
    return [column.cast(pa.string()).to_pylist() for column in found]


def by_loop(told: Header, text: str, columns: list[str]) -> list[list[str]] | None:
    data = bytearray(text.encode())
    found = csv._read_by_loop(told, data, columns)
    assert data == text.encode()  # what was added for the loop is gone
    if found is None:
        return None
    for column in found:
        column.validate(full=True)
        assert column.type == csv.TEXT
        assert len(set(column.dictionary.to_pylist())) == len(column.dictionary)
    return [column.cast(pa.string()).to_pylist() for column in found]


@given(
    st.integers(2, 5).flatmap(
        lambda d: st.lists(st.lists(CELLS, min_size=d, max_size=d), min_size=1)
    ),
    st.booleans(),
    st.randoms(use_true_random=False),
)
@example([["", ""]], False, None)
def test_equals_arrow(rows: list[list[str]], newline: bool, rng) -> None:
    told = header(len(rows[0]))
    if rng is not None and rng.random() < 0.5:
        rows = [[f'"{c}"' if rng.random() < 0.5 else c for c in row] for row in rows]
    lines = [",".join(row) for row in rows]
    if rng is not None and rng.random() < 0.3:
        lines.insert(rng.randrange(len(lines) + 1), "")  # a blank line is no row
    text = "\n".join(lines) + "\n" * newline
    columns = told.names[::-1]
    assert by_loop(told, text, columns) == by_arrow(told, text, columns)
    assert by_loop(told, text, columns[:1]) == by_arrow(told, text, columns[:1])


def test_quotes_hold_delimiters_and_newlines() -> None:
    text = '"a,\nb","",5" pipe\n "x",y,"z"\n"","","\n\n"'
    found = by_loop(header(3), text, ["c0", "c1", "c2"])
    assert found == by_arrow(header(3), text, ["c0", "c1", "c2"])
    assert found == [["a,\nb", ' "x"', ""], ["", "y", ""], ['5" pipe', "z", "\n\n"]]


def test_cells_of_every_length_at_every_place() -> None:
    told = header(3, ";")
    words = [("abcdefghij" * 5)[:k] for k in range(41)]
    rows = [f"{a};{b};{a}" for a in words for b in words]
    text = "\n".join(rows)
    found = by_loop(told, text, told.names)
    assert found == by_arrow(told, text, told.names)
    assert found is not None and found[1][:41] == words


@pytest.mark.parametrize(
    "text",
    [
        'a,"b\n',
        'a,"b',
        '"a,b\nc,d',
        'a,"',
        'a,"b"c\n',
        'a,"b""c"\n',
        "a,b\r\n",
        "a\n",
        "a,b,c\n",
        "a,b\nc\n",
        "a,b\nc,d,e\n",
        "a,b\n\nc",
    ],
)
def test_what_is_not_plain_is_left_to_arrow(text: str) -> None:
    assert by_loop(header(2), text, ["c0", "c1"]) is None


def test_a_single_column_is_left_to_arrow() -> None:
    assert by_loop(header(1), "a\n\nb\n", ["c0"]) is None  # the blank line is a cell


def test_text_that_is_not_utf8_is_left_to_arrow() -> None:
    data = bytearray(b"a,\xff\n")
    assert csv._read_by_loop(header(2), data, ["c0", "c1"]) is None
    assert csv._read_by_loop(header(2), data, ["c0"])[0].to_pylist() == ["a"]
    assert data == b"a,\xff\n"


@pytest.mark.parametrize("more", [0, 1])
def test_many_labels_are_left_to_arrow(more: int) -> None:
    count = csv_kernels.MOST + more
    text = "".join(f"label number {k},{k % 7}\n" for k in range(count))
    found = by_loop(header(2), text, ["c0", "c1"])
    assert (found is None) == bool(more)
    if found is not None:
        assert found == by_arrow(header(2), text, ["c0", "c1"])


def test_wide_pieces_with_a_column_of_many_labels_are_read() -> None:
    width, count = 3_000, csv_kernels.FEW + 1
    assert csv_kernels._tried(width) == [csv_kernels.FEW, csv_kernels.MOST]
    rows = (
        [f"label {k}", *["no" if k % 3 else "yes"] * (width - 1)] for k in range(count)
    )
    text = "".join(",".join(row) + "\n" for row in rows)
    some = ["c0", "c1", f"c{width - 1}"]
    assert by_loop(header(width), text, some) == by_arrow(header(width), text, some)
    everything = header(width).names
    found = by_loop(header(width), text, everything)
    assert found == by_arrow(header(width), text, everything)


def test_without_numba_the_counts_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"{'ab'[k % 2]},{k * k % 11} é,{'yn'[k % 3 // 2]}" for k in range(5_000)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["a,b,y", *lines]), encoding="utf-8")
    taken = []
    plain = csv_kernels.read_cells

    def watched(*given):
        taken.append(plain(*given))
        return taken[-1]

    monkeypatch.setattr(csv_kernels, "read_cells", watched)
    with_loop = Marginals.from_file(path, target="y")
    assert taken and all(found is not None for found in taken)
    monkeypatch.setattr(csv, "kernels_for", lambda *_: None)
    taken.clear()
    assert Marginals.from_file(path, target="y") == with_loop
    assert not taken and with_loop.n == 5_000


LOADED_AT_ONCE = """
import sys, threading
from renyi import compiled
sys.setswitchinterval(1e-6)
names = ["renyi.sources.csv_kernels", "renyi.counting.kernels"]
both, found = threading.Barrier(2), []
def load(name):
    both.wait()
    found.append(compiled.load(name))
threads = [threading.Thread(target=load, args=(name,)) for name in names]
for each in threads: each.start()
for each in threads: each.join()
sys.exit(len(found) != 2 or None in found)
"""


def test_two_threads_may_load_loops_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED_AT_ONCE], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
