"""A run folder whose records are read on Spark; all else as in any other history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.apps.app import App
from tickproof.conformance.apps.count import Count
from tickproof.conformance.apps.market_spread import MarketSpread
from tickproof.conformance.apps.passthrough import Passthrough
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import ARRIVAL, OutputLog
from tickproof.conformance.spark_check import input
from tickproof.conformance.spark_check import values as judged
from tickproof.conformance.spark_check.blocks import Source
from tickproof.conformance.spark_check.remote import RemoteRun
from tickproof.conformance.suites import evidence
from tickproof.conformance.suites.judge import Unknown
from tickproof.conformance.verdicts import Reason
from tickproof.generators.layouts import framed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Input that a judge may read in the driver; of more it must ask Spark.
DRIVER_BYTES: Final = 64 << 20
_CHUNK: Final = 1 << 18


class ScaledHistory(History):
    """A history whose values and sequences are judged by Spark.

    ``remote``: where the run is, if ``folder`` is a copy of all but its input.
    """

    def __init__(self, folder: Path, spark: SparkSession, remote: RemoteRun | None = None) -> None:
        super().__init__(folder.absolute())
        self._spark, self._remote = spark, remote

    @property
    def other_ways(self) -> Mapping[str, Callable[[History], Any]]:
        """Evidence that Spark computes."""
        ways = {"values": _values, "wrapping_inputs": _wrapping_inputs, "end_keys": _end_keys}
        # Of a copy the driver has the arrivals, and executors do not.
        return ways if self._remote else ways | {"sequences": _sequences}

    def verify(self) -> None:
        """Expect every file to be as it was sealed, also partitions that were not copied."""
        super().verify()
        if self._remote is None:
            return
        expected = {row.file: row.sha256 for row in self.partitions}
        if added := set(self._remote.partitions) - expected.keys():
            raise HistoryError(f"{self._remote.at(min(added))}: added after the run")
        for name, digest in self._remote.digests().items():
            if digest != expected[name]:
                raise HistoryError(f"{self._remote.at(name)}: changed after it was recorded")

    def inputs(self, dtype: np.dtype, stream: int = 0) -> list[np.ndarray]:
        """Return the payloads of each partition, where they are few enough for one process.

        Raises Unknown where they are not: then this way cannot decide.
        """
        size = sum(
            row.records * (4 + row.record_size) for row in self.partitions if row.stream == stream
        )
        if size > DRIVER_BYTES:
            raise Unknown(
                Reason.NOT_AT_SCALE,
                f"up to {DRIVER_BYTES >> 20} MiB of input for this test on Spark",
                f"{size >> 20} MiB: run `tickproof check` without --spark",
            )
        if self._remote:
            self._have_input()
            self._remote.copy(self._remote.partitions, self.folder)
        return super().inputs(dtype, stream)

    def outputs(self, dtype: np.dtype, stream: int = 0) -> OutputLog:
        """Return the recorded output of a stream; the arrivals, too, are a memory map."""
        table, log = f"output/s{stream}.arrivals", f"output/s{stream}.log"
        rows = plain_files.size(self.folder, table) // ARRIVAL.itemsize
        held = plain_files.size(self.folder, log) // framed(dtype).itemsize
        arrivals = np.zeros(0, ARRIVAL)
        if rows:
            with self.opened(table) as file:
                arrivals = np.memmap(file, ARRIVAL, "r", shape=(rows,))
        records = whole = 0
        for start in range(0, rows, _CHUNK):
            piece = arrivals[start : start + _CHUNK]
            ends = piece["index"] + piece["count"]
            whole += int((ends <= held).sum())
            records += int(piece["count"][ends <= held].sum())
        last = arrivals[whole - 1] if whole else None
        if last is not None and int(last["index"]) + int(last["count"]) != records:
            raise HistoryError(
                f"{self.folder / table}: rows do not follow each other; expected no gap"
            )
        return OutputLog(self._framed(log, dtype, records), arrivals[:whole])

    def _have_input(self) -> None:
        if self._remote is None:
            super()._have_input()
            return
        for row in self.partitions:
            size, held = row.records * (4 + row.record_size), self._remote.sizes.get(row.file)
            if held is None or held < size:
                raise HistoryError(
                    f"{self._remote.at(row.file)}: {held or 0:,} bytes, expected {size:,}; a run "
                    "by its URI needs its input (bench engines --keep leaves it, generate "
                    "partitions makes it)"
                )

    def _make_input(self, recipe: dict[str, Any], folder: Path) -> dict[str, str]:
        paths = input.write(self._spark, recipe, folder)
        digests = input.digests(self._spark, paths)
        names = [f"{folder.name}/{path.name}" for path in paths]
        return dict(zip(names, digests, strict=True))

    def files(self) -> judged.Files:
        """Return what Spark reads. Makes the input again where the folder lost it."""
        self._have_input()
        log, app = evidence.outputs(self), apps.of(self)
        size = self.partitions[0].record_size
        streams = [
            [
                self._source(row.file, kind, row.records)
                for row in self.partitions
                if row.stream == stream
            ]
            for stream, kind in enumerate(app.input_layouts(size))
        ]
        output = self._source("output/s0.log", app.output_layout(size), len(log))
        table = str(self.folder / "output" / "s0.arrivals")
        arrivals = (table, ARRIVAL, len(log.arrivals))
        if self._remote:
            arrivals = self._spark.sparkContext.broadcast(np.array(log.arrivals))
        return judged.Files(self._spark, streams, replace(output, arrivals=arrivals), log)

    def _source(self, name: str, dtype: np.dtype, records: int) -> Source:
        source = Source(str(self.folder / name), framed(dtype), "payload", records, dtype)
        if self._remote:
            return replace(source, path=self._remote.at(name), remote=True)
        self._framed(name, dtype, records)  # it is as long as it must be
        return source


def _values(history: ScaledHistory) -> Findings:
    if evidence.may_count_again(history):
        return evidence.check(history)  # it needs all records of a key, and where they lie
    return _judged(apps.of(history), history)


@singledispatch
def _judged(app: App, history: ScaledHistory) -> Findings:
    raise TypeError(f"app {app.name} is not judged on Spark")


@_judged.register
def _multiset(app: Passthrough, history: ScaledHistory) -> Findings:
    return judged.multiset(history.files(), app.answer, evidence.first_fetches(history)[0])


@_judged.register
def _count(app: Count, history: ScaledHistory) -> Findings:
    replay_ns = evidence.replay_allowed_after(history)
    (fetches,) = evidence.first_fetches(history)
    return judged.count(history.files(), app.params["emit"], replay_ns, fetches)


@_judged.register
def _market(app: MarketSpread, history: ScaledHistory) -> Findings:
    fetches, emit = evidence.first_fetches(history), app.params["emit"]
    if app.merged:
        return judged.merged_market(history.files(), emit, history.spread_limit, fetches[0])
    timing = judged.Timing(
        history.claims.freshness_ns,
        history.publishes,
        history.fetches_with_cause,
        list(history.pauses()),
        history.claims.delivery,
        history.spread_limit,
        fetches,
    )
    return judged.two_stream_market(history.files(), emit, timing)


def _sequences(history: ScaledHistory) -> Findings:
    return judged.sequences(history.files())


def _wrapping_inputs(history: ScaledHistory) -> int:
    return sum(judged.looked(history.files(), evidence.wrapping))


def _end_keys(history: ScaledHistory) -> set[int]:
    return set().union(*judged.looked(history.files(), evidence.ends_among))


def opener(spark: SparkSession, remote: RemoteRun | None = None) -> Callable[[Path], ScaledHistory]:
    """Return what opens a run folder for Spark; see session.recheck."""
    return partial(ScaledHistory, spark=spark, remote=remote)
