"""What was done to the engine, and what it did then: the sentences about faults."""

from __future__ import annotations

from conformance.explain.facts import Facts, counted, listed, seconds
from conformance.explain.recovery import Aftermath
from conformance.text import shown


def faults(facts: Facts) -> list[str]:
    """Return a sentence or two for each fault, those that never fired among them."""
    said = []
    for after in facts.after:
        said += [struck(facts, after), followed(facts, after)]
    for row in [*facts.history.missed_faults, *facts.history.all("link-missed")]:
        step = row["step"]
        what = f"{step.get('do', '')} of {step.get('target', '')}" if step else "a fault"
        said.append(f"At {facts.at(row['t_ns'])}: {what} missed: {shown(str(row['why']), 200)}.")
    return said


def struck(facts: Facts, after: Aftermath) -> str:
    """Say which fault came when, and what the engine held in that moment."""
    fault = after.fault
    pids = f" (pid {', '.join(map(str, fault.pids[:6]))})" if fault.pids else ""
    return (
        f"At {facts.at(fault.t_ns)}: {shown(fault.text, 200)}{pids}; {fault.fetched:,} records "
        f"were fetched by then, {fault.released:,} released, {fault.outputs:,} outputs there."
    )


def met(facts: Facts, after: Aftermath) -> str:
    """Say in short what a fault met, for readers who know what was done."""
    fault, name = after.fault, facts.name(after)
    return (
        f"{name[0].upper()}{name[1:]} at {facts.at(fault.t_ns)} met {fault.fetched:,} fetched "
        f"records, {fault.released:,} of them released, and {fault.outputs:,} outputs."
    )


def followed(facts: Facts, after: Aftermath) -> str:
    """Say when the engine went on after a fault, and from where."""
    when = []
    if after.restarted_ns is not None:
        when.append(f"started again {seconds(after.restarted_ns - after.fault.t_ns)} later")
    if after.fetched_ns is not None:
        when.append(f"fetched from {seconds(after.fetched_ns - after.fault.t_ns)} after it on")
    head = f"The engine {' and '.join(when)}" if when else f"After {facts.name(after)}"
    if not after.went_on:
        return f"{head}{';' if when else ''} nothing was fetched after it."
    skipped = sum(place.skipped for place in after.places)
    lost = f"; {counted(skipped, 'record')} in between were never fetched" if skipped else ""
    again = [place for place in after.places if place.again]
    if not again:
        return f"{head}{';' if when else ''} no record was fetched a second time{lost}."
    many = len({place.stream for place in after.places}) > 1
    where = [
        f"{p.base:,} of partition {p.partition}" + (f" of stream {p.stream}" if many else "")
        for p in again
    ]
    number = counted(after.again, "record")
    return f"{head}: {number} a second time, from offset {listed(where)} on{lost}."
