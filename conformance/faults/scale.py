"""The op scale asks for another number of workers, while input goes on."""

from __future__ import annotations

from functools import partial

from tickproof.conformance.fault_steps import ScaleStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault


class Scale(ProcessFault):
    """The op scale for ``workers``; its answer comes later, and the load goes on meanwhile."""

    step: ScaleStep

    words = "scale of {self.whom} to {self.workers}"
    rescale_claims = frozenset(("live",))

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.scale, self.step.workers, crew.live)
