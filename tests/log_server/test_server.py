"""What the log server does for several connections at once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.log_server.logbench import DEADLINE_S, LogBench, append, lost, region, until
from tickproof.conformance.log_server import request_handler
from tickproof.conformance.log_server.connection import SMALL_REPLY
from tickproof.conformance.log_server.frame_splitter import FrameReader
from tickproof.conformance.log_server.frames import (
    Abort,
    Append,
    Code,
    Commit,
    CommitOutcome,
    Fetch,
    Have,
    Release,
    Stage,
    Tail,
)
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.scenario import SinkBehaviour

#: Longer than any wait that these tests should see; a reply wakes the wait up.
LONG_MS = DEADLINE_S * 1000
UNNUMBERED = 2**64 - 1


@pytest.fixture
def bench(tmp_path):
    with LogBench(tmp_path, records=100_000) as made:
        yield made


def numbers(reply):
    return np.frombuffer(reply.region, [("size", "<u4"), ("x", "<u8")])["x"].tolist()


# -- FETCH ---------------------------------------------------------------------------------


def test_waiting_fetch_is_woken_by_a_publication(bench):
    client = bench.connect()
    client.send(Fetch(0, 0, 0, 1 << 20, LONG_MS))
    bench.await_waiting()
    bench.log.publish([3])
    reply = client.receive()
    assert numbers(reply) == [0, 1, 2]
    assert reply.fields == (0, 0, 0, 3, 0, 3)


def test_waiting_fetch_is_woken_by_end(bench):
    bench.log.publish([5])
    client = bench.connect()
    client.send(Fetch(0, 0, 5, 1 << 20, LONG_MS))
    bench.await_waiting()
    bench.log.end()
    assert client.receive().fields == (0, 0, 5, 5, 1, 0)
    assert client.call(Tail(0, 0)).fields == (0, 0, 0, 5, 1)


def test_fetch_at_the_end_gives_up_after_its_wait(bench):
    client = bench.connect()
    assert client.fetch(0, wait_ms=5).fields == (0, 0, 0, 0, 0, 0)


def test_waiting_fetch_does_not_hold_back_earlier_replies_or_other_connections(bench):
    waits, other = bench.connect(), bench.connect()
    waits.send(append(0, 7), Fetch(0, 0, 0, 1 << 20, LONG_MS))
    assert waits.receive().fields == (0, 1)
    bench.await_waiting()
    assert other.call(append(0, 8, writer=1)).fields == (1, 1)
    bench.log.publish([1])
    assert numbers(waits.receive()) == [0]


def test_release_makes_lower_offsets_unfetchable_even_to_one_that_waits(bench):
    bench.log.publish([10])
    client, other = bench.connect(), bench.connect()
    client.send(Fetch(0, 0, 10, 1 << 20, LONG_MS))
    bench.await_waiting()
    assert other.call(Release(0, 0, 6)).op == 0x84
    assert other.code(Fetch(0, 0, 5, 100, 0)) == Code.RELEASED
    assert numbers(other.fetch(6)) == [6, 7, 8, 9]
    assert other.call(Tail(0, 0)).fields == (0, 0, 6, 10, 0)

    # Published and released again before the one that waits gets to run.
    def publish_and_release():
        bench.log.publish([20])
        bench.log.release(Release(0, 0, 15))

    bench.server.call(publish_and_release)
    assert client.receive().fields == (Code.RELEASED,)


def test_release_never_goes_back_and_never_beyond_the_end(bench):
    bench.log.publish([10])
    client = bench.connect()
    client.call(Release(0, 0, 8))
    client.call(Release(0, 0, 3))
    assert client.code(Fetch(0, 0, 7, 100, 0)) == Code.RELEASED
    assert client.code(Release(0, 0, 11)) == Code.BEYOND_END
    assert client.code(Fetch(0, 0, 11, 100, 0)) == Code.BEYOND_END
    assert client.code(Fetch(0, 1, 0, 100, 0)) == Code.UNKNOWN_STREAM
    assert bench.log.released == 8


@pytest.mark.parametrize("max_bytes", [0, 1, 11, 12, 13, 24, 35])
def test_max_bytes_is_a_wish_but_one_record_comes(bench, max_bytes):
    bench.log.publish([100])
    assert numbers(bench.connect().fetch(4, max_bytes)) == list(
        range(4, 4 + max(1, max_bytes // 12))
    )


def test_small_replies_and_sendfile_give_the_same_bytes(bench):
    bench.log.publish([100_000])
    client = bench.connect()
    large = client.fetch(0, 1 << 24)
    assert len(large.region) > SMALL_REPLY
    assert large.region == region(*range(100_000))
    assert large.region == b"".join(
        client.fetch(offset, 50_000 * 12 // 10).region for offset in range(0, 100_000, 5_000)
    )


def test_replies_in_pieces_are_the_same_bytes(tmp_path):
    behaviour = SinkBehaviour(pieces=True, budget_s=0.05, seed=3)
    with LogBench(tmp_path, 20_000, behaviour) as bench:
        bench.log.publish([20_000])
        client = bench.connect()
        assert client.fetch(0, 1 << 20).region == region(*range(20_000))
        assert client.call(append(0, 5)).fields == (0, 1)


# -- HAVE ----------------------------------------------------------------------------------


def test_nothing_of_the_old_owner_is_recorded_after_have(bench):
    old, new = bench.connect(), bench.connect()
    assert old.have() == 0
    sent = [append(first, *range(first, first + 100)) for first in range(0, 100_000, 100)]
    flood = threading.Thread(target=old.send, args=sent)
    flood.start()
    until(lambda: bench.recorder.records)
    next_seq = new.have()
    assert new.call(append(next_seq, 777)).fields == (0, next_seq + 1)
    codes = {reply.fields[0] for reply in (old.receive() for _ in sent) if reply.op == 0xFF}
    flood.join(DEADLINE_S)
    assert codes <= {Code.FENCED}
    values = [value for _, _, part in bench.recorded() for value in part]
    assert values == [*range(next_seq), 777]


def test_the_old_owner_may_ask_again_and_other_writers_are_free(bench):
    first, second = bench.connect(), bench.connect()
    first.have()
    second.have()
    assert first.code(append(0, 1)) == Code.FENCED
    assert first.code(Stage(9, append(0, 1))) == Code.FENCED
    assert first.call(append(0, 1, writer=1)).fields == (1, 1)
    assert first.have() == 0
    assert first.call(append(0, 1)).fields == (0, 1)
    assert second.code(append(1, 2)) == Code.FENCED
    assert "have-after-fence" in [event for event, _ in bench.events]


def after_fence(bench) -> list[str]:
    return [event for event, _ in bench.events if event == "output-after-fence"]


def test_what_was_under_way_before_a_fence_is_not_late_however_slow_the_log_is(bench, monkeypatch):
    monkeypatch.setattr(request_handler, "FENCE_GRACE_S", 0.1)
    old, new = bench.connect(), bench.connect()
    old.have()
    new.have()
    real, asked = bench.recorder.append, []

    def slow(*request):
        asked.append(request)
        try:
            return real(*request)
        finally:
            threading.Event().wait(0.3)  # the one thread does something else, a large COMMIT say

    monkeypatch.setattr(bench.recorder, "append", slow)
    old.send(append(0, *range(10_000)), append(0, *range(10_000)))
    assert {old.receive().fields[0] for _ in range(2)} == {Code.FENCED}
    assert len(asked) == 2 and not after_fence(bench)
    until(lambda: old.code(append(0, 1)) == Code.FENCED and after_fence(bench))


def test_a_fenced_writer_that_sends_without_a_pause_is_late_in_the_end(bench, monkeypatch):
    monkeypatch.setattr(request_handler, "FENCE_LONGEST_S", 0.05)
    monkeypatch.setattr(FrameReader, "silent", lambda _: False)
    old, new = bench.connect(), bench.connect()
    old.have()
    new.have()
    until(lambda: old.code(append(0, 1)) == Code.FENCED and after_fence(bench))


# -- STAGE, COMMIT, ABORT ----------------------------------------------------------------------


def test_staged_output_outlives_its_connection_and_is_committed_over_another(bench):
    first, second = bench.connect(), bench.connect()
    first.call(Stage(5, append(0, 1, 2)))
    first.call(Stage(5, append(0, 3, 4, 5)))
    first.call(Stage(5, append(0, 6, writer=1)))
    first.close()
    assert bench.recorder.staged_open == 1
    assert second.have() == 0
    assert second.call(Commit(5)).fields == (5, 1)
    assert second.call(Commit(5)).fields == (5, 2)
    assert second.call(Stage(5, append(3, 9))).fields == (5,)
    assert second.call(Commit(5)).fields == (5, 2)
    assert second.call(Abort(5)).fields == (5,)
    assert second.have() == 3
    assert bench.recorded() == [(0, 0, [3, 4, 5]), (1, 0, [6])]
    assert bench.recorder.staged_open == 0


def test_numbers_are_checked_at_commit_and_nothing_is_recorded(bench):
    client = bench.connect()
    client.call(Stage(1, append(0, 1, writer=1)))
    client.call(Stage(1, append(4, 2)))
    assert client.code(Commit(1)) == Code.SEQUENCE_GAP
    assert bench.recorded() == []
    assert client.have(1) == 0
    client.call(append(0, 10, 11, 12, 13))
    assert client.call(Commit(1)).fields == (1, 1)
    assert bench.recorded()[1:] == [(1, 0, [1]), (0, 4, [2])]


def test_abort_drops_and_unknown_transactions_do_nothing(bench):
    client = bench.connect()
    assert client.call(Commit(8)).fields == (8, 3)
    assert client.call(Abort(8)).fields == (8,)
    client.call(Stage(8, append(0, 1)))
    client.call(Abort(8))
    assert client.call(Commit(8)).fields == (8, 3)
    client.call(Stage(9, append(0)))
    assert bench.recorder.staged_open == 0
    assert client.call(Commit(9)).fields == (9, 1)
    assert bench.recorded() == []


def test_refused_frames_leave_no_trace(bench):
    client = bench.connect()
    assert client.code(append(1, 5)) == Code.SEQUENCE_GAP
    assert client.code(append(0, 5, stream=3)) == Code.UNKNOWN_STREAM
    assert client.code(Stage(4, append(0, 5, stream=3))) == Code.UNKNOWN_STREAM
    # None of them settled whether the writer numbers its output.
    unnumbered = Append(0, 0, UNNUMBERED, 1, memoryview(region(7)), 8)
    assert client.call(unnumbered).fields == (0, 0)
    assert client.code(append(0, 5)) == Code.NOT_ALLOWED
    assert client.call(Commit(4)).fields == (4, 3)
    assert bench.recorded() == [(0, UNNUMBERED, [7])]


def test_records_of_another_size_are_kept_apart(bench):
    client = bench.connect()
    odd = b"\x03\0\0\0abc"
    assert client.call(Append(0, 0, 0, 1, memoryview(odd), 3)).fields == (0, 1)
    assert client.call(append(1, 5)).fields == (0, 2)
    assert bench.recorded() == [(0, 1, [5])]
    assert (bench.folder / "output" / "s0.odd").read_bytes() == odd
    (event,) = [fields for event, fields in bench.events if event == "odd-output"]
    assert (event["record_size"], event["expected"], event["count"]) == (3, 8, 1)


# -- observers and acknowledgements ---------------------------------------------------------------


def test_moments_are_seen_in_order_and_before_the_reply(tmp_path):
    seen = []
    with LogBench(tmp_path, 3, None, lambda moment, _: seen.append(moment)) as bench:
        bench.log.publish([3])
        client = bench.connect()
        client.fetch(0)
        client.call(append(0, 1))
        client.call(Stage(1, append(1, 2)))
        client.call(Commit(1))
    assert seen == [
        "fetched",
        "append-received",
        "appended",
        "append-acked",
        "staged",
        "stage-acked",
        "commit-received",
        "committed",
        "commit-acked",
    ]


def test_frames_without_records_are_no_moments(tmp_path):
    seen = []
    with LogBench(tmp_path, 0, None, lambda moment, _: seen.append(moment)) as bench:
        client = bench.connect()
        assert client.call(append(0)).fields == (0, 0)
        assert client.call(Stage(1, append(0))).fields == (1,)
        assert client.call(Commit(1)).fields == (1, CommitOutcome.COMMITTED)
        client.call(Stage(2, append(0, 7)))
        client.call(Commit(2))
        assert client.call(Commit(2)).fields == (2, CommitOutcome.ALREADY)
    assert seen == ["staged", "stage-acked", "commit-received", "committed", "commit-acked"]


def test_a_lost_frame_and_what_follows_it_count_as_never_sent(tmp_path):
    def observer(moment, _):
        return lost() if moment == "commit-received" else None

    with LogBench(tmp_path, 0, None, observer) as bench:
        client = bench.connect()
        client.send(Stage(1, append(0, 1)), Commit(1), append(0, 2))
        until(lambda: bench.server.live == 0)
        assert bench.recorder.records == 0
        assert bench.connect().call(Have(0, 0)).fields == (0, 0)


def test_output_without_an_answer_is_counted_as_open(tmp_path):
    with LogBench(tmp_path, 0, SinkBehaviour(ack_delay_s=DEADLINE_S, budget_s=60)) as bench:
        client = bench.connect()
        client.send(append(0, 1))
        until(lambda: bench.recorder.records)
        assert bench.sink.open_acknowledgements == 1
        bench.server.release_waits(True)
        assert client.receive().fields == (0, 1)
        assert client.code(append(5, 1)) == Code.SEQUENCE_GAP
        assert client.call(Have(0, 0)).fields == (0, 1)
        assert bench.sink.open_acknowledgements == 0


def test_every_connection_counts_until_it_is_read_to_its_end(bench):
    client = bench.connect()
    assert bench.server.live == bench.server.connections == 1
    client.send(*[append(first, first) for first in range(1000)])
    client.close()
    assert bench.server.wait_idle(DEADLINE_S)
    # Nobody read the replies, so the end may have come in the middle: never inside a frame.
    written = [value for _, _, part in bench.recorded() for value in part]
    assert written == list(range(len(written)))
    assert bench.sink.open_acknowledgements == 0


def test_taken_port_is_named(bench):
    port = bench.server.port
    with pytest.raises(OSError, match=f"port {port} on 127.0.0.1"):
        LogServer(bench.log, bench.recorder, bench.sink, bench.note, port)
