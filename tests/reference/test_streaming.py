"""Each app, streamed from a real log in small micro-batches: the same as in batch over files."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F

from tests.long import LONG
from tests.reference.querying import recorded, running
from tests.reference.served import Served
from tickproof.generators.recipes import build
from tickproof.reference import apps
from tickproof.reference.compiler import batch

RECORDS = 1200
MARKET = {"kind": "market", "symbols": 30, "crossed": True, "probe_one_in": 10, "reject_one_in": 20}
INPUTS = {
    "passthrough": {"kind": "payloads", "size": 21},
    "double": {"kind": "numbers"},
    "count": {"kind": "keyed", "keys": 40, "edge_keys": True, "wrap": True},
    "merged": MARKET,
    "two": MARKET | {"inputs": "two"},
}
OUTPUT_SIZE = {"passthrough": 21, "double": 8, "count": 24, "market-spread": 48}


@pytest.fixture
def serve(tmp_path):
    """Serve the input of an app; nothing is published yet."""
    with ExitStack() as stack:

        def make(app: str, params: dict[str, str]) -> Served:
            recipe = INPUTS[params.get("inputs", app)] | {"seed": 5, "records": RECORDS}
            built = build(recipe | {"partitions": 2}, tmp_path / "input")
            return stack.enter_context(Served(tmp_path, built.partitions, OUTPUT_SIZE[app]))

        yield make


def quotes_first(served: Served) -> list[list[int]]:
    """Publish all of stream 0, then all: as the batch oracle takes it."""
    return [[part.records * (part.stream <= stream) for part in served.inputs] for stream in (0, 1)]


@pytest.mark.parametrize(
    ("app", "params", "coalesce"),
    [
        pytest.param("passthrough", {}, True, marks=LONG),
        pytest.param("double", {}, False, marks=LONG),
        pytest.param("double", {}, True, marks=LONG),
        ("count", {"emit": "every"}, True),
        pytest.param("count", {"emit": "every"}, False, marks=LONG),
        pytest.param("market-spread", {"inputs": "merged", "emit": "rejects"}, True, marks=LONG),
        pytest.param("market-spread", {"inputs": "merged", "emit": "verdicts"}, True, marks=LONG),
        pytest.param("market-spread", {"inputs": "merged", "emit": "verdicts"}, False, marks=LONG),
        pytest.param("market-spread", {"inputs": "two", "emit": "rejects"}, False, marks=LONG),
        ("market-spread", {"inputs": "two", "emit": "verdicts"}, True),
    ],
)
def test_streamed_as_in_batch(spark, serve, tmp_path, app, params, coalesce):
    application, served = apps.make(app, params), serve(app, params)
    options = {"max_records": RECORDS // 3, "coalesce": coalesce}
    with running(spark, application, served, tmp_path / "checkpoint", **options) as run:
        for ends in quotes_first(served):
            served.log.publish(ends)
            run.until({name: end for name, end in served.ends.items() if end})
    assert served.released == served.ends
    commits = [fields for event, fields in served.events if event == "commit"]
    assert commits[-1]["txn"] >= 2, "fewer than three batches"
    assert {fields["outcome"] for fields in commits} == {1}
    expected = batch.run(spark, application, served.files)
    assert expected.count() > 0
    made = recorded(spark, application, served)
    assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)


@LONG
def test_some_points_of_each_key_and_the_last(spark, serve, tmp_path):
    params = {"emit": "some"}
    application, served = apps.make("count", params), serve("count", params)
    served.publish()
    with running(spark, application, served, tmp_path / "checkpoint", max_records=400) as run:
        run.until(served.ends)
    made = recorded(spark, application, served)
    every = batch.run(spark, apps.make("count", {"emit": "every"}), served.files)
    assert made.exceptAll(every).count() == 0
    assert made.count() < every.count()
    last = made.groupBy("key").agg(F.max("n").alias("n")).join(made, ["key", "n"])
    expected = batch.run(spark, application, served.files)
    assert_df_equality(last, expected, ignore_row_order=True, ignore_nullable=True)
