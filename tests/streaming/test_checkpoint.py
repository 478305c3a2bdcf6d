"""Checkpoints: no row twice, none missing, whatever happens to a job."""

from __future__ import annotations

import _thread
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import renyi
from renyi.progress import Progress
from renyi.sources import csv, files
from renyi.streaming import checkpoint, run
from renyi.streaming.checkpoint import difference
from renyi.streaming.run import Record
from renyi.streaming.spec import CountSpec, pack, unpack
from support.interruptions import expected, interrupted, table_of, write

Marginals = renyi.Marginals


STEPS = ["looking at numbers", "counting"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "PIECE", 2_000)
    monkeypatch.setattr(run, "_THREADS", 2)


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return [
        write(table_of(700, 1), tmp_path / "part-1.parquet"),
        write(table_of(500, 2), tmp_path / "part-2.parquet"),
    ]


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("units", [1, 4])
def test_goes_on_from_where_it_was(
    ending: str, step: str, units: int, tmp_path: Path
) -> None:
    table = table_of(1_200)
    path = write(table, tmp_path / f"rows.{ending}")
    kept = tmp_path / "job.ckpt"
    interrupted(path, kept, step, units)
    seen: list[Progress] = []
    m = Marginals.from_file(path, target="y", checkpoint=kept, progress=seen.append)
    assert m == Marginals.from_data(table, target="y")
    assert not kept.exists()
    # What was done is not read again.
    first = next(pace for pace in seen if pace.step == step)
    assert first.share > first.share_before > 0
    assert ("looking at numbers" in {pace.step for pace in seen}) == (step == STEPS[0])
    assert seen[-1].rows == 1_200


def test_interrupt_of_the_user_keeps_what_was_counted(
    parts: list[Path], tmp_path: Path
) -> None:
    kept, called = tmp_path / "job.ckpt", []

    def progress(pace: Progress) -> None:
        if pace.step == "counting" and not called:
            called.append(pace)
            _thread.interrupt_main()  # as Ctrl-C does
            time.sleep(0.3)  # until it is heard

    with pytest.raises(KeyboardInterrupt):
        files.marginals(parts, "y", checkpoint=kept, progress=progress)
    assert kept.exists()
    assert files.marginals(parts, "y", checkpoint=kept) == expected(parts)


def test_weights_and_classes_are_kept(tmp_path: Path) -> None:
    table = table_of(900).append_column("w", pa.array(np.arange(900) % 4 / 2))
    path, kept = write(table, tmp_path / "rows.parquet"), tmp_path / "job.ckpt"
    asked: dict[str, Any] = {"weight": "w", "class_conditional": True}
    interrupted(path, kept, **asked)
    m = files.marginals(path, "y", checkpoint=kept, **asked)
    assert m == files.marginals(path, "y", **asked)
    assert m.n == table["w"].to_numpy().sum()


def test_warnings_of_an_earlier_run_are_repeated(tmp_path: Path) -> None:
    cells = ["NA" if k % 50 == 0 else f"{k / 7:.2f}" for k in range(1_000)]
    path, kept = tmp_path / "rows.csv", tmp_path / "job.ckpt"
    lines = [f"{cell},{'uv'[k % 2]}" for k, cell in enumerate(cells)]
    path.write_text("a,y\n" + "\n".join(lines))

    def notes(call: Callable[[], object]) -> list[str]:
        with warnings.catch_warnings(record=True, action="always") as seen:
            call()
        return [str(w.message) for w in seen]

    asked = {"encoder": renyi.Encoder(min_count=2), "checkpoint": kept}
    first = notes(lambda: interrupted(path, **asked))
    second = notes(lambda: files.marginals(path, "y", **asked))
    assert first == second
    assert "'a' would be numeric except for 'NA' (20 of 1,000 cells)" in second[0]


