"""Some packets of a host arrive twice."""

from __future__ import annotations

from tickproof.conformance.fault_steps import DuplicateStep
from tickproof.conformance.faults.host_fault import CableFault


class Duplicate(CableFault):
    """A ``share`` of the packets arrives twice."""

    step: DuplicateStep

    words = "{step.share:.0%} of the packets {self.between} sent twice {self.length}"
    noun = "doubling of packets"
