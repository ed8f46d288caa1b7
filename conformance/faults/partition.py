"""No packet passes between a host and its peers."""

from __future__ import annotations

from tickproof.conformance.fault_steps import PartitionStep
from tickproof.conformance.faults.host_fault import BetweenHosts


class Partition(BetweenHosts):
    """No packet passes for ``seconds``."""

    step: PartitionStep

    needs = "connection"
    words = "no packet {self.between} {self.length}"
