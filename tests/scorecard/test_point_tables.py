"""Tables of points: the same totals, and one sentence for each that cannot be read.

``optbinning-table.csv`` is what `Scorecard.table(style="detailed")` of optbinning 1.0.0
returned, trained on five columns of the credit set with points from -1,000 to 1,000.
``optbinning-scores.csv`` has the scores that it gave to 30 rows, one of them with an
unknown label and one with a missing cell.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from renyi import Marginals, RenyiClassifier, Scorecard, certify
from renyi.datasets import load
from renyi.encoding.bins import starts_of_names
from renyi.point_tables import encoder_of, read_points

GOLDEN = Path(__file__).parents[1] / "golden"


def small(**changes):
    """A card of three columns, and the rows that it is about."""
    rows = {
        ("", "(start)"): 100,
        ("home", "owner"): 30,
        ("home", "rents"): -10,
        ("home", "(any other)"): 0,
        ("age", "[-inf, 25)"): -20,
        ("age", "[25, 60)"): 15,
        ("age", "[60, inf)"): 5,
        ("age", "(missing)"): -1,
        ("job", "yes"): 20,
        ("job", "no"): 0,
    }
    frame = pd.DataFrame(
        [(feature, category, points) for (feature, category), points in rows.items()],
        columns=["feature", "category", "points"],
    )
    return frame.assign(**changes)


def people(n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "home": rng.choice(["owner", "rents", "tent"], n),
            "age": rng.integers(18, 90, n),
            "job": rng.choice(["yes", "no"], n),
        }
    )
    X["age"] = X["age"].where(rng.random(n) > 0.1).astype("Int64")
    good = (X["home"] == "owner") | (X["job"] == "yes") & (rng.random(n) < 0.8)
    return X, pd.Series(np.where(good, "good", "bad"), name="outcome")


def total(X):
    """The totals of the small card, by hand."""
    home = X["home"].map({"owner": 30, "rents": -10}).fillna(0)
    age = X["age"].astype(float)
    by_age = np.select([age < 25, age < 60, age >= 60], [-20, 15, 5], -1)
    return 100 + home + by_age + 20 * (X["job"] == "yes")


BOTH = ("bad", "good")


def test_totals_are_the_table_s():
    X, y = people()
    card = Scorecard.from_model(small(), classes=BOTH, threshold=115)
    codes = card.encoder.transform(X)
    np.testing.assert_array_equal(card.scores(codes)[:, 0], total(X) - 115)
    m = Marginals.from_data(X, y, encoder=card.encoder)
    for table in (small(), small(**{"class": "good"})):
        c = certify(Scorecard.from_model(table, m, threshold=115), m)
        assert np.mean((total(X) > 115) != (y == "good")) <= c.bounds["map"]
        assert list(c.bounds) == ["map"]
    other = Scorecard.from_model(small(**{"class": "bad"}), m, threshold=115)
    assert other.classes == ("good", "bad")
    np.testing.assert_array_equal(other.scores(codes)[:, 0], total(X) - 115)
    with pytest.raises(ValueError, match="'age' is binned differently"):
        certify(small(), Marginals.from_data(X, y))


def test_points_by_class_and_by_the_counts_own_bins():
    X, y = people()
    y = y.where(X["home"] != "tent", "none")
    m = Marginals.from_data(X, y)
    clf = RenyiClassifier(calibration=None).fit(X, y)
    wide = clf.scorecard_.frame().drop(columns=["count", "share"])
    table = wide.melt(["feature", "category"], var_name="class", value_name="points")
    start = pd.DataFrame(
        {
            "feature": "",
            "category": "(start)",
            "class": list(clf.classes_),
            "points": clf.intercept_,
        }
    )
    card = Scorecard.from_model(pd.concat([table, start]), m)
    own = clf.decision_function(X)
    scores = card.scores(card.encoder.transform(X))
    places = [card.classes.index(label) for label in clf.classes_]
    np.testing.assert_allclose(scores[:, places], own, atol=1e-12)
    bound = clf.certificate_.bounds["map"]
    assert certify(card, m).bounds["map"] == pytest.approx(bound, abs=1e-9)
    with pytest.raises(ValueError, match="threshold=3 is for two classes"):
        Scorecard.from_model(table, m, threshold=3)


def test_numbers_that_are_missing_only_where_the_model_is_used():
    X, y = people()
    known = X["age"].notna()
    card = Scorecard.from_model(small(), classes=BOTH)
    m = Marginals.from_data(X[known], y[known], encoder=card.encoder)
    assert None not in m.encoder.categories["age"]
    own = Scorecard.from_model(small(), m)
    assert None not in own.encoder.categories["age"]
    np.testing.assert_array_equal(own.scores(own.encoder.transform(X))[:, 0], total(X))


def test_a_column_of_points_for_each_class():
    X, y = people()
    y = y.where(X["home"] != "tent", "none")
    m = Marginals.from_data(X, y)
    for K in (2, 3):
        known = y if K == 3 else y.where(y != "none", "bad")
        m = Marginals.from_data(X, known)
        clf = RenyiClassifier(calibration=None).fit(X, known)
        wide = pd.read_csv(StringIO(clf.scorecard_.to_text("csv")))
        card = Scorecard.from_model(wide, m)
        codes = card.encoder.transform(X)
        own = clf.decision_function(X)
        if K == 2:  # the difference of both classes
            np.testing.assert_allclose(card.scores(codes)[:, 0], 2 * own, atol=1e-12)
        else:
            np.testing.assert_allclose(card.scores(codes), own, atol=1e-12)
        bound = clf.certificate_.bounds["map"]
        assert certify(wide, m).bounds["map"] == pytest.approx(bound, abs=1e-9)


def test_tables_are_certified_as_they_are(tmp_path):
    X, y = people()
    place = tmp_path / "points.csv"
    small().to_csv(place, index=False)
    card = Scorecard.from_model(small(), classes=BOTH, threshold=115)
    m = Marginals.from_data(X, y, encoder=card.encoder)
    bounds = certify(Scorecard.from_model(small(), m, threshold=115), m)
    wrong = np.mean((total(X) > 115) != (y == "good"))
    for table in (small(), place, str(place)):
        assert certify(table, m, threshold=115) == bounds
        assert certify(table, X, y, threshold=115).observed_error == wrong
    with pytest.raises(ValueError, match="points of one class.* 'a', 'b', 'c'"):
        certify(small(), X, np.resize(["a", "b", "c"], len(X)))
    with pytest.raises(ValueError, match="y is missing"):
        certify(small(**{"class": "good"}), X)


def test_bins_named_by_renyi_are_numbers(tmp_path):
    X, y = people(600)
    rng = np.random.default_rng(1)
    X["dose"] = np.where(rng.random(600) < 0.4, 0, rng.normal(size=600))
    clf = RenyiClassifier(calibration=None).fit(X, y)
    path = tmp_path / "points.csv"
    path.write_text(clf.scorecard_.to_text("csv"), encoding="utf-8")
    fresh, answers = people(300, seed=5)
    fresh["dose"] = np.where(rng.random(300) < 0.4, 0, rng.normal(size=300))
    observed = certify(path, fresh, answers).observed_error
    assert observed == pytest.approx(np.mean(clf.predict(fresh) != answers), abs=1e-12)
    own = encoder_of(read_points(path))
    for name in ("age", "dose"):
        levels = clf.encoder_.columns.named(name).levels
        assert own.columns.named(name).levels.edges == levels.edges
    # A name that is lost, or changed, is not taken for the edge of a bin.
    assert starts_of_names(["up to 31", "33 and more"]) is None
    assert starts_of_names(["0", "1", "2"]) is None
    assert starts_of_names(["up to 31", "32 to 1.2.3"]) is None


def test_a_scorecard_of_optbinning():
    table = pd.read_csv(GOLDEN / "optbinning-table.csv")
    rows = pd.read_csv(GOLDEN / "optbinning-scores.csv")
    lists = table.assign(Bin=[_arrays(text) for text in table["Bin"]])
    for each in (table, lists):
        card = Scorecard.from_model(each, classes=("+", "-"))
        scores = card.scores(card.encoder.transform(rows))[:, 0]
        np.testing.assert_allclose(scores, rows["score"], rtol=0, atol=1e-9)
    X, y = load("credit")
    m = Marginals.from_data(X, y, encoder=card.encoder)
    answers = np.where(card.scores(card.encoder.transform(X))[:, 0] > 0, "-", "+")
    bound = certify(Scorecard.from_model(table, m), m).bounds["map"]
    assert np.mean(answers != y) < 0.2 < bound < 0.5


def _arrays(text):
    quoted = re.findall("'(.*?)'", text)
    return np.array(quoted, object) if quoted else text


WRONG = {
    "two rows for 'yes' of 'job'": {"category": lambda t: t.replace("no", "yes")},
    "points of 'yes' of 'job' are 'lots'": {"points": [*[1] * 8, "lots", 2]},
    "points of 'yes' of 'job' are nan": {"points": [*[1] * 8, np.nan, 2]},
    "points of 'yes' of 'job' are inf": {"points": [*[1] * 8, np.inf, 2]},
    "points of 'yes' of 'job' are 'inf'": {"points": [*[1] * 8, "inf", 2]},
    "intervals of 'age' must cover": {
        "category": lambda t: t.replace("[25, 60)", "[25, 50)")
    },
    "closed on the left": {"category": lambda t: t.replace("[60, inf)", "(60, inf)")},
    "only the category .*start.* has no feature": {
        "feature": lambda t: t.replace("job", "")
    },
    "no points of class 'good' for ": {"class": ["bad"] * 1 + ["good"] * 9},
    "Some rows of the table have a class": {"class": [*["good"] * 9, ""]},
    "points of one class": {"class": "fine"},
}


@pytest.mark.parametrize("reason", WRONG)
def test_what_cannot_be_read(reason):
    table = small().astype({"points": object})
    for name, change in WRONG[reason].items():
        table[name] = change(table[name]) if callable(change) else change
    with pytest.raises(ValueError, match=reason) as error:
        Scorecard.from_model(table, classes=BOTH)
    assert "\n" not in str(error.value)


def test_tables_without_columns_rows_or_classes():
    with pytest.raises(ValueError, match="needs one column 'points'; its columns are"):
        Scorecard.from_model(small().drop(columns="points"))
    with pytest.raises(ValueError, match="needs one column 'category'"):
        Scorecard.from_model(small(Category="a"))
    with pytest.raises(ValueError, match="has no rows"):
        Scorecard.from_model(small()[:0], classes=BOTH)
    with pytest.raises(ValueError, match="points of one class.*column 'class'"):
        Scorecard.from_model(small())
    only = small()[lambda t: t["category"] != "owner"][:3]
    with pytest.raises(ValueError, match="no category of 'home'|must cover"):
        Scorecard.from_model(only[only["category"] != "rents"], classes=BOTH)
    with pytest.raises(TypeError, match="classes is for tables of points"):
        Scorecard.from_model(RenyiClassifier(), classes=BOTH)


def test_a_label_without_points():
    X, y = people()
    table = small()[lambda t: t["category"] != "(any other)"]
    card = Scorecard.from_model(table, classes=BOTH)
    assert card.encoder.unseen == "error"
    m = Marginals.from_data(X, y, encoder=card.encoder)
    with pytest.raises(
        ValueError, match="no points for the label 'tent' of column 'ho"
    ):
        certify(table, m)


def test_files(tmp_path):
    place = tmp_path / "points.csv"
    small().to_csv(place, index=False)
    card = Scorecard.from_model(read_points(place), classes=BOTH)
    X, _ = people()
    np.testing.assert_array_equal(
        card.scores(card.encoder.transform(X))[:, 0], total(X)
    )
    hostile = {
        b"": "points.csv is empty: take",
        b"feature,category,points\na,b,1\na,c,2,3,4\n": "has 5 cells in line 3, where",
        b"feature,category,points\na,b,1,9\n": "has more cells in its rows than names",
        b'feature,category,points\na,b,"1\n': "points.csv cannot be read as CSV: check",
        b"\xff\xfe\x00": "points.csv is not UTF-8",
        b"x" * (2**25 + 1): "is larger than",
    }
    for content, reason in hostile.items():
        place.write_bytes(content)
        with pytest.raises(ValueError, match=reason) as error:
            read_points(place)
        assert "\n" not in str(error.value)
