"""The command fit: train and certify a classifier.

It prints three figures of the error, then what matters most; all else with
``--details``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from renyi import __version__
from renyi.certificates.error_table import ErrorTable, error_table
from renyi.certificates.left_out import error_interval
from renyi.certificates.record import EVERY_ORDER, Certificate
from renyi.certificates.text import detail_lines, merged_bins
from renyi.certificates.three_lines import Advice, quoted, three_lines
from renyi.certification import Warned, certify_heldout
from renyi.cli import every_order, inputs, notes, output, streams
from renyi.cli.every_order import KernelLearner
from renyi.cli.output import Facts, Recorded, indented, one_line
from renyi.cli.parser import SMALL, Args
from renyi.cli.streams import CodedRows
from renyi.counting.onehot import offsets
from renyi.counting.pair_counts import table_bytes
from renyi.encoding.columns import label_text
from renyi.encoding.rows import SAMPLE, TrainingRows
from renyi.estimators.model_file import AnyFit
from renyi.files import MARGINALS, same_file
from renyi.fitting.kernel import ORDERS, KernelFit
from renyi.fitting.look import Look, look_at_pairs
from renyi.fitting.record import Fit
from renyi.fitting.settings import AUTO, Settings
from renyi.fitting.training import fit_counts, fit_rows, uses_rows, weight_notes
from renyi.formatting import (
    WIDTH,
    number_of,
    number_of_rows,
    percent,
    wrapped,
)
from renyi.marginals.file import rows_text
from renyi.marginals.marginals import Marginals
from renyi.scorecard import Scorecard, by_importance
from renyi.sources.kept_rows import KeptRows
from renyi.sources.run import Split
from renyi.validation import InputError
from renyi.warnings import warn

_TOP = 10
_MOST_LOOKED_THROUGH = 1_000_000  # rows, to draw a sample of which takes a moment
_HOLDOUT = 0.3  # share of the rows that certify the model
_NAME = 26  # of a feature: leaves room for two classes with their points
_IMPORTANCE = "importance"
_SHOWN = 5e-4  # an importance that is not shown as 0.000
_PROBABILITIES = {
    None: "the nearest ones to the scores",
    "temperature": "one temperature, fitted to leave-one-out scores",
    "sigmoid": "slope and intercept, fitted to leave-one-out scores",
    "affine": "an affine map of the scores, fitted to leave-one-out scores",
    "discriminant": "linear discriminant of the scores, from pair counts alone",
    "log-odds": "the logistic function of the scores",
}
_METHODS = {
    "given": "as given",
    "loo": "chosen by leave-one-out",
    "folds": "chosen by ten-fold cross-validation",
    "gcv": "chosen by generalised cross-validation",
    "certificate": "chosen by the guarantee",
    "noise": "in proportion to the noise",
}


def run(args: Args, recorded: Recorded) -> None:
    """Train a classifier and certify it."""
    from_counts = args.file.endswith(MARGINALS)
    may_write = args.marginals or (args.marginals is None and not from_counts)
    prefix = output.prefix_of(args, may_write)
    if args.confidence is None:
        why = "is for --confidence: add it, or leave both out"
        inputs.check_not_given(args, ["holdout"], why)
    learn = train if args.confidence is None else _train_and_test
    with KeptRows() as store:
        trained = learn(args, _learner(args), store)
        fit, facts, _ = trained
        look = _look(args, trained)
        m = _marginals_to_write(args, trained)
    facts["look_at_pairs"] = look and look._asdict()
    if prefix is not None and m is None and not isinstance(fit, KernelFit):
        place = Path(prefix + MARGINALS)
        other = Path(args.file)
        if place.is_file() and not same_file(place, other):
            warn(
                f"{place} was not overwritten: its marginals are not those of this "
                "model. Pass --marginals to replace them."
            )
    text = partial(
        fit_text,
        c=fit.certificate_,
        more=[
            *every_order.paragraphs(fit),
            *_choice_text(args, fit),
            *_look_text(look),
        ],
        heldout=fit.heldout,
        details=args.details,
    )
    output.keep_model(args, fit, m, facts, text, recorded)


def _learner(args: Args) -> ModelLearner | KernelLearner:
    """Return what the options train."""
    if args.order == every_order.ALL:
        return KernelLearner.of(args)
    settings = Settings(
        order=args.order or 1,
        interactions=args.interactions,
        alpha=args.alpha,
        rule=args.rule,
        fit_intercept=not args.no_intercept,
        class_weight=args.class_weight,
        random_state=args.seed,
        calibration=None if args.calibration == "none" else args.calibration,
        objective=args.objective,
        class_conditional=args.class_conditional,
    )
    return ModelLearner(settings)


def _choice_text(args: Args, fit: AnyFit) -> list[str]:
    """Say which order was chosen, or that no pairs were."""
    if args.order == AUTO:
        skipped = "order" in fit.certificate_.warning_codes
        tried = "those tried" if skipped else "1, 2 and 3"
        return [f"Order {fit.settings.tuple_order} chosen of {tried}."]
    if args.interactions == AUTO and fit.encoder_.interactions is None:
        return ["No pair of columns chosen: none helps beyond chance."]
    return []


def _look(args: Args, trained: Trained[AnyFit]) -> Look | None:
    """Return what pairs of columns would add, where that is clear and cheap to see."""
    fit, _, rows = trained
    asked = args.order is not None or isinstance(fit, KernelFit)
    if asked or not isinstance(rows, CodedRows) or rows.n > _MOST_LOOKED_THROUGH:
        return None
    assert isinstance(fit, Fit)
    look = None
    with suppress(MemoryError, InputError):  # too large to look at
        look = look_at_pairs(fit, rows.sample(), rows.n)
    return look if look is not None and look.is_clear else None


def _look_text(look: Look | None) -> list[str]:
    """Say what pairs of columns would add."""
    if look is None:
        return []
    single = percent(look.single).removesuffix(" %")
    where = f" (on a sample of {look.rows:,} rows)" * look.sampled
    text = (
        "Order 2 would lower the error to expect from "
        f"{single} to {percent(look.pairs)}{where}: --order 2"
    )
    return [wrapped(text)]


Model = TypeVar("Model", bound=AnyFit, covariant=True)


class Trained(NamedTuple, Generic[Model]):
    """A model, the facts to show, and the rows or counts that it learned from."""

    fit: Model
    facts: Facts
    source: CodedRows | Marginals


class Learner(Protocol[Model]):
    """What a command trains, on rows or on counts."""

    def on_rows(self, rows: CodedRows) -> tuple[Model, TrainingRows | None]:
        """Train on rows; return those that were needed in memory."""
        ...

    def on_counts(self, m: Marginals) -> Model:
        """Train on counts, of whatever order they are."""
        ...


class ModelLearner:
    """Trains a model of all columns."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def on_rows(self, rows: CodedRows) -> tuple[Fit, TrainingRows | None]:
        """Train on the rows where they contain more than counts, else on a sample."""
        settings = self.settings
        if rows.encoder.is_fine:
            return self._on_fine_rows(rows)
        order = settings.tuple_order
        if order > 1 or settings.pairs is not None:
            tuples = rows.in_tuples(order, settings.pairs)
            return fit_rows(tuples, settings), tuples
        if settings.chooses_pairs or settings.chooses_order:
            joined = rows.joined()
            fit = fit_rows(joined, settings)
            return fit, joined.in_features(fit.encoder_)
        effective_n = float(rows.n)
        warned: tuple[Warned, ...] = ()
        if rows.store.weighted:
            weighed = rows.weights()
            effective_n = weighed.effective_n
            warned = weight_notes(weighed)
        K = len(rows.target.categories)
        if uses_rows(rows.n, effective_n, rows.n_indicators, K, settings):
            joined = rows.joined()
            return fit_rows(joined, settings), joined
        fit = fit_counts(
            rows.marginals(settings.class_pairs_reason is not None),
            settings,
            effective_n=effective_n,
            sample=rows.sample(),
            notes=warned,
        )
        return fit, None

    def _on_fine_rows(self, rows: CodedRows) -> tuple[Fit, TrainingRows | None]:
        """Train on bins that are merged by the classes; folds merge those of few rows.

        Tuples of columns need all rows in memory.
        """
        settings = self.settings
        chosen = settings.chooses_order or settings.interactions is not None
        several = chosen or settings.tuple_order > 1
        if several or rows.n <= SAMPLE:
            joined = rows.joined()
            fit = fit_rows(joined, settings)
            return fit, joined.in_features(fit.encoder_)
        merged = rows.merged()
        fit, block = self.on_rows(merged)
        merges = merged_bins(rows.encoder.columns, merged.encoder.columns)
        return dataclasses.replace(fit, notes=(*fit.notes, *merges)), block

    def on_counts(self, m: Marginals) -> Fit:
        """Train on counts, of whatever order they are."""
        if self.settings.interactions is not None:
            return fit_counts(m, self.settings)
        return fit_counts(m, self.settings.of_counts(m))


