"""What the commands write: results on stdout, notes and progress on stderr, files.

Files appear only when everything has been computed, those of a model together. No
command writes over what it reads (`check_place`).
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import gzip
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from renyi import __version__, datasets
from renyi.cli.messages import notes_of, print_notes
from renyi.cli.parser import PICTURE, Args, Place
from renyi.encoding.columns import short
from renyi.estimators import model_file
from renyi.files import (
    MARGINALS,
    encoded,
    replace_together,
    replacing,
    same_file,
    target,
)
from renyi.formatting import HIDDEN, csv_text, either, printable, wrapped
from renyi.marginals import file as marginals_file
from renyi.progress import Progress
from renyi.sources import files
from renyi.warnings import DataWarning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from renyi.estimators.model_file import AnyFit
    from renyi.marginals.marginals import Marginals

# What is written as an escape in JSON: terminals would obey it, or UTF-8 lacks it.
_UNSAFE = re.compile(f"{HIDDEN.pattern}|[\ud800-\udfff]")
_PAUSE = 0.2  # seconds between two reports of progress
_LEVEL = 6  # of gzip: its default takes longer, for little

Facts = dict[str, Any]
Recorded = list[warnings.WarningMessage]
Write = Callable[[pd.DataFrame], object]


# ---- results, notes and progress


def show(
    args: Args,
    facts: Facts,
    text: Callable[[Facts], str],
    recorded: Recorded,
) -> None:
    """Print facts as JSON, or as text with the notes on stderr."""
    facts["notes"] = notes_of(recorded)
    if args.json:
        print_json({"source": args.file, **facts})
    else:
        print_notes(facts["notes"])
        print(text(facts))


def bullets(texts: Iterable[str]) -> list[str]:
    """Return sentences as a list."""
    return [wrapped(text, "  - ", "    ") for text in texts]


def indented(text: str) -> str:
    """Return a text in lines that are indented."""
    return wrapped(text, "  ", "  ")


def one_line(text: str, width: int) -> str:
    """Return a name or label as it is shown, cut where it is too long."""
    return short(printable(" ".join(text.split())), width)


def joined(blocks: Iterable[list[str]], facts: Facts) -> str:
    """Return blocks of lines, then notes, what was written, and what may come next."""
    notes = [["Notes", *bullets(facts["notes"])]] if facts["notes"] else []
    written = facts.get("written", {}).items()
    end = [f"Wrote {place} ({what})" for what, place in written]
    end += [f"Next: {facts['next']}"] if "next" in facts else []
    shown = [*blocks, *notes, end] if end else [*blocks, *notes]
    return "\n\n".join("\n".join(lines) for lines in shown)


def saved_lines(facts: Facts) -> list[str]:
    """Return which files of a model were written, and what may come next."""
    written = facts.get("written", {})
    names = {"model": " (model)", "marginals": " (pair counts)"}
    lines = []
    if written:
        places = (f"{place}{names.get(what, '')}" for what, place in written.items())
        lines.append(wrapped(", ".join(places), "Saved   ", " " * 8))
    width = max(len(step["command"]) for step in facts["next"])
    for step in facts["next"]:
        head = "        " if len(lines) > bool(written) else "Next    "
        lines.append(f"{head}{step['command']:<{width}}  {step['why']}")
    return lines


def print_json(value: object) -> None:
    """Print plain values as JSON."""
    print(_json(value, indent=1))


def _json(value: object, indent: int | None = None) -> str:
    """Return plain values as JSON, with escapes for what the stream cannot take."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    how: Any = {"indent": indent, "default": _plain, "allow_nan": False}
    how["ensure_ascii"] = codecs.lookup(encoding).name != "utf-8"
    try:
        text = json.dumps(value, **how)
    except ValueError:  # JSON has no word for what is not finite
        plain = json.dumps(value, default=_plain)
        text = json.dumps(json.loads(plain, parse_constant=lambda _: None), **how)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _plain(other: object) -> object:
    return other.item() if isinstance(other, np.generic) else str(other)


