"""What a small file may cost that declares much: little memory, and no time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import renyi
from renyi import files
from renyi.limits import MemoryBudgetError, memory_limit
from support.forgeries import archive, forged, golden_members, member, signed

pytestmark = pytest.mark.xdist_group("file costs")

# Each line of stdin is a file, which is loaded in a process of its own.
MEASURE = """
import json, os, sys, tracemalloc, zipfile
import renyi.files
from renyi import Marginals, RenyiClassifier
loads = {"marginals": Marginals.load, "model": RenyiClassifier.load}
def resident():  # not ru_maxrss, which begins with that of the parent process
    peak = [line.split() for line in open("/proc/self/status") if "VmHWM" in line]
    return 1024 * int(peak[0][1])
def measure(kind, place):
    before = resident()
    tracemalloc.start()
    try:
        loads[kind](place)
    except ValueError as error:
        traced = tracemalloc.get_traced_memory()[1]
        print(json.dumps([traced, resident() - before, str(error)]), flush=True)
        os._exit(0)
for line in sys.stdin:
    if os.fork() == 0:
        try:
            measure(*json.loads(line))
        finally:
            os._exit(1)
    if os.wait()[1]:
        print("null", flush=True)
"""


@pytest.fixture(scope="module")
def cost():
    """Return traced bytes, resident bytes and the message of a refusal."""
    path = os.pathsep.join([str(Path(renyi.__file__).parents[1]), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", MEASURE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    ) as child:

        def measured(kind, place):
            print(json.dumps([kind, str(place)]), file=child.stdin, flush=True)
            found = json.loads(child.stdout.readline())
            assert found is not None, f"{place} was not refused"
            return found

        yield measured


def test_a_small_file_that_declares_a_billion_categories_costs_little(cost, tmp_path):
    place = tmp_path / "m"
    wide = {"descr": "<i8", "fortran_order": False, "shape": (10**9, 10**9)}
    archive(place, golden_members(**{"counts.npy": member(b"", wide)}))
    assert place.stat().st_size < 2000
    traced, resident, message = cost("marginals", place)
    assert (
        "'counts.npy' has 128 bytes, but its columns need numbers of the shape (12, 12)"
        in message
    )
    assert traced < 5e7 and resident < 5e7


def test_headers_that_unfold_are_refused_at_once(cost, tmp_path):
    place = tmp_path / "m"
    raw = member(np.frombuffer(b"[" + b"[]," * 20_000_000, np.uint8))
    archive(place, golden_members(**{"header.npy": raw}))
    assert place.stat().st_size < 70_000
    traced, resident, message = cost("marginals", place)
    assert "its header is too large" in message
    assert traced < 5e7 and resident < 5e7


@pytest.mark.parametrize(
    ("filler", "words"),
    [
        (b"[],", "its format is None"),
        (b'{"a":0},', "its format is None"),
        (b"[[[[", "nested too deeply"),
        (b"[0,0,0,0],", "its format is None"),
        (b"0.1,", "its format is None"),
        (b'"ab",', "its format is None"),
    ],
)
def test_headers_that_are_crowded_cost_little(cost, tmp_path, filler, words):
    place = tmp_path / "m"
    text = b'{"n": [' + filler * (2_000_000 // len(filler)) + b"0]}"
    raw = member(np.frombuffer(text, "u1"))
    archive(place, golden_members(**{"header.npy": raw}), zipfile.ZIP_STORED)
    traced, _, message = cost("marginals", place)
    assert words in message
    assert traced < 50 * len(text)


def test_arrays_of_zeros_are_refused_at_once(cost, tmp_path):
    zeros = member(np.zeros((5000, 2000)))
    for name in ("more.npy", "counts.npy"):
        place = tmp_path / name
        archive(place, golden_members(**{name: zeros}))
        assert place.stat().st_size < 100_000
        traced, resident, message = cost("marginals", place)
        assert name in message
        assert traced < 2e7 and resident < 2e7


def test_headers_of_many_columns_pass(tmp_path):
    names = [f"rs{k * 7919}" for k in range(100_000)]
    levels = [{"kind": "label", "categories": [0, 1, 2, None]}]
    columns = {"names": names, "levels": levels, "which": [0] * len(names)}
    header = {"format": "x", "version": 1, "columns": columns}
    files.write_arrays(tmp_path / "m", header, {})
    assert files.read_header(tmp_path / "m", "x")["columns"] == columns


def test_headers_that_could_not_be_read_are_not_written(tmp_path):
    header = {"format": "x", "version": 1, "text": "a" * 17 * 2**20}
    with pytest.raises(ValueError, match="select fewer columns"):
        files.write_arrays(tmp_path / "m", header, {})
    assert os.listdir(tmp_path) == []
    header["text"] = "a" * 15 * 2**20  # which packs a thousandfold
    files.write_arrays(tmp_path / "m", header, {})
    assert files.read_header(tmp_path / "m", "x")["text"] == header["text"]


def test_models_of_gigabytes_are_refused_unread(cost, tmp_path):
    place = tmp_path / "m.json"
    with place.open("wb") as stream:
        stream.truncate(2 * 10**9)  # takes no room on the disk
    traced, resident, message = cost("model", place)
    assert "larger than 10⁹ bytes" in message
    assert traced < 2e7 and resident < 2e7


def test_a_small_model_that_declares_a_billion_categories_costs_little(cost, tmp_path):
    def widen(data):
        card = data["scorecard"]
        columns = card["encoder"]["columns"]
        columns.update(names=["a"], which=[10**9], levels=columns["levels"][:1])
        card["encoder"]["bins"] = 10**9
        card.update(z=[0.0], counts=[10**9])
        data["certificate"]["warnings"] = []

    place = tmp_path / "m.json"
    place.write_text(json.dumps(signed(widen)))
    assert place.stat().st_size < 2000
    traced, resident, message = cost("model", place)
    assert message.endswith("is not valid: the list of columns is not valid.")
    assert traced < 5e7 and resident < 5e7


def test_columns_that_share_wide_levels_cost_little(cost, tmp_path):
    # 2,000 columns of 2,000 shared categories: a table of 128 terabytes is declared.
    def widen(header):
        levels = [{"kind": "label", "categories": list(range(2000))}]
        names = [f"c{k}" for k in range(2000)]
        header["columns"] = {"names": names, "levels": levels, "which": [0] * 2000}
        header["target"] = "c0"

    place = tmp_path / "m"
    files.write_arrays(place, *forged(widen))
    traced, _, message = cost("marginals", place)
    assert "need numbers of the shape (4000000, 4000000)" in message
    assert traced < 5e7


def wide_marginals(place, size, total):
    """Write marginals of a column of many labels, `total` rows in the first."""
    m = renyi.Marginals.from_data([["a"], ["b"]] * 9, [0, 1] * 9)
    m.save(place)
    header = files.read_header(place, "renyi-marginals")
    del header["checksum"]
    labels = [str(k) for k in range(size)]
    header["columns"]["levels"][0]["categories"] = labels
    counts = np.zeros((size + 2, size + 2), np.int64)
    counts[0, 0] = counts[0, -1] = counts[-1, 0] = counts[-1, -1] = total
    files.write_arrays(place, header, {"counts": counts})


def test_marginals_beyond_the_memory_of_a_job_are_refused(tmp_path):
    wide_marginals(tmp_path / "m", 1_500, 18)  # 18 MB
    with memory_limit(2 * 10**7):
        assert renyi.Marginals.load(tmp_path / "m").n == 18
    with memory_limit(10**7), pytest.raises(MemoryBudgetError, match="18 MB"):
        renyi.Marginals.load(tmp_path / "m")


def test_models_beyond_the_memory_of_a_job_are_refused(tmp_path):
    place = tmp_path / "m.json"
    place.write_bytes(b" " * 10**6)
    with memory_limit(10**7), pytest.raises(MemoryBudgetError, match=r"m\.json"):
        renyi.RenyiClassifier.load(place)
