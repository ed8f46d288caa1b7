"""The form of rows: as that of blocks for every split, streamed as in batch, and its errors."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from tests.long import LONG, few
from tests.reference.playing import plain, play, splits
from tests.reference.playing_rows import batches, play_rows
from tests.reference.querying import recorded, running, with_state
from tests.reference.served import Served, partition
from tests.reference.test_apps import (
    I64,
    by_key,
    by_partition,
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
    arrays,
)
from tickproof.reference.api.layouts import framed, new
from tickproof.reference.apps import circuit_breaker, count, double, votes
from tickproof.reference.apps.market_spread import VERDICT
from tickproof.reference.blocks import streaming as blocks
from tickproof.reference.compiler import batch, processor
from tickproof.reference.compiler import streaming as rows
from tickproof.reference.compiler.checkpoint import facts
from tickproof.reference.compiler.columns import OUTPUT, columns, in_log_order, leaving
from tickproof.reference.compiler.processor import KeyedStage, stored
from tickproof.reference.compiler.steps import KeyState, RecordError, StepError, applied
from tickproof.reference.connectors.wire import Chunk

COUNT = apps.make("count", {"emit": "every"}, on_arrays=False)
(ALL,) = COUNT.pipelines
POINTS = Sink(0, count.POINT)
VALUES = Pipeline("all", Source(0, count.VALUE))
COUNTED = ALL.stages[1].steps[0]
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
@given(keyed, st.integers(1, 3), splits, st.booleans())
def test_count_in_order(pairs, partitions, split, on_arrays):
    records = values(pairs, partitions)
    expected, state = points(records, split)
    played = play_rows(apps.make("count", {"emit": "every"}, on_arrays), records, split)
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
def test_market_spread_in_every_way(rows_, emit, inputs, partitions, split, on_arrays, combine):
    params = {"inputs": inputs, "emit": emit}
    application = apps.make("market-spread", params, on_arrays=on_arrays)
    records = market(rows_, partitions, two=inputs == "two")
    expected, state = verdicts(records, split, emit)
    # Run again, with rows that arrive in another order, a batch is the same, byte for byte.
    first, again = (play_rows(application, records, split, shuffle, combine) for shuffle in (1, 2))
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
        made = pa.Table.from_batches(rows.rows_of(application, 0, 0, chunks, combine)).to_pylist()
        decided = b"".join(row["records"] for row in made if row["sink"] == 0)
        travel = [number for row in made if row["sink"] is None for number in row["id"]]
        found[combine] = len(decided) // VERDICT.itemsize, travel
    assert found == {True: (50, [50, 101, 102, 103]), False: (0, [*range(1, 104)])}


@pytest.mark.parametrize(("type_", "key"), [("S1", b"131"), ("<u8", 3), ("i1", 3)])
def test_what_is_decided_early_has_a_key_that_follows_from_its_partition(type_, key):
    layout = framed(("schema", type_), ("value", "<i8"))

    def combine(records):
        return records[:1], records[1:]

    step = StateComputation("step", count.TOTAL, times_and_values, layout, combine)
    pipeline = Pipeline("all", Source(0, layout)).by("schema").to(step).into(Sink(0, layout))
    records = new(3, layout)
    records["value"] = 5, 6, 7
    chunk = Chunk(40, 3, records.tobytes())
    made = rows.rows_of(Application("app", [pipeline]), 0, 131, [chunk])
    decided, left = (row for batch_ in made for row in batch_.to_pylist())
    assert (decided["schema"], decided["records"]) == (key, records[1:].tobytes())
    assert (left["sink"], left["size"], left["value"]) == (None, 1, [5])


def test_the_output_of_one_key_is_cut(monkeypatch):
    monkeypatch.setattr(processor, "CHUNK_BYTES", 3 * count.POINT.itemsize)
    records = values([(7, 1)] * 8, 1)
    application = apps.make("count", {"emit": "every"})
    (chunk,) = (Chunk(0, 8, part.tobytes()) for part in records.values())
    (batch_,) = rows.rows_of(application, 0, 0, [chunk])
    given_ = [Row(*row)(*row.values()) for row in batch_.to_pylist()]
    _, made = KeyedStage(application, 1).advance({"total": None}, given_)
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
    kept = {key: of_one["keys"][1] for (stage, key), of_one in found.items() if stage == 2}
    assert kept == last


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
            with running(spark, TWO_KEYS, served, folder, rows, max_records=70) as run:
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
            with running(spark, application, served, tmp_path / "c", rows, **options) as run:
                run.until(served.ends)
        made, expected = (
            recorded(spark, application, served),
            batch.run(spark, application, served.files),
        )
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
WITHOUT = SimpleNamespace(start=partial(rows.start, combine=False))
OF_ANOTHER = {
    "form": (apps.make("count", {"emit": "every"}), blocks, "form: expected 'blocks', got 'rows'"),
    "application": (
        apps.make("double", {}, on_arrays=False), rows,
        "application: expected 'double', got 'count'",
    ),
    "keys": (
        replace(COUNT, pipelines=[VALUES.by("value").to(COUNTED).into(POINTS)]), rows,
        "keys: expected 'value <i8', got 'key <u8'",
    ),
    "state": (
        with_state(COUNT, WIDER), rows, "state: expected \"total [",
    ),
    "combine": (COUNT, WITHOUT, "combine: expected 0, got 1"),
}  # fmt: skip


@pytest.mark.parametrize(("application", "form", "text"), OF_ANOTHER.values(), ids=OF_ANOTHER)
def test_the_checkpoint_of_another(spark, left, application, form, text):
    served, checkpoint = left
    with running(spark, application, served, checkpoint, form) as run:
        assert f"CheckpointError: {checkpoint}: {text}" in run.failure()


def test_the_checkpoint_of_an_older_version(spark, left, tmp_path):
    served, checkpoint = left
    copy = shutil.copytree(checkpoint, tmp_path / "c", ignore=shutil.ignore_patterns("*.crc"))
    for offsets in (copy / "offsets").glob("[0-9]*"):
        offsets.write_text(offsets.read_text().replace(', "combine": 1', ""))
    with running(spark, COUNT, served, copy, rows) as run:
        assert "combine: expected 1, got None" in run.failure()


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

    application = count.application("every", counted)
    records = new(2, count.VALUE)
    records["key"] = 7
    part = partition(tmp_path / "in", 0, 0, records)
    with Served(tmp_path, [part], count.POINT.itemsize - 4) as served:
        served.publish()
        with running(spark, application, served, tmp_path / "checkpoint", rows) as run:
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
    assert stored(state) == (b"",)


def test_a_field_of_a_state_may_be_named_like_its_method():
    layout = np.dtype([("table", "<i8")])

    def last(record, state):
        state.table = record.value
        return record.key, 1, state.table

    step = StateComputation("last", State("last", layout), last, count.POINT)
    application = Application("last", [VALUES.by("key").to(step).into(POINTS)])
    row = Row(*leaving(application, 0).names)(0, 0, 0, b"", None, None, 1, 7, [5])
    after, _ = KeyedStage(application, 1).advance({"last": None}, [row])
    assert after == {"last": (5,)}


def test_facts_of_a_checkpoint():
    one = facts(COUNT, {1: 4, 0: 2}, "rows")
    assert one == facts(COUNT, {0: 2, 1: 8}, "rows")
    assert one["partitions"] == "2 of stream 0"
    signed = Source(0, framed(("key", "<i8"), ("value", "<i8")))
    other = replace(COUNT, pipelines=[replace(COUNT.pipelines[0], source=signed)])
    assert one | {"keys": "key <i8"} == facts(other, {0: 2}, "rows")


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


FOR_ROWS_ALONE = {
    "two keys": TWO_KEYS,
    "a text as key": votes.application(),
    "two sinks and a timer": circuit_breaker.application(),
    "a step in front of the state": Application(
        "app", [VALUES.by("key").to(Computation("step", abs, count.VALUE)).to(COUNTED).into(POINTS)]
    ),
    "two states": Application(
        "app", [VALUES.by("key").to(COUNTED).to(replace(COUNTED, state=KEYS)).into(POINTS)]
    ),
    "two states in two pipelines": Application(
        "app",
        [
            VALUES.by("key").to(COUNTED).into(POINTS),
            Pipeline("other", Source(1, count.VALUE)).by("key").to(replace(COUNTED, state=KEYS)),
        ],
    ),
}


@pytest.mark.parametrize("application", FOR_ROWS_ALONE.values(), ids=FOR_ROWS_ALONE)
def test_what_blocks_cannot_do_they_refuse(application, tmp_path):
    text = f"^{application.name}: blocks expect one sink, at most one key, which is a u64, and "
    with pytest.raises(PipelineError, match=text):
        blocks.start(None, application, {}, {}, tmp_path)
    assert not any(tmp_path.iterdir())


def test_functions_on_arrays_are_refused_with_several_keys(tmp_path):
    @arrays.on_arrays
    def nothing(records, rows, states):
        return records[:0]

    (pipeline,) = TWO_KEYS.pipelines
    first, second, third = pipeline.stages
    steps = (replace(second.steps[0], function=nothing),)
    stages = (first, replace(second, steps=steps), third)
    application = replace(TWO_KEYS, pipelines=[replace(pipeline, stages=stages)])
    text = "^two-keys: times: expected a function on one record, since there are several keys"
    with pytest.raises(PipelineError, match=text):
        rows.start(None, application, {}, {}, tmp_path)


@pytest.mark.parametrize(
    "field", [("offset", "<i8"), ("part", "S4"), ("records", "<u8"), ("name", "<c8")]
)
def test_a_field_that_makes_no_column(field):
    with pytest.raises(PipelineError, match=f"^field {field[0]} of .*: expected a number"):
        columns(framed(field))
