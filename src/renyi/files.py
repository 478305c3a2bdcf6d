"""Read files that may be untrusted, and write files completely or not at all.

A file contains data, never code (no pickle). Its checksum must match, and its sizes are
checked before memory is allocated. Models are JSON documents with a checksum. Marginals
and counts for another process are archives: npz with a JSON header and one checksum
over everything. The header fixes the names and shapes of the arrays. The archive's
directory must match them before anything is unpacked.

A file is written to a temporary name in the same folder, flushed to the disk, and
renamed. A reader sees the old file or the new one, never a part of one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.limits import check_memory

if TYPE_CHECKING:
    import pandas as pd

# Types of plain values in a file.
NUMBER: tuple[type, ...] = (int, float)
LABEL: tuple[type, ...] = (str, int, float, bool)

Place = str | os.PathLike[str]
Sink = Place | IO[bytes]
Arrays = Mapping[str, NDArray[Any]]
Shape = tuple[int, ...]

MARGINALS = ".renyi"  # suffix of marginals files

_MAX_JSON_BYTES = 10**9
_MEMORY_PER_BYTE = 15  # bytes of memory per byte of JSON while it is read
_MAX_HEADER_BYTES = 16 * 2**20
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_PREFIX = 512  # bytes of an npy file before its numbers; numpy writes 128
_COUNTS = ("<i8", "<f8")  # types of arrays
_TEMPORARY = ".renyi-"  # prefix of temporary files


class InvalidFileError(ValueError):
    """The contents of a file do not follow its format."""


class VersionError(ValueError):
    """A file has a version that this version of renyi cannot read."""


# ---- errors


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without its full stop."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return text.strip().rstrip(".:!")[:160]


def unreadable(path: Path, error: Exception, what: str, remedy: str = "") -> str:
    """Return a sentence that names a file, what is wrong with it, and what to do."""
    if isinstance(error, PermissionError):
        return f"{path} cannot be read: permission denied."
    return f"{path} {what} ({first_line(error)}){f': {remedy}' if remedy else ''}."


@contextlib.contextmanager
def valid(path: Place) -> Iterator[None]:
    """Add the name of the file to errors about its contents."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} is not valid: it lacks {error}.") from None
    except (TypeError, ValueError, OverflowError) as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"{path} is not valid: {reason}.") from None


# ---- small tables of text


def text_cells(path: Place, skip_spaces: bool = False) -> pd.DataFrame:
    """Return the cells of a small CSV file as texts; an error names the file.

    Spaces before a cell are kept unless they are to be skipped.
    """
    import pandas as pd  # which reading of models can spare

    try:
        cells = pd.read_csv(
            path,
            dtype=str,
            keep_default_na=False,
            encoding="utf-8-sig",
            skipinitialspace=skip_spaces,
            compression="gzip" if str(path).endswith(".gz") else None,
        )
        if isinstance(cells.index, pd.RangeIndex):
            return cells
        problem = "has more cells in its rows than names in its first line: correct it."
    except UnicodeDecodeError:
        problem = "is not UTF-8: save the file as UTF-8."
    except pd.errors.EmptyDataError:
        problem = "is empty: take a copy that contains a table."
    except pd.errors.ParserError as error:
        problem = _parser_problem(first_line(error))
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ValueError(unreadable(Path(path), error, "cannot be read")) from None
    raise ValueError(f"{path} {problem}")


def _parser_problem(message: str) -> str:
    """Return what follows the name of a file in which pandas found no table."""
    ragged = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if ragged is None:
        return "cannot be read as CSV: check its quotes."
    width, line, cells = ragged.groups()
    return (
        f"has {cells} cells in line {line}, where the lines above have {width}: "
        "correct the line, or quote cells that contain ','."
    )


# ---- JSON documents