@pytest.mark.parametrize("step", STEPS)
def test_input_that_has_changed_is_refused(
    step: str, parts: list[Path], tmp_path: Path
) -> None:
    kept = tmp_path / "job.ckpt"
    interrupted(parts, kept, step)
    before = kept.read_bytes()
    told = parts[0].stat()
    os.utime(parts[0], ns=(told.st_atime_ns, told.st_mtime_ns + 10**9))
    with pytest.raises(ValueError, match=r"part-1\.parquet has changed ") as raised:
        files.marginals(parts, "y", checkpoint=kept)
    assert "its size and both its ends are the same" in str(raised.value)
    (moment,) = re.findall(r"cp -p, or use touch -d (\S+)Z\)", str(raised.value))
    assert np.datetime64(moment, "ns").astype(int) == told.st_mtime_ns
    os.utime(parts[0], ns=(told.st_atime_ns, told.st_mtime_ns))
    raw = parts[0].read_bytes()
    write(table_of(701, 1), parts[0])
    with pytest.raises(ValueError, match=r"its size was [\d,]+ bytes .*put the"):
        files.marginals(parts, "y", checkpoint=kept)
    parts[0].write_bytes(raw[:-60] + bytes(60))
    os.utime(parts[0], ns=(told.st_atime_ns, told.st_mtime_ns))
    with pytest.raises(ValueError, match=r"part-1\.parquet is not a valid"):
        files.marginals(parts, "y", checkpoint=kept)
    parts[0].write_bytes(raw)
    os.utime(parts[0], ns=(told.st_atime_ns, told.st_mtime_ns))
    assert kept.read_bytes() == before
    assert files.marginals(parts, "y", checkpoint=kept) == expected(parts)


def test_contents_at_either_end_are_looked_at(tmp_path: Path) -> None:
    path, kept = write(table_of(900), tmp_path / "rows.csv"), tmp_path / "job.ckpt"
    interrupted(path, kept)
    told, text = path.stat(), path.read_text()
    path.write_text(text[:-4] + "ye2\n")
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    with pytest.raises(ValueError, match=r"rows\.csv has changed .*contents"):
        files.marginals(path, "y", checkpoint=kept)


def test_file_not_read_yet_may_change(tmp_path: Path) -> None:
    columns = ["a"]  # labels only: there is no first pass that reads all files
    parts = [write(table_of(300, k), tmp_path / f"p{k}.parquet") for k in range(5)]
    kept = tmp_path / "job.ckpt"
    interrupted(parts, kept, units=2, columns=columns)
    write(table_of(400, 9), parts[4])
    m = files.marginals(parts, "y", checkpoint=kept, columns=columns)
    assert m == files.marginals(parts, "y", columns=columns)
    assert m.n == 1_600


FITTED = renyi.Encoder().fit(table_of(200).drop_columns(["y"]))
OTHERS = renyi.Encoder().fit(table_of(300).drop_columns(["y"]))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({}, {"target": "a"}, "target: 'y' before, 'a' now"),
        ({}, {"columns": ["a", "b"]}, "'c' of columns: given before, not given now"),
        ({"columns": ["a"]}, {}, "'b' of columns: not given before, given now"),
        (
            {},
            {"columns": ["b", "a", "c"]},
            "names: 'a', 'b', 'c', 'y' before, 'b', 'a', 'c', 'y' now",
        ),
        ({}, {"encoder": renyi.Encoder(bins=7)}, "bins of encoder: 5 before, 7 now"),
        (
            {},
            {"encoder": renyi.Encoder(missing=())},
            "missing of encoder: '?', '' before, empty now",
        ),
        (
            {},
            {"encoder": renyi.Encoder(numeric=["b"])},
            "numeric of encoder: 'auto' before, 'b' now",
        ),
        (
            {},
            {"encoder": FITTED},
            "levels of 'a' of columns: not given",
        ),
        (
            {"encoder": FITTED},
            {"encoder": OTHERS},
            "categories of levels of 'b'",
        ),
        ({}, {"class_conditional": True}, "class_conditional: False before, True now"),
        ({}, {"where": "c > 3"}, "where: not given before, 'c > 3' now"),
        ({"where": "c > 3"}, {"where": "c > 4"}, "where: 'c > 3' before, 'c > 4' now"),
        ({}, {"weight": "c"}, "weight: not given before, 'c' now"),
        ({}, {"kinds": {"c": "label"}}, "kind of 'c' of columns: 'auto' before"),
    ],
)
def test_other_request_is_refused(
    first: dict[str, Any],
    second: dict[str, Any],
    message: str,
    parts: list[Path],
    tmp_path: Path,
) -> None:
    kept = tmp_path / "job.ckpt"
    interrupted(parts, kept, **first)
    with pytest.raises(ValueError) as raised:
        files.marginals(parts, **{"target": "y", **second}, checkpoint=kept)
    assert f"The checkpoint {kept} belongs to another job ({message}" in str(
        raised.value
    )
    again = files.marginals(parts, "y", **first, checkpoint=kept)
    assert again == files.marginals(parts, "y", **first)