def print_data(text: str) -> None:
    """Print what another program may read: UTF-8 as it is, printable on a terminal."""
    if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(encoded(text))
    sys.stdout.buffer.flush()


@contextlib.contextmanager
def _json_rows(facts: Facts) -> Iterator[Write]:
    """Yield what takes the answers batch after batch; print facts, then the answers.

    Until then they are in a file: in memory, five million would take three gigabytes.
    """
    how: Any = {"encoding": "utf-8", "errors": "surrogatepass", "newline": ""}
    with tempfile.TemporaryFile("w+", **how) as stream:

        def write(batch: pd.DataFrame) -> None:
            head = ",\n  " if stream.tell() else "\n  "
            stream.write(head + _json(records(batch))[1:-1])

        yield write
        stream.seek(0)
        print(_json(facts, indent=1)[:-2] + ',\n "answers": [', end="")
        shutil.copyfileobj(stream, sys.stdout)
        print("\n ]\n}")


def records(table: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a table, with None for what is not there."""
    return table.astype(object).where(table.notna(), None).to_dict("records")


class Meter(contextlib.AbstractContextManager["Meter"]):
    """One line on a terminal that shows a `Progress`; nothing elsewhere."""

    def __init__(self, shown: bool = True) -> None:
        self._shown = shown and sys.stderr.isatty()
        self._step = ""
        self._next = 0.0
        self._length = 0

    def __exit__(self, *_: object) -> None:
        """Clear the line."""
        if self._shown:
            self._write("")
            self._write("")  # back to the beginning of the line

    def __call__(self, progress: Progress) -> None:
        """Rewrite the line, a few times a second at most."""
        now = time.monotonic()
        if self._shown and (progress.step != self._step or now >= self._next):
            self._step = progress.step
            self._next = now + _PAUSE
            self._write(str(progress))

    def search(self, name: str, state: Progress | None = None) -> None:
        """Show how far a search of `renyi.certification` has got."""
        self(dataclasses.replace(state or Progress(name), step=name))

    def _write(self, text: str) -> None:
        text = printable(text)[: shutil.get_terminal_size().columns - 1]
        send = getattr(sys.stderr, "send", sys.stderr.write)  # as it is, if it can
        send("\r" + text.ljust(self._length))
        sys.stderr.flush()
        self._length = len(text)


# ---- files


def check_out(
    args: Args, path: str | None, endings: tuple[str, ...] = ()
) -> Path | None:
    """Return the place of an option that need not be given, after `check_place`."""
    return None if path is None else check_place(args, path, endings)


def check_picture(args: Args) -> Path | None:
    """Return where --plot draws, if it does and matplotlib is there."""
    picture = check_out(args, args.plot, PICTURE)
    if picture is not None:
        from renyi.plots import axes

        axes()  # says so at once if it is missing
    return picture


def check_place(args: Args, path: str, endings: tuple[str, ...] = ()) -> Path:
    """Reject a place that cannot be written to, or is read, before any work is done."""
    same = args.places.setdefault(target(path), path)
    if same != path:
        raise ValueError(f"{path} and {same} are the same file: name different files.")
    if endings and not path.endswith(endings):
        raise ValueError(f"{path} must end in {either(endings)}.")
    for other in _files_read(args):
        if same_file(path, other):
            raise ValueError(
                f"{path} would overwrite {other}, which the command needs: name "
                "another file."
            )
    for number, stream in ((1, "stdout"), (2, "stderr")):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.stat(path), os.fstat(number)):
                raise ValueError(
                    f"{path} is already used for {stream}: name another file."
                )
    return Path(path)


def _files_read(args: Args) -> Iterator[str | Path]:
    """Yield every file that a command reads."""
    names = [*args.reads]
    for value in vars(args).values():
        for text in value if isinstance(value, list) else [value]:
            if text and isinstance(text, str) and not isinstance(text, Place):
                # A query may name files: every text in quotes is looked at.
                names += [text, *re.findall(r"""['"]([^'"]+)""", text)]
    for name in names:
        yield name
        if name in datasets.names():
            yield datasets.path(name)
        with contextlib.suppress(ValueError, OSError):
            yield from files.matching(name)


