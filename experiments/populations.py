"""Populations that are known row by row, so that the error of a rule is a sum.

Small tables list all outcomes of a few columns: random joints, and a few columns of two
bundled sets. The bundled sets themselves are populations of their distinct rows, from
which samples are drawn with replacement. Numbers are cut at quantiles of the set
before any sample is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from experiments.theorems import marginals_of
from renyi import Encoder, datasets
from renyi.robust.ambiguity_set import Ambiguity, worst_member

Floats = NDArray[np.float64]
Places = NDArray[np.intp]

SAME, RARE, OFTEN, WORST = "same", "10 %", "90 %", "worst"
PREVALENCE = {RARE: 0.1, OFTEN: 0.9}
SETTINGS = {
    SAME: "new rows of the same population",
    RARE: "the same rows within the classes, 10 % of them of the second class",
    OFTEN: "the same rows within the classes, 90 % of them of the second class",
    WORST: "the population with the same pairs of columns on which the rule errs most",
}
_KINDS = ("additive", "logistic", "dirichlet")
# The first seed with which both classes of all three are frequent.
_JOINT_SIZES, _JOINT_SEED = (2, 3, 3, 4), 1
# A few columns of a set: all of their outcomes fit into one linear program.
_FEW = {
    "votes-5": (
        *("adoption-of-the-budget-resolution", "el-salvador-aid"),
        *("education-spending", "crime", "immigration"),
    ),
    "adult-4": ("marital-status", "hours-per-week", "race", "sex"),
}
_SETS = ("votes", "credit", "kr-vs-kp", "promoters", "adult")
NAMES = (*_KINDS, *_FEW, *_SETS)


@dataclass(frozen=True, eq=False)
class Population:
    """Distinct rows of categories, and their probabilities with each of two classes."""

    codes: NDArray[np.int64]  # (N, d)
    p: Floats  # (N, 2)
    joint: Floats | None = None  # of all outcomes, where they are listed

    @cached_property
    def onehot(self) -> Floats:
        """One column for every category."""
        columns = [np.eye(c.max() + 1)[c] for c in self.codes.T]
        return np.hstack(columns)

    def sample(self, n: int, random: np.random.Generator) -> tuple[Places, Places]:
        """Draw rows and their classes, independently of each other."""
        cells = random.choice(self.p.size, n, p=self.p.ravel() / self.p.sum())
        rows, classes = np.divmod(cells, 2)
        return rows, classes

    def errors(self, loss: Floats) -> dict[str, float]:
        """Return the mean of a loss (rows × classes) in every setting there is."""
        by_class = (self.p * loss).sum(axis=0) / self.p.sum(axis=0)
        found = {SAME: float((self.p * loss).sum())}
        for name, share in PREVALENCE.items():
            found[name] = float(by_class @ [1 - share, share])
        if self.joint is not None:
            _, answer = worst_member(self._ambiguity, loss, self.codes)
            if answer.status != "optimal":
                raise ValueError(f"The worst population was not found: {answer.status}")
            found[WORST] = float(-answer.value)
        return found

    @cached_property
    def _ambiguity(self) -> Ambiguity:
        return Ambiguity.of(marginals_of(self.joint))


@cache
def population(name: str) -> Population:
    """Return the population of a name.

    >>> votes = population("votes")
    >>> votes.codes.shape, round(float(votes.p[:, 1].sum()), 3)
    ((342, 16), 0.386)
    >>> len(population("additive").codes)
    72
    """
    if name in _KINDS:
        kind = cast(Literal["additive", "logistic", "dirichlet"], name)
        return _of_joint(
            datasets.random_joint(_JOINT_SIZES, kind=kind, random_state=_JOINT_SEED)
        )
    X, y = datasets.load(name.split("-")[0] if name in _FEW else name)
    if name in _FEW:
        X = X[list(_FEW[name])]
    _, codes = Encoder(bins=5).fit_transform(X)
    cells = np.vstack([codes, np.unique(y, return_inverse=True)[1]]).astype(np.int64)
    if name in _FEW:
        joint = np.zeros(cells.max(axis=1) + 1)
        np.add.at(joint, tuple(cells), 1 / len(y))
        return _of_joint(joint)
    rows, of_row = np.unique(cells[:-1], axis=1, return_inverse=True)
    p = np.zeros((rows.shape[1], 2))
    np.add.at(p, (of_row, cells[-1]), 1 / len(y))
    return Population(rows.T, p)


def _of_joint(joint: Any) -> Population:
    shape = joint.shape[:-1]
    codes = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    return Population(codes.astype(np.int64), joint.reshape(-1, 2), joint)
