"""Samples the processes of an engine, and of the machine, while a run goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.history.rows import MACHINE, OTHERS, USAGE
from tickproof.conformance.history.tables import Table
from tickproof.conformance.usage import process_sample
from tickproof.conformance.usage.engine_pids import Reapers, roles
from tickproof.conformance.usage.processor_time import Accounts

PERIOD_S: Final = 1.0
#: How long until it is checked again whether the engine has started.
ASK_AGAIN_S: Final = 0.05
#: A sample takes at most one part in so many of the time; else the period becomes longer.
SPARING: Final = 30


class Periodic:
    """Calls ``sample`` each ``period_s`` in a thread, sparingly; use as a context manager.

    Begins when ``ready`` says so, and calls once more on leaving: at least twice in all. What
    goes wrong in a call ends the calls, and is raised on leaving unless something else is.
    """

    def __init__(
        self, sample: Callable[[], object], ready: Callable[[], object], period_s: float
    ) -> None:
        self._sample, self._ready, self._period_s = sample, ready, period_s
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Periodic:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._ready():
                if self._stop.wait(min(ASK_AGAIN_S, self._period_s)):
                    break
            while True:
                began = time.thread_time()
                self._sample()
                took_s = time.thread_time() - began
                if self._stop.wait(max(self._period_s, SPARING * took_s)):
                    break
            self._sample()
        except Exception as error:  # figures that are missing must not look like none
            self._failure = error


class MachineSample(NamedTuple):
    """One row of machine.bin; see MACHINE."""

    t_ns: int
    busy_s: float
    steal_s: float
    kit_s: float
    engine_s: float
    pressure_us: int


class UsageSampler:
    """Writes usage.bin, machine.bin, others.bin and usage.json; use as a context manager.

    ``roots`` gives the pids above all of the engine's processes, none before it has started;
    without it they are read from the events of the run. ``queues``: look at the bytes in the
    queues of sockets, for which the kernel walks through a large table each time. This
    process and all that it started, the engine excepted, is the kit, and so is what runs as one
    of the pids in ``kit``. ``on_sample`` is called
    with each sample and the engine's processes. Raises OSError on leaving where the folder
    cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        roots: Callable[[], list[int]] | None = None,
        *,
        period_s: float | None = None,
        queues: bool = True,
        kit: Collection[int] = (),
        on_sample: Callable[[MachineSample, Sequence[Proc]], None] | None = None,
    ) -> None:
        self._folder, self._roots = folder, roots or Reapers(folder)
        self._on_sample, self._with_queues = on_sample, queues
        self._accounts = Accounts(kit)
        self._processes: dict[int, dict[str, Any]] = {}
        period_s = PERIOD_S if period_s is None else period_s
        self._periodic = Periodic(self._sample, self._roots, period_s)

    def __enter__(self) -> UsageSampler:
        self._usage = Table(self._folder / "usage.bin", USAGE)
        self._machine = Table(self._folder / "machine.bin", MACHINE)
        self._others = Table(self._folder / "others.bin", OTHERS)
        self._periodic.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._periodic.__exit__(*raised)
        finally:
            for table in (self._usage, self._machine, self._others):
                table.close()
            for pid, role in roles(self._folder).items():
                if pid in self._processes:
                    self._processes[pid]["role"] = role
            write_json(self._folder / "usage.json", self._processes)

    def _queues(self, roots: list[int]) -> dict[int, tuple[int, int]] | None:
        if not self._with_queues:
            return None
        return {k: v for root in roots for k, v in process_sample.socket_queues(root).items()}

    def _sample(self) -> None:
        roots = self._roots()
        t_ns = time.monotonic_ns()
        accounts = self._accounts
        engine = accounts.update(process_table.table(), roots)
        machine = MachineSample(
            t_ns,
            accounts.busy_s,
            process_sample.steal_s(),
            accounts.kit_s,
            accounts.engine_s,
            process_sample.pressure_us(),
        )
        queues = self._queues(roots)
        rows = []
        for proc in filter(process_table.living, engine):
            try:
                self._processes[proc.pid] = process_sample.scheduling(proc)
                rows.append(process_sample.row(t_ns, proc, queues))
            except (ProcessLookupError, FileNotFoundError):
                continue  # it ended meanwhile
        self._usage.add_all(rows)
        self._others.add_all((t_ns, core, used_s) for core, used_s in accounts.others.items())
        self._machine.add(*machine)
        if self._on_sample is not None:
            self._on_sample(machine, engine)
