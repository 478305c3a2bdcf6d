"""HGRDisplay: maximal correlations of all pairs of columns, alike ones side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy  # its parts are loaded when they are used

from renyi.correlation import hgr_matrix, ranking
from renyi.drawing import GREY, axes
from renyi.marginals.marginals import Marginals
from renyi.plots import owner_of, shown
from renyi.validation import check_whole

if TYPE_CHECKING:
    import pandas as pd

_WIDTH = 28  # of a name
_WRITTEN = 14  # columns at most whose figures are written into the cells
_TREE = 0.12  # of the height, for the tree


class HGRDisplay:
    """Maximal correlation of every pair of columns, as a clustered map.

    Columns are ordered by average linkage of ``1 − rho``; the tree above shows at
    which distance groups join. An unknown pair counts as independent there.

    Parameters
    ----------
    matrix : DataFrame
        As `hgr_matrix` gives it; NaN where a pair is unknown.
    target : str, optional
        A column to write in bold.

    Attributes
    ----------
    order : list of str
        The columns in the order of the map.
    linkage : ndarray of shape (columns − 1, 4)
        The tree, as in `scipy.cluster.hierarchy`.
    im_ : AxesImage
        The map.
    tree_ : LineCollection or None
        The tree; None of a single column.
    ax_, figure_
        What it was drawn on.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> display = renyi.HGRDisplay.from_data(X.iloc[:, :4].assign(party=y))
    >>> sorted(display.order[2:])
    ['adoption-of-the-budget-resolution', 'party', 'physician-fee-freeze']
    """

    def __init__(self, matrix: pd.DataFrame, *, target: str | None = None) -> None:
        self.matrix = matrix
        self.target = target
        rho = matrix.to_numpy(np.float64)
        off = 1 - np.where(np.isnan(rho), 0, rho)
        hierarchy = scipy.cluster.hierarchy
        names = list(map(str, matrix.columns))
        self.linkage = np.empty((0, 4))
        self._places = np.arange(len(names))
        if len(names) > 1:
            pairs = off[np.triu_indices(len(names), 1)].clip(0, 1)
            self.linkage = hierarchy.linkage(pairs, "average", optimal_ordering=True)
            self._places = hierarchy.leaves_list(self.linkage)
        self.order = [names[k] for k in self._places]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **how: Any) -> Self:
        """Draw the columns that a classifier was trained on, from its marginals."""
        m = getattr(owner_of("marginals_", estimator), "marginals_", None)
        if m is None:
            raise ValueError(
                f"This {type(estimator).__name__} keeps no counts of pairs: it was "
                "read from a file, or has more categories than rows. Give the rows to "
                "from_data(), or marginals to from_marginals()."
            )
        return cls.from_marginals(m, ax=ax, **how)

    @classmethod
    def from_marginals(
        cls, m: Marginals, *, n_columns: int = 60, ax: Any = None
    ) -> Self:
        """Draw the columns of marginals, the target among them.

        Of more than `n_columns` features, those most correlated with the target.
        """
        check_whole("n_columns", n_columns, 1)
        best = ranking(m)  # checks m, too
        if len(best) > n_columns:
            m = m.select(map(str, best.index[:n_columns]))
        return cls(hgr_matrix(m), target=m.target).plot(ax)

    @classmethod
    def from_data(cls, data: Any, *, ax: Any = None) -> Self:
        """Draw the columns of a frame, all of them alike."""
        return cls(hgr_matrix(data)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw it on some axes, or on a figure of its own."""
        count = len(self.order)
        side = min(3.2 + 0.26 * count, 14)
        self.ax_ = ax = axes(ax, side + 1, side)
        self.figure_ = ax.figure
        rho = self.matrix.to_numpy(np.float64)[np.ix_(self._places, self._places)]
        look = {"vmin": 0, "vmax": 1, "cmap": "cividis", "aspect": "equal"}
        self.im_ = ax.imshow(np.ma.masked_invalid(rho), **look)
        ax.set_facecolor("0.85")  # of unknown pairs
        names = [shown(name, _WIDTH) for name in self.order]
        size = 8 if count <= 30 else 6 if count <= 60 else 4
        ax.set_xticks(range(count), names, rotation=90, fontsize=size)
        ax.set_yticks(range(count), names, fontsize=size)
        for axis in (ax.get_xticklabels(), ax.get_yticklabels()):
            for text, name in zip(axis, self.order, strict=True):
                if name == self.target:
                    text.set_fontweight("bold")
        if count <= _WRITTEN:
            for (i, j), value in np.ndenumerate(rho):
                known = not np.isnan(value)
                text = f"{value:.2f}" if known else "?"
                colour = "black" if not known or value > 0.5 else "white"
                ax.text(j, i, text, ha="center", va="center", fontsize=7, color=colour)
        self._draw_tree()
        bar = self.figure_.colorbar(self.im_, ax=ax, shrink=0.7)
        bar.set_label("maximal correlation")
        return self

    def _draw_tree(self) -> None:
        """Draw above the map how the columns join."""
        self.tree_ = None
        if not len(self.linkage):
            return
        from matplotlib.collections import LineCollection

        tree = scipy.cluster.hierarchy.dendrogram(self.linkage, no_plot=True)
        # scipy has the leaves at 5, 15, 25 …
        lines = [
            np.column_stack([(np.array(x) - 5) / 10, y])
            for x, y in zip(tree["icoord"], tree["dcoord"], strict=True)
        ]
        above = self.ax_.inset_axes([0, 1.01, 1, _TREE])
        self.tree_ = LineCollection(lines, colors=GREY, linewidths=0.9)
        above.add_collection(self.tree_)
        above.set_xlim(self.ax_.get_xlim())
        above.set_ylim(0, max(1e-9, 1.03 * float(self.linkage[:, 2].max())))
        above.axis("off")
