"""What the commands read: models, marginals, and the rows of a table."""

from __future__ import annotations

import argparse
import dataclasses
import glob
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from renyi import datasets
from renyi.encoding.arrow_cells import requested_floats
from renyi.encoding.column_rules import (
    MISSING_CODES,
    check_classes,
    check_sample_weight,
    check_target,
    constant_columns,
    may_identify_rows,
)
from renyi.encoding.columns import Column, Columns, Label, Levels, label_text
from renyi.encoding.encoder import Encoder
from renyi.estimators.classifier import RenyiClassifier
from renyi.marginals.marginals import Marginals
from renyi.sources import files
from renyi.sources.frames import encoded_target
from renyi.warnings import warn

MARGINALS = ".renyi"  # how the name of a file of marginals ends
LARGE = 50_000_000  # bytes of a file whose reading is announced on a terminal

Floats = NDArray[np.float64]


_FOR_TABLES = ("numeric", "categorical", "missing", "weight", "bins", "min_count")


# ---- models and marginals


def load_model(path: str) -> RenyiClassifier:
    """Read a model; a path without a file is an error that suggests another."""
    return RenyiClassifier.load(files.existing(path))


def load_marginals(path: str) -> Marginals:
    """Read marginals; a path without a file is an error that suggests another."""
    return Marginals.load(files.existing(path))


def chosen_marginals(args: argparse.Namespace) -> Marginals:
    """Read marginals, and take the target and the columns that were requested."""
    for option in _FOR_TABLES:
        if getattr(args, option):
            raise ValueError(
                f"--{option.replace('_', '-')} is for tables; {args.file} holds "
                "marginals, whose columns are settled: leave the option out."
            )
    m = load_marginals(args.file)
    if args.target is not None:
        files.require(args.file, m.columns.names, [args.target])
        m = m.with_target(args.target)
    aside = {*args.id, *args.drop}
    files.require(args.file, m.columns.names, aside)
    if m.target in aside:
        raise ValueError(f"Column {m.target!r} is the target: it cannot be dropped.")
    if aside:
        m = m.select(name for name in m.feature_names if name not in aside)
    return m


def check_missing_class(m: Marginals, source: str) -> None:
    """Refuse marginals with rows whose class is missing."""
    if None in m.classes:
        raise ValueError(
            f"The target {m.target!r} is missing in some rows of {source}, which "
            "marginals cannot leave out: count again without these rows."
        )


def with_source(m: Marginals, names: list[str]) -> Marginals:
    """Return the marginals with the files they came from."""
    # Names only: folders of one machine are nobody else's business.
    source = {"files": [Path(name).name for name in names]}
    return dataclasses.replace(m, provenance=source)


def counted(args: argparse.Namespace) -> Marginals:
    """Return the marginals of a file, or those of a table, counted."""
    if not args.file.endswith(MARGINALS):
        encoder = encoder_of(args)
        return usable_rows(args, encoder).marginals(encoder, args.class_conditional)
    m = chosen_marginals(args)
    if args.class_conditional and m.class_counts is None:
        raise ValueError(
            f"{args.file} has no pairs within each class: count them with 'renyi "
            "marginals build --class-conditional'."
        )
    return m


# ---- tables


def table_path(name: str, announce: bool = True) -> Path:
    """Return the file of a table, which may be the name of a bundled one."""
    if name in datasets.names() and not Path(name).is_file():
        return datasets.path(name)
    if not Path(name).suffix and not Path(name).exists() and os.sep not in name:
        try:
            datasets.path(name)
        except ValueError as error:
            raise ValueError(f"There is no file {name!r}. {error}") from None
    path = files.existing(name, datasets.names())
    if path.suffix == MARGINALS:
        raise ValueError(f"{path} holds marginals, which have no rows: name a table.")
    if announce and path.stat().st_size > LARGE and sys.stderr.isatty():
        print(f"reading {path} …", file=sys.stderr)
    return path


def table_paths(names: Sequence[str]) -> list[Path]:
    """Return the files of a table in several: patterns and folders are searched."""
    found: list[Path] = []
    for name in names:
        found += (
            files.matching(name) if is_searched(name) else [table_path(name, False)]
        )
    return files.matching(found)  # which refuses twins


def is_searched(name: str) -> bool:
    """Whether a name stands for the files of a folder, or those that match it."""
    return Path(name).is_dir() or (glob.has_magic(name) and not Path(name).is_file())


