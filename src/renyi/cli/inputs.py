"""What the commands read: models, marginals, and the columns of tables.

The rows themselves are read by `renyi.cli.streams`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import datasets
from renyi.cli.output import Recorded, print_json
from renyi.cli.parser import Args, option
from renyi.encoding.arrow import number_text
from renyi.encoding.columns import Column, Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import (
    MISSING_CODES,
    check_features,
    check_weight_column,
    class_array,
    constant_columns,
)
from renyi.estimators import model_file
from renyi.estimators.model_file import AnyFit
from renyi.files import MARGINALS
from renyi.fitting.record import Fit, of_scorecard
from renyi.formatting import listed, number_of
from renyi.marginals.arithmetic import to_be_merged
from renyi.marginals.marginals import Marginals
from renyi.point_tables import read_points
from renyi.scorecard import Scorecard
from renyi.sources import files
from renyi.sources.databases import is_database
from renyi.sources.layouts import OPTIONS, Layout
from renyi.validation import prefixed
from renyi.warnings import warn

_CLASS_NAMES = ("target", "class", "label", "y", "outcome")
_MODEL = "MODEL must be a model written by fit (.json)"
POINTS = ".csv"  # of a table of points
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|\?", re.I)
LARGE = 50_000_000  # bytes of a file whose reading is announced on a terminal


def check_not_given(args: Args, names: Iterable[str], why: str, **shown: str) -> None:
    """Reject options that do not belong here; `shown` are those of another name."""
    for name in names:
        if getattr(args, name, None) not in (None, False, []):
            raise ValueError(f"{shown.get(name, option(name))} {why}.")


def check_separate(args: Args, names: Iterable[str], known: Collection[str]) -> None:
    """Reject options whose values are known names with commas between them.

    Options take names that are separated by spaces: a comma may be part of a name.
    """
    for name in names:
        for text in getattr(args, name):
            parts = [part.strip() for part in text.split(",") if part.strip()]
            if text not in known and len(parts) > 1 and {*parts} <= {*known}:
                raise ValueError(
                    f"{option(name)} takes names with spaces between them: did you "
                    f"mean {option(name)} {shlex.join(parts)}?"
                )


def check_time_limit(args: Args) -> None:
    """Reject a time limit of what is computed at once."""
    if args.level in (None, "closed"):
        why = "is for --exact and --level lp: add one of them"
        check_not_given(args, ["time_limit"], why)


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Let errors about what a file holds name the file."""
    try:
        yield
    except ValueError as error:
        raise prefixed(f"{path}: ", error) from None


def list_datasets(args: Args, recorded: Recorded) -> None:
    """Print the bundled data sets."""
    table = datasets.describe()
    if args.json:
        print_json(table.to_dict("records"))
        return
    print(f"{'name':<10} {'rows':>6} {'features':>8} {'numeric':>8}  target  classes")
    for row in table.itertuples():
        print(
            f"{row.name:<10} {row.rows:>6,} {row.features:>8} {row.numeric:>8}  "
            f"{row.target:<7} {row.class_counts}"
        )
    print("\nNext: renyi fit votes --out votes")


# ---- models and marginals


def load_model(path: str, what: str = _MODEL) -> Fit:
    """Read a scorecard; a model of every order is an error that says who takes it."""
    fit = load_any_model(path, what)
    if not isinstance(fit, Fit):
        raise ValueError(
            f"{path} is a model of every order, which has no scorecard, and no "
            "guarantee from pair counts. Use predict, explain, report, compare or "
            "certify --rows, or train a model with --order 1 or 2."
        )
    return fit


def load_table(path: str, m: Marginals, threshold: float | None) -> Fit:
    """Read a table of points as a model; pair counts name its classes."""
    table = read_points(files.existing(path))
    with naming(path):
        card = Scorecard.from_model(table, m, threshold=threshold or 0.0)
    return of_scorecard(card)


def is_table(path: str) -> bool:
    """Whether a model is a table of points rather than a model file."""
    return path.lower().endswith(POINTS)


def load_any_model(path: str, what: str = _MODEL) -> AnyFit:
    """Read a model; of another file, the error says what is to be named."""
    place = files.existing(path)
    try:
        return model_file.read(place)
    except ValueError as error:
        if is_table(path):
            raise ValueError(
                f"{path} is a table: if it is one of points, write it as a model first "
                f"('renyi certify {path} COUNTS.renyi --out MODEL.json')."
            ) from None
        if place.suffix == ".json":
            raise
        raise ValueError(f"{str(error).rstrip('.')}; {what}.") from None


def load_marginals(path: str) -> Marginals:
    """Read marginals; a path without a file is an error that suggests another."""
    return Marginals.load(files.existing(path))


def beside(model: str) -> Path:
    """Return where fit writes the marginals of a model."""
    return Path(model).with_suffix(MARGINALS)


def own_marginals(args: Args, clf: Fit) -> Marginals | None:
    """Return the marginals that were named, or those that fit wrote next to a model."""
    if args.file is not None:
        return load_marginals(args.file)
    place = beside(args.model)
    trained = clf.data_digest_
    if not place.is_file():
        return None
    m = load_marginals(str(place))
    return m if trained is not None and trained.matches(m.digest) else None


