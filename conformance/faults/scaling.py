"""Scales of an engine that are under way: asked for by a fault, answered some time later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.process import Engine, Pending
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog

#: How long until a scale is asked for again that was refused after a fault.
AGAIN_S: Final = 0.2
_IDLE: Final = "a worker that came with a scale asked for no input"


@dataclass(frozen=True)
class _Scale:
    """A request. alone: no other was under way when it was sent."""

    request: Pending
    workers: int
    alone: bool


class Scaling:
    """The scales of one engine. One thread asks, and one hears the answers."""

    def __init__(self, events: EventLog, limit_s: float, clock: FairClock) -> None:
        self._events, self._limit_s, self._clock = events, limit_s, clock
        self._open: tuple[_Scale, ...] = ()
        self._unseen = False
        #: Whether so many workers ask for input; None where the engine itself says that they do.
        self.arrived: Callable[[int], bool] | None = None

    @property
    def under_way(self) -> bool:
        """True if an answer is due, or nobody has looked at the workers since one came."""
        return bool(self._open) or self._unseen

    def ask(self, live: Engine, workers: int) -> None:
        """Ask for so many workers; raises EngineFailure if that makes no sense now."""
        request = live.submit("scale", workers=workers)
        self._open += (_Scale(request, workers, alone=not self._open),)

    def forget(self) -> None:
        """Take note that the engine has died, and answers nothing more."""
        self._open, self._unseen = (), False

    def seen(self) -> None:
        """Take note that somebody has looked at the new workers."""
        self._unseen = False

    def answered(self, live: Engine, fault_at: float, coordinator_died_at: float = 0.0) -> int:
        """Note the answers that have come; return the number of workers by the last, 0 for none.

        fault_at: when the last fault came (time.monotonic): what is refused because of one is
        asked for again, and so is what a coordinator took and died over. An answer counts once
        the workers have arrived, or were waited for long enough. Raises EngineFailure: refused
        without a reason, or too late.
        """
        workers = 0
        for scale in self._open:
            outcome = scale.request.outcome
            if outcome is None and coordinator_died_at * 1e9 > scale.request.sent_ns:
                self._ask_again(live, scale)
            elif outcome is None:
                self._expect_in_time(scale, fault_at)
            elif not isinstance(outcome, EngineFailure):
                came = self._came(scale)
                if came or self._overdue(scale, fault_at, _IDLE):
                    workers, self._unseen = scale.workers, True
                    t_ns = time.monotonic_ns() if self.arrived else scale.request.answered_ns
                    self._note(EventKind.SCALED, scale, t_ns, arrived=came)
            elif outcome.code != Code.REFUSED:
                raise outcome
            elif not scale.alone:
                self._note(EventKind.SCALE_REFUSED, scale, scale.request.answered_ns)
            elif self._clock.fair_s(fault_at) > self._limit_s:
                raise outcome
            elif time.monotonic() > scale.request.answered_ns / 1e9 + AGAIN_S:
                self._ask_again(live, scale)
        return workers

    def _ask_again(self, live: Engine, scale: _Scale) -> None:
        again = replace(scale, request=live.submit("scale", workers=scale.workers))
        self._open = tuple(again if one is scale else one for one in self._open)

    def _expect_in_time(self, scale: _Scale, fault_at: float) -> None:
        if not self._overdue(scale, fault_at, "no answer to scale"):
            return
        try:
            scale.request.wait(0)
        except EngineFailure as failure:
            limit = f"within {self._limit_s:g} s of the request, or of a fault after it"
            raise EngineFailure(
                failure.code, f"no answer to scale {limit}", failure.stderr_tail
            ) from failure

    def _overdue(self, scale: _Scale, fault_at: float, what: str) -> bool:
        begun = max(scale.request.sent_ns / 1e9, fault_at)
        return self._clock.overdue(begun, self._limit_s, what)

    def _came(self, scale: _Scale) -> bool:
        """Say whether its workers ask for input; of one that another follows, nobody knows."""
        later = self._open[self._open.index(scale) + 1 :]
        # One that is not refused may send them away.
        follows = any(not isinstance(one.request.outcome, EngineFailure) for one in later)
        return self.arrived is None or follows or self.arrived(scale.workers)

    def _note(self, kind: EventKind, scale: _Scale, t_ns: int, **more: bool) -> None:
        self._open = tuple(one for one in self._open if one is not scale)
        asked_ns = scale.request.sent_ns
        self._events.add(kind, t_ns, workers=scale.workers, asked_ns=asked_ns, **more)
