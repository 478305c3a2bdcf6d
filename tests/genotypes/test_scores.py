"""Points per variant: scores, files that keep them, plink2's passes."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from renyi.files import checksum, to_bytes
from renyi.genotypes.scores import GenotypeScores, manhattan, read_scores
from renyi.limits import MemoryBudgetError, memory_limit
from renyi.solvers.calibration import Calibration
from support.forgeries import GOLDEN
from support.scores import (
    model_of,
    plain_scores,
    random_study,
    study,
    variants_of,
)
from support.studies import needs_plink2, plink2

FLIPPED = [3, 1, 2, 0]
HEAD = "###PGS CATALOG SCORING FILE\n#format_version=2.0\n#genome_build=GRCh37\n"


FULL = {
    "intercept": 0.25,
    "classes": ("control", "case"),
    "share": 0.3,
    "build": "hg19",
    "calibration": Calibration("temperature", np.array(3.0), np.array(0.0)),
    "meta": {"alpha": 0.5, "n": 37},
}


# ---- scores


def test_scores_are_sums_of_points():
    data = random_study()
    model = model_of(data, intercept=0.25)
    found = model.score(data)
    np.testing.assert_allclose(
        found.scores, plain_scores(model, data.codes), atol=1e-12
    )
    assert found.record.matched == found.record.by_id == 60
    assert not found.record.counts


def test_covariates_are_added_and_missing_ones_named():
    data = random_study()
    model = model_of(data, covariates={"age": 0.5, "pc1": -2.0})
    table = pd.DataFrame({"pc1": np.arange(37.0), "age": np.ones(37)})
    wanted = plain_scores(model, data.codes) + 0.5 - 2 * np.arange(37)
    np.testing.assert_allclose(model.score(data, table).scores, wanted, atol=1e-11)
    with pytest.raises(ValueError, match="pc1"):
        model.score(data, table[["age"]])


def test_coefficients_of_covariates_stand_beside_the_passes(tmp_path):
    model = model_of(random_study(), covariates={"age": np.float64(0.5), "pc1": -2.0})
    model.to_plink2(str(tmp_path / "s"))
    told = (tmp_path / "s.plink2.txt").read_text("utf-8")
    assert "add 0.5 × age, -2.0 × pc1." in told


def test_probabilities_follow_the_calibration_and_the_prevalence():
    model = model_of(random_study(), **FULL)
    s = np.array([-1.0, 0.0, 0.4])
    p = model.probabilities(s)
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-3 * s)), atol=1e-15)
    odds = p / (1 - p) * (0.01 / 0.99) / (0.3 / 0.7)
    np.testing.assert_allclose(model.probabilities(s, 0.01), odds / (1 + odds))
    bare = GenotypeScores(model.variants, model.points)
    np.testing.assert_allclose(bare.probabilities(s), [0, 0.5, 0.9])
    with pytest.raises(ValueError, match="prevalence"):
        model.probabilities(s, 2.0)
    with pytest.raises(ValueError, match="share"):
        bare.probabilities(s, 0.01)


def test_the_top_variants_have_positions():
    model = model_of(random_study())
    top = model.top(5)
    kept = model.points[:, [0, 2, 3]]
    importance = np.sort(kept.max(axis=1) - kept.min(axis=1))[::-1]
    np.testing.assert_array_equal(top["importance"], importance[:5])
    assert top["position"].min() >= 1000


# ---- model file


def same(one, other):
    assert one._plain() == other._plain()
    np.testing.assert_array_equal(one.points, other.points)
    names = list(one.variants)
    assert list(other.variants) == names
    for name in names:
        np.testing.assert_array_equal(
            one.variants[name].to_numpy(), other.variants[name].to_numpy()
        )


def test_a_model_file_holds_everything_to_the_last_bit(tmp_path):
    data = random_study()
    model = model_of(data, covariates={"pc1": 0.1, "âge": 3.0}, **FULL)
    model.points[3, 1] = np.nan
    model.save(tmp_path / "run1.json")
    same(model, GenotypeScores.load(tmp_path / "run1.json"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run1.json", "run1.points"]


def test_the_first_version_of_the_file_is_read():
    """Written once, by the first version; its scores are kept beside it."""
    model = GenotypeScores.load(GOLDEN / "scores-v1.json")
    table = pd.DataFrame({"pc1": np.arange(9.0)})
    found = model.score(random_study(n=9, d=6), table).scores
    wanted = [2.2793497426188463, 1.1662440304150887, 3.420264716023338]
    np.testing.assert_allclose(found[:3], wanted, rtol=1e-14)
    assert (model.classes, model.build) == (("control", "case"), "GRCh37")


def rewrite(path, **changes):
    data = json.loads(path.read_text()) | changes
    path.write_bytes(to_bytes({**data, "checksum": checksum(data, {})}))


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"points_file": "../run1.points"}, "plain name"),
        ({"points_file": "/etc/passwd"}, "plain name"),
        ({"points_file": "other.points"}, "missing"),
        ({"points_checksum": "0" * 64}, "belong"),
        ({"variants": 10**12}, "fit"),
        ({"variants": "many"}, "variants"),
        ({"classes": ["a"]}, "classes"),
        ({"classes": ["a", "a"]}, "classes"),
        ({"covariates": {"age": "old"}}, "covariates"),
        ({"calibration": {"kind": "x"}}, "calibration"),
        ({"share": 7}, "share"),
        ({"intercept": 1e308}, "too large"),
        ({"covariates": {"age": -1e308}}, "too large"),
        ({"format": "renyi-model"}, "format"),
        ({"version": 99}, "newer"),
    ],
)
def test_a_forged_head_is_refused_in_words(tmp_path, changes, word):
    model_of(random_study(d=5), **FULL).save(tmp_path / "run1.json")
    rewrite(tmp_path / "run1.json", **changes)
    with pytest.raises((ValueError, FileNotFoundError), match=word):
        GenotypeScores.load(tmp_path / "run1.json")


def test_points_that_were_cut_or_altered_are_refused(tmp_path):
    model_of(random_study()).save(tmp_path / "run1.json")
    beside = tmp_path / "run1.points"
    whole = beside.read_bytes()
    beside.write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"run1\.points"):
        GenotypeScores.load(tmp_path / "run1.json")
    altered = bytearray(whole)
    altered[len(whole) // 2] ^= 1
    beside.write_bytes(altered)
    with pytest.raises(ValueError, match=r"run1\.points"):
        GenotypeScores.load(tmp_path / "run1.json")


def test_a_text_with_a_line_end_is_not_written(tmp_path):
    model = model_of(random_study(d=5))
    model.variants.loc[2, "id"] = "two\nlines"
    with pytest.raises(ValueError, match="'id'"):
        model.save(tmp_path / "run1.json")
    assert not list(tmp_path.iterdir())


def test_many_variants_are_written_and_read_at_once(tmp_path):
    d = 300_000
    ids = pd.Series(np.arange(d)).astype(str)
    variants = pd.DataFrame(
        {"chromosome": "1", "id": "rs" + ids, "position": np.arange(d), "a1": "A"}
    ).assign(a2="G")
    model = GenotypeScores(variants, np.random.default_rng(0).normal(size=(d, 4)))
    start = time.process_time()
    model.save(tmp_path / "run1.json")
    same(model, GenotypeScores.load(tmp_path / "run1.json"))
    assert time.process_time() - start < 5


# ---- PGS Catalog


@pytest.mark.parametrize("name", ["scores.txt", "scores.txt.gz"])
def test_a_pgs_file_gives_the_same_scores(tmp_path, name):
    data = random_study()
    data.variants.loc[4, "a1"] = "0"
    data.variants.loc[7, "id"] = "."
    data.codes[4] = np.where(data.codes[4] % 2, data.codes[4], 3)
    model = model_of(data, **FULL)
    model.to_pgs(tmp_path / name, "first", "a trait")
    text = (tmp_path / name).read_bytes()
    text = (gzip.decompress(text) if name.endswith("gz") else text).decode()
    lines = text.splitlines()
    assert lines[1] == "#format_version=2.0"
    assert {"#genome_build=GRCh37", "#variants_number=60"} <= set(lines)
    names = next(line for line in lines if not line.startswith("#")).split("\t")
    assert names[5:8] == [f"dosage_{k}_weight" for k in range(3)]
    assert "effect_weight" not in names  # it would be scored additively
    other = read_scores(tmp_path / name)
    assert other._plain() == model._plain()
    found = other.score(data)
    np.testing.assert_array_equal(found.scores, model.score(data).scores)
    assert found.record.matched == 60


def test_a_pgs_file_gives_the_same_scores_where_variants_are_dropped(tmp_path):
    data = random_study(alleles=("A", "T"))
    data.variants.loc[4, "a1"] = "0"
    data.codes[4] = np.where(data.codes[4] % 2, data.codes[4], 3)
    data.variants.loc[9, ["a1", "a2"]] = "0"
    data.codes[9] = 1
    data = study(data.codes, data.variants)
    model = model_of(data, **FULL)
    model.to_pgs(tmp_path / "scores.txt")
    other = read_scores(tmp_path / "scores.txt")
    kept = np.arange(60) % 7 > 0
    part = study(data.codes[kept], data.variants[kept].reset_index(drop=True))
    for build in ("hg19", None):
        found, expected = (m.score(part, build=build) for m in (other, model))
        np.testing.assert_allclose(found.scores, expected.scores, atol=1e-12)
        assert found.record.matched == expected.record.matched
    kept = np.arange(60) != 9
    known = study(data.codes[kept], data.variants[kept].reset_index(drop=True))
    assert other.score(known).record.matched == 59  # line by line the very variants


def pgs(tmp_path, names, *rows, head=HEAD):
    path = tmp_path / "scores.txt"
    path.write_text(head + "\n".join("\t".join(row) for row in (names, *rows)) + "\n")
    return path


def test_weights_of_every_kind_are_scored(tmp_path):
    names = ["rsID", "chr_name", "chr_position", "effect_allele", "other_allele"]
    names += ["effect_weight", "is_dominant", "is_recessive"]
    names += [f"dosage_{k}_weight" for k in range(3)]
    place = ("1", "1", "A", "G")
    path = pgs(
        tmp_path,
        names,
        ("a", *place, "0.5", "", "", "", "", ""),
        ("b", *place, "0.5", "TRUE", "FALSE", "", "", ""),
        ("c", *place, "0.5", "FALSE", "True", "", "", ""),
        ("d", *place, "9", "", "", "1", "2", "5"),
    )
    model = read_scores(path)
    assert model.build == "GRCh37"
    wanted = [[1, 0.5, 0], [0.5, 0.5, 0], [0.5, 0, 0], [5, 2, 1]]
    np.testing.assert_array_equal(model.points[:, [0, 2, 3]], wanted)
    # A missing genotype counts as the mean of the others.
    variants = variants_of(*[(*place[:1], name, 1, "G", "A") for name in "abcd"])
    codes = np.array([[3, 3, 2, 0, 1]] * 4)
    found = model.score(study(codes, variants))
    total = np.sum(wanted, axis=0)
    observed = [total[0], total[0], total[1], total[2]]
    np.testing.assert_allclose(found.scores, [*observed, np.mean(observed)])
    assert found.record.swapped == 4


def test_harmonised_positions_and_a_lone_effect_allele(tmp_path):
    names = ["chr_name", "chr_position", "effect_allele", "effect_weight"]
    head = HEAD + "#HmPOS_build=GRCh38\n"
    rows = ("1", "5", "A", "2", "chr2", "77")
    path = pgs(tmp_path, [*names, "hm_chr", "hm_pos"], rows, head=head)
    model = read_scores(path)
    assert model.build == "GRCh38"
    data = study([[0, 2, 3]], variants_of(("2", "x", 77, "G", "A")))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as Excel saves text
    found = read_scores(path).score(data, build="grch38")
    np.testing.assert_array_equal(found.scores, [0, 2, 4])


GOOD = ["rsID", "effect_allele", "effect_weight"]


@pytest.mark.parametrize(
    ("names", "row", "word"),
    [
        (["rsID", "effect_weight"], ("a", "1"), "effect_allele"),
        (GOOD, ("a", "A", "much"), "much"),
        (GOOD, ("a", "A", ""), "'a'"),
        (GOOD, ("a", "A", "inf"), "'a'"),
        (GOOD, ("a", "A"), "columns"),
        ([*GOOD, "is_interaction"], ("a", "A", "1", "TRUE"), "is_interaction"),
        ([*GOOD, "is_haplotype"], ("a", "A", "1", "true"), "is_haplotype"),
        ([*GOOD, "rsID"], ("a", "A", "1", "b"), "twice"),
        (GOOD, (), "variants"),
        ([*GOOD, "allelefrequency_effect"], ("a", "A", "1", "1e300"), "frequency"),
        ([*GOOD, "allelefrequency_effect"], ("a", "A", "1", "-0.1"), "frequency"),
    ],
)
def test_bad_scoring_files_are_refused_in_words(tmp_path, names, row, word):
    path = pgs(tmp_path, names, *([row] if row else []))
    with pytest.raises(ValueError, match=word) as error:
        read_scores(path)
    assert "scores.txt" in str(error.value)


def test_a_small_file_that_unpacks_to_much_takes_no_memory(tmp_path):
    path = tmp_path / "bomb.txt.gz"
    with gzip.open(path, "wb", 9) as stream:
        stream.write((HEAD + "\t".join(GOOD) + "\n").encode())
        for _ in range(20):
            stream.write(b"x" * 2**20)
    with pytest.raises(ValueError, match="Expected 3 columns"):
        read_scores(path)
    with gzip.open(path, "wb", 9) as stream:
        stream.write((HEAD + "\t".join(GOOD) + "\n").encode())
        for _ in range(8):
            stream.write(b"a\tA\t1\n" * 500_000)
    with memory_limit(3 * 10**7), pytest.raises(MemoryBudgetError, match=r"bomb\.txt"):
        read_scores(path)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"bomb\.txt"):
        read_scores(path)


# ---- plink2


def write_bed(prefix, data):
    d, n = data.codes.shape
    Path(f"{prefix}.bed").write_bytes(b"\x6c\x1b\x01" + data.packed.data.tobytes())
    rows = data.variants.assign(cm=0)[
        ["chromosome", "id", "cm", "position", "a1", "a2"]
    ]
    rows.to_csv(f"{prefix}.bim", sep="\t", header=False, index=False)
    fam = "".join(f"f{k} i{k} 0 0 {1 + k % 2} -9\n" for k in range(n))
    Path(f"{prefix}.fam").write_text(fam)


def two_passes(prefix, bed):
    """Run the commands that the file beside the scores gives, and add up."""
    text = Path(f"{prefix}.plink2.txt").read_text()
    total = float(text.split(" = ")[1].split(" + ")[0])
    commands = [line for line in text.splitlines() if line.startswith("plink2 ")]
    assert len(commands) == 2
    for line in commands:
        command = line.replace("STUDY", str(bed)).split()
        plink2(*command[1:])
        table = pd.read_csv(f"{command[command.index('--out') + 1]}.sscore", sep="\t")
        total = total + table.iloc[:, -1].to_numpy()
    return total


@needs_plink2
@pytest.mark.parametrize("swapped", [False, True])
def test_two_passes_of_plink2_are_our_scores(tmp_path, swapped):
    """Points of two decimals, so that the six digits that plink2 prints are all."""
    data = random_study(d=40)
    rng = np.random.default_rng(2)
    points = rng.integers(-50, 50, (40, 4)) * 0.02
    model = GenotypeScores(data.variants, points, intercept=0.5)
    prefix = tmp_path / "run1"
    assert model.to_plink2(str(prefix)) == pytest.approx(points[:, 1].sum() + 0.5)
    if swapped:
        variants = data.variants.assign(a1="G", a2="A")
        data = study(np.array(FLIPPED)[data.codes], variants)
    write_bed(tmp_path / "study", data)
    found = two_passes(prefix, tmp_path / "study")
    np.testing.assert_allclose(found, model.score(data).scores, rtol=0, atol=1e-9)


@needs_plink2
def test_two_passes_of_plink2_are_our_scores_of_any_points(tmp_path):
    """Weights in groups of four decimal digits, of which plink2 prints whole sums."""
    data = random_study(d=20)
    model = model_of(data)
    prefix = tmp_path / "run1"
    total = model.to_plink2(str(prefix))
    write_bed(tmp_path / "study", data)
    for name in ("additive", "dominant"):
        table = pd.read_csv(f"{prefix}.{name}.tsv", sep="\t")
        rest = table.pop(name.upper()).to_numpy()
        for group in range(4):
            size = 10.0 ** (-3 - 3 * group)
            whole = np.round(rest / size)
            table[f"g{group}"] = whole.astype(int)
            rest = rest - whole * size
        table.to_csv(tmp_path / "groups.tsv", sep="\t", index=False)
        command = ["--bfile", str(tmp_path / "study"), "--score"]
        command += [str(tmp_path / "groups.tsv"), "header-read", "no-mean-imputation"]
        command += ["dominant"] * (name == "dominant") + ["cols=+scoresums,-scoreavgs"]
        command += ["--score-col-nums", "3-6", "--out", str(tmp_path / "groups")]
        plink2(*command)
        sums = pd.read_csv(tmp_path / "groups.sscore", sep="\t").iloc[:, -4:].to_numpy()
        assert np.abs(sums).max() < 10**6
        total = total + sums @ 10.0 ** (-3 - 3 * np.arange(4))
    np.testing.assert_allclose(total, model.score(data).scores, rtol=0, atol=1e-9)


def test_what_plink2_cannot_score_is_refused(tmp_path):
    data = random_study(d=3)
    for column, value, word in (("chromosome", "chrX", "X"), ("id", ".", "id")):
        model = model_of(study(data.codes, data.variants.assign(**{column: value})))
        with pytest.raises(ValueError, match=word):
            model.to_plink2(str(tmp_path / "run1"))
    assert not list(tmp_path.iterdir())


# ---- plot


def test_the_plot_shows_every_variant_where_it_is():
    data = random_study()
    data.variants.loc[50:, "chromosome"] = "X"
    model = model_of(data)
    ax = manhattan(model)
    drawn = np.concatenate([c.get_offsets() for c in ax.collections])
    np.testing.assert_allclose(drawn[:, 1], model.importance)
    assert (np.diff(drawn[:, 0]) > 0).all()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "X"]
    named = {text.get_text() for text in ax.texts}
    assert named == set(model.top(5)["id"])
