"""The command fit for counts of genotypes, with pairs from a panel of other people.

Cases and controls may be in another place, of which only counts came.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.cli import genotypes, output
from renyi.cli.inputs import check_not_given
from renyi.cli.output import Args, Facts, Recorded
from renyi.counting.genotype_kernel import GenotypeKernel
from renyi.counting.packed import MISSING, OBSERVED, code_counts, scores
from renyi.endings import GENOTYPE_POINTS
from renyi.exports.allele_matching import match_variants
from renyi.exports.score_files import GenotypeScores
from renyi.formatting import at_most, chosen_percent, number_of, percent, printable
from renyi.solvers.summary_ridge import Certified, Summary, certify_summary, fit_summary
from renyi.sources.genotype_tables import GenotypeCounts, read_genotype_counts
from renyi.sources.genotypes import Filters, Genotypes, frequency_of
from renyi.warnings import warn

Floats = NDArray[np.float64]

CLASSES = ("control", "case")
_FAR = 0.15  # how far apart frequencies contradict: and in errors
_SURE = 6.0
_SMALLEST = 1e-6  # alpha: below, points are rounding
_MOST = 0.01  # share of variants that may contradict, and are dropped
_TOP = 10
_SHOWN = 5


def fit(args: Args, recorded: Recorded) -> None:
    """Train a model from counts and a panel, and say what is known of it."""
    if args.ld_panel is None or args.genotype_counts is None:
        raise ValueError("--genotype-counts and --ld-panel go together: name both.")
    if args.files:
        raise ValueError(f"{args.files[0]} is one file too many: leave it out.")
    others = {*genotypes.OWN_OPTIONS, *genotypes.TABLE_OPTIONS, "plot", "missing"}
    why = "cannot be used with --genotype-counts: leave it out"
    check_not_given(args, sorted(others - {"build"}), why)
    prefix = genotypes.check_prefix(args)
    log: list[str] = []
    args.file = args.ld_panel
    study = read_genotype_counts(args.genotype_counts)
    panel = genotypes.loaded(args, log)
    panel = Filters().apply(panel, log.append)  # without haploid calls
    panel, counts = _aligned(args, study, panel, log)
    share = args.prevalence or float(np.median(_class_shares(counts, None)[:, 1]))
    alpha = None if isinstance(args.alpha, str) else args.alpha
    if alpha is not None and alpha < _SMALLEST:
        raise ValueError(f"--alpha {alpha:g} is too small for counts of genotypes.")
    model, certified = fit_counts(panel, counts, share, alpha, args.build)
    facts: Facts = {
        "renyi": __version__,
        "variants": panel.packed.d,
        "panel": panel.packed.n,
        "missing": int(code_counts(panel.packed)[:, MISSING].sum()),
        "cases": int(counts[:, 1].sum(axis=1).max()),
        "controls": int(counts[:, 0].sum(axis=1).max()),
        "share": share,
        **model.meta,
        "gamma": certified.gamma,
        "certificate": certified._asdict(),
        "top": output.records(model.top(_TOP)),
        "log": log,
        "written": {},
        "notes": output.notes_of(recorded),
    }
    if prefix is not None:
        model.save(f"{prefix}.json")
        names = {"model": f"{prefix}.json", "points": prefix + GENOTYPE_POINTS}
        facts["written"] = names
    genotypes.print_fit(args, args.genotype_counts, facts, _text(facts, certified))


def _aligned(
    args: Args, study: GenotypeCounts, panel: Genotypes, log: list[str]
) -> tuple[Genotypes, NDArray[np.int64]]:
    """Return the panel's variants that have counts, and these by its alleles."""
    table = study.variants.assign(frequency=_frequency(study.counts, args.prevalence))
    shares = frequency_of(code_counts(panel.packed))
    builds = args.build, None
    match = match_variants(table, panel.variants, lambda rows: shares[rows], builds)
    log += match.record.lines()
    if not match.record.matched:
        raise ValueError(f"No variant of {study.path} is in {panel.path}.")
    counts = study.counts[match.model]
    counts[match.swapped] = counts[match.swapped][:, :, ::-1]
    panel = panel.select(variants=match.file)
    kept = _agreeing(study, panel, counts, shares[match.file], args.prevalence)
    return panel.select(variants=kept), counts[kept]


def _class_shares(counts: NDArray[np.int64], prevalence: float | None) -> Floats:
    """Return the shares (d, 2) of controls and cases, as sampled unless it is given."""
    if prevalence is None:
        return np.asarray(counts.sum(axis=2) / counts.sum(axis=(1, 2))[:, None])
    return np.tile([1 - prevalence, prevalence], (len(counts), 1))


def _frequency(counts: NDArray[np.int64], prevalence: float | None) -> Floats:
    """Return the frequency of A1 among people, from counts (d, 2, 3)."""
    each = (counts[..., 0] + counts[..., 1] / 2) / counts.sum(axis=2)
    return np.asarray((_class_shares(counts, prevalence) * each).sum(axis=1))


