"""The command explain: the points of each row's columns, their total, and the answer.

For two classes the points are those of the second, the answer if the total is above 0.
For more, they are the points of the class that is answered.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from renyi.cli import inputs, messages, output, streams
from renyi.cli.output import Facts, Meter, Recorded, one_line
from renyi.cli.parser import WRITTEN, Args
from renyi.cli.predict import (
    PREDICTION,
    RowsToAnswer,
    check_output_names,
    copied_columns,
    requested_rows,
    unseen_cells,
    warn_of_unseen,
)
from renyi.encoding.columns import label_text
from renyi.estimators.model_file import AnyFit
from renyi.fitting.kernel import INTERACTIONS, KernelFit
from renyi.formatting import number_of
from renyi.sources import files

_SHOWN_ROWS = 3  # unless a row, a file or JSON is asked for
_SHOWN_COLUMNS = 12
_WIDTH = 26  # of a name or a value
_DECIMALS = 6  # of points in CSV


class ExplainedRows(NamedTuple):
    """Some rows with their points; the last points are the intercept."""

    start: int  # place of the first row among all, from 0
    ids: pa.Table
    codes: NDArray[Any]  # (features, n)
    answers: NDArray[np.intp]  # places of the classes
    points: NDArray[np.float64]  # (n, parts)
    totals: NDArray[np.float64]  # (n, K), or (n, 1) for two classes

    def total(self, row: int) -> float:
        """Return the sum of the points of a row."""
        return float(self.points[row].sum())


def run(args: Args, recorded: Recorded) -> None:
    """Show or write the points of rows."""
    place = output.check_out(args, args.out, WRITTEN)
    clf = inputs.load_any_model(args.model)
    with streams.opened_rows(args, clf.encoder_) as opened:
        rows = requested_rows(args, clf, opened)
        if place is None and not args.json:
            _print_rows(args, rows, recorded)
        else:
            _write_rows(args, rows, place, recorded)


def _explained(
    args: Args, rows: RowsToAnswer, most: float = math.inf
) -> Iterator[ExplainedRows]:
    """Yield the rows that are asked for, no more than `most`, batch after batch."""
    clf = rows.clf
    first = 0 if args.row is None else args.row - 1
    last = most if args.row is None else args.row
    unseen = np.zeros((2, len(clf.encoder_.single.columns)), np.int64)
    start = 0
    for X, ids, _ in rows.batches():
        begin = max(first - start, 0)
        count = int(min(last - start, X.num_rows)) - begin
        if count > 0:
            part = X.slice(begin, count)
            unseen += unseen_cells(clf, part)
            yield _points(clf, part, ids.slice(begin, count), start + begin)
        start += X.num_rows
        if start >= last:
            break
    if not start:
        raise files.no_rows(rows.tables, rows.where)
    if args.row is not None and start < args.row:
        raise ValueError(
            f"--row {args.row} is beyond the last row: there are "
            f"{number_of(start, 'row')}."
        )
    warn_of_unseen(clf, unseen)


def _points(clf: AnyFit, X: pa.Table, ids: pa.Table, start: int) -> ExplainedRows:
    """Return rows with their points, for the class that is answered if many."""
    codes = clf.encoder_.transform(X)
    answers = clf.answers(codes)
    points = clf.parts(codes)  # (n, parts, 1 or K)
    of_class = answers if points.shape[2] > 1 else np.zeros(len(points), np.intp)
    chosen = points[np.arange(len(points)), :, of_class]
    return ExplainedRows(start, ids, codes, answers, chosen, points.sum(axis=1))


# ---- tables and JSON


def _write_rows(
    args: Args, rows: RowsToAnswer, place: Path | None, recorded: Recorded
) -> None:
    types = {**rows.id_types, PREDICTION: pa.array(rows.clf.classes_).type}
    facts: Facts = {}
    count = 0
    with (
        output.answering(args, place, facts, types) as write,
        Meter(place is not None),
    ):
        for part in _explained(args, rows):
            write(_table(args, rows.clf, part))
            count += len(part.points)
        notes = messages.notes_of(recorded)
        facts |= {"rows": count, "points_for": _points_for(rows.clf), "notes": notes}
    if not args.json:
        messages.print_notes(notes)
        print(f"Wrote {place} ({number_of(count, 'row')})", file=sys.stderr)


def _points_for(clf: AnyFit) -> str:
    """Return whose points are given: those of the second of two classes."""
    labels = clf.classes_.tolist()
    return label_text(labels[1]) if len(labels) == 2 else PREDICTION


def _table(args: Args, clf: AnyFit, part: ExplainedRows) -> pd.DataFrame:
    """Return ids, answers, totals and points; in CSV with few decimals."""
    full = args.out.endswith(".parquet") if args.out else args.json
    points = part.points if full else part.points.round(_DECIMALS)
    totals = part.points.sum(axis=1)
    names = [f"points_{name}" for name in clf.encoder_.feature_names]
    names += _interactions(clf)
    columns: dict[str, Any] = {
        PREDICTION: clf.classes_[part.answers],
        "total": totals if full else totals.round(_DECIMALS),
        "intercept": points[:, -1],
    }
    columns |= dict(zip(names, points[:, :-1].T, strict=True))
    kept = copied_columns(part.ids)
    check_output_names(kept, columns)
    return pd.DataFrame({**kept, **columns})


# ---- text


def _print_rows(args: Args, rows: RowsToAnswer, recorded: Recorded) -> None:
    blocks = [
        "\n".join(_row_text(rows.clf, part, k))
        for part in _explained(args, rows, _SHOWN_ROWS)
        for k in range(len(part.points))
    ]
    messages.print_notes(messages.notes_of(recorded))
    print("\n\n".join(blocks))
    if args.row is None and len(blocks) == _SHOWN_ROWS:
        print(f"\nThe first {_SHOWN_ROWS} rows. Another: --row N; all: --out FILE.csv")


def _row_text(clf: AnyFit, part: ExplainedRows, row: int) -> list[str]:
    """Return the points of a row as lines, the largest first."""
    labels = [label_text(label) for label in clf.classes_.tolist()]
    answer = _shown(labels[part.answers[row]])
    own = [
        f"{_shown(name)} {_shown(str(part.ids[name][row].as_py()))}"
        for name in part.ids.column_names
    ]
    which = f" ({', '.join(own)})" if own else ""
    together = _interactions(clf)
    names = [*map(_shown, clf.encoder_.feature_names), *together]
    values = [_shown(text) for text in _values(clf, part.codes[:, row])]
    values += [""] * len(together)
    points = part.points[row]
    order = np.argsort(-np.abs(points[:-1]), kind="stable").tolist()
    rest = order[_SHOWN_COLUMNS:]
    lines = [(names[j], values[j], points[j]) for j in order[:_SHOWN_COLUMNS]]
    if rest:
        lines.append((f"{len(rest):,} more", "", points[rest].sum()))
    lines.append(("every row", "", points[-1]))
    whose = _shown(labels[1]) if len(labels) == 2 else answer
    wide = max(len(name) for name, _, _ in [*lines, ("column", "", 0)])
    long = max(len(value) for _, value, _ in [*lines, ("", "value", 0)])
    return [
        f"Row {part.start + row + 1:,}{which}: {answer!r}",
        f"  {'column':<{wide}}  {'value':<{long}}  points for {whose!r}",
        *(f"  {name:<{wide}}  {value:<{long}}  {p:+.4f}" for name, value, p in lines),
        f"  {'total':<{wide}}  {'':<{long}}  {part.total(row):+.4f}"
        f"{_verdict(clf, labels, part.totals[row])}",
    ]


def _interactions(clf: AnyFit) -> list[str]:
    """Return the part of the score that is of no single column, of every order."""
    return [INTERACTIONS] if isinstance(clf, KernelFit) else []


def _values(clf: AnyFit, codes: NDArray[Any]) -> Iterator[str]:
    """Yield what the cells of a row are taken for."""
    for column, code in zip(clf.encoder_.columns, codes.tolist(), strict=True):
        texts = column.levels.texts
        yield texts[code] if code < len(texts) else "(unseen)"


def _verdict(clf: AnyFit, labels: Sequence[str], totals: NDArray[np.float64]) -> str:
    """Say how a total becomes the answer."""
    if clf.rule != "map":
        return f"   (rule {clf.rule} answers at random by it)"
    if len(labels) == 2:
        side = "above" if totals[0] > 0 else "not above"
        return f"   ({side} 0)"
    second = int(np.argsort(-totals, kind="stable")[1])
    return f"   (next: {_shown(labels[second])!r} {totals[second]:+.4f})"


def _shown(text: str) -> str:
    return one_line(text, _WIDTH)
