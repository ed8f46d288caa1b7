"""What a missing output belongs to: when its record was fetched, and what it shares with others."""

from __future__ import annotations

import numpy as np

from tickproof.conformance.explain import transactions
from tickproof.conformance.explain.facts import Facts, counted, ranges
from tickproof.conformance.explain.passage import Part
from tickproof.conformance.explain.recovery import Aftermath
from tickproof.conformance.explain.relations import nearest, places, relations, whole_replies
from tickproof.conformance.history import events
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.verdicts import Outcome


def tell(facts: Facts, outcome: Outcome) -> Part:
    """Explain outputs that never came. Their records tell at which step they were dropped."""
    if facts.matching is None or not len(missing := facts.matching.missing):
        return Part()
    where = places(facts, missing)
    near = nearest(facts, where)
    first = _first(facts, outcome, where)
    times = facts.fetches_of(*first)["t_ns"]
    many = f"{len(missing):,} records that must give an output" if len(missing) > 1 else (
        "One record that must give an output"
    )  # fmt: skip
    said = [
        f"{many} gave none: {ranges(where)}.",
        f"The record at offset {first[2]:,} of partition {first[1]} was "
        f"{facts.journey(first, near)}.",
    ]
    mark = int(times[-1]) if len(times) else None
    point = [*_frames(facts, where), *_relation(facts, where, near)]
    if near is not None and not any(place.skipped for place in near.places):
        point += numbering(facts, near) or _silent(facts, near, first)
    point += transactions.tell(facts)
    return Part(tuple(said), tuple(point), mark, "first missing record fetched")


def _first(facts: Facts, outcome: Outcome, where: np.ndarray) -> tuple[int, int, int]:
    """Return the place of the counterexample, or of the first missing record."""
    found = outcome.evidence.get("where")
    if isinstance(found, dict) and {"partition", "offset"} <= found.keys():
        named = (int(where[0, 0]), int(found["partition"]), int(found["offset"]))
        if (where == named).all(axis=1).any():
            return named
    stream, partition, offset = where[0].tolist()
    return stream, partition, offset


def _frames(facts: Facts, where: np.ndarray) -> list[str]:
    """Say whether the missing records are all, whole replies, or the ends of partitions."""
    assert facts.matching is not None
    if len(where) == int(facts.matching.owed.sum()):
        return ["No output came at all: these are all records that must give one."]
    replies = whole_replies(facts, where)
    ends = _ends(facts, where)
    last = ", the last of their partitions" if ends else ""
    if replies and len(where) > 1:
        whole = f"{replies:,} whole FETCH {'reply' if replies == 1 else 'replies'}"
        return [f"They fill {whole}{last}: nothing came out of these, and nothing else is missing."]
    return ["They are the last records of their partitions."] if ends and len(where) > 1 else []


def _relation(facts: Facts, where: np.ndarray, near: Aftermath | None) -> list[str]:
    """Say what a fault was to the missing records."""
    if near is None:
        return []
    found = relations(facts, where, near)
    name, number = facts.name(near), len(where)
    them, were = ("All of them", "were") if number > 1 else ("It", "was")
    if found["left"] + found["never"] == number:
        never = f", {found['never']:,} of them at no time" * bool(found["never"])
        text = f"{them} {were} not fetched after {name}{never}"
        if not _went_on(facts, near):
            return [f"{text}."]
        return [f"{text}: the engine went on behind them, its offset was ahead of its output."]
    if found["given-up"] == number:
        return [
            f"{them} {were} released before {name} and not fetched after it: the engine gave "
            "input up before its output had come."
        ]
    if found["again"] == number:
        return [
            f"{them} {were} fetched before {name} and again after it: the restarted engine had "
            "the records in its hands, and nothing came of them."
        ]
    if found["later"] == number:
        return [f"None of them was fetched before {name}."]
    words = {"given-up": "released before it and not fetched again",
             "left": "fetched before it and not again", "again": "fetched before and after it",
             "never": "never fetched", "later": "first fetched after it"}  # fmt: skip
    parts = [f"{some:,} were {words[kind]}" for kind, some in found.items() if some]
    behind = found["left"] + found["never"]
    went = ""
    if 2 * behind > number and _went_on(facts, near):
        went = f"; the engine went on behind {behind:,} of them"
    return [f"By {name}: {', '.join(parts)}{went}."]


