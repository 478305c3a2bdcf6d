"""Files: written whole or not at all, checked before they are believed.

A file is written to a temporary name beside its place and renamed, so that a reader
sees the old file or the new one, never half of one. What is read may come from a
stranger: it is data, never code (no pickle), its checksum must agree, and no memory is
taken for a size that the file merely declares.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

# Deflate cannot expand its input more than this (RFC 1951 allows 1032 to 1).
_MAX_EXPANSION = 1_032
_MAX_HEADER_BYTES = 256 * 2**20
# Members may overlap: thousands of them could each expand the same bytes.
_MAX_MEMBERS = 16


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
    handle, temporary = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _text(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, sort_keys=True)


def _digest(data: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Checksum of a header (without its own checksum) and the arrays that follow."""
    plain = {key: value for key, value in data.items() if key != "checksum"}
    total = hashlib.sha256(_bytes(_text(plain)))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def _bytes(text: str) -> bytes:
    """Encode JSON text; a lone surrogate in a label becomes JSON's own escape of it."""
    return text.encode("utf-8", "backslashreplace")


def write_json(path: str | os.PathLike[str], data: Mapping[str, Any]) -> None:
    """Write a JSON document with its checksum."""
    signed = {**data, "checksum": _digest(data, {})}
    document = json.dumps(signed, ensure_ascii=False, allow_nan=False, indent=1)
    with replacing(path) as stream:
        stream.write(_bytes(document) + b"\n")


def read_json(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read a document of the format `kind` that `write_json` wrote."""
    try:
        data = _parse(Path(path).read_bytes())
        _check_header(path, data, kind)
        genuine = data.get("checksum") == _digest(data, {})
    except _VersionError:
        raise
    except _DistrustError as error:
        raise ValueError(f"{path} is not a {kind} file: {error}.") from None
    except (ValueError, RecursionError):  # 1e999 is read, but cannot be written
        raise ValueError(_altered(path)) from None
    if not genuine:
        raise ValueError(_altered(path))
    return data


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        data = json.loads(
            raw.decode("utf-8"),
            parse_constant=_no_constant,
            object_pairs_hook=_without_twins,
        )
    except _DistrustError:
        raise
    except RecursionError:
        raise _DistrustError("it is nested too deeply") from None
    except ValueError:  # no UTF-8, no JSON, or an integer of thousands of digits
        raise _DistrustError("it is truncated or no JSON text") from None
    if not isinstance(data, dict):
        raise _DistrustError("it holds no JSON object")
    return data


def _no_constant(name: str) -> float:
    raise _DistrustError(f"it holds {name}, which is no JSON number")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict; of two entries with one name, readers would see different ones."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise _DistrustError("it gives the same name twice")
    return data


def _check_header(path: Any, data: Mapping[str, Any], kind: str) -> None:
    if data.get("format") != kind:
        raise _DistrustError(f"its format is {data.get('format')!r:.60}")
    if data.get("version") != 1:
        raise _VersionError(
            f"{path} has version {data.get('version')!r:.20} of the {kind} format; "
            "this renyi reads version 1. Install a newer renyi."
        )


def _altered(path: Any) -> str:
    return (
        f"{path} was altered or damaged: its checksum does not agree with its "
        "contents. Take a fresh copy of the file."
    )


def write_arrays(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays as npz, with a JSON header and one checksum over everything."""
    text = _bytes(_text({**header, "checksum": _digest(header, arrays)}))
    members = {"header": np.frombuffer(text, np.uint8), **arrays}
    with (
        replacing(path) as stream,
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name, array in members.items():
            # As np.savez_compressed does, whose older versions cannot forbid pickle.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                whole = np.ascontiguousarray(array)
                np.lib.format.write_array(member, whole, (1, 0), allow_pickle=False)


def read_arrays(
    path: str | os.PathLike[str], kind: str
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read the header and the arrays that `write_arrays` wrote."""
    size = os.path.getsize(path)
    try:
        with zipfile.ZipFile(path) as archive:
            header = _parse(_member(archive, "header", size).tobytes())
            _check_header(path, header, kind)
            arrays = {name: _member(archive, name, size) for name in _others(archive)}
            genuine = header.get("checksum") == _digest(header, arrays)
    except (FileNotFoundError, PermissionError, IsADirectoryError, _VersionError):
        raise
    except _DistrustError as error:
        raise ValueError(f"{path} is not a {kind} file: {error}.") from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError):
        raise ValueError(f"{path} is not a {kind} file, or is truncated.") from None
    if not genuine:
        raise ValueError(_altered(path))
    return header, arrays


class _DistrustError(ValueError):
    """What is wrong with a file."""


class _VersionError(ValueError):
    """A file is of a version that is not known here."""


def _others(archive: zipfile.ZipFile) -> list[str]:
    """Names of the arrays beside the header."""
    names = archive.namelist()
    if len(names) > _MAX_MEMBERS or len(set(names)) < len(names):
        raise _DistrustError("it has too many parts")
    if not all(name.endswith(".npy") for name in names):
        raise _DistrustError("it has a part that is no array")
    return [name[:-4] for name in names if name != "header.npy"]


def _member(archive: zipfile.ZipFile, name: str, size: int) -> NDArray[Any]:
    """Read one array; its declared size must be what the archive really holds."""
    try:
        info = archive.getinfo(f"{name}.npy")
    except KeyError:
        raise _DistrustError(f"it has no {name}") from None
    possible = min(info.compress_size, size) * _MAX_EXPANSION
    limit = _MAX_HEADER_BYTES if name == "header" else possible
    if info.file_size > min(limit, possible):
        raise _DistrustError(f"its part {name!r} declares more than the file can hold")
    try:
        with archive.open(info) as stream:
            raw = io.BytesIO(stream.read(info.file_size + 1))
    except Exception as error:  # every way of packing has errors of its own
        raise _DistrustError(
            f"its part {name!r} cannot be unpacked ({error})"
        ) from None
    return _array(raw, name, info.file_size)


def _array(raw: io.BytesIO, name: str, file_size: int) -> NDArray[Any]:
    try:
        version = np.lib.format.read_magic(raw)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(raw)
    except Exception as error:  # numpy's parser lets tokenizer errors through
        raise _DistrustError(f"its part {name!r} is no array ({error!s:.80})") from None
    if dtype.kind not in "iufb" or fortran or min(shape, default=0) < 0:
        raise _DistrustError(f"its part {name!r} is no plain array of numbers")
    size = math.prod(shape) * dtype.itemsize
    if raw.tell() + size != file_size or raw.getbuffer().nbytes != file_size:
        raise _DistrustError(f"its part {name!r} declares more than the file can hold")
    return np.frombuffer(raw.read(), dtype).reshape(shape).copy()
