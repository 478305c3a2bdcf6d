"""The scorecard as Spark SQL gives the scores of Python."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from renyi.encoding.encoder import Encoder
from renyi.encoding.tuples import TupleEncoder
from support.spark import spark_session
from support.sqlcards import assert_same, card_of, every_cell

pytestmark = pytest.mark.xdist_group("spark")


def test_spark() -> None:
    spark = spark_session()
    rows, encoder = every_cell()
    ids = pa.array(range(len(rows)))
    frame = spark.createDataFrame(rows.append_column("k", ids))
    frame.createOrReplaceTempView("cells")
    wide = pa.table({f"c{j}": ["n", "y", None] for j in range(5)})
    for card in (card_of(rows[::3], encoder), card_of(rows[::3], encoder, 3)):
        labels = [None] if card.n_classes == 2 else list(card.classes)
        made = ", ".join(card.to_sql("spark", label) for label in labels)
        answer = spark.sql(f"SELECT {made} FROM cells ORDER BY k").collect()
        assert_same(np.array(answer, np.float64), card, rows)
    card = card_of(wide, TupleEncoder(order=2))
    spark.createDataFrame(wide).createOrReplaceTempView("wide")
    query = card.to_sql("spark", table="wide")
    answer = spark.sql(query).select("renyi_score").collect()
    found = np.sort(np.array(answer, np.float64)[:, 0])
    expected = np.sort(card.scores(card.encoder.transform(wide))[:, 0])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    spark.catalog.dropTempView("cells")
    spark.catalog.dropTempView("wide")


def test_spark_compares_labels_of_other_types_by_text() -> None:
    spark = spark_session()
    card = card_of(pa.table({"w": ["1", "2.5", "True", "x", None]}), Encoder())
    for k, cells in enumerate(
        (
            pa.array([1, 2, None]),
            pa.array([1.0, 2.5, float("nan"), None]),
            pa.array(["1.0", "true", "True", "x"]),
            pa.array([True, False]),
        )
    ):
        rows = pa.table({"w": cells, "k": range(len(cells))})
        spark.createDataFrame(rows).createOrReplaceTempView(f"cells{k}")
        made = card.to_sql("spark")
        answer = spark.sql(f"SELECT {made} FROM cells{k} ORDER BY k").collect()
        assert_same(np.array(answer, np.float64), card, rows.select(["w"]))


def test_spark_has_no_score_for_types_that_predict_rejects() -> None:
    spark = spark_session()
    card = card_of(pa.table({"w": ["a", "b", "[1]", "1", None]}), Encoder())
    cells = ["array(1)", "map('a', 1)", "named_struct('a', 1)", "CAST('a' AS BINARY)"]
    for cell in [*cells, "current_timestamp()", "INTERVAL 1 DAY"]:
        sql = f"SELECT {card.to_sql('spark')} AS s FROM (SELECT {cell} AS w) AS q"
        assert [row.s for row in spark.sql(sql).collect()] == [None], cell


def test_spark_compares_singles_and_knows_earlier_scores() -> None:
    spark = spark_session()
    rows = pa.table(
        {
            "f": pa.array([0.1, 0.2, 7.0, None, 0.1, 0.3], pa.float32()),
            "w": ["a", "b", "b", "a", None, "c"],
        }
    )
    card = card_of(rows[:3], Encoder(numeric=()))
    frame = spark.createDataFrame(rows.append_column("k", pa.array(range(6))))
    frame.createOrReplaceTempView("odd")
    try:
        sql = f"SELECT {card.to_sql('spark')} FROM odd ORDER BY k"
        found = np.array(spark.sql(sql).collect(), np.float64)
        assert_same(found, card, rows)
        scored = frame.withColumn("renyi_prediction", frame.w)
        scored.createOrReplaceTempView("odd")
        with pytest.raises(Exception, match=r"(?s)AMBIGUOUS.*renyi_prediction"):
            spark.sql(card.to_sql("spark", table="odd")).collect()
    finally:
        spark.catalog.dropTempView("odd")
