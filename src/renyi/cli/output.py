"""What the commands read and write: models, marginals, notes and results.

Results go to stdout, as text or JSON, notes to stderr; so does the progress of long
work, if stderr is a terminal. Files appear only when
everything has been computed: they are written to a temporary folder beside their place
and moved there together. Should one of the moves fail, the others are undone.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from renyi.estimators.classifier import RenyiClassifier
from renyi.marginals.marginals import Marginals
from renyi.sources import files
from renyi.storage import blamed, replacing
from renyi.warnings import DataWarning

if TYPE_CHECKING:
    from renyi.robust.cutting_planes import Progress

MARGINALS = ".renyi"  # how the name of a file of marginals ends
SMALL = 200_000_000  # bytes of counts that are written without being asked for
_TABLES = ("numeric", "categorical", "missing", "weight", "bins", "min_count")

_PAUSE = 0.2  # seconds between two reports of progress

Recorded = list[warnings.WarningMessage]


def load_model(path: str) -> RenyiClassifier:
    """Read a model; a path without a file is an error that suggests another."""
    return RenyiClassifier.load(files.existing(path))


def load_marginals(path: str) -> Marginals:
    """Read marginals; a path without a file is an error that suggests another."""
    return Marginals.load(files.existing(path))


def chosen_marginals(args: argparse.Namespace) -> Marginals:
    """Read marginals, and take the target and the columns that were asked for."""
    for option in _TABLES:
        if getattr(args, option):
            raise ValueError(
                f"--{option.replace('_', '-')} is for tables; {args.file} holds "
                "marginals, whose columns are settled: leave the option out."
            )
    m = load_marginals(args.file)
    if args.target is not None:
        files.require(args.file, m.columns.names, [args.target])
        m = m.with_target(args.target)
    aside = {*args.id, *args.drop}
    files.require(args.file, m.columns.names, aside)
    if m.target in aside:
        raise ValueError(f"{m.target!r} is the target: it cannot be dropped.")
    if aside:
        m = m.select(name for name in m.feature_names if name not in aside)
    return m


def refuse_missing_class(m: Marginals, source: str) -> None:
    """Refuse marginals with rows whose class is missing."""
    if None in m.classes:
        raise ValueError(
            f"The target {m.target!r} is missing in some rows of {source}, which "
            "marginals cannot leave out: count again without these rows."
        )


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


class Meter:
    """One line on a terminal that tells how far long work has got; nothing elsewhere.

    It takes the name of a step, and None or how far it has got, as
    `renyi.ladder.climb` reports them.

    Work without bounds tells how far it has got in words (`say`).

    >>> with Meter() as meter:
    ...     meter("linear program")  # the tests have no terminal: nothing is shown
    ...     meter.say("counting", "counting: 5 rows")
    """

    def __init__(self, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._last = ("", 0.0)
        self._length = 0

    def __enter__(self) -> Meter:
        """Begin to show progress."""
        return self

    def __exit__(self, *_: object) -> None:
        """Clear the line."""
        if self._shown:
            self._write("")
            self._write("")  # back to the beginning of the line

    def __call__(self, name: str, state: Progress | None = None) -> None:
        """Rewrite the line, a few times a second at most."""
        text = f"{name} …"
        if state is not None:
            text = (
                f"{name}: {100 * state.lower:.3f} % to {100 * state.upper:.3f} %, "
                f"{state.cuts:,} cuts, {state.seconds:.0f} s"
            )
        self.say(name, text)

    def say(self, name: str, text: str) -> None:
        """Rewrite the line with what is said of a step."""
        now = time.monotonic()
        if not self._shown or (name == self._last[0] and now < self._last[1] + _PAUSE):
            return
        self._last = (name, now)
        self._write(text)

    def _write(self, text: str) -> None:
        text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self._length))
        sys.stderr.flush()
        self._length = len(text)


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
