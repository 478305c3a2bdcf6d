"""Tables as offices print them: marks, rounding, totals, absent pairs."""

import json

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.marginals.consistency import TOLERANCE
from renyi.sources.published import Rules, read_csv

AGE = ["young", "old"]
SICK = ["no", "yes"]


def cross(cells, first="age", second="sick", index=AGE, columns=SICK):
    return pd.DataFrame(
        cells, pd.Index(index, name=first), pd.Index(columns, name=second)
    )


def votes_tables(names, base=5, threshold=10):
    """Print the tables of some columns of votes as an office would."""
    X, y = renyi.datasets.load("votes")
    X = X[names].fillna("absent")
    y = y.rename("party")
    frames = []
    columns = [*(X[name] for name in names), y]
    for i, first in enumerate(columns):
        for second in columns[i + 1 :]:
            table = pd.crosstab(first, second, margins=True, margins_name="Total")
            printed = (base * np.floor(table / base + 0.5)).astype(int).astype(str)
            frames.append(printed.where(table >= threshold, "*"))
    return renyi.Marginals.from_data(X, y), frames


@pytest.mark.parametrize("names", [["crime", "immigration"], ["crime"]])
def test_printed_tables_contain_the_counts(names):
    m, tables = votes_tables(names)
    known = renyi.Marginals.from_tables(
        tables, target="party", rounding=5, suppressed_below=10
    )
    record = known.uncertainty
    assert known.categories == m.categories
    assert (record.low <= m.counts).all()
    assert (m.counts <= record.high).all()
    assert record.n_low <= 435 <= record.n_high
    assert record.n_high - record.n_low <= 4
    assert not known.absent
    model = renyi.RenyiClassifier().fit_marginals(known)
    true = renyi.certify(model, m)
    assert true.gamma <= model.certificate_.gamma
    assert known.counts.min() >= 0
    known.validate(TOLERANCE)


def test_absent_pairs_train_and_certify():
    m, tables = votes_tables(["crime", "immigration", "education-spending"])
    kept = [t for t in tables if t.columns.name == "party"]
    known = renyi.Marginals.from_tables(
        kept, target="party", rounding=5, suppressed_below=10
    )
    assert len(known.absent) == 3
    model = renyi.RenyiClassifier().fit_marginals(known)
    assert renyi.certify(model, m).gamma <= model.certificate_.gamma
    mapping = {(t.index.name, t.columns.name): t for t in kept}
    again = renyi.Marginals.from_tables(
        mapping, target="party", rounding=5, suppressed_below=10
    )
    assert again == known


@pytest.mark.parametrize(
    ("cell", "ends"),
    [
        ("35", (33, 37)),
        ("0", (0, 2)),
        ("1,235", (1233, 1237)),
        ("*", (0, 9)),
        ("..", (0, 9)),
        ("c", (0, 9)),
        ("X", (0, 9)),
        ("<10", (0, 9)),
        ("< 5", (0, 4)),
        (None, (0, 9)),
        (np.int64(20), (18, 22)),
        (20.0, (18, 22)),
    ],
)
def test_cells(cell, ends):
    assert Rules(5, 10).ends(cell, "It") == ends


def test_noise_of_a_known_maximum_moves_both_ends():
    rules = Rules(5, 10, 2)
    assert rules.ends("35", "It") == (31, 39)
    assert rules.ends("*", "It") == (0, 11)
    m, tables = votes_tables(["crime", "immigration"], base=1, threshold=0)
    rng = np.random.default_rng(0)
    for table in tables:
        numbers = table.astype(int) + rng.integers(-3, 4, table.shape)
        table[:] = np.maximum(numbers, 0).astype(str)
    known = renyi.Marginals.from_tables(tables, target="party", perturbed_by=3)
    assert (known.uncertainty.low <= m.counts).all()
    assert (m.counts <= known.uncertainty.high).all()
    model = renyi.RenyiClassifier().fit_marginals(known)
    assert renyi.certify(model, m).gamma <= model.certificate_.gamma


def test_rounding_to_even_bases_includes_both_ties():
    assert Rules(10).ends("30", "It") == (25, 35)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("-5", "must be whole numbers, and not negative"),
        ("7.5", "must be whole numbers, and not negative"),
        ("33", "33, which is not a multiple of 5"),
        ("5", "5, but cells below 10 were stated to be hidden"),
        ("many", "'many', neither a count nor a mark"),
    ],
)
def test_wrong_cells_are_named_in_a_sentence(cell, words):
    table = cross([["40", cell], ["25", "30"]])
    with pytest.raises(ValueError, match=words) as error:
        renyi.Marginals.from_tables(
            [table], target="sick", rounding=5, suppressed_below=10
        )
    assert "age = young, sick = yes" in str(error.value)


