"""Drives the fair clock of a run: looks at progress, and at what the machine withholds.

Standing still is looked at several times a second; while the engine makes progress, once a second.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.engines.fair_clock import Demand, FairClock, Interval, withheld_s
from tickproof.conformance.engines.process_table import Proc
from tickproof.conformance.usage import process_sample
from tickproof.conformance.usage.process_sample import Thread

#: How often the clock advances while nothing moves.
PERIOD_S: Final = 0.25
#: The same where latency is measured.
PACED_PERIOD_S: Final = 1.0
#: How often is looked at the machine while the engine makes progress.
MOVING_S: Final = 1.0
#: A look takes at most one part in this many of the time, counted in processor time.
SPARING: Final = 20
#: A thread that used a core, or waited for one, for this share of the time had work to do.
WORKING: Final = 0.9
#: What a thread that is new has used and waited for before.
NOTHING: Final = Thread(0, 0, "")


@dataclass(frozen=True)
class Reading:
    """One reading of /proc: threads of engine and kit, the cores that they may run on."""

    engine: Mapping[tuple[int, int], Thread]
    kit: Mapping[tuple[int, int], Thread]
    engine_cores: frozenset[int]
    kit_cores: frozenset[int]
    disk_s: float | None
    memory_s: float | None


def read(engine: Iterable[Proc]) -> Reading:
    """Look at the engine's processes, at this process, and at the machine."""
    own = os.getpid()
    threads: dict[tuple[int, int], Thread] = {}
    cores: set[int] = set()
    for proc in engine:
        try:
            cores |= os.sched_getaffinity(proc.pid)
            threads |= process_sample.thread_times(proc.pid)
        except OSError:
            continue  # it has ended meanwhile
    kit = process_sample.thread_times(own)
    kit.pop((own, threading.get_native_id()), None)  # this one: it is late, which is known
    return Reading(
        threads,
        kit,
        frozenset(cores),
        frozenset(os.sched_getaffinity(0)),
        process_sample.pressure_s("io"),
        process_sample.pressure_s("memory"),
    )


def interval(before: Reading, now: Reading, length_s: float, late_s: float) -> Interval:
    """Return what two readings say of the time between them."""
    engine = grown(before.engine, now.engine, length_s)
    engine_used_s, engine_wait_s = (sum(one[at] for one in engine) for at in (0, 1))
    kit = grown(before.kit, now.kit, length_s)
    kit_used_s = sum(used_s for used_s, _ in kit)
    # Threads of the kit that look around wake often, and wait each time, whatever they find.
    working = [wait_s for used_s, wait_s in kit if used_s + wait_s >= WORKING * length_s]
    kit_wait_s = max(working, default=0.0)
    of_kit_s = forced(kit_used_s, now.kit_cores, now.engine_cores, length_s)
    of_engine_s = forced(engine_used_s, now.engine_cores, now.kit_cores, length_s)
    threads = (*now.engine.values(), *now.kit.values())
    return Interval(
        length_s,
        late_s,
        Demand(engine_wait_s, engine_used_s + of_kit_s, len(now.engine_cores) or 1),
        Demand(kit_wait_s, kit_used_s + of_engine_s, len(now.kit_cores) or 1),
        blocked=any(one.state == "D" for one in threads),
        disk_s=_since(before.disk_s, now.disk_s),
        memory_s=_since(before.memory_s, now.memory_s),
    )


def forced(used_s: float, own: frozenset[int], others: frozenset[int], length_s: float) -> float:
    """Return how much of ``used_s`` was on the cores of others, if as little as can be was.

    The kit may run on more cores than an engine that has bound itself to one: what the rest had
    room for has kept that engine from nothing.
    """
    return max(0.0, used_s - len(own - others) * length_s)


def _since(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else max(0.0, now - before)


def grown(
    before: Mapping[tuple[int, int], Thread], now: Mapping[tuple[int, int], Thread], length_s: float
) -> list[tuple[float, float]]:
    """Return what each thread has used, and how long it has waited, since a reading.

    The kernel adds a wait when it is over: one that was ready to run at both moments, and has not
    run, has waited all along.
    """
    found = []
    for key, thread in now.items():
        old = before.get(key, NOTHING)
        if old.used_ns > thread.used_ns:  # the number belongs to another thread now
            old = NOTHING
        used = (thread.used_ns - old.used_ns) / 1e9
        left_s = max(0.0, length_s - used)
        waits = thread.state == old.state == "R" and thread.used_ns == old.used_ns
        waited = max(0, thread.wait_ns - old.wait_ns) / 1e9
        found.append((used, left_s if waits else min(left_s, waited)))
    return found


class Pulse:
    """A thread that drives a clock; use as a context manager.

    ``position`` gives counts that change as the engine makes progress, ``living`` its processes.
    ``paced``: latency is measured, so that no look at the machine may hold up what is served while
    the engine makes progress. ``failure`` says what broke it: the clock is an ordinary one then.
    """

    def __init__(
        self,
        clock: FairClock,
        position: Callable[[], tuple[int, ...]],
        living: Callable[[], Sequence[Proc]],
        *,
        paced: bool = False,
    ) -> None:
        self._clock, self._position, self._living = clock, position, living
        self._period_s = PACED_PERIOD_S if paced else PERIOD_S
        self._moving_s = float("inf") if paced else MOVING_S
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self.failure: BaseException | None = None

    def __enter__(self) -> Pulse:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self.failure = error
        finally:
            self._clock.stop()

    def _follow(self) -> None:
        position = self._position()
        began = advanced = time.monotonic()
        self._clock.advance(began, 0.0)
        before: Reading | None = None
        late_s, next_look = 0.0, began
        while True:
            due = time.monotonic() + self._period_s
            if self._over.wait(self._period_s):
                return
            now = time.monotonic()
            late_s += max(0.0, now - due)
            here = self._position()
            moves, position = here != position, here
            if moves:
                self._clock.moved(now)
            if now < next_look or (moves and now < advanced + self._moving_s):
                if self._moving_s == float("inf"):  # nothing but its own lateness is known
                    self._clock.advance(now, late_s)
                    advanced, late_s, before = now, 0.0, None
                continue
            looked = time.thread_time()
            reading = read(self._living())
            length_s = now - advanced
            seen = (
                interval(before, reading, length_s, late_s)
                if before
                else Interval(length_s, late_s)
            )
            self._clock.advance(now, withheld_s(seen))
            advanced, late_s, before = now, 0.0, reading
            next_look = now + SPARING * (time.thread_time() - looked)
