"""When a run of a job ends; nothing is played here."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.jobs.twins import copy
from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.history.job_run import Strike
from tickproof.conformance.jobs.declaration import OutputTable
from tickproof.conformance.jobs.file_sink import FilesSink
from tickproof.conformance.jobs.records import of_input
from tickproof.conformance.jobs.trial import Fired, Plan, Trial
from tickproof.conformance.kafka.traffic import Traffic
from tickproof.conformance.kafka.wire import Api


@pytest.fixture(params=[Plan("calm"), Plan("all-input-first", "settled", first=True, silence_s=1)])
def trial(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    job = copy("totals-sql", tmp_path, replaced={"[inputs": "startup_timeout_s = 90\n[inputs"})
    inputs = {"orders": of_input(job, "orders", 1)}
    made: Any = Trial(job, inputs, request.param, tmp_path / "run", Level.NONE, threading.Event())
    made._proxy, made._sinks = SimpleNamespace(traffic=Traffic()), {}
    made._started_at = made._moved_at = 0.0
    made.now = 0.0
    made._clock = SimpleNamespace(fair_s=lambda since: made.now - since)
    return made


def test_a_job_that_does_not_read_yet_may_be_starting(trial: Any) -> None:
    trial.now = 89.0
    assert trial._allowed(trial.now) == 0
    assert trial._silence_limit_s() == 90


def test_silence_begins_with_the_input(trial: Any) -> None:
    trial.now = 80.0
    trial.run.moments["fetched-nothing"] = 1
    assert trial._allowed(trial.now) == 0
    assert trial._moved_at == trial.now
    trial.now += 89
    assert trial._silence_limit_s() == 90


def test_a_first_output_may_take_as_long_as_a_start(trial: Any) -> None:
    """A driver of Spark makes its tables, and plans a batch, long before the batch is done."""
    rows: list[tuple[str, dict[str, int]]] = []
    trial._sinks = {"totals": SimpleNamespace(rows=lambda: rows)}
    trial._fed_from, trial._moved_at, trial.now = 80.0, 81.0, 131.0
    assert trial._silence_limit_s() == 90
    rows.append(("a", {"n": 1}))
    assert trial._silence_limit_s() == (20 if trial._plan.tells else 10)


@pytest.mark.parametrize("trial", [Plan("commit", silence_s=0.1)], indirect=True)
def test_the_dead_keep_what_they_own_for_a_session(trial: Any) -> None:
    """A job that commits every 30 s ends by silence: not while its new life waits to join."""
    trial._proxy.traffic.timeouts_ms = {Api.JOIN_GROUP: {45_000}}
    trial._proxy.longest_ms = {Api.JOIN_GROUP: 6_000}
    trial._gave, trial._moved_at = True, 99.0
    assert trial._silence_limit_s() == 5
    # Its last answer came after the kill, so it has moved since.
    trial._struck_at, trial._moved_at, trial._dead_since = 100.0, 100.1, 100.0
    assert trial._silence_limit_s() > 45
    # Another goes on, as that of several workers, or the next life with some of the partitions.
    trial._dead_since = 0.0
    assert trial._silence_limit_s() == 1.5 * 6 + 2


def test_who_commits_by_a_timer_is_waited_for(trial: Any) -> None:
    """Kafka Streams without transactions commits each 30 s, its output stands still before."""
    trial.run.moments["fetched"] = 1
    trial._checkpointed = lambda: None
    trial.now = 100.0
    trial._allowed(trial.now)
    for seconds in range(1, 60):
        trial.now, trial._released = 100.0 + seconds, 40 * (seconds > 30) + 20 * (seconds > 57)
        trial.run.moments["appended"] += 1
        trial._move(trial.now)
    assert (trial.run.uncommitted_s, trial.run.silence_s) == (31, 1)
    trial._plan = replace(trial._plan, tells="committed offsets", uncommitted_s=31.0)
    trial._gave = True
    assert trial._silence_limit_s() == 46.5


def test_it_ends_with_its_session(trial: Any) -> None:
    """Ctrl-C comes to the main thread; runs with faults are played in others."""
    trial._stopped.set()
    with pytest.raises(KitStopped, match="the session has ended"):
        trial._check()


@pytest.mark.parametrize(
    "trial", [Plan("restart", strikes=[Strike("restart")] * 2, short=0.01)], indirect=True
)
def test_what_comes_before_a_fault_is_no_whole_part(trial: Any) -> None:
    """Where the size of a batch divides it, each life of a job forms the same batches."""
    trial._fed_from, trial.now = 1.0, time.monotonic()
    allowed = []
    while True:
        allowed.append(trial._allowed(trial.now) / trial._total)
        if not trial._pending:
            break
        trial._pending.popleft()
    assert allowed == [pytest.approx(0.99 / 3, abs=1e-3), pytest.approx(2 * 0.99 / 3, abs=1e-3), 1]
    trial._pending.append(Strike("restart"))
    trial._more = 1.0  # it stands still before the last: all input there is
    assert trial._allowed(trial.now) == trial._total


@pytest.mark.parametrize(("short", "strikes"), [(0.0, 3), (0.045, 3), (0.045, 60)])
def test_a_fault_at_its_time_comes_with_all_that_is_allowed_before_it(
    trial: Any, short: float, strikes: int
) -> None:
    """Who waited for more would meet a job that has handled it all; each has input of its own."""
    trial._plan = Plan("cut", strikes=[Strike("cut")] * strikes, short=short)
    trial._pending = deque(trial._plan.strikes)
    struck: list[Any] = []
    trial._fetched, trial._strike = lambda _: 1, lambda *strike: struck.append(strike)
    trial._fed_from, trial.now = 1.0, time.monotonic()
    for number in range(strikes):
        trial._look()
        assert len(struck) == number
        assert trial._allowed(trial.now) > trial._sent
        trial._sent = trial._allowed(trial.now)
        trial._look()
        assert len(struck) == number + 1


@pytest.mark.parametrize(("moves", "left"), [(False, 2), (True, 1)])
def test_who_does_not_move_with_more_input_is_not_waited_for_again(
    trial: Any, moves: bool, left: int
) -> None:
    """Three strikes of a job that hangs took three silences, and then the limit of the run."""
    trial._pending = deque([Strike("cut", "committed")] * 3)
    trial._gave, trial._position, trial._moved_at, trial.now = True, (5,), 0.0, 1e4
    assert trial._end(trial.now) == "" and len(trial._pending) == 2
    trial._position = (6,) if moves else (5,)
    trial.now += 1e4
    ended = trial._end(trial.now)
    assert ended == "" if moves else ended.startswith("a silence of ")
    assert (len(trial._pending), len(trial.run.missed)) == (left, 3 - left)


@pytest.mark.parametrize(
    ("tells", "released", "released_at", "committed", "repeats"),
    [
        ("committed offsets", 9, 1.0, False, True),
        ("committed offsets", 9, 200.0, False, False),  # it may yet commit
        ("committed offsets", 9, 1.0, True, False),
        ("committed offsets", 0, 1.0, False, False),  # it commits nowhere that the kit sees
        ("settled", 9, 1.0, False, False),
    ],
)
def test_who_works_on_and_commits_nothing_repeats_itself(
    trial: Any, tells: str, released: int, released_at: float, committed: bool, repeats: bool
) -> None:
    trial._plan, trial.now = Plan("refuse", tells, uncommitted_s=2.0), 300.0
    trial._released, trial._released_at, trial._committed = released, released_at, committed
    assert trial._repeats(300.0) is repeats


@pytest.mark.parametrize("trial", [Plan("workers", workers=3, silence_s=2)], indirect=True)
def test_a_worker_that_starts_late_meets_input(trial: Any) -> None:
    """One that finds everything done makes no mistake with it."""
    trial._fed_from = trial._moved_at = 1.0
    trial.now = time.monotonic()
    half = trial._total // 2
    assert trial._allowed(trial.now) == half
    trial._sent = half
    trial._let_more_in()
    assert trial._allowed(trial.now) == half
    trial.now += 20
    trial._moved_at = trial.now  # a job that commits by a timer moves for ever
    trial._let_more_in()
    assert trial._allowed(trial.now) == trial._total


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("ValueError: early\nno brokers\n", "no brokers"),
        ("Exception in thread main a.B: no table\n\tat a.B.c\n\t... 4 more\n", None),
        ("\tat a.B.c\n", "\\tat a.B.c"),
        ("\n", "it said nothing"),
    ],
)
def test_of_a_trace_the_error_is_told_and_not_its_last_frame(
    trial: Any, said: str, last: str | None
) -> None:
    trial._folder.mkdir(exist_ok=True)
    (trial._folder / "stderr.log").write_text(said)
    assert trial._last_words() == (last or "Exception in thread main a.B: no table")


@pytest.mark.parametrize(
    "trial", [Plan("commit", startup_s=1.0), Plan("commit", startup_s=4.0)], indirect=True
)
def test_a_transaction_lasts_longer_than_the_start_that_has_to_commit_it(trial: Any) -> None:
    transaction_s = trial._longest_ms()[Api.INIT_PRODUCER_ID] / 1000
    assert transaction_s == max(10, 5 * trial._plan.startup_s)


def test_output_of_files_is_over_when_more_of_it_is_committed(trial: Any, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    trial._sinks = {"a": FilesSink(OutputTable(files="out", identity=["id"]), tmp_path, "a")}
    (folder / "before.jsonl").touch()
    seen = [trial._is_moment("transaction-over", 1.0)]  # what is there before it looks is not new
    (folder / "new.jsonl.part").touch()
    seen.append(trial._is_moment("transaction-over", 1.1))
    (folder / "new.jsonl.part").rename(folder / "new.jsonl")
    seen += [trial._is_moment("transaction-over", 1.2), trial._is_moment("transaction-over", 1.3)]
    assert seen == [False, False, True, False]


def test_a_commit_by_a_timer_is_waited_for(trial: Any) -> None:
    trial._proxy.traffic.timeouts_ms = {Api.JOIN_GROUP: {45_000}}
    trial._gave, trial._plan = True, Plan("calm")
    assert trial._silence_limit_s() > 30
    trial._released = 9
    assert trial._silence_limit_s() == 10


def test_a_short_pause_ends_before_a_transaction_and_a_long_one_behind_it(trial: Any) -> None:
    """Also of a job without a session, as Flink: it owns what it has for as long."""
    trial._proxy.traffic.timeouts_ms = {Api.INIT_PRODUCER_ID: {30_000}}
    trial._proxy.longest_ms = {Api.INIT_PRODUCER_ID: 15_000}
    lasted: list[float] = []
    trial._feed_for = lambda seconds, *_: lasted.append(seconds)
    for _ in range(2):
        trial._pause([], paused(trial), Future())
    assert lasted == pytest.approx([13.8, 2, 24.5, 2, 24.5], abs=0.1)


def test_what_a_worker_wrote_as_it_was_paused_is_held_until_it_is_back(trial: Any) -> None:
    """Where no transaction of Kafka would be over by then."""
    trial._proxy.traffic.timeouts_ms = {Api.JOIN_GROUP: {6_000}}
    trial._proxy.longest_ms = {Api.INIT_PRODUCER_ID: 15_000}
    lasted: list[tuple[int, bool]] = []
    trial._feed_for = lambda s, enough=None: lasted.append((round(s), enough is not None))
    for held in (Future(), Future(), None):  # the second is a long one
        trial._pause([], paused(trial), held)
    short, long = [(13, True), (2, False)], [(11, True), (2, False), (11, False)]
    assert lasted == [*short, (5, True), (1, False), *long, *short]


def paused(trial: Any) -> Callable[[], None]:
    return lambda: trial.run.fired.append(Fired("pause", "", 1.0, "", 1, ""))


@pytest.mark.parametrize(
    "trial", [Plan("pause", strikes=[Strike("pause", "committed")] * 2)], indirect=True
)
def test_one_of_several_workers_is_struck_once_each_has_its_share(trial: Any) -> None:
    """A group that moves partitions bit by bit takes several heartbeats for it."""
    shared: list[bool] = []
    trial._is_balanced = lambda: bool(shared)
    trial._let_balance(90.0)
    assert trial._may_strike  # it is one worker alone
    table = trial._job.table.model_copy(update={"workers": 2})
    trial._job = SimpleNamespace(table=table, inputs=trial._job.inputs)
    trial.now = 100.0
    trial._let_balance(trial.now)
    trial._look_for_balance()
    assert not trial._may_strike
    trial._fed_from = 1.0
    early = trial._allowed(time.monotonic())
    assert early == int(trial._total * 0.25 / 3)  # the rest is for the moment of the strike
    assert trial._observe("committed", 1) is None and len(trial._pending) == 2
    shared.append(True)
    trial._look_for_balance()
    assert trial._may_strike and trial._allowed(time.monotonic()) == 4 * early
    assert trial._observe("committed", 1) is not None
    shared.clear()
    trial._let_balance(trial.now)
    trial.now += trial._missed_s + 1  # a worker may never get one
    trial._look_for_balance()
    assert trial._may_strike
    trial._pending[0] = Strike("cut", "committed")
    trial._let_balance(trial.now)
    assert trial._may_strike  # it meets connections
