"""Points per variant: the model file, exports, scores, and a Manhattan plot.

*Model file.* A JSON file of plain values (`run1.json`) and an archive of arrays next to
it (`run1.points`), both with checksums. The former names the latter and its checksum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from renyi import __version__
from renyi.files import (
    NUMBER,
    Place,
    check_fields,
    checksum,
    finite_numbers,
    read_archive,
    read_json,
    replace_together,
    valid,
    write_archive,
    write_json,
)
from renyi.genotypes.files import Genotypes, frequency_of, genotype_shares
from renyi.genotypes.formats import REVERSED, read_pgs, write_pgs, write_plink2
from renyi.genotypes.matching import (
    MatchRecord,
    build_of,
    chromosomes,
    match_variants,
)
from renyi.genotypes.metrics import intercept_at
from renyi.genotypes.packed import (
    CODES,
    MISSING,
    OBSERVED,
    PackedGenotypes,
    code_counts,
    scores,
)
from renyi.genotypes.suffixes import POINTS
from renyi.genotypes.tables import VARIANTS
from renyi.limits import check_memory
from renyi.plots import axes, literal
from renyi.rules import decide, logistic, project, reweighted
from renyi.solvers.calibration import Calibration
from renyi.validation import InputError

Floats = NDArray[np.float64]

FORMAT = "renyi-genotype-scores"
VERSION = 1
_TEXTS = ("chromosome", "id", "a1", "a2")
_HEAD: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "version": (int,),
    "renyi": (str,),
    "checksum": (str,),
    "variants": (int,),
    "points_file": (str,),
    "points_checksum": (str,),
}
_MODEL: dict[str, tuple[type, ...]] = {
    "intercept": NUMBER,
    "classes": (list, NoneType),
    "share": (*NUMBER, NoneType),
    "build": (str, NoneType),
    "covariates": (dict,),
    "calibration": (dict, NoneType),
    "meta": (dict,),
}
_DRAWN = 100_000  # most variants in a plot: those that change the score most
_LABELLED = 5
_LAST = {name: 23 + k for k, name in enumerate(("X", "XY", "Y", "MT"))}
_COLOURS = "#1f4e79", "#7aa6cf"  # of chromosomes, in turn
_LARGEST = 1e100  # largest points: squares of sums stay finite
_RANGES = (("frequency", 0.0, 1.0), ("mean", -_LARGEST, _LARGEST))
_TYPES = ("|u1", "<i8", "<f8")


class Scored(NamedTuple):
    """Scores of samples, and how the variants were found."""

    scores: Floats
    record: MatchRecord


@dataclass(frozen=True, eq=False)
class GenotypeScores:
    """A model of genotypes that any program can use: points, variants and alleles.

    It scores the samples of other files. It matches their variants by id or position,
    and by alleles.

    Parameters
    ----------
    variants : DataFrame
        Columns chromosome, id, position, a1, a2. If known, also `frequency` (of A1 in
        training) and `mean` (of the points in training), which replaces variants that
        another file lacks.
    points : ndarray of shape (d, 4)
        Points by PLINK's codes: two copies of A1, missing, one copy, none. If the
        points of missing are NaN, they are the mean of the variant's genotypes.
    intercept : float
    classes : (str, str) or None
        Classes of negative and of positive scores; None if scores have no classes.
    share : float or None
        Share of the second class in training.
    build : str or None
        Genome build of the positions, such as "GRCh38".
    covariates : dict of str to float
        Coefficients by name.
    calibration : Calibration or None
        From scores to probabilities.
    meta : dict
        Other plain values, stored with the model.

    See Also
    --------
    GenotypeClassifier : Train such a model.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from renyi import GenotypeScores
    >>> variants = pd.DataFrame(
    ...     [["1", "rs1", 101, "A", "G"], ["1", "rs2", 205, "C", "T"]],
    ...     columns=["chromosome", "id", "position", "a1", "a2"])
    >>> points = [[0.4, 0.0, 0.1, -0.2], [-0.3, 0.0, 0.1, 0.2]]
    >>> model = GenotypeScores(variants, np.array(points), classes=("control", "case"))
    >>> print(model.top(1)[["id", "importance"]].to_string(index=False))
     id  importance
    rs1         0.6
    """

    variants: pd.DataFrame
    points: Floats
    intercept: float = 0.0
    classes: tuple[str, str] | None = None
    share: float | None = None
    build: str | None = None
    covariates: Mapping[str, float] = field(default_factory=dict)
    calibration: Calibration | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that there are finite points for every variant."""
        object.__setattr__(self, "build", build_of(self.build))
        d = len(self.variants)
        lacking = {*VARIANTS} - {*self.variants}
        if lacking:
            raise ValueError(f"variants lack the column {min(lacking)!r}")
        if self.points.shape != (d, CODES):
            raise ValueError(f"points are of shape {self.points.shape}, not {d, CODES}")
        bad = ~(np.abs(self.points) <= _LARGEST)
        bad[:, MISSING] &= ~np.isnan(self.points[:, MISSING])
        if bad.any() or not abs(self.intercept) <= _LARGEST:
            raise ValueError("points or the intercept are not finite, or too large")
        for name, least, most in _RANGES:
            if name in self.variants:
                column = self.variants[name].to_numpy(np.float64)
                if ((column < least) | (column > most)).any():
                    raise ValueError(f"a variant has an impossible {name}")
        if not all(abs(c) <= _LARGEST for c in self.covariates.values()):
            raise ValueError("coefficients of covariates are not finite, or too large")
        if self.share is not None and not 0 < self.share < 1:
            raise ValueError(f"share must lie between 0 and 1, not be {self.share}")
        if self.classes is not None and len(set(self.classes)) != 2:
            raise ValueError("classes must be two")

    @classmethod
    def from_counts(
        cls, variants: pd.DataFrame, points: Floats, counts: ArrayLike, **others: Any
    ) -> GenotypeScores:
        """Make one with frequencies and means, from counts (d, 4) by code."""
        numbers = np.asarray(counts, np.float64)
        table = variants[list(VARIANTS)].reset_index(drop=True)
        table["frequency"] = frequency_of(numbers)
        table["mean"] = _mean_points(points, numbers)
        return cls(table, np.asarray(points, np.float64), **others)

    # ---- scores

    def score(
        self,
        genotypes: Genotypes,
        covariates: pd.DataFrame | None = None,
        build: str | None = None,
        same_strand: bool = False,
    ) -> Scored:
        """Score the samples of a file, whose variants and alleles are matched.

        A variant that the file lacks, or that is dropped, adds its mean in training if
        known, otherwise nothing.

        Parameters
        ----------
        genotypes : Genotypes
        covariates : DataFrame, optional
            Columns by the names of the model's covariates, a row per sample.
        build : str, optional
            Genome build of the file.
        same_strand : bool
            Whether A/T and C/G variants need no frequencies.

        Returns
        -------
        (scores, record)
            Scores of shape (n,), and how the variants were matched.
        """
        G = genotypes.packed
        match = match_variants(
            self.variants,
            genotypes.variants,
            lambda rows: _frequencies(G, rows),
            (self.build, build),
            same_strand,
        )
        if not match.record.matched:
            raise ValueError(
                f"no variant of the model is among those of {genotypes.path}: "
                f"{'; '.join(match.record.lines()[1:])}."
            )
        matched = G if len(match.file) == G.d else G.take(variants=match.file)
        points = self.points[match.model]
        points[match.swapped] = points[match.swapped][:, REVERSED]
        unknown = np.isnan(points[:, MISSING])
        if unknown.any():
            counts = code_counts(matched.take(variants=unknown)).astype(np.float64)
            counts[:, MISSING] = 0
            points[unknown, MISSING] = _mean_points(points[unknown], counts)
        total = (
            scores(matched, points) + self.intercept + mean_of_unused(self, match.model)
        )
        return Scored(total + self._of_covariates(covariates, G.n), match.record)

    def _of_covariates(self, table: pd.DataFrame | None, n: int) -> Floats | float:
        """Return the sum of the covariates' points."""
        if not self.covariates:
            return 0.0
        known = pd.DataFrame() if table is None else table
        lacking = [name for name in self.covariates if name not in known]
        if lacking:
            names = ", ".join(map(repr, lacking))
            raise InputError(
                f"The model has covariates that are not given: {names}.",
                "covar",
                python="covariates=table",
            )
        columns = [np.asarray(known[name], np.float64) for name in self.covariates]
        X = np.column_stack(columns)
        if X.shape[0] != n or not np.isfinite(X).all():
            raise ValueError("covariates must be numbers, a row for each sample.")
        return np.asarray(X @ np.array(list(self.covariates.values())))

    def probabilities(self, scores: Floats, prevalence: float | None = None) -> Floats:
        """Return the probability of the second class, at a prevalence if given.

        Without a calibration it is the nearest probability to the score.
        """
        t = np.column_stack([0.5 - scores, 0.5 + scores])
        if self.calibration is None:
            p = project(t)
        else:
            p = logistic(t, self.calibration.factor(2))
        if prevalence is not None:
            if self.share is None:
                raise InputError(
                    "{prevalence} cannot be applied: the model does not store the "
                    "shares of the classes in training.",
                    prevalence=prevalence,
                )
            odds = math.exp(intercept_at(0.0, self.share, prevalence))
            p = reweighted(p, odds, decide(p * [1, odds]))
        return np.asarray(p[:, 1])

    def top(self, count: int = 20) -> pd.DataFrame:
        """Return the variants whose points differ most between genotypes."""
        differences = self.importance
        first = np.argsort(-differences, kind="stable")[:count]
        table = self.variants.iloc[first][list(VARIANTS)].reset_index(drop=True)
        points = self.points[first]
        table["importance"] = differences[first]
        table[["two", "one", "none"]] = points[:, OBSERVED]
        return table

    @property
    def importance(self) -> Floats:
        """Largest difference of the points of a variant's genotypes."""
        points = self.points[:, OBSERVED]
        return np.asarray(points.max(axis=1) - points.min(axis=1))

    # ---- model file

    def save(self, path: Place) -> None:
        """Write the model: a JSON file, and the points in a file next to it."""
        head = Path(path)
        beside = head.with_suffix(POINTS)
        if head == beside:
            raise ValueError(f"{head} must not end with {POINTS}: name it .json.")
        arrays = self._arrays()
        header = {"format": FORMAT, "version": VERSION, "variants": len(self.points)}
        document = {
            **header,
            "renyi": __version__,
            "points_file": beside.name,
            "points_checksum": checksum(header, arrays),
            **self._plain(),
        }
        replace_together(
            {
                beside: lambda stream: write_archive(stream, header, arrays),
                head: lambda stream: write_json(stream, document),
            }
        )

    def _plain(self) -> dict[str, Any]:
        """Return all fields except the variants as plain values."""
        fitted = self.calibration
        return {
            "intercept": float(self.intercept),
            "classes": None if self.classes is None else list(self.classes),
            "share": self.share,
            "build": self.build,
            "covariates": {name: float(c) for name, c in self.covariates.items()},
            "calibration": None if fitted is None else fitted.to_dict(),
            "meta": dict(self.meta),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return variants and points as arrays, with texts joined by line ends."""
        arrays: dict[str, NDArray[Any]] = {"points": self.points}
        arrays["position"] = self.variants["position"].to_numpy(np.int64)
        for name in ("frequency", "mean"):
            if name in self.variants:
                arrays[name] = self.variants[name].to_numpy(np.float64)
        for name in _TEXTS:
            text = "\n".join(map(str, self.variants[name]))
            if text.count("\n") != max(len(self.variants) - 1, 0):
                raise ValueError(f"a variant's {name!r} has a line end: rename it.")
            arrays[name] = np.frombuffer(text.encode(), np.uint8)
        return arrays

    @classmethod
    def load(cls, path: Place) -> GenotypeScores:
        """Read a model that `save` wrote; the files may be untrusted."""
        data = read_json(path, FORMAT, VERSION)
        with valid(path):
            check_fields(data, {**_HEAD, **_MODEL}, "head")
            model = _plain_fields(data)
            name = data["points_file"]
            if Path(name).name != name or "\0" in name or name in ("", ".", ".."):
                raise ValueError(f"its points_file {name!r:.60} is not a plain name")
        beside = Path(path).with_name(name)
        if not beside.is_file():
            raise FileNotFoundError(
                f"{beside} is missing: it contains the points of {path}. Put both into "
                "one folder."
            )
        check_memory(3 * beside.stat().st_size, f"Reading {beside}")
        header, arrays = read_archive(beside, str(beside), FORMAT, VERSION, _TYPES)
        if header.get("checksum") != data["points_checksum"]:
            raise ValueError(
                f"{beside} does not belong to {path}: the checksum of its points "
                "differs. Use both files from one fit."
            )
        with valid(beside):
            variants, points = _variants(arrays, data["variants"])
            return cls(variants, points, **model)

    def to_plink2(self, prefix: str) -> float:
        """Write files for two passes of plink2 --score; return the offset to add.

        The files are `PREFIX.additive.tsv`, `PREFIX.dominant.tsv` and
        `PREFIX.plink2.txt`, which has the two commands and the offset (with the
        intercept). On hard calls the sum of both passes and the offset is the score,
        including missing genotypes but not covariates.
        """
        note = ""
        if self.covariates:
            terms = (f"{float(c)!r} × {name}" for name, c in self.covariates.items())
            note = f"Covariates are not in it: add {', '.join(terms)}.\n"
        points = filled_points(self)
        return write_plink2(prefix, self.variants, points, self.intercept, note)

    def to_pgs(self, path: Place, name: str = "renyi", trait: str = "NR") -> None:
        """Write a scoring file of the PGS Catalog, format 2.0 (.txt or .txt.gz).

        Variants without a known allele are left out; the intercept has their mean.
        """
        write_pgs(path, self.variants, self.points, self._plain(), name, trait)

    @classmethod
    def from_pgs(cls, path: Place) -> GenotypeScores:
        """Read a scoring file of the PGS Catalog, format 1 or 2; it may be untrusted.

        Weights may be per dosage, additive, dominant or recessive. Haplotypes and
        interactions are rejected. Harmonised positions are used if there are any.
        """
        file = read_pgs(Path(path))
        with valid(path):
            model = {} if file.model is None else _plain_fields(file.model)
            model["build"] = file.build
            return cls(file.variants, file.points, **model)


def mean_of_unused(model: GenotypeScores, used: NDArray[np.int64]) -> float:
    """Return the sum of the means of unused variants, if known."""
    if "mean" not in model.variants or len(used) == len(model.variants):
        return 0.0
    means = np.delete(model.variants["mean"].to_numpy(np.float64), used)
    return float(np.nan_to_num(means).sum())


def filled_points(model: GenotypeScores) -> Floats:
    """Return points in which missing genotypes have the mean points."""
    points = model.points
    unknown = np.isnan(model.points[:, MISSING])
    if unknown.any():
        if "frequency" not in model.variants:
            raise ValueError(
                "the points of missing genotypes are not known, nor the "
                "frequencies to compute them from."
            )
        f = model.variants["frequency"].to_numpy(np.float64)[unknown]
        shares = genotype_shares(f)
        known = points[unknown][:, OBSERVED]
        points = points.copy()
        points[unknown, MISSING] = (np.nan_to_num(shares) * known).sum(axis=1)
    return points


def _frequencies(G: PackedGenotypes, rows: NDArray[np.int64]) -> Floats:
    """Return the frequency of A1 at some variants, in any order; NaN if unobserved."""
    order = np.argsort(rows, kind="stable")
    out = np.empty(len(rows))
    out[order] = frequency_of(code_counts(G.take(variants=rows[order])))
    return out


def _mean_points(points: Floats, counts: Floats) -> Floats:
    """Return the mean points of every variant, from counts (d, 4) by code."""
    total = np.maximum(counts.sum(axis=1), 1)
    return np.asarray((np.nan_to_num(points) * counts).sum(axis=1) / total)


def _plain_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a model, all but its variants, of plain values."""
    fields = {name: data[name] for name in _MODEL}
    check_fields(fields, _MODEL, "model")
    classes = fields["classes"]
    covariates = fields["covariates"]
    if classes is not None:
        if [type(each) for each in classes] != [str, str]:
            raise ValueError("its classes are not two texts")
        fields["classes"] = tuple(classes)
    numbers = finite_numbers(
        list(covariates.values()), (len(covariates),), "covariates"
    )
    fields["covariates"] = dict(zip(covariates, map(float, numbers), strict=True))
    if fields["calibration"] is not None:
        fields["calibration"] = Calibration.from_dict(fields["calibration"], 2)
        if fields["calibration"].moves_decisions:
            raise ValueError("its calibration is not a temperature")
    return fields


def _variants(arrays: Mapping[str, Any], d: int) -> tuple[pd.DataFrame, Floats]:
    """Return variants and points of the arrays of a file."""
    kinds = {"position": "<i8", **dict.fromkeys(_TEXTS, "|u1")}
    kinds |= {name: "<f8" for name in ("frequency", "mean") if name in arrays}
    columns: dict[str, Any] = {}
    for name in sorted(kinds, key=[*VARIANTS, "frequency", "mean"].index):
        column: Any = arrays[name]
        good = column.ndim == 1 and column.dtype == kinds[name]
        if good and name in _TEXTS:
            text = pa.scalar(column.tobytes().decode(), pa.large_string())
            column = pc.split_pattern(text, "\n").values.to_pandas()
        if not good or len(column) != d:
            raise ValueError(f"its column {name!r} does not fit {d:,} variants")
        columns[name] = column
    points = arrays["points"]
    if points.dtype != "<f8":
        raise ValueError("its points are not numbers")
    return pd.DataFrame(columns), points


def read_scores(path: Place) -> GenotypeScores:
    """Read a model file or a scoring file of the PGS Catalog."""
    is_head = str(path).endswith(".json")
    return GenotypeScores.load(path) if is_head else GenotypeScores.from_pgs(path)


# ---- plot


def manhattan(model: GenotypeScores, ax: Any = None) -> Any:
    """Plot the importance of each variant against its position on the genome.

    Chromosomes follow one another, each from its first variant to its last. If there
    are very many variants, only the most important ones are shown. A few are named.
    """
    ax = axes(ax)
    (codes,), names = chromosomes(model.variants["chromosome"])
    position = model.variants["position"].to_numpy(np.int64)
    importance = model.importance
    order = sorted(range(len(names)), key=lambda k: _place(names[k]))
    spans = [position[codes == k] for k in order]
    lengths = [int(span.max() - span.min()) for span in spans]
    gap = max(1, sum(lengths) // 200)
    start = 0
    ticks = []
    x = np.zeros(len(codes))
    largest = np.zeros(len(codes), bool)
    largest[np.argsort(-importance, kind="stable")[:_DRAWN]] = True
    for turn, (k, length) in enumerate(zip(order, lengths, strict=True)):
        own = codes == k
        x[own] = position[own] - position[own].min() + start
        drawn = own & largest
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
    """Return a key that sorts chromosomes: numbers, X, XY, Y, MT, then others."""
    number = int(name) if name.isdecimal() and len(name) < 4 else _LAST.get(name, 10**6)
    return number, name