def train(args: Args, learner: Learner[Model], store: KeptRows) -> Trained[Model]:
    """Train on the rows or counts that a command names; `store` takes the rows."""
    if inputs.names_counts(args):
        return _train_on_counts(args, learner)
    return _train_on_rows(
        learner, streams.coded_rows(args, inputs.encoder_of(args), store)
    )


def _train_on_rows(learner: Learner[Model], rows: CodedRows) -> Trained[Model]:
    notes.warn_of_labels(rows.encoder.columns)
    named = notes.warn_of_rows(rows)
    fit, block = learner.on_rows(rows)
    if rows.encoder.is_fine:
        rows = rows._replace(encoder=fit.encoder_.single)
    notes.warn_of_leak(fit.certificate_, rows.target.name, named)
    error = _error(fit, rows.blocks() if block is None else [block])
    facts = _fit_facts(fit, rows.target.name, rows.shares(), error)
    return Trained(fit, facts, rows)


def _train_on_counts(args: Args, learner: Learner[Model]) -> Trained[Model]:
    m = inputs.chosen_marginals(args)
    inputs.check_missing_class(m, args.file)
    if args.order == AUTO:
        raise ValueError(
            f"--order auto chooses an order by rows, and {args.file} contains counts "
            f"of order {m.order}: leave it out, or name a table."
        )
    if args.order not in (None, m.order):
        raise ValueError(
            f"--order {args.order} does not fit {args.file}, which has marginals "
            f"of order {m.order}: leave it out, or count again with 'renyi "
            f"marginals build TABLE --order {args.order}'."
        )
    if args.unseen is not None:
        settings = dataclasses.replace(m.settings, unseen=args.unseen)
        m = dataclasses.replace(m, settings=settings)
    fit = learner.on_counts(m)
    pairs = zip(m.classes, m.class_probabilities, strict=True)
    shares = {label_text(label): float(p) for label, p in pairs}
    facts = _fit_facts(fit, m.target, shares)
    if m.uncertainty is not None:
        facts["rows_known"] = rows_text(m)
    return Trained(fit, facts, m)


