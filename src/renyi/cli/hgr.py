"""The command hgr: the maximal correlation of columns with the target, or of pairs."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from renyi.cli.inputs import counted
from renyi.cli.output import Recorded, notes_of, print_json, print_notes
from renyi.correlation import hgr_lower_bound, hgr_matrix, ranking
from renyi.encoding.columns import label_text
from renyi.figures import rounded_down, wrapped
from renyi.marginals.marginals import Marginals
from renyi.selection import short

_NAME = 40
_WIDE = 6  # columns of a matrix side by side


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Print the maximal correlation of columns with the target, or of all pairs."""
    m = counted(args)
    facts = _matrix_facts(m) if args.matrix else _ranking_facts(m)
    facts["notes"] = notes_of(recorded)
    if args.json:
        print_json({"source": args.file, **facts})
        return
    print_notes(facts["notes"])
    print(_matrix_text(facts) if args.matrix else _ranking_text(facts))


def _ranking_facts(m: Marginals) -> dict[str, Any]:
    """Return the maximal correlation of every column with the target.

    The bound on all columns together is None where some pairs were not counted.
    """
    sizes = dict(zip(m.columns.names, m.columns.sizes.tolist(), strict=True))
    return {
        "target": m.target,
        "rows": m.n,
        "classes": [label_text(label) for label in m.classes],
        "columns": [
            {"name": str(name), "rho": float(rho), "categories": sizes[str(name)]}
            for name, rho in ranking(m).items()
        ],
        "lower_bound": None if m.absent else hgr_lower_bound(m),
    }


def _ranking_text(facts: dict[str, Any]) -> str:
    lines = [
        f"Maximal correlation with {facts['target']!r}, from "
        f"{facts['rows']:,.10g} rows",
        f"  {'column':<{_NAME}} {'rho':>6} {'categories':>11}",
    ]
    for entry in facts["columns"]:
        name = f"  {_short(entry['name'], _NAME):<{_NAME}}"
        lines.append(f"{name} {entry['rho']:>6.3f} {entry['categories']:>11,}")
    text = "A bound on all columns together needs the counts of every pair of columns."
    if facts["lower_bound"] is not None:
        text = (
            "However the columns depend on each other beyond pairs, all of them "
            f"together have at least {rounded_down(facts['lower_bound'], 3):.3f}."
        )
    return "\n".join([*lines, "", wrapped(text)])


def _matrix_facts(m: Marginals) -> dict[str, Any]:
    """Return the maximal correlation of every pair of columns; None if unknown."""
    matrix = hgr_matrix(m)
    return {
        "target": m.target,
        "rows": m.n,
        "columns": [str(name) for name in matrix.columns],
        "rho": [
            [None if np.isnan(rho) else rho for rho in row]
            for row in matrix.to_numpy().tolist()
        ],
    }


def _matrix_text(facts: dict[str, Any]) -> str:
    """Return the matrix as plain text, a few columns at a time, by their numbers."""
    names, rho = facts["columns"], facts["rho"]
    digits = len(str(len(names)))
    lines = [
        f"Maximal correlation of every pair of columns, from {facts['rows']:,.10g} rows"
    ]
    for first in range(0, len(names), _WIDE):
        shown = range(first, min(first + _WIDE, len(names)))
        lines += [""] if first else []
        head = "".join(f" {k + 1:>6}" for k in shown)
        lines.append(f"  {'':<{digits + 31}}{head}")
        for i, name in enumerate(names):
            cells = "".join(f" {_cell(rho[i][j]):>6}" for j in shown)
            lines.append(f"  {i + 1:>{digits}} {_short(name, 30):<30}{cells}")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _short(name: str, width: int) -> str:
    return short(" ".join(name.split()), width)
