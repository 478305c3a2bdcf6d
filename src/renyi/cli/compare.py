"""The command compare: methods or models on the same rows, as text, JSON or a page."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from renyi import __version__
from renyi.cli import inputs, output, streams
from renyi.cli.evaluation import SEEN, Comparison, Estimate, Evaluation, compare
from renyi.cli.methods import (
    DEFAULT,
    EVERY_ORDER,
    MAJORITY,
    ORDER2,
    Method,
    Rows,
    Settings,
    every_method,
    named_methods,
)
from renyi.cli.output import Facts, Meter, Recorded, one_line
from renyi.cli.parser import Args
from renyi.cli.predict import heldout_rows
from renyi.encoding.columns import label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.rows import different_rows
from renyi.estimators.model_file import AnyFit
from renyi.files import MARGINALS, encoded, replacing
from renyi.fitting.kernel import SEARCHED, KernelFit
from renyi.formatting import (
    at_most,
    chosen_percent,
    number_of,
    percent,
    wrapped,
)
from renyi.limits import memory_budget
from renyi.report.charts import Mark, Panel, decimal_tick
from renyi.report.page import Section, render
from renyi.report.summary import name as quoted_name
from renyi.report.summary import quoted
from renyi.warnings import warn

if TYPE_CHECKING:
    from renyi.estimators.classifier import RenyiClassifier
    from renyi.estimators.kernel import KernelRenyiClassifier

_FOLDS = 10
_MOST_OPERATIONS = 2e11  # of all fits of pairs of columns: about a minute
_SEARCHES = 25  # that choose a kernel, each at the cost of an exact solution
_MOST_OF_EVERY_ORDER = 7e11  # operations of all fits: about a minute
_TABLES = 3  # of a number for every two categories that a fit holds in memory
_NAME = 18


def run(args: Args, recorded: Recorded) -> None:
    """Train and evaluate; print the result, and write the page."""
    place = output.check_out(args, args.out, (".html",))
    trained = bool(args.methods) or not args.models
    confidence = args.confidence or 0.95
    settings = Settings(inputs.encoder_of(args), args.seed or 0)
    known = every_method(settings)
    folds = _folds(args, trained, known)
    with streams.repeatable_rows(args, settings.encoder) as opened:
        rows = _rows_and_models(args, opened, settings.encoder, trained)
    them = _renamed(rows.models, args.models, known)
    if folds is not None:
        names = known if args.methods == ["all"] else args.methods
        names = names or _affordable(rows, folds + 1)
        them = [*named_methods(names, known), *them]
    with Meter() as meter:
        comparison = compare(
            them,
            rows.X,
            rows.y,
            target=rows.target,
            folds=folds,
            confidence=confidence,
            seed=settings.seed,
            progress=meter,
        )
    facts: Facts = comparison.to_dict()
    if place is not None:
        title = f"Comparison on {Path(opened.name).name}"
        page = comparison_page(comparison, title, output.command(args.argv))
        with replacing(place) as stream:
            stream.write(encoded(page))
        facts["written"] = str(place)
    output.show(args, facts, partial(_text, comparison), recorded)


def _folds(args: Args, trained: bool, known: Collection[str]) -> int | None:
    """Return the folds, None if there are models only, after a look at the options."""
    alike = "whose intervals are for rows of equal weight: leave it out"
    inputs.check_not_given(args, ["weight"], f"cannot be used with compare, {alike}")
    if args.file.endswith(MARGINALS):
        raise ValueError(
            f"compare needs rows, but {args.file} holds marginals: name a table."
        )
    if not trained:
        why = (
            "is for methods that are trained: leave it out with --models, or name "
            "some with --methods"
        )
        inputs.check_not_given(args, ["folds"], why)
        return None
    inputs.check_separate(args, ["methods"], known)
    return args.folds or _FOLDS


class _Rows(NamedTuple):
    """The rows, their classes, the target's name, and the models."""

    X: Rows
    y: ArrayLike
    target: str
    models: list[Method]
    sizes: NDArray[np.int64] | None = None  # categories of each column
    different: int = 0  # rows


