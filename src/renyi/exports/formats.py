"""Which formats a scorecard can be written in, and what writes each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from renyi.exports import onnx, point_tables, portable
from renyi.validation import check_choice, import_extra

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

TEXTS: dict[str, Callable[[Scorecard, float], str]] = {
    "csv": point_tables.csv,
    "md": point_tables.text,
    "python": portable.python,
    "javascript": portable.javascript,
}
FUNCTIONS = ("python", "javascript", "onnx")  # which answer rows
BINARY = ("onnx", "skops")
# Of a fitted RenyiClassifier, for skops.io.load(file, trusted=…).
TRUSTED = [
    "builtins.frozenset",
    "renyi.certificates.closed_form.ClassScores",
    "renyi.certificates.closed_form.ScoreMoments",
    "renyi.certificates.record.Certificate",
    "renyi.encoding.columns.Columns",
    "renyi.encoding.columns.Levels",
    "renyi.encoding.encoder.Encoder",
    "renyi.encoding.tuples.TupleEncoder",
    "renyi.estimators.classifier.RenyiClassifier",
    "renyi.estimators.predictions.Deferred",
    "renyi.estimators.predictions.KnownMoments",
    "renyi.marginals.file.DataDigest",
    "renyi.marginals.marginals.Marginals",
    "renyi.scorecard.Scorecard",
    "renyi.solvers.calibration.Calibration",
    "renyi.solvers.ridge.AlphaChoice",
    "renyi.encoding.rows.TrainingRows",
]


def text(card: Scorecard, format: str, odds: float = 1.0) -> str:
    """Return a scorecard as a text; see `Scorecard.to_text`."""
    check_choice("format", format, tuple(TEXTS))
    return TEXTS[format](card, odds)


def written(card: Scorecard, format: str, odds: float = 1.0) -> str | bytes:
    """Return what a file of a format holds."""
    if format == "onnx":
        return onnx.model_bytes(card, odds)
    return text(card, format, odds)


def skops_bytes(estimator: object) -> bytes:
    """Return a classifier as skops keeps it."""
    need = "Writing for skops needs the package skops"
    return bytes(import_extra("skops.io", "skops", need).dumps(estimator))
