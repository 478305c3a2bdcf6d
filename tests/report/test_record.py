"""The record of a report: what it holds, whose figures they are, and no row."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.certification import bound_report
from renyi.formatting import at_most
from renyi.genotypes.report import genotype_report
from renyi.genotypes.scores import GenotypeScores
from renyi.marginals.arithmetic import with_uncertainty
from renyi.marginals.uncertainty import Budget, Noise
from renyi.report import build, summary
from renyi.report.page import Report
from support.forgeries import signed
from support.releases import own_blocks, released
from support.reports import frame, genotypes


def lists(value: Any) -> Any:
    """Yield every list in a plain value."""
    if isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, list):
        yield value
    if isinstance(value, list):
        for each in value:
            yield from lists(each)


@pytest.mark.parametrize("order", [1, 2])
def test_no_row_of_the_data_appears(order: int) -> None:
    X = frame(400, 8)
    y = np.where(X["c0"] < "c0v2", "yes", "no")
    clf = renyi.RenyiClassifier(order=order).fit(X[:300], y[:300])
    m = clf.marginals_
    path = None if order > 1 else renyi.selection_path(m)  # type: ignore[arg-type]
    report = clf.report(X=X[300:], y=y[300:], path=path)
    page, plain = report.to_html(), json.loads(json.dumps(report.to_dict()))
    rows = {frozenset(row) for row in X.itertuples(index=False)}
    for text in (page, json.dumps(plain)):
        tokens = re.findall(r"c\dv\d", text)
        assert len(tokens) > 30
        windows = zip(*(tokens[k:] for k in range(8)), strict=False)
        assert not any(frozenset(window) in rows for window in windows)
    codes = {tuple(row) for row in clf.encoder_.single.transform(X).T.tolist()}
    embedded = re.search(r'page-data"[^>]*>(.*?)</script>', page)
    assert embedded is not None
    for found in (plain, json.loads(embedded[1])):
        assert not any(
            tuple(each) in codes
            for each in lists(found)
            if all(isinstance(k, int) for k in each)
        )


def test_the_worst_population_does_not_give_few_rows_away() -> None:
    X = frame(12, 5)
    m = renyi.Marginals.from_data(X, ["a", "b"] * 6)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    bounds = bound_report(clf, m, level="exact", time_limit=20)
    found = bounds.minimax.worst_distribution.frame().iloc[:, :5]
    rows = {*X.itertuples(index=False, name=None)}
    assert rows & {*found.itertuples(index=False, name=None)}  # counts settle them
    report = build.report(clf, m, bounds=bounds)
    assert (
        report.to_dict()["worst"] is not None
        and report.to_dict()["worst"]["rows"] == []
    )
    assert "none that stands for fewer" in report.to_html()


@pytest.mark.parametrize("given", [{"rho": 0.5}, {"epsilon": 1.0, "delta": 1e-5}])
def test_a_private_release_states_its_budget(given: dict[str, float]) -> None:
    m = renyi.Marginals.from_data(frame(300, 3), [*"ab"] * 150)
    budget = Budget(**given, rows_per_person=2, exact_rows=40)
    empty = own_blocks(m)
    noisy = np.where(empty, 0, np.asarray(m.counts) + 1)
    record = Noise(noisy, (3.0, 4.0), None, budget)
    private = with_uncertainty(m, record)
    report = renyi.RenyiClassifier().fit_marginals(private).report()
    spent = "rho 0.5" if "rho" in given else "epsilon 1 at delta 1e-05"
    facts = {
        "Counts": "discrete Gaussian noise of scale 5 in each cell",
        "Privacy budget": f"{spent}, for 2 rows a person (add-remove)",
        "Without protection": "40 rows",
    }
    assert report.to_dict()["data"]["uncertainty"] == facts
    page = html.unescape(report.to_html()).replace("\N{NO-BREAK SPACE}", " ")
    assert "<h3>Uncertainty of the counts</h3>" in page
    assert all(f"<dt>{key}</dt><dd>{facts[key]}</dd>" in page for key in facts)


def test_a_rounded_release_states_its_intervals() -> None:
    m = renyi.Marginals.from_data(frame(300, 3), [*"ab"] * 150)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    assert clf.report().to_dict()["data"]["uncertainty"] is None
    assert "Uncertainty of the counts" not in clf.report().to_html()
    known = released(m, "rounded", np.random.default_rng(0), base=5)
    facts = build.report(clf, known).to_dict()["data"]["uncertainty"]
    assert facts == {
        "Counts": "each is an interval, at most 4 wide",
        "Rows": "298 to 302",
    }
    shown = renyi.RenyiClassifier().fit_marginals(known).report().to_html()
    assert "<h3>Uncertainty of the counts</h3>" in shown


def test_sums_of_held_out_rows_are_those_of_the_rows(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    report = clf.report(X=X[300:], y=y[300:])
    h = report.to_dict()["heldout"]
    assert h is not None
    wrong = float((clf.predict(X[300:]) != y[300:]).mean())
    confusion = np.array(h["confusion"])
    assert 1 - np.trace(confusion) / confusion.sum() == pytest.approx(wrong)
    assert sum(b["rows"] for b in h["bins"]) == h["rows"] == 135
    second = (y[300:] == "republican").to_numpy()
    p = clf.predict_proba(X[300:])[:, 1]
    assert sum(b["rows"] * b["share"] for b in h["bins"]) == pytest.approx(second.sum())
    assert sum(b["rows"] * b["probability"] for b in h["bins"]) == pytest.approx(
        p.sum()
    )
    pairs = (p[second][:, None] > p[~second]) + (p[second][:, None] == p[~second]) / 2
    assert h["auc"] is not None and h["auc"][0] == pytest.approx(pairs.mean())
    missed = [
        float((clf.predict(X[300:]) != y[300:])[y[300:] == c].mean())
        for c in clf.classes_
    ]
    assert [each["error"] for each in h["by_class"]] == pytest.approx(missed)
    assert [each["rows"] for each in h["by_class"]] == [80, 55]
    assert f"{100 * wrong:.1f} %" in str(report)
    assert report.to_dict()["certificate"] is not None
    assert report.to_dict()["certificate"]["basis"] == "marginals"


def test_verdict_does_not_promise_where_the_bound_says_little() -> None:
    X = frame(40, 12)
    clf = renyi.RenyiClassifier().fit(X, np.where(X["c0"] < "c0v2", "a", "b"))
    assert clf.certificate_.doubtful
    facts = clf.report().to_dict()
    assert facts["guarantee"]["place"] is None
    assert facts["guarantee"]["text"].startswith("none useful. There are 48 categories")
    assert {each["kind"] for each in facts["headline"]} == {"estimate", "baseline"}


def test_the_page_says_why_a_bound_says_little_before_it_shows_one() -> None:
    X = frame(40, 12)
    y = np.where(X["c0"] < "c0v2", "a", "b")
    clf = renyi.RenyiClassifier().fit(X, y)
    c, m = clf.certificate_, renyi.Marginals.from_data(X, y)
    card = clf.scorecard_.rounded(3, marginals=m)
    page = clf.report(card=card).to_html().replace("\N{NO-BREAK SPACE}", " ")
    figures, _, details = page.partition('id="errors"')[2].partition("<details")
    assert "estimate by leave-one-out" in figures and "at most 0" not in figures
    reason = c.warnings[0][1:]
    assert reason not in figures
    assert details.index(reason) < details.index("For these rows only:")
    assert page.count(reason) == 1  # no note is said twice
    hand = page.partition('id="card"')[2].partition("</section>")[0]
    assert "No useful guarantee follows from pair counts for this card." in hand
    assert "at most" not in hand


def test_whole_points_of_an_optimistic_model_say_so(votes: Any) -> None:
    m = renyi.Marginals.from_data(*votes)
    clf = renyi.RenyiClassifier().fit_marginals(m)
    own = replace(clf.certificate_, loo_risk=1.0, warnings=("expect the estimate.",))
    assert own.doubtful and not clf.scorecard_.rounded(3, marginals=m).before.doubtful
    card = build._card(clf.scorecard_.rounded(3, marginals=m), own)
    assert card["sentences"][-1].startswith("No useful guarantee")
    certain = build._card(clf.scorecard_.rounded(3, marginals=m), clf.certificate_)
    assert "wrong on at most" in certain["sentences"][-1]


def test_a_bound_has_the_same_digits_on_page_card_and_text(votes: Any) -> None:
    clf = renyi.RenyiClassifier().fit(*votes)
    report = clf.report(card=clf.scorecard_.rounded(10, marginals=clf.marginals_))
    bound = at_most(clf.certificate_.bounds["map"], 1)
    assert f"at most {bound}" in str(clf.certificate_)
    assert f"wrong on at most {bound} of any population" in str(report)
    (closed,) = (
        row for row in report.to_dict()["errors"] if row["title"] == "Guarantee"
    )
    assert closed["shown"] == f"at most {bound}"
    assert report.to_dict()["card"] is not None
    assert (
        f"Before rounding, the model is wrong on at most {bound}."
        in report.to_dict()["card"]["sentences"][-1]
    )


def test_weights_are_not_called_rows(votes: Any) -> None:
    X, y = votes
    weights = np.random.default_rng(0).random(len(y)) + 0.5
    clf = renyi.RenyiClassifier().fit(X, y, weights)
    report = clf.report()
    size = f"{weights.sum():,.10g} units of weight"
    assert size in report.to_dict()["about"]
    page = report.to_html()
    points = page.partition('id="points"')[2].partition("</thead>")[0]
    assert f"<dd>{size}</dd>" in page and ">Sum of weights<" in points
    assert ">Rows<" not in points and "Share of the weight" in page
    assert (
        report.to_dict()["card"] is not None
        and size in report.to_dict()["card"]["sentences"][-1]
    )
    few = renyi.RenyiClassifier().fit(X[:20], y[:20], weights[:20])
    few_size = f"{weights[:20].sum():,.10g} units of weight"
    assert f"and only {few_size}: their" in " ".join(str(few.report()).split())
    other = renyi.RenyiClassifier().fit(X, y).report(clf.marginals_)
    assert f"{size} of other pair counts" in other.to_html()


def test_a_guarantee_that_is_no_better_than_guessing_is_not_a_figure() -> None:
    X = frame(200, 3)
    y = np.where(np.random.default_rng(0).random(200) < 0.3, "a", "b")
    clf = renyi.RenyiClassifier().fit(X, y)
    facts = clf.report().to_dict()
    upper = at_most(clf.certificate_.bounds["map"], 1)
    assert facts["guarantee"]["place"] is None
    line = facts["guarantee"]["text"]
    assert line.startswith(f"none useful. Pair counts prove at most {upper}")
    assert "and always answering 'b' is wrong on " in line
    assert not any(upper in each["value"] for each in facts["headline"])
    verdict = facts["findings"][0]
    assert not verdict["good"] and "better than always answering 'b'" in verdict["text"]


def test_other_marginals_are_named_as_such(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:200], y[:200])
    own = clf.report(clf.marginals_)
    assert own.to_dict()["data"]["certified"] is None
    other = clf.report(renyi.Marginals.from_data(X[200:], y[200:]))
    assert (
        other.to_dict()["data"]["certified"] == 235
        and other.to_dict()["data"]["rows"] == 200
    )
    assert "The guarantee is for the pair counts given" in other.to_html()
    assert "The guarantee is for the pair counts given" not in own.to_html()


def test_halves_that_judge_each_other_speak_of_the_population(votes: Any) -> None:
    safe = renyi.CrossFitClassifier().fit(*votes)
    report = safe.classifier_.report()
    bound = report.to_dict()["headline"][1]
    assert bound["label"] == "at most, with 95 % confidence"
    assert bound["value"] == "17.8 %"
    *_, always = report.to_dict()["headline"]
    assert (always["label"], always["value"]) == (
        "always answering 'democrat'",
        "38.6 %",
    )
    assert {rung["kind"] for rung in report.to_dict()["errors"]} >= {
        "estimate",
        "bound",
    }


def test_bounds_of_halves_are_not_taken_for_proofs_of_the_counts(votes: Any) -> None:
    X, y = votes
    safe = renyi.CrossFitClassifier(random_state=0).fit(X, y).classifier_
    bound = at_most(safe.certificate_.bounds["map"], 1)
    report = safe.report()
    line = report.to_dict()["guarantee"]["text"]
    assert f"at most {bound} (95 % confidence)" in line
    assert "with 95 % confidence in each bound" in report.to_html().replace(
        "\N{NO-BREAK SPACE}", " "
    )


def test_rows_of_the_training_prove_nothing(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X, y)
    report = clf.report(X=X, y=y)
    facts = report.to_dict()
    assert "not used in training" not in str(report) and "confidence" not in str(report)
    assert not any(figure["kind"] == "bound" for figure in facts["headline"])
    assert not any(row["name"] == "held-out rows" for row in facts["errors"])
    assert "may be its training rows" in facts["findings"][1]["text"]
    (note,) = facts["notes"]
    assert "these bounds are not valid" in note


def test_estimates_are_of_the_rule_and_guarantees_name_their_rows(votes: Any) -> None:
    X, y = votes
    sharp = renyi.RenyiClassifier(rule="sharp").fit(X[:200], y[:200])
    estimate = sharp.report().to_dict()["headline"][0]
    error = sharp.certificate_.loo_error
    assert error is not None and estimate["value"] == f"{100 * error:.1f} %"
    assert "95 % interval" in estimate["note"] and "leave-one-out" in estimate["note"]
    few = sharp.report(renyi.Marginals.from_data(X[200:220], y[200:220]))
    assert "only 20 rows" in str(few)
    both = X[["physician-fee-freeze", "crime"]]
    pairs = renyi.RenyiClassifier(order=2).fit(both, y).report()
    line = pairs.to_dict()["guarantee"]["text"]
    assert "the same counts of pairs of features of 2 columns" in line
    warned = replace(
        sharp.certificate_,
        warnings=("the features were selected.",),
        warning_codes=("selected-features",),
    )
    assert summary.notes(warned, warned) == ["The features were selected."]


def test_the_scorecard_tells_no_answer_of_a_rule_that_draws_it(votes: Any) -> None:
    X, y = votes
    told = "above 0 the likelier class is 'republican'"
    for rule in ("map", "renyi"):
        page = html.unescape(
            renyi.RenyiClassifier(rule=rule).fit(X, y).report().to_html()
        )
        assert (told in page) == ("answers at random where it is unsure" in page)
        assert (told in page) == (rule == "renyi")


def test_a_class_without_held_out_rows_has_no_share_of_errors(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier(rule="renyi").fit(X, y)
    page = clf.report(X=X[y == "democrat"], y=y[y == "democrat"]).to_html()
    assert "counted here is the likelier class" in page
    table = page.partition("Answers by true class</caption>")[2]
    row = table.partition("republican</th><td")[2].partition("</tr>")[0]
    assert row.endswith("—</td>") and "100" not in row


def test_figures_of_few_rows_are_named_as_such() -> None:
    X = frame(60, 2)
    X.loc[0, "c0"] = "Ada Lovelace"
    clf = renyi.RenyiClassifier().fit(X, np.arange(60) % 2)
    page = clf.report(X=X[:3], y=[0, 1, 0]).to_html()
    assert "1 category has fewer than 5 rows." in page
    assert "may reveal single rows" in page
    assert (
        "may reveal"
        not in renyi.RenyiClassifier()
        .fit(frame(60, 2), np.arange(60) % 2)
        .report()
        .to_html()
    )


def test_starts_of_several_classes_have_the_digits_of_points() -> None:
    clf = renyi.RenyiClassifier().fit(frame(300, 30), [*"uvw"] * 100)
    report = clf.report()
    assert (
        max(x for f in report.to_dict()["features"] for p in f["points"] for x in p)
        < 1e-3
    )
    start = [abs(x) for x in report.to_dict()["scale"]["intercept"]]
    assert min(start) > 1e-6 and max(start) < 5e-5
    (shown,) = re.findall("A row starts from (.*?) and adds", report.to_html())
    assert len(re.findall(r"0\.0000\d", shown)) == 3


def test_record_and_page_are_written_together_and_read_back(
    votes: Any, tmp_path: Path
) -> None:
    report = renyi.RenyiClassifier().fit(*votes).report()
    report.save(tmp_path / "votes.html")
    plain = json.loads((tmp_path / "votes.report.json").read_text("utf-8"))
    assert plain["format"] == "renyi-report" and plain["summary"] == str(report)
    assert (tmp_path / "votes.html").read_text("utf-8") == report.to_html()
    with pytest.raises(ValueError, match=r"votes\.pdf"):
        report.save(tmp_path / "votes.pdf")
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "votes.html",
        "votes.report.json",
    ]


def test_rows_and_classes_go_together(votes: Any) -> None:
    clf = renyi.RenyiClassifier().fit(*votes)
    with pytest.raises(ValueError, match="X and y"):
        clf.report(X=votes[0])


def test_five_hundred_categories_take_less_than_200_kilobytes() -> None:
    random = np.random.default_rng(0)
    names = [f"measurement {j}" for j in range(100)]
    X = pd.DataFrame(random.normal(size=(2000, 100)), columns=names)
    y = np.where(X.iloc[:, :5].sum(axis=1) > 0, "yes", "no")
    clf = renyi.RenyiClassifier(encoder=renyi.Encoder(bins=5))
    report = clf.fit(X, y).report(X=X, y=y)
    assert len(report.to_html().encode()) < 200_000


def test_features_beyond_the_most_stay_in_the_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "MOST_CATEGORIES", 12)
    X = frame(300, 6)
    clf = renyi.RenyiClassifier().fit(X, np.where(X["c0"] < "c0v2", "a", "b"))
    report = clf.report()
    assert len(report.to_dict()["features"]) == 3 and report.to_dict()["left_out"] == 3
    start = {
        c["name"]: [c["categories"][c["start"]]] for c in report.to_dict()["columns"]
    }
    expected = clf.decision_function(pd.DataFrame(start))[0]
    own = sum(
        f["points"][report.to_dict()["columns"][f["members"][0]]["start"]][0]
        for f in report.to_dict()["features"]
    )
    assert report.to_dict()["scale"]["intercept"][0] + own == pytest.approx(
        expected, abs=1e-9
    )


def test_genotypes_promise_nothing_and_name_their_variants() -> None:
    model, _ = genotypes()
    report = genotype_report(model)
    assert isinstance(report, Report) and report.to_dict()["certificate"] is None
    assert "Guarantee: none." in str(report)
    assert "95 % interval" in report.to_dict()["headline"][0]["note"]
    assert report.to_dict()["features"][0]["name"].startswith("rs")
    assert report.to_dict()["features"][0]["importance"] == pytest.approx(
        model.importance.max()
    )
    assert report.to_dict()["scale"]["covariates"].keys() == {"age"}
    with pytest.raises(ValueError, match="do not predict classes"):
        genotype_report(GenotypeScores(model.variants, model.points))


def test_a_certificate_of_a_stranger_does_no_harm(tmp_path: Path) -> None:
    def change(data: Any) -> None:
        data["certificate"]["majority"][0] = "none of them"
        data["certificate"]["steps"][0]["name"] = ""

    place = tmp_path / "model.json"
    place.write_text(json.dumps(signed(change)), "utf-8")
    report = renyi.RenyiClassifier.load(place).report()
    assert report.to_dict()["data"]["shares"] is None
    assert "closed form" not in report.to_html()


def test_blank_names_can_be_seen_and_long_ones_are_cut(votes: Any) -> None:
    X, y = votes
    X = X.rename(columns={"crime": " ", "immigration": ""})
    report = renyi.RenyiClassifier().fit(X, y.rename("t" * 5000)).report()
    assert len(report.to_dict()["title"]) < 200
    page = report.to_html()
    assert re.search(r"<th[^>]*>\s*</th>", page.partition("page-data")[0]) is None


@pytest.mark.parametrize("wrong", ["0.1", 2.5, -1, [1], 10**400, float("nan"), True])
def test_what_a_genotype_model_tells_of_itself_may_be_no_share(wrong: Any) -> None:
    model, _ = genotypes(5)
    report = genotype_report(replace(model, meta={"samples": "?", "loo_error": wrong}))
    assert (
        "unknown: the model file does not contain it" in str(report)
        and report.to_dict()["data"]["rows"] is None
    )
    assert not any(rung["kind"] == "estimate" for rung in report.to_dict()["errors"])
    assert report.to_html()


def test_calibration_curve_is_that_of_the_rows_in_each_bin():
    rng = np.random.default_rng(1)
    p = rng.random(500)
    hit = rng.random(500) < p
    rows, predicted, observed = build.calibration_curve(p, hit, 4)
    edges = np.quantile(p, np.linspace(0, 1, 5))
    for k in range(4):
        inside = (p > edges[k] if k else p >= edges[0]) & (p <= edges[k + 1])
        assert rows[k] == inside.sum()
        assert predicted[k] == pytest.approx(p[inside].mean())
        assert observed[k] == pytest.approx(hit[inside].mean())
    same = np.full(30, 0.5)  # one bin where all probabilities are equal
    assert build.calibration_curve(same, hit[:30], 4)[0].tolist() == [30]


@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced"}])
def test_bounds_of_pairs_within_each_class_say_so_in_every_place(
    votes: Any, settings: Any
) -> None:
    X, y = votes
    m = renyi.Marginals.from_data(X.iloc[:, :3], y, class_conditional=True)
    clf = renyi.RenyiClassifier(**settings).fit_marginals(m)
    facts = clf.report(m).to_dict()
    guarantees = [row for row in facts["errors"] if row["kind"] == "guarantee"]
    assert guarantees
    assert all("within each class" in row["covers"] for row in guarantees)
    page = clf.report(m).to_html()
    assert "the same counts of pairs within each class:" in page
    alone = renyi.Marginals.from_data(X.iloc[:, :3], y)
    assert "within each class" not in str(clf.report(alone))


def test_rows_of_an_unknown_class_count_as_errors_of_their_own(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    truth = y[300:].astype(object)
    truth.iloc[:7] = "independent"
    report = clf.report(X=X[300:], y=truth)
    facts = report.to_dict()
    confusion = np.array(facts["heldout"]["confusion"])
    assert confusion.shape == (3, 2) and confusion[2].sum() == 7
    wrong = confusion.sum() - np.trace(confusion)
    assert facts["headline"][0]["place"] == pytest.approx(wrong / 135)
    assert "class that the model does not know" in report.to_html()
    (note,) = facts["notes"]
    assert "independent" in note and "7 of the 135" in note


def test_findings_say_whether_to_use_the_model(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    tested = clf.report(X=X[300:], y=y[300:]).to_dict()["findings"]
    assert [each["good"] for each in tested] == [True, True, True]
    assert tested[0]["text"] == "Clearly better than always answering 'democrat'."
    assert tested[1]["text"] == "Tested on 135 rows not used in training."
    untested = clf.report().to_dict()["findings"][1]
    assert not untested["good"] and untested["text"].startswith("Not tested on data")


@pytest.mark.parametrize(("wrong", "differs"), [((12, 1), True), ((6, 4), False)])
def test_errors_differ_by_class_only_where_their_intervals_do(
    wrong: tuple[int, int], differs: bool
) -> None:
    classes = [
        {"class": label, "rows": 20.0, "error": n / 20}
        for label, n in zip("ab", wrong, strict=True)
    ]
    found = summary._by_class(classes)
    assert found is not None and found["good"] == (not differs)
    assert f"'a' is missed on {5 * wrong[0]}.0 %" in found["text"]
    assert summary._by_class(classes[:1]) is None


def test_errors_by_class_come_from_left_out_rows_without_others(votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X, y)
    report = clf.report()
    left_out = report.to_dict()["left_out_rows"]
    rows = [each["rows"] for each in left_out["by_class"]]
    errors = [each["error"] for each in left_out["by_class"]]
    assert np.dot(rows, errors) / 435 == pytest.approx(clf.certificate_.loo_error)
    section = report.to_html().partition('id="left_out_rows"')[2]
    assert f"{100 * errors[0]:.1f}" in section.partition("</section>")[0]
    assert clf.report(X=X[:50], y=y[:50]).to_dict()["left_out_rows"] is None
