"""Genotypes of .bed and .pgen files, their filters, and what is wrong with files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from renyi.genotypes.files import Filters, minor_allele_frequencies, read_genotypes
from renyi.genotypes.samples import read_sample_columns, two_classes
from renyi.limits import MemoryBudgetError, memory_limit
from renyi.warnings import DataWarning
from support.studies import codes, needs_plink2, plink2, save_pgen, save_study


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small study in the folder of the test."""
    monkeypatch.chdir(tmp_path)
    return save_study()


# ---- what is read


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 61])
@pytest.mark.parametrize("d", [1, 7])
def test_bed_is_read_as_written(study, n, d):
    table = codes(n, d, seed=n)
    G = read_genotypes(save_study("other", table))
    assert np.array_equal(G.packed.codes(), table)
    assert G.samples["iid"].tolist() == [f"I{k}" for k in range(n)]
    assert G.variants["id"].tolist() == [f"rs{k}" for k in range(d)]
    assert G.variants["position"].tolist() == [1000 * (k + 1) for k in range(d)]
    assert isinstance(G.packed.data.base, np.memmap)


@pytest.mark.parametrize("n", [1, 4, 61])
def test_pgen_gives_the_bytes_of_bed(study, n):
    table = codes(n, 9, seed=n)
    bed = read_genotypes(save_study("one", table, ["1"] * 8 + ["23"]))
    pgen = read_genotypes(save_pgen("two", table, Path("one.bed")))
    assert np.array_equal(bed.packed.data, pgen.packed.data)
    pd.testing.assert_frame_equal(bed.variants, pgen.variants)
    pd.testing.assert_frame_equal(bed.samples, pgen.samples)


@pytest.mark.genotypes
@needs_plink2
@pytest.mark.parametrize("name", ["hapmap1", "hapmap3/data"])
def test_pgen_of_plink2_gives_the_bytes_of_bed(genotypes, tmp_path, name):
    plink2("--bfile", genotypes / name, "--make-pgen", "--out", tmp_path / "p")
    bed, pgen = read_genotypes(genotypes / name), read_genotypes(tmp_path / "p.pgen")
    assert np.array_equal(bed.packed.data, pgen.packed.data)
    pd.testing.assert_frame_equal(bed.variants, pgen.variants)
    pd.testing.assert_frame_equal(bed.samples, pgen.samples)


def test_a_prefix_and_a_pgen_that_is_a_bed(study):
    whole = read_genotypes("study")
    assert whole.path == "study.bed"
    save_pgen("p", codes(), study)
    Path("p.pgen").write_bytes(study.read_bytes())
    assert np.array_equal(read_genotypes("p").packed.data, whole.packed.data)


@pytest.mark.parametrize("between", [" ", "  ", " \t", "\t\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n"])
def test_any_blanks_separate_fields(study, between, end):
    expected = read_genotypes(study)
    for ending, old in ((".bim", "\t"), (".fam", " ")):
        path = study.with_suffix(ending)
        lines = path.read_text().replace(old, between).splitlines()
        path.write_text(" " + end.join(lines), newline="")
    found = read_genotypes(study)
    pd.testing.assert_frame_equal(found.variants, expected.variants)
    pd.testing.assert_frame_equal(found.samples, expected.samples)


def test_variants_of_negative_position_are_left_out_as_plink_does(study):
    bim = study.with_suffix(".bim")
    lines = bim.read_text().splitlines()
    lines[2] = lines[2].replace("\t3000\t", "\t-3000\t")
    bim.write_text("\n".join(lines) + "\n")
    with pytest.warns(DataWarning, match="1 variant of .* negative position"):
        G = read_genotypes(study)
    assert len(G.variants) == G.packed.d == len(lines) - 1
    assert "rs2" not in G.variants["id"].tolist()
    fields = [line.split() for line in lines]
    rows = [[*five[:3], "-1", *five[4:]] for five in fields]
    bim.write_text("".join(" ".join(row) + "\n" for row in rows))
    with pytest.raises(ValueError, match="negative positions"):
        read_genotypes(study)