def _train_and_test(
    args: Args, learner: Learner[Model], store: KeptRows
) -> Trained[Model]:
    """Train on some of the rows, and certify the model by those held out."""
    _check_splittable(args)
    share = _HOLDOUT if args.holdout is None else args.holdout
    split = Split(share, args.seed or 0)
    with streams.split_rows(args, inputs.encoder_of(args), store, split) as parts:
        rows, heldout = parts
        trained = _train_on_rows(learner, rows)
        seen = heldout.rows(trained.fit)
    c = certify_heldout(trained.fit, seen, args.confidence)
    fit = dataclasses.replace(trained.fit, heldout=c)
    table = error_table(fit.certificate_, heldout=c)
    more = {"heldout": certificate_facts(c), "errors": error_facts(table)}
    return Trained(fit, trained.facts | more, rows)


def _check_splittable(args: Args) -> None:
    """Reject what has no rows to hold out, or of which nothing is proved."""
    if args.weight is not None:
        raise ValueError(
            "--weight cannot be used with --confidence: the certificate is proved for "
            "rows that were drawn independently and have equal weights. Leave one of "
            "them out."
        )
    for name in args.files:
        if name.endswith(MARGINALS):
            raise ValueError(
                f"--confidence needs rows to hold out, but {name} contains pair "
                "counts: name a table, or leave --confidence out."
            )


def _error(fit: AnyFit, blocks: Iterable[TrainingRows]) -> float:
    """Return the share of rows that a model answers wrongly."""
    wrong = 0.0
    total = 0.0
    for block in blocks:
        codes = block.codes[block.encoder.columns.places(fit.encoder_.feature_names)]
        wrong += float(block.weights @ (fit.answers(codes) != block.y))
        total += float(block.weights.sum())
    return wrong / total


