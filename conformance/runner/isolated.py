"""Plays a scenario with a pace in a process of its own, and watches it from this one.

Only the log server, the publisher and the recorder run in that process: samplers and hiccup
recorders share no interpreter lock with what they measure.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tickproof import conformance
from tickproof.conformance.engines import interruption
from tickproof.conformance.engines import spec as specs
from tickproof.conformance.engines.affinity import on_cores
from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation, Level
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.history import seal
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.usage.hiccups import HiccupRecorders
from tickproof.conformance.usage.sampler import UsageSampler

PR_SET_PDEATHSIG: Final = 1
#: How long a thread that computes may keep the interpreter from one that has to publish.
SWITCH_S: Final = 0.0002
#: How long the other process may take to end an engine after Ctrl-C.
INTERRUPTED_S: Final = 60
_SAMPLES: Final = re.compile(r"(usage|machine|others|hiccups-.*)\.(bin|json)")
_STOPPED: Final = "tickproof-stopped: "
#: What the other process runs. It finds the kit where this one did, whatever its folder holds;
#: the environment stays as it is, as the engine inherits it.
_START: Final = """
import sys
sys.path.append(sys.argv[1])
from tickproof.conformance.engines.loading import loading
with loading():
    from tickproof.conformance.runner.isolated import main
sys.exit(main(int(sys.argv[2])))
"""


def play_isolated(
    scenario: Scenario,
    spec: EngineSpec,
    folder: Path,
    *,
    seed: int,
    port: int = 0,
    isolation: Isolation = UNPROTECTED,
) -> None:
    """Run ``scenario`` as `runner.run.play` does, and raise as it does.

    KitStopped too where usage or hiccups could not be recorded; ValueError for a scenario
    without a pace. KafkaUnavailable.
    """
    if scenario.pace is None:
        raise ValueError(f"scenario {scenario.name}: expected a pace")
    folder.mkdir(parents=True)
    cores = scenario.pace.kit_cores or tuple(sorted(os.sched_getaffinity(0)))
    stopped = ""
    try:
        with (
            HiccupRecorders(folder, cores) as recorders,
            UsageSampler(folder, kit=_brokers(spec, scenario.pace)),
        ):
            job = {
                "scenario": scenario.to_json(),
                "engine": str(spec.path),
                "seed": seed,
                "folder": str(folder),
                "port": port,
                "level": isolation.level,
                "hosts": isolation.hosts,
                "hidden": [str(hidden) for hidden in isolation.hidden],
                "around": [str(around) for around in isolation.around],
                "cores": _placement(scenario.pace) | {"refused": recorders.refused},
            }
            with on_cores(scenario.pace.kit_cores):  # threads of libraries start there too
                child = _start()
            said = _finish(child, json.dumps(job).encode())
            stopped = _reason(folder, child.returncode, said)
    except OSError as error:
        stopped = stopped or f"the run in {folder} cannot go on: {error}"
    else:
        # Samples go on until the run has ended and was sealed.
        seal.renew(folder, *(name for name in seal.names(folder) if _SAMPLES.fullmatch(name)))
    if stopped:
        raise KitStopped(stopped)


def _brokers(spec: EngineSpec, pace: Pace) -> list[int]:
    """Return the pid of the kit's broker, if the engine needs one: it outlives the run."""
    if spec.kafka is None:
        return []
    from tickproof.conformance.kafka import shared_broker

    with on_cores(pace.kit_cores):  # what this starts stays there
        return [pid for pid in [shared_broker.address().pid] if pid]


def _reason(folder: Path, status: int, said: str) -> str:
    """Say why the other process did not play to the end, or ""."""
    if not status:
        return ""
    *_, last = said.strip().splitlines() or [""]
    if last.startswith(_STOPPED):
        return str(json.loads(last.removeprefix(_STOPPED)))
    return f"the process that played {folder} ended ({status}): {said or 'it said nothing'}"


def _start() -> subprocess.Popen[bytes]:
    """Start the other process, out of reach of Ctrl-C at the terminal; `_finish` passes it on."""
    root = Path(conformance.__file__).parents[2]
    command = [sys.executable, "-P", "-c", _START, str(root), str(os.getpid())]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)


def _finish(child: subprocess.Popen[bytes], job: bytes) -> str:
    """Wait for the other process; where this one is stopped let it end its engine first."""
    try:
        return child.communicate(job)[1].decode("utf-8", "backslashreplace")
    except KeyboardInterrupt:
        child.send_signal(interruption.to_pass_on())
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(INTERRUPTED_S)
        raise
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def _placement(pace: Pace) -> dict[str, Any]:
    """Return where kit and engine run."""
    everywhere = sorted(os.sched_getaffinity(0))
    kit, engine = list(pace.kit_cores) or everywhere, list(pace.engine_cores) or everywhere
    return {"kit": kit, "engine": engine, "shared": bool(set(kit) & set(engine))}


def _settle() -> None:
    """Keep this process from pausing."""
    sys.setswitchinterval(SWITCH_S)
    gc.collect()
    gc.freeze()
    gc.disable()


def main(parent: int) -> int:
    """Play the job on stdin; 1 where the kit stopped, with the reason as last line of stderr."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    interruption.listen_as_worker()
    if os.getppid() != parent:
        return 1  # it died before prctl could ask for the signal
    job = json.load(sys.stdin)
    scenario, folder = Scenario.from_json(job["scenario"]), Path(job["folder"])
    # An engine that falls behind is measured to the end: a limit of engine.toml would hide by how
    # much it does.
    spec = specs.load(Path(job["engine"])).patient(scenario.recipe["records"])
    _settle()
    try:
        play(
            scenario,
            spec,
            folder,
            seed=job["seed"],
            port=job["port"],
            isolation=Isolation(
                Level(job["level"]),
                tuple(map(Path, job["hidden"])),
                job["hosts"],
                around=tuple(map(Path, job["around"])),
            ),
            facts={"cores": job["cores"]},
            usage=None,
        )
    except (KitStopped, OSError) as error:
        print(_STOPPED + json.dumps(str(error)), file=sys.stderr)
        return 1
    return 0