def to_bytes(data: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return data as JSON: with sorted names, or indented in the order given."""
    text = json.dumps(
        data,
        ensure_ascii=False,
        allow_nan=False,
        indent=indent,
        sort_keys=indent is None,
    )
    return encoded(text)  # writes a lone surrogate as a JSON escape


def checksum(data: Mapping[str, Any], arrays: Arrays) -> str:
    """Return the checksum of a header (without its own) and the arrays that follow."""
    plain = {key: value for key, value in data.items() if key != "checksum"}
    total = hashlib.sha256(to_bytes(plain))
    for name in sorted(arrays):
        array = arrays[name]
        total.update(f"{name} {array.dtype.str} {array.shape}".encode())
        total.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def _verify(name: Place, data: Mapping[str, Any], arrays: Arrays) -> None:
    """Raise ValueError unless the checksum of a file agrees with its contents."""
    try:
        genuine = data.get("checksum") == checksum(data, arrays)
    except (ValueError, RecursionError):  # 1e999 is read, but cannot be written
        genuine = False
    if not genuine:
        raise ValueError(
            f"{name} was altered or damaged: its checksum does not agree with its "
            "contents. Take a fresh copy of the file."
        )


def write_json(path: Sink, data: Mapping[str, Any]) -> None:
    """Write a JSON document with its checksum."""
    raw = to_bytes({**data, "checksum": checksum(data, {})}, indent=1) + b"\n"
    if len(raw) > _MAX_JSON_BYTES:
        raise ValueError(f"The file would take {len(raw):,} bytes; 10⁹ is the most.")
    with replacing(path) as stream:
        stream.write(raw)


def read_json(path: Place, kind: str, versions: int = 1) -> dict[str, Any]:
    """Read a document of the format `kind`, in one of its versions, from 1 on."""
    size = os.path.getsize(path)
    try:
        if size > _MAX_JSON_BYTES:
            raise InvalidFileError("it is larger than 10⁹ bytes")
        check_memory(_MEMORY_PER_BYTE * size, f"Reading {path}")
        raw = Path(path).read_bytes()
        if raw.startswith(b"PK\x03\x04"):
            raise InvalidFileError("it is an archive, as marginals (.renyi) are")
        data = parse(raw)
        _check_format(path, data, kind, versions)
    except InvalidFileError as error:
        raise ValueError(f"{path} is not a {kind} file: {error}.") from None
    _verify(path, data, {})
    return data


def parse(raw: bytes) -> dict[str, Any]:
    """Return the object in a JSON text, or raise `InvalidFileError`."""
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
    except ValueError:  # not UTF-8, not JSON, or an integer of thousands of digits
        raise InvalidFileError("it is truncated or not JSON") from None
    if not isinstance(data, dict):
        raise InvalidFileError("it does not contain a JSON object")
    return data


def _refuse_constant(name: str) -> float:
    raise InvalidFileError(f"it contains {name}, which is not a JSON number")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a dict; raise InvalidFileError if a name occurs twice.

    Other JSON readers might take the first of two entries, where Python takes the last.
    """
    data = dict(pairs)
    if len(data) < len(pairs):
        raise InvalidFileError("it gives the same name twice")
    return data


def check_fields(
    data: object,
    fields: Mapping[str, tuple[type, ...]],
    what: str,
    optional: Mapping[str, tuple[type, ...]] | None = None,
) -> None:
    """Raise ValueError unless `data` is an object with these fields and types."""
    if not isinstance(data, dict):
        raise ValueError(f"its {what} is not an object")
    known = {**fields, **(optional or {})}
    for name in sorted((set(data) - set(known)) | (set(fields) - set(data))):
        problem = "lacks the field" if name in fields else "has an unknown field"
        raise ValueError(f"its {what} {problem} {name!r:.60}")
    for name, value in data.items():
        if type(value) not in known[name]:  # not isinstance: True is not a number
            raise ValueError(f"its {what} has the field {name!r} of a wrong type")


def finite_numbers(value: object, shape: Shape, what: str) -> NDArray[Any]:
    """Return a list as an array; raise ValueError if its shape or a number is wrong."""
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
    "renyi-proof": ", a proof",
    "renyi-encoder": ", an encoder: columns and categories without counts",
}


