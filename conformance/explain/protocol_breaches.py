"""What broke the protocol or ended the engine: refused requests, early answers, silence."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from tickproof.conformance.explain import transactions
from tickproof.conformance.explain.aftermath import Aftermath
from tickproof.conformance.explain.facts import Facts, Part, listed
from tickproof.conformance.explain.words import asked, ending, got
from tickproof.conformance.history import events
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.suites import breaches
from tickproof.conformance.text import counted, error_line, shown
from tickproof.conformance.verdicts import Outcome

#: Control requests that wait for an answer.
_OPS: Final = ("hello", "deploy", "topology", "drain", "checkpoint", "scale", "stop")
#: How the log says that a FETCH lies below what was released.
_BELOW: Final = re.compile(r"offset (\d+) was released \(up to (\d+)\)")
#: Their expected and actual say it all; the end of the run is none of their business.
_BY_THEMSELVES: Final = ("AFTER_FENCE", "BAD_EXIT", "LEFT_OVER", "EARLY_COMMIT")
#: What a FETCH below a RELEASE explains.
_BELOW_RELEASE: Final = ("RELEASED", "FROM_ZERO", "FETCHED_AGAIN", "EXITED", "NO_RECOVERY")
#: Sizes of integers that an offset may have been cut to, in bits.
_WIDTHS: Final = (32, 16)
#: Partitions that are told one by one.
_MOST: Final = 8


def tell(facts: Facts, outcome: Outcome) -> Part:
    """Explain a failure that is no matter of values."""
    if outcome.reason in ("EARLY_DRAIN", "STAGED_AT_DRAIN"):
        return _early(facts)
    if outcome.reason == "UNBOUNDED":
        return _stalled(facts, outcome)
    if outcome.reason in _BY_THEMSELVES:
        return Part()
    if outcome.reason in ("NO_ANSWER", "HELD_BACK"):
        return replace(_unanswered(facts), headline=_headline(facts, outcome))
    below = fetches_below_release(facts)
    if below and outcome.reason in _BELOW_RELEASE:
        return _below_release(facts, below)
    rows = facts.history.all(events.Refused)
    refused = [row for row in rows if row.text in outcome.actual]
    if outcome.reason == "EXITED":
        refused = refused or rows
    part = _refused(facts, refused) if refused else _ended(facts)
    # What the requirement saw itself comes before the end of the run.
    return (
        part
        if refused and not outcome.general
        else replace(part, headline=_headline(facts, outcome))
    )


def _headline(facts: Facts, outcome: Outcome) -> str:
    """Say what ended the run, when, and what the log had refused; or what was seen before."""
    if not outcome.general:
        return got(outcome)
    near = facts.before(facts.ended)
    end = ending(facts.history, f", {facts.since(facts.ended, near)}" if near else "")
    if outcome.reason != "EXITED":
        return f"{end}."
    why = transactions.left_behind(facts)
    if not why and (said := error_line(facts.history.stderr_tail())):
        why = f"Its standard error says: {shown(said, 200)}"
    return f"{end}. {why}" if why else f"{end}."


def _refused(facts: Facts, rows: list[events.Refused]) -> Part:
    row = rows[0]
    t_ns = row.t_ns
    said = [
        f"The log refused {asked(row)} {facts.since(t_ns, facts.before(t_ns))}: "
        f"{shown(row.text, 200)}."
    ]
    if len(rows) > 1:
        said.append(f"It refused {counted(len(rows), 'request')} in this run.")
    point = transactions.tell(facts) if row.op in ("STAGE", "COMMIT") else _left_out(row)
    return Part(tuple(said), tuple(point), t_ns, "first refusal")


def _left_out(row: events.Refused) -> list[str]:
    """Say how many outputs are missing before a refused APPEND, if that is why it was refused."""
    numbers = transactions.gap_numbers(row.text) if "first_seq" in row.text else None
    if row.op != "APPEND" or numbers is None:
        return []
    writer, sent, due = numbers
    return [
        f"Writer {writer} numbered its next output {sent:,} where {due:,} was due: "
        f"{counted(sent - due, 'number')} left out."
    ]


def status(facts: Facts) -> list[str]:
    """Say how the engine ended, where that was not asked of it."""
    ended = facts.history.ended
    if not ended.engine_failed:
        return []
    return [f"The run ended at {facts.at(facts.ended)}: {shown(ended.message, 200)}."]


def _ended(facts: Facts) -> Part:
    """Explain the end of a run by the failure that ended it."""
    if not facts.history.ended.engine_failed:
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
        when = f", asked at {facts.at(asked[-1])}," if asked else ""
        said = [
            f"Drain{when} was answered at {facts.at(row.t_ns)}. At that moment {published:,} "
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
        mark = "drain answered too early"
        return Part(tuple(said[:1]), tuple(said[1:]), row.t_ns, mark, _too_early(row, late.any()))
    return Part()


def _too_early(row: events.Drained, late: bool) -> str:
    """Say in short what was still to come when drain was answered."""
    if not row.ended:
        published = sum(p.published for p in row.partitions)
        total = sum(p.records for p in row.partitions)
        open_ = f"END was announced, with {published:,} of {total:,} records published"
    elif row.staged_open:
        open_ = f"{counted(row.staged_open, 'transaction')} with output had been settled"
    elif row.open_acknowledgements:
        open_ = f"{counted(row.open_acknowledgements, 'frame')} of output had an answer"
    else:
        open_ = "the last output had come" if late else "all was read"
    return f"Drain was answered before {open_}."


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
            got(outcome),
        )
        return Part(said, (), begin, "sink stands still")
    return Part()


def _unanswered(facts: Facts) -> Part:
    """Explain a request that was not answered, from the control lines."""
    waiting = [one for one in breaches.control(facts.history).waiting if one[0] in _OPS]
    if not waiting:
        return _ended(facts)
    op, t_ns = waiting[0]
    m = facts.history
    said = [
        f"{op} was asked at {facts.at(t_ns)} and not answered until the run ended, "
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


# -- a FETCH below a RELEASE: who asked, for which partitions, which cuts it passed over ------


@dataclass(frozen=True)
class FetchBelowRelease:
    """One FETCH of what was released. place: (stream, partition), None where two fit."""

    t_ns: int
    connection: int
    offset: int
    upto: int
    place: tuple[int, int] | None


def fetches_below_release(facts: Facts) -> list[FetchBelowRelease]:
    """Return each FETCH below a RELEASE, the first one of a partition and offset."""
    found: dict[tuple[object, ...], FetchBelowRelease] = {}
    for row in facts.history.all(events.Refused):
        if not (match := _BELOW.search(row.text)):
            continue
        offset, upto, t_ns = int(match[1]), int(match[2]), row.t_ns
        place = _place(facts, upto, t_ns)
        one = FetchBelowRelease(t_ns, row.connection, offset, upto, place)
        found.setdefault((offset, upto, place), one)
    return list(found.values())


def _place(facts: Facts, upto: int, t_ns: int) -> tuple[int, int] | None:
    """Return the only partition that was released up to ``upto`` at a time."""
    rows = facts.history.releases
    rows = rows[rows["t_ns"] <= t_ns]
    places = np.unique(rows[rows["offset"] == upto][["stream", "partition"]]).tolist()
    held = [(s, p) for s, p in places if int(of_partition(rows, s, p)["offset"].max()) == upto]
    return held[0] if len(held) == 1 else None


def _below_release(facts: Facts, rows: list[FetchBelowRelease]) -> Part:
    """Explain the FETCHes below a RELEASE of one run."""
    first = rows[0]
    t_ns, near = first.t_ns, facts.before(first.t_ns)
    when = facts.since(t_ns, near)
    said = [
        f"{when[0].upper()}{when[1:]} it asked for {_what(facts, first)}, though it had released "
        f"everything below {first.upto:,}: a RELEASE promises never to need that again "
        f"({counted(first.upto - first.offset, 'record')}; connection {first.connection}"
        f"{_opened(facts, first, near)})."
    ]
    if len(rows) > 1:
        more = [
            f"{_what(facts, row)} (released up to {row.upto:,}; connection {row.connection})"
            for row in rows[1:]
        ]
        said.append(f"The same goes for {listed(more, _MOST)}.")
    point = [*_owners(facts, near, rows), *_cuts(facts, rows)]
    if near is not None:
        held = sum(max(0, p.fetched - p.released) for p in near.places)
        fetched = sum(p.fetched for p in near.places)
        missing = first.upto - first.offset
        if all(row.offset == 0 for row in rows):
            point.append("It began at the very beginning, as an engine without any cut does.")
        elif bits := next((bits for bits in _WIDTHS if _lower_by(rows, 1 << bits)), None):
            point.append(
                f"That is lower by exactly {missing >> bits} times 2^{bits}, as when an offset is "
                f"kept in {bits} bits; else the cut that it went back to is older than its RELEASE."
            )
        else:
            point.append(
                "So the cut that it went back to is older than its RELEASE. When "
                f"{facts.name(near)} came, {held:,} of {fetched:,} fetched records were not "
                "released."
            )
    return Part(tuple(said), tuple(point), t_ns, "FETCH below a RELEASE", said[0])


def _lower_by(rows: list[FetchBelowRelease], step: int) -> bool:
    """Tell whether all were lower than their RELEASE by a multiple of a step."""
    return all((row.upto - row.offset) % step == 0 for row in rows)


def _what(facts: Facts, row: FetchBelowRelease) -> str:
    of = f" of {facts.partition(*row.place)}" if row.place else ""
    return f"offset {row.offset:,}{of}"


def _opened(facts: Facts, row: FetchBelowRelease, near: Aftermath | None) -> str:
    times = [
        e.t_ns
        for e in facts.history.all(events.Connected, connection=row.connection)
        if e.t_ns <= row.t_ns
    ]
    return f", opened {facts.since(times[-1], near)}" if times else ""


def _owners(facts: Facts, near: Aftermath | None, rows: list[FetchBelowRelease]) -> list[str]:
    """Say whose writers had been taken over before the FETCH: by whom it was asked."""
    if near is None:
        return []
    taken: dict[tuple[int, int], list[int]] = {}
    for row in facts.history.all(events.Have):
        if near.fault.t_ns < row.t_ns <= rows[0].t_ns and row.fenced:
            taken.setdefault((row.fenced, row.connection), []).append(row.writer)
    over = [
        f"writer{'s'[: len(writers) > 1]} {listed([str(w) for w in writers])} "
        f"of connection {old} by connection {new}"
        for (old, new), writers in taken.items()
    ]
    return [f"Before that, HAVE had taken over {listed(over)}."] if over else []


def _cuts(facts: Facts, rows: list[FetchBelowRelease]) -> list[str]:
    """Say which RELEASE stands where the engine went back to, and how many lie above it."""
    return [_cut(facts, row, row.place) for row in rows[:_MOST] if row.place]


def _cut(facts: Facts, row: FetchBelowRelease, place: tuple[int, int]) -> str:
    freed = of_partition(facts.history.releases, *place)
    freed = freed[freed["t_ns"] <= row.t_ns]
    near = facts.before(row.t_ns)
    lives = np.array([facts.life(t_ns) for t_ns in freed["t_ns"].tolist()])
    text = f"In {facts.partition(*place)}, "
    at = np.flatnonzero(freed["offset"] == row.offset)
    if len(at):
        mine = freed["offset"][lives == lives[at[0]]]
        last = "the last" if int(mine.max()) == row.offset else "a"
        when = facts.since(int(freed["t_ns"][at[0]]), near)
        text += f"it went back to {last} RELEASE of life {lives[at[0]]}, which came {when}; "
    above = freed["offset"] > row.offset
    kinds = {int(k): int((lives[above] == k).sum()) for k in np.unique(lives[above])}
    passed = [
        counted(n, "RELEASE") + (f" of life {k}" if facts.life(facts.end) > 1 else "")
        for k, n in kinds.items()
    ]
    lies = "lies" if int(above.sum()) == 1 else "lie"
    newest = facts.since(int(freed["t_ns"][-1]), near)
    return f"{text}{listed(passed)} {lies} above that offset, the newest came {newest}."
