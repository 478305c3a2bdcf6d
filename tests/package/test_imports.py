"""What `import renyi` and `renyi --help` load, and what they leave alone.

Each check runs in a fresh interpreter: in this one pytest has loaded the world.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import renyi

HEAVY = {"numpy", "pandas", "pyarrow", "scipy", "sklearn"}
EXTRAS = {
    "clarabel",
    "cupy",
    "duckdb",
    "highspy",
    "matplotlib",
    "numba",
    "pgenlib",
    "polars",
    "pyspark",
}


def modules_after(code: str, tmp_path: Path) -> set[str]:
    """Top-level modules that are loaded once ``code`` has run."""
    found = tmp_path / "modules.json"
    script = (
        f"import json, pathlib, sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        "names = sorted({name.partition('.')[0] for name in sys.modules})\n"
        f"pathlib.Path({str(found)!r}).write_text(json.dumps(names))\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE)
    return set(json.loads(found.read_text()))


def test_import_is_light(tmp_path: Path) -> None:
    loaded = modules_after("import renyi", tmp_path)
    assert "renyi" in loaded
    assert loaded.isdisjoint(HEAVY | EXTRAS)


def test_little_is_loaded_before_signals_are_handled() -> None:
    """Until then Ctrl-C shows a traceback. Without site, which may load pathlib."""
    code = "import sys, renyi.__main__; sys.exit('pathlib' in sys.modules)"
    source = str(Path(renyi.__file__).parents[1])
    subprocess.run(
        [sys.executable, "-S", "-c", code],
        check=True,
        env={**os.environ, "PYTHONPATH": source},
    )


def test_every_public_name_loads_without_extras(tmp_path: Path) -> None:
    code = "import renyi; [getattr(renyi, name) for name in renyi.__all__]"
    loaded = modules_after(code, tmp_path)
    assert "sklearn" in loaded  # the estimators did load
    assert loaded.isdisjoint(EXTRAS)


def test_fits_and_certifies_where_no_extra_is_installed(tmp_path: Path) -> None:
    # A finder that refuses them stands in for an environment without them.
    code = (
        "import importlib.abc\n"
        "    class Absent(importlib.abc.MetaPathFinder):\n"
        "        def find_spec(self, name, path, target=None):\n"
        f"            if name.partition('.')[0] in {sorted(EXTRAS)}:\n"
        "                raise ModuleNotFoundError(name)\n"
        "    sys.meta_path.insert(0, Absent())\n"
        "    import renyi; X, y = renyi.datasets.load('votes')\n"
        "    clf = renyi.RenyiClassifier().fit(X, y)\n"
        "    assert clf.score(X, y) > 0.9; assert clf.certificate_.gamma > 0"
    )
    loaded = modules_after(code, tmp_path)
    assert "sklearn" in loaded
    assert loaded.isdisjoint(EXTRAS)


@pytest.mark.parametrize(
    "code",
    [
        "import renyi; renyi.RenyiClassifier",
        "from renyi.cli import main; main(['fit', 'votes'])",
        "from renyi.cli import main; main(['fit', '--help'])",
    ],
)
def test_tables_load_nothing_of_genotypes(code: str) -> None:
    script = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\n"
        "loaded = [name for name in sys.modules if 'renyi.genotypes' in name]\n"
        "sys.exit(', '.join(loaded) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_of_fit_fits_on_a_screen() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "renyi", "fit", "--help"],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert len(done.stdout.splitlines()) <= 50


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_command_line_answers_without_numpy(option: str, tmp_path: Path) -> None:
    # In this process: `python -m renyi` does it in a child.
    code = f"import renyi.__main__, renyi.cli; renyi.cli.main([{option!r}])"
    loaded = modules_after(code, tmp_path)
    assert "argparse" in loaded  # it did answer
    assert loaded.isdisjoint(HEAVY | EXTRAS)


def test_commands_that_train_and_answer_leave_scikit_learn_alone(
    tmp_path: Path,
) -> None:
    # It takes longer to load than all of these last.
    model = str(tmp_path / "model")
    commands = [
        ["datasets"],
        ["fit", "votes", "--out", model],
        ["predict", f"{model}.json", "votes", "--out", f"{model}.csv"],
        ["certify", f"{model}.json", f"{model}.renyi"],
        ["select", "votes", "--n-features", "2"],
        ["fit", "votes", "--confidence", "0.9"],
        ["marginals", "build", "votes", "--out", f"{model}.renyi"],
    ]
    code = (
        "import contextlib, os; from renyi.cli import main\n"
        "    with contextlib.redirect_stdout(open(os.devnull, 'w')):\n"
        f"        codes = [main(each) for each in {commands!r}]\n"
        "    sys.exit(print(codes) if any(codes) else 0)"
    )
    loaded = modules_after(code, tmp_path)
    assert (tmp_path / "model.csv").exists()
    assert "pandas" in loaded
    # Of two columns, select computes the least correlation exactly, by Clarabel.
    assert loaded.isdisjoint({"sklearn"} | EXTRAS - {"clarabel"})


def test_help_and_version_succeed() -> None:
    for option, expected in [("--help", "fit"), ("--version", renyi.__version__)]:
        done = subprocess.run(
            [sys.executable, "-m", "renyi", option],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"COLUMNS": "80"},
        )
        assert expected in done.stdout
        assert done.stderr == ""


def test_dir_lists_the_public_names() -> None:
    assert set(renyi.__all__) <= set(dir(renyi))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        renyi.no_such_name  # noqa: B018 -- the access itself is the test
