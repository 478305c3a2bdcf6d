"""The command select: choose features, say why these, and train on them alone."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from renyi.cli.fit import fit_facts, fit_text
from renyi.cli.inputs import (
    check_missing_class,
    chosen_marginals,
    class_shares,
    encoder_of,
    order_of,
    usable_rows,
    with_source,
)
from renyi.cli.output import (
    MARGINALS,
    SMALL,
    Recorded,
    check_place,
    log_text,
    model_files,
    next_step,
    notes_of,
    prefix_of,
    print_json,
    records,
    write_model,
    write_together,
)
from renyi.estimators.selector import RenyiSelector
from renyi.figures import wrapped
from renyi.marginals.marginals import Marginals
from renyi.selection import WIDTH, axes
from renyi.warnings import warn

_PICTURES = (".svg", ".png", ".pdf")
_LISTED = 40  # selected features that are named in full


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Print the path, what was selected and why, and the refitted model."""
    prefix = prefix_of(args)
    picture = None
    if args.plot is not None:
        picture = check_place(args.plot, _PICTURES)
        axes()  # says at once if matplotlib is missing
    selector = RenyiSelector(
        n_features=args.n_features,
        penalty="cv" if args.penalty is None else args.penalty,
        max_error=args.max_error,
        order=args.order or 1,
        rule=args.rule,
    )
    if args.file.endswith(MARGINALS):
        model = _by_marginals(args, selector)
    else:
        model = _by_rows(args, selector)
    facts = _facts(args, selector, model)
    m = None if prefix is None else _marginals_to_write(args, selector)
    if prefix is not None:
        facts["written"] = model_files(prefix, m)
    if picture is not None:
        facts.setdefault("written", {})["plot"] = str(picture)
    facts["next"] = next_step(args, prefix)
    facts["notes"] = notes_of(recorded)
    text = _text(facts, selector)
    if prefix is not None:
        log = log_text(args, selector.classifier_, text, recorded)
        write_model(prefix, selector.classifier_, m, log)
    if picture is not None:
        write_together({picture: lambda place: _draw(selector, place)})
    if args.json:
        print_json({"source": args.file, **facts})
    else:
        print(text)


def _by_rows(args: argparse.Namespace, selector: RenyiSelector) -> dict[str, Any]:
    """Select by a table; return the facts of the refitted model."""
    encoder = encoder_of(args)
    rows = usable_rows(args, encoder)
    selector.set_params(encoder=encoder).fit(rows.X, rows.y, rows.weights)
    clf, error = selector.classifier_, rows.error(selector)
    return fit_facts(clf, rows.target, rows.shares(), error)


def _by_marginals(args: argparse.Namespace, selector: RenyiSelector) -> dict[str, Any]:
    """Select by marginals alone; return the facts of the refitted model."""
    m = chosen_marginals(args)
    check_missing_class(m, args.file)
    if args.unseen is not None:
        raise ValueError("--unseen is for tables: leave it out for marginals.")
    selector.set_params(order=order_of(args, m)).fit_marginals(m)
    return fit_facts(selector.classifier_, m.target, class_shares(m))


# ---- facts


def _facts(
    args: argparse.Namespace, selector: RenyiSelector, model: dict[str, Any]
) -> dict[str, Any]:
    """Return all that came of the selection, as plain values."""
    path, tried = selector.path_, selector.cv_
    penalty = selector.penalty_
    return {
        **model,
        "order": selector.order,
        "path": records(path.frame().reset_index()),
        "candidates": path.n_features,
        "selected": selector.features_.tolist(),
        "columns": list(selector.classifier_.encoder_.input_names),
        "why": _why(args, selector),
        "penalty": None if np.isnan(penalty) else penalty,
        "cross_validation": None
        if tried is None
        else {
            "penalties": tried.lambdas.tolist(),
            "risks": tried.risks.tolist(),
            "standard_errors": tried.standard_errors.tolist(),
            "mistakes": tried.mistakes.tolist(),
        },
    }


