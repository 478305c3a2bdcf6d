r"""Bundled data sets, and generators of synthetic ones.

The package contains the five UCI tables of the paper's experiments, as CSV files in
``data/``. The class is the last column, and ``?`` marks a missing cell. The authors are
named in ``data/README.md``. :func:`make_linear` generates the paper's
high-dimensional set. :func:`random_joint` and :func:`sample_joint` generate small joint
tables, for which every theorem can be checked by enumeration.

A joint table is an array ``P[x_1, ..., x_d, y]`` of probabilities. Its conditional
``P(y|x)`` decides how small a guarantee pair counts allow:

* ``additive``: :math:`P(y|x) = \sum_i w_i\, t_i(x_i, y)` with weights :math:`w` and
  every :math:`t_i(k, \cdot)` in the simplex. The least-squares score is then the
  conditional itself and the marginals are separable: additive scores reach the minimax
  Brier risk (the paper's gamma = theta).
* ``logistic``: :math:`P(y|x) \propto \exp \sum_i \beta_i(x_i, y)`, and ``dirichlet``,
  without any structure, are not separable in general.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:  # listing the names must not import numpy
    import numpy as np
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    Seed: TypeAlias = int | np.random.Generator | None
    Floats: TypeAlias = NDArray[np.float64]

__all__ = [
    "describe",
    "load",
    "make_linear",
    "names",
    "path",
    "random_joint",
    "sample_joint",
]

_FOLDER = Path(__file__).parent / "data"
_KINDS = ("dirichlet", "additive", "logistic")


class _Table(NamedTuple):
    """A bundled file, with the types of its columns, so that none is guessed."""

    file: str
    target: str
    source: str
    numeric: Mapping[str, str] = {}


# "Int64" (nullable) only where cells are missing: plain int64 is what users expect.
_TABLES = {
    "votes": _Table("votes.csv", "party", "UCI Congressional Voting Records"),
    "credit": _Table(
        "credit.csv",
        "class",
        "UCI Credit Approval",
        dict.fromkeys(("a2", "a3", "a8"), "float64")
        | {"a11": "int64", "a14": "Int64", "a15": "int64"},
    ),
    "kr-vs-kp": _Table("kr-vs-kp.csv", "class", "UCI Chess (King-Rook vs. King-Pawn)"),
    "promoters": _Table(
        "promoters.csv", "class", "UCI Molecular Biology (Promoter Gene Sequences)"
    ),
    "adult": _Table(
        "adult.csv.gz",
        "income",
        "UCI Adult",
        dict.fromkeys(("age", "fnlwgt", "education-num"), "int64")
        | dict.fromkeys(("capital-gain", "capital-loss", "hours-per-week"), "int64"),
    ),
}


def names() -> tuple[str, ...]:
    """Return the names of the bundled data sets.

    `load` and `path` accept these names, and so do the commands in place of a file:
    ``renyi fit votes``. They come with the package and need no network.

    See Also
    --------
    load : Load a data set.
    describe : Rows, columns and classes of each.

    Examples
    --------
    >>> from renyi import datasets
    >>> datasets.names()
    ('votes', 'credit', 'kr-vs-kp', 'promoters', 'adult')
    """
    return tuple(_TABLES)


def path(name: str) -> Path:
    """Return the file of a bundled data set, named as in `load`.

    It is a CSV file with a header, gzipped if large. The class is its last column, and
    ``?`` marks a missing cell. Use it to try a function that reads files, or another
    program, on the same rows.

    See Also
    --------
    names : The names.
    load : Load the rows and their classes.

    Examples
    --------
    >>> from renyi import datasets
    >>> datasets.path("votes").name
    'votes.csv'
    """
    return _FOLDER / _table(name).file


def load(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Load a bundled data set.

    The data sets are part of the package, so that examples run without a network.
    `describe` says where each comes from.

    Parameters
    ----------
    name : str
        One of `names()`; anything else is a ValueError.

    Returns
    -------
    X : pandas.DataFrame
        The features. Numeric columns are ``int64`` (``Int64`` where cells are
        missing) or ``float64``, all others strings; missing cells are missing values.
    y : pandas.Series
        The class of each row, as strings, named after the class column.

    See Also
    --------
    describe : Return the origin and size of a data set.
    names : List the data sets.

    Examples
    --------
    >>> from renyi import datasets
    >>> X, y = datasets.load("votes")
    >>> X.shape, y.name, sorted(set(y))
    ((435, 16), 'party', ['democrat', 'republican'])
    """
    import pandas as pd

    table = _table(name)
    # Only "?" is missing: pandas' own list would swallow labels such as "None".
    frame = pd.read_csv(
        _FOLDER / table.file,
        dtype=defaultdict(lambda: "str", table.numeric),
        na_values=["?"],
        keep_default_na=False,
    )
    return frame.drop(columns=table.target), frame[table.target]


