"""CSV files in pieces: the same cells as a file read whole, wherever it is cut."""

from __future__ import annotations

import gzip
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


def in_pieces(path: Path, size: int) -> Cells | str:
    """The trimmed cells of a file that is cut, or what is said of it."""
    try:
        table = csv.CsvFile(path)
        parts = [
            table.parse(piece.data, table.header.names)
            for piece in csv.pieces(path, table.header, size)
        ]
    except ValueError as error:
        return str(error)
    return [tuple(row.values()) for part in parts if part for row in part.to_pylist()]


def at_once(path: Path) -> Cells | str:
    try:
        table = csv.CsvFile(path).read_whole(read_header(path).names)
    except ValueError as error:
        return str(error)
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [tuple(cell.strip() for cell in row) for row in rows]


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


@settings(max_examples=120)
@given(
    st.one_of(ANY_TEXT, RECORDS.map(written)),
    st.sampled_from(["a", "a,b"]),
    st.integers(1, 30),
)
@example('x,"\n"\n5" pipe,1\n"x""\n",y\n', "a,b", 3)
@example('x,y\r\n"\r\n""",y\r\n', "a,b", 1)
def test_pieces_are_the_whole(place: Path, body: str, names: str, size: int) -> None:
    place.write_bytes(f"{names}\n{body}".encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv, "_MOST_PIECES", 10**6)
        assert in_pieces(place, size) == at_once(place)


@given(RECORDS.map(written), st.integers(1, 60))
def test_records_end_outside_of_quotes(body: str, size: int) -> None:
    """Against a reading of one byte after the other."""
    data = body.encode()[:size]
    ends, quoted, start, k = [0], False, True, 0
    while k < len(data):
        byte = data[k : k + 1]
        if quoted:
            if byte == b'"' and data[k + 1 : k + 2] == b'"':
                k += 1
            elif byte == b'"':
                quoted = False
        elif byte == b'"' and start:
            quoted = True
        elif byte == b"\n":
            ends.append(k + 1)
        start = not quoted and byte in (b",", b"\n", b"\r")
        k += 1
    found = csv.record_end(data)
    if len(ends) > 1:
        assert found == ends[-1]
    else:  # no newline: a carriage return may end a record
        assert found == 0 or data[found - 1 : found] == b"\r"


@pytest.mark.parametrize(
    "content",
    [
        b"a,b\r\n1,x\r\n2,y\r\n",
        b"\xef\xbb\xbfa,b\n1,x\n2,y",
        b"\n\na,b\n1,x\n\n\n2,y\n\n",
        b" a , b \n 1 , x \n2,y\n",
        b'"a","b"\n"1","x"\n"2","y"\n',
        b"a;b\n1;x\n2;y\n",
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
    assert in_pieces(path, size) == [("1", "x"), ("2", "y")]


def test_header_over_several_lines(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('\n"two\r\nlines, größe",b\n1,2\n3,4\n')
    header = read_header(path)
    assert header.names == ["two\r\nlines, größe", "b"]
    assert in_pieces(path, 3) == [("1", "2"), ("3", "4")]


def test_pieces_end_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n" + "12,34\n" * 1000)
    header = read_header(path)
    found = list(csv.pieces(path, header, 500))
    assert b"".join(piece.data for piece in found) == path.read_bytes()[4:]
    assert max(len(piece.data) for piece in found) <= 506
    ends = [piece.end for piece in found]
    assert ends == sorted(ends)
    assert ends[-1] == 1.0


def test_quote_that_is_never_closed_is_told_in_time(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text('a,b\n1,2\n3,"4\n' + "5,6\n" * 100_000)
    header = read_header(path)
    with pytest.raises(ValueError, match=r"table\.csv has a record .*'3,\"4.*close"):
        for piece in csv.pieces(path, header, 1000):
            assert len(piece.data) < 2000


def test_labels_with_spaces_are_one_label(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("a,b\n x,1\nx ,1\nx,\u00a01\n")
    table = csv.CsvFile(path)
    (piece,) = csv.pieces(path, table.header)
    batch = table.parse(piece.data, ["b", "a"], verbatim=["a"])
    assert batch is not None
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
