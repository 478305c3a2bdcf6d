"""Exported functions answer every row as the model does, wherever they run."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import renyi
from renyi.encoding.encoder import Encoder
from renyi.scorecard import Scorecard
from support import exported
from support.exported import Answers, in_javascript, in_onnx, in_python
from support.sqlcards import card_of

engine = exported.engine

HOSTILE = [
    *("__proto__", "constructor", "toString", "</script>", "<!--", "it's", 'a "b"'),
    *("two\nlines", "back\\slash", "\u2028é→😀\u202e", "${a}", "'''", '"""', "# no"),
    *("a" * 300, " a", "A", "(rare)", "(missing)", "1.0", "True", "null", "nan"),
]
NUMBERS = [0.0, -0.0, 1.0, -9.0, 2.5, 0.1, 1e-5, 1.5e-7, 1e16, 2.0**60, 1e300]
INFINITE = [float("inf"), float("-inf")]


def table(n: int, seed: int, unseen: bool = False) -> pd.DataFrame:
    """Hostile texts, numbers, integers, booleans; some rows hold unseen labels."""
    rng = np.random.default_rng(seed)

    def some(values: list[Any]) -> Any:
        picked = np.empty(len(values), object)
        picked[:] = values
        return picked[rng.integers(0, len(values), n)]

    texts = [*HOSTILE[: 5 if not unseen else None], None, "?", ""]
    real = np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n).round(2))
    if unseen:
        real[: len(INFINITE)] = INFINITE
    return pd.DataFrame(
        {
            "__proto__": some(texts),
            "</script>\n'\"": some([*NUMBERS[: None if unseen else 7], np.nan]),
            "real": real,
            "whole": rng.integers(-9 - 9 * unseen, 40, n),
            "truth": rng.random(n) < 0.5,
            "few": rng.integers(0, 4 + unseen, n),
        }
    )


def classes(X: pd.DataFrame, K: int) -> Any:
    noise = np.random.default_rng(0).normal(size=len(X))
    t = X["real"].fillna(0) + X["whole"] / 20 + (X["few"] == 1) + noise
    labels = np.array(["no", "</script>", "it's", "yes"])[-K:]
    return labels[np.digitize(t, np.quantile(t, np.linspace(0, 1, K + 1)[1:-1]))]


def assert_same(found: Answers, answers: list[Any], shares: Any, atol: float) -> None:
    assert found[0] == answers
    np.testing.assert_allclose(found[1], shares, rtol=0, atol=atol)


def assert_all(
    engine: Any, card: Scorecard, X: pd.DataFrame, wanted: Answers, odds: float = 1.0
) -> None:
    python, script = (card.to_text(f, odds=odds) for f in ("python", "javascript"))
    assert_same(in_python(python, X), *wanted, 1e-12)
    assert_same(in_javascript(engine, script, X), *wanted, 1e-12)
    assert_same(in_onnx(card, X, odds), *wanted, 1e-12)


@pytest.mark.parametrize(
    "features",
    [{}, {"order": 2}, {"interactions": [("few", "truth"), ("real", "__proto__")]}],
)
@pytest.mark.parametrize(
    ("K", "calibration"),
    [
        *((2, "auto"), (2, "sigmoid"), (2, None), (4, "temperature")),
        *((4, "affine"), (4, "discriminant"), (4, None)),
    ],
)
def test_every_kind_of_model(
    engine: Any, K: int, calibration: str | None, features: dict[str, Any]
) -> None:
    X, rows = table(200, 1), table(60, 2, unseen=True)
    encoder = Encoder(missing=("?", "", "-9"), numeric=("real", "whole"), min_count=3)
    how: Any = {**features, "calibration": calibration, "encoder": encoder}
    clf = renyi.RenyiClassifier(**how).fit(X, classes(X, K))
    card, wanted = clf.scorecard_, (clf.predict(rows).tolist(), clf.predict_proba(rows))
    assert_all(engine, card, rows, wanted)
    if K == 2:
        moved = clf.predict(rows, 0.03).tolist(), clf.predict_proba(rows, 0.03)
        assert moved[0] != wanted[0]
        assert_all(engine, card, rows, moved, clf.fit_.odds(0.03))


def test_rounded_cards(engine: Any) -> None:
    X, y = renyi.datasets.load("votes")
    clf = renyi.RenyiClassifier().fit(X[:300], y[:300])
    card = clf.scorecard_.rounded(4, marginals=clf.marginals_)
    rows = pd.DataFrame(X[300:]).replace({"y": "unheard"}).head(40)
    rows = pd.concat([pd.DataFrame(X[300:340]), rows])
    p = card.scorecard.probabilities(card.scorecard.encoder.transform(rows))
    assert_all(engine, card.scorecard, rows, (card.predict(rows).tolist(), p))


