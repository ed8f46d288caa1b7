"""Some packets of a host arrive damaged."""

from __future__ import annotations

from tickproof.conformance.fault_steps import GarbleStep
from tickproof.conformance.faults.host_fault import CableFault


class Garble(CableFault):
    """A ``share`` of the packets arrives with one bit flipped."""

    step: GarbleStep

    words = "{step.share:.0%} of the packets {self.between} damaged {self.length}"
    noun = "damage to packets"
