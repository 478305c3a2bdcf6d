"""The command hgr: the maximal correlation of columns with the target, or of pairs."""

from __future__ import annotations

import argparse

from renyi.cli.fit import one_line
from renyi.cli.inputs import counted
from renyi.cli.output import Facts, Recorded, show
from renyi.correlation import hgr_lower_bound, hgr_matrix, ranking
from renyi.encoding.columns import label_text
from renyi.figures import rounded_down, wrapped
from renyi.marginals.marginals import Marginals

_NAME = 40
_WIDE = 6  # columns of a matrix side by side


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Print the maximal correlation of columns with the target, or of all pairs."""
    m = counted(args)
    if args.matrix:
        show(args, _matrix_facts(m), _matrix_text, recorded)
    else:
        show(args, _ranking_facts(m), _ranking_text, recorded)


def _ranking_facts(m: Marginals) -> Facts:
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


def _ranking_text(facts: Facts) -> str:
    lines = [
        f"Maximal correlation with {facts['target']!r}, from "
        f"{facts['rows']:,.10g} rows",
        f"  {'column':<{_NAME}} {'rho':>6} {'categories':>11}",
    ]
    for entry in facts["columns"]:
        name = f"  {one_line(entry['name'], _NAME):<{_NAME}}"
        lines.append(f"{name} {entry['rho']:>6.3f} {entry['categories']:>11,}")
    text = "A bound on all columns together needs the counts of every pair of columns."
    if facts["lower_bound"] is not None:
        text = (
            "However the columns depend on each other beyond pairs, all of them "
            f"together have at least {rounded_down(facts['lower_bound'], 3):.3f}."
        )
    return "\n".join([*lines, "", wrapped(text)])


def _matrix_facts(m: Marginals) -> Facts:
    """Return the maximal correlation of every pair of columns; None if unknown."""
    matrix = hgr_matrix(m)
    return {
        "target": m.target,
        "rows": m.n,
        "columns": [str(name) for name in matrix.columns],
        "rho": matrix.astype(object).where(matrix.notna(), None).to_numpy().tolist(),
    }


def _matrix_text(facts: Facts) -> str:
    """Return the matrix as plain text, a few columns at a time, by their numbers."""
    names, digits = facts["columns"], len(str(len(facts["columns"])))
    lines = [
        f"Maximal correlation of every pair of columns, from {facts['rows']:,.10g} rows"
    ]
    for first in range(0, len(names), _WIDE):
        shown = range(first, min(first + _WIDE, len(names)))
        lines += [""] if first else []
        head = "".join(f" {k + 1:>6}" for k in shown)
        lines.append(f"  {'':<{digits + 31}}{head}")
        for i, (name, row) in enumerate(zip(names, facts["rho"], strict=True)):
            cells = ["–" if rho is None else f"{rho:.3f}" for rho in row]
            text = "".join(f" {cells[j]:>6}" for j in shown)
            lines.append(f"  {i + 1:>{digits}} {one_line(name, 30):<30}{text}")
    return "\n".join(lines)
