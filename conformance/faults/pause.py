"""SIGSTOP of processes with all below them, and SIGCONT when its time is over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from tickproof.conformance.fault_steps import PauseLeaderStep, PauseStep
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault
from tickproof.conformance.history.events import Event, FiredFault, Resumed
from tickproof.conformance.history.folder import History


class Pause(ProcessFault):
    """SIGSTOP of processes for ``seconds``."""

    step: PauseStep

    words = "SIGSTOP {self.length} of {self.whom}"
    mark = "P"
    of_members = True

    @property
    def takes_worker(self) -> bool:  # type: ignore[override]
        return self.step.target == "worker"

    @property
    def of_all_workers(self) -> bool:
        """True if every worker stands still, argv's own process too."""
        return self.step.target == "workers"

    @property
    def needs(self) -> str | None:  # type: ignore[override]
        return {"worker": "worker", "workers": "worker", "coordinator": "coordinator"}.get(
            self.step.target
        )

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        argv_too = self.of_all_workers
        victims = injector.victims(self.step.target, crew, argv_too=argv_too)
        return partial(injector.pause, victims, self.step.seconds, crew)

    def proofs(self, history: History) -> Sequence[Event]:
        return history.all(Resumed)

    def ends(self, history: History, fired: FiredFault) -> Iterable[int]:
        return (end for start, end in history.pauses() if start >= fired.t_ns)


class PauseLeader(ProcessFault):
    """SIGSTOP of one broker of three, in whose place others lead before it wakes."""

    step: PauseLeaderStep

    words = "SIGSTOP {self.length} of {self.whom}"
    mark = "P"
    needs = "broker"

    @property
    def holds(self) -> bool:
        return False  # input goes on, so that there is output for the one that stands still

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.pause_leader, crew, self.step.seconds)

    def ends(self, history: History, fired: FiredFault) -> Iterable[int]:
        return (fired.struck_ns,)
