"""Run the commands of releases: release pair counts, and write an encoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from renyi.cli import inputs, messages, notes, output, streams
from renyi.cli.inputs import load_marginals
from renyi.cli.marginals import save
from renyi.cli.output import Facts, Meter, Recorded
from renyi.cli.parser import Args
from renyi.cli.predict import heldout_rows
from renyi.encoding.columns import label_text
from renyi.encoding.encoder import Encoder
from renyi.files import MARGINALS
from renyi.fitting.settings import Settings
from renyi.fitting.training import fit_counts
from renyi.formatting import at_most, number_of, percent, wrapped
from renyi.marginals.arithmetic import merged_by_classes
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Noise
from renyi.progress import Progress
from renyi.releases import privacy
from renyi.releases.publication import (
    UNDECLARED,
    Protection,
    checked_rule,
    private_release,
    release,
    released,
)
from renyi.releases.suppression import RULES, Rule
from renyi.sources.layouts import OPTIONS
from renyi.validation import InputError

_HIDING = ("rule", "threshold", "rounding", "merge_below")
_NOISE = ("rho", "epsilon", "delta", "neighbours", "rows_per_person")
_DOCUMENT = (".json",)
_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)  # budgets of a plan
_DELTA = 1e-5


def run(args: Args, recorded: Recorded) -> None:
    """Release pair counts: hidden and rounded, or with noise."""
    if args.plan:
        _plan(args)
        return
    why = "goes with --plan: leave it out"
    inputs.check_not_given(args, ("rows", *OPTIONS), why)
    if args.out is None:
        raise ValueError("--out is required: name the file to write (.renyi).")
    place = output.check_place(args, args.out, (MARGINALS,))
    private = any(getattr(args, name) is not None for name in _NOISE)
    if private:
        why = "hides counts, which noise does already: leave one of them out"
        inputs.check_not_given(args, _HIDING, why)
    rule = None
    if not private:
        rule = checked_rule(args.threshold, args.rounding, args.rule, args.merge_below)
    m = load_marginals(args.file)
    public = None if args.encoder is None else Encoder.load(args.encoder)
    left = None
    if private:
        out = _private(args, m, public)
    else:
        how = args.undeclared or UNDECLARED[0]
        out, left = released(m, rule, args.merge_below, public, how)
    lines = _summary(out, left)
    if args.merge_below is not None:
        lines.append("What was merged or left out depends on the rows.")
    messages.print_notes(messages.notes_of(recorded))
    save(out, place, args)
    if not args.json:
        print("\n".join(map(wrapped, lines)))


def _private(args: Args, m: Marginals, public: Encoder | None) -> Marginals:
    if public is None:
        raise InputError(
            "Noise needs public categories, because those that come from the data "
            "would reveal them: pass an encoder ('renyi encoder build').",
            "encoder",
        )
    return private_release(
        m,
        encoder=public,
        rho=args.rho,
        epsilon=args.epsilon,
        delta=args.delta,
        neighbours=args.neighbours or privacy.ADD_REMOVE,
        rows_per_person=args.rows_per_person or 1,
        undeclared=args.undeclared or UNDECLARED[0],
    )


def _summary(m: Marginals, left: Protection | None) -> list[str]:
    """Say what a release contains, and what it does not protect."""
    known = m.uncertainty
    if isinstance(known, Noise):
        budget = known.budget
        spent = budget.spent
        if budget.epsilon is None and budget.rho is not None:
            epsilon = privacy.epsilon_of(budget.rho, _DELTA)
            spent = f"{spent}, which is epsilon {epsilon:.3g} at delta 1e-5"
        return [
            f"Every cell of every pair table has discrete Gaussian noise of scale "
            f"{known.scale:.3g}.",
            f"Spent: {spent}, for {number_of(budget.rows_per_person, 'row')} a person "
            f"({budget.neighbours}).",
            "A second release of the same rows spends its budget again.",
        ]
    if left is None:
        return ["The counts are exact; none from 1 to below the limit is left."]
    if not left.hidden:
        return ["Every count is an interval. None is small, so nothing is hidden."]
    return [
        f"Every count is an interval. {_kept(left)}",
        *_coarser(left),
        "This is arithmetic protection: a reader who goes through all possible data "
        "sets may learn more.",
    ]


def _kept(left: Protection) -> str:
    """Say which values the hidden counts keep."""
    one = left.hidden == 1
    each = "The hidden count" if one else f"Each of {left.hidden:,} hidden counts"
    values = f"every value from 0 to {left.rule.threshold - 1}"
    listed = f" ({left.listed:,} of them from 1: listed categories have rows)"
    return f"{each} keeps {values}{listed if left.listed else ''}."


def _coarser(left: Protection) -> list[str]:
    """Say what is coarser than was asked for, so that hidden counts are protected."""
    base, limit = left.level
    usual = 2 * left.rule.threshold
    lines = []
    if base > left.rule.rounding:
        lines.append(f"To protect them, the base is {base}, not {left.rule.rounding}.")
    if limit > usual:
        lines.append(
            f"To protect them, categories with fewer than {limit} rows count as small, "
            f"not only those with fewer than {usual}."
        )
    return lines


def build_encoder(args: Args, recorded: Recorded) -> None:
    """Write the columns and categories of a table, and no count."""
    place = output.check_place(args, args.out, _DOCUMENT)
    m = streams.counted_rows_of(args, inputs.encoder_of(args))
    m = merged_by_classes(m)
    notes.warn_of_labels(m.encoder.columns)
    encoder = dataclasses.replace(m.settings, columns=m.columns)
    messages.print_notes(messages.notes_of(recorded))
    encoder.save(place)
    facts: Facts = {
        "columns": len(encoder.columns),
        "categories": int(encoder.columns.sizes.sum()),
        "written": str(place),
    }
    if args.json:
        output.print_json(facts)
    else:
        columns = number_of(len(encoder.columns), "column")
        print(
            f"Wrote {place}: {columns} with {facts['categories']} categories, and no "
            "count."
        )


# ---- the plan


class Planned(NamedTuple):
    """A release that was tried: its name, and what a model of it is worth."""

    name: str
    guarantee: float | None
    error: float | None
    problem: str = ""  # why it cannot be released


def _plan(args: Args) -> None:
    """Print what releases of several thresholds and budgets would be worth."""
    m = load_marginals(args.file)
    public = None if args.encoder is None else Encoder.load(args.encoder)
    alpha = fit_counts(m, Settings()).choice.alpha
    rows: list[Planned] = []
    with Meter() as meter:
        for name, make in _candidates(args, m, public):
            meter(Progress("planning", facts=name))
            rows.append(_tried(args, name, make, alpha))
    if args.json:
        output.print_json([row._asdict() for row in rows])
        return
    print("\n".join(_plan_lines(rows, args.rows is not None)))


def _candidates(
    args: Args, m: Marginals, public: Encoder | None
) -> Iterator[tuple[str, Callable[[], Marginals]]]:
    """Yield exact counts, the usual releases and the one that is given."""
    yield "exact counts", lambda: m
    how = args.undeclared or UNDECLARED[0]
    rules = [Rule(5, 5), *RULES.values(), Rule(10, 10)]
    given = (args.threshold, args.rounding)
    if given != (None, None):
        rules += filter(None, [checked_rule(*given, None, None)])
    for rule in sorted({*rules}):
        sizes = rule._asdict()
        name = f"below {rule.threshold} hidden, rounded to {rule.rounding}"
        yield name, partial(release, m, **sizes, encoder=public, undeclared=how)
    if public is None:
        return
    delta = args.delta or _DELTA
    for epsilon in sorted({*_EPSILONS, *filter(None, [args.epsilon])}):
        cost = {"epsilon": epsilon, "delta": delta}
        name = f"epsilon {epsilon:g}, delta {delta:g}"
        yield name, partial(private_release, m, **cost, encoder=public, undeclared=how)


def _tried(
    args: Args, name: str, make: Callable[[], Marginals], alpha: float
) -> Planned:
    try:
        out = make()
    except ValueError as problem:
        return Planned(name, None, None, messages.with_options(problem))
    settings = Settings() if out.uncertainty is not None else Settings(alpha=alpha)
    fit = fit_counts(out, settings)
    error = None
    if args.rows is not None:
        file = inputs.opened_rows_file(args)
        table, classes = heldout_rows(fit, args.file, file, None)
        answers = fit.answers(fit.encoder_.transform(table))
        known = [label_text(label) for label in fit.classes_.tolist()]
        wrong = [known[k] != y for k, y in zip(answers.tolist(), classes, strict=True)]
        error = float(np.mean(wrong))
    bounds = fit.certificate_.bounds
    return Planned(name, min(bounds.values(), default=None), error)


def _plan_lines(rows: list[Planned], measured: bool) -> list[str]:
    """Return the plan as a table."""
    width = max(len(row.name) for row in rows)
    heads = ["guarantee", *(["error on the rows"] if measured else [])]
    lines = [" " * width + "".join(f"  {head:>17}" for head in heads)]
    for row in rows:
        if row.problem:
            lines.append(f"{row.name:<{width}}  {row.problem}")
            continue
        useless = row.guarantee is None or row.guarantee >= 1
        cells = ["none" if useless else at_most(row.guarantee or 0.0, 1)]
        if row.error is not None:
            cells.append(percent(row.error))
        lines.append(f"{row.name:<{width}}" + "".join(f"  {c:>17}" for c in cells))
    return [
        *lines,
        "",
        "The guarantee is the smallest of the three rules, the error that of rule map.",
        "This plan was computed from the exact counts: do not publish it.",
    ]
