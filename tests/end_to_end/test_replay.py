"""`tickproof replay RUN [ENGINE]`: the same input and faults again, judged by the same judges."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from tests.long import LONG, few
from tickproof.conformance import resources
from tickproof.conformance.history import seal
from tickproof.conformance.history.folder import History
from tickproof.conformance.session.judging import recheck
from tickproof.conformance.session.pack import opened_run
from tickproof.conformance.session.runs_folder import runs_folder

FAILED = "mutant:offset-not-state"


def played(out):
    """Return the run folders of replays under ``out``, oldest first."""
    return sorted(path.parent for path in out.glob("*/replays/*/run-*/run.json"))


def table(said):
    """Return the rows that begin with the id of a requirement and name two verdicts."""
    return [line.split() for line in said.splitlines() if line.startswith("EO-")]


def same_plan(one, other):
    keys = ("scenario", "seed", "input")
    return [one[key] for key in keys] == [other[key] for key in keys]


@LONG
def test_a_mutant_fails_again_and_the_sound_engine_holds(failed_run, tmp_path, tickproof):
    pack = tmp_path / "a.zip"
    assert tickproof("pack", failed_run, "-o", pack)[0] == 0
    record = json.loads((failed_run / "run.json").read_text())

    status, said = tickproof("replay", pack, FAILED, "--times", 2, "--out", tmp_path / "out")
    assert status == 1
    assert record["input"]["recipe"]["secret"] == "c0ffee"
    (outcome,) = json.loads((failed_run / "verdict.json").read_text())
    assert outcome["reproduce"].endswith("--seed 7 --profile quick --secret c0ffee")
    assert table(said) == [["EO-ENGINE-DEATH", "✗", "fail", "✗", "fail", "2", "of", "2"]]
    assert "run 2 of 2" in said
    assert f"reproduce  tickproof replay {pack} {FAILED}" in said
    runs = played(tmp_path / "out")
    assert [run.name for run in runs] == ["run-1", "run-2"]
    for run in runs:
        history = History(run)
        assert same_plan(json.loads((run / "run.json").read_text()), record)
        assert history.record.engine.name == "miniature+offset-not-state"
        assert [fault.step.target for fault in history.faults] == ["engine"]
        assert [row.verdict for row in recheck(run)] == ["fail"]
        assert not (run / "state").exists()
        assert not (run / "input").exists()

    status, said = tickproof("replay", pack, "miniature", "--out", tmp_path / "sound")
    assert status == 0
    assert table(said) == [["EO-ENGINE-DEATH", "✗", "fail", "✓", "pass"]]
    assert "then    miniature+offset-not-state" in said
    assert "now     miniature 1" in said
    (run,) = played(tmp_path / "sound")
    assert same_plan(json.loads((run / "run.json").read_text()), record)


def test_a_session_can_say_how_often_a_failure_comes_again(tmp_path, tickproof):
    words = ("run", FAILED, "--only", "EO-ENGINE-DEATH", "--seed", 7, "--confirm", 2)
    status, said = tickproof(*words, "--out", tmp_path / "out")
    assert status == 1
    # Its requirement has two scenarios; the one that failed first is replayed.
    assert re.search(r"count-engine-death(-backlog)?: replayed 2 of 2 times", said)
    assert "replays    2 of 2 failed in the same requirement" in said
    again = f"reproduce  tickproof run {FAILED} --only EO-ENGINE-DEATH --seed 7"
    assert again in said


def test_a_folder_knows_its_engine(failed_run, tmp_path, tickproof):
    status, said = tickproof("replay", failed_run, "--out", tmp_path / "out")
    assert status == 1
    assert table(said) == [["EO-ENGINE-DEATH", "✗", "fail", "✗", "fail"]]
    # What was played again is a run like any other.
    (run,) = played(tmp_path / "out")
    assert tickproof("check", run)[0] == 1
    assert tickproof("pack", run, "-o", tmp_path / "again.zip")[0] == 0


def test_a_run_may_be_replayed_from_where_replays_go(tmp_path):
    """Of earlier folders the newest are kept, and the one that is being read."""
    for number in range(5):
        (tmp_path / f"2026010{number}").mkdir()
    used = tmp_path / "20260100" / "run-1"
    used.mkdir()
    with runs_folder(tmp_path, 7, used) as made:
        left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["20260100", "20260103", "20260104", made.name]


@pytest.fixture(scope="module")
def market_run(session_type, tmp_path_factory):
    """A run of a recorded market whose files are gone, and its pack."""
    folder = tmp_path_factory.mktemp("market")
    quotes = ["ts_ns,symbol,bid,offer,bid_size,offer_size"]
    orders = ["ts_ns,symbol,side,price,qty"]
    for number in range(400):
        name = f"SYM{number % 7}"
        quotes.append(f"{number * 10},{name},10.0{number % 10},10.{number % 10}5,1,1")
        orders.append(f"{number * 10 + number % 3},{name},BUY,10,1")
    (folder / "quotes.csv").write_text("\n".join(quotes) + "\n")
    (folder / "orders.csv").write_text("\n".join(orders) + "\n")
    made = session_type(folder)
    done = made.tickproof(
        "run",
        "miniature",
        "--only",
        "MS-MERGED",
        "--quotes",
        "quotes.csv",
        "--orders",
        "orders.csv",
        "--seed",
        1,
        "--out",
        "out",
        "-n",
        1,
    )
    made.close()
    assert done.status == 0, done.out + done.err
    (folder / "quotes.csv").unlink()
    (folder / "orders.csv").unlink()
    run = next(run for run in made.runs() if (run / "input").exists())
    return run


@LONG
def test_a_recorded_market_is_replayed_without_its_files(market_run, tmp_path, tickproof):
    pack = tmp_path / "a.zip"
    assert tickproof("pack", market_run, "-o", pack)[0] == 0
    with opened_run(pack) as folder:
        assert str(market_run.parents[3]) not in (folder / "run.json").read_text()
    for number, source in enumerate((market_run, pack)):
        out = tmp_path / str(number)
        status, said = tickproof("replay", source, "miniature", "--out", out)
        assert status == 0, said
        (run,) = played(out)
        then, now = (json.loads((r / "run.json").read_text()) for r in (market_run, run))
        assert now["input"]["partitions"] == then["input"]["partitions"]
        assert now["by_symbol"] == then["by_symbol"]
        assert (run / "input" / "plan.npy").read_bytes() == (
            market_run / "input" / "plan.npy"
        ).read_bytes()
        # It was published as it was planned, record by record.
        assert len(History(run).publishes) > 1


@pytest.mark.parametrize("damage", few(["plan", "bytes", "file"]))
def test_a_kept_input_that_was_changed_is_refused(market_run, tmp_path, tickproof, damage):
    run = shutil.copytree(market_run, tmp_path / "run")
    file = next((run / "input").glob("s0p*.log"))
    if damage == "plan":
        (run / "input" / "plan.npy").write_bytes(b"\x93NUMPY\x01\x00nonsense")
        seal.write(run, {})
        said = "expected a publication plan"
    elif damage == "bytes":
        # The last byte: a record that no order refers to may change without another verdict.
        file.write_bytes(file.read_bytes()[:-1] + b"\xff")
        said = f"{file.name}: changed after it was recorded"
    else:
        file.unlink()
        said = "cannot be made again"
    status, output = tickproof("replay", run, "miniature", "--out", tmp_path / "out")
    assert (status, said in " ".join(output.split())) == (2, True), output
    assert played(tmp_path / "out") == []


def test_input_that_another_version_makes_otherwise_is_refused(failed_run, tmp_path, tickproof):
    run = shutil.copytree(failed_run, tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    record["input"]["partitions"][1]["sha256"] = "0" * 64
    (run / "run.json").write_text(json.dumps(record | {"kit": "0.0.7"}))
    seal.write(run, {})
    for words in (("replay", run, "miniature"), ("check", run), ("pack", run)):
        status, output = tickproof(*words)
        assert (status, "other bytes than in the run" in " ".join(output.split())) == (2, True)


def test_an_engine_that_cannot_be_judged_by_the_run_is_wrong_usage(failed_run, tmp_path, tickproof):
    gone = shutil.copytree(failed_run, tmp_path / "gone")
    record = json.loads((gone / "run.json").read_text())
    record["made_at"]["engine"] = str(tmp_path / "none" / "engine.toml")
    (gone / "run.json").write_text(json.dumps(record))
    seal.write(gone, {})
    pack = tmp_path / "a.zip"
    assert tickproof("pack", failed_run, "-o", pack)[0] == 0
    engine = shutil.copytree(resources.fixtures() / "engines" / "minimal", tmp_path / "other")
    toml = engine / "engine.toml"
    toml.write_text(toml.read_text().replace('emit = ["every"]', 'emit = ["some"]'))
    for words, said in (
        ((pack,), "a pack does not hold one"),
        ((gone,), "that of the run is gone"),
        ((failed_run, "no-such-engine"), "no such engine"),
        ((failed_run, "mutant:no-such"), "no such mutant"),
        ((failed_run, "minimal"), "nothing to judge: EO-ENGINE-DEATH: claims state = none"),
        ((failed_run, engine), "does not offer app count emit=every"),
        ((tmp_path, "miniature"), "expected a run folder"),
        ((failed_run, "miniature", "--times", 0), "--times"),
    ):
        status, output = tickproof("replay", *words)
        assert (status, said in " ".join(output.split())) == (2, True), (words, output)
