"""Pages: texts stay texts, embedded data cannot end its script, nothing is loaded."""

from __future__ import annotations

import base64
import copy
import hashlib
import html
import json
import re
from typing import Any

import pytest
from markupsafe import Markup

import renyi
from renyi.files import encoded
from renyi.report.charts import Mark, Spot, axis, bar, mark, scale_end, strip
from renyi.report.page import render, render_report, shown, unbroken
from renyi.report.summary import name

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<!-- ' & -->",
    "שלום \u202egnp.exe",
    "🙂 \u2028 line",
    "\x00\x1b[31m",
    "{{ 7 * 7 }}{% raw %}",
]


@pytest.fixture(scope="module")
def facts(votes: Any) -> dict[str, Any]:
    """The plain values of a report with every part but the worst population."""
    X, y = votes
    clf = renyi.RenyiClassifier().fit(X.iloc[:300, :4], y[:300])
    path = renyi.selection_path(clf.marginals_)
    return clf.report(X=X.iloc[300:, :4], y=y[300:], path=path).to_dict()


def with_texts(value: Any, text: str) -> Any:
    """Return plain values in which every text is replaced, names of fields excepted."""
    if isinstance(value, dict):
        return {key: with_texts(each, text) for key, each in value.items()}
    if isinstance(value, list):
        return [with_texts(each, text) for each in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("hostile", HOSTILE)
def test_every_text_of_a_report_stays_text(facts: Any, hostile: str) -> None:
    given = with_texts(copy.deepcopy(facts), hostile)
    given["certificate"] = facts["certificate"]
    given["data"]["shares"] = {hostile: 0.25, "b": 0.75}
    given["made"] = {hostile: hostile}
    page = render_report(given)
    body = page.partition("<body>")[2].partition('<script id="page-data"')[0]
    assert not re.search(r"<(script|img|!--)", body)
    assert not any(each in page for each in ("\u202e", "\x1b", "\x00"))
    if hostile.isprintable():
        assert hostile in html.unescape(body).replace("\N{NO-BREAK SPACE}", " ")
    tags = re.sub(r"=\"[^\"<>]*\"", "", "".join(re.findall(r"<[^>]*>", body)))
    assert "onerror" not in tags


@pytest.mark.parametrize("hostile", HOSTILE)
def test_embedded_data_is_read_as_it_was(hostile: str) -> None:
    page = render("t", [], data={"x": [hostile, 1.5]})
    data = re.search(r'<script id="page-data"[^>]*>(.*?)</script>', page)
    assert data is not None
    assert json.loads(data[1]) == {"x": [hostile, 1.5]}
    assert not re.search(r"[<>&\u2028]", data[1])
    with pytest.raises(ValueError, match="JSON"):
        render("t", [], data=float("nan"))


def test_markup_is_not_escaped_twice_and_texts_are_made_printable() -> None:
    assert shown(Markup("<b>\x1b</b>")) == "<b>\x1b</b>"
    assert shown("5 %\x1b") == "5\N{NO-BREAK SPACE}%\\x1b"
    assert shown(7) == 7


def test_policy_names_style_and_script_and_lets_nothing_be_loaded() -> None:
    page = render("t", [])
    policy = html.unescape(re.search(r'Policy" content="([^"]*)"', page)[1])  # type: ignore[index]
    assert "default-src 'none'" in policy
    for kind in ("style", "script"):
        inner = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.S)
        assert inner is not None
        digest = base64.b64encode(hashlib.sha256(inner[1].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?(?!#)[\w/]", page)
    assert page.startswith("<!DOCTYPE html>")


def test_long_names_are_shown_by_their_ends_and_surrogates_written() -> None:
    assert len(name("a" * 10_000)) < 100
    assert name("x" * 80) == "x" * 80
    assert b"\\udc80" in encoded(render("\udc80", []))


def test_tables_have_heads_and_an_own_row_head(facts: Any) -> None:
    page = render_report(facts)
    points = page.partition('id="points"')[2].partition("</table>")[0]
    assert points.count("<button") == 4  # the head of the bars does not sort
    row = re.search(r'<tr><th scope="row">([^<]+)</th><td>([^<]*)</td>', points)
    assert row is not None
    assert row[1] == facts["features"][0]["name"]
    assert row[2] == facts["features"][0]["categories"][0]


def test_charts_escape_their_labels() -> None:
    assert "&lt;b&gt;" in axis(0.4, lambda share: "<b>")


def test_one_axis_has_every_figure_in_its_own_form_and_at_its_place() -> None:
    spots = [
        Spot("estimate", 0.1, 0.05, 0.2),
        Spot("bound", 0.2),
        Spot("baseline", 0.4),
        Spot("guarantee", 0.3),
    ]
    drawn = strip(spots)
    for kind, place in (("dot", 25), ("block", 50), ("diamond", 100), ("bracket", 75)):
        assert re.search(rf'x="{place}.00%"[^/]*class="{kind}"', drawn)
    assert 'x1="12.50%" x2="50.00%"' in drawn  # the interval
    ticks = re.findall(r">([^<]+)</text>", drawn)
    assert [tick.replace("\N{NO-BREAK SPACE}", " ") for tick in ticks] == [
        *("0 %", "10 %", "20 %", "30 %", "40 %"),
    ]


def test_no_line_ends_within_the_name_of_an_option() -> None:
    text = unbroken("renyi report <m>.json --time-limit 9 -o a-b.html")
    assert text.count('<span class="whole">') == 2
    assert '<span class="whole">--time-limit</span> 9' in text
    assert "&lt;m&gt;.json" in text and "a-b.html" in text


def test_marks_differ_by_form() -> None:
    assert 'class="dot"' in mark(Mark(value=0.05), 0.2)
    assert 'class="diamond"' in mark(Mark(value=0.05, baseline=True), 0.2)
    bound = mark(Mark(high=0.1), 0.2)
    assert 'class="arrow"' in bound
    assert 'x2="50.00%"' in bound
    interval = mark(Mark(low=0.05, high=0.1), 0.2)
    assert "arrow" not in interval
    assert interval.count('class="cap"') == 2
    assert 'x="25%" width="25%" class="minus"' in bar(-0.5, 1.0, True)


@pytest.mark.parametrize("most", [1e-9, 0.04, 0.100001, 0.9999, 1, 7, 123456.0])
def test_scales_end_at_the_next_round_number(most: float) -> None:
    assert most * (1 - 1e-9) <= scale_end([most, 0.0]) <= 2 * most
