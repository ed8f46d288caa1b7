"""Scales of an engine that are under way: asked for by a fault, answered some time later."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Final

from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.process import Engine, Pending
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog

#: How long until a scale is asked for again that was refused after a fault.
AGAIN_S: Final = 0.2


@dataclass(frozen=True)
class _Scale:
    """A request. alone: no other was under way when it was sent."""

    request: Pending
    workers: int
    alone: bool


class Scaling:
    """The scales of one engine. One thread asks, and one hears the answers.

    on_hosts: it runs on several. A worker that it does not hear from may be given up there and
    replaced long after the fault that silenced it.
    """

    def __init__(self, events: EventLog, limit_s: float) -> None:
        self._events, self._limit_s = events, limit_s
        self.on_hosts = False
        self._open: tuple[_Scale, ...] = ()
        self._unseen = False

    @property
    def under_way(self) -> bool:
        """Whether an answer is due, or nobody has looked at the workers since one came."""
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

    def answered(self, live: Engine, fault_at: float) -> int:
        """Note the answers that have come; return the number of workers by the last, 0 for none.

        fault_at: when the last fault came (time.monotonic). What is refused after one, or because
        of one, is asked for again. Raises EngineFailure: refused without a reason, or too late.
        """
        workers = 0
        for scale in self._open:
            outcome = scale.request.outcome
            if outcome is None:
                self._expect_in_time(scale, fault_at)
            elif not isinstance(outcome, EngineFailure):
                workers, self._unseen = scale.workers, True
                self._note(EventKind.SCALED, scale)
            elif outcome.code != Code.REFUSED:
                raise outcome
            elif not scale.alone:
                self._note(EventKind.SCALE_REFUSED, scale)
            elif not self._excused(scale, fault_at):
                raise outcome
            elif time.monotonic() > scale.request.answered_ns / 1e9 + AGAIN_S:
                again = replace(scale, request=live.submit("scale", workers=scale.workers))
                self._open = tuple(again if one is scale else one for one in self._open)
        return workers

    def _excused(self, scale: _Scale, fault_at: float) -> bool:
        """Tell whether a process may be missing, so that a scale is refused with a reason."""
        since = 0.0 if self.on_hosts else scale.request.sent_ns / 1e9
        return since < fault_at and time.monotonic() <= fault_at + self._limit_s

    def _expect_in_time(self, scale: _Scale, fault_at: float) -> None:
        begun = max(scale.request.sent_ns / 1e9, fault_at)
        if time.monotonic() < begun + self._limit_s:
            return
        try:
            scale.request.wait(0)
        except EngineFailure as failure:
            limit = f"within {self._limit_s:g} s of the request, or of a fault after it"
            raise EngineFailure(
                failure.code, f"no answer to scale {limit}", failure.stderr_tail
            ) from failure

    def _note(self, kind: EventKind, scale: _Scale) -> None:
        self._open = tuple(one for one in self._open if one is not scale)
        self._events.add(
            kind, scale.request.answered_ns, workers=scale.workers, asked_ns=scale.request.sent_ns
        )
