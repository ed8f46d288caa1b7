"""Leading verdicts to the symbol of the order that they answer, whatever they name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tickproof.conformance.checkers.answers import Answers
from tickproof.conformance.checkers.arrays import pieces
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD
from tickproof.conformance.spark_check.blocks import (
    SCHEMA,
    SLICE_BYTES,
    Cut,
    Source,
    block_batch,
    blocks,
)
from tickproof.conformance.spark_check.parts import Part, on_parts
from tickproof.generators.layouts import ORDER_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What finds an order again: its id, and its symbol as a word.
_ORDER: Final = np.dtype([("id", "<u8"), ("symbol", "<u8")])


def _cut_orders(records: np.ndarray) -> Cut:
    some = records.view(RECORD)
    rows = np.flatnonzero(some["kind"] == ORDER_KIND)
    orders = np.empty(len(rows), _ORDER)
    orders["id"], orders["symbol"] = some["id"][rows], some["symbol"][rows]
    return Cut(orders, orders["id"], rows)


def _cut_answers(records: np.ndarray) -> Cut:
    return Cut(records, records["order_id"])


def by_order(
    spark: SparkSession, orders: Sequence[Source], output: Source, number: int, parts: int
) -> DataFrame:
    """Return the blocks of the output, as source ``number``, by the symbol of its orders.

    ``orders``: sources that hold orders, perhaps beside quotes. An output that answers
    no order goes by the symbol that it names.
    """
    sources = [*(replace(source, kept=_ORDER) for source in orders), output]
    cutters = [*[_cut_orders] * len(orders), _cut_answers]

    def lead(part: Part) -> Iterator[pa.RecordBatch]:
        log, places = part.log(len(orders)), part.places(len(orders))
        symbols = _symbols(part, len(orders))
        step = max(1, SLICE_BYTES // log.payloads.itemsize)
        for at in range(0, len(log), step):
            some = slice(at, at + step)
            yield block_batch(
                number,
                int(places[at]),
                np.array(log.payloads[some]),
                symbols[some],
                places[some],
                log.times[some],
                parts,
            )

    return on_parts(blocks(spark, sources, cutters, parts), sources, parts, lead, SCHEMA)


def _symbols(part: Part, orders: int) -> np.ndarray:
    """Return for each output of a part the symbol of the order that it answers, as a word."""
    log = part.log(orders)
    answers = Answers(log)
    symbols = np.array(log.payloads.view(ANSWER)["symbol"])
    for lane in range(orders):
        for _, piece in pieces(part.records(lane)):
            for positions, rows, _ in answers.of(piece["id"]):
                symbols[positions] = piece["symbol"][rows]
    return symbols