def _marginals_to_write(args: Args, trained: Trained[AnyFit]) -> Marginals | None:
    """Return the marginals to write, if any; a warning says if they are too large."""
    fit, _, source = trained
    if isinstance(source, Marginals):  # written again only if asked for
        return _counts_to_write(args, fit, source)
    if args.out is None or args.marginals is False or isinstance(fit, KernelFit):
        return None
    sizes = [*fit.encoder_.columns.sizes.tolist(), len(fit.classes_)]
    size = table_bytes(sizes, 0, fit.certificate_.n * len(sizes) ** 2)
    # Whatever the certificate rests on is also written: else it cannot be verified.
    within = args.class_conditional or fit.settings.class_pairs_reason is not None
    size += table_bytes(sizes, len(fit.classes_)) * within
    if args.marginals is None and size >= SMALL:
        warn(
            f"The marginals were not written: their counts take {size / 1e6:,.0f} MB. "
            "Pass --marginals to write them anyway."
        )
        return None
    m = fit.marginals_
    if m is None or (m.class_counts is not None) != within:
        m = source.marginals(
            within, fit.settings.tuple_order, fit.encoder_.interactions
        )
    return inputs.with_source(m, args.files)


def _counts_to_write(args: Args, fit: AnyFit, source: Marginals) -> Marginals | None:
    """Return the counts to write of a model of counts: asked for, or merged."""
    if not source.settings.is_fine or not isinstance(fit, Fit):
        return source if args.marginals else None
    prefix = output.prefix_of(args, counts=False)
    if prefix is None or args.marginals is False:
        return None
    place = prefix + MARGINALS
    if same_file(place, args.file):
        warn(
            f"The merged counts were not written, as {place} has the counts before the "
            "merge. For 'renyi verify', give another --out."
        )
        return None
    return fit.marginals_


# ---- facts


def _fit_facts(
    fit: AnyFit, target: str, shares: dict[str, float], error: float | None = None
) -> Facts:
    """Return what was learned, as plain values."""
    choice = fit.alpha_choice_
    pairs = fit.encoder_.interactions
    certificate = fit.certificate_
    card = every_order.shown_card(fit)
    return {
        "renyi": __version__,
        "target": target,
        "rows": certificate.n,
        "features": len(fit.encoder_.columns),
        "categories": certificate.n_indicators,
        "classes": shares,
        "rule": fit.rule,
        "objective": fit.settings.objective,
        "alpha": float(choice.alpha),
        "alpha_method": choice.method,
        "calibration": None if card.calibration is None else card.calibration.kind,
        "loo_error": certificate.loo_error,
        "risk": choice.risk,
        "training_error": error,
        "errors": error_facts(error_table(certificate)),
        "left_out": fit.left_out_details,
        "certificate": certificate_facts(certificate),
        "heldout": None,
        "important": _important(card.mapped),
        "interactions": pairs and [[*pair] for pair in pairs],
        **every_order.order_facts(fit),
        "look_at_pairs": None,
    }


def error_facts(table: ErrorTable) -> list[Facts]:
    """Return the rows of an error table as plain values."""
    return [dataclasses.asdict(row) for row in table.rows]


def certificate_facts(certificate: Certificate) -> Facts:
    """Return a certificate as plain values, with whether it is doubtful."""
    ranking = {"auc": certificate.auc, "any_prevalence": certificate.any_prevalence}
    return {**certificate.to_dict(), **ranking, "doubtful": certificate.doubtful}


def _important(card: Scorecard) -> list[Facts]:
    """Return the features that matter most, and their points for each class.

    A feature's importance is the standard deviation of its points. Of its categories
    the one that moves a class's score most counts, rare ones less: points above the
    feature's mean times the root of the share of rows.
    """
    sizes = card.encoder.columns.sizes
    starts = offsets(card.encoder.columns.sizes)
    order = by_importance(card)
    matter = order[(sizes[order] > 1) & (card.importance[order] > 0)][:_TOP]
    return [
        {
            "feature": str(card.encoder.columns.names[j]),
            "importance": float(card.importance[j]),
            "speaks_for": _speaks_for(card, j, slice(starts[j], starts[j + 1])),
        }
        for j in matter.tolist()
    ]


