"""Answer sheets: where answers go, batch after batch, in bounded memory."""

from __future__ import annotations

import contextlib
import gzip
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet

from renyi.storage import replacing

ENDINGS = (".csv", ".csv.gz", ".parquet")  # of the files that can be written
_LEVEL = 6  # of gzip: its default takes longer, for little

Write = Callable[[pd.DataFrame], object]


@contextlib.contextmanager
def writing(place: Path, types: Mapping[str, pa.DataType]) -> Iterator[Write]:
    """Yield what writes batch after batch of answers; the file appears at the end.

    `types` are those of some columns, which one batch may not tell.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "answers.parquet"
    >>> with writing(place, {"a": pa.string()}) as write:
    ...     write(pd.DataFrame({"a": [None]}))
    ...     write(pd.DataFrame({"a": ["yes"]}))
    >>> pa.parquet.read_table(place)["a"].to_pylist()
    [None, 'yes']
    """
    with replacing(place) as stream:
        if place.suffix == ".parquet":
            with _parquet_writer(stream, types) as write:
                yield write
        elif place.suffix == ".gz":
            # Without name and time, so that the same answers are the same bytes.
            with gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as packed:
                yield _csv_writer(packed.write)
        else:
            yield _csv_writer(stream.write)


@contextlib.contextmanager
def _parquet_writer(
    stream: IO[bytes], types: Mapping[str, pa.DataType]
) -> Iterator[Write]:
    writers: list[Any] = []

    def write(answers: pd.DataFrame) -> None:
        if not writers:
            schema = _schema(answers, types)
            writers.append(pa.parquet.ParquetWriter(stream, schema))
        schema = writers[0].schema
        table = pa.Table.from_pandas(answers, schema, preserve_index=False)
        writers[0].write_table(table)

    yield write
    for writer in writers:
        writer.close()


def _schema(answers: pd.DataFrame, types: Mapping[str, pa.DataType]) -> pa.Schema:
    """Return the types of answers; pandas' own remarks stay with them."""
    found = pa.Schema.from_pandas(answers, preserve_index=False)
    for k, field in enumerate(found):
        found = found.set(k, pa.field(field.name, types.get(field.name, field.type)))
    return found


@contextlib.contextmanager
def printing() -> Iterator[Write]:
    """Yield what prints batch after batch of answers as CSV.

    >>> with printing() as write:
    ...     write(pd.DataFrame({"prediction": ["yes"]}))
    ...     write(pd.DataFrame({"prediction": ["no"]}))
    prediction
    yes
    no
    """

    def send(data: bytes) -> None:
        # As bytes, so that the table is UTF-8 whatever the terminal is.
        sys.stdout.flush()
        if hasattr(sys.stdout, "buffer"):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            sys.stdout.write(data.decode())

    yield _csv_writer(send)


def _csv_writer(send: Callable[[bytes], object]) -> Write:
    first = True

    def write(answers: pd.DataFrame) -> None:
        nonlocal first
        table = _plain_times(answers)
        text: str = table.to_csv(index=False, header=first, lineterminator="\n")
        send(text.encode())
        first = False

    return write


def _plain_times(answers: pd.DataFrame) -> pd.DataFrame:
    """Write each time for itself: pandas looks at a whole column for its format."""
    times = answers.select_dtypes(["datetime", "datetimetz", "timedelta"])
    texts = {name: times[name].map(str, na_action="ignore") for name in times}
    return answers.assign(**{str(name): text for name, text in texts.items()})