def names_counts(args: Args) -> bool:
    """Whether a command names marginals; raise an error if it names rows as well."""
    counts = [name for name in args.files if name.endswith(MARGINALS)]
    if not counts:
        return False
    if len(args.files) > 1 or args.where or args.sql or args.table:
        raise ValueError(
            f"{counts[0]} cannot be read as rows: add marginals with 'renyi marginals "
            "merge'."
        )
    return True


def chosen_marginals(args: Args) -> Marginals:
    """Read marginals, and take the target and the columns that were requested."""
    why = "marginals, and their columns are fixed: leave the option out"
    names = ["numeric", "categorical", "missing", "weight", "min_count", *OPTIONS]
    merges = getattr(args, "binning", None) is not None
    if not merges:  # else the most bins to merge into
        names += ["bins", "monotone"]
    check_not_given(args, names, f"is for tables; {args.file} holds {why}")
    m = load_marginals(args.file)
    if merges:
        m = to_be_merged(m, encoder_of(args))
    if args.target is not None:
        files.require(args.file, m.columns.names, [args.target])
        m = m.with_target(args.target)
    if args.class_conditional and m.class_counts is None:
        raise ValueError(
            f"{args.file} has no pairs within each class: count them with 'renyi "
            "marginals build --class-conditional'."
        )
    aside = {*args.id, *args.drop}
    check_separate(args, ("id", "drop"), m.columns.names)
    files.require(args.file, m.columns.names, aside)
    if m.target in aside:
        raise ValueError(f"Column {m.target!r} is the target: it cannot be dropped.")
    if aside:
        m = m.select(name for name in m.feature_names if name not in aside)
    return m


def check_missing_class(m: Marginals, source: str) -> None:
    """Reject marginals with rows whose class is missing."""
    if None in m.classes:
        raise ValueError(
            f"The target {m.target!r} is missing in some rows of {source}, and "
            "marginals cannot drop rows: count again without these rows."
        )


def with_source(m: Marginals, names: list[str]) -> Marginals:
    """Return the marginals with the files they came from."""
    # Names only: folders of one machine are nobody else's business.
    source = {"files": [Path(name).name for name in names]}
    return dataclasses.replace(m, provenance=source)


# ---- tables and their columns


def table_path(name: str, announce: bool = True) -> Path:
    """Return the file of a table, which may be the name of a bundled one."""
    path = Path(name)
    if not path.is_file():
        path = _bundled_table(name)
    if path.suffix == MARGINALS:
        raise ValueError(f"{path} holds marginals, which have no rows: name a table.")
    if announce and path.stat().st_size > LARGE and sys.stderr.isatty():
        print(f"reading {path} …", file=sys.stderr)
    return path


def _bundled_table(name: str) -> Path:
    """Return the file of a bundled table, or say what is there instead."""
    if name in datasets.names():
        return datasets.path(name)
    if not Path(name).suffix and not Path(name).exists() and os.sep not in name:
        try:
            datasets.path(name)
        except ValueError as error:
            raise ValueError(f"There is no file {name!r}. {error}") from None
    return files.existing(name, datasets.names())


def table_paths(names: Sequence[str]) -> list[Path]:
    """Return the files of a table in several: patterns and folders are searched."""
    return files.matching(
        [n if files.is_searched(n) else table_path(n, False) for n in names]
    )


def opened_tables(args: Args) -> list[files.TableFile]:
    """Return the files of a command, each of which is opened once."""
    if args.tables is None and args.files:
        args.tables = files.open_tables(table_paths(args.files), layout_of(args))
        _say_layouts(args.tables)
    elif args.tables is None:
        check_not_given(args, OPTIONS, "is for FILE: name one, or leave it out")
        args.tables = []
    return args.tables


def opened_rows_file(args: Args) -> files.TableFile:
    """Return the file of the option --rows."""
    table = files.opened(table_path(args.rows), layout_of(args))
    _say_layouts([table])
    return table


def _say_layouts(tables: Iterable[files.TableFile]) -> None:
    """Say what was recognised in text tables, once if it is the same in several."""
    alike: dict[str, list[object]] = {}
    for table in tables:
        header = files.text_header([table])
        if header is not None and header.said:
            alike.setdefault(header.said, []).append(table.path)
    for said, (first, *others) in alike.items():
        more = f" and {len(others)} more" if others else ""
        warn(f"{first}{more}: {said}.")


def layout_of(args: Args) -> Layout:
    """Return what the options say about text tables."""
    names = None
    if args.names is not None:
        names = [name.strip() for name in args.names.split(",")]
    return Layout.of(args.sep, not args.no_header, names)


def encoder_of(args: Args) -> Encoder:
    """Return the encoder that the options describe."""
    names = ("min_count", "unseen", "binning", "monotone")
    given = {key: getattr(args, key, None) for key in names}
    given["bins"] = _bins_of(args.bins or [])
    known = {key: value for key, value in given.items() if value not in (None, [])}
    return Encoder(missing=(*MISSING_CODES, *args.missing), **known)


