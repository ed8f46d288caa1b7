"""Outputs of an application as a DataFrame with columns of their own, for any sink of Spark."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("confluent_kafka")

import chispa

from tickproof.reference.api import Application, Pipeline, Sink, Source, State, StateComputation
from tickproof.reference.api.layouts import framed
from tickproof.reference.kafka import streaming

ORDER = framed(("customer", "S8"), ("cents", "<i4"))
TOTAL = framed(("customer", "S8"), ("n", "<u2"), ("cents", "<i8"))
TOTALS = State("totals", np.dtype([("n", "<u2"), ("cents", "<i8")]))
ORDERS = [("ada", 5), ("bob", 7), ("ada", 10), ("ada", 15)]


def add(order, total):
    total.n += 1
    total.cents += order.cents
    return order.customer, total.n, total.cents


def read(message: bytes) -> tuple:
    order = json.loads(message)
    return order["customer"].encode(), order["cents"]


def test_they_have_the_fields_of_the_output_and_can_go_into_files(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = tmp_path / "messages"
    messages.mkdir()
    rows = [
        {"partition": 0, "offset": at, "value": json.dumps({"customer": who, "cents": cents})}
        for at, (who, cents) in enumerate(ORDERS)
    ]
    (messages / "0.json").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    def of_files(spark, *_):
        stream = spark.readStream.schema("partition int, offset long, value string")
        made = stream.json(str(messages))
        return made.withColumn("value", made["value"].cast("binary"))

    monkeypatch.setattr(streaming, "read", of_files)
    pipeline = Pipeline("orders", Source(0, ORDER)).by("customer")
    step = StateComputation("add", TOTALS, add, TOTAL)
    application = Application("totals", [pipeline.to(step).into(Sink(0, TOTAL))])
    inputs = streaming.Inputs("", {0: "orders"}, read)
    made = streaming.outputs(spark, application, inputs, "totals")
    assert made.columns == ["writer", "customer", "n", "cents", *streaming.PLACE.names]
    found = made.writeStream.format("parquet").option(
        "checkpointLocation", str(tmp_path / "checkpoint")
    )
    query = found.trigger(availableNow=True).start(str(tmp_path / "totals"))
    query.awaitTermination()
    written = spark.read.parquet(str(tmp_path / "totals"))
    totals = written.select("customer", "n", "cents")
    due = [("ada", 1, 5), ("ada", 2, 15), ("ada", 3, 30), ("bob", 1, 7)]
    expected = spark.createDataFrame(due, "customer string, n int, cents long")
    chispa.assert_df_equality(totals, expected, ignore_row_order=True)
    # What a writer sorts by tells outputs apart, and has those of a key in their order.
    rows = written.orderBy(*streaming.PLACE.names).collect()
    assert len({tuple(row[name] for name in streaming.PLACE.names) for row in rows}) == len(due)
    assert [row.n for row in rows if row.customer == "ada"] == [1, 2, 3]
