"""Formats of files, which are checked before they are believed.

What is read may come from a stranger: it is data, never code (no pickle), its checksum
must agree, and no memory is taken for a size that the file merely declares.

Models are JSON documents with a checksum. All else (marginals, counts sent
to another process) is an archive: npz with a JSON header and one checksum over
everything. A few kilobytes of zip can unfold to gigabytes. So a header may be only so
large, what it says fixes the names and shapes of the arrays, and the archive's
directory must agree with these before anything else is unpacked, piece by piece.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from renyi.endings import MARGINALS
from renyi.limits import check_memory
from renyi.writing import Place, Sink, encoded, replacing

# Types of plain values in a file.
NUMBER: tuple[type, ...] = (int, float)
LABEL: tuple[type, ...] = (str, int, float, bool)

Arrays = Mapping[str, NDArray[Any]]

_MAX_JSON_BYTES = 10**9
_MEMORY_PER_BYTE = 15  # of JSON, while it is read
# Empty lists and objects take twenty and more times the memory of their text; in what
# is written here there is at most one in so many characters.
_BYTES_PER = {b"[": 8, b"{": 32}
_ALLOWANCE = 100_000
# Possessive, and matching to the end what is not closed: else time is quadratic.
_STRINGS = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
# Deflate cannot expand its input more than this (RFC 1951 allows 1032 to 1).
_MAX_EXPANSION = 1_032
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# A header is stored as it is. Those of older files are packed, to a tenth or so.
_MAX_HEADER_BYTES = 16 * 2**20
_HEADER_EXPANSION = 100
_HEADER_ALLOWANCE = 2**20
_MAX_PREFIX = 512  # bytes of an npy file before its numbers; numpy writes 128
_CHUNK = 2**20
_COUNTS = ("<i8", "<f8")  # types of arrays


class InvalidFileError(ValueError):
    """What is wrong with a file."""


class VersionError(ValueError):
    """A file is of a version that is not known here."""


# ---- errors


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, without its full stop."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text.strip().rstrip(".:!")[:160]


def unreadable(path: Path, error: Exception, what: str, remedy: str = "") -> str:
    """Return a sentence that names a file, what it is not, and what to do."""
    if isinstance(error, PermissionError):
        return f"{path} cannot be read: permission denied."
    return f"{path} {what} ({first_line(error)}){f': {remedy}' if remedy else ''}."


# ---- JSON documents


def to_bytes(data: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return data as JSON: the same for the same data, or indented as they come."""
    form: Any = {"sort_keys": True} if indent is None else {"indent": indent}
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, **form)
    return encoded(text)  # JSON's own escape of a lone surrogate


def checksum(data: Mapping[str, Any], arrays: Arrays) -> str:
    """Checksum of a header (without its own checksum) and the arrays that follow."""
    plain = {key: value for key, value in data.items() if key != "checksum"}
    total = hashlib.sha256(to_bytes(plain))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _verify(path: Any, data: Mapping[str, Any], arrays: Arrays) -> None:
    try:
        genuine = data.get("checksum") == checksum(data, arrays)
    except (ValueError, RecursionError):  # 1e999 is read, but cannot be written
        genuine = False
    if not genuine:
        raise ValueError(
            f"{path} was altered or damaged: its checksum does not agree with its "
            "contents. Take a fresh copy of the file."
        )


def write_json(path: Sink, data: Mapping[str, Any]) -> None:
    """Write a JSON document with its checksum."""
    raw = to_bytes({**data, "checksum": checksum(data, {})}, indent=1) + b"\n"
    if len(raw) > _MAX_JSON_BYTES:
        raise ValueError(f"The file would take {len(raw):,} bytes; 10⁹ is the most.")
    with replacing(path) as stream:
        stream.write(raw)