def command(argv: Sequence[str]) -> str:
    """Return a command of these arguments, as a shell takes it."""
    return shlex.join(["renyi", *argv])


def again_with(args: Args, name: str, value: str) -> str:
    """Return the same command with another value of an option."""
    argv = [text for text in args.argv if not text.startswith(f"{name}=")]
    while name in argv:
        place = argv.index(name)
        del argv[place : place + 2]
    return command([*argv, name, value])


def keeping(args: Args) -> str:
    """Return the command that would have kept the model."""
    return f"{command(args.argv)} --out PREFIX   (keeps the model)"


# ---- models, with a log that says what was done, when, and with which settings


def log_bytes(lines: Iterable[str]) -> bytes:
    """Return the lines of a log as its file has them."""
    return encoded(printable("\n".join(lines) + "\n"))


def prefix_of(args: Args, counts: bool = True) -> str | None:
    """Return how the names of a model's files begin, with marginals if `counts`."""
    if args.out is None:
        return None
    prefix: str = args.out.removesuffix(".json")
    if os.path.basename(prefix) in ("", ".", ".."):
        raise ValueError(f"--out {args.out!r} is a folder: add a name for the model.")
    for ending in (".json", ".log", *([MARGINALS] if counts else [])):
        check_place(args, prefix + ending)
    return prefix


def keep_model(
    args: Args,
    clf: AnyFit,
    m: Marginals | None,
    facts: Facts,
    text: Callable[[Facts], str],
    recorded: Recorded,
) -> None:
    """Write a model with its log and marginals if asked to; print the facts of it."""
    prefix = prefix_of(args, counts=False)
    others = facts.pop("written", {})
    names: dict[str, str] = {}
    if prefix is not None:
        names = {"model": f"{prefix}.json"}
        names |= {} if m is None else {"marginals": prefix + MARGINALS}
        names["log"] = f"{prefix}.log"
    if names or others:
        facts["written"] = names | others
    facts["source"] = args.file if len(args.files) == 1 else args.files
    facts |= {"next": _next_steps(args, names), "notes": notes_of(recorded)}
    facts["advice"] = _advice(args, names)
    summary = text(facts)
    if prefix is not None:
        log = _log(args, clf, summary, recorded)
        writers: dict[str, Any] = {"model": partial(model_file.write, clf)}
        writers["log"] = lambda stream: stream.write(log)
        writers |= {} if m is None else {"marginals": partial(marginals_file.write, m)}
        replace_together({Path(names[key]): write for key, write in writers.items()})
    if args.json:
        print_json(facts)
    else:
        print(summary)


def _next_steps(args: Args, names: Mapping[str, str]) -> list[Facts]:
    """Return commands that may follow, and what each is for."""
    if "model" not in names:
        again = f"{command(args.argv)} --out PREFIX"
        return [{"command": again, "why": "save the model"}]
    model = names["model"]
    steps = [
        (["report", model], "look at it in a browser"),
        (["predict", model, "NEW.csv"], "classify new rows"),
        (
            ["certify", model, "--rows", "TEST.csv"],
            "a bound to quote",
        ),
    ]
    return [{"command": command(argv), "why": why} for argv, why in steps]


def _advice(args: Args, names: Mapping[str, str]) -> Facts:
    """Return the commands that prove more: the exact worst case, a bound to quote.

    A model that was not saved has the placeholder of --out instead of a name.
    """
    model = names.get("model", "PREFIX.json")
    counts = names.get("marginals", "PREFIX.renyi")
    from_counts = args.file.endswith(MARGINALS)
    if from_counts:
        counts = names.get("marginals", args.file)
    advice = {"exact": command(["certify", model, counts, "--exact"])}
    if from_counts and "marginals" in names:
        advice["verify"] = command(["verify", model, counts])
    if "model" in names and "marginals" not in names and not from_counts:
        del advice["exact"]  # the pair counts were not written
    rows = "ITS_ROWS.csv" if from_counts else "TEST.csv"
    advice["quote"] = command(["certify", model, "--rows", rows])
    if "model" not in names and not from_counts and args.command == "fit":
        advice["quote"] = again_with(args, "--confidence", "0.95")
    return advice


