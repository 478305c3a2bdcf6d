"""Train scorecards for categorical data from pair counts, with a checkable guarantee.

`renyi` implements *Discrete Rényi Classifiers* (Razaviyayn, Farnia, Tse, NIPS 2015).
A classifier is trained in closed form from pair counts: how often each pair of columns
takes each pair of values. It comes with a guarantee: an upper bound on its error rate
over every population with the same pair counts.

>>> import renyi
>>> X, y = renyi.datasets.load("votes")
>>> clf = renyi.RenyiClassifier().fit(X, y)
>>> print(f"error to expect on new rows: {clf.certificate_.loo_error:.1%}")
error to expect on new rows: 4.6%
>>> print(f"guarantee, same pair counts: {clf.certificate_.bounds['map']:.1%}")
guarantee, same pair counts: 12.2%

Public names are loaded at their first use, so that ``import renyi`` takes little time.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would take longer than the rest of this file
if TYPE_CHECKING:
    from typing import Any

    from renyi import baselines, datasets
    from renyi.certificates.record import Certificate
    from renyi.certification import certify
    from renyi.correlation import HGR, hgr, hgr_lower_bound, hgr_matrix, hgr_table
    from renyi.encoding.encoder import Encoder
    from renyi.estimators.classifier import RenyiClassifier
    from renyi.estimators.crossfit import CrossFitClassifier
    from renyi.estimators.kernel import KernelRenyiClassifier
    from renyi.estimators.minimax import MinimaxClassifier
    from renyi.estimators.selector import RenyiSelector
    from renyi.exports.integer_card import IntegerScorecard
    from renyi.genotypes.classifier import GenotypeClassifier
    from renyi.genotypes.files import Genotypes, read_genotypes
    from renyi.genotypes.scores import GenotypeScores
    from renyi.genotypes.study import read_study
    from renyi.marginals.marginals import Marginals
    from renyi.plots import (
        CertificateDisplay,
        HGRDisplay,
        PathDisplay,
        ScorecardDisplay,
    )
    from renyi.proofs import write_proof
    from renyi.releases.publication import private_release, release
    from renyi.robust.brier_risk import Separability, ThetaResult, separable, theta
    from renyi.robust.distribution import WorstDistribution
    from renyi.robust.minimax_problem import MinimaxResult, MinimaxRule, minimax
    from renyi.robust.worst import WorstCase, worst_case
    from renyi.scorecard import Scorecard
    from renyi.selection import PathResult, selection_path

__version__ = "0.1.0"

# No module may have the name of a function: importing it would hide the function.
_NAMES = {
    "certificates.record": ("Certificate",),
    "certification": ("certify",),
    "correlation": ("HGR", "hgr", "hgr_lower_bound", "hgr_matrix", "hgr_table"),
    "encoding.encoder": ("Encoder",),
    "estimators.classifier": ("RenyiClassifier",),
    "estimators.crossfit": ("CrossFitClassifier",),
    "estimators.kernel": ("KernelRenyiClassifier",),
    "estimators.minimax": ("MinimaxClassifier",),
    "estimators.selector": ("RenyiSelector",),
    "exports.integer_card": ("IntegerScorecard",),
    "genotypes.classifier": ("GenotypeClassifier",),
    "genotypes.files": ("Genotypes", "read_genotypes"),
    "genotypes.scores": ("GenotypeScores",),
    "genotypes.study": ("read_study",),
    "marginals.marginals": ("Marginals",),
    "plots": (
        "CertificateDisplay",
        "HGRDisplay",
        "PathDisplay",
        "ScorecardDisplay",
    ),
    "proofs": ("write_proof",),
    "releases.publication": ("private_release", "release"),
    "robust.brier_risk": ("Separability", "ThetaResult", "separable", "theta"),
    "robust.distribution": ("WorstDistribution",),
    "robust.minimax_problem": ("MinimaxResult", "MinimaxRule", "minimax"),
    "robust.worst": ("WorstCase", "worst_case"),
    "scorecard": ("Scorecard",),
    "selection": ("PathResult", "selection_path"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "HGR",
    "Certificate",
    "CertificateDisplay",
    "CrossFitClassifier",
    "Encoder",
    "GenotypeClassifier",
    "GenotypeScores",
    "Genotypes",
    "HGRDisplay",
    "IntegerScorecard",
    "KernelRenyiClassifier",
    "Marginals",
    "MinimaxClassifier",
    "MinimaxResult",
    "MinimaxRule",
    "PathDisplay",
    "PathResult",
    "RenyiClassifier",
    "RenyiSelector",
    "Scorecard",
    "ScorecardDisplay",
    "Separability",
    "ThetaResult",
    "WorstCase",
    "WorstDistribution",
    "baselines",
    "certify",
    "datasets",
    "hgr",
    "hgr_lower_bound",
    "hgr_matrix",
    "hgr_table",
    "minimax",
    "private_release",
    "read_genotypes",
    "read_study",
    "release",
    "selection_path",
    "separable",
    "theta",
    "worst_case",
    "write_proof",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    from importlib import import_module

    if name in ("baselines", "datasets"):
        return import_module(f"renyi.{name}")
    if name in _HOME:
        value = getattr(import_module(f"renyi.{_HOME[name]}"), name)
        return globals().setdefault(name, value)
    raise AttributeError(f"module 'renyi' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, whether they are loaded or not."""
    return sorted([*globals(), *__all__])
