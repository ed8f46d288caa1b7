"""A disk that is full: no byte more can be written into the folder of the state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tickproof.conformance.fault_steps import FillStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault
from tickproof.conformance.history.events import Event, FillOver, FiredFault
from tickproof.conformance.history.folder import History


class Fill(ProcessFault):
    """The disk is full for ``seconds``, or until the engine starts again."""

    step: FillStep

    words = "{self.whom} full {self.length}"
    noun = "full disk"

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.fill, self.step.seconds, crew.live)

    def proofs(self, history: History) -> Sequence[Event]:
        return history.all(FillOver)

    def ends(self, history: History, fired: FiredFault) -> Iterable[int]:
        return (one.t_ns for one in history.all(FillOver) if one.t_ns > fired.t_ns)