@contextlib.contextmanager
def valid(path: Place) -> Iterator[None]:
    """Let errors about what a file holds name the file."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} is not valid: it lacks {error}.") from None
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"{path} is not valid: {reason}.") from None


def read_json(path: Place, kind: str, versions: int = 1) -> dict[str, Any]:
    """Read a document of the format `kind`, in one of its versions, from 1 on."""
    try:
        if os.path.getsize(path) > _MAX_JSON_BYTES:
            raise InvalidFileError("it is larger than 10⁹ bytes")
        check_memory(_MEMORY_PER_BYTE * os.path.getsize(path), f"Reading {path}")
        raw = Path(path).read_bytes()
        if raw.startswith(b"PK\x03\x04"):
            raise InvalidFileError("it is an archive, as marginals (.renyi) are")
        data = parse(raw)
        _check_format(path, data, kind, versions)
    except (InvalidFileError, RecursionError) as error:
        raise ValueError(f"{path} is not a {kind} file: {error}.") from None
    _verify(path, data, {})
    return data


def parse(raw: bytes) -> dict[str, Any]:
    """Return the object that JSON text holds; what is odd is an `InvalidFileError`."""
    for mark, each in _BYTES_PER.items():
        surplus = raw.count(mark) - _ALLOWANCE - len(raw) // each
        labels = _STRINGS.finditer(raw) if surplus > 0 else ()
        if surplus > sum(found[0].count(mark) for found in labels):
            raise InvalidFileError("it holds too many lists or objects")
    try:
        data = json.loads(
            raw.decode("utf-8"),
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_duplicates,
        )
    except InvalidFileError:
        raise
    except RecursionError:
        raise InvalidFileError("it is nested too deeply") from None
    except ValueError:  # no UTF-8, no JSON, or an integer of thousands of digits
        raise InvalidFileError("it is truncated or not JSON") from None
    if not isinstance(data, dict):
        raise InvalidFileError("it holds no JSON object")
    return data


def _refuse_constant(name: str) -> float:
    raise InvalidFileError(f"it holds {name}, which is not a JSON number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dict; of two entries with one name, readers would see different ones."""
    data = dict(pairs)
    if len(data) < len(pairs):
        raise InvalidFileError("it gives the same name twice")
    return data


def check_fields(
    data: Any,
    fields: Mapping[str, tuple[type, ...]],
    what: str,
    optional: Mapping[str, tuple[type, ...]] | None = None,
) -> None:
    """Refuse what is no object of these fields and types; later ones are optional."""
    if not isinstance(data, dict):
        raise ValueError(f"its {what} is not an object")
    known = {**fields, **(optional or {})}
    for name in sorted((set(data) - set(known)) | (set(fields) - set(data))):
        problem = "lacks the field" if name in fields else "has an unknown field"
        raise ValueError(f"its {what} {problem} {name!r:.60}")
    for name, value in data.items():
        if type(value) not in known[name]:  # not isinstance: True is no number
            raise ValueError(f"its {what} has the field {name!r} of a wrong type")


def finite_numbers(value: Any, shape: tuple[int, ...], what: str) -> NDArray[Any]:
    """Return a list of finite numbers as an array of the shape it must have."""
    plain = np.array(value, object)
    if plain.shape != shape or not {type(v) for v in plain.flat} <= set(NUMBER):
        raise ValueError(f"its {what} do not fit its columns and classes")
    array = np.array(value)
    if array.dtype.kind not in "if" or not np.isfinite(array).all():
        raise ValueError(f"its {what} are not finite")
    return array


_KINDS = {
    "renyi-model": ", a model of tables",
    "renyi-genotype-scores": (
        ", a genotype model: use 'renyi genotypes predict', 'export' or 'report'"
    ),
    "renyi-proof": ", a proof (--proof)",
}


def _check_format(path: Any, data: Mapping[str, Any], kind: str, versions: int) -> None:
    """Refuse an object of another format, or of a version that is not known."""
    if data.get("format") != kind:
        found = data.get("format")
        known = _KINDS.get(found, "") if isinstance(found, str) else ""
        raise InvalidFileError(f"its format is {found!r:.60}{known}")
    if type(data.get("version")) is not int or not 1 <= data["version"] <= versions:
        known = "version 1" if versions == 1 else f"versions 1 to {versions}"
        raise VersionError(
            f"{path} has version {data.get('version')!r:.20} of the {kind} format; "
            f"this renyi reads {known}. Install a newer renyi."
        )


