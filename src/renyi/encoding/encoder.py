"""Encoder: labels to codes and back, the same for training and for prediction.

An encoder is *frozen*: `Encoder.fit` returns a new one that also knows the columns.
The categories of a column are numbered from 0. A label that training never saw gets the
number of categories as its code. A table of points with one extra row per feature then
scores it without a special case. Missing cells are a separate level, written None and
shown as "(missing)".
"""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from renyi.encoding import rules
from renyi.encoding.arrays import (
    Block,
    LabelBlock,
    NumberColumn,
    as_table,
    column_names,
    label_counts,
    parts,
    split_by_kind,
)
from renyi.encoding.bins import FINE_BINS, Cells, Sketch, bin_codes, checked_edges
from renyi.encoding.columns import (
    MISSING_TEXT,
    Column,
    Columns,
    Label,
    Levels,
    PlainData,
    TableLike,
    numbered_names,
    plain_label,
)
from renyi.files import Sink, check_fields, read_json, valid, write_json
from renyi.formatting import listed
from renyi.validation import InputError, ParameterError, check_choice

if TYPE_CHECKING:
    import os

Weights = NDArray[np.float64] | None
Bins: TypeAlias = int | str | tuple[float, ...]
"""How one column is cut: into so many bins, "auto", or at these edges."""
Named: TypeAlias = Mapping[str, Any] | Sequence[Any]

BINNINGS = ("quantile", "supervised")
MERGED = "merged"
DIRECTIONS = ("increasing", "decreasing", "auto")

FORMAT = "renyi-encoder"
_DOCUMENT: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "version": (int,),
    "checksum": (str,),
    "encoder": (dict,),
}


