"""Print pip constraints that pin every requirement to its declared lower bound.

    python scripts/floors.py [EXTRA...] > floors.txt

``pip install --constraint floors.txt ".[test]"`` then installs the oldest versions that
``pyproject.toml`` admits.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def floors(extras: list[str]) -> dict[str, str]:
    """Return the lowest version of every direct requirement of these extras."""
    project = tomllib.loads(PROJECT.read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += optional[extra]
    versions: dict[str, str] = {}
    for requirement in requirements:
        own = re.fullmatch(r"renyi\[(.+)\]", requirement)
        if own:
            versions |= floors(own[1].split(","))
            continue
        name, version = re.match(
            r"([\w.-]+)(?:\[.+\])?>=([\w.]+)", requirement
        ).groups()
        versions[name] = version
    return versions


if __name__ == "__main__":
    for name, version in sorted(floors(sys.argv[1:] or ["test"]).items()):
        print(f"{name}=={version}")
