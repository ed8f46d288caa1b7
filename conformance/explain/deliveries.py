"""Outputs that never came, and outputs that came again or changed.

What their records share: when they were fetched, what a fault was to them, under which
numbers they came, what HAVE had said.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Final

import numpy as np

from tickproof.conformance.apps.app import App
from tickproof.conformance.apps.count import Count
from tickproof.conformance.apps.double import Double
from tickproof.conformance.checkers.matching import PLACES, Place, place_of
from tickproof.conformance.explain import transactions
from tickproof.conformance.explain.aftermath import (
    Aftermath,
    nearest,
    offsets_in,
    partitions_of,
    relations,
    whole_replies,
)
from tickproof.conformance.explain.facts import Facts, Part, listed, ranges, seconds
from tickproof.conformance.history import events
from tickproof.conformance.history.outputs import UNNUMBERED
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.suites.evidence import CHANGED, wrapping
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import Outcome
from tickproof.generators.layouts import COUNT_IN, NUMBER

#: A source that gives nothing for so long is silent.
_SILENCE_NS: Final = 1_000_000_000
#: From so many missing records on, one key is no chance.
_ALIKE: Final = 3

# -- outputs that never came -----------------------------------------------------------------
_LAST: Final = "They are the last records of their partitions."


def tell_losses(facts: Facts, outcome: Outcome) -> Part:
    """Explain outputs that never came. Their records tell at which step they were dropped."""
    if facts.matching is None or not len(missing := facts.matching.missing):
        return Part()
    where = facts.matching.places(missing)
    near = nearest(facts.history, facts.aftermaths, where)
    first = _first_missing(outcome, where)
    times = facts.fetches_of(first)["t_ns"]
    many = (
        f"{len(missing):,} records that must give an output"
        if len(missing) > 1
        else ("One record that must give an output")
    )
    said = [
        f"{many} gave none: {ranges(where)}.",
        f"The record at offset {first.offset:,} of partition {first.partition} was "
        f"{facts.journey(first, near)}.",
    ]
    mark = int(times[-1]) if len(times) else None
    frames, relation = _frames(facts, where), _relation(facts, where, near)
    numbers, silent = list[str](), list[str]()
    if near is not None and not any(place.skipped for place in near.places):
        numbers = numbering(facts, near, where)
        silent = [] if numbers else _silent(facts, near, where)
    settled, staged = transactions.tell(facts), transactions.unrecorded(facts)
    point = [*frames, *relation, *numbers, *silent, *settled]
    # What a transaction or a number lost says more than where the lost records lie.
    lost = settled[1:2] if staged >= len(missing) else []
    which = [*lost, *numbers, *frames, *relation, *silent][:1]
    if which == [_LAST]:
        which += relation  # that they are the last ones says little by itself
    head = " ".join([said[0].split(": ")[0] + ".", *which]) if which else ""
    return Part(tuple(said), tuple(point), mark, "first missing record fetched", head)


def _first_missing(outcome: Outcome, where: np.ndarray) -> Place:
    """Return the place of the counterexample, or of the first missing record."""
    first, found = place_of(where[0]), outcome.evidence.get("where")
    if isinstance(found, dict) and {"partition", "offset"} <= found.keys():
        named = Place(first.stream, int(found["partition"]), int(found["offset"]))
        if (where == np.array(named, PLACES)).any():
            return named
    return first


def _frames(facts: Facts, where: np.ndarray) -> list[str]:
    """Say whether the missing records are all, whole replies, or the ends of partitions."""
    assert facts.matching is not None
    if len(where) == int(facts.matching.owed.sum()):
        if len(facts.log):
            came = f"{counted(len(facts.log), 'output')} came, and"
            return [f"{came} none of them is one that was due."]
        if odd := sum(event.count for event in facts.history.all(events.OddOutput)):
            return [f"{counted(odd, 'output')} came, of another size or shape than the app's."]
        if not facts.history.fetched:
            return ["Nothing was fetched: no process of the engine ever read its input."]
        return ["No output came at all: these are all records that must give one."]
    if len(where) >= _ALIKE and (alike := _of_one_kind(facts.app, facts, where)):
        return [alike]
    if whole := _whole_partitions(facts, where):
        return [whole]
    replies = whole_replies(facts.history, where)
    ends = _ends(facts, where)
    last = ", the last of their partitions" if ends else ""
    if replies and len(where) > 1:
        whole = f"{replies:,} whole FETCH {'reply' if replies == 1 else 'replies'}"
        return [f"They fill {whole}{last}: nothing came out of these, and nothing else is missing."]
    return [_LAST] if ends and len(where) > 1 else []


@singledispatch
def _of_one_kind(app: App, facts: Facts, where: np.ndarray) -> str:
    """Say what the missing records have in common as records of the app, "" for nothing."""
    return ""


@_of_one_kind.register
def _of_doubles(app: Double, facts: Facts, where: np.ndarray) -> str:
    wrap = wrapping(_records(facts, where, facts.history.inputs(NUMBER)))
    return f"The double of {wrap:,} of them leaves 64 bits." * (10 * wrap > 9 * len(where))


@_of_one_kind.register
def _of_keys(app: Count, facts: Facts, where: np.ndarray) -> str:
    arrays = facts.history.inputs(COUNT_IN)
    keys = np.unique(_records(facts, where, arrays)["key"])
    whole = sum(int((array["key"] == keys[0]).sum()) for array in arrays)
    one = len(keys) == 1 and whole == len(where)
    return f"They are all of the records of key {int(keys[0])}." if one else ""


def _records(facts: Facts, where: np.ndarray, arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Return the records that lie ``where`` in the partitions of a stream."""
    numbers = [p.partition for p in facts.history.partitions]
    rows = [
        np.array(arrays[numbers.index(partition)][offsets_in(where, stream, partition)])
        for stream, partition in partitions_of(where)
    ]
    return np.concatenate(rows)


