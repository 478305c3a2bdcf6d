"""Release pair counts: hidden and rounded, or with noise.

Both functions map `Marginals` to `Marginals` that contain no exact count and say what
is known of them. Train on them, add them to other releases, save them.

With declared categories, the columns, their order and all settings of the result are
those that were declared, whatever the data are. Merging below a limit is the exception:
what it merges or leaves out depends on the rows. Without declared categories, a release
reveals which labels occur. It never contains the labels that were merged as rare, nor
the count below which they were.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting import sparse_counts
from renyi.encoding.columns import RARE, Column, Columns, label_text, ranked
from renyi.formatting import listed
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.uncertainty import Budget, Intervals, Neighbours, Noise
from renyi.releases import privacy
from renyi.releases.merging import merged_below, recoded
from renyi.releases.protection import Width, protected
from renyi.releases.suppression import (
    ROUNDING,
    RULES,
    HiddenCounts,
    Level,
    Rule,
    published,
)
from renyi.validation import InputError, check_choice, check_whole
from renyi.warnings import warn

if TYPE_CHECKING:
    from renyi.encoding.encoder import Encoder
    from renyi.marginals.marginals import Marginals

MERGE = "merge"
UNDECLARED = ("error", MERGE)
_RELEASED = "release"  # in the provenance of exact counts that were released


class Protection(NamedTuple):
    """What arithmetic leaves of the hidden counts of a release: all their values."""

    hidden: int  # their number
    listed: int  # those known to be at least 1, as their categories are listed
    rule: Rule
    level: Level  # how coarse the release is


def release(
    m: Marginals,
    *,
    threshold: int | None = None,
    rounding: int | None = None,
    rule: str | None = None,
    merge_below: int | None = None,
    encoder: Encoder | None = None,
    undeclared: str = "error",
) -> Marginals:
    """Hide small counts and round the others, so that the pair counts can be published.

    Every cell, margin and total becomes an interval. A count below the threshold is
    known to be from 0 to threshold − 1, any other to round to its multiple of
    `rounding`. Counts from which a hidden one would follow get wider intervals, which a
    reader who knows the method cannot undo. Linear programs check that every hidden
    count keeps all its values. If not, a coarser release is tried, and the last error
    names counts that do not.

    This is arithmetic protection: a reader who goes through all possible data sets may
    learn more. Names of columns and categories are not hidden.

    Parameters
    ----------
    m : Marginals
        Exact pair counts of unweighted rows, of order 1.
    threshold : int, optional
        Counts below it are hidden.
    rounding : int, optional
        Other counts are rounded to multiples of it, from 2 to the threshold; by default
        5, or the threshold if that is smaller.
    rule : {"opensafely", "ons", "cms"}, optional
        A rule that data owners must follow, instead of threshold and rounding: 7 or
        fewer hidden, below 10 hidden, or below 11 hidden. The rest is rounded to 5.
    merge_below : int, optional
        Merge categories first, until no count from 1 to below this is left. What is
        merged or left out depends on the rows. Without other parameters, the merged
        counts are exact.
    encoder : Encoder, optional
        The public columns and categories: the release contains all of them, whether
        they have rows or not, and no others, except what `merge_below` changes. Without
        it, each listed label is known to have a row.
    undeclared : {"error", "merge"}, default="error"
        What labels do that `encoder` lacks: stop, or count as "(rare)". With "merge",
        every feature has this category, or "(missing)" if it is a column of numbers.

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
    >>> public = renyi.Encoder().fit(X.assign(party=y))
    >>> out = renyi.release(m, threshold=10, rounding=5, encoder=public)
    >>> known = out.uncertainty
    >>> known.n_low, known.n_high
    (433, 437)
    >>> bool((known.low <= m.counts).all() and (m.counts <= known.high).all())
    True
    """
    chosen = checked_rule(threshold, rounding, rule, merge_below)
    return released(m, chosen, merge_below, encoder, undeclared)[0]


def released(
    m: Marginals,
    rule: Rule | None,
    merge_below: int | None,
    encoder: Encoder | None,
    undeclared: str,
) -> tuple[Marginals, Protection | None]:
    """Return a release, and what protects it; None if its counts are exact."""
    check_releasable(m)
    if encoder is None:
        if undeclared != UNDECLARED[0]:
            raise InputError(
                "{undeclared} needs an encoder.", "encoder", undeclared=undeclared
            )
        m = _undeclared(m)
    else:
        m = declared(m, encoder, undeclared)
    if merge_below is not None:
        m = merged_below(m, merge_below)
    if rule is None:
        how = {_RELEASED: f"categories merged below {merge_below}"}
        return dataclasses.replace(m, class_counts=None, provenance=how), None
    occurs = None if encoder is not None else _occurring(m)
    sizes = m.columns.sizes
    counts, widths = protected(_table(m), int(m.n), sizes, rule, occurs)
    names = [f"{c.name} = {text}" for c in m.columns for text in c.levels.texts]
    if widths:
        raise _narrow_error(names, widths, rule)
    protection = _protection(counts, rule)
    counts = published(counts, sizes)
    record = Intervals(counts.low, counts.high, counts.n_low, counts.n_high)
    empty = dataclasses.replace(m, provenance={})
    return with_uncertainty(empty, record), protection


def private_release(
    m: Marginals,
    *,
    encoder: Encoder,
    rho: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    neighbours: Neighbours = "add-remove",
    rows_per_person: int = 1,
    undeclared: str = "error",
) -> Marginals:
    """Release pair counts with noise, under differential privacy.

    All tables of two columns get discrete Gaussian noise together. One release serves
    every target, penalty and subset of columns. The noise cannot be repeated by a seed.

    Parameters
    ----------
    m : Marginals
        Exact pair counts of unweighted rows, of order 1.
    encoder : Encoder
        Public columns and categories, the target included: they must not depend on the
        data, and the release has exactly these. ``renyi encoder build`` writes them
        from a pilot file.
    rho : float, optional
        The budget in zero-concentrated differential privacy.
    epsilon, delta : float, optional
        The budget in approximate differential privacy, instead of `rho`.
    neighbours : {"add-remove", "replace-one"}, default="add-remove"
        What one person changes. With "replace-one" the number of rows is public.
    rows_per_person : int, default=1
        Most rows of one person.
    undeclared : {"error", "merge"}, default="error"
        What labels do that `encoder` lacks: stop, or count as "(rare)". With "merge",
        every feature has this category, or "(missing)" if it is a column of numbers.

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
    m = declared(m, encoder, undeclared)
    sizes = m.columns.sizes
    distance = privacy.sensitivity(len(sizes), rows_per_person, neighbours)
    noisy = privacy.noisy_tables(_table(m), sizes, cost, distance)
    budget = Budget(noisy.rho, epsilon, delta, neighbours, rows_per_person)
    n = int(m.n) if neighbours == privacy.REPLACE else None
    record = Noise(noisy.table, (noisy.scale,), n, budget)
    return with_uncertainty(dataclasses.replace(m, provenance={}), record)


