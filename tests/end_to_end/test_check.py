"""`tickproof check RUN`: the same verdict from disk, and a clear word on a damaged folder."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from tests.long import LONG
from tickproof.conformance.cli.main import cli
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import seal
from tickproof.conformance.session.judging import recheck

SAME = ("requirement", "verdict", "scenario", "reason", "expected", "actual", "stimulus")


def _verdicts(rows):
    return {row["requirement"]: {key: row[key] for key in SAME} for row in rows}


@LONG
def test_every_run_of_a_session_gives_its_verdict_again(sessions):
    done = sessions.tickproof(
        "run",
        "miniature",
        "--tier",
        0,
        "--tier",
        1,
        "--only",
        "PR-TOKEN,PR-DRAIN-WAITS,PR-STDIN-EOF,SL-PASSTHROUGH,SL-DOUBLE,ST-TOTALS",
        "--seed",
        1,
        "--out",
        "out",
        "-n",
        2,
    )
    assert done.status == 0
    assert len(sessions.runs()) >= 5

    for run in sessions.runs():
        saved = json.loads((run / "verdict.json").read_text())
        assert _verdicts(row.to_json() for row in recheck(run)) == _verdicts(saved)
        assert not (run / "input").exists()


@LONG
def test_a_failing_run_gives_its_verdict_again(sessions):
    engine = sessions.rogue("DeafGap")
    engine.write_text(engine.read_text() + '[known_gaps]\nPR-SEQUENCE = "not numbered yet"\n')
    done = sessions.judge([engine], "PR-SEQUENCE", "SL-PASSTHROUGH", "PR-TOKEN")
    assert done.status == 1

    verdicts, statuses = {}, set()
    for run in sessions.runs():
        saved = json.loads((run / "verdict.json").read_text())
        again = _verdicts(row.to_json() for row in recheck(run))
        assert again == _verdicts(saved)
        verdicts |= {id_: row["verdict"] for id_, row in again.items()}
        statuses.add(sessions.tickproof("check", run).status)
    assert verdicts == {"PR-SEQUENCE": "known-gap", "SL-PASSTHROUGH": "fail", "PR-TOKEN": "pass"}
    assert statuses == {0, 1}


@pytest.fixture(scope="module")
def played(tmp_path_factory, polite_run):
    return polite_run(tmp_path_factory.mktemp("played"))


@pytest.fixture
def run(played, tmp_path):
    """A copy of a good run, to be damaged."""
    return shutil.copytree(played, tmp_path / "run")


def _check(run):
    done = CliRunner().invoke(cli, ["check", str(run)])
    return done.exit_code, " ".join(done.output.split())


def test_the_run_is_good_before_it_is_damaged(run):
    assert [row.verdict for row in recheck(run)] == ["pass", "pass"]


@pytest.mark.parametrize(
    "name", ["output/s0.log", "output/s0.arrivals", "fetches.bin", "events.jsonl", "control.jsonl"]
)
def test_a_file_that_was_cut_is_named(run, name):
    size = (run / name).stat().st_size
    for left in (size - 1, size // 2, 0):
        (run / name).write_bytes((run / name).read_bytes()[:left])
        status, said = _check(run)
        assert status == 2
        assert f"{run / name}: changed after it was recorded" in said
    (run / name).unlink()
    assert _check(run)[0] == 2


def test_a_cut_run_json_is_named(run):
    path = run / "run.json"
    text = path.read_text()
    for left in range(0, len(text) - 2, 97):
        path.write_text(text[:left])
        status, said = _check(run)
        assert (status, f"{path}: not JSON" in said) == (2, True), left


@pytest.mark.parametrize("key", ["format", "scenario", "claims", "input", "engine"])
def test_a_run_json_without_a_key_is_refused(run, key):
    record = json.loads((run / "run.json").read_text())
    del record[key]
    (run / "run.json").write_text(json.dumps(record))
    seal.write(run, {})
    status, said = _check(run)

    assert status == 2
    assert f"{run / 'run.json'}: {key}" in said


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    status, said = _check(tmp_path)

    assert status == 2
    assert "expected a run folder" in said


def test_a_recipe_that_gives_other_bytes_is_refused_each_time(run):
    record = json.loads((run / "run.json").read_text())
    record["input"]["recipe"]["seed"] += 1
    (run / "run.json").write_text(json.dumps(record))
    seal.write(run, {})

    for _ in range(2):
        with pytest.raises(HistoryError, match="it has other bytes than in the run"):
            recheck(run)
    assert not (run / "input").exists()