def _went_on(facts: Facts, near: Aftermath) -> bool:
    """Whether the engine did go on after a fault: it fetched, or answered drain."""
    drained = [row.t_ns for row in facts.history.all(events.Drained)]
    return near.went_on or any(near.since_ns < t_ns < near.until_ns for t_ns in drained)


def _silent(facts: Facts, near: Aftermath, first: tuple[int, int, int]) -> list[str]:
    """Say whether the writer of a partition sent nothing more, though it was told to go on."""
    m, log = facts.matching, facts.log
    if m is None:
        return []
    part = next(p for p in m.parts if (p.stream, p.partition) == first[:2])
    index = np.flatnonzero((m.answers >= part.start) & (m.answers < part.start + part.records))
    writers = np.unique(log.writer_seq(index)[0]).tolist()
    told = [row for row in facts.history.all(events.Have) if row.t_ns > near.fault.t_ns]
    told = [row for row in told if row.writer in writers]
    if len(writers) != 1 or not told:
        return []
    rows = log.arrivals[log.arrivals["writer"] == writers[0]]
    if (rows["t_ns"] > told[-1].t_ns).any():
        return []
    return [
        f"After {facts.name(near)} HAVE told it that {told[-1].next_seq:,} is the next number "
        f"of writer {writers[0]}, which had served this partition; no output of that writer "
        "followed."
    ]


def numbering(facts: Facts, near: Aftermath | None) -> list[str]:
    """Say whether a restarted engine gave its output other numbers than the one before it.

    Seen where each writer serves one partition in order: the number of an output less the
    number of outputs due before it is then one figure before the fault, and should stay so.
    """
    m, log = facts.matching, facts.log
    if m is None or near is None or near.restarted_ns is None:
        return []
    due = np.cumsum(m.owed) - m.owed  # outputs due before each row
    index = np.flatnonzero((m.answers >= 0) & ~m.wrong)
    writer, seq = log.writer_seq(index)
    numbered = seq != UNNUMBERED
    index, writer, seq = index[numbered], writer[numbered], seq[numbered].astype(np.int64)
    times = log.t_ns(index)
    shifted = []
    for part in m.parts:
        mine = (m.answers[index] >= part.start) & (m.answers[index] < part.start + part.records)
        shift = seq[mine] - (due[m.answers[index[mine]]] - due[part.start])
        early = shift[times[mine] < near.since_ns]
        late = shift[(times[mine] >= near.since_ns) & (times[mine] < near.until_ns)]
        if len(np.unique(writer[mine])) != 1 or not len(early) or not len(late):
            continue
        if len(np.unique(early)) == 1 and len(np.unique(late)) == 1 and early[0] != late[0]:
            shifted.append((part.partition, int(late[0] - early[0])))
    if not shifted:
        return []
    partition, step = shifted[0]
    by = f"{abs(step):,} {'lower' if step < 0 else 'higher'}"
    more = f", and likewise in {counted(len(shifted) - 1, 'other partition')}" * (len(shifted) > 1)
    return [
        f"After {facts.name(near)} the outputs of partition {partition} have numbers {by} than "
        f"their place in the stream had before it{more}: the number of the next output does not "
        "belong to the offset."
    ]


def _ends(facts: Facts, where: np.ndarray) -> bool:
    """Say whether the records reach to the end of each of their partitions without a hole."""
    records = {(p["stream"], p["partition"]): p["records"] for p in facts.history.partitions}
    for stream, partition in np.unique(where[:, :2], axis=0).tolist():
        offset = where[(where[:, 0] == stream) & (where[:, 1] == partition), 2]
        end = records[stream, partition]
        if int(offset.max()) != end - 1 or len(offset) != end - int(offset.min()):
            return False
    return True
