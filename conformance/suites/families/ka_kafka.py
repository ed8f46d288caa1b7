"""Kafka: what an engine's transactions, sessions and timeouts are good for.

The values are judged as everywhere. The proof that a fault met something is Kafka's own: output
that was produced and never became visible, or input that another worker read meanwhile.
"""

from __future__ import annotations

import random
from itertools import product
from typing import Any, Final

import numpy as np

from tickproof.conformance.fault_steps import (
    ALONE_S,
    GRACE_S,
    Do,
    Error,
    ErrorStep,
    FaultStep,
    KillEngineStep,
    Moment,
    PauseLeaderStep,
    PauseStep,
    Request,
    Target,
    fault_step,
)
from tickproof.conformance.faults.kinds import within
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.carriers import STATE_FIRST
from tickproof.conformance.suites.evidence import LOSS, outputs, whole
from tickproof.conformance.suites.families.st_state import count
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown
from tickproof.conformance.suites.require import (
    require_completed,
    require_exact,
    require_exact_after_faults,
    require_fired,
    require_no,
)
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import Context, carried, scenario
from tickproof.conformance.usage import noise
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason

KA: Final = Family("KA", "Kafka", tier=3)
#: What brokers, and the kit's reader, may add to the time that is claimed.
_SPARE_S: Final = 10.0
#: Time by which a fault outlasts a timeout of the engine.
_BEYOND_S: Final = 2.0
#: A down-time that is well within the timeout of a transaction, as a share of it.
_WITHIN: Final = 0.25
#: Lives of an engine that go by while a transaction is open, each with a session to wait for.
_LIVES: Final = 2
#: What a worker had asked for as it was stopped has been answered after this long.
_ON_ITS_WAY_NS: Final = 1_000_000_000
#: A broker that stands still is taken for dead after 3 s, and others need a moment to lead.
_FAILOVER_S: Final = 6.0
#: Slow enough that there is input left when a worker comes back.
_SLOWLY: Final = 5_000


def _kills(context: Context, *steps: FaultStep, rate: float = 60_000) -> Scenario:
    return carried(context, context.records(90_000), rate=rate, faults=steps)


def _kill(
    rng: random.Random, target: Target, at: Moment, low: float, high: float, **rest: Any
) -> FaultStep:
    return _step(rng, "kill", target, at, low, high, **rest)


def _step(
    rng: random.Random, do: Do, target: Target, at: Moment, low: float, high: float, **rest: Any
) -> FaultStep:
    return fault_step(do, target, at, fraction=round(rng.uniform(low, high), 3), **rest)


def _names_of_the_run(history: History) -> None:
    expected = "names that contain TICKPROOF_GROUP or a UUID"
    for event in history.all(events.KafkaNames):
        for kind, names in (
            ("group", event.groups),
            ("transactional id", event.transactional_ids),
            ("topic", event.topics),
        ):
            if names:
                raise Fail(Reason.FOREIGN_NAME, expected, f"{kind} {', '.join(map(repr, names))}")
    require_completed(history)


KA.requirement(
    "KA-NAMES",
    "names on the broker are those of one run",
    """Groups, transactional ids and topics of the engine contain the name that it was given, or a
    UUID.
    If it fails, two runs on one broker are taken for one: they fence each other, share partitions,
    or read each other's state.""",
    tier=1,
    clauses="kafka-names",
    needs=Needs(transport=("kafka",)),
    judges={count: _names_of_the_run},
)


@scenario(*STATE_FIRST)
def kafka_open_transactions(context: Context, rng: random.Random) -> Scenario:
    # Both within one time-out: the first transaction may still be open at the second death.
    return _kills(
        context,
        _kill(rng, "engine", "staged", 0.2, 0.35, cut=True),
        _kill(rng, "engine", "staged", 0.55, 0.7),
    )


