"""The parts of a run while it is played: the log, the recorder, the faults, the engine."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from tickproof.conformance import apps
from tickproof.conformance.engines.disk import Hold
from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.network import LOG, Network
from tickproof.conformance.engines.process import ProcessInfo
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.faults.controller import FaultController
from tickproof.conformance.faults.fault import Fault
from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.kinds import loses_power
from tickproof.conformance.faults.link_fault import LinkFault
from tickproof.conformance.faults.network_faults import NetworkFaults
from tickproof.conformance.faults.power import Power
from tickproof.conformance.faults.process_fault import ProcessFault
from tickproof.conformance.faults.state_watch import StateWatch
from tickproof.conformance.history.control_log import ControlLog
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.history.input_replay import InputMaker
from tickproof.conformance.history.run_record import Ended
from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.progress_snapshots import ProgressSnapshots
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.runner import servers
from tickproof.conformance.runner.activity_watch import ActivityWatch
from tickproof.conformance.runner.engine_lifecycle import EngineUnderTest
from tickproof.conformance.runner.manifest import Manifest
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.usage.pulse import Pulse

STEP_S: Final = 0.01
#: How long what the kit itself has under way may take to come to its end.
SETTLE_S: Final = 30
#: What a run may take beyond its pace and the limits of engine.toml.
SPARE_S: Final = 60


class _Records(Protocol):
    """A part that must not break; ``failure`` says what broke it."""

    @property
    def failure(self) -> BaseException | None: ...


class LiveRun:
    """Everything that serves one run; nothing but its events exists before `open`."""

    def __init__(
        self,
        scenario: Scenario,
        spec: EngineSpec,
        folder: Path,
        seed: int,
        events: EventLog,
        port: int,
        pool: EnginePool | None,
        isolation: Isolation,
    ) -> None:
        self.scenario, self.spec, self.folder, self.events = scenario, spec, folder, events
        self._seed, self._port, self._pool = seed, port, pool
        self.app, self._output_size = apps.of(scenario), apps.output_size(scenario)
        self._id = uuid.uuid4().hex
        if loses_power(scenario.faults):  # a disk of its own is mounted in a sandbox
            isolation = replace(isolation, level=Level.SANDBOX)
        hidden = (folder.resolve(), *isolation.hidden)
        self._isolation = replace(isolation, hidden=_outermost(hidden))
        self.manifest = Manifest(scenario, spec, folder, self._id, seed)
        self.manifest.add(isolation=isolation.level)
        if isolation.hosts:
            self.manifest.add(hosts=isolation.hosts)
        self._opened = False
        self._stack = contextlib.ExitStack()
        self._recording: list[_Records] = [events]
        #: Whether drain was asked for and is not answered.
        self.draining = False

    def open(self, inputs: InputMaker) -> None:
        """Make the input, open the log server, write the first run.json."""
        scenario, folder, event = self.scenario, self.folder, self.events.add
        built = inputs(folder / "input")
        self.manifest.add_input(built)
        self.log = InputLog(built.partitions, folder, event, built.ended_early)
        self.recorder = Recorder(folder / "output", {0: self._output_size}, event)
        self._stack.callback(self.recorder.close)
        self._control = ControlLog(folder / "control.jsonl")
        self._stack.callback(self._control.close)
        self._recording += [self.log, self.recorder, self._control]
        self.sink = Sink(scenario.sink, event)
        self.snapshots = ProgressSnapshots(self.log, self.recorder, self.sink)
        self.faults = FaultController(
            scenario.faults,
            self.log,
            self.recorder,
            scenario.rate,
            self,
            event,
            self.spec.timeouts.cut_s,
            one_each=self.app.one_each,
            holds_connections=scenario.pace is None,
        )
        opened = servers.open_servers(
            self.spec,
            scenario,
            built,
            self._id,
            self.log,
            self.recorder,
            self.sink,
            self.faults,
            self._stack,
            folder=folder,
            event=event,
            tell=self.manifest.add,
            port=self._port,
        )
        self.server, self.publisher = opened.server, opened.publisher
        self._recording += [self.server, self.publisher]
        self._exchange = opened.exchange
        self._recording += [opened.exchange] if opened.exchange else []
        self._stack.callback(self.publisher.stop)
        self._lay_out_hosts(opened.data)
        widths = Counter(p.stream for p in built.partitions)
        asked = {
            "params": self.spec.deploy_params(scenario.app, scenario.params, built.recipe),
            "inputs": [{"stream": s, "partitions": widths[s]} for s in sorted(widths)],
        }
        self.engine = EngineUnderTest(
            self.spec,
            scenario,
            self._id,
            folder,
            self._seed,
            opened.reach,
            asked,
            self._on_line,
            self.events,
            self._pool,
            self._isolation,
            self.server.listen_on,
            opened.exchange.completion if opened.exchange else None,
        )
        self.engine.access = opened.access
        self.engine.injector.brokers = opened.brokers
        self._follow()
        longest_s = scenario.longest_s(self.log.total, self.spec.timeouts.life_s)
        self.began_at, self.longest_s = time.monotonic(), longest_s + SPARE_S
        self._opened = True

    def _follow(self) -> None:
        """Follow the engine: its clock, its network, its work."""
        self.clock = self.engine.clock
        if isinstance(self.server, LogServer):
            self.server.passed_s = self.clock.fair_s
        pulse = Pulse(
            self.clock, self._position, self.engine.living, paced=self.scenario.pace is not None
        )
        self._recording.append(pulse)
        self._stack.enter_context(pulse)
        self.network_faults = NetworkFaults(
            self._isolation.network, self.events, lambda: self.engine.process
        )
        self._stack.callback(self.network_faults.end)
        self._recording.append(self.network_faults)
        if self.scenario.pace is None:  # a look would hold up what is measured
            watch = ActivityWatch(self.events, lambda: self.server.port, self.engine.living)
            self.server.greeted = watch.greeted
            self.engine.watch(watch)
            if self._exchange:
                shared = partial(self._exchange.is_shared, holders=watch.holders)
                self.engine.injector.scaling.arrived = shared
            self._stack.enter_context(watch)

    def _position(self) -> tuple[int, ...]:
        """Return how far the engine is: counts that its progress raises, and that have an end."""
        log, recorder = self.log, self.recorder
        most = log.total * self._output_size
        return (
            log.fetched,
            log.released,
            min(recorder.records, log.total),
            min(recorder.bytes, most),
        )

    def _lay_out_hosts(self, data: dict[str, Any]) -> None:
        """Have the log server reached over a network of hosts, if there is to be one."""
        if not self._isolation.hosts:
            return
        network = self._stack.enter_context(Network(self._isolation.hosts, data["port"]))
        data["host"] = network.address(LOG)
        self.server.listen_on(network.listener.dup())
        self._isolation = replace(self._isolation, network=network)
        self._pool = None  # an engine outlives no network

    def returning(self, fault: Fault) -> bool:
        """Tell whether what a fault is done to is still on its way back; see `FaultController`."""
        return self.engine.injector.returning(fault.step.target)

    def aim(self, fault: Fault) -> Callable[[], dict[str, Any]]:
        """Find the targets of a fault; see `FaultController`."""
        if isinstance(fault, HostFault):
            find = partial(self.engine.host_of_worker, self.faults.connection)
            return self.network_faults.aim(fault, find)
        if isinstance(fault, LinkFault):
            return self.server.links.aim(fault)
        assert isinstance(fault, ProcessFault)
        return self.engine.aim(fault, self.faults.connection)

    @property
    def connections(self) -> int:
        """The number of connections that the engine has opened so far."""
        return self.server.connections

    @property
    def links(self) -> Links:
        """Faults of the engine's connections."""
        return self.server.links

    @property
    def scaling(self) -> bool:
        """True if a scale is not answered, or nobody has seen its workers."""
        return self.engine.injector.scaling.under_way

    def watch_state(self, fault: Fault, events: int) -> StateWatch | Hold:
        """Watch the folder of the state for events of inotify; raises OSError."""
        disk = self.engine.injector.disk
        if disk is not None and isinstance(fault, Power):
            return disk.hold(events)
        return StateWatch(self.engine.injector.state_dir, events)

    def _on_line(self, direction: str, line: str, t_ns: int) -> None:
        """Record a control line; an answer is held against the run as it stands right now."""
        if direction == "from":
            self.snapshots.note(t_ns)
        self._control.add(direction, line, t_ns)

    def restart_engine(self) -> None:
        """After the death of the engine: read its old connections to their end, start again."""
        self.engine.restart(self._read_to_the_end)

    def _read_to_the_end(self) -> None:
        self.server.release_waits(True)
        # The thread that carried the fault out still has to record what it did.
        for settled, what in (
            (lambda left_s: _wait(lambda: not self.faults.busy, left_s), "a fault did not end"),
            (self.server.wait_idle, "connections of a dead engine did not end"),
        ):
            if not self.clock.wait(settled, SETTLE_S, what, moves=False):
                raise KitStopped(f"{what} within {SETTLE_S} s")
        self.faults.engine_died()
        if self._exchange:
            self._exchange.engine_died()
        self.server.release_waits(False)

    @property
    def fault_changed_at(self) -> float:
        """Time of the last begin or end of a fault (time.monotonic), 0 before the first."""
        links, network = self.server.links, self.network_faults
        if network.lasting:
            return time.monotonic()  # no engine has to go on before the network does
        return max(self.engine.injector.touched_at, links.touched_at, network.touched_at)

    @property
    def recorder_behind(self) -> bool:
        """True if output is left to record that the engine has committed."""
        return self._exchange is not None and self._exchange.behind

    def stop_reason(self) -> str:
        """Say why no more can be recorded or served; "" as long as it can."""
        for failure in (part.failure for part in self._recording):
            if failure is not None:
                why = getattr(failure, "strerror", None) or repr(failure)
                return f"recording into {self.folder} stopped: {why}"
        return ""

    def _sha256(self) -> dict[str, str]:
        """Return the digests of what was recorded, by name within the folder."""
        found = {"events.jsonl": self.events.sha256}
        if self._opened:
            found |= self.log.sha256() | self.publisher.sha256()
            found["control.jsonl"] = self._control.sha256
            found |= {f"output/{name}": digest for name, digest in self.recorder.sha256().items()}
        return found

    def close(self, ended: Ended) -> str:
        """End whatever is left, write the last run.json; return what stopped the kit, or "".

        What went wrong because the kit could not record is never the engine's failure.
        """
        left: list[ProcessInfo] = []
        try:
            if self._opened:
                left = self.engine.end()
                size, files = self.engine.kept
                self.manifest.add(hello=self.engine.hello, kept={"bytes": size, "files": files})
            self._stack.close()
            self.events.close()
            if stopped := self.stop_reason():
                ended = Ended(how="kit-error", message=stopped)
            # What the kit could not write whole is judged as far as it goes.
            sha256 = {} if stopped else self._sha256()
            self.manifest.finish(ended, left, dict(self.events.counts), sha256)
        except OSError as error:
            return self.stop_reason() or f"recording into {self.folder} stopped: {error.strerror}"
        return ended.message if ended.kit_failed else ""


def _outermost(folders: Sequence[Path]) -> tuple[Path, ...]:
    """Return the folders that lie in no other of them."""
    return tuple(f for f in folders if not any(f != g and f.is_relative_to(g) for g in folders))


def _wait(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait for a condition; False at the deadline."""
    tick, deadline = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        tick.wait(STEP_S)
    return True
