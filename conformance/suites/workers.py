"""Hold the work of processes against topology: counterexamples and evidence.

What cannot be told (a connection that was over before anybody looked, a socket that several
processes hold) is never a counterexample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.pause import Pause
from tickproof.conformance.faults.process_fault import ProcessFault
from tickproof.conformance.history import events
from tickproof.conformance.history.events import Activity, Event, FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.history.work import IDLE_US, Life, answerable, lives, work
from tickproof.conformance.suites.evidence import cached, outputs
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.verdicts import Reason

#: Fewer records than this may be handled by anybody before the others have begun.
LEAST_RECORDS = 1_000
#: What the threads of a stopped process had under way is over after so long.
_GRACE_NS = 50_000_000


@cached
def seen_lives(history: History) -> list[Life]:
    """Return what was seen of the engine's processes, for each deployment."""
    found: list[Event] = history.all(
        events.Started, events.TakenOver, events.Deployed, events.Topology, Activity
    )
    return lives(found)


def require_all_named(history: History) -> None:
    """Expect that every process that handled records is named, or is below one that is.

    argv's process answers only for itself: all others are below it.
    """
    for life in seen_lives(history):
        for row in life.topologies:
            before = [look for look in life.looks if look.t_ns < row.t_ns][-1:]
            after = [look for look in life.looks if look.t_ns > row.t_ns][:1]
            # Who is seen on both sides of an answer was there when it was given.
            if before and after:
                named = {one.pid for one in row.processes}
                _require_named(before[0], {one.pid for one in after[0].running}, named, life.argv)


def _require_named(look: Activity, later: set[int], named: set[int], argv: int) -> None:
    parents = {one.pid: one.parent for one in look.running}
    names = {one.pid: one.name for one in look.running}
    for one in look.used:
        # Several holders: one of them may have handed the connection to another.
        if len(one.pids) != 1 or not one.fetched + one.sent or one.pids[0] not in later:
            continue
        (pid,) = one.pids
        if pid in named or answerable(pid, parents, named - {argv}) is not None:
            continue
        raise Fail(
            Reason.UNNAMED,
            "every process that handles records in topology",
            f"process {pid} ({names.get(pid, '?')}) is not named; on connection {one.connection} "
            f"it had fetched {one.fetched:,} records and sent {one.sent:,}",
        )


def require_working_workers(history: History) -> None:
    """Expect that of the processes called workers at least one did something.

    Fails only where all that was fetched and sent is known to have gone over connections of
    other processes.
    """
    for life in seen_lives(history):
        roles, done = life.roles, life.work()
        workers = [pid for pid, role in roles.items() if role == "worker"]
        others = sum(done[pid].records for pid, role in roles.items() if role != "worker")
        # All that is open or has ended, whoever holds it.
        totals = {
            one.connection: one.fetched + one.sent for look in life.looks for one in look.used
        }
        if not workers or others < LEAST_RECORDS or others < sum(totals.values()):
            continue
        if all(done[pid].idled for pid in workers):
            share = sum(done[pid].share for pid in workers)
            raise Fail(
                Reason.IDLE_WORKERS,
                "workers that handle records",
                f"{len(workers)} named workers fetched and sent none and used {share:.2%} of the "
                f"processor time; other processes fetched and sent {others:,}",
            )


def require_at_work(history: History, fault: FiredFault) -> None:
    """Expect that who was killed or paused had done what its role says in its life.

    A worker had handled records; a coordinator had at least done something.
    """
    struck_by = fault_of(fault.step)
    coordinators = fault.step.target == "coordinator"
    if not (isinstance(struck_by, ProcessFault) and (struck_by.of_workers or coordinators)):
        return
    if not history.all(Activity):
        return
    life = [one.until(fault.t_ns) for one in seen_lives(history)]
    life = [one for one in life if one.looks]
    if not life:
        return
    done = life[-1].work()
    struck = [(pid, done[pid]) for pid in fault.pids if pid in done]
    if coordinators:
        _require_coordinates(life[-1], fault)
        return
    if _held_alone(life[-1].looks, fault.connection) & {pid for pid, _ in struck}:
        return  # it had fetched, or sent, at this very moment
    if struck and not any(one.worked for _, one in struck):
        said = "; ".join(f"pid {pid}: no record, {one.share:.2%}" for pid, one in struck[:8])
        raise Unknown(
            Reason.NOT_AT_WORK,
            "a victim that had fetched or sent records, or used processor time as one who works",
            f"{said} of the engine's processor time",
            fault=fault.text,
        )