def _left_open(history: History) -> None:
    """Expect that output was produced in a transaction that did not end well."""
    require_exact_after_faults(history)
    ended = history.all(events.KafkaOutput)[-1:]
    if not any(one.aborted for one in ended):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "output produced in a transaction that was left open",
            "every record that the broker took was committed",
        )


@scenario(*STATE_FIRST)
def kafka_commits_behind(context: Context, rng: random.Random) -> Scenario:
    # Output and state are in the transaction that is left open, its offsets are not: nobody has to
    # wait for them. The second death comes once others have committed behind it, in all partitions.
    second = KillEngineStep("cuts", fraction=round(rng.uniform(0.55, 0.7), 3), cuts=5)
    return _kills(context, _kill(rng, "engine", "joining", 0.2, 0.35, cut=True), second)


def _restored_behind(history: History) -> None:
    """Expect that a transaction was open as the engine was started the second time again.

    An engine that ends it first, or waits for its end, passes without commits behind it; where some
    partitions have to wait, those that go on are enough.
    """
    require_exact(history)
    noted = history.all(events.KafkaTransactions)[-1:]
    if noted and not noted[0].with_offsets:
        raise NotClaimed(f"{DOES_NOT_APPLY}: about offsets in transactions; the engine sent none")
    first, second = require_fired(history)
    died_again_ns = second.struck_ns
    left = [one for event in noted for one in event.open_at(first.struck_ns)]
    if not left:
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "a transaction that the first death left open",
            "the broker aborted none that was open then",
        )
    again = [one.t_ns for one in history.all(events.Started, resume=True)]
    back_ns = min(t_ns for t_ns in again if t_ns > died_again_ns)
    # Others follow at once: all that the first death left open is as old.
    ends_first = any(one.ended_ns < died_again_ns and not one.behind for one in left)
    behind = any(one.behind and one.ended_ns > back_ns for one in left) and _went_on_or_waited(
        history, first, second, max(one.ended_ns for one in left)
    )
    kafka = history.record.kafka
    possible = kafka.transaction_s > _LIVES * (kafka.session_s + _BEYOND_S)
    if ends_first or behind or not possible:
        return
    raise Unknown(
        Reason.NOTHING_IN_FLIGHT,
        "commits in all partitions, behind a transaction that is open until the second death",
        "it had ended before the engine was started again, or a partition had no commit behind it",
    )


def _went_on_or_waited(
    history: History, first: events.FiredFault, second: events.FiredFault, ended_ns: int
) -> bool:
    """Tell whether some partition committed between two deaths, and each other one waited.

    Those wait that commit nothing from the first death to ``ended_ns``.
    """
    pairs = zip(first.partitions, second.partitions, strict=True)
    due = [(before, now) for before, now in pairs if now.published > before.released]
    still = [now for before, now in due if now.released == before.released]
    t_ns = history.releases["t_ns"]
    meanwhile = history.releases[(t_ns > first.struck_ns) & (t_ns < ended_ns)]
    committed = set(meanwhile[["stream", "partition"]].tolist())
    waited = all((now.stream, now.partition) not in committed for now in still)
    return waited and (len(still) < len(due) or not due)


KA.requirement(
    "KA-OPEN-TRANSACTION",
    "a transaction left open neither loses nor doubles",
    """The engine is killed, twice, when the broker has taken output of a transaction and not its
    end; and again when others have committed behind one that is still open: state, offsets and
    output are of one cut after it.
    If it fails, state or offsets are written outside of the transaction, are read before the open
    one has ended, or are read no further than where it begins.""",
    clauses="eut-one-cut eut-resumes kafka-open-transaction kafka-committed",
    needs=Needs(
        state=("at-least-once", "exactly-once"),
        delivery=("exactly-once",),
        survives=("engine",),
        transport=("kafka",),
    ),
    judges={kafka_open_transactions: _left_open, kafka_commits_behind: _restored_behind},
)


@scenario(*STATE_FIRST)
def kafka_short_downtime(context: Context, rng: random.Random) -> Scenario:
    down_s = round(min(context.transaction_s * _WITHIN, 3.0), 3)
    return _kills(context, _kill(rng, "engine", "losing", 0.3, 0.6, cut=True, down_s=down_s))


