"""Plays a scenario with a pace in a process of its own, and watches it from this one.

In the other process nothing goes on but the log server, the publisher and the recorder:
samplers and hiccup recorders share no interpreter lock with what they measure.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from conformance.bench_engines.plan import patient
from conformance.engines import spec as specs
from conformance.engines.proctable import descendants, table
from conformance.engines.spec import EngineSpec
from conformance.latency.pace import Pace
from conformance.runner import KitStopped, play
from conformance.scenario import Scenario
from conformance.usage.hiccups import HiccupRecorders
from conformance.usage.sampler import UsageSampler

PR_SET_PDEATHSIG: Final = 1
#: How long a thread that computes may keep the interpreter from one that has to publish.
SWITCH_S: Final = 0.0002
#: How long the other process may take to end an engine after Ctrl-C.
INTERRUPTED_S: Final = 60
_STOPPED: Final = "tickproof-stopped: "


def play_apart(scenario: Scenario, spec: EngineSpec, folder: Path, *, seed: int) -> None:
    """Run ``scenario`` as `conformance.runner.play` does; see there for what is raised.

    A scenario without a pace is a ValueError.
    """
    if scenario.pace is None:
        raise ValueError(f"scenario {scenario.name}: expected a pace")
    folder.mkdir(parents=True)
    job = {"scenario": scenario.to_json(), "engine": str(spec.path), "folder": str(folder),
           "seed": seed}  # fmt: skip
    cores = scenario.pace.kit_cores or tuple(sorted(os.sched_getaffinity(0)))
    with HiccupRecorders(folder, cores):
        child = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with UsageSampler(folder, lambda: _reapers(child.pid)):
            said = _finished(child, json.dumps(job).encode())
    if child.returncode:
        *_, last = said.strip().splitlines() or ["no word of it"]
        if last.startswith(_STOPPED):
            raise KitStopped(json.loads(last.removeprefix(_STOPPED)))
        raise KitStopped(f"the process that played {folder} ended ({child.returncode}): {said}")


def _finished(child: subprocess.Popen[bytes], job: bytes) -> str:
    """Wait for the other process; on Ctrl-C let it end its engine first."""
    try:
        return child.communicate(job)[1].decode("utf-8", "backslashreplace")
    except KeyboardInterrupt:
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(INTERRUPTED_S)
        raise
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _reapers(kit: int) -> list[int]:
    """Return the children of the process that plays: each is above one engine."""
    return [proc.pid for proc in descendants(table(), kit) if proc.ppid == kit]


def _settle(pace: Pace) -> dict[str, Any]:
    """Place this process and keep it from pausing; return where kit and engine run."""
    everywhere = sorted(os.sched_getaffinity(0))
    if pace.kit_cores:
        os.sched_setaffinity(0, pace.kit_cores)
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.disable()
    kit, engine = list(pace.kit_cores) or everywhere, list(pace.engine_cores) or everywhere
    return {"kit": kit, "engine": engine, "shared": bool(set(kit) & set(engine))}


def main() -> int:
    """Play the job on stdin; 1 where the kit stopped, with the reason as last line of stderr."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    job = json.load(sys.stdin)
    scenario, folder = Scenario.from_json(job["scenario"]), Path(job["folder"])
    assert scenario.pace is not None
    # What falls behind is measured to its end: a limit of engine.toml would hide by how much.
    spec = patient(specs.load(Path(job["engine"])), scenario.recipe["records"])
    try:
        play(scenario, spec, folder, seed=job["seed"],
             facts={"cores": _settle(scenario.pace)}, usage=False)  # fmt: skip
    except (KitStopped, OSError) as error:
        print(_STOPPED + json.dumps(str(error)), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
