"""Hosts that have been up for different times: a clock of their own, where the kernel has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tickproof.conformance.engines import sandbox

AHEAD_S = 100_000
#: Prints by how much the clock of this process, and of what it starts, has been set ahead.
SHIFTED = """
import subprocess, sys, time
sys.path.append(sys.argv[1])
import sandbox
before = time.monotonic()
sandbox.set_uptime_ahead(int(sys.argv[2]))
print(time.monotonic() - before)
said = subprocess.run([sys.executable, "-c", "import time; print(time.monotonic())"],
                      capture_output=True, text=True, check=True).stdout
print(float(said) - before)
"""


def test_a_process_and_what_it_starts_have_been_up_for_longer():
    folder = Path(sandbox.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", SHIFTED, str(folder), str(AHEAD_S)],
        capture_output=True,
        text=True,
        check=False,
    )
    why = done.stderr.splitlines()[-1:]
    if why and why[0].startswith(("OSError", "PermissionError")):
        pytest.skip(why[0])
    own, child = map(float, done.stdout.split())
    assert AHEAD_S <= own <= child < AHEAD_S + 60
