"""Connections pass no byte either way, and are then reset."""

from __future__ import annotations

from tickproof.conformance.fault_steps import HalfOpenStep
from tickproof.conformance.faults.link_fault import LinkFault


class HalfOpen(LinkFault):
    """No byte passes either way for ``seconds``; then the connections are reset."""

    step: HalfOpenStep

    words = "connections to {self.whom} half open {self.length}, then reset"
    noun = "silent connection"
    needs = "connection"
    half_open = True
