"""Scorecard: the model, as points per category and class.

The score of class y at a row x is ``s_y(x) = intercept_y + Σ_i points_i(x_i, y)``, and
``t_y = 1/K + s_y`` estimates P(y|x). For two classes s_0 = −s_1, so one column of
points is enough. A label unseen in training gets the feature's mean effect.

A calibration (`renyi.solvers.calibration`) turns scores into probabilities. It may
change decisions. Then the rule map, tables, SQL and explanations use the points of the
scorecard `mapped`. The rules renyi and sharp always use t.

`Scorecard.match` looks up the points of the categories in any marginals. Each category
gets the points that `predict` gives to a cell with its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from renyi import scorecard_file
from renyi.counting.onehot import (
    feature_means,
    lookup_sum,
    offsets,
    score_error,
)
from renyi.encoding import recoding
from renyi.encoding.columns import Label
from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import TupleEncoder
from renyi.files import Sink, read_json, valid, write_json
from renyi.formatting import listed
from renyi.rules import Scorer
from renyi.scorecard_file import FORMAT, VERSION
from renyi.solvers.calibration import Calibration
from renyi.validation import InputError, ParameterError, is_number

if TYPE_CHECKING:
    import os

    import pandas as pd

    from renyi.exports.integer_card import IntegerScorecard
    from renyi.marginals.marginals import Marginals
    from renyi.solvers import Solver

Floats = NDArray[np.float64]


class Match(NamedTuple):
    """Marginals with the points that a scorecard gives to each of their categories."""

    marginals: Marginals  # of the model's features, in its order
    points: Floats  # (categories, K)
    intercept: Floats  # (K,)
    classes: NDArray[np.intp]  # place of each class of the marginals in the model


@dataclass(frozen=True, eq=False)
class Scorecard(Scorer):
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
        Training rows (or weight) in each category; they define the mean effect. All
        are 0 if they are not known; then each category counts as one.
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
        given = ("z", "intercept", "counts", "unseen")
        for name in given if self.unseen is not None else given[:3]:
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

    @classmethod
    def from_model(
        cls,
        model: Any,
        marginals: Marginals | None = None,
        *,
        threshold: float = 0.0,
        classes: Sequence[Label] | None = None,
    ) -> Scorecard:
        """Return the scorecard of a model made elsewhere, with the same scores.

        The model must add up one number per column. These are: pipelines that encode
        each column (OneHotEncoder, OrdinalEncoder, KBinsDiscretizer, ColumnTransformer)
        and end in a linear model or CategoricalNB of scikit-learn; explainable boosting
        machines without interactions; tables of points. All others are an error.

        Parameters
        ----------
        model : fitted classifier, frame or path
            A frame, or a CSV file, has the columns feature, category, points and
            perhaps class.
        marginals : Marginals, optional
            Pair counts. They give the scorecard the counts of its categories, and say
            which labels mean a missing cell.
        threshold : float, default=0.0
            Score above which the second of two classes is answered; it is subtracted
            from all scores.
        classes : sequence of two labels, optional
            The classes of a table that has points of one class; by default those of the
            marginals. The second is answered above the threshold.

        Returns
        -------
        Scorecard
            Its score is the model's ``decision_function``, or its log-odds.

        See Also
        --------
        certify : Takes such a model as it is.

        Notes
        -----
        Guide: :doc:`/your-model`. Only the rule map has guarantees: the others need
        scores that estimate probabilities. Margins, such as those of support vector
        machines, are no log-odds; the probability ``1 / (1 + exp(-score))`` only keeps
        their order.

        Examples
        --------
        >>> import renyi
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import OneHotEncoder
        >>> X, y = renyi.datasets.load("votes")
        >>> encoder = OneHotEncoder(handle_unknown="ignore")
        >>> model = make_pipeline(encoder, LogisticRegression()).fit(X, y)
        >>> card = renyi.Scorecard.from_model(model)
        >>> m = renyi.Marginals.from_data(X, y, encoder=card.encoder)
        >>> print(f"{renyi.certify(card, m).bounds['map']:.1%}")
        16.5%
        """
        from renyi.additive_models import read_model
        from renyi.point_tables import as_table, read_table

        if not is_number(threshold):
            raise ParameterError(
                "threshold", f"must be a finite number, not {threshold!r}."
            )
        table = as_table(model)
        if table is not None:
            read = read_table(table, marginals, classes)
        elif classes is not None:
            raise TypeError("classes is for tables of points: a model has its own.")
        else:
            read = read_model(model)
        if threshold and len(read.classes) > 2:
            raise InputError(
                "{threshold} is for two classes: leave it out.", threshold=threshold
            )
        if marginals is not None:
            read = read.spelled_as(marginals)
        card = cls(**read.fields(marginals))
        if marginals is not None:
            aligned = card.match(marginals).marginals
            counts = read.counts(card.encoder, aligned)
            card = replace(card, counts=counts, target=marginals.target)
        read.check_scores(card)
        return replace(card, intercept=card.intercept - threshold)

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Freeze the arrays again: pickles and deep copies make them writable."""
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                _frozen(value)

    @cached_property
    def _points(self) -> Floats:
        """Points with one column, or one per class."""
        return self.z.reshape(len(self.z), -1)

    @cached_property
    def mean_points(self) -> Floats:
        """Mean effect of each feature: one row per feature."""
        sizes = self.encoder.columns.sizes
        return _frozen(feature_means(self._points, self.weights, sizes))

    @property
    def weights(self) -> Floats:
        """Counts of the categories, ones if they are not known."""
        known = bool(self.counts.any())
        return self.counts.astype(np.float64) if known else np.ones(len(self.counts))

    @property
    def of_estimates(self) -> bool:
        """Whether the scores estimate class probabilities, less 1/K.

        Other scores only decide: no bound of gamma or of a random rule is about them.
        """
        return self.calibration is None or self.calibration.of_estimates

    @cached_property
    def tables(self) -> tuple[Floats, NDArray[np.int64]]:
        """Points with one more row per feature for unseen labels, and the starts."""
        sizes = self.encoder.columns.sizes
        ends = offsets(sizes)[1:]
        unseen = self.mean_points if self.unseen is None else self.unseen
        tables = np.insert(self._points, ends, unseen, axis=0)
        return _frozen(np.ascontiguousarray(tables)), offsets(sizes + 1)[:-1]

    def scores(self, codes: NDArray[Any]) -> Floats:
        """Return the scores (rows × 1 or K) of codes made by the encoder."""
        tables, starts = self.tables
        return lookup_sum(codes, tables, starts) + self.intercept

    def _multiplied(self, slope: Floats) -> Scorecard:
        """Return the scorecard of K classes with its points times a matrix (K × K)."""
        unseen = None if self.unseen is None else self.unseen @ slope
        return replace(self, z=self.z @ slope, unseen=unseen)

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
        m = recoding.of_features(self.encoder, self.target, m)
        whose = f"The target {m.target!r} of the marginals"
        classes = recoding.class_places(self.classes, m.classes, whose)
        tables, starts = self.tables
        codes_of = recoding.codes_in(self.encoder, m)
        if not self.of_estimates:
            self._check_labels(m, codes_of)
        pairs = zip(starts, codes_of, strict=True)
        points = tables[np.concatenate([s + codes for s, codes in pairs])]
        return Match(m, self.per_class(points), class_points(self)[1], classes)

    def _check_labels(self, m: Marginals, codes_of: list[NDArray[np.intp]]) -> None:
        """Raise ValueError if no row has a label of some column that the model knows.

        Then labels are written in another way than where the model was made.
        """
        tables, starts = self.tables
        sizes = self.encoder.columns.sizes
        theirs = m.encoder.columns
        rows = np.split(m.feature_counts.diagonal(), offsets(theirs.sizes)[1:-1])
        for j, (codes, size) in enumerate(zip(codes_of, sizes, strict=True)):
            labels = np.array([v is not None for v in theirs[j].categories])
            present = labels & (rows[j] > 0)
            points = tables[starts[j] : starts[j] + size + 1]
            known = codes[present] < size
            if not present.any() or known.any() or not np.ptp(points, axis=0).any():
                continue
            own = listed(self.encoder.columns[j].levels.with_missing(False).texts)
            other = listed(np.array(theirs[j].levels.texts, object)[present].tolist())
            raise ValueError(
                f"The model knows no label of column {theirs[j].name!r} that rows of "
                f"the marginals have ({other}); it knows {own}. Count the rows with "
                "the labels that the model was trained on."
            )

    def points_of(self, codes: NDArray[Any]) -> Floats:
        """Return the points of every feature at every row: (rows, features, 1 or K)."""
        tables, starts = self.tables
        return tables[codes.T + starts]

    @property
    def reachable(self) -> tuple[Floats, Floats, NDArray[np.intp]]:
        """The points that a row may get, the intercept and the sizes.

        Mean effects are left out: they never exceed the points that they average.
        """
        points = self._points if self.unseen is None else self.tables[0]
        sizes = self.encoder.columns.sizes + (self.unseen is not None)
        return points, self.intercept, sizes

    @cached_property
    def score_error(self) -> float:
        """Bound on the rounding error of a score, in `predict` or in its moments."""
        return score_error(*self.reachable)

    @cached_property
    def importance(self) -> Floats:
        """Standard deviation of each feature's points over the training rows."""
        sizes = self.encoder.columns.sizes
        weights = self.weights
        starts = offsets(sizes)[:-1]
        off = (self._points - np.repeat(self.mean_points, sizes, axis=0)) ** 2
        spread = np.add.reduceat(weights * off.sum(axis=1), starts)
        return _frozen(np.sqrt(spread / np.add.reduceat(weights, starts)))

    @property
    def column_importances(self) -> Floats:
        """Importance of each column of the table, as shares of their sum.

        Columns of one feature share its importance equally. All are 0 if no feature
        has any.
        """
        own = self.importance
        encoder = self.encoder
        if isinstance(encoder, TupleEncoder):
            features = own
            own = np.zeros(len(encoder.base))
            for members, value in zip(encoder.members, features, strict=True):
                own[[*members]] += value / len(members)
        total = float(own.sum())
        return own / total if total > 0 else np.zeros(len(own))

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
        from renyi.exports import points

        return points.frame(self)

    def __str__(self) -> str:
        """Return the table as text, at most forty rows of it, and how to use it."""
        from renyi.exports import points

        return points.plain_text(self)

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
        return scorecard_file.plain(self)

    @classmethod
    def from_dict(cls, data: object) -> Scorecard:
        """Check plain values, which may be untrusted, and return their scorecard."""
        card = cls(**scorecard_file.fields_of(data))
        scorecard_file.check_size(card)
        return card

    def save(self, path: Sink) -> None:
        """Write the scorecard to a JSON file."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": VERSION,
        }
        if self.target is not None:
            document["target"] = self.target
        document["scorecard"] = self.to_dict()
        write_json(path, document)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scorecard:
        """Read the scorecard of a model file; the file may be untrusted."""
        data = read_json(path, FORMAT)
        with valid(path):
            if "kernel" in data:
                raise ValueError("it is a model of every order, not a scorecard")
            card = cls.from_dict(data.get("scorecard"))
            target = data.get("target")
            return replace(card, target=target if isinstance(target, str) else None)


def scorer_of(model: object, threshold: float = 0.0) -> Scorer:
    """Return what scores rows: of every order, or a scorecard."""
    kernel = getattr(model, "kernel_", model)
    if isinstance(kernel, Scorer):
        _check_no_threshold(threshold)
        return kernel
    return scorecard_of(model, threshold=threshold)


def scorecard_of(
    model: object,
    m: Marginals | None = None,
    *,
    threshold: float = 0.0,
    classes: Sequence[Label] | None = None,
) -> Scorecard:
    """Return the scorecard of a fitted classifier, or the scorecard itself.

    Of a model made elsewhere, it has the counts of the marginals. Only such a model
    takes a threshold, and only a table of points takes classes.
    """
    if hasattr(model, "kernel_"):
        raise ValueError(
            "A model of every order is not a scorecard, and has no guarantee from "
            "pair counts: give rows that were not used in training, or a model of "
            "order 1 or 2."
        )
    card = getattr(model, "scorecard_", model)
    if not isinstance(card, Scorecard):
        return Scorecard.from_model(model, m, threshold=threshold, classes=classes)
    _check_no_threshold(threshold)
    return card


def _check_no_threshold(threshold: float) -> None:
    if threshold:
        raise InputError(
            "{threshold} is for models made elsewhere, and for tables of points: leave "
            "it out.",
            threshold=threshold,
        )


def by_importance(card: Scorecard) -> NDArray[np.intp]:
    """Return the positions of the features, the most important first.

    Columns in two forms are as important as each other, whatever rounding does.
    """
    return np.argsort(-card.importance.round(12), kind="stable")


def class_points(card: Scorecard) -> tuple[Floats, Floats]:
    """Return points (D, K) and intercepts (K,) of every class."""
    intercept = card.per_class(np.atleast_2d(card.intercept))[0]
    return card.per_class(card._points), intercept


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array
