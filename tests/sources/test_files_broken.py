"""Files that are broken, absent or forbidden: one sentence that names them."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import renyi
from renyi.sources import arrow, csv, files, run

Marginals = renyi.Marginals
TABLE = pa.table({"a": ["x", "z"] * 500, "b": range(1000), "y": ["u", "v"] * 500})


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv, "PIECE", 4_000)
    monkeypatch.setattr(run, "_THREADS", 2)


def refused(paths: Any, message: str, **asked: Any) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        Marginals.from_file(paths, target="y", **asked)
    assert "\n" not in str(raised.value)


def text(rows: int, start: str = "a,b,y\n") -> str:
    return start + "".join(f"x,{k % 90},{'uv'[k % 2]}\n" for k in range(rows))


def test_a_pipe_is_no_missing_file(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(text(10))
    os.mkfifo(tmp_path / "tables.csv")
    refused(tmp_path / "tables.csv", "tables.csv is a pipe or a device.*save")


@pytest.mark.parametrize("columns", [None, ["a"]])
def test_corrupt_parquet_among_good_ones(
    columns: list[str] | None, tmp_path: Path
) -> None:
    paths = [tmp_path / f"p{k}.parquet" for k in range(3)]
    for path in paths:
        pq.write_table(TABLE, path, row_group_size=200)
    raw = bytearray(paths[1].read_bytes())
    start = pq.read_metadata(paths[1]).row_group(2).column(0).data_page_offset
    raw[start : start + 150] = b"\xff" * 150
    paths[1].write_bytes(raw)
    refused(paths, r"p1\.parquet is not a valid Parquet", columns=columns)
    paths[1].write_bytes(raw[:-10])
    refused(paths, r"p1\.parquet is not a valid Parquet", columns=columns)


def test_corrupt_arrow_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    labels = TABLE.select(["a", "y"])
    pyarrow.feather.write_feather(labels, path, compression="uncompressed")
    raw = bytearray(path.read_bytes())
    raw[1_000:2_000] = b"\xff" * 1_000
    path.write_bytes(raw)
    refused(path, r"rows\.arrow is not a valid Arrow")
    path.write_bytes(raw[:1_000])
    refused(path, r"rows\.arrow is not a valid Arrow")
    path.write_bytes(b"no such thing")
    refused(path, r"rows\.arrow is not a valid Arrow")


def test_truncated_gzip_file(tmp_path: Path) -> None:
    lines = text(20_000)
    whole = gzip.compress(lines.encode())
    good, bad = tmp_path / "a.csv.gz", tmp_path / "b.csv.gz"
    good.write_bytes(whole)
    bad.write_bytes(whole[: len(whole) // 2])
    refused(
        [good, bad], r"b\.csv\.gz cannot be read as CSV .*ended before.*: take a fresh"
    )
    bad.write_bytes(b"not packed at all")
    refused([good, bad], r"b\.csv\.gz cannot be read as CSV")


def test_gzip_that_is_damaged_and_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    raw = bytearray(gzip.compress(b"a,\xe9,y\n" + text(90, "").encode()))
    raw[-6] ^= 255  # of the checksum
    path.write_bytes(raw)
    refused(path, r"rows\.csv\.gz.* is not UTF-8")


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_names_that_hold_nul(ending: str, tmp_path: Path) -> None:
    """Arrow ends a name there when it hands a table on: two columns might be one."""
    path = tmp_path / f"rows.{ending}"
    table = TABLE.rename_columns(["a", "b\0", "y"])
    if ending == "csv":
        path.write_text(text(90, "a,b\0,y\n"))
    elif ending == "parquet":
        pq.write_table(table, path)
    else:
        pyarrow.feather.write_feather(table, path)
    refused(path, rf"rows\.{ending} has the column 'b\\x00'")


@pytest.mark.parametrize("ending", [".parquet", ".arrow", ".csv.gz"])
def test_other_formats_that_are_called_csv(ending: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    if ending == ".parquet":
        pq.write_table(TABLE, path)
    elif ending == ".arrow":
        pyarrow.feather.write_feather(TABLE, path)
    else:
        path.write_bytes(gzip.compress(text(90).encode()))
    refused(path, rf"rows\.csv is not a CSV file.* end in \{ending}")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    table = TABLE.rename_columns(["naïve", "b", "y"])
    pyarrow.feather.write_feather(table, path, compression="uncompressed")
    path.write_bytes(path.read_bytes().replace("naïve".encode(), b"na\xff\xffve"))
    refused(path, r"rows\.arrow is not a valid Arrow file .*utf-8")


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "rows.arrow"])
def test_forbidden_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read everything, so the system's answer is faked."""
    path = tmp_path / name
    path.write_text(text(10))

    def forbid(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", forbid)
    monkeypatch.setattr(pq, "read_metadata", forbid)
    refused(path, rf"{name} cannot be read: permission")


def test_names_that_match_nothing(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(text(5))
    refused(tmp_path / "visit-*.csv", r"No file matches '.*visit-\*\.csv'")
    refused(tmp_path / "vsits.csv", "no file .*did you mean .*visits.csv")
    refused(tmp_path, "folder .* contains no Parquet file")
    refused([], "give at least one")
    refused([tmp_path / "visits.csv"] * 2, r"visits\.csv is named twice")
    refused([tmp_path / "visits.csv", tmp_path / "v*.csv"], "named twice")


def test_a_file_by_two_paths_is_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("a,y\nu,n\nv,p\n")
    (tmp_path / "link.csv").symlink_to(path)
    (tmp_path / "copy.csv").write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    refused(["visits.csv", path], r"visits\.csv is the same file as visits\.csv")
    refused([path, tmp_path / "link.csv"], r"link\.csv is the same file as .*visits")
    refused(["*.csv"], "the same file as")
    both = Marginals.from_file([path, "copy.csv"], target="y")
    assert both.n == 4


def test_names_with_brackets_are_names_first(tmp_path: Path) -> None:
    path = tmp_path / "visits [1].csv"
    path.write_text(text(300))
    assert Marginals.from_file(path, target="y").n == 300


def test_column_of_two_types(tmp_path: Path) -> None:
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    pq.write_table(TABLE, one)
    words = pa.array(np.array(["few", "many"])[np.arange(1000) % 2])
    pq.write_table(TABLE.set_column(1, "b", words), two)
    told = r"two\.parquet has the column 'b' as string, but .*one\.parquet as int64"
    refused([one, two], told)
    assert Marginals.from_file([one, two], target="y", columns=["a"]).n == 2_000
    small = TABLE.set_column(1, "b", TABLE["b"].cast(pa.int16()))
    pq.write_table(small, two)  # integers all the same
    assert Marginals.from_file([one, two], target="y").n == 2_000


def test_column_that_turns_to_text_halfway_is_of_text(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text(text(900))
    two.write_text(text(900).replace(",7,", ",seven,"))
    with pytest.warns(renyi.warnings.DataWarning, match="'b' would be numeric"):
        m = Marginals.from_file([one, two], target="y")
    assert m.categories["b"][-1] == "seven"
    # An encoder that was fitted with numbers cannot take it.
    fitted = Marginals.from_file(one, target="y", encoder=renyi.Encoder(numeric=["b"]))
    told = r"two\.csv: Column 'b' .*holds 'seven'"
    refused([one, two], told, encoder=fitted.encoder)


def test_columns_that_files_lack(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text(text(9))
    two.write_text(text(9).replace("a,b,y", "a,bb,y"))
    refused([one, two], r"two\.csv has no column 'b': did you mean 'bb'")
    two.write_text("a,b,extra,y\nx,1,2,u\n")
    refused([one, two], r"one\.csv has no column 'extra'")
    assert Marginals.from_file([one, two], target="y", columns=["a"]).n == 10
    refused(one, r"one\.csv has no column 'q': it has .*'\.$", columns=["q"])
    refused(one, r"one\.csv has no column 'weight'", weight="weight")
    with pytest.raises(ValueError, match=r"one\.csv has no column 'z'"):
        Marginals.from_file(one, target="z")


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    one, two = tmp_path / "one.csv", tmp_path / "two.parquet"
    one.write_text(text(9))
    pq.write_table(TABLE, two)
    refused([one, two], r"two\.parquet has another format than .*one\.csv")


def test_empty_files(tmp_path: Path) -> None:
    good, empty = tmp_path / "good.csv", tmp_path / "empty.csv"
    good.write_text(text(300))
    empty.write_text("")
    refused([good, empty], r"empty\.csv is empty")
    empty.write_text("a,b,y\n")
    refused(empty, r"empty\.csv has a header but no rows")
    assert Marginals.from_file([good, empty], target="y").n == 300
    path = tmp_path / "empty.parquet"
    pq.write_table(TABLE[:0], path)
    refused(path, r"empty\.parquet has no rows")
    pyarrow.feather.write_feather(TABLE[:0], tmp_path / "empty.arrow")
    refused(tmp_path / "empty.arrow", r"empty\.arrow has no rows")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x,1\n", r"rows\.csv, line 2002: 2 cells where the header has 3"),
        ("x,1,u,v\n", r"rows\.csv, line 2002: 4 cells where"),
        ("\xe9,1,u\n", r"rows\.csv, line 2002: byte 1 \(0xe9\) is not UTF-8"),
        ('"x\ny",1\n', r"rows\.csv, line 2002: 2 cells where"),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_wrong_lines_are_named(
    line: str, message: str, ending: str, tmp_path: Path
) -> None:
    path = tmp_path / f"rows.{ending}"
    raw = (text(2_000) + line).encode("latin-1") + text(2_000, "").encode()
    path.write_bytes(gzip.compress(raw) if ending == "csv.gz" else raw)
    refused(path, message.replace(r"\.csv", rf"\.{ending}"))


def test_weights_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,w,y\n" + "x,1,u\nz,2.5,v\n" * 30)
    assert Marginals.from_file(path, target="y", weight="w").n == 105
    path.write_text("a,w,y\n" + "x,1,u\nz,many,v\n" * 30)
    refused(path, r"rows\.csv: The weight of row 1 .* 'w' is 'many'", weight="w")
    path.write_text("a,w,y\n" + "x,1,u\nz,-2,v\n" * 30)
    refused(path, r"rows\.csv: The weight of row 1 .*is -2", weight="w")


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.arrow", "t.arrows"])
def test_row_of_a_weight_is_that_in_the_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "PIECE", 100)
    monkeypatch.setattr(arrow, "_PIECE", 1)
    weights = [1.0] * 119 + [-1.0]
    table = pa.table({"a": ["u", "v"] * 60, "w": weights, "y": ["n", "n", "p"] * 40})
    path = tmp_path / name.replace("arrows", "arrow")
    if name == "t.csv":
        pa.csv.write_csv(table, path)
    elif name == "t.parquet":
        pq.write_table(table, path, row_group_size=50)
    else:
        new = pa.ipc.new_file if name == "t.arrow" else pa.ipc.new_stream
        with new(path, table.schema) as writer:
            writer.write_table(table, max_chunksize=50)
    refused(path, "The weight of row 119 .*in column 'w' is -1", weight="w")
    refused(path, "A weight in column 'w' is -1", weight="w", where="a = 'v'")


def test_indices_beyond_a_dictionary_are_damage(tmp_path):
    """A page is damaged so that its dictionary codes point nowhere."""
    labels = [f"label {k}" for k in range(5)] * 400
    table = pa.table({"a": labels, "y": ["n", "p"] * 1000})
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(table, path, compression="none")
    assert renyi.Marginals.from_file(path, target="y").n == 2000
    column = pa.parquet.read_metadata(path).row_group(0).column(0)
    end = column.dictionary_page_offset + column.total_compressed_size
    data = bytearray(path.read_bytes())
    for place in range(end - 200, end):
        data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"t\.parquet is not a valid"):
        renyi.Marginals.from_file(path, target="y")
    with pytest.raises(ValueError, match=r"t\.parquet is not a valid"):
        list(files.batches(path, ["a"]))


def test_rows_that_a_page_of_no_known_kind_hides_are_missed(tmp_path):
    """Arrow passes over such a page, and over the other columns of its row group."""
    table = pa.table({"a": [*range(30)] * 2, "y": ["n", "p"] * 30})
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(table, path, row_group_size=20, compression="none")
    place = pa.parquet.read_metadata(path).row_group(1).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    assert data[place : place + 2] == b"\x15\0"
    data[place + 1] = 1
    path.write_bytes(data)
    for read in (
        lambda: files.read_table(path),
        lambda: renyi.Marginals.from_file(path, target="y"),
    ):
        with pytest.raises(ValueError, match=r"t\.parquet is not a valid"):
            read()


def test_a_dictionary_that_has_a_label_twice_is_damage_on_every_road(tmp_path):
    """Arrow reads plain texts of it, or a dictionary with indices beyond its end."""
    labels = ["red", "green", None, "blue"]
    table = pa.table({"a": labels * 20, "y": ["n", "p"] * 40})
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(table, path, compression="none")
    data = path.read_bytes()
    green = b"\5\0\0\0green"
    assert green in data
    path.write_bytes(data.replace(green, bytes(8) + b"n"))
    for read in (
        lambda: files.read_table(path),
        lambda: renyi.Marginals.from_file(path, target="y"),
    ):
        with pytest.raises(ValueError, match=r"t\.parquet is not a valid"):
            read()


def test_page_checksums_are_looked_at(tmp_path):
    table = pa.table({"a": list(range(2000)), "y": ["n", "p"] * 1000})
    path = tmp_path / "t.parquet"
    pa.parquet.write_table(
        table, path, compression="none", use_dictionary=False, write_page_checksum=True
    )
    column = pa.parquet.read_metadata(path).row_group(0).column(0)
    place = column.data_page_offset + column.total_compressed_size // 2
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"t\.parquet is not a valid"):
        renyi.Marginals.from_file(path, target="y")
    with pytest.raises(ValueError, match=r"t\.parquet is not a valid"):
        files.read_table(path)
