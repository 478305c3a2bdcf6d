"""Bundled tables against their published figures; generators against their claims."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog

from renyi import datasets
from support.joints import moments

# rows, features, numeric, missing cells, target, class counts
PUBLISHED = {
    "votes": (435, 16, 0, 392, "party", {"democrat": 267, "republican": 168}),
    "credit": (690, 15, 6, 67, "class", {"-": 383, "+": 307}),
    "kr-vs-kp": (3196, 36, 0, 0, "class", {"won": 1669, "nowin": 1527}),
    "promoters": (106, 57, 0, 0, "class", {"promoter": 53, "other": 53}),
    "adult": (48842, 14, 6, 6465, "income", {"<=50K": 37155, ">50K": 11687}),
}


def raw_rows(name: str) -> list[list[str]]:
    file = datasets.path(name)
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def brier_of_conditional(table: np.ndarray) -> float:
    """E[1 - sum_y P(y|X)^2]."""
    P = table.reshape(-1, table.shape[-1])
    px = P.sum(axis=1)
    return float(1 - np.sum(P[px > 0] ** 2 / px[px > 0, None]))


def brier_of_additive(table: np.ndarray) -> float:
    """min_Z B(Z) = 1 - tr(F' Q^+ F), from pairwise marginals alone."""
    Q, F = moments(table)
    Z = np.linalg.lstsq(Q, F, rcond=1e-12)[0]
    return float(1 - np.sum(F * Z))


def test_names_are_the_five_sets() -> None:
    assert datasets.names() == tuple(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_figures(name: str) -> None:
    rows, features, numeric, missing, target, classes = PUBLISHED[name]
    X, y = datasets.load(name)
    assert X.shape == (rows, features)
    assert X.isna().to_numpy().sum() == missing
    assert X.select_dtypes("number").shape[1] == numeric
    assert (y.name, y.isna().sum()) == (target, 0)
    assert y.value_counts().to_dict() == classes


@pytest.mark.parametrize("name", ["votes", "credit", "kr-vs-kp", "promoters"])
def test_every_cell_is_the_files(name: str) -> None:
    header, *rows = raw_rows(name)
    X, y = datasets.load(name)
    assert [*X.columns, y.name] == header
    frame = X.assign(**{str(y.name): y})
    for position, column in enumerate(header):
        kind = float if pd.api.types.is_numeric_dtype(frame[column]) else str
        expected = [None if r[position] == "?" else kind(r[position]) for r in rows]
        actual = [None if pd.isna(cell) else kind(cell) for cell in frame[column]]
        assert actual == expected, column


def test_column_types() -> None:
    X, y = datasets.load("credit")
    integers = {"a11": "int64", "a14": "Int64", "a15": "int64"}
    types = dict.fromkeys(X.columns, "str") | dict.fromkeys(
        ("a2", "a3", "a8"), "float64"
    )
    text = str(pd.Series(["a"], dtype="str").dtype)  # "object" before pandas 3
    expected = {c: text if t == "str" else t for c, t in (types | integers).items()}
    assert {column: str(dtype) for column, dtype in X.dtypes.items()} == expected
    assert str(y.dtype) == text


def test_adult_numbers_are_integers() -> None:
    X, _ = datasets.load("adult")
    numbers = X.select_dtypes("number")
    assert list(numbers) == [
        "age",
        "fnlwgt",
        "education-num",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
    ]
    assert set(map(str, numbers.dtypes)) == {"int64"}
    assert (numbers["age"].min(), numbers["age"].max()) == (17, 90)


def test_describe_agrees_with_the_published_table() -> None:
    table = datasets.describe()
    assert list(table["name"]) == list(PUBLISHED)
    for row in table.itertuples():
        rows, features, numeric, missing, target, classes = PUBLISHED[row.name]
        assert (row.rows, row.features, row.numeric) == (rows, features, numeric)
        assert (row.missing, row.target, row.classes) == (missing, target, 2)
        for label, count in classes.items():
            assert f"{label}: {count:,}" in row.class_counts
        assert row.source.startswith("UCI ")


def test_attribution_names_every_file() -> None:
    readme = (datasets.path("votes").parent / "README.md").read_text(encoding="utf-8")
    assert "CC BY 4.0" in readme
    for name in datasets.names():
        assert datasets.path(name).is_file()
        assert datasets.path(name).name in readme


def test_load_returns_independent_copies() -> None:
    X, _ = datasets.load("votes")
    X.iloc[0, 0] = "changed"
    assert datasets.load("votes")[0].iloc[0, 0] != "changed"


@pytest.mark.parametrize("function", [datasets.load, datasets.path])
@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("vote", "votes"), ("Adult", "adult"), ("kr_vs_kp", "kr-vs-kp"), ("zzz", None)],
)
def test_unknown_names(function, name: str, suggestion: str | None) -> None:
    with pytest.raises(ValueError, match="Unknown dataset") as caught:
        function(name)
    message = str(caught.value)
    assert repr(name) in message
    assert ", ".join(PUBLISHED) in message
    hint = f"did you mean '{suggestion}'?"
    assert (hint in message) if suggestion else ("did you mean" not in message)