def _unread(facts: Facts, where: np.ndarray) -> list[str]:
    """Say that nobody fetched the missing records, and which silence of the source is before them.

    where: records that are missing without any fault.
    """
    silences = []
    for stream, partition in partitions_of(where):
        first = int(offsets_in(where, stream, partition).min())
        fetched = of_partition(facts.history.fetches, stream, partition)["end"]
        if fetched.max(initial=0) > first:
            return []
        rows = of_partition(facts.history.publishes, stream, partition)
        at = int((rows["end"] <= first).sum())
        silences.append(int(rows["t_ns"][at] - rows["t_ns"][at - 1]) if 0 < at < len(rows) else 0)
    if min(silences) < _SILENCE_NS:
        return ["None of them was ever fetched."]
    return [
        f"None of them was ever fetched: each partition was silent for {seconds(min(silences))} or "
        "more before the first of them, and nothing was read after that."
    ]


def _relation(facts: Facts, where: np.ndarray, near: Aftermath | None) -> list[str]:
    """Say what a fault was to the missing records; without one, whether they were read."""
    if near is None:
        return _unread(facts, where)
    found = relations(facts.history, where, near)
    name, number = facts.name(near), len(where)
    them, were = ("All of them", "were") if number > 1 else ("It", "was")
    if found["left"] + found["never"] == number:
        never = f", {found['never']:,} of them at no time" * bool(found["never"])
        text = f"{them} {were} not fetched after {name}{never}"
        if not _went_on(facts, near):
            return [f"{text}."]
        places = partitions_of(where)
        read = [p for p in near.places if p.base is not None and (p.stream, p.partition) in places]
        if found["never"] and not read:
            return [f"{text}: of {_named(facts, places)} nothing more was fetched."]
        return [f"{text}: the engine went on behind them, its offset was ahead of its output."]
    if found["given-up"] == number:
        return [
            f"{them} {were} released before {name} and not fetched after it: the engine gave "
            "input up before its output had come."
        ]
    if found["again"] == number:
        return [
            f"{them} {were} fetched before {name} and again after it: the restarted engine had "
            "the records again, and gave no output for them."
        ]
    if found["later"] == number:
        return [f"None of them was fetched before {name}."]
    words = {
        "given-up": "released before it and not fetched again",
        "left": "fetched before it and not again",
        "again": "fetched before and after it",
        "never": "never fetched",
        "later": "first fetched after it",
    }
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


