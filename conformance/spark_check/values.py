"""The values of an app's output, judged part by part on Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from tickproof.conformance.checkers.arrays import hash_records
from tickproof.conformance.checkers.causality import FirstFetches
from tickproof.conformance.checkers.count import TAIL, collect_count, count_findings
from tickproof.conformance.checkers.counterexamples import Counterexamples
from tickproof.conformance.checkers.delivery import collect_sequences, sequence_findings
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.checkers.market_rule import ANSWER, RECORD, Located
from tickproof.conformance.checkers.merged import collect_merged, merged_findings
from tickproof.conformance.checkers.multiset import collect_multiset, multiset_findings
from tickproof.conformance.checkers.two_streams import (
    Lane,
    collect_two_streams,
    two_stream_findings,
)
from tickproof.conformance.history.outputs import ARRIVAL, OutputLog
from tickproof.conformance.spark_check.blocks import Cut, Cutter, Source, blocks, part_count, scan
from tickproof.conformance.spark_check.parts import Judged, Part, Placed, judge_parts, merged
from tickproof.conformance.spark_check.routes import by_order
from tickproof.generators.layouts import COUNT_IN, QUOTE_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Files:
    """Files to judge: sources of the input, by stream and partition, and of the output.

    ``log``: the whole output as the driver sees it, a memory map.
    """

    spark: SparkSession
    streams: Sequence[Sequence[Source]]
    output: Source
    log: OutputLog

    @property
    def inputs(self) -> list[Source]:
        """Sources of all input partitions, stream by stream."""
        return [source for stream in self.streams for source in stream]

    @property
    def sources(self) -> list[Source]:
        """All sources: input, then output."""
        return [*self.inputs, self.output]

    @property
    def records(self) -> int:
        """Records of the whole input."""
        return sum(source.records for source in self.inputs)

    @property
    def parts(self) -> int:
        """The number of parts to make."""
        return part_count(self.sources, self.spark.sparkContext.defaultParallelism)

    def judge(
        self, cut_input: Cutter, cut_output: Cutter, judge: Callable[[Part], Judged]
    ) -> tuple[Counterexamples, dict[str, int]]:
        """Cut, shuffle and judge all sources; return what all parts found."""
        cutters = [*[cut_input] * len(self.inputs), cut_output]
        made = blocks(self.spark, self.sources, cutters, self.parts)
        return self.judge_blocks(made, judge)

    def judge_blocks(
        self, made: DataFrame, judge: Callable[[Part], Judged]
    ) -> tuple[Counterexamples, dict[str, int]]:
        """Shuffle blocks and judge them; return what all parts found."""
        return merged(judge_parts(made, self.sources, self.parts, judge))


def looked(files: Files, look: Callable[[np.ndarray], Any]) -> Iterator[Any]:
    """Yield what ``look`` says of each slice of the input."""
    for seen in scan(files.spark, files.inputs, lambda _, __, some: pickle.dumps(look(some))):
        yield pickle.loads(seen)


# -- count -------------------------------------------------------------------------------


def _by_key(records: np.ndarray) -> Cut:
    return Cut(records, records["key"])


def count(files: Files, emit: str, step_back_after: int | None, fetches: FirstFetches) -> Findings:
    """Judge app count; see check_count."""
    lanes = range(len(files.inputs))

    def judge(part: Part) -> Judged:
        counterexamples = Placed(part.places(len(lanes)))
        keys = collect_count(
            [part.records(lane) for lane in lanes],
            part.log(len(lanes)),
            emit,
            step_back_after,
            counterexamples,
            offsets=[part.places(lane) for lane in lanes],
            fetches=fetches,
        )
        return Judged.of(counterexamples, keys=keys)

    counterexamples, facts = files.judge(_by_key, _by_key, judge)
    return count_findings(
        counterexamples,
        _records_behind(files, counterexamples),
        files.log,
        emit,
        records=files.records,
        keys=facts["keys"],
    )


def _records_behind(files: Files, counterexamples: Counterexamples) -> list[np.ndarray]:
    """Return, by partition, the records of the keys whose wrong totals will be explained."""
    need: dict[int, int] = {}
    for example in counterexamples.kept.get("wrong-total", ()):
        record = example.row["record"]
        key = int(record["key"])
        need[key] = max(need.get(key, 0), int(record["n"]) + TAIL)
    found: list[list[np.ndarray]] = [[np.empty(0, COUNT_IN)] for _ in files.inputs]
    keys = np.array(list(need), np.uint64)

    def look(number: int, _start: int, records: np.ndarray) -> bytes:
        some = records[np.isin(records["key"], keys)]
        return pickle.dumps((number, some)) if len(some) else b""

    for seen in scan(files.spark, files.inputs, look) if need else ():
        number, some = pickle.loads(seen)
        found[number].append(some)
        for key in need:
            need[key] -= int((some["key"] == key).sum())
        if max(need.values()) <= 0:
            break
    return [np.concatenate(some) for some in found]


# -- Market Spread -----------------------------------------------------------------------


def _by_symbol(records: np.ndarray) -> Cut:
    return Cut(records, records.view(RECORD)["symbol"])


def _by_named_symbol(records: np.ndarray) -> Cut:
    return Cut(records, records.view(ANSWER)["symbol"])


def _market(
    files: Files, judge: Callable[[Part], Judged]
) -> tuple[Counterexamples, dict[str, int]]:
    """Judge by symbol. An output goes where its order is, whatever symbol it names.

    Nearly always that is the symbol that it names. Only where some output met no order
    in its part are outputs led to their orders first, by another shuffle.
    """
    counterexamples, facts = files.judge(_by_symbol, _by_named_symbol, judge)
    if not facts["orphans"]:
        return counterexamples, facts
    cutters = [_by_symbol] * len(files.inputs)
    made = blocks(files.spark, files.inputs, cutters, files.parts)
    led = by_order(files.spark, files.streams[-1], files.output, len(files.inputs), files.parts)
    return files.judge_blocks(made.unionAll(led), judge)


def merged_market(files: Files, emit: str, limit: int, fetches: FirstFetches) -> Findings:
    """Judge app market-spread on merged input; see check_merged."""
    lanes = range(len(files.inputs))

    def judge(part: Part) -> Judged:
        counterexamples = Placed(part.places(len(lanes)))
        seen = collect_merged(
            [part.records(lane) for lane in lanes],
            part.log(len(lanes)),
            emit,
            counterexamples,
            offsets=[part.places(lane) for lane in lanes],
            limit=limit,
            fetches=fetches,
        )
        return Judged.of(
            counterexamples, orders=seen.orders, rejects=seen.rejects, orphans=seen.orphans
        )

    counterexamples, facts = _market(files, judge)
    return merged_findings(
        counterexamples,
        files.log,
        partitions=len(lanes),
        records=files.records,
        orders=facts["orders"],
        rejects=facts["rejects"],
        locate=_located(files, counterexamples),
        limit=limit,
    )


def _located(files: Files, counterexamples: Counterexamples) -> Callable[[int], Located | None]:
    """Look up every quote that an explanation will name, in one scan of the input."""
    kept = [counterexamples.kept.get(kind, []) for kind in ("wrong-verdict", "invented")]
    rows = [example.row for example in chain(*kept)]
    ids = np.array([row["answer"]["quote_id"] for row in rows if "right" in row], np.uint64)
    quotes: dict[int, Located] = {}

    def look(number: int, start: int, records: np.ndarray) -> bytes:
        some = records.view(RECORD)
        at = np.flatnonzero((some["kind"] == QUOTE_KIND) & np.isin(some["id"], ids))
        found = [
            Located(int(quote["symbol"]), number, start + i)
            for i, quote in zip(at.tolist(), some[at], strict=True)
        ]
        return pickle.dumps((some["id"][at].tolist(), found)) if found else b""

    for seen in scan(files.spark, files.inputs, look) if len(ids) else ():
        for id_, quote in zip(*pickle.loads(seen), strict=True):
            quotes.setdefault(id_, quote)
    return quotes.get


@dataclass(frozen=True)
class Timing:
    """Tables and claims of a run with two streams; see check_two_streams."""

    freshness_ns: int
    publishes: np.ndarray
    fetches: np.ndarray
    pauses: Sequence[tuple[int, int]]
    delivery: str
    limit: int
    first_fetches: tuple[FirstFetches, ...]


def two_stream_market(files: Files, emit: str, timing: Timing) -> Findings:
    """Judge app market-spread on two streams; see check_two_streams."""
    quotes = range(len(files.streams[0]))
    orders = range(len(quotes), len(files.inputs))

    def judge(part: Part) -> Judged:
        counterexamples = Placed(part.places(orders.stop))
        orphans = collect_two_streams(
            [Lane(part.records(lane), part.places(lane)) for lane in quotes],
            [Lane(part.records(lane), part.places(lane)) for lane in orders],
            part.log(orders.stop),
            emit,
            counterexamples,
            **vars(timing),
        )
        return Judged.of(counterexamples, orphans=orphans)

    counterexamples, _ = _market(files, judge)
    sizes = [sum(source.records for source in stream) for stream in files.streams]
    return two_stream_findings(
        counterexamples,
        files.log,
        partitions=len(orders),
        quotes=sizes[0],
        orders=sizes[1],
        limit=timing.limit,
    )


# -- passthrough and double --------------------------------------------------------------


def _by_payload(records: np.ndarray) -> Cut:
    return Cut(records, hash_records(records))


def multiset(
    files: Files, expected: Callable[[np.ndarray], np.ndarray], fetches: FirstFetches
) -> Findings:
    """Judge output against what ``expected`` makes of each input record; see check_multiset."""
    lanes = range(len(files.inputs))
    bases = np.cumsum([0, *(source.records for source in files.inputs)])

    def judge(part: Part) -> Judged:
        counterexamples = Placed(part.places(len(lanes)))
        ordinals = [part.places(lane) + bases[lane] for lane in lanes]
        collect_multiset(
            [part.records(lane) for lane in lanes],
            part.log(len(lanes)),
            counterexamples,
            ordinals=np.concatenate(ordinals),
            fetches=fetches,
        )
        return Judged.of(counterexamples)

    counterexamples, _ = files.judge(partial(_cut_expected, expected), _by_payload, judge)
    return multiset_findings(counterexamples, files.log, files.records)


def _cut_expected(expected: Callable[[np.ndarray], np.ndarray], records: np.ndarray) -> Cut:
    return _by_payload(expected(records))


# -- the numbers of writers --------------------------------------------------------------


def _by_writer(arrivals: np.ndarray) -> Cut:
    return Cut(arrivals, arrivals["writer"])


def sequences(files: Files) -> Findings:
    """Judge the numbers of writers; see check_sequences. A part holds all rows of a writer."""
    path, dtype, count = files.output.arrivals
    source = Source(path, dtype, "", count, ARRIVAL)
    output = files.output

    def judge(part: Part) -> Judged:
        counterexamples = Counterexamples()
        rows = np.array(part.records(0))
        # Payloads are looked at only where a number came twice.
        log = OutputLog(output.array(), rows)
        numbered, writers = collect_sequences(log, rows, counterexamples)
        return Judged.of(counterexamples, numbered=numbered, writers=writers)

    parts = part_count([source], files.spark.sparkContext.defaultParallelism)
    made = blocks(files.spark, [source], [_by_writer], parts)
    counterexamples, facts = merged(judge_parts(made, [source], parts, judge))
    return sequence_findings(counterexamples, files.log, facts["numbered"], facts["writers"])
