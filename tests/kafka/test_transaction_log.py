"""The time line of commits, out of the topics that a real broker keeps for itself."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka.copier import WAIT_S, Copier, Reader, Stage, producer, staged, wait_until
from tickproof.conformance.kafka import transaction_log
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.transaction_log import (
    CommittedOffset,
    CommittedOffsets,
    State,
    TransactionLog,
)


def states(stage: Stage, log: TransactionLog) -> list[State]:
    return [one.state for one in log.read() if one.transactional_id == f"t-{stage.name}"]


def test_commit_and_abort_on_the_time_line(broker: Broker) -> None:
    with staged(broker) as stage, TransactionLog(stage.kit, f"t-{stage.name}") as log:
        sink = producer(
            stage.engine, **{"transactional.id": f"t-{stage.name}", "transaction.timeout.ms": 4321}
        )
        sink.init_transactions(WAIT_S)
        seen = states(stage, log)
        assert seen == [State.EMPTY]
        for end in (sink.commit_transaction, sink.abort_transaction):
            sink.begin_transaction()
            sink.produce(stage.output, b"0")
            sink.flush(WAIT_S)
            end(WAIT_S)
        rows = []
        wait_until(lambda: rows.extend(log.read()) or rows[-1].state is State.COMPLETE_ABORT)
        assert list(dict.fromkeys(one.state for one in rows)) == [
            State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT,
            State.PREPARE_ABORT, State.COMPLETE_ABORT,
        ]  # fmt: skip
        assert {one.timeout_ms for one in rows} == {4321}
        times = [one.t_ms for one in rows]
        assert times == sorted(times) and all(one.producer_id >= 0 for one in rows)


def test_committed_offsets_move_with_their_transactions(broker: Broker) -> None:
    with staged(broker) as stage, CommittedOffsets(stage.kit, f"g-{stage.name}") as offsets:
        reader, moves = Reader(stage), list[CommittedOffset]()
        with Copier(stage):
            for _ in range(3):
                stage.feed(40)
                reader.wait_for(stage.fed)
                half = stage.fed // 2
                wanted = {(stage.input, 0): half, (stage.input, 1): half}
                wait_until(lambda: moves.extend(offsets.read()) or offsets.offsets == wanted)  # noqa: B023
        reader.close()
        for partition in (0, 1):
            moved = [one.offset for one in moves if one.partition == partition]
            assert moved == sorted(moved) and moved[-1] == 60


def test_offsets_of_an_open_transaction_are_not_seen(broker: Broker) -> None:
    with staged(broker) as stage, CommittedOffsets(stage.kit, f"g-{stage.name}") as offsets:
        stage.feed(10)
        source = stage.consumer(stage.engine)
        source.subscribe([stage.input])
        sink = producer(stage.engine, **{"transactional.id": f"t-{stage.name}"})
        sink.init_transactions(WAIT_S)
        sink.begin_transaction()
        taken: list[object] = []
        wait_until(lambda: taken.extend(source.consume(10, 0.05)) or len(taken) == 10)
        held = source.position(source.assignment())
        sink.send_offsets_to_transaction(held, source.consumer_group_metadata(), WAIT_S)
        assert offsets.read() == []
        sink.commit_transaction(WAIT_S)
        wait_until(lambda: offsets.read() or offsets.offsets)
        assert sorted(offsets.offsets.values()) == [5, 5]
        source.close()


def test_a_key_of_another_kind_is_passed_over() -> None:
    assert transaction_log.committed_offset(0, struct.pack(">h", 2) + b"\0\1g", b"") is None
    assert transaction_log.transaction_state(0, struct.pack(">hh", 0, 1) + b"t", None) is None
    forgotten = transaction_log.committed_offset(
        5,
        struct.pack(">hh", 1, 1) + b"g" + struct.pack(">h", 1) + b"t" + struct.pack(">i", 3),
        None,
    )
    assert forgotten == CommittedOffset(5, "g", "t", 3, None)


def test_an_unknown_state_is_malformed() -> None:
    value = struct.pack(">hqhib", 0, 1, 2, 3, 99)
    with pytest.raises(Malformed, match="99"):
        transaction_log.transaction_state(0, struct.pack(">hh", 0, 1) + b"t", value)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(key: bytes, value: bytes) -> None:
    for read in (transaction_log.transaction_state, transaction_log.committed_offset):
        try:
            found = read(0, key, value)
        except Malformed:
            continue
        assert found is None or found.t_ms == 0
