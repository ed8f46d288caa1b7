"""Tier 3 over Kafka: what an engine's transactions, sessions and time-outs are good for.

The values are judged as everywhere. The proof that a fault met something is Kafka's own: output
that was produced and that nobody will see, or input that another worker read meanwhile.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.evidence import CHANGED, LOSS, VALUES, outputs, whole
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown, decides
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import require_fired, require_no
from tickproof.conformance.usage import noise
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason

#: What brokers, and the kit's reader, may add to the time that is claimed.
_SPARE_S: Final = 10.0


def _exact(history: History, faults: int = 1) -> None:
    require_no(history, whole(history), (*VALUES, *LOSS, *CHANGED, *forbidden_repeats(history)))
    require_fired(history, faults)


def _require_aborted(history: History) -> None:
    """Expect that output was produced in a transaction that did not end well."""
    ended = history.all(events.KafkaOutput)[-1:]
    if not any(one.aborted for one in ended):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "output produced in a transaction that was left open",
            "every record that the broker took was committed",
        )


@decides("KA-OPEN-TRANSACTION", "kafka-open-transactions")
def test_two_transactions_are_left_open(history: History) -> None:
    _exact(history, 2)
    _require_aborted(history)


@decides("KA-DOWNTIME", "kafka-short-downtime")
def test_a_downtime_within_the_time_out_of_a_transaction(history: History) -> None:
    _exact(history)


@decides("KA-DOWNTIME", "kafka-long-downtime")
def test_a_downtime_beyond_the_time_out_of_a_transaction(history: History) -> None:
    _exact(history)
    ended = history.all(events.KafkaTransactions)[-1:]
    if not any(one.begun for one in ended):
        return  # an engine without transactions leaves none open
    struck_ns = history.faults[0].struck_ns
    back_ns = min(one.t_ns for one in history.all(events.Started, resume=True))
    if not any(struck_ns < t_ns < back_ns for t_ns in ended[0].aborted_ns):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "a transaction that the broker aborted while it was down",
            "the broker aborted none before the engine was started again",
        )


@decides("KA-LOST-SESSION", "kafka-partition-returns")
def test_partitions_go_to_another_worker_and_come_back(history: History) -> None:
    _session_lost(history)


@decides("KA-LOST-SESSION", "kafka-lost-session")
def test_a_worker_comes_back_into_its_transaction(history: History) -> None:
    _session_lost(history)


@decides("KA-LOST-SESSION", "kafka-fenced")
def test_a_worker_comes_back_after_its_transaction(history: History) -> None:
    _session_lost(history)


def _session_lost(history: History) -> None:
    """Everything is right, and somebody else read what the paused worker had."""
    _exact(history)
    fault = history.faults[0]
    fetches = history.fetches[history.fetches["t_ns"] > fault.struck_ns]
    read = {(one.stream, one.partition): one.fetched for one in fault.partitions}
    again = any(row["base"] < read[int(row["stream"]), int(row["partition"])] for row in fetches)
    if again:
        return
    if not history.run["kafka"]["session_s"]:
        raise NotClaimed(f"{DOES_NOT_APPLY}: about members of a group; [kafka] names no session")
    if not _taken_over(history, fault):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "somebody who reads again what the paused one had",
            "no input was read a second time: it kept its session",
        )


def _taken_over(history: History, fault: events.FiredFault) -> bool:
    """Whether others read all partitions in the rest of a pause that outlasts the session.

    The paused one reads nothing then: what it had asked for was answered long before.
    """
    since_ns = fault.struck_ns + history.run["kafka"]["session_s"] * 1e9
    until_ns = fault.struck_ns + fault.step.seconds * 1e9
    fetches = history.fetches
    during = fetches[(fetches["t_ns"] > since_ns) & (fetches["t_ns"] < until_ns)]
    read = set(zip(during["stream"].tolist(), during["partition"].tolist(), strict=True))
    filled = {(row["stream"], row["partition"]) for row in history.partitions if row["records"]}
    return filled <= read


@decides("KA-REBALANCE", "kafka-rebalance")
def test_workers_die_while_a_commit_is_under_way(history: History) -> None:
    _exact(history, len(history.run["scenario"]["faults"]))


@decides("KA-NOT-HELD-UP", "kafka-worker-in-transaction")
def test_readers_are_held_up_no_longer_than_claimed(history: History) -> None:
    """A reader of what is committed waits for open transactions: no longer than they may last."""
    require_no(history, whole(history), LOSS)
    require_fired(history, 1)
    claimed_s = history.run["kafka"]["session_s"] + history.run["kafka"]["transaction_s"]
    arrivals = outputs(history).arrivals
    for fault, partition in product(history.faults, np.unique(arrivals["writer"])):
        of_one = arrivals["t_ns"][arrivals["writer"] == partition]
        later = of_one[of_one > fault.struck_ns]
        waited_s = float(later.min() - fault.struck_ns) / 1e9 if len(later) else 0.0
        if waited_s <= claimed_s + _SPARE_S:
            continue
        expected = f"output that can be read within {claimed_s:g} s of a death"
        actual = f"the next of partition {partition} came {waited_s:.1f} s after it"
        lost_s = noise.withheld_between_s(history, fault.struck_ns, int(later.min()))
        if waited_s - lost_s <= claimed_s + _SPARE_S:
            raise Unknown(
                Reason.MACHINE_BUSY,
                expected,
                f"{actual}, but the machine withheld {lost_s:.1f} s",
                fault=fault.text,
            )
        raise Fail(Reason.HELD_UP, expected, actual, fault=fault.text)
