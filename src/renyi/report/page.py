"""Pages: HTML of one file, in which every text of a user stays text.

Escaping is done here and nowhere else: `tag` escapes every child and attribute that is
not `Html` already. What a page embeds as JSON cannot end its script, and its content
security policy lets nothing be loaded and no script run but ours, named by its digest.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from typing import Any, NamedTuple

from renyi.encoding.columns import Label, label_text
from renyi.files import encoded
from renyi.formatting import HIDDEN, printable

_EMPTY = ("br", "circle", "input", "line", "meta", "path", "polyline", "rect")
_LONGEST = 80  # characters of a name that are shown


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = str | Iterable[str]


class Section(NamedTuple):
    """A part of a page, with a place among its links."""

    id: str
    title: str
    body: Child


class Head(NamedTuple):
    """The head of a column of a table."""

    text: str
    number: bool = False  # aligned and sorted as such
    sorted: bool = True  # where the table can be


def text(value: object) -> Html:
    """Return HTML that shows a text as it is, controls written as escapes."""
    if isinstance(value, Html):
        return value
    shown = printable(str(value)).replace(" %", "\N{NO-BREAK SPACE}%")
    return Html(html.escape(shown, quote=True))


def name(value: object) -> str:
    """Return a name as it is shown: of one that is very long its two ends.

    >>> name("party"), name(" "), name("x" * 10_000)[-30:]
    ('party', "' '", 'xxxxxxxxxx (10,000 characters)')
    """
    whole = str(value)
    if not whole.strip():  # a control needs a name that can be seen
        whole = f"'{whole}'"
    if len(whole) <= _LONGEST:
        return printable(whole)
    return printable(f"{whole[:50]} … {whole[-10:]} ({len(whole):,} characters)")


def quoted(label: Label) -> str:
    """Return a name in quotation marks, as it is shown."""
    return f"“{name(label_text(label))}”"


def join(children: Child) -> Html:
    """Return children one after the other."""
    if isinstance(children, str):
        return text(children)
    return Html("".join(map(text, children)))


def tag(element: str, *children: Child, **attributes: Any) -> Html:
    """Return an element; ``class_`` is class, ``data_x`` is data-x, None is left out.

    >>> tag("p", "a < b", class_="note", hidden=True, title=None)
    '<p class="note" hidden>a &lt; b</p>'
    """
    parts = [element]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{text(str(value))}"')
    inside = "".join(map(join, children))
    if element in _EMPTY:
        return Html(f"<{' '.join(parts)}/>")
    return Html(f"<{' '.join(parts)}>{inside}</{element}>")


def cell(value: Child, key: float | None = None, **attributes: Any) -> Html:
    """Return a cell of a table, by a number of its own if it is sorted by one."""
    shown = None if key is None else f"{key:.10g}"
    return tag("td", value, data_key=shown, **attributes)


def table(
    heads: Sequence[Head],
    rows: Iterable[Sequence[Child]],
    caption: str,
    *,
    id: str | None = None,
    sortable: bool = False,
    search: str | None = None,
    visible_caption: bool = False,
    tall: bool = False,
    class_: str | None = None,
) -> Html:
    """Return a table in a box that scrolls, the first cell of a row being its head.

    A child that is a `cell` stays as it is. With `search`, the label of a field above
    it, rows can be found; it then needs an `id`.
    """
    # On a narrow screen a chart's cells are no longer laid out as a table.
    roles = ("table", "rowgroup", "row") if class_ == "chart" else (None, None, None)
    whole, group, line = roles
    top = []
    for head in heads:
        button = sortable and head.sorted
        top.append(
            tag(
                "th",
                tag("button", head.text, type="button") if button else head.text,
                scope="col",
                class_="number" if head.number else None,
                data_sort=button,
                role=line and "columnheader",
            )
        )
    body = [tag("tr", _row(heads, row, bool(line)), role=line) for row in rows]
    found = tag(
        "table",
        tag("caption", caption, class_=None if visible_caption else "hidden"),
        tag("thead", tag("tr", top, role=line), role=group),
        tag("tbody", body, role=group),
        id=id,
        class_=class_,
        role=whole,
    )
    scroll = "scroll tall" if tall else "scroll"
    box = tag(
        "div", found, class_=scroll, role="region", aria_label=caption, tabindex=0
    )
    if search is None:
        return box
    field = tag("input", type="search", data_search=id, autocomplete="off")
    status = tag("span", "", class_="note", role="status", data_found=id)
    return join([tag("label", f"{search} ", field, class_="search"), status, box])


def _row(heads: Sequence[Head], row: Sequence[Child], roles: bool) -> Iterator[Html]:
    for k, (head, child) in enumerate(zip(heads, row, strict=True)):
        if isinstance(child, Html) and child.startswith(("<td", "<th")):
            yield child
        elif k == 0:
            yield tag("th", child, scope="row", role="rowheader" if roles else None)
        else:
            class_ = "number" if head.number else None
            yield tag("td", child, class_=class_, role="cell" if roles else None)


def details(summary: str, *children: Child) -> Html:
    """Return what is shown when it is asked for, and printed always."""
    return tag("details", tag("summary", summary), *children)


def page(
    title: str,
    sections: Iterable[Section],
    *,
    lead: Child = (),
    data: Any = None,
    scripts: Sequence[str] = (),
    footer: Child = (),
) -> str:
    """Return a page of one file, with `lead` before the links to its sections.

    `data` is embedded as JSON, in the element ``page-data``; `scripts` are files of
    this package that run after the script of all pages.
    """
    sections = list(sections)
    style = _file("page.css")
    script = "\n".join(map(_file, ("page.js", *scripts)))
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
    )
    links = [tag("li", tag("a", s.title, href=f"#{s.id}")) for s in sections]
    parts = [
        tag("section", tag("h2", s.title, id=f"{s.id}-title"), s.body, id=s.id)
        for s in sections
    ]
    embedded = Html("")
    if data is not None:
        script_data = Html(safe_json(data))
        embedded = tag("script", script_data, id="page-data", type="application/json")
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Html(style)),
    ]
    body = [
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("h1", title), lead),
        tag("nav", tag("ul", links), aria_label="Sections"),
        tag("main", parts, id="content", tabindex=-1),
        tag("footer", footer),
        embedded,
        tag("script", Html(script)),
    ]
    whole = tag("html", tag("head", head), "\n", tag("body", *body), lang="en")
    return f"<!DOCTYPE html>\n{whole}\n"


def safe_json(value: Any) -> str:
    r"""Return JSON that no text in it can end the script of.

    >>> print(safe_json(["</script>", "\u2028"]))
    ["\u003c/script\u003e","\u2028"]
    """
    found = json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    found = HIDDEN.sub(lambda c: f"\\u{ord(c[0]):04x}", found)
    for each in "<>&":
        found = found.replace(each, f"\\u{ord(each):04x}")
    return found


def _file(name: str) -> str:
    """Return a text of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _digest(script: str) -> str:
    """Return what a policy names a script or a style by."""
    found = hashlib.sha256(encoded(script)).digest()
    return f"sha256-{base64.b64encode(found).decode()}"
