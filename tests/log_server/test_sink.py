"""Delays of the sink: bounded in all, and over at once when the engine is dead."""

from __future__ import annotations

import threading
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log_server.logbench import DEADLINE_S
from tickproof.conformance.log_server.sink import Sink, SinkBehaviour


def sink(**behaviour):
    events = []
    made = Sink(SinkBehaviour(**behaviour), lambda event, **_: events.append(event))
    return made, events


@settings(max_examples=30, deadline=None)
@given(st.lists(st.booleans(), max_size=12), st.floats(0, 0.004), st.floats(0, 0.004))
def test_delays_of_all_frames_together_stay_in_the_budget(frames, delay, last):
    made, _ = sink(ack_delay_s=delay, last_ack_delay_s=last, budget_s=0.01)
    wanted = sum(max(delay, last) if done else delay for done in frames)
    for done in frames:
        made.before_acknowledgement(done)
    assert made.spent_s <= 0.01 + 1e-9
    assert abs(made.spent_s - min(wanted, 0.01)) < 1e-9


def test_delays_of_many_connections_share_one_budget():
    made, _ = sink(ack_delay_s=0.004, budget_s=0.02)
    threads = [
        threading.Thread(target=lambda: [made.before_acknowledgement(False) for _ in range(5)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert abs(made.spent_s - 0.02) < 1e-9


def test_hurry_ends_delays_and_stalls():
    for behaviour in ({"ack_delay_s": 1e4, "budget_s": 1e5}, {"stall_after": 0, "stall_s": 1e4}):
        made, events = sink(**behaviour)

        def output(made=made):
            made.before_output(lambda: 5)
            made.before_acknowledgement(False)

        thread = threading.Thread(target=output, daemon=True)
        thread.start()
        made.hurry(True)
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        assert "stall-ended" not in events  # it was cut short: no evidence


def test_stall_begins_at_its_record_and_holds_all_connections_once():
    made, events = sink(stall_after=10, stall_s=0.05)
    made.before_output(lambda: 9)
    assert events == []
    began = time.monotonic()
    threads = [threading.Thread(target=made.before_output, args=(lambda: 10,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert time.monotonic() - began >= 0.05
    made.before_output(lambda: 11)
    assert events == ["stall", "stall-ended"]
    assert made.spent_s == 0.05
    assert made.open_acknowledgements == 5


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=20_000), st.integers(0, 9))
def test_pieces_are_the_same_bytes_and_begin_with_single_ones(data, seed):
    made, _ = sink(pieces=True, budget_s=0.0, seed=seed)
    pieces = []
    made.send(data, pieces.append)
    assert b"".join(pieces) == data
    assert all(len(piece) == 1 for piece in pieces[:12])
    whole, _ = sink()
    sent = []
    whole.send(data, sent.append)
    assert sent == [data]
