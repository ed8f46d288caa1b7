"""Faults of connections, each against clients that speak frames over real sockets."""

from __future__ import annotations

import socket
import threading
from select import EPOLLOUT

import pytest

from tests.log_server.linkbench import LONG_S, proof, proofs, reader, rest_of, strike, writer
from tests.log_server.logbench import DEADLINE_S, LogBench, append, region, until
from tickproof.conformance.fault_steps import CutStep, ErrorStep, KillStep, RefuseStep, SilenceStep
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.log_server.frames import Abort, Commit, Fetch, Have, Stage, Tail


@pytest.fixture
def bench(tmp_path):
    with LogBench(tmp_path, records=100_000) as made:
        yield made
        made.server.links.close()


# -- whom a fault meets ----------------------------------------------------------------------


@pytest.mark.parametrize("target", ["source", "sink"])
@pytest.mark.parametrize(("do", "given"), [("cut", {}), ("half-open", {"seconds": 1.0})])
def test_without_a_connection_of_the_side_a_fault_misses(bench, do, given, target):
    other = writer(bench) if target == "source" else reader(bench)
    other.call(Tail(0, 0))
    bench.connect()
    with pytest.raises(LookupError, match=f"no connection of the {target} was open"):
        strike(bench, do, target, **given)


@pytest.mark.parametrize(
    "request_",
    [append(0, 1), Stage(1, append(0, 1)), Commit(1), Have(0, 0)],
    ids=lambda r: str(r)[:6],
)
def test_output_and_have_make_a_connection_one_of_the_sink(bench, request_):
    client = bench.connect()
    client.call(Abort(9))
    client.call(request_)
    assert strike(bench, "cut", "sink") == {"pids": [], "connections": [1]}


def test_the_log_has_no_errors_of_kafka(bench):
    client = writer(bench)
    client.call(append(0, 1))
    step = ErrorStep("accepted", seconds=1.0, request="EndTxn", error="PRODUCER_FENCED")
    with pytest.raises(LookupError, match="only Kafka has requests"):
        bench.server.links.aim(fault_of(step))


def test_between_aim_and_strike_the_last_connection_may_go(bench):
    client = reader(bench)
    hit = bench.server.links.aim(fault_of(CutStep("fetched", target="source")))
    client.close()
    until(lambda: bench.server.live == 0)
    with pytest.raises(LookupError):
        hit()


def test_a_connection_may_belong_to_both_sides(bench):
    both = reader(bench)
    both.have()
    assert strike(bench, "silence", "source", seconds=0.01)["connections"] == [1]
    assert strike(bench, "delay", "sink", seconds=0.01, lag_s=0.0)["connections"] == [1]


# -- cut -----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 20_000])
def test_a_cut_of_the_source_ends_inside_a_record(bench, count):
    client, other = reader(bench), reader(bench)
    sink = writer(bench)
    bench.log.publish([50_000])
    strike(bench, "cut", "source")
    client.send(Fetch(0, 0, 10, 12 * count, 0))
    data, reset = rest_of(client)
    found = proof(bench, "cut")
    whole = 5 + 25 + 12 * count
    assert (found["sent"], found["whole"]) == (len(data), whole)
    assert (found["connection"], found["connections"]) == (1, [1, 2])
    assert reset
    assert (len(data) - 30) % 12 == 6
    assert data[30:] == region(*range(10, 10 + count))[: len(data) - 30]
    assert rest_of(other) == (b"", True)
    # The other side is whole, and a new connection too.
    assert sink.call(append(0, 5)).fields == (0, 1)
    again = reader(bench)
    assert again.fetch(10, 24).region == region(10, 11)
    assert ("reconnected", {"target": "source", "connection": 4}) in bench.events


def test_a_cut_wakes_a_fetch_that_waits(bench):
    client, waits = reader(bench), reader(bench)
    waits.send(Fetch(0, 0, 1_000, 100, 60_000))
    bench.await_waiting()
    strike(bench, "cut", "source")
    client.send(Fetch(0, 0, 0, 100, 0))
    assert rest_of(waits) == (b"", True)
    assert rest_of(client)[1]


def test_an_empty_reply_is_not_cut(bench):
    client = reader(bench)
    strike(bench, "cut", "source")
    assert client.fetch(1_000).fields[5] == 0
    bench.server.release_waits(True)
    assert [n for n, _ in bench.events if n == "link-missed"] == ["link-missed"]
    bench.server.release_waits(False)
    assert len(client.fetch(0, 120).region) == 120
    assert proofs(bench) == []


