"""Run the commands on pair counts: build, merge, subtract and show."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import numpy as np

from renyi.cli import inputs, output, streams
from renyi.cli.inputs import load_marginals, with_source
from renyi.cli.output import Facts, Recorded
from renyi.cli.parser import Args
from renyi.counting.sparse_counts import is_sparse
from renyi.encoding.encoder import Encoder
from renyi.files import MARGINALS
from renyi.marginals.file import headline
from renyi.marginals.marginals import Marginals
from renyi.sources import files
from renyi.sources.kept_rows import KeptRows
from renyi.warnings import warn

_ENCODER = "--encoder must be a model written by fit (.json) or pair counts (.renyi)"


def build(args: Args, recorded: Recorded) -> None:
    """Count the pairs of columns of a table."""
    place = output.check_place(args, args.out, (MARGINALS,))
    own = args.encoder is None
    encoder = inputs.encoder_of(args) if own else _borrowed(args)
    order = args.order or encoder.order
    if order == 1:
        m = streams.counted_rows_of(args, encoder, args.class_conditional)
    else:
        with KeptRows() as store:
            rows = streams.coded_rows(args, encoder, store, constants=True)
            m = rows.marginals(args.class_conditional, order)
    if own:
        inputs.warn_of_labels(m.encoder.single.columns)
    output.print_notes(output.notes_of(recorded))
    _save(with_source(m, args.files), place, args)


def _borrowed(args: Args) -> Encoder:
    """Return the fitted encoder of a model or of pair counts."""
    names = ("numeric", "categorical", "missing", "bins", "min_count", "unseen")
    why = "cannot be used with --encoder, which has its own"
    inputs.check_not_given(args, names, f"{why}: leave one of them out")
    if args.encoder.endswith(MARGINALS):
        m = load_marginals(args.encoder)
        encoder = m.encoder
        target = m.target
    else:
        fit = inputs.load_model(args.encoder, _ENCODER)
        encoder = fit.encoder_
        target = fit.target
    if args.target in encoder.input_names:
        raise ValueError(
            f"{args.encoder} has {args.target!r} as a column to predict from: pass "
            f"the target that it has, --target {shlex.quote(target)}."
        )
    if encoder.order > 1 and args.order not in (None, encoder.order):
        raise ValueError(
            f"--order {args.order} does not fit {args.encoder}, which has order "
            f"{encoder.order}: leave --order out, or take an --encoder of order 1."
        )
    return encoder


def merge(args: Args, recorded: Recorded) -> None:
    """Add up the pair counts of disjoint rows."""
    place = output.check_place(args, args.out, (MARGINALS,))
    first, *others = files.distinct(map(files.existing, args.files))
    total = Marginals.load(first)
    known = {total.digest: first}
    for path in others:
        m = Marginals.load(path)
        same = known.setdefault(m.digest, path)
        if same is not path:
            warn(
                f"{path} contains the same counts as {same}: if both come from the "
                "same rows, these rows count twice."
            )
        with inputs.naming(f"{path} does not fit {first}"):
            total = total + m
    output.print_notes(output.notes_of(recorded))
    _save(with_source(total, args.files), place, args)


def subtract(args: Args, recorded: Recorded) -> None:
    """Remove the rows of one file of pair counts from another."""
    place = output.check_place(args, args.out, (MARGINALS,))
    first = load_marginals(args.first)
    second = load_marginals(args.second)
    with inputs.naming(f"{args.second} cannot be subtracted from {args.first}"):
        rest = first - second
    _save(dataclasses.replace(rest, provenance=first.provenance), place, args)


def show(args: Args, recorded: Recorded) -> None:
    """Print a summary of pair counts, or the table of two columns."""
    m = load_marginals(args.file)
    if args.pair is None:
        if args.json:
            output.print_json({**_facts(m), "cells": _few(m)})
        else:
            print(m)
            few = _few(m)
            least = "below 2" if m.weighted else "1"
            print(
                f"Of {few['nonzero']:,} counts above zero, {few['below_10']:,} are "
                f"below 10, and {few['below_2']:,} of these are {least}."
            )
        return
    files.require(args.file, m.columns.names, args.pair)
    block = m.block(*args.pair)
    if args.json:
        categories = [block.index.tolist(), block.columns.tolist()]
        counts = block.to_numpy().tolist()
        output.print_json(
            {"columns": args.pair, "categories": categories, "counts": counts}
        )
    else:
        print(block.to_string())


def _save(m: Marginals, place: Path, args: Args) -> None:
    m.save(place)
    if args.json:
        output.print_json({**_facts(m), "written": str(place)})
    else:
        print(f"Wrote {place}: {headline(m)}")


def _few(m: Marginals) -> dict[str, int]:
    """Return how many counts are not zero, and how many are small."""
    counts = dict.fromkeys(("nonzero", "below_10", "below_2"), 0)
    for table in (m.counts, *(() if m.class_counts is None else m.class_counts)):
        for values in (table.data if is_sparse(table) else table, table.diagonal()):
            present = values > 0
            for name, most in zip(counts, (np.inf, 10, 2), strict=True):
                counts[name] += int(np.count_nonzero(present & (values < most)))
    return {name: twice // 2 for name, twice in counts.items()}  # tables are symmetric


def _facts(m: Marginals) -> Facts:
    totals = np.split(m.counts.diagonal(), np.cumsum(m.columns.sizes)[:-1])
    return {
        "rows": m.n,
        "weighted": m.weighted,
        "order": m.order,
        "target": m.target,
        "class_conditional": m.class_counts is not None,
        "provenance": dict(m.provenance),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "counts": dict(zip(column.levels.texts, total.tolist(), strict=True)),
            }
            for column, total in zip(m.columns, totals, strict=True)
        ],
    }
