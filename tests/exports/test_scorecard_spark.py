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


def test_spark_tells_times_bytes_and_singles() -> None:
    spark = spark_session()
    zone = "spark.sql.session.timeZone"
    clock = ["2024-11-03 05:30:00.0006Z", "2024-11-03 06:30:00.0006Z", None] * 2
    rows = pa.table(
        {
            "t": pa.array(clock).cast(pa.timestamp("us", "UTC")),
            "f": pa.array([0.1, 0.2, 7.0, None, 0.1, 0.3], pa.float32()),
            "b": pa.array([b"a", b"\xff", None, "é".encode(), b"c", b"a"], pa.binary()),
            "w": ["a", "b", "b", "a", None, "c"],
        }
    )
    known = card_of(rows.drop_columns("b")[:3], Encoder(numeric=()))
    texts = card_of(pa.table({"b": ["a", "é", "x", None]}), Encoder())
    broken = card_of(rows.select(["b"]), Encoder())
    old = spark.conf.get(zone)
    try:
        frame = spark.createDataFrame(rows.append_column("k", pa.array(range(6))))
        frame.createOrReplaceTempView("odd")
        spark.conf.set(zone, "America/New_York")
        for card in (known, texts):
            sql = f"SELECT {card.to_sql('spark')} FROM odd ORDER BY k"
            found = np.array(spark.sql(sql).collect(), np.float64)
            assert_same(found, card, rows)
        sql = f"SELECT {broken.to_sql('spark')} AS s FROM odd ORDER BY k"
        found = [row.s is None for row in spark.sql(sql).collect()]
        assert found == [True, True, False, True, True, True]
        scored = frame.withColumn("renyi_prediction", frame.w)
        scored.createOrReplaceTempView("odd")
        with pytest.raises(Exception, match=r"(?s)AMBIGUOUS.*renyi_prediction"):
            spark.sql(known.to_sql("spark", table="odd")).collect()
    finally:
        spark.conf.set(zone, old)
        spark.catalog.dropTempView("odd")
