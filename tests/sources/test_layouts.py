"""Text tables as they come: the same table as CSV, whatever header and separator."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import renyi
from renyi import Marginals
from renyi.sources import csv, files
from renyi.sources.csv import CsvFile
from renyi.sources.layouts import PLAIN, Header, Layout, arff_cells
from renyi.warnings import DataWarning
from support.layouts import LAYOUTS, arff, in_blanks, orange, plain

Cells = list[tuple[str, ...]]
Table = tuple[list[str], list[list[str]]]
VOTES = renyi.datasets.path("votes")


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


def cells_of(path: Path, layout: Layout = PLAIN, size: int = 0) -> Cells:
    """The cells of a file, read in blocks of a size."""
    with pytest.MonkeyPatch.context() as patch:
        if size:
            patch.setattr(csv, "PIECE", size)
        file = CsvFile(path, layout)
        units = list(file.units(0, file.schema.names))
    batches = [batch for unit in units for batch in unit.read()]
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def header_of(path: Path, **said: object) -> Header:
    layout = {"sep": None, "header": True, "names": None} | said
    return csv.read_header(path, Layout.of(**layout))


@pytest.fixture(scope="module")
def votes_rows() -> Table:
    lines = VOTES.read_text().splitlines()
    names, *rows = [line.split(",") for line in lines]
    return names, rows


# ---- the same counts as those of CSV


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_has_the_counts_of_csv(
    name: str,
    packed: str,
    votes_rows: Table,
    tmp_path: Path,
) -> None:
    names, rows = votes_rows
    path = write(tmp_path, LAYOUTS[name](names, rows), name + packed)
    m = Marginals.from_file(path, target="party")
    expected = Marginals.from_file(VOTES, target="party")
    assert m == expected
    assert m.digest == expected.digest
    assert m.counts.tobytes() == expected.counts.tobytes()
    table = files.read_table(path)
    assert table.equals(files.read_table(VOTES))


@pytest.mark.parametrize("blanks", [False, True])
def test_names_take_the_place_of_a_header(
    blanks: bool, votes_rows: Table, tmp_path: Path
) -> None:
    names, rows = votes_rows
    text = (in_blanks if blanks else plain)(names, rows)
    path = write(tmp_path, "\n" + text.split("\n", 1)[1], "votes.data")
    expected = Marginals.from_file(VOTES, target="party")
    assert Marginals.from_file(path, target="party", names=names) == expected
    m = Marginals.from_file(path, target="x17", header=False)
    assert list(m.columns.names) == [f"x{k}" for k in range(1, 18)]
    assert (m.counts == expected.counts).all()


NO_EDGES = st.text(st.sampled_from("ab1é ,;'\"%{}\\@|?"), max_size=5)
TABLES = st.lists(
    st.tuples(NO_EDGES, NO_EDGES).filter(lambda row: any(c.strip() for c in row)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=150)
@given(TABLES, st.integers(1, 40), st.sampled_from(["'", '"']))
def test_quoted_cells_are_those_of_csv(
    tmp_path_factory: pytest.TempPathFactory, rows: Cells, size: int, quote: str
) -> None:
    folder = tmp_path_factory.mktemp("cells")
    names = ["a b", "c"]
    expected = cells_of(write(folder, plain(names, rows)))
    assert expected == [tuple(cell.strip() for cell in row) for row in rows]
    for keel in (False, True):
        path = write(folder, arff(names, rows, keel, quote), "t.arff")
        assert cells_of(path, size=size) == expected
    blanks = write(folder, in_blanks(names, rows), "t.txt")
    assert cells_of(blanks, Layout.of(" ", True, None), size) == expected


@settings(max_examples=60)
@given(st.lists(st.tuples(*[st.sampled_from(["a", "-1", "2.5", "?", "é"])] * 3)))
def test_blanks_are_recognised(
    tmp_path_factory: pytest.TempPathFactory, rows: Cells
) -> None:
    folder = tmp_path_factory.mktemp("blanks")
    text = in_blanks(["a", "b", "c"], rows)
    for end in ("\n", "\r\n", "\r", " \n"):
        path = write(folder, "\n  \n" + text.replace("\n", end), "t.data")
        assert cells_of(path) == rows


def test_numbers_declared_as_labels_are_labels(tmp_path: Path) -> None:
    """As with kinds="label"; other columns and the classes are as in CSV."""
    rows = [(str(k % 40), str(k % 3), "01"[k % 2]) for k in range(120)]
    codes = ", ".join(map(str, range(40)))
    header = f"@relation r\n@attribute code {{{codes}}}\n@attribute few integer [0, 2]"
    body = "".join(f"{','.join(row)}\n" for row in rows)
    text = f"{header}\n@attribute y {{0, 1}}\n@data\n{body}"
    path = write(tmp_path, text, "t.arff")
    table = write(tmp_path, f"code,few,y\n{body}")
    m = Marginals.from_file(path, target="y")
    assert m == files.marginals(table, "y", kinds={"code": "label"})
    assert m != Marginals.from_file(table, target="y")
    assert m.columns[0].kind == "label"
    assert m.categories["few"] == (0, 1, 2)
    assert m.classes == (0, 1)


def test_an_encoder_has_the_last_word(tmp_path: Path) -> None:
    rows = [(str(k % 40), "np"[k % 2]) for k in range(120)]
    path = write(tmp_path, orange(["a", "y"], rows), "t.tab")
    table = write(tmp_path, plain(["a", "y"], rows))
    encoder = Marginals.from_file(table, target="y").encoder
    assert encoder.columns[0].kind == "number"
    m = Marginals.from_file(path, target="y", encoder=encoder)
    assert m == Marginals.from_file(table, target="y", encoder=encoder)


def test_columns_that_orange_leaves_out(tmp_path: Path) -> None:
    names = ["name", "a", "w", "b", "y"]
    rows = [
        (f"n{k}", "uv"[k % 2], "1", "st"[k % 3 > 0], "np"[k % 5 > 2]) for k in range(60)
    ]
    types = ["string", "d", "c", "s t", "n p"]
    flags = ["meta", "", "i", "unit=cm", "class colour=red"]
    path = write(tmp_path, orange(names, rows, types, flags), "t.tab")
    header = header_of(path)
    assert header.aside == {"name": "meta", "w": "ignore"}
    assert header.target == "y"
    with pytest.warns(DataWarning, match=r"t\.tab: .*left out 'name', 'w'") as caught:
        m = Marginals.from_file(path, target="y")
    assert [w.message.code for w in caught] == ["ignored-column"]
    kept = [(a, b, y) for _, a, _, b, y in rows]
    table = write(tmp_path, plain(["a", "b", "y"], kept))
    assert m == Marginals.from_file(table, target="y")
    with pytest.raises(ValueError, match="no column 'name'"):
        files.read_table(path, ["name"])


# ---- what is recognised


@pytest.mark.parametrize(
    ("name", "content", "names", "said"),
    [
        ("t.csv", "a,b\n1,2\n", "ab", ""),
        ("t.csv", "a;b\n1;2\n", "ab", "2 columns; semicolon-separated"),
        ("t.csv", "a\tb\n1\t2\n", "ab", "2 columns; tab-separated"),
        ("t.tsv", "a\tb\n1\t2\n", "ab", ""),
        ("t.tab", "a, b\tb\n1\t2\n", ["a, b", "b"], ""),
        ("t.dat", "a|b\n1|2\n", "ab", "2 columns; separated by '|'"),
        ("t.dat", "a b\n1  2\n", "ab", "2 columns; separated by blanks"),
        ("t.data", '1  2\t"x y"\n3  4\t"z"\n', ["1", "2", "x y"], "3 columns; sep"),
        ("t.data", "a\tb c\n1\tu v\n", ["a", "b c"], "2 columns; tab-separated"),
        ("t.data", "a\tb\n1\t\t2\n", "ab", "2 columns; separated by blanks"),
        ("t.csv", "a b\n1 2\n", ["a b"], ""),  # a name with a blank
        ("t.txt", "a b\n1 2 3\n", ["a b"], ""),
        ("t.txt", 'a b\n"1 2\n', ["a b"], ""),
        ("t.txt", "a b\n1 2|3\n", ["a b"], ""),
        ("t.csv", "D#a,mS#b,cC#y\n1,2,3\n", "aby", "Orange header, 2 columns, target"),
        ("t.csv", "C#,F#,y\n1,2,3\n", ["C#", "F#", "y"], ""),
        ("t.tab", "a\tcD#y\n1\t2\n", "ay", "Orange header, 2 columns, target 'y'"),
        ("t.csv", "a\tcD#y\n1\t2\n", ["a", "cD#y"], "2 columns; tab-separated"),
    ],
)
def test_what_is_recognised(
    name: str, content: str, names: list[str], said: str, tmp_path: Path
) -> None:
    header = header_of(write(tmp_path, content, name))
    assert header.names == [*names]
    assert header.said.startswith(said)
    assert bool(header.said) == bool(said)


@pytest.mark.parametrize(
    ("types", "flags", "is_orange"),
    [
        ("d,c,s", ",,class", True),
        ("discrete,continuous,string", ",meta,class", True),
        ("c,d,u v", ",,class", True),
        ("c,c,c", ",,", True),
        ("c,u v,u v", ",,", False),  # nobody says that values are listed
        ("c,d,u", ",,class", False),
        ("c,d,s", "c,m,i", False),  # letters of a table, none missing
        ("c,d,s", "a,,class", False),
        ("c,d", ",class", False),
        ("u v,u v,u v", ",,class", False),
    ],
)
def test_three_rows_of_orange(
    types: str, flags: str, is_orange: bool, tmp_path: Path
) -> None:
    content = f"a,b,y\n{types}\n{flags}\n1,2,3\n"
    header = header_of(write(tmp_path, content))
    assert header.lines == (3 if is_orange else 1)
    assert header.said.startswith("Orange header") == is_orange
    assert header.target == ("y" if flags.endswith("class") and is_orange else None)


def test_a_blank_line_is_not_a_row_of_flags(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\nC,T\n\nT,C\n")
    assert cells_of(path) == [("C", "T"), ("T", "C")]


def test_a_header_of_keel(tmp_path: Path) -> None:
    content = """@relation  t