def check_releasable(m: Marginals) -> None:
    """Raise an error unless these are exact counts of unweighted rows."""
    if m.uncertainty is not None or _RELEASED in m.provenance:
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


def checked_rule(
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
                *("threshold", "rounding"),
                rule=name,
            )
        return RULES[name]
    if threshold is None and rounding is None:
        if merge_below is None:
            raise InputError(
                "Say how to protect the counts.",
                *("threshold", "rounding", "rule", "merge_below", "epsilon", "rho"),
                python="threshold and rounding, rule or merge_below; or add noise: "
                "private_release()",
            )
        return None
    if threshold is None:
        raise InputError(
            "Rounding alone shows small counts: give a threshold as well.", "threshold"
        )
    check_whole("threshold", threshold, 2)
    base = min(ROUNDING, threshold) if rounding is None else rounding
    return Rule(threshold, base).checked()


def _protection(counts: HiddenCounts, rule: Rule) -> Protection:
    """Return what is left of hidden counts, each of which reaches all its values."""
    low = counts.low[np.triu(counts.hidden)]
    return Protection(len(low), int((low > 0).sum()), rule, counts.level)


def _named(width: Width, names: list[str]) -> str:
    """Return the name of a cell or a margin."""
    if width.first == width.second:
        return names[width.first]
    return f"{names[width.first]} with {names[width.second]}"


