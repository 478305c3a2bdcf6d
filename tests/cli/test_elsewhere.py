"""Models made elsewhere on the command line: a saved scorecard, a table of points."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

import renyi
from renyi.report import build
from support.commandline import Done, save, votes

FEW = ["physician-fee-freeze", "immigration", "crime"]
POINTS = {
    ("physician-fee-freeze", "y"): 10,
    ("physician-fee-freeze", "n"): 0,
    ("physician-fee-freeze", "(missing)"): 5,
    ("immigration", "y"): 0,
    ("immigration", "n"): 2,
    ("immigration", "(any other)"): 1,
    ("immigration", "(missing)"): 1,
}


def logistic(good: Callable[..., Done]) -> tuple[Pipeline, pd.DataFrame]:
    """Save rows, their pair counts and the scorecard of a logistic regression."""
    rows = votes()[[*FEW, "party"]]
    save(rows, "rows.csv")
    encoder = OneHotEncoder(handle_unknown="ignore")
    model = make_pipeline(encoder, LogisticRegression())
    model.fit(rows[FEW], rows["party"])
    card = renyi.Scorecard.from_model(model)
    m = renyi.Marginals.from_data(rows[FEW], rows["party"], encoder=card.encoder)
    m.save("m.renyi")
    renyi.Scorecard.from_model(model, m).save("card.json")
    return model, rows


def table_of_points(name: str = "points.csv", of_class: str | None = None) -> str:
    rows = [(feature, label, n) for (feature, label), n in POINTS.items()]
    frame = pd.DataFrame(rows, columns=["feature", "category", "points"])
    return save(
        frame if of_class is None else frame.assign(**{"class": of_class}), name
    )


def totals(X: pd.DataFrame) -> np.ndarray:
    """The totals of the table, by hand."""
    fee = X["physician-fee-freeze"].map({"y": 10, "n": 0}).fillna(5)
    return (fee + X["immigration"].map({"y": 0, "n": 2}).fillna(1)).to_numpy()


def test_every_command_takes_a_saved_scorecard(good: Callable[..., Done]) -> None:
    pytest.importorskip("highspy")
    model, rows = logistic(good)
    wrong = np.mean(model.predict(rows[FEW]) != rows["party"])
    m = renyi.Marginals.load("m.renyi")
    done = good(
        "certify", "card.json", "m.renyi", "--exact", "--json", "--proof", "p.json"
    )
    worst = renyi.worst_case(model, m)
    assert done.json["certificate"]["bounds"] == {
        "map": pytest.approx(worst.upper, abs=1e-6)
    }
    assert wrong <= worst.upper + 1e-9
    assert "proved" in good("verify", "card.json", "m.renyi", "--proof", "p.json").out
    good("predict", "card.json", "rows.csv", "--proba", "--out", "p.csv")
    answers = pd.read_csv("p.csv")
    assert (answers["prediction"] == model.predict(rows[FEW])).all()
    shares = model.predict_proba(rows[FEW])
    np.testing.assert_allclose(answers["proba_republican"], shares[:, 1], atol=1e-4)
    good("explain", "card.json", "rows.csv", "--out", "e.csv")
    own = pd.read_csv("e.csv")["total"]
    np.testing.assert_allclose(own, model.decision_function(rows[FEW]), atol=1e-6)
    compared = good("compare", "rows.csv", "--models", "card.json", "--json").json
    assert compared["entries"][0]["error"]["value"] == pytest.approx(wrong)
    tested = good("certify", "card.json", "--rows", "rows.csv", "--json").json
    assert tested["observed_error"] == pytest.approx(wrong)
    assert "CASE" in good("export", "card.json", "--sql", "duckdb").out
    good("export", "card.json", "--format", "python", "--out", "card.py")
    predict = vars_of("card.py")["predict"]
    cells = rows[FEW].astype(object).where(rows[FEW].notna(), None)
    assert [predict(row) for row in cells.to_dict("records")] == [
        *model.predict(rows[FEW])
    ]
    card = good("export", "card.json", "m.renyi", "--points", "5").out
    assert "as if its scores were log-odds" in card
    good("report", "card.json", "m.renyi", "--out", "card.html")
    assert "made elsewhere" in Path("card.html").read_text(encoding="utf-8")


def vars_of(path: str) -> dict[str, object]:
    names: dict[str, object] = {"__name__": "card"}
    exec(Path(path).read_text(encoding="utf-8"), names)
    return names


def test_what_a_saved_scorecard_does_not_know(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    logistic(good)
    assert "its report needs pair counts: name them" in bad("report", "card.json")
    message = bad("export", "card.json", "--points", "5")
    assert "card.json is a scorecard alone, and --points needs pair counts" in message
    message = bad("predict", "card.json", "rows.csv", "--prevalence", "0.2")
    assert "does not store the shares of the classes" in message
    message = bad("certify", "card.json", "m.renyi", "--threshold", "1")
    assert "--threshold is for tables of points (.csv): leave it out." in message
    Path("bytes.csv").write_bytes(b"\x80\x81")
    message = bad("certify", "bytes.csv", "m.renyi")
    assert message.count("bytes.csv") == 1 and "is not UTF-8" in message
    message = bad("certify", "card.json", "m.renyi", "--out", "x.json")
    assert "--out is for --halves and for tables of points (.csv)" in message
    with pytest.raises(ValueError, match=r"load it with Scorecard\.load"):
        renyi.RenyiClassifier.load("card.json")
    card = renyi.Scorecard.load("card.json")
    with pytest.raises(ValueError, match="report of a scorecard needs pair counts"):
        build.report(card)
    m = renyi.Marginals.load("m.renyi")
    facts = build.report(card, m).to_dict()
    assert facts["certificate"]["bounds"] == renyi.certify(card, m).bounds
    assert facts["made"]["model"] == "made elsewhere"
    assert "alpha" not in facts["made"]


def test_cells_that_a_scorecard_does_not_know(good: Callable[..., Done]) -> None:
    _, rows = logistic(good)
    save(rows.assign(crime="maybe"), "odd.csv")
    done = good("predict", "card.json", "odd.csv", "--out", "o.csv")
    assert "unseen in training" in done.err
    assert "they count as the model takes unknown labels" in " ".join(done.err.split())


def test_a_scorecard_without_the_name_of_its_target(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    model, rows = logistic(good)
    renyi.Scorecard.from_model(model).save("plain.json")
    own = good("certify", "plain.json", "m.renyi", "--json").json
    assert (
        own["bounds"]
        == good("certify", "card.json", "m.renyi", "--json").json["bounds"]
    )
    assert "--target" in bad("certify", "plain.json", "--rows", "rows.csv")
    options = ("--rows", "rows.csv", "--target", "party", "--json")
    error = good("certify", "plain.json", *options).json["observed_error"]
    assert error == pytest.approx(np.mean(model.predict(rows[FEW]) != rows["party"]))


@pytest.mark.parametrize("of_class", [None, "republican"])
def test_a_table_of_points(of_class: str | None, good: Callable[..., Done]) -> None:
    pytest.importorskip("highspy")
    rows = votes()
    points = table_of_points(of_class=of_class)
    m = renyi.Marginals.from_data(rows.drop(columns="party"), rows["party"])
    m.save("m.renyi")
    frame = pd.read_csv(points)
    done = good(
        "certify", points, "m.renyi", "--threshold", "6.5", "--out", "card.json"
    )
    assert "Saved   card.json (the table of points)" in done.out
    assert "renyi certify points.csv m.renyi --exact --threshold 6.5" in done.out
    stated = good("certify", points, "m.renyi", "--threshold", "6.5", "--json").json
    bound = renyi.certify(frame, m, threshold=6.5).bounds["map"]
    assert stated["bounds"] == {"map": bound}
    wrong = np.mean((totals(rows) > 6.5) != (rows["party"] == "republican"))
    assert wrong <= bound
    good("predict", "card.json", save(rows, "rows.csv"), "--out", "p.csv")
    answers = pd.read_csv("p.csv")["prediction"]
    np.testing.assert_array_equal(answers == "republican", totals(rows) > 6.5)
    options = ("--threshold", "6.5", "--exact", "--json")
    done = good("certify", points, "m.renyi", *options)
    worst = done.json["certificate"]["bounds"]["map"]
    assert wrong - 1e-9 <= worst <= bound
    encoder = ("--target", "party", "--encoder", points, "--out", "own.renyi")
    good("marginals", "build", "rows.csv", *encoder)
    proof = ("--threshold", "6.5", "--level", "lp", "--proof", "proof.json")
    done = good("certify", points, "own.renyi", *proof, "--out", "card.json")
    check = "renyi verify card.json own.renyi --proof proof.json"
    assert check in done.out
    assert "proved" in good(*check.split()[1:]).out


def test_a_table_of_several_classes(good: Callable[..., Done]) -> None:
    rows = votes()
    X = rows.drop(columns=["party", "crime"])
    y = rows["party"].where(rows["crime"] == "y", "none")
    clf = renyi.RenyiClassifier(calibration=None).fit(X, y)
    clf.marginals_.save("m.renyi")
    Path("wide.csv").write_text(clf.scorecard_.to_text("csv"), encoding="utf-8")
    bound = good("certify", "wide.csv", "m.renyi", "--json").json["bounds"]["map"]
    assert bound == pytest.approx(clf.certificate_.bounds["map"], abs=1e-9)


def test_tables_that_do_not_serve(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    points = table_of_points()
    rows = votes()
    m = renyi.Marginals.from_data(rows.drop(columns="party"), rows["party"])
    m.save("m.renyi")
    message = bad("certify", points, "--rows", save(rows, "rows.csv"))
    assert "--rows is for models: write points.csv as one first" in message
    assert "marginals build TABLE.csv --target CLASS --encoder points.csv" in message
    message = bad("certify", points, "--rows", "rows.csv", "--threshold", "0.25")
    assert "COUNTS.renyi --threshold 0.25 --out MODEL.json" in message
    for command in ("predict", "explain"):
        assert "points.csv is a table: if it is" in bad(command, points, "rows.csv")
    message = bad("certify", points, "m.renyi", "--threshold", "inf")
    assert "'inf' is not a number" in message
    message = bad("certify", "rows.csv", "m.renyi")
    assert "rows.csv: A table of points needs one column 'feature'" in message
    save(pd.read_csv(points).assign(category="y"), "twice.csv")
    message = bad("certify", "twice.csv", "m.renyi")
    assert "twice.csv: The table has two rows for 'y' of" in message
    assert "no file 'none.csv'" in bad("certify", "none.csv", "m.renyi")
