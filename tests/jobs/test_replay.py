"""A job's run is played again: the same faults find the same mistake, in a pack of it too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.jobs.twins import copy
from tests.kafka.presence import expect_broker
from tickproof.conformance.history import job_run
from tickproof.conformance.session.pack import writer


def test_the_faults_of_a_run_are_played_again(
    tmp_path: Path, tickproof: Callable[..., tuple[int, str]]
) -> None:
    expect_broker()
    job, out = copy("totals-sql", tmp_path, twin="late"), tmp_path / "out"

    def run(*words: object) -> str:
        status, printed = tickproof(*words, "--out", out)
        assert status == 1, printed
        return printed

    run("run", job.path, "--only", "JB-COMMIT", "--seed", 3)
    (folder,) = out.glob("*/runs/*/commit")
    packed = writer.pack(folder, tmp_path / "run.tickproof.zip").path
    said = run("replay", packed, job.path, "--times", 2)
    assert "JB-COMMIT ✗ fail ✗ fail 2 of 2" in " ".join(said.split())
    replayed = sorted(out.glob("*/replays/*/commit-*"))
    asked = job_run.read(folder).strikes
    assert asked
    assert [job_run.read(one).strikes for one in replayed] == [asked, asked]
