"""Pages: texts stay texts, embedded data cannot end its script, nothing is loaded."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re

import pytest

from renyi.files import encoded
from renyi.report.charts import Line, Mark, bars, intervals, lines, scale_end
from renyi.report.page import (
    Head,
    Html,
    Section,
    name,
    page,
    safe_json,
    table,
    tag,
    text,
)

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<!-- ' & -->",
    "שלום \u202egnp.exe",
    "🙂 \u2028 line",
    "\x00\x1b[31m",
]


@pytest.mark.parametrize("hostile", HOSTILE)
def test_texts_stay_texts_in_elements_and_attributes(hostile: str) -> None:
    found = tag("p", hostile, title=hostile)
    assert not re.search(r"<(script|img|!--)", found)
    assert found.count('"') == 2  # those of the attribute
    shown = html.unescape(found.partition(">")[2].removesuffix("</p>"))
    assert shown.startswith(hostile[:2]) or hostile[0] == "\x00"
    assert "\u202e" not in found and "\x1b" not in found


@pytest.mark.parametrize("hostile", HOSTILE)
def test_embedded_data_is_read_as_it_was(hostile: str) -> None:
    found = safe_json({hostile: [hostile, 1.5]})
    assert json.loads(found) == {hostile: [hostile, 1.5]}
    assert not re.search(r"[<>&\u2028]", found)
    whole = page("t", [], data={"x": hostile})
    data = re.search(r'<script id="page-data"[^>]*>(.*?)</script>', whole)
    assert data is not None and json.loads(data[1]) == {"x": hostile}


def test_html_is_not_escaped_twice_and_is_of_tag_alone() -> None:
    assert text(tag("b", "a & b")) == "<b>a &amp; b</b>"
    assert type(text("x")) is Html


def test_policy_names_style_and_script_and_lets_nothing_be_loaded() -> None:
    whole = page("t", [Section("one", "One", tag("p", "x"))])
    policy = html.unescape(re.search(r'Policy" content="([^"]*)"', whole)[1])  # type: ignore[index]
    assert "default-src 'none'" in policy
    for kind in ("style", "script"):
        inner = re.search(rf"<{kind}>(.*?)</{kind}>", whole, re.S)
        assert inner is not None
        digest = base64.b64encode(hashlib.sha256(inner[1].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"(?:src|href|url)\s*[=(]\s*[\"']?(?!#)[\w/]", whole)


def test_long_names_are_shown_by_their_ends_and_surrogates_written() -> None:
    assert len(name("a" * 10_000)) < 100
    assert name("x" * 80) == "x" * 80
    assert b"\\udc80" in encoded(page("\udc80", []))


def test_tables_have_heads_and_an_own_row_head() -> None:
    found = table([Head("a"), Head("b", True)], [("<x>", "1")], "c", sortable=True)
    assert '<th scope="row">&lt;x&gt;</th><td class="number">1</td>' in found
    assert found.count("<button") == 2


def test_charts_have_every_number_as_text() -> None:
    marks = [
        Mark("guess", 0.05, shown="5 %"),
        Mark("bound", None, high=0.12, kind="bound", shown="at most 12 %"),
        Mark("exact", None, 0.06, 0.07, "interval", "6 to 7 %"),
    ]
    drawn = intervals(marks, "c").replace("\N{NO-BREAK SPACE}", " ")
    assert all(m.shown in drawn for m in marks)
    assert "−0.4" in bars(
        [("a", 1.0, "1.0"), ("b", -0.4, "−0.4")], "c", heads=("a",) * 3
    )
    drawn = lines([Line("l", [(0, 0), (0.25, 0.75)])], "c", x="x", y="y", x_end=1)
    assert "<td" in drawn and ">0.25<" in drawn and ">0.75<" in drawn


@pytest.mark.parametrize("most", [1e-9, 0.04, 0.100001, 0.9999, 1, 7, 123456.0])
def test_scales_end_at_the_next_round_number(most: float) -> None:
    assert most * (1 - 1e-9) <= scale_end([most, 0.0]) <= 2 * most
