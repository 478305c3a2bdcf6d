"""PathDisplay: which features enter, and what the first k of them are worth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from renyi.marginals.marginals import Marginals
from renyi.selection import PathResult, selection_path


class PathDisplay:
    """Worst error and correlation against the number of features.

    Parameters
    ----------
    path : PathResult
        What is drawn.
    selected : iterable of str, optional
        Features to mark.

    Attributes
    ----------
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> selector = renyi.RenyiSelector(n_features=3).fit(X, y)
    >>> display = renyi.PathDisplay.from_estimator(selector)
    >>> display.ax_.get_xlabel()
    'features in order of entry'
    """

    def __init__(self, path: PathResult, *, selected: Iterable[str] = ()) -> None:
        self.path = path
        self.selected = tuple(selected)

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Draw the path of a fitted `RenyiSelector`, and mark what it selected."""
        path = getattr(estimator, "path_", None)
        if not isinstance(path, PathResult):
            raise TypeError(
                f"A {type(estimator).__name__} has no path: give a fitted "
                "RenyiSelector, or a path to from_path()."
            )
        return cls(path, selected=estimator.features_.tolist()).plot(ax)

    @classmethod
    def from_path(
        cls, path: PathResult, *, selected: Iterable[str] = (), ax: Any = None
    ) -> Self:
        """Draw a path that `selection_path` found."""
        if not isinstance(path, PathResult):
            raise TypeError(f"path must be a PathResult, not a {type(path).__name__}.")
        return cls(path, selected=selected).plot(ax)

    @classmethod
    def from_marginals(cls, m: Marginals, *, ax: Any = None) -> Self:
        """Find the path of marginals with the settings of `selection_path`, draw it."""
        return cls(selection_path(m)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        self.ax_ = self.path.plot(ax, self.selected)
        self.figure_ = self.ax_.figure
        return self
