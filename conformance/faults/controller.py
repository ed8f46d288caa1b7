"""Fires the steps of a schedule in order, each at its moment, and notes the evidence.

An aimed fault fires in a thread of its own, for it may take long; the connection that reached
the moment is held until it is carried out, so nothing happens on it in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any, Final, Protocol

from tickproof.conformance.engines.disk import Hold
from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.faults import moments
from tickproof.conformance.faults.fault import Fault
from tickproof.conformance.faults.flight import Flight
from tickproof.conformance.faults.kill import KILLS
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.link_fault import LinkFault
from tickproof.conformance.faults.moments import Moment, moment_of
from tickproof.conformance.faults.scale import Scale
from tickproof.conformance.faults.state_watch import StateWatch, await_event
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.log_server.connection_faults import Links
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.recorder import Recorder

#: Records that may be published beyond a due fault, as seconds of the pace.
MARGIN_S: Final = 0.25
#: How long a fault waits for the engine to release something since it recovered.
CUT_WAIT_S: Final = 1.0
#: How often a step whose target is gone for the moment looks for it.
_LOOK_S: Final = 0.002
#: So often new records come to a step that waits for cuts, though nothing is left to cut.
GRANT_S: Final = 0.02


class Surroundings(Protocol):
    """The run as its controller sees it.

    connections: how many were opened so far. links: faults of connections, None where there is no
    server. scaling: a scale is not answered, or its workers were not seen; nothing but what comes
    meanwhile fires then. draining: drain was asked for and is not answered.
    """

    @property
    def connections(self) -> int: ...
    @property
    def links(self) -> Links | None: ...
    @property
    def scaling(self) -> bool: ...
    @property
    def draining(self) -> bool: ...

    def returning(self, fault: Fault) -> bool:
        """Tell whether what a fault is done to is still on its way back; input waits for that."""

    def aim(self, fault: Fault) -> Callable[[], dict[str, Any]]:
        """Find whom a fault is meant for, which may take time, and return the strike itself.

        That gives facts for the event (pids). Both raise LookupError: no such process.
        """

    def watch_state(self, fault: Fault, events: int) -> StateWatch | Hold:
        """Begin to watch the folder of the state for events of inotify; raises OSError."""


class FaultController:
    """Steps of one run. Thread-safe.

    ``observe`` is the log server's observer; ``limit`` is the publisher's limit. Where a
    step asks for a cut, the first fault waits ``first_cut_s`` for one, or as long as it took the
    engine to get there. ``one_each``: each record gives one output. ``holds_connections``: a
    connection is held during the strike; not where latency is measured.
    """

    def __init__(
        self,
        steps: Sequence[FaultStep],
        log: InputLog,
        recorder: Recorder,
        rate: float | None,
        run: Surroundings,
        on_event: Callable[..., None],
        first_cut_s: float,
        *,
        one_each: bool = False,
        holds_connections: bool = True,
    ) -> None:
        self._steps, self._log, self._recorder = tuple(steps), log, recorder
        self._margin = int((rate or 0) * MARGIN_S)
        self._run, self._event, self._first_cut_s = run, on_event, first_cut_s
        self._holds_connections = holds_connections
        self._flight = Flight(log, recorder, one_each)
        self._lock = threading.Lock()
        self._next = 0
        self._busy = self._striking = self._recovering = self._all_died = False
        #: A step whose delay ran on until nothing was left in flight: it fires at a moment anew.
        self._late: FaultStep | None = None
        #: Connections with a higher number were opened after the last fault.
        self._connections_before = 0
        self._recovered_at = self._released_before = 0.0
        self._killed_at, self._due_at, self._began_at = 0.0, 0.0, time.monotonic()
        #: Cuts of each partition when this life began, and where the input stood at the last step.
        self._cuts_before, self._base, self._fetched_then = log.cuts(), 0, 0
        #: Records granted to a step that waits for cuts.
        self._granted, self._granted_at = 0, 0.0
        #: Whether output was seen to be sent, and whether all input may go out before any is.
        self._emits = self._emits_at_end = False
        #: The connection at whose moment the current step fires, 0 where it is no matter of one.
        self.connection = 0
        #: Records that may be published, whatever the faults wait for.
        self.most = log.total
        #: What went wrong in a thread that fired; the runner raises it.
        self.failure: BaseException | None = None

    @property
    def busy(self) -> bool:
        """Say whether a step is being carried out now."""
        return self._busy

    @property
    def moment(self) -> Moment | None:
        """The moment of the step that is due next, None after the last one."""
        step = self.current
        return moment_of(step) if step is not None else None

    @property
    def _killed_last(self) -> bool:
        """True if the newest step was a kill."""
        return self._newest is not None and isinstance(fault_of(self._newest), KILLS)

    @property
    def _newest(self) -> FaultStep | None:
        """The step before the current one."""
        return self._steps[self._next - 1] if self._next else None

    @property
    def nobody_came_back(self) -> bool:
        """Say whether the newest step killed somebody, and nothing new was fetched since."""
        here = self._log.fetched
        return self._killed_last and here == self._fetched_then < self._log.published

    @property
    def recovering(self) -> bool:
        """Say whether the whole engine died by a fault and no FETCH came since.

        After the death of a worker, or of a coordinator that argv's process outlived, nobody
        can tell whose FETCH it is; after drain there is nothing to fetch.
        """
        last = self._newest
        drained = last is None or moment_of(last) is moments.DRAINED
        return self._recovering and self._all_died and not drained

    def engine_died(self) -> None:
        """Take note that no process of the engine is left, and none of its connections."""
        with self._lock:
            self._connections_before = self._run.connections
            self._recovering = self._all_died = True
            self._cuts_before = self._log.cuts()

    @property
    def cuts(self) -> int:
        """Cuts of this life: RELEASEs of the partition that has most."""
        return max(
            (now - b for now, b in zip(self._log.cuts(), self._cuts_before, strict=True)), default=0
        )

    @property
    def current(self) -> FaultStep | None:
        """The step that is due next."""
        return self._steps[self._next] if self._next < len(self._steps) else None

    def limit(self, due: int) -> int:
        """Return how many records may be published when ``due`` are due by the pace."""
        step, total, due = self.current, self._log.total, min(due, self.most)
        if self._striking and step is not None and not _goes_on(step):
            # On a slow machine a strike takes long: what comes after it has to find input.
            return min(due, self._log.published)
        if step is None or moment_of(step) in (moments.DRAINED, moments.SCALING):
            # Workers that come with a scale have to find input, too.
            return min(due, total - total // 8 if self._run.scaling else total)
        if moment_of(step) is moments.RECOVERY:
            # It may take long; what comes after it has to find input, too.
            later = (
                s
                for s in self._steps[self._next :]
                if moment_of(s) not in (moments.RECOVERY, moments.DRAINED)
            )
            after = next(later, None)
            # END is no input: with it, an engine may have nothing left to fetch.
            return min(due, total - 1 if after is None else int(after.fraction * total))
        threshold = self._threshold(step)
        if moment_of(step).of_output and not self._emits:
            if self._emits_at_end:
                return min(due, total)
            if self._log.released > threshold + total // 8 and self.stop_awaiting_output():
                # It has cut more than what is due, and sent nothing: that may be so until END.
                return self.limit(due)
        return self._limit_for(step, threshold, due)

    def _limit_for(self, step: FaultStep, threshold: int, due: int) -> int:
        """Return how many records may be published before a step that is due from a record on."""
        total, moment = self._log.total, moment_of(step)
        if moment is moments.CUTS and self.cuts < step.cuts:
            return min(due, self._bit_by_bit(step, threshold))
        if self._follows_scale(step) and self._run.scaling:
            return min(due, self._halfway(step))
        if due < threshold:
            return due
        waits = (
            moment in (moments.CHECKPOINTING, moments.CHECKPOINT, moments.IDLE)
            or self._run.scaling
            or self._run.returning(fault_of(step))
        )
        if waits or (moment is moments.DRAINING and not self._run.draining):
            return threshold
        if self._log.fetched:  # an engine that still starts cannot cut
            self._due_at = self._due_at or time.monotonic()
        room = max(self._margin, 1024) + step.burst
        links = self._run.links
        if links and links.lasting(fault_of(step)):  # it has to meet something, too
            return min(due, max(threshold, self._base + total // 32))
        if moment is not moments.CUTS and not self._had_cut(step):
            return min(due, max(threshold, self._to_come_back_to()))
        # What was fetched before there was time for a cut is past: the moment needs a new fetch.
        # What was cut, too: the next output, or commit, needs records that are not. But once the
        # moment has come, the strike must find some in flight, and not the end.
        # A file is written while input goes on, and a leader alone has to take some.
        frozen = self._busy and not moment.of_file and fault_of(step).holds
        past = self._log.fetched if moment.anew else 0 if frozen else self._log.released
        # END comes with the last record, and lets drain be answered.
        last = total - 1 if moment is moments.DRAINING else total
        # Something is kept for each later step, and for this one where it may turn out to be late.
        late = self._busy and moment is moments.FETCHED
        left = len(self._steps) - self._next - (not late)
        least = 0 if late else min(last, threshold + total // 32 + 1)
        last = max(last - max(1, total // 32) * left, least)
        return min(last, max(due, threshold + step.burst), max(threshold, past) + room)

    def _to_come_back_to(self) -> int:
        """Return how many records have to be out so that an engine that died has some to fetch.

        The death may have come as the engine had released all that there was.
        """
        published = self._log.published
        if not self._recovering or self._log.released < published:
            return 0
        return published + max(1, self._log.total // 32)

    def _threshold(self, step: FaultStep) -> int:
        """Return from which record on a step is due; where END would spoil it, not the last."""
        total = self._log.total
        last = total - 1 if moment_of(step) in (moments.IDLE, moments.DRAINING) else total
        if step.cut and step.fraction == 1.0 and not self._had_cut(step):
            # An engine that fetches all before its first cut would fetch nothing after it.
            last -= total // 4
        return max(min(int(step.fraction * total), last), 0)

    def _follows_scale(self, step: FaultStep) -> bool:
        """Say whether a scale comes after another: between them the new workers have to work."""
        return _is_scale(step) and self._newest is not None and _is_scale(self._newest)

    def _halfway(self, step: FaultStep) -> int:
        """Return how many records may be out until the scale before a step is answered."""
        return (self._base + max(self._base, int(step.fraction * self._log.total))) // 2

    def _bit_by_bit(self, step: FaultStep, threshold: int) -> int:
        """Return how many records may be out while a step waits for cuts: new ones for each cut."""
        bit = max(1, (threshold - self._base) // (step.cuts + 1))
        now = time.monotonic()
        if self._log.released >= self._log.published and now >= self._granted_at + GRANT_S:
            # All is cut, and what came was too little for one more.
            self._granted, self._granted_at = self._granted + bit, now
        return min(max(self._base + bit * (self.cuts + 1), self._granted), threshold)

    def observe(self, moment: str, connection: int) -> Future[bool] | None:
        """Hear of a moment of a connection; fire what is due, without waiting for it.

        The connection has to wait for the future that this returns. Its result is True where
        the frame of this moment is to be treated as never sent.
        """
        is_new = connection > self._connections_before
        self._emits |= moment.startswith(("stage", "append"))
        if self._recovering and is_new and moment.startswith("fetched"):
            self._released_before, self._recovered_at = self._log.released, time.monotonic()
            self._recovering = False
            self._event(EventKind.RECOVERED, connection=connection)
        step = self.current
        if step is None or moment not in self._moments(step) or self._run.scaling:
            return None
        waits_for = moment_of(step)
        if waits_for is moments.RECOVERY:
            if self._next and not is_new:
                return None
        elif waits_for is moments.CUTS:
            if self.cuts < step.cuts or not self._back():
                return None
        elif (
            (waits_for is moments.DRAINING and not self._run.draining)
            or not self._reached(step)
            or not self._had_cut(step)
        ):
            return None
        links = self._run.links
        if (links and not links.ready(fault_of(step))) or self._run.returning(fault_of(step)):
            return None
        with self._lock:
            if self._busy or self.current is not step:
                return None
            self._busy, self.connection = True, connection
        carried_out: Future[bool] = Future()
        threading.Thread(
            target=self._strike, args=(step, moment, carried_out), name="fault", daemon=True
        ).start()
        if waits_for.loses:
            return carried_out
        return carried_out if self._holds(step) else None

    def _strike(self, step: FaultStep, moment: str, carried_out: Future[bool]) -> None:
        """Fire in a thread of its own."""
        fired = False
        try:
            if self._delayed(step):
                threading.Event().wait(step.delay_s)
            # No connection is held: the engine may have done all that it had.
            loose = moment_of(step).loses or not self._holds(step)
            fired = self._fire(step, moment, awaits_flight=loose)
        finally:
            carried_out.set_result(fired and moment_of(step).loses)
        self._fire_while_scaling()

    def _fire_while_scaling(self) -> None:
        """Fire the steps that wait for a scale under way: it may be over soon."""
        while (step := self.current) is not None and moment_of(step) is moments.SCALING:
            threading.Event().wait(step.delay_s)
            self._await_target(step)
            if self.fire_now(moments.SCALING) is None:
                return

    def _await_target(self, step: FaultStep) -> None:
        """Wait while a scale leaves nobody to strike: workers may start anew, and connect again."""
        while self._run.scaling and self.current is step:
            try:
                self._run.aim(fault_of(step))
            except LookupError:
                threading.Event().wait(_LOOK_S)
            else:
                return

    def _reached(self, step: FaultStep) -> bool:
        return self._log.fetched >= min(self._threshold(step) + 1, self._log.total)

    def _had_cut(self, step: FaultStep) -> bool:
        """Say whether there was time for a cut, since the fault before or at all.

        A death that follows before any cut finds the engine in the state of the death
        before, and shows nothing new. On a busy machine all takes long, a cut too.
        """
        now = time.monotonic()
        if self._next == 0:
            waited = 0 < self._due_at < now - max(self._first_cut_s, self._due_at - self._began_at)
            # The file that is removed may be that of any partition.
            states = self._log.states() if fault_of(step).removes_file else ()
            cut = self._log.released > 0 and all(s.released for s in states if s.fetched)
            return not step.cut or cut or waited
        if self._recovering:
            return self._back()
        if self._follows_scale(step):
            # What came after the answer is part of a cut: the new workers had their share.
            waited = 0 < self._due_at < now - self._first_cut_s
            return self._log.released > self._halfway(step) or waited
        released = self._log.released > self._released_before
        return released or now > self._recovered_at + CUT_WAIT_S

    def _back(self) -> bool:
        """Say whether the engine has recovered from the last death, as far as that can be told."""
        if not self._recovering:
            return True
        # An engine may keep its connections over a worker's death: nobody sees it recover.
        return not self._all_died and time.monotonic() > self._killed_at + CUT_WAIT_S

    def fire_now(self, moment: Moment, first: Callable[[], None] | None = None) -> FaultStep | None:
        """Fire the current step if it waits for ``moment``; returns it.

        first: makes the moment come; called once the victim is known, ``delay_s`` of the step
        before the strike.
        """
        step = self.current
        if step is None or moment_of(step) is not moment:
            return None
        with self._lock:
            if self._busy:
                return None
            self._busy, self.connection = True, 0
        if moment is not moments.SCALING:  # where the delay is over
            first = first or (lambda: None)
        self._fire(step, moment.name, first=first)
        return step

    def fire_if_idle(self, held_back: Callable[[], bool]) -> None:
        """Fire a step that waits for silence, once it has lasted.

        held_back: says whether all is published that may come before the step.
        """
        step = self.current
        if step is None or moment_of(step) is not moments.IDLE:
            return
        quiet = self._flight.quiet_s() >= step.idle_s and self._flight.answered
        if (
            quiet
            and held_back()
            and self._back()
            and not (self._run.links and self._run.links.busy)
        ):
            self.fire_now(moments.IDLE)

    def stop_awaiting_output(self) -> bool:
        """Let a step that waits for output go by the input if none was ever sent.

        Some engines emit only at END. A fault that others follow comes at a fetch instead;
        one of connections comes after those; the last one waits for END, and all input goes
        out. Says whether something has changed.
        """
        step = self.current
        if step is None or not moment_of(step).of_output or self._emits or self._emits_at_end:
            return False
        with self._lock:
            if self._busy or self.current is not step:
                return False
            done, later = self._steps[: self._next], self._steps[self._next + 1 :]
            ready = tuple(one for one in later if not moment_of(one).of_output)
            if later and not isinstance(fault_of(step), LinkFault):
                self._steps = (*done, replace(step, at="fetched"), *later)
            elif ready:
                waiting = tuple(one for one in later if moment_of(one).of_output)
                self._steps = (*done, *ready, step, *waiting)
            else:
                self._emits_at_end = True
        return True

    def give_up(self, why: str, given: FaultStep | None = None) -> None:
        """Drop the current step, so that the input goes on; the evidence will be missing.

        given: only if it still is that one.
        """
        step = self.current
        with self._lock:
            if step is None or self._busy or (given is not None and step is not given):
                return
            self._go_on()
        self._event(EventKind.FAULT_MISSED, step=step.to_json(), why=why)

    def _holds(self, step: FaultStep) -> bool:
        """Say whether the connection that came to the moment is held during the strike."""
        held = self._holds_connections and fault_of(step).holds and not moment_of(step).of_file
        return held and not self._delayed(step)

    def _delayed(self, step: FaultStep) -> bool:
        return step.delay_s > 0 and step is not self._late

    def _moments(self, step: FaultStep) -> Collection[str]:
        """Return at which moments a step fires."""
        # What was fetched may be done before a late strike; an output that is held back is not.
        late = step is self._late and self._flight.one_each
        return (moments.LOSING if late else moment_of(step)).heard

    def _postponed(self, step: FaultStep) -> bool:
        """Put a delayed step off until input comes anew, if some can; says whether it did."""
        if (
            moment_of(step) is moments.FETCHED
            and self._delayed(step)
            and self._log.fetched < self._log.total
        ):
            self._late, self._busy = step, False
        return step is self._late

    def _fire(
        self,
        step: FaultStep,
        moment: str,
        *,
        awaits_flight: bool = False,
        first: Callable[[], None] | None = None,
    ) -> bool:
        try:
            strike = self._run.aim(fault_of(step))
            if awaits_flight and not self._flight.wait() and self._postponed(step):
                return False
            writing = ""
            if of_file := moment_of(step).of_file:
                watch = partial(self._run.watch_state, fault_of(step), of_file)
                writing = await_event(watch, self._first_cut_s)
            if first is not None:
                first()
                threading.Event().wait(step.delay_s)
            before = self._evidence(step)  # in the moment before the strike
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
            text=str(fault_of(step).found(facts)),
            writing=writing,
            connection=self.connection,
            **facts,
            **before,
        )
        ends_engine = fault_of(step).ends_engine
        dies = ends_engine or fault_of(step).kills
        if dies:
            self._cuts_before = self._log.cuts()
        with self._lock:
            self._connections_before = self._run.connections
            self._recovering, self._all_died = dies, ends_engine
            self._killed_at, self._due_at = time.monotonic(), 0.0
            self._go_on()
        return True

    def _miss(self, step: FaultStep, why: str) -> None:
        with self._lock:
            self._go_on()
        self._event(EventKind.FAULT_MISSED, step=step.to_json(), why=why)

    def _go_on(self) -> None:
        """Make the next step the current one."""
        self._next += 1
        self._busy = self._striking = False
        self._base = self._granted = self._log.published
        self._fetched_then = self._log.fetched

    def _evidence(self, step: FaultStep) -> dict[str, Any]:
        idle_s = round(self._flight.quiet_s(), 3) if moment_of(step) is moments.IDLE else 0.0
        return {
            "at_ns": time.monotonic_ns(),
            "cuts": self.cuts,
            "idle_s": idle_s,
            "partitions": [list(state) for state in self._log.states()],
            "outputs": self._recorder.records,
            "total": self._log.total,
        }


def _goes_on(step: FaultStep) -> bool:
    """Say whether input goes on during the strike, which has to meet it."""
    return _is_scale(step) or not fault_of(step).holds


def _is_scale(step: FaultStep) -> bool:
    return isinstance(fault_of(step), Scale)
