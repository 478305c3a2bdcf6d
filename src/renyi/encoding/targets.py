"""Classes as the user gives them: labels of rows, their codes, name and weights."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from renyi.encoding.column_rules import check_classes, missing_texts
from renyi.encoding.columns import Label, label_text

Floats = NDArray[np.float64]


def check_labels(y: Any, n: int) -> NDArray[Any]:
    """Return the labels as a one-dimensional array without missing values."""
    if hasattr(y, "__arrow_c_stream__") and not hasattr(y, "iloc"):
        y = np.asarray(y)
    # Nullable columns would become floats: 0 and 1 are to stay integers.
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if kind is not None and not y.isna().any():
        y = np.asarray(y, kind)
    flat = type(y) is np.ndarray and y.ndim == 1
    labels = y if flat else np.asarray(column_or_1d(y, warn=True))
    if labels.dtype.kind not in "biufUO":
        raise ValueError(
            f"y holds values of the type {labels.dtype}, which are no labels: "
            "turn them into text first."
        )
    if len(labels) != n:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n} "
            f"rows, y has {len(labels)}."
        )
    if labels.dtype.kind in "fO":
        import pandas as pd

        missing = int(pd.isna(labels).sum())
        if missing:
            raise ValueError(f"y is missing in {missing} rows: leave these rows out.")
        if labels.dtype.kind == "O":
            labels = pd.Series(labels, dtype=object).infer_objects().to_numpy()
        if labels.dtype.kind == "f" and np.isinf(labels).any():
            raise ValueError("y contains infinity, which is no class: correct it.")
        if labels.dtype.kind == "f":
            check_classification_targets(labels)
    return labels


def distinct(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the sorted classes and the code of each row's."""
    import pandas as pd

    if labels.dtype.kind in "iu" and len(labels):
        low, high = int(labels.min()), int(labels.max())
        if high - low < 256:
            shifted = (labels - low).astype(np.uint8)
            found = np.bincount(shifted, minlength=high - low + 1) > 0
            values = np.flatnonzero(found) + low
            return values.astype(labels.dtype), (np.cumsum(found) - 1)[shifted]
    try:
        codes, classes = pd.factorize(labels, sort=True)
    except TypeError as error:
        raise ValueError(
            f"Unknown label type: the classes cannot be sorted ({error}). Make them "
            "all strings or all numbers."
        ) from None
    return np.asarray(classes), codes


def codes_among(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the code of each row's class among the sorted classes."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"y has the class {unknown[0]!r}, which is not among the classes "
            f"{classes.tolist()} of the first call."
        )
    return np.searchsorted(classes, labels)


def check_class_labels(classes: NDArray[Any], missing: Iterable[Label]) -> None:
    """Raise an error if there is a single class, or one that means missing."""
    check_classes(classes.tolist())
    gone = missing_texts(missing)
    for label in classes.tolist():
        if label_text(label) in gone:
            raise ValueError(
                f"y holds {label!r}, which means missing: leave these rows out, or "
                "give an encoder with other codes for missing cells."
            )


def class_factors(weights: Any, classes: NDArray[Any], counts: Floats) -> Floats:
    """Return the weight of each class, given the rows of each."""
    K = len(classes)
    if weights is None:
        return np.ones(K)
    if isinstance(weights, str):
        if weights != "balanced":
            raise ValueError(
                f"class_weight must be a dict, 'balanced' or None, not {weights!r}."
            )
        return np.asarray(counts.sum() / (K * np.maximum(counts, 1e-300)))
    known = classes.tolist()
    for label, weight in weights.items():
        if label not in known:
            raise ValueError(f"class_weight names {label!r}, which is not a class.")
        if not 0 < weight <= sys.float_info.max:  # an integer may be larger
            raise ValueError(
                f"class_weight gives {label!r} the weight {weight!r}: weights of "
                "classes must be positive and finite."
            )
    return np.array([float(weights.get(c, 1)) for c in known])


def target_name(y: Any, taken: Collection[str]) -> str:
    """Return the name of y, made different from the names that are taken."""
    name = str(getattr(y, "name", None) or "y")
    while name in taken:
        name += "_"
    return name
