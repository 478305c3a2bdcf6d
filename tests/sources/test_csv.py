"""CSV files in blocks: the cells that Python's reader finds, wherever blocks end."""

from __future__ import annotations

import csv as python_csv
import gzip
import io
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import renyi
from renyi import Marginals
from renyi.sources import csv, files
from renyi.sources.csv import read_header

Cells = list[tuple[str, ...]]


def in_blocks(path: Path, size: int) -> Cells | str:
    """The cells of a file that is read in blocks, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "PIECE", size)
        try:
            table = csv.CsvFile(path)
            units = list(table.units(0, table.header.names))
        except ValueError as error:
            return str(error)
    rows = []
    for unit in units:
        assert unit.start == len(rows)
        for batch in unit.read():
            rows += [tuple(row.values()) for row in batch.to_pylist()]
    return rows


def by_python(content: str) -> Cells | str:
    """The cells that Python's reader finds, or the number of those in a wrong line."""
    header, *records = python_csv.reader(io.StringIO(content, newline=""))
    rows = []
    for cells in records:
        if not cells and len(header) > 1:
            continue
        if len(cells or [""]) != len(header):
            return f"{len(cells)} cell"
        rows.append(tuple(cell.strip() for cell in cells or [""]))
    return rows


ANY_TEXT = st.text(st.sampled_from('x1 ,\n\r"'), max_size=40)
CELL = st.text(st.sampled_from('x1 ,\n\r"é'), max_size=4)
RECORDS = st.lists(
    st.tuples(
        st.lists(st.tuples(CELL, st.booleans()), min_size=2, max_size=2),
        st.sampled_from(["\n", "\n", "\r\n", "\r", ""]),
    ),
    max_size=8,
)


def written(records: list[tuple[list[tuple[str, bool]], str]]) -> str:
    lines = []
    for cells, end in records:
        texts = [
            '"' + cell.replace('"', '""') + '"'
            if quoted
            else cell.translate(dict.fromkeys(map(ord, ",\n\r")))
            for cell, quoted in cells
        ]
        lines.append(",".join(texts) + end)
    return "".join(lines)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pieces") / "table.csv"


