"""Guarantees: of a model (certify), and the smallest of any rule (minimax)."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal
from typing import Any

import pyarrow as pa

from renyi import verify
from renyi.certificates.error_table import ErrorTable, error_table
from renyi.certificates.record import BoundReport, Certificate, Step
from renyi.certificates.text import (
    ALONE,
    bound_sentence,
    detail_lines,
    report_text,
    table,
)
from renyi.certificates.three_lines import Advice, three_lines
from renyi.certification import MINIMAX, bound_report, certify, simple_rules
from renyi.cli import inputs, messages, output, predict, streams
from renyi.cli.fit import advice_of, certificate_facts, detail, error_facts
from renyi.cli.output import Facts, Meter, Recorded, one_line
from renyi.cli.parser import Args
from renyi.crossfitting import CrossFitSettings, check_bins, cross_fit_counts
from renyi.encoding.columns import label_text
from renyi.estimators import model_file
from renyi.estimators.model_file import AnyFit
from renyi.files import MARGINALS
from renyi.fitting.record import Fit
from renyi.fitting.settings import Settings
from renyi.formatting import (
    at_least,
    at_most,
    chosen_percent,
    number_of,
    number_of_rows,
    percent,
    wrapped,
)
from renyi.marginals.file import rows_text
from renyi.marginals.marginals import Marginals
from renyi.robust.minimax_problem import MinimaxResult, minimax
from renyi.sources.databases import is_database
from renyi.sources.layouts import OPTIONS
from renyi.warnings import warn

_MEAN = "the mean of the two scorecards"
_NAME = 40


def run(args: Args, recorded: Recorded) -> None:
    """Print the bounds of a model: by marginals, unseen rows, or two halves."""
    _check_basis(args)
    if args.halves is not None:
        _run_halves(args, recorded)
        return
    output.check_out(args, args.proof, (".json",))
    place = output.check_out(args, args.out, (".json",))
    if not inputs.is_table(args.model):
        _check_no_table_options(args)
    if args.rows is not None:
        model = inputs.load_any_model(args.model)
        X, y = _heldout_rows(args, model)
        c = certify(model, X, y, confidence=args.confidence)
        title = f"{args.model}, tested on {number_of(c.n, 'row')}"
        _show(args, title, c, error_table(c), {}, recorded)
        return
    written: Facts = {}
    if inputs.is_table(args.model):
        m = inputs.load_marginals(args.file)
        clf = inputs.load_table(args.model, m, args.threshold)
    else:
        clf = inputs.load_model(args.model)
        m = inputs.load_marginals(args.file)
    if place is not None:
        model_file.write(clf, place)
        written = {"written": {"model": str(place)}}
    title = f"{args.model} on the pair counts of {args.file}: {rows_text(m)}"
    if args.level in ("lp", "exact"):
        with inputs.naming(args.file):
            report = bounds(args, clf, m)
        facts = report.to_dict() | _proof_facts(args, m, clf, report.minimax)
        facts |= {**_prevalence_facts(args, clf, report.certificate), **written}
        lines = _report_lines(args, title, report, _advice(args, clf, m))
        text = [*lines, *_extra_lines(args, facts)]
        output.show(args, facts, lambda _: "\n".join(text), recorded)
        return
    with inputs.naming(args.file):
        c = certify(clf, m)
    facts = _proof_facts(args, m, clf) | _prevalence_facts(args, clf, c) | written
    advice = _advice(args, clf, m)
    _show(args, title, c, error_table(c), facts, recorded, advice)


def _check_no_table_options(args: Args) -> None:
    """Raise an error if options are given that are for tables of points."""
    what = "is for tables of points (.csv): leave it out"
    inputs.check_not_given(args, ["threshold"], what)
    what = "is for --halves and for tables of points (.csv): leave it out"
    inputs.check_not_given(args, ["out"], what)


def _show(
    args: Args,
    title: str,
    c: Certificate,
    errors: ErrorTable,
    facts: Facts,
    recorded: Recorded,
    advice: Advice | None = None,
) -> None:
    """Print a certificate: three figures, and with --details all others."""
    notes = messages.notes_of(recorded)
    if args.json:
        known = {**certificate_facts(c), "errors": error_facts(errors), "notes": notes}
        output.print_json(known | facts)
        return
    messages.print_notes(notes)
    details = ["", "Details", *map(detail, detail_lines(c))] if args.details else []
    lines = three_lines(errors, c, advice or _advice(args))
    print("\n".join([title, "", *lines, *details, *_extra_lines(args, facts)]))


def _report_lines(
    args: Args, title: str, report: BoundReport, advice: Advice
) -> list[str]:
    """Return the figures of a search, and with --details its tables."""
    if args.details or report.certificate.doubtful:
        return [title, "", report_text(report, advice)]
    errors = error_table(report.certificate, bounds=report)
    lines = three_lines(errors, report.certificate, advice)
    return [title, "", *lines, "", wrapped(report.sentence)]


def _extra_lines(args: Args, facts: Facts) -> list[str]:
    lines = [*_prevalence_text(facts), *_proof_text(facts)]
    if "written" in facts:
        what = "the table of points" if args.halves is None else _MEAN
        lines += ["", f"Saved   {facts['written']['model']} ({what})"]
    return lines


def _advice(args: Args, clf: Fit | None = None, m: Marginals | None = None) -> Advice:
    """Return the commands that prove more of this model.

    'renyi verify' checks the guarantee of the counts that the model was trained on.
    """
    rows = ["certify", _model_file(args), "--rows", "TEST.csv"]
    advice = {"quote": output.command(rows)}
    if args.file is not None and args.level != "exact":
        exact = ["certify", args.model, args.file, "--exact", *_threshold(args)]
        advice["exact"] = output.command(exact)
    every = advice_of(advice)
    if clf is None or m is None:
        return every
    trained = clf.data_digest_
    if trained is not None and trained.matches(m.digest):
        return every
    return every._replace(verify="Proved.")


def _model_file(args: Args) -> Any:
    """Return the file of the model; of a table of points the one it is written to."""
    model = getattr(args, "model", None)
    return args.out or "MODEL.json" if model and inputs.is_table(model) else model


def _heldout_rows(args: Args, clf: AnyFit) -> tuple[pa.Table, list[Any]]:
    """Read the rows of --rows, from a file or a table of a database."""
    if not is_database(args.rows):
        inputs.check_not_given(args, ["table"], "is a table of a database")
        file = inputs.opened_rows_file(args)
        return predict.heldout_rows(clf, args.model, file, args.target)
    inputs.check_not_given(args, OPTIONS, "is for files: leave it out")
    with streams.opened_table(args, args.rows, clf.encoder_) as table:
        return predict.heldout_rows(clf, args.model, table, args.target)


def bounds(args: Args, clf: Fit, m: Marginals) -> BoundReport:
    """Return the bounds on a model's error up to the level that is asked for."""
    limits: Any = {"level": args.level, "time_limit": args.time_limit}
    with Meter() as meter:
        return bound_report(clf, m, progress=meter.search, **limits)


