"""Some packets between a host and its peers are lost."""

from __future__ import annotations

from tickproof.conformance.fault_steps import LossStep
from tickproof.conformance.faults.host_fault import BetweenHosts


class Loss(BetweenHosts):
    """A ``share`` of the packets, drawn at random, is lost."""

    step: LossStep

    words = "{step.share:.0%} of the packets {self.between} lost {self.length}"
    noun = "loss of packets"

    @property
    def dropped(self) -> float:  # type: ignore[override]
        return self.step.share
