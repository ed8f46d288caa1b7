"""Events: every kind has its class, what is written is read back, what does not fit is named."""

from __future__ import annotations

import re

import pytest

from tests.test_architecture import modules
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.fault_steps import KillStep
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.event import EventKind, PartitionState
from tickproof.conformance.history.events import EVENTS

#: Words of a writer: `event("started", ...)`, on one line or two.
_WRITTEN = re.compile(r"\b_?(?:event|events\.add|note)\(\s*(?:EventKind\.(\w+)|\"([\w-]+)\")")


def test_every_kind_has_a_class_that_says_what_it_means() -> None:
    assert EVENTS.keys() == set(EventKind)
    for kind in EVENTS.values():
        assert kind.__doc__ and not kind.__doc__.startswith(kind.__name__)


def test_everything_that_is_written_is_a_kind() -> None:
    found = set()
    for name in ("log_server", "runner", "faults"):
        for path in modules(f"conformance/{name}").values():
            for member, value in _WRITTEN.findall(path.read_text("utf-8")):
                found.add(EventKind[member] if member else EventKind(value))
    assert len(found) > 30


def test_a_state_of_a_partition_is_read_by_its_names() -> None:
    row = {"t_ns": 3, "event": "checkpointed", "partitions": [[0, 1, 10, 8, 6, 4]]}
    (state,) = events.Checkpointed.from_row(row).partitions
    assert state == PartitionState(0, 1, records=10, published=8, fetched=6, released=4)


def test_a_fault_is_read_with_the_moment_of_its_evidence() -> None:
    step = KillStep("fetched", target="worker", fraction=0.5)
    row = {
        "t_ns": 9,
        "event": "fault",
        "step": step.to_json(),
        "at_ns": 5,
        "moment": "fetched",
        "text": str(fault_of(step)),
        "outputs": 2,
        "partitions": [[0, 0, 10, 8, 6, 4], [0, 1, 5, 5, 5, 5]],
        "pids": [7],
        "number": 0,
        "total": 15,
    }
    fault = events.FiredFault.from_row(row)
    assert (fault.step, fault.t_ns, fault.struck_ns, fault.pids) == (step, 5, 9, (7,))
    assert (fault.held, fault.remaining, fault.backlog) == (2, 4, 4)
    assert (fault.released, fault.fetched) == (9, 11)


@pytest.mark.parametrize(
    ("row", "said"), [({"t_ns": 1}, "started: .*pid"), ({"t_ns": 1, "pid": 2, "more": 3}, "")]
)
def test_a_missing_field_is_named_and_an_unknown_one_is_left_out(row, said) -> None:
    if not said:
        assert events.Started.from_row(row) == events.Started(t_ns=1, pid=2)
        return
    with pytest.raises(HistoryError, match=rf"events\.jsonl: {said}"):
        events.Started.from_row(row)


def test_a_state_of_another_length_does_not_fit() -> None:
    with pytest.raises(HistoryError, match=r"events\.jsonl: checkpointed: "):
        events.Checkpointed.from_row({"t_ns": 1, "partitions": [[0, 1, 2]]})
