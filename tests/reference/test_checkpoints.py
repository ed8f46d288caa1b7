"""Queries that end and begin again, and what they refuse: each with a word that says why."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from chispa import assert_df_equality

from tests.long import LONG, few
from tests.reference.querying import recorded, running, with_state
from tests.reference.served import Served, numbers, partition, serving_values
from tickproof.reference import apps
from tickproof.reference.api import Application, Pipeline, Sink, Source, State
from tickproof.reference.api.layouts import new
from tickproof.reference.apps import count, market_spread
from tickproof.reference.compiler import batch

RECORDS = 300
DOUBLE = apps.make("double", {})
COUNT = apps.make("count", {"emit": "every"})
VERDICTS = apps.make("market-spread", {"inputs": "merged", "emit": "verdicts"})


@pytest.fixture
def values(tmp_path):
    """Serve two partitions of 300 values, 15 keys in each."""
    with serving_values(tmp_path, RECORDS, 15, 2**56) as served:
        yield served


@contextmanager
def serving_poison(tmp_path, offset: int):
    """Serve two partitions of quotes and orders, with a record of kind 9 in the second."""
    parts = []
    for number in range(2):
        records = new(RECORDS, market_spread.MESSAGE)
        records["kind"] = np.arange(RECORDS) % 2 + 1
        records["symbol"] = int.from_bytes(b"ABC    %d" % number, "little")
        records["id"] = np.arange(RECORDS) + RECORDS * number + 1
        if number == 1:
            records["kind"][offset] = 9
        parts.append(partition(tmp_path / "in", 0, number, records))
    with Served(tmp_path, parts, market_spread.VERDICT.itemsize - 4) as served:
        served.publish()
        yield served


def same_as_in_batch(spark, application: Application, served: Served) -> None:
    made, expected = (
        recorded(spark, application, served),
        batch.run(spark, application, served.files),
    )
    assert_df_equality(made, expected, ignore_row_order=True, ignore_nullable=True)


# -- going on -----------------------------------------------------------------------


def test_a_query_goes_on_where_it_was_stopped(spark, values, tmp_path):
    for share in (0.4, 1.0):
        values.publish(share)
        with running(spark, COUNT, values, tmp_path / "checkpoint", max_records=150) as run:
            run.until(values.ends)
    assert values.released == values.ends
    points = values.outputs(count.POINT)
    for key in range(30):  # no gap, no point twice, none before another
        assert points["n"][points["key"] == key].tolist() == list(range(1, RECORDS // 15 + 1))
    same_as_in_batch(spark, COUNT, values)


def test_a_commit_that_was_lost_is_asked_for_again(spark, values, tmp_path):
    lost = values.lose_a_commit()
    values.publish()
    with running(spark, COUNT, values, tmp_path / "checkpoint", max_records=200) as run:
        run.until(values.ends)
    assert lost == ["commit-received"]
    same_as_in_batch(spark, COUNT, values)


def test_only_what_is_in_the_commit_log_is_released(spark, values, tmp_path, monkeypatch):
    checkpoint, release, found = tmp_path / "checkpoint", values.log.release, []

    def noted(request) -> None:
        offsets = checkpoint / "offsets" / newest(checkpoint, "commits").name
        end = json.loads(offsets.read_text().splitlines()[-1])
        found.append((request.offset, end[f"{request.stream}/{request.partition}"]))
        release(request)

    monkeypatch.setattr(values.log, "release", noted)
    values.publish()
    with running(spark, COUNT, values, checkpoint, max_records=200) as run:
        run.until(values.ends)
    assert found == [(end, end) for end in (100, 200, 300) for _ in range(2)]


def test_a_release_that_a_death_prevented_is_made_good(spark, left, tmp_path):
    served, checkpoint = left
    records = np.fromfile(served.files[0][0], count.VALUE)
    with Served(tmp_path, [partition(tmp_path / "in", 0, 0, records)], 24) as fresh:
        fresh.publish(0.5)
        with running(spark, COUNT, fresh, copied(checkpoint, tmp_path)) as run:
            run.until(fresh.ends)
        assert fresh.released == {"0/0": RECORDS // 2}
        assert not len(fresh.outputs(count.POINT))


# -- what ends a query --------------------------------------------------------------


@pytest.mark.parametrize("coalesce", few([True, False]))
def test_a_wrong_record_ends_the_query_and_is_never_skipped(spark, tmp_path, coalesce):
    text = "RecordError: stream 0, partition 1, offset 117: expected kind 1 (order) or 2 (quote)"
    with serving_poison(tmp_path, 117) as served:
        options = {"max_records": 200, "coalesce": coalesce}
        for _ in range(2):
            with running(spark, VERDICTS, served, tmp_path / "checkpoint", **options) as run:
                assert text in run.failure()
            assert served.released == {"0/0": 100, "0/1": 100}
            verdicts = served.outputs(market_spread.VERDICT)
            assert len(verdicts) == 100  # the orders of the batch before


def test_a_wrong_record_is_buried_where_that_is_asked_for(spark, tmp_path):
    (pipeline,) = VERDICTS.pipelines
    source = replace(pipeline.source, dead_letters=str(tmp_path / "letters"))
    application = replace(VERDICTS, pipelines=[replace(pipeline, source=source)])
    with serving_poison(tmp_path, 117) as served:
        with running(spark, application, served, tmp_path / "checkpoint", max_records=200) as run:
            run.until(served.ends)
        (letter,) = (tmp_path / "letters").iterdir()
        assert letter.name == "0-1-117.bin"
        size = market_spread.MESSAGE.itemsize
        file = served.files[0][1].read_bytes()
        assert letter.read_bytes() == file[117 * size : 118 * size]
        verdicts = served.outputs(market_spread.VERDICT)
        wrong_was_an_order = 117 % 2 == 0
        assert len(verdicts) == RECORDS - wrong_was_an_order


@LONG
def test_a_sink_that_refuses_ends_the_query(spark, values, tmp_path):
    step = count.application("every").pipelines[0].stages[1].steps[0]
    pipeline = Pipeline("all", Source(0, count.VALUE)).by("key").to(step)
    elsewhere = replace(COUNT, pipelines=[pipeline.into(Sink(7, count.POINT))])
    values.publish()
    with running(spark, elsewhere, values, tmp_path / "checkpoint") as run:
        failure = run.failure()
    assert re.search(r"LogError: HAVE of writer \d+ was refused \(code 2\): there is no", failure)
    assert not any(values.released.values())


def test_a_log_that_is_gone_ends_the_query(spark, values, tmp_path):
    values.publish(0.5)
    with running(spark, COUNT, values, tmp_path / "checkpoint") as run:
        run.until(values.ends)
        values.stop()
        failure = run.failure()
    assert re.search(r"Passing: connection to 127\.0\.0\.1:\d+: .*Connection refused", failure)


# -- checkpoints that cannot be gone on from ----------------------------------------

(ALL,) = COUNT.pipelines
WIDER = State("total", np.dtype([*count.TOTAL.layout.descr, ("last", "<i8")]))
TURNED = State("total", np.dtype([("total", "<i8"), ("n", "<u8")]))
OTHERS = {
    "application": (DOUBLE, {}, "application: expected 'double', got 'count'"),
    "pipelines": (
        replace(COUNT, pipelines=[replace(ALL, name="some")]),
        {},
        "pipelines: expected 'some of stream 0', got 'all of stream 0'",
    ),
    "a wider state": (with_state(COUNT, WIDER), {}, 'state: expected "total ['),
    "a state of the same size": (with_state(COUNT, TURNED), {}, 'state: expected "total ['),
    "buckets": (COUNT, {"buckets": 3}, "buckets: expected 3, got 8"),
    "combine": (COUNT, {"combine": False}, "combine: expected 0, got 1"),
    "coalesce": (COUNT, {"coalesce": False}, "coalesce: expected 0, got 1"),
}


@pytest.fixture(scope="module")
def left(spark, tmp_path_factory):
    """Leave a checkpoint of COUNT after half of the input; give the log and its folder."""
    folder = tmp_path_factory.mktemp("left")
    records = new(RECORDS, count.VALUE)
    records["key"] = np.arange(RECORDS) % 7
    part = partition(folder / "in", 0, 0, records)
    with Served(folder, [part], count.POINT.itemsize - 4) as served:
        served.publish(0.5)
        with running(spark, COUNT, served, folder / "checkpoint", max_records=75) as run:
            run.until(served.ends)  # two batches
        served.publish()
        yield served, folder / "checkpoint"


def copied(checkpoint: Path, folder: Path) -> Path:
    """Return a copy to break; without Spark's sums, which would find the break first."""
    ignore = shutil.ignore_patterns("*.crc")
    return Path(shutil.copytree(checkpoint, folder / "checkpoint", ignore=ignore))