@pytest.mark.parametrize(
    ("requests", "size", "recorded"),
    [
        ([append(0, 7)], 21, [(0, 0, [7])]),
        ([Stage(3, append(0, 7))], 13, []),
        ([Stage(3, append(0, 7)), Commit(3)], 14, [(0, 0, [7])]),
    ],
    ids=["append", "stage", "commit"],
)
def test_a_cut_of_the_sink_ends_inside_an_acknowledgement(bench, requests, size, recorded):
    client, other = writer(bench), writer(bench, 1)
    source = reader(bench)
    for request in requests[:-1]:
        client.call(request)
    strike(bench, "cut", "sink")
    client.send(requests[-1], append(1, 8))
    data, reset = rest_of(client)
    assert reset
    assert len(data) == size // 2
    found = proof(bench, "cut")
    assert (found["sent"], found["whole"], found["connections"]) == (size // 2, size, [1, 2])
    assert rest_of(other) == (b"", True)
    # The frame was taken, what came behind it was not.
    assert bench.recorded() == recorded
    assert writer(bench).have() == len(recorded)
    assert source.fetch(0, 12).region == region(0)


def test_replies_before_the_cut_one_arrive_whole(bench):
    client = writer(bench)
    strike(bench, "cut", "sink")
    client.send(Tail(0, 0), append(0, 1))
    assert client.receive().op == 0x83
    assert len(rest_of(client)[0]) == 10


def test_a_cut_reaches_a_connection_that_waits_for_its_peer_to_read(bench):
    bench.log.publish([100_000])
    stuck, client = reader(bench), reader(bench)
    stuck.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    stuck.send(*[Fetch(0, 0, 0, 1 << 24, 0)] * 20)
    until(lambda: any(c.waits_for == EPOLLOUT for c in bench.server._open.values()))
    strike(bench, "cut", "source")
    client.send(Fetch(0, 0, 0, 120, 0))
    assert rest_of(client)[1]
    until(lambda: bench.server.live == 0)


# -- late -----------------------------------------------------------------------------------


def late(bench, request):
    """Send ``request`` into a connection that a late fault breaks."""
    old = writer(bench)
    strike(bench, "late", "sink")
    old.send(request)
    assert rest_of(old) == (b"", True)
    return old


@pytest.mark.parametrize("op", ["append", "stage"])
def test_late_output_is_refused_after_have(bench, op):
    late(bench, append(0, 1) if op == "append" else Stage(4, append(0, 1)))
    new = bench.connect()
    assert new.have() == 0
    found = proof(bench, "late")
    assert (found["outcome"], found["back"], found["connection"]) == ("error 7", 2, 1)
    assert new.call(append(0, 1)).fields == (0, 1)
    assert bench.recorded() == [(0, 0, [1])]
    assert bench.recorder.staged_open == 0


def test_without_have_late_output_comes_twice(bench):
    old = bench.connect()
    old.call(append(0, 1))
    strike(bench, "late", "sink")
    old.send(append(1, 2))
    assert rest_of(old)[1]
    new = bench.connect()
    assert new.call(append(1, 2)).fields == (0, 2)
    assert proof(bench, "late")["outcome"] == "taken"
    assert bench.recorded() == [(0, 0, [1]), (0, 1, [2]), (0, 1, [2])]


def test_without_have_a_late_stage_replaces_the_new_one(bench):
    old = bench.connect()
    old.call(append(0))
    strike(bench, "late", "sink")
    old.send(Stage(4, append(0, 1)))
    assert rest_of(old)[1]
    new = bench.connect()
    new.call(Stage(4, append(0, 5, 6)))
    assert proof(bench, "late")["outcome"] == "taken"
    new.call(Commit(4))
    assert bench.recorded() == [(0, 0, [1])]


def test_under_another_writer_late_output_comes_after_it(bench):
    late(bench, append(0, 1))
    assert bench.connect().call(append(0, 1, writer=9)).fields == (9, 1)
    assert proof(bench, "late")["outcome"] == "taken"
    assert bench.recorded() == [(9, 0, [1]), (0, 0, [1])]


def test_late_output_is_read_before_a_dead_engine_starts_again(bench):
    late(bench, append(0, 1))
    assert bench.recorded() == []
    bench.server.release_waits(True)
    assert bench.server.wait_idle(DEADLINE_S)
    bench.server.release_waits(False)
    assert proof(bench, "late")["outcome"] == "taken"
    assert bench.connect().have() == 1


def test_late_output_is_dropped_at_the_end_of_the_run(bench):
    late(bench, append(0, 1))
    bench.server.links.close()
    assert proof(bench, "late")["outcome"] == "dropped"
    assert bench.recorded() == []


def test_late_output_is_no_open_acknowledgement(bench):
    late(bench, append(0, 1))
    assert bench.sink.open_acknowledgements == 0


def test_empty_output_and_commits_are_not_late(bench):
    old = writer(bench)
    strike(bench, "late", "sink")
    assert old.call(append(0)).fields == (0, 0)
    assert old.call(Commit(8)).fields == (8, 3)
    assert proofs(bench) == []


# -- half open -----------------------------------------------------------------------------


def test_half_open_connections_give_nothing_and_break(bench):
    idle, busy, sink = reader(bench), reader(bench), writer(bench)
    strike(bench, "half-open", "source", seconds=0.3)
    busy.send(Fetch(0, 0, 0, 120, 0))
    fetches = len((bench.folder / "fetches.bin").read_bytes())
    new = reader(bench)
    assert sink.call(append(0, 1)).fields == (0, 1)
    assert rest_of(busy) == (b"", True)
    assert rest_of(idle) == (b"", True)
    found = proof(bench, "half-open")
    assert (found["count"], found["connections"]) == (1, [1, 2])
    assert new.fetch(0, 12).region == region(0)
    # Nothing was noted as fetched for those that get no answer.
    assert len((bench.folder / "fetches.bin").read_bytes()) == fetches + 2 * (fetches // 2)


def test_half_open_output_is_not_recorded_and_ends_with_the_engine(bench):
    client = writer(bench)
    strike(bench, "half-open", "sink", seconds=LONG_S)
    client.send(append(0, 1))
    until(lambda: bench.server.links._lasting[0].count)
    bench.server.release_waits(True)
    assert rest_of(client) == (b"", True)
    assert bench.server.wait_idle(DEADLINE_S)
    bench.server.release_waits(False)
    assert bench.recorded() == []
    assert proof(bench, "half-open")["count"] == 1


def test_a_fetch_that_waits_is_half_open_too(bench):
    client = reader(bench)
    client.send(Fetch(0, 0, 1_000, 120, 60_000))
    bench.await_waiting()
    strike(bench, "half-open", "source", seconds=0.1)
    bench.log.publish([2_000])
    assert rest_of(client) == (b"", True)
    assert bench.log.fetched == 10


# -- one after the other -------------------------------------------------------------------------


def test_a_step_waits_for_a_connection_of_its_side(bench):
    """An engine opens those of the sink with its first output, and input comes before that."""
    links = bench.server.links
    step = RefuseStep("draining", seconds=LONG_S)
    reader(bench)
    assert not links.ready(fault_of(step))
    assert links.ready(fault_of(KillStep("fetched", target="worker")))
    writer(bench)
    assert links.ready(fault_of(step))


def test_a_step_waits_for_the_fault_before_it(bench):
    links = bench.server.links
    step = CutStep("fetched", target="source")
    kill = KillStep("fetched", target="worker")
    client = reader(bench)
    assert links.ready(fault_of(step))
    links.aim(fault_of(step))()
    assert not links.ready(fault_of(step))
    assert not links.ready(fault_of(kill))  # it would be lost
    client.send(Fetch(0, 0, 0, 120, 0))
    assert rest_of(client)[1]
    until(lambda: bench.server.live == 0)
    assert not links.ready(fault_of(step))  # nobody is back
    assert links.ready(fault_of(kill))
    client = reader(bench)
    assert links.ready(fault_of(step))
    links.aim(fault_of(SilenceStep("fetched", seconds=LONG_S)))()
    assert links.lasting(fault_of(step))
    assert not links.ready(fault_of(step))
    assert links.ready(fault_of(kill))


def test_threads_and_sockets_are_gone_after_all_of_it(tmp_path):
    before = threading.active_count()
    with LogBench(tmp_path, records=1_000) as bench:
        client, sink = reader(bench), writer(bench)
        strike(bench, "silence", "source", seconds=LONG_S)
        strike(bench, "delay", "sink", seconds=LONG_S, lag_s=LONG_S)
        strike(bench, "half-open", "source", seconds=LONG_S)
        sink.send(append(0, 1))
        client.send(Fetch(0, 0, 0, 12, 0))
        until(lambda: all(fault.count for fault in bench.server.links._lasting[1:]))
        bench.server.links.close()
    until(lambda: threading.active_count() <= before)
    assert {found["do"] for found in proofs(bench)} == {"silence", "delay", "half-open"}
