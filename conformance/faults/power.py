"""Loss of power: every process is gone, and with it what was not synced to disk."""

from __future__ import annotations

from functools import partial

from tickproof.conformance.fault_steps import LOSSES, PowerStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault


class Power(ProcessFault):
    """The disk stops, every process is killed, and what no fsync covers is lost as ``loss`` says.

    At a moment of files nothing reaches the disk after the operation that it waited for.
    """

    step: PowerStep

    words = "loss of power, {self.taken}"
    noun = "loss of power"
    mark = "K"
    kills = ends_engine = True
    needs = "power"

    @property
    def taken(self) -> str:
        """The data that it loses, as a sentence says it."""
        return LOSSES[self.step.loss]

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.lose_power, self.step.loss, crew.live)
