"""Replies that are slow for a time, output that is refused, a source that is silent."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log_server.linkbench import LONG_S, proof, proofs, reader, strike, writer
from tests.log_server.logbench import DEADLINE_S, LogBench, append, region, until
from tickproof.conformance.fault_steps import DripStep, ThrottleStep
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.log_server.frames import Code, Commit, Stage, Tail
from tickproof.conformance.log_server.timed_faults import Lasting, pieces


@pytest.fixture
def bench(tmp_path):
    with LogBench(tmp_path, records=100_000) as made:
        yield made
        made.server.links.close()


# -- slow replies ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("do", "rest"), [("delay", {"lag_s": 0.02}), ("throttle", {"rate": 50_000}), ("drip", {})]
)
def test_slow_replies_are_the_same_bytes(bench, do, rest):
    client = reader(bench)
    sink = writer(bench)
    strike(bench, do, "source", seconds=0.3, **rest)
    for offset in (0, 100, 500):
        assert client.fetch(offset, 1_200).region == region(*range(offset, offset + 100))
    assert sink.call(append(0, 1)).fields == (0, 1)
    found = proof(bench, do)
    assert found["count"] >= 1
    assert found["bytes"] >= 1_230


@pytest.mark.parametrize(
    ("do", "rest"), [("delay", {"lag_s": LONG_S}), ("throttle", {"rate": 1}), ("drip", {})]
)
def test_slowness_ends_with_its_time_and_is_added_to_the_limits(bench, do, rest):
    client = reader(bench)
    strike(bench, do, "source", seconds=0.2, **rest)
    assert client.fetch(0, 12_000).region == region(*range(1_000))
    assert proof(bench, do)["count"] == 1
    assert bench.server.links.spent_s == 0.2


def test_slowness_ends_when_the_engine_dies(bench):
    client = writer(bench)
    strike(bench, "delay", "sink", seconds=LONG_S, lag_s=LONG_S)
    client.send(append(0, 1))
    until(lambda: bench.server.links._lasting[0].count)
    bench.server.release_waits(True)
    assert client.receive().fields == (0, 1)
    assert proof(bench, "delay")["count"] == 1


def test_a_large_reply_is_slow_too(bench):
    bench.log.publish([100_000])
    client = reader(bench)
    strike(bench, "drip", "source", seconds=LONG_S)
    assert client.fetch(0, 1 << 24).region == region(*range(100_000))
    bench.server.release_waits(True)
    assert proof(bench, "drip")["bytes"] > 1_200_000


SLOW = st.just(DripStep("fetched", target="sink", seconds=0.001)) | st.builds(
    ThrottleStep,
    st.just("fetched"),
    target=st.just("sink"),
    seconds=st.just(0.001),
    rate=st.integers(0, 10**7),
)


@given(st.binary(max_size=2_000), SLOW)
def test_pieces_are_the_whole(data, step):
    fault = Lasting(fault_of(step), [])
    fault.meet()
    assert b"".join(piece.data for piece in pieces(memoryview(data), [fault])) == data


def test_drips_are_single_bytes_at_both_ends():
    fault = Lasting(fault_of(DripStep("fetched", target="sink", seconds=LONG_S)), [])
    fault.meet()
    sizes = [len(piece.data) for piece in pieces(memoryview(os.urandom(1_000)), [fault])]
    assert sizes == [1] * 128 + [744] + [1] * 128


# -- refuse, silence -----------------------------------------------------------------------------


def test_refused_output_is_not_recorded_and_may_come_again(bench):
    client, source = writer(bench), reader(bench)
    strike(bench, "refuse", "sink", seconds=0.3)
    assert client.code(append(0, 1)) == Code.NOT_ALLOWED
    assert client.code(Stage(1, append(0, 1))) == Code.NOT_ALLOWED
    assert client.code(Commit(1)) == Code.NOT_ALLOWED
    assert client.have() == 0
    assert source.fetch(0, 12).region == region(0)
    assert proof(bench, "refuse")["count"] == 3
    assert bench.recorded() == []
    assert client.call(append(0, 1)).fields == (0, 1)


def test_a_silent_source_seems_to_have_nothing_new(bench):
    client, sink = reader(bench), writer(bench)
    strike(bench, "silence", "source", seconds=0.4)
    bench.log.publish([2_000])
    bench.log.end()
    assert client.fetch(990, 1 << 20).fields == (0, 0, 990, 1_000, 0, 10)
    assert client.fetch(1_000).fields == (0, 0, 1_000, 1_000, 0, 0)
    assert client.call(Tail(0, 0)).fields == (0, 0, 0, 1_000, 0)
    assert sink.call(append(0, 1)).fields == (0, 1)
    # It wakes up those that wait.
    reply = client.fetch(1_000, wait_ms=DEADLINE_S * 1000)
    assert reply.fields == (0, 0, 1_000, 2_000, 1, 1_000)
    assert proof(bench, "silence")["count"] == 3


def test_silence_does_not_take_an_end_back(bench):
    client = reader(bench)
    bench.log.end()
    strike(bench, "silence", "source", seconds=LONG_S)
    assert client.fetch(1_000).fields == (0, 0, 1_000, 1_000, 1, 0)


def test_two_silences_last_as_long_as_the_longer(bench):
    client = reader(bench)
    strike(bench, "silence", "source", seconds=0.01)
    strike(bench, "silence", "source", seconds=0.3)
    bench.log.publish([2_000])
    client.fetch(1_000)
    links = bench.server.links
    bench.server.call(lambda: links._meet(links._lasting[0]))
    until(lambda: len(proofs(bench, "silence")) == 1)
    assert client.fetch(1_000).fields[3] == 1_000
    until(lambda: len(proofs(bench, "silence")) == 2)
    assert client.fetch(1_000).fields[3] == 2_000
