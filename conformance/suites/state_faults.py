"""Evidence that a fault of the state took effect: a write refused, damage read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tickproof.conformance.faults.corrupt import Corrupt
from tickproof.conformance.faults.fill import Fill
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.moments import moment_of
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.suites.judge import NotClaimed, Unknown
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason

#: A RELEASE that stays away for this many of its longest usual gaps is held back.
_QUIET_GAPS: Final = 2
#: The exit status of a process that the kit killed.
_KILLED: Final = -9


def require_effect(history: History, faults: Sequence[FiredFault]) -> None:
    """Expect that each full disk refused a write and each damage was read, or raise Unknown."""
    full, damage = iter(history.all(events.FillOver)), iter(history.all(events.DamageOver))
    for fault in faults:
        over = next(full, None) if isinstance(fault_of(fault.step), Fill) else None
        if over is not None and moment_of(fault.step).writes:
            require_held_back(history, fault, over)
        if isinstance(fault_of(fault.step), Corrupt):
            _require_read(fault, next(damage, None) if fault.file else None)


def _require_read(fault: FiredFault, damage: events.DamageOver | None) -> None:
    """Expect that a damaged file was read; nobody can read one that was removed."""
    by = fault_of(fault.step)
    read = damage is not None and (damage.read or by.removes_file or by.may_be_unread)
    if not read:
        raise Unknown(
            Reason.DAMAGE_UNREAD,
            "the damaged file read after the restart",
            f"{fault.file or 'no file'} was not seen to be read",
            fault=fault.text,
        )


def require_files(history: History) -> None:
    """Raise NotClaimed for an engine over Kafka that keeps nothing in files."""
    kept = history.record.kept
    if history.claims.over_kafka and kept is not None and not kept.files:
        raise NotClaimed(f"{DOES_NOT_APPLY}: about files of the state; the engine keeps none")


def require_held_back(history: History, full: FiredFault, over: events.FillOver) -> None:
    """Expect a sign that the engine tried to write while the disk was full, or raise Unknown.

    Over Kafka a cut may be on the broker: who commits on needs no disk, which is NotClaimed.
    """
    signs = over.empty or over.words or fell(history, full)
    if not (signs or held_back(history, full, over.to_ns)):
        released_ns = history.releases["t_ns"].astype(np.int64)
        half_ns = (over.from_ns + over.to_ns) // 2  # what it had asked for before is over
        if (
            history.claims.over_kafka
            and ((released_ns > half_ns) & (released_ns < over.to_ns)).any()
        ):
            about = "about a cut on the disk; the engine committed on while it was full"
            raise NotClaimed(f"{DOES_NOT_APPLY}: {about}")
        raise Unknown(
            Reason.NOTHING_HELD_BACK,
            "a sign that something could not be written: no RELEASE for "
            "longer than usual, an empty file, a word on standard error, the engine's end, or a "
            "partition that is read again from its last RELEASE",
            "none of them",
            fault=full.text,
        )


def held_back(history: History, full: FiredFault, over_ns: int) -> bool:
    """Tell whether RELEASE stayed away at the end of the fault for longer than ever before.

    What was held back comes later: without a RELEASE after the fault none may have been due.
    """
    times = np.sort(history.releases["t_ns"].astype(np.int64))
    before, during = times[times < full.t_ns], times[(times >= full.t_ns) & (times < over_ns)]
    if len(before) < 2 or not (times >= over_ns).any():
        return False
    usual = int(np.max(np.diff(before)))
    silence = over_ns - int(np.max(during, initial=full.t_ns))
    return silence > _QUIET_GAPS * usual


def fell(history: History, full: FiredFault) -> bool:
    """Tell whether the engine, or a part of it, ended for want of room, and came again."""
    # It may take a while until what could not be written ends the engine.
    again_ns = max((row.t_ns for row in history.all(events.Started)), default=0)
    return (
        _lost_worker(history, full)
        or _read_again(history, full)
        or any(
            row.returncode not in (0, _KILLED) and full.t_ns < row.t_ns < again_ns
            for row in history.all(events.Exited)
        )
    )


def _lost_worker(history: History, full: FiredFault) -> bool:
    """Tell whether a worker that met the full disk was gone as the next fault met all processes."""
    later = _next_fault(history, full)
    if later is None or not fault_of(later.step).ends_engine or len(later.pids) < len(full.pids):
        return False
    named = (row for row in history.all(events.Topology) if row.t_ns < full.t_ns)
    workers = {one.pid for row in named for one in row.processes if one.role == "worker"}
    return bool(workers & {*full.pids} - {*later.pids})


def _read_again(history: History, full: FiredFault) -> bool:
    """Tell whether a partition was read again from its last RELEASE before the next fault.

    An engine may give up its job for want of room and start it again within the same process.
    """
    later = _next_fault(history, full)
    until_ns = math.inf if later is None else later.t_ns
    fetches, releases = history.fetches, history.releases
    for one in history.partitions:
        read = of_partition(fetches, one.stream, one.partition)
        cuts = of_partition(releases, one.stream, one.partition)
        cut = cuts["offset"][cuts["t_ns"] < full.t_ns].max(initial=0)
        before = read[read["t_ns"] < full.t_ns]
        after = read[(read["t_ns"] > full.t_ns) & (read["t_ns"] < until_ns)]
        if (before["end"] > cut).any() and (after["base"] == cut).any():
            return True
    return False


def _next_fault(history: History, fault: FiredFault) -> FiredFault | None:
    return next((one for one in history.faults if one.t_ns > fault.t_ns), None)