def test_other_types_and_versions_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, kept = table_of(900), tmp_path / "job.ckpt"
    path = write(table, tmp_path / "rows.parquet")
    interrupted(path, kept)
    with monkeypatch.context() as patch:
        patch.setattr(files, "__version__", "9.9")
        with pytest.raises(ValueError, match=r"another job \(version: .* '9\.9' now"):
            files.marginals(path, "y", checkpoint=kept)
    write(table.set_column(2, "c", table["c"].cast(pa.float64())), path)
    with pytest.raises(ValueError, match="family of 'c' of columns: 'integer'"):
        files.marginals(path, "y", checkpoint=kept)


@given(st.data())
def test_whatever_differs_in_a_request_is_told(data: st.DataObject) -> None:
    spec = CountSpec.of(table_of(20).schema, "y").to_dict()
    before: dict[str, Any] = {"columns": spec.pop("names"), "where": None, **spec}
    assert difference(before, before) is None
    name = data.draw(st.sampled_from(sorted(before)))
    # Of another version, or forged: anything may stand there.
    odd = data.draw(st.sampled_from([None, 3, "x", [], [3], ["x"], {}, {"x": 1}]))
    told = difference({**before, name: odd}, before)
    assert (told is None) == (odd == before[name])


def test_other_files_are_refused(parts: list[Path], tmp_path: Path) -> None:
    kept = tmp_path / "job.ckpt"
    interrupted(parts, kept)
    with pytest.raises(ValueError, match=r"to other files .*part-2\.parquet"):
        files.marginals(parts[:1], "y", checkpoint=kept)
    with pytest.raises(ValueError, match="to other files .*another order"):
        files.marginals(parts[::-1], "y", checkpoint=kept)


