"""Formats: which reader a file's name calls for, and what is checked of any file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from renyi.sources import csv, ipc, parquet

_READERS = (csv, parquet, ipc)


def reader_of(path: Path) -> ModuleType:
    """Return the module that reads a file, by the ending of its name.

    >>> reader_of(Path(csv.__file__))
    Traceback (most recent call last):
    ValueError: ...csv.py has '.py' for an ending: ...
    """
    name = path.name.lower()
    found = [module for module in _READERS if name.endswith(module.ENDINGS)]
    if not found:
        ending = path.suffix or "no ending"
        raise ValueError(
            f"{path} has {ending!r} for an ending: renyi reads .csv, .tsv and .txt "
            "(also .gz), .parquet and .arrow; save the table as one of these."
        )
    if not path.stat().st_size:
        raise ValueError(f"{path} is empty: take a copy that holds a table.")
    return found[0]


def existing(path: str | os.PathLike[str], others: Iterable[str] = ()) -> Path:
    """Return the path of a file, or say what is there instead.

    Parameters
    ----------
    path : path
        The file.
    others : iterable of str
        Names that would have been understood too, to suggest one of them.

    Examples
    --------
    >>> import renyi
    >>> existing(renyi.datasets.path("votes")).name
    'votes.csv'
    """
    place = Path(path)
    if place.is_file():
        return place
    if place.is_dir():
        raise ValueError(f"{place} is a folder: name a file in it.")
    nearby: list[str] = []
    if place.parent.is_dir():
        nearby = [str(p) for p in place.parent.iterdir() if p.is_file()]
    close = get_close_matches(str(place), [*others, *nearby], n=1, cutoff=0.7)
    hint = f"did you mean {close[0]!r}?" if close else "check the name and the folder."
    raise ValueError(f"There is no file {str(place)!r}: {hint}")


def require(path: Any, names: Collection[str], wanted: Iterable[str]) -> None:
    """Raise an error that names a column which a file lacks.

    >>> require("a.csv", ["age", "sex"], ["sex"])
    """
    known = set(names)
    for name in wanted:
        if name not in known:
            close = get_close_matches(name, names, n=1, cutoff=0.65)
            columns = ", ".join(repr(n[:60]) for n in list(names)[:5])
            more = ", …" if len(names) > 5 else ""
            hint = f"did you mean {close[0]!r}?" if close else f"it has {columns}{more}"
            raise ValueError(f"{path} has no column {name!r}: {hint}")


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of a file's columns, checked.

    >>> import renyi
    >>> column_names(renyi.datasets.path("votes"))[-1]
    'party'
    """
    place = existing(path)
    names: list[str] = reader_of(place).read_schema(place).names
    first: dict[str, int] = {}
    for k, name in enumerate(names, 1):
        if name in first:
            raise ValueError(
                f"{place} has two columns named {name!r} (numbers {first[name]} and "
                f"{k}): rename one of them."
            )
        first[name] = k
    return names
