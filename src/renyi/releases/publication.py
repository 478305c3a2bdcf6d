"""Release pair counts: hidden and rounded, or with noise.

Both functions map `Marginals` to `Marginals` that contain no exact count and say what
is known of them. Train on them, add them to other releases, save them.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.formatting import listed
from renyi.marginals.arithmetic import spread, with_uncertainty
from renyi.marginals.uncertainty import Budget, Intervals, Neighbours, Noise
from renyi.releases import privacy
from renyi.releases.merging import merged_below
from renyi.releases.protection import Width, narrow
from renyi.releases.suppression import (
    RULES,
    HiddenCounts,
    Rule,
    hidden_counts,
    wider_at,
)
from renyi.validation import InputError, check_choice, check_whole

if TYPE_CHECKING:
    from renyi.encoding.encoder import Encoder
    from renyi.marginals.marginals import Marginals

_ROUNDS = 6  # of widening


def release(
    m: Marginals,
    *,
    threshold: int | None = None,
    rounding: int | None = None,
    rule: str | None = None,
    merge_below: int | None = None,
    encoder: Encoder | None = None,
) -> Marginals:
    """Hide small counts and round the others, so that the pair counts can be published.

    Every cell, margin and total becomes an interval. A count below the threshold is
    known to be from 0 to threshold − 1, any other to round to its multiple of
    `rounding`. Counts from which a hidden one would follow by arithmetic get wider
    intervals. Linear programs then check that every hidden count keeps all its values;
    otherwise an error names those that do not.

    This is arithmetic protection: a reader who goes through all possible data sets may
    learn more. Names of columns and categories are not hidden.

    Parameters
    ----------
    m : Marginals
        Exact pair counts of unweighted rows, of order 1.
    threshold : int, optional
        Counts below it are hidden.
    rounding : int, optional
        Other counts are rounded to multiples of it; 1 rounds nothing.
    rule : {"opensafely", "ons", "cms"}, optional
        A rule that data owners must follow, instead of threshold and rounding: 7 or
        fewer hidden and the rest rounded to 5; below 10 hidden and the rest rounded to
        5; below 11 hidden.
    merge_below : int, optional
        Merge categories first, until no count from 1 to below this is left. Without
        other parameters, the merged counts are exact.
    encoder : Encoder, optional
        Categories that are public. The release contains all of them, whether they have
        rows or not, and no others.

    Returns
    -------
    Marginals
        The intervals, as ``uncertainty``, and an estimate of the counts from these.

    See Also
    --------
    private_release : Add noise instead, with differential privacy.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> out = renyi.release(m, threshold=10, rounding=5)
    >>> known = out.uncertainty
    >>> known.n_low, known.n_high
    (433, 437)
    >>> bool((known.low <= m.counts).all() and (m.counts <= known.high).all())
    True
    """
    check_releasable(m)
    chosen = _rule(threshold, rounding, rule, merge_below)
    if encoder is not None:
        m = declared(m, encoder, complete=False)
    if merge_below is not None:
        m = merged_below(m, merge_below)
    if chosen is None:
        return dataclasses.replace(m, class_counts=None, provenance={})
    counts = protected_counts(m, chosen)
    record = Intervals(counts.low, counts.high, counts.n_low, counts.n_high)
    return with_uncertainty(dataclasses.replace(m, provenance={}), record)


def private_release(
    m: Marginals,
    *,
    encoder: Encoder,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    neighbours: Neighbours = "add-remove",
    rows_per_person: int = 1,
) -> Marginals:
    """Release pair counts with noise, under differential privacy.

    All tables of two columns get discrete Gaussian noise together. One release serves
    every target, penalty and subset of columns. The noise cannot be repeated by a seed.

    Parameters
    ----------
    m : Marginals
        Exact pair counts of unweighted rows, of order 1.
    encoder : Encoder
        Public categories of all columns, the target included: they must not depend on
        the data. ``renyi encoder build`` writes them from a pilot file.
    rho : float, optional
        The budget in zero-concentrated differential privacy.
    epsilon, delta : float, optional
        The budget in approximate differential privacy, instead of `rho`.
    neighbours : {"add-remove", "replace-one"}, default="add-remove"
        What one person changes. With "replace-one" the number of rows is public.
    rows_per_person : int, default=1
        Most rows of one person.

    Returns
    -------
    Marginals
        The noisy tables and the budget, as ``uncertainty``, and an estimate of the
        counts from these: consistent, without negative cells, positive semidefinite.

    See Also
    --------
    release : Hide and round counts instead.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> m = renyi.Marginals.from_data(X, y)
    >>> public = renyi.Encoder().fit(X.assign(party=y))
    >>> out = renyi.private_release(m, encoder=public, epsilon=1.0, delta=1e-5)
    >>> round(out.uncertainty.scale, 1)
    47.2
    """
    check_releasable(m)
    check_choice("neighbours", neighbours, privacy.NEIGHBOURS)
    check_whole("rows_per_person", rows_per_person, 1)
    cost = privacy.Cost(rho, epsilon, delta).checked()
    m = declared(m, encoder, complete=True)
    sizes = m.columns.sizes
    distance = privacy.sensitivity(len(sizes), rows_per_person, neighbours)
    noisy = privacy.noisy_tables(_table(m), sizes, cost, distance)
    budget = Budget(noisy.rho, epsilon, delta, neighbours, rows_per_person)
    n = int(m.n) if neighbours == privacy.REPLACE else None
    record = Noise(noisy.table, (noisy.scale,), n, budget)
    return with_uncertainty(dataclasses.replace(m, provenance={}), record)


def check_releasable(m: Marginals) -> None:
    """Raise an error unless these are exact counts of unweighted rows."""
    if m.uncertainty is not None:
        raise ValueError(
            "These pair counts are a release already: release the exact counts again, "
            "since releasing a release adds errors and protects nothing more."
        )
    if m.weighted or m.order > 1 or m.absent:
        what = "of unweighted rows" if m.weighted else "of order 1"
        what = "of all pairs of columns" if m.absent else what
        raise ValueError(f"Only pair counts {what} can be released: count again.")
    if sparse_counts.is_sparse(m.counts):
        raise ValueError(
            "Columns with thousands of categories cannot be released: merge rare "
            "labels with min_count before counting."
        )


def _table(m: Marginals) -> NDArray[np.int64]:
    return np.asarray(m.counts, np.int64)


def _rule(
    threshold: int | None,
    rounding: int | None,
    name: str | None,
    merge_below: int | None,
) -> Rule | None:
    """Return the rule of the parameters; None if only categories are merged."""
    if merge_below is not None:
        check_whole("merge_below", merge_below, 2)
    if name is not None:
        check_choice("rule", name, tuple(RULES))
        if threshold is not None or rounding is not None:
            raise InputError(
                "{rule} sets threshold and rounding: leave these out.",
                rule=name,
            )
        return RULES[name]
    if threshold is None and rounding is None:
        if merge_below is None:
            raise ValueError(
                "Say how to protect the counts: by threshold and rounding, by rule, or "
                "by merge_below."
            )
        return None
    if threshold is None:
        raise ValueError("Rounding alone shows small counts: give a threshold as well.")
    return Rule(threshold, 1 if rounding is None else rounding).checked()


def protected_counts(m: Marginals, rule: Rule) -> HiddenCounts:
    """Return the intervals of a release, or raise an error that names narrow ones."""
    sizes = m.columns.sizes
    counts = hidden_counts(_table(m), int(m.n), sizes, rule)
    for _ in range(_ROUNDS):
        widths = narrow(counts, sizes, rule.threshold)
        if not widths:
            return counts
        places = [(width.first, width.second) for width in widths]
        counts = wider_at(counts, places, sizes, rule)
    raise _narrow_error(m, widths, rule)


def _narrow_error(m: Marginals, widths: list[Width], rule: Rule) -> ValueError:
    """Return the error for hidden counts that follow from others."""
    names = [f"{c.name} = {text}" for c in m.columns for text in c.levels.texts]
    cells = [
        names[w.first]
        if w.first == w.second
        else f"{names[w.first]} with {names[w.second]}"
        for w in widths
    ]
    least = widths[0]
    return ValueError(
        f"Arithmetic leaves {least.values} of the {rule.threshold} values of a hidden "
        f"count, from {least.low} to {least.high}: {listed(cells)}. Merge "
        "small categories (merge_below), or leave columns out (Marginals.select())."
    )


def declared(m: Marginals, encoder: Encoder, complete: bool) -> Marginals:
    """Return the counts over declared categories.

    Parameters
    ----------
    m : Marginals
        The counts.
    encoder : Encoder
        The declared columns. A category that they lack is an error.
    complete : bool
        Whether a column that is not declared is also an error.
    """
    columns = []
    for column in m.columns:
        if column.name not in encoder.columns.names:
            if complete:
                raise ValueError(
                    f"The categories of {column.name!r} are not declared: the encoder "
                    "must have all columns, the target included, because categories "
                    "that come from the data would reveal them."
                )
            columns.append(column)
            continue
        public = encoder.columns.named(column.name)
        both = column.union(public)
        absent = np.flatnonzero(both.places(public) == len(public.categories))
        if len(absent):
            text = both.levels.texts[int(absent[0])]
            raise ValueError(
                f"{column.name} = {text} has rows, but it is not among the declared "
                "categories: declare it, or count with an encoder that merges it."
            )
        columns.append(both)
    return spread(m, type(m.columns).of(columns))