@scenario(*STATE_FIRST)
def kafka_long_downtime(context: Context, rng: random.Random) -> Scenario:
    down_s = max(context.transaction_s, context.session_s) + _BEYOND_S
    return _kills(context, _kill(rng, "engine", "losing", 0.3, 0.6, cut=True, down_s=down_s))


def _exact_after_an_abort(history: History) -> None:
    require_exact_after_faults(history)
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


KA.requirement(
    "KA-DOWNTIME",
    "a downtime costs nothing, be it short or long",
    """The engine is killed before its commit arrives, and stays down: once for less than its
    transaction timeout, once for longer, so that the broker aborts what it left.
    If it fails, what was written and then aborted was taken for delivered.""",
    clauses="eut-one-cut eut-resumes kafka-downtime app-count-again",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("engine",), transport=("kafka",)
    ),
    judges={
        kafka_short_downtime: require_exact_after_faults,
        kafka_long_downtime: _exact_after_an_abort,
    },
)


#: By request: errors that make a client retry it or abort the transaction; how long they last (s).
_ANSWERS: Final[tuple[tuple[Request, tuple[Error, ...], float], ...]] = (
    ("EndTxn", ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"), 0.5),
    ("TxnOffsetCommit", ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"), 0.05),
    ("Produce", ("REQUEST_TIMED_OUT", "NOT_LEADER_OR_FOLLOWER"), 0.3),
)


@scenario(*STATE_FIRST)
def kafka_errors(context: Context, rng: random.Random) -> Scenario:
    steps = (
        ErrorStep(
            "fetched",
            fraction=round(rng.uniform(*place), 3),
            seconds=seconds,
            request=request,
            error=rng.choice(errors),
        )
        for (request, errors, seconds), place in zip(
            _ANSWERS, ((0.15, 0.25), (0.4, 0.5), (0.65, 0.75)), strict=True
        )
    )
    return _kills(context, *steps)


def _errors_answered(history: History) -> None:
    """Everything is right, and the client was sent each of the errors."""
    require_exact(history)
    noted = history.all(events.KafkaTransactions)[-1:]
    if noted and not noted[0].with_offsets:
        raise NotClaimed(f"{DOES_NOT_APPLY}: about offsets in transactions; the engine sent none")
    require_fired(history, in_flight=False)
    answers = [one.count for one in history.all(events.Link, do="error", target="sink")]
    if not all(answers) or len(answers) < len(history.faults):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            f"{len(history.faults)} errors that the client was sent",
            f"answers with an error, by fault: {', '.join(map(str, answers)) or 'none'}",
        )


KA.requirement(
    "KA-ERRORS",
    "broker errors are retried, or the transaction aborted",
    """The broker answers EndTxn, TxnOffsetCommit and Produce with errors. A request that may be
    sent again is; where the transaction cannot go on, it is aborted, and work goes on from the
    state and offsets that were committed before it.
    If it fails, an error was taken for success, or state was kept that had not been committed.""",
    clauses="eut-one-cut kafka-errors",
    needs=Needs(
        state=("exactly-once",),
        delivery=("exactly-once",),
        survives=("worker", "connection"),
        transport=("kafka",),
    ),
    judges={kafka_errors: _errors_answered},
)


@scenario(*STATE_FIRST)
def kafka_broker_dies(context: Context, rng: random.Random) -> Scenario:
    return _kills(
        context,
        _kill(rng, "broker", "committing", 0.2, 0.4),
        _kill(rng, "broker", "fetched", 0.6, 0.8),
    )


def _connected_again(history: History) -> None:
    """Everything is right, and the engine came back to its broker after each death."""
    require_exact(history)
    for fault in require_fired(history):
        if not any(one.t_ns > fault.struck_ns for one in history.all(events.Connected)):
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT,
                "an engine that connects again once its broker is back",
                f"no connection after the death of the broker at {fault.text}",
            )