def _why(args: argparse.Namespace, selector: RenyiSelector) -> str:
    """Say in words how the features were chosen."""
    k, penalty = len(selector.features_), selector.penalty_
    if args.n_features is not None:
        return f"the first {k} of the path, as asked for."
    if args.max_error is not None:
        return (
            f"the fewest in order of entry that are certified to err at most "
            f"{100 * args.max_error:g} %."
        )
    if args.penalty is not None:
        return f"those with points at the penalty {penalty:g}, as asked for."
    tried = selector.cv_
    if tried is None:
        return (
            f"the first {k} of the path, by generalised cross-validation of the refit "
            "(marginals have no rows to hold out)."
        )
    best = tried.best()
    folds = f"{tried.n_folds}-fold cross-validation, {tried.risks[best]:.4f}, is the"
    if not penalty >= tried.lambdas[best] * (1 - 1e-9):
        return (
            f"the first of the path, since one is needed. No feature helped: without "
            f"any, the held-out risk in {folds} least."
        )
    return (
        f"those with points at the penalty {penalty:.4g}, whose held-out risk in "
        f"{folds} least of {len(tried.risks)}."
    )


def _text(facts: dict[str, Any], selector: RenyiSelector) -> str:
    """Return the same as plain text."""
    path, clf = selector.path_, selector.classifier_
    lines = ["Features in order of entry (*: selected)", path.text(selector.features_)]
    lines += [wrapped(text, "  ", "  ") for text in _legend(selector)]
    what = "features" if facts["order"] == 1 else f"tuples of {facts['order']} columns"
    count = f"{len(selector.features_)} of {path.n_features} {what}"
    lines += ["", wrapped(f"Selected {count}: {facts['why']}")]
    lines += _in_full(facts)
    refit = fit_text(
        {**facts, "notes": (), "next": "", "written": {}}, clf.certificate_
    )
    blocks = ["\n".join(lines), refit.rstrip()]
    if selector.cv_ is not None:
        blocks.append(wrapped(_held_out(selector)))
    if facts["notes"]:
        blocks.append("\n".join(["Notes", *(f"  {text}" for text in facts["notes"])]))
    if "written" in facts:
        blocks.append("Wrote " + ", ".join(facts["written"].values()))
    return "\n\n".join([*blocks, f"Next: {facts['next']}"])


def _legend(selector: RenyiSelector) -> Iterator[str]:
    """Explain the columns of the table, and what may look odd in it."""
    path = selector.path_
    yield (
        "lambda: the largest penalty at which the feature has points. gamma, hgr, map "
        "and sharp: risk, maximal correlation at least, and worst error of the two "
        "rules for all distributions with these marginals, of a refit on the first k "
        "features with next to no ridge penalty. The model below has a ridge penalty "
        "of its own, and so a bound that is a little larger."
    )
    if path.doubtful.any():
        yield (
            "Where a figure is missing, there are so many categories beside the rows "
            "that it would say nothing about new ones."
        )
    chosen = set(selector.features_.tolist())
    marked = np.array([name in chosen for name in path.entries])
    if not marked[: np.flatnonzero(marked)[-1]].all():
        yield (
            "Features without a star above one with a star had points at a larger "
            "penalty and lost them again to others."
        )


def _in_full(facts: dict[str, Any]) -> list[str]:
    """Name the selected features, should the table have no room for their names."""
    names, lines = facts["selected"], []
    if facts["order"] > 1 or any(len(name) > WIDTH for name in names):
        lines = [f"  {name}" for name in names[:_LISTED]]
        if len(names) > _LISTED:
            lines.append(f"  and {len(names) - _LISTED} more; --json lists them all")
    if facts["order"] > 1:
        columns = facts["columns"]
        text = f"They need {len(columns)} columns: {', '.join(columns)}."
        lines.append(wrapped(text, "  ", "  "))
    return lines


def _held_out(selector: RenyiSelector) -> str:
    """Return the estimate that takes the selection into account."""
    tried = selector.cv_
    assert tried is not None
    where = int(np.abs(tried.lambdas - selector.penalty_).argmin())
    return (
        f"With the features selected anew in each of {tried.n_folds} folds, before "
        f"any refit, {100 * tried.mistakes[where]:.1f} % of the held-out rows are "
        "answered wrongly (rule map)."
    )


# ---- files


def _marginals_to_write(
    args: argparse.Namespace, selector: RenyiSelector
) -> Marginals | None:
    """Return the marginals of the refitted model; warn if they are not written."""
    m: Marginals | None = selector.classifier_.marginals_
    if m is None:
        warn("The marginals were not written: there are more categories than rows.")
        return None
    size = m.counts.nbytes
    if size >= SMALL:
        warn(f"The marginals were not written: their counts take {size / 1e6:,.0f} MB.")
        return None
    return with_source(m, [args.file])


def _draw(selector: RenyiSelector, place: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "renyi"}):
        figure = selector.path_.plot(selected=selector.features_.tolist()).figure
        metadata = {"Date": None} if place.suffix == ".svg" else None
        figure.savefig(place, metadata=metadata)
