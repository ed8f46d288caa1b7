"""Connections are reset in the middle of a reply."""

from __future__ import annotations

from tickproof.conformance.fault_steps import CutStep
from tickproof.conformance.faults.link_fault import LinkFault


class Cut(LinkFault):
    """Connections are reset in the middle of a reply."""

    step: CutStep

    words = "connections to {self.whom} reset in the middle of a reply"
    needs = "connection"
    breaks_reply = True
