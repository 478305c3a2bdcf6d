"""The scikit-learn estimator of genotypes; commands do not import it."""

from __future__ import annotations

from sklearn.base import BaseEstimator, ClassifierMixin

from renyi.genotypes.model import GenotypeModel


class GenotypeClassifier(GenotypeModel, ClassifierMixin, BaseEstimator):
    """Classify genotypes into two classes, with points for every variant and genotype.

    Use it for many more variants than samples, from PLINK files that `read_genotypes`
    reads. The error to expect is `loo_error_`.

    Parameters
    ----------
    alpha : float or "auto", default="auto"
        Ridge penalty in mean form, as in `RenyiClassifier`; "auto" minimises the mean
        of (s − y)² over left-out samples.
    dominance : bool, default=True
        Separate points for two, one and no copies of an allele; False: points per copy.
    missing : {"category", "mean"}, default="category"
        A missing genotype is a category with separate points, or counts as the mean of
        the genotypes observed at the variant in training.
    solver : {"auto", "exact", "cg"}, default="auto"
        "exact" factors an n × n matrix. "cg" uses conjugate gradients, and leaves out
        samples in five folds. "auto" is "exact" for up to 15,000 samples, if memory
        allows.
    device : {"cpu", "cuda"}, default="cpu"
        Where products are computed.
    random_state : int or None, default=None
        Seed of the folds, and of the samples by which "cg" chooses alpha.

    Attributes
    ----------
    points_ : ndarray of shape (d, 4)
        Points by code: two copies of A1, missing, one copy, none.
    intercept_ : float
        Score before any points; a positive score means the second class.
    covariate_coef_ : ndarray of shape (q,)
        Points per unit of every covariate, fitted without penalty.
    alpha_, alpha_choice_ : float, AlphaChoice
        The penalty, and how it was chosen.
    left_out_ : ndarray of shape (n,)
        Estimate of P(second class) of every sample by a fit without it, or without its
        group or fold. It is not limited to 0 and 1.
    left_out_scores_ : ndarray of shape (n,)
        `left_out_` minus the share of the second class in that fit, so that scores of
        different fits can be compared.
    left_out_genetic_ : ndarray of shape (n,)
        `left_out_` minus the estimate of the covariates alone; R² is measured on it.
    left_out_cells_ : ndarray of shape (n,)
        A number for each sample. Samples with the same score in the whole fit share it
        and are ties in AUCs; left out, each would rank below the other class.
    loo_error_ : float
        Error rate of `left_out_`.
    metrics_ : GenotypeMetrics
        Figures on left-out samples.
    calibration_ : Calibration or None
        How scores become probabilities, fitted to `left_out_`.
    classes_ : ndarray of shape (2,)

    See Also
    --------
    read_genotypes : Read the genotypes of a study.
    GenotypeScores : The model as a file of points.

    Notes
    -----
    Guide: :doc:`/guides/genetics`.

    Examples
    --------
    >>> import numpy as np
    >>> from renyi.genotypes.packed import PackedGenotypes
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 60)
    >>> copies = rng.binomial(2, np.where(y == 1, 0.5, 0.3), (300, 60))
    >>> G = PackedGenotypes.from_codes(np.array([3, 2, 0])[copies])
    >>> clf = GenotypeClassifier().fit(G, y)
    >>> clf.points_.shape, clf.metrics_.method, clf.loo_error_ < 0.1
    ((300, 4), 'leave-one-out', True)
    >>> bool((clf.predict(G) == y).all())
    True
    """
