"""Answers and requests without processes: what is accepted, and what each defect is called."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.engines.control_channel import MAX_VIOLATIONS, ControlChannel, Style
from tickproof.conformance.engines.failures import EngineFailure


def channel() -> ControlChannel:
    return ControlChannel(lambda: ("last words",), lambda: "")


def answered(op: str, text: str):
    """Ask ``op`` as request 1 and take ``text`` for what stdout brings."""
    talk = channel()
    pending, _ = talk.submit(op, {})
    talk.receive(text.encode(), False, 1)
    return pending.wait(0)


@pytest.mark.parametrize(
    ("op", "text", "code"),
    [
        ("drain", "", "BAD_LINE"),
        ("drain", "null", "BAD_LINE"),
        ("drain", '{"id": 1, "ok": tru', "BAD_LINE"),
        ("drain", '{"id": 1, "ok": true, "x": NaN}', "BAD_LINE"),
        ("drain", "[" * 100_000, "BAD_LINE"),
        ("drain", "\ufeff" + '{"id": 1, "ok": true}', "BAD_LINE"),
        ("drain", '{"ok": true}', "UNKNOWN_ANSWER"),
        ("drain", '{"id": "1", "ok": true}', "UNKNOWN_ANSWER"),
        ("drain", '{"id": true, "ok": true}', "UNKNOWN_ANSWER"),
        ("drain", '{"id": 1.0, "ok": true}', "UNKNOWN_ANSWER"),
        ("drain", '{"id": 0, "ok": true}', "UNKNOWN_ANSWER"),
        ("drain", '{"id": [], "ok": true}', "UNKNOWN_ANSWER"),
        ("drain", '{"id": 1}', "BAD_ANSWER"),
        ("drain", '{"id": 1, "ok": 1}', "BAD_ANSWER"),
        ("drain", '{"id": 1, "ok": false, "definite": true}', "BAD_ANSWER"),
        ("drain", '{"id": 1, "ok": false, "error": "no"}', "BAD_ANSWER"),
        ("drain", '{"id": 1, "ok": false, "error": "no", "definite": 1}', "BAD_ANSWER"),
        ("drain", '{"id": 1, "ok": false, "error": "no", "definite": true}', "REFUSED"),
        ("hello", '{"id": 1, "ok": true, "version": "1", "protocol": 1}', "BAD_ANSWER"),
        ("hello", '{"id": 1, "ok": true, "name": "e", "version": 1, "protocol": 1}', "BAD_ANSWER"),
        ("hello", '{"id": 1, "ok": true, "name": "e", "version": "1"}', "BAD_ANSWER"),
        (
            "hello",
            '{"id": 1, "ok": true, "name": "e", "version": "1", "protocol": 2}',
            "BAD_ANSWER",
        ),
        (
            "hello",
            '{"id": 1, "ok": true, "name": "e", "version": "1", "protocol": true}',
            "BAD_ANSWER",
        ),
    ],
)
def test_what_an_answer_may_not_be(op, text, code):
    with pytest.raises(EngineFailure) as raised:
        answered(op, text)
    assert raised.value.code == code
    assert raised.value.stderr_tail == ("last words",)


@given(st.integers(0, 2**32))
def test_whatever_their_style_requests_are_json_with_ids_of_their_own(seed):
    style = Style.drawn(random.Random(seed))
    talk = ControlChannel(lambda: (), lambda: "", style)
    asked = [talk.submit("drain", {"extra": n}) for n in range(300)]
    ids = [pending.number for pending, _ in asked]
    assert len(set(ids)) == 300 and all(0 <= number < 2**53 for number in ids)
    for n, (number, (_, line)) in enumerate(zip(ids, asked, strict=True)):
        assert json.loads(line) == {"id": number, "op": "drain", "extra": n}
    for text in ("x", f'{{"id": {ids[7]}, "ok": true}}', f'{{"id": {ids[7]}, "ok": true}}'):
        talk.receive(text.encode(), False, 1)
    assert "a second time" in str(talk.violations[-1])


def test_bytes_that_are_not_utf_8():
    talk = channel()
    pending, _ = talk.submit("drain", {})
    talk.receive('{"id": 1, "ok": true}'.encode("utf-16"), False, 1)
    with pytest.raises(EngineFailure, match="BAD_LINE"):
        pending.wait(0)


@pytest.mark.parametrize(
    ("row", "part"),
    [
        ({}, "processes[0].pid: expected a process id"),
        ({"pid": -1, "role": "engine", "name": ""}, "processes[0].pid"),
        ({"pid": True, "role": "engine", "name": ""}, "processes[0].pid"),
        ({"pid": 1 << 40, "role": "engine", "name": ""}, "processes[0].pid"),
        ({"pid": 1, "role": "boss", "name": ""}, "one of engine, coordinator, worker"),
        ({"pid": 1, "role": ["engine"], "name": ""}, "processes[0].role"),
        ({"pid": 1, "role": "engine"}, "processes[0].name: expected text"),
        (7, "processes[0]: expected an object"),
    ],
)
def test_what_topology_may_not_name(row, part):
    with pytest.raises(EngineFailure) as raised:
        answered("topology", json.dumps({"id": 1, "ok": True, "processes": [row]}))
    assert raised.value.code == "BAD_ANSWER"
    assert part in raised.value.message


@pytest.mark.parametrize("processes", [None, [], {}, "1"])
def test_topology_names_at_least_one_process(processes):
    with pytest.raises(EngineFailure, match="expected a list of at least one"):
        answered("topology", json.dumps({"id": 1, "ok": True, "processes": processes}))


def test_unknown_members_of_an_answer_are_ignored():
    text = '{"id": 1, "ok": true, "name": "e", "version": "1", "protocol": 1, "mood": "good"}'
    assert answered("hello", text)["mood"] == "good"


@given(st.permutations(range(1, 8)))
def test_answers_in_any_order(order):
    talk = channel()
    pending = {number: talk.submit("drain", {})[0] for number in range(1, 8)}
    for place, number in enumerate(order):
        talk.receive(json.dumps({"id": number, "ok": True}).encode(), False, place + 1)
        assert {n for n, p in pending.items() if p.done} == set(order[: place + 1])
    assert [pending[number].answered_ns for number in order] == list(range(1, 8))
    assert talk.violations == []


@given(st.binary(max_size=60))
def test_no_line_whatsoever_breaks_the_kit(line):
    talk = channel()
    talk.receive(line, False, 1)
    (violation,) = talk.violations
    assert violation.code in ("BAD_LINE", "UNKNOWN_ANSWER")
    assert violation.message.isprintable()


def test_an_answer_after_a_violation_does_not_count():
    talk = channel()
    before, after = talk.submit("drain", {})[0], talk.submit("drain", {})[0]
    talk.receive(b'{"id": 1, "ok": true}', False, 1)
    talk.receive(b"noise", False, 2)
    talk.receive(b'{"id": 2, "ok": true}', False, 3)
    assert before.wait(0)["ok"] is True
    with pytest.raises(EngineFailure, match="BAD_LINE"):
        after.wait(0)


def test_an_answer_from_before_the_exit_counts():
    talk = channel()
    first, second = talk.submit("stop", {})[0], talk.submit("drain", {})[0]
    talk.receive(b'{"id": 1, "ok": true}', False, 1)
    talk.exited(0)
    assert first.wait(0) == {"id": 1, "ok": True}
    with pytest.raises(EngineFailure, match="exited with status 0 before it answered drain") as got:
        second.wait(0)
    assert got.value.status == 0


def test_it_stops_listening_after_enough():
    talk = channel()
    for _ in range(MAX_VIOLATIONS):
        assert not talk.abandoned
        talk.receive(b"noise", False, 1)
    assert talk.abandoned