def _prevalence_facts(args: Args, clf: Fit, c: Certificate) -> Facts:
    """Return what holds where the second class has another share, if asked for."""
    share = args.prevalence
    if share is None:
        return {}
    if c.class_scores is None:
        count = len(clf.classes_)
        known = (
            f"{args.model} has {count}"
            if count > 2
            else f"{args.file} has rows of one class"
        )
        raise ValueError(f"--prevalence is for two classes, but {known}: leave it out.")
    moved = None
    if c.rule == "map" and clf.certificate_.majority is not None:
        moved = c.error_at(share, clf.threshold(share))
    facts: Facts = {
        "class": label_text(clf.classes_.tolist()[1]),
        "share": share,
        "error": c.error_at(share),
        "error_if_moved": moved,
        "any_prevalence": c.any_prevalence,
        "doubtful": c.doubtful,
    }
    return {"prevalence": facts}


def _prevalence_text(facts: Facts) -> list[str]:
    """Return what holds at another share of the second class, as lines."""
    moved = facts.get("prevalence")
    if moved is None:
        return []
    text = (
        f"If {chosen_percent(moved['share'])} of a population are "
        f"{one_line(moved['class'], _NAME)!r}, rule map is wrong on at most "
        f"{at_most(moved['error'], 1)}."
    )
    if moved["error_if_moved"] is not None:
        bound = at_most(moved["error_if_moved"], 1)
        text += f" With 'renyi predict --prevalence' it is wrong on at most {bound}."
    always = percent(min(moved["share"], 1 - moved["share"]))
    text += f" Always answering the more frequent class is wrong on {always}."
    if moved["doubtful"]:
        text = f"{ALONE} {text}"
    return ["", wrapped(text)]