def _speaks_for(card: Scorecard, j: int, span: slice) -> list[Facts]:
    points = card.per_class(card.z.reshape(len(card.z), -1)[span])
    above = points - card.per_class(card.mean_points[[j]])
    weight = np.sqrt(card.counts[span] / max(card.counts[span].sum(), 1))
    strongest = (above * weight[:, None]).argmax(axis=0)
    texts = card.encoder.columns[j].levels.texts
    labels = map(label_text, card.classes)
    entries = [
        {"class": label, "category": texts[k], "points": float(points[k, y])}
        for y, (label, k) in enumerate(zip(labels, strongest, strict=True))
        if above[k, y] > 0
    ]
    return sorted(entries, key=lambda entry: -entry["points"])


# ---- text


def fit_text(
    facts: Facts,
    c: Certificate,
    more: Sequence[str] = (),
    heldout: Certificate | None = None,
    details: bool = False,
) -> str:
    """Return the facts of a fit as plain text; `more` are paragraphs of a selection."""
    table = error_table(c, heldout=heldout)
    blocks = [[_title(facts, c)], _errors(facts, c, table)]
    blocks += [[text] for text in more]
    blocks.append(_features(facts, c))
    if details:
        blocks.append(["Details", *map(detail, details_of(facts, c))])
    if facts["notes"]:
        blocks.append(["Notes", *output.bullets(facts["notes"])])
    blocks.append(output.saved_lines(facts))
    return "\n\n".join("\n".join(lines) for lines in blocks)


def _title(facts: Facts, c: Certificate) -> str:
    size = number_of(facts["features"], "column")
    if "candidates" in facts:
        size = f"{facts['features']:,} of {number_of(facts['candidates'], 'column')}"
    if c.interactions is not None:
        columns = number_of(facts["features"] - c.interactions, "column")
        size = f"{columns} and {number_of(c.interactions, 'pair')} of columns"
    elif c.order > 1:
        size = f"{size.replace('column', 'feature')} of {c.order} columns each"
    chosen = facts.get("interactions")
    pairs = ", ".join(f"{a} & {b}" for a, b in chosen or ())
    size += f": {pairs}" if pairs else ""
    where = "" if "source" not in facts else f" from {_source(facts['source'])}"
    rows = facts.get("rows_known") or number_of_rows(facts["rows"])
    return wrapped(f"Model of {facts['target']!r}{where}: {rows}, {size}.")


def _source(source: str | list[str]) -> str:
    """Return where the rows came from, without the password of a database."""
    if not isinstance(source, str):
        return number_of(len(source), "file")
    return "a database" if "://" in source else one_line(source, 40)


def _errors(facts: Facts, c: Certificate, table: ErrorTable) -> list[str]:
    """Return the three figures, with the commands that would improve on them."""
    advice = advice_of(facts.get("advice", {}))
    remarks = []
    unknown = table.estimate is None and table.bound is None
    if unknown and not table.undefined and advice.quote:
        remarks.append(f"  Ask one site to run: {advice.quote}")
        advice = advice._replace(quote="")  # it is advised once
    missed = _missed(facts)
    if "class-weight" not in c.warning_codes and facts["objective"] != "ranking":
        if table.verdict == "no better":
            missed += (
                " To rank the rows, or to find those of rare classes, see --objective "
                "ranking and --class-weight balanced."
            )
        elif missed:
            missed += " To find more of them, see --class-weight balanced."
    if missed:
        remarks.append(indented(missed.strip()))
    return three_lines(table, c, advice, remarks)


def _missed(facts: Facts) -> str:
    """Name the class that is missed most, if clearly on more than half of its rows."""
    figures = facts.get("left_out") or {"by_class": []}
    known = [each for each in figures["by_class"] if each["error"] is not None]
    most = max(known, key=itemgetter("error"), default=None)
    if most is None or error_interval(most["error"], most["rows"])[0] <= 0.5:
        return ""
    name = quoted(most["class"])
    return f"{name} is missed on {percent(most['error'])} of its rows."


def advice_of(commands: dict[str, str]) -> Advice:
    """Return what the command line advises, of which some commands may be missing."""
    return Advice(
        sharp="--rule sharp",
        exact=commands.get("exact", ""),
        quote=commands.get("quote", ""),
        verify=f"Proved; check it with '{commands.get('verify', 'renyi verify')}'.",
    )


# ---- text of the details


def details_of(facts: Facts, c: Certificate) -> list[str]:
    """Return how the model was trained, all its bounds, and left-out errors."""
    about = detail_lines(c)
    return [*_training(facts), *[""] * bool(about), *about, *_left_out(facts)]