def _log(args: Args, clf: AnyFit, text: str, recorded: Recorded) -> bytes:
    """Return the log of a command that trained a model."""
    options = {k: v for k, v in sorted(vars(args).items()) if k != "run"}
    encoder = clf.encoder_.settings()
    fields = [f.name for f in dataclasses.fields(encoder)]
    settings = [name for name in fields if name not in ("columns", "base")]  # learned
    others = [w for w in recorded if not issubclass(w.category, DataWarning)]
    lines = [
        f"date      {datetime.now().astimezone().isoformat(timespec='seconds')}",
        f"renyi     {__version__}",
        f"command   {command(args.argv)}",
        *(f"option    {key} = {value!r}" for key, value in options.items()),
        *(f"encoder   {name} = {getattr(encoder, name)!r}" for name in settings),
        *(f"warning   {w.category.__name__}: {w.message}" for w in others),
        "",
        text,
    ]
    return log_bytes(lines)


# ---- tables, batch after batch, in bounded memory


@contextlib.contextmanager
def writing(
    place: Path, types: Mapping[str, pa.DataType], inert: bool = False
) -> Iterator[Write]:
    """Yield what writes a table batch after batch; the file appears at the end.

    `types` are those of some columns, which one batch may not show. If `inert`, no cell
    of CSV is a formula to a spreadsheet.
    """

    def cells(send: Callable[[bytes], object]) -> Write:
        between = "\t" if place.suffix == ".tsv" else ","
        return csv_writer(lambda text: send(encoded(text)), inert, between)

    with replacing(place) as stream, contextlib.ExitStack() as open_files:
        if place.suffix == ".parquet":
            yield _parquet_writer(stream, types, open_files)
        elif place.suffix == ".gz":
            # Without name and time, so that the same table is the same bytes.
            packed = gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0)
            yield cells(open_files.enter_context(packed).write)
        else:
            yield cells(stream.write)


def _parquet_writer(
    stream: IO[bytes],
    types: Mapping[str, pa.DataType],
    open_files: contextlib.ExitStack,
) -> Write:
    writer: Any = None

    def write(batch: pd.DataFrame) -> None:
        nonlocal writer
        if writer is None:
            schema = pa.Schema.from_pandas(batch, preserve_index=False)
            fields = [f.with_type(types.get(f.name, f.type)) for f in schema]
            schema = pa.schema(fields, schema.metadata)  # with pandas' own remarks
            writer = open_files.enter_context(pa.parquet.ParquetWriter(stream, schema))
        writer.write_table(
            pa.Table.from_pandas(batch, writer.schema, preserve_index=False)
        )

    return write


def draw(place: Path, drawn: Callable[[], Figure]) -> None:
    """Write a figure, the same bytes for the same figure."""
    import matplotlib

    kind = place.suffix[1:]
    with replacing(place) as stream, matplotlib.rc_context({"svg.hashsalt": "renyi"}):
        metadata = {"Date": None} if kind == "svg" else None
        drawn().savefig(stream, format=kind, metadata=metadata)


@contextlib.contextmanager
def answering(
    args: Args,
    place: Path | None,
    facts: Facts,
    types: Mapping[str, pa.DataType],
    between: str = ",",
) -> Iterator[Write]:
    """Yield what takes answers batch after batch: for a file, or for stdout.

    `facts`, complete by the end, are printed with them as JSON if that is asked for.
    """
    if place is not None:
        with writing(place, types, args.spreadsheet) as write:
            yield write
        if args.json:
            print_json({**facts, "written": str(place)})
    elif args.json:
        with _json_rows(facts) as write:
            yield write
    else:
        yield csv_writer(print_data, args.spreadsheet, between)


def csv_writer(send: Callable[[str], object], inert: bool, between: str = ",") -> Write:
    """Return what sends a table batch after batch as CSV."""
    first = True

    def write(batch: pd.DataFrame) -> None:
        nonlocal first
        send(csv_text(batch, header=first, inert=inert, sep=between))
        first = False

    return write
