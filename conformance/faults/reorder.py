"""Some packets of a host are overtaken by others."""

from __future__ import annotations

from tickproof.conformance.fault_steps import ReorderStep
from tickproof.conformance.faults.host_fault import CableFault


class Reorder(CableFault):
    """A ``share`` of the packets arrives ``lag_s`` later, so that others overtake it."""

    step: ReorderStep

    words = "{step.share:.0%} of the packets {self.between} overtaken {self.length}"
    noun = "disorder of packets"
