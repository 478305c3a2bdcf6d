"""Scorecard: the model, as points per category and class.

The score of class y at a row x is ``s_y(x) = intercept_y + Σ_i points_i(x_i, y)``, and
``t_y = 1/K + s_y`` estimates P(y|x). For two classes s_0 = −s_1, so one column of
points is enough. A label unseen in training gets the feature's mean effect.

A calibration (`renyi.solvers.calibration`) turns scores into probabilities. With more
than two classes it may change decisions. Then the rule map, tables, SQL and
explanations use the points of the scorecard `mapped`. The rules renyi and sharp always
use t.

`Scorecard.match` looks up the points of the categories in any marginals. Each category
gets the points that `predict` gives to a cell with its label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi.counting.onehot import (
    feature_means,
    largest_sum,
    lookup_sum,
    offsets,
    score_error,
)
from renyi.encoding import recoding
from renyi.encoding.columns import Label, label_text
from renyi.encoding.encoder import Encoder
from renyi.encoding.rules import check_class_list
from renyi.encoding.tuples import encoder_from_dict
from renyi.files import NUMBER, check_fields, read_json, valid, write_json
from renyi.files import finite_numbers as _numbers
from renyi.formatting import point_digits
from renyi.rules import logistic, project
from renyi.solvers.calibration import Calibration
from renyi.validation import InputError

if TYPE_CHECKING:
    import os

    import pandas as pd

    from renyi.exports.integer_card import IntegerScorecard
    from renyi.marginals.marginals import Marginals
    from renyi.solvers import Solver

Floats = NDArray[np.float64]

FORMAT = "renyi-model"
VERSION = 1  # of the format

_FIELDS: dict[str, tuple[type, ...]] = {
    "encoder": (dict,),
    "classes": (list,),
    "z": (list,),
    "intercept": (list, *NUMBER),
    "counts": (list,),
}
_ARRAYS = ("z", "intercept", "counts")
_MOST_POINTS = 1e9  # in a row; a trained model has about 1
_UNNAMED = "y"  # the name that `fit` gives to labels without one


class Match(NamedTuple):
    """Marginals with the points that a scorecard gives to each of their categories."""

    marginals: Marginals  # of the model's features, in its order
    points: Floats  # (categories, K)
    intercept: Floats  # (K,)
    classes: NDArray[np.intp]  # place of each class of the marginals in the model


@dataclass(frozen=True, eq=False)
class Scorecard:
    """A model as a table of points, one per category and class.

    A row adds up the points of its cells; the class with the largest total is the
    answer. `frame` returns the table, `rounded` makes a card of whole points, and
    `to_sql`, `to_text` and `to_onnx` export it. The attribute ``scorecard_`` of every
    fitted classifier is one; `certify` accepts it in place of the classifier.

    Parameters
    ----------
    encoder : Encoder
        The fitted encoder of the features; D categories in all.
    classes : tuple of labels
        The K classes.
    z : ndarray of shape (D,) or (D, K)
        Points: for two classes those of the second one.
    intercept : ndarray of shape () or (K,)
        Score of a row before any points.
    counts : ndarray of shape (D,)
        Training rows (or weight) in each category; they define the mean effect.
    target : str, optional
        Name of the column that it predicts, if it is known.
    unseen : ndarray of shape (features, 1) or (features, K), optional
        Points of labels unseen in training, if they differ from the mean effect.
    calibration : Calibration, optional
        How scores become probabilities. None is the paper's form: the probabilities
        nearest to the scores.

    See Also
    --------
    RenyiClassifier : Train a scorecard.
    IntegerScorecard : A card of whole points, to add up by hand.
    ScorecardDisplay : Plot the points.

    Notes
    -----
    Guide: :doc:`/exports`.

    Examples
    --------
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> card = renyi.RenyiClassifier().fit(X, y).scorecard_
    >>> card.frame().head(3)[["feature", "category", "count", "republican"]].round(3)
                    feature   category  count  republican
    0  physician-fee-freeze          n    247      -0.291
    1  physician-fee-freeze          y    177       0.332
    2  physician-fee-freeze  (missing)     11      -0.041
    """

    encoder: Encoder
    classes: tuple[Label, ...]
    z: Floats
    intercept: Floats
    counts: NDArray[Any]
    target: str | None = None
    unseen: Floats | None = None
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        """Replace the arrays by read-only copies."""
        for name in _ARRAYS if self.unseen is None else (*_ARRAYS, "unseen"):
            array = np.asarray(getattr(self, name))
            if array.flags.writeable or array.base is not None:
                array = _frozen(array.copy())
            object.__setattr__(self, name, array)

    @classmethod
    def solve(cls, m: Marginals, solver: Solver) -> Scorecard:
        """Return the scorecard of your own solver, which `certify` accepts.

        Parameters
        ----------
        m : Marginals
            The pair counts to learn from.
        solver : callable
            Takes Q and F (probabilities, as `m.Q` and `m.F`). Returns points of shape
            (D, K) and an intercept of shape (K,), such that 1/K + intercept + points
            estimates the class probabilities.

        Examples
        --------
        >>> import renyi
        >>> m = renyi.Marginals.from_data(*renyi.datasets.load("votes"))
        >>> def mean_of_features(Q, F):
        ...     return F / Q.diagonal()[:, None] / F.sum(), [-0.5, -0.5]
        >>> card = renyi.Scorecard.solve(m, mean_of_features)
        >>> round(renyi.certify(card, m).gamma, 2)
        0.12
        """
        points, intercept = map(np.asarray, solver(m.Q, m.F))
        if len(m.classes) == 2:  # a part common to both classes decides nothing
            points = (points[:, 1] - points[:, 0]) / 2
            intercept = (intercept[1] - intercept[0]) / 2
        counts = m.feature_counts.diagonal()
        return cls(m.encoder, m.classes, points, intercept, counts, m.target)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Freeze the arrays again: pickles and deep copies make them writable."""
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                _frozen(value)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def _points(self) -> Floats:
        """Points with one column, or one per class."""
        return self.z.reshape(len(self.z), -1)

    @cached_property
    def mean_points(self) -> Floats:
        """Mean effect of each feature: one row per feature."""
        weights = self.counts.astype(np.float64)
        sizes = self.encoder.columns.sizes
        return _frozen(feature_means(self._points, weights, sizes))

    @cached_property
    def tables(self) -> tuple[Floats, NDArray[np.int64]]:
        """Points with one more row per feature for unseen labels, and the starts."""
        sizes = self.encoder.columns.sizes
        ends = offsets(sizes)[1:]
        unseen = self.mean_points if self.unseen is None else self.unseen
        tables = np.insert(self._points, ends, unseen, axis=0)
        return _frozen(np.ascontiguousarray(tables)), offsets(sizes + 1)[:-1]

    def per_class(self, values: Floats) -> Floats:
        """Return one column per class; for two classes, x becomes [−x, x]."""
        return np.hstack([-values, values]) if self.n_classes == 2 else values

    def scores(self, codes: NDArray[Any]) -> Floats:
        """Return the scores (rows × 1 or K) of codes made by the encoder."""
        tables, starts = self.tables
        return lookup_sum(codes, tables, starts) + self.intercept

    def estimates(self, codes: NDArray[Any]) -> Floats:
        """Return the estimates t of class probabilities, which may leave [0, 1]."""
        return self.per_class(self.scores(codes)) + 1 / self.n_classes

    @cached_property
    def mapped(self) -> Scorecard:
        """The scorecard whose largest score decides, which may be this one."""
        c = self.calibration
        if c is None or not c.moves_decisions:
            return self
        z = self.z @ c.slope
        start = c.of(self.intercept)
        unseen = None if self.unseen is None else self.unseen @ c.slope
        return replace(self, z=z, intercept=start, unseen=unseen, calibration=None)

    def of_rule(self, rule: str) -> Scorecard:
        """Return the scorecard whose estimates a rule uses."""
        return self.mapped if rule == "map" else self

    def probabilities(self, codes: NDArray[Any]) -> Floats:
        """Return the class probabilities of codes: calibrated, or the nearest to t."""
        return self.probabilities_at(self.mapped.estimates(codes))

    def probabilities_at(self, t: Floats) -> Floats:
        """Return the class probabilities for the estimates t of the rule map."""
        c = self.calibration
        return project(t) if c is None else logistic(t, c.factor(self.n_classes))

    def match(self, m: Marginals) -> Match:
        """Return the points of every category of the marginals.

        Features are matched by name, classes by text, and categories as `predict`
        matches cells. An error names a column or class that does not match.

        Examples
        --------
        >>> import renyi
        >>> X, y = [["a"], ["b"]] * 9, [0, 1] * 9
        >>> card = renyi.RenyiClassifier().fit(X, y).scorecard_
        >>> m = renyi.Marginals.from_data([["b"], ["c"]] * 9, [0, 1] * 9)
        >>> card.match(m).points[0].round(2)
        array([-0.5,  0.5])
        """
        m, classes = self._aligned(m)
        tables, starts = self.tables
        pairs = zip(starts, recoding.codes_in(self.encoder, m), strict=True)
        points = tables[np.concatenate([s + codes for s, codes in pairs])]
        return Match(m, self.per_class(points), class_points(self)[1], classes)

    def _aligned(self, m: Marginals) -> tuple[Marginals, NDArray[np.intp]]:
        """Return the marginals of the model's features, and the class positions."""
        names = self.encoder.feature_names
        order = self.encoder.order
        if m.order != order:
            raise InputError(
                f"The marginals have order {m.order}, but the model has order {order}: "
                "count with that order.",
                f"order={order}",
                python=f"order={order}",
            )
        # A target without a name matches any name.
        named = all(str(v).rstrip("_") != _UNNAMED for v in (self.target, m.target))
        if self.target not in (None, m.target) and named:
            raise InputError(
                f"The model predicts {self.target!r}, but the target of the marginals "
                f"is {m.target!r}: give marginals of {self.target!r}.",
                python="Marginals.with_target() makes them",
            )
        known = set(m.feature_names)
        for name in names:
            if name not in known:
                raise ValueError(
                    f"The marginals have no column {name!r}, which is a feature of the "
                    "model."
                )
        whose = f"The target {m.target!r} of the marginals"
        classes = class_places(self, m.classes, whose)
        same = tuple(m.feature_names) == tuple(names)
        return m if same else m.select(names), classes

    def points_of(self, codes: NDArray[Any]) -> Floats:
        """Return the points of every feature at every row: (rows, features, 1 or K)."""
        tables, starts = self.tables
        return tables[codes.T + starts]

    @property
    def _reachable(self) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """The points that a row may get, the intercept and the sizes.

        Mean effects are left out: they never exceed the points that they average.
        """
        points = self._points if self.unseen is None else self.tables[0]
        sizes = self.encoder.columns.sizes + (self.unseen is not None)
        return points, self.intercept, sizes

    @cached_property
    def score_error(self) -> float:
        """Bound on the rounding error of a score, in `predict` or in its moments."""
        return score_error(*self._reachable)

    @cached_property
    def importance(self) -> Floats:
        """Standard deviation of each feature's points over the training rows."""
        sizes = self.encoder.columns.sizes
        weights = self.counts.astype(np.float64)
        starts = offsets(sizes)[:-1]
        off = (self._points - np.repeat(self.mean_points, sizes, axis=0)) ** 2
        spread = np.add.reduceat(weights * off.sum(axis=1), starts)
        return _frozen(np.sqrt(spread / np.add.reduceat(weights, starts)))

    def frame(self) -> pd.DataFrame:
        """Return the table of all points, the most important features first.

        Features with a single category add the same to every row and are left out.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> card = renyi.RenyiClassifier().fit(X, y).scorecard_
        >>> card.frame()["feature"].unique()[:2].tolist()
        ['physician-fee-freeze', 'adoption-of-the-budget-resolution']
        """
        import pandas as pd

        if self.mapped is not self:
            return self.mapped.frame()
        columns = self.encoder.columns
        sizes = self.encoder.columns.sizes
        starts = offsets(sizes)
        order = by_importance(self)
        order = order[sizes[order] > 1]
        places = [np.arange(starts[j], starts[j + 1]) for j in order]
        rows = np.concatenate([np.empty(0, np.intp), *places])
        totals = np.add.reduceat(self.counts, starts[:-1])[order]
        categories: list[str] = []
        for j in order.tolist():
            categories += columns[j].levels.texts
        table = {
            "feature": np.repeat([columns.names[j] for j in order], sizes[order]),
            "category": categories,
            "count": self.counts[rows],
            "share": self.counts[rows] / np.repeat(totals, sizes[order]),
        }
        names = point_names(self.classes, [*table])
        for name, points in zip(names, class_points(self)[0].T, strict=True):
            table[name] = points[rows]
        try:
            return pd.DataFrame(table)
        except UnicodeEncodeError:  # pandas stores a lone surrogate as an object only
            parts = [
                pd.Series(values, dtype=object if k < 2 else None)
                for k, values in enumerate(table.values())
            ]
            frame = pd.concat(parts, axis=1)
            return frame.set_axis(pd.Index(list(table), dtype=object), axis=1)

    def __str__(self) -> str:
        """Return the table as text, at most forty rows of it, and how to use it."""
        if self.mapped is not self:
            return str(self.mapped)
        frame = self.frame()
        points, intercept = class_points(self)
        signed = f"{{:+.{point_digits(np.abs(points).max(initial=0.0))}f}}".format
        style: Any = {"formatters": {"share": "{:.1%}".format}, "float_format": signed}
        text: str = frame[:40].to_string(index=False, **style)
        more = len(frame) - 40
        rest = [f"… and {more} more rows"] if more > 0 else []
        # Features with a single category add the same to every row.
        sizes = self.encoder.columns.sizes
        single = np.repeat(sizes == 1, sizes)
        starts = intercept + points[single].sum(axis=0)
        pairs = zip(map(label_text, self.classes), starts, strict=True)
        shown = ", ".join(f"{label} {signed(start)}" for label, start in pairs)
        use = f"A row starts from {shown}; it adds its points; the highest score wins."
        return "\n".join([text, *rest, use])

    def _repr_html_(self) -> str:
        style: Any = {"index": False, "border": 0, "float_format": "{:.4f}".format}
        return str(self.frame().to_html(max_rows=60, **style))

    def to_sql(
        self,
        dialect: str = "duckdb",
        label: Label | None = None,
        *,
        table: str | Sequence[str] | None = None,
    ) -> str:
        """Return an SQL expression of the score, or a query that scores a table.

        Parameters
        ----------
        dialect : {"duckdb", "postgres", "spark", "sqlite"}
            The database engine.
        label : label, optional
            The class of the score. For two classes the default is the second one, and
            the score equals `decision_function`.
        table : str or sequence of str, optional
            A table to score. The query returns its columns, the scores of all classes
            (``renyi_score``) and the answer of the rule map (``renyi_prediction``).
            The table must not have columns of these names.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> card = renyi.RenyiClassifier().fit(X, y).scorecard_
        >>> card.to_sql("postgres", "republican").count("+ CASE")
        16
        """
        from renyi.exports import sql

        if table is None:
            return sql.expression(self, dialect, label)
        if label is not None:
            raise ValueError("A query has the scores of all classes: give no label.")
        return sql.query(self, table, dialect)

    def to_text(self, format: str = "python", *, odds: float = 1.0) -> str:
        """Return the model as a table of points, or as a function in one file.

        Parameters
        ----------
        format : {"csv", "md", "python", "javascript"}
            A table in CSV or Markdown; a Python module with ``predict(row)`` and
            ``predict_proba(row)``; or a script with ``renyiModel``. Module and script
            need no package, and answer as the classifier does by the rule map.
        odds : float, default=1.0
            Factor on the odds of the second of two classes, if they differ from the
            training rows.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> card = renyi.RenyiClassifier().fit(X, y).scorecard_
        >>> len(card.to_text("csv").splitlines())
        66
        """
        from renyi.exports import formats

        return formats.text(self, format, odds)

    def to_onnx(self, *, odds: float = 1.0) -> bytes:
        """Return the model as the bytes of an ONNX file, which uses the rule map.

        The parameter `odds` is explained in `to_text`.

        Examples
        --------
        >>> import onnx, renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> card = renyi.RenyiClassifier().fit(X, y).scorecard_
        >>> len(onnx.load_from_string(card.to_onnx()).graph.input)
        16
        """
        from renyi.exports import onnx

        return onnx.model_bytes(self, odds)

    def rounded(
        self, max_points: int = 10, *, marginals: Marginals | None = None
    ) -> IntegerScorecard:
        """Return a card of small whole points, to add up by hand.

        Of many roundings, it is the one with the smallest guarantee.

        Parameters
        ----------
        max_points : int, default=10
            The most points of a category; the smallest of each feature is 0.
        marginals : Marginals, optional
            The pair counts for the guarantee, such as ``clf.marginals_``.

        Examples
        --------
        >>> import renyi
        >>> X, y = renyi.datasets.load("votes")
        >>> clf = renyi.RenyiClassifier().fit(X, y)
        >>> card = clf.scorecard_.rounded(5, marginals=clf.marginals_)
        >>> card.frame().head(3)
                        feature   category  points
        0  physician-fee-freeze          n       0
        1  physician-fee-freeze          y       5
        2  physician-fee-freeze  (missing)       2
        """
        from renyi.exports import integer_card

        return integer_card.rounded(self, max_points, marginals)

    def to_dict(self) -> dict[str, Any]:
        """Return the scorecard as plain values for JSON."""
        self._check_size()  # a file that fails this check could not be read again
        plain = {"encoder": self.encoder.to_dict(), "classes": list(self.classes)}
        plain |= {name: getattr(self, name).tolist() for name in _ARRAYS}
        if self.unseen is not None:
            plain["unseen"] = self.unseen.tolist()
        if self.calibration is not None:
            plain["calibration"] = self.calibration.to_dict()
        return plain

    @classmethod
    def from_dict(cls, data: object) -> Scorecard:
        """Check plain values, which may be untrusted, and return their scorecard."""
        optional = {"unseen": (list,), "calibration": (dict,)}
        check_fields(data, _FIELDS, "scorecard", optional)
        assert isinstance(data, dict)
        encoder = encoder_from_dict(data["encoder"])
        classes = data["classes"]
        check_class_list(classes)
        D = int(encoder.columns.sizes.sum())
        K = len(classes)
        width: tuple[int, ...] = () if K == 2 else (K,)
        counts = _numbers(data["counts"], (D,), "counts")
        starts = offsets(encoder.columns.sizes)[:-1]
        if counts.min() < 0 or np.maximum.reduceat(counts, starts).min() <= 0:
            raise ValueError("its counts are negative, or none at all in a column")
        z = _numbers(data["z"], (D, *width), "points")
        intercept = _numbers(data["intercept"], width, "intercept")
        unseen = data.get("unseen")
        stored = data.get("calibration")
        if unseen is not None:
            shape = (len(encoder.columns), 1 if K == 2 else K)
            unseen = _numbers(unseen, shape, "points of unseen labels")
        calibration = None if stored is None else Calibration.from_dict(stored, K)
        card = cls(
            encoder,
            tuple(classes),
            z,
            intercept,
            counts,
            unseen=unseen,
            calibration=calibration,
        )
        card._check_size()
        return card

    def _check_size(self) -> None:
        """Raise ValueError if the points or counts are too large to add up."""
        c = self.calibration
        with np.errstate(over="ignore", invalid="ignore"):
            largest = largest_sum(*self._reachable)
            if c is not None:
                slope = 1.0 if c.moves_decisions else max(1.0, float(c.slope))
                largest = max(largest, largest_sum(*self.mapped._reachable) * slope)
            squares = 4 * max(largest, 1) ** 2 * self.counts.sum(dtype=np.float64)
        if not largest <= _MOST_POINTS:
            raise ValueError(
                f"points of up to {largest:.3g} in a row are too large to add up to a "
                f"probability; {_MOST_POINTS:.0e} is the most"
            )
        if not np.isfinite(squares):
            raise ValueError("its counts are too large to add up")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the scorecard to a JSON file."""
        document: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        if self.target is not None:
            document["target"] = self.target
        document["scorecard"] = self.to_dict()
        write_json(path, document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scorecard:
        """Read the scorecard of a model file; the file may be untrusted."""
        data = read_json(path, FORMAT)
        with valid(path):
            card = cls.from_dict(data.get("scorecard"))
            target = data.get("target")
            return replace(card, target=target if isinstance(target, str) else None)


def scorecard_of(model: object) -> Scorecard:
    """Return the scorecard of a fitted classifier, or the scorecard itself."""
    card = getattr(model, "scorecard_", model)
    if not isinstance(card, Scorecard):
        raise TypeError(
            "The first argument must be a fitted classifier or a Scorecard, the second "
            f"the marginals or rows; the first is a {type(model).__name__}."
        )
    return card


def class_places(
    card: Scorecard, labels: Sequence[Label], whose: str
) -> NDArray[np.intp]:
    """Return the positions of classes among the model's; unknown ones are an error."""
    known = {label_text(label): k for k, label in enumerate(card.classes)}
    for label in labels:
        if label is None or label_text(label) not in known:
            raise ValueError(
                f"{whose} has the class {label!r}, which the model does not know."
            )
    return np.array([known[label_text(label)] for label in labels], np.intp)


def point_names(classes: Sequence[Label], own: Sequence[str]) -> list[str]:
    """Return a unique column name for the points of every class."""
    texts = [label_text(label) for label in classes]
    names = []
    for text in texts:
        name = text
        while name in own or (name != text and name in texts):
            name += " (points)"
        names.append(name)
    return names


def by_importance(card: Scorecard) -> NDArray[np.intp]:
    """Return the positions of the features, the most important first."""
    return np.argsort(-card.importance, kind="stable")


def class_points(card: Scorecard) -> tuple[Floats, Floats]:
    """Return points (D, K) and intercepts (K,) of every class."""
    intercept = card.per_class(np.atleast_2d(card.intercept))[0]
    return card.per_class(card._points), intercept


def threshold_at(card: Scorecard, odds: float) -> float:
    """Return the score above which the second class is likelier at changed odds.

    `odds` is the factor on the odds of the second class.
    """
    if card.calibration is None:
        return 1 / (1 + odds) - 0.5
    return -math.log(odds) / float(card.calibration.slope)


def moved_to(card: Scorecard, odds: float) -> Scorecard:
    """Return the scorecard whose threshold at these odds is 0."""
    return replace(card, intercept=card.intercept - threshold_at(card, odds))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
