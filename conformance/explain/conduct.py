"""What broke the protocol or ended the engine: refusals, early answers, silence."""

from __future__ import annotations

import json
from typing import Final

import numpy as np

from tickproof.conformance.explain import fetch_below_release, transactions
from tickproof.conformance.explain.facts import Facts, counted
from tickproof.conformance.explain.passage import Part
from tickproof.conformance.history import events
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome

#: Control requests that wait for an answer.
_OPS: Final = ("hello", "deploy", "topology", "drain", "checkpoint", "scale", "stop")


def tell(facts: Facts, outcome: Outcome) -> Part:
    """Explain a failure that is no matter of values."""
    if outcome.reason in ("EARLY_DRAIN", "STAGED_AT_DRAIN"):
        return _early(facts)
    if outcome.reason == "UNBOUNDED":
        return _stalled(facts, outcome)
    if outcome.reason in ("NO_ANSWER", "HELD_BACK"):
        return _unanswered(facts)
    refused = facts.history.all(events.Refused)
    if below := fetch_below_release.asked(facts):
        return fetch_below_release.tell(facts, below)
    if refused:
        return _refused(facts, outcome, refused)
    return _ended(facts)


def _refused(facts: Facts, outcome: Outcome, rows: list[events.Refused]) -> Part:
    row = next((r for r in rows if r.text in outcome.actual), rows[0])
    t_ns = row.t_ns
    said = [
        f"The log refused {shown(row.op, 20)} {facts.since(t_ns, facts.before(t_ns))}: "
        f"{shown(row.text, 200)}."
    ]
    if len(rows) > 1:
        said.append(f"It refused {counted(len(rows), 'request')} in this run.")
    point = transactions.tell(facts) if row.op in ("STAGE", "COMMIT") else []
    return Part(tuple(said), tuple(point), t_ns, "first refusal")


def status(facts: Facts) -> list[str]:
    """Say how the engine ended, where that was not asked of it."""
    ended = facts.history.ended
    if ended["how"] != "engine-failure":
        return []
    return [f"The run ended at {facts.at(facts.ended)}: {shown(str(ended['message']), 200)}."]


def _ended(facts: Facts) -> Part:
    """Explain the end of a run by the failure that ended it."""
    if facts.history.ended["how"] != "engine-failure":
        return Part()
    left = facts.history.input_records - facts.history.fetched
    said = (
        f"{counted(facts.history.fetched, 'record')} had been fetched when the run ended, "
        f"{left:,} were left; {counted(len(facts.log), 'output')} had come.",
    )
    return Part(said, (), facts.ended, "end of the run")


def _early(facts: Facts) -> Part:
    """Explain an answer to drain that came too early."""
    for row in facts.history.all(events.Drained):
        rows = facts.log.arrivals
        restarts = [r.t_ns for r in facts.history.all(events.Started) if r.t_ns > row.t_ns]
        late = (rows["t_ns"] > row.t_ns) & (rows["t_ns"] < min(restarts, default=2**63 - 1))
        states = row.partitions
        published, total = sum(p.published for p in states), sum(p.records for p in states)
        unfetched = sum(p.published - p.fetched for p in states)
        open_ = row.open_acknowledgements
        if not (late.any() or open_ or row.staged_open or published < total or unfetched):
            continue
        asked = [r.t_ns for r in facts.history.all(events.DrainAsked) if r.t_ns <= row.t_ns]
        when = f", asked at {facts.at(asked[-1])}" if asked else ""
        said = [
            f"Drain{when}, was answered at {facts.at(row.t_ns)}. In that moment {published:,} "
            f"of {total:,} records were published, {unfetched:,} of those not fetched; "
            f"{counted(row.outputs, 'output')} had come, {open_:,} frames had no answer yet, "
            f"{row.staged_open:,} transactions were open."
        ]
        if late.any():
            number, last = int(rows["count"][late].sum()), int(rows["t_ns"][late].max())
            said.append(
                f"{counted(number, 'output')} came later, the last one "
                f"{(last - row.t_ns) / 1e9:,.3f} s after the answer."
            )
        if not row.ended:
            said.append("END had not been announced: more input could still come, and did.")
        return Part(tuple(said[:1]), tuple(said[1:]), row.t_ns, "drain answered too early")
    return Part()


def _stalled(facts: Facts, outcome: Outcome) -> Part:
    """Explain an engine that read on, or grew, while its output was not taken."""
    for row in facts.history.all(events.Stall):
        begin = row.t_ns
        ends = [r.t_ns for r in facts.history.all(events.StallEnded) if r.t_ns > begin]
        end = min(ends, default=facts.end)
        rows = facts.history.fetches
        rows = rows[(rows["t_ns"] > begin) & (rows["t_ns"] <= end)]
        fetched = int((rows["end"] - rows["base"]).sum())
        arrivals = facts.log.arrivals
        came = arrivals["count"][(arrivals["t_ns"] > begin) & (arrivals["t_ns"] <= end)].sum()
        last = f", the last of them at {facts.at(int(rows['t_ns'].max()))}" if len(rows) else ""
        said = (
            f"From {facts.at(begin)} to {facts.at(end)} the sink stood still: "
            f"{counted(int(came), 'output')} came in that time, and the engine fetched "
            f"{counted(fetched, 'record')} more{last}.",
            f"Expected was {outcome.expected}; what came is {outcome.actual}.",
        )
        return Part(said, (), begin, "sink stands still")
    return Part()


def _unanswered(facts: Facts) -> Part:
    """Explain a request that was not answered, from the control lines."""
    asked: dict[int, tuple[str, int]] = {}
    for row in facts.history.control:
        try:
            line = json.loads(row["line"])
            number = line.get("id")
        except (ValueError, AttributeError):
            continue
        if row["direction"] == "to":
            if line.get("op") == "hello":
                asked.clear()  # a new process: nobody answers what the last one was asked
            asked[number] = (str(line.get("op")), int(row["t_ns"]))
        elif isinstance(number, int):
            asked.pop(number, None)
    waiting = [(op, t_ns) for op, t_ns in asked.values() if op in _OPS]
    if not waiting:
        return _ended(facts)
    op, t_ns = waiting[0]
    m = facts.history
    said = [
        f"{op} was asked at {facts.at(t_ns)} and never answered; the last thing on record is "
        f"{(facts.end - t_ns) / 1e9:,.3f} s later. By then {counted(m.fetched, 'record')} of "
        f"{m.input_records:,} were fetched and {counted(len(facts.log), 'output')} had come."
    ]
    last = _last_activity(facts)
    if last is not None and last > t_ns:
        said.append(f"The last FETCH or output came at {facts.at(last)}.")
    return Part(tuple(said), (), t_ns, f"{op} asked, never answered")


def _last_activity(facts: Facts) -> int | None:
    times = [facts.history.fetches["t_ns"], facts.log.arrivals["t_ns"]]
    whole = np.concatenate(times)
    return int(whole.max()) if len(whole) else None
