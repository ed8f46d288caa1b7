"""Delivery: what of the output is visible, how often, and when."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Final

from tickproof.conformance.fault_steps import fault_step
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import Scenario, SinkBehaviour
from tickproof.conformance.suites.carriers import ON_TWO, SOME, STATE_FIRST
from tickproof.conformance.suites.evidence import CHANGED, LOSS, TWICE, VALUES, values, whole
from tickproof.conformance.suites.families.eo_exactly_once import (
    count_after_accept,
    count_engine_death,
    count_engine_death_backlog,
    count_links_cut,
    count_links_down,
    count_some_deaths,
    count_tail,
    count_terminated,
    count_worker_death_backlog,
    market_two_after_accept,
    market_two_links_cut,
)
from tickproof.conformance.suites.families.st_state import count, count_some
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown
from tickproof.conformance.suites.require import (
    require_acknowledged,
    require_completed,
    require_fired,
    require_met,
    require_no,
    require_once,
    require_settled,
)
from tickproof.conformance.suites.requirement import OVER_LOG, Family, Needs
from tickproof.conformance.suites.scenarios import Context, aimed, carried, deaths, market, scenario
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason

DL: Final = Family("DL", "Delivery", tier=3)


def _complete(history: History) -> None:
    require_no(history, whole(history), (*LOSS, *TWICE))


DL.requirement(
    "DL-COMPLETE",
    "without faults, each output is delivered once",
    """In a run without faults nothing is lost and nothing comes twice, whatever delivery is
    claimed.
    If it fails, an append was repeated although its reply was only late, or a reply was taken for
    the next request's.""",
    tier=1,
    clauses="out-append out-same-seq out-seq-below eut-recorded-raw",
    judges={count: _complete},
)


def _no_conflict(history: History) -> None:
    require_no(history, whole(history), CHANGED)


DL.requirement(
    "DL-NO-CONFLICT",
    "one number never carries two payloads",
    """The same (writer, seq) never comes with another payload.
    If it fails, two processes or threads number the records of one writer, or a number was used
    again after an error.""",
    tier=1,
    clauses="out-same-seq out-writer",
    needs=OVER_LOG,
    judges={count: _no_conflict},
)


@scenario(*STATE_FIRST)
def count_slow_acks(context: Context, _rng: random.Random) -> Scenario:
    # Bit by bit, and answered one after the other: dozens have no answer as a later cut begins,
    # and at the end.
    return carried(
        context,
        7_500 if context.transport == "kafka" else 4_500,  # some clients commit each five seconds
        rate=1_000,
        recipe={"tick": 10},
        workers=1,
        sink=SinkBehaviour(ack_delay_s=0.1, last_ack_delay_s=0.3, budget_s=7.0),
    )


def _acknowledged(history: History) -> None:
    if history.claims.over_kafka:
        _commits_what_is_acknowledged(history)
    else:
        require_acknowledged(history)
    require_no(history, values(history), LOSS)


def _commits_what_is_acknowledged(history: History) -> None:
    """Expect that the offsets of the group were never ahead of the output: a record gives one."""
    require_completed(history)
    drained = history.all(events.Drained)[-1]
    if not any(part.released for part in drained.partitions):
        raise NotClaimed(f"{DOES_NOT_APPLY}: about offsets of the group; the engine commits none")
    seen = history.all(events.KafkaOutput)[-1]
    if seen.unread:
        raise Unknown(Reason.NOT_SEEN, "requests that the kit can read", f"{seen.unread} others")
    if seen.ahead > 0:
        raise Fail(
            Reason.EARLY_COMMIT,
            "no committed offset of a record whose output is not acknowledged",
            f"offsets were {seen.ahead:,} records ahead of the output that was acknowledged",
        )


DL.requirement(
    "DL-ACKNOWLEDGED",
    "what is said to be done has been acknowledged",
    """Output is acknowledged late. At the moment of the drain answer no APPEND, STAGE or COMMIT is
    without its reply. Over Kafka, no offset is committed of a record whose output is not
    acknowledged.
    If it fails, the engine counted what it sent and not what was acknowledged; or its client
    commits by itself.""",
    tier=1,
    clauses="ctl-drain-acknowledged fair-moment-of-drain out-append kafka-release kafka-group",
    judges={count_slow_acks: _acknowledged},
)


def _nothing_staged(history: History) -> None:
    require_settled(history)
    require_completed(history)


