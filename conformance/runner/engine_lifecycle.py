"""The engine in a run: its starts, its processes, what is done to them, its restarts."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines.control_channel import UNKNOWN_MEMBERS, Style
from tickproof.conformance.engines.disk import Disk
from tickproof.conformance.engines.engine_reuse import EnginePool, IdleEngine
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation
from tickproof.conformance.engines.process import (
    Engine,
    EngineFailure,
    OnLine,
    Pending,
    ProcessInfo,
)
from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.engines.security import Access
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.engines.topology import Member
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.kinds import loses_power
from tickproof.conformance.faults.moments import SCALING, moment_of
from tickproof.conformance.faults.process_fault import ProcessFault
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.kafka.completion import Completion
from tickproof.conformance.runner.activity_watch import ActivityWatch
from tickproof.conformance.scenario import Scenario

#: An op that no engine has: the answer must be a definite refusal.
PROBE_OP: Final = "tickproof-probe"
#: How the name of the state_dir may end: it is any absolute path.
STATE_DIRS: Final = ("", " kept here", "+b=1")


def state_dir_end(scenario: Scenario, seed: int) -> str:
    """Return the end of the name of a run's state_dir: a replay has the same."""
    return _drawn(scenario, seed, "state_dir").choice(STATE_DIRS)


def style(scenario: Scenario, seed: int, life: int) -> Style:
    """Return how requests are written to a life of the engine: a replay has the same."""
    return Style.drawn(_drawn(scenario, seed, f"style:{life}"))


def _drawn(scenario: Scenario, seed: int, what: str) -> random.Random:
    """Return a draw of what an engine sees; with the secret it tells nothing of the rest."""
    secret = scenario.recipe.get("secret", "")
    return random.Random(f"{seed}:{scenario.name}:{secret}:{what}")