def _check_basis(args: Args) -> None:
    """Reject options that do not go together."""
    if args.halves is not None:
        names = (
            *("level", "time_limit", "rows", "target", "proof", "prevalence"),
            "threshold",
        )
        why = (
            "cannot be used with --halves, which trains a model on each of two "
            "marginals: leave it out"
        )
        inputs.check_not_given(args, ("model", *names, *OPTIONS), why, model="MODEL")
        return
    if args.model is None:
        raise ValueError(
            "certify takes MODEL and MARGINALS, MODEL --rows FILE, or --halves A B: "
            "name one of them."
        )
    if (args.file is None) == (args.rows is None):
        own = inputs.beside(args.model)
        such = f", such as {own}" if args.file is None and own.is_file() else ""
        raise ValueError(
            f"certify takes either MARGINALS or --rows FILE: name one{such}."
        )
    if args.rows is not None and inputs.is_table(args.model):
        raise ValueError(_rows_of_a_table(args))
    if args.rows is not None:
        given = (args.level, args.time_limit, args.proof, args.prevalence)
        if any(value is not None for value in given):
            raise ValueError(
                "--exact, --level, --time-limit, --proof and --prevalence are for "
                "marginals: leave them out with --rows, or count the rows with 'renyi "
                "marginals build' first."
            )
        return
    why = "is for --rows: leave it out for marginals"
    inputs.check_not_given(args, ("target", *OPTIONS), why)
    why = "is for --rows and --halves: leave it out for marginals"
    inputs.check_not_given(args, ["confidence"], why)
    inputs.check_time_limit(args)


def _rows_of_a_table(args: Args) -> str:
    """Say how to test a table of points on rows."""
    build = ["marginals", "build", "TABLE.csv", "--target", "CLASS"]
    count = output.command([*build, "--encoder", args.model, "--out", "COUNTS.renyi"])
    write = ["certify", args.model, "COUNTS.renyi", *_threshold(args)]
    return (
        f"--rows is for models: write {args.model} as one first "
        f"('{output.command([*write, '--out', 'MODEL.json'])}'). If there are no pair "
        f"counts, count rows with '{count}'."
    )


def _threshold(args: Args) -> list[str]:
    """Return the threshold of a table of points as an option."""
    if args.threshold is None:
        return []
    return ["--threshold", f"{args.threshold:.17g}"]


def _run_halves(args: Args, recorded: Recorded) -> None:
    """Train on the marginals of two halves, and certify by the other of each."""
    place = output.check_out(args, args.out, (".json",))
    halves = [inputs.load_marginals(path) for path in args.halves]
    for m, path in zip(halves, args.halves, strict=True):
        inputs.check_missing_class(m, path)
    how = CrossFitSettings()
    if args.confidence is not None:
        how = CrossFitSettings(confidence=args.confidence)
    first, second = halves
    with inputs.naming(f"{args.halves[1]} does not fit {args.halves[0]}"):
        check_bins(first, second)
    result = cross_fit_counts(first, second, Settings(), how)
    written: Facts = {}
    if place is not None:
        assert result.average is not None
        model_file.write(result.average, place)
        written = {"written": {"model": str(place)}}
    c = result.certificate
    title = f"Model of two halves, each tested by the other: {number_of_rows(c.n)}"
    _show(args, title, c, error_table(c), written, recorded)


# ---- proofs


def _proof_facts(
    args: Args,
    m: Marginals,
    clf: Fit | None,
    result: MinimaxResult | None = None,
) -> Facts:
    """Write a proof, if it is asked for, and return where it is and what it proves."""
    if args.proof is None:
        return {}
    from renyi.proofs import write_proof

    proved = write_proof(args.proof, m, clf, result)
    worst = None if result is None else result.worst_distribution
    if worst is not None and "lower" not in proved:
        warn(f"{args.proof} has no lower bound: no exact witness was found.")
    counts = args.file if args.file.endswith(MARGINALS) else f"COUNTS{MARGINALS}"
    names = [name for name in (_model_file(args), counts) if name]
    again = output.command(["verify", *names, "--proof", args.proof])
    return {"proof": {"written": args.proof, "proves": proved, "check": again}}


def _proof_text(facts: Facts) -> list[str]:
    if "proof" not in facts:
        return []
    proof = facts["proof"]
    proves = proof["proves"]
    claims = []
    if "upper" in proves:
        claims.append(f"some rule is wrong on at most {at_most(proves['upper'])}")
    if "lower" in proves:
        claims.append(f"no rule can guarantee less than {at_least(proves['lower'])}")
    what = f", which proves: {'; '.join(claims)}" if claims else ""
    wrote = wrapped(f"Wrote {proof['written']}{what}.")
    return ["", wrote, f"To check it: {proof['check']}"]