# ---- archives


def write_arrays(path: Sink, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write arrays as a compressed archive with a header."""
    with replacing(path) as stream:
        write_archive(stream, header, arrays, compressed=True)


def write_archive(
    stream: IO[bytes],
    header: Mapping[str, Any],
    arrays: Arrays,
    compressed: bool = False,
) -> None:
    """Write arrays as npz, with a JSON header and one checksum over everything."""
    text = to_bytes({**header, "checksum": checksum(header, arrays)})
    if compressed and len(text) > _MAX_HEADER_BYTES:
        raise ValueError(
            f"The description of the columns takes {len(text):,} bytes, more than a "
            "file may have: select fewer columns."
        )
    members = {"header": np.frombuffer(text, np.uint8), **arrays}
    with zipfile.ZipFile(stream, "w") as archive:
        for name, array in members.items():
            # As np.savez_compressed does, whose older versions cannot forbid pickle.
            info = zipfile.ZipInfo(f"{name}.npy")
            if compressed and name != "header":
                info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                whole = np.ascontiguousarray(array)
                np.lib.format.write_array(member, whole, (1, 0), allow_pickle=False)


def read_header(path: Place, kind: str, versions: int = 1) -> dict[str, Any]:
    """Read the header that `write_arrays` wrote; it is not verified yet."""
    with _opened(path, path, kind) as archive:
        return _header(archive, path, kind, versions)


def read_arrays(
    path: Place,
    kind: str,
    header: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, NDArray[Any]]:
    """Read the arrays beside a header, which may be of some shapes, and verify them."""
    with _opened(path, path, kind) as archive:
        members = _agreeing(archive, shapes)
        check_memory(sum(i.file_size for i in members.values()), f"Reading {path}")
        arrays = {
            name: _array(archive, info, _COUNTS, shapes[name])
            for name, info in members.items()
        }
    _verify(path, header, arrays)
    return arrays


def read_diagonal(
    path: Place, kind: str, name: str, shapes: Mapping[str, tuple[int, ...]]
) -> NDArray[Any]:
    """Read the diagonal of a square array of numbers, without holding the array."""
    with _opened(path, path, kind) as archive:
        members = _agreeing(archive, shapes)
        if name not in members:
            raise InvalidFileError(f"it has no part '{name}.npy'")
        return _array(archive, members[name], _COUNTS, shapes[name], diagonal=True)


def _agreeing(
    archive: zipfile.ZipFile, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, zipfile.ZipInfo]:
    """Return the parts; the directory must agree before anything is unpacked."""
    members = _members(archive)
    for name, info in members.items():
        if name not in shapes:
            raise InvalidFileError(f"it has an unknown part {info.filename!r:.60}")
        size = 8 * math.prod(shapes[name])
        if not size < info.file_size <= size + _MAX_PREFIX:
            raise InvalidFileError(
                f"its part {info.filename!r} has {info.file_size:,} bytes, but its "
                f"columns need numbers of the shape {shapes[name]}"
            )
    return members


def read_archive(
    source: Place | IO[bytes], name: str, kind: str, versions: int, types: Any
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read an archive that is not compressed; `name` is what an error calls it."""
    with _opened(source, name, kind) as archive:
        if any(i.compress_type != zipfile.ZIP_STORED for i in archive.infolist()):
            raise InvalidFileError("it is compressed")
        header = _header(archive, name, kind, versions, limited=False)
        arrays = {n: _array(archive, i, types) for n, i in _members(archive).items()}
    _verify(name, header, arrays)
    return header, arrays


@contextlib.contextmanager
def _opened(
    source: Place | IO[bytes], name: Any, kind: str
) -> Iterator[zipfile.ZipFile]:
    """Open an archive; say of what is wrong in it that it is not of this kind."""
    try:
        with zipfile.ZipFile(source) as archive:
            yield archive
    except (FileNotFoundError, PermissionError, IsADirectoryError, VersionError):
        raise
    except InvalidFileError as error:
        raise ValueError(f"{name} is not a {kind} file: {error}.") from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError):
        if _is_model(source):
            raise ValueError(f"{name} is not a {kind} file: it is a model.") from None
        table = kind == "renyi-marginals" and Path(name).suffix != MARGINALS
        hint = " (renyi marginals build makes one of a table)" if table else ""
        raise ValueError(
            f"{name} is not a {kind} file, or is truncated{hint}."
        ) from None


