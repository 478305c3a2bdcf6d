"""Run the commands of ``renyi genotypes``: fit, predict, export and report.

They print no guarantee. It would hold only for the pair counts of these samples, and
means nothing for others if there are more variants than samples. ``predict`` prints a
bound from samples whose classes are known.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from renyi import __version__
from renyi.certificates.heldout import clopper_pearson
from renyi.certificates.left_out import error_interval
from renyi.certificates.three_lines import QUOTE
from renyi.cli import messages, output
from renyi.cli.output import Facts, Meter, Recorded
from renyi.cli.parser import WRITTEN, Args
from renyi.files import replacing
from renyi.formatting import (
    at_most,
    either,
    interval_text,
    number_of,
    percent,
    printable,
    wrapped,
)
from renyi.genotypes.files import Filters, Genotypes, read_genotypes, without_haploid
from renyi.genotypes.fit import unpenalised
from renyi.genotypes.metrics import risk_measures
from renyi.genotypes.model import GenotypeModel
from renyi.genotypes.packed import code_counts
from renyi.genotypes.report import genotype_report
from renyi.genotypes.samples import two_classes
from renyi.genotypes.scores import GenotypeScores, manhattan, read_scores
from renyi.genotypes.study import (
    Study,
    loaded_lines,
    log_left_out,
    read_covariates,
    read_phenotype,
    read_study,
)
from renyi.genotypes.suffixes import CALLS, GENOTYPES, LOCO, PGS, PLINK2, POINTS
from renyi.progress import Progress
from renyi.sources.files import existing
from renyi.warnings import warn

Floats = NDArray[np.float64]

_PHENOTYPE_FILE = "phenotype_file"  # whether the classes come from --pheno
_TOP = 10
_LIKE_GUESSING = 0.9  # share of the larger class's error, from which answers say little
_WORTH_MOVING = 0.8  # share of the error that a moved threshold may leave
_NO_BOUND = (
    "No guarantee is shown. It would hold only for populations with exactly the pair "
    "counts of these samples, and new samples have other counts. The fewer samples "
    "({n:,}) there are for the variants ({d:,}), the closer it is to zero, while the "
    "error on new samples is not. The figures above are for left-out samples. A bound "
    "to quote needs samples that were not used in training."
)
_GUESSING = "error of guessing the larger class"
_CODINGS = {True: "points for 0, 1 and 2 copies", False: "additive"}
_GAPS = {"category": "a separate genotype", "mean": "the mean of the others"}


# ---- fit


def fit(args: Args, recorded: Recorded) -> None:
    """Train a genotype classifier, and print its figures on left-out samples."""
    _protect_inputs(args)
    prefix = _check_prefix(args)
    picture = output.check_picture(args)
    begun = datetime.now().astimezone()
    study = _read(args)
    if study.X is not None and study.covariates is not None:
        unpenalised(len(study.y), study.X, list(study.covariates.columns))
    clf = _fitted(args, study)
    without = _leave_chromosomes_out(clf, study) if args.loco else None
    model = _scores_of(args, study, clf)
    facts = _facts(args, study, clf, model)
    facts["written"] = _written(prefix, picture, args.loco)
    facts["next"] = _next_step(args, prefix, study.X is not None)
    facts["notes"] = messages.notes_of(recorded)
    if picture is not None:
        output.draw(picture, lambda: manhattan(model).figure)
    text = _fit_text(facts)
    if prefix is not None:
        model.save(f"{prefix}.json")
        if without is not None:
            with output.writing(Path(prefix + LOCO), {}) as write:
                write(pd.concat([_sample_ids(study.genotypes), without], axis=1))
        with replacing(f"{prefix}.log") as stream:
            stream.write(_log(args, begun, study.log, text))
    if args.json:
        output.print_json({"source": args.file, **facts})
    else:
        print("\n".join(study.log) + "\n\n" + text)


def _protect_inputs(args: Args) -> None:
    """Register the sample and variant files, so that none is overwritten."""
    if args.file.endswith(GENOTYPES):
        beside = [ending for pair in CALLS.values() for ending in pair]
        args.reads += [str(Path(args.file).with_suffix(each)) for each in beside]


def _check_prefix(args: Args) -> str | None:
    """Return the prefix of the model's files, if they may be written."""
    prefix = output.prefix_of(args, counts=False)
    if prefix is not None:
        output.check_place(args, prefix + POINTS)
    if args.loco:
        if prefix is None:
            raise ValueError(f"--loco needs --out: scores are written to PREFIX{LOCO}.")
        output.check_place(args, prefix + LOCO)
    return prefix


