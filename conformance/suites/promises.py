"""What several tests expect in the same words."""

from __future__ import annotations

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.evidence import (
    CHANGED,
    LOSS,
    ORDER_KINDS,
    TWICE,
    VALUES,
    outputs,
    whole,
)
from tickproof.conformance.suites.judge import Fail, require_completed, require_fired, require_no
from tickproof.conformance.verdicts import Reason


def forbidden_repeats(history: History) -> tuple[str, ...]:
    """Return the kinds that mean "delivered twice", where the engine claims that it is not."""
    return TWICE if history.claims["delivery"] == "exactly-once" else ()


def require_correct(history: History) -> None:
    """Every expected record is there, right, in order, and as often as the claim allows."""
    kinds = (*VALUES, *LOSS, *CHANGED, *ORDER_KINDS, *forbidden_repeats(history))
    require_no(history, whole(history), kinds)


def require_acknowledged(history: History) -> None:
    """Nothing was open when drain was answered, and nothing came after it."""
    arrivals = outputs(history).arrivals
    for event in history.all(events.Drained):
        if event.open_acknowledgements:
            raise Fail(
                Reason.EARLY_DRAIN, "every output acknowledged when drain is answered",
                f"{event.open_acknowledgements} frames without an answer",
            )  # fmt: skip
        restarts = [e.t_ns for e in history.all(events.Started) if e.t_ns > event.t_ns]
        late = (arrivals["t_ns"] > event.t_ns) & (
            arrivals["t_ns"] < min(restarts, default=2**63 - 1)
        )
        if late.any():
            raise Fail(
                Reason.EARLY_DRAIN, "no output after drain is answered",
                f"{int(arrivals['count'][late].sum())} records came later",
            )  # fmt: skip


def earns_figures(history: History) -> None:
    """Everything went right in a run whose speed or latency is measured.

    The values are judged where the claims make them certain: without a death always,
    after one for an engine with exactly-once state.
    """
    require_completed(history)
    require_acknowledged(history)
    faults = history.run["scenario"]["faults"]
    if not faults or history.claims["state"] == "exactly-once":
        require_correct(history)
    if faults:
        require_fired(history, len(faults), in_flight=False)
