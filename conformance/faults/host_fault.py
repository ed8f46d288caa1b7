"""Faults of one host of several, and of the network between it and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tickproof.conformance.engines.network import LOG, Network
from tickproof.conformance.fault_steps import BetweenStep, HostStep, Way
from tickproof.conformance.faults import network_rules as rules
from tickproof.conformance.faults.fault import Fault
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History


class HostFault(Fault):
    """A fault of a ``host`` ("": that of a worker that works). This one drops all packets."""

    step: HostStep

    meets_records = False
    #: The share of packets that are dropped.
    dropped = 1.0
    #: Of those with the same word here, only the newest lasts: a host has one cable, one rate.
    alone = ""

    def misfit(self) -> tuple[str, str] | None:
        host = self.step.host
        if host == LOG or (host and host == self.peer):
            return "the name of another host of the engine", "host"
        return super().misfit()

    def check(self, network: Network, host: str) -> None:
        """Raise LookupError where it cannot be done to this host."""

    def begin(self, network: Network, host: str, table: str) -> None:
        """Put it in force; ``table`` is the name that its rules may have."""
        network.run(
            "", ["nft", "-f", "-"], rules.drop(table, host, self.peer, self.way, self.dropped)
        )

    def end(self, network: Network, host: str, table: str) -> int:
        """Put an end to it; return how many packets it met."""
        count = rules.dropped(network.run("", ["nft", "-j", "list", "table", "bridge", table]))
        network.run("", ["nft", "delete", "table", "bridge", table])
        return count

    @property
    def whom(self) -> str:
        """The host, as a sentence says it."""
        return self.step.host or "the host of a worker"

    @property
    def peer(self) -> str:
        """The host at the other end of the packets that it meets, "" for everybody."""
        return ""

    @property
    def way(self) -> Way:
        """The way of the packets that it meets."""
        return "both"

    @property
    def in_force_s(self) -> float:
        """Seconds until it is put an end to."""
        return self.step.lasts_s

    def found(self, facts: Mapping[str, Any]) -> HostFault:
        return replace(self, step=replace(self.step, host=facts["host"]))

    @property
    def lane(self) -> tuple[str, str]:
        return self.do, "host"

    def proofs(self, history: History) -> Sequence[events.Event]:
        return [row for row in history.all(events.Network, do=self.do) if row.packets]

    def ends(self, history: History, fired: FiredFault) -> Iterable[int]:
        if not self.lasts:
            return ()
        seen = history.all(events.Network, do=self.do, host=fired.host)
        return (one.t_ns for one in seen if one.t_ns > fired.t_ns)


class BetweenHosts(HostFault):
    """A fault of the packets between a host and its ``peer``, one ``way`` or both."""

    step: BetweenStep

    @property
    def peer(self) -> str:
        return self.step.peer

    @property
    def way(self) -> Way:
        return self.step.way

    @property
    def between(self) -> str:
        """The packets that it meets, as a sentence says it."""
        peer = self.peer or "all others"
        return {
            "both": f"between {self.whom} and {peer}",
            "out": f"from {self.whom} to {peer}",
            "in": f"from {peer} to {self.whom}",
        }[self.way]


class CableFault(BetweenHosts):
    """A bad cable of a host."""

    alone = "cable"

    def begin(self, network: Network, host: str, table: str) -> None:
        network.spoil(host, rules.cable(self.step))

    def end(self, network: Network, host: str, table: str) -> int:
        return network.mend(host)