def _require_coordinates(life: Life, fault: FiredFault) -> None:
    """Expect that a coordinator is argv's process, or above another one, or was ever awake.

    One that is above workers may sleep for as long as all of them live.
    """
    parents = {one.parent for look in life.looks for one in look.running} | {life.argv}
    struck = [pid for pid in fault.pids if life.roles.get(pid) == "coordinator"]
    seen = {
        pid: [one.cpu_us for look in life.looks for one in look.running if one.pid == pid]
        for pid in struck
    }
    used_us = {pid: max(times) - times[0] for pid, times in seen.items() if len(times) > 1}
    asleep = [pid for pid in used_us if pid not in parents and used_us[pid] < IDLE_US]
    if struck and len(asleep) == len(struck):
        said = "; ".join(f"pid {pid}: {used_us[pid]} us" for pid in asleep[:8])
        raise Unknown(
            Reason.NOT_AT_WORK,
            "a coordinator that is above another process, or used processor time in its life",
            f"{said} of processor time, and nobody below it",
            fault=fault.text,
        )


def _held_alone(looks: Sequence[Activity], connection: int) -> set[int]:
    """Return the process that held a connection when it was last seen, if it was one alone."""
    seen = [one.pids for look in looks for one in look.used if one.connection == connection]
    return set(seen[-1]) if seen and len(seen[-1]) == 1 else set()


def require_standstill(history: History) -> None:
    """Expect no output for records that were fetched after all workers had been stopped.

    A stopped process makes no output of what it has not fetched. Raises Unknown where no input
    was there that could have been processed.
    """
    for fault in history.faults:
        ended = [row for row in history.all(events.Resumed) if row.pid in fault.pids]
        by = fault_of(fault.step)
        if not (isinstance(by, Pause) and by.of_all_workers and ended):
            continue
        # None is continued before this time, however late the kit notes it.
        stopped_ns = max(row.from_ns for row in ended) + _GRACE_NS
        end_ns = min(row.from_ns for row in ended) + int(fault.step.lasts_s * 1e9)
        log, app = outputs(history), apps.of(history)
        before = int(log.arrivals["count"][log.arrivals["t_ns"] < end_ns].sum())
        done = app.processed(history, log.payloads[:before])
        fetched = app.answerable(history, _reached(history.fetches, stopped_ns))
        if done > fetched and not _started_meanwhile(history, fault, ended[0].t_ns):
            raise Fail(
                Reason.WORKERS_NOT_NEEDED,
                "no record processed while all workers stand still",
                f"{done:,} records were processed by the end of the pause, though only "
                f"{fetched:,} were fetched when the {len(ended)} processes called workers stopped",
            )
        if app.answerable(history, _reached(history.publishes, end_ns)) <= done:
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT, "input to process while all workers stand still", "none"
            )


def _reached(table: np.ndarray, t_ns: int) -> dict[tuple[int, int], int]:
    """Return (stream, partition) -> how many of its records the rows up to a time reach."""
    rows = table[table["t_ns"] <= t_ns]
    places = np.unique(rows[["stream", "partition"]])
    return {
        (int(stream), int(partition)): int(of_partition(rows, stream, partition)["end"].max())
        for stream, partition in places
    }


def _started_meanwhile(history: History, fault: FiredFault, end_ns: int) -> bool:
    """Tell whether a process worked that was started during a pause: it may stand in."""
    looks = history.all(Activity)
    before = [look for look in looks if look.t_ns < fault.struck_ns][-1:]
    during = [look for look in looks if fault.struck_ns <= look.t_ns < end_ns]
    if not before or not during:
        return True  # nobody looked
    known = {one.pid for one in before[0].running}
    new = {one.pid for look in during for one in look.running} - known
    done = work([*before, *during], known | new)
    return any(done[pid].worked for pid in new)
