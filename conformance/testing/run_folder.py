"""Run folders from plain values: what a judge is given, without an engine or a clock.

For example::

    run = RunFolder(tmp_path / "run", Scenario("mine", "passthrough", {}, recipe))
    run.tables(fetches=[(1_000, 0, 0, 0, 50)])
    run.outputs(output_log(payloads, t_ns=2_000))
    my_judge(run.history())
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from tickproof.conformance import __version__
from tickproof.conformance.history import seal
from tickproof.conformance.history.control_log import ControlLog
from tickproof.conformance.history.event import Event
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.history.folder import FORMAT, History, write_json
from tickproof.conformance.history.input_replay import InputMaker, input_facts, save_plan
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import (
    FETCH,
    HICCUP,
    MACHINE,
    OTHERS,
    PUBLISH,
    RELEASE,
    TICK,
    USAGE,
)
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators import recipes
from tickproof.generators.layouts import in_frames, opaque
from tickproof.generators.partitions import BuiltInput, PartitionFile

#: Rows of a table: an array of its dtype, or of each row the columns in their order.
Rows: TypeAlias = np.ndarray | Iterable[Sequence[float]]
#: What an engine claims that promises as little as possible.
LEAST_CLAIMS: Final[Mapping[str, Any]] = {
    "state": "none", "delivery": "at-least-once", "survives": [], "rescale": "none",
    "freshness_s": None, "latency": None,
}  # fmt: skip
_TABLES: Final = {
    "fetches": FETCH, "machine": MACHINE, "others": OTHERS, "publishes": PUBLISH,
    "releases": RELEASE, "ticks": TICK, "usage": USAGE,
}  # fmt: skip


class RunFolder:
    """The folder of a run, written part by part.

    What is not said is as in a run that was completed and in which nothing moved: the input
    is there, tables and logs are empty. Each method writes its parts whole, in place of what
    they held before. Times are in nanoseconds.
    """

    def __init__(
        self,
        folder: Path,
        scenario: Scenario,
        *,
        make_input: InputMaker | None = None,
        **facts: Any,
    ) -> None:
        """Write the input and the empty parts.

        folder: is made. make_input: writes the input, see `given_input`; None: the scenario's
        recipe does. facts: keys of run.json, as in `facts`.
        """
        self.folder = folder
        (folder / "output").mkdir(parents=True, exist_ok=True)
        inputs = folder / "input"
        #: The input with its publication plan.
        self.built: BuiltInput = (
            recipes.build(scenario.recipe, inputs) if make_input is None else make_input(inputs)
        )
        save_plan(self.built, inputs)
        self._run: dict[str, Any] = {
            "format": FORMAT,
            "kit": __version__,
            "id": "made",
            "seed": 1,
            "engine": {"name": "made", "version": "1", "language": "none"},
            "claims": dict(LEAST_CLAIMS),
            "scenario": scenario.to_json(),
            "started_ns": 0,
            "started": 0.0,
            "input": input_facts(self.built),
            "ended": {"how": "completed"},
            "ended_ns": 0,
            "left_over": [],
            "event_counts": {},
        } | facts
        (folder / "stderr.log").touch()
        self.tables(fetches=[], publishes=[], releases=[])
        self.outputs(output_log(np.zeros(0, opaque(1))))
        self.control()
        self.events()

    def history(self) -> History:
        """Open the folder."""
        return History(self.folder)

    def facts(self, **facts: Any) -> None:
        """Set keys of run.json: claims, engine, seed, ended, cores, service, ..."""
        self._run |= facts
        write_json(self.folder / "run.json", self._run)

    def tables(self, **rows: Rows) -> None:
        """Write tables, by name.

        publishes: (t_ns, stream, partition, end). fetches: (t_ns, stream, partition, base,
        end). releases: (t_ns, stream, partition, offset). ticks: (t_ns,). base, end and
        offset are in records. usage, machine, others: the columns stand in history/rows.py.
        """
        for name, given in rows.items():
            if name not in _TABLES:
                raise ValueError(f"table {name}: expected one of {', '.join(_TABLES)}")
            self._write_table(name, _TABLES[name], given)

    def hiccups(self, core: int, rows: Rows) -> None:
        """Write what the recorder of a core saw: (t_ns, late_ns) of each millisecond."""
        self._write_table(f"hiccups-{core}", HICCUP, rows)

    def timetable(
        self, t0_ns: int, tick_ns: int, late_ns: int = 0, ticks: int | None = None
    ) -> np.ndarray:
        """Give the run a pace; return when each tick of the plan is due, int64 (ticks,).

        late_ns: from then until it is published. ticks: how many were published; None: all.
        """
        planned = len(self.built.plan) - 1
        self.facts(pace={"t0_ns": t0_ns, "tick_ns": tick_ns, "ticks": planned})
        published = np.arange(planned if ticks is None else ticks, dtype=np.int64)
        self.tables(ticks=t0_ns + tick_ns * published + late_ns)
        return t0_ns + tick_ns * np.arange(planned, dtype=np.int64)

    def outputs(self, log: OutputLog, stream: int = 0) -> None:
        """Write the output of a stream; `output_log` makes one of plain values."""
        output = self.folder / "output"
        in_frames(log.payloads).tofile(output / f"s{stream}.log")
        log.arrivals.tofile(output / f"s{stream}.arrivals")

    def events(self, *events: Event) -> None:
        """Write the events: objects of the classes in history/events.py."""
        log = EventLog(_removed(self.folder / "events.jsonl"))
        for event in events:
            row = event.to_row()
            log.add(row.pop("event"), **row)
        log.close()
        self.facts(event_counts=dict(log.counts))

    def control(self, *lines: tuple[int, str, str]) -> None:
        """Write the control lines: (t_ns, "to" or "from" the engine, text)."""
        log = ControlLog(_removed(self.folder / "control.jsonl"))
        for t_ns, direction, line in lines:
            log.add(direction, line, t_ns)
        log.close()

    def seal(self) -> None:
        """Note the digest of each file, as a run does last: only a sealed run is judged again."""
        seal.write(self.folder, {})

    def _write_table(self, name: str, dtype: np.dtype, rows: Rows) -> None:
        given = rows if isinstance(rows, np.ndarray) else [tuple(row) for row in rows]
        np.asarray(given, dtype).tofile(self.folder / f"{name}.bin")


def given_input(parts: Mapping[tuple[int, int], np.ndarray]) -> InputMaker:
    """Return what writes given records as an input that is published at once.

    parts: (stream, partition) -> payloads, a structured array with one element a record.
    """

    def make(folder: Path) -> BuiltInput:
        folder.mkdir(parents=True)
        written = []
        for (stream, partition), payloads in parts.items():
            path = folder / f"s{stream}p{partition}.log"
            data = in_frames(payloads).tobytes()
            path.write_bytes(data)
            digest = hashlib.sha256(data).hexdigest()
            written.append(
                PartitionFile(stream, partition, path, payloads.itemsize, len(payloads), digest)
            )
        ends = [part.records for part in written]
        plan = np.array([[0] * len(ends), ends], np.uint64)
        return BuiltInput(tuple(written), plan, {"kind": "given"}, {}, {})

    return make


def _removed(path: Path) -> Path:
    path.unlink(missing_ok=True)
    return path
