"""The broker answers requests of one kind with an error code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tickproof.conformance.fault_steps import Error, ErrorStep, Request
from tickproof.conformance.faults.link_fault import LinkFault

_COORDINATOR: Final[tuple[Error, ...]] = ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
_MEMBER: Final[tuple[Error, ...]] = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID")
_PRODUCER: Final[tuple[Error, ...]] = ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
#: The errors that Apache Kafka may answer a request with, of those that are injected.
ERRORS_OF: Final[Mapping[Request, tuple[Error, ...]]] = {
    "Produce": ("NOT_LEADER_OR_FOLLOWER", "REQUEST_TIMED_OUT", "INVALID_PRODUCER_EPOCH"),
    "OffsetCommit": (*_COORDINATOR, *_MEMBER, "REBALANCE_IN_PROGRESS"),
    "TxnOffsetCommit": (*_COORDINATOR, *_MEMBER, *_PRODUCER),
    "AddOffsetsToTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS", *_PRODUCER),
    "EndTxn": (*_COORDINATOR, "CONCURRENT_TRANSACTIONS", *_PRODUCER),
    "Heartbeat": (*_COORDINATOR, *_MEMBER, "REBALANCE_IN_PROGRESS"),
}


class ErrorAnswer(LinkFault):
    """Requests of one kind get an error for ``seconds``; the broker does not see them.

    It takes those that get REQUEST_TIMED_OUT, which says that it may have.
    """

    step: ErrorStep

    words = "{step.error} as the answer to {step.request} {self.length}"
    noun = "error code"
    needs = "connection"
    errs = True

    def error_for(self, request: str) -> Error:
        return self.step.error if request == self.step.request else ""

    def misfit(self) -> tuple[str, str] | None:
        if self.step.request not in ERRORS_OF:
            return f"one of {', '.join(ERRORS_OF)} for error", "request"
        if self.step.error not in (known := ERRORS_OF[self.step.request]):
            return f"one of {', '.join(known)} for {self.step.request}", "error"
        return super().misfit()