def test_marks_need_a_threshold():
    table = cross([["40", "*"], ["25", "30"]])
    with pytest.raises(ValueError, match="state below which count cells are hidden"):
        renyi.Marginals.from_tables([table], target="sick", rounding=5)


def test_totals_may_disagree_within_rounding_only():
    cells = [["40", "35", "80"], ["25", "30", "55"], ["70", "65", "130"]]
    index, columns = [*AGE, "Total"], [*SICK, "Total"]
    table = cross(cells, index=index, columns=columns)
    known = renyi.Marginals.from_tables([table], target="sick", rounding=5)
    assert (known.uncertainty.n_low, known.uncertainty.n_high) == (128, 132)
    cells[0][2] = "95"
    table = cross(cells, index=index, columns=columns)
    with pytest.raises(ValueError, match="each other in the counts of 'age'"):
        renyi.Marginals.from_tables([table], target="sick", rounding=5)
    cells[0][2] = "80"
    cells[2][2] = "150"
    table = cross(cells, index=index, columns=columns)
    with pytest.raises(ValueError, match="totals of the tables differ by more"):
        renyi.Marginals.from_tables([table], target="sick", rounding=5)


def test_two_tables_with_other_totals_are_refused():
    first = cross([["40", "35"], ["25", "30"]])
    second = cross([["80", "35"], ["25", "30"]], first="sex", index=["f", "m"])
    with pytest.raises(ValueError, match="each other in the counts of 'sick'"):
        renyi.Marginals.from_tables([first, second], target="sick", rounding=5)


def test_without_the_target_or_tables():
    with pytest.raises(ValueError, match="There are no tables"):
        renyi.Marginals.from_tables([], target="sick", rounding=5)
    with pytest.raises(ValueError, match="No table has the target 'y'"):
        renyi.Marginals.from_tables([cross([[5, 5], [5, 5]])], target="y", rounding=5)
    with pytest.raises(ValueError, match="rounding must be a whole number"):
        renyi.Marginals.from_tables([cross([[5, 5], [5, 5]])], target="y", rounding=0)


