"""The commands: each reads files, calls the library, and prints or writes.

What a reader did with a table is a `DataWarning`; here it becomes a note.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from renyi import datasets
from renyi.cli import (
    certificate_commands,
    check_marginals,
    export,
    marginals_commands,
    predict,
    select,
    streamed,
    summary,
)
from renyi.cli.inputs import Rows, encoder_of, note, order_of, usable_rows
from renyi.cli.output import (
    MARGINALS,
    SMALL,
    Recorded,
    chosen_marginals,
    notes_of,
    refuse_missing_class,
    show,
    tell,
    with_source,
    write_text,
    write_together,
)
from renyi.cli.records import log_text, next_step, prefix_of
from renyi.estimators.classifier import RenyiClassifier
from renyi.marginals.marginals import Marginals

_MEMORY = 1_000_000_000  # bytes of rows that are held in memory


def run(args: argparse.Namespace) -> None:
    """Run the command that was asked for; notes go to stderr if it fails.

    >>> run(argparse.Namespace(command="datasets", json=True))  # doctest: +ELLIPSIS
    [...
    """
    name = args.command
    if name == "marginals":
        name = f"{name} {args.action}"
    if "files" in args:
        args.file = args.files[0] if args.files else ""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            _COMMANDS[name](args, seen)
        except BrokenPipeError:  # nobody listens any more
            raise
        except Exception:
            tell(notes_of(seen))
            raise


# ---- fit


def _fit(args: argparse.Namespace, seen: Recorded) -> None:
    counts = args.marginals or (args.marginals is None and not _is_marginals(args.file))
    prefix = prefix_of(args, counts)
    clf = RenyiClassifier(
        order=args.order or 1,
        alpha=args.alpha,
        rule=args.rule,
        fit_intercept=not args.no_intercept,
        class_weight=args.class_weight,
        random_state=args.seed,
    )
    if streamed.asked_for(args, clf.order, _MEMORY):
        told, m = _fit_stream(args, clf)
    elif _is_marginals(args.file):
        told, m = _fit_marginals(args, clf)
    else:
        told, m = _fit_rows(args, clf)
    writers: dict[Path, Callable[[Path], None]] = {}
    if prefix is not None:
        writers = {Path(f"{prefix}.json"): clf.save}
        told["written"] = {"model": f"{prefix}.json", "log": f"{prefix}.log"}
        if m is not None:
            writers[Path(prefix + MARGINALS)] = m.save
            told["written"]["marginals"] = prefix + MARGINALS
        else:
            _note_of_others(args.file, Path(prefix + MARGINALS))
    told["next"] = next_step(args, prefix)
    told["notes"] = notes_of(seen)
    text = summary.fit_text(told, clf.certificate_)
    if prefix is not None:
        log = log_text(args, clf, text, seen)
        write_together({**writers, Path(f"{prefix}.log"): write_text(log)})
    if args.json:
        show({"source": args.file if len(args.files) == 1 else args.files, **told})
    else:
        print(text)


def _is_marginals(path: str) -> bool:
    return path.endswith(MARGINALS)


def _note_of_others(source: str, place: Path) -> None:
    """Note marginals that lie where those of the model would, but are of another."""
    if place.is_file() and not (Path(source).exists() and place.samefile(source)):
        note(
            f"{place} was there before and stays: its marginals are not those of this "
            "model. --marginals replaces them."
        )


def _fit_rows(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[dict[str, Any], Marginals | None]:
    """Train on a table; return what to tell, and the marginals to write."""
    encoder = encoder_of(args)
    clf.set_params(encoder=encoder)
    rows = usable_rows(args, encoder)
    clf.fit(rows.X, rows.y, rows.weights)
    told = summary.facts(clf, rows.target, rows.shares(), rows.error(clf))
    return told, _counts_to_write(args, clf, rows)


def _fit_stream(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[dict[str, Any], Marginals | None]:
    """Train on the counts of rows that are not held in memory."""
    inner = args.class_conditional or args.class_weight is not None
    m = streamed.marginals(args, encoder_of(args), inner)
    m = check_marginals.usable(m, args.file or "the query")
    how = "alpha was chosen by generalised cross-validation, not leave-one-out, and "
    note(
        f"The rows were counted as they were read: {how * (args.alpha == 'auto')}the "
        "error on these very rows is not told."
    )
    told = _train(clf, m)
    if not _to_write(args, clf):
        return told, None
    if not args.class_conditional:
        m = dataclasses.replace(m, class_counts=None)
    return told, with_source(m, args.files)


def _train(clf: RenyiClassifier, m: Marginals) -> dict[str, Any]:
    """Train on marginals; return what to tell."""
    clf.fit_marginals(m)
    return summary.facts(clf, m.target, check_marginals.shares(m))


def _to_write(args: argparse.Namespace, clf: RenyiClassifier) -> bool:
    """Whether the marginals are to be written; a note says if they are too large."""
    if args.out is None or args.marginals is False:
        return False
    K = len(clf.classes_)
    width = int(clf.encoder_.columns.sizes.sum()) + K
    size = 8 * width**2 * (1 + K * args.class_conditional)
    if args.marginals is None and size >= SMALL:
        note(
            f"The marginals were not written: their counts take {size / 1e6:,.0f} MB. "
            "--marginals writes them all the same."
        )
        return False
    return True


def _counts_to_write(
    args: argparse.Namespace, clf: RenyiClassifier, rows: Rows
) -> Marginals | None:
    if not _to_write(args, clf):
        return None
    m = clf.marginals_
    if m is None or (m.class_counts is not None) != args.class_conditional:
        m = rows.marginals(clf.encoder_, args.class_conditional, clf.order)
    return with_source(m, [args.file])


def _fit_marginals(
    args: argparse.Namespace, clf: RenyiClassifier
) -> tuple[dict[str, Any], Marginals | None]:
    """Train on marginals alone; they are written again only if asked for."""
    m = chosen_marginals(args)
    refuse_missing_class(m, args.file)
    if args.unseen is not None:
        settings = dataclasses.replace(m.settings, unseen=args.unseen)
        m = dataclasses.replace(m, settings=settings)
    clf.set_params(order=order_of(args, m))
    return _train(clf, m), m if args.marginals else None


# ---- data sets


def _datasets(args: argparse.Namespace, seen: Recorded) -> None:
    table = datasets.describe()
    if args.json:
        show(table.to_dict("records"))
        return
    print(f"{'name':<10} {'rows':>6} {'features':>8} {'numeric':>8}  target  classes")
    for row in table.itertuples():
        print(
            f"{row.name:<10} {row.rows:>6} {row.features:>8} {row.numeric:>8}  "
            f"{row.target:<7} {row.class_counts}"
        )
    print("\nNext: renyi fit votes --out votes")


_COMMANDS: dict[str, Callable[[argparse.Namespace, Recorded], None]] = {
    "fit": _fit,
    "predict": predict.predict,
    "certify": certificate_commands.certify_model,
    "minimax": certificate_commands.find_minimax,
    "hgr": certificate_commands.rank_columns,
    "select": select.select,
    "marginals build": marginals_commands.build,
    "marginals merge": marginals_commands.merge,
    "marginals subtract": marginals_commands.subtract,
    "marginals show": marginals_commands.show_marginals,
    "export": export.export,
    "datasets": _datasets,
}