KA.requirement(
    "KA-BROKER",
    "a broker that dies and comes back costs nothing",
    """The broker is killed, twice, and started again on its data: once as a commit was taken and
    not answered. What was acknowledged is there; the engine sends again what was not.
    If it fails, a request without an answer was taken for done or for refused, or the engine gave
    up when it could not connect.""",
    clauses="eut-one-cut kafka-broker app-count-again",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("broker",), transport=("kafka",)
    ),
    judges={kafka_broker_dies: _connected_again},
)


@scenario(*STATE_FIRST)
def kafka_empty_disk(context: Context, rng: random.Random) -> Scenario:
    return _kills(
        context,
        _step(rng, "wipe", "state", "committing", 0.2, 0.4, cut=True),
        _step(rng, "wipe", "state", rng.choice(("staged", "fetched")), 0.6, 0.8, cut=True),
    )


def _restored_without_files(history: History) -> None:
    """Everything is right, though files of the state were lost."""
    require_exact_after_faults(history)
    if not any(fault.lost_names for fault in history.faults):
        raise NotClaimed(f"{DOES_NOT_APPLY}: about files of the state; the engine keeps none")


KA.requirement(
    "KA-EMPTY-DISK",
    "an engine that comes back on an empty disk knows all",
    """The engine is killed, twice, and all in TICKPROOF_STATE is gone before it starts again, as
    for a new pod. State and offsets come back from the broker, as of one cut.
    If it fails, something lay on the disk alone: state, a position, or the knowledge that there is
    state to restore.""",
    clauses="eut-one-cut eut-resumes kafka-disk app-count-again",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("engine", "disk"), transport=("kafka",)
    ),
    judges={kafka_empty_disk: _restored_without_files},
)


@scenario(*STATE_FIRST)
def kafka_leader_dies(context: Context, rng: random.Random) -> Scenario:
    return _kills(
        context,
        _kill(rng, "leader", "committing", 0.2, 0.4),
        _kill(rng, "leader", rng.choice(("staged", "fetched")), 0.6, 0.8),
    )


@scenario(*STATE_FIRST)
def kafka_leader_alone(context: Context, rng: random.Random) -> Scenario:
    return _kills(
        context, _kill(rng, "leader", "accepted", 0.2, 0.4, alone_s=ALONE_S), rate=_SLOWLY
    )


def _others_lead(history: History) -> None:
    """Everything is right, though a broker died that a connection led to at that moment."""
    require_exact(history)
    for fault in require_fired(history):
        if not fault.connection:
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT,
                "the death of a broker that the engine had a connection to",
                f"none came to the moment of {fault.text}",
            )


def _met_alone(history: History) -> None:
    """Beside that, the broker that was kept from its followers had something to take."""
    _others_lead(history)
    for fault in history.faults:
        if not (fault.alone or fault.waiting):
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT,
                "something that the broker took, or had to answer, as it was alone",
                f"nothing, at {fault.text}",
            )


KA.requirement(
    "KA-LEADER",
    "nothing acknowledged is lost as another broker leads",
    """Of three brokers that keep each record three times, one dies: the leader of a partition, or a
    coordinator, with a request under way; once after it was kept from its followers, so that it
    alone has what it acknowledged to a client that does not wait for them. Then others lead.
    If it fails, output was acknowledged before the followers had it (acks=1), a request without an
    answer was taken for done, or the engine knows one broker only.""",
    clauses="eut-one-cut kafka-broker kafka-leader app-count-again",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("broker",), transport=("kafka",)
    ),
    judges={kafka_leader_dies: _others_lead, kafka_leader_alone: _met_alone},
)


@scenario(*STATE_FIRST)
def kafka_leader_moves(context: Context, rng: random.Random) -> Scenario:
    asleep = PauseLeaderStep(
        rng.choice(("staged", "fetched")),
        fraction=round(rng.uniform(0.6, 0.8), 3),
        seconds=_FAILOVER_S,
    )
    ended = _kill(rng, "leader", "committing", 0.2, 0.4, grace_s=GRACE_S)
    return _kills(context, ended, asleep, rate=_SLOWLY)