@dataclass(frozen=True)
class Encoder:
    """Turn the columns of a table into codes.

    A code is the place of a cell's category: a label, a bin of numbers, "(missing)" or
    "(rare)". `fit` returns a new encoder that knows the columns, and `transform` codes
    any table with them. Classifiers and `Marginals` fit one by themselves. Pass one to
    `Marginals` to count several tables alike, so that their counts can be added.

    Parameters
    ----------
    missing : sequence of labels, default=("?", "")
        Labels that mean "missing", as None, NaN and NA always do.
    unseen : {"mean", "error"}, default="mean"
        What a label unseen in training does at prediction: count as the feature's mean
        effect, or stop with an error that names it.
    min_count : int, default=1
        Labels on fewer rows than this are merged into one category, "(rare)".
    numeric : "auto" or sequence of names, default="auto"
        Columns to bin. "auto": floats, and integers with more than 20 values; strings
        and categoricals never. A sequence names them all.
    bins : int, "auto" or dict, default="auto"
        Quantile bins of a numeric column. A value that at least one row in `bins`
        shares gets a separate bin, on top of these. "auto" makes 8 of a column with
        2,000 rows or more (or as much weight), and 5 of others. A dict gives some
        columns a number of bins, or edges: ``{"age": [18, 30, 65]}`` is below 18, from
        18, from 30, and from 65. The columns that it names are numeric.
    binning : {"quantile", "supervised"}, default="quantile"
        "supervised" chooses the edges by the classes. `fit` makes up to 64 fine
        quantile bins. Training then merges neighbours into at most `bins`, those of
        least squared error, each with at least 20 rows, or 5 % of fewer than 400. Edges
        that a dict gives stay. A trained model's encoder has "merged" here.
    monotone : dict or sequence of names, optional
        Columns over whose merged bins the share of the second of two classes rises
        ("increasing") or falls ("decreasing"), as in ``{"age": "increasing"}``; of
        names alone, the better of the two ("auto"). Needs ``binning="supervised"``.
    columns : Columns
        The fitted columns; empty before `fit`. Fitting a fitted encoder again keeps
        which columns are numeric, their edges and the merged labels, and learns the
        other labels anew.

    See Also
    --------
    renyi.Marginals : Pair counts, which contain the encoder of their columns.
    renyi.RenyiClassifier : Has these settings as parameters.

    Examples
    --------
    >>> import pandas as pd
    >>> ages = [30.5, 41.0, 55.2, 38.9]
    >>> X = pd.DataFrame({"vote": ["y", "n", "?", "y"], "age": ages})
    >>> encoder = Encoder(bins=2).fit(X)
    >>> encoder.categories
    {'vote': ('n', 'y', None), 'age': ('below 41', 'from 41')}
    >>> encoder.transform(X)
    array([[1, 0, 2, 1],
           [0, 1, 1, 0]], dtype=uint8)
    """

    missing: Sequence[Label] = rules.MISSING_CODES
    unseen: str = "mean"
    min_count: float = 1
    numeric: str | Sequence[str] = "auto"
    bins: int | str | Named = "auto"
    binning: str = "quantile"
    monotone: Named = ()
    columns: Columns = field(default_factory=lambda: Columns.of([]))

    def __post_init__(self) -> None:
        """Check the settings, and make them hashable."""
        if self.unseen not in ("mean", "error"):
            raise ValueError(f"unseen must be 'mean' or 'error', not {self.unseen!r}.")
        if not self.min_count >= 1:
            raise ParameterError(
                "min_count", f"must be at least 1, not {self.min_count!r}."
            )
        object.__setattr__(self, "bins", _checked_bins(self.bins))
        if self.binning != MERGED:
            check_choice("binning", self.binning, BINNINGS)
        object.__setattr__(self, "monotone", _checked_monotone(self.monotone))
        if self.monotone and self.binning == "quantile":
            raise InputError(
                "Bins between quantiles have no direction: use {binning} with a "
                "monotone column.",
                binning="supervised",
            )
        if isinstance(self.missing, str):
            raise ValueError(
                "missing must be a sequence of labels, such as ('?', 'NA')"
            )
        if isinstance(self.numeric, str) and self.numeric != "auto":
            raise ValueError(
                "numeric must be 'auto' or a sequence of column names, "
                f"not {self.numeric!r}"
            )
        labels = [plain_label(label) for label in self.missing]
        named = tuple(label for label in labels if label is not None)  # None always is
        object.__setattr__(self, "missing", named)
        if isinstance(self.min_count, np.generic):  # JSON knows plain numbers only
            object.__setattr__(self, "min_count", self.min_count.item())
        if not isinstance(self.numeric, str):
            object.__setattr__(self, "numeric", tuple(map(str, self.numeric)))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the fitted columns."""
        return self.columns.names

    @property
    def order(self) -> int:
        """Number of columns in a feature."""
        return 1

    @property
    def interactions(self) -> tuple[tuple[str, str], ...] | None:
        """The chosen pairs of columns that are features, and not all of an order."""
        return None

    @property
    def single(self) -> Encoder:
        """The encoder of the columns themselves: this one."""
        return self

    @property
    def input_names(self) -> Sequence[str]:
        """Names of the columns that `transform` takes: the features themselves."""
        return self.columns.names

    @property
    def categories(self) -> dict[str, tuple[Label, ...]]:
        """Categories of each fitted column, None being the missing level."""
        return {column.name: column.categories for column in self.columns}

    @property
    def is_fine(self) -> bool:
        """Whether training is to merge the bins of the fitted columns."""
        return self.binning == "supervised"

    @property
    def unfitted(self) -> Encoder:
        """The settings from which the columns are learned, those of bins included."""
        binning = "supervised" if self.binning == MERGED else self.binning
        return self.with_columns(Columns.of([]), binning)

    @property
    def fresh(self) -> Encoder:
        """The encoder; without columns, the settings from which they are learned."""
        return self if self.columns else self.unfitted

    @property
    def _own_bins(self) -> dict[str, Bins]:
        """Bins of the columns that have their own number of bins, or edges."""
        return dict(self.bins) if isinstance(self.bins, tuple) else {}

    @property
    def binned_names(self) -> frozenset[str]:
        """Names of the columns with separate settings of bins: they are numeric."""
        return frozenset([*self._own_bins, *dict(self.monotone)])

    def wanted_bins(self, name: str) -> Bins:
        """Return how a column is to be cut, as the settings say."""
        others = self.bins if isinstance(self.bins, (int, str)) else "auto"
        return self._own_bins.get(name, others)

    def first_bins(self, name: str) -> Bins:
        """Return how a column is cut before its bins are merged, if they are."""
        wanted = self.wanted_bins(name)
        edges = isinstance(wanted, tuple)
        return wanted if edges or self.binning == "quantile" else FINE_BINS

    def with_columns(self, columns: Columns, binning: str) -> Encoder:
        """Return the encoder with other columns, whose bins were made like that."""
        return dataclasses.replace(self, columns=columns, binning=binning)

    def fit(self, X: TableLike, sample_weight: Weights = None) -> Encoder:
        """Learn the columns of X; return a fitted encoder."""
        return self.fit_transform(X, sample_weight)[0]

    def fit_transform(
        self,
        X: TableLike,
        sample_weight: Weights = None,
        *,
        refuse_identifiers: bool = True,
    ) -> tuple[Encoder, NDArray[Any]]:
        """Learn the columns of X; return the fitted encoder and the codes of X.

        The codes have one row per column; they may share memory with X. A column that
        looks like an identifier is an error, unless `refuse_identifiers` is False: in a
        block of a larger table, labels may be all different by chance.
        """
        if self.fresh != self:
            return self.fresh.fit_transform(
                X, sample_weight, refuse_identifiers=refuse_identifiers
            )
        known = {column.name: column.levels for column in self.columns}
        refuse = refuse_identifiers and not known
        identifiers: list[rules.Identifier] = []

        def learned(part: Block) -> Columns:
            if isinstance(part, NumberColumn):
                levels, cells = self._bins(part, sample_weight, known.get(part.name))
                if refuse and (count := self._row_numbers(part, cells)):
                    identifiers.append(rules.Identifier(part.name, "number", count))
                return Columns(part.names, [levels], np.zeros(1, np.intp))
            columns = self._labels(part, sample_weight, known)
            identifiers.extend(rules.label_identifiers(columns, part.codes.shape[1]))
            return columns

        columns, codes = self._encoded(X, learned)
        if identifiers and refuse:
            place = {name: k for k, name in enumerate(columns.names)}
            identifiers.sort(key=lambda each: place[each.name])
            rules.check_identifiers(identifiers, codes.shape[1])
        return dataclasses.replace(self, columns=columns), codes

    def transform(self, X: TableLike) -> NDArray[Any]:
        """Codes of X, one row per column; an unseen label has the code ``size``.

        The codes may share memory with X.
        """
        columns = self.columns

        def fitted(part: Block) -> Columns:
            if len(part.names) == len(columns):
                return columns
            return columns.take(columns.places(part.names))

        return self._encoded(X, fitted)[1]

    def select(self, names: Iterable[str]) -> Encoder:
        """Return the encoder of some of the columns, in the order given."""
        chosen = self.columns.take(self.columns.places(names))
        return dataclasses.replace(self, columns=chosen)

    def settings(self) -> Encoder:
        """Return the same settings without the fitted columns."""
        return dataclasses.replace(self, columns=Columns.of([]))

    def joined(self, other: Encoder) -> Encoder:
        """Return this encoder, if the other one has the same settings."""
        if self.order != other.order:
            raise ValueError(
                "The marginals have different orders: count both with the same order."
            )
        first = self.single.settings()
        second = other.single.settings()
        for each in fields(first):
            mine = getattr(first, each.name)
            theirs = getattr(second, each.name)
            if mine != theirs:
                raise ValueError(
                    f"The marginals were made with different encoders ({each.name} is "
                    f"{mine!r} and {theirs!r}): use one for both."
                )
        return self

    def factors(self, codes: NDArray[Any]) -> Any:
        """Return what tuples are made of: nothing, for single columns."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain form for JSON."""
        data = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, value in data.items():
            if isinstance(value, Columns):
                data[name] = value.to_dict()
            elif isinstance(value, tuple):
                data[name] = list(value)
        return data

    @classmethod
    def from_dict(cls, data: PlainData) -> Encoder:
        """Return the encoder of a plain form, checked: it may be untrusted."""
        known = {each.name for each in fields(cls)}
        if not isinstance(data, dict) or data.keys() != known:
            raise ValueError("the description of the encoder is not valid")
        columns = {
            key: Columns.from_dict(data[key]) for key in {"columns", "base"} & known
        }
        try:
            return cls(**{**data, **columns})
        except (TypeError, OverflowError) as error:
            raise ValueError(f"the encoder's settings are not valid: {error}") from None

    def save(self, path: Sink) -> None:
        """Write columns, categories and bins to a JSON file, without any count.

        Examples
        --------
        >>> import os, tempfile
        >>> encoder = Encoder().fit([["a", "x"], ["b", "x"]])
        >>> place = os.path.join(tempfile.mkdtemp(), "columns.json")
        >>> encoder.save(place)
        >>> Encoder.load(place) == encoder
        True
        """
        write_json(path, {"format": FORMAT, "version": 1, "encoder": self.to_dict()})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Encoder:
        """Read an encoder that `save` wrote; the file may be untrusted."""
        data = read_json(path, FORMAT)
        with valid(path):
            check_fields(data, _DOCUMENT, "document")
            return cls.from_dict(data["encoder"])

    def numeric_names(self, names: Sequence[str]) -> frozenset[str] | None:
        """Return which of these columns are numbers; None means by their type."""
        if self.columns:
            return self.columns.numeric_names
        chosen = () if isinstance(self.numeric, str) else self.numeric
        monotone = dict(self.monotone)
        named = {"numeric": chosen, "bins": self._own_bins, "monotone": monotone}
        for setting, wanted in named.items():
            known = frozenset(names) if wanted else frozenset()
            for name in wanted:
                if name not in known:
                    raise ParameterError(
                        setting, f"names {name!r}, which is not a column."
                    )
        if isinstance(self.numeric, str):
            return None
        return frozenset([*chosen, *self.binned_names])

    def code_table(self, levels: Levels, labels: Sequence[Label]) -> NDArray[Any]:
        """Return the code of each label, and last that of a missing cell."""
        return rules.label_codes(levels, labels, self._missing_texts)

    @property
    def _missing_texts(self) -> frozenset[str]:
        return rules.missing_texts(self.missing)

    def _table(self, X: TableLike) -> tuple[TableLike, Sequence[str]]:
        """Return the table and its names, reduced to the fitted columns if any."""
        table = as_table(X)
        names = column_names(table)
        wanted = self.columns.names
        if names is None:
            width = table.shape[1]
            if self.columns and width != len(wanted):
                raise ValueError(
                    f"X has {width} features, but {len(wanted)} are expected."
                )
            return table, wanted if self.columns else numbered_names(width)
        rules.check_names(names)
        if not self.columns or list(wanted) == names:
            return table, names
        where = {name: j for j, name in enumerate(names)}
        lacking = [name for name in wanted if name not in where]
        if lacking:
            several = "are" if lacking[1:] else "is"
            word = "Columns" if lacking[1:] else "Column"
            raise ValueError(
                f"{word} {listed(lacking)} {several} missing from the table."
            )
        places = [where[name] for name in wanted]
        is_frame = hasattr(table, "iloc")
        return table.iloc[:, places] if is_frame else table.select(places), wanted

    def _encoded(
        self, X: TableLike, columns_of: Callable[[Block], Columns]
    ) -> tuple[Columns, NDArray[Any]]:
        """Return the columns of X and their codes, in the order of the table."""
        table, names = self._table(X)
        missing = self._missing_texts
        numeric = self.numeric_names(names)
        groups: list[Columns] = []
        blocks: list[NDArray[Any]] = []
        for whole in parts(table, names):
            for part in split_by_kind(whole, numeric, missing, self.binned_names):
                groups.append(columns_of(part))
                blocks.append(self._codes(part, groups[-1]))
        if len(groups) == 1:
            return groups[0], blocks[0]
        place = {name: j for j, name in enumerate(names)}
        dtype = np.min_scalar_type(max(int(group.sizes.max()) for group in groups))
        codes = np.empty((len(names), blocks[0].shape[1]), dtype)
        ordered: list[Any] = [None] * len(names)
        for group, block in zip(groups, blocks, strict=True):
            for column, row in zip(group, block, strict=True):
                j = place[column.name]
                ordered[j] = column
                codes[j] = row
        return Columns.of(ordered), codes

    def _bins(
        self, part: NumberColumn, weights: Weights, known: Levels | None
    ) -> tuple[Levels, Cells]:
        """Learn a column of numbers, unless its bins are known; return its cells."""
        gaps = bool(np.isnan(part.values).any())
        if known is not None:
            return known.with_missing(gaps), Cells.of(np.empty(0))
        cells = Cells.of(part.values, weights)
        bins = self.first_bins(part.name)
        return rules.bin_levels(cells, bins, part.integer, gaps), cells

    def _row_numbers(self, part: NumberColumn, cells: Cells) -> str:
        """Return how many values of a column number its rows, "" if they do not."""
        gaps = np.isnan(part.values).any()
        if self.numeric != "auto" or not part.integer or gaps:
            return ""
        sketch = Sketch()  # which counts the same in a stream
        sketch.add_cells(cells)
        return rules.row_numbers(sketch, len(part.values))

    def _labels(
        self, part: LabelBlock, weights: Weights, known: Mapping[str, Levels]
    ) -> Columns:
        """Learn many columns at once: those with the same labels share the work."""
        if self.min_count > 1:
            ones = np.ones(part.codes.shape[1])
            keys = counts = label_counts(part, ones if weights is None else weights)
        else:
            counts = label_counts(part)
            keys = counts > 0
        merged = {name: v.rare for name, v in known.items() if v.rare}
        if merged:
            keys = np.arange(len(counts))[:, None]  # each column for itself
        first, which = _distinct_rows(keys)
        levels = []
        missing = self._missing_texts
        for j in first.tolist():
            rare = merged.get(part.names[j], ()) if known else None
            levels.append(
                rules.label_levels(
                    part.labels, counts[j], missing, self.min_count, rare
                )
            )
        return Columns(part.names, levels, which)

    def _codes(self, part: Block, columns: Columns) -> NDArray[Any]:
        """Codes of the cells of a part, given its columns."""
        if isinstance(part, NumberColumn):
            codes = bin_codes(part.values, np.array(columns[0].levels.edges))[None, :]
        else:
            tables = np.stack([self.code_table(v, part.labels) for v in columns.levels])
            codes = _through(tables, columns.which, part.codes)
        if self.unseen == "error":
            _check_unseen(codes, part, columns)
        return codes


