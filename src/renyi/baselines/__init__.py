"""Other classifiers trained from pair counts, for comparison.

They need the pair counts of the features within each class: rows, or marginals built
with ``class_conditional=True``.

>>> import renyi
>>> X, y = renyi.datasets.load("votes")
>>> m = renyi.Marginals.from_data(X, y, class_conditional=True)
>>> clf = renyi.baselines.TreeAugmentedNaiveBayes().fit_marginals(m)
>>> round(clf.score(X, y), 3)
0.949
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from renyi.baselines.dcc import DiscreteChebyshevClassifier
    from renyi.baselines.mpm import MinimaxProbabilityMachine
    from renyi.baselines.tan import TreeAugmentedNaiveBayes

__all__ = [
    "DiscreteChebyshevClassifier",
    "MinimaxProbabilityMachine",
    "TreeAugmentedNaiveBayes",
]
_HOME = dict(zip(__all__, ("dcc", "mpm", "tan"), strict=True))


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    if name in _HOME:
        return getattr(import_module(f"renyi.baselines.{_HOME[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*globals(), *__all__])
