"""The command minimax: the smallest worst error that any rule can promise."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path

from renyi.certificates.record import Step
from renyi.certificates.text import table, verdict
from renyi.certification import MINIMAX, simple_rules
from renyi.cli.fit import one_line
from renyi.cli.inputs import check_missing_class, counted
from renyi.cli.output import TABLES, Facts, Meter, Recorded, check_place, show, writing
from renyi.figures import wrapped
from renyi.marginals.marginals import Marginals
from renyi.robust.minimax_problem import MinimaxResult, minimax, swings
from renyi.warnings import warn

_TOP = 10
_NAME = 40
_NOTHING = 1e-6  # a swing that is rounding
_SHOWN = 5e-4  # a swing that is not shown as 0.000


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Print the smallest worst error of any rule, and what the rule looks at."""
    place = _place_of_worst(args)
    m = counted(args)
    check_missing_class(m, args.file)
    with Meter() as meter:
        meter.search(MINIMAX)
        result = minimax(
            m,
            method="exact" if place is not None else args.method,
            time_limit=args.time_limit,
            progress=lambda state: meter.search(MINIMAX, state),
            random_state=args.seed or 0,
        )
    facts = minimax_facts(m, result)
    if place is not None:
        facts["written"] = _write_worst(place, result)
    if result.method == "lp" and result.status == "bounded":
        argv = [text for text in args.argv if not text.startswith("--method=")]
        while "--method" in argv:
            at = argv.index("--method")
            del argv[at : at + 2]
        facts["next"] = shlex.join(["renyi", *argv, "--method", "exact"])
    show(args, facts, minimax_text, recorded)


def _place_of_worst(args: argparse.Namespace) -> Path | None:
    """Return where the worst distribution goes, if it is asked for."""
    if args.worst is None:
        return None
    place = check_place(args.worst, TABLES)
    if place.exists() and Path(args.file).exists() and place.samefile(args.file):
        raise ValueError(f"--worst would write over {args.file}: name another.")
    if args.method == "lp":
        raise ValueError(
            "--method lp exhibits no distribution for --worst: use --method exact."
        )
    return place


def _write_worst(place: Path, result: MinimaxResult) -> str | None:
    """Write the worst distribution; warn if none was found."""
    if result.worst_distribution is None:
        warn(
            f"{place} was not written: no distribution was exhibited before the search "
            "was stopped. Allow it more time."
        )
        return None
    with writing(place, {}) as write:
        write(result.worst_distribution.frame())
    return str(place)


def minimax_facts(m: Marginals, result: MinimaxResult) -> Facts:
    """Return what is known of the smallest worst error, as plain values."""
    worst, lp = result.worst_distribution, result.method == "lp"
    lower = None if worst is None else result.lower
    name = result.origin if lp else f"{MINIMAX} ({result.method})"
    found = Step(name, result.upper, lower, result.seconds, result.status)
    steps = [*simple_rules(m), found]
    promise = min(step.upper for step in steps)
    where = "these marginals"
    if result.note:
        where = f"the very marginals of these {m.n:,.10g} rows"
    return {
        "target": m.target,
        "rows": m.n,
        "features": len(m.feature_names),
        "categories": int(m.encoder.columns.sizes.sum()),
        "class_conditional": any(
            t.with_target and len(t.features) > 1 for t in result.rule.ambiguity.tables
        ),
        "lower": lower,
        "upper": result.upper,
        "method": result.method,
        "status": result.status,
        "seconds": result.seconds,
        "outcomes": None if worst is None else len(worst),
        "rules": [asdict(step) for step in steps],
        "looks_at": [
            {"feature": str(name), "swing": float(swing)}
            for name, swing in swings(result.rule).items()
            if swing > _NOTHING
        ],
        "sentence": verdict("its rule", where, result.upper, result.lower, promise),
        "doubtful": bool(result.note),
        "warnings": [result.note] if result.note else [],
    }


def minimax_text(facts: Facts) -> str:
    """Return these facts as plain text."""
    lines = [wrapped(f"Warning: {text}") for text in facts["warnings"]]
    lines += [""] if lines else []
    within = " within each class" if facts["class_conditional"] else ""
    lines += [
        wrapped(
            f"The smallest worst error of any rule that predicts {facts['target']!r}, "
            f"from {facts['rows']:,.10g} rows"
        ),
        f"({facts['features']:,} features with {facts['categories']:,} categories; "
        f"pairs of columns{within})",
        "",
        *table("A rule can promise", [Step(**step) for step in facts["rules"]]),
        "",
        *_looks_at(facts["looks_at"]),
        "",
        wrapped(facts["sentence"]),
    ]
    if facts.get("written"):
        lines.append(
            f"Wrote {facts['written']} (a distribution on {facts['outcomes']:,} "
            "outcomes that shows it)"
        )
    if facts.get("next"):
        lines += ["", f"Next: {facts['next']}   (closes the interval)"]
    return "\n".join(lines)


def _looks_at(found: list[Facts]) -> list[str]:
    found = [entry for entry in found if entry["swing"] >= _SHOWN]
    if not found:
        return ["Its rule looks at no feature: it answers the same everywhere."]
    lines = ["What its rule looks at most (swing: how far a feature moves the choice)"]
    for entry in found[:_TOP]:
        name = one_line(entry["feature"], _NAME)
        lines.append(f"  {name:<{_NAME}} {entry['swing']:.3f}")
    return lines
