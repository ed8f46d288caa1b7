"""A run that was still at work when its time was over is no failure, and no evidence."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.jobs.twins import copy
from tickproof.conformance.engines.isolation import Level as SandboxLevel
from tickproof.conformance.jobs import judge
from tickproof.conformance.jobs.comparison import Claims, Finding, Kind, Level
from tickproof.conformance.jobs.judge import Baseline, Judged
from tickproof.conformance.jobs.reads import Read
from tickproof.conformance.jobs.records import of_input
from tickproof.conformance.jobs.session import Refused, Session, Settings
from tickproof.conformance.jobs.trial import IDLE, MOST_TRIES, Fired, Plan, Run, Strike, Trial
from tickproof.conformance.kafka.traffic import Traffic
from tickproof.conformance.log_server.obstacle import Obstacle
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

CLAIMS = Claims("exactly-once", "exactly-once", ordered=False, knows=True, counts="n")
BASELINE = {"totals": Baseline(Level.MULTISET, {"a": ['{"n": 3}'], "b": ['{"n": 1}']}, CLAIMS)}
KILL = Fired("kill", "committed", 1.0, "worker 0", 7, "an open transaction")


def run_that(**facts: Any) -> Run:
    rows = [("a", {"n": facts.pop("n")}), ("b", {"n": 1})]
    return Run("commit", {"totals": rows}, [KILL], ended="its limit of 9 s", **facts)


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(copy("totals-sql", tmp_path), Settings(tmp_path, 1), tmp_path)


def judged(session: Session, run: Run) -> dict[str, Outcome]:
    runs = {"commit": Judged(run, Path("commit"), session._findings(run, BASELINE))}
    found = judge.outcomes(session._job, BASELINE, runs)
    return {one.requirement: one for one in found}


def test_what_is_not_there_yet_is_not_lost(session: Session) -> None:
    found = judged(session, run_that(n=2, unfinished=True))
    assert found["JB-COMMIT"].verdict is Verdict.UNKNOWN
    assert found["JB-COMMIT"].reason is Reason.TIME_LIMIT
    assert {found[id_].verdict for id_ in ("JB-LOST", "JB-TWICE", "JB-VALUES")} == {Verdict.UNKNOWN}


def test_what_is_there_twice_is_a_mistake_all_the_same(session: Session) -> None:
    found = judged(session, run_that(n=4, unfinished=True))
    assert (found["JB-TWICE"].verdict, found["JB-COMMIT"].verdict) == (Verdict.FAIL, Verdict.FAIL)


def test_a_job_that_stood_still_fails(session: Session) -> None:
    found = judged(session, run_that(n=2, stalled=True))
    assert found["JB-COMMIT"].reason is Reason.NO_RECOVERY
    assert "with input left to read" in (found["JB-COMMIT"].actual or "")
    assert found["JB-LOST"].verdict is Verdict.PASS
    found = judged(session, run_that(n=2, stalled=True, settled=(3, 4)))
    assert (found["JB-COMMIT"].actual or "").endswith("by its own word it handled 3 of 4 records")


def test_a_failure_names_a_row_too_many_and_who_ended(session: Session) -> None:
    free = {"totals": replace(BASELINE["totals"], claims=replace(CLAIMS, counts=""))}
    run = run_that(n=3, exits=["worker 1 ended by itself with status 1"] * 2)
    run.rows["totals"].append(("a", {"n": 9}))
    runs = {"commit": Judged(run, Path("commit"), session._findings(run, free))}
    found = {one.requirement: one for one in judge.outcomes(session._job, free, runs)}
    story = found["JB-COMMIT"].story
    assert story["headline"] == [
        "[outputs.totals] a: a row that should not be there; 1 of 2 keys differ"
    ]
    assert f"{run.exits[0]}, 2 times" in story["brief"]


def test_a_failure_names_keys_of_requests_and_other_outputs(session: Session) -> None:
    both = {**BASELINE, "letters": replace(BASELINE["totals"], due={"poison": ['{"n": 1}']})}
    run = run_that(n=4, request_keys={"totals": {"a": ["one", "", "two", "one"], "b": ["b"]}})
    runs = {"commit": Judged(run, Path("commit"), session._findings(run, both))}
    found = {one.requirement: one for one in judge.outcomes(session._job, both, runs)}
    brief = found["JB-COMMIT"].story["brief"]
    assert "4 requests of the row; Idempotency-Key: one, two, without one" in brief
    assert "[outputs.letters] poison: something is lost" in brief


def test_a_failure_says_whether_a_row_or_a_record_is_there_twice(session: Session) -> None:
    rows = {"totals": replace(BASELINE["totals"], claims=replace(CLAIMS, counts=""))}
    for baselines, n, said, expected in (
        (BASELINE, 4, "a record was counted twice", '{"n": 3}'),
        (rows, 3, "a row is there twice", "the row once"),
    ):
        run = run_that(n=n)
        run.rows["totals"] += [("a", {"n": 3})] if n == 3 else []
        runs = {"commit": Judged(run, Path("commit"), session._findings(run, baselines))}
        found = {one.requirement: one for one in judge.outcomes(session._job, baselines, runs)}
        twice = found["JB-TWICE"]
        assert twice.story["headline"] == [f"[outputs.totals] a: {said}; 1 of 2 keys differ"]
        assert twice.expected == f"[outputs.totals] {expected}"


def test_keys_that_nobody_expected_count_among_those_that_differ(session: Session) -> None:
    nothing = {"totals": replace(BASELINE["totals"], due={})}
    run = run_that(n=2)
    runs = {"commit": Judged(run, Path("commit"), session._findings(run, nothing))}
    found = {one.requirement: one for one in judge.outcomes(session._job, nothing, runs)}
    assert "2 of 2 keys differ" in str(found["JB-COMMIT"].story)


def test_a_value_that_differs_leaves_open_what_is_lost(session: Session) -> None:
    """Without an oracle or a count: it may be too low, or too high."""
    claims = replace(CLAIMS, ordered=True, knows=False, counts="")
    blind = {"totals": replace(BASELINE["totals"], level=Level.SEQUENCE, claims=claims)}
    run = run_that(n=2)
    runs = {"commit": Judged(run, Path("commit"), session._findings(run, blind))}
    found = {one.requirement: one for one in judge.outcomes(session._job, blind, runs)}
    assert found["JB-VALUES"].verdict is Verdict.FAIL
    assert {found[id_].verdict for id_ in ("JB-LOST", "JB-TWICE")} == {Verdict.UNKNOWN}
    assert found["JB-ORDER"].verdict is Verdict.PASS
    assert found["JB-LOST"].actual.startswith("[outputs.totals]: whether a value that differs")


@pytest.mark.parametrize(
    ("status", "ended", "refused"),
    [
        (1, "a silence of 9 s", True),
        (0, "a silence of 9 s", False),
        (1, "committed offsets", False),
    ],
)
def test_a_job_that_only_ends_in_errors_does_not_work(
    session: Session, status: int, ended: str, refused: bool
) -> None:
    """The rows that it leaves before it can read are the same in each run."""
    exits = [f"worker 0 ended by itself with status {status}"] * 3
    run = replace(run_that(n=2), exits=exits, ended=ended, stderr=["NoOffset: partition 1"])
    if not refused:
        session._expect_output(run)
        return
    with pytest.raises(Refused, match=r"status 1, and so on, 3 times, .* said: NoOffset"):
        session._expect_output(run)


def test_a_job_that_begins_at_the_end_of_a_topic_is_told(session: Session) -> None:
    run = replace(run_that(n=2, stalled=True), name="all-input-first", moments=Counter())
    with pytest.raises(Refused, match=r"read nothing until .* at the end of a topic"):
        session._expect_output(run)
    with pytest.raises(Refused, match="stood still with input left"):
        session._expect_output(replace(run, moments=Counter(fetched=9)))


def test_a_key_of_two_requests_is_wrong_without_any_fault(session: Session) -> None:
    session._expect_output(run_that(n=2))
    with pytest.raises(Refused, match="a stands for 1 and 2: the second was answered 422"):
        session._expect_output(run_that(n=2, reused_key="a stands for 1 and 2"))


def test_without_faults_the_time_limit_is_named(session: Session) -> None:
    late = session._refused("still at work", run_that(n=2, unfinished=True))
    assert (late.verdict, late.reason) == (Verdict.UNKNOWN, Reason.TIME_LIMIT)
    assert {one.verdict for one in judge.blocked(late)} == {Verdict.BLOCKED}


@pytest.mark.parametrize(
    ("at", "seen", "verdict", "said"),
    [
        ("committed", "committed", Verdict.PASS, ""),
        ("appended", "offsets-taken", Verdict.UNKNOWN, "no kill met a commit"),
        ("appended", "appended", Verdict.UNKNOWN, "the kit saw no commit"),
    ],
)
def test_kills_that_meet_no_commit_say_nothing_of_commits(
    tmp_path: Path, at: str, seen: str, verdict: Verdict, said: str
) -> None:
    """Kafka Streams commits every 30 s, and bytewax to files of its own, which nobody sees."""
    job = copy("totals-kafka", tmp_path)
    run = Run("commit", {}, [replace(KILL, at=at)], ended="committed offsets")
    run.moments[seen] += 1
    runs = {"commit": Judged(run, Path("commit"), [])}
    found = {one.requirement: one for one in judge.outcomes(job, BASELINE, runs)}
    assert found["JB-COMMIT"].verdict is verdict
    assert found["JB-COMMIT"].actual.startswith(said)


def test_after_an_interrupt_what_was_found_stays_found(session: Session) -> None:
    def cut_short(n: int) -> dict[str, Verdict]:
        found = judged(session, run_that(n=n)).values()
        left = [judge.interrupted(one, {"cut"}, "interrupted with Ctrl-C") for one in found]
        assert all(one.reason is Reason.INTERRUPTED for one in left if one.verdict == "unknown")
        return {one.requirement: one.verdict for one in left}

    lost, right = cut_short(2), cut_short(3)
    assert (lost["JB-LOST"], lost["JB-COMMIT"]) == (Verdict.FAIL, Verdict.FAIL)
    assert (right["JB-LOST"], right["JB-COMMIT"]) == (Verdict.UNKNOWN, Verdict.PASS)
    assert (right["JB-CUT"], right["JB-PAUSE"]) == (Verdict.UNKNOWN, Verdict.NOT_CLAIMED)


def test_what_a_set_of_identities_cannot_show_is_unknown(tmp_path: Path) -> None:
    """Of a table of totals a lost record leaves the row; of a list of orders it takes one away."""
    job = copy("totals-sql", tmp_path)
    runs = {"commit": Judged(run_that(n=3), Path("commit"), [])}
    for records, verdict in (
        ({"a": ["1", "2"], "b": ["3"]}, Verdict.UNKNOWN),
        ({}, Verdict.UNKNOWN),
        ({"a": ["1"], "b": ["3"]}, Verdict.PASS),
    ):
        base = replace(
            BASELINE["totals"], level=Level.IDENTITIES, records=records, varies="cents: 1 and 2"
        )
        found = {one.requirement: one for one in judge.outcomes(job, {"totals": base}, runs)}
        assert found["JB-LOST"].verdict is verdict, records
        assert "cents: 1 and 2" in found["JB-VALUES"].actual


def test_the_first_run_says_how_long_others_may_stand_still(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    calm = replace(run_that(n=3), silence_s=2.0, uncommitted_s=31.0, ended="committed offsets")
    monkeypatch.setattr("tickproof.conformance.jobs.session.prepare", lambda *_, **__: None)
    monkeypatch.setattr(session, "_play", lambda _: calm)
    monkeypatch.setattr(session, "_baseline", lambda *_: BASELINE["totals"])
    ground = session.without_faults()
    assert not isinstance(ground, Outcome)
    plan = ground.again("workers")
    assert (plan.silence_s, plan.uncommitted_s, plan.tells) == (2.0, 31.0, "committed offsets")


@pytest.mark.parametrize(("rows", "level"), [(3, Level.AT_LEAST), (2, Level.IDENTITIES)])
def test_rows_whose_number_varies_count_nothing(tmp_path: Path, rows: int, level: Level) -> None:
    """A maximum that is shown above a threshold has no row until the first is above it."""
    weaker = {'"exactly-once"': '"at-least-once"', 'counts = "n"\n': "", "oracle =": "# oracle ="}
    job = copy("totals-sql", tmp_path, replaced=weaker)
    session = Session(job, Settings(tmp_path, 1), tmp_path)
    calm = [
        Run(name, {"totals": [("a", {"n": 1})] * count}) for name, count in (("1", 3), ("2", rows))
    ]
    base = session._baseline("totals", calm)
    assert (base.level, "3 rows" in base.varies) == (level, rows == 2)


def test_a_job_that_ends_at_a_poisoned_record_fails_by_that(tmp_path: Path) -> None:
    """What it has not given follows from it."""
    job = copy("totals-poison", tmp_path)
    run = Run(judge.POISON, {}, [], poison="record 3", failure="the job ends by itself")
    lost = Finding("a", Kind.LOST, "x", "")
    runs = {judge.POISON: Judged(run, Path("poison"), [("totals", lost)])}
    found = {one.requirement: one for one in judge.outcomes(job, BASELINE, runs)}
    assert found["JB-POISON"].actual == "the job ends by itself"


def test_a_strike_that_finds_no_moment_is_given_up_and_no_failure(tmp_path: Path) -> None:
    """Until then the rest of the input waits for it."""
    job = copy("totals-sql", tmp_path)
    inputs = {"orders": of_input(job, "orders", 1)}
    plan = Plan("commit", "settled", [Strike("kill", "joined")], silence_s=1.0)
    trial: Any = Trial(job, inputs, plan, tmp_path / "run", SandboxLevel.NONE, threading.Event())
    trial._proxy, trial._sinks = SimpleNamespace(traffic=Traffic()), {}
    trial._started_at = trial._moved_at = trial._fed_from = 1.0
    trial._moved_at = 2.0
    trial._clock = SimpleNamespace(fair_s=lambda since: 1_000.0 - since)
    assert trial._pending and not trial._all_sent()
    assert trial._end(1_000.0) == ""
    assert (list(trial._pending), trial.run.missed) == ([], ["kill at joined"])


@pytest.mark.parametrize(("handled", "ended"), [(5_999, ""), (6_000, "settled"), (6_001, "")])
def test_a_job_that_counts_too_much_is_not_taken_at_its_word(
    tmp_path: Path, handled: int, ended: str
) -> None:
    """What it had still to read seemed to be lost."""
    job = copy("totals-sql", tmp_path)
    plan = Plan("commit", "settled", silence_s=1.0)
    inputs = {"orders": of_input(job, "orders", 1)}
    trial: Any = Trial(job, inputs, plan, tmp_path / "run", SandboxLevel.NONE, threading.Event())
    says = SimpleNamespace(transactions=frozenset, settled=lambda: handled, rows=list)
    trial._proxy, trial._sinks = SimpleNamespace(traffic=Traffic()), {"totals": says}
    trial._state = tmp_path
    trial._started_at = trial._fed_from = trial._moved_at = 1.0
    trial._clock = SimpleNamespace(fair_s=lambda since: 2.0 - since)
    assert trial._end(2.0) == ended
    assert not trial._gave_up("settled")
    assert trial._gave_up("a silence of 9 s") == (handled < 6_000)


def test_nobody_stands_still_for_the_next_fault_while_one_is_carried_out(tmp_path: Path) -> None:
    """The other worker would not take over: a pause lasted, and the next one held it."""
    job = copy("totals-sql", tmp_path)
    inputs = {"orders": of_input(job, "orders", 1)}
    plan = Plan("pause", strikes=[Strike("pause", "committed"), Strike("pause", "joined")])
    trial: Any = Trial(job, inputs, plan, tmp_path / "run", SandboxLevel.NONE, threading.Event())
    held = []
    trial._carry_out = lambda *_: held.append(trial._observe("joined", 2))
    assert trial._observe("committed", 1) is not None
    assert trial._observe("joined", 2) is None
    trial._strike(*trial._due.popleft())
    assert held == [None]
    assert trial._observe("joined", 2) is not None


def test_a_job_that_commits_by_a_timer_is_killed_at_such_commits(session: Session) -> None:
    seen = Counter({"offsets-received": 1, "offsets-taken": 1, "fetched": 9})
    rare = Run("calm", {}, moments=seen, uncommitted_s=30.0)
    assert "offsets-taken" in session.moments(rare)
    kills = {one.name: one.strikes for one in session._plans(rare, partial(Plan))}["commit"]
    assert [(one.nth, one.at == IDLE) for one in kills] == [(1, False), (1, False), (1, True)]
    assert "offsets-taken" not in session.moments(replace(rare, uncommitted_s=0.1))
    # One that was slow once commits often all the same.
    often = replace(rare, moments=seen + Counter({"offsets-received": 9}))
    assert "offsets-taken" not in session.moments(often)


def test_a_moment_that_is_looked_for_has_more_kills(session: Session) -> None:
    often = {one: 9 for one in ("offsets-received", "offsets-taken", "fetched")}
    calm = Run("calm", {}, moments=Counter(often))
    strikes = {one.name: one.strikes for one in session._plans(calm, partial(Plan))}
    over = [one for one in strikes["commit"] if one.at == "transaction-over"]
    assert (len(strikes["commit"]), len(over)) == (7, 2)
    told = session._kills(["offsets-received", "offsets-taken"], False, random.Random(1))
    assert len(told) == 5


@pytest.mark.parametrize("joined", [2, 3])
def test_an_error_comes_to_who_gives_offsets_to_a_transaction(
    session: Session, joined: int
) -> None:
    calm = Run("calm", {}, moments=Counter(fetched=9), joined=joined)
    played = {one.name: one.strikes for one in session._plans(calm, partial(Plan))}
    assert played.get("error") == ([Strike("error")] * 2 if joined == 3 else None)


@pytest.mark.parametrize(
    ("name", "sent", "errs"),
    [
        ("totals-quix", 3, True),
        ("totals-quix", 2, False),
        ("orders-http", 9, False),
        ("with a topic", 9, False),  # the moments may be those of its requests
    ],
)
def test_output_without_a_transaction_is_answered_with_an_error(
    tmp_path: Path, name: str, sent: int, errs: bool
) -> None:
    both = {"[claims]": '[outputs.notes]\nidentity = ["id"]\n\n[claims]'}
    replaced = both if name == "with a topic" else None
    name = "orders-http" if replaced else name
    job = copy(name, tmp_path, replaced=replaced, oracle=not replaced)
    session = Session(job, Settings(tmp_path, 1), tmp_path)
    calm = Run("calm", {}, moments=Counter({"append-received": sent, "fetched": 9}))
    played = {one.name: one.strikes for one in session._plans(calm, partial(Plan))}
    assert played.get("error") == ([Strike("error", "append-received", 2)] * 2 if errs else None)


@pytest.mark.parametrize(("name", "strikes"), [("totals-sql", 2), ("totals-kafka", 3)])
def test_a_leader_is_alone_only_with_output_to_kafka(
    tmp_path: Path, name: str, strikes: int
) -> None:
    session = Session(copy(name, tmp_path), Settings(tmp_path, 1), tmp_path)
    calm = Run("calm", {}, moments=Counter({"offsets-taken": 9, "fetched": 9}))
    (leader,) = (one for one in session._plans(calm, partial(Plan)) if one.name == "leader")
    assert len(leader.strikes) == strikes


def test_a_transaction_is_over_as_another_one_is_open(tmp_path: Path) -> None:
    """There was no time to look between them."""
    trial, open_ = trial_of(tmp_path), [["a"], ["a"], ["a", "b"], ["b"], ["c"], [], []]
    trial._sinks, trial._transactions = {}, lambda: frozenset(open_.pop(0))
    found = [trial._is_moment("transaction-over", now / 10) for now in range(1, 8)]
    assert found == [False, False, False, True, True, True, False]


def trial_of(tmp_path: Path, *strikes: Strike) -> Any:
    job = copy("totals-sql", tmp_path)
    inputs, plan = {"orders": of_input(job, "orders", 1)}, Plan("asked", strikes=strikes)
    return Trial(job, inputs, plan, tmp_path / "run", SandboxLevel.NONE, threading.Event())


def test_a_run_is_not_settled_as_long_as_input_is_read_again(tmp_path: Path) -> None:
    trial = trial_of(tmp_path)
    trial._t0 = trial._moved_at = time.monotonic() - 100
    assert trial._settled
    trial.run.reads.add(Read(98.0, "orders", 0, 0, 9))
    assert trial._settled
    trial.run.reads.add(Read(99.0, "orders", 0, 8, 9))
    assert not trial._settled


def test_the_worker_that_was_down_is_met_once_it_is_back(tmp_path: Path) -> None:
    trial = trial_of(tmp_path, Strike("kill", "joined", down=True))
    trial._last_before_down = 5, -3
    for known in (5, 1, -1, -3):
        assert trial._observe("joined", known) is None  # of another worker, or of its life before
    assert trial._observe("joined", 6) is not None


def test_the_end_of_a_life_is_kept_with_its_time(tmp_path: Path) -> None:
    trial = trial_of(tmp_path)
    trial._t0 = time.monotonic() - 7
    trial._folder.mkdir()
    (trial._folder / "stderr.log").write_text("supervisor: worker 0 ended with 1\n")
    trial._note_exits()
    (end,) = trial.run.ends
    assert trial.run.exits == [end.how] == ["worker 0 ended by itself with status 1"]
    assert end.t_s >= 7


def test_of_a_worker_that_is_left_nothing_is_held(tmp_path: Path) -> None:
    """It has to take over, and its commit is not lost with the worker that is down."""
    trial: Any = trial_of(tmp_path, Strike("kill", "committed", down=True))
    one, other = SimpleNamespace(pid=1), SimpleNamespace(pid=2)
    trial._workers = lambda: {"worker 0": [one], "worker 1": [other]}
    trial._was_down, trial._proxy = "worker 0", SimpleNamespace(traffic=Traffic())
    trial._engine = SimpleNamespace(request=lambda *_, **__: None)
    trial._end_processes = trial._note = lambda *_: None
    trial._fetched, trial._under_way = lambda _pids: 0, lambda *_: ""
    trial._feed_those_left = lambda _most_s: told.append([held.done() for held in waiting])
    told: list[list[bool]] = []
    for owner, done in (("worker 0", False), ("worker 1", True)):
        waiting = [Future[bool]()]
        trial._owner = lambda *_, owner=owner: owner
        trial._carry_out(trial._plan.strikes[0], 7, waiting[0])
        assert told.pop() == [done]


@pytest.mark.parametrize("beside", [False, True])
def test_connections_to_kafka_stay_where_only_others_are_refused(
    tmp_path: Path, beside: bool
) -> None:
    met = {name: Obstacle() for name in ("broker", "database")}
    servers = [SimpleNamespace(obstacle=one, reset_all=lambda: 1) for one in met.values()]
    trial = trial_of(tmp_path)
    trial._proxy, trial._database, trial._ledger = servers[0], (None, servers[1]), None
    trial._t0, trial._fetched = 0.0, lambda _: 1
    trial._tell = trial._counts = lambda *_, **__: {}
    trial._feed_for = lambda _: [one.turns_away() for one in met.values()]
    trial._obstruct(Strike("refuse", seconds=1.0, beside=beside))
    (fired,) = trial.run.fired
    assert fired.worker == ("1 connection" if beside else "2 connections")
    turned = "1 connection turned away" if beside else "2 connections turned away"
    assert fired.under_way == turned
    assert not any(one.away for one in met.values())


@pytest.mark.parametrize("met", [True, False])
@pytest.mark.parametrize(
    ("at", "request_name", "said"),
    [
        ("", "TxnOffsetCommit", "were answered ILLEGAL_GENERATION, during the end of a"),
        (
            "append-received",
            "Produce",
            "output was answered UNKNOWN_SERVER_ERROR at append-received, during",
        ),
    ],
)
def test_offsets_or_output_are_answered_with_an_error(
    tmp_path: Path, met: bool, at: str, request_name: str, said: str
) -> None:
    trial, obstacle = trial_of(tmp_path), Obstacle()
    trial._proxy, trial._t0, trial._tries = SimpleNamespace(obstacle=obstacle), 0.0, MOST_TRIES
    trial._fetched = lambda _: 1
    trial._tell = trial._counts = lambda *_, **__: {}
    trial._feed_for = lambda _, enough: [met and obstacle.error(request_name), enough()]
    held = Future[bool]()
    trial._carry_out(Strike("error", at), 0, held)
    assert held.result(0) is False  # it is let go, to be answered
    (fired,) = trial.run.fired
    assert fired.counts is met and not obstacle.errs
    assert not met or said in str(fired)
