"""Fires the steps of a schedule in order, each at its moment, and notes the evidence.

An aimed fault fires in a thread of its own, for it may take long; the connection that reached
the moment is held until it is carried out, so nothing happens on it in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final

from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.scenario import FaultStep

#: How long a delayed fault waits for data to be in flight before it fires anyway.
IN_FLIGHT_WAIT_S: Final = 1.0
#: Records that may be published beyond a due fault, as seconds of the pace.
MARGIN_S: Final = 0.25
#: How long a fault waits for the engine to release something since it recovered.
CUT_WAIT_S: Final = 1.0

_MOMENTS: Final = {
    "fetched": {"fetched"},
    "recovery": {"fetched"},
    "losing": {"append-received", "commit-received"},
    "staged": {"staged", "appended"},
    "accepted": {"stage-acked", "append-acked"},
    "committing": {"committed", "appended"},
}

#: Finds whom a step is meant for, which may take time, and returns the strike itself, which
#: gives facts for the event (pids). Both raise LookupError: no such process.
Deed = Callable[[FaultStep], Callable[[], dict[str, Any]]]


class FaultController:
    """Steps of one run. Thread-safe.

    ``observe`` is the log server's observer; ``limit`` is the publisher's limit. Where a
    step asks for a cut, the first fault waits ``first_cut_s`` for one: rare cuts get their time.
    ``one_each``: each record gives one output.
    """

    def __init__(
        self, steps: Sequence[FaultStep], log: InputLog, recorder: Recorder,
        rate: float | None, deed: Deed, on_event: Callable[..., None], first_cut_s: float,
        one_each: bool = False,
    ) -> None:  # fmt: skip
        self._steps, self._log, self._recorder = tuple(steps), log, recorder
        self._margin = int((rate or 0) * MARGIN_S)
        self._deed, self._event, self._first_cut_s = deed, on_event, first_cut_s
        self._one_each = one_each
        self._lock = threading.Lock()
        self._next = 0
        self._busy = self._striking = False
        #: Connections with a higher number were opened after the last fault.
        self._connections_before = 0
        #: How many connections were opened so far; the runner points it at the server.
        self.opened: Callable[[], int] = lambda: 0
        self._recovering = self._all_died = False
        self._recovered_at = self._released_before = 0.0
        self._killed_at = self._due_at = 0.0
        #: Faults of connections; the runner points it at the server's.
        self.links: Links | None = None
        #: Whether a connection is held during the strike; not where latency is measured.
        self.holds_connections = True
        #: What went wrong in a thread that fired; the runner raises it.
        self.failure: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Say whether a step is being carried out now."""
        return self._busy

    @property
    def recovering(self) -> bool:
        """Say whether the whole engine died by a fault and no FETCH came since.

        After the death of a worker, or of a coordinator that argv's process outlived, nobody
        can tell whose FETCH it is; after drain there is nothing to fetch.
        """
        last = self._steps[self._next - 1] if self._next else None
        return self._recovering and self._all_died and last is not None and last.at != "drained"

    def engine_died(self) -> None:
        """Take note that no process of the engine is left, and none of its connections."""
        with self._lock:
            self._connections_before = self.opened()
            self._recovering = self._all_died = True

    @property
    def current(self) -> FaultStep | None:
        """The step that is due next."""
        return self._steps[self._next] if self._next < len(self._steps) else None

    def limit(self, due: int) -> int:
        """Return how many records may be published when ``due`` are due by the pace."""
        step = self.current
        total = self._log.total
        if self._striking:
            # On a slow machine a strike takes long: what comes after it has to find input.
            return min(due, self._log.published)
        if step is None or step.at == "drained":
            return min(due, total)
        if step.at == "recovery":
            # It may take long; what comes after it has to find input, too.
            later = (s for s in self._steps[self._next :] if s.at not in ("recovery", "drained"))
            after = next(later, None)
            return min(due, total if after is None else int(after.fraction * total))
        threshold = int(step.fraction * total)
        if due < threshold:
            return due
        if step.at == "checkpoint":
            return threshold
        self._due_at = self._due_at or time.monotonic()
        if not self._had_cut(step) or (self.links and self.links.lasting(step)):
            return min(due, threshold)
        room = max(self._margin, 1024) + step.burst
        # What was fetched before there was time for a cut is past: the moment needs a new fetch.
        base = max(threshold, self._log.fetched) if step.at == "fetched" else threshold
        return min(total, max(due, threshold + step.burst), base + room)

    def observe(self, moment: str, connection: int) -> Future[bool] | None:
        """Hear of a moment of a connection; fire what is due, without waiting for it.

        The connection has to wait for the future that this returns. Its result is True where
        the frame of this moment is to be treated as never sent.
        """
        if (
            self._recovering
            and moment.startswith("fetched")
            and connection > self._connections_before
        ):
            self._released_before, self._recovered_at = self._log.released, time.monotonic()
            self._recovering = False
            self._event(EventKind.RECOVERED, connection=connection)
        step = self.current
        if step is None or moment not in _MOMENTS.get(step.at, ()):
            return None
        if step.at == "recovery":
            if self._next and connection <= self._connections_before:
                return None
        elif not self._reached(step) or not self._had_cut(step):
            return None
        if self.links and not self.links.ready(step):
            return None
        with self._lock:
            if self._busy or self.current is not step:
                return None
            self._busy = True
        carried_out: Future[bool] = Future()
        threading.Thread(
            target=self._strike, args=(step, moment, carried_out), name="fault", daemon=True
        ).start()
        if step.at == "losing":
            return carried_out
        return carried_out if self.holds_connections and not step.delay_s else None

    def _strike(self, step: FaultStep, moment: str, carried_out: Future[bool]) -> None:
        """Fire in a thread of its own."""
        fired = False
        try:
            if step.at == "losing" or step.delay_s or not self.holds_connections:
                self._await_flight(step)
            fired = self._fire(step, moment)
        finally:
            carried_out.set_result(fired and step.at == "losing")

    def _reached(self, step: FaultStep) -> bool:
        return self._log.fetched >= min(step.fraction * self._log.total + 1, self._log.total)

    def _had_cut(self, step: FaultStep) -> bool:
        """Say whether there was time for a cut, since the fault before or at all.

        A death that follows before any cut finds the engine in the state of the death
        before, and shows nothing new.
        """
        now = time.monotonic()
        if self._next == 0:
            waited = self._due_at and now > self._due_at + self._first_cut_s
            return not step.cut or self._log.released > 0 or bool(waited)
        if self._recovering and self._all_died:
            return False
        if self._recovering:
            # An engine may keep its connections over a worker's death: nobody can tell
            # from outside when it has recovered.
            return now > self._killed_at + CUT_WAIT_S
        released = self._log.released > self._released_before
        return released or now > self._recovered_at + CUT_WAIT_S

    def fire_now(self, at: str) -> FaultStep | None:
        """Fire the current step if it waits for ``at``; returns it."""
        step = self.current
        if step is None or step.at != at:
            return None
        with self._lock:
            if self._busy:
                return None
            self._busy = True
        self._fire(step, at)
        return step

    def give_up(self, why: str) -> None:
        """Drop the current step, so that the input goes on; the evidence will be missing."""
        step = self.current
        with self._lock:
            if step is None or self._busy:
                return
            self._next += 1
        self._event(EventKind.FAULT_MISSED, step=step.to_json(), why=why)

    def _await_flight(self, step: FaultStep) -> None:
        """Wait out the delay of a step, and then a little until data is in flight."""
        pause = threading.Event()
        pause.wait(step.delay_s)
        deadline = time.monotonic() + IN_FLIGHT_WAIT_S
        while not self._in_flight() and time.monotonic() < deadline:
            pause.wait(0.0005)

    def _in_flight(self) -> bool:
        """Say whether the engine holds records, also where it has released them too early."""
        fetched = self._log.fetched
        return fetched > self._log.released or (self._one_each and fetched > self._recorder.records)

    def _fire(self, step: FaultStep, moment: str) -> bool:
        try:
            strike = self._deed(step)
            before = self._evidence()  # in the moment before the strike
            self._striking = True
            facts = strike()
        except LookupError as error:
            self._miss(step, str(error))
            return False
        except BaseException as error:
            # It must reach the runner, not die with this thread: else the run hangs.
            self.failure = error
            self._miss(step, f"{type(error).__name__}: {error}")
            return False
        self._event(
            EventKind.FAULT,
            step=step.to_json(),
            moment=moment,
            number=self._next,
            text=str(step),
            **facts,
            **before,
        )
        with self._lock:
            self._connections_before = self.opened()
            self._recovering = step.do == "kill" or step.ends_engine
            self._all_died = step.ends_engine
            self._killed_at, self._due_at = time.monotonic(), 0.0
            self._next += 1
            self._busy = self._striking = False
        return True

    def _miss(self, step: FaultStep, why: str) -> None:
        with self._lock:
            self._next += 1
            self._busy = self._striking = False
        self._event(EventKind.FAULT_MISSED, step=step.to_json(), why=why)

    def _evidence(self) -> dict[str, Any]:
        return {
            "at_ns": time.monotonic_ns(),
            "partitions": [list(state) for state in self._log.states()],
            "outputs": self._recorder.records,
            "total": self._log.total,
        }
