"""What an engine in a sandbox sees says nothing of its seed, its scenario or its faults."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path

import pytest

from tickproof.conformance.engines import isolation
from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.engines.spec import load
from tickproof.conformance.resources import fixtures

SEEDS = (9174653, 8265741)
SECRET = "5ca1ab1e0ddba11"
SCENARIOS = {"SL-PASSTHROUGH": "passthrough", "SL-ONE-WORKER": "stdin-eof"}
#: All that may differ from one run to another: what is drawn at random, and counters.
RANDOM = {
    r"\btickproof-\w{8}\b": "WORKSPACE",
    r"\b[0-9a-f]{32}\b": "RUN-ID",
    r"/[uw]\d+\b": "/LAYER",
    r"\b\d+\b": "N",  # numbers of mounts, ports and descriptors
}
MOUNTS = Path("/proc/self/mountinfo")


def of_this_machine() -> set[str]:
    """Return where this machine has file systems now: others may mount some at any time."""
    return {line.split()[4] for line in MOUNTS.read_text().splitlines()} - {"/"}


def neutral(look: dict, others: set[str]) -> dict:
    """Return what was seen without what is random, and without mounts of the machine."""
    files = dict(look["files"])
    for path in (path for path in files if path.endswith(MOUNTS.name)):
        lines = files[path].splitlines()
        files[path] = [line for line in lines if line.split()[4] not in others]
    text = json.dumps(look | {"files": files}, sort_keys=True).replace(r"\u0000", " ")
    for pattern, name in RANDOM.items():
        text = re.sub(pattern, name, text)
    return json.loads(text)


def test_what_is_in_sight_depends_on_nothing(sessions):
    argv = ["{python}", str(fixtures() / "rogues" / "data_rogue.py"), "Sees", str(sessions.folder)]
    engine = sessions.toml("Sees", argv)
    if why := isolation.obstacle(Level.SANDBOX, load(engine)):
        pytest.skip(f"no sandbox here: {why}")
    others = of_this_machine()
    for seed in SEEDS:
        words = ("--seed", seed, "--secret", SECRET, "--isolation", "sandbox", "--out", "out")
        done = sessions.tickproof("run", engine, "--only", ",".join(SCENARIOS), *words, "-n", 1)
        assert done.status == 0, done.out + done.err
        others |= of_this_machine()
    looks = [
        json.loads((run / "stderr.log").read_text().splitlines()[0])
        for run in sessions.runs()
        if run.name in SCENARIOS.values()
    ]
    assert len(looks) == len(SEEDS) * len(SCENARIOS)
    unseen = [*map(str, SEEDS), SECRET, *SCENARIOS, *SCENARIOS.values(), "live.jsonl"]
    for look in looks:
        assert look["host"] == "localhost"
        assert look["modules"] == ["tickproof.reference.apps"]
        assert str(sessions.folder / "engines") in look["walked"]
        assert [path for path in look["walked"] if "/out/" in path] == []
        look["folders"].pop("/tmp", None)  # others write there, too
        said = json.dumps(look)
        assert [word for word in unseen if word in said] == []
    for one, other in itertools.pairwise(neutral(look, others) for look in looks):
        for part in ("files", "walked"):
            assert one[part] == other[part]
    assert sys.executable in looks[0]["files"]["/proc/self/cmdline"]
