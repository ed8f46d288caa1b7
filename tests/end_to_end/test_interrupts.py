"""Ctrl-C and the death of the kit in mid-run: one line, no process left, runs that open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from xml.etree import ElementTree

import pytest

from tests.long import LONG, few
from tickproof.conformance.suites.catalog import JUDGES

ONLY = "SL-PASSTHROUGH,PR-DRAIN-WAITS"


def _started(sessions, wait_until, workers):
    """Start a session on an engine that never drains; return it in mid-run."""
    process = sessions.start(
        "run",
        sessions.rogue("NeverDrains", drain=600),
        "--only",
        ONLY,
        "--seed",
        1,
        "--out",
        "out",
        "-n",
        workers,
    )

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
        "tickproof: interrupted with Ctrl-C: 0 of 2 requirements judged, runs in out/"
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


@LONG
@pytest.mark.parametrize(("workers", "group"), [(1, False), (2, False), (2, True)])
def test_sigterm_ends_a_session_as_ctrl_c_does(sessions, wait_until, workers, group):
    process = _started(sessions, wait_until, workers)
    (os.killpg if group else os.kill)(process.pid, signal.SIGTERM)
    done = sessions.ended(process)

    assert done.status == 143
    assert done.err.strip().startswith(
        "tickproof: ended by SIGTERM: 0 of 2 requirements judged, runs in"
    )
    assert "Traceback" not in done.out + done.err
    _ended_as_asked(sessions, wait_until, workers, "ended by SIGTERM")


def _decided(sessions) -> set[str]:
    """Return the requirements that the live feed of the only engine has shown.

    Those of several tests are left out: an interrupt leaves them open until the last is decided.
    """
    (path,) = sessions.folder.glob("out/*/live.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    shown = {row["requirement"] for row in rows if row["event"] == "decided"}
    tests = Counter(id_ for judges in JUDGES.values() for id_, _ in judges)
    return {id_ for id_ in shown if tests[id_] == 1}


def _judging(sessions, wait_until, workers=2):
    """Start a session on a sound engine; return it once the third requirement is judged."""
    process = sessions.start(
        "run", sessions.rogue("Polite"), "--tier", 0, "--seed", 1, "--out", "out", "-n", workers
    )
    # The feed of an earlier session is replaced when this one begins.
    assert wait_until(lambda: list(sessions.folder.glob("out/*/runs/*/feed.jsonl")), 60)
    assert wait_until(lambda: len(_decided(sessions)) >= 3, 60)
    assert process.poll() is None
    return process


def _expect_partial(report: dict, status: int) -> None:
    """Expect what was judged to be reported, and nothing of the rest to look judged."""
    cut = report["interrupted"]
    assert report["exit_status"] == cut["exit_status"] == status
    results = report["requirements"]
    left = [one for one in results if one["reason"] == "INTERRUPTED"]
    assert len(results) == cut["of"] and len(results) - len(left) == cut["judged"]
    assert 3 <= cut["judged"] < cut["of"]
    assert {one["verdict"] for one in left} == {"unknown"}
    assert sum(one["verdict"] == "pass" for one in results) >= 1


@pytest.mark.parametrize(
    ("number", "group", "workers", "words"),
    [
        pytest.param(signal.SIGINT, True, 2, "interrupted with Ctrl-C", marks=LONG),
        (signal.SIGTERM, False, 1, "ended by SIGTERM"),
        pytest.param(signal.SIGHUP, True, 2, "ended by SIGHUP", marks=LONG),
    ],
)
def test_what_was_judged_is_reported(sessions, wait_until, number, group, workers, words):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip(f"{number.name} is ignored here, as below nohup")
    process = _judging(sessions, wait_until, workers)
    (os.killpg if group else os.kill)(process.pid, number)
    done = sessions.ended(process)

    assert done.status == 128 + number
    (report,) = done.reports.values()
    _expect_partial(report, 128 + number)
    cut = report["interrupted"]
    said = f"{words} after {cut['judged']} of {cut['of']} requirements"
    assert cut["by"] == words and said in done.out
    (folder,) = (path.parent for path in sessions.folder.glob("out/*/report.json"))
    assert f"This session was {said}" in (folder / "report.html").read_text()
    suite = ElementTree.parse(folder / "junit.xml").getroot()
    assert (suite.get("errors"), suite.get("failures")) == ("1", "0")
    assert int(suite.get("skipped")) >= cut["of"] - cut["judged"]
    assert "Traceback" not in done.out + done.err
    assert wait_until(lambda: not sessions.processes(), 10)


def test_a_killed_session_leaves_the_earlier_report_and_the_means_for_its_own(sessions, wait_until):
    engine = sessions.rogue("Polite")
    first = sessions.judge([engine], "PR-HELLO")
    assert first.status == 0
    (folder,) = (path.parent for path in sessions.folder.glob("out/*/report.json"))
    names = ("report.json", "report.html", "badge.svg", "junit.xml")
    kept = {folder / name: (folder / name).read_bytes() for name in names}
    (folder / "live.jsonl").unlink()
    process = sessions.start("run", engine, "--tier", 0, "--seed", 2, "--out", "out", "-n", 1)
    assert wait_until((folder / "live.jsonl").exists, 60)
    assert wait_until(lambda: len(_decided(sessions)) >= 3, 60)
    process.kill()
    process.wait()

    assert {path: path.read_bytes() for path in kept} == kept
    assert wait_until(lambda: not sessions.processes(), 10)
    done = sessions.tickproof("report", folder)
    assert done.status == 0, done.err
    (report,) = done.reports.values()
    _expect_partial(report, 137)
    assert (report["seed"], report["interrupted"]["by"]) == (2, "ended early: its process died")
    assert {one["run"] for one in report["requirements"] if one["run"]} <= {
        str(path.relative_to(folder)) for path in folder.glob("runs/*/*")
    }


def test_a_second_ctrl_c_ends_at_once(tmp_path, wait_until):
    script = (
        "import threading, sys\n"
        "from tickproof.conformance.engines import interruption\n"
        "interruption.listen()\n"
        "with interruption.deferred():\n"
        "    print('writing', flush=True)\n"
        "    while True: sys.stdin.readline() and print('read', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(signal.SIGINT)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "read\n"  # the first one waits for the reports
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
    finally:
        process.kill()
        process.communicate()


@LONG
def test_two_sessions_of_one_folder_do_not_mix(sessions, wait_until):
    process = _started(sessions, wait_until, 1)
    other = sessions.tickproof(
        "run",
        sessions.folder / "engines" / "0" / "engine.toml",
        "--only",
        "PR-HELLO",
        "--out",
        "out",
    )
    assert other.status == 2
    assert f"in use by process {process.pid}" in other.err
    assert not other.reports
    (folder,) = (path.parent for path in sessions.folder.glob("out/*/session.lock"))
    early = sessions.tickproof("report", folder)
    assert early.status == 2 and "goes on" in early.err
    process.kill()  # a lock does not outlive its process
    process.wait()
    assert wait_until(lambda: not sessions.processes(), 10)
    after = sessions.tickproof(
        "run",
        sessions.toml("NeverDrains", ["{python}", "-c", "pass"]),
        "--only",
        "PR-HELLO",
        "--out",
        "out",
    )
    assert after.status == 1


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


@pytest.mark.parametrize(
    "arguments", few([["requirements"], ["requirements", "--json"], ["--help"]])
)
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
