"""RenyiClassifier and GenotypeClassifier, as estimators of scikit-learn.

What they learn and answer is in `renyi.estimators.model` and `genotype_model`.
"""

from __future__ import annotations

from functools import partialmethod
from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import validate_data

from renyi.estimators.genotype_model import GenotypeModel
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


class GenotypeClassifier(GenotypeModel, ClassifierMixin, BaseEstimator):
    """Two classes from genotypes, with points for every variant and genotype.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge penalty in mean form, as that of `RenyiClassifier`; "auto" minimises the
        mean of (s − y)² over samples that are left out.
    dominance : bool, default=True
        Points for each of two, one and no copies of an allele; False: points per copy.
    missing : {"category", "mean"}, default="category"
        A missing genotype is a category with points of its own, or counts as the mean
        of those observed at the variant in training.
    solver : {"auto", "exact", "cg"}, default="auto"
        One factorisation of n × n numbers, or conjugate gradients on products, for
        which samples are left out in five folds. "auto" factorises up to 15,000
        samples, if memory allows.
    device : {"cpu", "cuda"}, default="cpu"
        Where products are computed.
    random_state : int or None, default=None
        Seed of the folds, and of the samples by which "cg" chooses alpha.

    Attributes
    ----------
    points_ : ndarray of shape (d, 4)
        Points by code: two copies of A1, missing, one copy, none.
    intercept_ : float
        Score before any points; a positive score is for the second class.
    covariate_coef_ : ndarray of shape (q,)
        Points per unit of every covariate, fitted without penalty.
    alpha_, alpha_choice_ : float, AlphaChoice
        The penalty, and how it was chosen.
    left_out_ : ndarray of shape (n,)
        Estimate of P(second class) of every sample by a fit without it, or without its
        group or fold. Not cut off at 0 and 1.
    left_out_scores_ : ndarray of shape (n,)
        The same less the share of the second class among the samples of that fit: what
        scores of different fits are compared by, in `figures_` and in AUCs.
    left_out_genetic_ : ndarray of shape (n,)
        `left_out_` less what the covariates alone answer for a sample that is left out:
        what the genotypes add, of which R² is measured.
    left_out_cells_ : ndarray of shape (n,)
        Numbers of samples; those to which the fit gives the same score, as to samples
        of equal genotypes, have one, and are ties in AUCs. Each left out, a case among
        them would come below every control, its own class being taken away.
    loo_error_ : float
        Share of samples that `left_out_` gets wrong.
    figures_ : GenotypeFigures
        What the fit is worth on samples it has not seen.
    calibration_ : Calibration or None
        How scores become probabilities, fitted to `left_out_`.
    classes_ : ndarray of shape (2,)

    Notes
    -----
    Bounds over all distributions with the same pairs of marginals are of no use here:
    with more variants than samples the pairs admit a distribution for every answer, and
    in-sample risks are 0 for any labels at all.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.counting.packed import PackedGenotypes
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 60)
    >>> copies = rng.binomial(2, np.where(y == 1, 0.5, 0.3), (300, 60))
    >>> G = PackedGenotypes.from_codes(np.array([3, 2, 0])[copies])
    >>> clf = GenotypeClassifier().fit(G, y)
    >>> clf.points_.shape, clf.figures_.method, clf.loo_error_ < 0.1
    ((300, 4), 'leave-one-out', True)
    >>> bool((clf.predict(G) == y).all())
    True
    """
