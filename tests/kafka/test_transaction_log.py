"""The time line of transactions, out of the topic that a real broker keeps for itself."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kafka.copier import WAIT_S, Stage, producer, staged, wait_until
from tickproof.conformance.kafka import transaction_log
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.transaction_log import (
    State,
    TransactionLog,
    TransactionState,
    aborted,
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
            State.ONGOING,
            State.PREPARE_COMMIT,
            State.COMPLETE_COMMIT,
            State.PREPARE_ABORT,
            State.COMPLETE_ABORT,
        ]
        assert {one.timeout_ms for one in rows} == {4321}
        times = [one.t_ms for one in rows]
        assert times == sorted(times) and all(one.producer_id >= 0 for one in rows)


def test_ids_of_another_name_are_read_where_they_are_asked_for(broker: Broker) -> None:
    with staged(broker) as stage, TransactionLog(stage.kit, f"t-{stage.name}") as log:
        own = f"own-{stage.name}"
        producer(stage.engine, **{"transactional.id": own}).init_transactions(WAIT_S)
        producer(stage.engine, **{"transactional.id": f"x{own}"}).init_transactions(WAIT_S)
        assert [one.transactional_id for one in log.read(named={own})] == [own]


STEPS = st.sampled_from((State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT))


@given(st.lists(st.tuples(st.sampled_from("abc"), STEPS), max_size=40))
def test_commits_are_behind_what_was_open_meanwhile(steps: list[tuple[str, State]]) -> None:
    rows = [TransactionState(at, id_, 1, 0, 1_000, state) for at, (id_, state) in enumerate(steps)]
    due = []
    for end in (row for row in rows if row.state is State.PREPARE_ABORT):
        own = [row for row in rows[: end.t_ms] if row.transactional_id == end.transactional_id]
        since = end.t_ms
        for row in reversed(own):
            if row.state is not State.ONGOING:
                break
            since = row.t_ms
        between = rows[since : end.t_ms]
        due.append((since, end.t_ms, sum(row.state is State.PREPARE_COMMIT for row in between)))
    assert [(one.begun_ms, one.ended_ms, one.behind) for one in aborted(rows)] == due
    assert all(a <= b for a, b in pairwise(one.ended_ms for one in aborted(rows)))


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