DL.requirement(
    "DL-STAGED",
    "nothing staged is left at the drain answer",
    """When drain is answered, every transaction with records is committed or aborted.
    If it fails, the last transaction waited for more input: at END it must be committed as it
    is.""",
    tier=1,
    clauses="out-stage-missing out-stage out-commit",
    needs=OVER_LOG,
    judges={count: _nothing_staged, count_some: _nothing_staged},
)


def _nothing_lost(history: History) -> None:
    """No output is missing; with state at least once no record in any output either.

    The values of an exact state are for the family EO.
    """
    counted = VALUES if history.claims.state == "at-least-once" else ()
    require_no(history, whole(history), (*counted, *LOSS))
    require_fired(history)


DL.requirement(
    "DL-NO-LOSS",
    "nothing is lost over a death",
    """Over a death of the engine every output that must appear does appear. With state at least
    once, each total counts every record before it, and again only what was fetched again.
    If it fails, input was taken as done before its output was acknowledged, or staged output was
    dropped although its cut named it.""",
    clauses="""toml-claim-delivery toml-claim-state app-count-again ms-again out-append
    out-settle-first kafka-earliest""",
    needs=Needs(survives=("engine",), state=("at-least-once", "exactly-once")),
    judges={
        count_engine_death: _nothing_lost,
        count_engine_death_backlog: _nothing_lost,
        count_tail: _nothing_lost,
        count_terminated: _nothing_lost,
    },
)


def _exactly_once(history: History) -> None:
    require_no(history, whole(history), (*TWICE, *CHANGED, *LOSS))
    require_fired(history)


DL.requirement(
    "DL-EXACTLY-ONCE",
    "no output comes twice over a death",
    """Over a death of the engine every output is visible exactly once.
    If it fails, ask HAVE after each restart and skip what is recorded; where a replay makes other
    output, keep it in the cut or stage it.""",
    clauses="""out-exactly-once out-have out-have-owner out-have-alone toml-claim-delivery
    out-seq-below kafka-committed""",
    needs=Needs(
        state=("at-least-once", "exactly-once"), delivery=("exactly-once",), survives=("engine",)
    ),
    judges={
        count_worker_death_backlog: _exactly_once,
        count_engine_death_backlog: _exactly_once,
        count_some_deaths: _exactly_once,
        market_two_after_accept: _exactly_once,
    },
)


DL.requirement(
    "DL-AFTER-STAGE",
    "a death just after output was taken: none lost or doubled",
    """Killed right after a STAGE was acknowledged or an APPEND recorded, the engine neither loses
    nor repeats that output.
    If it fails, the restart did not settle its transactions, or did not ask HAVE before it went
    on.""",
    clauses="""out-settle-first out-stage-outlives out-stage-replace out-txn-number
    out-stage-not-counted out-have fair-aimed-kills out-abort""",
    needs=Needs(
        state=("at-least-once", "exactly-once"), delivery=("exactly-once",), survives=("engine",)
    ),
    judges={count_after_accept: _exactly_once, market_two_after_accept: _exactly_once},
)


# One kill each: what comes of the one is not told from what comes of the other.
@scenario(*ON_TWO)
def market_two_committing(context: Context, rng: random.Random) -> Scenario:
    step, _ = aimed(rng, "committing", "committing")
    return market(context, 60_000, rate=60_000, faults=(step,))


DL.requirement(
    "DL-AFTER-COMMIT",
    "a death before the reply to COMMIT: none lost or doubled",
    """Killed after the kit received a COMMIT (or an APPEND, where no COMMIT is used) and before the
    reply, the engine delivers that output once.
    If it fails, the output was staged again under another number and came twice, or other output
    was staged under a number that was committed already and never came: let the durable cut name a
    transaction before its COMMIT, and commit again what the cut names, outcome 2 is fine.""",
    clauses="""out-commit out-stage-committed out-settle-first out-commit-not-fenced
    fair-aimed-kills""",
    needs=Needs(
        state=("at-least-once", "exactly-once"), delivery=("exactly-once",), survives=("engine",)
    ),
    judges={count_after_accept: _exactly_once, market_two_committing: _exactly_once},
)


#: Held for longer than a cut takes, so that one taken too early is in place.
_LOSING_S: Final = 0.25


@scenario(*STATE_FIRST)
def count_losing(context: Context, rng: random.Random) -> Scenario:
    _, step = aimed(rng, "losing", "losing")
    # Answers are slow: a cut that waits for some of those before it is in place by then, too.
    sink = SinkBehaviour(ack_delay_s=0.03, budget_s=3.0)
    return deaths(context, replace(step, delay_s=_LOSING_S), sink=sink)