def _read(args: Args) -> Study:
    filters = Filters(
        keep=args.keep,
        remove=args.remove,
        extract=args.extract,
        exclude=args.exclude,
        chromosomes=args.chr,
        regions=args.region,
        mind=args.mind,
        geno=args.geno,
        maf=args.maf,
    )
    with Meter() as meter:
        return read_study(
            args.file,
            pheno=args.pheno,
            pheno_name=args.pheno_name,
            classes=args.classes,
            covar=args.covar,
            covar_name=args.covar_name,
            groups=args.groups,
            filters=filters,
            progress=meter,
        )


def _fitted(args: Args, study: Study) -> GenotypeModel:
    clf = GenotypeModel(
        alpha="auto" if args.alpha == "loo" else args.alpha,
        dominance=not args.additive,
        missing=args.missing_calls or "category",
        device=args.device or "cpu",
        random_state=args.seed or 0,
    )
    with Meter() as meter:
        meter(Progress("learning", facts=study.log[-1].removesuffix(" remaining.")))
        return clf.fit(study.genotypes.packed, study.y, study.X, study.groups)


def _leave_chromosomes_out(clf: GenotypeModel, study: Study) -> pd.DataFrame:
    G = study.genotypes
    with Meter() as meter:
        meter(Progress("leaving out", facts="one chromosome after the other"))
        return clf.leave_chromosomes_out(G, study.y, study.X, study.groups)


def _scores_of(args: Args, study: Study, clf: GenotypeModel) -> GenotypeScores:
    """Return the model as points that other programs can use."""
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
            _PHENOTYPE_FILE: args.pheno is not None,
        },
    )


def _facts(
    args: Args, study: Study, clf: GenotypeModel, model: GenotypeScores
) -> Facts:
    metrics = clf.metrics_
    measures = risk_measures(
        clf.left_out_scores_,
        study.y,
        study.X,
        args.prevalence,
        added=clf.left_out_genetic_,
        cells=clf.left_out_cells_,
    )
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
        "method": metrics.method,
        "loo_error": metrics.error,
        "majority_error": metrics.majority_error,
        "balanced_threshold": metrics.balanced_threshold,
        "balanced_error": metrics.balanced_error,
        "covariates_error": metrics.covariates_error,
        "covariates_auc": metrics.covariates_auc,
        "residual": metrics.residual,
        **asdict(measures),
        "auc_interval": metrics.auc_interval,
        "top": output.records(model.top(_TOP)),
        "log": study.log,
    }


def _written(prefix: str | None, picture: Path | None, loco: bool) -> dict[str, str]:
    """Return the files that the command writes, by kind."""
    files: dict[str, str] = {}
    if prefix is not None:
        files["model"] = f"{prefix}.json"
        files["points"] = prefix + POINTS
        files["log"] = f"{prefix}.log"
        if loco:
            files["loco"] = prefix + LOCO
    if picture is not None:
        files["plot"] = str(picture)
    return files


def _next_step(args: Args, prefix: str | None, with_covariates: bool) -> str:
    """Return the command to run next."""
    if prefix is None:
        return output.keeping(args)
    beside = " --covar FILE" if with_covariates else ""
    model = shlex.quote(f"{prefix}.json")
    return f"renyi genotypes predict {model} OTHER.bed{beside} --out answers.tsv"


def _fit_text(facts: Facts) -> str:
    first, second = facts["classes"].items()
    chosen = "as given" if facts["alpha_given"] else "chosen by left-out samples"
    learned = [
        f"Model of {second[0]!r} against {first[0]!r}.",
        f"  samples   class {first[0]}: {first[1]:,}, class {second[0]}: {second[1]:,}",
        f"  variants  {facts['variants']:,}, {_CODINGS[facts['dominance']]}",
        f"  missing   calls count as {_GAPS[facts['missing']]}",
        f"  alpha     {facts['alpha']:.4g}, {chosen}",
    ]
    if facts["covariates"]:
        names = wrapped(", ".join(facts["covariates"]), "  covars    ", " " * 12)
        learned.insert(3, names)
    errors = [
        f"On samples that were left out ({facts['method']})",
        _line("error", percent(facts["loo_error"]), _interval(facts)),
        _line(_GUESSING, percent(facts["majority_error"])),
        *measured_lines(facts),
    ]
    if facts["covariates"]:
        error = percent(facts["covariates_error"])
        errors.append(_line("error of covariates alone", error))
        auc = f"{facts['covariates_auc']:.3f}"
        errors.append(_line("AUC of covariates alone", auc))
    errors += _balanced_lines(facts)
    bound = _NO_BOUND.format(n=facts["samples"], d=facts["variants"])
    blocks = [learned, errors, [output.indented(bound)], _top_lines(facts["top"])]
    return output.joined(blocks, facts)


