"""Metrics of running queries, in the text format of Prometheus.

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

from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

#: Name of a metric -> (type, help).
METRICS = {
    "up": ("gauge", "1 while the query runs."),
    "failures_total": ("counter", "Ends of the query by an error."),
    "batches_total": ("counter", "Micro-batches that are done."),
    "records_total": ("counter", "Records of input in these batches."),
    "backlog_records": ("gauge", "Records that were there and not in the newest batch."),
    "batch_seconds": ("gauge", "Duration of the newest batch, by part."),
    "state_rows": ("gauge", "Rows of state: a row is a bucket."),
    "state_memory_bytes": ("gauge", "Memory of the state."),
    "state_disk_bytes": ("gauge", "RocksDB's files of the state."),
}
_ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


@dataclass
class _Query:
    """What is known of the queries of one name: one of them runs at a time."""

    up: bool = True
    failures: int = 0
    batches: int = 0
    records: int = 0
    newest: StreamingQueryProgress | None = field(default=None, repr=False)


class Metrics(StreamingQueryListener):
    """Metrics of all queries of a session: ``spark.streams.addListener(metrics)``.

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

    def text(self) -> str:
        """Return all metrics as Prometheus reads them."""
        with self._lock:
            samples = [sample for one in self._queries.items() for sample in _samples(*one)]
        lines = []
        for metric, (type_, said) in METRICS.items():
            full = f"reference_query_{metric}"
            lines += [f"# HELP {full} {said}", f"# TYPE {full} {type_}"]
            lines += [f"{full}{labels} {value}" for of, labels, value in samples if of == metric]
        return "\n".join(lines) + "\n"


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


def _samples(name: str, query: _Query) -> Iterator[tuple[str, str, float]]:
    """Yield (metric, labels, value)."""

    def sample(metric: str, value: float, **labels: object) -> tuple[str, str, float]:
        given = {"query": name, **labels}
        parts = (f'{key}="{str(text).translate(_ESCAPED)}"' for key, text in given.items())
        return metric, f"{{{','.join(parts)}}}", value

    yield sample("up", int(query.up))
    yield sample("failures_total", query.failures)
    yield sample("batches_total", query.batches)
    yield sample("records_total", query.records)
    if query.newest is None:
        return
    sources = query.newest.sources
    if all(_parsed(one.latestOffset) for one in sources):
        behind = sum(records(one.endOffset, one.latestOffset) for one in sources)
        yield sample("backlog_records", behind)
    for part, ms in query.newest.durationMs.items():
        yield sample("batch_seconds", ms / 1000, part=part)
    for number, one in enumerate(query.newest.stateOperators):
        yield sample("state_rows", one.numRowsTotal, operator=number)
        yield sample("state_memory_bytes", one.memoryUsedBytes, operator=number)
        disk = dict(one.customMetrics).get("rocksdbSstFileSize")
        if disk is not None:
            yield sample("state_disk_bytes", disk, operator=number)