def _moved(history: History) -> None:
    """Beside that, others came to lead what it led."""
    _others_lead(history)
    for fault in history.faults:
        if not fault.moved:
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT,
                "a partition that the broker led and others lead instead",
                f"none, at {fault.text}",
            )


KA.requirement(
    "KA-HAND-OVER",
    "leaders and coordinators that move cost nothing",
    """Of three brokers one ends in good order, as in a rolling restart: it hands over what it leads
    and coordinates, and gets that back once it is there again. Then one stands still until others
    lead, and wakes in the belief that it leads.
    If it fails, output was acknowledged before the followers had it (acks=1), nobody looked whether
    it had arrived, or "not the leader" or "not the coordinator" was taken for a success.""",
    clauses="eut-one-cut kafka-broker kafka-leader app-count-again",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("broker",), transport=("kafka",)
    ),
    judges={kafka_leader_moves: _moved},
)


def _lost_session(context: Context, rng: random.Random, at: Moment, beyond_s: float) -> Scenario:
    step = PauseStep(
        at, target="worker", fraction=round(rng.uniform(0.2, 0.3), 3), seconds=beyond_s + _BEYOND_S
    )
    return _kills(context, step, rate=_SLOWLY)


# As a commit is taken: nobody has to wait for the offsets of a transaction that is open.
@scenario(*STATE_FIRST)
def kafka_partition_returns(context: Context, rng: random.Random) -> Scenario:
    return _lost_session(context, rng, "committing", 1.5 * context.session_s)


# At a produce that is not answered yet, so that the one who is paused has a transaction open.
@scenario(*STATE_FIRST)
def kafka_lost_session(context: Context, rng: random.Random) -> Scenario:
    return _lost_session(context, rng, "staged", 1.5 * context.session_s)


@scenario(*STATE_FIRST)
def kafka_fenced(context: Context, rng: random.Random) -> Scenario:
    # The broker has aborted its transaction when it wakes, and fenced it.
    return _lost_session(
        context, rng, "staged", max(1.5 * context.session_s, context.transaction_s)
    )


def _session_lost(history: History) -> None:
    """Everything is right, and somebody else read what the paused worker had."""
    require_exact_after_faults(history)
    fault = history.faults[0]
    fetches = history.fetches[history.fetches["t_ns"] > fault.struck_ns]
    read = {(one.stream, one.partition): one.fetched for one in fault.partitions}
    again = any(row["base"] < read[int(row["stream"]), int(row["partition"])] for row in fetches)
    if again:
        return
    if not history.record.kafka.session_s:
        raise NotClaimed(f"{DOES_NOT_APPLY}: about members of a group; [kafka] names no session")
    if not _taken_over(history, fault):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "somebody who reads again what the paused one had",
            "no input was read a second time: it kept its session",
        )


def _taken_over(history: History, fault: events.FiredFault) -> bool:
    """Return True if others took the partitions over before a pause longer than the session ended.

    They read all of them: the paused one reads nothing then, what it had asked for was answered
    long before. Or they read nothing any more, not even their own: they wait for the end of the
    transaction that the paused one left open, which it may commit when it wakes.
    """
    since_ns = fault.struck_ns + history.record.kafka.session_s * 1e9
    until_ns = fault.struck_ns + fault.step.lasts_s * 1e9
    fetches, t_ns = history.fetches, history.fetches["t_ns"]
    before = (t_ns > fault.struck_ns + _ON_ITS_WAY_NS) & (t_ns < since_ns)
    waiting = (t_ns > (since_ns + until_ns) / 2) & (t_ns < until_ns)
    if before.any() and not waiting.any():
        return True
    during = fetches[(t_ns > since_ns) & (t_ns < until_ns)]
    read = set(zip(during["stream"].tolist(), during["partition"].tolist(), strict=True))
    filled = {(row.stream, row.partition) for row in history.partitions if row.records}
    return filled <= read