@settings(max_examples=150)
@given(
    st.one_of(ANY_TEXT, RECORDS.map(written)),
    st.sampled_from(["a", "a,b"]),
    st.integers(1, 30),
)
@example('x,"\n"\n5" pipe,1\n"x""\n",y\n', "a,b", 3)
@example('x,y\r\n"\r\n""",y\r\n', "a,b", 1)
@example('11111111111,\n,"""""\r\n1"\n', "a,b", 2)
def test_blocks_are_what_python_reads(
    place: Path, body: str, names: str, size: int
) -> None:
    content = f"{names}\n{body}"
    place.write_bytes(content.encode())
    cells = in_blocks(place, size)
    expected = by_python(content)
    if isinstance(expected, str):
        assert isinstance(cells, str)
        assert expected in cells
    else:
        assert cells == expected


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\r\n1,x\r\n2,y\r\n",
        b"\xef\xbb\xbfa,b\n1,x\n2,y",
        b"\n\na,b\n1,x\n\n\n2,y\n\n",
        b" a , b \n 1 , x \n2,y\n",
        b'"a","b"\n"1","x"\n"2","y"\n',
        b"a;b\n1;x\n2;y\n",
        b"a\tb\n1\tx\n2\ty\n",
        b"a,b\r1,x\r2,y\r",
    ],
)
@pytest.mark.parametrize("size", [1, 4, 7, 1000])
@pytest.mark.parametrize("packed", [False, True])
def test_ways_to_write_the_same_records(
    content: bytes, size: int, packed: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("table.csv.gz" if packed else "table.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    assert read_header(path).names == ["a", "b"]
    assert in_blocks(path, size) == [("1", "x"), ("2", "y")]


def test_header_over_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('\n"two\r\nlines, größe",b\n1,2\n3,4\n')
    header = read_header(path)
    assert header.names == ["two\r\nlines, größe", "b"]
    assert in_blocks(path, 3) == [("1", "2"), ("3", "4")]


@pytest.mark.parametrize("packed", [False, True])
def test_shares_add_up_to_the_file(packed: bool, tmp_path: Path) -> None:
    path = tmp_path / ("table.csv.gz" if packed else "table.csv")
    content = b"a,b\n" + b"12,34\n" * 100_000
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "PIECE", 50_000)
        units = list(csv.CsvFile(path).units(0, ["a"]))
    assert len(units) == 12
    assert min(unit.share for unit in units) >= 0
    assert sum(unit.share for unit in units) == 1.0
    assert [unit.number for unit in units] == list(range(12))


def test_a_header_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for content in ("a,b", "a,b\n", "a,b\r\n", "\n\na,b\n\n\r\n\n"):
        path.write_bytes(content.encode())
        assert in_blocks(path, 100) == []
        with pytest.raises(ValueError, match=r"table\.csv has a header but no rows"):
            files.marginals(path, "b")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_cell_after_the_header_keeps_its_byte_order_mark(
    mark: bytes, tmp_path: Path
) -> None:
    """One mark belongs to the file; others belong to the cells."""
    path = tmp_path / "table.csv"
    path.write_bytes(mark + "a,y\n\ufeffu,n\nu,p\n".encode())
    assert read_header(path).names == ["a", "y"]
    assert in_blocks(path, 1000) == [("\ufeffu", "n"), ("u", "p")]
    assert Marginals.from_file(path, target="y").categories["a"] == ("u", "\ufeffu")


def test_records_longer_than_a_block_are_read(tmp_path: Path) -> None:
    rows = [("1", "x"), ("2", "y" * 1_000), ("3", "z\n" * 20_000 + "z"), ("4", "x")]
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "".join(f'{a},"{b}"\n' for a, b in rows * 3))
    for size in (10, 300, 5_000, 10**6):
        assert in_blocks(path, size) == rows * 3


@pytest.mark.parametrize("packed", [False, True])
def test_a_quote_that_is_never_closed_is_reported_in_time(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "LONGEST_RECORD", 5_000)
    path = tmp_path / ("table.csv.gz" if packed else "table.csv")
    content = 'a,b\n1,2\n3,"4\n' + "5,6\n" * 100_000
    path.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    message = in_blocks(path, 1_000)
    assert "line 3: a record of more than" in message
    assert "close the quote" in message
    path.write_bytes(b"a,b\n" + b"1," * 10_000)
    if not packed:
        assert "line 2: a record of more than" in in_blocks(path, 1_000)


def test_errors_quote_no_cells(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for secret in ("secret", '"secret\n', 'secret,secret,"secret"', "secret,\xff"):
        path.write_bytes(b"a,b\n1,2\n" + secret.encode("latin-1") + b"\n3,4,5\n")
        message = in_blocks(path, 1_000)
        assert "table.csv, line 3: " in message
        assert "secret" not in message


def test_spaces_around_labels_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n x,1\nx ,1\nx,\u00a01\n")
    (unit,) = csv.CsvFile(path).units(0, ["b", "a"], verbatim=["a"])
    (batch,) = unit.read()
    assert batch.schema.names == ["b", "a"]
    assert pa.types.is_dictionary(batch.schema.field("a").type)
    assert batch.to_pydict() == {"b": ["1"] * 3, "a": [" x", "x ", "x"]}


def test_rows_are_scored_alike_wherever_pieces_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = pa.table({"x": [1, 2, 3] * 20, "z": ["a", "b"] * 30})
    clf = renyi.RenyiClassifier(alpha=0.01).fit(X, ["n", "y", "y"] * 20)
    want = clf.decision_function(X.slice(0, 6)).tolist() * 2
    path = tmp_path / "asked.csv"
    path.write_text("x,z\n" + "1.0,a\n2,b\n+3.0,a\n1,b\n 2,a\n3.,b\n" * 2 + "abc,a\n")
    kinds = files.column_kinds(clf.encoder_)
    for size in (40, csv.PIECE):
        monkeypatch.setattr(csv, "PIECE", size)
        batches = files.batches(path, ["x", "z"], kinds=kinds)
        found = [score for batch in batches for score in clf.decision_function(batch)]
        assert found[:-1] == want
        assert found[-1] not in want


def test_integer_labels_are_counted_cell_by_cell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "PIECE", 40)
    large = 2**53 + 1
    known = pa.table({"x": [1, 2, large, large - 1] * 10})
    encoder = renyi.Encoder(numeric=()).fit(known)
    path = tmp_path / "rows.csv"
    path.write_text("x,y\n" + f"1.0,n\n+2,p\n{large},n\nabc,p\nnan,p\nx,n\ny,p\n" * 9)
    m = Marginals.from_file(path, target="y", encoder=encoder)
    cells = [1, 2, large, "abc", None, "x", "y"] * 9
    rows = pa.table(
        {"x": [None if c is None else str(c) for c in cells], "y": list("npnppnp") * 9}
    )
    assert m == Marginals.from_data(rows, target="y", encoder=encoder)