#: How long the engine is down with output staged, by profile: longer than what is open is
#: commonly kept.
DOWN_S: Final = {"quick": 6.5, "full": 35.0}


@scenario(*ON_TWO)
def market_two_losing(context: Context, rng: random.Random) -> Scenario:
    _, step = aimed(rng, "losing", "losing")
    # Over Kafka a transaction ends by its timeout: requirements of its own are about that.
    down_s = 0.0 if context.transport == "kafka" else DOWN_S[context.profile]
    step = replace(step, delay_s=_LOSING_S, down_s=down_s)
    return market(context, 60_000, rate=60_000, faults=(step,))


def _once(history: History) -> None:
    require_once(history)
    require_fired(history)


DL.requirement(
    "DL-UNANSWERED",
    "output sent and never taken is delivered after a death",
    """The engine dies while a COMMIT (or an APPEND, where no COMMIT is used) is under way, and the
    kit treats the frame as never sent. The output still arrives, and once where delivery is
    exactly-once; what was staged does so after seconds in which the engine is down.
    If it fails with "lost", the cut was taken before the acknowledgement, or a resumed engine does
    not commit what its cut names, or takes it for too old.""",
    clauses="proc-unanswered out-settle-first eut-durable fair-aimed-kills",
    needs=Needs(survives=("engine",), state=("at-least-once", "exactly-once")),
    judges={count_losing: _once, market_two_losing: _once},
)


def _late_acknowledgements(history: History) -> None:
    if not history.claims.over_kafka:  # there the kit itself says when the engine has drained
        require_acknowledged(history)
    _once(history)


DL.requirement(
    "DL-SLOW-ACKS",
    "slow last acknowledgements neither lose nor repeat",
    """When the replies to the last appends are slow and the engine is killed meanwhile, all of the
    tail arrives.
    If it fails, drain or the cut ran ahead of the acknowledgements.""",
    clauses="ctl-drain-acknowledged fair-bounded-delay out-append proc-slow-sink-ends",
    needs=Needs(survives=("engine",), state=("at-least-once", "exactly-once")),
    judges={count_tail: _late_acknowledgements},
)


def _late_bytes(history: History) -> None:
    require_once(history)
    require_met(history, "late", "sink")


DL.requirement(
    "DL-LATE-BYTES",
    "late output of an old connection does no harm",
    """An APPEND or STAGE from a connection that was reset is handled only after its writer is back
    on a new one: nothing is lost, nothing comes twice where that is claimed.
    If it fails, the new connection did not ask HAVE first, so that the old output was still taken;
    or it went on under other writers.""",
    clauses="conn-late conn-have out-have-owner out-stage-replace",
    needs=Needs(
        state=("at-least-once", "exactly-once"), survives=("connection",), transport=("log",)
    ),
    judges={count_links_cut: _late_bytes, market_two_links_cut: _late_bytes},
)


@scenario(SOME)
def count_some_refused(context: Context, rng: random.Random) -> Scenario:
    # All of the input is one cut, whose COMMIT is refused until long after the end.
    seconds = 8.0 if context.profile == "full" else round(rng.uniform(1.5, 2.5), 2)
    step = fault_step("refuse", "sink", "staged", fraction=0.0, seconds=seconds)
    if context.transport == "kafka":  # a single transaction met nothing there
        return deaths(context, replace(step, fraction=0.7))
    recipe = {"partitions": 1, "tick": 200}
    return carried(context, 200, recipe=recipe, keyed={"keys": 50}, faults=(step,))


def _refused(history: History) -> None:
    require_once(history)
    require_met(history, "refuse", "sink")


def _refused_beyond_the_end(history: History) -> None:
    require_once(history)
    require_settled(history)
    # Without a COMMIT the output may all have been taken before the refusal.
    if history.all(events.Stage):
        require_met(history, "refuse", "sink")


DL.requirement(
    "DL-REFUSED",
    "output that is refused for a time arrives later",
    """For a time the sink answers output with error 8, also beyond the end of the input: all of it
    arrives later, and once where that is claimed.
    If it fails, a refusal was taken for an acknowledgement, or the engine gave up on it.""",
    clauses="conn-refused log-error-no-effect kafka-connections",
    needs=Needs(state=("at-least-once", "exactly-once"), survives=("connection",)),
    judges={count_links_down: _refused, count_some_refused: _refused_beyond_the_end},
)
