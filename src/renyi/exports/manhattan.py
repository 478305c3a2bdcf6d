"""A Manhattan plot: how much every variant can change the score, along the genome."""

from __future__ import annotations

from typing import Any

import numpy as np

from renyi.drawing import axes, literal
from renyi.exports.allele_matching import chromosomes
from renyi.exports.score_files import GenotypeScores

_DRAWN = 100_000  # variants at most: those that change the score most
_LABELLED = 5
_LAST = {name: 23 + k for k, name in enumerate(("X", "XY", "Y", "MT"))}
_COLOURS = "#1f4e79", "#7aa6cf"


def manhattan(model: GenotypeScores, ax: Any = None) -> Any:
    """Draw the importance of each variant against its place on the genome.

    Chromosomes follow one another, each from its first variant to its last; of more
    than 100,000 variants the most important ones are drawn. Importance is the
    largest difference of a variant's points; the five largest are named.

    Parameters
    ----------
    model : GenotypeScores
    ax : matplotlib axes, optional
        Where to draw; by default on a figure of its own.

    Returns
    -------
    matplotlib axes
    """
    ax = axes(ax)
    (codes,), names = chromosomes(model.variants["chromosome"])
    position = model.variants["position"].to_numpy(np.int64)
    importance = model.swings
    order = sorted(range(len(names)), key=lambda k: _place(names[k]))
    spans = [position[codes == k] for k in order]
    lengths = [int(span.max() - span.min()) for span in spans]
    gap = max(1, sum(lengths) // 200)
    start, ticks = 0, []
    x = np.zeros(len(codes))
    kept = np.zeros(len(codes), bool)
    kept[np.argsort(-importance, kind="stable")[:_DRAWN]] = True
    for turn, (k, length) in enumerate(zip(order, lengths, strict=True)):
        own = codes == k
        x[own] = position[own] - position[own].min() + start
        drawn = own & kept
        style = {"s": 4, "color": _COLOURS[turn % 2], "rasterized": True, "lw": 0}
        ax.scatter(x[drawn], importance[drawn], **style)
        ticks.append((start + length / 2, names[k]))
        start += length + gap
    for row in np.argsort(-importance, kind="stable")[:_LABELLED]:
        label = literal(str(model.variants["id"].iloc[row])[:24])
        where = {"xytext": (3, 3), "textcoords": "offset points", "fontsize": 7}
        ax.annotate(label, (x[row], importance[row]), **where)
    shown = [(at, name) for k, (at, name) in enumerate(ticks) if k < 12 or k % 2]
    ax.set_xticks([at for at, _ in shown], [name[:8] for _, name in shown], fontsize=7)
    ax.set_xlim(-gap, max(start, 1))
    ax.set_ylim(0, 1.1 * float(importance.max(initial=0)) or 1)
    ax.set_xlabel("chromosome")
    ax.set_ylabel("largest difference of points")
    return ax


def _place(name: str) -> tuple[int, str]:
    """Return where a chromosome comes: by number, then X, XY, Y, MT, then others."""
    number = int(name) if name.isdecimal() and len(name) < 4 else _LAST.get(name, 10**6)
    return number, name