@attribute Age integer[1, 90]
@attribute 'two words'{a,b}
@Attribute Unused real
@attribute Class {yes, no}
@inputs Age, 'two words'
@output Class
@data
7, 'a', 1.5, yes
8,  b , <null>, no
"""
    path = write(tmp_path, content, "t.dat")
    header = header_of(path)
    assert header.names == ["Age", "two words", "Unused", "Class"]
    assert header.target == "Class"
    assert header.labels == {"two words", "Class"}
    assert header.aside == {"Unused": "neither input nor output"}
    assert header.said == (
        "KEEL header, 3 columns, target 'Class', left out 'Unused' (neither input nor "
        "output); comma-separated"
    )
    assert cells_of(path) == [("7", "a", "yes"), ("8", "b", "no")]


def test_rows_of_arff_between_tabs(tmp_path: Path) -> None:
    header = "@relation t\n@attribute a string\n@attribute y date 'yyyy'\n@data\n"
    path = write(tmp_path, f"{header}\n% one\nu\t'v\tw'\n\n'\\'s'\tx\n", "t.arff")
    assert cells_of(path) == [("u", "v\tw"), ("'s", "x")]
    assert header_of(path).said == "ARFF header, 2 columns; tab-separated"


def test_cells_of_arff() -> None:
    assert arff_cells("") == [""]
    assert arff_cells("a, ,b,") == ["a", "", "b", ""]
    assert arff_cells("'a','b','c',", most=1) == ["a", "b"]
    assert arff_cells(
        r"'a\'b' , "
        r'"c\\", d\'e'
    ) == ["a'b", "c\\", r"d\'e"]
    for text in ("'a", "'a'b", '"a\\"', "a, 'b"):
        with pytest.raises(ValueError, match="a quote that is not closed"):
            arff_cells(text)


# ---- refusals


BLANKS = "a  y\n" + "1  2\n" * 20  # the separator is looked for in these lines
ARFF = "@relation t\n@attribute a {u, v}\n@attribute y {n, p}\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.arff", f"{ARFF}@data\n{{0 u, 1 n}}\n", "line 5: a sparse row in braces"),
        ("t.arff", f"{ARFF}@data\nu,n\n\n% x\nu,n,p\n", "line 8: 3 cells where"),
        ("t.arff", f"{ARFF}@data\nu,n\nv,'n\n", "line 6: a quote that is not closed"),
        ("t.arff", f"{ARFF}u,n\n", "line 4: 'u,n' is not part of an ARFF header"),
        ("t.arff", ARFF, "has no line '@data'"),
        ("t.arff", "@relation t\n@data\n1\n", "has no line '@attribute'"),
        ("t.arff", "@relation t\n@attribute areal\n@data\n", "line 2: an '@attribute'"),
        ("t.arff", "@relation t\n@attribute a {u\n@data\n", "line 2: an '@attribute'"),
        ("t.arff", "@relation t\n@attribute a relational\n", "line 2: 'relational' is"),
        ("t.arff", f"{ARFF}@inputs a, b\n@data\nu,n\n", "no '@attribute' names 'b'"),
        ("t.arff", f"{ARFF}@inputs 'a\n@data\nu,n\n", "line 4: a quote"),
        ("t.arff", f"{ARFF}@attribute a real\n@data\nu,n,1\n", "two columns named 'a'"),
        ("t.arff", f"{ARFF}@data\n", "has a header but no rows"),
        ("t.arff", f"{ARFF}@data", "has a header but no rows"),
        ("t.dat", f"{BLANKS}3  4  5\n", "line 22: 3 cells where the header has 2"),
        ("t.dat", f'{BLANKS}3  "4 5\n', "line 22: a quote that is not closed"),
        ("t.dat", f"{BLANKS}3  \udcff\n", r"line 22: byte 4 \(0xff\) is not UTF-8"),
        ("t.dat", "\n \n", "t.dat is empty"),
    ],
)
@pytest.mark.parametrize("size", [csv.PIECE, 5])
def test_broken_files_are_refused_by_line(
    name: str,
    content: str,
    message: str,
    size: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(csv, "PIECE", size)
    path = write(tmp_path, content.encode("utf-8", "surrogateescape"), name)
    with pytest.raises(ValueError, match=message):
        files.marginals(path, "y")


@pytest.mark.parametrize("name", ["t.arff", "t.arff.gz", "t.data.gz", "t.csv"])
def test_headers_are_limited(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_LONGEST_HEADER", 2_000)
    lines = "".join(f"@attribute a{k} real\n" for k in range(1_000))
    for content in (f"@relation t\n{lines}", "% no\n" * 1_000, "x" * 100_000):
        with pytest.raises(
            ValueError, match=rf"{name}.*not end within 2,000 characters"
        ):
            files.marginals(write(tmp_path, content, name), "y")


@pytest.mark.parametrize("content", ["a  y\n1  2\n3  ", f"{ARFF}@data\nu,n\nv,"])
def test_lines_are_limited(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "LONGEST_RECORD", 5_000)
    name = "t.arff" if content[0] == "@" else "t.dat"
    line = content.count("\n") + 1
    path = write(tmp_path, content + "x" * 10_000, name)
    with pytest.raises(ValueError, match=f"line {line}: a record of more than"):
        files.marginals(path, "y")


def test_a_long_first_row_is_not_taken_for_a_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv, "_LONGEST_HEADER", 1_000)
    for row in ("x" * 5_000 + ",n", '"' + "x\n" * 2_000 + '",n'):
        path = write(tmp_path, f"a,y\n{row}\nu,p\n")
        assert [row[1] for row in cells_of(path)] == ["n", "p"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"sep": ";;"}, "sep must be one character, tab or space, not ';;'"),
        ({"sep": '"'}, "sep must be one character"),
        ({"sep": "é"}, "sep must be one character"),
        ({"names": "a,y"}, "names must be a list of names, not a text"),
        ({"names": ["a", ""]}, "none of which is empty"),
        ({"names": ["a"]}, "names has 1 name, but .*t.csv has 2 columns"),
        ({"names": ["A", "Y"]}, r"has these names itself.*sep, header, names"),
        ({"names": ["a", "a"]}, "two columns named 'a'"),
    ],
)
def test_what_cannot_be_said_of_a_table(
    said: dict[str, object], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "a,y\nu,n\nv,p\n", "t.csv")
    with pytest.raises(ValueError, match=message):
        Marginals.from_file(path, target="y", **said)


@pytest.mark.parametrize(
    "said", [{"sep": ";"}, {"header": False}, {"names": ["a", "y"]}]
)
def test_headers_that_say_it_all(said: dict[str, object], tmp_path: Path) -> None:
    rows = [("u", "n"), ("v", "p")]
    cases = {"t.arff": (arff(["a", "y"], rows), "has an ARFF header")}
    if "sep" not in said:
        cases["t.tab"] = (orange(["a", "y"], rows), "has a header of Orange")
    cases["t.parquet"] = ("PAR1", "is not a text table")
    for name, (content, message) in cases.items():
        path = write(tmp_path, content, name)
        with pytest.raises(ValueError, match=message):
            Marginals.from_file(path, target="y", **said)
    with pytest.raises(ValueError, match="are not a text table"):
        Marginals.from_file(target="y", sql="SELECT 1 AS y", **said)


@pytest.mark.parametrize("sep", [";", "\t", "tab", "|", ":", " ", "space", ","])
def test_a_separator_that_is_given(sep: str, tmp_path: Path) -> None:
    char = {"tab": "\t", "space": " "}.get(sep, sep)
    path = write(tmp_path, f'a{char}y\n"1,5;|"{char}2\n')
    assert cells_of(path, Layout.of(sep, True, None)) == [("1,5;|", "2")]
    assert header_of(path, sep=sep).said == ""
