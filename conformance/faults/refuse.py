"""The sink refuses output."""

from __future__ import annotations

from tickproof.conformance.fault_steps import RefuseStep
from tickproof.conformance.faults.link_fault import LinkFault


class Refuse(LinkFault):
    """Output gets error 8 for ``seconds``."""

    step: RefuseStep

    words = "output refused by {self.whom} {self.length}"
    noun = "refusal"
    needs = "connection"
    refuses = True
