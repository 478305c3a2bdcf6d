"""Rows to learn from: the columns of a file that the command line asked for."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi import datasets
from renyi.encoding import Encoder
from renyi.factoring import MAX_INTEGER_LABELS, label_text
from renyi.sources import files
from renyi.sources.cells import DataWarning
from renyi.sources.rows import checked_weights

_LARGE = 50_000_000  # bytes of a file whose reading is announced on a terminal
_IDENTIFIER_SHARE = 0.9  # of rows: integers with more different values are suspect

Floats = NDArray[np.float64]


def table_path(name: str) -> Path:
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
    if path.stat().st_size > _LARGE and sys.stderr.isatty():
        print(f"reading {path} …", file=sys.stderr)
    return path


def _target(args: argparse.Namespace, path: Path) -> str:
    if args.target is not None:
        return str(args.target)
    if args.file in datasets.names():
        return files.column_names(path)[-1]  # as in every bundled file
    names = ", ".join(map(repr, files.column_names(path)[:8]))
    raise ValueError(
        f"--target is missing: name the column of {path} to predict, such as one of "
        f"{names}."
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


def read_rows(args: argparse.Namespace, encoder: Encoder) -> Rows:
    """Read the rows of a table, without those whose target is missing.

    >>> none = dict.fromkeys(["id", "drop", "numeric", "categorical"], ())
    >>> args = argparse.Namespace(file="votes", target=None, weight=None, **none)
    >>> read_rows(args, Encoder()).X.shape
    (435, 16)
    """
    path = table_path(args.file)
    target = _target(args, path)
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
    aside = {*args.id, *args.drop}
    weight = [] if args.weight is None else [args.weight]
    asked = [*args.id, *args.drop, *args.numeric, *args.categorical, *weight]
    files.require(path, names, [target, *asked])
    if target in {*asked}:
        raise ValueError(f"{target!r} is the target: it cannot be anything else too.")
    both = set(args.numeric) & set(args.categorical)
    if both:
        raise ValueError(f"Column {min(both)!r} cannot be numeric and categorical.")
    columns = [name for name in names if name not in aside or name in weight]
    if encoder.columns:
        files.require(path, columns, encoder.feature_names)
        columns = [*encoder.feature_names, *weight, target]
    kinds = {
        **dict.fromkeys([*args.numeric, *weight], "number"),
        **dict.fromkeys(args.categorical, "label"),
        **files.column_kinds(encoder),
    }
    table = files.read_table(path, columns, missing=encoder.missing, kinds=kinds)
    for name in args.numeric:
        table = _replaced(table, name, _as_number(name, table[name]))
    for name in args.categorical:
        if not pa.types.is_string(table[name].type):
            table = _replaced(table, name, table[name].dictionary_encode())
    return table


def _replaced(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _as_number(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"Column {name!r} is to be numeric but holds {column.type} that are no "
            "numbers: correct it, or leave it out of --numeric."
        ) from None


def _weights(path: Path, name: str, column: pa.ChunkedArray) -> Floats:
    try:
        values = _as_number(name, column).to_numpy()
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
        if whole:
            column = column.cast(pa.int64())
        else:  # as labels are compared; Arrow writes 1e-07 otherwise
            column = pa.chunked_array([[label_text(v) for v in column.to_pylist()]])
    elif n >= 20 and count > n / 2:
        raise ValueError(
            f"The target {target!r} of {path} has {count:,} values in {n:,} rows, like "
            "an identifier: name the column of classes with --target."
        )
    elif not (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        column = column.cast(pa.string())
    return pd.Series(column.to_pandas(), name=target)


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


def note_identifiers(X: pa.Table) -> None:
    """Note integers that are nearly all different and will be binned as numbers.

    >>> with warnings.catch_warnings(record=True, action="always") as seen:
    ...     note_identifiers(pa.table({"patient": [k * k for k in range(30)]}))
    >>> str(seen[0].message)[:45]
    "'patient' has 30 different values in 30 rows;"
    """
    for name, column in zip(X.column_names, X.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        count, n = pc.count_distinct(column).as_py(), len(column)
        if count > max(MAX_INTEGER_LABELS, _IDENTIFIER_SHARE * n):
            note(
                f"{name!r} has {count:,} different values in {n:,} rows; if it "
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
