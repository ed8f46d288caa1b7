"""Metrics of a query as Prometheus reads them: while it runs, after it, and after an error."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser

from tests.reference.querying import DEADLINE_S, running
from tests.reference.served import serving_values
from tickproof.reference import apps
from tickproof.reference.metrics import METRICS, Metrics, records

RECORDS = 300


def scraped(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """Return metric -> labels but the query's -> value."""
    return {
        sample.name.removeprefix("reference_query_"): {
            tuple(value for name, value in one.labels.items() if name != "query"): one.value
            for one in family.samples
        }
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
    }


def until(condition: Callable[[], bool]) -> None:
    """Wait for an event, which comes after the batch that it tells of."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_query_that_runs_goes_on_and_fails(spark, tmp_path):
    metrics = Metrics()
    spark.streams.addListener(metrics)
    checkpoint = tmp_path / "checkpoint"

    def now(metric: str) -> float:
        return scraped(metrics.text()).get(metric, {}).get((), -1)

    try:
        with serving_values(tmp_path, RECORDS, 20) as served:
            counting = apps.make("count", {"emit": "every"})
            served.publish()
            with running(spark, counting, served, checkpoint, max_records=100) as run:
                run.until(served.ends)
                assert now("up") == 1
                until(lambda: now("records_total") == sum(served.ends.values()))
                until(lambda: now("backlog_records") == 0)
            until(lambda: now("up") == 0)
            found = scraped(metrics.text())
            assert found["failures_total"] == {(): 0} and found["batches_total"][()] >= 3
            assert found["batch_seconds"][("addBatch",)] > 0
            assert found["state_rows"] == {("0",): 8}
            assert found["state_memory_bytes"][("0",)] > 0 and found["state_disk_bytes"][("0",)] > 0
            assert found.keys() == METRICS.keys()
            with running(spark, apps.make("double", {}), served, checkpoint) as run:
                assert "CheckpointError" in run.failure()
            until(lambda: now("failures_total") == 1)
            assert now("records_total") == sum(served.ends.values())
    finally:
        spark.streams.removeListener(metrics)


places = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 99)),
    st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
)


@given(places, st.booleans())
def test_records_between_offsets(found, of_kafka):
    def offset(which: Callable[[tuple[int, int]], int]) -> str:
        made: dict = {} if of_kafka else {"application": "count", "buckets": 8}
        for (stream, partition), ends in found.items():
            if of_kafka:
                made.setdefault(f"topic-{stream}", {})[str(partition)] = which(ends)
            else:
                made[f"{stream}/{partition}"] = which(ends)
        return json.dumps(made)

    start, end = offset(lambda one: one[0]), offset(sum)
    assert records(start, end) == sum(more for _, more in found.values())
    assert records(None, end) == records("null", end) == sum(map(sum, found.values()))
    assert records(start, None) == records(start, "None") == 0


def test_names_are_escaped():
    metrics = Metrics()
    metrics._queries['a "b"\\\n'].records = 7
    (family,) = [
        one
        for one in parser.text_string_to_metric_families(metrics.text())
        if one.name == "reference_query_records"
    ]
    assert family.samples[0].labels == {"query": 'a "b"\\\n'}
