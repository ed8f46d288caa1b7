"""The run of a user's own job in one file: told elsewhere, and nothing of the machine in it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.history.test_job_run import FACTS, lost
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import job_run
from tickproof.conformance.history.provenance import provenance
from tickproof.conformance.session import run_store
from tickproof.conformance.session.pack import opened_run, writer

#: Calls `tickproof` with words: its status, and what it printed.
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The folder of a run that names the machine; a file in it is not the kit's."""
    folder = tmp_path / "runs" / "commit"
    folder.mkdir(parents=True)
    made_at = provenance(Path("/home/somebody/orders/job.toml"))
    facts = FACTS | {"job": "/home/somebody/orders/job.toml", "made_at": made_at}
    job_run.write(folder, facts, {"totals": [("a", {"n": 1})]})
    job_run.save_verdict(folder, [lost("JB-LOST")])
    (folder / "stderr.log").write_text("no such file: /home/somebody/orders/settings.yaml\n")
    (folder / "private.key").write_text("secret")
    return folder


def test_a_pack_tells_what_the_folder_tells(run: Path, tmp_path: Path, tickproof: Command) -> None:
    made = writer.pack(run, tmp_path / "a.tickproof.zip")
    told = [tickproof("explain", one)[1] for one in (run, made.path)]
    assert "JB-LOST fail: lost" in told[0]
    assert told[0] == told[1]


def test_a_pack_holds_nothing_of_the_machine(run: Path, tmp_path: Path) -> None:
    made = writer.pack(run, tmp_path / "a.tickproof.zip")
    assert (made.root, made.kept) == ("", [])
    with zipfile.ZipFile(made.path) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
        text = "\n".join(archive.read(name).decode() for name in archive.namelist())
    assert names == {
        "job-run.json", "verdict.json", "stderr.log", "output/totals.jsonl", "README.txt",
        "manifest.json",
    }  # fmt: skip
    assert "somebody" not in text
    assert "made_at" not in text
    assert "{engine}/settings.yaml" in text
    assert "tickproof replay FILE JOB.TOML" in text


def test_a_pack_is_made_again_of_a_pack(run: Path, tmp_path: Path) -> None:
    first = writer.pack(run, tmp_path / "a.tickproof.zip")
    again = writer.pack(first.path, tmp_path / "b.tickproof.zip")
    assert again.path.read_bytes() == first.path.read_bytes()


def test_a_link_in_the_output_is_refused(run: Path, tmp_path: Path) -> None:
    (run / "output" / "more.jsonl").symlink_to("/etc/hostname")
    with pytest.raises(HistoryError, match="found a link"):
        writer.pack(run, tmp_path / "a.tickproof.zip")


def test_a_pack_with_a_record_of_another_shape_is_refused(run: Path, tmp_path: Path) -> None:
    made = writer.pack(run, tmp_path / "a.tickproof.zip")
    with opened_run(made.path) as folder:
        record = json.loads((folder / job_run.FILE).read_text())
    record["strikes"] = [{"do": "format the disk"}]
    (run / job_run.FILE).write_text(json.dumps(record))
    with pytest.raises(HistoryError, match=r"strikes\.0\.do"):
        writer.pack(run, tmp_path / "b.tickproof.zip")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["check", "RUN"], "expected the folder of an engine's run"),
        (["report", "RUN"], "the run of a job has no page; expected its session"),
        (["explain", "RUN", "--requirement", "EO-X"], "expected one of JB-LOST; got EO-X"),
        (["replay", "PACK"], "expected a job.toml, because a pack does not hold one"),
    ],
)
def test_what_cannot_be_done_with_it_is_said(
    run: Path, tmp_path: Path, words: list[str], said: str, tickproof: Command
) -> None:
    made = writer.pack(run, tmp_path / "a.tickproof.zip")
    named = {"RUN": str(run), "PACK": str(made.path)}
    status, printed = tickproof(*(named.get(word, word) for word in words))
    assert status == 2
    assert said in " ".join(printed.split())


def test_a_run_without_faults_is_not_replayed(tmp_path: Path, tickproof: Command) -> None:
    job_run.write(tmp_path, FACTS | {"strikes": []}, {})
    status, printed = tickproof("replay", tmp_path)
    assert status == 2
    assert "expected a run with faults" in " ".join(printed.split())


def test_runs_of_jobs_are_listed_and_kept_by_a_tag(run: Path, tmp_path: Path) -> None:
    (one,) = run_store.runs(tmp_path)
    assert (one.engine, one.scenario, one.seed, one.ended) == ("orders", "commit", 5, True)
    assert one.verdict == "fail"
    assert not run_store.holds_tagged(tmp_path)
    run_store.tag(run, ["kept"])
    assert run_store.holds_tagged(tmp_path)
