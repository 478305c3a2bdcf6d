"""The plain form of a scorecard, as the JSON of a model file has it.

A file may be untrusted: every field is checked before a scorecard is made of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from renyi.counting.onehot import largest_sum, offsets
from renyi.encoding.rules import check_class_list
from renyi.encoding.tuples import encoder_from_dict
from renyi.files import NUMBER, check_fields, finite_numbers
from renyi.solvers.calibration import Calibration

if TYPE_CHECKING:
    from renyi.scorecard import Scorecard

FORMAT = "renyi-model"
VERSION = 1  # of the format

_FIELDS: dict[str, tuple[type, ...]] = {
    "encoder": (dict,),
    "classes": (list,),
    "z": (list,),
    "intercept": (list, *NUMBER),
    "counts": (list,),
}
_MOST_POINTS = 1e9  # in a row; a trained model has about 1


def plain(card: Scorecard) -> dict[str, Any]:
    """Return a scorecard as plain values for JSON."""
    check_size(card)  # a file that fails this check could not be read again
    values = {"encoder": card.encoder.to_dict(), "classes": list(card.classes)}
    for name in ("z", "intercept", "counts"):
        values[name] = getattr(card, name).tolist()
    if card.unseen is not None:
        values["unseen"] = card.unseen.tolist()
    if card.calibration is not None:
        values["calibration"] = card.calibration.to_dict()
    return values


def fields_of(data: object) -> dict[str, Any]:
    """Check plain values, which may be untrusted, and return a scorecard's fields."""
    optional = {"unseen": (list,), "calibration": (dict,)}
    check_fields(data, _FIELDS, "scorecard", optional)
    assert isinstance(data, dict)
    encoder = encoder_from_dict(data["encoder"])
    classes = data["classes"]
    check_class_list(classes)
    D = int(encoder.columns.sizes.sum())
    K = len(classes)
    width: tuple[int, ...] = () if K == 2 else (K,)
    counts = finite_numbers(data["counts"], (D,), "counts")
    starts = offsets(encoder.columns.sizes)[:-1]
    if counts.min() < 0 or (
        counts.any() and np.maximum.reduceat(counts, starts).min() <= 0
    ):
        raise ValueError("its counts are negative, or none at all in a column")
    z = finite_numbers(data["z"], (D, *width), "points")
    intercept = finite_numbers(data["intercept"], width, "intercept")
    unseen = data.get("unseen")
    stored = data.get("calibration")
    if unseen is not None:
        shape = (len(encoder.columns), 1 if K == 2 else K)
        unseen = finite_numbers(unseen, shape, "points of unseen labels")
    calibration = None if stored is None else Calibration.from_dict(stored, K)
    return {
        "encoder": encoder,
        "classes": tuple(classes),
        "z": z,
        "intercept": intercept,
        "counts": counts,
        "unseen": unseen,
        "calibration": calibration,
    }


def check_size(card: Scorecard) -> None:
    """Raise ValueError if the points or counts are too large to add up."""
    c = card.calibration
    with np.errstate(over="ignore", invalid="ignore"):
        largest = largest_sum(*card.reachable)
        if c is not None:
            slope = 1.0 if c.by_class else max(1.0, float(c.slope))
            largest = max(largest, largest_sum(*card.mapped.reachable) * slope)
        squares = 4 * max(largest, 1) ** 2 * card.counts.sum(dtype=np.float64)
    if not largest <= _MOST_POINTS:
        raise ValueError(
            f"points of up to {largest:.3g} in a row are too large to add up to a "
            f"probability; {_MOST_POINTS:.0e} is the most"
        )
    if not np.isfinite(squares):
        raise ValueError("its counts are too large to add up")
