"""The command compare: methods or models on the same rows, as text, JSON or a page."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from renyi.cli import inputs, output, streams
from renyi.cli.fit import one_line
from renyi.cli.output import Args, Facts, Meter, Recorded
from renyi.cli.predict import heldout_rows
from renyi.cli.process import with_options
from renyi.comparison import judging, page
from renyi.comparison.methods import DEFAULT, METHODS, Settings
from renyi.encoding.columns import label_text
from renyi.endings import MARGINALS
from renyi.files import encoded, replacing
from renyi.formatting import at_most, chosen_percent, wrapped

_FOLDS = 10
_NAME = 18


def run(args: Args, recorded: Recorded) -> None:
    """Train and judge; print what came of it, and write the page."""
    place = output.check_out(args, args.out, (".html",))
    trained = bool(args.methods) or not args.models
    folds, test = _design(args, trained)
    confidence = args.confidence or 0.95
    settings = Settings(inputs.encoder_of(args), args.seed or 0, confidence)
    X, y, target, them = _rows_and_models(args, settings.encoder, trained)
    if trained:
        names = list(METHODS) if args.methods == ["all"] else args.methods or DEFAULT
        them = [*judging.candidates(names, settings), *them]
    how: Any = {"folds": folds, "test": test, "confidence": confidence}
    how |= {"seed": settings.seed, "target": target}
    with Meter() as meter:
        found = judging.compare(them, X, y, progress=meter, **how)
    told = (replace(e, failure=with_options(e.failure)) for e in found.entries)
    found = replace(found, entries=tuple(told))
    facts: Facts = found.to_dict()
    if place is not None:
        title = f"Comparison on {Path(args.file).name}"
        text = page.comparison_page(found, title, output.command(args.argv))
        with replacing(place) as stream:
            stream.write(encoded(text))
        facts["written"] = str(place)
    output.show(args, facts, partial(_text, found), recorded)


def _design(args: Args, trained: bool) -> tuple[int | None, float | None]:
    """Return folds or the share of test rows, after a look at the options."""
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
        inputs.check_not_given(args, ("folds", "test"), why)
        return None, None
    inputs.check_separate(args, ["methods"], METHODS)
    if args.folds is None and args.test is None:
        return _FOLDS, None
    return args.folds, args.test


def _rows_and_models(
    args: Args, encoder: Any, trained: bool
) -> tuple[Any, Any, str, list[judging.Candidate]]:
    """Return the rows, their classes, the target's name, and the models."""
    X: Any = None
    y: Any = None
    target = args.target
    if trained:
        if streams.is_too_large(args, 1):
            raise ValueError(
                f"compare needs the rows of {args.file} in memory, but they do not "
                "fit: allow more with --memory, or use a sample."
            )
        rows = inputs.usable_rows(args, encoder)
        X = rows.X
        y = rows.y
        target = rows.target
    from renyi.estimators.classifier import RenyiClassifier, classifier_of

    models = []
    for path in dict.fromkeys(args.models):
        fit = inputs.load_model(path)
        clf = classifier_of(fit, RenyiClassifier())
        if clf.random_state is None:
            clf.random_state = args.seed or 0
        own, cells = heldout_rows(fit, path, args.file, args.target)
        labels = np.array([label_text(cell) for cell in cells], object)
        if y is None:
            X = own
            y = labels
            target = args.target or fit.target
        else:
            same = [label_text(cell) for cell in np.asarray(y, object).tolist()]
            if labels.tolist() != same:
                raise ValueError(
                    f"{path} predicts another column, or uses other rows of "
                    f"{args.file}, than the rest of the comparison: compare it "
                    "separately."
                )
        about = f"a model of rule {clf.rule}"
        models.append(judging.Candidate(Path(path).name, about, None, clf, own))
    names = [*METHODS, *(one.name for one in models)]
    if len(set(names)) < len(names):  # of several folders, or called as a method is
        for k, path in enumerate(dict.fromkeys(args.models)):
            name = f"./{path}" if path in METHODS else path
            models[k] = models[k]._replace(name=name)
    return X, y, target, models


_ERRORS = "{:<20} {:>8} {:>16} {:>9} {:>17}"
_LOSSES = "{:<20} {:>8} {:>15} {:>12}  {:>12} {:>7}"
_LEGEND = (
    "Shares are percentages. Worst error, same pairs: on every population with the "
    "counts of pairs of the training rows, – where these say little. Error in the "
    "population: upper bound, from rows that were not used in training."
)


def _text(found: judging.Comparison, facts: Facts) -> str:
    """Return the comparison as plain text."""
    sure = chosen_percent(found.confidence)
    target = one_line(found.target, 40)
    done = found.judged
    lines = [f"Methods for {target!r}, lowest error first (*: may be the best)"]
    lines.append(_ERRORS.format("", "error", sure, "to least", sure))
    lines += map(_error_line, done)
    (worst, pairs), (error, population) = page.WORST, page.POPULATION
    lines += ["", _LOSSES.format("", "", "", worst, error, "").rstrip()]
    heads = ("log loss", sure, pairs, population, "seconds")
    lines += [_LOSSES.format("", *heads), *map(_loss_line, done)]
    texts = [page.verdict(found), page.how_judged(found), _LEGEND]
    failed = [e for e in found.entries if e.failure]
    texts += [f"Not compared: {one_line(e.name, _NAME)}: {e.failure}" for e in failed]
    noted = [e for e in done if e.note]
    texts += [f"Note on {one_line(e.name, _NAME)}: {e.note}." for e in noted]
    lines += ["", *map(wrapped, texts)]
    if "written" in facts:
        lines.append(f"Wrote {facts['written']}")
    return "\n".join(lines)


def _error_line(e: judging.Compared) -> str:
    apart = ("", "") if e.difference is None else e.difference.texts(1, 100, "+")
    assert e.error is not None
    name = f"{'*' if e.may_be_best else ' '} {one_line(e.name, _NAME)}"
    return _ERRORS.format(name, *e.error.texts(1, 100), *apart).rstrip()


def _loss_line(e: judging.Compared) -> str:
    loss = ("–", "") if e.log_loss is None else e.log_loss.texts(3)
    worst = "–" if e.worst_case is None or e.doubtful else _bare(e.worst_case)
    known = "–" if e.population is None else _bare(e.population)
    spent = "" if e.seconds is None else f"{e.seconds:.2f}"
    name = f"  {one_line(e.name, _NAME)}"
    return _LOSSES.format(name, *loss, worst, known, spent).rstrip()


def _bare(share: float) -> str:
    return f"≤ {at_most(share, 1)}".replace(" %", "")
