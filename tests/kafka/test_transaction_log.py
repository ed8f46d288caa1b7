"""The time line of transactions, out of the topic that a real broker keeps for itself."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka.copier import WAIT_S, Stage, producer, staged, wait_until
from tickproof.conformance.kafka import transaction_log
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.transaction_log import State, TransactionLog


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
            State.ONGOING,
            State.PREPARE_COMMIT,
            State.COMPLETE_COMMIT,
            State.PREPARE_ABORT,
            State.COMPLETE_ABORT,
        ]
        assert {one.timeout_ms for one in rows} == {4321}
        times = [one.t_ms for one in rows]
        assert times == sorted(times) and all(one.producer_id >= 0 for one in rows)


def test_a_key_of_another_kind_is_passed_over() -> None:
    assert transaction_log.transaction_state(0, struct.pack(">hh", 0, 1) + b"t", None) is None


def test_an_unknown_state_is_malformed() -> None:
    value = struct.pack(">hqhib", 0, 1, 2, 3, 99)
    with pytest.raises(Malformed, match="99"):
        transaction_log.transaction_state(0, struct.pack(">hh", 0, 1) + b"t", value)


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_malformed(key: bytes, value: bytes) -> None:
    try:
        found = transaction_log.transaction_state(0, key, value)
    except Malformed:
        return
    assert found is None or found.t_ms == 0
