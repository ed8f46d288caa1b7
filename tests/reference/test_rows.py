"""The form of rows: as that of blocks for every split, streamed as in batch, and its errors."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.playing import play, splits
from tests.reference.playing_rows import play_rows
from tests.reference.querying import recorded, running, with_state
from tests.reference.served import Served, partition
from tests.reference.test_apps import I64, by_key, by_partition, keyed, market, messages, values
from tickproof.reference import apps
from tickproof.reference.api import PipelineError, State
from tickproof.reference.api.layouts import framed, new
from tickproof.reference.apps import count, double
from tickproof.reference.blocks import streaming as blocks
from tickproof.reference.compiler import batch
from tickproof.reference.compiler import streaming as rows
from tickproof.reference.compiler.columns import columns
from tickproof.reference.connectors.progress import CheckpointError

COUNT = apps.make("count", {"emit": "every"}, on_arrays=False)
RECORDS = 300


def expect_the_same(application, records, split) -> None:
    """Expect the outputs of each batch and the state in the end that blocks give."""
    found, expected = play_rows(application, records, split), play(application, records, split)
    assert [Counter(b) for b in found.batches] == [Counter(b) for b in expected.batches]
    assert found.state == expected.state


# -- without Spark ------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(I64, max_size=30), st.integers(1, 3), splits)
def test_double_as_in_blocks(numbers, partitions, split):
    records = new(len(numbers), double.NUMBER)
    records["x"] = numbers
    given_ = by_partition(records, list(range(len(numbers))), partitions)
    expect_the_same(apps.make("double", {}, on_arrays=False), given_, split)


@settings(deadline=None)
@given(keyed, st.integers(1, 3), splits)
def test_count_as_in_blocks_and_in_order(pairs, partitions, split):
    records = values(pairs, partitions)
    expect_the_same(COUNT, records, split)
    for points in by_key(play_rows(COUNT, records, split).outputs).values():
        assert [n for n, _ in points] == list(range(1, len(points) + 1))


@settings(deadline=None)
@given(
    messages, st.sampled_from(["rejects", "verdicts"]), st.sampled_from(["merged", "two"]),
    st.integers(1, 3), splits,
)  # fmt: skip
def test_market_spread_as_in_blocks(rows_, emit, inputs, partitions, split):
    application = apps.make("market-spread", {"inputs": inputs, "emit": emit}, on_arrays=False)
    records = market(rows_, partitions, two=inputs == "two")
    expect_the_same(application, records, split)
    # Run again, with rows that arrive in another order, a batch is the same, byte for byte.
    first, again = (play_rows(application, records, split, shuffle) for shuffle in (1, 2))
    assert first.batches == again.batches


# -- streamed -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def left(spark, tmp_path_factory):
    """Stream count in two lives, and leave its checkpoint; give the log and the folder."""
    folder = tmp_path_factory.mktemp("left")
    parts = []
    for number in range(2):
        records = new(RECORDS, count.VALUE)
        records["key"] = np.arange(RECORDS) % 5 * 2 + number
        records["key"][-1] = 2**64 - 1
        records["value"] = np.arange(RECORDS) * 2**56
        parts.append(partition(folder / "in", 0, number, records))
    checkpoint = folder / "checkpoint"
    with Served(folder, parts, count.POINT.itemsize - 4) as served:
        for share in (0.4, 1.0):
            served.publish(share)
            with running(spark, COUNT, served, checkpoint, rows, max_records=300) as run:
                run.until(served.ends)
        yield served, checkpoint


def test_streamed_over_a_restart_as_in_batch(spark, left):
    served, _ = left
    assert served.released == served.ends
    points = served.outputs(count.POINT)
    for key in range(10):  # no gap, no point twice, none before another
        mine = points["n"][points["key"] == key]
        assert mine.tolist() == list(range(1, len(mine) + 1))
    made, expected = recorded(spark, COUNT, served), batch.run(spark, COUNT, served.files)
    made, expected = (f.where("key >= 0") for f in (made, expected))  # -1 is in both partitions
    assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)


def test_spark_shows_the_state_by_key(spark, left):
    served, checkpoint = left
    reader = spark.read.format("statestore").option("stateVarName", "total")
    state = reader.load(str(checkpoint)).select("key.key", "value.n", "value.total")
    points = served.outputs(count.POINT)[["key", "n", "total"]].tolist()
    last = {key: (n, total) for key, n, total in points}
    found = {key % 2**64: (n, total) for key, n, total in state.collect()}
    assert found == last
    assert found[2**64 - 1][0] == 2


# -- what is refused ----------------------------------------------------------------

WIDER = State("total", np.dtype([*count.TOTAL.layout.descr, ("last", "<i8")]))
OF_ANOTHER = {
    "form": (apps.make("count", {"emit": "every"}), blocks, "form: expected 'blocks', got 'rows'"),
    "application": (
        apps.make("double", {}, on_arrays=False), rows,
        "application: expected 'double', got 'count'",
    ),
    "state": (
        with_state(COUNT, WIDER), rows, "state: expected \"total [",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("application", "form", "text"), OF_ANOTHER.values(), ids=OF_ANOTHER)
def test_the_checkpoint_of_another(spark, left, application, form, text):
    served, checkpoint = left
    text = f"^{re.escape(f'{checkpoint}/application.json: {text}')}"
    with pytest.raises(CheckpointError, match=text):
        with running(spark, application, served, checkpoint, form):
            pass


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (lambda key: (None, 0, 0), "count: key: expected uint64, got None"),
        (lambda key: (key, 0), "count: expected key, n, total, got ("),
    ],
)
def test_a_result_that_does_not_fit_the_sink_names_the_key(spark, tmp_path, key, text):
    def counted(record, state):
        return key(record.key)

    application = count.application("every", counted)
    records = new(2, count.VALUE)
    records["key"] = 7
    part = partition(tmp_path / "in", 0, 0, records)
    with Served(tmp_path, [part], count.POINT.itemsize - 4) as served:
        served.publish()
        with running(spark, application, served, tmp_path / "checkpoint", rows) as run:
            assert f"StepError: key 7: {text}" in run.failure()
        assert not len(served.outputs(count.POINT))


def test_a_function_on_arrays_is_refused(spark, left):
    checkpoint = left[1]
    text = "^count: count: expected a function on one record"
    with pytest.raises(PipelineError, match=text):
        rows.start(spark, apps.make("count", {"emit": "every"}), {}, {}, checkpoint)


@pytest.mark.parametrize("field", [("offset", "<i8"), ("part", "S4"), ("name", "<c8")])
def test_a_field_that_makes_no_column(field):
    with pytest.raises(PipelineError, match=f"^field {field[0]} of .*: expected a number"):
        columns(framed(field))
