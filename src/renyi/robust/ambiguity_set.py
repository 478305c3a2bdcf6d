r"""Ambiguity: the set C of all distributions that have some given tables.

A table gives the probabilities of the cells of some columns, with or without the
target. `Marginals` give P(X_i, X_j) and P(X_i, Y), and with class-conditional counts
P(X_i, X_j, Y), which shrinks C. In the paper's words: all p ≥ 0 with A p = b.

A *multiplier* a is a number for every cell of every table. It defines functions λ_y,
whose expectation ``bᵀa`` is the same under every member of C. They prove bounds on
worst cases. A minimax rule uses functions with

.. math:: \sum_{y \in S} \lambda_y(x) \ge |S| - 1 \text{ for all } x, S \ne \emptyset,
    \qquad \lambda_y(x) = \sum_t a_t(x_{S_t} [, y]).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from renyi.counting import sparse_counts
from renyi.counting.onehot import offsets, spans
from renyi.encoding.columns import MISSING_TEXT, Column, Columns, Levels
from renyi.encoding.tuples import TupleEncoder
from renyi.limits import check_memory
from renyi.marginals.consistency import check_exact
from renyi.marginals.marginals import Marginals
from renyi.solvers.programs import Program, Solution, solve
from renyi.validation import InputError

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Outcomes = NDArray[np.int64]  # codes: a row for each outcome, a column for each feature
Classes = tuple[int, ...]
Tables = Iterable[Any] | Mapping[Any, Any]  # frames or series of counts

_FEWER = (
    "merge rare categories, leave columns out (Marginals.select()), or give it more"
)
_AGREE = 1e-9  # allowed difference of the common margins of two tables
_MAX_TRIED = 2e7  # outcomes to test at once when listing the allowed ones
# Bytes of a cell (its probability twice, and a few multipliers), and of the rest of a
# table.
_CELL = 64
_TABLE = 500


def class_sets(n_classes: int) -> list[Classes]:
    """Return the nonempty sets of classes, by size."""
    classes = range(n_classes)
    return [S for k in range(1, n_classes + 1) for S in combinations(classes, k)]


def members(sets: list[Classes], n_classes: int) -> Floats:
    """Return which class is in which set: (K, sets)."""
    return np.array([[float(y in S) for S in sets] for y in range(n_classes)])


class Table(NamedTuple):
    """Probabilities of the cells of some features, and of Y, which is the last axis."""

    features: tuple[int, ...]
    with_target: bool
    probabilities: Floats


class Layout:
    """Places of the cells of some pairs, then of all columns, in one array."""

    def __init__(self, pairs: list[tuple[int, int]], sizes: NDArray[np.intp]) -> None:
        self.pairs = pairs
        self.sizes = sizes
        columns = [(i,) for i in range(len(sizes))]
        self._index = {features: k for k, features in enumerate([*pairs, *columns])}
        counts = sizes.tolist()
        cells = [counts[i] * counts[j] for i, j in pairs]
        self._starts = offsets([*cells, *counts])
        self.blocks = self._starts[:-1]  # an outcome has one cell in each
        self.width = int(self._starts[-1])
        self.n_pair_cells = int(self._starts[len(pairs)])

    def cells(self, *features: int) -> NDArray[np.int64]:
        """Return the places of the cells of a pair or a column (none: the first)."""
        own = features or (0,)
        k = self._index[own]
        places = np.arange(self._starts[k], self._starts[k + 1])
        return places.reshape(self.sizes[[*own]])


def listed(
    sizes: NDArray[np.intp], allowed: Callable[[Outcomes], Flags], most: float
) -> Outcomes | None:
    """List the allowed outcomes, column by column; None if they are too many."""
    known = np.zeros((1, 0), np.int64)
    for size in sizes.tolist():
        if len(known) * size > _MAX_TRIED:
            return None
        last = np.tile(np.arange(size), len(known))
        known = np.column_stack([np.repeat(known, size, axis=0), last])
        known = known[allowed(known)]
        if len(known) > most:
            return None
    return known


@dataclass(frozen=True, eq=False)
class Ambiguity:
    """All distributions of the features and the target with the given tables."""

    columns: Columns
    target: Column
    tables: tuple[Table, ...]
    tuples: TupleEncoder | None = None  # if the features are tuples of columns

    @classmethod
    def of(cls, m: Marginals, class_conditional: bool = True) -> Ambiguity:
        """Return the set of marginals m, with class-conditional pairs if m has them.

        Absent pairs have no table.
        """
        check_exact(m, "The set of all distributions with these pair counts")
        columns = m.encoder.columns
        names = columns.names
        within = m.class_counts if class_conditional else None
        lengths = columns.sizes.astype(np.float64)
        cells = (lengths.sum() ** 2 - lengths @ lengths) / 2
        cells *= 1 if within is None else len(within)
        what = f"A program over the pairs of {int(lengths.sum()):,} categories"
        needed = _CELL * cells + _TABLE * len(columns) ** 2 / 2
        check_memory(needed, what, _FEWER)
        F = m.F
        places = m.columns.spans(names)
        counts = m.counts[np.ix_(places, places)]
        own = spans(columns.sizes)
        tables = [Table((i,), True, F[span]) for i, span in enumerate(own)]
        for i, j in combinations(range(len(columns)), 2):
            if frozenset((names[i], names[j])) in m.absent:
                continue
            if within is None:
                block = sparse_counts.dense(counts[own[i], own[j]]) / m.n
                tables.append(Table((i, j), False, block))
            else:
                block = (within[:, own[i], own[j]] / m.n).transpose(1, 2, 0)
                tables.append(Table((i, j), True, block))
        encoder = m.encoder
        tuples = encoder if isinstance(encoder, TupleEncoder) else None
        return cls(columns, m.columns.named(m.target), tuple(tables), tuples)

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
        """Class probabilities, from the first table with the target."""
        p = next(t.probabilities for t in self.tables if t.with_target)
        return np.asarray(p.reshape(-1, self.n_classes).sum(axis=0))

    @property
    def n_table(self) -> float:
        """Cells of the joint table, outcomes times classes; a float, for size."""
        return float(np.prod(self.sizes.astype(float))) * self.n_classes

    @cached_property
    def layout(self) -> Layout:
        """Places of the cells of all pairs that have a table, and of the columns."""
        known = {table.features for table in self.tables}
        if any(len(features) > 2 for features in known):
            raise InputError(
                "The linear program takes tables of at most two features: use "
                "{method}.",
                method="exact",
            )
        pairs = sorted((f[0], f[1]) for f in known if len(f) == 2)
        return Layout(pairs, self.sizes)

    def places(self, X: Outcomes) -> NDArray[np.int64]:
        """Return the places of the categories of outcomes: (outcomes, features)."""
        return X + offsets(self.sizes)[:-1]

    def cells(self, X: Outcomes) -> NDArray[np.int64]:
        """Return the cells that outcomes fall in: (outcomes, classes, tables)."""
        K = self.n_classes
        places = np.empty((len(X), K, len(self.tables)), np.int64)
        for t, table in enumerate(self.tables):
            place = np.zeros((len(X), 1), np.int64)
            for i in table.features:
                place = place * self.sizes[i] + X[:, i : i + 1]
            if table.with_target:
                place = place * K + np.arange(K)
            places[:, :, t] = self.starts[t] + place
        return places

    def split(self, multiplier: Floats) -> Iterator[tuple[Table, Floats]]:
        """Return the tables with their parts of a multiplier, in the tables' shapes."""
        for table, low in zip(self.tables, self.starts, strict=False):
            p = table.probabilities
            yield table, multiplier[low : low + p.size].reshape(p.shape)

    def by_class(self, multiplier: Floats) -> Iterator[tuple[Floats, Floats]]:
        """Return probabilities and parts of the tables with Y: (cells, classes)."""
        for table, part in self.split(multiplier):
            if table.with_target:
                shape = (-1, self.n_classes)
                yield table.probabilities.reshape(shape), part.reshape(shape)

    def functions(self, multiplier: Floats, X: Outcomes) -> Floats:
        """Return the values of λ_y(x): (outcomes, classes)."""
        return np.asarray(multiplier[self.cells(X)].sum(axis=2))

    def constraint_matrix(self, X: Outcomes) -> sparse.csc_array:
        """Return the matrix A over outcomes X and classes, classes varying fastest."""
        rows = self.cells(X)
        N, K, T = rows.shape
        columns = np.repeat(np.arange(N * K), T)
        entries = np.ones(rows.size), (rows.ravel(), columns)
        return sparse.csc_array(entries, shape=(int(self.starts[-1]), N * K))

    def possible(self, X: Outcomes) -> Flags:
        """Return which (outcome, class) avoid all cells of probability 0."""
        return np.asarray(self.functions((self.b <= 0).astype(np.float64), X) == 0)

    def outcomes(self) -> Outcomes:
        """Return all outcomes that no empty cell forbids."""
        every = self.few_outcomes(np.inf)
        assert every is not None
        return every

    def few_outcomes(self, most: float) -> Outcomes | None:
        """Return all outcomes that no empty cell forbids; None if more than `most`."""
        return listed(self.sizes, self._allowed, most)

    def _allowed(self, X: Outcomes) -> Flags:
        """Return which partial outcomes avoid the empty cells of the known columns."""
        last = X.shape[1] - 1
        good = np.ones(len(X), bool)
        for table in self.tables:
            if table.features and max(table.features) == last:
                cells = table.probabilities[tuple(X[:, i] for i in table.features)]
                good &= (cells > 0).any(axis=1) if table.with_target else cells > 0
        return good

    def restricted(self, features: Sequence[int]) -> Ambiguity:
        """Return the set of some features, from the tables of these features only."""
        place = {i: k for k, i in enumerate(features)}
        tables = tuple(
            table._replace(features=tuple(place[i] for i in table.features))
            for table in self.tables
            if set(table.features) <= place.keys()
        )
        return Ambiguity(self.columns.take(features), self.target, tables)

    def pairwise(self) -> Ambiguity | None:
        """Return the same set by other tables: each feature with Y, and pairs.

        The tables and their order are those of `Ambiguity.of`. Redundant tables are
        left out, some pairs may be absent, and margins are assumed to agree. Return
        None if a table has more than two features, or a feature no table with Y.
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
        low = int(self.starts[t])
        high = int(self.starts[t + 1])
        moved = multiplier.copy()
        moved[low:high] += np.tile(each, (high - low) // self.n_classes)
        return moved

    def moments(self) -> tuple[Any, Floats]:
        """Return Q, stored sparse if it is large, and F; 0 where a table is absent."""
        Q = sparse_counts.Blocks(self.sizes, np.float64)
        F = np.zeros((int(self.sizes.sum()), self.n_classes))
        own = spans(self.sizes)
        for table in self.tables:
            p = table.probabilities
            features = table.features
            if table.with_target and len(features) == 1:
                F[own[features[0]]] = p
                Q.put(features[0], features[0], p.sum(axis=1))
            elif len(features) == 2:
                Q.put(*features, p.sum(axis=-1) if table.with_target else p)
        return Q.table(), F

    @property
    def knows_all_pairs(self) -> bool:
        """Whether the tables are those of marginals: each feature with Y, all pairs."""
        known = {(*t.features, "Y") for t in self.tables if t.with_target}
        known |= {t.features for t in self.tables}
        columns = range(len(self.sizes))
        return known >= {*combinations(columns, 2), *((i, "Y") for i in columns)}

    def quadratics(
        self, U: Floats, beta: Floats, own: NDArray[np.intp]
    ) -> tuple[Floats, Floats, Floats]:
        """Return multipliers of ‖u‖², u[own[y]] and 1; u = beta + Σ_i U_i(x_i)."""
        own_places = spans(self.sizes)
        nothing = np.zeros(len(self.b))
        square = nothing.copy()
        lead = nothing.copy()
        both = zip(self.split(square), self.split(lead), strict=True)
        for (table, cells), (_, leads) in both:
            parts = [U[own_places[i]] for i in table.features]
            if len(parts) == 2:
                value = 2 * parts[0] @ parts[1].T
                cells += value[..., None] if table.with_target else value
            elif len(parts) == 1 and table.with_target:
                norms = (parts[0] ** 2).sum(axis=1) + 2 * parts[0] @ beta
                cells += norms[:, None]
                leads += parts[0][:, own]
        square = self.shifted(square, float(beta @ beta))
        return square, self.shifted(lead, beta[own]), self.shifted(nothing, 1.0)

    def completed(self, multiplier: Floats) -> Floats:
        """Return a multiplier with λ_y(x) ≥ 1 wherever an empty cell forbids (x, y).

        Programs over the possible outcomes ignore these. Expectations do not change.
        """
        closed = self.b <= 0
        known = np.where(closed, 0.0, multiplier)
        least = np.minimum(np.minimum.reduceat(known, self.starts[:-1]), 0.0)
        return np.where(closed, 1.0 - least.sum(), multiplier)

    @cached_property
    def _likeliest(self) -> NDArray[np.intp]:
        """Most probable category of each feature, where its functions are 0."""
        likeliest = np.zeros(len(self.sizes), np.intp)
        for table in self.tables:
            if len(table.features) == 1 and table.with_target:
                likeliest[table.features[0]] = table.probabilities.sum(axis=1).argmax()
        return likeliest

    @cached_property
    def reference_cells(self) -> NDArray[np.bool_]:
        """Cells whose multiplier is 0 by convention, which makes multipliers unique."""
        zero = self._likeliest
        marks = []
        for table in self.tables:
            mark = np.zeros(table.probabilities.shape, bool)
            for axis, i in enumerate(table.features):
                if len(table.features) == 2 or i > 0:
                    mark.swapaxes(0, axis)[zero[i]] = True
            marks.append(mark.ravel())
        return np.concatenate(marks)

    def normalised(self, multiplier: Floats) -> Floats:
        """Return the multiplier of the same functions that is 0 at reference cells."""
        zero = self._likeliest
        pieces = []
        unary = [np.zeros((size, self.n_classes)) for size in self.sizes]
        for table, part in self.split(multiplier):
            cells = part.copy()
            if len(table.features) == 1:
                unary[table.features[0]] += cells
            else:
                i, j = table.features
                along_i = cells[:, zero[j]].copy()
                along_j = cells[zero[i]].copy()
                corner = along_j[zero[j]].copy()
                cells -= along_i[:, None] + along_j[None] - corner
                for k, values in ((i, along_i), (j, along_j - corner)):
                    unary[k] += values if table.with_target else values[:, None]
            pieces.append(cells)
        constant = np.zeros(self.n_classes)
        for values, k in zip(unary[1:], zero[1:], strict=True):
            constant += values[k]
            values -= values[k].copy()
        unary[0] += constant
        for t, table in enumerate(self.tables):
            if len(table.features) == 1:
                pieces[t] = unary[table.features[0]]
        return np.concatenate([piece.ravel() for piece in pieces])

    def axes(self, table: Table) -> tuple[int, ...]:
        """Return the places of a table's columns, the target after the features."""
        return (*table.features, *[len(self.sizes)] * table.with_target)

    def words(self, columns: Sequence[int], codes: Sequence[np.intp]) -> str:
        """Return some categories in words, one for each of some columns."""
        every = (*self.columns, self.target)
        return ", ".join(
            f"{every[i].name} = {every[i].levels.texts[int(k)]}"
            for i, k in zip(columns, codes, strict=True)
        )


