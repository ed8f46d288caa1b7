"""Runs of tier 5 with an imagined engine: it fetches after 1 ms and answers after 3 ms.

Made by hand, so that no test of a judge depends on how quiet this machine is.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tickproof import generators
from tickproof.conformance.checkers.arrays import pieces
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.outputs import ARRIVAL
from tickproof.conformance.history.rows import FETCH, HICCUP, MACHINE, PUBLISH, RELEASE, USAGE
from tickproof.conformance.runner.manifest import Manifest
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.session.scenario_player import add_facts
from tickproof.generators.layouts import (
    COUNT_IN,
    COUNT_OUT,
    MESSAGE,
    ORDER,
    VERDICT,
    framed,
    opaque,
)

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
    assert scenario.pace is not None
    folder.mkdir(parents=True)
    manifest = Manifest(scenario, spec, folder, "imagined", seed)
    built = generators.build(scenario.recipe, folder / "input")
    manifest.add_input(built)
    ticks, tick_ns = len(built.plan) - 1, scenario.pace.tick_ns
    cores = {"kit": list(scenario.pace.kit_cores) or [0, 1],
             "engine": list(scenario.pace.engine_cores) or [0, 1],
             "shared": not scenario.pace.kit_cores}  # fmt: skip
    manifest.add(pace={"t0_ns": T0, "tick_ns": tick_ns, "ticks": ticks}, cores=cores)
    due = T0 + tick_ns * np.arange(ticks, dtype=np.int64)
    (due + 50_000).astype("<i8").tofile(folder / "ticks.bin")
    _moved(folder, built.plan.astype(np.int64), due)
    events: list[dict[str, Any]] = [{"event": "started", "pid": PIDS[0]}]
    if scenario.faults:
        events.append(_kill(scenario, built.plan, due))
    rows = [{"t_ns": T0} | row for row in events]
    (folder / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "control.jsonl").write_text("")
    _watched(folder, T0 + ticks * tick_ns, 2 if scenario.pace.kit_cores else 3)
    (folder / "output").mkdir()
    manifest.finish({"how": "completed"}, [], {})  # so that the input can be read
    _answered(folder, History(folder), built.plan.astype(np.int64), due)
    manifest.finish({"how": "completed"}, [], {})
    add_facts(History(folder), spec)


def _moved(folder: Path, plan: np.ndarray, due: np.ndarray) -> None:
    """Write that each tick was published, fetched, and 100 ms later released."""
    ticks, columns = len(due), plan.shape[1]
    for name, dtype, after in (
        ("publishes", PUBLISH, 50_000), ("fetches", FETCH, MS), ("releases", RELEASE, 100 * MS),
    ):  # fmt: skip
        rows = np.zeros((ticks, columns), dtype)
        # Each partition at a moment of its own, as connections have.
        rows["t_ns"] = due[:, None] + after + np.arange(columns)
        rows["partition"] = np.arange(columns)
        rows["offset" if name == "releases" else "end"] = plan[1:]
        if name == "fetches":
            rows["base"] = plan[:-1]
        rows.reshape(-1).tofile(folder / f"{name}.bin")


def _kill(scenario: Scenario, plan: np.ndarray, due: np.ndarray) -> dict[str, Any]:
    (step,) = scenario.faults
    tick = int(step.fraction * len(due))
    return {
        "event": "fault", "step": step.to_json(), "at_ns": int(due[tick]), "moment": "",
        "outputs": 0, "pids": list(PIDS), "text": str(step),
        "partitions": [[0, number, int(plan[-1][number]), int(end), int(end), 0]
                       for number, end in enumerate(plan[tick])],
    }  # fmt: skip


def _watched(folder: Path, end_ns: int, mask: int) -> None:
    """Write what recorders and samplers saw: nothing else went on."""
    wakes = np.zeros((end_ns + SECOND - T0) // MS + 500, HICCUP)
    wakes["t_ns"] = T0 - 500 * MS + MS * np.arange(len(wakes))
    wakes.tofile(folder / "hiccups-0.bin")
    looks = T0 - SECOND // 2 + SECOND * np.arange((end_ns - T0) // SECOND + 3)
    machine = np.zeros(len(looks), MACHINE)
    machine["t_ns"], machine["pressure_us"] = looks, -1
    machine.tofile(folder / "machine.bin")
    usage = np.zeros((len(looks), len(PIDS)), USAGE)
    usage["t_ns"], usage["pid"], usage["affinity"] = looks[:, None], PIDS, mask
    usage["core"] = 1
    usage.reshape(-1).tofile(folder / "usage.bin")
    roles = ("coordinator", "worker", "worker")
    manner = {"name": "python", "policy": "SCHED_OTHER", "nice": 0}
    found = {str(pid): manner | {"role": role} for pid, role in zip(PIDS, roles, strict=True)}
    (folder / "usage.json").write_text(json.dumps(found))


def _answered(folder: Path, history: History, plan: np.ndarray, due: np.ndarray) -> None:
    """Write an answer to each record (of a market: to each order), 3 ms after it was due."""
    dtype = {"count": COUNT_IN, "market-spread": MESSAGE}.get(history.app)
    inputs = history.inputs(dtype or opaque(history.partitions[0]["record_size"]))
    found = [_outputs(history.app, part) for part in inputs]
    ticks = [np.searchsorted(plan[1:, number], offsets, "right")
             for number, (offsets, _) in enumerate(found)]  # fmt: skip
    order = np.argsort(np.concatenate(ticks), kind="stable")
    payloads = np.concatenate([rows for _, rows in found])[order]
    log = np.zeros(len(payloads), framed(payloads.dtype))
    log["size"], log["payload"] = payloads.dtype.itemsize, payloads
    log.tofile(folder / "output" / "s0.log")
    arrivals = np.zeros(len(log), ARRIVAL)
    arrivals["t_ns"] = due[np.concatenate(ticks)[order]] + 3 * MS
    arrivals["index"], arrivals["count"] = np.arange(len(log)), 1
    arrivals["first_seq"] = np.arange(len(log))
    arrivals.tofile(folder / "output" / "s0.arrivals")


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