def describe() -> pd.DataFrame:
    """Describe the bundled data sets, one row each, as counted in the data.

    The columns are ``name``, ``rows``, ``features``, ``numeric`` (numeric features),
    ``classes`` (how many), ``missing`` (missing cells), ``target`` (the class column),
    ``class_counts`` (rows of each class, the largest first) and ``source``.

    See Also
    --------
    load : Load a data set.

    Examples
    --------
    >>> from renyi import datasets
    >>> table = datasets.describe().set_index("name")
    >>> int(table.loc["credit", "rows"]), table.loc["credit", "class_counts"]
    (690, '-: 383; +: 307')
    """
    import pandas as pd

    rows = []
    for name in names():
        X, y = load(name)
        counts = y.value_counts()
        rows.append(
            {
                "name": name,
                "rows": len(X),
                "features": X.shape[1],
                "numeric": X.select_dtypes("number").shape[1],
                "classes": len(counts),
                "missing": int(X.isna().to_numpy().sum()),
                "target": str(y.name),
                "class_counts": "; ".join(f"{c}: {n:,}" for c, n in counts.items()),
                "source": _TABLES[name].source,
            }
        )
    return pd.DataFrame(rows)


def _table(name: str) -> _Table:
    if name in _TABLES:
        return _TABLES[name]
    close = get_close_matches(str(name).lower(), _TABLES, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(
        f"Unknown dataset {name!r}: the bundled ones are {', '.join(_TABLES)}{hint}"
    )


# ---- synthetic ones


def make_linear(
    n_samples: int = 200,
    n_features: int = 10_000,
    *,
    p: float = 0.7,
    nonzero: float = 0.3,
    noise: float = 1.0,
    random_state: Seed = None,
) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    r"""Make the paper's synthetic set: many binary features, a noisy linear label.

    The set has far more columns than rows, by default 10,000 columns and 200 rows.
    Features are independent with :math:`P(X_i = 1)` = `p`. A share `nonzero` of the
    weights :math:`\beta` is standard normal, the others are zero. The label is 1
    where :math:`X\beta + \varepsilon > 0`, :math:`\varepsilon` normal with standard
    deviation `noise`.

    Parameters
    ----------
    n_samples, n_features : int
        Rows and columns.
    p : float, default=0.7
        Probability of a 1 in every column.
    nonzero : float, default=0.3
        Share of the columns that have a weight, rounded to a whole number of them.
    noise : float, default=1.0
        Standard deviation of the noise added to the score.
    random_state : int, numpy.random.Generator or None, default=None
        Seed, or random generator.

    Returns
    -------
    X : ndarray of int8, shape (n_samples, n_features)
        Zeros and ones.
    y : ndarray of int64, shape (n_samples,)
        Labels 0 and 1.

    See Also
    --------
    random_joint : A random population of a few columns.
    sample_joint : Independent rows of a population.

    Notes
    -----
    The score has mean :math:`p \sum_i \beta_i`, far from zero, so labels are
    *unbalanced*. With the defaults, always predicting the majority is wrong on 16 % of
    the rows on average, and one set in ten has a single class. Use it to measure speed
    rather than accuracy, and report the majority's error next to any other.

    Examples
    --------
    >>> from renyi.datasets import make_linear
    >>> X, y = make_linear(50, 100, random_state=0)
    >>> X.shape, X.dtype, sorted(set(y.tolist()))
    ((50, 100), dtype('int8'), [0, 1])
    >>> float(y.mean())
    0.02
    """
    import numpy as np

    for name, share in (("p", p), ("nonzero", nonzero)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name}={share!r} must lie between 0 and 1.")
    if not noise >= 0:
        raise ValueError(f"noise={noise!r} must not be negative.")
    rng = np.random.default_rng(random_state)
    X = (rng.random((n_samples, n_features), dtype=np.float32) < p).astype(np.int8)
    chosen = rng.choice(n_features, round(nonzero * n_features), replace=False)
    score = X[:, chosen] @ rng.standard_normal(len(chosen))
    score += noise * rng.standard_normal(n_samples)
    return X, (score > 0).astype(np.int64)


def random_joint(
    sizes: Sequence[int],
    n_classes: int = 2,
    *,
    kind: Literal["dirichlet", "additive", "logistic"] = "dirichlet",
    concentration: float = 0.5,
    random_state: Seed = None,
) -> Floats:
    """Draw a random joint probability table of some features and a label.

    Use it to check a bound against populations that are known exactly.

    Parameters
    ----------
    sizes, n_classes : sequence of int, int
        Numbers of categories of the features, number of classes.
    kind : {"dirichlet", "additive", "logistic"}, default="dirichlet"
        Shape of P(y|x), as the module describes. ``"additive"`` tables are separable,
        the others in general are not.
    concentration : float, default=0.5
        Dirichlet parameter of every cell (of P(x, y) for ``"dirichlet"``, of P(x) for
        the others): the smaller, the fewer outcomes carry the probability.
    random_state : int, numpy.random.Generator or None, default=None
        As in `make_linear`.

    Returns
    -------
    ndarray of float64, shape (m_1, …, m_d, K)
        Non-negative, summing to one; the label is the last axis.

    See Also
    --------
    sample_joint : Draw rows from the table.

    Examples
    --------
    >>> from renyi.datasets import random_joint
    >>> table = random_joint([2, 3], n_classes=3, kind="additive", random_state=0)
    >>> table.shape, round(float(table.sum()), 12)
    ((2, 3, 3), 1.0)
    """
    import numpy as np

    sizes = tuple(sizes)
    if not sizes or min(sizes) < 1:
        raise ValueError(f"sizes={sizes!r} must be one positive integer per feature.")
    if n_classes < 1:
        raise ValueError(f"n_classes={n_classes!r} must be a positive integer.")
    if not 0 < concentration < np.inf:
        raise ValueError(f"concentration={concentration!r} must be positive.")
    if kind not in _KINDS:
        kinds = ", ".join(_KINDS)
        raise ValueError(f"Unknown kind {kind!r}: choose one of {kinds}.")
    rng = np.random.default_rng(random_state)
    conditional: Any = 1.0
    if kind == "additive":
        weights = rng.dirichlet(np.ones(len(sizes)))
        terms = [rng.dirichlet(np.ones(n_classes), size=m) for m in sizes]
        conditional = _outer_sum([w * t for w, t in zip(weights, terms, strict=True)])
    elif kind == "logistic":
        # A deviation of 2 gives conditionals near 0 and 1, where additive scores fail.
        scores = _outer_sum([2.0 * rng.standard_normal((m, n_classes)) for m in sizes])
        odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
        conditional = odds / odds.sum(axis=-1, keepdims=True)
    shape = (*sizes, n_classes) if kind == "dirichlet" else (*sizes, 1)
    cells = rng.dirichlet(np.full(math.prod(shape), concentration))
    return np.asarray(cells.reshape(shape) * conditional)


def _outer_sum(terms: list[Floats]) -> Any:
    """Return the sum_i terms[i][x_i, y] as an array over (x_1, ..., x_d, y)."""
    total: Any = 0.0
    for axis, term in enumerate(terms):
        shape = [1] * len(terms) + [term.shape[1]]
        shape[axis] = term.shape[0]
        total = total + term.reshape(shape)
    return total


def sample_joint(
    table: ArrayLike, n_samples: int, random_state: Seed = None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw independent rows from a joint table.

    The population is then known, so that the true error of a model is a sum over the
    table.

    Parameters
    ----------
    table : array-like of float, shape (m_1, …, m_d, K)
        Probabilities, as `random_joint` returns them; anything else is a ValueError.
    n_samples : int
        Rows to draw.
    random_state : int, numpy.random.Generator or None, default=None
        As in `make_linear`.

    Returns
    -------
    X : ndarray of int64, shape (n_samples, d)
        Category of every feature, counted from 0.
    y : ndarray of int64, shape (n_samples,)
        Class, counted from 0.

    See Also
    --------
    random_joint : Draw a table.

    Examples
    --------
    >>> from renyi.datasets import random_joint, sample_joint
    >>> table = random_joint([2, 3, 2], random_state=0)
    >>> X, y = sample_joint(table, 5, random_state=0)
    >>> X.shape, y.shape
    ((5, 3), (5,))
    """
    import numpy as np

    P = np.asarray(table, dtype=np.float64)
    if P.ndim < 2:
        raise ValueError(
            f"table has {P.ndim} axes: give one per feature, and one for the label."
        )
    if not P.min(initial=0.0) >= 0:
        raise ValueError("table contains a negative or missing probability: remove it.")
    total = P.sum()
    if not np.isclose(total, 1.0, rtol=0, atol=1e-6):
        raise ValueError(f"table sums to {total:.6g}: divide it by its sum first.")
    rng = np.random.default_rng(random_state)
    cells = rng.choice(P.size, size=n_samples, p=P.ravel() / total)
    *features, y = np.unravel_index(cells, P.shape)
    return np.stack(features, axis=1).astype(np.int64), y.astype(np.int64)
