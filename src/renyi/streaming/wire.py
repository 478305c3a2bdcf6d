"""Parcels: a header and arrays as bytes, to be sent to another process or kept.

What half-finished counts are sent as, and kept as in a checkpoint. A parcel may come
back damaged: its checksum is verified before anything in it is believed, its arrays
take exactly the bytes that are there, and nothing in it can execute.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sized
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from renyi.storage import DistrustError, parse, to_bytes, to_text

_MAGIC = b"renyi 1\n"
_SUM = hashlib.sha256().digest_size
_LENGTH = 8
_TYPES = ("|u1", "<u2", "<u4", "<u8", "<i8", "<f8")
_MOST_AXES = 4


def packed(
    kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> bytes:
    """Return a header and arrays of numbers as bytes.

    >>> parcel = packed("note", {"n": 2}, {"x": np.array([1.5])})
    >>> unpacked("note", parcel)
    ({'n': 2}, {'x': array([1.5])})
    """
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    listed = [[name, a.dtype.str, list(a.shape)] for name, a in plain.items()]
    text = to_bytes(to_text({"kind": kind, "header": header, "arrays": listed}))
    pieces: list[Any] = [len(text).to_bytes(_LENGTH, "little"), text]
    pieces += [array.reshape(-1).view(np.uint8).data for array in plain.values()]
    total = hashlib.sha256()
    for piece in pieces:
        total.update(piece)
    return b"".join([_MAGIC, total.digest(), *pieces])


def unpacked(kind: str, data: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays that `packed` put together, checked."""
    start = len(_MAGIC) + _SUM
    view = memoryview(data)
    if bytes(view[: len(_MAGIC)]) != _MAGIC or len(view) < start + _LENGTH:
        raise ValueError(f"The bytes are no {kind} of renyi, or are truncated.")
    if hashlib.sha256(view[start:]).digest() != view[len(_MAGIC) : start]:
        raise ValueError(f"The bytes of the {kind} are damaged: count these rows anew.")
    size = int.from_bytes(view[start : start + _LENGTH], "little")
    start += _LENGTH
    try:
        told = parse(bytes(view[start : start + size]))
        if set(told) != {"kind", "header", "arrays"} or told["kind"] != kind:
            raise DistrustError("they are of something else")
        if not isinstance(told["header"], dict):
            raise DistrustError("their header is no object")
        return told["header"], _arrays(told["arrays"], view[start + size :])
    except DistrustError as error:
        raise ValueError(f"The bytes are no {kind} of renyi: {error}.") from None


class Filled(Protocol):
    """What can take the header and the arrays of a parcel of its kind."""

    def fill(self, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        """Take them, checked."""


def filled(kind: str, made: Filled, spec: Mapping[str, Any], data: bytes) -> None:
    """Fill an empty profile or tally of a spec with what bytes hold, checked."""
    header, arrays = unpacked(kind, data)
    try:
        if header["spec"] != spec:
            raise ValueError("they are of another spec")
        made.fill(header, arrays)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"The bytes of the {kind} are not valid: {reason}.") from None


def row_count(header: Mapping[str, Any], name: str) -> int:
    """Return a number of rows that a header holds, checked.

    >>> row_count({"n": 3}, "n")
    3
    """
    if type(header[name]) is not int or header[name] < 0:
        raise ValueError(f"{name} is not a number of rows")
    return int(header[name])


def one_each(told: Any, columns: Sized) -> list[Any]:
    """Return a list that holds one entry for each column, checked.

    >>> one_each([{}, {}], ["a", "y"])
    [{}, {}]
    """
    if not isinstance(told, list) or len(told) != len(columns):
        raise ValueError("the columns are not valid")
    return told


def _arrays(listed: Any, view: memoryview) -> dict[str, NDArray[Any]]:
    """Return the arrays; what is listed must be what is there."""
    arrays: dict[str, NDArray[Any]] = {}
    if not isinstance(listed, list):
        raise DistrustError("their list of arrays is not valid")
    at = 0
    for entry in listed:
        if not isinstance(entry, list) or len(entry) != 3:
            raise DistrustError("their list of arrays is not valid")
        name, dtype, shape = entry
        good = (
            isinstance(name, str)
            and name not in arrays
            and dtype in _TYPES
            and isinstance(shape, list)
            and len(shape) <= _MOST_AXES
            and all(type(k) is int and 0 <= k < 2**40 for k in shape)
        )
        if not good:
            raise DistrustError("their list of arrays is not valid")
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if at + size > len(view):
            raise DistrustError("they declare more than there is")
        array = np.frombuffer(view[at : at + size], dtype).reshape(shape)
        arrays[name] = array.copy()  # one that can be written to, and is aligned
        at += size
    if at != len(view):
        raise DistrustError("they hold more than they declare")
    return arrays
