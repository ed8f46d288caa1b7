"""`tickproof log`: files as a log for a job of one's own, from the first FETCH to its output."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tickproof.reference.api.layouts import framed, new
from tickproof.reference.connectors.wire import Chunk, Log, LogError

VALUE = framed(("key", "<u4"), ("value", "<i8"))
TOTAL = framed(("total", "<i8"))
NOTE = framed(("key", "<u4"))


def values(count: int, first: int = 0) -> np.ndarray:
    made = new(count, VALUE)
    made["key"], made["value"] = 7, np.arange(first, first + count)
    return made


@pytest.fixture
def folder(tmp_path) -> Path:
    made = tmp_path / "in"
    made.mkdir()
    for partition in range(2):
        (made / f"s0p{partition}.log").write_bytes(values(1000, partition).tobytes())
    return made


def started(sessions, *options: str) -> tuple[subprocess.Popen[str], dict]:
    process = sessions.start("log", "in", "--output", "8,4", "--json", *options)
    return process, json.loads(process.stdout.readline())


def connected(said: dict) -> Log:
    return Log(said["host"], said["port"], said["token"])


def read(log: Log, partition: int, start: int, end: int) -> np.ndarray:
    chunks = log.read(0, partition, start, end)
    return np.frombuffer(b"".join(chunk.records for chunk in chunks), VALUE)


def ended(sessions, process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM):
    process.send_signal(number)
    return sessions.ended(process)


def test_a_client_fetches_stages_and_commits(folder, sessions):
    process, said = started(sessions)
    assert (said["partitions"], said["out"]) == ({"0": 2}, "in/output")
    log = connected(said)
    assert log.tail(0, 1) == (0, 1000, False)
    assert (read(log, 1, 10, 1000) == values(990, 11)).all()
    log.release(0, 1, 500)

    totals, notes = new(3, TOTAL), new(1, NOTE)
    totals["total"] = [5, 15, 30]
    output = folder / "output"
    for _ in range(2):  # the second time has no effect
        for stream, records in ((0, totals), (1, notes)):
            first = log.have(stream, 1)
            log.stage(0, stream, 1, first, Chunk(0, len(records), records.tobytes()))
        if not (output / "s0.log").stat().st_size:
            assert log.commit(0) == 1
    assert log.commit(0) == 2
    assert (output / "s0.log").read_bytes() == totals.tobytes()
    assert (output / "s1.log").read_bytes() == notes.tobytes()
    log.close()

    done = ended(sessions, process, signal.SIGINT)
    assert (done.status, done.out) == (130, "")
    assert done.err.strip() == "tickproof: interrupted with Ctrl-C"
    assert (output / "s0.log").read_bytes() == totals.tobytes()


def test_what_is_appended_comes_by_whole_records(folder, sessions, wait_until):
    process, said = started(sessions, "--out", "elsewhere")
    log = connected(said)
    more = values(300, 1000).tobytes()
    with (folder / "s0p0.log").open("ab") as file:
        for part, end in ((more[:1007], 1062), (more[1007:], 1300)):
            file.write(part)
            file.flush()
            assert wait_until(lambda end=end: log.tail(0, 0).end == end)
    assert (read(log, 0, 0, 1300) == values(1300)).all()
    assert log.tail(0, 1).end == 1000
    log.close()
    assert ended(sessions, process).status == 143
    assert sorted(path.name for path in folder.iterdir()) == ["s0p0.log", "s0p1.log"]


def test_what_cannot_be_appended_is_said_once_and_may_be_mended(folder, sessions, wait_until):
    process, said = started(sessions)
    log, path = connected(said), folder / "s0p1.log"
    with path.open("ab") as file:
        file.write(values(2, 1001).tobytes() + b"nonsense")
    assert wait_until(lambda: log.tail(0, 1).end == 1002)
    assert "offset 1,002 (byte 16,032): expected a record of 12 bytes" in process.stderr.readline()
    with path.open("r+b") as file:
        file.truncate(1002 * VALUE.itemsize)
        file.seek(0, 2)
        file.write(values(1, 1003).tobytes())
    assert wait_until(lambda: log.tail(0, 1).end == 1003)
    log.close()
    assert "offset" not in ended(sessions, process).err


def test_a_file_that_loses_records_ends_the_log(folder, sessions):
    process, _ = started(sessions)
    (folder / "s0p1.log").write_bytes(b"")
    done = sessions.ended(process)
    assert done.status == 2
    assert "in/s0p1.log: had 1,000 records, and is shorter now" in done.err


def test_output_of_another_size_is_kept_and_said(folder, sessions):
    process, said = started(sessions)
    log = connected(said)
    for txn in range(2):
        log.stage(txn, 0, 1, log.have(0, 1), Chunk(0, 1, new(1, VALUE).tobytes()))
        assert log.commit(txn) == 1
    with pytest.raises(LogError, match="there is no output stream 2"):
        log.have(2, 1)
    log.close()
    done = ended(sessions, process)
    assert done.err.count("stream 0 got records of 12 bytes, expected 8; these are in s0.odd") == 1
    assert (folder / "output" / "s0.odd").read_bytes() == new(2, VALUE).tobytes()


def test_the_line_for_people_is_what_a_job_takes(folder, sessions):
    process = sessions.start("log", "in", "--output", "8")
    assert re.fullmatch(r"127\.0\.0\.1 \d+ [0-9a-f]{32}\n", process.stdout.readline())
    ended(sessions, process)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nowhere", "--output", "8"), "nowhere: No such file or directory"),
        (("in", "--output", "8,"), "--output: expected payload bytes from 1 to 16,777,152"),
        (("in", "--output", "0"), "--output: expected payload bytes from 1 to 16,777,152"),
        (("in", "--output", "8", "--out", "in"), "--out in: expected a new folder"),
        (("in", "--output", "8", "--out", "in/s0p0.log/out"), "Not a directory"),
    ],
)
def test_wrong_usage_is_one_sentence(folder, tickproof, arguments, why):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, out, err = tickproof("log", *arguments)
    assert (status, out) == (2, "")
    assert why in err.splitlines()[-1]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_cut_record_is_found_before_anything_is_made(folder, tickproof):
    with (folder / "s0p0.log").open("ab") as file:
        file.write(b"\x0c\0\0")
        file.write(values(3).tobytes())
    status, _, err = tickproof("log", "in", "--output", "8")
    assert status == 2
    assert "in/s0p0.log: offset 1,000 (byte 16,000): expected a record of 12 bytes" in err
    assert not (folder / "output").exists()