def _is_model(source: Sink) -> bool:
    """Whether a file begins as a model does."""
    if isinstance(source, (str, os.PathLike)):
        with contextlib.suppress(OSError), open(source, "rb") as stream:
            return bool(re.match(rb'{\s*"format": "renyi-model"', stream.read(200)))
    return False


def _header(
    archive: zipfile.ZipFile, name: Any, kind: str, versions: int, limited: bool = True
) -> dict[str, Any]:
    """Read the header; `limited` to what a file of columns may have."""
    if "header.npy" not in archive.namelist():
        raise InvalidFileError("it has no header")
    info = archive.getinfo("header.npy")
    most = _HEADER_ALLOWANCE + _HEADER_EXPANSION * info.compress_size
    if limited and info.file_size > min(most, _MAX_HEADER_BYTES + _MAX_PREFIX):
        raise InvalidFileError("its header is too large")
    header = parse(_array(archive, info, ("|u1",)).tobytes())
    _check_format(name, header, kind, versions)
    return header


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the parts beside the header, by name."""
    infos = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
    if len(infos) < len(archive.infolist()):
        raise InvalidFileError("it has two parts of one name")
    infos.pop("header", None)
    return infos


def _array(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    types: tuple[str, ...],
    shape: tuple[int, ...] | None = None,
    diagonal: bool = False,
) -> NDArray[Any]:
    """Read one array; what it declares must be what the archive really holds."""
    assert archive.fp is not None
    size = archive.fp.seek(0, os.SEEK_END)
    try:
        if info.compress_type not in _COMPRESSIONS:
            raise InvalidFileError("has an unknown compression")
        if info.file_size > min(info.compress_size, size) * _MAX_EXPANSION:
            raise InvalidFileError("declares more than the file holds")
        with archive.open(info) as stream:
            return _unpacked(stream, info.file_size, types, shape, diagonal)
    except InvalidFileError as error:
        raise InvalidFileError(f"its part {info.filename!r} {error}") from None
    except Exception as error:  # numpy's parser and every way of packing have their own
        raise InvalidFileError(
            f"its part {info.filename!r} cannot be unpacked ({error!s:.80})"
        ) from None


def _unpacked(
    stream: IO[bytes], size: int, types: tuple[str, ...], shape: Any, diagonal: bool
) -> NDArray[Any]:
    """Read an npy file piece by piece: memory is taken for what is there."""
    if np.lib.format.read_magic(stream) != (1, 0):
        raise InvalidFileError("is of an unknown version of npy")
    found, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.str not in types or fortran or min(found, default=0) < 0:
        raise InvalidFileError("is not a plain array of numbers")
    if stream.tell() + math.prod(found) * dtype.itemsize != size:
        raise InvalidFileError("declares more than the file holds")
    if shape not in (None, found):
        raise InvalidFileError(f"has the shape {found}, not {shape}")
    if diagonal:
        rows = (stream.read(found[1] * dtype.itemsize) for _ in range(found[0]))
        cells = (np.frombuffer(row, dtype)[k] for k, row in enumerate(rows))
        return np.fromiter(cells, dtype, found[0])
    array = np.empty(found, dtype)
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
    return array
