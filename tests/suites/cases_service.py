"""What each test of tier 5 must reject, and what it must call unknown; see cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.suites import tampering as t
from tests.suites.imagined import MS, PIDS, SECOND, T0
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.history.rows import FETCH, HICCUP, MACHINE, TICK, USAGE
from tickproof.generators.layouts import MESSAGE, ORDER, VERDICT
from tickproof.generators.market import PROBE_TAG

Cases = list[tuple[t.Tamper, str]]
#: Times of a table (int64 ns since the first intended time) -> new ones.
When = Callable[[np.ndarray], np.ndarray]
FAILED = (t.engine_failure, "TIMEOUT")


def both(*tampers: t.Tamper) -> t.Tamper:
    """Make several changes, one after another."""

    def change(folder: Path) -> None:
        for tamper in tampers:
            tamper(folder)

    return change


def timed(when: When, *, name: str = "output/s0.arrivals", dtype: np.dtype = ARRIVAL) -> t.Tamper:
    """Change the times of a table."""

    def change(folder: Path) -> None:
        rows = np.fromfile(folder / name, dtype)
        rows["t_ns"] = when(rows["t_ns"] - T0) + T0
        rows.tofile(t.fresh(folder / name))

    return change


fetched = partial(timed, name="fetches.bin", dtype=FETCH)
published = partial(timed, name="ticks.bin", dtype=TICK)


def spikes(t_ns: np.ndarray) -> np.ndarray:
    """Let nothing happen in the first 250 ms of every two seconds."""
    within = t_ns % (2 * SECOND)
    return t_ns - within + np.maximum(within, 250 * MS)


def stall(t_ns: np.ndarray) -> np.ndarray:
    """Let nothing happen for 400 ms of one second, late in the run."""
    return np.where(
        (t_ns >= 14 * SECOND) & (t_ns < 14 * SECOND + 400 * MS), 14 * SECOND + 400 * MS, t_ns
    )


def after(start_s: float, more_ms: int) -> When:
    """Let all that happens from a time on happen later."""
    return lambda t_ns: t_ns + np.where(t_ns >= start_s * SECOND, more_ms * MS, 0)


def _a_little_less(t_ns: np.ndarray) -> np.ndarray:
    return t_ns + t_ns * 3 // 100


def _probes_first(folder: Path) -> None:
    """Answer all orders but the probes 30 ms later."""
    history = History(folder)
    parts = [np.array(part).view(ORDER) for part in history.inputs(MESSAGE)]
    probes = np.concatenate([p["order_id"][p["client_tag"] >= np.uint64(PROBE_TAG)] for p in parts])
    log, arrivals = t.read_output(folder)
    others = ~np.isin(t.records(log, VERDICT)["order_id"], probes)
    arrivals["t_ns"][others] += 30 * MS
    t.write_output(folder, log, arrivals)


def _unanswered(folder: Path) -> None:
    """Leave the last orders without an answer, some of them probes."""
    log, arrivals = t.read_output(folder)
    t.write_output(folder, log[:-50], arrivals[:-50])


def noise(low_s: float, high_s: float) -> t.Tamper:
    """Let others take all of a core between two times of the run."""

    def change(folder: Path) -> None:
        rows = np.fromfile(folder / "machine.bin", MACHINE)
        taken = np.clip(rows["t_ns"] - T0 - low_s * SECOND, 0, (high_s - low_s) * SECOND)
        rows["busy_s"] += taken / SECOND
        rows.tofile(t.fresh(folder / "machine.bin"))

    return change


noisy = noise(-1, 100)


def _hiccups(folder: Path) -> None:
    rows = np.fromfile(folder / "hiccups-0.bin", HICCUP)
    rows["late_ns"][::500] = 60 * MS
    rows.tofile(t.fresh(folder / "hiccups-0.bin"))


def _in_profile(change: Callable[[dict[str, Any]], None]) -> t.Tamper:
    return partial(t.run_json, change=lambda run: change(run["service"]["profile"]))


def _limits(**limits: int) -> t.Tamper:
    return _in_profile(lambda profile: profile.update(limits=limits))


def _shorter(folder: Path) -> None:
    """Let no more than the first second be measured."""

    def change(run: dict[str, Any]) -> None:
        run["scenario"]["pace"]["warm_up_s"] = 15.5

    t.run_json(folder, change)


def _usage(**fields: int) -> t.Tamper:
    """Set fields of what was seen of the last process."""

    def change(folder: Path) -> None:
        rows = np.fromfile(folder / "usage.bin", USAGE)
        for name, value in fields.items():
            rows[name][rows["pid"] == PIDS[-1]] = value
        rows.tofile(t.fresh(folder / "usage.bin"))

    return change


def _one_look(folder: Path) -> None:
    rows = np.fromfile(folder / "usage.bin", USAGE)[: len(PIDS)]
    rows.tofile(t.fresh(folder / "usage.bin"))


def _manner(**fields: Any) -> t.Tamper:
    def change(folder: Path) -> None:
        found = json.loads((folder / "usage.json").read_text("utf-8"))
        found[str(PIDS[-1])] |= fields
        t.fresh(folder / "usage.json").write_text(json.dumps(found))

    return change


def _no_cores(folder: Path) -> None:
    def change(run: dict[str, Any]) -> None:
        run["scenario"]["pace"] |= {"kit_cores": [], "engine_cores": []}

    t.run_json(folder, change)


def _nowhere(folder: Path) -> None:
    rows = np.fromfile(folder / "usage.bin", USAGE)
    rows["affinity"] = 1
    rows.tofile(t.fresh(folder / "usage.bin"))


def _without_manners(folder: Path) -> None:
    t.fresh(folder / "usage.json")


HELD = timed(spikes)
HIDDEN = both(HELD, fetched(spikes))
#: The kit publishes in lumps: the answers cannot come sooner.
LATE_KIT = both(HELD, published(spikes))
SLOW = timed(after(0, 100))
SLOWER = timed(after(10, 60))
LESS = timed(_a_little_less)
AT_LAST = timed(after(5, 600))
LATE = (published(lambda t_ns: t_ns + 60 * MS), "GENERATOR_LATE")
FEW = (_shorter, "TOO_FEW_SAMPLES")

REJECTS: dict[str, Cases] = {
    "LT-LIMITS:service": [
        (HELD, "OVER_LIMIT"),
        (HIDDEN, "OVER_LIMIT"),
        (both(HELD, noise(3, 5)), "OVER_LIMIT"),
        (both(HELD, _limits(p50=1_000, p99=150_000)), "OVER_LIMIT"),
        FAILED,
    ],
    "LT-SOURCE:service": [
        (HIDDEN, "HIDDEN_WAIT"),
        (both(HIDDEN, noise(3, 5)), "HIDDEN_WAIT"),
        FAILED,
    ],
    "LT-PROBES:service": [
        (_probes_first, "PROBES_FIRST"),
        (both(_probes_first, noisy), "PROBES_FIRST"),
        FAILED,
    ],
    "LT-STEADY:service": [(SLOWER, "NEW_LEVEL"), (both(SLOWER, noise(4, 6)), "NEW_LEVEL"), FAILED],
    "LT-SUSTAINED:service": [
        (_unanswered, "UNANSWERED"),
        (both(_unanswered, noisy), "UNANSWERED"),
        (both(_unanswered, LATE[0]), "UNANSWERED"),
        (LESS, "UNSUSTAINED"),
        (both(LESS, noise(3, 4)), "UNSUSTAINED"),
        FAILED,
    ],
    "LT-RECOVERY:service-recovery": [(AT_LAST, "SLOW_RECOVERY"), FAILED],
    "HO-CORES:pinned": [
        (_usage(affinity=3), "OFF_ITS_CORES"),
        (_usage(affinity=1), "OFF_ITS_CORES"),
        FAILED,
    ],
    "HO-PRIORITY:pinned": [
        (_manner(nice=5), "ANOTHER_PRIORITY"),
        (_manner(policy="SCHED_FIFO"), "ANOTHER_PRIORITY"),
        FAILED,
    ],
}

UNKNOWNS: dict[str, Cases] = {
    "LT-LIMITS:service": [
        (both(HELD, noisy), "HOST_NOISE"),
        (both(HELD, _hiccups), "HOST_NOISE"),
        (both(timed(after(13, 300)), noise(12, 17)), "HOST_NOISE"),
        (LATE_KIT, "GENERATOR_LATE"),
        (both(published(lambda t_ns: t_ns + 3 * MS), _limits(p50=5_000)), "KIT_FLOOR"),
        LATE, FEW,
    ],
    "LT-SOURCE:service": [
        (HELD, "NOT_SEEN"),
        (both(HIDDEN, noisy), "HOST_NOISE"),
        LATE, FEW,
    ],
    "LT-PROBES:service": [
        (both(SLOW, noisy), "HOST_NOISE"),
        LATE,
        FEW,
    ],
    "LT-STEADY:service": [
        (both(SLOWER, noisy), "HOST_NOISE"),
        (both(SLOWER, noise(10, 17)), "HOST_NOISE"),
        (both(SLOW, noise(-1, 9)), "HOST_NOISE"),
        LATE,
    ],
    "LT-SUSTAINED:service": [(both(LESS, noisy), "HOST_NOISE"), LATE],
    "LT-RECOVERY:service-recovery": [
        (both(AT_LAST, noisy), "HOST_NOISE"),
        (timed(stall), "HOST_NOISE"),
        (both(AT_LAST, published(after(5, 500))), "GENERATOR_LATE"),
        (t.no_fault, "KILL_MISSED"),
        (t.nothing_in_flight, "NOTHING_IN_FLIGHT"),
        (partial(t.run_json, change=lambda run: run["service"].update(within_s=60)),
         "NO_RECOVERY_SEEN"),
    ],
    "HO-CORES:pinned": [
        (_no_cores, "TOO_FEW_CORES"),
        (_nowhere, "NOT_PINNED"),
        (_one_look, "TOO_FEW_SAMPLES"),
    ],
    "HO-PRIORITY:pinned": [
        (_one_look, "TOO_FEW_SAMPLES"),
        (_without_manners, "TOO_FEW_SAMPLES"),
    ],
}  # fmt: skip
