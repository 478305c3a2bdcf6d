"""The wheel: what is in it, what it says of itself, and that it works installed.

The tests elsewhere import the checkout. Here a wheel is built and unpacked into an
empty folder, and everything runs from that folder: a data file or module missing
from the wheel fails here and nowhere else.
"""

from __future__ import annotations

import email
import os
import subprocess
import sys
import zipfile
from email.message import Message
from pathlib import Path

import pytest

import renyi

pytestmark = pytest.mark.xdist_group("wheel")  # built once

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "renyi"
EXTRAS = {
    *("fast", "exact", "duckdb", "databases", "spark", "genetics", "plot"),
    *("gpu", "all", "onnx", "privacy", "test", "lint", "bench", "docs"),
}


def pip(*arguments: str | Path) -> None:
    """Run pip quietly; what it says is shown only when it fails."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith("dist-info/METADATA")]
        return email.message_from_bytes(archive.read(name))


def python(installed: Path, folder: Path, *arguments: str) -> str:
    """Run Python in ``folder`` with the installed wheel first on its path."""
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_contains_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if ".dist-info/" not in n]
    expected = {
        f"renyi/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert set(names) == expected
    assert "renyi/py.typed" in names
    data = {Path(n).name.partition(".")[0] for n in names if ".csv" in n}
    assert data >= {"votes", "credit", "kr-vs-kp", "promoters", "adult"}


def test_metadata(metadata: Message) -> None:
    assert metadata["Name"] == "renyi"
    assert metadata["Version"] == renyi.__version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS


def test_needs_only_the_core(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist", [])
    core = {r.partition(">")[0] for r in required if "extra ==" not in r}
    assert core == {"numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "jinja2"}


def test_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = python(installed, tmp_path, "-c", "import renyi; print(renyi.__file__)")
    assert Path(where.strip()).is_relative_to(installed)
    version = python(installed, tmp_path, "-m", "renyi", "--version")
    assert renyi.__version__ in version


def test_console_script_is_installed(installed: Path) -> None:
    assert (installed / "bin" / "renyi").is_file()


def test_every_dataset_loads_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    code = (
        "import renyi\n"
        "for name in ('votes', 'credit', 'kr-vs-kp', 'promoters', 'adult'):\n"
        "    print(*renyi.datasets.load(name)[0].shape)\n"
    )
    shapes = python(installed, tmp_path, "-c", code).splitlines()
    assert shapes == ["435 16", "690 15", "3196 36", "106 57", "48842 14"]


def test_fits_votes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    python(installed, tmp_path, "-m", "renyi", "fit", "votes", "--out", "votes")
    assert any(path.name.startswith("votes") for path in tmp_path.iterdir())


# ---- a bare environment


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an environment with the wheel, its core dependencies and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    own_pip = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*own_pip, "install", "--quiet", wheel], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.long
def test_the_wheel_works_in_a_bare_environment(bare: Path, tmp_path: Path) -> None:
    """Train, report, predict and verify without any extra."""

    def command(*words: str) -> str:
        done = subprocess.run(
            [bare / "bin" / "renyi", *words],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert renyi.__version__ in command("--version")
    rows = renyi.datasets.load("votes")[0]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    command("fit", "votes", "--out", "model")
    command("report", "model.json", "-o", "report.html")
    command("predict", "model.json", "rows.csv", "--out", "answers.csv")
    assert len((tmp_path / "answers.csv").read_text().splitlines()) == len(rows) + 1
    assert "proved" in command("verify", "model.json", "model.renyi")
    names = {each.name for each in (bare / "lib").glob("python*/site-packages/*")}
    assert not names & {"numba", "duckdb", "highspy", "matplotlib", "polars"}
