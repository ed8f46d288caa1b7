"""Outputs of an application as a DataFrame with columns of their own, for any sink of Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("confluent_kafka")

import chispa
from confluent_kafka import Producer

from tests.kafka.presence import expect_broker
from tests.long import LONG
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.resources import fixtures
from tickproof.reference.api import Application, Pipeline, Sink, Source, State, StateComputation
from tickproof.reference.api.layouts import framed
from tickproof.reference.compiler.steps import RecordError
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


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (b"{", "JSONDecodeError: Expecting"),
        (b'{"cents": 5}', "KeyError: 'customer'"),
        (b'{"customer": "ada", "cents": null}', "cents: expected int32, got None"),
        (b'{"customer": "ada", "cents": 3000000000}', "cents: "),
        (b'{"customer": "ada lovelace", "cents": 5}', "customer: "),
        (None, "TypeError: the JSON object must be"),
    ],
)
def test_a_message_that_is_no_record_is_named_by_its_place(bad: bytes | None, said: str) -> None:
    source = Source(3, ORDER)
    values = [b'{"customer": "ada", "cents": 5}', bad, b"{"]
    with pytest.raises(RecordError) as raised:
        streaming._decoded(source, 1, [117, 119, 120], values, read)
    assert str(raised.value).startswith("stream 3, partition 1, offset 119: ")
    assert said in str(raised.value)


def test_a_message_with_a_field_too_few_is_named_by_its_place() -> None:
    with pytest.raises(RecordError, match="offset 7: ValueError: zip"):
        streaming._decoded(Source(0, ORDER), 0, [7], [b"x"], lambda _: (b"x",))


SCRIPT = """
import sys
from pathlib import Path
from tickproof.reference import java, session
from tickproof.reference.kafka import jars, streaming
brokers, topic, toml, out = sys.argv[1:]
java.prepare()
found = ",".join(map(str, jars.brought(Path(toml))))
spark = session.start("local[1]", {"spark.jars": found})
inputs = streaming.Inputs(brokers, {0: topic}, None)
made = streaming.read(spark, inputs, topic, "reads").selectExpr("cast(value as string) value")
query = made.writeStream.format("json").option("checkpointLocation", out + "-c")
query.trigger(availableNow=True).start(out).awaitTermination()
spark.stop()
"""


@LONG
def test_what_was_aborted_is_not_read(tmp_path: Path) -> None:
    """One job of the reference behind another would count twice what the first one aborted."""
    expect_broker()
    toml = fixtures() / "engines" / "spark-kafka" / "jars.toml"
    command = [sys.executable, "-m", "tickproof.conformance.kafka.jars", str(toml)]
    subprocess.run(command, check=True, timeout=300)
    with Broker() as broker:
        brokers = broker.address.kit
        Cluster(brokers).create({"orders": 1})
        known = {"bootstrap.servers": brokers, "transactional.id": "writes"}
        producer = Producer(known)
        producer.init_transactions(60)
        for text in ("gone", "kept"):
            producer.begin_transaction()
            producer.produce("orders", text)
            producer.flush(60)
            if text == "gone":
                producer.abort_transaction(60)
        producer.commit_transaction(60)
        given = [brokers, "orders", str(toml), str(tmp_path / "out")]
        subprocess.run([sys.executable, "-c", SCRIPT, *given], check=True, timeout=300)
    written = [line for one in tmp_path.glob("out/*.json") for line in one.open()]
    assert [json.loads(line) for line in written] == [{"value": "kept"}]
