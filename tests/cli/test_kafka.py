"""`tickproof kafka`: one broker for each user, that ends when told and not before."""

from __future__ import annotations

import json
import os
import signal

import psutil
import pytest

from tests.kafka.presence import expect_broker
from tests.long import LONG
from tickproof.conformance.kafka.cluster import Cluster


@pytest.fixture(autouse=True)
def state(sessions, monkeypatch):
    """Keep a standing broker of the user out of this, and end what a test left running."""
    monkeypatch.setenv("XDG_STATE_HOME", str(sessions.folder / "state"))
    monkeypatch.setenv("TMPDIR", str(sessions.folder))
    yield
    sessions.tickproof("kafka", "stop")


@pytest.fixture
def kafka() -> None:
    expect_broker()


@LONG
def test_a_broker_stays_until_it_is_stopped(kafka, sessions, wait_until):
    started = sessions.tickproof("kafka", "start", "--json")
    assert started.status == 0, started.err
    found = json.loads(started.out)
    assert Cluster(found["address"]["kit"]).partitions() == {}

    again = sessions.tickproof("kafka", "start")
    assert again.status == 2
    assert f"{found['address']['kit']} runs already" in again.err
    shown = sessions.tickproof("kafka", "status")
    assert (shown.status, shown.out) == (0, f"{found['address']['kit']} (process {found['pid']})\n")

    holder = psutil.Process(found["pid"])
    assert sessions.tickproof("kafka", "stop").out == f"stopped {found['address']['kit']}\n"
    assert not holder.is_running() or holder.status() == psutil.STATUS_ZOMBIE
    assert sessions.tickproof("kafka", "status").out == "no broker runs\n"
    assert list(sessions.folder.glob("tickproof-*")) == []


@LONG
def test_a_broker_whose_process_was_killed_is_gone(kafka, sessions, wait_until):
    found = json.loads(sessions.tickproof("kafka", "start", "--json").out)
    below = psutil.Process(found["pid"]).children(recursive=True)
    assert len(below) == 2  # the reaper and the broker
    os.kill(found["pid"], signal.SIGKILL)
    assert wait_until(lambda: not any(one.is_running() for one in below))
    gone = sessions.tickproof("kafka", "status", "--json")
    assert (gone.status, gone.out) == (1, "null\n")
    assert sessions.tickproof("kafka", "stop").out == "no broker runs\n"
    assert list(sessions.folder.glob("tickproof-*")) == []


def test_errors_are_one_sentence_and_status_2(sessions, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(sessions.folder / "cache"))
    for verb in ("start", "fetch"):
        done = sessions.tickproof("kafka", verb)
        assert done.status == 2
        assert "Traceback" not in done.err
        assert "Error: " in done.err
