"""Some packets of a host arrive damaged."""

from __future__ import annotations

from tickproof.conformance.faults.host_fault import CableFault


class Garble(CableFault):
    """A ``share`` of the packets arrives with one bit flipped."""

    do = "garble"
    required = frozenset(("seconds", "share"))
    words = "{step.share:.0%} of the packets {self.between} damaged {self.length}"
    noun = "damage to packets"
