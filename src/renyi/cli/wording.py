"""Sentences of the library in the words of the command line.

Errors and notes name parameters of Python. Where a name is not enough, a sentence says
both: "(in Python, select(); on the command line, --drop)". What stands in quotes stays
as it is: it may be of the user's data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from renyi.cli.parser import option

# Parameters that options of their name set; others have a sentence for both.
_PARAMETERS = {
    "alpha",
    "bins",
    "calibration",
    "class_conditional",
    "class_weight",
    "device",
    "folds",
    "max_error",
    "method",
    "min_count",
    "n_features",
    "objective",
    "order",
    "penalty",
    "prevalence",
    "rule",
    "test",
    "time_limit",
}
_IN_PYTHON = r"in Python, (?:[^()]|\([^()]*\))*?"
_QUOTED = re.compile(r"""(?<![=\w])('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")


def with_options(text: str, options: Iterable[str] = ()) -> str:
    """Return a sentence on parameters with the options that set them.

    What is for Python alone is left out, and what is for the command line opened up.

    >>> with_options("n_features=9 is too many: set order='2'.", ["n_features"])
    "--n-features 9 is too many: set order='2'."
    >>> with_options("Drop it (in Python, select(); on the command line, --id).")
    'Drop it (--id).'
    >>> with_options("Drop 'min_count (in Python, x)' by min_count=2.", ["min_count"])
    "Drop 'min_count (in Python, x)' by --min-count 2."
    """
    given, quoted = {*options}, list[str]()

    def hide(found: re.Match[str]) -> str:
        quoted.append(found[0])
        return f"\0{len(quoted) - 1}\0"

    text = _QUOTED.sub(hide, text)
    text = re.sub(rf"\(({_IN_PYTHON}; )?on the command line, ([^)]+)\)", r"(\2)", text)
    text = re.sub(rf" \({_IN_PYTHON}\)", "", text)
    if "no_intercept" in given:
        text = text.replace("fit_intercept=False", "--no-intercept")
    for name in _PARAMETERS & given:
        shown, alone = option(name), rf"(?<![\w'\"./-]){name}"
        text = re.sub(rf"{alone}=True\b", shown, text)
        text = re.sub(rf"{alone}='?([^\s',;:)]*[^\s',;:).])'?", rf"{shown} \1", text)
        if "_" in name:
            text = re.sub(rf"{alone}(?![\w'\"=])", shown, text)
    if "--calibration" in text:
        text = text.replace("or None", "or none")
    return re.sub(r"\0(\d+)\0", lambda found: quoted[int(found[1])], text)
