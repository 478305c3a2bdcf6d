"""Tables in files: types of CSV columns, odd files, and what is said of broken ones."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import renyi
from renyi.limits import MemoryBudgetError, memory_limit
from renyi.sources import csv as csvfiles
from renyi.sources import files
from renyi.warnings import DataWarning


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
    return path


@pytest.mark.parametrize("name", renyi.datasets.names())
def test_bundled_files_are_read_as_declared(name: str) -> None:
    X, y = renyi.datasets.load(name)
    m = renyi.Marginals.from_file(renyi.datasets.path(name), target=str(y.name))
    assert m == renyi.Marginals.from_data(X, y)


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "-2", "30"], "int64", [1, -2, 30]),
        (["1", "?", ""], "int64", [1, None, None]),
        (["1", "2.5", "1e3"], "double", [1.0, 2.5, 1000.0]),
        (["007", "1", "2"], "string", ["007", "1", "2"]),
        (["1", "two", "three"], "string", ["1", "two", "three"]),
        ([" 1", "2 ", "3"], "int64", [1, 2, 3]),
        ([" y", "n ", "y"], "string", ["y", "n", "y"]),
        (["?", "", "?"], "string", ["?", "", "?"]),
        (["1", str(2**63), "?"], "uint64", [1, 2**63, None]),
        (["-1", str(2**63), "?"], "decimal128(38, 0)", [-1, 2**63, None]),
        (["1", "2", "9" * 39], "string", None),
        (["None", "NULL", "none"], "string", ["None", "NULL", "none"]),
        (["True", "False", "True"], "string", ["True", "False", "True"]),
    ],
)
def test_types_of_columns(
    cells: list[str], kind: str, values: list[object] | None, tmp_path: Path
) -> None:
    lines = ["a,b", *(f'"{cell}",x' for cell in cells)]
    table = files.read_table(write(tmp_path, "\n".join(lines)))
    assert str(table["a"].type) == kind
    assert table["a"].to_pylist() == (cells if values is None else values)


def test_nan_is_a_missing_number(tmp_path: Path) -> None:
    values = files.read_table(write(tmp_path, "a,b\n1.5,x\nnan,y\n"))["a"].to_pylist()
    assert values[0] == 1.5
    assert np.isnan(values[1])


def test_type_is_that_of_the_whole_column(tmp_path: Path) -> None:
    # Longer than a reader's block, and text only in its last line.
    number = 2_000_000
    path = write(tmp_path, "a,b\n" + "12345.5,x\n" * number + "many,y\n")
    assert path.stat().st_size > csvfiles.PIECE
    with pytest.warns(DataWarning, match="'a' would be numeric except for 'many'"):
        table = files.read_table(path)
    assert table.num_rows == number + 1
    assert str(table["a"].type) == "string"
    assert table["a"][0].as_py() == "12345.5"


def test_own_missing_codes_do_not_make_labels(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b\n1.5,x\nNA,y\n-9,z\n2,z\n")
    with pytest.warns(DataWarning, match="'NA'.*pass it as a missing code") as seen:
        assert str(files.read_table(path)["a"].type) == "string"
    assert seen[0].message.options == ("missing=NA",)
    column = files.read_table(path, missing=("NA", -9))["a"]
    assert column.to_pylist() == [1.5, None, None, 2.0]


def test_labels_with_a_word_are_no_cause_to_warn(tmp_path: Path) -> None:
    path = write(tmp_path, "children,b\n0,x\n1,x\n2,y\n3+,y\n")
    assert str(files.read_table(path)["children"].type) == "string"


def test_kinds_overrule_the_guess(tmp_path: Path) -> None:
    path = write(tmp_path, "a,b,c\n1.50, 7 ,007\n2.0,8,1\n")
    kinds = {"a": "label", "b": "verbatim", "c": "number"}
    table = files.read_table(path, kinds=kinds)
    assert table.to_pydict() == {
        "a": ["1.50", "2.0"],
        "b": [" 7 ", "8"],
        "c": [7.0, 1.0],
    }


def test_number_that_is_none_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "age,b\n1,x\nold,y\n")
    with pytest.raises(ValueError, match="'age' is numeric but holds 'old'"):
        files.read_table(path, kinds={"age": "number"})


def test_kinds_of_an_encoder() -> None:
    frame = pd.DataFrame({"s": ["1.50", "b"], "i": [1, 2], "f": [0.5, 1.5]})
    kinds = files.column_kinds(renyi.Encoder().fit(frame))
    assert kinds == {"s": "label", "i": "figure", "f": "number"}


def test_columns_are_chosen_in_order(tmp_path: Path) -> None:
    table = files.read_table(write(tmp_path, "a,b,c\n1,2,3\n"), ["c", "a"])
    assert table.to_pydict() == {"c": [3], "a": [1]}


@pytest.mark.parametrize(
    ("header", "delimiter", "names"),
    [
        ('a;"b,c";y', ";", ["a", "b,c", "y"]),
        ('a,"b;c",y', ",", ["a", "b;c", "y"]),
        ('"a\tb;c"', ",", ["a\tb;c"]),
        ('a;"b""q"",c";y', ";", ["a", 'b"q",c', "y"]),
        ('"two,\nlines";b', ";", ["two,\nlines", "b"]),
        ('"two;\n;lines"\t"b,\n"\tc', "\t", ["two;\n;lines", "b,", "c"]),
        ("a;b,c", ",", ["a;b", "c"]),
    ],
)
def test_delimiters_within_quotes_separate_nothing(
    header: str, delimiter: str, names: list[str], tmp_path: Path
) -> None:
    row = delimiter.join("1" for _ in names)
    path = write(tmp_path, f"{header}\n{row}\n")
    assert files.read_table(path).to_pydict() == {name: [1] for name in names}


def test_blank_lines_are_cells_of_a_single_column(tmp_path: Path) -> None:
    path = write(tmp_path, "\n\na\nx\n\ny\n")
    assert files.read_table(path)["a"].to_pylist() == ["x", "", "y"]
    path = write(tmp_path, "a\r\n1\r\n\r\n2\r\n\r\n")
    assert files.read_table(path)["a"].to_pylist() == [1, None, 2, None]
    path = write(tmp_path, "a,b\n1,2\n\n3,4\n")
    assert files.read_table(path)["a"].to_pylist() == [1, 3]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["n", "y", "?"], ["n", "y", "?"]),
        ([" n", "y ", "n"], ["n", "y", "n"]),
        (["0", "1", "?"], [0, 1, None]),
        (["nan", "0.5", "nan"], None),
        (["-.5", "2", "2"], [-0.5, 2.0, 2.0]),
        (["n", "1", "2"], ["n", "1", "2"]),
    ],
)
def test_types_of_long_columns_of_few_cells(
    cells: list[str], values: list[object] | None, tmp_path: Path
) -> None:
    lines = ["a,b", *(f'"{cell}",x' for cell in cells * 100)]
    found = files.read_table(write(tmp_path, "\n".join(lines)))["a"]
    if values is None:
        assert str(found.type) == "double"
        assert np.isnan(found.to_numpy()).sum() == 200
    else:
        assert found.to_pylist() == values * 100


def test_odd_names(tmp_path: Path) -> None:
    path = write(tmp_path, '"a, ""q""","two\nlines",größe,\n1,2,3,4\n')
    names = ['a, "q"', "two\nlines", "größe", "column 4"]
    assert files.opened(path).schema.names == names
    assert files.read_table(path).num_rows == 1


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1).filter(
    lambda name: name == name.strip()
)
CELLS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=8
)