def test_listing_names_imports_nothing_heavy() -> None:
    code = (
        "import sys; from renyi import datasets; datasets.path('votes');"
        "heavy = {'numpy', 'pandas', 'sklearn', 'scipy', 'pyarrow', 'numba'};"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="make_lines"):
        datasets.make_lines  # noqa: B018
    assert {"load", "make_linear", "random_joint"} <= set(dir(datasets))


def test_make_linear_is_the_papers_set() -> None:
    X, y = datasets.make_linear(random_state=0)
    assert (X.shape, X.dtype, y.shape) == ((200, 10_000), np.int8, (200,))
    assert set(np.unique(X)) == {0, 1}
    assert set(np.unique(y)) <= {0, 1}
    # Two million draws: a standard error of 0.0003.
    assert abs(X.mean() - 0.7) < 0.002


def separates(X: np.ndarray, y: np.ndarray) -> bool:
    """Whether some w has (2y - 1) X w >= 1 on all rows that are not zero."""
    signed = ((2 * y - 1)[:, None] * X)[X.any(axis=1)]
    free = np.zeros(X.shape[1])
    margin = np.ones(len(signed))
    result = linprog(free, A_ub=-signed, b_ub=-margin, bounds=(None, None))
    return bool(result.status == 0)


def test_make_linear_label_is_linear_in_a_share_of_the_columns() -> None:
    X, y = datasets.make_linear(2000, 20, noise=0.0, random_state=1)
    X = X.astype(float)
    slopes = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(), rcond=None)[0]
    by_weight = np.argsort(-np.abs(slopes))
    assert separates(X[:, by_weight[:6]], y)  # 30 % of the columns suffice
    assert not separates(X[:, by_weight[:5]], y)  # fewer do not
    y = datasets.make_linear(2000, 20, noise=1.0, random_state=1)[1]
    assert not separates(X, y)


def test_make_linear_labels_are_unbalanced() -> None:
    shares = [
        datasets.make_linear(200, 2000, random_state=s)[1].mean() for s in range(40)
    ]
    majority_error = np.mean([min(share, 1 - share) for share in shares])
    assert 0.10 < majority_error < 0.27


def test_make_linear_noise_only() -> None:
    y = datasets.make_linear(4000, 5, nonzero=0.0, random_state=0)[1]
    assert abs(y.mean() - 0.5) < 0.04


@pytest.mark.parametrize(
    "options", [{"p": 1.2}, {"nonzero": -0.1}, {"noise": -1.0}, {"p": float("nan")}]
)
def test_make_linear_refuses(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        datasets.make_linear(5, 5, **options)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("kind", ["dirichlet", "additive", "logistic"])
def test_random_joint_is_a_distribution(kind, n_classes: int) -> None:
    table = datasets.random_joint([2, 3, 4], n_classes, kind=kind, random_state=0)
    assert table.shape == (2, 3, 4, n_classes)
    assert table.min() >= 0
    assert table.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 4)])