def _checked_bins(bins: object) -> int | str | Named:
    """Return the bins, those of single columns as pairs; else raise ParameterError."""
    if isinstance(bins, (Mapping, tuple, list)):
        pairs = sorted(_pairs("bins", bins))
        return tuple((name, _bins_of_column(name, v)) for name, v in pairs) or "auto"
    count = _count(bins)
    if count is None:
        raise ParameterError(
            "bins",
            "must be 'auto' or a whole number of at least 2 (or a dict of columns), "
            f"not {bins!r}.",
        )
    return count


def _count(bins: object) -> int | str | None:
    """Return a number of bins, or "auto"; None for what is neither."""
    if isinstance(bins, str):
        return bins if bins == "auto" else None
    if not isinstance(bins, numbers.Integral) or isinstance(bins, bool):
        return None
    return int(bins) if int(bins) >= 2 else None


def _bins_of_column(name: str, bins: object) -> Bins:
    """Return the number of bins of a column, or their edges."""
    count = _count(bins)
    if count is not None:
        return count
    bins = bins.tolist() if isinstance(bins, np.ndarray) else bins
    if isinstance(bins, str) or not isinstance(bins, Sequence):
        raise ParameterError(
            "bins",
            f"gives column {name!r} {bins!r:.60}: give a number of bins of at least 2, "
            "or edges such as [18, 30, 65].",
        )
    return checked_edges(name, bins)


