"""The command fit for genotypes: a .bed or .pgen file.

The log is in the manner of plink2: what was loaded, what every filter left, what was
found. A bound that holds for the counts of these very samples says nothing of others
where variants outnumber samples, so none is printed: errors and AUC are leave-one-out.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi import __version__
from renyi.cli import output
from renyi.cli.inputs import check_not_given, check_separate
from renyi.cli.output import Args, Facts, Meter, Recorded
from renyi.endings import GENOTYPE_POINTS, LOCO
from renyi.files import replacing
from renyi.formatting import number_of, percent, printable, wrapped
from renyi.genotypes.files import (
    Filters,
    Genotypes,
    files_beside,
    founders,
    genotype_path,
    read_genotypes,
)
from renyi.genotypes.fit import MISSING_AS, unpenalised
from renyi.genotypes.metrics import RiskMeasures, risk_measures
from renyi.genotypes.model import GenotypeModel
from renyi.genotypes.packed import code_counts
from renyi.genotypes.samples import (
    NO_VALUE,
    SampleColumns,
    read_sample_columns,
    two_classes,
)
from renyi.genotypes.scores import GenotypeScores, manhattan
from renyi.progress import Progress

# Options that only genotypes have, and those that only tables have.
OWN_OPTIONS: tuple[str, ...] = (
    *("pheno", "pheno_name", "classes", "covar", "covar_name", "groups", "additive"),
    *("keep", "remove", "extract", "exclude", "chr", "region", "mind", "geno", "maf"),
    *("build", "same_strand", "device", "loco"),
)
TABLE_OPTIONS: tuple[str, ...] = (
    *("target", "where", "sql", "table", "id", "drop", "numeric"),
    *("categorical", "weight", "bins", "min_count", "unseen", "class_conditional"),
    *("order", "rule", "class_weight", "objective", "calibration", "no_intercept"),
    *("confidence", "method", "marginals", "spreadsheet"),
)
PHENOTYPE_FILE = "phenotype_file"  # whether the classes are not those of .fam
_TOP = 10
_NO_BOUND = (
    "No bound is shown. A certificate of these samples holds only for populations with "
    "exactly their counts of pairs of genotypes, and new samples have other counts: "
    "the fewer samples ({n:,}) there are for the variants ({d:,}), the closer it is to "
    "zero, while the error on new samples is not. The figures above are for left-out "
    "samples; a valid bound needs samples that were not used in training."
)
CODINGS = {True: "points for 0, 1 and 2 copies", False: "additive"}


def requested(args: Args) -> bool:
    """Whether a command is about genotypes; refuse options for other files."""
    place = genotype_path(args.file) if args.file else None
    if place is not None and len(args.files) > 1:
        raise ValueError(
            f"{args.files[1]} is one file too many: genotypes are read from one, here "
            f"{place} (merge files with 'plink2 --pmerge-list')."
        )
    others = OWN_OPTIONS
    what = "genotypes (.bed, .pgen)"
    held = "none"
    if place is not None:
        others = TABLE_OPTIONS
        what = "tables"
        held = "genotypes"
    elif args.command == "fit":
        others = (*OWN_OPTIONS, "prevalence", "plot")
    source = args.file or "the query"
    why = f"is for {what}, but {source} holds {held}: leave it out"
    check_not_given(args, others, why)
    return place is not None


# ---- what is read


class Study(NamedTuple):
    """Genotypes to learn from, with classes and what else is known of the samples."""

    genotypes: Genotypes
    y: NDArray[np.int64]
    classes: tuple[str, str]
    covariates: pd.DataFrame | None
    groups: NDArray[Any] | None
    log: list[str]


def loaded(args: Args, log: list[str]) -> Genotypes:
    """Read the genotypes, and say how many there are."""
    with Meter() as meter:
        found = read_genotypes(args.file, meter)
    sexes = found.samples["sex"].value_counts()
    samples, variants = files_beside(found.path)
    kinds = [f"{int(sexes.get('2', 0)):,} females", f"{int(sexes.get('1', 0)):,} males"]
    log += [
        f"{number_of(found.packed.n, 'sample')} ({', '.join(kinds)}; "
        f"{int(founders(found.samples).sum()):,} founders) loaded from {samples}.",
        f"{number_of(found.packed.d, 'variant')} loaded from {variants}.",
    ]
    return found


def sample_ids(G: Genotypes) -> pd.DataFrame:
    """Return how samples are named in tables that are written."""
    return G.samples[["fid", "iid"]].rename(columns=str.upper)


def _study(args: Args) -> Study:
    """Read what is to be learned from, filtered."""
    log: list[str] = []
    G = loaded(args, log)
    texts, source = phenotype(args, G)
    y, classes = two_classes(texts, source, args.classes)
    covariates = covariates_of(args, G.samples)
    groups = _groups(args, G.samples)
    neither = f"that are neither {classes[0]} nor {classes[1]}"
    used = log_left_out(log, neither, y >= 0)
    if covariates is not None:
        used &= log_left_out(
            log, "without all covariates", covariates.notna().all(axis=1)
        )
    if groups is not None:
        used &= log_left_out(log, "without a group", groups.notna())
    if not used.any():
        raise ValueError(f"No sample of {G.path} is left: {' '.join(log[2:])}")
    rows = G.samples.assign(row=np.arange(len(y)))  # to find them again
    G = replace(G, samples=rows).select(samples=used)
    names = ("keep", "remove", "extract", "exclude", "mind", "geno", "maf")
    alike = {name: getattr(args, name) for name in names}
    filters = Filters(chromosomes=args.chr, regions=args.region, **alike)
    with Meter() as meter:
        meter(Progress("filtering", facts=number_of(G.packed.d, "variant")))
        G = filters.apply(G, log.append)
    kept = G.samples["row"].to_numpy()
    y = y[kept]
    for k, name in enumerate(classes):
        if not (y == k).any():
            raise ValueError(f"The filters leave no sample of the class {name!r}.")
    log.append(
        f"{number_of(G.packed.d, 'variant')} and {number_of(len(y), 'sample')} "
        f"(class {classes[0]}: {(y == 0).sum():,}, class {classes[1]}: "
        f"{(y == 1).sum():,}) remaining."
    )
    return Study(
        G,
        y,
        classes,
        None if covariates is None else covariates.iloc[kept],
        None if groups is None else groups.to_numpy()[kept],
        log,
    )


def log_left_out(log: list[str], why: str, used: Any) -> NDArray[np.bool_]:
    """Return which samples are used; log how many are not, and why."""
    found = np.asarray(used, bool)
    gone = int((~found).sum())
    if gone:
        log.append(f"{number_of(gone, 'sample')} {why} left out.")
    return found


def phenotype(args: Args, G: Genotypes) -> tuple[Sequence[str | None], str]:
    """Return the phenotype of every sample, and where it is from."""
    if args.pheno is None:
        if args.pheno_name is not None:
            raise ValueError("--pheno-name names a column of --pheno: add the file.")
        return G.samples["phenotype"].tolist(), files_beside(G.path)[0]
    found = read_sample_columns(args.pheno, G.samples)
    names = [str(name) for name in found.texts]
    if args.pheno_name is None and len(names) != 1:
        shown = ", ".join(names) or "none"
        raise ValueError(
            f"{found.path} has {number_of(len(names), 'column')} ({shown}): name the "
            "phenotype with --pheno-name."
        )
    name = args.pheno_name or names[0]
    column = found.chosen([name]).texts[name]
    return column.tolist(), f"{found.path}, column {name!r},"


def covariates_of(args: Args, samples: pd.DataFrame) -> pd.DataFrame | None:
    """Return the covariates of every sample, NaN where they are missing."""
    if args.covar is None:
        if args.covar_name:
            raise ValueError("--covar-name names columns of --covar: add the file.")
        return None
    found: SampleColumns = read_sample_columns(args.covar, samples, "COVAR")
    check_separate(args, ["covar_name"], list(found.texts.columns))
    return found.chosen(args.covar_name or None).numbers()


def _groups(args: Args, samples: pd.DataFrame) -> pd.Series | None:
    """Return the group of every sample; the word FID means the families."""
    if args.groups is None:
        return None
    if args.groups == "FID":
        alone = samples["fid"] == "0"  # PLINK's word for no family
        if alone.all():
            raise ValueError(
                f"--groups FID needs families, and every FID of {args.file} is 0: name "
                "a file with a group for each sample."
            )
        return samples["fid"].where(~alone, "0 " + samples["iid"])
    texts = read_sample_columns(args.groups, samples, "GROUP").texts
    if texts.shape[1] != 1:
        raise ValueError(
            f"{args.groups} has {number_of(texts.shape[1], 'column')} besides the ids, "
            "but groups are one column."
        )
    return texts.iloc[:, 0].where(~texts.iloc[:, 0].isin(NO_VALUE))


# ---- fit


def fit(args: Args, recorded: Recorded) -> None:
    """Train a classifier of genotypes, and say how well it answers left-out samples."""
    prefix = check_prefix(args)
    picture = _check_options(args)
    begun = datetime.now().astimezone()
    study = _study(args)
    X = None
    if study.covariates is not None:
        X = study.covariates.to_numpy()
        unpenalised(len(X), X, list(study.covariates.columns))  # names one that is idle
    clf, rest = _learned(args, study, X)
    measures = risk_measures(
        clf.left_out_scores_,
        study.y,
        X,
        args.prevalence,
        added=clf.left_out_genetic_,
        cells=clf.left_out_cells_,
    )
    model = _model(args, study, clf)
    facts = _facts(args, study, clf, measures, model)
    step = output.keeping(args)
    if prefix is not None:
        names = (f"{prefix}.json", prefix + GENOTYPE_POINTS, f"{prefix}.log")
        facts["written"] = dict(zip(("model", "points", "log"), names, strict=True))
        if rest is not None:
            facts["written"]["loco"] = prefix + LOCO
        beside = "" if X is None else " --covar FILE"
        step = f"renyi predict {shlex.quote(names[0])} OTHER.bed{beside}"
        step += " --out answers.tsv"
    if picture is not None:
        output.draw(picture, lambda: manhattan(model))
        facts["written"] = {**facts.get("written", {}), "plot": str(picture)}
    facts |= {"next": step, "notes": output.notes_of(recorded)}
    text = _fit_text(facts)
    if prefix is not None:
        model.save(f"{prefix}.json")
        if rest is not None:
            with output.writing(Path(prefix + LOCO), {}) as write:
                write(pd.concat([sample_ids(study.genotypes), rest], axis=1))
        with replacing(f"{prefix}.log") as stream:
            stream.write(_log(args, begun, study.log, text))
    print_fit(args, args.file, facts, text)


def print_fit(args: Args, source: str, facts: Facts, text: str) -> None:
    """Print the facts as JSON, or the log and the text."""
    if args.json:
        output.print_json({"source": source, **facts})
    else:
        print("\n".join(facts["log"]) + "\n\n" + text)


def _check_options(args: Args) -> Path | None:
    """Refuse what cannot be done before any work is; return where to draw, if asked."""
    _missing(args)
    if args.loco:
        if args.out is None:
            raise ValueError(f"--loco needs --out: scores are written to PREFIX{LOCO}.")
        output.check_place(args, f"{output.prefix_of(args, counts=False)}{LOCO}")
    return output.check_picture(args)


def _missing(args: Args) -> str:
    """Return what missing calls count as."""
    found = " ".join(args.missing) if args.missing else MISSING_AS[0]
    if found not in MISSING_AS:
        raise ValueError(
            "For genotypes, --missing must be category (a genotype of its own) or "
            f"mean, not {found}."
        )
    return found


def _learned(
    args: Args, study: Study, X: NDArray[np.float64] | None
) -> tuple[GenotypeModel, pd.DataFrame | None]:
    """Fit; beside it, with --loco, score without each chromosome."""
    clf = GenotypeModel(
        alpha="auto" if args.alpha == "loo" else args.alpha,
        dominance=not args.additive,
        missing=_missing(args),
        device=args.device or "cpu",
        random_state=args.seed or 0,
    )
    G = study.genotypes
    rest = None
    with Meter() as meter:
        meter(Progress("learning", facts=study.log[-1].removesuffix(" remaining.")))
        clf.fit(G.packed, study.y, X, study.groups)
        if args.loco:
            meter(Progress("leaving out", facts="one chromosome after the other"))
            rest = clf.leave_chromosomes_out(G, study.y, X, study.groups)
    return clf, rest


def check_prefix(args: Args) -> str | None:
    """Return how the names of the model's files begin, if they may be written."""
    prefix = output.prefix_of(args, counts=False)
    if prefix is not None:
        output.check_place(args, prefix + GENOTYPE_POINTS)
    return prefix


