"""What the commands read and write: models, marginals, notes and results.

Results go to stdout, as text or JSON, notes to stderr. Files appear only when
everything has been computed: they are written to a temporary folder beside their place
and moved there together. Should one of the moves fail, the others are undone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from renyi.classifier import RenyiClassifier
from renyi.marginals import Marginals
from renyi.sources import files
from renyi.sources.cells import DataWarning
from renyi.storage import blamed, replacing

MARGINALS = ".renyi"  # how the name of a file of marginals ends

Recorded = list[warnings.WarningMessage]


def load_model(path: str) -> RenyiClassifier:
    """Read a model; a path without a file is an error that suggests another."""
    return RenyiClassifier.load(files.existing(path))


def load_marginals(path: str) -> Marginals:
    """Read marginals; a path without a file is an error that suggests another."""
    return Marginals.load(files.existing(path))


def with_source(m: Marginals, names: list[str]) -> Marginals:
    """Return the marginals with the files they came from."""
    # Names only: folders of one machine are nobody else's business.
    source = {"files": [Path(name).name for name in names]}
    return dataclasses.replace(m, provenance=source)


# ---- results and notes


def notes_of(seen: Recorded) -> list[str]:
    """Return what the readers said of the data, each sentence once."""
    texts = [str(w.message) for w in seen if issubclass(w.category, DataWarning)]
    return list(dict.fromkeys(texts))


def tell(notes: Iterable[str]) -> None:
    """Print notes to stderr."""
    for text in notes:
        print(f"note: {text}", file=sys.stderr)


def show(value: Any) -> None:
    """Print plain values as JSON.

    >>> show({"rows": np.int64(2)})
    {
     "rows": 2
    }
    """
    print(json.dumps(value, ensure_ascii=False, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


# ---- files


def check_place(path: str, endings: tuple[str, ...] = ()) -> Path:
    """Refuse a place that cannot be written to before any work is done."""
    place = Path(path)
    if place.is_dir() or path.endswith(("/", os.sep)):
        raise ValueError(f"{path} is a folder, not a file: choose another name.")
    if not place.parent.is_dir():
        raise ValueError(f"There is no folder {str(place.parent)!r}: create it first.")
    if not os.access(place.parent, os.W_OK):
        raise ValueError(f"The folder {str(place.parent)!r} cannot be written to.")
    if endings and not place.name.endswith(endings):
        raise ValueError(f"{path} must end in {' or '.join(endings)}.")
    return place


def write_together(writers: dict[Path, Callable[[Path], None]]) -> None:
    """Write all files, or none.

    >>> folder = Path(tempfile.mkdtemp())
    >>> (folder / "b").mkdir()
    >>> both = {folder / name: write_text("new") for name in "ab"}
    >>> write_together(both)
    Traceback (most recent call last):
    IsADirectoryError: [Errno 21] Is a directory: '...b'
    >>> os.listdir(folder)
    ['b']
    """
    folder = next(iter(writers)).parent
    with tempfile.TemporaryDirectory(prefix=".renyi-", dir=folder) as made:
        ready = {place: Path(made) / place.name for place in writers}
        for place, write in writers.items():
            with _blaming(place):
                write(ready[place])
                if place.is_file():
                    shutil.copymode(place, ready[place])
        moved: dict[Path, Path | None] = {}
        try:
            for place, temporary in ready.items():
                with _blaming(place):
                    kept = _kept(place, Path(made))
                    os.replace(temporary, place)
                    moved[place] = kept
        except BaseException:
            for place, kept in moved.items():
                _undo(place, kept)
            raise


@contextlib.contextmanager
def _blaming(place: Path) -> Iterator[None]:
    """Let errors of the system name the place, not a temporary file."""
    try:
        yield
    except OSError as error:
        raise blamed(error, place) from None


def _kept(place: Path, folder: Path) -> Path | None:
    """Keep a file that is about to be replaced; return where, if there is one."""
    if not place.is_file():
        return None
    kept = folder / f"old-{place.name}"
    try:
        os.link(place, kept)
    except OSError:  # a file system without links
        shutil.copy2(place, kept)
    return kept


def _undo(place: Path, kept: Path | None) -> None:
    with contextlib.suppress(OSError):
        if kept is None:
            place.unlink()
        else:
            os.replace(kept, place)


def write_text(text: str) -> Callable[[Path], None]:
    """Return what writes a text to a file, for `write_together`."""

    def write(path: Path) -> None:
        with replacing(path) as stream:
            stream.write(text.encode())

    return write