def _training(facts: Facts) -> list[str]:
    shares = sorted(facts["classes"].items(), key=lambda pair: -pair[1])
    classes = [f"{one_line(label, 30)} {percent(share)}" for label, share in shares]
    if len(classes) > 6:
        classes = [*classes[:6], f"and {len(classes) - 6} more"]
    alpha = f"{facts['alpha']:.4g}, {_METHODS.get(facts['alpha_method'], '')}"
    lines = [
        f"classes        {', '.join(classes)}",
        f"categories     {facts['categories']:,}",
        f"alpha          {alpha}",
        f"rule           {facts['rule']}",
        f"probabilities  {_PROBABILITIES[facts['calibration']]}",
    ]
    if facts["objective"] != "error":
        lines.append(f"objective      {facts['objective']}")
    if facts["every_order"] is not None:
        every = facts["every_order"]
        lines.append(f"kernel         {every['form']}, rho {every['rho']:.4g}")
    if facts["training_error"] is not None:
        wrong = percent(facts["training_error"])
        lines.append(f"training rows  wrong on {wrong}; expect more on new rows")
    return lines


def _left_out(facts: Facts) -> list[str]:
    """Return errors by class, AUC and log loss of left-out rows."""
    figures = facts.get("left_out")
    if not figures:
        return []
    lines = ["", "left-out rows, errors by class"]
    for entry in figures["by_class"]:
        error = "no rows" if entry["error"] is None else percent(entry["error"])
        rows = f"of {round(entry['rows']):,} rows"
        lines.append(f"  {one_line(entry['class'], 24):<24} {error:>7} {rows}")
    area = "" if figures["auc"] is None else f"AUC {figures['auc']:.3f}, "
    return [*lines, f"left-out rows: {area}log loss {figures['log_loss']:.3f}"]


def detail(line: str) -> str:
    """Return a line of the details, indented; continuation lines are indented more."""
    inner = line[: len(line) - len(line.lstrip())]
    return wrapped(line.strip(), f"  {inner}", f"  {inner}  ") if line else ""


# ---- text of the columns


def _features(facts: Facts, c: Certificate) -> list[str]:
    entries = [each for each in facts["important"] if each["importance"] >= _SHOWN]
    what = "Columns" if c.order in (1, EVERY_ORDER) else "Features"
    title = f"{what} that matter most"
    every = facts.get("every_order")
    if every is not None:
        share = percent(every["order_shares"][ORDERS[0]])
        title = f"Points of single columns ({share} of the score)"
        if not entries:
            return [f"{title}: all are nearly 0."]
    if not entries:
        return [f"No {what.lower()[:-1]} matters: all rows get nearly the same score."]
    one = what.lower()[:-1]
    width = max(len(one_line(entry["feature"], _NAME)) for entry in entries)
    width = max(width, len(one))
    labels = [*facts["classes"]]
    two = len(labels) == 2
    about = f"points for {one_line(labels[1], 24)!r}" if two else "points by class"
    lines = [
        title,
        f"  {one:<{width}}  {_IMPORTANCE}   {about}",
    ]
    for entry in entries:
        name = one_line(entry["feature"], width)
        head = f"  {name:<{width}}  {entry['importance']:{len(_IMPORTANCE)}.3f}   "
        room = WIDTH - len(head)
        speaks = entry["speaks_for"]
        if two:
            # Those in favour of the second class come first.
            speaks = sorted(speaks, key=lambda each: each["class"] != labels[1])
            parts = [_signed(each, labels[1]) for each in speaks]
        else:
            parts = [_of_class(each, room) for each in speaks]
        lines.append(head + _fitting(parts, room))
    return lines


def _signed(entry: Facts, second: str) -> str:
    """Return a category with its points for the second of two classes."""
    points = entry["points"] if entry["class"] == second else -entry["points"]
    return f"{one_line(entry['category'], 24)} {points:+.2f}"


def _of_class(entry: Facts, room: int) -> str:
    """Return a class with the category that is most in its favour."""
    points = f" {entry['points']:+.2f}"
    text = f"{one_line(entry['class'], 20)}: {one_line(entry['category'], 20)}"
    return one_line(text, room - len(points)) + points


def _fitting(parts: Sequence[str], room: int) -> str:
    """Return as many parts as fit in a line, the first in any case."""
    text = parts[0] if parts else ""
    for part in parts[1:]:
        longer = f"{text}   {part}"
        if len(longer) > room:
            break
        text = longer
    return text
