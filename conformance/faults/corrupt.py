"""SIGKILL of the engine, and damage to its newest file before it starts again."""

from __future__ import annotations

from functools import partial

from tickproof.conformance.fault_steps import DAMAGE, CorruptStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault
from tickproof.conformance.faults.state_dir import newest


class Corrupt(ProcessFault):
    """The newest file of a killed engine, with rot a larger one, is damaged as DAMAGE says.

    That it was read is judged with the verdict, not here: an engine may refuse to go on.
    """

    step: CorruptStep

    words = "SIGKILL of the engine and its {self.which} file in {self.whom} {self.damage}"
    noun = "damage"
    mark = "K"
    kills = ends_engine = True
    needs = "engine"

    @property
    def removes_file(self) -> bool:
        return self.step.damage == "missing"

    @property
    def may_be_unread(self) -> bool:
        """True if the file may be one that is kept and no longer needed."""
        return self.step.damage == "rot"

    @property
    def which(self) -> str:
        """The file that it meets, as a sentence says it."""
        return "largest recent" if self.may_be_unread else "newest"

    @property
    def damage(self) -> str:
        """The damage to the file, as a sentence says it."""
        return DAMAGE[self.step.damage]

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        if newest(injector.state_dir) is None:
            raise LookupError("the folder of the state holds no file with content")
        return partial(injector.corrupt, self.step.damage, crew.live)
