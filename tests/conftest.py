"""Settings for every test: hypothesis, what a skipped test means, the command line.

Under CI (the environment variable is set, as `.ci/run` does) hypothesis draws the
same examples in every run, and a skipped test fails: there, everything a test can
need is installed, so a skip is a test that silently stopped testing.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pandas as pd
import pytest

from renyi.cli import main
from renyi.datasets import load
from support.commandline import Done, Run, contents

CI = bool(os.environ.get("CI"))
# Beside the checkout, or beside a folder that holds several.
PLACES = [p / "shared" / "data" / "genotypes" for p in Path(__file__).parents[2:4]]
GENOTYPES = next(filter(Path.is_dir, PLACES), PLACES[0])

# No deadline: the first example pays for imports and compilation.
for profile, examples in (("renyi", 30), ("long", 200)):
    hypothesis.settings.register_profile(
        profile, deadline=None, derandomize=CI, max_examples=examples
    )
hypothesis.settings.load_profile("renyi")


@pytest.fixture(scope="session")
def votes() -> tuple[pd.DataFrame, pd.Series]:
    """Features and classes of the bundled votes; tests leave them as they are."""
    return load("votes")


@pytest.fixture(scope="session")
def genotypes() -> Path:
    """The folder of real genotypes; tests that use it carry the marker's name."""
    return GENOTYPES


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests on real genotypes where there are none."""
    if item.get_closest_marker("genotypes") and not GENOTYPES.is_dir():
        pytest.skip(f"{GENOTYPES} is absent: these data may not be copied")


COMPILING = ("counting/", "solvers/")
GROUPS = ("spark", "compiled loops")  # the longest; the others' order does not matter


@pytest.hookimpl(tryfirst=True)  # before xdist, which reads the groups
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Let one process begin with Spark, another with all that compiles.

    Two would compile the same loops side by side; later ones find them compiled. The
    loops that Spark's tests use, too, are compiled while it starts.
    """

    def rank(item: pytest.Item) -> tuple[int, bool]:
        group = item.get_closest_marker("xdist_group")
        name = "" if group is None else group.args[0]
        place = GROUPS.index(name) if name in GROUPS else len(GROUPS)
        return place, "test_pair_counts" not in item.nodeid

    if hasattr(config, "workerinput"):
        for item in items:
            if any(part in item.nodeid for part in COMPILING):
                item.add_marker(pytest.mark.xdist_group(GROUPS[1]))
        items.sort(key=rank)


TOGETHER = 25  # tests of a file that one process takes


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand out tests that are in no group by the dozen, those of a file together.

    One by one, xdist counts for each what is left of all before it, and what a file
    makes once for its tests is made in every process.
    """
    from xdist.scheduler import LoadGroupScheduling

    class ByFile(LoadGroupScheduling):
        """Groups as they are marked, and parts of files."""

        def _split_scope(self, nodeid: str) -> str:
            scope: str = super()._split_scope(nodeid)
            return part(nodeid) if scope == nodeid else scope

    met: Counter[str] = Counter()

    @cache
    def part(nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        met[file] += 1
        return f"{file} {met[file] // TOGETHER}"

    return ByFile(config, log) if config.option.dist == "loadgroup" else None


def pytest_collection_finish() -> None:
    """Keep what was collected, millions of objects, out of garbage collections."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let it go again."""
    gc.unfreeze()


class SkipsFail:
    """Turn skips into failures, in doctests of ``src`` and ``docs`` too.

    A plugin rather than hooks of this file, which would see ``tests`` only.
    """

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Let no test be skipped but those without their genotypes."""
        report = yield
        if not item.get_closest_marker("genotypes") or GENOTYPES.is_dir():
            fail_if_skipped(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self,
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Let no module be skipped whole, as `importorskip` would do."""
        report = yield
        fail_if_skipped(report)
        return report


class FewDoctests:
    """Look for doctests where there are any, so that other modules are not imported."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, Any, Any]:
        """Leave out the tests, which have none, and modules without a prompt."""
        collectors = yield
        has_tests = file_path.is_relative_to(Path(__file__).parent)
        if not has_tests and b">>> " in file_path.read_bytes():
            return collectors
        return [each for each in collectors if type(each).__name__ != "DoctestModule"]


class FiguresClose:
    """Close the figures of a test, a doctest too, which pyplot would keep."""

    def pytest_runtest_teardown(self) -> None:
        """Close them if there can be any."""
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure; an expected failure (xfail) is not a skip."""
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped: {report.longrepr}"


def pytest_configure(config: pytest.Config) -> None:
    """Under CI, count a skip as a failure; hear Ctrl-C in the background too.

    With the long tests, hypothesis tries more examples.
    """
    if not config.option.markexpr:
        hypothesis.settings.load_profile("long")
    config.pluginmanager.register(FiguresClose())
    config.pluginmanager.register(FewDoctests())
    if CI:
        config.pluginmanager.register(SkipsFail())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so a shell starts `make &`
        signal.signal(signal.SIGINT, signal.default_int_handler)


# ---- the command line


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def command(*argv: object) -> Done:
        capsys.readouterr()
        try:
            code = main([str(word) for word in argv])
        except SystemExit as stop:  # argparse's way out
            code = int(stop.code or 0)
        return Done(code, *capsys.readouterr())

    return command


@pytest.fixture
def good(run: Run) -> Callable[..., Done]:
    """Run a command that must succeed."""

    def command(*argv: object) -> Done:
        done = run(*argv)
        assert done.code == 0, done.err
        return done

    return command


@pytest.fixture
def bad(run: Run) -> Callable[..., str]:
    """Run a command that must fail, in one sentence, and leave no trace."""

    def command(*argv: object, code: int = 2) -> str:
        before = contents(Path.cwd())
        done = run(*argv)
        assert done.code == code
        assert done.out == ""
        assert "Traceback" not in done.err
        *notes, last = done.err.splitlines()
        assert all(line.startswith("note: ") for line in notes)
        assert last.startswith("renyi: error: ")
        assert contents(Path.cwd()) == before
        return last

    return command
