"""What the commands write: results on stdout, notes and progress on stderr, files.

Files appear only when everything has been computed: they are written to a temporary
folder beside their place and moved there together. Should one of the moves fail, the
others are undone.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gzip
import json
import os
import shlex
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from renyi import __version__
from renyi.progress import Progress
from renyi.storage import naming, replacing
from renyi.warnings import DataWarning

if TYPE_CHECKING:
    from renyi.estimators.classifier import RenyiClassifier
    from renyi.marginals.marginals import Marginals

MARGINALS = ".renyi"  # how the name of a file of marginals ends
SMALL = 200_000_000  # bytes of counts that are written without being asked for
TABLES = (".csv", ".csv.gz", ".parquet")  # endings of tables that can be written
_PAUSE = 0.2  # seconds between two reports of progress
_LEVEL = 6  # of gzip: its default takes longer, for little
_FITTED = ("columns", "base")  # what an encoder learned, as opposed to its settings

Recorded = list[warnings.WarningMessage]
Write = Callable[[pd.DataFrame], object]


# ---- results, notes and progress


def notes_of(recorded: Recorded) -> list[str]:
    """Return what the readers said of the data, each sentence once."""
    texts = [str(w.message) for w in recorded if issubclass(w.category, DataWarning)]
    return list(dict.fromkeys(texts))


def print_notes(notes: Iterable[str]) -> None:
    """Print notes to stderr."""
    for text in notes:
        print(f"note: {text}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Print plain values as JSON."""
    print(json.dumps(value, ensure_ascii=False, indent=1, default=_plain))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)


def records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a table, with None for what is not there."""
    plain = table.astype(object).where(table.notna(), None)
    return plain.to_dict("records")


class Meter:
    """One line on a terminal that shows a `Progress`; nothing elsewhere."""

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

    def __call__(self, progress: Progress) -> None:
        """Rewrite the line, a few times a second at most."""
        now, (step, then) = time.monotonic(), self._last
        if not self._shown or (progress.step == step and now < then + _PAUSE):
            return
        self._last = (progress.step, now)
        self._write(str(progress))

    def search(self, name: str, state: Progress | None = None) -> None:
        """Show how far a search of `renyi.certification` has got."""
        self(Progress(name) if state is None else dataclasses.replace(state, step=name))

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


def write_together(writers: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write all files, or none."""
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
        raise naming(error, place) from None


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


# ---- models, with a log that says what was done, when, and with which settings


def prefix_of(args: argparse.Namespace, counts: bool = True) -> str | None:
    """Return how the names of a model's files begin, if it is to be kept.

    A place that cannot be written to is refused; `counts` says whether marginals may be
    written too.
    """
    if args.out is None:
        return None
    prefix: str = args.out.removesuffix(".json")
    if os.path.basename(prefix) in ("", ".", ".."):
        raise ValueError(f"{args.out} is a folder: add a name for the model.")
    for ending in (".json", ".log", *([MARGINALS] if counts else [])):
        check_place(prefix + ending)
    return prefix


def next_step(args: argparse.Namespace, prefix: str | None) -> str:
    """Return the command that comes next: keep the model, or use it."""
    if prefix is None:
        return shlex.join(["renyi", *args.argv]) + " --out PREFIX   (keeps the model)"
    return f"renyi predict {shlex.quote(f'{prefix}.json')} NEW.csv --out answers.csv"


def model_files(prefix: str, m: Marginals | None) -> dict[str, str]:
    """Return the names of a model's files by what they hold."""
    names = {"model": f"{prefix}.json", "log": f"{prefix}.log"}
    return names if m is None else {**names, "marginals": prefix + MARGINALS}


def write_model(
    prefix: str, clf: RenyiClassifier, m: Marginals | None, log: str
) -> None:
    """Write a model, the log of its training and its marginals, or none of them."""
    writers = {Path(f"{prefix}.json"): clf.save, Path(f"{prefix}.log"): write_text(log)}
    if m is not None:
        writers[Path(prefix + MARGINALS)] = m.save
    write_together(writers)


def log_text(
    args: argparse.Namespace, clf: RenyiClassifier, text: str, recorded: Recorded
) -> str:
    """Return the log of a command that trained a model."""
    options = {k: v for k, v in sorted(vars(args).items()) if k != "argv"}
    encoder = clf.encoder_.settings()
    fields = [f.name for f in dataclasses.fields(encoder) if f.name not in _FITTED]
    others = [w for w in recorded if not issubclass(w.category, DataWarning)]
    lines = [
        f"date      {datetime.now().astimezone().isoformat(timespec='seconds')}",
        f"renyi     {__version__}",
        f"command   {shlex.join(['renyi', *args.argv])}",
        *(f"option    {key} = {value!r}" for key, value in options.items()),
        *(f"encoder   {name} = {getattr(encoder, name)!r}" for name in fields),
        *(f"warning   {w.category.__name__}: {w.message}" for w in others),
        "",
        text,
    ]
    return "\n".join(lines) + "\n"


# ---- tables, batch after batch, in bounded memory


@contextlib.contextmanager
def writing(place: Path, types: Mapping[str, pa.DataType]) -> Iterator[Write]:
    """Yield what writes a table batch after batch; the file appears at the end.

    `types` are those of some columns, which one batch may not tell.
    """
    with replacing(place) as stream:
        if place.suffix == ".parquet":
            with _parquet_writer(stream, types) as write:
                yield write
        elif place.suffix == ".gz":
            # Without name and time, so that the same table is the same bytes.
            with gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as packed:
                yield _csv_writer(packed.write)
        else:
            yield _csv_writer(stream.write)


@contextlib.contextmanager
def _parquet_writer(
    stream: IO[bytes], types: Mapping[str, pa.DataType]
) -> Iterator[Write]:
    writers: list[Any] = []

    def write(batch: pd.DataFrame) -> None:
        if not writers:
            writers.append(pa.parquet.ParquetWriter(stream, _schema(batch, types)))
        schema = writers[0].schema
        writers[0].write_table(
            pa.Table.from_pandas(batch, schema, preserve_index=False)
        )

    yield write
    for writer in writers:
        writer.close()


def _schema(batch: pd.DataFrame, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the types of a table; pandas' own remarks stay with them."""
    found = pa.Schema.from_pandas(batch, preserve_index=False)
    for k, field in enumerate(found):
        found = found.set(k, pa.field(field.name, types.get(field.name, field.type)))
    return found


def printing() -> Write:
    """Return what prints a table batch after batch as CSV."""

    def send(data: bytes) -> None:
        # As bytes, so that the table is UTF-8 whatever the terminal is.
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(data.decode())

    return _csv_writer(send)


def _csv_writer(send: Callable[[bytes], object]) -> Write:
    first = True

    def write(batch: pd.DataFrame) -> None:
        nonlocal first
        text: str = _plain_times(batch).to_csv(
            index=False, header=first, lineterminator="\n"
        )
        send(text.encode())
        first = False

    return write


def _plain_times(batch: pd.DataFrame) -> pd.DataFrame:
    """Write each time for itself: pandas looks at a whole column for its format."""
    times = batch.select_dtypes(["datetime", "datetimetz", "timedelta"])
    texts = {name: times[name].map(str, na_action="ignore") for name in times}
    return batch.assign(**{str(name): text for name, text in texts.items()})