def _check_format(
    name: Place, data: Mapping[str, Any], kind: str, versions: int
) -> None:
    """Raise an error if an object has another format, or an unknown version."""
    stated = data.get("format")
    version = data.get("version")
    if stated != kind:
        known = _KINDS.get(stated, "") if isinstance(stated, str) else ""
        raise InvalidFileError(f"its format is {stated!r:.60}{known}")
    if type(version) is not int or not 1 <= version <= versions:
        readable = "version 1" if versions == 1 else f"versions 1 to {versions}"
        raise VersionError(
            f"{name} has version {version!r:.20} of the {kind} format; this renyi "
            f"reads {readable}. Install a newer renyi."
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
            # Like np.savez_compressed, whose older versions cannot forbid pickle.
            info = zipfile.ZipInfo(f"{name}.npy")
            if compressed and name != "header":
                info.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(info, "w", force_zip64=True) as member:
                whole = np.ascontiguousarray(array)
                np.lib.format.write_array(member, whole, (1, 0), allow_pickle=False)


def read_header(path: Place, kind: str, versions: int = 1) -> dict[str, Any]:
    """Read the header that `write_arrays` wrote; `read_arrays` verifies it."""
    with _opened(path, path, kind) as archive:
        return _header(archive, path, kind, versions, _MAX_HEADER_BYTES)


def read_arrays(
    path: Place, kind: str, header: Mapping[str, Any], shapes: Mapping[str, Shape]
) -> dict[str, NDArray[Any]]:
    """Read the arrays of an archive, check their shapes, and verify the checksum."""
    with _opened(path, path, kind) as archive:
        members = _members(archive)
        for name, info in members.items():
            _check_size(name, info, shapes)
        check_memory(sum(i.file_size for i in members.values()), f"Reading {path}")
        arrays = {
            name: _array(archive, info, _COUNTS, shapes[name])
            for name, info in members.items()
        }
    _verify(path, header, arrays)
    return arrays


def read_archive(
    source: Sink, name: Place, kind: str, versions: int, types: Sequence[str]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read an archive that is not compressed; `name` is its name in errors."""
    with _opened(source, name, kind) as archive:
        if any(i.compress_type != zipfile.ZIP_STORED for i in archive.infolist()):
            raise InvalidFileError("it is compressed")
        header = _header(archive, name, kind, versions)
        arrays = {n: _array(archive, i, types) for n, i in _members(archive).items()}
    _verify(name, header, arrays)
    return header, arrays


@contextlib.contextmanager
def _opened(
    source: Place | IO[bytes], name: Place, kind: str
) -> Iterator[zipfile.ZipFile]:
    """Open an archive; errors about its contents name the file and the format."""
    try:
        with zipfile.ZipFile(source) as archive:
            yield archive
    except (FileNotFoundError, PermissionError, IsADirectoryError, VersionError):
        raise
    except InvalidFileError as error:
        raise ValueError(f"{name} is not a {kind} file: {error}.") from None
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, NotImplementedError):
        if is_document(source, "renyi-model"):
            raise ValueError(f"{name} is not a {kind} file: it is a model.") from None
        table = kind == "renyi-marginals" and Path(name).suffix != MARGINALS
        hint = " (renyi marginals build makes one of a table)" if table else ""
        raise ValueError(
            f"{name} is not a {kind} file, or is truncated{hint}."
        ) from None


def is_document(source: Sink, kind: str) -> bool:
    """Return whether a file begins like a JSON document of the format `kind`."""
    if isinstance(source, (str, os.PathLike)):
        start = rb'{\s*"format": "' + re.escape(kind).encode() + b'"'
        with contextlib.suppress(OSError), open(source, "rb") as stream:
            return bool(re.match(start, stream.read(200)))
    return False


def _header(
    archive: zipfile.ZipFile,
    name: Place,
    kind: str,
    versions: int,
    most: float = math.inf,
) -> dict[str, Any]:
    """Read a header of at most `most` bytes."""
    if "header.npy" not in archive.namelist():
        raise InvalidFileError("it has no header")
    info = archive.getinfo("header.npy")
    if info.file_size > most + _MAX_PREFIX:
        raise InvalidFileError("its header is too large")
    header = parse(_array(archive, info, ("|u1",)).tobytes())
    _check_format(name, header, kind, versions)
    return header


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the parts other than the header, by name."""
    infos = {i.filename.removesuffix(".npy"): i for i in archive.infolist()}
    if len(infos) < len(archive.infolist()):
        raise InvalidFileError("it has two parts of one name")
    infos.pop("header", None)
    return infos


def _check_size(name: str, info: zipfile.ZipInfo, shapes: Mapping[str, Shape]) -> None:
    """Raise an error unless a part is known and has the size of its shape."""
    if name not in shapes:
        raise InvalidFileError(f"it has an unknown part {info.filename!r:.60}")
    size = 8 * math.prod(shapes[name])
    if not size < info.file_size <= size + _MAX_PREFIX:
        raise InvalidFileError(
            f"its part {info.filename!r} has {info.file_size:,} bytes, but its "
            f"columns need numbers of the shape {shapes[name]}"
        )


def _array(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    types: Sequence[str],
    shape: Shape | None = None,
) -> NDArray[Any]:
    """Read one array; raise InvalidFileError unless type and shape are as expected."""
    part = f"its part {info.filename!r}"
    if info.compress_type not in _COMPRESSIONS:
        raise InvalidFileError(f"{part} has an unknown compression")
    try:
        with archive.open(info) as stream:
            array: NDArray[Any]
            array = np.lib.format.read_array(stream, allow_pickle=False)
    except Exception as error:  # numpy and the decompressors raise many types
        reason = f"{error!s:.80}"
        raise InvalidFileError(f"{part} cannot be unpacked ({reason})") from None
    if array.dtype.str not in types:
        raise InvalidFileError(f"{part} is not a plain array of numbers")
    if shape not in (None, array.shape):
        raise InvalidFileError(f"{part} has the shape {array.shape}, not {shape}")
    return array


# ---- writing


class _Temporary(NamedTuple):
    """A temporary file that will replace another."""

    path: Path
    stream: IO[bytes]
    place: Path  # the file to replace

    def complete(self) -> None:
        """Flush the file to the disk, and copy the mode of the file to replace."""
        self.stream.flush()
        os.fsync(self.stream.fileno())
        if self.place.exists():
            shutil.copymode(self.place, self.path)
        self.stream.close()

    def move(self) -> None:
        """Rename the file to its final name."""
        os.replace(self.path, self.place)


def target(path: Place) -> Path:
    """Return the file behind `path`; raise OSError if it cannot be written."""
    shown = os.fspath(path) or "''"
    place = Path(os.path.realpath(path))
    if place.is_dir() or shown.endswith(("/", os.sep)):
        raise IsADirectoryError(f"{shown} is a folder: name a file in it.")
    if place.is_symlink():
        raise OSError(f"{shown} is a link that leads to itself: name another file.")
    if os.path.exists(path) and not place.is_file():
        raise OSError(f"{shown} is a pipe or a device: name a file.")
    folder = str(place.parent if os.path.islink(path) else Path(path).parent)
    if not place.parent.is_dir():
        raise FileNotFoundError(f"There is no folder {folder!r}: create it first.")
    if not os.access(place.parent, os.W_OK):
        raise PermissionError(f"The folder {folder!r} is not writable.")
    if place.exists() and not os.access(place, os.W_OK):
        raise PermissionError(f"{shown} is write-protected: name another file.")
    return place


def same_file(one: Place, other: Place) -> bool:
    """Return whether two paths lead to one file, through links of any kind."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them does not exist
        return os.path.realpath(one) == os.path.realpath(other)


def encoded(text: str) -> bytes:
    """Return text in UTF-8, with an escape for a lone surrogate."""
    return text.encode("utf-8", "backslashreplace")


@contextlib.contextmanager
def replacing(path: Sink) -> Iterator[IO[bytes]]:
    """Open a file that replaces `path` if the block succeeds; pass a stream through."""
    if not isinstance(path, (str, os.PathLike)):
        if not hasattr(path, "write"):
            raise TypeError(f"A path must be given, not a {type(path).__name__}.")
        yield path
        return
    with _naming(path), _temporary(path) as temporary:
        yield temporary.stream
        temporary.complete()
        temporary.move()
        _sync_folder(temporary.place.parent)


def replace_together(writers: Mapping[Path, Callable[[IO[bytes]], object]]) -> None:
    """Write every file to a temporary name, then rename them all.

    Nothing slow happens between the renames, so that Ctrl-C leaves all files or none.
    """
    with contextlib.ExitStack() as stack:
        temporaries = {}
        for path, write in writers.items():
            with _naming(path):
                temporary = stack.enter_context(_temporary(path))
                write(temporary.stream)
                temporary.complete()
                temporaries[path] = temporary
        for path, temporary in temporaries.items():
            with _naming(path):
                temporary.move()
        for folder in {temporary.place.parent for temporary in temporaries.values()}:
            _sync_folder(folder)


@contextlib.contextmanager
def _temporary(path: Place) -> Iterator[_Temporary]:
    """Open a new file in the folder of `path`; delete it unless it is moved."""
    place = target(path)
    name = place.with_name(_TEMPORARY + secrets.token_hex(8))
    stream = name.open("xb")  # with the mode that any new file gets
    try:
        yield _Temporary(name, stream, place)
    finally:
        with contextlib.suppress(OSError):
            stream.close()
        with contextlib.suppress(OSError):
            name.unlink()


def _sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports it."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@contextlib.contextmanager
def _naming(path: Place) -> Iterator[None]:
    """Replace the temporary file's name in system errors by the user's file."""
    try:
        yield
    except OSError as error:
        name = os.path.basename(str(error.filename or _TEMPORARY))
        if error.errno is None or not name.startswith(_TEMPORARY):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
