"""Rows to learn from: the columns of a file that the command line asked for."""

from __future__ import annotations

import argparse
import glob
import os
import shlex
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi import datasets
from renyi.encoding.encoder import Encoder
from renyi.encoding.frame_columns import MAX_INTEGER_LABELS, label_text
from renyi.encoding.identifiers import IDENTIFIER_SHARE
from renyi.encoding.text_cells import as_floats
from renyi.marginals.marginals import Marginals
from renyi.sources import files, inputs
from renyi.sources.frames import checked_weights
from renyi.warnings import DataWarning

LARGE = 50_000_000  # bytes of a file whose reading is announced on a terminal

Floats = NDArray[np.float64]


def table_path(name: str, announce: bool = True) -> Path:
    """Return the file of a table, which may be the name of a bundled one.

    >>> table_path("votes").name
    'votes.csv'
    """
    if name in datasets.names() and not Path(name).is_file():
        return datasets.path(name)
    if not Path(name).suffix and not Path(name).exists() and os.sep not in name:
        try:
            datasets.path(name)
        except ValueError as error:
            raise ValueError(f"There is no file {name!r}. {error}") from None
    path = files.existing(name, datasets.names())
    if path.suffix == ".renyi":
        raise ValueError(f"{path} holds marginals, which have no rows: name a table.")
    if announce and path.stat().st_size > LARGE and sys.stderr.isatty():
        print(f"reading {path} …", file=sys.stderr)
    return path


def table_paths(names: Sequence[str]) -> list[Path]:
    """Return the files of a table in several: patterns and folders are searched.

    >>> [path.name for path in table_paths(["votes"])]
    ['votes.csv']
    """
    found: list[Path] = []
    for name in names:
        found += (
            inputs.matching(name) if is_searched(name) else [table_path(name, False)]
        )
    return inputs.matching(found)  # which refuses twins


def is_searched(name: str) -> bool:
    """Whether a name stands for the files of a folder, or those that match it.

    >>> is_searched("visits-*.csv"), is_searched("visits.csv")
    (True, False)
    """
    return Path(name).is_dir() or (glob.has_magic(name) and not Path(name).is_file())


def target_of(args: argparse.Namespace, path: Path) -> str:
    """Return the column to predict; of a bundled table it need not be named.

    >>> args = argparse.Namespace(file="votes", target=None)
    >>> target_of(args, table_path("votes"))
    'party'
    """
    if args.target is not None:
        return str(args.target)
    if args.file in datasets.names():
        return files.column_names(path)[-1]  # as in every bundled file
    raise ValueError(no_target(path, files.column_names(path)))


def no_target(source: Any, names: Sequence[str]) -> str:
    """Return what is said if the column to predict was not named.

    >>> no_target("visits.csv", ["age", "sex"])
    "--target is missing: name the column of visits.csv to predict, such as one of
    'age', 'sex'."
    """
    some = ", ".join(map(repr, names[:8]))
    return (
        f"--target is missing: name the column of {source} to predict, such as one of "
        f"{some}."
    )


def encoder_of(args: argparse.Namespace) -> Encoder:
    """Return the encoder that the options describe.

    >>> given = argparse.Namespace(bins=3, min_count=None, unseen=None, missing=["NA"])
    >>> encoder_of(given).missing, encoder_of(given).bins
    (('?', '', 'NA'), 3)
    """
    given = {key: getattr(args, key) for key in ("bins", "min_count", "unseen")}
    known = {key: value for key, value in given.items() if value is not None}
    return Encoder(missing=(*files.MISSING, *args.missing), **known)


def order_of(args: argparse.Namespace, m: Marginals) -> int:
    """Return the order of marginals, unless another one was asked for.

    >>> m = Marginals.from_data([["a"], ["b"]], [0, 1])
    >>> order_of(argparse.Namespace(file="m.renyi", order=2), m)
    Traceback (most recent call last):
    ValueError: m.renyi holds marginals of order 1, and --order 2 is asked for: leave
    it out, or count again with 'renyi marginals build TABLE --order 2'.
    """
    if args.order not in (None, m.order):
        raise ValueError(
            f"{args.file} holds marginals of order {m.order}, and --order "
            f"{args.order} is asked for: leave it out, or count again with 'renyi "
            f"marginals build TABLE --order {args.order}'."
        )
    return m.order