def _model(args: Args, study: Study, clf: GenotypeModel) -> GenotypeScores:
    names = [] if study.covariates is None else list(study.covariates.columns)
    return GenotypeScores.from_counts(
        study.genotypes.variants,
        clf.points_,
        code_counts(study.genotypes.packed),
        intercept=float(clf.intercept_),
        classes=study.classes,
        share=float(study.y.mean()),
        build=args.build,
        covariates=dict(zip(names, np.atleast_1d(clf.covariate_coef_), strict=True)),
        calibration=clf.calibration_,
        meta={
            "samples": study.genotypes.packed.n,
            "alpha": float(clf.alpha_),
            "dominance": clf.dominance,
            "missing": clf.missing,
            "loo_error": float(clf.loo_error_),
            PHENOTYPE_FILE: args.pheno is not None,
        },
    )


def _facts(
    args: Args,
    study: Study,
    clf: GenotypeModel,
    measures: RiskMeasures,
    model: GenotypeScores,
) -> Facts:
    figures = clf.figures_
    counts = np.bincount(study.y, minlength=2)
    return {
        "renyi": __version__,
        "samples": len(study.y),
        "variants": study.genotypes.packed.d,
        "classes": dict(zip(study.classes, counts.tolist(), strict=True)),
        "covariates": dict(model.covariates),
        "groups": None if study.groups is None else len(pd.unique(study.groups)),
        "dominance": clf.dominance,
        "missing": clf.missing,
        "alpha": float(clf.alpha_),
        "alpha_given": not isinstance(args.alpha, str),
        "method": figures.method,
        "loo_error": figures.error,
        "majority_error": figures.majority_error,
        "covariates_error": figures.covariates_error,
        "covariates_auc": figures.covariates_auc,
        "residual": figures.residual,
        **measured(measures),
        "auc_interval": figures.auc_interval,
        "top": output.records(model.top(_TOP)),
        "log": study.log,
    }


