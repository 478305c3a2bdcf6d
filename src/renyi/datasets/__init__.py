"""Bundled data sets, and generators of synthetic ones.

The five UCI tables of the paper's experiments travel with the package
(:func:`load`, :func:`describe`, :func:`names`, :func:`path`). The generators make
the paper's high-dimensional set (:func:`make_linear`) and small joint tables for
which every theorem can be checked by enumeration (:func:`random_joint`,
:func:`sample_joint`).

Examples
--------
>>> from renyi import datasets
>>> datasets.names()
('votes', 'credit', 'kr-vs-kp', 'promoters', 'adult')
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from renyi.datasets.bundled import describe, load, names, path

if TYPE_CHECKING:
    from renyi.datasets.synthetic import make_linear, random_joint, sample_joint

__all__ = [
    "describe",
    "load",
    "make_linear",
    "names",
    "path",
    "random_joint",
    "sample_joint",
]

_SYNTHETIC = frozenset({"make_linear", "random_joint", "sample_joint"})


def __getattr__(name: str) -> Any:
    # The generators need numpy; listing the bundled names must not wait for it.
    if name in _SYNTHETIC:
        from renyi.datasets import synthetic

        return getattr(synthetic, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SYNTHETIC})
