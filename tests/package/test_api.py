"""The public interface as it was released: names, parameters, options of commands.

``python tests/package/test_api.py`` writes the snapshot anew, after a change that is
meant and announced in the CHANGELOG.
"""

from __future__ import annotations

import argparse
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import renyi
import renyi.baselines
import renyi.warnings
from renyi.cli.parser import parser

SNAPSHOT = Path(__file__).parents[1] / "golden" / "api.json"


def signature(value: Any) -> str:
    """Parameters and their defaults, without types."""
    parameters = inspect.signature(value).parameters.values()
    return ", ".join(
        str(p.replace(annotation=inspect.Parameter.empty)) for p in parameters
    )


def described(value: Any) -> Any:
    """What users rely on: parameters, and of classes the public members too."""
    if not inspect.isclass(value):
        return signature(value) if callable(value) else type(value).__name__
    members = {"()": signature(value)}
    for name in dir(value):
        if name.startswith("_") or name in dir(UserWarning):
            continue
        member = inspect.getattr_static(value, name)
        if isinstance(member, (classmethod, staticmethod)):
            member = member.__func__
        known = inspect.isfunction(member)
        members[name] = signature(member) if known else "attribute"
    return members


def options(commands: argparse.ArgumentParser) -> dict[str, Any]:
    """Every command with its arguments and options."""
    found: dict[str, Any] = {}
    for action in commands._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= {name: options(sub) for name, sub in action.choices.items()}
        elif action.dest != "help":
            found[" ".join(action.option_strings) or action.dest] = action.nargs
    return found


def interface() -> dict[str, Any]:
    """The whole interface as plain values."""
    names = {
        "renyi": renyi,
        "renyi.baselines": renyi.baselines,
        "renyi.datasets": renyi.datasets,
    }
    return {
        **{
            module: {
                name: described(getattr(home, name)) for name in sorted(home.__all__)
            }
            for module, home in names.items()
        },
        "renyi.warnings.DataWarning": described(renyi.warnings.DataWarning),
        "commands": options(parser()),
    }


SAVED = json.loads(SNAPSHOT.read_text()) if SNAPSHOT.exists() else {}


@pytest.mark.parametrize("part", sorted(SAVED))
def test_interface_is_as_it_was(part: str) -> None:
    assert json.loads(json.dumps(interface()[part])) == SAVED[part]


def test_snapshot_holds_every_part() -> None:
    assert sorted(interface()) == sorted(SAVED)
    assert set(SAVED["renyi"]) == set(renyi.__all__)


if __name__ == "__main__":
    SNAPSHOT.write_text(json.dumps(interface(), indent=1, ensure_ascii=False) + "\n")
