"""The host: the engine on cores of its own stays there, and as it was started."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import plain_files
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.hosts import cores
from tickproof.conformance.hosts.model import HostError
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.suites.carriers import STATELESS_FIRST
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.require import require_completed
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import TICK_US, Context, carried, paced, scenario
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Reason

HO: Final = Family("HO", "Host", tier=5)
#: Looks at one process, while the input came, for a pass.
_LOOKS: Final = 3
_BITS: Final = 64
PINNED_RATE: Final = 5_000
PINNED_S: Final = 5.0


@scenario(*STATELESS_FIRST)
def pinned(context: Context, _rng: random.Random) -> Scenario:
    recipe = paced(PINNED_S, PINNED_RATE)
    try:
        own = cores.assign(1, 0)
    except HostError:
        own = None
    apart = () if own is None or own.shared else (own.kit, own.engine)
    return carried(
        context, recipe["records"], recipe=recipe, rate=PINNED_RATE, pace=Pace(TICK_US, 0.0, *apart)
    )


def _looked_at(history: History) -> np.ndarray:
    """Return the USAGE rows; a pass needs several looks at several processes, or at one."""
    rows = history.usage
    if len(np.unique(rows["t_ns"])) < _LOOKS:
        raise Unknown(
            Reason.TOO_FEW_SAMPLES,
            f"{_LOOKS} looks at the processes of the engine",
            f"{len(np.unique(rows['t_ns']))}",
        )
    return rows


def _named(history: History, pid: int) -> str:
    known = _manners(history).get(str(pid), {})
    return f"{known.get('role') or known.get('name') or 'process'} {pid}"


def _manners(history: History) -> dict[str, dict[str, Any]]:
    """Return pid -> name, role, policy and nice value; raises HistoryError."""
    path = history.folder / "usage.json"
    try:
        found = loads(plain_files.read_bytes(history.folder, path.name))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise HistoryError(f"{path}: expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise HistoryError(f"{path}: expected an object by process")
    return found


def _stays_on_its_cores(history: History) -> None:
    require_completed(history)
    cores = history.record.cores
    pace = history.record.scenario.pace
    if pace is None or not pace.engine_cores:
        raise Unknown(Reason.TOO_FEW_CORES, "a core for the kit and one for the engine", "one core")
    if cores.refused:
        raise Unknown(Reason.NOT_PINNED, "the engine on its own cores", "; ".join(cores.refused))
    rows = _looked_at(history)
    own = sorted(cores.engine)
    mask = np.uint64(sum(1 << core for core in own if core < _BITS))
    beyond = (rows["affinity"] & ~mask) != 0
    if not (rows["affinity"] & mask).any() and min(own) < _BITS:
        # Nobody was ever where the kit had put it: then the kit did not put it there.
        raise Unknown(Reason.NOT_PINNED, f"the engine on cores {own}", "no process ever was")
    for row in rows[beyond][:1]:
        may = [core for core in range(_BITS) if int(row["affinity"]) >> core & 1]
        strays = np.unique(rows["pid"][beyond])
        raise Fail(
            Reason.OFF_ITS_CORES,
            f"every process on cores {own} only",
            f"{_named(history, int(row['pid']))} may run on {may}; {len(strays)} processes do so",
            where={"t_ns": int(row["t_ns"])},
        )


HO.requirement(
    "HO-CORES",
    "the engine stays on its own cores",
    """Every process of the engine runs on the cores that it was started on, and on no others.
    If it fails, something in it sets an affinity of its own, such as a runtime that counts all
    processors, and takes time from what measures it.""",
    clauses="host-cores",
    needs=Needs(latency=("claimed",)),
    judges={pinned: _stays_on_its_cores},
)


def _keeps_its_priority(history: History) -> None:
    require_completed(history)
    _looked_at(history)
    given = history.record.service.manner
    found = _manners(history)
    if not found:
        raise Unknown(
            Reason.TOO_FEW_SAMPLES, "policy and nice value of the engine's processes", "none"
        )
    wanted = f"{given['policy']}, nice {given['nice']}"
    for pid, manner in found.items():
        if (manner["policy"], manner["nice"]) != (given["policy"], given["nice"]):
            raise Fail(
                Reason.ANOTHER_PRIORITY,
                f"{wanted}, as the process of argv was started",
                shown(
                    f"{_named(history, int(pid))}: {manner['policy']}, nice {manner['nice']}", 200
                ),
            )


HO.requirement(
    "HO-PRIORITY",
    "the engine keeps its scheduling class",
    """Every process of the engine keeps the scheduling policy and the nice value that it was
    started with.
    If it fails, the engine, or a script around it, calls nice or chrt: then it was not measured as
    the profile says.""",
    clauses="host-priority",
    needs=Needs(latency=("claimed",)),
    judges={pinned: _keeps_its_priority},
)
