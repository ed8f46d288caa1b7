"""What is made of the answers to scale, or of none."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tickproof.conformance.engines.control_channel import ControlChannel, Pending
from tickproof.conformance.engines.failures import EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.faults import scaling
from tickproof.conformance.faults.scaling import Scaling
from tickproof.conformance.history.event_log import EventLog

LIMIT_S = 5.0


class Talk:
    """The control channel of an engine, without its process."""

    def __init__(self) -> None:
        self._channel = ControlChannel(lambda: (), lambda: "")
        self.asked: list[tuple[int, int]] = []

    def submit(self, op: str, **fields: int) -> Pending:
        pending, line = self._channel.submit(op, fields)
        self.asked.append((json.loads(line)["id"], fields["workers"]))
        return pending

    def answer(self, number: int, **fields: object) -> None:
        line = json.dumps({"id": self.asked[number][0], "ok": True} | fields)
        self._channel.receive(line.encode(), False, time.monotonic_ns())

    def refuse(self, number: int) -> None:
        self.answer(number, ok=False, error="not now", definite=True)


@pytest.fixture
def talk() -> Talk:
    return Talk()


@pytest.fixture
def made(tmp_path: Path) -> Scaling:
    return Scaling(EventLog(tmp_path / "events.jsonl"), LIMIT_S, FairClock())


def noted(tmp_path: Path) -> list[tuple[str, int]]:
    lines = (tmp_path / "events.jsonl").read_text("utf-8").splitlines()
    return [(row["event"], row["workers"]) for row in map(json.loads, lines)]


def test_an_answer_is_noted_and_the_workers_are_to_be_seen(made, talk, tmp_path):
    made.ask(talk, 4)
    assert made.under_way and made.answered(talk, 0.0) == 0
    talk.answer(0)
    assert made.answered(talk, 0.0) == 4
    assert made.under_way
    made.seen()
    assert not made.under_way and made.answered(talk, 0.0) == 0
    assert noted(tmp_path) == [("scaled", 4)]


def test_a_refusal_without_a_reason_fails(made, talk):
    made.ask(talk, 4)
    talk.refuse(0)
    with pytest.raises(EngineFailure, match="scale was refused: not now"):
        made.answered(talk, 0.0)


def test_a_refusal_while_another_is_under_way_is_noted(made, talk, tmp_path):
    made.ask(talk, 4)
    made.ask(talk, 3)
    talk.refuse(1)
    talk.answer(0)
    assert made.answered(talk, 0.0) == 4
    assert noted(tmp_path) == [("scaled", 4), ("scale-refused", 3)]


def test_of_two_that_are_done_the_last_counts(made, talk, tmp_path):
    made.ask(talk, 4)
    made.ask(talk, 3)
    talk.answer(0)
    talk.answer(1)
    assert made.answered(talk, 0.0) == 3
    assert noted(tmp_path) == [("scaled", 4), ("scaled", 3)]


def test_what_is_refused_after_a_fault_is_asked_for_again(made, talk, monkeypatch):
    monkeypatch.setattr(scaling, "AGAIN_S", 0.0)
    made.ask(talk, 4)
    fault_at = time.monotonic()
    talk.refuse(0)
    assert made.answered(talk, fault_at) == 0
    assert [workers for _, workers in talk.asked] == [4, 4]
    talk.answer(1)
    assert made.answered(talk, fault_at) == 4


def test_what_is_refused_is_asked_for_until_the_limit_after_a_fault(made, talk, monkeypatch):
    monkeypatch.setattr(scaling, "AGAIN_S", 0.0)
    fault_at = time.monotonic()  # a worker died, and is still missing
    made.ask(talk, 4)
    for number in range(3):
        talk.refuse(number)
        assert made.answered(talk, fault_at) == 0
    talk.answer(3)
    assert made.answered(talk, fault_at) == 4


def test_what_a_coordinator_took_and_died_over_is_asked_for_again(made, talk, tmp_path):
    made.ask(talk, 3)
    died_at = time.monotonic()
    for _ in range(2):
        assert made.answered(talk, died_at, died_at) == 0
    assert [workers for _, workers in talk.asked] == [3, 3]
    talk.answer(1)
    assert made.answered(talk, died_at, died_at) == 3
    assert noted(tmp_path) == [("scaled", 3)]


def test_what_is_refused_long_after_a_fault_fails(made, talk, monkeypatch):
    made.ask(talk, 4)
    fault_at = time.monotonic()
    talk.refuse(0)
    monkeypatch.setattr(made, "_limit_s", 0.0)
    with pytest.raises(EngineFailure, match="not now"):
        made.answered(talk, fault_at)


def test_no_answer_in_time_fails(made, talk, monkeypatch):
    made.ask(talk, 4)
    monkeypatch.setattr(made, "_limit_s", 0.0)
    with pytest.raises(EngineFailure, match="no answer to scale within 0 s of the request"):
        made.answered(talk, 0.0)
    assert made.answered(talk, time.monotonic() + 60) == 0  # a fault gives it more time


def test_who_has_died_answers_nothing_more(made, talk):
    made.ask(talk, 4)
    made.forget()
    assert not made.under_way and made.answered(talk, 0.0) == 0


def arrivals(tmp_path: Path) -> list[bool]:
    lines = (tmp_path / "events.jsonl").read_text("utf-8").splitlines()
    return [row["arrived"] for row in map(json.loads, lines) if row["event"] == "scaled"]


def test_an_answer_counts_once_its_workers_have_come(made, talk, tmp_path):
    came: list[int] = []
    made.arrived = lambda workers: workers in came
    made.ask(talk, 4)
    talk.answer(0)
    assert made.answered(talk, 0.0) == 0 and made.under_way
    came.append(4)
    assert made.answered(talk, 0.0) == 4
    assert arrivals(tmp_path) == [True]


def test_workers_that_do_not_come_are_waited_for_until_the_limit(made, talk, monkeypatch, tmp_path):
    made.arrived = lambda _workers: False
    made.ask(talk, 4)
    talk.answer(0)
    assert made.answered(talk, 0.0) == 0
    monkeypatch.setattr(made, "_limit_s", 0.0)
    assert made.answered(talk, 0.0) == 4
    assert arrivals(tmp_path) == [False]


def test_workers_that_another_scale_sends_away_are_not_waited_for(made, talk):
    made.arrived = lambda workers: workers == 3
    for number, workers in enumerate((4, 3)):
        made.ask(talk, workers)
        talk.answer(number)
    assert made.answered(talk, 0.0) == 3
    made.seen()
    assert not made.under_way


def test_workers_are_waited_for_though_a_later_scale_is_refused(made, talk, tmp_path):
    came: list[int] = []
    made.arrived = lambda workers: workers in came
    for workers in (4, 3):
        made.ask(talk, workers)
    talk.refuse(1)
    talk.answer(0)
    assert made.answered(talk, 0.0) == 0
    assert noted(tmp_path) == [("scale-refused", 3)]
    came.append(4)
    assert made.answered(talk, 0.0) == 4
    assert noted(tmp_path) == [("scale-refused", 3), ("scaled", 4)]
