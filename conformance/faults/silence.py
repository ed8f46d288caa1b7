"""The source answers as if nothing new existed."""

from __future__ import annotations

from tickproof.conformance.fault_steps import SilenceStep
from tickproof.conformance.faults.link_fault import LinkFault


class Silence(LinkFault):
    """FETCH answers for ``seconds`` that nothing new exists."""

    step: SilenceStep

    words = "no new records from {self.whom} {self.length}"
    only_slows = withholds = True