def _agreeing(
    study: GenotypeCounts,
    panel: Genotypes,
    counts: NDArray[np.int64],
    theirs: Floats,
    prevalence: float | None,
) -> NDArray[np.bool_]:
    """Return which variants are as frequent in the panel; refuse if many are not."""
    ours = _frequency(counts, prevalence)
    shares = _class_shares(counts, prevalence)
    mean = np.clip((ours + np.nan_to_num(theirs)) / 2, 0.01, 0.99)
    people = (shares**2 / counts.sum(axis=2)).sum(axis=1) + 1 / panel.packed.n
    error = np.sqrt(mean * (1 - mean) / 2 * people)
    apart = abs(ours - theirs)
    kept = np.asarray(apart <= np.maximum(_FAR, _SURE * error))  # NaN is missed: not
    bad = ~kept
    if not bad.any():
        return kept
    worst = np.argsort(-np.nan_to_num(apart, nan=1.0), kind="stable")[:_SHOWN]
    names = ", ".join(
        f"{printable(panel.variants['id'].iloc[k])[:30]} (A1 {ours[k]:.2f} in the "
        f"counts, {theirs[k]:.2f} in the panel)"
        for k in worst
        if bad[k]
    )
    if bad.mean() > _MOST:
        raise ValueError(
            f"{study.path} and {panel.path} contradict each other at {bad.sum():,} of "
            f"{len(bad):,} variants, so the panel does not fit the counts: {names}. "
            "Use a panel of the same ancestry, and compare strands and genome builds."
        )
    warn(
        f"Dropped {number_of(int(bad.sum()), 'variant')} of different frequency in "
        f"counts and panel: {names}."
    )
    return kept


def fit_counts(
    panel: Genotypes,
    counts: NDArray[np.int64],
    share: float,
    alpha: float | None = None,
    build: str | None = None,
) -> tuple[GenotypeScores, Certified]:
    """Fit to counts (d, 2, 3) of controls and cases, with pairs of a panel."""
    G = panel.packed
    p = counts / counts.sum(axis=2, keepdims=True)
    kernel = GenotypeKernel.of(G, True, "mean")
    assert kernel.means is not None
    f = np.zeros((G.d, 4))
    f[:, OBSERVED] = share * (1 - share) * (p[:, 1] - p[:, 0])
    f[:, MISSING] = (kernel.means * f[:, OBSERVED]).sum(axis=1)
    K = kernel.matrix()
    u = scores(G, f)
    K -= K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    if not np.trace(K) > 1e-9 * G.n:
        raise ValueError(f"No variant of {panel.path} differs between its samples.")
    people = counts.sum(axis=2).min(axis=0)
    square = float((f[:, OBSERVED] ** 2).sum())
    study = Summary(share, int(people[1]), int(people[0]), square)
    fitted = fit_summary((K + K.T) / 2, u - u.mean(), study, alpha)
    z = (f - kernel.points(fitted.beta)) / fitted.alpha
    mu = share * p[:, 1] + (1 - share) * p[:, 0]
    start = share - 0.5 - float((mu * z[:, OBSERVED]).sum())
    means = [start + float((p[:, k] * z[:, OBSERVED]).sum()) for k in (1, 0)]
    norm = float((z[:, OBSERVED] ** 2).sum()) + start**2
    s = scores(G, z) + start
    certified = certify_summary(s, (means[0], means[1]), norm, G.d, study)
    meta = {"alpha": fitted.alpha, "risk": fitted.risk, "share": share, "panel": G.n}
    model = GenotypeScores.from_counts(
        panel.variants,
        z,
        code_counts(G),
        intercept=start,
        classes=CLASSES,
        share=share,
        build=build,
        meta=meta,
    )
    return model, certified


def _text(facts: Facts, certified: Certified) -> str:
    variance = facts["share"] * (1 - facts["share"])
    explained = 1 - facts["risk"] / variance
    learned = [
        "Learned to tell cases from controls using counts and the pairs of a panel.",
        f"  counts    {facts['cases']:,} cases, {facts['controls']:,} controls",
        f"  panel     {number_of(facts['panel'], 'sample')}",
        f"  variants  {facts['variants']:,}, {genotypes.CODINGS[True]}",
        f"  alpha     {facts['alpha']:.4g}",
        f"  share     {facts['share']:.4g} of the population is assumed to be cases",
    ]
    guessed = f"({variance:.4f} without variants)"
    expected = [
        "Expected for new samples, from halves of the panel (an estimate)",
        genotypes.figure("squared error of the score", f"{facts['risk']:.4f}", guessed),
        genotypes.figure("explained variance", percent(max(explained, 0.0))),
    ]
    bound = certified.gamma
    proof = (
        f"With confidence {chosen_percent(certified.confidence)} γ is at most "
        f"{bound:.4f}: {certified.estimate:.4f} of counts and panel, "
        f"{certified.pairs:.4f} for the panel's size, {certified.means:.4f} for the "
        "study's."
    )
    if 4 * bound < 1:
        proof += f" Rule map errs in no more than {at_most(4 * bound, 1)}."
    else:
        proof += " This does not bound the error: use more samples or fewer variants."
    if facts["missing"]:
        many = number_of(facts["missing"], "missing call")
        proof += (
            f" The panel has {many}; the bound holds if each of them is the mean of "
            "the others."
        )
    top = genotypes.top_lines(facts["top"])
    return output.joined([learned, expected, [output.indented(proof)], top], facts)