def test_command(good, bad, tmp_path):
    (tmp_path / "a.csv").write_text(
        'age by sick,no,yes,Total\nyoung,"1,040",*,1050\nold,25,30,60\n'
    )
    (tmp_path / "b.csv").write_text(
        "sex,sick,count\nf,no,500\nm,no,565\nf,yes,30\nm,yes,10\n"
    )
    tables = ("--tables", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    out = str(tmp_path / "m.renyi")
    build = ("marginals", "build", *tables, "--target", "sick", "--out", out)
    said = good(*build, "--rounding", "5", "--suppressed-below", "10").out
    assert "each count known to an interval" in said
    m = renyi.Marginals.load(out)
    assert m.feature_names == ("age", "sex")
    assert m.absent == {frozenset(("age", "sex"))}
    shown = json.loads(good("fit", out, "--out", str(tmp_path / "s"), "--json").out)
    assert shown["certificate"]["basis"] == "intervals"
    assert "hidden" in bad(*build, "--rounding", "5")
    assert "pass rows or tables" in bad(*build[:2], str(tmp_path / "a.csv"), *build[2:])


def test_exact_tables_with_totals_give_exact_counts(good, tmp_path):
    m, tables = votes_tables(["crime", "immigration"], base=1, threshold=0)
    paths = []
    for k, table in enumerate(tables):
        head = f"{table.index.name} by {table.columns.name}"
        paths.append(str(tmp_path / f"{k}.csv"))
        table.rename_axis(index=head, columns=None).to_csv(paths[-1])
    out = str(tmp_path / "m.renyi")
    options = ("--target", "party", "--out", out)
    good("marginals", "build", "--tables", *paths, *options)
    known = renyi.Marginals.load(out)
    assert known.uncertainty is None
    assert known == m
    # Without the table of two features, least worst cases still follow.
    good("marginals", "build", "--tables", *paths[1:], *options)
    few = renyi.Marginals.load(out)
    assert len(few.absent) == 1
    lowest = good("minimax", out, "--level", "exact", "--json").json
    assert lowest["upper"] >= renyi.minimax(m, method="exact").lower - 1e-6


@pytest.mark.parametrize("head", ["age by sick", "age \\ sick", "age/sick"])
def test_the_first_cell_names_both_columns(head, tmp_path):
    (tmp_path / "a.csv").write_text(f"{head},no,yes\nyoung,40,35\nold,25,30\n")
    frame = read_csv(tmp_path / "a.csv")
    assert (frame.index.name, frame.columns.name) == ("age", "sick")


def test_marks_that_also_hide_larger_counts():
    cells = [["400", "*", "430"], ["*", "*", "90"], ["450", "70", "520"]]
    table = cross(cells, index=[*AGE, "Total"], columns=[*SICK, "Total"])
    known = {"target": "sick", "suppressed_below": 10}
    with pytest.raises(ValueError, match="unless marks also hide larger counts"):
        renyi.Marginals.from_tables([table], **known)
    m = renyi.Marginals.from_tables([table], **known, secondary=True)
    record = m.uncertainty
    places = {name: m.columns.spans([name]) for name in ("age", "sick")}
    block = np.ix_(places["age"], places["sick"])
    # Rows are old, young; 400 of 430 young leave at most 30, and so on.
    assert m.categories["age"] == ("old", "young")
    assert record.low[block].tolist() == [[0, 0], [400, 0]]
    assert record.high[block].tolist() == [[50, 70], [400, 30]]
    without = cross([["400", "*"], ["*", "*"]])
    with pytest.raises(ValueError, match="No table prints a total"):
        renyi.Marginals.from_tables([without], **known, secondary=True)


def test_hidden_larger_counts_are_within_what_the_totals_allow():
    rng = np.random.default_rng(0)
    for _ in range(30):
        counts = rng.integers(0, 60, (3, 4))
        whole = np.pad(counts, (0, 1))
        whole[:, -1] = whole.sum(axis=1)
        whole[-1] = whole.sum(axis=0)
        shown = whole.astype(str).astype(object)
        shown[:3, :4][rng.random((3, 4)) < 0.4] = "*"
        table = cross(shown, index=[*"abc", "Total"], columns=[*"wxyz", "Total"])
        m = renyi.Marginals.from_tables([table], target="sick", secondary=True)
        if m.uncertainty is None:
            assert (shown[:3, :4] != "*").all()
            continue
        block = np.ix_(m.columns.spans(["age"]), m.columns.spans(["sick"]))
        assert (m.uncertainty.low[block] <= counts).all()
        assert (counts <= m.uncertainty.high[block]).all()
        assert (m.uncertainty.high[block] <= counts.sum()).all()


@pytest.mark.parametrize("rounding", [None, 5])
def test_a_total_of_another_name_is_not_taken_for_a_category(rounding):
    cells = [["40", "35", "75"], ["25", "30", "55"]]
    columns = [*SICK, "All ages"]
    table = cross(cells, columns=columns)
    if rounding is None:
        table = table.astype(int)
    with pytest.raises(ValueError, match="sick = All ages has the sum of the other"):
        renyi.Marginals.from_tables([table], target="sick", rounding=rounding)
    m = renyi.Marginals.from_tables(
        [table], target="sick", rounding=rounding, total="all Ages"
    )
    assert m.categories["sick"] == ("no", "yes")


def test_marks_and_totals_on_the_command_line(good, bad, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(
        "age by sick,no,yes,Sum of both\nyoung,1 040,[c],1050\nold,25,30,55\n"
    )
    out = str(tmp_path / "m.renyi")
    build = ("marginals", "build", "--tables", str(path), "--target", "sick")
    options = ("--suppressed-below", "11", "--out", out)
    assert "--total 'Sum of both'" in bad(*build, *options)
    good(*build, *options, "--total", "Sum of both", "--secondary")
    assert renyi.Marginals.load(out).uncertainty.n_high <= 1105
    assert "--secondary is for --tables" in bad(
        *build[:2], str(path), *build[4:], *options[2:], "--secondary"
    )


def test_tables_with_two_labels_of_totals_and_an_empty_category():
    cells = [["100", "120", "220"], ["*", "200", "205"], ["105", "320", "425"]]
    index = [*AGE, "All ages"]
    table = cross(cells, index=index, columns=[*SICK, "Total"])
    known = {"target": "sick", "suppressed_below": 10, "rounding": 5}
    m = renyi.Marginals.from_tables([table], **known, total="All ages")
    assert m.categories == {"age": ("old", "young"), "sick": ("no", "yes")}
    assert m.uncertainty.n_high < 430
    table = cross([["10", "12"], ["0", "0"], ["*", "20"]], index=[*"abc"])
    m = renyi.Marginals.from_tables([table], target="sick", suppressed_below=5)
    assert m.categories["age"] == ("a", "c")


def test_noise_moves_every_kind_of_mark():
    rules = Rules(1, 10, 3)
    assert rules.ends("<10", "It") == (0, 12)
    assert rules.ends("≤10", "It") == (0, 13)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "t.csv is empty: take a copy"),
        (b"\x80\x81", "t.csv is not UTF-8: save the file as UTF-8"),
        ("a,y,n\n1,2,3\n".encode("utf-16"), "t.csv is not UTF-8"),
        (b"a,y,n\n1,2,3\n1,2,3,4\n", "t.csv has 4 cells in line 3, where .* have 3"),
        (b'a,y,n\n1,2,"3\n', "t.csv cannot be read as CSV: check its quotes"),
    ],
)
def test_a_file_that_is_no_table_is_named(tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as raised:
        read_csv(path)
    assert str(raised.value).count("t.csv") == 1
