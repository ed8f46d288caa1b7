"""SIGKILL of the engine, which starts again on an empty disk."""

from __future__ import annotations

from functools import partial

from tickproof.conformance.fault_steps import WipeStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault


class Wipe(ProcessFault):
    """Every process is killed, and the folder of the state is emptied, as a new pod has it."""

    step: WipeStep

    words = "SIGKILL of the engine and loss of all files in {self.whom}"
    noun = "loss of the disk"
    mark = "K"
    kills = ends_engine = True
    needs = "disk"

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.wipe, crew.live)
