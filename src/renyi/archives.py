"""Archives of arrays: npz with a JSON header and one checksum over everything.

A few kilobytes of zip can unfold to gigabytes. So the header may be only so large, what
it says fixes the names and shapes of the arrays, and the archive's directory must agree
with these before anything else is unpacked, piece by piece into the room it needs.
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from renyi.storage import (
    DistrustError,
    VersionError,
    altered,
    check_header,
    digest,
    parse,
    replacing,
    to_bytes,
    to_text,
)

# Deflate cannot expand its input more than this (RFC 1951 allows 1032 to 1).
_MAX_EXPANSION = 1_032
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A header is written as it is. Those of older files are packed, to a tenth or so.
_MAX_HEADER_BYTES = 16 * 2**20
_HEADER_EXPANSION, _HEADER_ALLOWANCE = 100, 2**20
_MAX_PREFIX = 512  # bytes of an npy file before its numbers; numpy writes 128
_CHUNK = 2**20


def write_arrays(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays as npz, with a JSON header and one checksum over everything."""
    text = to_bytes(to_text({**header, "checksum": digest(header, arrays)}))
    if len(text) > _MAX_HEADER_BYTES:
        raise ValueError(
            f"The description of the columns takes {len(text):,} bytes, more than a "
            "file may have: select fewer columns."
        )
    members = {"header": np.frombuffer(text, np.uint8), **arrays}
    with (
        replacing(path) as stream,
        zipfile.ZipFile(stream, "w") as archive,
    ):
        for name, array in members.items():
            # As np.savez_compressed does, whose older versions cannot forbid pickle.
            info = zipfile.ZipInfo(f"{name}.npy")
            if name != "header":
                info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                whole = np.ascontiguousarray(array)
                np.lib.format.write_array(member, whole, (1, 0), allow_pickle=False)


def read_header(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read the header that `write_arrays` wrote; it is not verified yet."""
    with _opened(path, kind) as archive:
        info = _info(archive, "header")
        most = _HEADER_ALLOWANCE + _HEADER_EXPANSION * info.compress_size
        if info.file_size > min(most, _MAX_HEADER_BYTES + _MAX_PREFIX):
            raise DistrustError("its header is too large")
        header = parse(_member(archive, info, None, ("|u1",)).tobytes())
        check_header(path, header, kind)
        return header


def read_arrays(
    path: str | os.PathLike[str],
    kind: str,
    header: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, NDArray[Any]]:
    """Read the arrays that `write_arrays` wrote beside a header.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        Its format.
    header : mapping
        What `read_header` returned; the checksum in it is verified.
    shapes : mapping
        The arrays that there may be, int64 or float64, with the shape each must have.
    """
    with _opened(path, kind) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise DistrustError("it has two parts of one name")
        for name in sorted(members.keys() - {f"{name}.npy" for name in shapes}):
            if name != "header.npy":
                raise DistrustError(f"it has an unknown part {name!r:.60}")
        infos = {n: members[f"{n}.npy"] for n in shapes if f"{n}.npy" in members}
        for name, info in infos.items():
            _check_size(info, shapes[name])
        arrays = {
            name: _member(archive, info, shapes[name], ("<i8", "<f8"))
            for name, info in infos.items()
        }
    if header.get("checksum") != digest(header, arrays):
        raise ValueError(altered(path))
    return arrays


@contextlib.contextmanager
def _opened(path: str | os.PathLike[str], kind: str) -> Iterator[zipfile.ZipFile]:
    """Open an archive; say of what is wrong in it that it is no file of this kind."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (FileNotFoundError, PermissionError, IsADirectoryError, VersionError):
        raise
    except DistrustError as error:
        raise ValueError(f"{path} is not a {kind} file: {error}.") from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError):
        table = kind == "renyi-marginals" and Path(path).suffix != ".renyi"
        hint = " (renyi marginals build makes one of a table)" if table else ""
        raise ValueError(
            f"{path} is not a {kind} file, or is truncated{hint}."
        ) from None


def _info(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    try:
        return archive.getinfo(f"{name}.npy")
    except KeyError:
        raise DistrustError(f"it has no {name}") from None


def _check_size(info: zipfile.ZipInfo, shape: tuple[int, ...]) -> None:
    """Refuse an array that the archive's directory says to be of another size."""
    size = 8 * math.prod(shape)
    if not size < info.file_size <= size + _MAX_PREFIX:
        raise DistrustError(
            f"its part {info.filename!r} has {info.file_size:,} bytes, but its columns "
            f"ask for {_by(shape)} numbers"
        )


def _by(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _member(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    shape: tuple[int, ...] | None,
    types: tuple[str, ...],
) -> NDArray[Any]:
    """Read one array; what it declares must be what the archive really holds."""
    name = info.filename
    size = os.fstat(archive.fp.fileno()).st_size if archive.fp else 0
    if info.compress_type not in _PACKINGS:
        raise DistrustError(f"its part {name!r} is packed in an unknown way")
    if info.file_size > min(info.compress_size, size) * _MAX_EXPANSION:
        raise DistrustError(f"its part {name!r} declares more than the file can hold")
    try:
        with archive.open(info) as stream:
            array = _declared(stream, info, types)
            if shape is not None and array.shape != shape:
                raise DistrustError(
                    f"its part {name!r} has the shape {_by(array.shape)}, not "
                    f"{_by(shape)}"
                )
            _fill(stream, array)
    except DistrustError:
        raise
    except Exception as error:  # every way of packing has errors of its own
        raise DistrustError(
            f"its part {name!r} cannot be unpacked ({error!s:.80})"
        ) from None
    return array


def _declared(
    stream: IO[bytes], info: zipfile.ZipInfo, types: tuple[str, ...]
) -> NDArray[Any]:
    """Return room for the array that an npy file declares, if it is of that size."""
    name = info.filename
    try:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    except Exception as error:  # numpy's parser lets tokenizer errors through
        raise DistrustError(f"its part {name!r} is no array ({error!s:.80})") from None
    if dtype.str not in types or fortran or min(shape, default=0) < 0:
        raise DistrustError(f"its part {name!r} is no plain array of numbers")
    if stream.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
        raise DistrustError(f"its part {name!r} declares more than the file can hold")
    return np.empty(shape, dtype)


def _fill(stream: IO[bytes], array: NDArray[Any]) -> None:
    """Read an array piece by piece: memory is taken for what is there."""
    room = array.reshape(-1).view(np.uint8).data
    at = 0
    while at < len(room):
        piece = stream.read(min(_CHUNK, len(room) - at))
        if not piece:
            raise EOFError("it is truncated")
        room[at : at + len(piece)] = piece
        at += len(piece)
    if stream.read(1):  # where the archive's own checksum is verified, too
        raise EOFError("it is longer than it says")
