"""The report in real Chromium: keys and clicks, compared with `predict_proba`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import renyi
from renyi.genotypes.report import genotype_report
from renyi.report.page import Report
from support.browser import opened
from support.reports import frame, genotypes

pytestmark = pytest.mark.xdist_group("browser")

HOSTILE = [
    "<script>window.hit = 1</script>",
    "'\"></select><img src=x onerror='window.hit=1'>",
    "</script><script>window.hit=1</script>",
    "<!--",
    "🙂 שלום \u202egnp",
    "long" * 2_500,
    "{{7*7}} & ${1} \\u003c",
]


def saved(report: Report, folder: Path) -> Path:
    report.save(folder / "report.html")
    return folder / "report.html"


def table(n: int, seed: int = 0) -> tuple[pd.DataFrame, pd.Series]:
    """Rows of labels with missing cells, and of numbers; five classes."""
    random = np.random.default_rng(seed)
    X = pd.DataFrame({f"c{j}": random.choice(list("abcd"), n) for j in range(4)})
    X["size"] = random.normal(size=n).round(3)
    X.loc[random.random(n) < 0.1, "c0"] = None
    X.loc[random.random(n) < 0.1, "size"] = np.nan
    number = X["c1"].map(dict(zip("abcd", range(4), strict=True))) + (X["size"] > 0.5)
    y = number.where(random.random(n) < 0.8, random.integers(0, 5, n))
    return X, y.astype(int).map("class {}".format).rename("kind")


def two(y: pd.Series) -> pd.Series:
    return y.isin(["class 0", "class 1"]).map({True: "low", False: "high"})


CHOOSE = """codes => codes.forEach((code, j) => {
  const select = document.getElementById(`column-${j}`);
  select.value = code;
  select.dispatchEvent(new Event("change"));
})"""
SHOWN = (
    "[...document.querySelectorAll('#chances [data-value]')].map(e => +e.dataset.value)"
)


def off(page: Any, expected: Any) -> float:
    """Return how far the probabilities are off that are shown."""
    return float(np.abs(np.subtract(page.evaluate(SHOWN), expected)).max())


MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "two classes": ({}, True),
    "two classes, sigmoid, sharp": ({"calibration": "sigmoid", "rule": "sharp"}, True),
    "nearest probabilities": ({"calibration": None}, True),
    "five classes": ({}, False),
    "five, from pairs": ({"calibration": "discriminant"}, False),
    "five, nearest, sharp": ({"calibration": None, "rule": "sharp"}, False),
    "five, affine, renyi": ({"calibration": "affine", "rule": "renyi"}, False),
    "order 2": ({"order": 2}, True),
    "order 2, five classes": ({"order": 2}, False),
}


@pytest.mark.parametrize("kind", MODELS)
def test_panel_gives_the_probabilities_of_predict_proba(
    browser: Any, tmp_path: Path, kind: str
) -> None:
    settings, binary = MODELS[kind]
    X, y = table(600)
    clf = renyi.RenyiClassifier(**settings).fit(X, two(y) if binary else y)
    rows, _ = table(5, seed=1)
    rows.loc[0, "c2"] = "never seen"
    rows.loc[1, ["c1", "c3"]] = None  # missing where no training row was
    encoder = clf.encoder_.single
    codes, expected = encoder.transform(rows).T, clf.predict_proba(rows)
    by_rule = clf.rule_proba(rows)
    with opened(browser, saved(clf.report(), tmp_path)) as page:
        for k in range(len(rows)):
            page.evaluate(CHOOSE, codes[k].tolist())
            assert off(page, expected[k]) < 1e-6
            best = int(by_rule[k].argmax())
            assert str(clf.classes_[best]) in page.locator("#answer").inner_text()
            if clf.rule != "map":
                share = page.locator("#chances tbody tr").nth(best).inner_text()
                assert f"{100 * by_rule[k].max():.1f}" in share
            score = page.locator("#score").inner_text()
            random = "is the likeliest" in score or "the likelier is" in score
            assert random == (clf.rule != "map")


def test_keys_and_clicks_choose_turn_and_begin_again(
    browser: Any, votes: Any, tmp_path: Path
) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X, y)
    modes = clf.scorecard_.frame().sort_values("count").groupby("feature").last()
    row = pd.DataFrame({name: [modes.loc[name, "category"]] for name in X})
    with opened(browser, saved(clf.report(), tmp_path)) as page:
        begun = clf.predict_proba(row)[0]
        assert off(page, begun) < 1e-6
        field = page.get_by_label("physician-fee-freeze", exact=True)
        field.focus()
        page.keyboard.press("y")  # a key goes to the option that begins with it
        row["physician-fee-freeze"] = "y"
        assert off(page, clf.predict_proba(row)[0]) < 1e-6
        assert page.locator("#answer").inner_text() == "Answer: republican"
        first = page.locator("#moves tbody tr").first.inner_text()
        assert "physician-fee-freeze" in first
        # One click on the change that turns the answer turns it.
        page.locator("#turns button").first.click()
        assert page.locator("#answer").inner_text() == "Answer: democrat"
        assert page.evaluate("document.activeElement.tagName") == "SELECT"
        page.locator("#again").focus()
        page.keyboard.press("Enter")
        assert off(page, begun) < 1e-6


def test_changes_that_are_named_turn_the_answer_and_no_other_does(
    browser: Any, tmp_path: Path
) -> None:
    X, y = table(400)
    X = X[["c1", "c2", "c3"]]
    clf = renyi.RenyiClassifier().fit(X, y)
    encoder = clf.encoder_
    start = pd.DataFrame({name: [X[name].mode()[0]] for name in X})
    turning = set()
    for name, labels in encoder.categories.items():
        for label in (*labels, "never seen"):
            after = start.assign(**{name: label})
            if clf.predict(after)[0] != clf.predict(start)[0]:
                other = "(any other)" if label == "never seen" else label
                turning.add(f"{name}: {start.loc[0, name]} → {other}")
    with opened(browser, saved(clf.report(), tmp_path)) as page:
        named = {each.inner_text() for each in page.locator("#turns button").all()}
        assert named and named <= turning and len(named) == min(8, len(turning))
        note = page.locator("#turns-note").inner_text()
        assert note.startswith(f"{len(turning)} ")
        assert ("surest 8 of them" in note) == (len(turning) > 8)


def test_scorecard_is_sorted_by_keys_and_searched(browser: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame({f"col{j}": random.choice(["u", "v"], 300) for j in range(70)})
    y = np.where(random.random(300) < 0.9, X["col3"], "u")
    clf = renyi.RenyiClassifier().fit(X, y)
    least = clf.encoder_.feature_names[int(clf.scorecard_.importance.argmin())]
    with opened(browser, saved(clf.report(), tmp_path)) as page:
        rows = page.locator("#points tbody tr")
        assert rows.count() == 100  # of 50 features
        head = page.locator("#points th[data-sort]").last
        head.locator("button").focus()
        page.keyboard.press("Enter")
        assert head.get_attribute("aria-sort") == "descending"

        def points() -> list[float]:
            texts = page.locator("#points tbody td:last-child").all_inner_texts()
            return [float(text.replace("−", "-")) for text in texts]

        assert points() == sorted(points(), reverse=True)
        page.keyboard.press("Enter")
        assert points() == sorted(points())
        search = page.get_by_label("Find a column or category")
        search.fill(least)  # beyond the first fifty
        seen = page.locator("#points tbody tr:visible")
        assert seen.count() == 2 and least in seen.first.inner_text()
        assert page.locator('[data-found="points"]').inner_text() == "2 rows found"
        search.fill("")
        assert rows.count() == 100
        page.get_by_label("Find a column", exact=True).fill(least)
        field = page.get_by_label(least, exact=True)
        field.select_option("1" if field.input_value() == "0" else "0")
        page.get_by_label("Find a column", exact=True).fill("")
        assert page.locator("#choices label").first.inner_text() == least
        assert "50 of 70" in page.locator("#choices-note").inner_text()


def test_hostile_names_are_texts(browser: Any, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame({name: random.choice(HOSTILE, 500) for name in HOSTILE[:4]})
    y = np.where(X.iloc[:, 0].isin(HOSTILE[:3]), HOSTILE[0], HOSTILE[2])
    clf = renyi.RenyiClassifier().fit(X, pd.Series(y, name=HOSTILE[1]))
    report = clf.report(X=X, y=y)
    with opened(browser, saved(report, tmp_path)) as page:
        assert page.evaluate("window.hit") is None
        options = page.locator("#column-0 option").all_inner_texts()
        for name in (HOSTILE[0], HOSTILE[2], HOSTILE[3], HOSTILE[6]):
            assert name in options
            assert name in page.locator("#points").inner_text()
        assert any("שלום" in text and "\\u202e" in text for text in options)
        assert any("(10,000 characters)" in text for text in options)
        assert page.evaluate("document.querySelectorAll('img').length") == 0
        assert page.evaluate("document.scripts.length") == 2
        page.set_viewport_size({"width": 320, "height": 640})
        assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.fixture(scope="module")
def full(votes: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with every section."""
    X, y = votes
    some = X.iloc[:300, :6]
    clf = renyi.RenyiClassifier().fit(some, y[:300])
    m = clf.marginals_
    assert m is not None
    from renyi.certification import bound_report

    bounds = bound_report(clf, m, level="exact", time_limit=20)
    path = renyi.selection_path(m)
    report = clf.report(X=X.iloc[300:, :6], y=y[300:], path=path, bounds=bounds)
    return saved(report, tmp_path_factory.mktemp("full"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_every_section_is_there(
    browser: Any, full: Path, scheme: Any
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, full, color_scheme=scheme) as page:
        for each in page.locator("summary").all():
            each.click()
        how: dict[str, Any] = {"resultTypes": ["violations"]}
        if scheme == "dark":  # which changes colours alone
            how["runOnly"] = ["color-contrast"]
        found = Axe().run(page, options=how).response["violations"]
        assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found] == []
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(set(ids)) == len(ids)
        titles = page.locator("main h2").all_inner_texts()
        assert titles[0] == "What if" and titles[-1] == "Data and privacy"
        assert len(titles) == 10
        # Every chart is part of a table, except the axis below the tiles.
        loose = "svg:not(table svg):not(.key svg):not(.axes svg):not(svg svg)"
        assert page.locator(loose).count() == 0


def test_narrow_pages_reflow_and_printed_ones_open(browser: Any, full: Path) -> None:
    with opened(browser, full, viewport={"width": 320, "height": 640}) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 320
        assert page.locator("#answer").is_visible()
    with opened(browser, full) as page:
        page.emulate_media(media="print")
        assert not page.locator("nav").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )


FOCUSED = "document.activeElement.id || document.activeElement.textContent"


def test_tab_reaches_all_that_can_be_used(browser: Any, full: Path) -> None:
    with opened(browser, full) as page:
        reached = set()
        for _ in range(80):
            page.keyboard.press("Tab")
            reached.add(page.evaluate(FOCUSED))
        assert {"find-column", "again", "column-0", "column-5"} <= reached
        assert any("Column" in each for each in reached)  # the head of a table


def test_notebooks_show_the_page_in_a_frame(browser: Any, votes: Any) -> None:
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X, y)
    with browser.new_context() as own:
        page = own.new_page()
        said: list[str] = []
        page.on("console", lambda each: said.append(each.text))
        page.set_content(f"<html><body>{clf.report()._repr_html_()}</body></html>")
        inside = page.frame_locator("iframe")
        assert re.match("Answer: ", inside.locator("#answer").inner_text())
        assert said == []


def test_genotypes_and_covariates_are_chosen(browser: Any, tmp_path: Path) -> None:
    model, _ = genotypes()
    report = genotype_report(model)
    with opened(browser, saved(report, tmp_path)) as page:
        page.get_by_label("age", exact=True).fill("2.5")
        first = page.locator("#column-0")
        assert first.locator("option").all_inner_texts() == [
            *("A/A", "A/G", "G/G", "(missing)"),
        ]
        first.focus()
        page.keyboard.press("End")  # to the last: missing
        facts = report.to_dict()
        codes = [c["start"] for c in facts["columns"]]
        codes[0] = 3
        points = sum(f["points"][codes[f["members"][0]]][0] for f in facts["features"])
        score = facts["scale"]["intercept"][0] + points + 2.5 * model.covariates["age"]
        p = float(model.probabilities(np.array([score]))[0])
        assert off(page, [1 - p, p]) < 1e-6
        whole = model.points[:, [0, 2, 3, 1]][
            [int(facts["features"][k]["name"][2:].split()[0]) for k in range(300)],
            [codes[f["members"][0]] for f in facts["features"]],
        ]
        assert points == pytest.approx(whole.sum(), abs=1e-9)


@pytest.mark.long
def test_ten_thousand_features_are_usable(browser: Any, tmp_path: Path) -> None:
    X = frame(200, 10_000, 3)
    y = np.where(X["c7"] < "c7v1", "a", "b")
    clf = renyi.RenyiClassifier().fit(X, y)
    place = saved(clf.report(), tmp_path)
    assert place.stat().st_size < 2_000_000
    with opened(browser, place) as page:
        page.get_by_label("Find a column", exact=True).fill("c9876")
        page.get_by_label("c9876", exact=True).select_option(label="c9876v2")
        columns = clf.report().to_dict()["columns"]
        start = {c["name"]: [c["categories"][c["start"]]] for c in columns}
        row = pd.DataFrame(start | {"c9876": ["c9876v2"]})
        assert off(page, clf.predict_proba(row)[0]) < 1e-6
        page.get_by_label("Find a column or category").fill("c4321v")
        assert page.locator("#points tbody tr:visible").count() == 3