def measured(measures: RiskMeasures) -> Facts:
    """Return measures of a score as plain values."""
    names = ("auc", "auc_interval", "nagelkerke_r2", "liability_r2", "prevalence")
    return {name: getattr(measures, name) for name in names}


def _fit_text(facts: Facts) -> str:
    first, second = facts["classes"].items()
    how = CODINGS[facts["dominance"]]
    gaps = {"category": "a genotype of their own", "mean": "the mean of the others"}
    chosen = "as given" if facts["alpha_given"] else "chosen by left-out samples"
    learned = [
        f"Learned to tell {second[0]!r} from {first[0]!r}.",
        f"  samples   class {first[0]}: {first[1]:,}, class {second[0]}: {second[1]:,}",
        f"  variants  {facts['variants']:,}, {how}",
        f"  missing   calls count as {gaps[facts['missing']]}",
        f"  alpha     {facts['alpha']:.4g}, {chosen}",
    ]
    if facts["covariates"]:
        learned.insert(
            3, wrapped(", ".join(facts["covariates"]), "  beside    ", " " * 12)
        )
    errors = [
        f"On samples that were left out ({facts['method']})",
        figure("error", percent(facts["loo_error"])),
        figure("error of guessing the larger class", percent(facts["majority_error"])),
        *measured_lines(facts),
    ]
    if facts["covariates"]:
        alone = percent(facts["covariates_error"])
        errors.append(figure("error of covariates alone", alone))
        alone = f"{facts['covariates_auc']:.3f}"
        errors.append(figure("AUC of covariates alone", alone))
    top = top_lines(facts["top"])
    bound = _NO_BOUND.format(n=facts["samples"], d=facts["variants"])
    blocks = [learned, errors, [output.indented(bound)], top]
    return output.joined(blocks, facts)