def shortfall(values: Floats) -> float:
    """Return how much λ (outcomes, classes) must rise: Σ_S λ_y ≥ |S| − 1."""
    lacking = np.maximum(1 - values, 0).sum(axis=1) - 1
    return max(0.0, float(lacking.max(initial=0.0)))


def worst_member(
    ambiguity: Ambiguity, loss: Floats, X: Outcomes, time_limit: float | None = None
) -> tuple[Floats, Solution]:
    """Return the member of C with the largest expected loss (outcomes × classes)."""
    A = ambiguity.constraint_matrix(X)
    b = ambiguity.b
    most = np.where(ambiguity.possible(X), np.inf, 0.0).ravel()
    answer = solve(Program(-loss.ravel(), A, b, b, upper=most), time_limit=time_limit)
    solved = len(answer.x) == loss.size
    p = np.maximum(answer.x, 0) if solved else np.zeros(loss.size)
    return p.reshape(loss.shape), answer


# ---- why C is empty


def contradiction_error(ambiguity: Ambiguity) -> ValueError:
    """Return the error for tables that no distribution has."""
    return ValueError(
        disagreement(ambiguity)
        or "No distribution has these tables, although their margins agree: leave out "
        "columns until minimax() finds one, or count all tables from one set of rows."
    )


def disagreement(ambiguity: Ambiguity) -> str:
    """Name two tables whose common margins differ, if there are any."""
    columns = (*ambiguity.columns, ambiguity.target)
    known: dict[tuple[int, ...], tuple[tuple[int, ...], Floats]] = {}
    for table in ambiguity.tables:
        mine = ambiguity.axes(table)
        subsets = (combinations(mine, size) for size in range(len(mine) + 1))
        for common in chain.from_iterable(subsets):
            gone = tuple(axis for axis, i in enumerate(mine) if i not in common)
            margin = np.asarray(table.probabilities.sum(axis=gone))
            theirs, other = known.setdefault(common, (mine, margin))
            off = np.abs(margin - other)
            if off.max() > _AGREE:
                cell = np.unravel_index(int(off.argmax()), off.shape)
                where = ambiguity.words(common, cell) or "everything together"
                first, second = (
                    " × ".join(repr(columns[i].name) for i in places)
                    for places in (theirs, mine)
                )
                return (
                    f"The margins disagree: {where} has another probability in the "
                    f"table of {first} than in that of {second} (off by "
                    f"{off.max():.3g})."
                )
    return ""


