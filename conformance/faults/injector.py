"""Faults of an engine's processes and of its state directory."""

from __future__ import annotations

import contextlib
import math
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from tickproof.conformance.engines import process_table, process_tree
from tickproof.conformance.engines.disk import Disk
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.process_tree import ProcessTree
from tickproof.conformance.engines.topology import Member
from tickproof.conformance.engines.workspace import folder_size, remove
from tickproof.conformance.fault_steps import Damaged, Loss, Target
from tickproof.conformance.faults.scaling import Scaling
from tickproof.conformance.faults.state_dir import Damage, Fill
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog

_BROKERS: Final = ("broker", "leader")
#: Carries out one fault and returns its facts; raises LookupError where nobody is left to meet.
Injection = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class _Paused:
    """A process that stands still, with all below it."""

    tree: ProcessTree
    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class _FullDisk:
    """A state folder that cannot grow."""

    fill: Fill
    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class Crew:
    """Processes that a fault may meet.

    connection: the one at whose moment it comes, 0 where it is no matter of one; holders: pids of
    those that have it.
    """

    live: Engine
    members: Sequence[Member]
    holders: Collection[int] = ()
    connection: int = 0


class Brokers(Protocol):
    """Kafka brokers that serve one run alone; `kafka.own_brokers.OwnBrokers` is one."""

    @property
    def returning(self) -> bool:
        """True while a broker is on its way back."""

    def restart(self) -> None:
        """Kill every broker, and start them again."""

    def kill_leader(self, connection: int, alone_s: float, grace_s: float) -> dict[str, int]:
        """End the broker that a connection leads to, and return facts as `FiredFault` has them.

        Raises LookupError: there are no others.
        """

    def pause_leader(self, connection: int, seconds: float) -> dict[str, int]:
        """Have the broker that a connection leads to stand still; as `kill_leader`."""


