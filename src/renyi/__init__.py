"""Classify categorical data from its low-order marginals, with a certificate.

`renyi` implements *Discrete Rényi Classifiers* (Razaviyayn, Farnia, Tse, NIPS 2015):
a classifier is trained in closed form from counts of pairs of columns, and comes with
the worst error it can have under any distribution that has those marginals.

The public names are loaded when they are first used, so ``import renyi`` is light.

>>> import renyi
>>> X, y = renyi.datasets.load("votes")
>>> clf = renyi.RenyiClassifier().fit(X, y)
>>> print(f"worst case of the sharp rule: {clf.certificate_.bounds['sharp']:.3f}")
worst case of the sharp rule: 0.061
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, which takes longer to load than all else here
if TYPE_CHECKING:
    from typing import Any

    from renyi import baselines as baselines
    from renyi import datasets as datasets
    from renyi.certificates.record import Certificate as Certificate
    from renyi.certification import certify as certify
    from renyi.correlation import HGR as HGR
    from renyi.correlation import hgr as hgr
    from renyi.correlation import hgr_lower_bound as hgr_lower_bound
    from renyi.correlation import hgr_matrix as hgr_matrix
    from renyi.correlation import hgr_table as hgr_table
    from renyi.encoding.encoder import Encoder as Encoder
    from renyi.estimators.classifier import RenyiClassifier as RenyiClassifier
    from renyi.estimators.crossfit_classifier import (
        CrossFitClassifier as CrossFitClassifier,
    )
    from renyi.estimators.genotype_classifier import (
        GenotypeClassifier as GenotypeClassifier,
    )
    from renyi.estimators.minimax_classifier import (
        MinimaxClassifier as MinimaxClassifier,
    )
    from renyi.estimators.selector import RenyiSelector as RenyiSelector
    from renyi.exports.integer_card import IntegerScorecard as IntegerScorecard
    from renyi.exports.score_files import GenotypeScores as GenotypeScores
    from renyi.marginals.marginals import Marginals as Marginals
    from renyi.plots.calibration_display import CalibrationDisplay as CalibrationDisplay
    from renyi.plots.certificate_display import CertificateDisplay as CertificateDisplay
    from renyi.plots.hgr_display import HGRDisplay as HGRDisplay
    from renyi.plots.path_display import PathDisplay as PathDisplay
    from renyi.plots.scorecard_display import ScorecardDisplay as ScorecardDisplay
    from renyi.proofs import write_proof as write_proof
    from renyi.robust.brier_risk import Separability as Separability
    from renyi.robust.brier_risk import ThetaResult as ThetaResult
    from renyi.robust.brier_risk import separable as separable
    from renyi.robust.brier_risk import theta as theta
    from renyi.robust.distribution import WorstDistribution as WorstDistribution
    from renyi.robust.minimax_problem import MinimaxResult as MinimaxResult
    from renyi.robust.minimax_problem import MinimaxRule as MinimaxRule
    from renyi.robust.minimax_problem import minimax as minimax
    from renyi.robust.worst import WorstCase as WorstCase
    from renyi.robust.worst import worst_case as worst_case
    from renyi.scorecard import Scorecard as Scorecard
    from renyi.selection import PathResult as PathResult
    from renyi.selection import selection_path as selection_path
    from renyi.solvers.l1inf_genotypes import genotype_path as genotype_path
    from renyi.sources.genotypes import Genotypes as Genotypes
    from renyi.sources.genotypes import read_genotypes as read_genotypes

__version__ = "0.1.0"

# No module is named like a function here: importing it would hide the function.
_HOME = {
    "HGR": "correlation",
    "CalibrationDisplay": "plots.calibration_display",
    "Certificate": "certificates.record",
    "CertificateDisplay": "plots.certificate_display",
    "CrossFitClassifier": "estimators.crossfit_classifier",
    "Encoder": "encoding.encoder",
    "GenotypeClassifier": "estimators.genotype_classifier",
    "GenotypeScores": "exports.score_files",
    "Genotypes": "sources.genotypes",
    "HGRDisplay": "plots.hgr_display",
    "IntegerScorecard": "exports.integer_card",
    "Marginals": "marginals.marginals",
    "MinimaxClassifier": "estimators.minimax_classifier",
    "MinimaxResult": "robust.minimax_problem",
    "MinimaxRule": "robust.minimax_problem",
    "PathDisplay": "plots.path_display",
    "PathResult": "selection",
    "RenyiClassifier": "estimators.classifier",
    "RenyiSelector": "estimators.selector",
    "Scorecard": "scorecard",
    "ScorecardDisplay": "plots.scorecard_display",
    "Separability": "robust.brier_risk",
    "ThetaResult": "robust.brier_risk",
    "WorstCase": "robust.worst",
    "WorstDistribution": "robust.distribution",
    "certify": "certification",
    "genotype_path": "solvers.l1inf_genotypes",
    "hgr": "correlation",
    "hgr_lower_bound": "correlation",
    "hgr_matrix": "correlation",
    "hgr_table": "correlation",
    "minimax": "robust.minimax_problem",
    "read_genotypes": "sources.genotypes",
    "selection_path": "selection",
    "separable": "robust.brier_risk",
    "theta": "robust.brier_risk",
    "worst_case": "robust.worst",
    "write_proof": "proofs",
}

__all__ = [
    "HGR",
    "CalibrationDisplay",
    "Certificate",
    "CertificateDisplay",
    "CrossFitClassifier",
    "Encoder",
    "GenotypeClassifier",
    "GenotypeScores",
    "Genotypes",
    "HGRDisplay",
    "IntegerScorecard",
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
    "genotype_path",
    "hgr",
    "hgr_lower_bound",
    "hgr_matrix",
    "hgr_table",
    "minimax",
    "read_genotypes",
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
        found = getattr(import_module(f"renyi.{_HOME[name]}"), name)
        return globals().setdefault(name, found)
    raise AttributeError(f"module 'renyi' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*globals(), *__all__])
