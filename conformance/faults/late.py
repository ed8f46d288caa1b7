"""Connections are reset, and what the engine had sent is handled once it is back."""

from __future__ import annotations

from tickproof.conformance.fault_steps import LateStep
from tickproof.conformance.faults.link_fault import LinkFault


class Late(LinkFault):
    """Connections are reset; what the engine had sent is handled once it has connected again."""

    step: LateStep

    words = "connections to {self.whom} reset, what was under way handled late"
    noun = "late frame"
    needs = "connection"
    keeps_frame = True