def target_of(args: argparse.Namespace, source: Any, names: Sequence[str]) -> str:
    """Return the column to predict; of a bundled table it need not be named."""
    if args.target is not None:
        return str(args.target)
    alone = len(getattr(args, "files", [args.file])) == 1
    if alone and args.file in datasets.names():
        return files.column_names(table_path(args.file))[-1]  # as in every bundled one
    raise ValueError(
        f"--target is required: name the column of {source} to predict, such as one of "
        f"{', '.join(map(repr, names[:8]))}."
    )


def encoder_of(args: argparse.Namespace) -> Encoder:
    """Return the encoder that the options describe."""
    given = {key: getattr(args, key) for key in ("bins", "min_count", "unseen")}
    known = {key: value for key, value in given.items() if value is not None}
    return Encoder(missing=(*MISSING_CODES, *args.missing), **known)


def order_of(args: argparse.Namespace, m: Marginals) -> int:
    """Return the order of marginals, unless another one was asked for."""
    if args.order not in (None, m.order):
        raise ValueError(
            f"--order {args.order} does not fit {args.file}, whose marginals are of "
            f"order {m.order}: leave it out, or count again with 'renyi marginals "
            f"build TABLE --order {args.order}'."
        )
    return m.order


class Rows(NamedTuple):
    """Rows to learn from."""

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
    """Read the rows of a table, without columns that do not tell them apart."""
    rows = read_rows(args, encoder)
    rows = rows._replace(X=usable(args.file, rows, encoder))
    warn_of_identifiers(rows.X)
    return rows


def read_rows(args: argparse.Namespace, encoder: Encoder) -> Rows:
    """Read the rows of a table, without those whose target is missing."""
    file = files.opened(table_path(args.file))
    target = target_of(args, file.path, file.schema.names)
    table = _selected(args, file, target, encoder)
    weights = None
    if args.weight is not None:
        weights = _weights(file.path, args.weight, table[args.weight])
    answer, codes = encoded_target(table[target], target, encoder)
    kept = codes >= 0
    if not kept.all():
        table, codes = table.filter(pa.array(kept)), codes[kept]
        weights = None if weights is None else weights[kept]
    check_target(answer, len(codes))
    check_classes(answer.categories, target)
    y = pd.Series(class_labels(answer.categories)[codes], name=target)
    aside = [target] if args.weight is None else [target, args.weight]
    return Rows(target, table.drop_columns(aside), y, weights)


def class_shares(m: Marginals) -> dict[str, float]:
    """Return the share of each class."""
    pairs = zip(m.classes, m.class_probabilities, strict=True)
    return {label_text(label): float(p) for label, p in pairs}


def class_labels(labels: Sequence[Label]) -> NDArray[Any]:
    """Return labels as classes: texts if some are fractions, which no classifier takes.

    >>> class_labels((9.5, 10)).tolist()
    ['9.5', '10']
    """
    if any(isinstance(label, float) for label in labels):
        labels = [label_text(label) for label in labels]
    texts = any(isinstance(label, str) for label in labels)
    return np.array(labels, object if texts else None)


def with_text_classes(m: Marginals) -> Marginals:
    """Return marginals whose classes are texts if some are fractions.

    `class_labels` does the same with rows in memory.
    """
    if not any(isinstance(label, float) for label in m.classes):
        return m
    texts = class_labels(m.classes).tolist()
    order = np.argsort(np.array(texts, object), kind="stable")
    answer = Column(m.target, Levels("label", tuple(sorted(texts))))
    K = len(texts)
    where = np.arange(len(m.counts))
    where[-K:] = where[-K:][order]
    return dataclasses.replace(
        m,
        counts=m.counts[np.ix_(where, where)],
        columns=Columns.of([*m.columns[:-1], answer]),
        class_counts=None if m.class_counts is None else m.class_counts[order],
    )


