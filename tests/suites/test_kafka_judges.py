"""What is judged of a run over Kafka alone, on made histories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.judging import judge_of
from tickproof.conformance.fault_steps import (
    ErrorStep,
    FaultStep,
    FillStep,
    KillEngineStep,
    KillLeaderStep,
    KillStep,
    PauseLeaderStep,
    PauseStep,
    ScaleStep,
    WipeStep,
)
from tickproof.conformance.history.event import NamedProcess
from tickproof.conformance.history.events import (
    Connected,
    Deployed,
    Drained,
    FillOver,
    KafkaNames,
    KafkaOutput,
    KafkaTransactions,
    Link,
    NotGreeted,
    PartitionState,
    Progress,
    Scaled,
    Stall,
    StallEnded,
    Started,
    Topology,
)
from tickproof.conformance.history.fired_fault import FiredFault
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown
from tickproof.conformance.suites.require import not_fetched_below
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import LEAST_CLAIMS, RunFolder, given_input
from tickproof.generators.layouts import NUMBER

judge_names = judge_of("KA-NAMES", "count")
judge_downtime = judge_of("KA-DOWNTIME", "kafka-long-downtime")
judge_behind = judge_of("KA-OPEN-TRANSACTION", "kafka-commits-behind")
judge_errors = judge_of("KA-ERRORS", "kafka-errors")
judge_lost_session = judge_of("KA-LOST-SESSION", "kafka-partition-returns")
judge_full = judge_of("EO-FULL-DISK", "count-full-disk")
judge_slow = judge_of("BP-SLOW-SINK", "slow-sink")
judge = judge_of("KA-NOT-HELD-UP", "kafka-worker-in-transaction")
RECORDS = 100
SECOND = 1_000_000_000
#: The session and the transaction that the engine claims, and what a busy machine may add.
CLAIMED_S, SPARE_S = 3 + 10, 10


def starved(seconds: float) -> dict[str, list[tuple]]:
    """Return the tables of a process that is ready to run from 1 s on, and gets no core."""
    to_ns = SECOND + int(seconds * SECOND)
    usage = [(t_ns, 7, 0, 0, 0, 1, 0, 0, t_ns - SECOND, 0, 0, 0, 3) for t_ns in (SECOND, to_ns)]
    machine = [(t_ns, 0, 0, 0, 0, -1) for t_ns in (SECOND, to_ns)]
    return {"usage": usage, "machine": machine}


def exact_run(
    folder: Path, name: str, *steps: FaultStep, t_ns: int | np.ndarray, transaction_s: float = 10.0
) -> RunFolder:
    """Begin a run over Kafka whose outputs are right; ``t_ns``: when they come, or each of them."""
    numbers = np.arange(RECORDS, dtype="<i8").view(NUMBER)
    run = RunFolder(
        folder,
        Scenario(name, "passthrough", {}, {}, faults=steps),
        make_input=given_input({(0, 0): numbers}),
        kafka={"session_s": 3.0, "transaction_s": transaction_s, "transaction_version": 2},
    )
    run.outputs(output_log(numbers, t_ns=np.full(RECORDS, t_ns, np.int64)))
    return run


#: A partition that was read whole, and of which nothing is released.
DONE = PartitionState(0, 0, RECORDS, RECORDS, RECORDS, 0)


def fired(
    step: FaultStep,
    *pids: int,
    at_s: int = 1,
    outputs: int = 0,
    partitions: tuple[PartitionState, ...] = (DONE,),
) -> FiredFault:
    """Return a fault; ``outputs`` and ``partitions``: how far the run was then."""
    return FiredFault(
        t_ns=at_s * SECOND,
        struck_ns=at_s * SECOND,
        step=step,
        moment=step.at,
        text="a fault",
        outputs=outputs,
        total=sum(one.records for one in partitions),
        partitions=partitions,
        pids=pids,
    )


def history(folder: Path, waited_s: float, starved_s: float = 0.0, again_s: int | None = None):
    """Make a run whose worker dies at 1 s, and whose output goes on after ``waited_s``.

    again_s: when it dies once more.
    """
    step = KillStep("staged", target="worker", fraction=0.5)
    t_ns = np.full(RECORDS, SECOND // 2, np.int64)
    t_ns[RECORDS // 2 :] = SECOND + int(waited_s * SECOND)
    run = exact_run(folder, "kafka-worker-in-transaction", step, t_ns=t_ns)
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)], **starved(starved_s))
    deaths = (1,) if again_s is None else (1, again_s)
    run.events(*(fired(step, 7, at_s=at_s, outputs=RECORDS // 2) for at_s in deaths))
    return run.history()


@pytest.mark.parametrize("waited_s", [0.1, CLAIMED_S, CLAIMED_S + SPARE_S - 0.1])
def test_output_comes_within_the_claimed_timeouts(tmp_path: Path, waited_s: float) -> None:
    judge(history(tmp_path / "run", waited_s))


def test_output_that_comes_later_is_held_up(tmp_path: Path) -> None:
    with pytest.raises(Fail, match=f"within {CLAIMED_S} s of a death") as failure:
        judge(history(tmp_path / "run", CLAIMED_S + SPARE_S + 0.1))
    assert failure.value.code == "HELD_UP"


@pytest.mark.parametrize(
    ("waited_s", "again_s"), [(CLAIMED_S + SPARE_S + 1, 11), (2 * (CLAIMED_S + SPARE_S), 24)]
)
def test_each_death_has_its_own_time(tmp_path: Path, waited_s: float, again_s: int) -> None:
    judge(history(tmp_path / "run", waited_s, again_s=again_s))


@pytest.mark.parametrize(
    ("waited_s", "again_s", "found"),
    [
        (35.0, 11, "the next of partition 0 came 25.0 s after it"),
        (25.0, 25, "none of partition 0 in the 24.0 s until the next one"),
        (24.0, 26, "the next of partition 0 came 24.0 s after it"),
    ],
)
def test_a_second_death_excuses_no_more_than_its_own(
    tmp_path: Path, waited_s: float, again_s: int, found: str
) -> None:
    with pytest.raises(Fail, match=f"HELD_UP.*{found}"):
        judge(history(tmp_path / "run", waited_s, again_s=again_s))


def test_what_the_machine_withheld_holds_no_reader_up(tmp_path: Path) -> None:
    waited_s = CLAIMED_S + SPARE_S + 5
    with pytest.raises(Unknown, match=r"MACHINE_BUSY.*withheld 6\.0 s"):
        judge(history(tmp_path / "run", waited_s, starved_s=6))
    with pytest.raises(Fail, match="HELD_UP"):
        judge(history(tmp_path / "other", waited_s, starved_s=4))


def long_downtime(folder: Path, begun: int, *aborted_s: float):
    """Make a run that is exact, with a death at 1 s and a start at 12 s."""
    step = KillEngineStep("losing", fraction=0.5, down_s=11.0)
    run = exact_run(folder, "kafka-long-downtime", step, t_ns=13 * SECOND)
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS), (13 * SECOND, 0, 0, 0, RECORDS)])
    run.events(
        fired(step, 7),
        Started(t_ns=12 * SECOND, pid=8, resume=True),
        KafkaTransactions(
            t_ns=14 * SECOND, begun=begun, aborted_ns=tuple(int(s * SECOND) for s in aborted_s)
        ),
    )
    return run.history()


@pytest.mark.parametrize(("begun", "aborted_s"), [(2, (11.2,)), (0, ())])
def test_a_downtime_is_long_if_the_broker_aborts_what_was_open(
    tmp_path: Path, begun: int, aborted_s: tuple[float, ...]
) -> None:
    judge_downtime(long_downtime(tmp_path / "run", begun, *aborted_s))


@pytest.mark.parametrize("aborted_s", [(), (0.5,), (12.5,)])
def test_a_downtime_in_which_nothing_was_aborted_shows_nothing(
    tmp_path: Path, aborted_s: tuple[float, ...]
) -> None:
    with pytest.raises(Unknown, match="aborted none before the engine was started again"):
        judge_downtime(long_downtime(tmp_path / "run", 2, *aborted_s))


def commits_behind(
    folder: Path,
    *open_until_s: tuple[float, float, int],
    transaction_s: float = 60.0,
    with_offsets: int = 9,
    released: int = 80,
    waiting_until_s: float | None = None,
):
    """Make a run that is exact, with deaths at 1 and 10 s, and fetches at 5 and 14 s.

    open_until_s: of each transaction that was aborted, when it began and ended, and how many were
    committed meanwhile. released: offsets committed by the second death; 40 were by the first.
    waiting_until_s: when a second partition commits again; None: there is one.
    """
    steps = KillEngineStep("joining"), KillEngineStep("cuts", cuts=2)
    run = exact_run(
        folder, "kafka-commits-behind", *steps, t_ns=15 * SECOND, transaction_s=transaction_s
    )
    run.tables(fetches=[(t_ns * SECOND // 4, 0, 0, 0, RECORDS) for t_ns in (1, 20, 56)])
    states = [(PartitionState(0, 0, RECORDS, 90, 90, offset),) for offset in (40, released)]
    if waiting_until_s is not None:
        states = [(one, PartitionState(0, 1, RECORDS, 90, 90, 40)) for (one,) in states]
        run.tables(releases=[(int(waiting_until_s * SECOND), 0, 1, 50)])
    deaths = [
        fired(step, 7, at_s=at_s, partitions=found)
        for at_s, step, found in zip((1, 10), steps, states, strict=True)
    ]
    run.events(
        deaths[0],
        Started(t_ns=2 * SECOND, pid=8, resume=True),
        deaths[1],
        Started(t_ns=11 * SECOND, pid=9, resume=True),
        KafkaTransactions(
            t_ns=60 * SECOND,
            begun=2,
            open_ns=tuple(int(row[0] * SECOND) for row in open_until_s),
            aborted_ns=tuple(int(row[1] * SECOND) for row in open_until_s),
            behind=tuple(row[2] for row in open_until_s),
            with_offsets=with_offsets,
        ),
    )
    return run.history()


@pytest.mark.parametrize(
    "row",
    [
        (0.9, 50.0, 1),  # it is open, with a commit behind it, as the state is rebuilt
        (0.9, 11.1, 3),  # ... which waits for its end
        (0.9, 2.5, 0),  # its next life ends it, and has nothing behind it
        (0.9, 9.5, 0),  # ... or waits for its end, though it fetches before that
    ],
)
def test_commits_behind_an_open_transaction_are_seen(tmp_path: Path, row) -> None:
    judge_behind(commits_behind(tmp_path / "run", row))
    judge_behind(commits_behind(tmp_path / "more", (0.2, 0.5, 7), row))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "aborted none that was open then"),
        ([(0.1, 0.9, 0), (1.5, 2.5, 1)], "aborted none that was open then"),
        ([(0.9, 10.5, 1)], "had ended before the engine was started again"),
        ([(0.9, 50.0, 0)], "a partition had no commit behind it"),
    ],
)
def test_without_commits_behind_an_open_transaction_nothing_is_shown(
    tmp_path: Path, rows, said: str
) -> None:
    with pytest.raises(Unknown, match=said):
        judge_behind(commits_behind(tmp_path / "run", *rows))


def test_commits_of_other_partitions_are_not_behind_it(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="a partition had no commit behind it"):
        judge_behind(commits_behind(tmp_path / "run", (0.9, 50.0, 3), released=40))


@pytest.mark.parametrize(("again_s", "waits"), [(51.0, True), (40.0, False)])
def test_a_partition_may_wait_for_the_end_while_others_go_on(
    tmp_path: Path, again_s: float, waits: bool
) -> None:
    """One of two partitions commits behind it; the other commits again at ``again_s``."""
    made = commits_behind(tmp_path / "run", (0.9, 50.0, 3), waiting_until_s=again_s)
    if waits:
        judge_behind(made)
    else:
        with pytest.raises(Unknown, match="a partition had no commit behind it"):
            judge_behind(made)


def test_a_transaction_that_cannot_outlast_two_sessions_need_not(tmp_path: Path) -> None:
    judge_behind(commits_behind(tmp_path / "run", (0.9, 10.5, 1), transaction_s=10.0))


def test_without_offsets_in_transactions_nothing_is_promised_of_them(tmp_path: Path) -> None:
    with pytest.raises(NotClaimed, match="the engine sent none"):
        judge_behind(commits_behind(tmp_path / "run", with_offsets=0))


def answered_with_errors(folder: Path, *counts: int, with_offsets: int = 9):
    """Make a run that is exact, with two errors of Kafka; ``counts``: answers of each."""
    steps = [
        ErrorStep("fetched", seconds=0.1, request=request, error=error)
        for request, error in (
            ("EndTxn", "CONCURRENT_TRANSACTIONS"),
            ("Produce", "REQUEST_TIMED_OUT"),
        )
    ]
    run = exact_run(folder, "kafka-errors", *steps, t_ns=3 * SECOND)
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
    run.events(
        *map(fired, steps),
        *(Link(t_ns=2 * SECOND, do="error", target="sink", count=count) for count in counts),
        KafkaTransactions(t_ns=4 * SECOND, begun=2, aborted_ns=(), with_offsets=with_offsets),
    )
    return run.history()


def test_errors_that_were_sent_are_judged(tmp_path: Path) -> None:
    judge_errors(answered_with_errors(tmp_path / "run", 3, 1))


@pytest.mark.parametrize("counts", [(), (3,), (3, 0)])
def test_an_error_that_nobody_was_sent_shows_nothing(tmp_path: Path, counts) -> None:
    with pytest.raises(Unknown, match="answers with an error, by fault"):
        judge_errors(answered_with_errors(tmp_path / "run", *counts))


def test_without_transactions_their_errors_are_not_asked(tmp_path: Path) -> None:
    with pytest.raises(NotClaimed, match="the engine sent none"):
        judge_errors(answered_with_errors(tmp_path / "run", with_offsets=0))


def named(folder: Path, seen: int, **foreign: tuple[str, ...]):
    """Make a run at whose end an engine had used so many names, some of them not of the run."""
    numbers = np.arange(RECORDS, dtype="<i8").view(NUMBER)
    run = RunFolder(
        folder,
        Scenario("count", "passthrough", {}, {}),
        make_input=given_input({(0, 0): numbers}),
        kafka={"session_s": 3.0, "transaction_s": 10.0, "transaction_version": 2},
    )
    run.outputs(output_log(numbers))
    run.tables(fetches=[(0, 0, 0, 0, RECORDS)])
    none: dict[str, tuple[str, ...]] = {"groups": (), "transactional_ids": (), "topics": ()}
    run.events(KafkaNames(t_ns=SECOND, seen=seen, **none | foreign))
    return run.history()


@pytest.mark.parametrize("seen", [0, 3])
def test_names_of_the_run_are_in_order(tmp_path: Path, seen: int) -> None:
    judge_names(named(tmp_path / "run", seen))


@pytest.mark.parametrize(
    ("field", "said"),
    [("groups", "group"), ("transactional_ids", "transactional id"), ("topics", "topic")],
)
def test_a_name_that_another_run_may_have_too_is_told(
    tmp_path: Path, field: str, said: str
) -> None:
    with pytest.raises(Fail, match=rf"{said} 'mine', 'my\\n'") as failure:
        judge_names(named(tmp_path / "run", 3, **{field: ("mine", "my\n")}))
    assert failure.value.code == "FOREIGN_NAME"


def fetched_after_a_drain(folder: Path, again: int):
    """Make a run whose drain was answered at 2 s: 100 fetched, 60 committed, and one more FETCH."""
    numbers = np.arange(RECORDS, dtype="<i8").view(NUMBER)
    run = RunFolder(
        folder,
        Scenario("market-after-drain", "passthrough", {}, {}),
        make_input=given_input({(0, 0): numbers}),
        claims={**LEAST_CLAIMS, "transport": "kafka"},
    )
    run.outputs(output_log(numbers, t_ns=np.full(RECORDS, SECOND, np.int64)))
    run.tables(fetches=[(SECOND, 0, 0, 0, RECORDS), (3 * SECOND, 0, 0, again, RECORDS)])
    state = PartitionState(0, 0, RECORDS, RECORDS, RECORDS, 60)
    run.events(
        Drained(
            t_ns=2 * SECOND,
            open_acknowledgements=0,
            staged_open=0,
            outputs=RECORDS,
            ended=True,
            partitions=(state,),
        )
    )
    history = run.history()
    return history, history.all(Drained)[0]


def test_a_drain_that_nobody_asked_for_covers_what_was_committed(tmp_path: Path) -> None:
    not_fetched_below(*fetched_after_a_drain(tmp_path / "run", 60), "drain was answered")


def test_what_was_committed_is_not_fetched_again(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="no FETCH below 60 once drain was answered"):
        not_fetched_below(*fetched_after_a_drain(tmp_path / "run", 59), "drain was answered")


def paused(folder: Path, later: list[tuple[int, int, int, int, int]], session_s: float = 3.0):
    """Make a run whose worker stops at 1 s, for 4.5 s; ``later``: fetches."""
    numbers = np.arange(2 * RECORDS, dtype="<i8").view(NUMBER)
    parts = {(0, 0): numbers[:RECORDS], (0, 1): numbers[RECORDS:]}
    step = PauseStep("committing", target="worker", fraction=0.2, seconds=4.5)
    run = RunFolder(
        folder,
        Scenario("kafka-partition-returns", "passthrough", {}, {}, faults=(step,)),
        make_input=given_input(parts),
        kafka={"session_s": session_s, "transaction_s": 10.0, "transaction_version": 2},
    )
    run.outputs(output_log(numbers, t_ns=np.full(2 * RECORDS, 7 * SECOND)))
    run.tables(fetches=[(SECOND // 2, 0, 0, 0, 50), (SECOND // 2, 0, 1, 0, 50), *later])
    states = tuple(PartitionState(0, p, RECORDS, 50, 50, 0) for p in (0, 1))
    run.events(fired(step, 7, outputs=100, partitions=states))
    return run.history()


def fetched(second: float, partition: int, base: int):
    return int(second * SECOND), 0, partition, base, RECORDS


@pytest.mark.parametrize(
    "later",
    [
        [fetched(5, 0, 50), fetched(5.2, 1, 50)],  # while it is stopped, others read all
        [fetched(6, 0, 50), fetched(6, 1, 40)],  # read a second time, whenever that is
        # The others read on until the session is over, and then wait for an open transaction.
        [fetched(2.5, 0, 50), fetched(4.1, 0, 60), fetched(5.6, 0, 70), fetched(5.6, 1, 50)],
    ],
)
def test_partitions_that_others_read_meanwhile_were_taken_over(tmp_path: Path, later) -> None:
    judge_lost_session(paused(tmp_path / "run", later))


@pytest.mark.parametrize(
    "later",
    [
        [fetched(5, 0, 50), fetched(6, 1, 50)],  # one is read by nobody until it is back
        [fetched(1.4, 0, 50), fetched(1.4, 1, 50)],  # asked for before it stopped
        [fetched(2.5, 0, 50), fetched(5.2, 0, 60), fetched(6, 1, 50)],  # the others never stop
    ],
)
def test_partitions_that_nobody_else_read_show_no_lost_session(tmp_path: Path, later) -> None:
    with pytest.raises(Unknown, match="kept its session"):
        judge_lost_session(paused(tmp_path / "run", later))
    with pytest.raises(NotClaimed, match="names no session"):
        judge_lost_session(paused(tmp_path / "none", later, session_s=0.0))


CLAIMS = {**LEAST_CLAIMS, "state": "exactly-once", "survives": ["engine"], "transport": "kafka"}


def full_disk(
    folder: Path,
    *,
    files: int = 1,
    words: str = "",
    committed_s: float = 0.5,
    read: int = RECORDS,
    again: tuple[float, int] | None = None,
):
    """Make a run that is exact: the disk is full from 1 s to 3 s, and the engine dies at 2 s."""
    full, death = FillStep("fetched", seconds=2.0), KillEngineStep("fetched")
    run = exact_run(folder, "count-full-disk", full, death, t_ns=4 * SECOND)
    run.facts(claims=CLAIMS, kept={"bytes": 9 * files, "files": files})
    fetches = [(SECOND // 4, 0, 0, 0, read)]
    if again is not None:
        fetches.append((int(again[0] * SECOND), 0, 0, again[1], RECORDS))
    run.tables(fetches=fetches, releases=[(int(committed_s * SECOND), 0, 0, 1)])
    over = FillOver(t_ns=3 * SECOND, from_ns=SECOND, to_ns=3 * SECOND, empty=(), words=words)
    run.events(fired(full, 7), fired(death, 7, at_s=2), over)
    return run.history()


def test_a_full_disk_counts_only_for_what_an_engine_writes_to_it(tmp_path: Path) -> None:
    judge_full(full_disk(tmp_path / "refused", words="File too large"))
    with pytest.raises(NotClaimed, match="the engine keeps none"):
        judge_full(full_disk(tmp_path / "no-files", files=0))
    with pytest.raises(NotClaimed, match="committed on while it was full"):
        judge_full(full_disk(tmp_path / "in-topics", committed_s=2.5))
    with pytest.raises(Unknown, match="NOTHING_HELD_BACK"):
        judge_full(full_disk(tmp_path / "silent"))


@pytest.mark.parametrize(
    ("read", "at_s", "offset", "shows"),
    [
        (RECORDS, 1.5, 1, True),  # a job that began anew, in a process that lives on
        (RECORDS, 1.5, 2, False),  # a client may ask again for what it had not kept
        (1, 1.5, 1, False),  # it reads on
        (RECORDS, 0.7, 1, False),
        (RECORDS, 2.5, 1, False),  # the kill is why
    ],
)
def test_a_job_that_begins_anew_without_a_kill_had_no_room(
    tmp_path: Path, read: int, at_s: float, offset: int, shows: bool
) -> None:
    history = full_disk(tmp_path, read=read, again=(at_s, offset))
    if shows:
        return judge_full(history)
    with pytest.raises(Unknown, match="NOTHING_HELD_BACK"):
        judge_full(history)


@pytest.mark.parametrize(
    ("then", "came_again"), [((7, 11, 12), False), ((7, 11, 13), True), ((7, 11), False)]
)
def test_a_worker_that_ends_for_want_of_room_need_not_cut_before_the_kill(
    tmp_path: Path, then: tuple[int, ...], came_again: bool
) -> None:
    judge = judge_of("EO-FULL-DISK", "count-disk-with-room-again")
    full, death = FillStep("fetched", seconds=1.0), KillEngineStep("fetched")
    run = exact_run(tmp_path, "count-disk-with-room-again", full, death, t_ns=4 * SECOND)
    run.facts(claims=CLAIMS, kept={"bytes": 9, "files": 1})
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)], releases=[(SECOND // 2, 0, 0, 1)])
    over = FillOver(
        t_ns=2 * SECOND, from_ns=SECOND, to_ns=2 * SECOND, empty=(), words="no space left"
    )
    named = (NamedProcess(11, "worker", "worker 0"), NamedProcess(12, "worker", "worker 1"))
    run.events(
        Topology(t_ns=1, processes=named), fired(full, 7, 11, 12), over, fired(death, *then, at_s=3)
    )
    if came_again:
        judge(run.history())
    else:
        with pytest.raises(Unknown, match=r"KILL_MISSED.*the death came first"):
            judge(run.history())


def test_a_disk_is_lost_only_where_something_was_on_it(tmp_path: Path) -> None:
    judge = judge_of("KA-EMPTY-DISK", "kafka-empty-disk")
    lost = WipeStep("committing", fraction=0.3)

    def wiped(name: str, *files: int):
        run = exact_run(tmp_path / name, "kafka-empty-disk", *[lost] * len(files), t_ns=4 * SECOND)
        run.facts(claims=CLAIMS)
        run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
        run.events(*(replace(fired(lost, 7), lost_names=one) for one in files))
        return run

    judge(wiped("kept", 0, 3).history())
    with pytest.raises(NotClaimed, match="the engine keeps none"):
        judge(wiped("none", 0, 0).history())
    with pytest.raises(Unknown, match="KILL_MISSED"):
        run = exact_run(tmp_path / "missed", "kafka-empty-disk", lost, t_ns=SECOND)
        run.facts(claims=CLAIMS)
        run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
        judge(run.history())
    run = wiped("forgot", 3)
    numbers = np.arange(RECORDS - 1, dtype="<i8").view(NUMBER)
    run.outputs(output_log(numbers, t_ns=np.full(RECORDS - 1, 4 * SECOND, np.int64)))
    with pytest.raises(Fail, match="lost"):
        judge(run.history())


@pytest.mark.parametrize("scenario", ["kafka-leader-dies", "kafka-leader-alone"])
def test_a_leader_counts_only_at_a_connection_of_the_engine(tmp_path: Path, scenario: str) -> None:
    judge = judge_of("KA-LEADER", scenario)
    death = KillLeaderStep("accepted", fraction=0.3)

    def died(name: str, connection: int, waiting: int = 1):
        run = exact_run(tmp_path / name, scenario, death, t_ns=4 * SECOND)
        run.facts(claims=CLAIMS | {"survives": ["broker"]})
        run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
        run.events(replace(fired(death), connection=connection, waiting=waiting))
        return run

    judge(died("met", 3).history())
    with pytest.raises(Unknown, match="NOTHING_IN_FLIGHT"):
        judge(died("nobody", 0).history())
    idle = died("idle", 3, waiting=0).history()
    if scenario == "kafka-leader-alone":
        with pytest.raises(Unknown, match="nothing, at"):
            judge(idle)
    else:
        judge(idle)
    lost = died("lost", 3)
    numbers = np.arange(RECORDS - 1, dtype="<i8").view(NUMBER)
    lost.outputs(output_log(numbers, t_ns=np.full(RECORDS - 1, 4 * SECOND, np.int64)))
    with pytest.raises(Fail, match="lost"):
        judge(lost.history())


def test_a_hand_over_counts_only_if_others_lead_what_it_led(tmp_path: Path) -> None:
    judge = judge_of("KA-HAND-OVER", "kafka-leader-moves")
    step = PauseLeaderStep("staged", fraction=0.3, seconds=6)

    def moved(name: str, connection: int, partitions: int):
        run = exact_run(tmp_path / name, "kafka-leader-moves", step, t_ns=4 * SECOND)
        run.facts(claims=CLAIMS | {"survives": ["broker"]})
        run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
        run.events(replace(fired(step), connection=connection, moved=partitions))
        return run.history()

    judge(moved("met", 3, 2))
    with pytest.raises(Unknown, match=r"NOTHING_IN_FLIGHT.*led and others lead"):
        judge(moved("none", 3, 0))
    with pytest.raises(Unknown, match="had a connection to"):
        judge(moved("nobody", 0, 2))


def slow_sink(folder: Path, served: int, grown_mib: int):
    """Make a run that is correct, whose sink stood still; what was fetched, and grew, meanwhile."""
    numbers = np.arange(RECORDS, dtype="<i8").view(NUMBER)
    scenario = Scenario("slow-sink", "passthrough", {}, {})
    run = RunFolder(folder, scenario, make_input=given_input({(0, 0): numbers}), claims=CLAIMS)
    run.outputs(output_log(numbers, t_ns=9 * SECOND))
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
    sizes = (100 << 20, *(100 + grown_mib << 20,) * 3)
    run.events(
        Stall(t_ns=SECOND),
        *(Progress(t_ns=n * SECOND, served=served, rss=rss) for n, rss in enumerate(sizes, 2)),
        StallEnded(t_ns=6 * SECOND),
    )
    return run.history()


def test_what_a_client_over_kafka_fetches_ahead_is_not_judged(tmp_path: Path) -> None:
    judge_slow(slow_sink(tmp_path / "all", RECORDS, 300))


@pytest.mark.parametrize(("transaction_s", "stall_s"), [(10.0, 5.0), (4.0, 2.0), (0.0, 5.0)])
def test_the_sink_stands_still_for_less_than_a_transaction_may_last(transaction_s, stall_s) -> None:
    context = Context(1, transport="kafka", transaction_s=transaction_s)
    assert draw("slow-sink", context).sink.stall_s == stall_s


def acknowledged(folder: Path, ahead: int, *, released: int = RECORDS, unread: int = 0):
    """Make a run that is exact, whose offsets were ahead of what was acknowledged."""
    run = exact_run(folder, "count-slow-acks", t_ns=2 * SECOND)
    run.facts(claims=CLAIMS)
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
    run.events(
        Drained(
            t_ns=3 * SECOND,
            partitions=(DONE._replace(released=released),),
            open_acknowledgements=0,
            staged_open=0,
            outputs=RECORDS,
            ended=True,
        ),
        KafkaOutput(t_ns=4 * SECOND, produced=9, committed=9, ahead=ahead, unread=unread),
    )
    return run.history()


def test_offsets_are_committed_of_what_is_acknowledged(tmp_path: Path) -> None:
    judge = judge_of("DL-ACKNOWLEDGED", "count-slow-acks")
    judge(acknowledged(tmp_path / "behind", 0))
    with pytest.raises(Fail, match="7 records ahead of the output") as failure:
        judge(acknowledged(tmp_path / "ahead", 7))
    assert failure.value.code == "EARLY_COMMIT"
    with pytest.raises(Unknown, match="NOT_SEEN"):
        judge(acknowledged(tmp_path / "unread", 7, unread=1))
    with pytest.raises(NotClaimed, match="the engine commits none"):
        judge(acknowledged(tmp_path / "none", 0, released=0))


def test_an_engine_that_never_connects_has_not_been_deployed(tmp_path: Path) -> None:
    judge = judge_of("PR-DEPLOY", "passthrough")
    run = exact_run(tmp_path / "run", "passthrough", t_ns=2 * SECOND)
    run.facts(claims=CLAIMS)
    run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
    deployed = Deployed(t_ns=SECOND, pid=7, resume=False)
    run.events(deployed)
    with pytest.raises(Fail, match="a connection to TICKPROOF_BOOTSTRAP"):
        judge(run.history())
    run.events(deployed, NotGreeted(t_ns=SECOND, text="no TLS: the client spoke plain text"))
    with pytest.raises(Fail, match="the client spoke plain text"):
        judge(run.history())
    run.events(deployed, Connected(t_ns=SECOND, connection=1))
    judge(run.history())


def test_an_empty_input_is_looked_at(tmp_path: Path) -> None:
    judge = judge_of("PR-EMPTY-INPUT", "empty-input")
    run = RunFolder(
        tmp_path / "run",
        Scenario("empty-input", "passthrough", {}, {}),
        make_input=given_input({(0, 0): np.empty(0, NUMBER)}),
        kafka={"session_s": 3.0, "transaction_s": 10.0, "transaction_version": 2},
    )
    with pytest.raises(Unknown, match="no connection"):
        judge(run.history())
    run.events(Connected(t_ns=SECOND, connection=1))
    judge(run.history())


def test_what_a_scale_brought_is_not_known_of_workers_that_did_not_come(tmp_path: Path) -> None:
    judge = judge_of("EL-LIVE", "count-scale")
    scale = ScaleStep("fetched", fraction=0.5, workers=3)

    def scaled(name: str, arrived: bool):
        run = exact_run(tmp_path / name, "count-scale", scale, t_ns=4 * SECOND)
        run.facts(claims=CLAIMS | {"rescale": "live"})
        run.tables(fetches=[(SECOND // 4, 0, 0, 0, RECORDS)])
        named = tuple(NamedProcess(pid, "worker", "") for pid in (7, 8, 9))
        run.events(
            Started(t_ns=1, pid=5, resume=False),
            Deployed(t_ns=2, pid=5, resume=False),
            Topology(t_ns=3, processes=named[:2]),
            fired(scale, 5),
            Scaled(t_ns=2 * SECOND, workers=3, asked_ns=SECOND, arrived=arrived),
            Topology(t_ns=2 * SECOND + 1, processes=named),
        )
        return run.history()

    judge(scaled("came", True))
    with pytest.raises(Unknown, match="3 workers that ask for input after scale"):
        judge(scaled("waited", False))
