"""Replies of source or sink, or packets of a host, come late."""

from __future__ import annotations

from tickproof.conformance.fault_steps import DelayHostStep, DelayStep
from tickproof.conformance.faults.host_fault import CableFault
from tickproof.conformance.faults.link_fault import LinkFault


class Delay(LinkFault):
    """Each reply leaves ``lag_s`` later."""

    step: DelayStep

    words = "replies of {self.whom} {self.lag_s:g} s late {self.length}"
    only_slows = slows = True

    @property
    def lag_s(self) -> float:  # type: ignore[override]
        return self.step.lag_s


class DelayHost(CableFault):
    """Each packet arrives ``lag_s`` later."""

    step: DelayHostStep

    words = "packets {self.between} {step.lag_s:g} s late {self.length}"
    noun = "delay of packets"
    only_slows = True
