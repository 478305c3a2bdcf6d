"""Requests: what a job is asked for, in plain values, and how two of them differ.

A checkpoint is of one request only. What is not the same in another one is told as the
user said it, most telling things first: one column fewer changes the list of columns,
their specs and the columns that are ignored, and is told once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_FIRST = ("target", "weight", "where", "class_conditional")
_PLURAL = ("bins",)
_KINDS = {
    "label": "labels",
    "number": "numbers",
    "auto": "labels or numbers by its values",
}


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Say what differs between two requests; None if nothing does.

    >>> difference({"encoder": {"bins": 5}}, {"encoder": {"bins": 7}})
    'bins were 5 and are 7'
    >>> difference({"names": ["city", "y"]}, {"names": ["y"]})
    "column 'city' is left out now"
    """
    return next(_differences(before, now), None)


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    if before.get("version") != now.get("version"):
        yield f"renyi was {before.get('version')} and is {now.get('version')}"
    yield from _of_values(before, now, _FIRST)
    old, new = _part(before, "encoder", dict), _part(now, "encoder", dict)
    yield from _of_values(old, new, new)
    if before.get("fitted") != now.get("fitted"):
        was, is_now = ("" if each.get("fitted") else "not " for each in (before, now))
        yield f"the encoder was {was}fitted and is {is_now}fitted"
    names = _part(now, "names", list)
    yield from _of_columns(_part(before, "names", list), names)
    columns = zip(
        _part(before, "columns", list), _part(now, "columns", list), strict=False
    )
    for name, (first, second) in zip(names, columns, strict=False):
        if first != second:
            yield _of_roles(name, first, second)
    yield from _of_values(before, now, {**now, **before})


def _part(request: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return a part of a request; an empty one if it is not what it should be."""
    part = request.get(name)
    return part if isinstance(part, kind) else kind()


def _of_values(
    before: Mapping[str, Any], now: Mapping[str, Any], names: Any
) -> Iterator[str]:
    for name in names:
        first, second = before.get(name), now.get(name)
        if first != second:
            was, is_now = ("were", "are") if name in _PLURAL else ("was", "is")
            yield f"{name} {was} {_shown(first)} and {is_now} {_shown(second)}"


def _shown(value: Any) -> str:
    """Return a value as the user gave it, cut if it is long."""
    if value is None or value == []:
        return "not given" if value is None else "empty"
    text = ", ".join(map(repr, value)) if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _of_columns(before: list[str], now: list[str]) -> Iterator[str]:
    for some, others, what in (
        (before, now, "is left out now"),
        (now, before, "was left out before"),
    ):
        names = [name for name in some if name not in others]
        more = f" (and {len(names) - 1} more)" if names[1:] else ""
        if names:
            yield f"column {names[0]!r}{more} {what}"
    if before != now:
        yield "the columns are in another order"


def _of_roles(name: str, before: Any, now: Any) -> str:
    """Say in which way a column is taken otherwise."""
    if isinstance(before, dict) and before.keys() == now.keys():
        if before["family"] != now["family"]:
            return f"column {name!r} held {before['family']} and holds {now['family']}"
        if before["kind"] != now["kind"]:
            was, is_now = (_KINDS.get(str(each["kind"])) for each in (before, now))
            return f"column {name!r} was taken as {was} and is taken as {is_now}"
        if before["levels"] != now["levels"]:
            return f"the encoder has other categories or bins of column {name!r}"
    return f"the text of column {name!r} is read in another way"
