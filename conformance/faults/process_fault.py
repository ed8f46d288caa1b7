"""Faults of an engine's processes, and of the folder that they keep their state in."""

from __future__ import annotations

from typing import ClassVar, Final

from tickproof.conformance.faults.fault import Fault
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector

_WHOM: Final = {
    "worker": "a worker",
    "workers": "all workers",
    "coordinator": "the coordinator",
    "engine": "the engine",
    "state": "the folder of the state",
    "broker": "the broker",
    "leader": "one broker of three",
}


class ProcessFault(Fault):
    """A fault of processes."""

    #: Whether it meets processes that topology names, rather than the engine.
    of_members: ClassVar[bool] = False

    @property
    def of_workers(self) -> bool:
        """True if it meets workers alone."""
        return self.step.target in ("worker", "workers")

    @property
    def whom(self) -> str:
        """Its target, as a sentence says it."""
        return _WHOM[self.step.target]

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        """Find whom it is meant for; raises LookupError where there is nobody."""
        raise NotImplementedError
