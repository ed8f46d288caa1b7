"""SIGKILL of processes, or the death of a whole host."""

from __future__ import annotations

from functools import partial
from typing import Final

from tickproof.conformance.engines.network import Network
from tickproof.conformance.fault_steps import (
    FIRST,
    KillBrokerStep,
    KillEngineStep,
    KillHostStep,
    KillLeaderStep,
    KillStep,
)
from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.injector import Crew, Injection, ProcessFaultInjector
from tickproof.conformance.faults.process_fault import ProcessFault


class Kill(ProcessFault):
    """SIGKILL of some processes, with all below them that topology does not name."""

    step: KillStep

    words = "SIGKILL of {self.whom}"
    mark = "K"
    kills = of_members = True

    @property
    def takes_worker(self) -> bool:  # type: ignore[override]
        return self.step.target == "worker"

    @property
    def needs(self) -> str:  # type: ignore[override]
        return "all-workers" if self.step.target == "workers" else self.step.target

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.kill, injector.victims(self.step.target, crew), crew)


class KillEngine(ProcessFault):
    """The end of every process, by SIGKILL, or by SIGTERM and ``grace_s`` later by SIGKILL.

    The engine stays down for ``down_s``.
    """

    step: KillEngineStep

    words = "{self.end}{self.down}"
    mark = "K"
    kills = ends_engine = True
    needs = "engine"

    @property
    def holds(self) -> bool:
        return not self.step.grace_s  # what it does on its way out has to reach the kit

    @property
    def noun(self) -> str:  # type: ignore[override]
        return "SIGTERM" if self.step.grace_s else ""

    @property
    def end(self) -> str:
        """How it ends, as a sentence says it."""
        if not self.step.grace_s:
            return f"SIGKILL of {self.whom}"
        rest = f"SIGKILL of what is left {self.step.grace_s:g} s later"
        return f"SIGTERM of {self.whom}, and {rest}"

    @property
    def down(self) -> str:
        """Its downtime, as the sentence goes on."""
        return f", which stays down for {self.step.down_s:g} s" if self.step.down_s else ""

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.kill_engine, crew.live, self.step.down_s, self.step.grace_s)


class KillBroker(ProcessFault):
    """SIGKILL of the broker, which is started again on its data."""

    step: KillBrokerStep

    words = "SIGKILL of {self.whom}, which is started again"
    mark = "K"
    needs = "broker"

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return injector.kill_broker


class KillLeader(ProcessFault):
    """The end of one broker of three, in whose place others lead until it is back."""

    step: KillLeaderStep

    words = "{self.signal} of {self.whom}{self.alone}"
    mark = "K"
    needs = "broker"

    @property
    def holds(self) -> bool:
        # Output has to reach the one that is alone, and answers have to come from the one that
        # hands over.
        return not (self.step.alone_s or self.step.grace_s)

    @property
    def signal(self) -> str:
        """The signal that it begins with."""
        return self.noun or "SIGKILL"

    @property
    def noun(self) -> str:  # type: ignore[override]
        return "SIGTERM" if self.step.grace_s else ""

    @property
    def alone(self) -> str:
        """What comes before or after it, as the sentence goes on."""
        seconds = self.step.alone_s
        before = f" that was kept from its followers for {seconds:g} s" if seconds else ""
        return before + (", which hands over what it leads" if self.step.grace_s else "")

    def aim(self, injector: ProcessFaultInjector, crew: Crew) -> Injection:
        return partial(injector.kill_leader, crew, self.step.alone_s, self.step.grace_s)


class KillHost(HostFault):
    """A host is cut off, and all on it SIGKILLed; after ``down_s`` it is back, with nothing."""

    step: KillHostStep

    words = "death of {self.whom}, which stays down for {step.down_s:g} s"
    noun = "death of a host"
    mark = "K"
    kills = takes_worker = True
    needs = "worker"

    def misfit(self) -> tuple[str, str] | None:
        if not self.step.down_s:
            return "a number above 0 for kill of a host", "down_s"
        if self.step.host == FIRST:
            return "another host than the first, which argv runs on", "host"
        return super().misfit()

    @property
    def in_force_s(self) -> float:
        return self.step.down_s

    def check(self, network: Network, host: str) -> None:
        if host == network.names[0]:
            raise LookupError(f"{host} has argv's process, and the kit's hold on it")


#: Any death by SIGKILL that the engine has to see.
KILLS: Final = (Kill, KillEngine, KillHost)
