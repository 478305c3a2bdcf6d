"""The model as a function in one file of Python or JavaScript, without dependencies.

The code is that of `standalone.py` and `standalone.js` beside this module; a line of
them makes room for the model (`renyi.exports.plain_form`), whose numbers are written
to the last bit and whose texts are ASCII, with nothing in them that ends a script.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from renyi import __version__
from renyi.exports.plain_form import PlainModel, plain_model

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

_LARGEST = 2**53  # of the integers that JavaScript tells apart


def python(card: Scorecard, odds: float = 1.0) -> str:
    """Return the model as a module with predict and predict_proba."""
    literal = _literal(plain_model(card, odds), ascii, "True", "False")
    head = "MODEL: dict[str, Any] = {}  # the model\n"
    return _code("standalone.py").replace(head, f"MODEL: dict[str, Any] = {literal}\n")


def javascript(card: Scorecard, odds: float = 1.0) -> str:
    """Return the model as a script that defines renyiModel."""
    model = plain_model(card, odds)
    for label in model.classes:
        if isinstance(label, int) and abs(label) > _LARGEST:
            raise ValueError(f"JavaScript has no number for the class {label}.")
    head = "const MODEL = {}; // the model\n"
    made = f"const MODEL = {_literal(model, _script, 'true', 'false')};\n"
    return _code("standalone.js").replace(head, made)


def _code(name: str) -> str:
    return files("renyi.exports").joinpath(name).read_text("utf-8")


def _literal(
    model: PlainModel, written: Callable[[Any], str], true: str, false: str
) -> str:
    """Return the model as nested lists, a line for each column and each feature."""
    lines = [f'"renyi": {written(__version__)},']
    for name, value in model._asdict().items():
        if name in ("columns", "features"):
            rows = [f"  {written(list(each))}," for each in value]
            lines += [f'"{name}": [', *rows, "],"]
        else:
            text = (true if value else false) if name == "strict" else written(value)
            lines.append(f'"{name}": {text},')
    return "\n".join(["{", *lines, "}"])


def _script(value: Any) -> str:
    """Return ASCII that is safe in a page, too: no tag begins or ends in it.

    Dicts become lists of pairs: of an object, the key __proto__ is none.
    """
    if isinstance(value, list):
        value = [[*each.items()] if isinstance(each, dict) else each for each in value]
    text = json.dumps(value)
    return text.replace("<", "\\u003c").replace(">", "\\u003e")
