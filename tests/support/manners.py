"""Checks of every estimator: scikit-learn's own, and one model by any input path.

`SEPARATE` can only run where SCIPY_ARRAY_API is set before scipy is imported, so it has
a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

from renyi import Marginals

SEPARATE = "check_array_api_input"
EVERY_RUN = {
    "KernelRenyiClassifier()",
    "RenyiClassifier()",
    "CrossFitClassifier()",
    "RenyiSelector()",
}


def check_name(check: Any) -> str:
    return getattr(check, "func", check).__name__


def all_checks(
    estimators: list[Any], failing: Callable[[Any, str], str | None] | None = None
) -> list[Any]:
    """Return scikit-learn's checks of every estimator, except the separate one.

    `failing` gives the reason why a check must fail, or None. The checks of estimators
    that are not in `EVERY_RUN` are long tests.
    """
    cases = []
    for chosen in estimators:
        for estimator, check in estimator_checks_generator(chosen, legacy=True):
            name = check_name(check)
            reason = failing(chosen, name) if failing else None
            marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
            if repr(chosen) not in EVERY_RUN:
                marks.append(pytest.mark.long)
            if name != SEPARATE:
                case = f"{chosen}-{name}"
                cases.append(pytest.param(estimator, check, marks=marks, id=case))
    return cases


def passes_separately(*names: str) -> bool:
    """Whether the separate check passes for ``module.Estimator`` of these names."""
    program = (
        "from importlib import import_module\n"
        f"from sklearn.utils.estimator_checks import {SEPARATE} as check\n"
        f"for name in {names!r}:\n"
        "    module, _, estimator = name.rpartition('.')\n"
        "    chosen = getattr(import_module(module), estimator)()\n"
        "    check(estimator, chosen, array_namespace='numpy')\n"
        "print('passed', end='')"
    )
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": path}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    return done.stdout == "passed"


def by_any_road(
    clf: Any, X: Any, y: Any, same: Callable[[Any, Any], None]
) -> tuple[Any, Any]:
    """Train on rows and on marginals, with weights and with copies of the rows.

    `same` asserts that two trained classifiers are the same. Returns the first two.
    """
    rows = clone(clf).fit(X, y)
    m = Marginals.from_data(X, y, class_conditional=True)
    counts = clone(clf).fit_marginals(m)
    assert counts.feature_names_in_.tolist() == list(X.columns)
    same(rows, counts)
    weights = np.arange(len(y)) % 3
    copies = clone(clf).fit(X.loc[X.index.repeat(weights)], y.repeat(weights))
    same(clone(clf).fit(X, y, sample_weight=weights), copies)
    return rows, counts


def refuses(clf: Any, X: Any, y: Any) -> None:
    """Assert that counts without pairs and a single class are refused in a sentence."""
    name = type(clf).__name__
    with pytest.raises(ValueError, match=f"{name} needs .* class_conditional=True"):
        clone(clf).fit_marginals(Marginals.from_data(X, y))
    with pytest.raises(ValueError, match="only one class"):
        clone(clf).fit(X, ["a"] * len(y))
