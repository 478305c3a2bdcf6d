"""RenyiClassifier, as an estimator of scikit-learn.

What it learns and answers is in `renyi.estimators.model`.
"""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from renyi.estimators.model import CountsModel, RenyiModel


class CountsClassifier(CountsModel, ClassifierMixin, BaseEstimator):
    """Base of the classifiers that are trained from counts."""

    _check_columns: Any = partialmethod(validate_data, skip_check_array=True)


class RenyiClassifier(RenyiModel, CountsClassifier):
    """Classifier for categorical data, trained from counts of pairs alone.

    Parameters
    ----------
    order : int, default=1
        Number of columns in a feature.
    alpha : float or {"auto", "loo"}, default="auto"
        Ridge penalty in mean form, the paper's lambda: ``(Q + alpha·I) z = dvec/2``;
        scikit-learn's Ridge calls n · alpha its alpha. "loo" minimises the
        leave-one-out risk; "auto" does so where rows are at hand and it is affordable,
        and takes generalised cross-validation where only marginals are given or rows
        far outnumber the categories, when the two agree.
    rule : {"map", "renyi", "sharp"}, default="map"
        How an answer follows from the scores. "renyi" and "sharp" answer at random,
        with a smaller bound in closed form.
    fit_intercept : bool, default=True
        Whether to fit an intercept without penalty; False is the paper's literal form.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in training. Certificates still speak of the unweighted
        marginals, with the pairs within each class.
    encoder : Encoder, optional
        How cells become categories.
    random_state : int, RandomState instance or None, default=None
        Seed of the randomised rules. With an integer a row gets the same answer
        whenever it is asked for.
    calibration : {"auto", "temperature", "affine", "discriminant"} or None, \
default="auto"
        How scores become probabilities, and with K > 2 classes decisions of map: by
        one slope ("temperature", moves no decision), logistic regression on the scores
        ("affine"), both fitted to leave-one-out scores of rows, or a "discriminant",
        from pairs alone. "auto" is a temperature for two classes (from marginals None),
        else affine, from marginals or fewer than 10·K² rows the discriminant. None is
        the paper's: the probabilities nearest to the scores.
    objective : {"error", "ranking"}, default="error"
        What the points are best at: the squared error, or for two classes the certified
        AUC of `Certificate`: ``(Σ_0 + Σ_1 + 2·alpha·I) z ∝ μ_1 − μ_0``, from rows or
        pairs counted within the classes. Least squares then scale and centre the score,
        so that rules, threshold and probabilities mean what they mean otherwise.

    Attributes
    ----------
    z_ : ndarray of shape (D,), or (D, K) for K > 2 classes
        Points of every category before any calibration; for two classes those of the
        second one.
    intercept_ : float, or ndarray of shape (K,)
        Score before any points, and before any calibration.
    alpha_ : float
        The penalty used.
    alpha_choice_ : AlphaChoice
        How it was chosen.
    scorecard_ : Scorecard
        The model as a table of points.
    certificate_ : Certificate
        The worst error of the model; computed when first asked for.
    marginals_ : Marginals or None
        The counts behind the model; None if there were more categories than rows.
    data_digest_ : DataDigest or None
        Digest of the training data, as in ``m.digest``; None if a model file of before
        digests does not tell.
    classes_, encoder_, n_features_in_, feature_names_in_
        The classes, the fitted encoder, number and names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> import renyi
    >>> X, y = renyi.datasets.load("votes")
    >>> clf = renyi.RenyiClassifier().fit(X, y)
    >>> clf.predict(X[:3]).tolist()
    ['republican', 'republican', 'democrat']
    >>> round(clf.certificate_.gamma, 4)
    0.0305
    >>> why = clf.explain(X[:2])
    >>> np.allclose(why.sum(axis=1), clf.decision_function(X[:2]))
    True
    """
