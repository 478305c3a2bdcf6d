"""Half-finished counts as bytes: sent to another process, or kept in a checkpoint.

They are archives as `renyi.storage` writes them, not compressed. What version 1 wrote
(a list of arrays in JSON, and their bytes) is still read.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Mapping, Sized
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from renyi.storage import InvalidFileError, parse, read_archive, write_archive

_TYPES = ("|u1", "<u2", "<u4", "<u8", "<i8", "<f8")
_VERSION = 2
# Of version 1.
_MAGIC = b"renyi 1\n"
_OLD_NAMES = {"profile": "survey", "counts": "tally"}
_OLD_FIELDS = {
    "plan": "spec",
    "roles": "columns",
    "books": "encoders",
    "surveyed": "profiled",
}

Parts = tuple[dict[str, Any], dict[str, NDArray[Any]]]


def pack(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> bytes:
    """Return a header and arrays of numbers as bytes."""
    stream = io.BytesIO()
    named = {**header, "format": f"renyi-{kind}", "version": _VERSION}
    write_archive(stream, named, arrays)
    return stream.getvalue()


def unpack(kind: str, data: bytes) -> Parts:
    """Return the header and the arrays that `pack` put together, checked."""
    if data.startswith(_MAGIC):
        return _unpack_version_1(kind, data)
    name = "What was received"
    header, arrays = read_archive(
        io.BytesIO(data), name, f"renyi-{kind}", _VERSION, _TYPES
    )
    for field in ("format", "version", "checksum"):
        del header[field]
    return header, arrays


class Fillable(Protocol):
    """What can take the header and the arrays of its kind."""

    def fill(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take them, checked."""


def fill(kind: str, made: Fillable, spec: Mapping[str, Any], data: bytes) -> None:
    """Fill an empty profile or counter of a spec with what bytes hold, checked."""
    header, arrays = unpack(kind, data)
    try:
        if header["spec"] != spec:
            raise ValueError("they are of another spec")
        made.fill(header, arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"The bytes of the {kind} are not valid: {reason}.") from None


def row_count(header: Mapping[str, Any], name: str) -> int:
    """Return a number of rows that a header holds, checked."""
    if type(header[name]) is not int or header[name] < 0:
        raise ValueError(f"{name} is not a number of rows")
    return int(header[name])


def one_each(entries: Any, columns: Sized) -> list[Any]:
    """Return a list that holds one entry for each column, checked."""
    if not isinstance(entries, list) or len(entries) != len(columns):
        raise ValueError("the columns are not valid")
    return entries


# ---- version 1


def _unpack_version_1(kind: str, data: bytes) -> Parts:
    """Read a checksum, the length of a JSON text, the text, the arrays it lists."""
    view, start = memoryview(data)[len(_MAGIC) :], 32 + 8
    if hashlib.sha256(view[32:]).digest() != view[:32]:
        raise ValueError(f"The bytes of the {kind} are not valid: they are damaged.")
    size = int.from_bytes(view[32:start], "little")
    try:
        found = _renamed(parse(bytes(view[start : start + size])))
        if found.get("kind") != _OLD_NAMES.get(kind, kind):
            raise InvalidFileError("they are of something else")
        return found["header"], _arrays_version_1(found["arrays"], view[start + size :])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"The bytes of the {kind} are not valid: {error}.") from None


def _renamed(data: Any) -> Any:
    """Return a header with the field names of the present version."""
    if isinstance(data, list):
        return [_renamed(each) for each in data]
    if not isinstance(data, dict):
        return data
    if {"columns", "roles"} <= set(data):  # a request
        data = {**data, "names": data["columns"], "columns": data["roles"]}
        del data["roles"]
    return {_OLD_FIELDS.get(name, name): _renamed(each) for name, each in data.items()}


def _arrays_version_1(listed: Any, view: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays; what is listed must be what is there."""
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    for name, dtype, shape in listed:
        if dtype not in _TYPES or not all(0 <= k < 2**40 for k in shape):
            raise ValueError("their list of arrays is not valid")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        # A copy can be written to, and is aligned.
        arrays[name] = np.frombuffer(view[at : at + size], dtype).reshape(shape).copy()
        at += size
    if at != len(view):
        raise ValueError("they hold more than they declare")
    return arrays
