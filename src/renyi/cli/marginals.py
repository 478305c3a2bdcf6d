"""The commands on marginals: build, merge, subtract and show."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from renyi.cli import streamed
from renyi.cli.inputs import (
    LARGE,
    encoder_of,
    load_marginals,
    load_model,
    read_rows,
    warn_of_identifiers,
    with_source,
)
from renyi.cli.output import (
    MARGINALS,
    Recorded,
    check_place,
    notes_of,
    print_json,
    print_notes,
)
from renyi.encoding.encoder import Encoder
from renyi.marginals.marginals import Marginals
from renyi.sources import files


def run(args: argparse.Namespace, recorded: Recorded) -> None:
    """Build, merge, subtract or show marginals."""
    actions = {"build": _build, "merge": _merge, "subtract": _subtract, "show": _show}
    actions[args.action](args, recorded)


def _build(args: argparse.Namespace, recorded: Recorded) -> None:
    """Count the pairs of a table."""
    if not args.print_sql:
        place = check_place(args.out, (MARGINALS,))
    encoder = encoder_of(args) if args.encoder is None else _borrowed(args)
    if args.print_sql:
        print("\n".join(f"{sql};" for sql in streamed.statements(args, encoder)))
        return
    order = args.order or encoder.order
    if streamed.requested(args, order, LARGE):
        m = streamed.marginals(args, encoder, args.class_conditional)
    else:
        m = _of_rows(args, encoder, order)
    print_notes(notes_of(recorded))
    _save_marginals(with_source(m, args.files), place, args)


def _of_rows(args: argparse.Namespace, encoder: Encoder, order: int) -> Marginals:
    """Count rows that are held in memory."""
    rows = read_rows(args, encoder)
    if args.encoder is None:
        warn_of_identifiers(rows.X)
    return rows.marginals(encoder, args.class_conditional, order)


def _borrowed(args: argparse.Namespace) -> Encoder:
    """Return the fitted encoder of a model or of marginals."""
    for option in ("numeric", "categorical", "missing", "bins", "min_count", "unseen"):
        if getattr(args, option):
            raise ValueError(
                f"--{option.replace('_', '-')} cannot be set beside --encoder, which "
                "brings its own: leave one of them out."
            )
    if args.encoder.endswith(MARGINALS):
        encoder = load_marginals(args.encoder).encoder
    else:
        encoder = load_model(args.encoder).encoder_
    if encoder.order > 1 and args.order not in (None, encoder.order):
        raise ValueError(
            f"--order {args.order} does not fit {args.encoder}, which is of order "
            f"{encoder.order}: leave --order out, or take an --encoder of order 1."
        )
    return encoder


def _merge(args: argparse.Namespace, recorded: Recorded) -> None:
    """Add marginals of disjoint rows."""
    place = check_place(args.out, (MARGINALS,))
    total = load_marginals(args.files[0])
    for path in args.files[1:]:
        try:
            total = total + load_marginals(path)
        except ValueError as error:
            raise ValueError(f"{path} does not fit {args.files[0]}: {error}") from None
    _save_marginals(with_source(total, args.files), place, args)


def _subtract(args: argparse.Namespace, recorded: Recorded) -> None:
    """Take the rows of some marginals out of others."""
    place = check_place(args.out, (MARGINALS,))
    first, second = load_marginals(args.first), load_marginals(args.second)
    try:
        rest = first - second
    except ValueError as error:
        raise ValueError(
            f"{args.second} cannot be subtracted from {args.first}: {error}"
        ) from None
    _save_marginals(dataclasses.replace(rest, provenance=first.provenance), place, args)


def _show(args: argparse.Namespace, recorded: Recorded) -> None:
    """Print what marginals hold, or the table of two columns."""
    m = load_marginals(args.file)
    if args.pair is None:
        if args.json:
            print_json(_marginals_facts(m))
        else:
            print(m)
        return
    files.require(args.file, m.columns.names, args.pair)
    block = m.block(*args.pair)
    if args.json:
        print_json(
            {
                "columns": args.pair,
                "categories": [block.index.tolist(), block.columns.tolist()],
                "counts": block.to_numpy().tolist(),
            }
        )
    else:
        print(block.to_string())


def _save_marginals(m: Marginals, place: Path, args: argparse.Namespace) -> None:
    m.save(place)
    if args.json:
        print_json({**_marginals_facts(m), "written": str(place)})
    else:
        print(f"Wrote {place}: {m!r}")


def _marginals_facts(m: Marginals) -> dict[str, Any]:
    totals = np.split(np.diag(m.counts), np.cumsum(m.columns.sizes)[:-1])
    columns = [
        {
            "name": column.name,
            "kind": column.kind,
            "counts": dict(zip(column.levels.texts, total.tolist(), strict=True)),
        }
        for column, total in zip(m.columns, totals, strict=True)
    ]
    return {
        "rows": m.n,
        "weighted": m.weighted,
        "order": m.order,
        "target": m.target,
        "class_conditional": m.class_counts is not None,
        "provenance": dict(m.provenance),
        "columns": columns,
    }
