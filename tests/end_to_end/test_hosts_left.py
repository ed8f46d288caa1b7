"""The kit dies while an engine runs on hosts whose network is cut: nothing of them is left."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from tests.kafka.presence import expect_broker
from tests.long import LONG
from tickproof.conformance.engines import network

MARK = "TICKPROOF_TEST_OF_HOSTS"


def _marked(value: str) -> list[int]:
    """Return all processes that descend from the command, by what they were started with."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def _machine(folder: Path) -> tuple[list[str], list[str]]:
    """Return the interfaces and the mounts, without those in the folders of other tests."""
    names = sorted(path.name for path in Path("/sys/class/net").iterdir())
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return names, [one for one in mounts if "/pytest-" not in one or str(folder) in one]


def _namespaces(pids: list[int]) -> set[int]:
    """Return the network namespaces of processes."""
    found = set()
    for pid in pids:
        try:
            found.add(Path(f"/proc/{pid}/ns/net").stat().st_ino)
        except OSError:
            continue
    return found


@pytest.mark.skipif(bool(network.obstacle()), reason=f"no hosts: {network.obstacle()}")
@pytest.mark.parametrize(
    ("engine", "number"),
    [
        ("miniature", signal.SIGKILL),
        pytest.param("miniature", signal.SIGTERM, marks=LONG),
        pytest.param("miniature", signal.SIGINT, marks=LONG),
        pytest.param("kafka-miniature", signal.SIGKILL, marks=LONG),
        pytest.param("kafka-miniature", signal.SIGINT, marks=LONG),
    ],
)
def test_no_process_interface_or_mount_is_left(sessions, wait_until, monkeypatch, engine, number):
    if engine != "miniature":
        expect_broker()
    before, mark = _machine(sessions.folder), str(sessions.folder)
    monkeypatch.setenv(MARK, mark)
    process = sessions.start(
        "run", engine, "--only", "NE-MUTE", "--hosts", 3, "--out", "out", "-n", 1
    )

    def cut() -> bool:
        events = sessions.folder.glob("out/*/runs/*/*/events.jsonl")
        return any('"event":"fault"' in path.read_text() for path in events)

    assert wait_until(cut, 60)
    # The machine's own, the switch's, and those of hosts with processes on them.
    assert len(_namespaces(_marked(mark))) >= 4
    assert _machine(sessions.folder) == before
    process.send_signal(number)
    process.communicate(timeout=60)

    assert wait_until(lambda: not _marked(mark), 20)
    assert _machine(sessions.folder) == before
