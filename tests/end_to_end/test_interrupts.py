"""Ctrl-C and the death of the kit in mid-run: one line, no process left, runs that open."""

from __future__ import annotations

import os
import signal

import pytest

ONLY = "SL-PASSTHROUGH,PR-DRAIN-WAITS"


def _started(sessions, wait_until, workers):
    """Start a session on an engine that never drains; return it in mid-run."""
    process = sessions.start(
        "run", sessions.rogue("NeverDrains", drain=600), "--only", ONLY, "--seed", 1,
        "--out", "out", "-n", workers,
    )  # fmt: skip

    def asked() -> int:
        events = sessions.folder.glob("out/*/runs/*/*/events.jsonl")
        return sum('"drain-asked"' in path.read_text() for path in events)

    assert wait_until(lambda: asked() == workers, 60)
    assert sessions.processes()
    return process


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c(sessions, wait_until, workers):
    process = _started(sessions, wait_until, workers)
    os.killpg(process.pid, signal.SIGINT)
    done = sessions.ended(process)

    assert done.status == 130
    (line,) = done.err.split("\n")[-2:-1]
    assert done.err.strip() == line
    assert line.startswith("tickproof: interrupted: 0 requirements decided, runs kept in out/")
    assert "Traceback" not in done.out
    assert wait_until(lambda: not sessions.processes(), 10)
    assert len(sessions.runs()) == workers
    for run in sessions.runs():
        again = sessions.tickproof("check", run)
        assert again.status == 4
        assert "interrupted with Ctrl-C" in " ".join(again.out.split())
        assert "fail" not in again.out.split()


@pytest.mark.parametrize("workers", [1, 2])
def test_no_process_outlives_a_killed_kit(sessions, wait_until, workers):
    process = _started(sessions, wait_until, workers)
    process.kill()

    assert wait_until(lambda: not sessions.processes(), 10)
    again = sessions.tickproof("check", sessions.runs()[0])
    assert again.status == 4
    assert "fail" not in again.out.split()
