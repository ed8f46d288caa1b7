"""The engine is stopped, and deployed with resume for another number of workers."""

from __future__ import annotations

from functools import partial

from tickproof.conformance.fault_steps import RescaleStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault


class Rescale(ProcessFault):
    """Stop, and deploy with resume for ``workers``."""

    step: RescaleStep

    words = "stop of {self.whom}, then deploy with resume for {self.workers}"
    ends_engine = True
    rescale_claims = frozenset(("restart", "live"))

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.rescale, self.step.workers, crew.live)
