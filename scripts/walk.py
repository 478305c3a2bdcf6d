"""Follow a call through the package: its modules, and how often it changes module.

    python scripts/walk.py [CALL ...]

For each call it prints the modules in the order of their first function call. A call is
made once before, so that imports do not count. Other threads are not followed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType

os.environ.setdefault("OMP_NUM_THREADS", "1")

import renyi
from renyi.cli import main as command

HOME = str(Path(renyi.__file__).parent) + os.sep

Call = Callable[[], object]


def calls(folder: Path) -> dict[str, Call]:
    """Return the calls by name; their files are in `folder`."""
    X, y = renyi.datasets.load("votes")
    m = renyi.Marginals.from_data(X, y)
    trained = renyi.RenyiClassifier(alpha=0.01).fit_marginals(m)
    table = folder / "votes.csv"
    X.assign(party=y).to_csv(table, index=False)
    columns = folder / "votes.parquet"
    X.assign(party=y).to_parquet(columns)
    argv = ["fit", str(table), "--target", "party"]
    return {
        "fit": lambda: renyi.RenyiClassifier().fit(X, y),
        "marginals": lambda: renyi.RenyiClassifier(alpha=0.01).fit_marginals(m),
        "certify": lambda: renyi.certify(trained, m, level="lp"),
        "minimax": lambda: renyi.minimax(m, method="lp"),
        "select": lambda: renyi.RenyiSelector(n_features=4).fit(X, y),
        "csv": lambda: renyi.Marginals.from_file(table, target="party"),
        "parquet": lambda: renyi.Marginals.from_file(columns, target="party"),
        "renyi-fit-csv": lambda: _silently(lambda: command(argv)),
    }


def trail(call: Call) -> list[str]:
    """Return the modules that a call enters, one entry for every crossing."""
    entered: list[str] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(HOME):
            module = path.removeprefix(HOME).removesuffix(".py")
            if entered[-1:] != [module]:
                entered.append(module)

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered


def _silently(call: Call) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        call()


def main() -> None:
    """Print the walk of each call."""
    with tempfile.TemporaryDirectory() as folder:
        known = calls(Path(folder))
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("call", nargs="*", help=", ".join(known))
        for name in parser.parse_args().call or known:
            call = known[name]
            call()  # so that imports are done
            entered = trail(call)
            modules = list(dict.fromkeys(entered))
            print(f"{name}: {len(modules)} modules, {len(entered) - 1} crossings")
            print("  " + " → ".join(modules))


if __name__ == "__main__":
    main()