@pytest.mark.parametrize(("application", "options", "text"), OTHERS.values(), ids=OTHERS.keys())
def test_the_checkpoint_of_another_application(spark, left, application, options, text):
    served, checkpoint = left
    with running(spark, application, served, checkpoint, **options) as run:
        assert f"CheckpointError: {checkpoint}: {text}" in run.failure()
    assert len(served.outputs(count.POINT)) == RECORDS // 2


def test_the_checkpoint_of_another_application_releases_nothing(spark, left, tmp_path):
    served, checkpoint = left
    copy = copied(checkpoint, tmp_path)
    for offsets in (copy / "offsets").glob("[0-9]*"):
        offsets.write_text(offsets.read_text().replace(f": {RECORDS // 2}", f": {RECORDS}"))
    with running(spark, DOUBLE, served, copy) as run:
        assert "application: expected 'double', got 'count'" in run.failure()
    assert served.released == {"0/0": RECORDS // 2}


def newest(checkpoint: Path, log: str) -> Path:
    """Return the file of the last batch in one of Spark's logs."""
    return max((checkpoint / log).glob("[0-9]*"), key=lambda path: int(path.name))


def other_offset(checkpoint: Path) -> None:
    """Write an offset that is no JSON."""
    *head, _ = newest(checkpoint, "offsets").read_text().splitlines()
    newest(checkpoint, "offsets").write_text("\n".join([*head, '{"0/0": 1']))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda c: newest(c, "offsets").write_text(""), r"offsets/\d+. Incomplete log file"),
        (lambda c: newest(c, "commits").write_text(""), r"commits/\d+. Incomplete log file"),
        (lambda c: newest(c, "offsets").unlink(), r"FETCH of .* was refused \(code 3\)"),
        (other_offset, "JSONDecodeError"),
        (lambda c: shutil.rmtree(c / "state"), "state directory is empty or missing"),
    ],
    ids=["offsets", "commits", "no offsets", "an offset", "state"],
)
def test_a_broken_checkpoint(spark, left, tmp_path, damage, text):
    served, checkpoint = left
    copy = copied(checkpoint, tmp_path)
    damage(copy)
    with running(spark, COUNT, served, copy) as run:
        assert re.search(text, run.failure())
    assert len(served.outputs(count.POINT)) == RECORDS // 2
    assert served.released == {"0/0": RECORDS // 2}


@pytest.fixture
def doubled(spark, tmp_path, monkeypatch):
    """Leave a checkpoint of DOUBLE whose only batch is committed, and not yet released."""
    parts = [partition(tmp_path / "in", 0, p, numbers(RECORDS, 1000 * p)) for p in range(2)]
    with Served(tmp_path, parts, parts[0].record_size) as served:
        served.publish(0.5)
        with monkeypatch.context() as patched:
            patched.setattr(served.log, "release", lambda _: None)
            with running(spark, DOUBLE, served, tmp_path / "left") as run:
                run.wait(lambda: any((tmp_path / "left" / "commits").glob("[0-9]*")))
        assert served.released == {"0/0": 0, "0/1": 0}
        served.publish()
        yield served, copied(tmp_path / "left", tmp_path)


def test_a_batch_that_is_planned_anew_is_not_the_one_that_was_committed(spark, doubled):
    """Its plan was lost with a file: what the log has under its number is another range."""
    served, checkpoint = doubled
    for log in ("commits", "offsets"):
        newest(checkpoint, log).unlink()
    with running(spark, DOUBLE, served, checkpoint) as run:
        assert "COMMIT of batch 0: another checkpoint or application has done" in run.failure()
    assert served.released == {"0/0": 0, "0/1": 0}


@LONG
def test_a_batch_that_is_run_again_may_have_been_committed(spark, doubled):
    served, checkpoint = doubled
    newest(checkpoint, "commits").unlink()
    with running(spark, DOUBLE, served, checkpoint) as run:
        run.until(served.ends)
    same_as_in_batch(spark, DOUBLE, served)


def test_a_batch_that_was_planned_before_a_death_is_not_taken_over(spark, left, tmp_path):
    served, checkpoint = left
    copy = copied(checkpoint, tmp_path)
    newest(copy, "commits").unlink()
    # Nothing that Spark itself would notice.
    other = replace(COUNT, pipelines=[replace(ALL, name="some")])
    with running(spark, other, served, copy) as run:
        assert "pipelines: expected 'some of stream 0', got 'all of stream 0'" in run.failure()
    assert len(served.outputs(count.POINT)) == RECORDS // 2