def _balanced_lines(facts: Facts) -> list[str]:
    """Advise the balanced threshold if the usual one answers one class for all."""
    error = facts["loo_error"]
    if (
        error < _LIKE_GUESSING * facts["majority_error"]
        or facts["balanced_error"] > _WORTH_MOVING * error
    ):
        return []
    text = (
        "The answers are no better than guessing the larger class, although the scores "
        "rank the samples. Answer the second class where the score is above "
        f"{facts['balanced_threshold']:.3f} instead of 0: on left-out samples the "
        f"error is then {percent(facts['balanced_error'])}."
    )
    return [output.indented(text)]


def _top_lines(rows: Sequence[Facts]) -> list[str]:
    """Return the variants that matter most, as lines of a table."""
    lines = [
        "Variants that matter most (importance: largest difference of points)",
        f"  {'variant':<20} {'place':<16} {'A1':<5} {'importance':>10}",
    ]
    for row in rows:
        place = f"{row['chromosome']}:{row['position']}"
        name = printable(row["id"])[:20]
        shown = f"  {name:<20} {place:<16} {row['a1'][:5]:<5}"
        lines.append(f"{shown} {row['importance']:>10.4g}")
    return lines


def measured_lines(facts: Mapping[str, object]) -> list[str]:
    """Return measures of a score as lines of a table."""
    values: Facts = dict(facts)
    low, high = values["auc_interval"]
    added = " beyond covariates" * bool(values.get("covariates"))
    lines = [
        _line("AUC", f"{values['auc']:.3f}", f"(95 %: {low:.3f} to {high:.3f})"),
        _line(f"Nagelkerke R²{added}", f"{values['nagelkerke_r2']:.3f}"),
    ]
    r2 = values["liability_r2"]
    if r2 is not None:
        at = f"(at a prevalence of {values['prevalence']:g})"
        lines.append(_line("R² on the liability scale", f"{r2:.3f}", at))
        if r2 > 1:
            lines.append("    above 1: its formula is for scores that explain little")
    return lines


def _interval(facts: Facts) -> str:
    """Return the 95 % interval of the error on left-out samples."""
    low, high = error_interval(facts["loo_error"], facts["samples"])
    return f"(95 %: {interval_text(low, high)})"


def _line(what: str, value: str, more: str = "") -> str:
    """Return a value with its name, as a line of a table."""
    return f"  {what:<34} {value:>8} {more}".rstrip()


def _log(args: Args, begun: datetime, log: list[str], text: str) -> bytes:
    """Return a log in the style of plink2."""
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


def _sample_ids(G: Genotypes) -> pd.DataFrame:
    """Return the columns that identify samples in written tables."""
    return G.samples[["fid", "iid"]].rename(columns=str.upper)


# ---- predict


def predict(args: Args, recorded: Recorded) -> None:
    """Score the samples of a file with a model, or with a PGS Catalog file."""
    _protect_inputs(args)
    place = output.check_out(args, args.out, (".tsv", *WRITTEN))
    model = read_scores(existing(args.model))
    with Meter() as meter:
        G = read_genotypes(args.file, meter)
    log = loaded_lines(G)
    G = Filters(keep=args.keep, remove=args.remove).apply_lists(G, log.append)
    G = without_haploid(G)
    G, covariates = _with_covariates(args, model, G, log)
    scored = model.score(G, covariates, args.build, args.same_strand)
    table = _answers(args, model, G, scored.scores)
    facts: Facts = {"samples": G.packed.n, **scored.record.to_dict()}
    judged = _evaluated(args, G, model, scored.scores, table)
    facts["judged"] = judged
    facts["notes"] = messages.notes_of(recorded)
    with output.answering(args, place, facts, {}, "\t") as write:
        write(table)
    if args.json:
        return
    messages.print_notes(facts["notes"])
    lines = [*log, *scored.record.lines()]
    if judged is not None:
        lines += _evaluated_lines(judged)
    if place is not None:
        lines.append(f"Wrote {place} ({number_of(len(table), 'sample')})")
    print("\n".join(lines), file=sys.stderr)