def _silent(facts: Facts, near: Aftermath, where: np.ndarray) -> list[str]:
    """Say whether the writer of a partition sent nothing more, though it was told to go on.

    where: the missing records. Nothing is said if they lie in several partitions.
    """
    m, log, places = facts.matching, facts.log, partitions_of(where)
    if m is None or len(places) > 1:
        return []
    part = next(p for p in m.parts if (p.stream, p.partition) == places[0])
    index = np.flatnonzero(m.of_part(part, m.answers))
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


def numbering(facts: Facts, near: Aftermath | None, where: np.ndarray) -> list[str]:
    """Say whether a restarted engine gave its output other numbers than the one before it.

    Seen where each writer serves one partition in order: the number of an output less the
    number of outputs due before it is then one figure before the fault, and should stay so.
    where: the missing records. Nothing is said unless all of them lie in such partitions.
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
        mine = m.of_part(part, m.answers[index])
        shift = seq[mine] - (due[m.answers[index[mine]]] - due[part.start])
        early = shift[times[mine] < near.since_ns]
        late = shift[(times[mine] >= near.since_ns) & (times[mine] < near.until_ns)]
        if len(np.unique(writer[mine])) != 1 or not len(early) or not len(late):
            continue
        if len(np.unique(early)) == 1 and len(np.unique(late)) == 1 and early[0] != late[0]:
            shifted.append((part.stream, part.partition, int(late[0] - early[0])))
    if not shifted or not {*partitions_of(where)} <= {one[:2] for one in shifted}:
        return []
    _, partition, step = shifted[0]
    by = f"{abs(step):,} {'lower' if step < 0 else 'higher'}"
    more = f", and likewise in {counted(len(shifted) - 1, 'other partition')}" * (len(shifted) > 1)
    return [
        f"After {facts.name(near)} the outputs of partition {partition} have numbers {by} than "
        f"their place in the stream had before it{more}: the number of the next output does not "
        "belong to the offset."
    ]


def _whole_partitions(facts: Facts, where: np.ndarray) -> str:
    """Say whether the records are all that their partitions hold."""
    records = {(p.stream, p.partition): p.records for p in facts.history.partitions}
    places = partitions_of(where)
    if len(where) != sum(records[place] for place in places):
        return ""
    return f"They are all of the records of {_named(facts, places)}: no other record is missing."


def _named(facts: Facts, places: list[tuple[int, int]]) -> str:
    return listed([facts.partition(*place) for place in places])


def _ends(facts: Facts, where: np.ndarray) -> bool:
    """Say whether the records reach to the end of each of their partitions without a hole."""
    records = {(p.stream, p.partition): p.records for p in facts.history.partitions}
    for stream, partition in partitions_of(where):
        offset = offsets_in(where, stream, partition)
        end = records[stream, partition]
        if int(offset.max()) != end - 1 or len(offset) != end - int(offset.min()):
            return False
    return True


# -- outputs that came too early -------------------------------------------------------------


def tell_ahead(facts: Facts, outcome: Outcome) -> Part:
    """Explain an output that arrived before its record was fetched."""
    index = int(outcome.evidence["where"]["index"])
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    near, m = facts.before(t_ns), facts.matching
    said = [f"Output {index:,} ({_numbered(facts, index)}) arrived {facts.since(t_ns, near)}."]
    if m is not None and m.answers[index] >= 0:
        place = m.place(int(m.answers[index]))
        said.append(f"It answers {facts.told(place, near)}.")
    rows = facts.history.fetches[facts.history.fetches["t_ns"] <= t_ns]
    parts = facts.history.partitions
    reached = [of_partition(rows, p.stream, p.partition)["end"].max(initial=0) for p in parts]
    fetched = counted(sum(map(int, reached)), "record")
    seen = f"By then {fetched} had been fetched, and {counted(index + 1, 'output')} had arrived."
    head = " ".join([seen, *alike(outcome)])
    return Part(tuple(said), (seen, *alike(outcome)), t_ns, "first output ahead", head)


# -- outputs that came again, or changed -----------------------------------------------------


def tell_repeats(facts: Facts, outcome: Outcome) -> Part:
    """Explain an output that came a second time, or with another content."""
    where = outcome.evidence.get("where")
    if not isinstance(where, dict) or "index" not in where or int(where["index"]) >= len(facts.log):
        return Part()
    index = int(where["index"])
    t_ns = int(facts.log.t_ns(np.array([index]))[0])
    near = facts.before(t_ns)
    said = [_pair(facts, outcome, index, near)]
    m = facts.matching
    if m is not None and m.answers[index] >= 0:
        place = m.place(int(m.answers[index]))
        said.append(f"It answers {facts.told(place, near)}.")
        first = int(where.get("first_index", index))
        if outcome.reason == "conflict" and m.answers[first] not in (-1, m.answers[index]):
            other = m.place(int(m.answers[first]))
            said.append(
                f"Output {first:,} answers offset {other.offset:,} of partition {other.partition}: "
                "one number was given to the outputs of two records."
            )
    point = [*shared(facts, near), *_have(facts, index, near)]
    pair = facts.log.rows(np.array([int(where.get("first_index", index)), index]))
    point += transactions.repeated(facts, list(facts.log.arrivals[pair]))
    head = point[0] if point else said[0]
    if outcome.reason in CHANGED or not point:
        point = [*alike(outcome), *point]
        head = " ".join([said[-1] if len(said) > 2 else said[0], *alike(outcome)])
    return Part(tuple(said), tuple(point), t_ns, "first repeated output", head)


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
    if _over_kafka(facts):
        return f"partition {int(writer[0])} of the output"
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
    if changed := int((log.payloads[origin] != log.payloads[surplus]).sum()):
        said.append(f"{changed:,} of them with another value")
    before, after = log.writer_seq(origin), log.writer_seq(surplus)
    same = (before[0] == after[0]) & (before[1] == after[1]) & (after[1] != UNNUMBERED)
    if same.all():
        by = [log.arrivals["connection"][log.rows(index)] for index in (origin, surplus)]
        again = ", sent again by its own connection" if (by[0] == by[1]).all() else ""
        said.append(f"each under the writer and number of the first time{again}")
    elif (before[0] != after[0]).all():
        said.append("each under another writer than the first time")
    elif not same.any() and (after[1] != UNNUMBERED).all():
        said.append("each under another number than the first time")
    if len(surplus) == len(rows) and len(rows) == int(m.owed.sum()):
        said.append("that is each output once more")
    if near is None:
        return [", ".join(said) + "."]
    late = log.t_ns(surplus) >= near.fault.t_ns
    early = log.t_ns(origin) < near.since_ns
    found = relations(facts.history, m.places(m.answers[surplus]), near)
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


def _over_kafka(facts: Facts) -> bool:
    """Tell whether a writer is a partition of the output topic, and HAVE nothing that exists."""
    return facts.history.claims.over_kafka


def _have(facts: Facts, index: int, near: Aftermath | None) -> list[str]:
    """Say what the engine had asked of the sink after the fault, and been told."""
    if near is None or _over_kafka(facts):
        return []
    row = facts.log.arrivals[facts.log.rows(np.array([index]))[0]]
    writer, seq = int(row["writer"]), int(row["first_seq"])
    asked = [
        e
        for e in facts.history.all(events.Have, writer=writer)
        if near.fault.t_ns < e.t_ns < int(row["t_ns"])
    ]
    if not asked:
        return [f"The engine had not asked HAVE for writer {writer} since {facts.name(near)}."]
    told = asked[-1].next_seq
    if seq != UNNUMBERED and seq < told:
        return [
            f"HAVE had told it that {told:,} is the next number of writer {writer}; "
            f"it sent a frame from {seq:,} on."
        ]
    return [f"HAVE had told it that {told:,} is the next number of writer {writer}."]
