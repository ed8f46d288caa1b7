"""Replies of source or sink, or the network of a host, are slow."""

from __future__ import annotations

from typing import Final

from tickproof.conformance.engines.network import Network
from tickproof.conformance.fault_steps import ThrottleHostStep, ThrottleStep
from tickproof.conformance.faults import network_rules as rules
from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.link_fault import LinkFault

#: Seconds of a throttled reply that leave in one piece.
_PIECE_S: Final = 0.01
#: The device of a host; that of the switch has the host's name.
_DEVICE: Final = "net0"


class Throttle(LinkFault):
    """Replies leave at ``rate`` bytes a second."""

    step: ThrottleStep

    words = "replies of {self.whom} at {step.rate:g} bytes a second {self.length}"
    noun = "slow connection"
    only_slows = slows = True

    def piece(self, at: int, size: int) -> tuple[int, float]:
        sent = max(1, int(self.step.rate * _PIECE_S))
        return sent, sent / max(self.step.rate, 1.0)


class ThrottleHost(HostFault):
    """Packets from and to a host pass at ``rate`` bytes a second."""

    step: ThrottleHostStep

    words = "{self.whom} at {step.rate:g} bytes a second {self.length}"
    noun = "slow network"
    only_slows = True
    alone = "rate"

    def begin(self, network: Network, host: str, table: str) -> None:
        for where, device in (("", host), (host, _DEVICE)):
            network.run(where, rules.slow(device, self.step.rate))

    def end(self, network: Network, host: str, table: str) -> int:
        devices = (("", host), (host, _DEVICE))
        show = ["tc", "-s", "-j", "qdisc", "show", "dev"]
        count = rules.held_up(network.run(where, [*show, one]) for where, one in devices)
        for where, one in devices:
            network.run(where, ["tc", "qdisc", "del", "dev", one, "root"])
        return count
