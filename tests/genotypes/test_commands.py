"""The commands fit, predict and export on genotypes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from renyi.genotypes.commands import measured_lines
from support.studies import codes, needs_plink2, plink2, save_pgen, save_study


@pytest.fixture
def study(run) -> Path:
    """A small study in the folder of the test."""
    return save_study()


def save_covariates(name: str = "pcs.txt", n: int = 60) -> str:
    rng = np.random.default_rng(1)
    lines = [f"F{k // 2} I{k} {rng.normal():.4f} {20 + k}" for k in range(n)]
    Path(name).write_text("FID IID PC1 AGE\n" + "\n".join(lines) + "\n")
    return name


# ---- fit


def test_fit_says_what_was_loaded_left_and_learned(good, study):
    done = good("genotypes", "fit", study, "--maf", "0.05", "--out", "run1")
    for words in (
        "60 samples (30 females, 30 males; 60 founders) loaded from study.fam.",
        "40 variants loaded from study.bim.",
        "--maf: ",
        "class 1: 30, class 2: 30",
        "AUC",
        "No guarantee is shown",
        "Next: renyi genotypes predict run1.json",
    ):
        assert words in done.out
    log = Path("run1.log").read_text("utf-8")
    assert "Command: renyi genotypes fit study.bed --maf 0.05 --out run1" in log
    assert done.out.strip() in log
    assert "%" not in Path("run1.json").read_text()


def test_errors_have_an_interval_a_bound_to_quote_and_the_baseline(good, study):
    facts = good("genotypes", "fit", study, "--json").json
    wrong = round(60 * facts["loo_error"])
    low = beta.ppf(0.025, wrong, 61 - wrong)
    high = beta.ppf(0.975, wrong + 1, 60 - wrong)
    text = good("genotypes", "fit", study, "--out", "run1").out
    assert f"(95 %: {100 * low:.1f} to {100 * high:.1f} %)" in text
    fam = pd.read_csv("study.fam", sep=r"\s+", header=None)
    fam.loc[25:29, 5] = 2  # 25 controls, 35 cases
    fam.to_csv("study.fam", sep="\t", header=False, index=False)
    argv = ("genotypes", "predict", "run1.json", study)
    answers = good(*argv, "--json").json["answers"]
    wrong = sum(int(a["prediction"]) != c for a, c in zip(answers, fam[5], strict=True))
    most = beta.ppf(0.95, wrong + 1, 60 - wrong)
    told = " ".join(good(*argv, "--out", "a.tsv").err.split())
    bound = f"{np.ceil(1000 * most) / 10:.1f} % <- quote this"
    assert f"error at most, 95 % confidence {bound}" in told
    assert "error of guessing the larger class 41.7 %" in told


def test_facts_as_json(good, study):
    facts = good("genotypes", "fit", study, "--json").json
    assert facts["samples"] == 60
    assert facts["variants"] == 40
    assert facts["classes"] == {"1": 30, "2": 30}
    assert facts["majority_error"] == 0.5
    assert 0 <= facts["loo_error"] < 0.4
    assert facts["auc"] > 0.6
    assert facts["log"][0].startswith("60 samples")
    assert "certificate" not in facts


def test_a_threshold_that_answers_one_class_is_told(good, study):
    """Few cases and many weak variants: scores rank well, and stay below one half."""
    rng = np.random.default_rng(4)
    n, d = 90, 3000
    y = np.arange(n) < 15
    share = np.where(y[:, None], 0.56, 0.44)
    classes = [str(1 + case) for case in y]
    save_study("rare", rng.binomial(2, share, (n, d)).T, phenotype=classes)
    done = good("genotypes", "fit", "rare.bed", "--json").json
    assert done["loo_error"] >= 0.9 * 15 / 90
    assert done["auc"] > 0.95
    assert done["balanced_threshold"] == pytest.approx(15 / 90 - 0.5)
    assert done["balanced_error"] < 0.1
    text = " ".join(good("genotypes", "fit", "rare.bed").out.split())
    assert "where the score is above -0.333 instead of 0" in text
    assert f"the error is then {100 * done['balanced_error']:.1f} %" in text
    usual = good("genotypes", "fit", study).out
    assert "instead of 0" not in usual


def test_bed_and_pgen_give_the_same_model_to_the_last_bit(good, study):
    save_pgen("p", codes(), study)
    good("genotypes", "fit", study, "--out", "a")
    good("genotypes", "fit", "p.pgen", "--out", "b")
    assert Path("a.points").read_bytes() == Path("b.points").read_bytes()
    heads = [json.loads(Path(f"{name}.json").read_text()) for name in "ab"]
    for head in heads:
        del head["points_file"], head["checksum"]
    assert heads[0] == heads[1]


def test_scores_without_each_chromosome_are_written(good, bad, study):
    assert "--out" in bad("genotypes", "fit", study, "--loco")
    options = ("--groups", "FID", "--covar", save_covariates(), "--covar-name", "PC1")
    good("genotypes", "fit", study, *options, "--loco", "--out", "a")
    found = pd.read_csv("a.loco.tsv", sep="\t", dtype={"FID": str, "IID": str})
    assert found.columns.tolist() == ["FID", "IID", *map(str, range(1, 23))]
    assert found["IID"].tolist() == [f"I{k}" for k in range(60)]
    good("genotypes", "fit", study, *options, "--loco", "--out", "b")
    assert Path("a.loco.tsv").read_bytes() == Path("b.loco.tsv").read_bytes()
    assert "chromosome 3" in bad(
        "genotypes", "fit", study, "--chr", 3, "--loco", "--out", "c"
    )


@pytest.mark.genotypes
@needs_plink2
def test_real_bed_and_pgen_give_the_same_model(good, genotypes):
    bed, phe = genotypes / "hapmap1.bed", genotypes / "pop.phe"
    plink2("--bfile", bed.with_suffix(""), "--make-pgen", "--out", "p")
    options = ("--pheno", phe, "--chr", 1, "--json")
    facts = [
        good("genotypes", "fit", file, *options, "--out", name).json
        for file, name in ((bed, "a"), ("p.pgen", "b"))
    ]
    assert facts[0]["samples"] == 89
    assert facts[0]["loo_error"] < 0.05
    assert facts[0]["loo_error"] == facts[1]["loo_error"]
    assert Path("a.points").read_bytes() == Path("b.points").read_bytes()


@pytest.mark.genotypes
def test_populations_of_hapmap3_by_a_column_of_words(good, bad, genotypes):
    bed = genotypes / "hapmap3" / "data.bed"
    column = ("--pheno", genotypes / "hapmap3" / "relationships_w_pops_121708.txt")
    column += ("--pheno-name", "population")
    assert "--classes" in bad("genotypes", "fit", bed, *column)
    facts = good(
        "genotypes", "fit", bed, *column, "--classes", "CHB", "JPT", "--json"
    ).json
    assert facts["classes"] == {"CHB": 81, "JPT": 85}
    assert facts["loo_error"] < 0.05
    assert any("MT" in note for note in facts["notes"])


def test_phenotype_classes_and_covariates_of_files(good, study):
    lines = [f"I{k} {'abc'[k % 3]}" for k in range(60)]
    Path("pop.phe").write_text("#IID POP\n" + "\n".join(lines) + "\n")
    options = (
        "--pheno",
        "pop.phe",
        "--classes",
        "c",
        "a",
        "--covar",
        save_covariates(),
    )
    facts = good(
        "genotypes", "fit", study, *options, "--covar-name", "PC1", "--json"
    ).json
    assert facts["classes"] == {"c": 20, "a": 20}
    assert list(facts["covariates"]) == ["PC1"]
    assert facts["covariates_error"] is not None
    assert "20 samples that are neither c nor a left out." in facts["log"]


def test_samples_without_covariates_are_left_out(good, study):
    save_covariates(n=50)
    facts = good("genotypes", "fit", study, "--covar", "pcs.txt", "--json").json
    assert facts["samples"] == 50
    assert "10 samples without all covariates left out." in facts["log"]


def test_families_are_left_out_together(good, study):
    facts = good("genotypes", "fit", study, "--groups", "FID", "--json").json
    assert facts["groups"] == 30
    lines = [f"F{k // 2} I{k} g{k % 5}" for k in range(60)]
    Path("groups.txt").write_text("\n".join(lines) + "\n")
    assert (
        good("genotypes", "fit", study, "--groups", "groups.txt", "--json").json[
            "groups"
        ]
        == 5
    )
    assert (
        "leave-one-group-out" in good("genotypes", "fit", study, "--groups", "FID").out
    )


def test_samples_of_no_family_or_group_are_not_one(good, bad, study):
    lines = [f"F{k // 2} I{k} {'NA' if k < 10 else f'g{k % 5}'}" for k in range(60)]
    Path("groups.txt").write_text("\n".join(lines) + "\n")
    facts = good("genotypes", "fit", study, "--groups", "groups.txt", "--json").json
    assert (facts["groups"], facts["samples"]) == (5, 50)
    assert "10 samples without a group left out." in facts["log"]
    save_study(fid=["0"] * 30 + ["F"] * 30)
    assert (
        good("genotypes", "fit", study, "--groups", "FID", "--json").json["groups"]
        == 31
    )
    save_study(fid="0")
    assert "FID of study.bed is 0" in bad("genotypes", "fit", study, "--groups", "FID")


def test_what_tells_nothing_is_worth_nothing(good, study):
    save_study(table=np.full((5, 60), 1))
    facts = good("genotypes", "fit", study, "--prevalence", "1e-300", "--json").json
    assert facts["auc"] == 0.5
    assert facts["nagelkerke_r2"] == pytest.approx(0, abs=1e-9)
    assert facts["liability_r2"] == pytest.approx(0, abs=1e-9)
    save_study(table=codes(2))  # each is answered by the class of the other
    assert good("genotypes", "fit", study, "--json").json["auc"] == 0.5


def test_missing_calls_and_additive_points(good, study):
    for options in (("--missing-calls", "mean"), ("--additive",)):
        facts = good("genotypes", "fit", study, *options, "--json").json
        assert facts["missing"] == ("mean" if "mean" in options else "category")
        assert facts["dominance"] == ("--additive" not in options)


# ---- what does not fit together


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("fit", "study.bed", "--target", "y"), "--target"),
        (("fit", "study.bed", "--rule", "sharp"), "--rule"),
        (("fit", "study.bed", "--missing", "NA"), "--missing"),
        (("fit", "study.bed", "other.bed"), "other.bed"),
        (("fit", "study.bed", "--maf", "2"), "--maf"),
        (("fit", "study.bed", "--maf", "0.5001"), "--maf"),
        (("fit", "study.bed", "--pheno-name", "x"), "--pheno"),
        (("fit", "study.bed", "--pheno", "none.phe"), "none.phe"),
        (("fit", "study.bed", "--classes", "1", "3"), "'3'"),
        (("fit", "study.bed", "--chr", "X"), "--chr"),
        (("fit", "study.bed", "--region", "6:,-,"), "--region 6:,-,"),
        (("fit", "study.bed", "--region", "6:1-" + 5000 * "9"), "--region"),
        (("fit", "study.vcf.gz"), "plink2 --vcf study.vcf.gz"),
        (("fit", "study.bgen"), "plink2 --bgen study.bgen"),
        (("fit", "none.bed"), "none.bed"),
        (("fit", "study.bed", "--out", "none/run1"), "none"),
        (("predict", "none.json", "study.bed"), "none.json"),
        (("export", "none.json", "--scores", "pgs", "--out", "a.txt"), "none.json"),
        (("export", "none.json", "--scores", "plink2"), "--out"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(bad, study, words, named):
    assert named in bad("genotypes", *words)


@pytest.mark.parametrize("cut", [0, 2, 3, 50])
@pytest.mark.parametrize("name", ["study.bed", "study.bim", "study.fam"])
def test_truncated_files_end_in_a_sentence(bad, study, name, cut):
    Path(name).write_bytes(Path(name).read_bytes()[:cut])
    assert "study." in bad("genotypes", "fit", "study.bed")


def test_a_bad_number_of_covariates_names_its_line(bad, study):
    path = Path(save_covariates())
    path.write_text(path.read_text().replace(" 33\n", " old\n"))
    assert "pcs.txt, line 15: 'old'" in bad("genotypes", "fit", study, "--covar", path)
    path.write_text(path.read_text().replace(" old\n", " 3_3\n"))
    assert "pcs.txt, line 15: '3_3'" in bad("genotypes", "fit", study, "--covar", path)


def test_minus_nine_is_missing_however_it_is_written(good, study):
    path = Path(save_covariates())
    path.write_text(path.read_text().replace(" 33\n", " -9.0\n"))
    facts = good("genotypes", "fit", study, "--covar", path, "--json").json
    assert facts["samples"] == 59


def test_an_idle_or_empty_covariate_is_named(bad, study):
    path = Path(save_covariates())
    path.write_text(path.read_text().replace("AGE", "AGE SITE").replace("\nF", " 3\nF"))
    text = path.read_text().replace(" 3\n", "\n", 1).rstrip() + " 3\n"
    path.write_text(text)
    assert "covariate 'SITE' is constant" in bad(
        "genotypes", "fit", study, "--covar", path
    )
    path.write_text(text.replace(" 3\n", " NA\n"))
    assert "60 samples without all covariates" in bad(
        "genotypes", "fit", study, "--covar", path
    )


def test_a_liability_above_one_is_told_of():
    facts = {"auc": 1.0, "auc_interval": (0.9, 1.0), "nagelkerke_r2": 1.0}
    for r2 in (0.5, 1.8):
        told = measured_lines(facts | {"liability_r2": r2, "prevalence": 0.1})
        assert (r2 > 1) == ("above 1" in told[-1])


# ---- predict and export


@pytest.fixture
def model(good, study) -> str:
    """A model of the study."""
    good("genotypes", "fit", study, "--covar", save_covariates(), "--out", "run1")
    return "run1.json"


def test_answers_with_probabilities_and_scores(good, model):
    other = save_study("other", codes(30, seed=3))
    done = good(
        "genotypes", "predict", model, other, "--covar", "pcs.txt", "--out", "f.tsv"
    )
    found = pd.read_csv("f.tsv", sep="\t", dtype={"IID": str, "prediction": str})
    assert [*found] == ["FID", "IID", "prediction", "proba_2", "score"]
    assert found["IID"].tolist() == [f"I{k}" for k in range(30)]
    sure = found["prediction"] == np.where(found["proba_2"] > 0.5, "2", "1")
    assert sure.all()
    assert "matched 40 of 40 variants" in done.err
    assert "30 samples with a known class" in done.err
    assert "at most" in done.err
    assert "AUC" in done.err
    assert max(map(len, done.err.splitlines())) <= 110
    assert "--covar FILE --out answers.tsv" in Path("run1.log").read_text()
    moved = good(
        "genotypes",
        "predict",
        model,
        other,
        "--covar",
        "pcs.txt",
        "--prevalence",
        "0.1",
    )
    assert "answers for a prevalence of 0.1" in " ".join(moved.err.split())
    printed = good("genotypes", "predict", model, other, "--covar", "pcs.txt").out
    assert printed == Path("f.tsv").read_text()


def test_the_commands_answer_as_the_classifier_does(good, study):
    from renyi.genotypes.classifier import GenotypeClassifier
    from renyi.genotypes.files import read_genotypes

    G, y = read_genotypes(study), np.repeat([0, 1], 30)
    clf = GenotypeClassifier().fit(G, y)
    facts = good("genotypes", "fit", study, "--out", "run1", "--json").json
    assert facts["loo_error"] == clf.loo_error_
    answers = good("genotypes", "predict", "run1.json", study, "--json").json["answers"]
    found = pd.DataFrame(answers)
    scores, p = clf.decision_function(G), clf.predict_proba(G)[:, 1]
    np.testing.assert_allclose(found["score"], scores, atol=1e-12)
    np.testing.assert_allclose(found["proba_2"], p, atol=1e-12)
    assert found["prediction"].tolist() == [str(1 + k) for k in clf.predict(G)]


def test_a_gpu_that_is_not_there_is_told_in_words(run, study):
    done = run("genotypes", "fit", study, "--device", "cuda")
    if done.code:  # else there is one
        assert "Traceback" not in done.err
        assert done.err.startswith("renyi: error: ")
        assert "cuda" in done.err.lower() or ".[gpu]" in done.err


def test_swapped_alleles_give_the_same_scores(good, model):
    table = codes(30, seed=3)
    first = save_study("one", table)
    second = save_study("two", np.array([3, 1, 2, 0])[table])
    bim = second.with_suffix(".bim")
    bim.write_text(bim.read_text().replace("A\tG", "G\tA"))
    answers = []
    for file in (first, second):
        answers.append(
            good("genotypes", "predict", model, file, "--covar", "pcs.txt").out
        )
    assert answers[0] == answers[1]


def test_covariates_are_needed_if_the_model_has_them(bad, good, model):
    assert "--covar" in bad("genotypes", "predict", model, "study.bed")
    save_covariates("few.txt", 10)
    done = good(
        "genotypes", "predict", model, "study.bed", "--covar", "few.txt", "--json"
    ).json
    assert done["samples"] == len(done["answers"]) == 10


@pytest.mark.parametrize("option", ["pheno", "covar", "keep"])
def test_no_file_that_is_read_is_written_over(bad, model, option):
    Path("a.tsv").write_text("F0 I0 1\n")
    words = (
        "genotypes",
        "predict",
        model,
        "study.bed",
        f"--{option}",
        "a.tsv",
        "--out",
        "a.tsv",
    )
    assert "a.tsv would overwrite" in bad(*words)


def test_a_file_beside_the_genotypes_is_not_written_over(bad, study):
    Path("run1.log").symlink_to("study.fam")
    assert "study.fam, which the command needs" in bad(
        "genotypes", "fit", study, "--out", "run1"
    )


def test_only_the_covariates_of_the_model_are_read(good, bad, model):
    text = Path("pcs.txt").read_text().replace("\n", " site\n")
    Path("more.txt").write_text(text)
    one = good("genotypes", "predict", model, "study.bed", "--covar", "pcs.txt").out
    assert (
        good("genotypes", "predict", model, "study.bed", "--covar", "more.txt").out
        == one
    )
    Path("none.txt").write_text("FID IID PC1 AGE\nF0 I0 NA 1\n")
    assert "none.txt" in bad(
        "genotypes", "predict", model, "study.bed", "--covar", "none.txt"
    )


def test_covariates_that_a_model_has_not_are_not_read(good, study):
    good("genotypes", "fit", study, "--out", "plain")
    done = good("genotypes", "predict", "plain.json", study, "--covar", "pcs.txt")
    assert "pcs.txt was not read" in done.err


def test_keep_and_another_prevalence(good, model):
    Path("some.txt").write_text("F0 I0\nF0 I1\nF29 I59\n")
    options = ("study.bed", "--covar", "pcs.txt", "--keep", "some.txt", "--json")
    usual = good("genotypes", "predict", model, *options).json["answers"]
    rare = good("genotypes", "predict", model, *options, "--prevalence", "0.01").json[
        "answers"
    ]
    assert [row["IID"] for row in usual] == ["I0", "I1", "I59"]
    for one, other in zip(usual, rare, strict=True):
        assert other["proba_2"] <= one["proba_2"]
        assert other["score"] == one["score"]


def test_a_scoring_file_of_the_catalog_gives_the_scores_of_the_model(good, study):
    good("genotypes", "fit", study, "--build", "GRCh38", "--out", "run1")
    good("genotypes", "export", "run1.json", "--scores", "pgs", "--out", "run1.txt.gz")
    answers = [
        good(
            "genotypes", "predict", name, study, "--build", "hg38", "--same-strand"
        ).out
        for name in ("run1.json", "run1.txt.gz")
    ]
    tables = [
        pd.DataFrame([line.split("\t") for line in text.splitlines()[1:]])
        for text in answers
    ]
    assert len(tables[0]) == 60
    np.testing.assert_allclose(
        tables[0].iloc[:, -1].astype(float),
        tables[1].iloc[:, -1].astype(float),
        atol=1e-9,
    )


def test_calls_of_y_and_mt_are_not_scored_as_two_copies(good, study):
    good("genotypes", "fit", study, "--build", "GRCh38", "--out", "run1")
    good("genotypes", "export", "run1.json", "--scores", "pgs", "--out", "run1.txt.gz")
    save_study(chromosomes=["1"] * 38 + ["Y", "MT"])
    argv = (study, "--build", "hg38", "--same-strand", "--json")
    found = good("genotypes", "predict", "run1.txt.gz", *argv).json
    assert any(
        "2 variants of study.bed on the chromosomes Y and MT" in note
        for note in found["notes"]
    )
    save_study(table=codes()[:38], chromosomes=["1"] * 38)
    assert (
        good("genotypes", "predict", "run1.txt.gz", *argv).json["answers"]
        == found["answers"]
    )


@needs_plink2
def test_the_commands_that_export_writes_give_the_scores(good, study):
    good("genotypes", "fit", study, "--out", "run1")
    good("genotypes", "export", "run1.json", "--scores", "plink2", "--out", "run1")
    text = Path("run1.plink2.txt").read_text()
    total = float(text.split("=", 1)[1].split()[0])
    for line in text.splitlines():
        if line.startswith("plink2 "):
            plink2(*line.replace("STUDY", "study").split()[1:])
    for name in ("additive", "dominant"):
        table = pd.read_csv(f"run1.{name}.sscore", sep="\t")
        total += table[f"{name.upper()}_SUM"].to_numpy()
    good("genotypes", "predict", "run1.json", study, "--out", "f.tsv")
    ours = pd.read_csv("f.tsv", sep="\t")["score"]
    np.testing.assert_allclose(total, ours, atol=1e-4)  # plink2 prints six digits


def test_a_model_of_tables_and_genotypes_do_not_go_together(bad, good, study):
    good("fit", "votes", "--out", "v")
    assert "a model of tables" in bad("genotypes", "predict", "v.json", study)
    good("genotypes", "fit", study, "--out", "run1")
    assert "votes" in bad("genotypes", "predict", "run1.json", "votes")


@pytest.mark.parametrize("name", ["study.bed", "study.vcf", "study.vcf.gz", "s.pgen"])
def test_commands_of_tables_answer_with_the_command_for_genotypes(bad, study, name):
    Path(name).touch()
    good_command = "'renyi genotypes fit'"
    assert good_command in bad("fit", name, "--target", "y")
    assert good_command in bad("fit", name)


@pytest.mark.parametrize(
    "words",
    [
        ("predict", "run1.json", "study.bed"),
        ("export", "run1.json", "--format", "python"),
        ("report", "run1.json"),
    ],
)
def test_commands_of_tables_say_that_a_model_is_of_genotypes(good, bad, study, words):
    good("genotypes", "fit", study, "--out", "run1")
    message = bad(*words)
    assert "run1.json" in message
    assert f"renyi genotypes {words[0]}" in message or f"'{words[0]}'" in message


def test_a_report_is_a_page_and_its_record(good, study):
    good("genotypes", "fit", study, "--out", "run1")
    done = good("genotypes", "report", "run1.json")
    assert "Wrote run1.report.html" in done.out
    assert "rs0" in Path("run1.report.html").read_text()
    record = json.loads(Path("run1.report.json").read_text())
    assert record["classes"] == ["1", "2"]


def test_a_plot_of_what_matters(good, bad, study):
    done = good("genotypes", "fit", study, "--plot", "run.png", "--json")
    assert done.json["written"] == {"plot": "run.png"}
    assert Path("run.png").read_bytes().startswith(b"\x89PNG")
    assert "run.gif" in bad("genotypes", "fit", study, "--plot", "run.gif")


def test_classes_of_a_file_are_not_judged_by_those_of_fam(good, study):
    """Which may be of another trait that is coded 1 and 2, too."""
    lines = [f"F{k // 2} I{k} {1 + k % 2}" for k in range(60)]
    Path("trait.txt").write_text("\n".join(lines) + "\n")
    good("genotypes", "fit", study, "--pheno", "trait.txt", "--out", "m")
    assert (
        good("genotypes", "predict", "m.json", study, "--json").json["judged"] is None
    )
    judged = good(
        "genotypes", "predict", "m.json", study, "--pheno", "trait.txt", "--json"
    ).json
    assert judged["judged"]["samples"] == 60
    good("genotypes", "fit", study, "--out", "n")
    judged = good("genotypes", "predict", "n.json", study, "--json").json["judged"]
    assert judged["samples"] == 60