def test_damaged_checkpoint_is_refused(parts: list[Path], tmp_path: Path) -> None:
    kept = tmp_path / "job.ckpt"
    interrupted(parts, kept)
    whole = kept.read_bytes()
    rng, refused, whole_counts = np.random.default_rng(0), 0, expected(parts)
    for _ in range(40):
        broken = bytearray(whole)
        broken[rng.integers(len(broken))] ^= 1 << int(rng.integers(8))
        kept.write_bytes(broken)
        try:  # a few bits of a zip archive, such as its dates, mean nothing
            assert files.marginals(parts, "y", checkpoint=kept) == whole_counts
        except ValueError as error:
            assert "job.ckpt is not a valid checkpoint" in str(error)
            refused += 1
    assert refused > 30
    for content in (b"", b"renyi 1\n", whole[: len(whole) // 2], b"{}"):
        kept.write_bytes(content)
        with pytest.raises(ValueError, match=r"not a valid checkpoint .*delete this"):
            files.marginals(parts, "y", checkpoint=kept)


@pytest.mark.parametrize(
    "change",
    [
        {"done": [[0, 0, 2**40]]},
        {"done": [[5, 0, 1]]},
        {"done": [[0, -1, 1]]},
        {"done": ["0"]},
        {"spec": {"names": ["a"]}},
        {"rows": "many"},
        {"rows": [[7, 100]]},
        {"files": [{}]},
    ],
)
def test_forged_checkpoint_is_refused(
    change: dict[str, Any], parts: list[Path], tmp_path: Path
) -> None:
    kept = tmp_path / "job.ckpt"
    interrupted(parts, kept)
    header, arrays = unpack("checkpoint", kept.read_bytes())
    forged = pack("checkpoint", {**header, **change}, arrays)
    kept.write_bytes(forged)
    with pytest.raises(ValueError, match=r"job\.ckpt is not a valid checkpoint"):
        files.marginals(parts, "y", checkpoint=kept)


def test_place_of_a_checkpoint(parts: list[Path], tmp_path: Path) -> None:
    for place, reason in ((tmp_path, "is a folder"), (tmp_path / "no" / "j", "no'")):
        with pytest.raises(ValueError, match=f"cannot be written: .*{reason}"):
            files.marginals(parts, "y", checkpoint=place)


def test_input_that_changes_meanwhile(tmp_path: Path) -> None:
    path, kept = write(table_of(900), tmp_path / "rows.csv"), tmp_path / "job.ckpt"

    def progress(pace: Progress) -> None:
        if pace.share == 1:
            os.utime(path, ns=(1, 1))

    with pytest.raises(ValueError, match=r"rows\.csv changed while it was counted"):
        files.marginals(path, "y", checkpoint=kept, progress=progress)


def corrupt(path: Path) -> None:
    """Break the last row groups of a Parquet file, not its footer."""
    raw = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(4).column(0).data_page_offset
    raw[start : start + 200] = bytes(200)
    path.write_bytes(raw)


def test_what_was_counted_before_a_failure_is_kept(tmp_path: Path) -> None:
    columns = ["a"]
    parts = [write(table_of(600, k), tmp_path / f"p{k}.parquet") for k in range(3)]
    good = parts[2].read_bytes()
    corrupt(parts[2])
    kept = tmp_path / "job.ckpt"
    for _ in range(2):  # the second run finds nothing but the broken group to do
        with pytest.raises(
            ValueError, match=r"p2\.parquet is not a valid .*fresh copy"
        ):
            files.marginals(parts, "y", columns=columns, checkpoint=kept)
        header, _ = unpack("checkpoint", kept.read_bytes())
        assert sum(rows for _, rows in header["rows"]) >= 1_200
    parts[2].write_bytes(good)  # a fresh copy, of another time
    m = files.marginals(parts, "y", columns=columns, checkpoint=kept)
    assert m == files.marginals(parts, "y", columns=columns)


def killed(folder: Path, kills: int, seed: int) -> int:
    """Run a job that is killed; return how many pieces were counted in all."""
    driver = Path(__file__).parents[1] / "support" / "killed_job.py"
    command = [sys.executable, str(driver), str(folder), str(kills), str(seed)]
    subprocess.run(command, check=True, timeout=600, capture_output=True)
    assert not (folder / "error").exists(), (folder / "error").read_text()
    others = [path for path in folder.iterdir() if "part-" not in path.name]
    assert {path.name for path in others} == {"counted.renyi", "log", "killed"}
    assert int((folder / "killed").read_text()) == kills
    return (folder / "log").read_bytes().count(b"c")


def check_killed(folder: Path, ending: str, kills: int, seed: int) -> None:
    folder.mkdir()
    rows = {"parquet": 10_000, "csv": 5_000}[ending] * max(1, kills // 10)
    # So many that a fast machine does not end before the kills.
    tables = [table_of(rows, seed + k) for k in range(3)]
    paths = [
        write(table, folder / f"part-{k}.{ending}", 200)
        for k, table in enumerate(tables)
    ]
    counted = killed(folder, kills, seed)
    m = Marginals.load(folder / "counted.renyi")
    assert m == Marginals.from_data(pa.concat_tables(tables), target="y")
    # Every kill may cost the piece that was being written down, and no other.
    if ending == "parquet":
        units = sum(pq.read_metadata(path).num_row_groups for path in paths)
        assert units <= counted <= units + kills


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_killed_at_random_moments(ending: str, tmp_path: Path) -> None:
    check_killed(tmp_path / "job", ending, kills=6, seed=5)


@pytest.mark.long
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("seed", range(5))
def test_killed_at_many_random_moments(ending: str, seed: int, tmp_path: Path) -> None:
    check_killed(tmp_path / "job", ending, kills=30, seed=100 + seed)


def test_writing_takes_a_small_share_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(table_of(30), tmp_path / "rows.parquet")
    kept = checkpoint.Checkpoint(tmp_path / "job.ckpt", {}, [path], interval=3.0)
    clock = [1000.0]
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: clock[0])
    kept.keep(Record())

    def due(seconds: float, record: Record) -> bool:
        clock[0] = 1000.0 + seconds
        return kept.due(record)

    class Part:
        table_bytes = 10**8

    assert not due(2.9, Record()) and due(3.1, Record())
    large = Record(parts={0: (Part(), 10)})  # a table that will take 0.4 s
    assert not due(7.9, large) and due(8.1, large)
    kept._took = 1.0
    assert not due(19.9, large) and due(20.1, large)


# ---- golden files


@pytest.mark.parametrize("version", [1, 2, 3])
def test_golden_checkpoints_are_gone_on_with(
    version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = Path(__file__).parents[1] / "golden" / f"checkpoint-v{version}"
    for each in golden.iterdir():
        shutil.copyfile(each, tmp_path / each.name)
        os.utime(tmp_path / each.name, ns=(10**18, 10**18))
    monkeypatch.chdir(tmp_path)  # the checkpoint names its files without a folder
    monkeypatch.setattr(csv, "PIECE", 16 * 2**20)
    monkeypatch.setattr(files, "__version__", "0.1.0")
    encoder = renyi.Encoder(missing=("?",), bins=3)
    seen: list[Progress] = []
    m = Marginals.from_file(
        ["rows-1.csv", "rows-2.csv"],
        target="party",
        encoder=encoder,
        checkpoint="job.ckpt",
        progress=seen.append,
    )
    # The first pass is done, and the first of the files is counted.
    told = [(each.step, each.rows) for each in seen]
    assert told == [("going on", 40), ("counting", 70)]
    assert m == Marginals.from_file("rows-*.csv", target="party", encoder=encoder)
    assert not Path("job.ckpt").exists()


def test_a_forged_checkpoint_whose_counts_do_not_add_up_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = Path(__file__).parents[1] / "golden" / "checkpoint-v2"
    for each in golden.iterdir():
        shutil.copyfile(each, tmp_path / each.name)
        os.utime(tmp_path / each.name, ns=(10**18, 10**18))
    header, parts = unpack("checkpoint", (tmp_path / "job.ckpt").read_bytes())
    (name,) = parts
    inner, arrays = unpack("counts", parts[name].tobytes())
    counts = arrays["counts"].copy()
    counts[7] += 3
    raw = np.frombuffer(pack("counts", inner, {**arrays, "counts": counts}), np.uint8)
    (tmp_path / "job.ckpt").write_bytes(pack("checkpoint", header, {name: raw}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(csv, "PIECE", 16 * 2**20)
    monkeypatch.setattr(files, "__version__", "0.1.0")
    with pytest.raises(ValueError, match=r"job\.ckpt held counts that no rows can"):
        Marginals.from_file(
            ["rows-1.csv", "rows-2.csv"],
            target="party",
            encoder=renyi.Encoder(missing=("?",), bins=3),
            checkpoint="job.ckpt",
        )
