"""Kinds of findings that the claims of state and delivery rule out after a fault.

A kind is ruled out if the claim of state rules it out, or that of delivery, or if no claim
permits it. While nothing has disturbed the engine, all kinds are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tickproof.conformance import apps
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.evidence import (
    CHANGED,
    LOSS,
    ORDER_KINDS,
    STATE,
    TWICE,
    VALUES,
    disturbed_ns,
)

#: Claims by which each record has an effect, so that an output is known by what it counts.
LASTING_STATES: Final = ("at-least-once", "exactly-once")
#: No claim permits these.
_NEVER_PERMITTED: Final = frozenset(
    ("malformed", "unknown-key", "unknown-quote", "from-the-future", "conflict", "gap")
)
#: Claim of state -> what it rules out. With state at least once, STATE is judged as evidence
#: says: records that were fetched again may count again. A quote may then be newer than the one
#: that is due, and go back to it.
_BY_STATE: Final[Mapping[str, frozenset[str]]] = {
    "exactly-once": frozenset((*VALUES, *LOSS, *CHANGED, *ORDER_KINDS)),
    "at-least-once": frozenset((*STATE, *LOSS, "stale-quote")),
    "at-most-once": frozenset(),
    "none": frozenset(),
}
#: Claim of delivery -> what it rules out.
_BY_DELIVERY: Final[Mapping[str, frozenset[str]]] = {
    "exactly-once": frozenset((*TWICE, *CHANGED, "step-back")),
    "at-least-once": frozenset(),
}
#: They tell an output by what it counts: where state may be lost, that says nothing.
_BY_VALUE: Final = frozenset(("duplicate", "retracted", "step-back"))


def ruled_out(history: History, kinds: Iterable[str]) -> tuple[str, ...]:
    """Return those of the given kinds that no claim of the engine permits in a run."""
    if disturbed_ns(history) is None:
        return tuple(kinds)
    state, delivery = history.claims.state, history.claims.delivery
    by_state, by_delivery = _BY_STATE[state], _BY_DELIVERY[delivery]
    if apps.of(history).stateless:
        by_state |= {"invented"}
    elif state not in LASTING_STATES:
        by_delivery -= _BY_VALUE
    elif state == "at-least-once" and history.params.get("emit") == "rejects":
        # Fetched again, an order may be accepted by a newer quote, and stay silent.
        by_state -= {"lost"}
    found = by_state | by_delivery | _NEVER_PERMITTED
    return tuple(kind for kind in kinds if kind in found)


def forbidden_repeats(history: History) -> tuple[str, ...]:
    """Return the kinds that mean "delivered twice", if the engine claims that it is not."""
    ruled = _BY_DELIVERY[history.claims.delivery]
    return tuple(kind for kind in TWICE if kind in ruled)
