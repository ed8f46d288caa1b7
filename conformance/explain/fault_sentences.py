"""What was done to the engine, and what it did then: the sentences about faults."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from tickproof.conformance.explain.aftermath import Aftermath
from tickproof.conformance.explain.facts import Facts, listed, seconds
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FaultMissed, FiredFault, LinkMissed
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.kafka_events import AbortedTransaction
from tickproof.conformance.text import counted, shown

#: Partitions that are told one by one.
_MOST: Final = 8


def faults(facts: Facts) -> list[str]:
    """Return a sentence or two for each fault, those that never fired among them."""
    said = []
    for after in facts.aftermaths:
        said += [struck(facts, after), followed(facts, after)]
    never: list[FaultMissed | LinkMissed] = facts.history.all(FaultMissed, LinkMissed)
    for event in never:
        said.append(missed(facts, event))
    return said


def missed(facts: Facts, event: FaultMissed | LinkMissed) -> str:
    """Say that a fault never came; the kit may have given it up when the engine was gone."""
    step, why = event.step, shown(event.why, 200)
    what = fault_of(step).deed if step else "a fault"
    if facts.history.ended.engine_failed and event.t_ns > facts.ended:
        return (
            f"A further fault, {what}, never came: the engine had ended at "
            f"{facts.at(facts.ended)} ({why})."
        )
    return f"At {facts.at(event.t_ns)}: {what} missed: {why}."


def struck(facts: Facts, after: Aftermath) -> str:
    """Say which fault came when, and what the engine held in that moment."""
    fault = after.fault
    pids = f" (pid {', '.join(map(str, fault.pids[:6]))}{_names(facts, fault)})"
    return (
        f"At {facts.at(fault.t_ns)}: {shown(fault.text, 200)}{_of_file(fault)}"
        f"{pids if fault.pids else ''}; "
        f"{fault.fetched:,} records were fetched by then{_armed(facts.history, fault)}, "
        f"{fault.released:,} released, and {fault.outputs:,} outputs had come.{_took(fault)}"
    )


def _of_file(fault: FiredFault) -> str:
    """Name the file of the state whose event was the moment, if one was."""
    return f", file {shown(fault.writing, 100)}" if fault.writing else ""


def _armed(history: History, fault: FiredFault) -> str:
    """Say how far the input was fetched, where that is not the share that the fault names."""
    share, total = f"{fault.step.fraction:.0%}", history.input_records
    if not total or share not in fault.text or fault.fetched / total - fault.step.fraction < 0.02:
        return ""
    met = f"{fault.fetched / total:.0%} of the input"
    return f" ({met}: from {share} on the kit waited for the moment)"


def _names(facts: Facts, fault: FiredFault) -> str:
    """Return the names of processes that were struck, where they are not the whole engine."""
    if fault_of(fault.step).of_engine:
        return ""
    earlier = [r for r in facts.history.all(events.Topology) if r.t_ns <= fault.t_ns]
    rows = earlier[-1].processes if earlier else ()
    names = {row.pid: shown(row.name, 40) for row in rows}
    known = [names[pid] for pid in fault.pids[:6] if pid in names]
    return f": {', '.join(known)}" if known else ""


def met(facts: Facts, after: Aftermath) -> str:
    """Say in short what a fault met, for readers who know what was done."""
    fault, name = after.fault, facts.name(after)
    return (
        f"{name[0].upper()}{name[1:]} at {facts.at(fault.t_ns)} met {fault.fetched:,} fetched "
        f"records, {fault.released:,} of them released, and {fault.outputs:,} outputs."
        f"{_took(fault)}"
    )


def _took(fault: FiredFault) -> str:
    """Say what was lost with a fault: bytes of the state, records of a broker; "" for nothing."""
    if fault.lost_files:
        files = listed([shown(one, 60) for one in fault.lost_files])
        return f" It took {counted(fault.lost_bytes, 'byte')} with it, of {files}."
    if not fault.alone:
        return ""
    return (
        f" {counted(fault.alone, 'record')} of output that the broker had acknowledged "
        f"{_were(fault.alone)} on no other (acks=1)."
    )


def followed(facts: Facts, after: Aftermath) -> str:
    """Say when the engine went on after a fault, and from where; and what it had left open."""
    return _went_on(facts, after) + _left_open(facts, after)


def _left_open(facts: Facts, after: Aftermath) -> str:
    """Name the transaction that stayed open for longest after a fault, if the broker noted one."""
    left = _left(facts, after)
    if not left:
        return ""
    last = max(left, key=lambda one: one.ended_ns)
    behind = counted(last.behind, "other")
    stayed = "A transaction stayed open until"
    if len(left) > 1:
        stayed = f"{counted(len(left), 'transaction')} stayed open, the last until"
    return (
        f" {stayed} it was aborted {seconds(last.ended_ns - after.fault.t_ns)} after the fault; "
        f"{behind} {_were(last.behind)} committed behind it."
    )


def hidden(facts: Facts, after: Aftermath) -> str:
    """Name a transaction of an earlier fault that was open as the engine read on; "" for none.

    What others had committed behind it could not be read by then.
    """
    for earlier in facts.aftermaths:
        if earlier.number >= after.number or after.fetched_ns is None:
            break
        for one in _left(facts, earlier):
            if one.behind and one.ended_ns > after.fetched_ns:
                longer = seconds(one.ended_ns - after.fetched_ns)
                return (
                    f" As it read on, a transaction that {facts.name(earlier)} had left open was "
                    f"open for another {longer}: until then readers of committed messages saw "
                    f"nothing that was committed behind it.{_read_no_further(facts, after)}"
                )
    return ""


def _read_no_further(facts: Facts, after: Aftermath) -> str:
    """Say of which of its own topics the engine was told an earlier end than there was."""
    reads = [
        one
        for event in facts.history.all(events.KafkaStateReads)
        for one in event.reads
        if after.fault.struck_ns < one.since_ns < after.until_ns
    ]
    said = ""
    for topic, of_topic in groupby(sorted(reads), key=lambda one: one.topic):
        where = []
        for number, found in groupby(of_topic, key=lambda one: one.partition):
            told, sent, written = (max(each) for each in list(zip(*found, strict=True))[-3:])
            if 0 <= told < written:
                came = f"it was sent those up to {sent:,}" if sent else "it was sent none"
                where.append(
                    f"offset {told:,} of partition {number} ({counted(written, 'record')} "
                    f"{_were(written)} written there, {came})"
                )
        if where:
            said += (
                f" Asked where the engine's own topic {shown(topic, 100)} ends, the broker had "
                f"answered: {listed(where, _MOST)}."
            )
    return said


def _left(facts: Facts, after: Aftermath) -> list[AbortedTransaction]:
    """Return the transactions that a fault left open, and that the broker aborted."""
    noted = facts.history.all(events.KafkaTransactions)
    return [one for event in noted for one in event.open_at(after.fault.struck_ns)]


def _went_on(facts: Facts, after: Aftermath) -> str:
    when = []
    if after.restarted_ns is not None:
        when.append(f"started again {seconds(after.restarted_ns - after.fault.t_ns)} later")
    if after.fetched_ns is not None and after.went_on:
        when.append(f"fetched from {seconds(after.fetched_ns - after.fault.t_ns)} after it on")
    head = f"The engine {' and '.join(when)}" if when else f"After {facts.name(after)}"
    refused = sum(
        after.fault.t_ns < row.t_ns < after.until_ns
        for row in facts.history.all(events.Refused, op="FETCH")
    )
    but = (
        f", and {counted(refused, 'FETCH', 'FETCHes')} {_were(refused)} refused" if refused else ""
    )
    if not after.went_on:
        return f"{head}{';' if when else ''} nothing was fetched after it{but}."
    skipped = sum(place.skipped for place in after.places)
    lost = f"; {counted(skipped, 'record')} in between were never fetched" if skipped else ""
    again = [place for place in after.places if place.again]
    if not again:
        return f"{head}{';' if when else ''} no record was fetched a second time{but}{lost}."
    where = [f"{p.base:,} of {facts.partition(p.stream, p.partition)}" for p in again]
    number = counted(after.again, "record")
    rest = _elsewhere(facts, after)
    return f"{head}: {number} a second time, from offset {listed(where, _MOST)} on{rest}{lost}."


def _elsewhere(facts: Facts, after: Aftermath) -> str:
    """Say where it went on in partitions of which it fetched nothing again."""
    exact = [p for p in after.places if p.base is not None and p.base == p.fetched]
    said = ""
    if exact:
        where = [f"{p.base:,} of {facts.partition(p.stream, p.partition)}" for p in exact]
        said = f"; it went on where it had stopped at {listed(where, _MOST)}"
    unread = [facts.partition(p.stream, p.partition) for p in after.places if p.base is None]
    return said + (f"; nothing of {listed(unread, _MOST)} was fetched" if unread else "")


def _were(number: int) -> str:
    return "was" if number == 1 else "were"
