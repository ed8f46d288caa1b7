"""Replies leave byte by byte."""

from __future__ import annotations

from typing import Final

from tickproof.conformance.fault_steps import DripStep
from tickproof.conformance.faults.link_fault import LinkFault

#: Bytes at the beginning and at the end of a reply that drip; the middle leaves at once.
_DRIPPING: Final = 128
_DRIP_S: Final = 0.0002


class Drip(LinkFault):
    """The first and the last bytes of each reply leave one by one."""

    step: DripStep

    words = "replies of {self.whom} byte by byte {self.length}"
    noun = "drip"
    only_slows = slows = True

    def piece(self, at: int, size: int) -> tuple[int, float]:
        middle = _DRIPPING <= at < size - _DRIPPING
        return (size - _DRIPPING - at if middle else 1), _DRIP_S