class ProcessFaultInjector:
    """Injects faults into one engine, over all its lives, and ends those that last.

    ``stderr`` is the file of the engine's standard error, ``recovery_s`` the limit of
    engine.toml, measured by ``clock``. Injections may run in any thread, everything else in one.
    """

    def __init__(
        self, stderr: Path, events: EventLog, seed: int, recovery_s: float, clock: FairClock
    ) -> None:
        self._stderr, self._events, self._recovery_s = stderr, events, recovery_s
        self._clock = clock
        self._state_dir: Path | None = None
        self._random = random.Random(seed)
        #: What lasts is ended by a timer, too: a request may keep the thread of the run waiting
        #: for an engine that stands still.
        self._lock = threading.RLock()
        #: When the last fault was carried out or undone (time.monotonic), 0 before the first.
        self.touched_at = 0.0
        self._killed = False
        #: Until then (time.monotonic) a dead engine is not started again.
        self.down_until = 0.0
        #: Since then (time.monotonic), and for recovery_s, what the engine does may be the
        #: consequence of a fault; minus infinity before the first.
        self._aftermath_from = -math.inf
        #: When a coordinator died and argv's process lived on (time.monotonic), 0 before.
        self.coordinator_died_at = 0.0
        self._killed_members: set[Member] = set()
        self.scaling = Scaling(events, recovery_s, clock)
        #: How many workers the next life has, 0: as many as the scenario says.
        self.workers = 0
        self._paused: list[_Paused] = []
        self._full_disk: _FullDisk | None = None
        self._damage: Damage | None = None
        #: What the engine's sandbox has in place of the folder of states, if a fault needs it.
        self.disk: Disk | None = None
        #: Kills brokers; None where they serve other runs, too.
        self.brokers: Brokers | None = None
        self._broker_away = False
        #: Looks at what the processes do; the runner points it at a watch.
        self.look: Callable[[], None] = lambda: None
        #: Which of the named pids have handled records since deploy, as far as is known.
        self.at_work: Callable[[Collection[int]], Collection[int]] = lambda _named: ()

    @property
    def state_dir(self) -> Path:
        """The folder of the engine's state; raises LookupError before there is one."""
        if self._state_dir is None:
            raise LookupError("no engine has been given a folder for its state")
        return self._state_dir

    @state_dir.setter
    def state_dir(self, folder: Path) -> None:
        self._state_dir = folder

    def killed(self, live: Engine) -> bool:
        """Return True if a fault killed the engine, at once or later, and it is not up again."""
        return self._killed or (live.returncode not in (None, 0) and self._in_aftermath)

    def excuses(self, failure: EngineFailure) -> bool:
        """Return True if a request may be refused because of a fault: it is asked again."""
        return failure.code == Code.REFUSED and self._in_aftermath

    @property
    def _in_aftermath(self) -> bool:
        return self._clock.fair_s(self._aftermath_from) < self._recovery_s

    @property
    def lasting(self) -> bool:
        """True if a fault is in force: of a process that stands still, of disk or broker."""
        return bool(self._paused) or self._full_disk is not None or self._broker_away

    def intact(self, member: Member) -> bool:
        """Return True if a process is alive and no fault has killed it."""
        return member not in self._killed_members and member.alive

    # -- injections ---------------------------------------------------------------

    def victims(self, target: Target, crew: Crew, *, argv_too: bool = False) -> list[Member]:
        """Return the processes that a fault is meant for; raises LookupError: there are none.

        argv_too: argv's own process may be one of the workers.
        """
        intact = [member for member in crew.members if self.intact(member)]
        if target == "worker":
            paused = {one.tree.root for one in self._paused}
            # Who stands still already is struck only if there is nobody else.
            intact = [member for member in intact if member not in paused] or intact
        if target == "coordinator":
            found = [member for member in intact if member.role == "coordinator"]
            if not found:
                raise LookupError("topology names no living coordinator")
            return found
        if target == "engine":
            if not intact:
                raise LookupError("topology names no living process")
            return intact
        # argv's own process may be a worker too, but its death is the engine's death.
        found = [m for m in intact if m.role == "worker" and (argv_too or m.pid != crew.live.pid)]
        if not found:
            raise LookupError("topology names no living worker apart from argv's process")
        if target == "workers":
            return found
        if aimed := [member for member in found if member.pid in crew.holders]:
            return [self._random.choice(aimed)]
        at_work = self.at_work([member.pid for member in crew.members])
        working = [member for member in found if member.pid in at_work]
        return [self._random.choice(working or found)]

    def kill_engine(
        self, live: Engine, down_s: float = 0.0, grace_s: float = 0.0
    ) -> dict[str, Any]:
        """Kill every process, with ``grace_s`` by SIGTERM first; it stays down for ``down_s``."""
        self.touched_at = time.monotonic()
        self._killed = True
        self.down_until = math.inf
        ended = live.terminate(grace_s) if grace_s else []
        pids = live.kill()
        self.touched_at = self.down_until = time.monotonic() + down_s
        return {"pids": ended or pids}

    def rescale(self, workers: int, live: Engine) -> dict[str, Any]:
        """Stop the engine as `tickproof` stops any: it promises no more than its last cut."""
        self.touched_at = time.monotonic()
        self._killed = True  # known before it is done: its end is seen by another thread
        live.request("stop", self._recovery_s)
        live.wait_exit(self._recovery_s)
        self.workers = workers
        return {"pids": [live.pid]}

    def scale(self, workers: int, live: Engine) -> dict[str, Any]:
        """Ask, and leave the answer to the run: the load goes on meanwhile."""
        self.touched_at = time.monotonic()
        self.scaling.ask(live, workers)
        self.workers = workers  # who dies over it comes back with the new number
        return {"pids": [live.pid]}

    def kill(self, victims: list[Member], crew: Crew) -> dict[str, Any]:
        """Kill processes and what is below them; raises LookupError where they were gone."""
        live = crew.live
        self.touched_at = time.monotonic()
        # Known before it is done: the end of argv's process is seen by another thread.
        self._killed = any(victim.pid == live.pid for victim in victims)
        coordinator = any(victim.role == "coordinator" for victim in victims)
        if coordinator:
            # A supervisor may live on, start another coordinator, or end for the kit to see.
            self._aftermath_from = self.touched_at
        pids = process_tree.kill(_trees(victims, crew))
        self._killed = live.pid in pids
        if not pids:
            raise LookupError(f"{_named(victims)} ended by themselves")
        self._killed_members.update(victims)
        if coordinator and not self._killed:
            self.coordinator_died_at = time.monotonic()
        return {"pids": pids}

    def pause(self, victims: list[Member], seconds: float, crew: Crew) -> dict[str, Any]:
        """Stop processes and what is below them for so long; raises LookupError: they were gone."""
        self.touched_at = time.monotonic()
        with self._lock:  # the end of another pause wakes whom it has: not in the midst of this
            paused = [tree for tree in _trees(victims, crew) if tree.stop()]
            if not paused:
                raise LookupError(f"{_named(victims)} ended by themselves")
            now = time.monotonic_ns()
            until = now + int(seconds * 1e9)
            # Who stands still already goes on when the longest of its pauses is over.
            before = {one.tree.root: one.to_ns for one in self._paused}
            ends = {tree.root: max(until, before.get(tree.root, 0)) for tree in paused}
            longer = [replace(p, to_ns=ends.get(p.tree.root, p.to_ns)) for p in self._paused]
            self._paused = longer + [_Paused(tree, now, ends[tree.root]) for tree in paused]
        self._end_in(seconds)
        return {"pids": [tree.root.pid for tree in paused]}

    def fill(self, seconds: float, live: Engine) -> dict[str, Any]:
        """Let nothing be written for so long."""
        self._end_fill()
        self.touched_at = time.monotonic()
        self._aftermath_from = self.touched_at + seconds
        fill = Fill(live.living, self.state_dir, self._stderr)
        pids = fill.begin()
        now = time.monotonic_ns()
        with self._lock:
            self._full_disk = _FullDisk(fill, now, now + int(seconds * 1e9))
        self._end_in(seconds)
        return {"pids": pids}

    def corrupt(self, damage: Damaged, live: Engine) -> dict[str, Any]:
        """Kill every process, and damage the newest file of the state."""
        facts = self.kill_engine(live)
        self._end_damage()
        # As a restart does: no name of a file may be left where a restart would not find it.
        live.workspace.begin_life()
        try:
            self._damage = Damage(self.state_dir, damage, self._random)
        except LookupError:
            return facts  # the engine removed its last file before it died
        return facts | self._damage.facts()

    def wipe(self, live: Engine) -> dict[str, Any]:
        """Kill every process, and empty the folder of the state."""
        facts = self.kill_engine(live)
        # As a restart does: what would be removed anyway is no loss.
        live.workspace.begin_life()
        size, files = folder_size(self.state_dir)
        remove(self.state_dir)
        self.state_dir.mkdir(exist_ok=True)
        return facts | {"lost_bytes": size, "lost_names": files}

    def lose_power(self, loss: Loss, live: Engine) -> dict[str, Any]:
        """Stop the disk, kill every process, and lose what is not durable."""
        if self.disk is None:
            raise LookupError("the engine has no disk that could lose anything")
        self.touched_at = time.monotonic()
        self._killed = True
        self.down_until = math.inf
        # Whoever waits for the disk is stopped before an error could reach it.
        process_table.stop_all(live.living, 0.0)
        self.disk.cut()
        pids = live.kill()
        lost = self.disk.lose(loss, self._random.getrandbits(64))
        self.touched_at = self.down_until = time.monotonic()
        return {"pids": pids, **lost}

    def returning(self, target: Target) -> bool:
        """Tell whether what a fault is meant for is on its way back: no second broker dies then."""
        return self.brokers is not None and target in _BROKERS and self.brokers.returning

    def kill_broker(self) -> dict[str, Any]:
        """Kill the broker, and wait until it is back; raises LookupError: it is not the run's."""
        with self._away() as brokers:
            brokers.restart()
        return {"pids": []}

    def kill_leader(self, crew: Crew, alone_s: float, grace_s: float) -> dict[str, Any]:
        """End the broker that the connection leads to, and wait until others lead instead.

        Raises LookupError: there are no others.
        """
        with self._away() as brokers:
            facts = brokers.kill_leader(crew.connection, alone_s, grace_s)
        return {"pids": [], **facts}

    def pause_leader(self, crew: Crew, seconds: float) -> dict[str, Any]:
        """Have the broker that the connection leads to stand still, until others lead and longer.

        Raises LookupError: there are no others.
        """
        with self._away() as brokers:
            facts = brokers.pause_leader(crew.connection, seconds)
        return {"pids": [], **facts}

    @contextlib.contextmanager
    def _away(self) -> Iterator[Brokers]:
        """Give the run's own brokers; the limits of the engine count from when one leads again."""
        if self.brokers is None:
            raise LookupError("the broker is not one of the run's own")
        self.touched_at = self._aftermath_from = time.monotonic()
        self._broker_away = True
        try:
            yield self.brokers
        finally:
            self._broker_away = False
            self.touched_at = self._aftermath_from = time.monotonic()

    # -- what comes after -----------------------------------------------------------

    def _end_in(self, seconds: float) -> None:
        timer = threading.Timer(seconds, self.end_due)
        timer.daemon = True
        timer.start()

    def end_due(self) -> None:
        """End the faults whose time is over."""
        with self._lock:
            self._end_due(time.monotonic_ns())

    def _end_due(self, now: int) -> None:
        over = [one for one in self._paused if now >= one.to_ns]
        if over:
            self.look()  # who worked meanwhile
        went_on = [paused.tree.ran() for paused in over]
        for paused, ran in zip(over, went_on, strict=True):
            self._paused.remove(paused)
            member = paused.tree.root
            paused.tree.resume()
            self.touched_at = time.monotonic()
            self._events.add(
                EventKind.RESUMED,
                pid=member.pid,
                from_ns=paused.from_ns,
                alive=member.alive,
                ran=ran,
            )
        # A kill that is under way meets the disk as it was: full.
        full = self._full_disk
        if full is not None and now >= full.to_ns and not self._killed:
            self._end_fill()

    def engine_died(self) -> None:
        """Note that the engine is dead, and let the disk take data again for its next life."""
        if not self._killed:  # it died in the aftermath: its time to recover begins now
            self.touched_at = time.monotonic()
        self._end_fill()
        self.scaling.forget()
        self._killed = False
        self._aftermath_from = -math.inf
        self._killed_members.clear()

    def _end_fill(self) -> None:
        with self._lock:
            full, self._full_disk = self._full_disk, None
        if full is None:
            return
        to_ns = time.monotonic_ns()
        self._events.add(EventKind.FILL_OVER, from_ns=full.from_ns, to_ns=to_ns, **full.fill.end())
        self.touched_at = time.monotonic()

    def end(self) -> None:
        """End what is still in force; note what became of a damaged file."""
        with self._lock:
            paused, self._paused = self._paused, []
        for one in paused:
            one.tree.resume()
        self._end_fill()
        self._end_damage()

    def _end_damage(self) -> None:
        if self._damage is not None:
            self._events.add(
                EventKind.DAMAGE_OVER, file=self._damage.name, read=self._damage.was_read()
            )
            self._damage = None


def _trees(victims: Sequence[Member], crew: Crew) -> list[ProcessTree]:
    named = [member.pid for member in crew.members]
    return [ProcessTree(victim, named) for victim in victims]


def _named(victims: Sequence[Member]) -> str:
    return ", ".join(f"{victim.role} {victim.pid}" for victim in victims)