def _bins_of(given: Sequence[Any]) -> Any:
    """Return the bins of all columns, or those of some; None if none are given."""
    of_columns = [each for each in given if isinstance(each, tuple)]
    of_all = [each for each in given if not isinstance(each, tuple)]
    if of_columns and of_all:
        raise ValueError(
            f"--bins {of_all[-1]} is for all columns, and --bins {of_columns[0][0]}=… "
            "for one: leave one of them out, or name each column."
        )
    return dict(of_columns) if of_columns else (of_all or [None])[-1]


def target_of(args: Args) -> str | None:
    """Return the target that is given, or that of a bundled table or of a header."""
    target: str | None = args.target
    if target is not None or args.sql or any(map(is_database, args.files)):
        return target
    if len(args.files) == 1 and args.file in datasets.names():
        return str(opened_tables(args)[0].schema.names[-1])  # as in every bundled one
    header = files.text_header(opened_tables(args))
    return None if header is None else header.target


def chosen_columns(
    args: Args, source: object, names: Sequence[str], encoder: Encoder
) -> tuple[str, list[str], dict[str, str]]:
    """Return the target, the columns to read and what some are, as requested."""
    target = target_of(args)
    if target is None:
        likely = sorted(
            names, key=lambda n: (n.lower() not in _CLASS_NAMES, n != names[-1])
        )
        raise ValueError(
            f"--target is required: name the column of {source} to predict, such as "
            f"{listed(likely)}.{_advice(args, names)}"
        )
    weight = [] if args.weight is None else [args.weight]
    requested = [*args.id, *args.drop, *args.numeric, *args.categorical]
    check_separate(args, ("id", "drop", "numeric", "categorical"), names)
    try:
        files.require(source, names, [target, *requested, *weight])
    except ValueError as error:
        raise ValueError(f"{error}{_advice(args, names)}") from None
    check_weight_column(args.weight, target)
    if target in requested:
        raise ValueError(
            f"Column {target!r} is the target: leave it out of --id, --drop, "
            "--numeric and --categorical."
        )
    for name in sorted({*args.numeric} & {*args.categorical}):
        raise ValueError(f"Column {name!r} cannot be both --numeric and --categorical.")
    aside = {*args.id, *args.drop}.difference(weight)
    columns = [name for name in names if name not in aside]
    if encoder.columns:
        files.require(source, columns, encoder.input_names)
        used = [*encoder.input_names, *weight, target]
        extra = [name for name in columns if name not in {*used}]
        if extra:
            many = number_of(len(extra), "column")
            warn(
                f"Ignored {many} that --encoder does not have: {listed(extra)}.",
                "ignored-column",
            )
        columns = used
    whole = f"Without the columns of --id and --drop, {source}" if aside else source
    check_features({*columns} - {target, *weight}, target, whole)
    header = None if args.sql else files.text_header(args.tables or [])
    kinds = {} if header is None else header.label_kinds([target])
    kinds |= dict.fromkeys(args.numeric, "number")
    kinds |= dict.fromkeys(args.categorical, "label")
    return target, columns, {n: kinds[n] for n in kinds if n not in weight}


def _advice(args: Args, names: Sequence[str]) -> str:
    """Return advice for a text table whose names look like data."""
    numbers = sum(_NUMBER.fullmatch(name) is not None for name in names)
    is_text = not args.sql and files.text_header(args.tables or []) is not None
    if not is_text or 2 * numbers < len(names):
        return ""
    return " If its first row is data, pass --no-header."


def constant_names(source: str, columns: Iterable[Column], total: int) -> list[str]:
    """Return the columns of `total` that do not tell rows apart; warn of them."""
    constant, empty = constant_columns(columns)
    if len(empty) + len(constant) == total:
        why = f"one value or none in {listed([*constant, *empty])}"
        raise ValueError(f"No usable column is left in {source}: {why}.")
    for names, what in ((constant, "one value only"), (empty, "no value")):
        if names:
            many = number_of(len(names), "column")
            warn(f"Dropped {many} with {what}: {listed(names)}.")
    return [*constant, *empty]


def known_classes(cells: list[Label], labels: list[Label]) -> list[str | None]:
    """Return the text of the class that each cell means, a number in any writing."""
    exact = {label_text(label): label_text(label) for label in labels}
    loose = {number_text(text): text for text in exact}
    meant = {cell: exact.get(label_text(cell)) for cell in set(cells)}
    if len(loose) == len(exact):  # not so if "0.5" and "0.50" are two classes
        for cell, text in meant.items():
            if text is None:
                meant[cell] = loose.get(number_text(label_text(cell)))
    return [meant[cell] for cell in cells]


def class_labels(labels: Sequence[Label]) -> NDArray[Any]:
    """Return labels as classes: texts if some are fractions, which no classifier takes.

    >>> class_labels((9.5, 10)).tolist()
    ['9.5', '10']
    """
    if any(isinstance(label, float) for label in labels):
        labels = [label_text(label) for label in labels]
    texts = any(isinstance(label, str) for label in labels)
    return np.array(labels, object) if texts else class_array(labels)
