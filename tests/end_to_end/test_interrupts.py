"""Ctrl-C and the death of the kit in mid-run: one line, no process left, runs that open."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.long import LONG

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


@pytest.mark.parametrize("workers", [pytest.param(1, marks=LONG), 2])
def test_ctrl_c(sessions, wait_until, workers):
    process = _started(sessions, wait_until, workers)
    os.killpg(process.pid, signal.SIGINT)
    done = sessions.ended(process)

    assert done.status == 130
    (line,) = done.err.split("\n")[-2:-1]
    assert done.err.strip() == line
    assert line.startswith(
        "tickproof: interrupted with Ctrl-C: 0 requirements decided, runs kept in out/"
    )
    assert "Traceback" not in done.out
    assert wait_until(lambda: not sessions.processes(), 10)
    assert len(sessions.runs()) == workers
    for run in sessions.runs():
        again = sessions.tickproof("check", run)
        assert again.status == 4
        assert "interrupted with Ctrl-C" in " ".join(again.out.split())
        assert "fail" not in again.out.split()


def _ended_as_asked(sessions, wait_until, runs: int, why: str) -> None:
    assert wait_until(lambda: not sessions.processes(), 10)
    assert len(sessions.runs()) == runs
    for run in sessions.runs():
        ended = json.loads((run / "run.json").read_text())["ended"]
        assert (ended["how"], ended["message"]) == ("kit-error", why)


@pytest.mark.parametrize(("workers", "group"), [(1, False), (2, False), (2, True)])
def test_sigterm_ends_a_session_as_ctrl_c_does(sessions, wait_until, workers, group):
    process = _started(sessions, wait_until, workers)
    (os.killpg if group else os.kill)(process.pid, signal.SIGTERM)
    done = sessions.ended(process)

    assert done.status == 143
    assert done.err.strip().startswith(
        "tickproof: ended by SIGTERM: 0 requirements decided, runs kept in"
    )
    assert "Traceback" not in done.out + done.err
    _ended_as_asked(sessions, wait_until, workers, "ended by SIGTERM")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=LONG), 2])
def test_a_session_ends_when_nobody_reads_its_output(sessions, wait_until, workers):
    process = sessions.start(
        "run", sessions.rogue("Polite"), "--only", ONLY, "--out", "out", "-n", workers, "-v"
    )
    assert process.stdout.readline().startswith("seed")
    process.stdout.close()
    process.stdout = None
    done = sessions.ended(process)

    assert done.status == 141
    assert "Traceback" not in done.err
    assert wait_until(lambda: not sessions.processes(), 10)


@pytest.mark.parametrize("arguments", [["requirements"], ["requirements", "--json"], ["--help"]])
def test_a_list_that_nobody_reads_is_no_error(sessions, arguments):
    read, write = os.pipe()
    os.close(read)
    process = sessions.start(*arguments, stdout=write)
    os.close(write)
    assert process.wait(60) == 141
    said = process.stderr.read().strip()
    assert said in ("", "tickproof: ended because its output was closed")


@pytest.mark.parametrize("workers", [pytest.param(1, marks=LONG), 2])
def test_no_process_outlives_a_killed_kit(sessions, wait_until, workers):
    process = _started(sessions, wait_until, workers)
    process.kill()

    assert wait_until(lambda: not sessions.processes(), 10)
    again = sessions.tickproof("check", sessions.runs()[0])
    assert again.status == 4
    assert "fail" not in again.out.split()
