"""Files: written whole or not at all, checked before they are believed.

A file is written to a temporary name beside its place and renamed, so that a reader
sees the old file or the new one, never half of one. What is read may come from a
stranger: it is data, never code (no pickle), its checksum must agree, and no memory is
taken for a size that the file merely declares. Archives of arrays are in
`renyi.archives`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

# Types of plain values in a file.
NUMBER: tuple[type, ...] = (int, float)
LABEL: tuple[type, ...] = (str, int, float, bool)

_MAX_JSON_BYTES = 10**9
# Empty lists and objects take twenty and more times the memory of their text; in what
# is written here there is at most one in so many characters.
_ROOMS = {b"[": 8, b"{": 32}
_ROOM_ALLOWANCE = 100_000
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file that takes the place of `path` when all went well.

    >>> import tempfile, pathlib
    >>> place = pathlib.Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(place) as stream:
    ...     _ = stream.write(b"whole")
    >>> place.read_text()
    'whole'
    """
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder: name a file in it.")
    if not place.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {place.parent}: create it first.")
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(6)}")
    try:
        # A new file gets the mode that the system gives any new file.
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if place.exists():
            shutil.copymode(place, temporary)
        os.replace(temporary, place)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise blamed(error, place) from None
        raise


def blamed(error: OSError, place: Path) -> OSError:
    """Return an error of the system that names the file the user knows of.

    >>> print(blamed(OSError(28, "No space left", ".m.json.0f"), Path("m.json")))
    [Errno 28] No space left: 'm.json'
    """
    if error.errno is None:
        return error
    return OSError(error.errno, error.strerror, str(place))


def to_text(data: Mapping[str, Any]) -> str:
    """Return data as JSON, the same text for the same data."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, sort_keys=True)


def digest(data: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Checksum of a header (without its own checksum) and the arrays that follow."""
    plain = {key: value for key, value in data.items() if key != "checksum"}
    total = hashlib.sha256(to_bytes(to_text(plain)))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def to_bytes(text: str) -> bytes:
    """Encode JSON text; a lone surrogate in a label becomes JSON's own escape of it."""
    return text.encode("utf-8", "backslashreplace")


def write_json(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a JSON document with its checksum."""
    signed = {**data, "checksum": digest(data, {})}
    document = json.dumps(signed, ensure_ascii=False, allow_nan=False, indent=1)
    raw = to_bytes(document) + b"\n"
    if len(raw) > _MAX_JSON_BYTES:
        raise ValueError(f"{path} would take {len(raw):,} bytes; 10⁹ is the most.")
    with replacing(path) as stream:
        stream.write(raw)


def read_json(
    path: str | os.PathLike[str], kind: str, versions: int = 1
) -> dict[str, Any]:
    """Read a document of the format `kind`, in one of its versions, from 1 on."""
    try:
        if os.path.getsize(path) > _MAX_JSON_BYTES:
            raise DistrustError("it is larger than 10⁹ bytes")
        data = parse(Path(path).read_bytes())
        check_header(path, data, kind, versions)
        genuine = data.get("checksum") == digest(data, {})
    except VersionError:
        raise
    except DistrustError as error:
        raise ValueError(f"{path} is not a {kind} file: {error}.") from None
    except (ValueError, RecursionError):  # 1e999 is read, but cannot be written
        raise ValueError(altered(path)) from None
    if not genuine:
        raise ValueError(altered(path))
    return data


def parse(raw: bytes) -> dict[str, Any]:
    """Return the object that JSON text holds; what is odd is a `DistrustError`."""
    if any(_crowded(raw, room, each) for room, each in _ROOMS.items()):
        raise DistrustError("it holds too many lists or objects")
    try:
        data = json.loads(
            raw.decode("utf-8"),
            parse_constant=_no_constant,
            object_pairs_hook=_without_twins,
        )
    except DistrustError:
        raise
    except RecursionError:
        raise DistrustError("it is nested too deeply") from None
    except ValueError:  # no UTF-8, no JSON, or an integer of thousands of digits
        raise DistrustError("it is truncated or no JSON text") from None
    if not isinstance(data, dict):
        raise DistrustError("it holds no JSON object")
    return data


def _crowded(raw: bytes, room: bytes, each: int) -> bool:
    """Whether there are more lists or objects than one in so many characters."""
    surplus = raw.count(room) - _ROOM_ALLOWANCE - len(raw) // each
    if surplus <= 0:
        return False
    in_labels = sum(found[0].count(room) for found in _STRINGS.finditer(raw))
    return surplus > in_labels


def _no_constant(name: str) -> float:
    raise DistrustError(f"it holds {name}, which is no JSON number")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict; of two entries with one name, readers would see different ones."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise DistrustError("it gives the same name twice")
    return data


def checked_fields(
    data: Any,
    fields: Mapping[str, tuple[type, ...]],
    what: str,
    optional: Mapping[str, tuple[type, ...]] | None = None,
) -> None:
    """Refuse what is no object with exactly these fields of these types.

    Optional fields may be there; those that later versions add are, so that files
    written before them stay valid.

    >>> checked_fields({"n": "many"}, {"n": NUMBER}, "certificate")
    Traceback (most recent call last):
    ValueError: its certificate has the field 'n' of a wrong type
    """
    if not isinstance(data, dict):
        raise ValueError(f"its {what} is not an object")
    known = {**fields, **(optional or {})}
    for name in sorted((set(data) - set(known)) | (set(fields) - set(data))):
        problem = "lacks the field" if name in fields else "has an unknown field"
        raise ValueError(f"its {what} {problem} {name!r:.60}")
    for name, value in data.items():
        if type(value) not in known[name]:  # not isinstance: True is no number
            raise ValueError(f"its {what} has the field {name!r} of a wrong type")


def check_header(
    path: Any, data: Mapping[str, Any], kind: str, versions: int = 1
) -> None:
    """Refuse an object of another format, or of a version that is not known."""
    if data.get("format") != kind:
        raise DistrustError(f"its format is {data.get('format')!r:.60}")
    if type(data.get("version")) is not int or not 1 <= data["version"] <= versions:
        known = "version 1" if versions == 1 else f"versions 1 to {versions}"
        raise VersionError(
            f"{path} has version {data.get('version')!r:.20} of the {kind} format; "
            f"this renyi reads {known}. Install a newer renyi."
        )


def altered(path: Any) -> str:
    """Return what is said of a file whose checksum is wrong."""
    return (
        f"{path} was altered or damaged: its checksum does not agree with its "
        "contents. Take a fresh copy of the file."
    )


class DistrustError(ValueError):
    """What is wrong with a file."""


class VersionError(ValueError):
    """A file is of a version that is not known here."""