def test_select_takes_samples_and_variants_together(study):
    G = read_genotypes(study)
    some = G.select([1, 5], np.arange(40) % 2 == 0)
    assert some.samples["iid"].tolist() == ["I1", "I5"]
    assert some.variants["id"].tolist() == [f"rs{k}" for k in range(0, 40, 2)]
    assert np.array_equal(some.packed.codes(), codes()[::2, [1, 5]])


def test_psam_without_families_and_with_words_for_sexes(study):
    save_pgen("p", codes(), study)
    Path("p.psam").write_text(
        "#IID\tSEX\tHEIGHT\n" + "".join(f"I{k}\t{'MFN'[k % 3]}\t1\n" for k in range(60))
    )
    samples = read_genotypes("p").samples
    assert samples["sex"].tolist()[:3] == ["1", "2", "0"]
    assert samples["fid"].tolist()[:2] == ["0", "0"]
    assert samples["father"].tolist()[:1] == ["0"]


def test_the_phenotype_of_several_is_named(study):
    save_pgen("p", codes(), study)
    rows = "".join(f"I{k}\t1\t{40 + k % 2}\t{1 + k // 30}\n" for k in range(60))
    Path("p.psam").write_text("#IID\tSEX\tAGE\tPHENO1\n" + rows)
    with pytest.warns(DataWarning, match="2 columns of phenotypes: 'PHENO1'"):
        G = read_genotypes("p")
    assert set(G.samples["phenotype"]) == {"1", "2"}


# ---- what is wrong with files


def change(name: str, line: int, text: str) -> None:
    path = Path(name)
    lines = path.read_text().splitlines()
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")


HOSTILE = {
    "truncated": lambda: Path("study.bed").write_bytes(
        Path("study.bed").read_bytes()[:-1]
    ),
    "603 bytes, and it has 604": lambda: Path("study.bed").write_bytes(
        Path("study.bed").read_bytes() + b"\0"
    ),
    "study.fam": lambda: Path("study.fam").unlink(),
    "study.bim is empty": lambda: Path("study.bim").write_text(""),
    "study.bim has only empty lines": lambda: Path("study.bim").write_text("\n\n"),
    "begins with": lambda: Path("study.bed").write_bytes(b"PK\x03\x04" + bytes(600)),
    "begins with ''": lambda: Path("study.bed").write_bytes(b""),
    "'6c 1b 10', not with '6c 1b 01'": lambda: Path("study.bed").write_bytes(
        b"\x6c\x1b\x10" + bytes(600)
    ),
    "study.bim, line 7": lambda: change("study.bim", 7, "1 rs6 0 7000 A"),
    "study.bim, line 8": lambda: change("study.bim", 8, "1\trs7\t0\t7e3\tA\tG"),
    "study.bim, line 9": lambda: change("study.bim", 9, "1\trs3\t0\t9000\tA\tG"),
    "study.fam, line 5": lambda: change("study.fam", 5, "F0 I1 0 0 1 1"),
    "study.fam, line 6": lambda: change("study.fam", 6, "F0 I1 0 0 1"),
    "study.fam, line 2": lambda: Path("study.fam").write_bytes(
        Path("study.fam").read_bytes().replace(b"I1 ", b"I\xff ", 1)
    ),
}


@pytest.mark.parametrize("named", HOSTILE)
def test_a_faulty_bed_is_refused_by_name(study, named):
    HOSTILE[named]()
    with pytest.raises((ValueError, FileNotFoundError), match=named):
        read_genotypes(study)


def pgen_with(at: int, value: int) -> None:
    data = bytearray(Path("p.pgen").read_bytes())
    data[at : at + 4] = value.to_bytes(4, "little")
    Path("p.pgen").write_bytes(data)