def top_lines(rows: Sequence[Facts]) -> list[str]:
    """Return the variants that matter most, in words."""
    top = ["Variants that matter most (importance: largest difference of points)"]
    top += [f"  {'variant':<20} {'place':<16} {'A1':<5} {'importance':>10}"]
    for row in rows:
        place = f"{row['chromosome']}:{row['position']}"
        name = printable(row["id"])[:20]
        shown = f"  {name:<20} {place:<16} {row['a1'][:5]:<5}"
        top.append(f"{shown} {row['swing']:>10.4g}")
    return top


def measured_lines(facts: Facts) -> list[str]:
    """Return measures of a score in words."""
    low, high = facts["auc_interval"]
    added = " beyond covariates" * bool(facts.get("covariates"))
    lines = [
        figure("AUC", f"{facts['auc']:.3f}", f"(95 %: {low:.3f} to {high:.3f})"),
        figure(f"Nagelkerke R²{added}", f"{facts['nagelkerke_r2']:.3f}"),
    ]
    if facts["liability_r2"] is not None:
        at = f"(at a prevalence of {facts['prevalence']:g})"
        lines.append(
            figure("R² on the liability scale", f"{facts['liability_r2']:.3f}", at)
        )
        if facts["liability_r2"] > 1:
            lines.append("    above 1: its formula is for scores that explain little")
    return lines


def figure(what: str, value: str, more: str = "") -> str:
    """Return a figure with its name, in a line of a table."""
    return f"  {what:<34} {value:>8} {more}".rstrip()


def _log(args: Args, begun: datetime, log: list[str], text: str) -> bytes:
    """Return a log as plink2 writes it."""
    now = datetime.now().astimezone()
    lines = [
        f"renyi {__version__}",
        f"Command: {output.command(args.argv)}",
        f"Start time: {begun:%Y-%m-%d %H:%M:%S %z}",
        "",
        *log,
        "",
        text,
        "",
        f"End time: {now:%Y-%m-%d %H:%M:%S %z}",
    ]
    return output.log_bytes(lines)