def _pairs(setting: str, named: Named) -> list[tuple[str, Any]]:
    """Return the pairs of column and value of a dict, or of pairs."""
    try:
        return [(str(name), value) for name, value in dict(named).items()]
    except (TypeError, ValueError):
        raise ParameterError(
            setting, f"must be a dict of columns, not {named!r:.60}."
        ) from None


def _checked_monotone(monotone: Named | None) -> Named:
    """Return the columns with a direction as pairs; raise ParameterError if wrong."""
    listed = () if monotone is None else monotone
    if isinstance(listed, str) or not isinstance(listed, (Mapping, Sequence)):
        raise ParameterError(
            "monotone", f"must be a list or a dict of columns, not {monotone!r}."
        )
    if not isinstance(listed, Mapping):
        listed = [(name, "auto") if isinstance(name, str) else name for name in listed]
    pairs = sorted(_pairs("monotone", listed))
    for name, direction in pairs:
        if direction not in DIRECTIONS:
            raise ParameterError(
                "monotone",
                f"gives column {name!r} the direction {direction!r:.40}: it must be "
                "'increasing', 'decreasing' or 'auto'.",
            )
    return tuple(pairs)


def target_encoder(encoder: Encoder) -> Encoder:
    """Return the encoder of a target: all its values are labels, and none is rare."""
    return Encoder(missing=encoder.missing, numeric=())


