"""What a schedule does to an engine's processes and to the folder of its state."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.topology import Member
from tickproof.conformance.faults.state_dir import Damage, Fill, newest
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.scenario import FaultStep

Strike = Callable[[], dict[str, Any]]


class Striking:
    """Carries out faults on one engine, over all its lives, and undoes those that last.

    ``folder`` is that of the run, ``recovery_s`` the limit of engine.toml. Strikes may come
    from any thread; all else comes from one.
    """

    def __init__(
        self, folder: Path, state_dir: Path, events: EventLog, seed: int, recovery_s: float
    ) -> None:
        self._folder, self._state_dir = folder, state_dir
        self._events, self._recovery_s = events, recovery_s
        self._random = random.Random(seed)
        #: When the last fault was carried out or undone (time.monotonic), 0 before the first.
        self.touched_at = 0.0
        self._killed = False
        #: So long (time.monotonic) what the engine does may be a consequence of a fault.
        self._wake_until = 0.0
        self._struck: set[Member] = set()
        self._paused: list[tuple[Member, int, int]] = []
        self._full: Fill | None = None
        self._full_from_ns = self._full_to_ns = 0
        self._damage: Damage | None = None

    def killed(self, live: Engine) -> bool:
        """Whether the engine died by a fault, at once or in its wake, and is not up again."""
        return self._killed or (live.returncode not in (None, 0) and self._in_wake)

    def excuses(self, failure: EngineFailure) -> bool:
        """Whether a request may be refused because of a fault: it is asked again."""
        return failure.code == Code.REFUSED and self._in_wake

    @property
    def _in_wake(self) -> bool:
        return time.monotonic() < self._wake_until

    @property
    def lasting(self) -> bool:
        """Whether a fault lasts now: a process stands still, or nothing can be written."""
        return bool(self._paused) or self._full is not None

    def unhurt(self, member: Member) -> bool:
        """Whether a process lives and was not killed by a strike."""
        return member not in self._struck and member.alive

    # -- strikes ------------------------------------------------------------------

    def aim(self, step: FaultStep, live: Engine, members: Sequence[Member]) -> Strike:
        """Find whom a fault step is meant for; return what strikes and gives the facts.

        Both raise LookupError where there is nobody, or nothing.
        """
        if step.do == "corrupt":
            if newest(self._state_dir) is None:
                raise LookupError("the folder of the state holds no file with content")
            return partial(self._corrupt, live)
        if step.do == "fill":
            return partial(self._fill, step, live)
        if step.target == "engine":
            return partial(self._kill_engine, live)
        victims = self._victims(step, live, members)
        strike = self._pause if step.do == "pause" else self._kill
        return partial(strike, victims, step, live)

    def _victims(self, step: FaultStep, live: Engine, members: Sequence[Member]) -> list[Member]:
        unhurt = [member for member in members if self.unhurt(member)]
        if step.target == "coordinator":
            found = [member for member in unhurt if member.role == "coordinator"]
            if not found:
                raise LookupError("topology names no living coordinator")
            return found
        # argv's own process may be a worker too, but its death is the engine's death.
        found = [m for m in unhurt if m.role == "worker" and m.pid != live.pid]
        if not found:
            raise LookupError("topology names no living worker apart from argv's process")
        return found if step.target == "workers" else [self._random.choice(found)]

    def _kill_engine(self, live: Engine) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        self._killed = True
        return {"pids": live.kill()}

    def _kill(self, victims: list[Member], step: FaultStep, live: Engine) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        # Known before it is done: the end of argv's process is seen by another thread.
        self._killed = any(victim.pid == live.pid for victim in victims)
        if step.target == "coordinator":
            # A supervisor may live on, start another coordinator, or end for the kit to see.
            self._wake_until = self.touched_at + self._recovery_s
        pids = [victim.pid for victim in victims if victim.kill()]
        self._killed = live.pid in pids
        if not pids:
            raise LookupError(f"{_named(victims)} ended by themselves")
        self._struck.update(victims)
        return {"pids": pids}

    def _pause(self, victims: list[Member], step: FaultStep, _live: Engine) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        paused = [victim for victim in victims if victim.pause()]
        if not paused:
            raise LookupError(f"{_named(victims)} ended by themselves")
        now = time.monotonic_ns()
        self._paused += [(victim, now, now + int(step.seconds * 1e9)) for victim in paused]
        return {"pids": [victim.pid for victim in paused]}

    def _fill(self, step: FaultStep, live: Engine) -> dict[str, Any]:
        self.touched_at = time.monotonic()
        self._wake_until = self.touched_at + step.seconds + self._recovery_s
        full = Fill(live.living, self._state_dir, self._folder / "stderr.log")
        pids = full.begin()
        self._full_from_ns = time.monotonic_ns()
        self._full_to_ns = self._full_from_ns + int(step.seconds * 1e9)
        self._full = full
        return {"pids": pids}

    def _corrupt(self, live: Engine) -> dict[str, Any]:
        facts = self._kill_engine(live)
        self._end_damage()
        try:
            self._damage = Damage(self._state_dir)
        except LookupError:
            return facts  # the engine removed its last file before it died
        return facts | self._damage.facts()

    # -- what comes after -----------------------------------------------------------

    def undo_due(self) -> None:
        """End the faults whose time is over."""
        now = time.monotonic_ns()
        for entry in [entry for entry in self._paused if now >= entry[2]]:
            self._paused.remove(entry)
            victim, from_ns, _ = entry
            victim.resume()
            self.touched_at = time.monotonic()
            self._events.add("resumed", pid=victim.pid, from_ns=from_ns, alive=victim.alive)
        # A kill that is under way meets the disk as it was: full.
        if self._full is not None and now >= self._full_to_ns and not self._killed:
            self._end_fill()

    def died(self) -> None:
        """Take note that the engine is dead; another life begins, and room is made for it."""
        if not self._killed:  # in the wake of a fault: its time to recover begins now
            self.touched_at = time.monotonic()
        if self._full is not None:
            self._end_fill()
        self._killed = False
        self._wake_until = 0.0
        self._struck.clear()

    def _end_fill(self) -> None:
        assert self._full is not None
        full, self._full = self._full, None
        to_ns = time.monotonic_ns()
        self._events.add("fill-over", from_ns=self._full_from_ns, to_ns=to_ns, **full.end())
        self.touched_at = time.monotonic()

    def end(self) -> None:
        """Undo what still lasts; say what became of a damaged file."""
        for victim, _, _ in self._paused:
            victim.resume()
        if self._full is not None:
            self._end_fill()
        self._end_damage()

    def _end_damage(self) -> None:
        if self._damage is not None:
            self._events.add("damage-over", file=self._damage.name, read=self._damage.was_read())
            self._damage = None


def _named(victims: Sequence[Member]) -> str:
    return ", ".join(f"{victim.role} {victim.pid}" for victim in victims)
