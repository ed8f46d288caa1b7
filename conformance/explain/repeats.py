"""Outputs that came again or changed: what they repeat, under which numbers, what HAVE had said."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.explain import transactions
from tickproof.conformance.explain.facts import Facts, counted
from tickproof.conformance.explain.passage import Part
from tickproof.conformance.explain.recovery import Aftermath
from tickproof.conformance.explain.relations import places, relations
from tickproof.conformance.history import events
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.suites.evidence import CHANGED
from tickproof.conformance.verdicts import Outcome


def tell(facts: Facts, outcome: Outcome) -> Part:
    """Explain an output that came a second time, or with another content."""
    where = outcome.evidence.get("where") or {}
    if not isinstance(where, dict) or "index" not in where or int(where["index"]) >= len(facts.log):
        return Part()
    index = int(where["index"])
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    near = facts.before(t_ns)
    said = [_pair(facts, outcome, index, near)]
    m = facts.matching
    if m is not None and m.answers[index] >= 0:
        place = m.place(int(m.answers[index]))
        said.append(
            f"It answers offset {place[2]:,} of partition {place[1]}, {facts.journey(place, near)}."
        )
        first = int(where.get("first_index", index))
        if outcome.reason == "conflict" and m.answers[first] not in (-1, m.answers[index]):
            other = m.place(int(m.answers[first]))
            said.append(
                f"Output {first:,} answers offset {other[2]:,} of partition {other[1]}: one number "
                "was given to the outputs of two records."
            )
    point = [*shared(facts, near), *_have(facts, index, near)]
    pair = facts.log.rows(np.array([int(where.get("first_index", index)), index]))
    point += transactions.repeated(facts, list(facts.log.arrivals[pair]))
    if outcome.reason in CHANGED or not point:
        point = [*alike(outcome), *point]
    return Part(tuple(said), tuple(point), t_ns, "first repeated output")


def _pair(facts: Facts, outcome: Outcome, index: int, near: Aftermath | None) -> str:
    first = outcome.evidence["where"].get("first_index")
    times = facts.log.t_ns(np.array([index]))
    head = f"Output {index:,} ({_numbered(facts, index)}), {facts.since(int(times[0]), near)}, "
    if first is None:
        return f"{head}repeats what had come before."
    first = int(first)
    came = facts.since(int(facts.log.t_ns(np.array([first]))[0]), near)
    same = facts.log.payloads[first].tobytes() == facts.log.payloads[index].tobytes()
    how = "repeats" if same else "does not say the same as"
    return f"{head}{how} output {first:,} ({_numbered(facts, first)}), which came {came}."


def _numbered(facts: Facts, index: int) -> str:
    writer, seq = facts.log.writer_seq(np.array([index]))
    if int(seq[0]) == UNNUMBERED:
        return f"writer {int(writer[0])}, unnumbered"
    return f"writer {int(writer[0])}, seq {int(seq[0]):,}"


def alike(outcome: Outcome) -> list[str]:
    """Say how many findings of its kind there are, if it is not the only one."""
    counts = outcome.evidence.get("counts")
    number = counts.get(outcome.reason, 0) if isinstance(counts, dict) else 0
    return [f"The run shows this {number:,} times ({outcome.reason})."] if number > 1 else []


def shared(facts: Facts, near: Aftermath | None) -> list[str]:
    """Say what all outputs that came again have in common; nothing where none did."""
    m, log = facts.matching, facts.log
    if m is None or not len(surplus := m.surplus):
        return []
    known = np.flatnonzero(m.answers >= 0)
    rows, first = np.unique(m.answers[known], return_index=True)
    origin = known[first[np.searchsorted(rows, m.answers[surplus])]]
    said = [f"{counted(len(surplus), 'output')} came a second time"]
    before, after = log.writer_seq(origin), log.writer_seq(surplus)
    same = (before[0] == after[0]) & (before[1] == after[1]) & (after[1] != UNNUMBERED)
    if same.all():
        said.append("each under the writer and number of the first time")
    elif not same.any() and (after[1] != UNNUMBERED).all():
        said.append("each under another number than the first time")
    if len(surplus) == len(rows) and len(rows) == int(m.owed.sum()):
        said.append("that is each output once more")
    if near is None:
        return [", ".join(said) + "."]
    late = log.t_ns(surplus) >= near.fault.t_ns
    early = log.t_ns(origin) < near.since_ns
    found = relations(facts, places(facts, m.answers[surplus]), near)
    name = facts.name(near)
    if late.all() and early.all() and found["again"] == len(surplus):
        said.append(
            f"all of records that were fetched before {name} and again after it, and whose "
            "output had come before it: the restarted engine did not skip what the sink had"
        )
    elif late.all() and early.all():
        said.append(f"all after {name}, of records whose output had come before it")
    elif found["again"] == len(surplus):
        said.append(f"all of records that were fetched before {name} and again after it")
    elif late.all():
        said.append(f"all after {name}")
    return [", ".join(said) + "."]


def _have(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say what the engine had asked of the sink after the fault, and been told."""
    if near is None:
        return []
    row = facts.log.arrivals[facts.log.rows(np.array([index]))[0]]
    writer, seq = int(row["writer"]), int(row["first_seq"])
    asked = [
        e for e in facts.history.all(events.Have, writer=writer)
        if near.fault.t_ns < e.t_ns < int(row["t_ns"])
    ]  # fmt: skip
    if not asked:
        return [f"The engine had not asked HAVE for writer {writer} since {facts.name(near)}."]
    told = asked[-1].next_seq
    if seq != UNNUMBERED and seq < told:
        return [
            f"HAVE had told it that {told:,} is the next number of writer {writer}; "
            f"it sent a frame from {seq:,} on."
        ]
    return [f"HAVE had told it that {told:,} is the next number of writer {writer}."]