HOSTILE_PGEN = {
    "4,000,000,000 variants": lambda: pgen_with(3, 4_000_000_000),
    "2,000,000,000 samples": lambda: pgen_with(7, 2_000_000_000),
    "p.pgen is truncated": lambda: Path("p.pgen").write_bytes(b"\x6c\x1b\x10"),
    "p.pgen is damaged or truncated": lambda: Path("p.pgen").write_bytes(
        Path("p.pgen").read_bytes()[:-20]
    ),
    "p.pgen is damaged": lambda: pgen_with(20, 0x77777777),  # types of records
    "p.pvar.zst": lambda: Path("p.pvar").rename("p.pvar.zst"),
    "p.pvar, line 5": lambda: change("p.pvar", 5, "1\t3000\trs2\tG\tA,T"),
    "p.pvar, line 6": lambda: change("p.pvar", 6, "1\t4000\trs3\tG"),
    "p.pvar, line 7": lambda: change("p.pvar", 7, "1\t-\trs4\tG\tA"),
    "column POS": lambda: change("p.pvar", 2, "#CHROM\tPLACE\tID\tREF\tALT"),
    "p.psam, line 3": lambda: change("p.psam", 3, "F0\tI0\t0\t0\t1\t1"),
}


@pytest.mark.parametrize("named", HOSTILE_PGEN)
def test_a_faulty_pgen_is_refused_by_name(study, named):
    save_pgen("p", codes(), study)
    HOSTILE_PGEN[named]()
    with pytest.raises((ValueError, FileNotFoundError), match=named):
        read_genotypes("p.pgen")


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("a.vcf.gz", "--vcf a.vcf.gz"),
        ("a.vcf", "--vcf a.vcf"),
        ("a.bcf", "--bcf a.bcf"),
        ("a.bgen", "--bgen a.bgen"),
        ("a.ped", "--pedmap a"),
    ],
)
def test_other_formats_come_with_the_command_that_converts_them(name, word):
    with pytest.raises(ValueError, match=word):
        read_genotypes(name)


def test_pgen_without_pgenlib_names_the_extra(study, monkeypatch):
    save_pgen("p", codes(), study)
    monkeypatch.setitem(sys.modules, "pgenlib", None)
    with pytest.raises(ImportError, match=r"\.\[genetics\]"):
        read_genotypes("p.pgen")


# ---- phenotypes


SAMPLES = pd.DataFrame({"fid": ["F", "F", "G"], "iid": ["1", "2", "3"]})


@pytest.mark.parametrize(
    "text",
    [
        "F 1 a\nF 2 b\n",
        "1 a\n2 b\n9 c\n",
        "FID IID POP\nF 1 a\nF 2 b\n",
        "#FID\tIID\tPOP\nF\t2\tb\nF\t1\ta\n",
        "#IID POP\n2 b\n\n1 a\n",
        "IID POP\r\n2 b\r\n1 a\r\n",
        "\ufeffF 1 a\nF 2 b\n",  # as Excel saves text
        "\ufeffFID IID POP\nF 1 a\nF 2 b\n",
    ],
)
def test_a_phenotype_is_found_with_and_without_a_header(tmp_path, text):
    path = tmp_path / "pop.phe"
    path.write_text(text, newline="")
    found = read_sample_columns(path, SAMPLES)
    assert found.texts.iloc[:, 0].tolist() == ["a", "b", None]
    assert found.texts.columns.tolist() == ["POP" if "POP" in text else "PHENO1"]


def test_a_value_that_is_an_id_too_is_a_value(tmp_path):
    path = tmp_path / "pop.phe"
    path.write_text("1 2\n2 1\n")
    found = read_sample_columns(path, SAMPLES.assign(fid="0"))
    assert found.texts.iloc[:, 0].tolist() == ["2", "1", None]