@pytest.mark.parametrize("seed", range(5))
def test_additive_tables_are_separable(sizes, n_classes: int, seed: int) -> None:
    # Theory: theta lies between the conditional's Brier risk and the additive one;
    # they are equal, hence gamma = theta, when the conditional is additive.
    table = datasets.random_joint(sizes, n_classes, kind="additive", random_state=seed)
    assert brier_of_additive(table) == pytest.approx(
        brier_of_conditional(table), abs=1e-10
    )


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["dirichlet", "logistic"])
def test_other_tables_are_not_additive(kind, n_classes: int) -> None:
    for seed in range(5):
        table = datasets.random_joint(
            (2, 2, 3), n_classes, kind=kind, random_state=seed
        )
        assert brier_of_additive(table) > brier_of_conditional(table) + 1e-4


def test_logistic_tables_are_additive_in_logarithms() -> None:
    table = datasets.random_joint((2, 3), 3, kind="logistic", random_state=0)
    log_odds = np.log(table[..., 1:] / table[..., :1])
    interaction = log_odds - log_odds[:1] - log_odds[:, :1] + log_odds[:1, :1]
    np.testing.assert_allclose(interaction, 0, atol=1e-10)


@pytest.mark.parametrize("kind", ["dirichlet", "additive", "logistic"])
def test_small_concentration_empties_the_table(kind) -> None:
    def largest(concentration: float) -> float:
        table = datasets.random_joint(
            (3, 3, 3), kind=kind, concentration=concentration, random_state=0
        )
        return float(table.sum(axis=-1).max())

    assert largest(0.02) > 3 * largest(10.0)


def test_random_joint_follows_its_seed() -> None:
    first, again, other = (
        datasets.random_joint([2, 2], random_state=seed) for seed in (4, 4, 5)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    generator = np.random.default_rng(4)
    assert np.array_equal(first, datasets.random_joint([2, 2], random_state=generator))


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ({"sizes": []}, "sizes"),
        ({"sizes": [2, 0]}, "sizes"),
        ({"sizes": [2], "n_classes": 0}, "n_classes"),
        ({"sizes": [2], "concentration": 0.0}, "concentration"),
        ({"sizes": [2], "kind": "cubic"}, "cubic"),
    ],
)
def test_random_joint_refuses(arguments, culprit: str) -> None:
    with pytest.raises(ValueError, match=culprit):
        datasets.random_joint(**arguments)


def test_samples_follow_the_table() -> None:
    table = datasets.random_joint([2, 3, 2], 3, random_state=0)
    n = 200_000
    X, y = datasets.sample_joint(table, n, random_state=0)
    assert (X.shape, X.dtype, y.dtype) == ((n, 3), np.int64, np.int64)
    counts = np.zeros(table.shape)
    np.add.at(counts, (*X.T, y), 1)
    deviation = np.abs(counts / n - table)
    assert np.all(deviation <= 5 * np.sqrt(table / n) + 1e-12)
    assert counts[table == 0].sum() == 0


def test_sampling_a_certain_outcome() -> None:
    table = np.zeros((2, 3, 2))
    table[1, 2, 0] = 1.0
    X, y = datasets.sample_joint(table, 4, random_state=0)
    assert X.tolist() == [[1, 2]] * 4
    assert y.tolist() == [0] * 4


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([0.5, 0.5], "1 axes"),
        ([[0.5, 0.6]], "sums to 1.1"),
        ([[1.5, -0.5]], "negative"),
        ([[np.nan, 1.0]], "missing"),
        (np.zeros((2, 0)), "sums to 0"),
    ],
)
def test_sample_joint_refuses(table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        datasets.sample_joint(table, 3)
