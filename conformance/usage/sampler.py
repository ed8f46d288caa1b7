"""Looks at the processes of an engine each second, while a run goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines import process_table
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.history.rows import MACHINE, OTHERS, USAGE
from tickproof.conformance.history.tables import Table
from tickproof.conformance.usage import process_sample
from tickproof.conformance.usage.engine_pids import roles
from tickproof.conformance.usage.processor_time import Accounts

PERIOD_S: Final = 1.0
#: How long until it is asked again whether the engine has started.
ASK_AGAIN_S: Final = 0.05
#: A look takes at most one part in so many of the time, and makes the period longer else.
SPARING: Final = 30


class Looking:
    """Calls ``look`` each ``period_s`` in a thread, sparingly; use as a context manager.

    Begins when ``ready`` says so. With ``at_end`` there is a look on leaving too, and at least
    two in all. What breaks a look ends them, and is raised on leaving, unless something else is.
    """

    def __init__(
        self, look: Callable[[], object], ready: Callable[[], object], period_s: float,
        at_end: bool = False,
    ) -> None:  # fmt: skip
        self._look, self._ready, self._period_s, self._at_end = look, ready, period_s, at_end
        self._failure: Exception | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looking", daemon=True)

    def __enter__(self) -> Looking:
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
            if self._at_end or not self._stop.is_set():
                self._go_on()
        except Exception as error:  # figures that are missing must not look like none
            self._failure = error

    def _go_on(self) -> None:
        while True:
            began = time.thread_time()
            self._look()
            took = time.thread_time() - began
            if self._stop.wait(max(self._period_s, SPARING * took)):
                break
        if self._at_end:
            self._look()


class UsageSampler:
    """Writes usage.bin, machine.bin, others.bin and usage.json; use as a context manager.

    ``roots`` gives the pids above all of the engine's processes, none before it has started.
    This process and all that it started, the engine excepted, is the kit. Raises OSError on
    leaving where the folder cannot be written.
    """

    def __init__(self, folder: Path, roots: Callable[[], list[int]]) -> None:
        self._folder, self._roots = folder, roots
        self._accounts = Accounts()
        self._processes: dict[int, dict[str, Any]] = {}
        self._looking = Looking(self._look, roots, PERIOD_S, at_end=True)

    def __enter__(self) -> UsageSampler:
        self._usage = Table(self._folder / "usage.bin", USAGE)
        self._machine = Table(self._folder / "machine.bin", MACHINE)
        self._others = Table(self._folder / "others.bin", OTHERS)
        self._looking.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            self._looking.__exit__(*raised)
        finally:
            for table in (self._usage, self._machine, self._others):
                table.close()
            for pid, role in roles(self._folder).items():
                if pid in self._processes:
                    self._processes[pid]["role"] = role
            write_json(self._folder / "usage.json", self._processes)

    def _look(self) -> None:
        roots = self._roots()
        t_ns = time.monotonic_ns()
        accounts = self._accounts
        engine = accounts.look(process_table.table(), roots)
        steal_s, pressure_us = process_sample.steal_s(), process_sample.pressure_us()
        queues = process_sample.socket_queues()
        rows = []
        for proc in filter(process_table.living, engine):
            try:
                self._processes[proc.pid] = process_sample.manner(proc)
                rows.append(process_sample.row(t_ns, proc, queues))
            except (ProcessLookupError, FileNotFoundError):
                continue  # it ended meanwhile
        self._usage.add_all(rows)
        self._others.add_all((t_ns, core, used_s) for core, used_s in accounts.others.items())
        self._machine.add(
            t_ns, accounts.busy_s, steal_s, accounts.kit_s, accounts.engine_s, pressure_us
        )
