"""Outputs that say something wrong: the first of them, what was due, what all of them share."""

from __future__ import annotations

from typing import Final

import numpy as np

from tickproof.conformance.explain import count_values, market_values
from tickproof.conformance.explain.facts import Facts, counted
from tickproof.conformance.explain.passage import Part
from tickproof.conformance.explain.recovery import Aftermath
from tickproof.conformance.explain.repeats import alike, shared
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.suites.evidence import ORDER_KINDS
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome

#: Kinds of findings about the order of outputs: their values may be right.
_ORDER: Final = (*ORDER_KINDS, "gap")


def tell(facts: Facts, outcome: Outcome) -> Part:
    """Explain an output whose value or place is wrong, by the earliest one there is."""
    m = facts.matching
    where = outcome.evidence.get("where")
    index = int(where.get("index", -1)) if isinstance(where, dict) else -1
    ordered = outcome.reason in _ORDER
    wrong = np.flatnonzero(m.wrong) if m is not None and not ordered else np.empty(0, np.int64)
    if len(wrong):
        index = int(wrong[0])
    if not 0 <= index < len(facts.log):
        return Part()
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    near = facts.before(t_ns)
    said = [_first(facts, outcome, index, near)]
    said += _answers(facts, index, near)
    point: list[str] = []
    if not len(wrong):
        point += alike(outcome)
    if ordered:
        point += shared(facts, near)
    elif facts.history.app == "count":
        point += count_values.tell(facts, index, near)
    elif facts.history.app == "market-spread":
        point += market_values.tell(facts, index, near)
    if len(wrong):
        point.append(_all(facts, wrong, near))
    mark = "first output out of order" if ordered else "first wrong output"
    return Part(tuple(said), tuple(point), t_ns, mark)


def _answers(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say which record a wrong output answers, and what became of that."""
    m, count = facts.matching, facts.history.app == "count"
    if m is None:
        return []
    place = count_values.stands(facts, index, near) if count else None
    by = "By its place among the outputs it answers"
    if place is None:
        if m.answers[index] < 0 or (count and count_values.shifted(facts, near)):
            return []  # where totals are shifted, n names the wrong record
        place = m.place(int(m.answers[index]))
        by = "By its key and n it stands for" if count else "It answers"
    return [f"{by} offset {place[2]:,} of partition {place[1]}, {facts.journey(place, near)}."]


def _first(facts: Facts, outcome: Outcome, index: int, near: Aftermath | None) -> str:
    """Say when the first wrong output came, what it says and what was due."""
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    writer, seq = facts.log.writer_seq(np.array([index]))
    number = "unnumbered" if int(seq[0]) == UNNUMBERED else f"seq {int(seq[0]):,}"
    what = "output out of order" if outcome.reason in _ORDER else "wrong output"
    head = f"The first {what} came {facts.since(t_ns, near)} (writer {int(writer[0])}, {number}): "
    m, app = facts.matching, facts.history.app
    if m is None or not m.wrong[index]:
        return f"{head}{shown(outcome.actual, 300)}; due was {shown(outcome.expected, 160)}."
    if app == "count":
        return head + count_values.said(facts, index)
    if app == "market-spread":
        return head + market_values.said(facts, index)
    raw = facts.log.payloads[index].tobytes()[:16].hex()
    return f"{head}{raw}, which is no payload that was due."


def _all(facts: Facts, wrong: np.ndarray, near: Aftermath | None) -> str:
    """Count the wrong outputs, and say on which side of the fault they lie."""
    are = "is" if len(wrong) == 1 else "are"
    head = f"{counted(len(wrong), 'output')} of {len(facts.log):,} {are} wrong"
    if near is None or len(wrong) == 1:
        return f"{head}."
    return f"{head}, none of them before {facts.name(near)}."