class EngineUnderTest:
    """One engine under test, over all its lives in one run.

    ``reach`` gives the data member of the deploy request, another one after a restart; ``asked``
    are its params and inputs; ``pool``
    may hold an engine of an earlier run. ``listen_on`` gets the socket on which the engine reaches
    the log server out of a sandbox, its own to close. ``completion`` tells when an engine has
    drained that cannot be asked to.
    Faults may be injected in any thread; everything else happens in one.
    """

    def __init__(
        self,
        spec: EngineSpec,
        scenario: Scenario,
        run_id: str,
        folder: Path,
        seed: int,
        reach: Callable[[bool], dict[str, Any]],
        asked: dict[str, Any],
        on_line: OnLine,
        events: EventLog,
        pool: EnginePool | None = None,
        isolation: Isolation = UNPROTECTED,
        listen_on: Callable[[socket.socket], None] = socket.socket.close,
        completion: Callable[[float], Completion] | None = None,
    ) -> None:
        self._spec, self._scenario, self._id = spec, scenario, run_id
        self._reach, self._data, self._asked = reach, reach(False), asked
        self._on_line, self._events, self._seed = on_line, events, seed
        self._lives = 0
        self._extra = UNKNOWN_MEMBERS if scenario.extra_members else {}
        self._stderr = folder / "stderr.log"
        self._workspace: Workspace | None = None
        self._members: list[Member] = []
        self._topology_lock = threading.Lock()
        self._loses_power = loses_power(scenario.faults)
        # An engine that another run started, or takes over, has no disk.
        self._pool = None if self._loses_power else pool
        self._isolation, self._listen_on = isolation, listen_on
        self._completion, self._network = completion, isolation.network
        #: What its Kafka clients need beside an address; the run sets it where there is such.
        self.access: Access | None = None
        self._process: Engine | None = None
        #: Apps that this process has had before this run.
        self._served = 0
        #: Measures the limits of engine.toml; the run drives it.
        self.clock = FairClock()
        self.injector = ProcessFaultInjector(
            self._stderr, events, seed, spec.timeouts.recovery_s, self.clock
        )
        #: Bytes and files that the engine kept in its state_dir at the end of the run.
        self.kept = (0, 0)
        #: The first answer to hello.
        self.hello: dict[str, Any] = {}
        self._watch: ActivityWatch | None = None

    @property
    def process(self) -> Engine:
        """The engine's current process."""
        assert self._process is not None
        return self._process

    @property
    def killed(self) -> bool:
        """True if the engine died by a fault, at once or in its aftermath, and is not up again."""
        return self._process is not None and self.injector.killed(self._process)

    def living(self) -> list[Proc]:
        """Return the processes of the engine that live now."""
        return self._process.living() if self._process is not None else []

    def watch(self, watch: ActivityWatch) -> None:
        """Look at what the processes do, at moments that count."""
        self._watch = watch
        self.injector.look, self.injector.at_work = watch.look, watch.at_work

    def look(self) -> None:
        """Look now, where there is a watch."""
        if self._watch is not None:
            self._watch.look()

    @property
    def workers(self) -> int:
        """The number of workers that the engine is deployed for."""
        return self.injector.workers or self._scenario.workers

    def start(self, resume: bool) -> None:
        """Start argv, say hello, deploy, ask for topology; raises EngineFailure."""
        began = time.monotonic()

        def left() -> float:
            return max(0.1, self._spec.timeouts.startup_s - self.clock.fair_s(began))

        scenario = self._scenario
        engine = None if resume else self._take_over()
        if engine is None:
            engine = self._start_process(resume, left)
        name = self._id + state_dir_end(scenario, self._seed)
        state_dir = self.injector.state_dir = engine.workspace.state_dir(name)
        engine.isolation.prepare(engine.workspace)
        hosts = {} if self._network is None else {"hosts": self._network.hosts_member()}
        engine.request(
            "deploy",
            left(),
            app=scenario.app,
            workers=self.workers,
            params=self._asked["params"],
            inputs=[{**one, **self._extra} for one in self._asked["inputs"]],
            state_dir=str(state_dir),
            resume=resume,
            data=self._data_of(engine),
            outputs=[{"stream": 0, **self._extra}],
            **hosts,
        )
        self._events.add(EventKind.DEPLOYED, pid=engine.pid, resume=resume)
        if self._watch is not None:
            self._watch.begin()
        self.topology(left(), self._spec.claims(scenario.app, scenario.params).survives)

    def _data_of(self, engine: Engine) -> dict[str, Any]:
        """Return the data member of deploy: where this engine reaches the log server."""
        data = {**self._data, **self._extra}
        if not engine.listeners:
            return data
        self._listen_on(engine.listeners[0].dup())
        return data | {"port": engine.listeners[0].getsockname()[1]}

    def _start_process(self, resume: bool, left: Callable[[], float]) -> Engine:
        self._workspace = self._workspace or Workspace()
        if self._loses_power and self.injector.disk is None:
            disk = self.injector.disk = Disk(self._workspace.states)
            self._workspace.served = True
            self._isolation = replace(self._isolation, disk=disk)
        if resume:
            self._data = self._reach(True)
            self._lives += 1
        engine = Engine(
            self._spec,
            self._id,
            self._stderr,
            self._on_line,
            self._workspace,
            isolation=self._isolation,
            clock=self.clock,
            style=style(self._scenario, self._seed, self._lives),
            extra=self._extra,
            access=self.access,
        )
        self._process, self._served = engine, 0
        cores = self._scenario.pace.engine_cores if self._scenario.pace else ()
        engine.start(cores, (self._port(),))
        self._events.add(EventKind.STARTED, pid=engine.pid, resume=resume)
        hello = engine.request("hello", left(), protocol=1)
        if not self.hello:
            self.hello = {key: hello[key] for key in ("name", "version", "protocol")}
        return engine

    def _port(self) -> int:
        """Return the port of a sandbox: that of the kit for two lives, then another for each."""
        first, later = self._data["port"], max(0, self._lives - 1)
        return first if not later else 1024 + (first + 97 * later) % (2**16 - 1024)

    def _take_over(self) -> Engine | None:
        """Take an engine that an earlier run has left in the pool, if this run may use it."""
        if self._pool is None or not self._scenario.may_share:
            return None
        if (idle := self._pool.take(self._scenario.workers)) is None:
            return None
        idle.engine.hand_over(self._stderr, self._on_line, self.clock)
        self._workspace = idle.engine.workspace
        self._process, self._served, self.hello = idle.engine, idle.served, idle.hello
        self._events.add(EventKind.TAKEN_OVER, pid=idle.engine.pid, served=idle.served)
        return idle.engine

    def restart(self, between: Callable[[], None]) -> None:
        """After a death: end what is left, call ``between``, start again with resume.

        A fault that kills the engine before it is up makes it start once more.
        """
        while True:
            self.process.end()
            between()
            self.injector.engine_died()
            try:
                return self.start(resume=True)
            except EngineFailure as failure:
                if not self.killed:
                    self._events.add(
                        EventKind.NOT_RESTARTED, code=failure.code, status=failure.status
                    )
                    raise

    def topology(self, timeout_s: float, survives: Collection[str] = ()) -> list[Member]:
        """Ask for the processes; raises EngineFailure, see `Engine.topology`."""
        with self._topology_lock:
            self._members = self.process.topology(timeout_s, survives)
            self._events.add(
                EventKind.TOPOLOGY,
                processes=[{"pid": m.pid, "role": m.role, "name": m.name} for m in self._members],
            )
            self._note_hosts()
            self.look()
            return self._members

    def _note_hosts(self) -> None:
        """Note on which hosts the processes run."""
        if self._network is None:
            return
        placed = tuple(
            (one.pid, one.role, self._network.host_of(one.pid), self._spec.placement[one.role])
            for one in self._members
            if one.role in self._spec.placement and one.alive
        )
        self._events.add(EventKind.PLACED, placed=placed)

    def hear_of_scales(self, fault_at: float) -> bool:
        """Note what was answered to scales; True where there is a new number of workers.

        fault_at: when the last fault came or ended (time.monotonic).
        Raises EngineFailure: refused, late, or a topology of another number.
        """
        died_at = self.injector.coordinator_died_at
        scaled = self.injector.scaling.answered(self.process, fault_at, died_at)
        if scaled:
            self.injector.workers = scaled
            self.topology(self._spec.timeouts.recovery_s)
            self.injector.scaling.seen()
        return bool(scaled)

    def aim(self, fault: ProcessFault, connection: int = 0) -> Injection:
        """Find the targets of a fault; raises LookupError where there are none.

        ``connection``: the one at whose moment it comes; of several workers its own is struck.
        May ask the engine for its topology first.
        """
        if self._process is None or self._process.returncode is not None:
            raise LookupError("the engine was not running")
        if moment_of(fault.step) is SCALING:
            return partial(self._strike_while_scaling, fault)
        if fault.of_members and not all(map(self.injector.intact, self._members)):
            self.topology(self._spec.timeouts.recovery_s)
        elif fault.of_members and not fault.step.burst:
            self.look()
        holders = self._holders(connection) if fault.of_members else ()
        return fault.aim(self.injector, Crew(self._process, self._members, holders, connection))

    def host_of_worker(self, connection: int) -> str:
        """Return the host of the worker at whose moment a fault comes, of one that works, of any.

        Raises LookupError where topology names no living one that is on a host.
        """
        if not all(map(self.injector.intact, self._members)):
            self.topology(self._spec.timeouts.recovery_s)
        else:
            self.look()
        workers = [one for one in self._members if one.role == "worker" and one.alive]
        working = self.injector.at_work([one.pid for one in workers])
        first = [pid for pid in self._holders(connection) if any(w.pid == pid for w in workers)]
        for pid in (*first, *sorted(working), *(one.pid for one in workers)):
            if self._network and (host := self._network.host_of(pid)):
                return host
        raise LookupError("topology names no living worker on a host")

    def _strike_while_scaling(self, fault: ProcessFault) -> dict[str, Any]:
        """Strike whoever is there; as long as the scale is under way, others come and go."""
        while True:
            try:
                return fault.aim(self.injector, Crew(self.process, self._members))()
            except LookupError:
                if not self.injector.scaling.under_way:
                    raise
                self.topology(self._spec.timeouts.recovery_s)

    def _holders(self, connection: int) -> tuple[int, ...]:
        if self._watch is None or not connection:
            return ()
        if not self._watch.holders(connection):
            self._watch.look()  # it is newer than the last look
        return self._watch.holders(connection)

    def probe(self) -> None:
        """Send an op that does not exist and record the answer."""
        try:
            self.process.request(PROBE_OP, self._spec.timeouts.startup_s)
        except EngineFailure as failure:
            if failure.code != "REFUSED":
                raise
            self._events.add(EventKind.PROBE_REFUSED, definite=failure.definite)
        else:
            self._events.add(EventKind.PROBE_ACCEPTED)

    def ask_checkpoint(self) -> Pending:
        """Ask for a checkpoint."""
        return self.process.submit("checkpoint")

    def drain(self) -> Pending | Completion:
        """Ask for drain, or watch for it where the engine cannot be asked."""
        if self._completion is not None:
            completion = self._completion(self._spec.timeouts.recovery_s)
            completion.passed_s = self.clock.fair_s
            return completion
        return self.process.submit("drain")

    def rss_bytes(self) -> int:
        """Return the resident memory of all processes that topology named."""
        return sum(member.rss_bytes() for member in self._members if member.alive)

    def finish(self) -> None:
        """Stop the engine as its scenario says, or leave it in the pool; raises EngineFailure."""
        limit = self._spec.timeouts.drain_s
        if self._pool and self._scenario.may_share:
            idle = IdleEngine(self.process, self.hello, self.workers, self._served + 1)
            if self._pool.keep(idle, limit):
                self._events.add(EventKind.PARKED, pid=self.process.pid)
                violations, self._process = self.process.violations, None
                self.kept, self._workspace = idle.engine.workspace.kept(), None
                if violations:
                    raise violations[0]
                return
        if self._scenario.ending == "stdin-eof":
            self.process.close_stdin()
        else:
            self.process.request("stop", limit)
        self._events.add(EventKind.EXITED, returncode=self.process.wait_exit(limit))
        # What was said after the last answer counts too.
        if self.process.violations:
            raise self.process.violations[0]

    def end(self) -> list[ProcessInfo]:
        """Kill what is left, remove its folders; returns what was left over."""
        try:
            self.injector.end()
            return self._process.end() if self._process is not None else []
        finally:
            if self.injector.disk is not None:
                self.injector.disk.close()
            if self._workspace is not None:
                self.kept = self._workspace.kept()
                self._workspace.remove()