def _affordable(rows: _Rows, fits: int) -> list[str]:
    """Return the methods to train by default; warn of those that are left out."""
    left_out = [*_order_two(rows, fits), *_every_order(rows, fits)]
    for name, reason in left_out:
        if reason:
            warn(
                f"{name} ({reason}) is left out: it would take much longer than the "
                f"others, or too much memory. Pass --methods {' '.join(DEFAULT)} to "
                "include it."
            )
    absent = {name for name, _ in left_out}
    return [name for name in DEFAULT if name not in absent]


def _order_two(rows: _Rows, fits: int) -> Iterator[tuple[str, str]]:
    """Yield the method of order 2 with the reason if it is to be left out."""
    assert rows.sizes is not None
    n = len(np.asarray(rows.y, object))
    total = int(rows.sizes.sum())
    categories = (total**2 - int((rows.sizes**2).sum())) // 2
    equations = min(n, categories)
    pairs = len(rows.sizes) * (len(rows.sizes) - 1) // 2
    size = _TABLES * 8 * equations**2 + 2 * n * pairs
    if not pairs:
        yield ORDER2, ""
    elif fits * equations**3 > _MOST_OPERATIONS or size > memory_budget():
        yield (
            ORDER2,
            f"points of pairs of columns: {pairs:,} pairs with {categories:,} "
            f"categories in {n:,} rows",
        )


def _every_order(rows: _Rows, fits: int) -> Iterator[tuple[str, str]]:
    """Yield the method of every order with the reason if it is to be left out."""
    n = rows.different
    if fits * (_SEARCHES * min(n, SEARCHED) ** 3 + n**3) > _MOST_OF_EVERY_ORDER:
        yield EVERY_ORDER, f"tuples of all sizes: {n:,} different rows"


def _rows_and_models(
    args: Args, opened: streams.OpenedRows, encoder: Encoder, trained: bool
) -> _Rows:
    """Read the rows as learners take them, and as each model does."""
    X: Rows | None = None
    y: ArrayLike | None = None
    target = args.target
    sizes = None
    different = 0
    if trained:
        table = streams.read_table(args, opened, encoder)
        rows = streams.without_constants(opened.name, table)
        # An identifier is named by its number of labels in all rows, not in a fold.
        fitted, codes = encoder.fit_transform(rows.X)
        sizes = fitted.columns.sizes
        different = len(different_rows(codes)[0])
        X = rows.X
        y = rows.y
        target = rows.target
    models = []
    for path in dict.fromkeys(args.models):
        fit = inputs.load_any_model(path)
        clf = _estimator_of(fit)
        if clf.random_state is None:
            clf.random_state = args.seed or 0
        own, cells = heldout_rows(fit, path, opened, args.target)
        labels = np.array([label_text(cell) for cell in cells], object)
        if y is None:
            X = own
            y = labels
            target = args.target or fit.target
        else:
            _check_same_rows(opened.name, path, labels.tolist(), y)
        about = f"a model of rule {fit.rule}"
        if isinstance(fit, KernelFit):
            about = "a model of every order"
        models.append(Method(Path(path).name, about, clf, trained=True, X=own))
    assert X is not None and y is not None  # there are methods, or models
    return _Rows(X, y, target, models, sizes, different)


def _estimator_of(fit: AnyFit) -> RenyiClassifier | KernelRenyiClassifier:
    """Return a trained model as an estimator."""
    from renyi.estimators.classifier import RenyiClassifier, classifier_of
    from renyi.estimators.kernel import KernelRenyiClassifier, kernel_classifier_of

    if isinstance(fit, KernelFit):
        return kernel_classifier_of(fit, KernelRenyiClassifier())
    return classifier_of(fit, RenyiClassifier())


