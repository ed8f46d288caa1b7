"""Judge requests to scale: the number of workers, and the work of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.moments import SCALING, moment_of
from tickproof.conformance.faults.scale import Scale
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.history.work import Life, Work, work
from tickproof.conformance.suites.evidence import outputs
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.workers import LEAST_RECORDS, seen_lives
from tickproof.conformance.text import counted
from tickproof.conformance.verdicts import Reason


def require_scaled(history: History) -> None:
    """Expect as many workers as were asked for after each scale, and that each did some work.

    Raises Unknown where nobody saw that.
    """
    scaled = history.all(events.Scaled)
    faults = [one for one in history.faults if isinstance(fault_of(one.step), Scale)]
    if len(scaled) < len(faults):
        raise Unknown(
            Reason.NOT_SEEN, f"{len(faults)} answers to scale", f"{len(scaled)} were noted"
        )
    ends = [fault.t_ns for fault in faults[1:]]
    for number, event in enumerate(scaled):
        end_ns = ends[number] if number < len(ends) else None
        life, workers = _require_number(history, event)
        if history.claims.over_kafka:
            _require_arrival(event)
        elif workers and len(workers) <= _partitions(history):
            _require_work(history, life, workers, event.t_ns, end_ns)


def _require_arrival(event: events.Scaled) -> None:
    """Raise Unknown where the workers did not come: a group may leave keys where their state is."""
    if not event.arrived:
        raise Unknown(
            Reason.NOT_SEEN,
            f"{counted(event.workers, 'worker')} that ask for input after scale",
            "fewer",
        )


def require_numbers(history: History) -> None:
    """Expect as many workers as were asked for after each scale that was the last one then.

    Raises Unknown where none was, or nobody saw it.
    """
    scaled = history.all(events.Scaled)
    spans = [(one.asked_ns, one.t_ns) for one in scaled]
    spans += [(one.asked_ns, one.t_ns) for one in history.all(events.ScaleRefused)]
    alone = [
        event
        for event in scaled
        if not any(asked < event.t_ns < answered for asked, answered in spans)
    ]
    if not alone:
        raise Unknown(Reason.NOT_SEEN, "a scale that nothing followed at once", "none")
    for event in alone:
        _require_number(history, event)


def _require_number(history: History, event: events.Scaled) -> tuple[Life, set[int]]:
    """Expect as many workers in topology as were asked for; return them, and their life."""
    seen = _workers_after(history, event)
    if seen is None:
        raise Unknown(Reason.NOT_SEEN, "an answer to topology after scale", "none")
    life, workers = seen
    if "worker" not in life.roles.values():
        return life, set()  # its workers are threads: nobody can count them
    if len(workers) != event.workers:
        raise Fail(
            Reason.BAD_ANSWER,
            f"{counted(event.workers, 'worker')} in topology once scale was answered",
            f"{len(workers)}",
        )
    return life, workers


def _workers_after(history: History, event: events.Scaled) -> tuple[Life, set[int]] | None:
    """Return the life of a scale and the workers that topology named first after it, if any did."""
    for life in seen_lives(history):
        after = [row for row in life.topologies if row.t_ns >= event.t_ns]
        if after and life.topologies[0].t_ns < event.t_ns:
            return life, {one.pid for one in after[0].processes if one.role == "worker"}
    return None


def require_input(history: History, begin_ns: int, end_ns: int | None) -> None:
    """Raise Unknown if nothing of a partition was fetched: its worker may well be idle."""
    for part in (part for part in history.partitions if part.records):
        t_ns = of_partition(history.fetches, part.stream, part.partition)["t_ns"]
        if not ((t_ns >= begin_ns) & (end_ns is None or t_ns < end_ns)).any():
            raise Unknown(
                Reason.NOT_SEEN,
                "records fetched from each partition after scale",
                f"none from partition {part.partition} of stream {part.stream}",
            )


def _require_work(
    history: History, life: Life, workers: set[int], begin_ns: int, end_ns: int | None
) -> None:
    """Expect that each of the workers fetched or sent something between two times.

    Raises Unknown for one that sent nothing, where others fetched all that it can have fetched.
    """
    did, unseen, last_ns = _did(life, begin_ns, end_ns)
    done = {pid: did[pid].records for pid in sorted(workers)}
    everything = sum(done.values())
    if everything < LEAST_RECORDS or (unseen and not all(done.values())):
        raise Unknown(
            Reason.NOT_SEEN,
            f"{LEAST_RECORDS:,} records that workers handled after scale",
            f"{everything:,}{', and some by who knows whom' if unseen else ''}",
        )
    if idle := [pid for pid, records in done.items() if not records]:
        require_input(history, begin_ns, end_ns)
        raise Fail(
            Reason.IDLE_WORKERS,
            f"records handled by each of {counted(len(done), 'worker')} after scale",
            f"pid {', '.join(map(str, idle))} handled none of {everything:,}",
        )
    total, reached = sum(one.fetched for one in did.values()), _reached(history, begin_ns, last_ns)
    for pid in sorted(workers):
        others = total - did[pid].fetched
        if not did[pid].sent and others >= reached:
            raise Unknown(
                Reason.NOT_SEEN,
                f"records that each of {counted(len(done), 'worker')} alone fetched after scale, "
                "or sent",
                f"pid {pid} sent none, and others fetched {others:,}, though there were no more "
                f"than {reached:,}",
            )


def _reached(history: History, begin_ns: int, end_ns: int) -> int:
    """Return how many records were fetched between two times at most, each counted once."""
    found = 0
    for part in history.partitions:
        rows = of_partition(history.fetches, part.stream, part.partition)
        rows = rows[(rows["t_ns"] >= begin_ns) & (rows["t_ns"] <= end_ns)]
        if len(rows):
            found += int(rows["end"].max()) - int(rows["base"].min())
    return found


def _did(life: Life, begin_ns: int, end_ns: int | None) -> tuple[dict[int, Work], bool, int]:
    """Return pid -> what a named process fetched and sent between two times.

    Also whether some went over connections whose holder nobody saw, and when it was last looked.
    """
    before = life.until(begin_ns)
    looks = life.looks[len(before.looks) :]
    if end_ns is not None:
        # The first look after the end tells of connections that have ended since.
        looks = looks[: sum(look.t_ns <= end_ns for look in looks) + 1]
    whole = work((*before.looks, *looks), life.roles)
    until = work(before.looks, life.roles)
    did = {
        pid: Work(one.records - until[pid].records, one.sent - until[pid].sent)
        for pid, one in whole.items()
    }
    unseen = any(not one.pids and one.fetched + one.sent for look in looks for one in look.used)
    return did, unseen, looks[-1].t_ns if looks else begin_ns


def _partitions(history: History) -> int:
    return int(history.record.scenario.recipe["partitions"])


def require_meanwhile(history: History) -> None:
    """Expect that what was to come between a request to scale and its answer did so.

    Raises Unknown where the answer was there first.
    """
    asked = 0
    for fault in sorted(history.faults, key=lambda one: one.number):
        meanwhile = moment_of(fault.step) is SCALING
        if isinstance(fault_of(fault.step), Scale) and not meanwhile:
            asked = fault.t_ns
        elif meanwhile:
            answers = history.all(events.Scaled)
            if any(asked <= row.t_ns < fault.t_ns for row in answers):
                raise Unknown(
                    Reason.KILL_MISSED,
                    "a fault before the answer to scale",
                    "scale was answered before it",
                    fault=fault.text,
                )


@dataclass(frozen=True)
class ScaleCost:
    """Cost of a scale, and how evenly the work lay after it.

    answer_s: from the request to its answer. still_s: the longest time without any output, from
    the last one before the request to the first after the answer; None where none came after it.
    again: records that were fetched once more until the next fault. least, most: the smallest
    and the largest part of the records that one worker handled after it, 0.0 to 1.0; None where
    nobody saw that.
    """

    workers: int
    answer_s: float
    still_s: float | None
    again: int
    least: float | None
    most: float | None


def costs(history: History) -> list[ScaleCost]:
    """Return what each scale cost that no other fault came into, in order."""
    began = sorted(fault.t_ns for fault in history.faults)
    found = []
    for event in history.all(events.Scaled):
        if any(event.asked_ns < t_ns <= event.t_ns for t_ns in began):
            continue
        end_ns = min((t_ns for t_ns in began if t_ns > event.t_ns), default=None)
        least, most = _parts(history, event, end_ns)
        found.append(
            ScaleCost(
                event.workers,
                (event.t_ns - event.asked_ns) / 1e9,
                _still_s(history, event),
                sum(_fetched_again(history, event.asked_ns, end_ns)),
                least,
                most,
            )
        )
    return found


def _still_s(history: History, event: events.Scaled) -> float | None:
    t_ns = np.sort(outputs(history).arrivals["t_ns"].astype(np.int64))
    first = max(0, int(np.searchsorted(t_ns, event.asked_ns, "right")) - 1)
    last = int(np.searchsorted(t_ns, event.t_ns, "right"))
    if last == len(t_ns):
        return None
    return float(np.diff(t_ns[first : last + 1]).max(initial=0)) / 1e9


def _fetched_again(history: History, begin_ns: int, end_ns: int | None) -> Iterator[int]:
    """Yield for each partition how many of its records were fetched that had been before."""
    for part in history.partitions:
        rows = of_partition(history.fetches, part.stream, part.partition)
        reached = np.maximum.accumulate(rows["end"]).astype(np.int64)
        base, end = (rows[name].astype(np.int64) for name in ("base", "end"))
        known = np.clip(np.minimum(end[1:], reached[:-1]) - base[1:], 0, None)
        during = rows["t_ns"][1:] > begin_ns
        if end_ns is not None:
            during &= rows["t_ns"][1:] < end_ns
        yield int(known[during].sum())


def _parts(
    history: History, event: events.Scaled, end_ns: int | None
) -> tuple[float | None, float | None]:
    seen = _workers_after(history, event)
    if seen is None:
        return None, None
    life, workers = seen
    did, unseen, _ = _did(life, event.t_ns, end_ns)
    done = {pid: did[pid].records for pid in workers}
    everything = sum(done.values())
    if unseen or not everything:
        return None, None
    return min(done.values()) / everything, max(done.values()) / everything
