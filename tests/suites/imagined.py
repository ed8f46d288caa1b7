"""Runs of tier 5 with an imagined engine: it fetches after 1 ms and answers after 3 ms.

Made by hand, so that no test of a judge depends on how quiet this machine is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from tickproof.conformance.checkers.arrays import pieces
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.event import PartitionState
from tickproof.conformance.history.events import FiredFault, Started
from tickproof.conformance.history.rows import FETCH, HICCUP, MACHINE, PUBLISH, RELEASE, USAGE
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.session.playing import add_facts
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT, MESSAGE, ORDER, VERDICT, opaque

T0: Final = 7_000_000_000
SECOND: Final = 1_000_000_000
MS: Final = 1_000_000
#: Enough for p99.9, and for a hundred rejected orders.
RATE: Final = 4_000
PIDS: Final = (4_001, 4_002, 4_003)


def smaller(scenario: Scenario) -> Scenario:
    """Return a scenario of tier 5 at a lower rate, with the same seconds and the same cores."""
    assert scenario.pace is not None
    assert scenario.rate is not None
    recipe = dict(scenario.recipe)
    tick = RATE * scenario.pace.tick_us // 1_000_000
    recipe |= {"records": recipe["records"] // recipe["tick"] * tick, "tick": tick}
    if "probe_one_in" in recipe:
        recipe |= {"probe_one_in": 2, "reject_one_in": 20, "rate": RATE}
    pace = scenario.pace
    if scenario.name == "pinned":  # whatever this machine has
        pace = Pace(pace.tick_us, pace.warm_up_s, (0,), (1,))
    return replace(scenario, recipe=recipe, rate=float(RATE), pace=pace)


def play(scenario: Scenario, spec: EngineSpec, folder: Path, *, seed: int) -> None:
    """Write the run folder of a scenario of tier 5."""
    pace = scenario.pace
    assert pace is not None
    cores = {
        "kit": list(pace.kit_cores) or [0, 1],
        "engine": list(pace.engine_cores) or [0, 1],
        "shared": not pace.kit_cores,
    }
    run = RunFolder(
        folder,
        scenario,
        id="imagined",
        seed=seed,
        cores=cores,
        engine={"name": spec.name, "version": spec.version, "language": spec.language},
        claims=spec.claims(scenario.app, scenario.params).to_json(),
    )
    due = run.timetable(T0, pace.tick_ns, late_ns=50_000)
    plan = run.built.plan.astype(np.int64)
    _move(run, plan, due)
    run.events(Started(t_ns=T0, pid=PIDS[0]), *(_kill(step, plan, due) for step in scenario.faults))
    _watch(run, T0 + len(due) * pace.tick_ns, 2 if pace.kit_cores else 3)
    _answer(run, plan, due)
    run.seal()
    add_facts(run.history(), spec)


def _move(run: RunFolder, plan: np.ndarray, due: np.ndarray) -> None:
    """Write that each tick was published, fetched, and 100 ms later released."""
    # Each partition at a moment of its own, as connections have.
    columns = np.arange(plan.shape[1])
    t_ns = (due[:, None] + columns).reshape(-1)
    partition, base, end = np.tile(columns, len(due)), plan[:-1].reshape(-1), plan[1:].reshape(-1)
    place = [np.zeros_like(partition), partition]
    run.tables(
        publishes=np.rec.fromarrays([t_ns + 50_000, *place, end], dtype=PUBLISH),
        fetches=np.rec.fromarrays([t_ns + MS, *place, base, end], dtype=FETCH),
        releases=np.rec.fromarrays([t_ns + 100 * MS, *place, end], dtype=RELEASE),
    )


def _kill(step: FaultStep, plan: np.ndarray, due: np.ndarray) -> FiredFault:
    tick = int(step.fraction * len(due))
    states = [
        PartitionState(0, number, int(plan[-1][number]), int(end), int(end), 0)
        for number, end in enumerate(plan[tick])
    ]
    return FiredFault(
        step=step,
        t_ns=int(due[tick]),
        struck_ns=T0,
        moment="",
        text=str(fault_of(step)),
        outputs=0,
        pids=PIDS,
        partitions=tuple(states),
    )


def _watch(run: RunFolder, end_ns: int, mask: int) -> None:
    """Write what recorders and samplers saw: nothing else went on."""
    wakes = np.zeros((end_ns + SECOND - T0) // MS + 500, HICCUP)
    wakes["t_ns"] = T0 - 500 * MS + MS * np.arange(len(wakes))
    run.hiccups(0, wakes)
    looks = T0 - SECOND // 2 + SECOND * np.arange((end_ns - T0) // SECOND + 3)
    machine = np.zeros(len(looks), MACHINE)
    machine["t_ns"], machine["pressure_us"] = looks, -1
    usage = np.zeros((len(looks), len(PIDS)), USAGE)
    usage["t_ns"], usage["pid"], usage["affinity"] = looks[:, None], PIDS, mask
    usage["core"] = 1
    run.tables(machine=machine, usage=usage.reshape(-1))
    roles = ("coordinator", "worker", "worker")
    manner = {"name": "python", "policy": "SCHED_OTHER", "nice": 0}
    found = {str(pid): manner | {"role": role} for pid, role in zip(PIDS, roles, strict=True)}
    (run.folder / "usage.json").write_text(json.dumps(found))


def _answer(run: RunFolder, plan: np.ndarray, due: np.ndarray) -> None:
    """Write an answer to each record (of a market: to each order), 3 ms after it was due."""
    history = run.history()
    dtype = {"count": COUNT_IN, "market-spread": MESSAGE}.get(history.app)
    inputs = history.inputs(dtype or opaque(history.partitions[0].record_size))
    found = [_outputs(history.app, part) for part in inputs]
    ticks = np.concatenate(
        [
            np.searchsorted(plan[1:, number], offsets, "right")
            for number, (offsets, _) in enumerate(found)
        ]
    )
    order = np.argsort(ticks, kind="stable")
    payloads = np.concatenate([rows for _, rows in found])[order]
    t_ns = due[ticks[order]] + 3 * MS
    run.outputs(output_log(payloads, t_ns=t_ns, first_seq=np.arange(len(payloads))))


def _outputs(app: str, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and outputs of a partition."""
    if app == "market-spread":
        places, ids = [], []
        for start, piece in pieces(part):
            orders = np.array(piece).view(ORDER)
            places.append(start + np.flatnonzero(orders["kind"] == 1))
            ids.append(orders["order_id"][orders["kind"] == 1])
        rows = np.zeros(sum(map(len, ids)), VERDICT)
        rows["order_id"], rows["verdict"] = np.concatenate(ids), 1
        return np.concatenate(places), rows
    if app == "passthrough":
        return np.arange(len(part)), np.array(part)
    rows = np.zeros(len(part), COUNT_OUT)
    order = np.argsort(part["key"], kind="stable")
    keys = part["key"][order]
    heads = np.searchsorted(keys, keys)
    rows["key"], rows["n"][order] = part["key"], np.arange(len(part)) - heads + 1
    return np.arange(len(part)), rows
