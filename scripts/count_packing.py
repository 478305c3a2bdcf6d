"""Count three habits that make code hard to read, in every room of the package.

    python scripts/count_packing.py [--check] [PATH...]

* Parallel assignments of unrelated things: ``a, b = x, f(y)``. A swap, or any
  assignment whose right side reads one of its targets, is not counted.
* Parameters typed `Any`. ``NDArray[Any]`` names a type and is not counted.
* Variables, parameters and attributes called ``found``.

A room is a folder of ``src/renyi``, or a module next to them. With ``--check`` the
script fails when a total is above its limit.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "renyi"
LIMITS = {"parallel": 100, "Any": 150, "found": 0}


def names_in(node: ast.AST) -> set[str]:
    """Return the names and attributes that occur below a node, as source text."""
    kinds = (ast.Name, ast.Attribute, ast.Subscript)
    return {ast.unparse(part) for part in ast.walk(node) if isinstance(part, kinds)}


def is_parallel(node: ast.AST) -> bool:
    """Return whether a node assigns several unrelated values at once."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Tuple):
        return False
    if not isinstance(node.targets[0], ast.Tuple):
        return False
    targets = {ast.unparse(target) for target in node.targets[0].elts}
    return not targets & names_in(node.value)


def any_parameters(node: ast.AST) -> int:
    """Return how many parameters of a function are typed `Any`."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return 0
    given = node.args
    parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
    parameters += [extra for extra in (given.vararg, given.kwarg) if extra]
    types = [one.annotation for one in parameters if one.annotation]
    return sum(ast.unparse(annotation) == "Any" for annotation in types)


def is_found(node: ast.AST) -> bool:
    """Return whether a node is a name called ``found``."""
    name = getattr(node, "id", getattr(node, "arg", getattr(node, "attr", None)))
    return name == "found"


def count(path: Path) -> Counter[str]:
    """Count the habits of one module."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    return Counter(
        {
            "parallel": sum(map(is_parallel, nodes)),
            "Any": sum(map(any_parameters, nodes)),
            "found": sum(map(is_found, nodes)),
        }
    )


def modules(paths: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield every module below some paths, with the room that it belongs to."""
    for path in paths:
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            parts = module.resolve().parts
            inside = parts[parts.index("renyi") + 1 :] if "renyi" in parts else parts
            yield inside[0].removesuffix(".py"), module


def main() -> int:
    """Print the table; return 1 when ``--check`` finds a total above its limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, default=[PACKAGE])
    parser.add_argument("--check", action="store_true", help="fail above the limits")
    options = parser.parse_args()
    rooms: dict[str, Counter[str]] = {}
    for room, module in modules(options.paths):
        rooms.setdefault(room, Counter()).update(count(module))
    total = sum(rooms.values(), Counter())
    print(f"{'room':16}" + "".join(f"{habit:>10}" for habit in LIMITS))
    for room, counts in [*sorted(rooms.items()), ("total", total)]:
        print(f"{room:16}" + "".join(f"{counts[habit]:>10}" for habit in LIMITS))
    if not options.check:
        return 0
    above = [habit for habit, limit in LIMITS.items() if total[habit] > limit]
    for habit in above:
        print(f"{habit}: {total[habit]}, the limit is {LIMITS[habit]}", file=sys.stderr)
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
