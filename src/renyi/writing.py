"""Files: written whole or not at all.

A file is written to a temporary name beside its place and renamed, so that a reader
sees the old file or the new one, never half of one. The temporary file is locked while
its writer lives; one that nobody locks was left by a killed writer, and is deleted when
the same place is written to again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import IO

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

Place = str | os.PathLike[str]
Sink = Place | IO[bytes]


def target(path: Place) -> Path:
    """Return the file that `path` leads to; refuse one that cannot be written."""
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
    """Whether two names are one file, through links of any kind."""
    try:
        return os.path.samefile(one, other)
    except OSError:  # one of them is not there
        return os.path.realpath(one) == os.path.realpath(other)


def encoded(text: str) -> bytes:
    """Return text as files hold it: UTF-8, a lone surrogate as an escape."""
    return text.encode("utf-8", "backslashreplace")


@contextlib.contextmanager
def replacing(path: Sink) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` when all went well, or a stream."""
    if not isinstance(path, (str, os.PathLike)):
        if not hasattr(path, "write"):
            raise TypeError(f"A path must be given, not a {type(path).__name__}.")
        yield path
        return
    place = target(path)
    with _naming(path), _temporary(place) as (temporary, stream):
        yield stream
        _complete(stream, temporary, place)
        os.replace(temporary, place)


def replace_together(writers: Mapping[Path, Callable[[IO[bytes]], object]]) -> None:
    """Write all files, or none: if a move fails, those before it are undone."""
    with contextlib.ExitStack() as opened, contextlib.ExitStack() as undo:
        made = []
        for path, write in writers.items():
            with _naming(path):
                place = target(path)
                temporary, stream = opened.enter_context(_temporary(place))
                write(stream)
                _complete(stream, temporary, place)
                made.append((path, temporary, place))
        opened.enter_context(_turn(made[0][2].parent))
        for path, temporary, place in made:
            with _naming(path):
                if place.exists():
                    undo.callback(os.replace, opened.enter_context(_old(place)), place)
                else:
                    undo.callback(place.unlink, missing_ok=True)
                os.replace(temporary, place)
        undo.pop_all()


@contextlib.contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Wait, for a second at most, while another moves its files into a folder.

    Else the files of two could be mixed.
    """
    if fcntl is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        _lock(number)
        yield
    finally:
        os.close(number)


def _lock(file: int | IO[bytes]) -> None:
    """Lock a file; one that another holds is waited for, a second at most."""
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            _locked(file)
            return
        time.sleep(0.01)


def _locked(file: int | IO[bytes]) -> bool:
    """Lock a file, or raise `BlockingIOError`; whether the system knows locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # some network drives have no locks
        return False
    return True


def _prefix(place: Path) -> str:
    """Return how the names of temporary files begin, of any length of `place`.

    Locks of other machines may not be seen, so theirs have other names.
    """
    name = os.fsencode(place.name) + platform.node().encode()
    return f".renyi-{hashlib.sha256(name).hexdigest()[:12]}-"


def _new_name(place: Path) -> Path:
    return place.with_name(_prefix(place) + secrets.token_hex(6))


@contextlib.contextmanager
def _temporary(place: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Open a new file beside `place`, locked while its writer lives, then gone."""
    sweep(place)
    while True:
        temporary = _new_name(place)
        stream = temporary.open("xb")  # with the mode that any new file gets
        with contextlib.suppress(BlockingIOError):
            if hold(stream, temporary):
                break
        stream.close()  # someone has taken it for what a killed writer left
    try:
        yield temporary, stream
    finally:  # all is on the disk already, or not wanted
        with contextlib.suppress(OSError):
            stream.close()
        with contextlib.suppress(OSError):
            temporary.unlink()


@contextlib.contextmanager
def _old(place: Path) -> Iterator[Path]:
    """Give an old file a second name for a while.

    It is locked before it has that name, so that no one takes it for a killed writer's.
    """
    name = _new_name(place)
    with contextlib.ExitStack() as opened:
        _lock(opened.enter_context(place.open("rb")))
        opened.callback(name.unlink, missing_ok=True)
        try:
            os.link(place, name)
        except OSError:  # not every file system has links
            name, copy = opened.enter_context(_temporary(place))
            with place.open("rb") as old:
                shutil.copyfileobj(old, copy)
            _complete(copy, name, place)
        yield name


def _complete(stream: IO[bytes], temporary: Path, place: Path) -> None:
    """Bring a temporary file to the disk, with the mode of the old one."""
    stream.flush()
    os.fsync(stream.fileno())
    if place.exists():
        shutil.copymode(place, temporary)
    if fcntl is None:  # Windows moves no file that is open
        stream.close()


def sweep(place: Path) -> None:
    """Delete what writers of `place` left that were killed: nobody locks it."""
    with contextlib.suppress(OSError):
        for each in os.scandir(place.parent):
            if each.name.startswith(_prefix(place)) and not each.is_symlink():
                with contextlib.suppress(OSError), open(each, "r+b") as stream:
                    if _locked(stream):
                        os.unlink(each)


def hold(stream: IO[bytes], path: Path) -> bool:
    """Lock a file until it is closed or its process ends; whether it is there still.

    If another holds it, `BlockingIOError` is raised; where the system knows no locks,
    none is taken.
    """
    if not _locked(stream):
        return True
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def _naming(path: Place) -> Iterator[None]:
    """Let errors of the system name the file the user knows of."""
    try:
        yield
    except OSError as error:
        found = os.path.basename(str(error.filename or ".renyi-"))
        if error.errno is None or not found.startswith(".renyi-"):
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