def run_verify(args: Args, recorded: Recorded) -> int:
    """Print stated and exact numbers, and the answer; return its code."""
    code, why, checked = verify.answer(args.file, args.model or "", args.proof or "")
    answer = ("proved", "not proved", "wrong file")[code]
    claims = [
        {
            "claim": what,
            "claimed": number,
            "exact": str(Decimal(exact.numerator) / exact.denominator),
            "fraction": f"{exact.numerator:#x}/{exact.denominator:#x}",
            "proved": holds,
        }
        for what, number, exact, holds in checked
    ]
    if args.json:
        output.print_json({"answer": answer, "reason": why, "claims": claims})
        return code
    lines = [f"{'bound':<16} {'in the file':<22} exact"] if claims else []
    for each in claims:
        end = "" if each["proved"] else ", not proved"
        shown = f"{each['claimed']!r:<22} {each['exact']}{end}"
        lines.append(f"{each['claim']:<16} {shown}")
    result = f"{answer}: {why}" if why else answer
    if code == 0:
        result = wrapped(f"{answer}: {verify.meaning(checked, args.file)}.")
    print("\n".join([*lines, result]))
    return code


# ---- any rule


def run_minimax(args: Args, recorded: Recorded) -> None:
    """Print the smallest guarantee of any rule."""
    output.check_out(args, args.proof, (".json",))
    m = streams.counted(args)
    inputs.check_missing_class(m, args.file)
    with Meter() as meter:
        meter.search(MINIMAX)
        result = minimax(
            m,
            method=args.level,
            time_limit=args.time_limit,
            progress=lambda state: meter.search(MINIMAX, state),
            random_state=args.seed or 0,
        )
    facts = minimax_facts(m, result)
    facts |= _proof_facts(args, m, None, result)
    if result.method == "lp" and result.status == "bounded":
        facts["next"] = output.again_with(args, "--level", "exact")
    output.show(args, facts, minimax_text, recorded)


def minimax_facts(m: Marginals, result: MinimaxResult) -> Facts:
    """Return what is known of the smallest guarantee, as plain values."""
    worst = result.worst_distribution
    lp = result.method == "lp"
    lower = None if worst is None else result.lower
    name = result.origin if lp else f"{MINIMAX} ({result.method})"
    best = Step(name, result.upper, lower, result.seconds, result.status)
    steps = [*simple_rules(m), best]
    best_guarantee = min(step.upper for step in steps)
    conditional = any(
        t.with_target and len(t.features) > 1 for t in result.rule.ambiguity.tables
    )
    counted = "pair counts" + " within each class" * conditional
    where = f"these {counted}"
    if result.note:
        where = f"exactly the {counted} of these {number_of_rows(m.n)}"
    return {
        "target": m.target,
        "rows": m.n,
        "features": len(m.feature_names),
        "categories": int(m.encoder.columns.sizes.sum()),
        "class_conditional": conditional,
        "lower": lower,
        "upper": result.upper,
        "method": result.method,
        "status": result.status,
        "seconds": result.seconds,
        "outcomes": None if worst is None else len(worst),
        "rules": [asdict(step) for step in steps],
        "sentence": bound_sentence(
            "this rule", where, result.upper, result.lower, best_guarantee
        ),
        "doubtful": bool(result.note),
        "warnings": [result.note] if result.note else [],
    }


def minimax_text(facts: Facts) -> str:
    """Return these facts as plain text."""
    lines = [wrapped(f"Warning: {text}") for text in facts["warnings"]]
    lines += ["", ALONE] if lines else []
    within = " within each class" if facts["class_conditional"] else ""
    lines += [
        wrapped(
            f"The smallest guarantee of any rule that predicts {facts['target']!r}, "
            f"from {number_of_rows(facts['rows'])}"
        ),
        f"({facts['features']:,} columns with {facts['categories']:,} categories; "
        f"pair counts{within})",
        "",
        *table("A rule can guarantee", [Step(**step) for step in facts["rules"]]),
        "",
        wrapped(facts["sentence"]),
    ]
    lines += _proof_text(facts)
    if facts.get("next"):
        lines += ["", f"Next: {facts['next']}   (closes the interval)"]
    return "\n".join(lines)
