"""The report of a genotype model: from points per variant to a page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.encoding.columns import MISSING_TEXT
from renyi.formatting import percent
from renyi.genotypes.files import genotype_shares
from renyi.genotypes.packed import MISSING, OBSERVED
from renyi.genotypes.scores import GenotypeScores, filled_points, mean_of_unused
from renyi.report import error_rates
from renyi.report.build import MOST_CATEGORIES
from renyi.report.page import name, quoted
from renyi.report.record import Column, Data, Feature, Report, Rung, Scale, Tile
from renyi.validation import is_number

_GENOTYPES = [*OBSERVED, MISSING]  # to choose from
_MOST_SAMPLES = 1e15  # that a model may claim
_DIGITS = 10  # of points; scores of thousands of them are right to 1e-8


def genotype_report(
    model: GenotypeScores, made: dict[str, str] | None = None
) -> Report:
    """Return the report of points per variant.

    It has no worst case: bounds over all distributions with the same pairs promise
    nothing where variants outnumber samples.
    """
    if model.classes is None:
        raise ValueError(
            "These scores do not predict classes: there is nothing to report."
        )
    order = np.argsort(-model.swings, kind="stable")
    kept, left = np.split(order, [MOST_CATEGORIES // len(_GENOTYPES)])
    columns, features = _variants(model, kept)
    c = model.calibration
    meta = dict(model.meta)
    scale = Scale(
        _rounded([model.intercept + mean_of_unused(model, kept)]),
        None if c is None else c.factor(2),
        None if c is None else c.kind,
        covariates={k: float(v) for k, v in model.covariates.items()},
    )
    first, second = model.classes
    shares = None
    if model.share is not None:
        shares = {first: 1 - model.share, second: model.share}
    error = _known(meta, "loo_error", 1.0)
    tiles, rungs = error_rates.guessing(shares)
    if error is not None:
        fit = "by a fit without it, its group or its fold"
        note = f"each of the training samples {fit}"
        tiles = [Tile(percent(error), "wrong on samples left out", note), *tiles]
        note = f"each sample {fit}"
        rungs = [Rung("Left-out samples", "estimate", error, meaning=note), *rungs]
    return Report(
        title=f"Report of a genotype model for {name(second)}",
        verdict=_verdict(second, error),
        warnings=(),
        tiles=tuple(tiles),
        target=None,
        classes=(first, second),
        rule="map",
        data=Data(
            rows=_known(meta, "samples", _MOST_SAMPLES),
            unit="sample",
            weighted=False,
            columns=len(order),
            features=len(order),
            categories=len(order) * len(_GENOTYPES),
            order=1,
            shares=shares,
        ),
        certificate=None,
        ladder=tuple(rungs),
        columns=columns,
        features=features,
        left_out=len(left),
        scale=scale,
        made={
            "renyi": __version__,
            "genome build": model.build or "not known",
            **{key.replace("_", " "): str(value) for key, value in meta.items()},
            **(made or {}),
        },
    )


def _rounded(points: Iterable[float]) -> tuple[float, ...]:
    """Return points as plain numbers, with as many digits as matter."""
    return tuple(float(f"{x:.{_DIGITS}g}") for x in points)


def _known(meta: dict[str, Any], key: str, most: float) -> float | None:
    """Return a number that a model tells of itself, if it can be one."""
    value: Any = meta.get(key)
    return value if is_number(value) and 0 <= value <= most else None


def _variants(
    model: GenotypeScores, kept: NDArray[np.int64]
) -> tuple[tuple[Column, ...], tuple[Feature, ...]]:
    """Return some variants as columns and features, with the likeliest genotypes."""
    table = model.variants.iloc[kept]
    points = filled_points(model)[kept][:, _GENOTYPES]
    importance = model.swings[kept].tolist()
    f = np.full(len(kept), 0.5)
    if "frequency" in table:
        f = np.nan_to_num(table["frequency"].to_numpy(np.float64), nan=0.5)
    likely = genotype_shares(f).argmax(axis=1).tolist()
    columns = []
    features = []
    for j, row in enumerate(table.itertuples(index=False)):
        title = f"{row.id} ({row.chromosome}:{row.position})"
        both = (f"{row.a1}/{row.a1}", f"{row.a1}/{row.a2}", f"{row.a2}/{row.a2}")
        own = tuple(_rounded([x]) for x in points[j].tolist())
        texts = (*both, MISSING_TEXT)
        columns.append(Column(title, "variant", texts, None, None, likely[j]))
        features.append(Feature(title, (j,), importance[j], texts, None, own, own[-1]))
    return tuple(columns), tuple(features)


def _verdict(second: str, error: float | None) -> str:
    told = f"How often this model of {quoted(second)} errs on new samples is not known"
    if error is not None:
        told = (
            f"On samples left out of its fit, this model of {quoted(second)} was wrong "
            f"on {percent(error)}"
        )
    return (
        f"{told}; no worst case is proven, because the counts of pairs of these "
        "samples say nothing about other samples unless there are far more samples "
        "than variants."
    )
