"""The commands certify, minimax and hgr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.cli.output import Meter
from renyi.formatting import at_least, at_most
from renyi.progress import Progress
from support.commandline import Done, save, table, votes

pytest.importorskip("highspy")

FEW = ("physician-fee-freeze", "immigration", "crime")


def few_votes(name: str = "few.csv") -> str:
    """Write the votes on three bills: few enough to list all outcomes."""
    return save(votes()[[*FEW, "party"]], name)


def fitted(good: Callable[..., Done], *options: str) -> renyi.RenyiClassifier:
    good("fit", few_votes(), "--target", "party", "--out", "m", *options)
    return renyi.RenyiClassifier.load("m.json")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_within_each_class_is_never_left_out(good):
    """Bounds from pairs within each class do not hold for pairs alone.

    Another population with the pairs of these rows has more errors.
    """
    counts = {
        **{"011q": 13, "111p": 11, "000q": 9, "101q": 8, "001q": 8, "010q": 7},
        **{"100q": 6, "110p": 5, "000p": 4, "001p": 4, "101p": 2, "111q": 1},
        **{"011p": 1, "110q": 1},
    }
    cells = [list(row) for row, n in counts.items() for _ in range(n)]
    rows = pd.DataFrame(cells, columns=list("abct"))
    name = save(rows, "few.csv")
    good("fit", name, "--target", "t", "--class-conditional", "--out", "m")
    model = renyi.RenyiClassifier.load("m.json")
    pairs = renyi.Marginals.from_data(rows, target="t", encoder=model.encoder_)
    within = renyi.worst_case(model, renyi.Marginals.load("m.renyi")).upper
    assert renyi.worst_case(model, pairs).lower > within + 0.05
    told = [
        good("certify", "m.json", "m.renyi"),
        good("certify", "m.json", "m.renyi", "--exact"),
        good("minimax", "m.renyi"),
    ]
    for text in (flat(done.out).lower() for done in told):
        claims = text.replace("pair counts of m.renyi", "").split("pair counts")[1:]
        claims = [claim for claim in claims if not claim.startswith(": do not quote")]
        assert claims
        assert all(claim.startswith(" within each class") for claim in claims), text
    proof = flat(good("verify", "m.json", "m.renyi").out)
    assert "any population with the counts of m.renyi" in proof
    assert "pair counts" not in proof.split("proved:")[1]


# ---- certify


def test_doubtful_certificate_shows_no_bound(good: Callable[..., Done]) -> None:
    done = good("fit", "promoters", "--out", "m")
    clf = renyi.RenyiClassifier().fit(*renyi.datasets.load("promoters"))
    assert clf.certificate_.doubtful
    for text in (done.out, good("certify", "m.json", "m.renyi").out):
        assert "at most" not in text
        estimate = (
            f"on new rows {100 * clf.certificate_.loo_error:.1f} % (95 % interval"
        )
        assert estimate in flat(text)
        assert "Guarantee: none useful." in text
        assert "228 categories and only 106 rows" in " ".join(text.split())
    assert good("certify", "m.json", "m.renyi", "--json").json["doubtful"] is True


def test_weighted_rows_are_told_by_their_weight(good: Callable[..., Done]) -> None:
    frame = votes()[[*FEW, "party"]].assign(w=0.51)
    options = ("--target", "party", "--weight", "w", "--out", "m")
    told = [good("fit", save(frame), *options).out]
    told.append(good("certify", "m.json", "m.renyi", "--exact").out)
    told.append(good("minimax", "m.renyi", "--level", "lp").out)
    told.append(good("hgr", "m.renyi").out)
    weight = f"{0.51 * len(frame):.10g}"
    for text in told:
        assert f"{weight} units of weight" in flat(text)
        assert f"{weight} rows" not in flat(text)


def test_closed_form_and_what_to_do_next(good: Callable[..., Done]) -> None:
    clf = fitted(good)
    text = good("certify", "m.json", "m.renyi").out
    bound = at_most(clf.certificate_.bounds["map"], 1)
    assert f"Guarantee: wrong on at most {bound} of any population" in flat(text)
    assert "exact    see renyi certify m.json m.renyi --exact\n" in text
    more = good("certify", "m.json", "m.renyi", "--details").out
    for bound in clf.certificate_.bounds.values():
        assert f"wrong on at most {at_most(bound, 1):>6}" in more


def test_verify_is_advised_for_the_training_counts_only(
    good: Callable[..., Done],
) -> None:
    fitted(good)
    save(votes()[:300], "other.csv")
    good("marginals", "build", "other.csv", "--target", "party", "--out", "o.renyi")
    assert "renyi verify" in flat(good("certify", "m.json", "m.renyi").out)
    assert good("verify", "m.json", "m.renyi").code == 0
    text = flat(good("certify", "m.json", "o.renyi").out)
    assert "Guarantee: wrong on at most" in text
    assert "renyi verify" not in text


def test_closed_form_with_pairs_within_the_classes(good: Callable[..., Done]) -> None:
    good("fit", "votes", "--class-conditional", "--marginals", "--out", "v")
    text = flat(good("certify", "v.json", "v.renyi", "--details").out)
    clf, m = renyi.RenyiClassifier.load("v.json"), renyi.Marginals.load("v.renyi")
    closed, inner = renyi.certify(clf, m).steps
    assert inner.upper < closed.upper
    bound = at_most(inner.upper, 1)
    assert f"wrong on at most {bound} of any population" in text
    assert "the same pair counts within each class" in text
    assert f"closed form at most {at_most(closed.upper)}" in text
    assert f"class-conditional at most {at_most(inner.upper)}" in text
    told = good("certify", "v.json", "v.renyi", "--json").json
    assert [step["name"] for step in told["steps"]] == [closed.name, inner.name]
    assert told["bounds"]["map"] == inner.upper


@pytest.mark.parametrize("rule", ["map", "sharp"])
def test_exact_prints_the_ladder(rule: str, good: Callable[..., Done]) -> None:
    clf = fitted(good, "--rule", rule)
    m = renyi.Marginals.load("m.renyi")
    worst, best = renyi.worst_case(clf, m), renyi.minimax(m)
    done = good("certify", "m.json", "m.renyi", "--exact", "--details")
    text = flat(done.out)
    assert done.err == ""
    assert (
        f"This model is wrong on at most {at_most(worst.upper)} of any population with "
        f"these pair counts. No model can guarantee less than {at_least(best.lower)}."
    ) in text
    assert f"Guarantee: wrong on at most {at_most(worst.upper, 1)} of any" in text
    assert "takes minutes" not in text
    for name in (
        *("closed form", "linear program", "exact worst case", "always 'democrat'"),
        *("by 'physician-fee-freeze' alone", "minimax error e*"),
    ):
        assert name in text
    assert max(map(len, done.out.splitlines())) <= 80
    told = good("certify", "m.json", "m.renyi", "--level", "exact", "--json").json
    assert told["upper"] == pytest.approx(worst.upper, abs=1e-9)
    assert told["lower"] == pytest.approx(best.lower, abs=1e-9)
    assert told["certificate"]["bounds"][rule] == told["upper"]
    assert all(step["seconds"] >= 0 for step in told["model"] + told["any_rule"])


def test_level_lp_stops_at_the_linear_program(good: Callable[..., Done]) -> None:
    fitted(good)
    argv = ("certify", "m.json", "m.renyi", "--level", "lp", "--time-limit", "60")
    told = good(*argv, "--json").json
    assert [step["name"] for step in told["model"]] == ["closed form", "linear program"]
    assert told["any_rule"][-1]["name"] == "linear program"
    text = good(*argv).out
    assert "exact worst case" not in text
    assert "e*" not in text
    assert "Proved." in text and "renyi verify" not in text  # it checks closed forms
    more = good(*argv, "--details").out
    advice = [
        line for line in text.splitlines() if ": --rule" in line or "renyi" in line
    ]
    assert advice
    for line in advice:  # in words of the command line
        assert line in more
    assert "rule=" not in more and "certify(" not in more


def test_exact_with_few_rows_opens_with_the_warning(good: Callable[..., Done]) -> None:
    save(votes()[[*FEW, "party"]][:12], "t.csv")
    good("fit", "t.csv", "--target", "party", "--out", "m")
    text = good("certify", "m.json", "m.renyi", "--exact").out
    assert text.index("For these rows only") < text.index("at most")
    assert "exactly the pair counts of these 12 rows" in flat(text)
    told = good("certify", "m.json", "m.renyi", "--exact", "--json").json
    assert told["doubtful"] is True
    assert "these 12 rows" in told["sentence"]


def test_held_out_rows(good: Callable[..., Done]) -> None:
    frame = table(2000).drop(columns="id")
    save(frame[:1000], "a.csv")
    held = frame[1000:].rename(columns={"y": "truth"}).astype({"truth": object})
    held.loc[1000:1004, "truth"] = "?"
    save(held, "b.csv")
    good("fit", "a.csv", "--target", "y", "--out", "m")
    asked = ("certify", "m.json", "--rows", "b.csv", "--target", "truth")
    done = good(*asked, "--confidence", "0.9")
    clf = renyi.RenyiClassifier.load("m.json")
    X, y = held.drop(columns="truth")[5:], held["truth"][5:]
    c = renyi.certify(clf, X, y, confidence=0.9)
    assert c.basis == "heldout"
    text = flat(done.out)
    assert text.startswith("m.json, tested on 995 rows Observed error ")
    bound = at_most(c.sampled_error, 1)
    assert f"Error at most, on this population {bound} <- quote this" in text
    assert "The bound has 90 % confidence. It is valid if the 995 rows" in text
    always = 1 - y.value_counts(normalize=True).max()
    assert f"always answering {c.majority[0]!r} {100 * always:.1f} %" in text
    more = flat(good(*asked, "--confidence", "0.9", "--details").out)
    assert f"sharp wrong on at most {at_most(c.bounds['sharp'], 1)}" in more
    assert "--exact" not in text
    assert max(map(len, done.out.splitlines())) <= 80
    assert "Dropped 5 rows with a missing target 'truth'" in done.err
    told = good(*asked, "--json").json
    assert told["confidence"] == 0.95
    assert told["n"] == 995
    assert told["bounds"] == renyi.certify(clf, X, y, confidence=0.95).bounds
    assert len(told["notes"]) == 1


def test_held_out_classes_written_otherwise(good: Callable[..., Done]) -> None:
    frame = table(600).drop(columns="id")
    frame["y"] = np.where(frame["y"] == "yes", "1e-7", "0.50")
    save(frame[:300], "a.csv")
    good("fit", "a.csv", "--target", "y", "--out", "m")
    save(frame[300:], "b.csv")
    first = good("certify", "m.json", "--rows", "b.csv", "--json").json
    save(frame[300:].replace({"0.50": "0.500", "1e-7": "1.0E-7"}), "b.csv")
    assert good("certify", "m.json", "--rows", "b.csv", "--json").json == first


def test_rows_of_the_training_are_not_called_unseen(good: Callable[..., Done]) -> None:
    frame = table(300).drop(columns="id")
    save(frame, "a.csv")
    save(frame[::-1], "b.csv")
    good("fit", "a.csv", "--target", "y", "--out", "m")
    for rows in ("a.csv", "b.csv"):
        text = flat(good("certify", "m.json", "--rows", rows).out)
        assert text.startswith("m.json, tested on 300 rows Warning: ")
        assert "not seen" not in text
        assert "quote this" not in text


# ---- halves


def test_a_bound_above_the_baseline_is_not_to_be_quoted(
    good: Callable[..., Done],
) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(list("abc"), 300) for name in "uvw"})
    frame["y"] = rng.choice(["p", "q"], 300, p=[0.7, 0.3])  # no column matters
    for name, part in (("a", frame[:150]), ("b", frame[150:])):
        place = save(part, f"{name}.csv")
        good("marginals", "build", place, "--target", "y", "--out", f"{name}.renyi")
    good("fit", "a.csv", "--target", "y", "--out", "m")
    for asked in (("--halves", "a.renyi", "b.renyi"), ("m.json", "--rows", "b.csv")):
        told = good("certify", *asked, "--json").json
        assert told["sampled_error"] >= told["majority"][1]
        text = good("certify", *asked).out
        assert "Error at most, on this population" in text
        assert "quote this" not in text
    good("report", "m.json", "--rows", "b.csv", "--out", "r.html")
    assert "quote this one" not in Path("r.html").read_text()


def test_halves_certify_each_other(good: Callable[..., Done]) -> None:
    rows = votes().sample(frac=1, random_state=0)
    for name, part in (("a", rows[:217]), ("b", rows[217:])):
        place = save(part, f"{name}.csv")
        good("marginals", "build", place, "--target", "party", "--out", f"{name}.renyi")
    done = good("certify", "--halves", "a.renyi", "b.renyi", "--out", "m.json")
    halves = [renyi.Marginals.load(f"{name}.renyi") for name in "ab"]
    c = renyi.CrossFitClassifier().fit_halves(*halves).certificate_
    assert flat(str(c)) in flat(done.out)
    assert "Saved   m.json (the mean of the two scorecards)\n" in done.out
    assert renyi.RenyiClassifier.load("m.json").certificate_ == c
    found = good("certify", "--halves", "a.renyi", "b.renyi", "--confidence", "0.9")
    assert "The bound has 90 % confidence." in found.out
    told = good("certify", "--halves", "a.renyi", "b.renyi", "--json").json
    assert told["bounds"] == dict(c.bounds)
    assert told["basis"] == "crossfit"


def test_halves_that_are_refused(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    fitted(good)
    good("marginals", "build", few_votes(), "--target", "party", "--out", "same.renyi")
    pair = ("--halves", "m.renyi", "same.renyi")
    assert "the same marginals" in bad("certify", *pair)
    assert "MODEL" in bad("certify", "m.json", *pair)
    assert "--rows" in bad("certify", *pair, "--rows", "few.csv")
    assert "--halves" in bad("certify", "m.json", "m.renyi", "--out", "n.json")
    assert "such as m.renyi" in bad("certify", "m.json")
    assert "m.renyi" in bad("certify", *pair, "--out", "m.renyi")
    assert "--halves" in bad("certify")


# ---- minimax


def test_minimax_of_a_file(good: Callable[..., Done]) -> None:
    name = few_votes()
    X, y = votes()[[*FEW]], votes()["party"]
    result = renyi.minimax(renyi.Marginals.from_data(X, y))
    done = good("minimax", name, "--target", "party")
    text = flat(done.out)
    assert (
        f"This rule is wrong on at most {at_most(result.upper)} of any population with "
        f"these pair counts. No model can guarantee less than {at_least(result.lower)}."
    ) in text
    assert "by 'physician-fee-freeze' alone" in text
    assert max(map(len, done.out.splitlines())) <= 80
    told = good("minimax", name, "--target", "party", "--json").json
    assert told["upper"] == pytest.approx(result.upper)
    assert (told["status"], told["method"]) == ("solved", "direct")


def test_minimax_of_marginals_with_fewer_columns(good: Callable[..., Done]) -> None:
    good("marginals", "build", few_votes(), "--target", "party", "--out", "v.renyi")
    told = good("minimax", "v.renyi", "--drop", "crime", "--json").json
    m = renyi.Marginals.load("v.renyi").select(FEW[:2])
    assert told["upper"] == pytest.approx(renyi.minimax(m).upper, abs=1e-9)
    assert told["features"] == 2


def test_pairs_within_the_classes_lower_the_minimax(good: Callable[..., Done]) -> None:
    argv = ("minimax", "votes", "--level", "lp")
    pairs = good(*argv, "--json").json
    inner = good(*argv, "--class-conditional", "--json").json
    assert inner["upper"] < pairs["upper"] - 1e-3
    assert (pairs["class_conditional"], inner["class_conditional"]) == (False, True)
    assert (pairs["lower"], pairs["status"]) == (None, "bounded")
    text = good(*argv, "--class-conditional").out
    assert "pair counts within each class" in text
    assert "can guarantee less" not in text
    assert "Next: renyi minimax votes --class-conditional --level exact" in text


def test_minimax_with_few_rows_opens_with_the_warning(
    good: Callable[..., Done],
) -> None:
    name = save(votes()[[*FEW, "party"]][:12], "t.csv")
    done = good("minimax", name, "--target", "party")
    assert done.out.startswith("Warning: there are ")
    assert done.out.index("For these rows only:") < done.out.index("at most")
    assert "exactly the pair counts of these 12 rows" in flat(done.out)


def test_a_search_without_time_says_that_it_stopped(good: Callable[..., Done]) -> None:
    argv = ("minimax", "kr-vs-kp", "--level", "exact", "--time-limit", "0.01")
    assert "stopped" in good(*argv).out


def test_three_classes(good: Callable[..., Done]) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.integers(0, 3, 300), "b": rng.integers(0, 2, 300)})
    y = (X["a"] + (rng.random(300) < 0.3)) % 3
    name = save(X.assign(y=y))
    good("fit", name, "--target", "y", "--out", "m")
    told = good("certify", "m.json", "m.renyi", "--exact", "--json").json
    best = good("minimax", name, "--target", "y", "--json").json
    assert told["lower"] == pytest.approx(best["lower"], abs=1e-6)
    assert told["lower"] <= told["upper"] + 1e-9


# ---- hgr


def test_columns_are_ranked(good: Callable[..., Done]) -> None:
    told = good("hgr", "votes", "--json").json
    X, y = renyi.datasets.load("votes")
    rho = {entry["name"]: entry["rho"] for entry in told["columns"]}
    assert rho == pytest.approx({name: float(renyi.hgr(X[name], y)) for name in X})
    assert list(rho.values()) == sorted(rho.values(), reverse=True)
    bound = renyi.hgr_lower_bound(renyi.Marginals.from_data(X, y))
    assert told["lower_bound"] == pytest.approx(bound)
    lines = good("hgr", "votes").out.splitlines()
    assert lines[2].split() == ["physician-fee-freeze", "0.914", "3"]
    assert "at least 0.935" in flat(" ".join(lines))
    assert max(map(len, lines)) <= 80


def test_without_every_pair_there_is_no_bound_on_all_columns(
    good: Callable[..., Done],
) -> None:
    rows = table()
    pairs = [
        rows.groupby([a, b]).size().rename("count").reset_index()
        for a, b in (("colour", "y"), ("size", "y"))
    ]
    renyi.Marginals.from_tables(pairs, target="y").save("p.renyi")
    told = good("hgr", "p.renyi", "--json").json
    assert told["lower_bound"] is None
    assert [entry["name"] for entry in told["columns"]] == ["colour", "size"]
    assert "needs the counts of every pair" in flat(good("hgr", "p.renyi").out)


# ---- bad input


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("certify",), "MODEL"),
        (("certify", "m.json"), "either MARGINALS or --rows FILE"),
        (("certify", "m.json", "m.renyi", "--rows", "t.csv"), "either MARGINALS or"),
        (("certify", "m.json", "m.renyi", "--exact", "--level", "lp"), "not allowed"),
        (("certify", "m.json", "m.renyi", "--level", "best"), "best"),
        (
            ("certify", "m.json", "m.renyi", "--confidence", "0.9"),
            "--confidence is",
        ),
        (("certify", "m.json", "m.renyi", "--target", "y"), "--target is for --rows"),
        (("certify", "m.json", "m.renyi", "--time-limit", "9"), "--time-limit is for"),
        (("certify", "m.json", "--rows", "t.csv", "--exact"), "are for marginals"),
        (("certify", "m.json", "--rows", "t.csv", "--confidence", "95"), "'95'"),
        (("certify", "m.json", "m.renyi", "--exact", "--time-limit", "0"), "above 0"),
        (("certify", "m.json", "m.renyi", "--exact", "--time-limit", "inf"), "'inf'"),
        (("minimax", "votes", "--time-limit", "-1"), "is not a number above 0"),
        (("minimax", "votes", "--time-limit", "nan"), "'nan'"),
        (("minimax", "votes", "--seed", "-1"), "--seed"),
        (("hgr",), "FILE"),
        (("hgr", "votes", "--class-conditional"), "--class-conditional"),
    ],
)
def test_wrong_arguments(
    argv: tuple[str, ...], named: str, bad: Callable[..., str]
) -> None:
    assert named in bad(*argv)


def test_marginals_that_do_not_serve(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    good("marginals", "build", "votes", "--out", "v.renyi")
    for command in ("minimax", "fit"):
        message = bad(command, "v.renyi", "--class-conditional")
        assert "no pairs within each class" in message
    for command in ("minimax", "hgr"):
        assert "--bins is for tables" in bad(command, "v.renyi", "--bins", "3")
        assert "no column 'z'" in bad(command, "v.renyi", "--target", "z")
        assert "--target is required" in bad(command, few_votes())
    assert "missing in some rows of v.renyi" in bad(
        "minimax", "v.renyi", "--target", "crime"
    )
    fitted(good)
    save(votes()[["crime", "party"]], "b.csv")
    good("marginals", "build", "b.csv", "--target", "party", "--out", "b.renyi")
    message = bad("certify", "m.renyi", "m.json")
    assert "m.renyi is not a renyi-model file: it is an archive, as marg" in message
    assert "MODEL must be a model" in message
    message = bad("certify", "m.json", "m.json")
    assert "m.json is not a renyi-marginals file: it is a model" in message
    message = bad("certify", "m.json", "b.renyi", "--exact")
    assert "no column 'physician-fee-freeze'" in message


def test_held_out_rows_that_do_not_serve(
    bad: Callable[..., str], good: Callable[..., Done]
) -> None:
    fitted(good)
    asked = ("certify", "m.json", "--rows")
    rows = votes()[[*FEW, "party"]]
    save(rows.drop(columns="party"), "b.csv")
    assert "b.csv has no column 'party'" in bad(*asked, "b.csv")
    save(rows.drop(columns="crime"), "b.csv")
    assert "b.csv has no column 'crime'" in bad(*asked, "b.csv")
    save(rows[:50].assign(party="whig"), "b.csv")
    assert "No row has a class that the model knows" in bad(*asked, "b.csv")
    assert "m.renyi holds marginals" in bad(*asked, "m.renyi")


def test_marginals_that_no_rows_have(bad: Callable[..., str]) -> None:
    # Of three bits two are equal, but here each pair is so for 30 of 100 rows only.
    bits = ["0", "0", "1", "1"], ["0", "1", "0", "1"]
    names = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "y"), ("b", "y"), ("c", "y")]
    counts = [15, 35, 35, 15], [25, 25, 25, 25]
    tables = [
        pd.DataFrame({p: bits[0], q: bits[1], "count": counts[q == "y"]})
        for p, q in names
    ]
    renyi.Marginals.from_tables(tables, target="y").save("x.renyi")
    assert "No distribution has these tables" in bad("minimax", "x.renyi")


@pytest.mark.parametrize("command", ["certify", "minimax"])
def test_without_the_solver(
    command: str,
    bad: Callable[..., str],
    good: Callable[..., Done],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fitted(good)
    monkeypatch.setitem(sys.modules, "highspy", None)
    argv = ("m.json", "m.renyi", "--exact") if command == "certify" else ("m.renyi",)
    assert "pip install '.[exact]'" in bad(command, *argv)
    good("certify", "m.json", "m.renyi")


def test_other_import_errors_are_our_faults(
    run: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ImportError("cannot import name 'z'")

    monkeypatch.setattr("renyi.cli.process._command", fail)
    done = run("datasets")
    assert done.code == 1
    assert "Unexpected ImportError" in done.err


# ---- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shown", [True, False])
def test_progress_is_for_terminals(
    shown: bool, good: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    save(votes().iloc[:, [*range(3, 12), 16]], "t.csv")
    stream = Terminal() if shown else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr("renyi.cli.output._PAUSE", 0.0)
    text = good("minimax", "t.csv", "--target", "party", "--level", "exact").out
    lines = stream.getvalue().split("\r")
    assert "cuts" not in text
    if not shown:
        assert lines == [""]
        return
    reports = [line for line in lines if line.startswith("minimax error e*: ")]
    assert all(" % to " in line and " cuts" in line for line in reports)
    assert len(reports) > 1
    assert lines[-2].strip() == lines[-1] == ""  # the line is cleared


def test_progress_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "30")
    with Meter() as meter:
        meter(Progress("exact worst case", 99.0, facts="10.000 % to 20.000 %"))
        meter(Progress("linear program"))
    _, *lines = sys.stderr.getvalue().split("\r")
    assert [len(line) for line in lines] == [29, 29, 14, 0]
