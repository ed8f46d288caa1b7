"""A batch as the work of writers, each of which delivers its part once.

`foreachBatch` runs a batch again if its driver died before Spark knew that it was done. Whoever
delivers therefore keeps the number of the last batch of each writer where its output is, in the
same transaction. It holds because a batch is a function of its range of offsets and the state
before it, as `connectors.sink` says, and because all rows of a writer are in one task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from tickproof.reference.compiler.columns import PLACE

#: In the local properties of each job that a query starts.
QUERY = "sql.streaming.queryId"
SENT = pa.schema([("rows", pa.int64())])
#: How long what is written to may keep a batch waiting.
PERSIST_S, AGAIN_S = 60.0, 0.1
#: The name of a writer, with that of its query; the number of a batch; its rows.
Deliver = Callable[[str, int, list[tuple]], None]


def start(
    frame: DataFrame, name: str, checkpoint: str, deliver: Deliver, passing: type[Exception]
) -> StreamingQuery:
    """Start the query whose batches are delivered by writers, in executors.

    frame: columns writer, what is delivered, and then those of PLACE, which its order is by. Which
    rows a writer has may depend on the batch alone, and they are all in one task. name: begins
    the names of writers, which stay the same as long as the checkpoint does. passing: an error that
    may pass.
    """

    def of_batch(batch: DataFrame, batch_id: int) -> None:
        def of_task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            query = context.getLocalProperty(QUERY) if context else None
            if query is None:
                raise RuntimeError(f"expected the local property {QUERY}, as Spark sets it")
            count = 0
            for writer, mine in by_writer(rows):
                persistently(passing, deliver, f"{name}-{query}-{writer}", batch_id, mine)
                count += len(mine)
            yield pa.record_batch([[count]], schema=SENT)

        batch.mapInArrow(of_task, "rows long").collect()

    writer = frame.writeStream.foreachBatch(of_batch)
    return writer.option("checkpointLocation", checkpoint).start()


def persistently(
    passing: type[Exception], deliver: Deliver, name: str, batch_id: int, rows: list[tuple]
) -> None:
    """Deliver the rows of a writer; again after each error, as long as it may pass."""
    deadline = 0.0
    while True:
        try:
            return deliver(name, batch_id, rows)
        except passing:
            deadline = deadline or time.monotonic() + PERSIST_S  # a long delivery costs none of it
            if time.monotonic() > deadline:
                raise
            time.sleep(AGAIN_S)


def by_writer(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, list[tuple]]]:
    """Yield what each writer delivers, in the order of the columns of PLACE."""
    found = list(batches)
    if not found:
        return
    table = pa.Table.from_batches(found)
    delivered = table.schema.names[: -len(PLACE)]
    order = ("writer", *table.schema.names[-len(PLACE) :])
    table = table.sort_by([(one, "ascending") for one in order])
    columns = (table[name].to_pylist() for name in delivered)
    for writer, mine in groupby(zip(*columns, strict=True), itemgetter(0)):
        yield writer, [row[1:] for row in mine]
