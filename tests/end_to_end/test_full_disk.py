"""A disk that fills while the kit records: the kit's error, never the engine's."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess

import pytest

from tests.long import LONG

LIMIT = 200_000  # bytes a file: less than the output of passthrough, more than any other file


def _limited() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def _expect_kit_error(sessions, done, why):
    assert done.status == 4
    for result in done.results.values():
        assert result["verdict"] == "kit-error"
        assert why in result["actual"]
    (run,) = sessions.runs()
    again = sessions.tickproof("check", run)
    assert again.status == 4
    assert "fail" not in again.out.split()
    assert "Traceback" not in done.out + done.err + again.out + again.err
    return run, " ".join(again.out.split())


@LONG
def test_output_that_cannot_be_recorded(sessions):
    engine = sessions.rogue("Polite")
    done = sessions.tickproof(
        "run",
        engine,
        "--only",
        "SL-PASSTHROUGH,PR-FRAMES",
        "--seed",
        1,
        "--out",
        "out",
        "-n",
        1,
        preexec_fn=_limited,
    )

    run, said = _expect_kit_error(sessions, done, "stopped: File too large")
    assert "stopped: File too large" in said
    assert 0 < (run / "output" / "s0.log").stat().st_size <= LIMIT


def _expect_one_error(done) -> None:
    """Expect the full disk to be told of once, and no requirement to be blamed for it."""
    by_verdict: dict[str, list[dict]] = {}
    for one in done.results.values():
        by_verdict.setdefault(one["verdict"], []).append(one)
    (error,) = by_verdict.pop("kit-error")
    assert error["reason"] == "NO_SPACE"
    assert error["actual"].startswith("no space left on out/")
    assert {one["reason"] for one in by_verdict.pop("unknown", [])} <= {"INTERRUPTED"}
    assert set(by_verdict) <= {"pass"}
    assert "ended early by a full disk after" in done.out
    assert done.out.count("‼ kit-error ") <= 2  # as it came, and in the last line
    assert "Traceback" not in done.out + done.err
    for hint in ("likely", "stderr"):
        assert hint not in done.out


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
def test_a_file_system_that_is_full(sessions):
    small = sessions.folder / "out"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    try:
        engine = sessions.rogue("Polite")
        done = sessions.tickproof("run", engine, "--tier", 0, "--out", "out", "-n", 2)
        assert done.status == 4
        _expect_one_error(done)
        records = {run: json.loads((run / "run.json").read_text()) for run in sessions.runs()}
        # The one that met the full disk may have no room for its end.
        ends = {run: one.get("ended", {"how": "kit-error"})["how"] for run, one in records.items()}
        run = next(run for run, how in ends.items() if how == "kit-error")
        again = sessions.tickproof("check", run)
        # Of one whose input had no room there is nothing to judge.
        assert again.status == (4 if records[run].get("input") else 2)
        assert "fail" not in again.out.split()
        assert sessions.processes() == []
    finally:
        subprocess.run(["umount", str(small)], check=True)