def _with_covariates(
    args: Args, model: GenotypeScores, G: Genotypes, log: list[str]
) -> tuple[Genotypes, pd.DataFrame | None]:
    """Return the samples that have all covariates of the model, and these."""
    if not model.covariates:
        if args.covar is not None:
            warn(f"{args.model} has no covariates: {args.covar} was not read.")
        return G, None
    wanted = list(model.covariates)
    names = args.covar_name or (wanted if args.covar else [])
    covariates = read_covariates(G.samples, args.covar, names)
    if covariates is None:
        return G, None
    known = covariates.reindex(columns=wanted).notna().all(axis=1)
    used = log_left_out(log, "without all covariates", known)
    if not used.any() and {*wanted} <= {*covariates}:
        raise ValueError(f"{args.covar} has no sample with all covariates.")
    return G.select(samples=used), covariates[used]


def _answers(
    args: Args, model: GenotypeScores, G: Genotypes, scores: Floats
) -> pd.DataFrame:
    """Return a row for each sample: answer, probability, score."""
    table = _sample_ids(G)
    if model.classes is not None:
        p = model.probabilities(scores, args.prevalence)
        table["prediction"] = np.where(p > 0.5, model.classes[1], model.classes[0])
        table[f"proba_{model.classes[1]}"] = p
    elif args.prevalence is not None:
        warn(f"--prevalence has no effect: {args.model} does not predict classes.")
    table["score"] = scores
    return table


def _evaluated(
    args: Args,
    G: Genotypes,
    model: GenotypeScores,
    scores: Floats,
    table: pd.DataFrame,
) -> Facts | None:
    """Return figures on the answers if the classes of samples are known."""
    elsewhere = args.pheno is None and model.meta.get(_PHENOTYPE_FILE)
    if model.classes is None or elsewhere:  # .fam may have another trait
        return None
    texts, source = read_phenotype(G, args.pheno, args.pheno_name)
    try:
        y, _ = two_classes(texts, source, model.classes)
    except ValueError as error:
        if args.pheno is not None:
            warn(f"The answers were not evaluated: {error}")
        return None
    known = y >= 0
    measures = risk_measures(scores[known], y[known], None, args.prevalence)
    wrong = table["prediction"].to_numpy() != np.array(model.classes)[y]
    wrong = wrong[known]
    return {
        "samples": len(wrong),
        "error": float(wrong.mean()),
        "error_bound": clopper_pearson(int(wrong.sum()), len(wrong), 0.95),
        "majority_error": 1 - float(np.bincount(y[known]).max() / len(wrong)),
        **asdict(measures),
    }


def _evaluated_lines(judged: Facts) -> list[str]:
    bound = at_most(judged["error_bound"], 1)
    useful = judged["error_bound"] < judged["majority_error"]
    head = (
        f"On {number_of(judged['samples'], 'sample')} with a known class; valid for "
        "others if these are a random sample of them and were not used in training"
    )
    if judged["prevalence"] is not None:
        head += (
            ". Errors are those of the answers for a prevalence of "
            f"{judged['prevalence']:g}, at the share of cases among these samples"
        )
    return [
        wrapped(f"{head}:"),
        _line("error", percent(judged["error"])),
        _line("error at most, 95 % confidence", bound, QUOTE if useful else ""),
        _line(_GUESSING, percent(judged["majority_error"])),
        *measured_lines(judged),
    ]


# ---- export and report


def export(args: Args, recorded: Recorded) -> None:
    """Write the points of a model for plink2, or for the PGS Catalog."""
    if args.scores is None:
        raise ValueError("Choose an output: --scores plink2 or --scores pgs.")
    pgs = args.scores == "pgs"
    if args.out is None:
        names = f"a file ({either(PGS)})" if pgs else "how the names of its files begin"
        raise ValueError(f"--scores {args.scores} needs --out: {names}.")
    for ending in ("",) if pgs else PLINK2:
        output.check_place(args, args.out + ending, PGS if pgs else ())
    model = read_scores(existing(args.model))
    if pgs:
        model.to_pgs(args.out)
        print(f"Wrote {args.out}", file=sys.stderr)
        return
    model.to_plink2(args.out)
    *tables, note = (args.out + ending for ending in PLINK2)
    wrote = f"Wrote {', '.join(tables)} and {note}"
    print(f"{wrote}, which has the two commands and the offset", file=sys.stderr)


def report(args: Args, recorded: Recorded) -> None:
    """Write the page of a model, and its figures as JSON."""
    from renyi.cli.report import report_places, show_report  # loads much else

    places = report_places(args)
    made = {"report": output.command(args.argv)}
    model = GenotypeScores.load(existing(args.model))
    show_report(args, genotype_report(model, made, args.title), places, recorded)