KA.requirement(
    "KA-LOST-SESSION",
    "a worker that returns after its session is fenced",
    """A worker stands still for longer than its session, with a transaction open: others take over
    its partitions, and what it does when it wakes counts for nothing.
    If it fails, it went on with partitions, state or a transaction that were no longer its own.""",
    clauses="eut-one-cut eut-resumes kafka-lost-session kafka-session",
    needs=Needs(state=("exactly-once",), survives=("worker",), transport=("kafka",)),
    judges={
        kafka_partition_returns: _session_lost,
        kafka_lost_session: _session_lost,
        kafka_fenced: _session_lost,
    },
)


def _two_workers_die(context: Context, rng: random.Random, at: Moment) -> Scenario:
    deaths = _kill(rng, "worker", at, 0.2, 0.4), _kill(rng, "worker", at, 0.6, 0.8)
    return _kills(context, *within(context.survives, deaths, 2) or deaths[:1])


@scenario(*STATE_FIRST)
def kafka_rebalance(context: Context, rng: random.Random) -> Scenario:
    return _two_workers_die(context, rng, "committing")


KA.requirement(
    "KA-REBALANCE",
    "a rebalance in the middle of a commit costs nothing",
    """A worker dies while a commit is under way, and another later if all-workers is claimed: its
    partitions move, with the state that belongs to their offsets.
    If it fails, offsets of a lost partition were committed, or its state was read before they had
    moved.""",
    clauses="eut-one-cut eut-resumes kafka-rebalance app-count-again",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("worker",), transport=("kafka",)
    ),
    judges={kafka_rebalance: require_exact_after_faults},
)


@scenario(*STATE_FIRST)
def kafka_worker_in_transaction(context: Context, rng: random.Random) -> Scenario:
    return _two_workers_die(context, rng, "staged")


def _not_held_up(history: History) -> None:
    """A reader of what is committed waits for open transactions: no longer than they may last.

    Another death begins that time anew.
    """
    require_no(history, whole(history), LOSS)
    require_fired(history, 1)
    claimed_s = history.record.kafka.session_s + history.record.kafka.transaction_s
    arrivals = outputs(history).arrivals
    struck = np.array([fault.struck_ns for fault in history.faults])
    for fault, partition in product(history.faults, np.unique(arrivals["writer"])):
        of_one = arrivals["t_ns"][arrivals["writer"] == partition]
        later = of_one[of_one > fault.struck_ns]
        if not len(later):
            continue
        came_ns = int(later.min())
        over_ns = int(struck[struck > fault.struck_ns].min(initial=came_ns))
        waited_s = (over_ns - fault.struck_ns) / 1e9
        if waited_s <= claimed_s + _SPARE_S:
            continue
        expected = f"output that can be read within {claimed_s:g} s of a death"
        actual = f"the next of partition {partition} came {waited_s:.1f} s after it"
        if over_ns < came_ns:
            actual = f"none of partition {partition} in the {waited_s:.1f} s until the next one"
        lost_s = noise.withheld_between_s(history, fault.struck_ns, over_ns)
        if waited_s - lost_s <= claimed_s + _SPARE_S:
            raise Unknown(
                Reason.MACHINE_BUSY,
                expected,
                f"{actual}, but the machine withheld {lost_s:.1f} s",
                fault=fault.text,
            )
        raise Fail(Reason.HELD_UP, expected, actual, fault=fault.text)


KA.requirement(
    "KA-NOT-HELD-UP",
    "readers wait no longer than the claimed timeouts",
    """After a death, output that can be read comes again within the session and the transaction
    timeout that engine.toml states.
    If it fails, the timeouts are longer than stated, or a transaction is left open until then.""",
    clauses="eut-resumes kafka-held-up",
    needs=Needs(survives=("worker",), transport=("kafka",)),
    judges={kafka_worker_in_transaction: _not_held_up},
)