@given(
    st.lists(NAMES, min_size=2, max_size=4, unique=True),
    st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), min_size=1, max_size=6),
)
def test_any_text_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    names: list[str],
    rows: list[tuple[str, ...]],
) -> None:
    stream = io.StringIO()
    # Quotes around everything: an unquoted blank line would be no row at all.
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n")
    cells = [row[: len(names)] for row in rows]
    writer.writerows([names, *cells])
    path = write(tmp_path_factory.mktemp("csv"), stream.getvalue())
    table = files.read_table(path, kinds=dict.fromkeys(names, "verbatim"))
    assert table.column_names == names
    assert [tuple(row.values()) for row in table.to_pylist()] == cells


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("", "empty.csv", "empty.csv is empty"),
        ("", "empty.parquet", "empty.parquet is empty"),
        ("\n \n", "blank.csv", "blank.csv is empty"),
        (",,\n,,\n", "nameless.csv", "nameless.csv is empty"),
        ("a,b\n", "header.csv", "header.csv has a header but no rows"),
        ("a,b\n1,2\n\n3,4,5\n", "ragged.csv", "line 4: 3 cells .* header has 2"),
        ("a,b\n1\n", "short.csv", "line 2: 1 cell where the header has 2"),
        ('a,b\n"x\ny",2\n3\n', "ragged.csv", "line 4: 1 cell "),
        ("a,b,a\n1,2,3\n", "twice.csv", "two columns named 'a' .numbers 1 and 3"),
        (
            b"a,b\n1,x\n2,\xe9t\xe9\n",
            "latin.csv",
            r"line 3: byte 3 .0xe9. is not UTF-8",
        ),
        (b"\xe9,b\n1,x\n", "latin.csv", r"line 1: byte 1 .0xe9. is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "wide.csv", "line 1: .* not UTF-8"),
        ("a,b\n1,2\n", "table.xlsx", "table.xlsx ends in '.xlsx'"),
        ("a,b\n1,2\n", "table", "table has no ending"),
        ("PAR1 and no more", "cut.parquet", "cut.parquet is not a valid Parquet"),
    ],
)
def test_broken_files_are_named(
    content: str | bytes, name: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        files.read_table(write(tmp_path, content, name))


def test_missing_file_folder_and_column(tmp_path: Path) -> None:
    path = write(tmp_path, "age,sex\n1,2\n", "visits.csv")
    with pytest.raises(ValueError, match=r"no file .*vsits.csv'.*visits.csv"):
        files.read_table(tmp_path / "vsits.csv")
    with pytest.raises(ValueError, match="is a folder"):
        files.read_table(tmp_path)
    with pytest.raises(ValueError, match="no column 'agee': did you mean 'age'"):
        files.read_table(path, ["agee"])


def test_parquet_keeps_types_and_drops_the_index(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": ["1", "2"], "b": [0.5, None]}, index=[5, 9])
    path = tmp_path / "frame.parquet"
    frame.to_parquet(path)
    table = files.read_table(path)
    assert table.to_pydict() == {"a": ["1", "2"], "b": [0.5, None]}


def test_from_file_uses_a_fitted_encoder(tmp_path: Path) -> None:
    text = "a,n,y\n1.50,0.5,u\nx,2.5,v\nz,3.5,v\n"
    whole = renyi.Marginals.from_file(write(tmp_path, text), target="y")
    # Alone, these rows would make a a number and n an integer of other bins.
    part = write(tmp_path, "y,n,a,extra\nv,3,1.50,9\nu,1,1.50,9\n", "part.csv")
    m = renyi.Marginals.from_file(part, target="y", encoder=whole.encoder)
    assert m.categories["a"] == ("1.50",)
    assert m.categories["n"] == whole.categories["n"]
    assert (whole + m).n == 5


def test_a_table_that_unfolds_beyond_the_memory_is_refused(tmp_path: Path) -> None:
    """Its size is that of its text, not of the file, and the whole file's."""
    path = tmp_path / "rows.parquet"
    labels = pa.array(["a" * 1_000, "b" * 1_000])
    codes = pa.array([0, 1] * 100_000, pa.int8())
    table = pa.table({"x": pa.DictionaryArray.from_arrays(codes, labels)})
    pq.write_table(table, path, row_group_size=10_000)
    assert path.stat().st_size < 10**6
    with memory_limit(50_000_000), pytest.raises(MemoryBudgetError) as raised:
        files.read_table(path)
    assert "Holding the rows of" in str(raised.value)
    assert "would take about 415 MB" in str(raised.value)
