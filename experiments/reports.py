"""Write the results of an experiment: a table as CSV and Markdown, and a figure."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from renyi.files import replacing
from renyi.validation import import_extra

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Report:
    """Tables by title, sentences about them, and how to draw them.

    Parameters
    ----------
    title : str
        What the experiment is about.
    tables : dict of DataFrame
        Shown in Markdown one after the other; the first one is the CSV file too.
    notes : list of str
        Sentences below the tables.
    draw : callable, optional
        Draws on a matplotlib figure.
    data : DataFrame, optional
        What the CSV file holds instead of the first table.
    """

    title: str
    tables: Mapping[str, pd.DataFrame]
    notes: list[str] = field(default_factory=list)
    draw: Callable[[Any], None] | None = None
    data: pd.DataFrame | None = None

    def markdown(self, settings: Mapping[str, Any]) -> str:
        """Return the report as text.

        >>> import pandas as pd
        >>> report = Report("Speed", {"Seconds": pd.DataFrame({"d": [10]})})
        >>> print(report.markdown({"command": ["python", "-m", "experiments.runtime"]}))
        # Speed
        <BLANKLINE>
        `python -m experiments.runtime`
        <BLANKLINE>
        ## Seconds
        <BLANKLINE>
        | d |
        | --- |
        | 10 |
        <BLANKLINE>
        """
        parts = [f"# {self.title}", f"`{shlex.join(settings['command'])}`"]
        for title, table in self.tables.items():
            parts += [f"## {title}", _markdown_table(table)]
        if self.notes:
            parts.append("\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts) + "\n"

    def write(self, folder: Path, settings: Mapping[str, Any]) -> list[Path]:
        """Write table.csv, table.md and figure.svg; return their paths."""
        data = self.data
        if data is None:
            data = next(iter(self.tables.values()))
        contents = {
            "table.csv": data.to_csv(index=False, lineterminator="\n"),
            "table.md": self.markdown(settings),
        }
        if self.draw is not None:
            contents["figure.svg"] = _figure(self.draw)
        for name, text in contents.items():
            with replacing(folder / name) as stream:
                stream.write(text.encode())
        return [folder / name for name in contents]


def _markdown_table(table: pd.DataFrame) -> str:
    rows = [list(map(str, table.columns)), ["---"] * table.shape[1]]
    rows += [[_shown(value) for value in row] for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value).replace("|", "\\|")


def _figure(draw: Callable[[Any], None]) -> str:
    """Return a figure as SVG; equal figures give equal bytes."""
    import io

    matplotlib = plotting()
    with matplotlib.rc_context({"svg.hashsalt": "renyi", "svg.fonttype": "none"}):
        figure = matplotlib.figure.Figure(figsize=(8, 5), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()


def plotting() -> Any:
    """Return matplotlib; raise an error with advice if it is missing."""
    import_extra("matplotlib.figure", "plot", "Figures need matplotlib")
    return import_module("matplotlib")


def standard_error(values: Any) -> float:
    """Return the standard error of a mean; one value has none.

    >>> standard_error([1.0, 3.0]), standard_error([1.0])
    (1.0, nan)
    """
    numbers = np.asarray(values, np.float64)
    if len(numbers) < 2:
        return float("nan")
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers)))