@pytest.mark.parametrize(
    "text", ["1 1 a\n2 2 b\n", "FID IID POP\nF 1 a\nG 2 b\n", "1 a\n2 b\n"]
)
def test_samples_without_families_are_found_by_iid(tmp_path, text):
    path = tmp_path / "pop.phe"
    path.write_text(text)
    found = read_sample_columns(path, SAMPLES.assign(fid="0"))
    assert found.texts.iloc[:, 0].tolist() == ["a", "b", None]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "empty"),
        ("FID IID\n", "header only"),
        ("F 1 a\nF 2\n", "line 2"),
        ("F 1 a\nF 2 b\nF 1 b\n", "line 3"),
        ("F,1,a\nF,2,b\n", "F,1,a"),
        ("FID IID A A\nF 1 a b\n", "line 1"),
    ],
)
def test_a_faulty_phenotype_file_is_refused_by_line(tmp_path, text, named):
    path = tmp_path / "pop.phe"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"pop.phe.*{named}"):
        read_sample_columns(path, SAMPLES)


def test_covariates_are_numbers(tmp_path):
    path = tmp_path / "pcs.txt"
    path.write_text("FID IID PC1 AGE\nF 1 -0.5 40\nF 2 1e-3 NA\n")
    found = read_sample_columns(path, SAMPLES).numbers()
    assert found["PC1"].tolist()[:2] == [-0.5, 0.001]
    assert found["AGE"].isna().tolist() == [False, True, True]
    for bad in ("forty", "inf"):
        path.write_text(f"FID IID PC1 AGE\nF 1 -0.5 40\nF 2 1e-3 {bad}\n")
        with pytest.raises(ValueError, match=f"line 3.*{bad}.*AGE"):
            read_sample_columns(path, SAMPLES).numbers()


def test_two_classes_of_plinks_codes_and_of_words():
    y, classes = two_classes(["2", "1", "0", "-9", None, "2"], "study.fam")
    assert (y.tolist(), classes) == ([1, 0, -1, -1, -1, 1], ("1", "2"))
    y, classes = two_classes(["JPT", "CHB", "CEU"], "p", ["JPT", "CHB"])
    assert (y.tolist(), classes) == ([0, 1, -1], ("JPT", "CHB"))
    with pytest.raises(ValueError, match="--classes CEU CHB"):
        two_classes(["JPT", "CHB", "CEU"], "p")
    with pytest.raises(ValueError, match="--classes 0 1"):
        two_classes(["0", "1"], "p")
    with pytest.raises(ValueError, match="the same number"):
        two_classes(["1", "1.0"], "p")
    with pytest.raises(ValueError, match="'X'"):
        two_classes(["JPT", "CHB", "CEU"], "p", ["JPT", "X"])


# ---- filters


def test_a_header_that_names_families_alone_is_refused(study):
    """Their values would go to samples whose IID is the name of a family."""
    G = read_genotypes(study)
    samples = G.samples.assign(fid=G.samples["iid"].to_numpy()[::-1])
    lines = "".join(f"{fid} {k}\n" for k, fid in enumerate(samples["fid"]))
    Path("ages.txt").write_text(f"FID AGE\n{lines}")
    with pytest.raises(ValueError, match=r"ages\.txt, line 1.*FID without IID"):
        read_sample_columns("ages.txt", samples)
    Path("list.txt").write_text("#FID\nF0\n")
    with pytest.raises(ValueError, match=r"list\.txt, line.*FID"):
        Filters(keep="list.txt").apply(G)


@pytest.mark.parametrize("option", ["keep", "remove", "extract", "exclude"])
def test_a_list_that_is_too_large_is_not_read(study, option):
    G = read_genotypes(study)
    Path("list.txt").write_text("F0 I0\n" * 1_000)
    with memory_limit(100_000), pytest.raises(MemoryBudgetError, match="list.txt"):
        Filters(**{option: "list.txt"}).apply(G)


