"""The command select."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.formatting import at_most, rounded_up
from support.commandline import Done, save, table, votes


def flat(text: str) -> str:
    return " ".join(text.split())


def test_path_selection_and_model(good: Callable[..., Done]) -> None:
    done = good("select", "votes", "--n-features", "3", "--out", "few")
    X, y = renyi.datasets.load("votes")
    known = renyi.RenyiSelector(n_features=3).fit(X, y)
    assert "Selected 3 of 16 columns: the first 3 in order of entry, as" in done.out
    assert done.out.splitlines()[1:4] == [f"  {name}" for name in known.features_]
    error = known.classifier_.certificate_.loo_error
    assert f"Error to expect on new rows {100 * error:.1f} % (95 %" in flat(done.out)
    assert "3 of 16 columns." in done.out
    assert "The columns were selected on the same rows: expect more" in flat(done.out)
    details = good("select", "votes", "--n-features", "3", "--details")
    lines = details.out.splitlines()
    for k, row in known.path_.frame().iterrows():
        line = next(one for one in lines if f" {row['feature']} " in one)
        assert line.split()[0] == (f"{k}*" if k <= 3 else f"{k}")
        worst = [at_most(row["map"]), at_most(row["sharp"])]
        assert line.split()[-4:] == " ".join(worst).split()
    again = renyi.RenyiClassifier.load("few.json")
    columns = again.feature_names_in_.tolist()
    assert set(columns) == set(known.features_)
    np.testing.assert_array_equal(again.predict(X[columns]), known.predict(X))
    assert renyi.Marginals.load("few.renyi").feature_names == tuple(columns)
    assert "command   renyi select votes" in Path("few.log").read_text()
    answers = good("predict", "few.json", "votes", "--json").json
    assert answers["rows"] == 435
    assert good("certify", "few.json", "few.renyi").code == 0


def test_cross_validation_is_told(good: Callable[..., Done]) -> None:
    done = good("select", "votes", "--json").json
    known = renyi.RenyiSelector().fit(*renyi.datasets.load("votes"))
    assert done["selected"] == known.features_.tolist()
    assert done["penalty"] is None
    tried = done["cross_validation"]
    assert tried["n_features"] == list(range(17)) and tried["penalties"] is None
    np.testing.assert_allclose(tried["risks"], known.cv_.risks, rtol=1e-6)
    assert len(done["path"]) == len(known.path_.entries)
    assert done["path"][0]["feature"] == "physician-fee-freeze"
    text = flat(good("select", "votes").out)
    assert f"5-fold cross-validation, {known.cv_.risks.min():.4f}, is the least" in text
    best = known.cv_.error_rates[known.cv_.risks.argmin()]
    assert f"{100 * best:.1f} % of the rows left out" in text
    by_path = good("select", "votes", "--method", "path", "--json").json
    known = renyi.RenyiSelector(method="path").fit(*renyi.datasets.load("votes"))
    assert by_path["selected"] == known.features_.tolist()
    assert by_path["penalty"] == pytest.approx(known.penalty_)
    assert by_path["cross_validation"]["n_features"] is None


def test_correlation_of_the_columns(good: Callable[..., Done]) -> None:
    argv = ("select", "votes", "--n-features", "2", "--out", "two")
    done = good(*argv, "--json").json["correlation"]
    m = renyi.Marginals.load("two.renyi")
    theta = renyi.theta(m).theta
    share = float(m.class_probabilities[0])
    exact = np.sqrt(1 - theta / (share * (1 - share)))
    bound = renyi.hgr_lower_bound(m)
    assert done["rho"] == pytest.approx(exact, abs=1e-6)
    assert done["exact"] and done["bound"] == pytest.approx(bound)
    assert exact >= bound - 1e-9
    text = flat(good("select", "votes", "--n-features", "2").out)
    below = np.floor(1000 * bound) / 1000
    figures = f"is {exact:.3f} (in closed form: at least {below:.3f})."
    assert f"with the same pair counts, {figures}" in text
    many = good("select", "kr-vs-kp", "--n-features", "20", "--json").json
    assert not many["correlation"]["exact"]
    assert many["correlation"]["rho"] == many["correlation"]["bound"]


def test_no_feature_that_helps_is_told(good: Callable[..., Done]) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        cells = rng.integers(0, 3, (80, 5)).astype(str)
        noise = pd.DataFrame(cells, columns=[*"abcde"])
        noise["y"] = rng.choice(["p", "q"], 80)
        known = renyi.RenyiSelector().fit(noise.drop(columns="y"), noise["y"])
        if known.cv_.best() == 0:
            break
    assert known.cv_.best() == 0
    text = flat(good("select", save(noise), "--target", "y").out)
    risk = f"5-fold cross-validation, {known.cv_.risks[0]:.4f}, is the least."
    assert f"No feature helped: without any, the held-out risk in {risk}" in text
    assert "Selected 1 of 5 columns: the first in order of entry" in text
    assert "with points at the penalty" not in text


def test_folds_are_told_as_they_were(good: Callable[..., Done]) -> None:
    few = pd.DataFrame({"a": [*"uvuv"], "b": [*"xxyy"], "y": [*"ppqq"]})
    text = flat(good("select", save(few), "--target", "y").out)
    assert "in each of 4 folds" in text and "4-fold cross-validation" in text


def test_marginals_alone(good: Callable[..., Done]) -> None:
    good("marginals", "build", "votes", "--out", "v.renyi")
    done = good("select", "v.renyi", "--json").json
    known = renyi.RenyiSelector().fit_marginals(renyi.Marginals.load("v.renyi"))
    assert done["selected"] == known.features_.tolist()
    assert done["cross_validation"] is None and done["loo_error"] is None
    assert "by generalised cross-validation of the refit" in done["why"]


def test_penalty_and_certified_error(good: Callable[..., Done]) -> None:
    done = good("select", "votes", "--penalty", "0.3", "--json").json
    assert done["selected"] == ["physician-fee-freeze"]
    done = good("select", "votes", "--max-error", "0.14", "--json").json
    assert done["certificate"]["bounds"]["map"] <= 0.14
    assert "with a guarantee of at most 14 %" in done["why"]


def test_pairs_of_columns(good: Callable[..., Done]) -> None:
    few = votes().iloc[:, [2, 3, 8, 10, 16]]
    place = save(few, "few.csv")
    options = ("--target", "party", "--order", "2", "--n-features", "2")
    done = good("select", place, *options, "--out", "pairs")
    X, y = renyi.datasets.load("votes")
    known = renyi.RenyiSelector(order=2, n_features=2).fit(X.iloc[:, [2, 3, 8, 10]], y)
    for name in known.features_:
        assert f"\n  {name}\n" in done.out
    columns = known.get_feature_names_out().tolist()
    needed = f"They need {len(columns)} columns: {', '.join(columns)}."
    assert needed in flat(done.out)
    answers = good("predict", "pairs.json", place, "--json").json
    expected = known.predict(X.iloc[:, [2, 3, 8, 10]]).tolist()
    assert [row["prediction"] for row in answers["answers"]] == expected


def test_encoder_options_as_in_fit(good: Callable[..., Done]) -> None:
    place = save(table(), "t.csv")
    options = ("--target", "y", "--id", "id", "--bins", "3", "--n-features", "1")
    done = good("select", place, *options, "--out", "m", "--json").json
    assert done["selected"] == ["colour"]
    assert {entry["feature"] for entry in done["path"]} <= {"colour", "size", "length"}
    assert renyi.RenyiClassifier.load("m.json").encoder_.bins == 3


def test_wide_tables_print_no_bare_bound(good: Callable[..., Done]) -> None:
    X, y = renyi.datasets.load("promoters")
    place = save(X.iloc[::3, :9].assign(promoter=y))
    done = good(
        "select", place, "--target", "promoter", "--n-features", "6", "--details"
    )
    row = next(one for one in done.out.splitlines() if one.startswith("   6*"))
    assert row.split()[-4:] == ["-"] * 4
    assert "Guarantee: none useful." in done.out


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib"
)
def test_plot(good: Callable[..., Done], bad: Callable[..., str]) -> None:
    good("select", "votes", "--n-features", "2", "--plot", "path.svg")
    first = Path("path.svg").read_bytes()
    assert first.startswith(b"<?xml") and b"features in order of entry" in first
    again = good("select", "votes", "--n-features", "2", "--plot", "path.svg")
    assert Path("path.svg").read_bytes() == first
    assert "Saved   path.svg" in again.out
    options = ("--n-features", "2", "--out", "m", "--plot", "m.svg")
    told = good("select", "votes", *options, "--json").json
    assert set(told["written"].values()) == {"m.json", "m.log", "m.renyi", "m.svg"}
    assert "must end in .svg" in bad("select", "votes", "--plot", "path.txt")


def test_bad_input(good: Callable[..., Done], bad: Callable[..., str]) -> None:
    err = bad("select", "votes", "--n-features", "17")
    assert "--n-features 17" in err
    assert "--penalty: '0'" in bad("select", "votes", "--penalty", "0")
    assert "not allowed with" in bad(
        "select", "votes", "--penalty", "1", "--n-features", "2"
    )
    err = bad("select", "votes", "--max-error", "0.001")
    assert "cannot be certified" in err
    assert "--max-error" in err
    good("marginals", "build", "votes", "--out", "v.renyi")
    err = bad("select", "v.renyi", "--order", "2")
    assert "'renyi marginals build TABLE --order 2'" in err
    assert "is for tables" in bad("select", "v.renyi", "--bins", "3")
    lacking = pd.DataFrame({"x": ["a"] * 20, "y": ["p", "q"] * 10})
    place = save(lacking, "c.csv")
    assert "No usable column is left" in bad("select", place, "--target", "y")


def test_a_refusal_tells_what_another_rule_reaches(bad: Callable[..., str]) -> None:
    X, y = renyi.datasets.load("votes")
    bounds = renyi.RenyiClassifier().fit(X, y).certificate_.bounds
    err = bad("select", "votes", "--max-error", "0.1")
    assert f"16 features reaches {rounded_up(bounds['map']):.4f} with rule 'm" in err
    assert f"--rule sharp, which reaches {rounded_up(bounds['sharp']):.4f}." in err
    least = f"{bounds['sharp'] / 2:.4f}"
    err = bad("select", "votes", "--max-error", least, "--rule", "sharp")
    assert "with rule 'sharp'" in err and "which reaches" not in err


def test_bounds_of_table_and_model_are_explained(good: Callable[..., Done]) -> None:
    text = flat(good("select", "votes", "--n-features", "3", "--details").out)
    assert "The model below has a ridge penalty and may be calibrated" in text
    assert "lost them to other" not in text
    assert "Note: the features were selected" in text


def test_features_that_left_are_explained(good: Callable[..., Done]) -> None:
    X, y = renyi.datasets.load("promoters")
    X = X.iloc[:, np.sort(np.random.default_rng(2).permutation(57)[:25])]
    known = renyi.RenyiSelector(penalty=0.02, method="path").fit(X, y)
    chosen = set(known.features_)
    last = max(k for k, name in enumerate(known.path_.entries) if name in chosen)
    assert not chosen.issuperset(known.path_.entries[:last])  # as it should be here
    argv = ("select", save(X.assign(promoter=y)), "--target", "promoter")
    assert "lost them to other" in flat(
        good(*argv, "--penalty", "0.02", "--details").out
    )


# ---- order 2 from one command to the next


def test_order_travels_with_the_marginals(good: Callable[..., Done]) -> None:
    place = save(votes().iloc[:, [2, 3, 8, 10, 16]], "few.csv")
    target = ("--target", "party")
    good("select", place, *target, "--order", "2", "--n-features", "2", "--out", "s")
    again = good("fit", "s.renyi", "--out", "f", "--json").json
    X, y = renyi.datasets.load("votes")
    X = X.iloc[:, [2, 3, 8, 10]]
    known = renyi.RenyiSelector(order=2, n_features=2).fit(X, y)
    same = renyi.RenyiClassifier(order=2).fit_marginals(renyi.Marginals.load("s.renyi"))
    assert again["certificate"]["gamma"] == pytest.approx(same.certificate_.gamma)
    assert set(again["important"][0]["feature"].split(" & ")) <= set(X.columns)
    fewer = good("select", "s.renyi", "--n-features", "1", "--json").json
    assert fewer["order"] == 2 and fewer["selected"] == known.features_.tolist()[:1]


def test_fit_and_build_take_an_order(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    place = save(votes().iloc[:, [2, 3, 8, 10, 16]], "few.csv")
    target = ("--target", "party")
    good("fit", place, *target, "--order", "2", "--out", "f")
    X, y = renyi.datasets.load("votes")
    X = X.iloc[:, [2, 3, 8, 10]]
    known = renyi.RenyiClassifier(order=2).fit(X, y)
    loaded = renyi.RenyiClassifier.load("f.json")
    assert loaded.order == 2
    np.testing.assert_allclose(loaded.z_, known.z_, atol=1e-12)
    good("marginals", "build", place, *target, "--order", "2", "--out", "b.renyi")
    counted = renyi.Marginals.from_data(X, y, order=2)
    assert renyi.Marginals.load("b.renyi") == counted
    assert renyi.Marginals.load("f.renyi") == counted
    shown = good("marginals", "show", "b.renyi").out
    assert "6 features of 2 columns each" in shown
    assert good("marginals", "show", "b.renyi", "--json").json["order"] == 2
    err = bad("fit", "b.renyi", "--order", "3")
    assert "--order 3 does not fit b.renyi" in err


def test_an_encoder_brings_its_order(
    good: Callable[..., Done], bad: Callable[..., str]
) -> None:
    frame = votes().iloc[:, [2, 3, 8, 16]]
    one, two = save(frame[:200], "one.csv"), save(frame[200:], "two.csv")
    target = ("--target", "party")
    good("marginals", "build", one, *target, "--order", "2", "--out", "1.renyi")
    options = (*target, "--encoder", "1.renyi")
    good("marginals", "build", two, *options, "--out", "2.renyi")
    good("marginals", "merge", "1.renyi", "2.renyi", "--out", "both.renyi")
    X, y = renyi.datasets.load("votes")
    whole = renyi.Marginals.from_data(X.iloc[:, [2, 3, 8]], y, order=2)
    both = renyi.Marginals.load("both.renyi")
    assert both.order == 2 and both.n == 435
    name = both.feature_names[0]
    known = whole.block(name, "party").sort_index()
    pd.testing.assert_frame_equal(both.block(name, "party").sort_index(), known)
    err = bad("marginals", "build", two, *options, "--order", "3", "--out", "3.renyi")
    assert "--order 3 does not fit 1.renyi" in err


def test_an_exact_worst_case_at_order_2_is_known_but_not_advised(
    good: Callable[..., Done],
) -> None:
    place = save(table(), "t.csv")
    options = ("--target", "y", "--id", "id", "--order", "2")
    # So few rows and such noise that the closed form says no more than the majority.
    done = good("fit", place, *options, "--out", "m")
    told = done.out + good("certify", "m.json", "m.renyi").out
    assert "Guarantee: none useful." in told
    assert "--exact" not in told
    assert "3 features of 2 columns each" in told
    exact = good("certify", "m.json", "m.renyi", "--exact", "--json").json
    closed, *_, last = exact["model"]
    assert last["lower"] == pytest.approx(last["upper"], abs=1e-4)
    assert last["upper"] < 0.9 * closed["upper"]


def test_held_out_rows_at_order_2(good: Callable[..., Done]) -> None:
    frame = votes().iloc[:, [2, 3, 8, 16]]
    one, two = save(frame[:200], "one.csv"), save(frame[200:], "two.csv")
    good("fit", one, "--target", "party", "--order", "2", "--out", "m")
    told = good("certify", "m.json", "--rows", two, "--json").json
    X, y = renyi.datasets.load("votes")
    X = X.iloc[:, [2, 3, 8]]
    clf = renyi.RenyiClassifier(order=2).fit(X[:200], y[:200])
    known = renyi.certify(clf, X[200:], y[200:])
    assert told["bounds"] == pytest.approx(dict(known.bounds))


def test_triples_are_named(good: Callable[..., Done]) -> None:
    place = save(votes().iloc[:, [2, 3, 4, 8, 16]], "few.csv")
    options = ("--target", "party", "--order", "3", "--n-features", "1")
    done = good("select", place, *options)
    assert "the same counts of pairs of features of 3 columns" in flat(done.out)
    assert "beyond pairs of features of 3 columns" in flat(done.out)
    assert "1 of 4 features of 3 columns each." in done.out


def test_hgr_shows_no_figure_that_fit_would_not(
    run: Callable[..., Done],
) -> None:
    labels = [f"k{k}" for k in range(30)] * 2
    table = pd.DataFrame({"x": labels, "z": list("ab") * 30, "y": list("pqqp") * 15})
    table.to_csv("t.csv", index=False)
    argv = ("t.csv", "--target", "y")
    told = run("hgr", *argv, "--json").json
    assert told["doubtful"]
    assert "32 categories" in told["warnings"][0]
    assert {c["name"]: c["doubtful"] for c in told["columns"]} == {
        "x": True,
        "z": False,
    }
    text = run("hgr", *argv).out
    assert "No bound" in text
    assert "1.000" not in text
