"""Blocks and parts: what is cut, where it goes, in what order it arrives."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from chispa import assert_df_equality
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark import cloudpickle

from tests.long import LONG
from tickproof.conformance.checkers.counterexamples import Counterexamples
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.spark_check import blocks as cutting
from tickproof.conformance.spark_check.blocks import (
    Cut,
    Source,
    block_batch,
    blocks,
    parts_of,
    slices,
)
from tickproof.conformance.spark_check.parts import Part, PartOfLog, Placed, on_parts
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import COUNT_IN, framed, in_frames

# Executors know the kit, not its tests: functions of this module travel whole.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = "part int, source int, place long, key long, value long, t_ns long"


def source(folder, name: str, keys, arrivals=None) -> Source:
    """Write a file of COUNT_IN records with these keys, and values from 0."""
    records = np.zeros(len(keys), COUNT_IN)
    records["key"], records["value"] = keys, np.arange(len(keys))
    path = folder / name
    in_frames(records).tofile(path)
    return Source(str(path), framed(COUNT_IN), "payload", len(keys), COUNT_IN, arrivals)


def arrivals(folder, counts) -> tuple[str, np.dtype, int]:
    t_ns = 100 * np.arange(1, len(counts) + 1)
    log = output_log(np.zeros(sum(counts), COUNT_IN), counts, t_ns=t_ns)
    log.arrivals.tofile(folder / "arrivals")
    return str(folder / "arrivals"), ARRIVAL, len(counts)


def by_key(records: np.ndarray) -> Cut:
    return Cut(records, records["key"])


def even_only(records: np.ndarray) -> Cut:
    rows = np.flatnonzero(records["value"] % 2 == 0)
    return Cut(records[rows], records["key"][rows], rows)


def rows_of(batches):
    """Decode blocks to a row a record, as a test reads them."""
    for batch in batches:
        for block in batch.to_pylist():
            records = np.frombuffer(block["records"], COUNT_IN)
            times = np.frombuffer(block["times"], np.int64)
            yield pa.RecordBatch.from_pydict(
                {
                    "part": pa.array([block["part"]] * len(records), pa.int32()),
                    "source": pa.array([block["source"]] * len(records), pa.int32()),
                    "place": np.frombuffer(block["places"], np.int64),
                    "key": records["key"].astype(np.int64),
                    "value": records["value"],
                    "t_ns": times if len(times) else np.zeros(len(records), np.int64),
                }
            )


def test_blocks_hold_every_record_once_with_its_place_and_time(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "SLICE_BYTES", 300)  # 15 records of 20 bytes
    rng = np.random.default_rng(1)
    keys = [rng.integers(0, 9, 40), rng.integers(0, 9, 50)]
    sources = [
        source(tmp_path, "in", keys[0]),
        source(tmp_path, "out", keys[1], arrivals(tmp_path, [20, 1, 0, 29])),
    ]
    found = blocks(spark, sources, [even_only, by_key], 4).mapInArrow(rows_of, ROWS)
    arrived = np.repeat([100, 200, 400], [20, 1, 29])
    expected = [
        (
            int(parts_of(keys[number][place : place + 1], 4)[0]),
            number,
            place,
            int(keys[number][place]),
            place,
            int(arrived[place]) if number else 0,
        )
        for number, step in ((0, 2), (1, 1))
        for place in range(0, len(keys[number]), step)
    ]
    assert_df_equality(found, spark.createDataFrame(expected, ROWS), ignore_row_order=True)
    assert len({row[0] for row in expected}) > 1


@LONG
def test_a_part_gets_its_records_in_the_order_of_each_source(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(cutting, "SLICE_BYTES", 100)
    keys = np.random.default_rng(2).integers(0, 50, 400)
    sources = [source(tmp_path, "a", keys[:150]), source(tmp_path, "b", keys[150:])]

    def look(part):
        for number in range(2):
            records, places = part.records(number), part.places(number)
            assert (records["value"] == places).all()
            assert (np.diff(places) > 0).all()
            yield pa.RecordBatch.from_pydict({"key": records["key"].astype(np.int64)})

    made = on_parts(blocks(spark, sources, [by_key] * 2, 3), sources, 3, look, "key long")
    expected = spark.createDataFrame([(int(key),) for key in keys], "key long")
    assert_df_equality(made, expected, ignore_row_order=True)


@given(
    records=st.integers(0, 50),
    size=st.integers(1, 200),
    others=st.lists(st.integers(0, 9), max_size=3),
)
def test_slices_cover_every_source_once(records, size, others):
    sources = [Source("", framed(COUNT_IN), "", n, COUNT_IN) for n in (records, *others)]
    found = slices(sources, size)
    for number, each in enumerate(sources):
        covered = [i for n, start, end in found if n == number for i in range(start, end)]
        assert covered == list(range(each.records))
    assert all(0 < end - start <= max(1, size // 20) for _, start, end in found)


@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=1), parts=st.integers(1, 70_000))
def test_equal_words_meet_in_one_part(words, parts):
    found = parts_of(np.array(words + words, np.uint64), parts)
    assert (found < parts).all()
    assert (found[: len(words)] == found[len(words) :]).all()


def test_words_that_differ_little_are_spread():
    counts = np.bincount(parts_of(np.arange(10_000, dtype=np.uint64), 10), minlength=10)
    assert counts.min() > 500


@settings(deadline=None)
@given(st.data())
def test_part_is_sorted_by_place_however_blocks_come(tmp_path_factory, data):
    places = np.array(data.draw(st.permutations(range(40))), np.int64)
    keys = places.astype(np.uint64) * np.uint64(3)
    records = np.zeros(len(keys), COUNT_IN)
    records["key"], records["value"] = keys, -places
    edges = sorted({0, 40, *data.draw(st.lists(st.integers(1, 39), max_size=4))})
    batches = [
        block_batch(0, 7, records[a:b], keys[a:b], places[a:b], 10 * places[a:b], 1)
        for a, b in pairwise(edges)
    ]
    part = Part(
        [Source("", framed(COUNT_IN), "payload", 40, COUNT_IN)], tmp_path_factory.mktemp("part")
    )
    part.spool(batches)
    assert part.places(0).tolist() == list(range(40))
    assert part.records(0)["value"].tolist() == [-place for place in range(40)]
    assert part.log(0).t_ns(np.array([3, 9])).tolist() == [30, 90]


def test_empty_part_holds_nothing(tmp_path):
    part = Part([Source("", framed(COUNT_IN), "payload", 0, COUNT_IN)], tmp_path)
    part.spool([])
    assert len(part.records(0)) == len(part.places(0)) == len(part.log(0)) == 0


def test_counterexamples_of_a_part_stand_at_their_place_in_the_log():
    found = Placed(np.array([5, 70, 900]))
    found.note("wrong-total", np.array([2, 0]), total=np.array([1, 2]))
    found.note("duplicate", np.array([1]), first=np.array([0]))
    found.note("lost", np.array([8]), key=np.array([6]))
    found.note("lost", np.empty(0, np.int64), key=np.empty(0))
    kept = {kind: [(one.at, one.row) for one in some] for kind, some in found.kept.items()}
    assert kept == {
        "wrong-total": [(5, {"total": 2}), (900, {"total": 1})],
        "duplicate": [(70, {"first": 5})],
        "lost": [(8, {"key": 6})],
    }


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99)), max_size=40), st.data())
def test_counterexamples_of_parts_are_those_of_the_whole(noted, data):
    noted = list(dict.fromkeys(noted))
    parts = [Counterexamples() for _ in range(3)]
    whole, together = Counterexamples(), Counterexamples()
    for kind, at in noted:
        for each in (whole, parts[data.draw(st.integers(0, 2))]):
            each.note(kind, np.array([at]), twice=np.array([2 * at]))
    for each in parts:
        together.take(each)
    assert together.counts == whole.counts
    assert together.kept == whole.kept


def test_times_of_a_part_are_its_own():
    log = PartOfLog(np.zeros(2, COUNT_IN), np.zeros(0, ARRIVAL), np.array([7, 9]))
    assert log.t_ns(np.array([1, 0])).tolist() == [9, 7]


@pytest.mark.parametrize(("start", "end"), [(0, 50), (0, 1), (19, 22), (20, 21), (21, 50)])
def test_times_of_a_slice(tmp_path, start, end):
    made = source(tmp_path, "out", np.zeros(50), arrivals(tmp_path, [20, 1, 0, 29]))
    arrived = np.repeat([100, 200, 400], [20, 1, 29])
    assert made.times(start, end).tolist() == arrived[start:end].tolist()


@given(gib=st.integers(0, 64))
def test_blocks_grow_with_the_bytes_and_not_with_their_square(gib):
    kept = np.dtype("V1024")
    file = cutting.Source("none", kept, "", gib << 20, kept)
    cut = len(cutting.slices([file], int(cutting.SLICE_BYTES * cutting.growth(gib << 30))))
    parts = cutting.part_count([file], 2)
    small = (cutting.FEW_BYTES // cutting.SLICE_BYTES) * (cutting.FEW_BYTES // cutting.PART_BYTES)
    assert cut * parts <= small * max(1, gib / 4) * 1.2
    assert cut * parts >= small * gib / 4 * 0.8 or gib < 4