def _narrow_error(names: list[str], widths: list[Width], rule: Rule) -> InputError:
    """Return the error for hidden counts that follow from others."""
    least = widths[0]
    return InputError(
        f"Arithmetic leaves {least.values} of the {rule.threshold} values of a hidden "
        f"count, from {least.low} to {least.high}, even in the coarsest release: "
        f"{listed([_named(width, names) for width in widths])}. Merge small "
        "categories, or count without some of these columns.",
        *("merge_below", "drop"),
        python="merge_below, Marginals.select()",
    )


def _undeclared(m: Marginals) -> Marginals:
    """Return the counts without what is known of labels that were merged as rare."""
    warn(
        "Labels and bins come from the rows, so this release reveals that each listed "
        "label occurs: declare the categories.",
        "note",
        "encoder",
    )
    columns = Columns.of(
        c._replace(levels=c.levels._replace(rare=())) for c in m.columns
    )
    settings = dataclasses.replace(m.settings, min_count=1)
    return dataclasses.replace(m, columns=columns, settings=settings)


def _occurring(m: Marginals) -> NDArray[np.bool_]:
    """Return which categories are listed because a row has them."""
    kinds = [
        column.kind == "label" or label is None
        for column in m.columns
        for label in column.categories
    ]
    listed_ones = np.array(kinds)
    if not _table(m).diagonal()[listed_ones].all():  # some are listed without rows
        return np.zeros_like(listed_ones)
    return listed_ones


def declared(m: Marginals, encoder: Encoder, undeclared: str) -> Marginals:
    """Return the counts over declared columns and categories.

    Parameters
    ----------
    m : Marginals
        The counts.
    encoder : Encoder
        The declared columns, in the order of the result.
    undeclared : {"error", "merge"}
        What a label that they lack does.
    """
    check_choice("undeclared", undeclared, UNDECLARED)
    public = encoder.columns
    extra = [name for name in m.columns.names if name not in public.names]
    lacking = [name for name in public.names if name not in m.columns.names]
    if extra or lacking:
        raise ValueError(
            f"The encoder lacks {listed(extra)}: the columns of a release are those "
            "that are declared, so declare them, or count without them."
            if extra
            else f"The encoder declares {listed(lacking)}, missing from the pair "
            "counts: count them as well, or declare columns without them."
        )
    merge = undeclared == MERGE
    if merge:
        public = Columns.of(c if c.name == m.target else _with_rare(c) for c in public)
    places = {}
    for column in m.columns:
        own = public.named(column.name)
        is_class = column.name == m.target
        places[column.name] = _places(column, own, encoder, merge, is_class)
    moved = recoded(m, public, places)
    return dataclasses.replace(moved, settings=encoder.settings())


def _with_rare(column: Column) -> Column:
    """Return a column with the category of what is not declared."""
    levels = column.levels
    if column.kind == "number":
        return Column(column.name, levels.with_missing(True))
    missing = [None] if None in levels.categories else []
    known = [label for label in levels.categories if label is not None]
    categories = (*ranked([*known, RARE])[0], *missing)
    return Column(column.name, levels._replace(categories=categories))


def _places(
    own: Column, public: Column, encoder: Encoder, merge: bool, is_class: bool
) -> NDArray[np.intp]:
    """Return where the categories of a column go among the declared ones."""
    own.check_bins(public)
    places = own.places(public)
    if own.kind == "label":
        known = [label for label in own.categories if label is not None]
        codes = encoder.code_table(public.levels, known)
        places = codes[: len(own.categories)]
    merged = {label_text(label) for label in own.levels.rare if label is not None}
    clash = merged & set(public.levels.texts) - {RARE}
    if clash:
        raise ValueError(
            f"{own.name} = {min(clash)} is declared, but was merged as rare: count the "
            "rows with the encoder."
        )
    absent = np.flatnonzero(places == len(public.categories))
    if not len(absent):
        return places
    text = own.levels.texts[int(absent[0])]
    if is_class:
        raise ValueError(
            f"{own.name} = {text} has rows, but it is not declared: declare the class, "
            "or leave its rows out before counting."
        )
    if not merge:
        raise InputError(
            f"{own.name} = {text} has rows, but it is not declared: declare it, leave "
            "its rows out before counting, or merge such labels of features.",
            "undeclared=merge",
            python="undeclared='merge'",
        )
    places[absent] = public.categories.index(RARE)
    return places
