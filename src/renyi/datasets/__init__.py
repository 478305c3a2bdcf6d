"""Bundled data sets, and generators of synthetic ones.

The five UCI tables of the paper's experiments travel with the package: ``data/`` holds
one CSV per set, class in the last column, ``?`` for a missing cell;
``data/README.md`` names the people the sets are owed to. The generators make the
paper's high-dimensional set (:func:`make_linear`) and small joint tables for which
every theorem can be checked by enumeration (:func:`random_joint`,
:func:`sample_joint`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

    from renyi.datasets.synthetic import make_linear, random_joint, sample_joint

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
_SYNTHETIC = frozenset({"make_linear", "random_joint", "sample_joint"})


def __getattr__(name: str) -> Any:
    # The generators need numpy; listing the bundled names must not wait for it.
    if name in _SYNTHETIC:
        from renyi.datasets import synthetic

        return getattr(synthetic, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SYNTHETIC})


class _Table(NamedTuple):
    """A bundled file; how a column is encoded must not hang on a guess of its type."""

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
    """Return the names of the bundled data sets, which `load` and `path` accept.

    Examples
    --------
    >>> from renyi import datasets
    >>> datasets.names()
    ('votes', 'credit', 'kr-vs-kp', 'promoters', 'adult')
    """
    return tuple(_TABLES)


def path(name: str) -> Path:
    """Return the file of a bundled data set, named as in `load`.

    It is a CSV file, gzipped if large, with a header; the class is its last column and
    ``?`` marks a missing cell.

    Examples
    --------
    >>> from renyi import datasets
    >>> datasets.path("votes").name
    'votes.csv'
    """
    return _FOLDER / _table(name).file


def load(name: str) -> tuple[pd.DataFrame, pd.Series]:
    """Load a bundled data set.

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
