"""A machine that gives less isolation than the best: the level falls, and the reason is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import few
from tests.machine import needs, no_other_user, no_program
from tickproof import conformance
from tickproof.conformance.resources import fixtures

ROOT = Path(conformance.__file__).parents[2]
MINIMAL = fixtures() / "engines" / "minimal" / "engine.toml"
#: Root with fewer capabilities, as in a container. Without the first two there is no sandbox.
NO_SANDBOX = "-sys_admin,-setfcap"
pytestmark = [
    needs(no_other_user()),  # only root in full has capabilities to give up
    needs(no_program("setpriv")),
]


def without(capabilities: str, *command: str) -> subprocess.CompletedProcess[str]:
    rights = ["setpriv", f"--bounding-set={capabilities}", "--inh-caps=-all"]
    return subprocess.run(
        [*rights, sys.executable, *command],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("capabilities", "said"),
    few(
        [
            ("-all", "folders cannot be given to user"),
            (f"{NO_SANDBOX},-chown", "folders cannot be given to user"),
            (f"{NO_SANDBOX},-setuid", "programs cannot be started as user"),
            (f"{NO_SANDBOX},-setgid", "programs cannot be started as user"),
            (f"{NO_SANDBOX},-kill", "cannot be killed: [Errno 1]"),
        ],
        2,
    ),
)
def test_a_level_that_is_not_allowed_is_not_available(capabilities, said):
    asked = (
        "import json; from pathlib import Path;"
        "from tickproof.conformance.engines import isolation, spec;"
        f"engine = spec.load(Path({str(MINIMAL)!r}));"
        "print(json.dumps({x: isolation.obstacle(x, engine) for x in isolation.Level}))"
    )
    done = without(capabilities, "-c", asked)
    assert done.returncode == 0, done.stderr
    obstacles = json.loads(done.stdout)
    assert said in obstacles["user"]
    assert obstacles["sandbox"] and not obstacles["none"]


def test_root_without_capabilities_judges_without_isolation_and_says_so(tmp_path):
    done = without(
        "-all",
        "-m",
        "tickproof",
        "run",
        str(MINIMAL),
        "--only",
        "SL-PASSTHROUGH",
        "--out",
        str(tmp_path),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "isolation none" in done.stdout
