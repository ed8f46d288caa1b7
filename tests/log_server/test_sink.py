"""Delays of the sink: bounded in all, and over at once when the engine is dead."""

from __future__ import annotations

import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log_server.logbench import LogBench, append, until
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour

MORE_INPUT = SimpleNamespace(fetched=0, total=1)
NO_MORE_INPUT = SimpleNamespace(fetched=1, total=1)


def sink(**behaviour):
    events = []
    made = Sink(SinkBehaviour(**behaviour), lambda event, **_: events.append(event))
    return made, events


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), max_size=12), st.floats(0, 0.004), st.floats(0, 0.004))
def test_delays_of_all_frames_together_stay_in_the_budget(frames, delay, last):
    made, _ = sink(ack_delay_s=delay, last_ack_delay_s=last, budget_s=0.01)
    wanted = sum(max(delay, last) if done else delay for done in frames)
    given_s = [made.acknowledgement_delay(NO_MORE_INPUT if n else MORE_INPUT) for n in frames]
    assert made.spent_s <= 0.01 + 1e-9
    assert abs(made.spent_s - min(wanted, 0.01)) < 1e-9
    assert abs(made.spent_s - sum(given_s)) < 1e-9


def test_delays_of_many_connections_share_one_budget(tmp_path):
    behaviour = SinkBehaviour(ack_delay_s=0.004, budget_s=0.02)
    with LogBench(tmp_path, behaviour=behaviour) as bench:
        clients = [bench.connect() for _ in range(4)]
        began = time.monotonic()
        for writer, client in enumerate(clients):
            client.send(*[append(n, n, writer=writer) for n in range(5)])
        for client in clients:
            assert [client.receive().fields[1] for _ in range(5)] == [1, 2, 3, 4, 5]
        assert time.monotonic() - began >= 0.004
        assert abs(bench.sink.spent_s - 0.02) < 1e-9


@pytest.mark.parametrize(
    "behaviour", [{"ack_delay_s": 1e4, "budget_s": 1e5}, {"stall_after": 0, "stall_s": 1e4}]
)
def test_delays_and_stalls_end_when_the_engine_is_dead(tmp_path, behaviour):
    with LogBench(tmp_path, behaviour=SinkBehaviour(**behaviour)) as bench:
        client = bench.connect()
        client.send(append(0, 1))
        bench.await_waiting()
        bench.server.release_waits(True)
        assert client.receive().fields == (0, 1)
        # It was cut short: no evidence.
        assert "stall-ended" not in [event for event, _ in bench.events]


def test_a_delayed_answer_waits_for_what_holds_it_too(tmp_path):
    with LogBench(tmp_path, behaviour=SinkBehaviour(ack_delay_s=0.001, budget_s=1.0)) as bench:
        bench.sink.held = held = Future()
        client = bench.connect()
        client.send(append(0, 1))
        over = time.monotonic() + 0.05
        until(lambda: bench.sink.spent_s and time.monotonic() > over)
        assert bench.sink.open_acknowledgements == 1
        held.set_result(True)
        assert client.receive().fields == (0, 1)
        assert client.call(append(1, 2)).fields == (0, 2)


def test_stall_begins_at_its_record_and_holds_all_connections_once(tmp_path):
    behaviour = SinkBehaviour(stall_after=2, stall_s=0.05)
    with LogBench(tmp_path, behaviour=behaviour) as bench:
        clients = [bench.connect() for _ in range(3)]
        assert clients[0].call(append(0, 1)).fields == (0, 1)
        assert clients[0].call(append(1, 2)).fields == (0, 2)
        assert "stall" not in [event for event, _ in bench.events]
        began = time.monotonic()
        for writer, client in enumerate(clients, 1):
            client.send(append(0, 1, writer=writer))
        until(lambda: bench.sink.open_acknowledgements == 3)
        assert bench.recorder.records == 2
        assert bench.sink.spent_s == 0.05  # a deadline that falls into it is late by as much
        for client in clients:
            assert client.receive().fields[1] == 1
        assert time.monotonic() - began >= 0.05
        assert clients[0].call(append(2, 3)).fields == (0, 3)
        stalls = [(event, fields) for event, fields in bench.events if "stall" in event]
        assert stalls == [
            ("stall", {"seconds": 0.05, "outputs": 2}),
            ("stall-ended", {"outputs": 2}),
        ]
        assert bench.sink.spent_s == 0.05
        assert bench.sink.open_acknowledgements == 0


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=20_000), st.integers(0, 9))
def test_pieces_are_the_same_bytes_and_begin_with_single_ones(data, seed):
    made, _ = sink(pieces=True, budget_s=0.0, seed=seed)
    parts = [part.data for part in made.pieces(memoryview(data))]
    assert b"".join(parts) == data
    assert all(len(part) == 1 for part in parts[:12])
    whole, _ = sink()
    assert [part.data for part in whole.pieces(memoryview(data))] == [data]