def _check_unseen(codes: NDArray[Any], part: Block, columns: Sequence[Column]) -> None:
    for j, (row, column) in enumerate(zip(codes, columns, strict=True)):
        bad = np.flatnonzero(row >= len(column.categories))
        if len(bad):
            label: Label = None
            if isinstance(part, LabelBlock):
                label = [*part.labels, None][part.codes[j, bad[0]]]
            shown = MISSING_TEXT if label is None else repr(label)
            raise InputError(
                f"Column {column.name!r} has the label {shown}, unseen in training: "
                "correct it, or train a model that counts such labels as the mean.",
                "unseen=mean",
                python="unseen='mean'",
            )


def _distinct_rows(keys: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the first row of each kind, and the kind of each row."""
    if (keys == keys[:1]).all():
        return np.zeros(1, np.intp), np.zeros(len(keys), np.intp)
    keys = np.packbits(keys, axis=1) if keys.dtype == bool else keys
    keys = np.ascontiguousarray(keys)
    rows = keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1])))
    _, first, which = np.unique(rows.ravel(), return_index=True, return_inverse=True)
    return first, which


def _through(
    tables: NDArray[Any], which: NDArray[Any], codes: NDArray[Any]
) -> NDArray[Any]:
    """Return ``tables[which[j]][codes[j]]`` for every column j."""
    width = tables.shape[1]
    tables = tables.astype(np.min_scalar_type(int(tables.max())))
    if (tables[:, :-1] == np.arange(width - 1)).all() and (
        (tables[:, -1] == width - 1).all() or codes.max() < width - 1
    ):
        return codes  # labels are their own codes
    if len(tables) == 1:
        return np.take(tables[0], codes)
    out = np.empty(codes.shape, tables.dtype)
    step = max(1, 1_000_000 // max(codes.shape[1], 1))
    for s in range(0, len(codes), step):
        block = slice(s, s + step)
        flat = codes[block] + width * which[block, None]
        np.take(tables.ravel(), flat, out=out[block])
    return out


def check_usable(encoder: Encoder) -> None:
    """Raise an error for a table whose columns are all constant."""
    if encoder.single.columns.sizes.max(initial=0) < 2:
        raise ValueError(
            "No usable column is left: every column has the same value in all rows."
        )