def _check_same_rows(name: str, path: str, labels: list[str], y: ArrayLike) -> None:
    if labels != [label_text(cell) for cell in np.asarray(y, object).tolist()]:
        raise ValueError(
            f"{path} predicts another column, or uses other rows of {name}, than "
            "the rest of the comparison: compare it separately."
        )


def _renamed(
    models: list[Method], paths: Iterable[str], known: Collection[str]
) -> list[Method]:
    """Return models by their paths where names of files are not enough."""
    names = [*known, *(model.name for model in models)]
    if len(set(names)) == len(names):
        return models
    return [
        model._replace(name=f"./{path}" if path in known else path)
        for model, path in zip(models, dict.fromkeys(paths), strict=True)
    ]


# ---- sentences


def how_evaluated(comparison: Comparison) -> str:
    """Say which rows were evaluated, and what the intervals are."""
    sure = chosen_percent(comparison.confidence)
    rows = number_of(comparison.rows, "row")
    fixed = any(e.seconds is None for e in comparison.evaluated)
    models = " Models were evaluated as they are." if fixed else ""
    if comparison.folds is not None:
        return (
            f"Each of {rows} was predicted by a model trained on the other folds of "
            f"{comparison.folds}. Intervals of {sure}: corrected resampled t, "
            "approximate, about the method rather than one model; of errors never "
            f"narrower than Clopper and Pearson's.{models}"
        )
    return (
        f"Evaluated on {rows}. Intervals of {sure}: of errors Clopper and "
        "Pearson's, of the log loss by the t distribution, approximate."
    )


def summary(comparison: Comparison) -> str:
    """Say which is best, and which may be."""
    done = comparison.evaluated
    best = done[0]
    assert best.error is not None
    least = percent(best.error.value)
    text = f"{quoted_name(best.name)} has the lowest observed error, {least}."
    if MAJORITY not in (entry.name for entry in done):
        baseline = percent(comparison.baseline)
        always = quoted(comparison.always)
        text += f" Always answering {always} is wrong on {baseline}."
    if best.note == SEEN:
        return f"{text} But {SEEN}."
    may = [entry for entry in done if entry.may_be_best]
    if len(done) == 1:
        return text
    if may == [best]:
        sure = chosen_percent(comparison.confidence)
        return f"{text} With confidence {sure} it is the best of these {len(done)}."
    others = f"{len(may)} of {len(done)} may be the best"
    return f"{text} These rows do not decide which is best: {others}."


# ---- as text

_ERRORS = "{:<20} {:>8} {:>16} {:>9} {:>17}"
_LOSSES = "{:<20} {:>8} {:>15} {:>10} {:>8} {:>8}"


def _text(comparison: Comparison, facts: Facts) -> str:
    """Return the comparison as plain text."""
    sure = chosen_percent(comparison.confidence)
    target = one_line(comparison.target, 40)
    done = comparison.evaluated
    lines = [f"Methods for {target!r}, lowest error first (*: may be the best)"]
    lines.append(_ERRORS.format("", "error, %", sure, "to best", sure))
    lines += map(_error_line, done)
    heads = ("", "log loss", sure, "guarantee", "at most", "seconds")
    useful = [_is_useful(e, comparison.baseline) for e in done]
    lines += ["", _LOSSES.format(*heads), *map(_loss_line, done, useful)]
    texts = [summary(comparison), how_evaluated(comparison), *_legend(done, useful)]
    failed = [e for e in comparison.entries if e.failure]
    texts += [f"Not compared: {one_line(e.name, _NAME)}: {e.failure}" for e in failed]
    noted = [e for e in done if e.note]
    texts += [f"Note on {one_line(e.name, _NAME)}: {e.note}." for e in noted]
    lines += ["", *map(wrapped, texts)]
    if "written" in facts:
        lines.append(f"Wrote {facts['written']}")
    return "\n".join(lines)