class Rows(NamedTuple):
    """Rows to learn from.

    >>> y = pd.Series(["a", "b", "a", "a"])
    >>> Rows("y", pa.table({"x": [1, 2, 3, 4]}), y, None).shares()
    {'a': 0.75, 'b': 0.25}
    """

    target: str
    X: pa.Table
    y: pd.Series
    weights: Floats | None

    def shares(self) -> dict[str, float]:
        """Return the share of each class."""
        weights = np.ones(len(self.y)) if self.weights is None else self.weights
        total = pd.Series(weights).groupby(self.y.to_numpy()).sum() / weights.sum()
        return {label_text(k): float(v) for k, v in total.items()}

    def marginals(
        self, encoder: Encoder, class_conditional: bool, order: int = 1
    ) -> Marginals:
        """Return the counts of their pairs."""
        return Marginals.from_data(
            self.X,
            self.y,
            target=self.target,
            encoder=encoder,
            class_conditional=class_conditional,
            sample_weight=self.weights,
            order=order,
        )

    def error(self, model: Any) -> float:
        """Return the share of rows that a model answers wrongly."""
        wrong = model.predict(self.X) != self.y.to_numpy()
        return float(np.average(wrong, weights=self.weights))


def usable_rows(args: argparse.Namespace, encoder: Encoder) -> Rows:
    """Read the rows of a table, without columns that do not tell them apart.

    >>> none = dict.fromkeys(["id", "drop", "numeric", "categorical"], ())
    >>> args = argparse.Namespace(file="votes", target=None, weight=None, **none)
    >>> usable_rows(args, Encoder()).marginals(Encoder(), class_conditional=False).n
    435
    """
    rows = read_rows(args, encoder)
    rows = rows._replace(X=usable(args.file, rows.X, encoder))
    note_identifiers(rows.X)
    return rows


def read_rows(args: argparse.Namespace, encoder: Encoder) -> Rows:
    """Read the rows of a table, without those whose target is missing.

    >>> none = dict.fromkeys(["id", "drop", "numeric", "categorical"], ())
    >>> args = argparse.Namespace(file="votes", target=None, weight=None, **none)
    >>> read_rows(args, Encoder()).X.shape
    (435, 16)
    """
    path = table_path(args.file)
    target = target_of(args, path)
    table = _selected(args, path, target, encoder)
    weights = None
    if args.weight is not None:
        weights = _weights(path, args.weight, table[args.weight])
        table = table.drop_columns([args.weight])
        table = table.append_column(args.weight, pa.array(weights))
    table = files.labelled(table, target, encoder.missing)
    if args.weight is not None:
        weights = table[args.weight].to_numpy()
        table = table.drop_columns([args.weight])
    y = _classes(path, target, table[target])
    return Rows(target, table.drop_columns([target]), y, weights)


def _selected(
    args: argparse.Namespace, path: Path, target: str, encoder: Encoder
) -> pa.Table:
    """Read the columns that were asked for, as what they were asked to be."""
    names = files.column_names(path)
    columns = chosen_columns(args, path, names, target, encoder)
    weight = [] if args.weight is None else [args.weight]
    kinds = {
        **dict.fromkeys([*args.numeric, *weight], "number"),
        **dict.fromkeys(args.categorical, "label"),
        **files.column_kinds(encoder.single),
    }
    table = files.read_table(path, columns, missing=encoder.missing, kinds=kinds)
    for name in args.numeric:
        table = _replaced(table, name, as_floats(name, table[name]))
    for name in args.categorical:
        if not pa.types.is_string(table[name].type):
            table = _replaced(table, name, table[name].dictionary_encode())
    return table


def chosen_columns(
    args: argparse.Namespace,
    source: Any,
    names: Sequence[str],
    target: str,
    encoder: Encoder,
) -> list[str]:
    """Return the columns that were asked for, among the names of all.

    >>> some = dict(drop=["zip"], numeric=[], categorical=["age"], weight=None)
    >>> args = argparse.Namespace(id=[], **some)
    >>> chosen_columns(args, "a.csv", ["age", "zip", "y"], "y", Encoder())
    ['age', 'y']
    """
    aside = {*args.id, *args.drop}
    weight = [] if args.weight is None else [args.weight]
    asked = [*args.id, *args.drop, *args.numeric, *args.categorical, *weight]
    files.require(source, names, [target, *asked])
    if target in {*asked}:
        raise ValueError(f"{target!r} is the target: it cannot be anything else too.")
    both = set(args.numeric) & set(args.categorical)
    if both:
        raise ValueError(f"Column {min(both)!r} cannot be numeric and categorical.")
    columns = [name for name in names if name not in aside or name in weight]
    if encoder.columns:
        files.require(source, columns, encoder.input_names)
        columns = [*encoder.input_names, *weight, target]
    return columns


