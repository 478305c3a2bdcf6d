"""The report of a model of genotypes: points per variant, and no worst case.

Bounds over all distributions with the same pairs promise nothing where variants
outnumber samples, so none is shown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from renyi import __version__
from renyi.checks import is_number
from renyi.counting.packed import MISSING, OBSERVED
from renyi.encoding.columns import MISSING_TEXT
from renyi.exports.score_files import GenotypeScores, filled_points
from renyi.figures import percent
from renyi.report.build import MOST_CATEGORIES, row_of, rows_of
from renyi.report.error_rates import guessing
from renyi.report.page import name, quoted
from renyi.report.record import Column, Data, Feature, Report, Rung, Scale, Tile
from renyi.sources.genotypes import genotype_shares

_ORDER = [*OBSERVED, MISSING]  # of the genotypes to choose from
_MOST = 1e15  # samples that a model may tell of


def genotype_report(
    model: GenotypeScores, made: dict[str, str] | None = None
) -> Report:
    """Return the report of points per variant."""
    if model.classes is None:
        raise ValueError(
            "These scores do not predict classes: there is nothing to report."
        )
    order = np.argsort(-model.swings, kind="stable")
    kept, left = np.split(order, [MOST_CATEGORIES // len(_ORDER)])
    columns, features = _variants(model, kept)
    c, meta = model.calibration, dict(model.meta)
    means = model.variants.get("mean")
    rest = 0.0
    if means is not None:
        rest = float(np.nan_to_num(means.to_numpy(np.float64)[left]).sum())
    scale = Scale(
        row_of([model.intercept + rest]),
        None if c is None else c.factor(2),
        None if c is None else c.kind,
        covariates={k: float(v) for k, v in model.covariates.items()},
    )
    first, second = model.classes
    shares = None
    if model.share is not None:
        shares = {first: 1 - model.share, second: model.share}
    error = _known(meta, "loo_error", 1.0)
    tiles, rungs = guessing(shares)
    return Report(
        title=f"Report of a genotype model for {name(second)}",
        verdict=_verdict(second, error),
        warnings=(),
        tiles=(*_tiles(error), *tiles),
        target=None,
        classes=(first, second),
        rule="map",
        data=Data(
            rows=_known(meta, "samples", _MOST),
            unit="sample",
            weighted=False,
            columns=len(order),
            features=len(order),
            categories=len(order) * len(_ORDER),
            order=1,
            shares=shares,
        ),
        certificate=None,
        ladder=(*_ladder(error), *rungs),
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


def _known(meta: dict[str, Any], key: str, most: float) -> float | None:
    """Return a number that a model tells of itself, if it can be one."""
    value: Any = meta.get(key)
    return value if is_number(value) and 0 <= value <= most else None


def _variants(
    model: GenotypeScores, kept: NDArray[np.int64]
) -> tuple[tuple[Column, ...], tuple[Feature, ...]]:
    """Return some variants as columns and features, with the likeliest genotypes."""
    table, points = model.variants.iloc[kept], filled_points(model)[kept][:, _ORDER]
    importance = model.swings[kept].tolist()
    f = np.full(len(kept), 0.5)
    if "frequency" in table:
        f = np.nan_to_num(table["frequency"].to_numpy(np.float64), nan=0.5)
    likely = genotype_shares(f).argmax(axis=1).tolist()
    columns, features = [], []
    for j, row in enumerate(table.itertuples(index=False)):
        title = f"{row.id} ({row.chromosome}:{row.position})"
        both = (f"{row.a1}/{row.a1}", f"{row.a1}/{row.a2}", f"{row.a2}/{row.a2}")
        own = rows_of(points[j][:, None])
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


def _tiles(error: float | None) -> list[Tile]:
    if error is None:
        return []
    note = "each of the training samples by a fit without it, its group or its fold"
    return [Tile(percent(error), "wrong on samples left out", note)]


def _ladder(error: float | None) -> list[Rung]:
    if error is None:
        return []
    meaning = "each sample by a fit without it, its group or its fold"
    return [Rung("Left-out samples", "estimate", error, meaning=meaning)]
