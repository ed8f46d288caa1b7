"""What several tests expect in the same words."""

from __future__ import annotations

from conformance.history.folder import History
from conformance.suites.evidence import CHANGED, LOSS, ORDER_KINDS, TWICE, VALUES, whole
from conformance.suites.judging import judged


def twice(history: History) -> tuple[str, ...]:
    """Return the kinds that mean "delivered twice", where the engine claims that it is not."""
    return TWICE if history.claims["delivery"] == "exactly-once" else ()


def correct(history: History) -> None:
    """Every expected record is there, right, in order, and as often as the claim allows."""
    kinds = (*VALUES, *LOSS, *CHANGED, *ORDER_KINDS, *twice(history))
    judged(history, whole(history), kinds)
