"""The kit dies in the middle of a run, in whatever way: no engine process is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import psutil
import pytest

from tests.long import few
from tickproof import conformance

KIT = """
import sys
from pathlib import Path
from tickproof.conformance.engines import spec
from tickproof.conformance.engines.process import Engine
from tickproof.conformance.engines.workspace import Workspace

toml, run_id, folder = sys.argv[1:]
workspace = Workspace()
stderr = Path(folder, "stderr.log")
with Engine(spec.load(Path(toml)), run_id, stderr, lambda *_: None, workspace) as engine:
    engine.start()
    engine.request("hello", 20, protocol=1)
    engine.request("deploy", 20, workers=3)
    print("ready", workspace.root, flush=True)
    try:
        engine.wait_exit(60)
    finally:
        workspace.remove()
"""


@pytest.fixture
def kit(workshop, tmp_path, rogue_path, request):
    """Start a kit process with a live engine; give (process, run id, workspace)."""
    run_id = uuid.uuid4().hex
    workshop.run_ids.append(run_id)
    toml = workshop.toml(["{python}", str(rogue_path), request.param])
    root = Path(conformance.__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", KIT, str(toml), run_id, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(root), "TMPDIR": str(tmp_path)},
        text=True,
    )
    with process:
        word, workspace = process.stdout.readline().split()
        assert word == "ready"
        yield process, run_id, Path(workspace)
        process.kill()


@pytest.mark.parametrize("kit", ["polite", "detaches", "stubborn"], indirect=True)
@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
def test_no_process_outlives_the_kit(kit, number, carriers, eventually):
    process, run_id, workspace = kit
    assert carriers(run_id) and workspace.is_dir()
    process.send_signal(number)
    _, complaint = process.communicate(timeout=30)
    assert process.returncode == -number
    assert ("KeyboardInterrupt" in complaint) == (number == signal.SIGINT)
    assert eventually(lambda: not carriers(run_id))
    if number != signal.SIGINT:  # then the kit could have removed it itself
        assert eventually(lambda: not workspace.exists())


@pytest.mark.parametrize("kit", ["polite"], indirect=True)
def test_ctrl_c_has_ended_the_engine_before_the_kit_exits(kit, carriers):
    process, run_id, _ = kit
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert carriers(run_id) == []


@pytest.mark.parametrize("kit", ["polite"], indirect=True)
def test_a_stopped_engine_does_not_outlive_the_kit_either(kit, carriers, eventually):
    process, run_id, _ = kit
    for pid in carriers(run_id):
        os.kill(pid, signal.SIGSTOP)
    process.kill()
    assert eventually(lambda: not carriers(run_id))


@pytest.mark.parametrize("kit", ["polite"], indirect=True)
def test_argv_s_process_dies_with_the_reaper_and_the_kit(kit, carriers, eventually):
    process, run_id, _ = kit
    (reaper,) = psutil.Process(process.pid).children()
    os.kill(process.pid, signal.SIGSTOP)  # so that it cannot help
    reaper.kill()
    # The workers are the engine's to end (they read a pipe); its own process is the kit's.
    assert eventually(lambda: not carriers(run_id))
