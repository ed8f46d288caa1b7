"""What became of a record that is lost or there twice, from when its partition was read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.twins import copy
from tickproof.conformance.history.job_run import Fired
from tickproof.conformance.jobs import judge, reads
from tickproof.conformance.jobs.comparison import Claims, Finding, Kind, Level
from tickproof.conformance.jobs.judge import Baseline, Judged
from tickproof.conformance.jobs.reads import End, Read, Reads
from tickproof.conformance.jobs.records import Record, of_input
from tickproof.conformance.jobs.trial import Run

#: At offset 50 of its partition.
RECORD = Record(151, "a", 2, {"id": 151}, b"", None, "orders", 50)
WHERE = "[inputs.orders] partition 2, offset 50: "
KILLED = End(10.0, "worker 0 killed")
ENDED = End(10.0, "worker 0 ended by itself with status 1")


def answers(*rows: tuple[float, int, int]) -> list[Read]:
    return [Read(t_s, "orders", 2, first, end) for t_s, first, end in rows]


@pytest.mark.parametrize(
    ("rows", "lives", "what", "means"),
    [
        (
            [(5.0, 0, 40), (6.0, 40, 80), (12.0, 61, 90)],
            [KILLED],
            "read at 6.0 s; worker 0 killed at 10.0 s; at 12.0 s the job read on at offset 61",
            "counted as done while its effect",
        ),
        (  # another took the partition over, and no life ended
            [(6.0, 0, 80), (12.0, 61, 90)],
            [],
            "read at 6.0 s; at 12.0 s the job read on at offset 61",
            "counted as done while its effect",
        ),
        (  # a life began before it, and did not come as far
            [(6.0, 0, 80), (12.0, 40, 45), (14.0, 61, 90)],
            [KILLED],
            "read at 6.0 s; worker 0 killed at 10.0 s; at 14.0 s the job read on at offset 61",
            "counted as done while its effect",
        ),
        (
            [(6.0, 0, 80), (11.0, 40, 90), (13.0, 90, 100)],
            [ENDED],
            "read at 6.0 s, and again at 11.0 s, and no life ended after that",
            "read again and left out",
        ),
        (
            [(6.0, 0, 80), (13.0, 80, 100)],
            [End(2.0, "worker 0 killed")],
            "read at 6.0 s, and the life that read it went on",
            "An error was passed over",
        ),
        (
            [(6.0, 0, 50), (12.0, 61, 90)],
            [KILLED],
            "never read; at 12.0 s the job read on at offset 61",
            "A life began behind it",
        ),
    ],
)
def test_a_lost_record(
    rows: list[tuple[float, int, int]], lives: list[End], what: str, means: str
) -> None:
    told = reads.told(Kind.LOST, RECORD, answers(*rows), lives)
    assert told is not None
    assert told.how == WHERE + what
    assert means in told.means


@pytest.mark.parametrize(
    ("rows", "lives"),
    [
        ([], []),
        ([(6.0, 0, 40)], [KILLED]),  # the run ended before
        ([(6.0, 0, 80), (12.0, 80, 100)], [KILLED]),  # of another worker, or all were done
    ],
)
def test_what_may_mean_several_things_is_not_told(
    rows: list[tuple[float, int, int]], lives: list[End]
) -> None:
    assert reads.told(Kind.LOST, RECORD, answers(*rows), lives) is None


@pytest.mark.parametrize(
    ("rows", "lives", "what", "means"),
    [
        (
            [(6.0, 0, 80), (12.0, 40, 90)],
            [KILLED],
            "read at 6.0 s, and again at 12.0 s; worker 0 killed at 10.0 s",
            "durable before it counted as done",
        ),
        ([(6.0, 0, 80), (12.0, 80, 90)], [], "read at 6.0 s, and not again", "job itself did it"),
    ],
)
def test_a_record_that_is_there_twice(
    rows: list[tuple[float, int, int]], lives: list[End], what: str, means: str
) -> None:
    told = reads.told(Kind.TWICE, RECORD, answers(*rows), lives)
    assert told is not None
    assert told.how == WHERE + what
    assert means in told.means


@pytest.mark.parametrize("kind", [Kind.VALUE, Kind.ORDER])
def test_of_a_value_it_tells_nothing(kind: Kind) -> None:
    assert reads.told(kind, RECORD, answers((6.0, 0, 80)), []) is None


def fired(*what: tuple[str, float]) -> Sequence[Fired]:
    return [Fired(do, "", t_s, "worker 0", 1, "a held commit") for do, t_s in what]


def test_lives_end_by_faults_and_by_themselves() -> None:
    faults = fired(("cut", 1.0), ("kill", 2.0), ("restart", 4.0), ("pause", 5.0))
    found = reads.ends(faults, [End(3.0, "worker 0 ended by itself with status 1")])
    assert found == [
        End(2.0, "worker 0 killed"),
        End(3.0, "worker 0 ended by itself with status 1"),
        End(4.0, "worker 0 ended by SIGTERM"),
        End(5.0, "worker 0 paused"),
    ]


def test_only_answers_of_its_partition_tell_of_a_record() -> None:
    kept = Reads()
    own = Read(1.0, "orders", 2, 0, 80)
    for one in (own, Read(1.0, "orders", 1, 0, 80), Read(1.0, "quotes", 2, 0, 80)):
        kept.add(one)
    assert kept.of(RECORD) == [own]


def outcome(tmp_path: Path, baseline: Baseline, **facts: Any) -> dict[str, Any]:
    """Return what is told of a run that has lost the row of `RECORD`."""
    run = Run("commit", fired=[*fired(("kill", 10.0))], **facts)
    for one in answers((6.0, 0, 80), (12.0, 61, 90)):
        run.reads.add(one)
    lost = Finding(Kind.LOST, "[151]", '{"id": 151}', "")
    job = copy("totals-sql", tmp_path)
    judged = {"commit": Judged(run, Path("commit"), [("totals", lost)])}
    made = judge.outcomes(job, {"totals": baseline}, judged)
    return next(one.story for one in made if one.requirement == "JB-COMMIT")


BASELINE = Baseline(
    Level.MULTISET,
    {"[151]": ['{"id": 151}']},
    Claims("exactly-once", "exactly-once", ordered=False, knows=True, counts=""),
    records={"[151]": [RECORD]},
)


def test_what_became_of_it_stands_in_place_of_what_is_likely(tmp_path: Path) -> None:
    told = outcome(tmp_path, BASELINE)
    assert "counted as done while its effect" in told["why"][0]
    assert told["brief"][1].startswith(WHERE)
    assert told["brief"][2] == told["why"][0]


@pytest.mark.parametrize(
    ("baseline", "facts"),
    [
        (BASELINE, {"partitions": 2}),  # it is at another place then
        (replace(BASELINE, records={"[151]": [RECORD, RECORD]}), {}),
        (replace(BASELINE, records={}), {}),
    ],
)
def test_without_one_record_nothing_is_told(
    tmp_path: Path, baseline: Baseline, facts: dict[str, Any]
) -> None:
    assert outcome(tmp_path, baseline, **facts)["why"] == []


def test_records_know_their_offsets(tmp_path: Path) -> None:
    records = of_input(copy("totals-sql", tmp_path), "orders", 7)
    for partition in {one.partition for one in records}:
        there = [one for one in records if one.partition == partition]
        assert [one.offset for one in there] == list(range(len(there)))
    assert {one.input for one in records} == {"orders"}


def record(number: int, **value: object) -> Record:
    return Record(number, "a", 0, value, b"")


@pytest.mark.parametrize(
    ("values", "due", "names"),
    [
        ([{"id": 1, "of": 7}, {"id": 2, "of": 7}], ["[1]", "[2]"], [1, 2]),
        ([{"id": 1, "of": 7}, {"id": 2, "of": 7}], ["[2]"], [1, 2]),
        ([{"id": 1, "of": 7}, {"id": 2, "of": 7}], ["[7]"], []),  # several have it
        ([{"id": 1, "of": 2}, {"id": 2, "of": 1}], ["[1]", "[2]"], []),  # two fields do
        ([{"id": 1}, {"of": 2}], ["[1]"], []),
        ([{"id": 1}], [], []),
    ],
)
def test_the_record_of_a_row_is_guessed_by_equal_values(
    values: list[dict[str, object]], due: list[str], names: list[int]
) -> None:
    sent = [record(n, **one) for n, one in enumerate(values, 1)]
    rows = {key: ["{}"] for key in due}
    baseline = Baseline(Level.MULTISET, rows, BASELINE.claims, sent=sent)
    assert sorted(baseline.origins) == [f"[{one}]" for one in names]
    assert not baseline.by_record  # a guess decides nothing


def test_what_is_read_again_is_known_by_partition() -> None:
    reads = Reads()
    for t_s, name, partition, first, end in (
        (1.0, "orders", 0, 0, 5),
        (2.0, "orders", 1, 0, 5),
        (3.0, "quotes", 0, 0, 5),
        (4.0, "orders", 0, 5, 9),
    ):
        reads.add(Read(t_s, name, partition, first, end))
    assert reads.again_s == 0
    reads.add(Read(5.0, "orders", 0, 8, 9))
    assert reads.again_s == 5
    reads.add(Read(6.0, "orders", 0, 9, 10))
    assert reads.again_s == 5
