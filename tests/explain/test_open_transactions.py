"""A transaction that a death left open, and what it hid from a life that read on meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tickproof.conformance.explain import fault_sentences
from tickproof.conformance.history.event import StateRead
from tickproof.conformance.history.events import KafkaStateReads, KafkaTransactions

SECOND = 1_000_000_000


def facts(*rows: tuple[float, float, int], reads: tuple[StateRead, ...] = ()) -> Any:
    """Return deaths at 10 and 40 s, and transactions: open from, aborted at, committed behind."""
    noted = KafkaTransactions(
        t_ns=100 * SECOND,
        begun=9,
        open_ns=tuple(int(row[0] * SECOND) for row in rows),
        aborted_ns=tuple(int(row[1] * SECOND) for row in rows),
        behind=tuple(row[2] for row in rows),
    )
    deaths = [
        SimpleNamespace(
            number=number,
            fault=SimpleNamespace(struck_ns=at_s * SECOND, t_ns=at_s * SECOND),
            fetched_ns=(at_s + 9) * SECOND,
            until_ns=(at_s + 30) * SECOND,
        )
        for number, at_s in enumerate((10, 40))
    ]
    sent = KafkaStateReads(t_ns=100 * SECOND, reads=reads)
    return SimpleNamespace(
        aftermaths=deaths,
        history=SimpleNamespace(all=lambda kind: [sent if kind is KafkaStateReads else noted]),
        name=lambda after: f"kill {after.number + 1}",
    )


def test_a_transaction_of_an_earlier_death_hides_what_is_behind_it() -> None:
    made = facts((9.5, 69.0, 7), (39.0, 99.0, 3))
    assert fault_sentences.hidden(made, made.aftermaths[1]) == (
        " As it read on, a transaction that kill 1 had left open was open for another 20.000 s: "
        "until then readers of committed messages saw nothing that was committed behind it."
    )
    assert fault_sentences.hidden(made, made.aftermaths[0]) == ""


@pytest.mark.parametrize(
    "row",
    [
        (9.5, 48.9, 7),  # it had ended before
        (9.5, 69.0, 0),  # nothing was behind it
        (39.0, 99.0, 3),  # of the same death: it hides what comes after
        (11.0, 69.0, 3),  # of no death
    ],
)
def test_any_other_transaction_hides_nothing(row: tuple[float, float, int]) -> None:
    made = facts(row)
    assert fault_sentences.hidden(made, made.aftermaths[1]) == ""


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(9.5, 69.0, 1)], " A transaction stayed open until it was aborted 59.000 s after"),
        (
            [(9.5, 69.0, 7), (9.6, 70.0, 3)],
            " 2 transactions stayed open, the last until it was aborted 60.000 s after",
        ),
    ],
)
def test_all_that_a_death_left_open_is_told(
    rows: list[tuple[float, float, int]], said: str
) -> None:
    made = facts(*rows)
    assert fault_sentences._left_open(made, made.aftermaths[0]).startswith(said)


def read(partition: int, told: int, sent: int = 0, at_s: int = 45, topic: str = "log") -> StateRead:
    """Return what a connection learnt of a partition to which 900 records were written."""
    return StateRead(topic, partition, 5, at_s * SECOND, at_s * SECOND, told, sent, 900)


def test_it_is_told_where_the_engine_took_its_own_topics_to_end() -> None:
    reads = (
        read(1, 200, sent=198),
        read(0, 0),
        read(0, -1),  # another connection, which did not ask
        read(2, 100),
        read(2, 900),  # it asked again, and was told the end
        read(3, 100, at_s=11),  # before the second death
        read(0, 100, topic="whole|", at_s=75),  # after its time
        read(4, -1, sent=7),  # it never asked
    )
    made = facts((9.5, 69.0, 7), reads=reads)
    said = fault_sentences.hidden(made, made.aftermaths[1])
    assert said.endswith(
        "behind it. Asked where the engine's own topic log ends, the broker had answered: offset 0 "
        "of partition 0 (900 records were written there, it was sent none) and offset 200 of "
        "partition 1 (900 records were written there, it was sent those up to 198)."
    )


def test_nothing_is_told_of_topics_where_no_transaction_hid_anything() -> None:
    made = facts((9.5, 48.9, 7), reads=(read(0, 100),))
    assert fault_sentences.hidden(made, made.aftermaths[1]) == ""
