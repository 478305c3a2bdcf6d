"""What minimax and hgr found: facts as plain values, and the same as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from renyi.correlation import hgr_lower_bound, hgr_matrix, ranking
from renyi.encoding.frame_columns import label_text
from renyi.figures import table, verdict, wrapped
from renyi.ladder import MINIMAX, Rung, simple_rules
from renyi.robust.feature_importance import swings
from renyi.selection import short

if TYPE_CHECKING:
    from renyi.marginals.marginals import Marginals
    from renyi.robust.minimax_problem import MinimaxResult

_TOP = 10
_NAME = 40
_NOTHING = 1e-6  # a swing that is rounding
_SHOWN = 5e-4  # a swing that is not shown as 0.000
_WIDE = 6  # columns of a matrix side by side


# ---- minimax


def minimax_facts(m: Marginals, result: MinimaxResult) -> dict[str, Any]:
    """Return what is known of the smallest worst error, as plain values.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X[["crime", "immigration"]], y)
    >>> told = minimax_facts(m, renyi.minimax(m))
    >>> told["method"], told["status"], told["doubtful"]
    ('direct', 'solved', False)
    """
    shown = result.worst_distribution
    rungs = [*simple_rules(m), _rung(result)]
    promise = min(rung.upper for rung in rungs)
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
        "lower": None if shown is None else result.lower,
        "upper": result.upper,
        "method": result.method,
        "status": result.status,
        "seconds": result.seconds,
        "outcomes": None if shown is None else len(shown),
        "rules": [asdict(rung) for rung in rungs],
        "looks_at": [
            {"feature": str(name), "swing": float(swing)}
            for name, swing in moves.items()
            if swing > _NOTHING
        ],
        "sentence": verdict("its rule", where, result.upper, result.lower, promise),
        "doubtful": bool(doubts),
        "warnings": doubts,
    }


def _rung(result: MinimaxResult) -> Rung:
    lower = None if result.worst_distribution is None else result.lower
    name = result.origin if result.method == "lp" else f"{MINIMAX} ({result.method})"
    return Rung(name, result.upper, lower, result.seconds, result.status)


def minimax_text(told: dict[str, Any]) -> str:
    """Return these facts as plain text.

    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> text = minimax_text(minimax_facts(m, renyi.minimax(m, method="lp")))
    >>> print(text.splitlines()[0])
    The smallest worst error of any rule that predicts 'party', from 435 rows
    """
    lines = [wrapped(f"Warning: {text}") for text in told["warnings"]]
    lines += [""] if lines else []
    lines += [
        wrapped(
            f"The smallest worst error of any rule that predicts {told['target']!r}, "
            f"from {told['rows']:,.10g} rows"
        ),
        f"({told['features']:,} features with {told['categories']:,} categories; pairs "
        f"of columns{' within each class' if told['class_conditional'] else ''})",
        "",
        *table("A rule can promise", [Rung(**rung) for rung in told["rules"]]),
        "",
        *_looks_at(told["looks_at"]),
        "",
        wrapped(told["sentence"]),
    ]
    if told.get("written"):
        lines.append(
            f"Wrote {told['written']} (a distribution on {told['outcomes']:,} outcomes "
            "that shows it)"
        )
    if told.get("next"):
        lines += ["", f"Next: {told['next']}   (closes the interval)"]
    return "\n".join(lines)


def _looks_at(found: list[dict[str, Any]]) -> list[str]:
    found = [entry for entry in found if entry["swing"] >= _SHOWN]
    if not found:
        return ["Its rule looks at no feature: it answers the same everywhere."]
    lines = ["What its rule looks at most (swing: how far a feature moves the choice)"]
    for entry in found[:_TOP]:
        lines.append(
            f"  {_short(entry['feature'], _NAME):<{_NAME}} {entry['swing']:.3f}"
        )
    return lines


def _short(name: str, width: int) -> str:
    return short(" ".join(name.split()), width)


# ---- maximal correlation


def ranking_facts(m: Marginals) -> dict[str, Any]:
    """Return the maximal correlation of every column with the target.

    The bound on all columns together is None where some pairs were not counted.

    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> told = ranking_facts(m)
    >>> told["columns"][0]["name"], round(told["lower_bound"], 3)
    ('physician-fee-freeze', 0.935)
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


def ranking_text(told: dict[str, Any]) -> str:
    """Return the ranking as plain text.

    >>> import renyi
    >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
    >>> print(*ranking_text(ranking_facts(m)).splitlines()[:3], sep=chr(10))
    Maximal correlation with 'party', from 435 rows
      column                                      rho  categories
      physician-fee-freeze                      0.914           3
    """
    lines = [
        f"Maximal correlation with {told['target']!r}, from {told['rows']:,.10g} rows",
        f"  {'column':<{_NAME}} {'rho':>6} {'categories':>11}",
    ]
    for entry in told["columns"]:
        name = f"  {_short(entry['name'], _NAME):<{_NAME}}"
        lines.append(f"{name} {entry['rho']:>6.3f} {entry['categories']:>11,}")
    text = "A bound on all columns together needs the counts of every pair of columns."
    if told["lower_bound"] is not None:
        text = (
            "However the columns depend on each other beyond pairs, all of them "
            f"together have at least {_down(told['lower_bound'])}."
        )
    return "\n".join([*lines, "", wrapped(text)])


def _down(rho: float) -> str:
    return f"{np.floor(1e3 * (rho + 1e-9)) / 1e3:.3f}"


def matrix_facts(m: Marginals) -> dict[str, Any]:
    """Return the maximal correlation of every pair of columns; None if unknown.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> told = matrix_facts(renyi.Marginals.from_data(X[["crime"]], y))
    >>> told["columns"], round(told["rho"][0][1], 2)
    (['crime', 'party'], 0.61)
    """
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


def matrix_text(told: dict[str, Any]) -> str:
    """Return the matrix as plain text, a few columns at a time, by their numbers.

    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> told = matrix_facts(renyi.Marginals.from_data(X[["crime"]], y))
    >>> print(matrix_text(told))
    Maximal correlation of every pair of columns, from 435 rows
                                            1      2
      1 crime                           1.000  0.613
      2 party                           0.613  1.000
    """
    names, rho = told["columns"], told["rho"]
    digits = len(str(len(names)))
    lines = [
        f"Maximal correlation of every pair of columns, from {told['rows']:,.10g} rows"
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
