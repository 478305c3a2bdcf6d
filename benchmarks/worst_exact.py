"""The worst case of a given model: closed form, programs, and exactly.

`RenyiClassifier()` is fitted to all rows. For each rule the table has the closed form,
the linear and the semidefinite program of polynomial size, and the exact worst case.
The lower end of the exact case is the error under a listed distribution, whose tables
are checked.
"""

from __future__ import annotations

from timing import Section, run  # isort: skip

import time
from typing import Any

import renyi

CASES = (
    ("votes", "map"),
    ("votes", "sharp"),
    ("votes", "renyi"),
    ("kr-vs-kp", "map"),
)
LIMIT = 600.0


def benchmark() -> list[Section]:
    return [
        Section(
            "Worst case of a model",
            table=[_case(name, rule) for name, rule in CASES],
            notes=[
                f"time limit {LIMIT:.0f} s of wall time for each; CPU seconds in "
                "brackets.",
                "lower: the error under the exhibited distribution; off: how far its "
                "tables are from the given ones.",
            ],
        )
    ]


def _case(name: str, rule: str) -> dict[str, Any]:
    X, y = renyi.datasets.load(name)
    clf = renyi.RenyiClassifier(rule=rule).fit(X, y)
    m = clf.marginals_
    row: dict[str, Any] = {"data": name, "rule": rule}
    row["closed form"] = f"{renyi.certify(clf, m).bounds[rule]:.5f}"
    for method in ("lp", "sdp"):
        found, seconds = _timed(clf, m, method)
        row[method] = f"{found.upper:.5f} ({seconds:.1f})"
    found, seconds = _timed(clf, m, "exact")
    shown = found.distribution
    row["exact, upper"] = f"{found.upper:.6f} ({seconds:.0f})"
    row["lower"] = f"{found.lower:.6f}"
    row["gap"] = f"{found.gap:.1e}"
    row["wall s"] = f"{found.seconds:.0f}"
    row["off"] = "" if shown is None else f"{shown.marginal_error:.0e}"
    return row


def _timed(clf: Any, m: Any, method: str) -> tuple[Any, float]:
    begun = time.process_time()
    found = renyi.worst_case(clf, m, method=method, time_limit=LIMIT)
    return found, time.process_time() - begun


if __name__ == "__main__":
    run("worst_exact", "The worst case of a given model", benchmark, both=False)
