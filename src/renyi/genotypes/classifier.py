"""GenotypeClassifier, as an estimator of scikit-learn, which commands do not load."""

from __future__ import annotations

from sklearn.base import BaseEstimator, ClassifierMixin

from renyi.genotypes.model import GenotypeModel


class GenotypeClassifier(GenotypeModel, ClassifierMixin, BaseEstimator):
    """Two classes from genotypes, with points for every variant and genotype.

    Use it for many more variants than samples, from PLINK files that `read_genotypes`
    reads. The error to expect is `loo_error_`.

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
        scores of different fits are compared by.
    left_out_genetic_ : ndarray of shape (n,)
        `left_out_` less what the covariates alone answer: of it R² is measured.
    left_out_cells_ : ndarray of shape (n,)
        Numbers of samples; those with the same score by the whole fit have one, and are
        ties in AUCs, where each left out would come below the other class.
    loo_error_ : float
        Share of samples that `left_out_` gets wrong.
    metrics_ : GenotypeMetrics
        What the fit is worth on samples it has not seen.
    calibration_ : Calibration or None
        How scores become probabilities, fitted to `left_out_`.
    classes_ : ndarray of shape (2,)

    See Also
    --------
    read_genotypes : Read the genotypes of a study.
    GenotypeScores : The model as a file of points.

    Notes
    -----
    :doc:`/guides/genetics` is a complete example.

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