def _is_useful(e: Evaluation, baseline: float) -> bool:
    """Whether a guarantee says more than always answering the same class."""
    return e.worst_case is not None and not e.doubtful and e.worst_case < baseline


def _legend(done: list[Evaluation], useful: list[bool]) -> Iterable[str]:
    """Yield what the bounds cover, and why some are not shown."""
    names = {e.name for e in done}
    if "map" in names and names & {ORDER2, EVERY_ORDER}:
        yield "map is the model of order 1, of single columns."
    if any(useful):
        yield (
            "Guarantee: wrong on at most this share, in %, of any population with the "
            "pair counts of the training rows, or with the counts that a note names."
        )
    if any(e.worst_case is not None for e in done) and not all(
        shown for e, shown in zip(done, useful, strict=True) if e.worst_case is not None
    ):
        yield (
            "A guarantee that is not below the baseline, or is from too few rows, is "
            "not shown."
        )
    if any(e.population is not None for e in done):
        yield (
            "At most: an upper bound on the error, in %, on the population that these "
            "rows come from. Quote it for a model that you chose before this test."
        )


def _error_line(e: Evaluation) -> str:
    apart = ("", "") if e.difference is None else e.difference.texts(1, 100, "+")
    assert e.error is not None
    label = f"{'*' if e.may_be_best else ' '} {one_line(e.name, _NAME)}"
    return _ERRORS.format(label, *e.error.texts(1, 100), *apart).rstrip()


def _loss_line(e: Evaluation, useful: bool) -> str:
    loss = ("–", "") if e.log_loss is None else e.log_loss.texts(3)
    worst = _bare(e.worst_case) if useful and e.worst_case is not None else "–"
    bound = "–" if e.population is None else _bare(e.population)
    spent = "" if e.seconds is None else f"{e.seconds:.2f}"
    label = f"  {one_line(e.name, _NAME)}"
    return _LOSSES.format(label, *loss, worst, bound, spent).rstrip()


def _bare(share: float) -> str:
    return f"≤ {at_most(share, 1)}".replace(" %", "")


# ---- as a page

_SECTIONS = (
    Section("chart", "At a glance"),
    Section("table", "All figures"),
    Section("reading", "How to read this"),
    Section("settings", "How it was made"),
)


def comparison_page(comparison: Comparison, title: str, command: str) -> str:
    """Return the page."""
    view = {
        "comparison": comparison,
        "summary": summary(comparison),
        "how": how_evaluated(comparison),
        "panels": _panels(comparison),
        "command": command,
        "version": __version__,
    }
    return render(title, _SECTIONS, view=view)


def _panels(comparison: Comparison) -> list[Panel]:
    """Return the figures that are drawn, those of one kind on one scale."""
    sure = chosen_percent(comparison.confidence)
    done = comparison.evaluated
    errors = [_interval(e.error, 1, 100, " %") for e in done]
    useful = [_is_useful(e, comparison.baseline) for e in done]
    worst = [
        _bound(e.worst_case) if shown else None
        for e, shown in zip(done, useful, strict=True)
    ]
    population = [_bound(e.population) for e in done]
    losses = [_interval(e.log_loss, 3) for e in done]
    panels = [
        Panel("Error to expect", errors),
        Panel("Guarantee", worst),
        Panel(f"At most, with {sure} confidence", population),
        Panel("Log loss", losses, decimal_tick),
    ]
    return [panel for panel in panels if any(panel.marks)]


def _interval(
    estimate: Estimate | None, digits: int, unit: float = 1, end: str = ""
) -> Mark | None:
    if estimate is None:
        return None
    shown = estimate.shown(digits, unit, end)
    return Mark(**estimate._asdict(), shown=shown)


def _bound(upper: float | None) -> Mark | None:
    if upper is None:
        return None
    return Mark(high=upper, shown=f"≤ {at_most(upper, 1)}")
