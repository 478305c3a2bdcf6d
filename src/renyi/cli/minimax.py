"""The command minimax: the smallest worst error that any rule can promise."""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from renyi.certificates.record import Step
from renyi.certificates.text import table, verdict
from renyi.certification import MINIMAX, simple_rules
from renyi.cli.inputs import check_missing_class, counted
from renyi.cli.output import (
    TABLES,
    Meter,
    Recorded,
    check_place,
    notes_of,
    print_json,
    print_notes,
    writing,
)
from renyi.figures import wrapped
from renyi.marginals.marginals import Marginals
from renyi.robust.feature_importance import swings
from renyi.robust.minimax_problem import MinimaxResult, minimax
from renyi.selection import short
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
            random_state=args.seed,
        )
    facts = minimax_facts(m, result)
    if place is not None:
        facts["written"] = _write_worst(place, result)
    if result.method == "lp" and result.status == "bounded":
        again = ["renyi", *_without_method(args.argv), "--method", "exact"]
        facts["next"] = shlex.join(again)
    facts["notes"] = notes_of(recorded)
    if args.json:
        print_json({"source": args.file, **facts})
    else:
        print_notes(facts["notes"])
        print(minimax_text(facts))


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


def _without_method(argv: list[str]) -> list[str]:
    """Return the arguments without the option --method and its value."""
    kept = [text for text in argv if not text.startswith("--method=")]
    while "--method" in kept:
        place = kept.index("--method")
        del kept[place : place + 2]
    return kept


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


def minimax_facts(m: Marginals, result: MinimaxResult) -> dict[str, Any]:
    """Return what is known of the smallest worst error, as plain values."""
    worst = result.worst_distribution
    steps = [*simple_rules(m), _step(result)]
    promise = min(step.upper for step in steps)
    doubts = [result.note] if result.note else []
    where = (
        f"the very marginals of these {m.n:,.10g} rows" if doubts else "these marginals"
    )
    moves = swings(result.rule)
    return {
        "target": m.target,
        "rows": m.n,
        "features": len(m.feature_names),
        "categories": int(m.encoder.columns.sizes.sum()),
        "class_conditional": any(
            t.with_target and len(t.features) > 1 for t in result.rule.ambiguity.tables
        ),
        "lower": None if worst is None else result.lower,
        "upper": result.upper,
        "method": result.method,
        "status": result.status,
        "seconds": result.seconds,
        "outcomes": None if worst is None else len(worst),
        "rules": [asdict(step) for step in steps],
        "looks_at": [
            {"feature": str(name), "swing": float(swing)}
            for name, swing in moves.items()
            if swing > _NOTHING
        ],
        "sentence": verdict("its rule", where, result.upper, result.lower, promise),
        "doubtful": bool(doubts),
        "warnings": doubts,
    }


def _step(result: MinimaxResult) -> Step:
    lower = None if result.worst_distribution is None else result.lower
    name = result.origin if result.method == "lp" else f"{MINIMAX} ({result.method})"
    return Step(name, result.upper, lower, result.seconds, result.status)


def minimax_text(facts: dict[str, Any]) -> str:
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


def _looks_at(found: list[dict[str, Any]]) -> list[str]:
    found = [entry for entry in found if entry["swing"] >= _SHOWN]
    if not found:
        return ["Its rule looks at no feature: it answers the same everywhere."]
    lines = ["What its rule looks at most (swing: how far a feature moves the choice)"]
    for entry in found[:_TOP]:
        name = short(" ".join(entry["feature"].split()), _NAME)
        lines.append(f"  {name:<{_NAME}} {entry['swing']:.3f}")
    return lines
