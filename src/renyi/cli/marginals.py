"""Run the commands on pair counts: build, merge, subtract and show."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import numpy as np
import pandas as pd

from renyi.cli import inputs, messages, notes, output, streams
from renyi.cli.inputs import load_marginals, with_source
from renyi.cli.output import Facts, Recorded
from renyi.cli.parser import Args
from renyi.counting.sparse_counts import is_sparse
from renyi.encoding.encoder import FORMAT, Encoder
from renyi.files import MARGINALS, is_document
from renyi.marginals.file import headline
from renyi.marginals.marginals import Marginals
from renyi.marginals.uncertainty import Intervals, Noise
from renyi.point_tables import encoder_of, read_points
from renyi.sources import files
from renyi.sources.kept_rows import KeptRows
from renyi.sources.layouts import OPTIONS
from renyi.warnings import warn

_RULES = ("rounding", "suppressed_below", "perturbed_by", "secondary", "total")
_ENCODER_FILES = (
    "--encoder must be a model written by fit, an encoder (.json) or pair counts "
    "(.renyi), or a table of points (.csv)"
)


def build(args: Args, recorded: Recorded) -> None:
    """Count the pairs of columns of a table."""
    place = output.check_place(args, args.out, (MARGINALS,))
    if args.published:
        m = _published(args)
        messages.print_notes(messages.notes_of(recorded))
        save(with_source(m, args.published), place, args)
        return
    inputs.check_not_given(args, _RULES, "is for --tables: leave it out")
    own = args.encoder is None
    encoder = inputs.encoder_of(args) if own else _borrowed(args)
    order = args.order or encoder.order
    pairs = args.interactions or encoder.interactions
    if isinstance(pairs, (str, int)):
        raise ValueError(
            f"--interactions {pairs} chooses pairs in training: name the pairs to "
            "count, as in --interactions age:sex,age:stay."
        )
    if pairs is not None:
        order = args.order or 1
    if order == 1 and pairs is None:
        m = streams.counted_rows_of(args, encoder, args.class_conditional)
    else:
        with KeptRows() as store:
            rows = streams.coded_rows(args, encoder, store, constants=True)
            m = rows.marginals(args.class_conditional, order, pairs)
    if own:
        notes.warn_of_labels(m.encoder.single.columns)
    messages.print_notes(messages.notes_of(recorded))
    save(with_source(m, args.files), place, args)


def _published(args: Args) -> Marginals:
    """Return the marginals of published tables."""
    from renyi.sources import published

    names = ["encoder", "order", "interactions", "class_conditional", "weight"]
    names += OPTIONS
    inputs.check_not_given(args, names, "is for rows: leave it out with --tables")
    if args.files:
        raise ValueError(
            f"--tables takes the place of {args.files[0]}: pass rows or tables."
        )
    paths = files.distinct(map(files.existing, args.published))
    tables = [published.read_csv(path) for path in paths]
    rules = published.Rules.of(**{name: getattr(args, name) for name in _RULES})
    return published.marginals(tables, args.target, rules)


def _borrowed(args: Args) -> Encoder:
    """Return the fitted encoder of a model or of pair counts."""
    names = ["numeric", "categorical", "missing", "bins", "min_count", "unseen"]
    names += ["binning", "monotone"]
    why = "cannot be used with --encoder, which has its own"
    inputs.check_not_given(args, names, f"{why}: leave one of them out")
    if is_document(args.encoder, FORMAT):
        public = Encoder.load(args.encoder)
        target = inputs.target_of(args)
        return public.select(name for name in public.feature_names if name != target)
    encoder, target = encoder_of_file(args.encoder)
    if args.target in encoder.input_names:
        raise ValueError(
            f"{args.encoder} has {args.target!r} as a column to predict from: pass "
            f"the target that it has, --target {shlex.quote(target)}."
        )
    if encoder.interactions is not None and args.interactions is not None:
        raise ValueError(
            f"{args.encoder} has its own pairs of columns: leave --interactions out."
        )
    if encoder.order > 1 and args.order not in (None, encoder.order):
        raise ValueError(
            f"--order {args.order} does not fit {args.encoder}, which has order "
            f"{encoder.order}: leave --order out, or take an --encoder of order 1."
        )
    return encoder


def encoder_of_file(path: str) -> tuple[Encoder, str]:
    """Return the fitted encoder of a model or of pair counts, and their target."""
    if path.endswith(MARGINALS):
        m = load_marginals(path)
        return m.encoder, m.target
    if inputs.is_table(path):
        try:
            return encoder_of(read_points(files.existing(path))), ""
        except ValueError as error:
            why = str(error).rstrip(".")
            raise ValueError(f"{path}: {why}; {_ENCODER_FILES}.") from None
    fit = inputs.load_any_model(path, _ENCODER_FILES)
    return fit.encoder_, fit.target


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
            total = total.merged(m, allow_mixed=args.allow_mixed)
    if isinstance(total.uncertainty, Noise):
        warn("The budget of the sum is valid only if no person is in two of the files.")
    messages.print_notes(messages.notes_of(recorded))
    save(with_source(total, args.files), place, args)


def subtract(args: Args, recorded: Recorded) -> None:
    """Remove the rows of one file of pair counts from another."""
    place = output.check_place(args, args.out, (MARGINALS,))
    first = load_marginals(args.first)
    second = load_marginals(args.second)
    with inputs.naming(f"{args.second} cannot be subtracted from {args.first}"):
        rest = first - second
    save(dataclasses.replace(rest, provenance=first.provenance), place, args)


def show(args: Args, recorded: Recorded) -> None:
    """Print a summary of pair counts, or the table of two columns."""
    m = load_marginals(args.file)
    if args.pair is None:
        if args.json:
            output.print_json({**_facts(m), "cells": _few(m)})
        else:
            print(m)
            if m.uncertainty is not None:
                return
            few = _few(m)
            least = "below 2" if m.weighted else "1"
            print(
                f"Of {few['nonzero']:,} counts above zero, {few['below_10']:,} are "
                f"below 10, and {few['below_2']:,} of these are {least}."
            )
        return
    files.require(args.file, m.columns.names, args.pair)
    block = m.block(*args.pair)
    known = m.uncertainty
    ends = {}
    if isinstance(known, Intervals):
        cells = np.ix_(*(m.columns.spans([name]) for name in args.pair))
        ends = {"low": known.low[cells].tolist(), "high": known.high[cells].tolist()}
    if args.json:
        categories = [block.index.tolist(), block.columns.tolist()]
        counts = block.to_numpy().tolist()
        facts = {"columns": args.pair, "categories": categories, "counts": counts}
        output.print_json({**facts, **ends})
        return
    if ends:
        pairs = zip(ends["low"], ends["high"], strict=True)
        texts = [[f"{a} to {b}" for a, b in zip(*row, strict=True)] for row in pairs]
        block = pd.DataFrame(texts, block.index, block.columns)
    elif known is not None:
        block = block.round().astype(int)
        print("About, because of the noise:")
    print(block.to_string())


def save(m: Marginals, place: Path, args: Args) -> None:
    """Write pair counts, and say what they are."""
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
