"""The commands predict and export for genotypes: a model, or scores of others."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd

from renyi.certificates.heldout import clopper_pearson
from renyi.cli import genotypes, output
from renyi.cli.output import Args, Facts, Recorded
from renyi.endings import PGS, PLINK2, WRITTEN, either
from renyi.formatting import at_most, number_of, percent, wrapped
from renyi.genotypes.files import Filters, Genotypes, without_haploid
from renyi.genotypes.metrics import risk_measures
from renyi.genotypes.samples import two_classes
from renyi.genotypes.scores import GenotypeScores, read_scores
from renyi.sources.files import existing
from renyi.warnings import warn


def predict(args: Args, recorded: Recorded) -> None:
    """Score the samples of a file with a model, or with a file of the PGS Catalog."""
    place = output.check_out(args, args.out, (".tsv", *WRITTEN))
    model = read_scores(existing(args.model))
    log: list[str] = []
    G = genotypes.loaded(args, log)
    G = Filters(keep=args.keep, remove=args.remove).apply_lists(G, log.append)
    G = without_haploid(G)
    covariates = None
    if model.covariates:
        args.covar_name = args.covar_name or list(model.covariates) * bool(args.covar)
        covariates = genotypes.covariates_of(args, G.samples)
    if args.covar is not None and not model.covariates:
        warn(f"{args.model} has no covariates: {args.covar} was not read.")
    if covariates is not None:
        known = covariates.reindex(columns=list(model.covariates)).notna().all(axis=1)
        used = genotypes.log_left_out(log, "without all covariates", known)
        if not used.any() and set(model.covariates) <= {*covariates}:
            raise ValueError(f"{args.covar} has no sample with all covariates.")
        G = G.select(samples=used)
        covariates = covariates[used]
    scored = model.score(G, covariates, args.build, args.same_strand)
    table = genotypes.sample_ids(G)
    facts: Facts = {"samples": G.packed.n, **scored.record.to_dict()}
    if model.classes is not None:
        p = model.probabilities(scored.scores, args.prevalence)
        table["prediction"] = np.where(p > 0.5, model.classes[1], model.classes[0])
        table[f"proba_{model.classes[1]}"] = p
    elif args.prevalence is not None:
        warn(f"--prevalence has no effect: {args.model} does not predict classes.")
    table["score"] = scored.scores
    judged = _judged(args, G, model, scored.scores, table)
    facts |= {"judged": judged, "notes": output.notes_of(recorded)}
    with output.answering(args, place, facts, {}, "\t") as write:
        write(table)
    if args.json:
        return
    output.print_notes(facts["notes"])
    print("\n".join([*log, *scored.record.lines()]), file=sys.stderr)
    if judged is not None:
        print("\n".join(_judged_lines(judged)), file=sys.stderr)
    if place is not None:
        print(f"Wrote {place} ({number_of(len(table), 'sample')})", file=sys.stderr)


def _judged(
    args: Args, G: Genotypes, model: GenotypeScores, scores: Any, table: pd.DataFrame
) -> Facts | None:
    """Return how well samples were answered whose class is known, if both are there."""
    elsewhere = args.pheno is None and model.meta.get(genotypes.PHENOTYPE_FILE)
    if model.classes is None or elsewhere:  # those of .fam may be of another trait
        return None
    texts, source = genotypes.phenotype(args, G)
    try:
        y, _ = two_classes(texts, source, model.classes)
    except ValueError as error:
        if args.pheno is not None:
            warn(f"The answers were not evaluated: {error}")
        return None
    known = y >= 0
    measures = risk_measures(scores[known], y[known], None, args.prevalence)
    wrong = table["prediction"].to_numpy() != np.array(model.classes)[y]
    return {
        "samples": int(known.sum()),
        "error": float(wrong[known].mean()),
        "error_bound": clopper_pearson(int(wrong[known].sum()), int(known.sum()), 0.95),
        **genotypes.measured(measures),
    }


def _judged_lines(judged: Facts) -> list[str]:
    bound = f"(95 %: at most {at_most(judged['error_bound'], 1)} on others)"
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
        genotypes.figure("error", percent(judged["error"]), bound),
        *genotypes.measured_lines(judged),
    ]


def export(args: Args) -> None:
    """Write the points of a model for plink2, or for the PGS Catalog."""
    pgs = args.scores == "pgs"
    if args.out is None:
        names = f"a file ({either(PGS)})" if pgs else "how the names of its files begin"
        raise ValueError(f"--scores {args.scores} needs --out: {names}.")
    for ending in ("",) if pgs else PLINK2:
        output.check_place(args, args.out + ending, PGS * pgs)
    model = read_scores(existing(args.model))
    if pgs:
        model.to_pgs(args.out)
        print(f"Wrote {args.out}", file=sys.stderr)
        return
    model.to_plink2(args.out)
    *tables, note = (args.out + ending for ending in PLINK2)
    wrote = f"Wrote {', '.join(tables)} and {note}"
    print(f"{wrote}, which has the two commands and the offset", file=sys.stderr)