def test_filters_by_lists_and_places(study):
    G = read_genotypes(study)
    Path("some.txt").write_text("F0 I0\nF3 I7\n")
    Path("ids.txt").write_text("rs3 rs4\nrs39\nnone\n")
    assert Filters(keep="some.txt").apply(G).samples["iid"].tolist() == ["I0", "I7"]
    assert Filters(remove="some.txt").apply(G).packed.n == 58
    found = Filters(extract="ids.txt").apply(G).variants["id"].tolist()
    assert found == ["rs3", "rs4", "rs39"]
    assert Filters(exclude="ids.txt").apply(G).packed.d == 37
    found = Filters(chromosomes=["1-2,chr22"]).apply(G).variants["chromosome"]
    assert {*found} == {"1", "2", "22"}
    found = Filters(regions=["chr2:2,000-3000", "22:1-99999999"]).apply(G).variants
    assert {*found["chromosome"]} == {"2", "22"}
    said: list[str] = []
    Filters(keep="some.txt", extract="ids.txt").apply(G, said.append)
    assert said[0].startswith("--keep: 2 samples")
    for wrong in (
        Filters(chromosomes=["Z"]),
        Filters(chromosomes=["1-x"]),
        Filters(regions=["6"]),
    ):
        with pytest.raises(ValueError, match="--(chr|region)"):
            wrong.apply(G)


def test_filters_by_missing_calls_and_frequency(study):
    table = codes()
    table[3] = 1
    table[:, 7] = 1
    table[5] = 3
    table[5, 0] = 2
    G = read_genotypes(save_study("other", table))
    found = Filters(mind=0.9, geno=0.5, maf=0.01).apply(G)
    gone = {*range(40)} - {int(name[2:]) for name in found.variants["id"]}
    assert gone == {3, 5}
    assert "I7" not in {*found.samples["iid"]}


def test_a_males_x_counts_once_in_frequencies_and_must_be_homozygous(study):
    table = np.array([[3, 0, 3, 2], [3, 2, 0, 2], [0, 0, 3, 3]])  # males: first, third
    G = read_genotypes(save_study("x", table, ["X", "23", "MT"]))
    with pytest.warns(DataWarning, match="MT"):
        found = Filters().apply(G)
    assert found.variants["id"].tolist() == ["rs0", "rs1"]
    assert minor_allele_frequencies(found) == pytest.approx([3 / 6, 3 / 6])
    table[1, 0] = 2
    G = read_genotypes(save_study("x", table, ["X", "23", "1"]))
    with pytest.warns(DataWarning, match="'rs1'"):
        assert Filters().apply(G).variants["id"].tolist() == ["rs0", "rs2"]
    with pytest.raises(ValueError, match="Y and MT"):
        Filters().apply(read_genotypes(save_study("x", table, ["Y"] * 3)))


@needs_plink2
def test_filters_keep_what_plink2_keeps(study):
    table = codes(120, 300, seed=5)
    rng = np.random.default_rng(6)
    table[:, 3] = np.where(rng.random(300) < 0.3, 1, table[:, 3])
    table[::11] = np.where(rng.random(table[::11].shape) < 0.2, 1, table[::11])
    males = np.arange(120) % 2 == 0
    x = np.arange(300) >= 280
    het = x[:, None] & males & (table == 2)
    table[het] = 3
    where = ["X" if on else "1" for on in x]
    fathers = ["I1" if k % 7 == 0 else "0" for k in range(120)]
    place = save_study("more", table, where, father=fathers)
    options = {"mind": 0.1, "geno": 0.08, "maf": 0.3}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    plink2(
        "--bfile", "more", *words, "--make-just-fam", "--make-just-bim", "--out", "o"
    )
    found = Filters(**options).apply(read_genotypes(place))
    kept = [line.split()[1] for line in Path("o.bim").read_text().splitlines()]
    assert 0 < len(kept) < 300
    assert found.variants["id"].tolist() == kept
    kept = [line.split()[1] for line in Path("o.fam").read_text().splitlines()]
    assert 0 < len(kept) < 120
    assert found.samples["iid"].tolist() == kept