def _selected(
    args: argparse.Namespace, file: files.TableFile, target: str, encoder: Encoder
) -> pa.Table:
    """Read the columns that were requested, as what they were requested to be."""
    columns = chosen_columns(args, file.path, file.schema.names, target, encoder)
    weight = [] if args.weight is None else [args.weight]
    kinds = {
        **dict.fromkeys([*args.numeric, *weight], "number"),
        **dict.fromkeys(args.categorical, "label"),
        **files.column_kinds(encoder.single),
    }
    table = files.read_table(file, columns, missing=encoder.missing, kinds=kinds)
    for name in args.numeric:
        table = _replaced(table, name, requested_floats(name, table[name]))
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
    """Return the columns that were requested, among the names of all."""
    aside = {*args.id, *args.drop}
    weight = [] if args.weight is None else [args.weight]
    requested = [*args.id, *args.drop, *args.numeric, *args.categorical, *weight]
    files.require(source, names, [target, *requested])
    if target in requested:
        raise ValueError(
            f"Column {target!r} is the target: leave it out of --id, --drop, "
            "--numeric, --categorical and --weight."
        )
    both = set(args.numeric) & set(args.categorical)
    if both:
        raise ValueError(
            f"Column {min(both)!r} cannot be both --numeric and --categorical."
        )
    columns = [name for name in names if name not in aside or name in weight]
    if encoder.columns:
        files.require(source, columns, encoder.input_names)
        columns = [*encoder.input_names, *weight, target]
    return columns


def _replaced(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def _weights(path: Path, name: str, column: pa.ChunkedArray) -> Floats:
    try:
        values = requested_floats(name, column).to_numpy()
        checked = check_sample_weight(values, len(values))
    except ValueError as error:
        raise ValueError(f"{path}, column of weights {name!r}: {error}") from None
    assert checked is not None
    return checked


def usable(source: str, rows: Rows, encoder: Encoder) -> pa.Table:
    """Return the columns that tell rows apart; warn of the others."""
    X, weights = rows.X, rows.weights
    suspects = [name for name in X.column_names if _may_be_constant(X[name], encoder)]
    columns: Iterable[Column] = ()
    if suspects:
        single = encoder.single.select(suspects) if encoder.columns else encoder.single
        some = X.select(suspects)
        if weights is not None and not weights.all():
            some, weights = some.filter(pa.array(weights > 0)), weights[weights > 0]
        fitted, _ = single.fit_transform(some, weights, refuse_identifiers=False)
        columns = fitted.columns
    return X.drop_columns(constant_names(source, columns, X.num_columns))


def usable_marginals(m: Marginals, source: str) -> Marginals:
    """Return marginals without columns that do not tell rows apart; warn of these."""
    features = [column for column in m.columns if column.name != m.target]
    gone = constant_names(source, features, len(features))
    return m.select(n for n in m.feature_names if n not in gone) if gone else m


def _may_be_constant(column: pa.ChunkedArray, encoder: Encoder) -> bool:
    """Whether a column is worth a look by the encoder, which costs more."""
    if pa.types.is_nested(column.type) and not pa.types.is_dictionary(column.type):
        return False  # the encoder says what is wrong with it
    if encoder.min_count > 1:
        return True
    return len(pc.unique(column)) <= 2 + len(encoder.missing)


def constant_names(source: str, columns: Iterable[Column], total: int) -> list[str]:
    """Return the columns of `total` that do not tell rows apart; warn of them."""
    constant, empty = constant_columns(columns)
    if len(empty) + len(constant) == total:
        why = "it has the target only"
        if total:
            why = f"one value or none in {listed([*constant, *empty])}"
        raise ValueError(f"No usable column is left in {source}: {why}.")
    for names, what in ((constant, "one value only"), (empty, "no value")):
        if names:
            warn(f"Dropped {columns_text(len(names))} with {what}: {listed(names)}.")
    return [*constant, *empty]


def warn_of_identifiers(X: pa.Table, which: str = "") -> None:
    """Warn of integers that are nearly all different and will be binned as numbers.

    `which` says which rows they are, if these are not all.
    """
    for name, column in zip(X.column_names, X.columns, strict=True):
        if not pa.types.is_integer(column.type):
            continue
        count, n = pc.count_distinct(column).as_py(), len(column)
        if may_identify_rows(count, n):
            warn(
                f"Column {name!r} has {count:,} different values in {which}{n:,} rows: "
                f"pass --id {shlex.quote(name)} if it identifies rows."
            )


def columns_text(count: int) -> str:
    """Return how many columns, in words."""
    return f"{count:,} column{'s' * (count != 1)}"


def listed(names: list[str]) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    return ", ".join(map(repr, names[:8])) + more