cells = st.one_of(
    st.sampled_from([*HOSTILE[:8], "?", "", "-9", None, *NUMBERS, *INFINITE]),
    st.integers(-30, 30),
    st.booleans(),
    st.floats(width=16),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
)


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(cells, st.floats(-5, 5)), min_size=3, max_size=12),
    st.lists(cells, min_size=1, max_size=8),
    st.sampled_from([2, 3]),
)
def test_any_cell(engine: Any, train: Any, new: list[Any], K: int) -> None:
    def frame(labels: list[Any], numbers: list[Any]) -> pd.DataFrame:
        columns = {"constructor": labels, "number": numbers}
        made = {k: pd.Series(v, dtype=object) for k, v in columns.items()}
        return pd.DataFrame(made)

    labels, numbers = map(list, zip(*train, strict=True))
    encoder = Encoder(numeric=("number",), missing=("?", "", "-9"), min_count=2)
    card = card_of(frame(labels, numbers), encoder, K)  # type: ignore[arg-type]
    real = [v for v in new if isinstance(v, (int, float)) or v in ("?", None, "-9")]
    many = [*new, *labels]
    rows = frame(many, ([*real, 0.5] * len(many))[: len(many)])
    codes = card.encoder.transform(rows)
    wanted = [card.classes[k] for k in card.estimates(codes).argmax(axis=1)]
    assert_all(engine, card, rows, (wanted, card.probabilities(codes)))


def test_labels_may_be_numbers_and_booleans(engine: Any) -> None:
    X, rows = table(90, 1), table(30, 2)
    for labels in ([0, 1], [2.0, 7.0], [False, True], [-3, 0, 2**40]):
        y = np.asarray(labels)[np.arange(90) % len(labels)]
        clf = renyi.RenyiClassifier().fit(X, y)
        wanted = clf.predict(rows).tolist(), clf.predict_proba(rows)
        assert_all(engine, clf.scorecard_, rows, wanted)


def test_a_script_is_ascii_and_ends_no_page() -> None:
    X = table(60, 1)
    card = renyi.RenyiClassifier().fit(X, classes(X, 2)).scorecard_
    card = dataclasses.replace(card, classes=("\ud800", "\u2028</script><!--"))
    for form in ("python", "javascript"):
        model = card.to_text(form).split("MODEL", 2)[2 - (form == "javascript")]
        assert model.split("\n}", 1)[0].isascii()
    assert "<" not in model.split("\n}", 1)[0]


def test_unseen_labels_stop_where_the_model_does(engine: Any) -> None:
    card = renyi.RenyiClassifier(encoder=Encoder(unseen="error"))
    card = card.fit([["a"], ["b"]] * 9, [0, 1] * 9).scorecard_
    rows = pd.DataFrame({"x0": ["c"]})
    with pytest.raises(ValueError, match=r"'x0' holds 'c'.*unseen"):
        in_python(card.to_text(), rows)
    with pytest.raises(Exception, match='"x0" holds "c", unseen in training'):
        in_javascript(engine, card.to_text("javascript"), rows)
    with pytest.raises(ValueError, match="unseen='mean'"):
        card.to_onnx()


def test_bad_rows_get_a_sentence(engine: Any) -> None:
    X = pd.DataFrame({"a": np.arange(60) / 7, "b": ["u", "v", "w"] * 20})
    card = renyi.RenyiClassifier().fit(X, X.index % 2).scorecard_
    text, script = card.to_text(), card.to_text("javascript")
    good = {"a": "1_0.5 ", "b": None}
    frame = pd.DataFrame([good])
    wanted = card.probabilities(card.encoder.transform(frame))
    np.testing.assert_allclose(in_python(text, frame)[1], wanted, atol=1e-12)
    found = in_javascript(engine, script, frame)[1]
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    for wrong in ({"a": "0x10"}, {"a": "ten"}, {"a": "1__0"}, {"b": [1]}):
        rows = pd.DataFrame([{**good, **wrong}])
        name = next(iter(wrong))
        with pytest.raises((ValueError, TypeError), match=f"'{name}'"):
            in_python(text, rows)
        with pytest.raises(Exception, match=f'Column "{name}"'):
            in_javascript(engine, script, rows)
    with pytest.raises(ValueError, match="'b' is missing"):
        in_python(text, frame[["a"]])
    with pytest.raises(Exception, match='"b" is missing'):
        in_javascript(engine, script, frame[["a"]])


def test_what_cannot_be_written_is_refused() -> None:
    X = [["a"], ["b"]] * 9
    card = renyi.RenyiClassifier().fit(X, [0, 1] * 9).scorecard_
    with pytest.raises(ValueError, match="9007199254740994"):
        dataclasses.replace(card, classes=(0, 2**53 + 2)).to_text("javascript")
    with pytest.raises(ValueError, match="'fortran'"):
        card.to_text("fortran")
    with pytest.raises(ValueError, match="odds"):
        card.to_text(odds=0.0)
    three = renyi.RenyiClassifier().fit(X, [0, 1, 2] * 6).scorecard_
    with pytest.raises(ValueError, match="two classes"):
        three.to_onnx(odds=2.0)
    for name in ("", "label"):
        frame = pd.DataFrame({"a": ["u", "v"] * 9}).rename(columns={"a": name})
        odd = renyi.RenyiClassifier().fit(frame, [0, 1] * 9).scorecard_
        with pytest.raises(ValueError, match="rename"):
            odd.to_onnx()
    for label in ("\ud800", "a\0"):
        with pytest.raises(ValueError, match="class"):
            dataclasses.replace(card, classes=("a", label)).to_onnx()
