"""Metrics of running queries for Prometheus.

Spark counts rows, and a row of the reference is what a chunk of the log has of a bucket. So
records are counted by offsets: of the log, and of Kafka.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

#: Name of a metric -> (family, help, labels beside ``query``).
METRICS: dict[str, tuple[Any, ...]] = {
    "up": (GaugeMetricFamily, "1 while the query runs."),
    "failures_total": (CounterMetricFamily, "Ends of the query by an error."),
    "batches_total": (CounterMetricFamily, "Micro-batches that are done."),
    "records_total": (CounterMetricFamily, "Records of input in these batches."),
    "backlog_records": (GaugeMetricFamily, "Records that were there and not in the newest batch."),
    "batch_seconds": (GaugeMetricFamily, "Duration of the newest batch, by part.", "part"),
    "state_rows": (GaugeMetricFamily, "Rows of state: a row is a bucket.", "operator"),
    "state_memory_bytes": (GaugeMetricFamily, "Memory of the state.", "operator"),
    "state_disk_bytes": (GaugeMetricFamily, "RocksDB's files of the state.", "operator"),
}


@dataclass
class _Query:
    """What is known of the queries of one name: one of them runs at a time."""

    up: bool = True
    failures: int = 0
    batches: int = 0
    records: int = 0
    newest: StreamingQueryProgress | None = field(default=None, repr=False)


class Metrics(StreamingQueryListener, Collector):
    """Metrics of all queries of a session: ``spark.streams.addListener(metrics)``.

    It is a collector of prometheus_client, too: ``REGISTRY.register(metrics)``.
    A query is called by its name, or by its id, which is in its checkpoint. Counters begin with
    the listener.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._queries: dict[str, _Query] = defaultdict(_Query)
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Count it as running."""
        with self._lock:
            self._names[str(event.runId)] = event.name or str(event.id)
            self._queries[self._names[str(event.runId)]].up = True

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take the progress of a batch."""
        progress = event.progress
        with self._lock:
            query = self._queries[progress.name or str(progress.id)]
            query.newest = progress
            query.batches += 1
            query.records += sum(
                records(one.startOffset, one.endOffset) for one in progress.sources
            )

    def onQueryIdle(self, event: object) -> None:
        """Change nothing: there was no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Count an end, and whether it was by an error."""
        with self._lock:
            query = self._queries[self._names.pop(str(event.runId), str(event.id))]
            query.up = False
            query.failures += event.exception is not None

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, as a collector of prometheus_client does."""
        with self._lock:
            samples = [sample for one in self._queries.items() for sample in _samples(*one)]
        for name, (family, said, *labels) in METRICS.items():
            made = family(f"reference_query_{name}", said, labels=["query", *labels])
            for metric, of, value in samples:
                if metric == name:
                    made.add_metric(of, value)
            yield made

    def text(self) -> str:
        """Return all metrics as Prometheus reads them."""
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry).decode()


def records(start: str | None, end: str | None) -> int:
    """Return how many records lie between two offsets of the log, or of topics of Kafka.

    Offsets are JSON objects. Without a start they count from 0.
    """
    before = dict(_places(start))
    return sum(at - before.get(place, 0) for place, at in _places(end))


def _places(offset: str | None) -> Iterator[tuple[str, int]]:
    """Yield each partition with its offset; other facts of a checkpoint are left out."""
    for name, at in _parsed(offset).items():
        if isinstance(at, Mapping):
            yield from ((f"{name}/{partition}", int(one)) for partition, one in at.items())
        elif name.replace("/", "", 1).isdecimal() and "/" in name:
            yield name, int(at)


def _parsed(offset: str | None) -> dict[str, Any]:
    """Return an offset, empty where Spark has none: it says so as null, and as a text of that."""
    found = json.loads(offset) if offset and offset != "None" else None
    return found if isinstance(found, dict) else {}


def _samples(name: str, query: _Query) -> Iterator[tuple[str, list[str], float]]:
    """Yield (metric, values of its labels, value)."""
    yield "up", [name], int(query.up)
    yield "failures_total", [name], query.failures
    yield "batches_total", [name], query.batches
    yield "records_total", [name], query.records
    if query.newest is None:
        return
    sources = query.newest.sources
    if all(_parsed(one.latestOffset) for one in sources):
        behind = sum(records(one.endOffset, one.latestOffset) for one in sources)
        yield "backlog_records", [name], behind
    for part, ms in query.newest.durationMs.items():
        yield "batch_seconds", [name, part], ms / 1000
    for number, one in enumerate(query.newest.stateOperators):
        of = [name, str(number)]
        yield "state_rows", of, one.numRowsTotal
        yield "state_memory_bytes", of, one.memoryUsedBytes
        disk = dict(one.customMetrics).get("rocksdbSstFileSize")
        if disk is not None:
            yield "state_disk_bytes", of, disk
