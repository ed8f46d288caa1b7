"""Rows in every split, with one key and several, streamed as in batch, and their errors."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from tests.long import LONG, few
from tests.reference.playing import batches, compiling, kept, plain, play, rows_in, splits
from tests.reference.querying import recorded, running
from tests.reference.served import Served, partition
from tests.reference.test_apps import (
    by_key,
    emits,
    keyed,
    market,
    messages,
    points,
    values,
    verdicts,
)
from tickproof.reference import apps
from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    PipelineError,
    Sink,
    Source,
    State,
    StateComputation,
    Timer,
)
from tickproof.reference.api.layouts import framed, new
from tickproof.reference.apps import count
from tickproof.reference.apps.market_spread import VERDICT
from tickproof.reference.compiler import batch, processor
from tickproof.reference.compiler import streaming as rows
from tickproof.reference.compiler.buckets import bucket_of
from tickproof.reference.compiler.checkpoint import facts
from tickproof.reference.compiler.columns import OUTPUT, columns, in_log_order, leaving
from tickproof.reference.compiler.processor import KeyedStage
from tickproof.reference.compiler.steps import KeyState, RecordError, StepError, applied
from tickproof.reference.connectors.wire import Chunk

COUNT = apps.make("count", {"emit": "every"})
(ALL,) = COUNT.pipelines
POINTS = Sink(0, count.POINT)
VALUES = Pipeline("all", Source(0, count.VALUE))
COUNTED = ALL.stages[1].steps[0]
RECORDS = 300
#: Of keys 0, 1 and 2: a checkpoint holds the states of keys by their bucket.
BUCKETS_OF = {"u": [0, 121, 243], "S": [33, 183, 13]}


# -- without Spark ------------------------------------------------------------------


@settings(deadline=None)
@given(keyed, st.integers(1, 3), splits, st.booleans())
def test_count_in_order(pairs, partitions, split, at_once):
    records = values(pairs, partitions)
    expected, state = points(records, split)
    with compiling(at_once):
        played = play(COUNT, records, split)
    assert [by_key(b) for b in played.batches] == expected
    assert played.state == state


@settings(deadline=None)
@given(
    messages,
    emits,
    st.sampled_from(["merged", "two"]),
    st.integers(1, 3),
    splits,
    st.booleans(),
    st.booleans(),
)
def test_market_spread_in_every_way(rows_, emit, inputs, partitions, split, at_once, combine):
    params = {"inputs": inputs, "emit": emit}
    application = apps.make("market-spread", params)
    records = market(rows_, partitions, two=inputs == "two")
    expected, state = verdicts(records, split, emit)
    # Run again, with rows that arrive in another order, a batch is the same, byte for byte.
    with compiling(at_once):
        first, again = (play(application, records, split, shuffle, combine) for shuffle in (1, 2))
    assert first.batches == again.batches
    assert [Counter(b) for b in first.batches] == expected
    # Of a symbol whose orders were all decided early nothing is stored.
    assert [row for row in first.state if row[1]] == [row for row in state if row[1]]


def test_most_orders_are_decided_where_they_are_read():
    rows_ = [(False, 0, (40, 42))] * 50 + [(True, 0, (9, 9))] * 50 + [(True, 1, (9, 9))] * 3
    (records,) = market(rows_, 1, two=False).values()
    application = apps.make("market-spread", {"inputs": "merged", "emit": "verdicts"})
    # Most of the orders are in another chunk than their quote.
    pieces = [(0, records[:60]), (60, records[60:])]
    chunks = [Chunk(100 + at, len(piece), piece.tobytes()) for at, piece in pieces]
    found = {}
    for combine in (True, False):
        made = pa.Table.from_batches(
            rows.rows_of(application, 0, 0, chunks, combine=combine)
        ).to_pylist()
        decided = b"".join(row["records"] for row in made if row["sink"] == 0)
        travel = [number for row in made if row["sink"] is None for number in row["id"]]
        found[combine] = len(decided) // VERDICT.itemsize, travel
    assert found == {True: (50, [50, 101, 102, 103]), False: (0, [*range(1, 104)])}


@pytest.mark.parametrize("type_", ["S1", "<u8", "i1"])
def test_what_is_decided_early_has_a_bucket_that_follows_from_its_partition(type_):
    layout = framed(("schema", type_), ("value", "<i8"))

    def is_first(records):
        return records["value"] == 5

    def later(record, state):
        return None if record.value == 5 else record

    step = StateComputation("step", count.TOTAL, later, layout, is_first)
    pipeline = Pipeline("all", Source(0, layout)).by("schema").to(step).into(Sink(0, layout))
    records = new(3, layout)
    records["value"] = 5, 6, 7
    chunk = Chunk(40, 3, records.tobytes())
    made = rows.rows_of(Application("app", [pipeline]), 0, 131, [chunk], buckets=100)
    decided, left = (row for batch_ in made for row in batch_.to_pylist())
    assert (decided["bucket"], decided["records"]) == (31, records[1:].tobytes())
    assert (left["sink"], left["size"], left["value"]) == (None, 1, [5])


@pytest.mark.parametrize("keys", [np.arange(1000, dtype="<u8"), np.arange(1000).astype("S4")])
def test_a_key_has_one_bucket_of_all(keys):
    found = bucket_of(keys, 256)
    assert len(np.unique(found)) > 200
    assert (bucket_of(keys[::-1], 256)[::-1] == found).all()
    assert [*map(int, found[:3])] == BUCKETS_OF[keys.dtype.kind]


@pytest.mark.parametrize("buckets", [0, 257])
def test_how_many_buckets_there_may_be(tmp_path, buckets):
    with pytest.raises(PipelineError, match=f"^buckets: expected 1 to 256, got {buckets}"):
        rows.start(None, COUNT, {}, {0: 1}, tmp_path, buckets=buckets)


def test_the_output_of_one_bucket_is_cut(monkeypatch):
    monkeypatch.setattr(processor, "CHUNK_BYTES", 3 * count.POINT.itemsize)
    records = values([(7, 1)] * 8, 1)
    application = apps.make("count", {"emit": "every"})
    (chunk,) = (Chunk(0, 8, part.tobytes()) for part in records.values())
    given_ = rows_in(rows.rows_of(application, 0, 0, [chunk]))
    _, made = KeyedStage(application, 1, 8).advance({"total": None}, given_)
    assert [len(row.records) // count.POINT.itemsize for row in made] == [3, 3, 2]
    arrived = pa.RecordBatch.from_pylist([row.asDict() for row in reversed(made)], OUTPUT)
    ((_, framed_),) = in_log_order([arrived])
    points = np.frombuffer(b"".join(framed_), count.POINT)
    assert points["n"].tolist() == [*range(1, 9)]


#: How many keys have come so often: a key, and then a key that the first step makes.
TIMES = framed(("times", "<u8"), ("value", "<i8"))
HOW_MANY = framed(("times", "<u8"), ("keys", "<u8"))


def times_and_values(record, total):
    """Give nothing at every fourth record of a key, else how many there were, and 0 at odd ones."""
    total.n += 1
    if total.n % 4:
        yield total.n, record.value
        if total.n % 2:
            yield 0, record.value


def how_many(record, keys):
    keys.n += 1
    keys.last = record.value
    return record.times, keys.n


KEYS = State("keys", np.dtype([("n", "<u8"), ("last", "<i8")]))
TWO_KEYS = Application(
    "two-keys",
    [
        Pipeline("all", Source(0, count.VALUE))
        .by("key").to(StateComputation("times", count.TOTAL, times_and_values, TIMES))
        .by("times").to(StateComputation("keys", KEYS, how_many, HOW_MANY)).into(Sink(0, HOW_MANY))
    ],
)  # fmt: skip


@LONG
@settings(deadline=None)
@given(keyed, splits)
def test_a_second_key_sees_log_order_in_every_split(pairs, split):
    records = values(pairs, 1)
    found = {}
    made = [plain(b[0]) for b in batches(TWO_KEYS, records, split, found)]
    expected = plain(batch.outputs(TWO_KEYS, {0: list(records.values())})[0])
    assert [row for rows_ in made for row in rows_ if row[0] == 0] == [
        row for row in expected if row[0] == 0
    ]
    assert Counter(row for rows_ in made for row in rows_) == Counter(expected)
    # The newest value of a key, too, is that of the last record in log order.
    seen, last = Counter(), {}
    for key, value in pairs:
        seen[key] += 1
        if seen[key] % 4:
            last |= {seen[key]: value} | ({0: value} if seen[key] % 2 else {})
    assert {key: newest for key, _, newest in kept(TWO_KEYS, 2, found)} == last


# -- streamed -----------------------------------------------------------------------


@LONG  # two stages with state; word count and the circuit breaker stream one each day
def test_two_keys_streamed_over_a_restart_as_in_batch(spark, tmp_path):
    records = new(RECORDS, count.VALUE)
    records["key"] = np.arange(RECORDS) ** 2 % 23
    part = partition(tmp_path / "in", 0, 0, records)
    with Served(tmp_path, [part], HOW_MANY.itemsize - 4) as served:
        for share in (0.4, 1.0):
            served.publish(share)
            folder = tmp_path / "checkpoint"
            with running(spark, TWO_KEYS, served, folder, max_records=70) as run:
                run.until(served.ends)
        made, expected = recorded(spark, TWO_KEYS, served), batch.run(spark, TWO_KEYS, served.files)
        assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)


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
            with running(spark, COUNT, served, checkpoint, max_records=300) as run:
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


@pytest.mark.parametrize("combine", few([True, False]))
def test_market_spread_goes_on_from_a_checkpoint(spark, tmp_path, combine):
    """Orders before and behind quotes, whose symbols meet again in later batches and chunks."""
    application = apps.make("market-spread", {"inputs": "merged", "emit": "verdicts"})
    which = np.arange(RECORDS) ** 2 % 11
    rows_ = [(bool(w % 3), int(w) % 2, (40, 42 + int(w))) for w in which]
    parts = []
    for number, symbol in enumerate((0, 2)):
        mine = [(order, symbol * once, prices) for order, once, prices in rows_]
        (records,) = market(mine, 1, two=False).values()
        records["symbol"] += np.uint64(number << 56)  # a symbol has one partition
        parts.append(partition(tmp_path / "in", 0, number, records))
    with Served(tmp_path, parts, VERDICT.itemsize - 4) as served:
        options = {"max_records": 70, "combine": combine}
        for share in (0.31, 0.62, 1.0):
            served.publish(share)
            with running(spark, application, served, tmp_path / "c", **options) as run:
                run.until(served.ends)
        made, expected = (
            recorded(spark, application, served),
            batch.run(spark, application, served.files),
        )
        assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)


def test_spark_shows_the_state_by_key(spark, left):
    served, checkpoint = left
    reader = spark.read.format("statestore").option("stateVarName", "total")
    state = reader.load(str(checkpoint)).selectExpr("inline(arrays_zip(value.*))")
    points = served.outputs(count.POINT)[["key", "n", "total"]].tolist()
    last = {key: (n, total) for key, n, total in points}
    found = {key % 2**64: (n, total) for key, n, total in state.collect()}
    assert found == last
    assert found[2**64 - 1][0] == 2


# -- what is refused ----------------------------------------------------------------


def test_the_checkpoint_of_an_older_version(spark, left, tmp_path):
    served, checkpoint = left
    copy = shutil.copytree(checkpoint, tmp_path / "c", ignore=shutil.ignore_patterns("*.crc"))
    for offsets in (copy / "offsets").glob("[0-9]*"):
        offsets.write_text(offsets.read_text().replace(', "buckets": 8', ""))
    with running(spark, COUNT, served, copy) as run:
        assert "buckets: expected 8, got None" in run.failure()


@pytest.mark.parametrize(
    ("key", "text"),
    few(
        [
            (lambda key: (None, 0, 0), "count: key: expected uint64, got None"),
            (lambda key: (key, 0), "count: expected key, n, total, got ("),
        ]
    ),
)
def test_a_result_that_does_not_fit_the_sink_names_the_key(spark, tmp_path, key, text):
    def counted(record, state):
        return key(record.key)

    step = StateComputation("count", count.TOTAL, counted, count.POINT)
    application = Application("count", [VALUES.by("key").to(step).into(POINTS)])
    records = new(2, count.VALUE)
    records["key"] = 7
    part = partition(tmp_path / "in", 0, 0, records)
    with Served(tmp_path, [part], count.POINT.itemsize - 4) as served:
        served.publish()
        with running(spark, application, served, tmp_path / "checkpoint") as run:
            assert f"StepError: key 7: {text}" in run.failure()
        assert not len(served.outputs(count.POINT))


def expect_refused(step: Computation, text: str) -> None:
    """Expect the first record that a step in front of the key cannot do to be named."""
    records = new(9, count.VALUE)
    records["key"] = np.arange(9)
    pipeline = (
        Pipeline("all", Source(3, count.VALUE)).to(step).by("key").to(*ALL.stages[1].steps[:1])
    )
    application = Application("app", [pipeline.into(Sink(0, count.POINT))])
    chunk = Chunk(100, 9, records.tobytes())
    with pytest.raises(RecordError, match=f"^stream 3, partition 1, offset 107: {text}"):
        list(rows.rows_of(application, 0, 1, [chunk]))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "step: key: expected uint64, got None"),
        (b"ABC", "step: key: expected uint64, got "),
        (-1, "step: key: expected uint64, got .*-1"),
    ],
)
def test_a_key_that_is_null_or_none_at_all(key, text):
    def changed(record):
        return [(key if record.key == 7 else record.key, record.value)] * 2

    expect_refused(Computation("step", changed, count.VALUE), text)


def test_a_function_that_raises_is_named_with_its_record():
    def changed(record):
        return int(b"x" if record.key == 7 else b"1"), record.value

    expect_refused(Computation("step", changed, count.VALUE), "step: invalid literal for int")


def test_a_text_that_is_too_long_is_never_cut():
    step = Computation("step", lambda record: (b"ABC",), framed(("word", "S2")))
    with pytest.raises(StepError, match=r"^step: word: expected at most 2 bytes, got 3"):
        applied(step, new(1, count.VALUE))
    state = KeyState(np.zeros(1, [("word", "S2")]))
    with pytest.raises(ValueError, match=r"^word: expected at most 2 bytes, got 3"):
        state.word = b"ABC"
    assert KeyState.table(state)["word"].tolist() == [b""]


def test_a_field_of_a_state_may_be_named_like_its_method():
    layout = np.dtype([("table", "<i8")])

    def last(record, state):
        state.table = record.value
        return record.key, 1, state.table

    step = StateComputation("last", State("last", layout), last, count.POINT)
    application = Application("last", [VALUES.by("key").to(step).into(POINTS)])
    row = Row(*leaving(application, 0).names)(0, 0, 0, 3, b"", None, None, 1, [7], [5])
    after, _ = KeyedStage(application, 1, 8).advance({"last": None}, [row])
    assert after == {"last": ([7], [5])}


def test_facts_of_a_checkpoint():
    one = facts(COUNT, {1: 4, 0: 2})
    assert one == facts(COUNT, {0: 2, 1: 8})
    assert one["partitions"] == "2 of stream 0"
    signed = Source(0, framed(("key", "<i8"), ("value", "<i8")))
    other = replace(COUNT, pipelines=[replace(COUNT.pipelines[0], source=signed)])
    assert one | {"keys": "key <i8"} == facts(other, {0: 2})


@pytest.mark.parametrize("due", [1, 5])
def test_a_timer_in_the_past_is_refused(due):
    def wait(record, state):
        state.due = np.int64(due)
        return ()

    waiting = State("waiting", np.dtype([("due", "<i8")]))
    step = StateComputation("wait", waiting, wait, count.VALUE, timer=Timer("due", "value", wait))
    records = new(1, count.VALUE)
    records["value"] = 5
    with pytest.raises(StepError, match=f"^wait: expected a timer later than 5, got {due}$"):
        applied(step, records, [KeyState(np.zeros(1, waiting.layout))])


def test_two_pipelines_whose_columns_differ():
    step, _ = ALL.stages[1].steps
    other = framed(("key", "<u8"), ("value", "<f8"))
    pipelines = [ALL, Pipeline("other", Source(1, other)).by("key").to(step)]
    with pytest.raises(PipelineError, match=r"^app: two pipelines, one field: .*value"):
        leaving(Application("app", pipelines), 0)


@pytest.mark.parametrize(
    "field", [("offset", "<i8"), ("bucket", "<i4"), ("records", "<u8"), ("name", "<c8")]
)
def test_a_field_that_makes_no_column(field):
    with pytest.raises(PipelineError, match=f"^field {field[0]} of .*: expected a number"):
        columns(framed(field))
