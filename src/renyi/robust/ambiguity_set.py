r"""Ambiguity: the set C of all distributions that have some given tables.

A table gives the probabilities of the cells of some columns, with or without the
target.
`Marginals` give P(X_i, X_j) and P(X_i, Y), and with class-conditional counts
P(X_i, X_j, Y), which shrinks C. In the paper's words: all p ≥ 0 with A p = b.

A *multiplier* is a number for every cell of every table. It defines the functions

.. math:: \lambda_y(x) = \sum_t a_t(x_{S_t} [, y])

whose expectation ``bᵀa`` is the same under every member of C; they are what
certificates of worst cases are made of. A minimax rule rests on functions with

.. math:: \sum_{y \in S} \lambda_y(x) \ge |S| - 1
    \quad \text{for every outcome } x \text{ and nonempty } S.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting.onehot import offsets
from renyi.encoding.columns import MISSING_TEXT, Column, Columns, Levels
from renyi.marginals.marginals import Marginals

if TYPE_CHECKING:
    from renyi.encoding.encoder import Encoder

Floats = NDArray[np.float64]


class Table(NamedTuple):
    """Probabilities of the cells of some features, and of Y, which is the last axis."""

    features: tuple[int, ...]
    with_target: bool
    probabilities: Floats


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """All distributions of the features and the target with the given tables."""

    columns: Columns
    target: Column
    tables: tuple[Table, ...]

    @classmethod
    def of(cls, m: Marginals, class_conditional: bool = True) -> Ambiguity:
        """Set of the marginals m, with class-conditional pairs where m has them."""
        if m.order > 1:
            raise ValueError(
                f"The marginals are of order {m.order}, and exact worst cases are "
                "known of order 1: count single columns."
            )
        columns = m.encoder.columns
        target = m._column(m.target)
        F, starts = m.F, offsets(columns.sizes)
        spans = [slice(starts[i], starts[i + 1]) for i in range(len(columns))]
        tables = [Table((i,), True, F[span]) for i, span in enumerate(spans)]
        if class_conditional and m.class_counts is not None:
            inner = m.class_counts / m.n
            for i, j in combinations(range(len(columns)), 2):
                block = inner[:, spans[i], spans[j]].transpose(1, 2, 0)
                tables.append(Table((i, j), True, block))
        else:
            Q = m.Q
            for i, j in combinations(range(len(columns)), 2):
                tables.append(Table((i, j), False, Q[spans[i], spans[j]]))
        return cls(columns, target, tuple(tables))

    @property
    def sizes(self) -> NDArray[np.intp]:
        """Number of categories of each feature."""
        return self.columns.sizes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.target.categories)

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """Place of each table's first cell in a multiplier, and the total length."""
        return offsets([table.probabilities.size for table in self.tables])

    @cached_property
    def b(self) -> Floats:
        """Probabilities of all cells of all tables."""
        return np.concatenate([t.probabilities.ravel() for t in self.tables])

    @cached_property
    def priors(self) -> Floats:
        """Class probabilities, read off the first table with the target."""
        for table in self.tables:
            if table.with_target:
                cells = table.probabilities.reshape(-1, self.n_classes)
                return np.asarray(cells.sum(axis=0))
        raise ValueError("No table has the target: nothing ties it to the features.")

    @property
    def n_outcomes(self) -> float:
        """Number of joint outcomes of the features; a float, as it may be huge."""
        return float(np.prod(self.sizes.astype(float)))

    @property
    def n_table(self) -> float:
        """Number of cells of the joint table: outcomes times classes."""
        return self.n_outcomes * self.n_classes

    def cells(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Cells that outcomes fall in: (outcomes, tables), those with Y at class 0.

        X has one row per outcome. Class y is y places further in a table with Y.
        """
        found = np.empty((len(X), len(self.tables)), np.int64)
        for t, table in enumerate(self.tables):
            place = np.zeros(len(X), np.int64)
            for i in table.features:
                place = place * self.sizes[i] + X[:, i]
            if table.with_target:
                place *= self.n_classes
            found[:, t] = self.starts[t] + place
        return found

    @cached_property
    def with_target(self) -> NDArray[np.int64]:
        """Of each table 1 if it has the target, else 0."""
        return np.array([t.with_target for t in self.tables], np.int64)

    def split(self, multiplier: Floats) -> Iterator[tuple[Table, Floats]]:
        """Tables with their parts of a multiplier, in the tables' shapes."""
        for table, low in zip(self.tables, self.starts, strict=False):
            p = table.probabilities
            yield table, multiplier[low : low + p.size].reshape(p.shape)

    def functions(self, multiplier: Floats, X: NDArray[Any]) -> Floats:
        """Values of λ_y(x): (outcomes, classes)."""
        cells = self.cells(X)
        return np.stack(
            [
                multiplier[cells + y * self.with_target].sum(axis=1)
                for y in range(self.n_classes)
            ],
            axis=1,
        )

    def constraint_matrix(self, X: NDArray[Any]) -> sparse.csc_array:
        """Matrix A over the outcomes X and all classes, classes varying fastest."""
        cells = self.cells(X)
        K, N, T = self.n_classes, len(X), len(self.tables)
        rows = cells[:, None, :] + np.arange(K)[:, None] * self.with_target
        columns = np.repeat(np.arange(N * K), T)
        ones = np.ones(N * K * T)
        shape = (int(self.starts[-1]), N * K)
        return sparse.csc_array((ones, (rows.ravel(), columns)), shape=shape)

    def possible(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Which (outcome, class) avoid all cells of probability 0."""
        return np.asarray(self.functions((self.b <= 0).astype(np.float64), X) == 0)

    def outcomes(self) -> NDArray[np.int64]:
        """All outcomes that no empty cell forbids, one row each."""
        found = self.few_outcomes(np.inf)
        assert found is not None
        return found

    def few_outcomes(self, most: float) -> NDArray[np.int64] | None:
        """All outcomes that no empty cell forbids; None if they are more than `most`.

        Built column by column, so that forbidden beginnings are never extended.
        """
        known = np.zeros((1, 0), np.int64)
        for i in range(len(self.sizes)):
            grown = np.repeat(known, self.sizes[i], axis=0)
            last = np.tile(np.arange(self.sizes[i]), len(known))
            known = np.column_stack([grown, last])
            known = known[self._allowed(known)]
            if len(known) > most:
                return None
        return known

    def _allowed(self, X: NDArray[Any]) -> NDArray[np.bool_]:
        """Which beginnings of outcomes avoid the empty cells of the known columns."""
        last, good = X.shape[1] - 1, np.ones(len(X), bool)
        for table in self.tables:
            if table.features and max(table.features) == last:
                cells = table.probabilities[tuple(X[:, i] for i in table.features)]
                good &= (cells > 0).any(axis=1) if table.with_target else cells > 0
        return good

    def restricted(self, features: Sequence[int]) -> Ambiguity:
        """Return the set of some features: the tables that are about them alone."""
        place = {i: k for k, i in enumerate(features)}
        tables = tuple(
            table._replace(features=tuple(place[i] for i in table.features))
            for table in self.tables
            if set(table.features) <= place.keys()
        )
        return Ambiguity(self.columns.take(features), self.target, tables)

    def pairwise(self) -> Ambiguity | None:
        """Return the same set by other tables: each feature with Y, and pairs.

        These are the tables of `Ambiguity.of`, in their order, and what follows from
        them is left out; some pairs may be absent. None if a table has more than two
        features, or if a feature has no table with the target. The margins of the
        tables are taken to agree.
        """
        single: dict[int, Table] = {}
        pairs: dict[tuple[int, ...], Table] = {}
        for table in self.tables:
            if len(table.features) > 2:
                return None
            for axis, i in enumerate(table.features if table.with_target else ()):
                p = table.probabilities
                margin = p if len(table.features) == 1 else p.sum(axis=1 - axis)
                single.setdefault(i, Table((i,), True, margin))
            if len(table.features) == 2 and (
                table.with_target or table.features not in pairs
            ):
                pairs[table.features] = table
        if not single or len(single) < len(self.sizes):
            return None
        ordered = (*sorted(single.items()), *sorted(pairs.items()))
        return replace(self, tables=tuple(table for _, table in ordered))

    def shifted(self, multiplier: Floats, constants: Floats | float) -> Floats:
        """Return the multiplier of λ_y + c_y; `constants` is one number or K."""
        each = np.broadcast_to(constants, (self.n_classes,))
        t = next(t for t, table in enumerate(self.tables) if table.with_target)
        low, high = int(self.starts[t]), int(self.starts[t + 1])
        moved = multiplier.copy()
        moved[low:high] += np.tile(each, (high - low) // self.n_classes)
        return moved

    def quadratics(
        self, U: Floats, beta: Floats, own: NDArray[np.intp]
    ) -> tuple[Floats, Floats]:
        """Multipliers of ‖u‖² and u_y for u = beta + Σ_i U_i(x_i), given all pairs.

        U is (categories, scores), and `own` tells the score of each class.
        """
        starts = offsets(self.sizes)
        square, lead = np.zeros(len(self.b)), np.zeros(len(self.b))
        for (table, cells), (_, leads) in zip(
            self.split(square), self.split(lead), strict=True
        ):
            parts = [U[starts[i] : starts[i + 1]] for i in table.features]
            if len(parts) == 2:
                value = 2 * parts[0] @ parts[1].T
                cells += value[..., None] if table.with_target else value
            elif len(parts) == 1 and table.with_target:
                norms = (parts[0] ** 2).sum(axis=1) + 2 * parts[0] @ beta
                cells += norms[:, None]
                leads += parts[0][:, own]
        return self.shifted(square, float(beta @ beta)), self.shifted(lead, beta[own])

    def completed(self, multiplier: Floats) -> Floats:
        """Return a multiplier with λ_y(x) ≥ 1 wherever an empty cell forbids (x, y).

        A program over the possible outcomes says nothing of the empty cells; this
        makes its functions good for all outcomes. Expectations do not change.
        """
        closed = self.b <= 0
        known = np.where(closed, 0.0, multiplier)
        least = np.minimum(np.minimum.reduceat(known, self.starts[:-1]), 0.0)
        return np.where(closed, 1.0 - least.sum(), multiplier)

    @cached_property
    def _likeliest(self) -> NDArray[np.intp]:
        """Most probable category of each feature: the zero of its functions."""
        found = np.zeros(len(self.sizes), np.intp)
        for table in self.tables:
            if len(table.features) == 1 and table.with_target:
                found[table.features[0]] = table.probabilities.sum(axis=1).argmax()
        return found

    @cached_property
    def reference_cells(self) -> NDArray[np.bool_]:
        """Cells whose multiplier is 0 by convention.

        Many multipliers define the same functions: those of a pair contain functions of
        each of its columns, and these contain constants. Taking the likeliest category
        of every column as the zero of its functions leaves one multiplier for each λ.
        """
        zero, marks = self._likeliest, []
        for table in self.tables:
            mark = np.zeros(table.probabilities.shape, bool)
            if len(table.features) == 1 and table.features[0] > 0:
                mark[zero[table.features[0]]] = True
            elif len(table.features) == 2:
                mark[zero[table.features[0]]] = True
                mark[:, zero[table.features[1]]] = True
            marks.append(mark.ravel())
        return np.concatenate(marks)

    def normalised(self, multiplier: Floats) -> Floats:
        """Return the multiplier of the same functions that is 0 at reference cells."""
        zero, pieces = self._likeliest, []
        unary: dict[int, Floats] = {}
        for table, part in self.split(multiplier):
            cells = part.copy()
            if len(table.features) == 1:
                i = table.features[0]
                unary[i] = unary.get(i, 0) + cells
            else:
                i, j = table.features
                along_i, along_j = cells[:, zero[j]].copy(), cells[zero[i]].copy()
                corner = cells[zero[i], zero[j]].copy()
                cells -= along_i[:, None] + along_j[None] - corner
                along_j = along_j - corner
                if not table.with_target:
                    along_i, along_j = along_i[:, None], along_j[:, None]
                unary[i] = unary.get(i, 0) + along_i
                unary[j] = unary.get(j, 0) + along_j
            pieces.append(cells)
        constant = np.zeros(self.n_classes)
        for i in unary:
            if i > 0:
                constant = constant + unary[i][zero[i]]
                unary[i] = unary[i] - unary[i][zero[i]]
        unary[0] = unary[0] + constant
        for t, table in enumerate(self.tables):
            if len(table.features) == 1:
                pieces[t] = np.broadcast_to(unary[table.features[0]], pieces[t].shape)
        return np.concatenate([piece.ravel() for piece in pieces])

    def name(self, cell: int) -> str:
        """Return the cell of a multiplier in words."""
        t = int(np.searchsorted(self.starts, cell, side="right")) - 1
        table = self.tables[t]
        columns = [self.columns[i] for i in table.features]
        columns += [self.target] if table.with_target else []
        codes = np.unravel_index(cell - self.starts[t], table.probabilities.shape)
        return ", ".join(
            f"{c.name} = {c.levels.texts[int(k)]}"
            for c, k in zip(columns, codes, strict=True)
        )


def shortfall(values: Floats) -> float:
    """Largest violation of Σ_{y∈S} λ_y ≥ |S| − 1 by values of λ (outcomes, classes).

    Raising all λ_y by as much mends it.
    """
    found = np.maximum(1 - values, 0).sum(axis=1) - 1
    return max(0.0, float(found.max(initial=0.0)))


def of_tables(tables: Any, m: Marginals | str, count: str = "count") -> Ambiguity:
    """Set of the distributions that have some contingency tables (the paper's Ap = b).

    Parameters
    ----------
    tables : iterable of frames or series, or mapping
        As in `Marginals.from_tables`: each table counts the rows with the categories
        of any number of columns, the target among them or not.
    m : Marginals or str
        Marginals whose columns and target these are, or the name of the target.
    count : str, default="count"
        Name of the column of counts of a long table.
    """
    from renyi.encoding.encoder import Encoder
    from renyi.sources import tables as source

    long = source.long_tables(tables, count, 1e-6)
    codes = Encoder().missing if isinstance(m, str) else m.settings.missing
    settings = Encoder(missing=(*codes, MISSING_TEXT), numeric=())
    target = m if isinstance(m, str) else m.target
    known = _labelled(
        source.columns_of(long, settings, count) if isinstance(m, str) else m.columns
    )
    held = {name for frame in long for name in frame.columns if name != count}
    known.places(sorted(held))  # a name that is not there is an error
    if target not in held:
        raise ValueError(f"No table has the target {target!r}: give one that does.")
    names = [name for name in known.names if name in held and name != target]
    n = float(long[0][count].sum())
    found = []
    for frame in long:
        mine = [name for name in names if name in frame.columns]
        full = [*mine, target] if target in frame.columns else mine
        part = known.take(known.places(full))
        encoder = replace(settings, columns=part)
        cells = _counts(frame, encoder, frame[count].to_numpy(np.float64))
        places = tuple(names.index(name) for name in mine)
        found.append(Table(places, len(full) > len(mine), cells / n))
    columns = known.take(known.places(names))
    return Ambiguity(columns, known[known.places([target])[0]], tuple(found))


def _labelled(columns: Columns) -> Columns:
    """Return the columns with bins as labels, which is what tables hold."""
    return Columns.of(Column(c.name, _labels(c.levels)) for c in columns)


def _labels(levels: Levels) -> Levels:
    if levels.kind == "label":
        return levels
    missing = (None,) if None in levels.categories else ()
    return Levels("label", (*levels.texts[: len(levels.edges) + 1], *missing))


def _counts(frame: Any, encoder: Encoder, mass: Floats) -> Floats:
    """Return the counts of a long table as an array with one axis per column."""
    names = [column.name for column in encoder.columns]
    codes = encoder.transform(frame[names].astype(object)).astype(np.intp)
    sizes = encoder.columns.sizes
    unseen = (codes >= sizes[:, None]) & (mass > 0)
    if unseen.any():
        i, row = (int(v) for v in np.argwhere(unseen)[0])
        raise ValueError(
            f"A table has the category {frame[names[i]].iloc[row]!r} of {names[i]!r}, "
            "which the marginals do not know."
        )
    cells = np.zeros(tuple(sizes))
    used = mass > 0
    np.add.at(cells, tuple(codes[:, used]), mass[used])
    return cells
