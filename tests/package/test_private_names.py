"""No module reads or sets a private name that another module defines."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import renyi

PACKAGE = Path(renyi.__file__).parent

# Of Python itself: methods of NamedTuple, and functions without a public name.
PYTHON = {"_asdict", "_fields", "_make", "_replace", "_exit", "_getframe"}


def own_names(tree: ast.Module) -> set[str]:
    """Names that a module defines: functions, methods, classes, attributes, fields."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif is_stored_in_self(node):
            names.add(node.attr)
    return names


def is_stored_in_self(node: ast.AST) -> bool:
    stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    return stored and is_self(node.value)


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def foreign_names(path: Path) -> Iterator[str]:
    """Private names of others that a module imports, reads or sets."""
    tree = ast.parse(path.read_text("utf-8"))
    own = own_names(tree) | PYTHON
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("renyi"):
            for alias in node.names:
                if is_private(alias.name):
                    yield alias.name
        if not isinstance(node, ast.Attribute) or not is_private(node.attr):
            continue
        inner = node.value
        of_super = isinstance(inner, ast.Call) and ast.unparse(inner.func) == "super"
        if not is_self(inner) and not of_super and node.attr not in own:
            yield node.attr


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def test_private_names_stay_in_their_modules() -> None:
    places = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in foreign_names(path)
    }
    assert places == set()
