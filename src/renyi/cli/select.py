"""Which columns matter: alone (hgr), or together (select), with the model of these."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from renyi.certificates.text import few_rows
from renyi.cli import output
from renyi.cli.fit import fit_text, train
from renyi.cli.inputs import check_not_given, with_source
from renyi.cli.output import Facts, Recorded, one_line
from renyi.cli.parser import SMALL, Args
from renyi.cli.streams import CodedRows, counted
from renyi.correlation import hgr_lower_bound, ranking
from renyi.counting.sparse_counts import counts_bytes
from renyi.encoding.columns import label_text
from renyi.encoding.rows import TrainingRows, has_few_rows
from renyi.files import MARGINALS
from renyi.fitting.record import Fit
from renyi.formatting import number_of_rows, rounded_down, wrapped
from renyi.marginals.consistency import n_indicators
from renyi.marginals.marginals import Marginals
from renyi.selecting import (
    CrossValidation,
    Selection,
    SelectionSettings,
    least_correlation,
    select_counts,
    select_rows,
)
from renyi.sources.kept_rows import KeptRows
from renyi.warnings import warn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LISTED = 40  # selected features that are named in full
_NAME = 40
_NAME_OF_TUPLE = 76
_TOO_MANY = "–: too many categories for the number of rows to give a figure"
_MANY_LABELS = 20
_ROWS_PER_LABEL = 20  # with fewer, labels seem to help by chance


def run(args: Args, recorded: Recorded) -> None:
    """Print the path, what was selected and why, and the refitted model."""
    prefix = output.prefix_of(args)
    picture = output.check_picture(args)
    if args.file.endswith(MARGINALS):
        why = "is for tables: leave it out for marginals"
        check_not_given(args, ["unseen"], why)
    settings = SelectionSettings(
        n_features=args.n_features,
        method=args.method or ("forward" if args.penalty is None else "path"),
        penalty="cv" if args.penalty is None else args.penalty,
        max_error=args.max_error,
        order=args.order or 1,
        rule=args.rule,
    )
    learner = SelectionLearner(settings)
    with KeptRows() as store:
        fit, model, _ = train(args, learner, store)
    chosen = learner.selection
    assert chosen is not None
    _warn_of_many_labels(chosen)
    facts = {**model, **_facts(args, chosen)}
    m = None if prefix is None else _marginals_to_write(args, fit)
    if picture is not None:
        facts["written"] = {"plot": str(picture)}
        output.draw(picture, lambda: _drawn(chosen))
    text = partial(_text, selection=chosen, details=args.details)
    output.keep_model(args, fit, m, facts, text, recorded)


def _drawn(chosen: Selection) -> Figure:
    """Plot the path, and mark what was selected."""
    from renyi.plots import PathDisplay

    figure: Figure = PathDisplay.from_path(
        chosen.path, selected=chosen.features
    ).figure_
    return figure


class SelectionLearner:
    """Selects columns, and trains a model of these."""

    def __init__(self, settings: SelectionSettings) -> None:
        self.settings = settings
        self.selection: Selection | None = None

    def on_rows(self, rows: CodedRows) -> tuple[Fit, TrainingRows | None]:
        """Select by rows, which are needed in memory."""
        order = self.settings.order
        training_rows = rows.joined() if order == 1 else rows.in_tuples(order)
        self.selection = select_rows(training_rows, self.settings)
        return self.selection.fit, training_rows

    def on_counts(self, m: Marginals) -> Fit:
        """Select by counts, of whatever order they are."""
        settings = replace(self.settings, order=m.order)
        self.selection = select_counts(m, settings)
        return self.selection.fit


def _warn_of_many_labels(selection: Selection) -> None:
    """Warn of columns that may have entered early for their many labels alone."""
    n = selection.fit.certificate_.n
    columns = selection.encoder.columns
    if selection.encoder.order > 1:
        return
    for name, size in zip(columns.names, columns.sizes.tolist(), strict=True):
        if size > _MANY_LABELS and n / size < _ROWS_PER_LABEL:
            warn(
                f"{name!r} has {size:,} labels in {number_of_rows(n)}. A column with "
                "many rare labels enters early, even if it does not help on new rows: "
                f"compare with --drop {shlex.quote(name)}, or merge its rare labels "
                "(--min-count)."
            )


def _marginals_to_write(args: Args, fit: Fit) -> Marginals | None:
    """Return the marginals of the refitted model; warn if they are not written."""
    m = fit.marginals_
    if m is not None and counts_bytes(m.counts) < SMALL:
        return with_source(m, [args.file])
    why = "there are more categories than rows"
    if m is not None:
        why = f"their counts take {counts_bytes(m.counts) / 1e6:,.0f} MB"
    warn(f"The marginals were not written: {why}.")
    return None


# ---- facts


def _facts(args: Args, selection: Selection) -> Facts:
    """Return all that came of the selection, as plain values."""
    path = selection.path
    tried = selection.cv
    penalty = selection.penalty
    facts: Facts = {
        "order": selection.encoder.order,
        "path": output.records(path.frame().reset_index()),
        "candidates": path.n_features,
        "selected": list(selection.features),
        "columns": list(selection.fit.encoder_.input_names),
        "why": _why(args, selection),
        "penalty": None if np.isnan(penalty) else penalty,
        "cross_validation": None,
        "correlation": _correlation(selection),
    }
    if tried is not None:
        forward = tried.forward
        facts["cross_validation"] = {
            "penalties": None if forward else tried.lambdas.tolist(),
            "n_features": tried.n_features.tolist() if forward else None,
            "risks": tried.risks.tolist(),
            "standard_errors": tried.standard_errors.tolist(),
            "error_rates": tried.error_rates.tolist(),
        }
    return facts


def _correlation(selection: Selection) -> Facts | None:
    """Return the least maximal correlation of the features with the classes."""
    m = selection.fit.marginals_
    if m is None or selection.fit.certificate_.doubtful:
        return None
    return least_correlation(m)._asdict()


def _why(args: Args, selection: Selection) -> str:
    """Say in words how the features were chosen."""
    k = len(selection.features)
    penalty = selection.penalty
    if args.n_features is not None:
        return f"the first {k} in order of entry, as requested."
    if args.max_error is not None:
        return (
            "the fewest in order of entry with a guarantee of at most "
            f"{100 * args.max_error:g} %."
        )
    if args.penalty is not None:
        return f"those with points at the penalty {penalty:g}, as requested."
    tried = selection.cv
    if tried is None:
        return (
            f"the first {k} in order of entry, by generalised cross-validation of the "
            "refit (pair counts have no rows to hold out)."
        )
    best = tried.best()
    folds = f"{tried.n_folds}-fold cross-validation, {tried.risks[best]:.4f}, is the"
    none_helped = best == 0
    if not tried.forward:  # the first feature enters at a smaller penalty, or at none
        none_helped = not penalty >= tried.lambdas[best] * (1 - 1e-9)
    if none_helped:
        return (
            "the first in order of entry, because at least one is needed. No feature "
            f"helped: without any, the held-out risk in {folds} least."
        )
    if tried.forward:
        return (
            f"the first {k} in order of entry, whose held-out risk in {folds} least of "
            f"{len(tried.risks)}."
        )
    return (
        f"those with points at the penalty {penalty:.4g}, whose held-out risk in "
        f"{folds} least of {len(tried.risks)}."
    )


def _text(facts: Facts, selection: Selection, details: bool) -> str:
    """Return the same as plain text; with details, the whole path and its figures."""
    path = selection.path
    tried = selection.cv
    order = facts["order"]
    what = "columns" if order == 1 else "pairs of columns"
    if order > 2:
        what = f"tuples of {order} columns"
    names = facts["selected"]
    columns = facts["columns"]
    lines = [
        wrapped(f"Selected {len(names)} of {path.n_features} {what}: {facts['why']}")
    ]
    if details:
        lines += ["", "In order of entry (*: selected)", path.text(names)]
        lines += map(output.indented, _legend(selection))
    else:
        lines += [f"  {one_line(name, _NAME_OF_TUPLE)}" for name in names[:_LISTED]]
        if len(names) > _LISTED:
            lines.append(f"  and {len(names) - _LISTED} more; --json lists them all")
    if order > 1:
        text = f"They need {len(columns)} columns: {', '.join(columns)}."
        lines.append(output.indented(text))
    if facts["correlation"] is not None:
        lines.append(output.indented(_correlation_text(facts["correlation"])))
    more = []
    if tried is not None:  # an estimate that takes the selection into account
        more = [wrapped(_folds_text(tried, selection))]
    refit = fit_text(facts, selection.fit.certificate_, more, details=details)
    return "\n".join([*lines, "", refit])


def _correlation_text(correlation: Facts) -> str:
    bound = rounded_down(correlation["bound"], 3)
    figure = f"is at least {bound:.3f}"
    if correlation["exact"]:
        figure = f"is {correlation['rho']:.3f} (in closed form: at least {bound:.3f})"
    return (
        "Their maximal correlation with the class, in the least favourable population "
        f"with the same pair counts, {figure}."
    )


def _folds_text(tried: CrossValidation, selection: Selection) -> str:
    """Return the error rate of a selection that is repeated in each fold."""
    before = ""
    if tried.forward:
        wrong = tried.error_rates[len(selection.features)]
    else:
        before = " before its refit"
        wrong = tried.error_rates[np.abs(tried.lambdas - selection.penalty).argmin()]
    return (
        f"With the selection repeated in each of {tried.n_folds} folds, the model"
        f"{before} is wrong on {100 * wrong:.1f} % of the rows left out."
    )


def _legend(selection: Selection) -> Iterator[str]:
    """Explain the columns of the table, and what may look odd in it."""
    path = selection.path
    if path.lasso is not None:
        yield "lambda: the largest penalty at which the feature has points."
    yield (
        "gamma, hgr, map and sharp: risk, maximal correlation at least, and guarantees "
        "of the two rules. They are of a refit on the first k features with next to no "
        "ridge penalty. The model below has a ridge penalty and may be calibrated: its "
        "guarantees are larger, sometimes by far."
    )
    if path.doubtful.any():
        yield (
            "Where a figure is missing, there are too many categories for the number "
            "of rows to say anything about new rows."
        )
    chosen = set(selection.features)
    marked = np.array([name in chosen for name in path.entries])
    if not marked[: np.flatnonzero(marked)[-1]].all():
        yield (
            "Features without a star above one with a star had points at a larger "
            "penalty and lost them to other features later."
        )


# ---- maximal correlation


def run_hgr(args: Args, recorded: Recorded) -> None:
    """Print the maximal correlation of columns with the target."""
    m = counted(args)
    output.show(args, _ranking_facts(m), _ranking_text, recorded)


def _ranking_facts(m: Marginals) -> Facts:
    """Return the maximal correlation of every column with the target, and of all."""
    sizes = dict(zip(m.columns.names, m.columns.sizes.tolist(), strict=True))
    D = n_indicators(m)
    few = few_rows(m.n, D) if has_few_rows(m.n, D) else ""
    return {
        "target": m.target,
        "rows": m.n,
        "classes": [label_text(label) for label in m.classes],
        "columns": [
            {
                "name": str(name),
                "rho": float(rho),
                "categories": sizes[str(name)],
                "doubtful": bool(has_few_rows(m.n, sizes[str(name)])),
            }
            for name, rho in ranking(m).items()
        ],
        "lower_bound": None if m.absent else hgr_lower_bound(m),
        "doubtful": bool(few),
        "warnings": [few] if few else [],
    }


def _ranking_text(facts: Facts) -> str:
    lines = [
        f"Maximal correlation with {facts['target']!r}, from "
        f"{number_of_rows(facts['rows'])}",
        f"  {'column':<{_NAME}} {'rho':>6} {'categories':>11}",
    ]
    for entry in facts["columns"]:
        name = f"  {one_line(entry['name'], _NAME):<{_NAME}}"
        rho = "–" if entry["doubtful"] else f"{entry['rho']:.3f}"
        lines.append(f"{name} {rho:>6} {entry['categories']:>11,}")
    if any(entry["doubtful"] for entry in facts["columns"]):
        lines.append(f"  {_TOO_MANY}")
    text = "A bound on all columns together needs the counts of every pair of columns."
    if facts["doubtful"]:
        text = f"No bound on all columns together is shown: {facts['warnings'][0]}"
    elif facts["lower_bound"] is not None:
        text = (
            "However the columns depend on each other beyond pairs, all of them "
            f"together have at least {rounded_down(facts['lower_bound'], 3):.3f}."
        )
    return "\n".join([*lines, "", wrapped(text)])
