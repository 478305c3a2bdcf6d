"""What drawings share: axes, colours, and text that is shown as it is.

matplotlib is loaded here and nowhere else, when something is drawn. A figure is one of
pyplot's where that is in use, so that notebooks and ``plt.show()`` show it.
"""

from __future__ import annotations

import sys
from typing import Any

from renyi.formatting import printable
from renyi.validation import import_extra

# Of Okabe and Ito: told apart without seeing red or green, and on paper by lightness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "D", "^", "v", "P", "X")
GREY = "#595959"


def look(k: int) -> dict[str, Any]:
    """Return colour and mark of the k-th class: after seven of them they are hollow."""
    colour = COLOURS[k % len(COLOURS)]
    inside = colour if k < len(COLOURS) else "none"
    marker = MARKERS[k % len(MARKERS)]
    return {"color": colour, "marker": marker, "markerfacecolor": inside}


def axes(ax: Any = None, width: float = 7, height: float = 4.5) -> Any:
    """Return the axes that were given, or those of a figure of their own."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise TypeError(
                f"ax must be matplotlib axes, not a {type(ax).__name__}. To write a "
                "file, call savefig(file) of the figure that is drawn."
            )
        return ax
    found = import_extra("matplotlib.figure", "plot", "Plots need matplotlib")
    pyplot = sys.modules.get("matplotlib.pyplot")
    figure = found.Figure if pyplot is None else pyplot.figure
    return figure(figsize=(width, height), layout="constrained").subplots()


def literal(text: object) -> str:
    r"""Return a name in one line, of which matplotlib makes no formula.

    >>> print(literal("costs $5\nor $6\ud800"))
    costs \$5 or \$6\ud800
    """
    line = printable(" ".join(str(text).split()))
    return line.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")