# ---- tables that people have


def of_tables(tables: Tables, m: Marginals | str) -> Ambiguity:
    """Return the set of distributions with some tables, in the form of `minimax`."""
    from renyi.encoding.encoder import Encoder
    from renyi.sources import tables as source

    count = "count"
    long = source.long_tables(tables, count)
    missing = Encoder().missing if isinstance(m, str) else m.settings.missing
    settings = Encoder(missing=(*missing, MISSING_TEXT), numeric=())
    target = m if isinstance(m, str) else m.target
    known = _labelled(
        source.columns_of(long, settings, count) if isinstance(m, str) else m.columns
    )
    held = {name for frame in long for name in frame.columns if name != count}
    known.places(sorted(held))  # raises an error for an unknown name
    if target not in held:
        raise ValueError(f"No table has the target {target!r}: give one that does.")
    names = [name for name in known.names if name in held and name != target]
    n = float(long[0][count].sum())
    encoded = []
    for frame in long:
        mine = [name for name in names if name in frame.columns]
        full = [*mine, target] if target in frame.columns else mine
        encoder = replace(settings, columns=known.take(known.places(full)))
        sizes = encoder.columns.sizes
        frame = frame[frame[count] > 0]
        codes = encoder.transform(frame[full].astype(object)).astype(np.intp)
        unseen = np.argwhere(codes >= sizes[:, None])
        if len(unseen):
            i, row = unseen[0].tolist()
            raise ValueError(
                f"A table has the category {frame[full[i]].iloc[row]!r} of "
                f"{full[i]!r}, which the marginals do not have."
            )
        cells = np.zeros(tuple(sizes))
        np.add.at(cells, tuple(codes), frame[count].to_numpy(np.float64))
        places = tuple(names.index(name) for name in mine)
        encoded.append(Table(places, len(full) > len(mine), cells / n))
    columns = known.take(known.places(names))
    return Ambiguity(columns, known[known.places([target])[0]], tuple(encoded))


def _labelled(columns: Columns) -> Columns:
    """Return the columns with bins as labels, as tables have them."""
    labelled = []
    for name, levels in ((c.name, c.levels) for c in columns):
        if levels.kind != "label":
            missing = (None,) if None in levels.categories else ()
            labels = (*levels.texts[: len(levels.edges) + 1], *missing)
            levels = Levels("label", labels)
        labelled.append(Column(name, levels))
    return Columns.of(labelled)