def _replaced(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _weights(path: Path, name: str, column: pa.ChunkedArray) -> Floats:
    try:
        values = as_floats(name, column).to_numpy()
        checked = checked_weights(values, len(values))
    except ValueError as error:
        raise ValueError(f"{path}, column of weights {name!r}: {error}") from None
    assert checked is not None
    return checked


def _classes(path: Path, target: str, column: pa.ChunkedArray) -> pd.Series:
    """Return the classes; a target of many values is none of a classifier's."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_nested(kind):
        raise ValueError(f"The target {target!r} of {path} holds nested values.")
    count, n = len(pc.unique(column)), len(column)
    if count < 2:
        shown = label_text(column[0].as_py())
        raise ValueError(
            f"The target {target!r} of {path} has only one class, {shown!r}: a "
            "classifier needs rows of at least two."
        )
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
        whole = pc.all(pc.equal(pc.floor(column), column)).as_py()
        if not whole and count > MAX_INTEGER_LABELS:
            raise ValueError(
                f"The target {target!r} of {path} is a number with {count:,} values, "
                "not a class: cut it into classes first."
            )
        column = column.cast(pa.int64()) if whole else _as_texts(column)
    elif n >= 20 and count > n / 2:
        raise ValueError(
            f"The target {target!r} of {path} has {count:,} values in {n:,} rows, like "
            "an identifier: name the column of classes with --target."
        )
    elif pa.types.is_temporal(kind):
        column = _as_texts(column)
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        column = column.cast(pa.string())
    return pd.Series(column.to_pandas(), name=target)


def _as_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the texts by which labels are compared; Arrow writes others."""
    return pa.chunked_array([[label_text(v) for v in column.to_pylist()]])


def usable(source: str, X: pa.Table, encoder: Encoder) -> pa.Table:
    """Return the columns that tell rows apart; note the others.

    >>> with warnings.catch_warnings(record=True, action="always"):
    ...     usable("a", pa.table({"a": [1, 1], "b": [1, 2]}), Encoder()).column_names
    ['b']
    """
    missing = frozenset(label_text(code) for code in encoder.missing)
    empty, constant = [], []
    for name, column in zip(X.column_names, X.columns, strict=True):
        if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
            continue  # the encoder says what is wrong with it
        found = pc.unique(column)
        if len(found) > 2 + len(missing):
            continue
        values = found.to_pylist()
        if all(v is None or v != v or label_text(v) in missing for v in values):
            empty.append(name)
        elif len(values) == 1:
            constant.append(name)
    if len(empty) + len(constant) == X.num_columns:
        raise ValueError(
            f"No usable column is left in {source}: "
            + (listed([*constant, *empty]) or "it has the target only")
            + (" hold one value or none." if X.num_columns else ".")
        )
    for names, what in ((constant, "one value only"), (empty, "no value")):
        if names:
            note(f"Dropped {columns_text(len(names))} with {what}: {listed(names)}.")
    return X.drop_columns([*empty, *constant])


def note_identifiers(X: pa.Table, which: str = "") -> None:
    """Note integers that are nearly all different and will be binned as numbers.

    `which` says which rows they are, if these are not all.

    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     note_identifiers(pa.table({"patient": [k * k for k in range(30)]}))
    >>> str(seen[0].message)[:45]
    "'patient' has 30 different values in 30 rows;"
    """
    for name, column in zip(X.column_names, X.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        count, n = pc.count_distinct(column).as_py(), len(column)
        if count > max(MAX_INTEGER_LABELS, IDENTIFIER_SHARE * n):
            note(
                f"{name!r} has {count:,} different values in {which}{n:,} rows; if it "
                f"identifies rows, pass --id {shlex.quote(name)}."
            )


def columns_text(count: int) -> str:
    """Return how many columns, in words.

    >>> columns_text(1), columns_text(2)
    ('1 column', '2 columns')
    """
    return f"{count:,} column{'s' * (count != 1)}"


def listed(names: list[str]) -> str:
    """Return some names, and how many more there are.

    >>> listed(["age", "sex"])
    "'age', 'sex'"
    """
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more


def note(text: str) -> None:
    """Warn of something that the owner of the table should know.

    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     note("two columns were dropped")
    >>> len(seen)
    1
    """
    warnings.warn(text, DataWarning, stacklevel=3)