def test_booleans_read_the_same_in_every_format(tmp_path: Path) -> None:
    table = pa.table({"a": [True, False, None] * 20, "y": ["n", "p"] * 30})
    cells = zip(["True", "False", ""] * 20, ["n", "p"] * 30, strict=True)
    (tmp_path / "rows.csv").write_text("\n".join(["a,y", *map(",".join, cells)]))
    pq.write_table(table, tmp_path / "rows.parquet")
    first = files.marginals(tmp_path / "rows.csv", "y")
    second = files.marginals(tmp_path / "rows.parquet", "y")
    assert first == second
    assert second.categories["a"] == (False, True, None)
    whole = table.set_column(0, "a", table["a"].cast(pa.int8()))
    assert first != Marginals.from_data(whole, target="y")


def test_quote_of_the_header_that_is_never_closed(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('a,"y\n' + "1,2\n" * 50)
    with pytest.raises(ValueError, match="spans many lines, so a quote in it"):
        files.marginals(path, "y")


@pytest.mark.parametrize("streamed", [False, True])
def test_odd_names_and_packings(streamed: bool, tmp_path: Path) -> None:
    """Upper-case endings, padding, several members: the same rows."""
    body = b"a,y\n" + b"u,0\nv,1\nu,1\n" * 20
    packed = gzip.compress(body)
    members = gzip.compress(body[:60]), gzip.compress(b""), gzip.compress(body[60:])
    for name, data in {
        "t.CSV": body,
        "t.CSV.GZ": packed,
        "T.Txt.Gz": packed,
        "t.TSV.GZ": gzip.compress(body.replace(b",", b"\t")),
        "padded.csv.gz": packed + bytes(700),
        "members.csv.gz": b"".join(members),
        "padded members.csv.gz": bytes(100).join(members),
    }.items():
        path = tmp_path / name
        path.write_bytes(data)
        if streamed:
            assert Marginals.from_file(path, target="y").n == 60
        else:
            assert files.read_table(path)["y"].to_pylist() == [0, 1, 1] * 20


# Not ru_maxrss, which begins with what the process took that started this one.
PEAK = """
import sys
import renyi
m = renyi.Marginals.from_file(sys.argv[1], target="y")
peak = [line.split() for line in open("/proc/self/status") if "VmHWM" in line]
print(m.n, int(peak[0][1]) // 1024)
"""


@pytest.mark.long
def test_a_long_record_takes_little_memory(tmp_path: Path) -> None:
    """Arrow reads 36 blocks ahead, which are as long as the longest record."""
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b"a,y\nu," + b"x" * 20_000_000 + b"\n")
        for _ in range(40):
            stream.write(b"uvw,1\nxyz,0\n" * 1_000_000)
    assert path.stat().st_size < 2**22
    command = [sys.executable, "-c", PEAK, str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    n, peak = map(int, answer.stdout.split())
    assert n == 80_000_001
    assert peak < 750
