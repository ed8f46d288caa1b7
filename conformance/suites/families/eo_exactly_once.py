"""Exactly-once state over deaths, damage and broken connections.

Each judge looks for a counterexample first, then for the evidence that the fault met data in
flight: without it a clean history proves nothing. Kill points are drawn, not evenly spaced: a
restart resets an engine's cycle, so that even spacing would meet the same phase every time.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.fault_steps import (
    GRACE_S,
    CutStep,
    Damaged,
    FaultStep,
    FillStep,
    KillEngineStep,
    KillStep,
    Loss,
    Moment,
    PowerStep,
    Target,
    fault_step,
)
from tickproof.conformance.faults.fill import Fill
from tickproof.conformance.faults.kinds import fault_of, within
from tickproof.conformance.faults.moments import CHECKPOINTING, moment_of
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.scenario import Scenario, SinkBehaviour
from tickproof.conformance.suites.carriers import (
    MERGED,
    MERGED_REJECTS,
    ON_MERGED,
    ON_TWO,
    PASSTHROUGH,
    SOME,
    STATE_FIRST,
    TWO_REJECTS,
)
from tickproof.conformance.suites.evidence import (
    CHANGED,
    LOSS,
    ORDER_KINDS,
    STATE,
    VALUES,
    refetched,
    whole,
)
from tickproof.conformance.suites.judge import Fail, NotClaimed, Unknown
from tickproof.conformance.suites.promises import forbidden_repeats
from tickproof.conformance.suites.require import (
    not_fetched_below,
    raise_first,
    refused_clearly,
    require_completed,
    require_exact,
    require_exact_after_faults,
    require_fired,
    require_greeted,
    require_met,
    require_no,
    require_noticeable,
    require_values,
)
from tickproof.conformance.suites.requirement import Family, Needs
from tickproof.conformance.suites.scenarios import (
    Context,
    Entry,
    aimed,
    at_sink,
    at_source,
    carried,
    deaths,
    kill,
    kill_in_backlog,
    market,
    scenario,
    sized,
)
from tickproof.conformance.suites.schedules import held, point_held
from tickproof.conformance.suites.space import space_1
from tickproof.conformance.suites.state_faults import (
    fell,
    held_back,
    require_files,
    require_held_back,
)
from tickproof.conformance.verdicts import DOES_NOT_APPLY, Reason
from tickproof.generators.choices import EVENT_TIMES, EventTimes
from tickproof.generators.layouts import COUNT_IN

EO: Final = Family("EO", "Exactly-once under faults", tier=3)


def _exact(history: History) -> None:
    """State is exact and nothing is missing, though processes died."""
    require_values(history, (*VALUES, *LOSS))
    require_fired(history)


def _exact_with_backlog(history: History) -> None:
    _exact(history)
    burst = history.faults[0].step.burst
    if history.faults[0].backlog < burst // 4:
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            f"a backlog of at least {burst // 4:,} records at the kill",
            f"{history.faults[0].backlog:,}",
        )


@scenario(*STATE_FIRST)
def count_worker_death(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, kill(rng, "worker", 0.35, 0.7))


EO.requirement(
    "EO-WORKER-DEATH",
    "output is exact after a worker is killed",
    """A worker killed with data in flight costs nothing: every value is right and none is missing.
    If it fails, the restarted worker began at the wrong offset, or with state that does not belong
    to that offset.""",
    clauses="""proc-worker-death proc-worker-restart-all toml-claim-state toml-claim-survives
    eut-resumes app-count-output proc-worker-pid proc-tree kafka-again kafka-command""",
    needs=Needs(state=("exactly-once",), survives=("worker",)),
    judges={count_worker_death: _exact},
)


@scenario(*STATE_FIRST)
def count_worker_death_backlog(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, kill_in_backlog(context, rng, "worker"))


EO.requirement(
    "EO-WORKER-DEATH-BACKLOG",
    "output is exact after a worker dies with a backlog",
    """A worker killed while it works through a backlog at full speed costs nothing.
    If it fails while EO-WORKER-DEATH passes, frames of the dead worker were recorded after its
    successor started: ask HAVE first.""",
    clauses="proc-worker-death fair-backlog out-have-owner eut-durable",
    needs=Needs(state=("exactly-once",), survives=("worker",)),
    judges={count_worker_death_backlog: _exact_with_backlog},
)


@scenario(*STATE_FIRST)
def count_engine_death(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, kill(rng, "engine", 0.35, 0.7, cut=True))


@scenario(*STATE_FIRST)
def count_engine_death_backlog(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, kill_in_backlog(context, rng, "engine"))


def _exact_by_new_token(history: History) -> None:
    """As `_exact`; the engine must not try what only its life before was given."""
    _exact(history)
    require_greeted(history)


EO.requirement(
    "EO-ENGINE-DEATH",
    "output is exact after the whole engine is killed",
    """All processes killed at once, then deployed again with resume: every value is right and none
    is missing.
    If it fails, something that the cut needs was only in memory, or the cut was replaced in place
    and not by a rename; or the token of the log was kept from the life before.""",
    clauses="""proc-restart proc-folders proc-isolation ctl-deploy-resume eut-durable eut-resumes
    toml-claim-state toml-claim-survives app-count-output ctl-deploy-data kafka-state""",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={
        count_engine_death: _exact_by_new_token,
        count_engine_death_backlog: _exact_with_backlog,
    },
)


@scenario(*STATE_FIRST)
def count_terminated(context: Context, rng: random.Random) -> Scenario:
    # Once where a transaction is open, if there are any, and once where records come in; each with
    # a backlog: more is under way than is done in one step.
    burst, fraction = context.records(25_000), round(rng.uniform(0.1, 0.2), 3)
    first = KillEngineStep("staged", fraction=fraction, cut=True, burst=burst, grace_s=GRACE_S)
    fraction = round(rng.uniform(0.5, 0.6), 3)
    return deaths(context, first, replace(first, at="fetched", fraction=fraction))


EO.requirement(
    "EO-TERMINATED",
    "output is exact after the engine is ended by SIGTERM",
    """All processes get SIGTERM with records under way, as from a service manager, and SIGKILL if
    they are left 10 s later: what an engine does on its way out makes it no worse than a kill.
    If it fails, a handler of signals, or what the runtime closes at exit, commits or writes what is
    not a whole cut: the place in the input without its output, or output of half a batch.""",
    clauses="proc-terminated proc-restart eut-one-cut eut-durable eut-resumes",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_terminated: require_exact_after_faults},
)


@scenario(*STATE_FIRST)
def count_after_accept(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, *aimed(rng, "accepted", "committing"))


@scenario(*STATE_FIRST)
def count_two_worker_deaths(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, kill(rng, "worker", 0.2, 0.35), kill(rng, "worker", 0.55, 0.8))


#: Number of deaths of one worker in one life of its coordinator, and their number if each may
#: cost seconds: by engine.toml, or by the timeout of a session.
_DEATHS: Final = 9
_DEAR_DEATHS: Final = 3


@scenario(*STATE_FIRST)
def count_deaths_of_one_worker(context: Context, rng: random.Random) -> Scenario:
    # What waits longer after each death, or counts deaths and never forgets one, shows late.
    number = _DEAR_DEATHS if context.dear else _DEATHS
    apart = 0.72 / number
    faults = tuple(
        kill(rng, "worker", low, low + 0.02) for low in (0.05 + apart * n for n in range(number))
    )
    # So slow that few records come between a moment and its fault.
    return carried(context, context.records(90_000), rate=20_000, faults=faults, workers=1)


def _exact_after_all(history: History) -> None:
    """As `_exact`; of many deaths, at least the first met records in flight."""
    require_values(history, (*VALUES, *LOSS))
    require_fired(history, in_flight=False)
    require_fired(history, 1)


EO.requirement(
    "EO-TWO-DEATHS",
    "output is exact after two deaths, and after many",
    """A second death, later in the same run, is survived like the first, and so is the ninth of one
    worker.
    If it fails, the first recovery left state that only the first life could read: an epoch, a file
    name or a sequence number that began again. If only many deaths fail, something counts them and
    never forgets: a number of restarts that is allowed, or a pause that doubles.""",
    clauses="proc-restart eut-resumes fair-time-for-a-cut fair-random-kills",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={
        count_after_accept: _exact,
        count_two_worker_deaths: _exact,
        count_deaths_of_one_worker: _exact_after_all,
    },
)


@scenario(*STATE_FIRST)
def count_death_in_recovery(context: Context, rng: random.Random) -> Scenario:
    # Twice: what guards itself against a start that crashes again and again counts to three.
    again = KillEngineStep("recovery")
    # The sink is slow, and the connections break as the engine recovers once more.
    broken = CutStep("recovery", target="source")
    breaks = "connection" in context.survives and context.transport == "log"
    meanwhile = (broken,) if breaks else ()
    first = kill(rng, "engine", 0.3, 0.6, cut=True)
    sink = SinkBehaviour(ack_delay_s=0.02, budget_s=2.0)
    return deaths(context, first, again, again, *meanwhile, sink=sink)


EO.requirement(
    "EO-DEATH-IN-RECOVERY",
    "output is exact after a death during recovery",
    """Killed again while it recovers, the engine recovers from the same cut a second time, and a
    third over connections that break.
    If it fails, recovery changes what it reads: it must be safe to begin it any number of
    times.""",
    clauses="ctl-deploy-resume proc-restart eut-durable",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_death_in_recovery: _exact_after_all},
)


@scenario(*STATE_FIRST)
def count_mixed_deaths(context: Context, rng: random.Random) -> Scenario:
    # What a resumed life leaves for its workers is not what it leaves for the next life.
    first = _claimed(context, "engine", "worker", kill(rng, "engine", 0.2, 0.35, cut=True))
    second = _claimed(context, "worker", "engine", kill(rng, "worker", 0.55, 0.8))
    if len(within(context.survives, (first, second), 2)) < 2:
        second = _all_paused(second)
    return deaths(context, first, second)


def _claimed(context: Context, best: Target, other: Target, step: FaultStep) -> FaultStep:
    """Return a kill of whom the engine claims to survive, a pause where that is nobody."""
    for target in (best, other):
        if target in context.survives:
            return step.instead("kill", target)
    return _all_paused(step)


def _all_paused(step: FaultStep) -> FaultStep:
    return step.instead("pause", "engine", seconds=1.0)


EO.requirement(
    "EO-SCHEDULE",
    "all promises hold under a schedule of several faults",
    """Faults of several kinds in one run cost nothing: values are right, nothing is missing,
    nothing comes twice where that is claimed. Decided on one schedule that is drawn from the seed
    and kills only what the engine claims to survive, on each regression beside engine.toml, and on
    each schedule that is given.
    If only this fails, two recoveries do not fit together: what one kind of death leaves behind is
    not what the other one reads.""",
    clauses="""eut-resumes eut-one-cut proc-restart proc-worker-death fair-random-kills
    fair-time-for-a-cut""",
    needs=Needs(state=("exactly-once",)),
    judges={count_mixed_deaths: held},
)


@scenario(*STATE_FIRST)
def count_early_death(context: Context, rng: random.Random) -> Scenario:
    # When the first output was taken: it is acknowledged late, so that a cut that waits for
    # that comes after the kill.
    fraction = round(rng.uniform(0.001, 0.004), 4)
    step = KillEngineStep("staged", fraction=fraction)
    sink = SinkBehaviour(ack_delay_s=0.4, budget_s=0.9)
    return carried(context, context.records(30_000), rate=60_000, faults=(step,), sink=sink)


def _early(history: History) -> None:
    require_exact(history)
    fault = require_fired(history, in_flight=False)[0]
    if all(one.released for one in fault.partitions if one.fetched):
        raise Unknown(
            Reason.KILL_MISSED,
            "a death before the first RELEASE of some partition",
            f"{fault.released:,} records released in all",
            fault=fault.text,
        )


EO.requirement(
    "EO-EARLY-DEATH",
    "death before the first cut: all of it is counted once",
    """The engine is killed as soon as it has fetched the first records, before it has written a
    cut: it begins again at the beginning, and sends nothing twice.
    If it fails, a folder without a cut is an error, or means that nothing was sent or read
    before.""",
    clauses="ctl-deploy-resume eut-resumes proc-restart out-have",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_early_death: _early},
)


@scenario(*STATE_FIRST)
def count_uneven_death(context: Context, rng: random.Random) -> Scenario:
    # Late in a long life, after many cuts: in a silence the last of them comes up with the
    # input, far beyond record 32,768 of the crowded partition. Of many keys 84,000 are out there
    # by then, and an engine that cuts once in 1.5 s has time for that.
    step = KillEngineStep("fetched", fraction=round(rng.uniform(0.74, 0.79), 4))
    recipe = {"partitions": 6, "empty": [0], "ended_early": [1, 4], "skew": 0.9}
    return carried(
        context,
        context.records(110_000 if context.dear else 150_000),
        rate=60_000 if context.dear else 80_000,
        faults=(step,),
        recipe=recipe,
        keyed={"keys": 3_000 if context.dear else 1_000_000, "hot_share": 0.0},
        hold=(0.7, 0.4 if context.dear else 1.6),
    )


#: Keys of one partition that a number of 16 bits cannot count.
_ROWS: Final = 2**16


@scenario(*STATE_FIRST)
def count_idle_worker_death(context: Context, rng: random.Random) -> Scenario:
    # Most workers have no partition, before and after; one key has more than 65,536 values in the
    # last cut.
    step = kill(rng, "engine", 0.76, 0.8, cut=True)
    workers = 4 if context.dear else rng.randrange(8, 13)
    keyed = {"keys": 50, "hot_share": 0.98, "hot_keys": 0.02}
    return carried(
        context,
        context.records(110_000),
        rate=60_000,
        faults=(step,),
        recipe={"partitions": 2},
        keyed=keyed,
        workers=workers,
    )


@scenario(*STATE_FIRST)
def count_late_partitions_death(context: Context, rng: random.Random) -> Scenario:
    # Two partitions begin when 47 % of the input is out. The second death finds records of
    # theirs fetched, and cuts of the other partitions alone.
    first = kill(rng, "engine", 0.2, 0.35, cut=True)
    second = KillEngineStep("fetched", fraction=0.485)
    recipe = {"partitions": 6, "begin_late": [0, 4]}
    return deaths(context, first, second, recipe=recipe)


def _exact_and_met(history: History) -> None:
    require_exact(history)
    require_fired(history)


def _uneven_of_many_keys(history: History) -> None:
    """As `_exact_and_met`; of an input of many keys, more than _ROWS were in the restored cut.

    That is what the engine went on from, whether or not it had released so much.
    """
    _exact_and_met(history)
    if history.record.input.recipe.get("keys", 0) <= _ROWS:
        return
    died, parts = history.faults[0], history.inputs(COUNT_IN)
    crowded = max(range(len(parts)), key=lambda number: len(parts[number]))
    rows = of_partition(history.fetches, 0, crowded)
    bases = rows["base"][rows["t_ns"] > died.t_ns]
    restored = int(bases.min()) if len(bases) else died.partitions[crowded].released
    keys = len(np.unique(parts[crowded]["key"][:restored]))
    if keys <= _ROWS:
        raise Unknown(
            Reason.NO_CUT_BEFORE_KILL,
            f"a cut of more than {_ROWS:,} keys of partition {crowded} before the kill",
            f"the engine went on from offset {restored:,}, before which {keys:,} keys came",
            fault=died.text,
        )


EO.requirement(
    "EO-UNEVEN",
    "death among partitions that are empty, ended or crowded",
    """One partition is empty, two ended long ago, one has nine in ten of the records, many cuts and
    more than 65,536 keys: after the death of the engine all of it is right; so it is where some
    workers have no partition, and where some partitions have just begun.
    If it fails, look at offsets beyond 32,767, at counters of cuts and of keys, and at what becomes
    of a partition, or of a worker, that has nothing more to read.""",
    clauses="eut-resumes eut-one-cut log-end-flag ctl-drain",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={
        count_uneven_death: _uneven_of_many_keys,
        count_idle_worker_death: _exact_and_met,
        count_late_partitions_death: _exact_and_met,
    },
)


EO.requirement(
    "EO-COVERING",
    "all promises hold at drawn points of the fault space",
    """Apps, inputs, paces, strikes and the moment in a life at which they come are combined so
    that, over sessions, every pair of them is played: values are right, nothing is missing, nothing
    comes twice where that is claimed. Decided on each point that the seed draws from the space that
    the engine claims; profile full plays all of them.
    If only this fails, two things that hold alone do not hold together: the schedule in the
    evidence says which.""",
    clauses="""eut-resumes eut-one-cut proc-restart proc-worker-death fair-random-kills
    fair-time-for-a-cut""",
    needs=Needs(state=("exactly-once",)),
    judges={space_1: point_held},
)


@scenario(*STATE_FIRST)
def count_pause(context: Context, rng: random.Random) -> Scenario:
    # An engine that replaces workers may replace one that stands still; any other has to wait.
    target: Target = "worker" if "worker" in context.survives else "engine"
    step = fault_step(
        "pause", target, "fetched", fraction=round(rng.uniform(0.3, 0.6), 4), seconds=2.0
    )
    return deaths(context, step)


def _exact_after_a_pause(history: History) -> None:
    _exact(history)
    if not history.all(events.Resumed):
        raise Unknown(Reason.KILL_MISSED, "a process stopped and continued", "none was continued")


EO.requirement(
    "EO-PAUSE",
    "output is exact after a pause that looks like a death",
    """A worker stopped with SIGSTOP and continued later does no harm, whether or not it was
    replaced in the meantime. Of an engine that claims no such death, all processes are stopped.
    If it fails, the old process and its successor both wrote: fence it with HAVE, and let it end at
    error 7; or a clock was believed that had stood still.""",
    clauses="out-fenced out-have-owner app-count-output proc-tree",
    needs=Needs(state=("exactly-once",)),
    judges={count_pause: _exact_after_a_pause},
)


def _one_cut(history: History) -> None:
    """Show nothing that state and offsets of different cuts would make of an app's output."""
    require_values(history, STATE if apps.of(history).numbered else (*VALUES, *LOSS))
    _had_cut(history, require_fired(history)[0])


def _had_cut(history: History, fault: FiredFault) -> None:
    """Expect proof of a cut before the kill: a RELEASE, or a recovery that skips records."""
    again, before = refetched(history, 0)
    if fault.released == 0 and again >= before:
        raise Unknown(
            Reason.NO_CUT_BEFORE_KILL,
            "a RELEASE before the kill, or a recovery not from zero",
            f"no RELEASE in {fault.fetched:,} fetched records, and all were fetched again",
        )


EO.requirement(
    "EO-ONE-CUT",
    "state and offsets are restored from one cut",
    """After a death, no value is counted twice and none is missing, at the very records around the
    cut.
    If totals are too high, state is newer than the offset; if they are too low, the offset is newer
    than the state: write both in one atomic step.""",
    clauses="eut-one-cut app-count-output",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_engine_death: _one_cut, count_after_accept: _one_cut},
)


def _released_not_needed(history: History) -> None:
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        raise Fail(Reason.RELEASED, "no FETCH below what was released before the kill", event.text)
    require_completed(history)
    if not len(history.releases):
        raise NotClaimed("the engine sends no RELEASE")
    _had_cut(history, require_fired(history)[0])


EO.requirement(
    "EO-RELEASED",
    "released records are never needed again",
    """After a death the engine fetches nothing below what it released, and its output is right
    without it.
    If it fails, RELEASE was sent before the cut that covers it was durable.""",
    clauses="""log-release log-release-discards log-error-released eut-durable-covers
    eut-never-below-cut kafka-release""",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_engine_death: _released_not_needed},
)


@scenario(*STATE_FIRST)
def count_after_drain(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(30_000), faults=(KillEngineStep("drained"),))


def _from_the_checkpoint(history: History) -> None:
    again, before = refetched(history, 0)
    if again >= before > 0 and history.faults[0].released:
        raise Fail(
            Reason.FROM_ZERO,
            "a resumed engine to go on from its last cut",
            f"all {before:,} records fetched before the kill were fetched again",
        )
    _nothing_asked_for_from_zero(history)
    require_completed(history)
    _had_cut(history, require_fired(history)[0])


def _from_the_drain(history: History) -> None:
    again, before = refetched(history, 0)
    if again >= before > 0:
        raise Fail(
            Reason.FROM_ZERO,
            "a resumed engine to go on from what drain made durable",
            f"all {before:,} records were fetched again",
        )
    _nothing_asked_for_from_zero(history)
    require_completed(history)
    require_fired(history, in_flight=False)
    _drained_again(history)


def _nothing_asked_for_from_zero(history: History) -> None:
    """Expect no FETCH of a released record at the very beginning; elsewhere it is no sign."""
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        if event.text.startswith("offset 0 "):
            raise Fail(Reason.FROM_ZERO, "a resumed engine to go on from its last cut", event.text)


EO.requirement(
    "EO-FROM-CHECKPOINT",
    "recovery starts from the checkpoint, not from zero",
    """What is fetched again after a death is a small part of what was processed before it.
    If it fails, no cut was durable at the time of the kill, or it was not used: the output may be
    right, but recovery time grows with the stream.""",
    clauses="eut-resumes eut-kit-owns-data fair-time-for-a-cut",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_engine_death: _from_the_checkpoint, count_after_drain: _from_the_drain},
)


@scenario(*STATE_FIRST)
def count_tail(context: Context, rng: random.Random) -> Scenario:
    # A little after the last fetch: output is on its way, and its answers are slow.
    return deaths(
        context,
        kill(rng, "engine", 1.0, 1.0),
        sink=SinkBehaviour(last_ack_delay_s=0.25, budget_s=1.5),
    )


def _end_arrives(history: History) -> None:
    require_values(history, (*VALUES, *LOSS))
    if require_fired(history)[0].remaining:
        raise Unknown(
            Reason.KILL_MISSED, "a kill after the last record was fetched", "an earlier one"
        )


EO.requirement(
    "EO-TAIL",
    "the end of the stream arrives after a late death",
    """Killed after the last record was published, the engine still delivers all that is due.
    If it fails, the tail was sent only when more input came, or the restarted engine took the old
    END for its own.""",
    clauses="ctl-drain app-count-some app-count-every eut-resumes ctl-drain-twice",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_tail: _end_arrives},
)


@scenario(MERGED_REJECTS, MERGED)
def market_after_drain(context: Context, _rng: random.Random) -> Scenario:
    # What came last gives no output, and is covered by a cut all the same.
    return market(
        context, 30_000, recipe={"reject_one_in": 70_000}, faults=(KillEngineStep("drained"),)
    )


def _unchanged_after_drain(history: History) -> None:
    drained = history.all(events.Drained)
    if drained:
        not_fetched_below(history, drained[0], "drain was answered")
    kinds = (*VALUES, *LOSS, *forbidden_repeats(history))
    require_no(history, whole(history), kinds)
    require_fired(history, in_flight=False)
    _drained_again(history)


def _drained_again(history: History) -> None:
    """Expect a second drain; over Kafka there is none before the engine looks at its input."""
    if len(history.all(events.Drained)) < 2:
        raise Unknown(Reason.NO_RECOVERY_SEEN, "a second drain after the restart", "none")


EO.requirement(
    "EO-AFTER-DRAIN",
    "a death after drain changes nothing",
    """Killed after it answered drain and deployed again, the engine adds no output, fetches nothing
    that drain covered, and answers drain again.
    If it fails, drain was answered before the last cut was durable.""",
    clauses="""ctl-drain-durable ctl-drain-stays ctl-drain-twice eut-durable-covers
    eut-never-below-cut""",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_after_drain: _unchanged_after_drain, market_after_drain: _unchanged_after_drain},
)


def _in_order(history: History) -> None:
    require_values(history, ORDER_KINDS)
    require_fired(history)


EO.requirement(
    "EO-KEY-ORDER",
    "the order of each key is kept across a replay",
    """Over a death the n of a key goes back only where delivery is claimed at-least-once, and then
    only to values it had before.
    If it fails, partitions of a restarted engine were applied in another order, or two owners wrote
    for one key.""",
    clauses="app-count-order app-count-step-back",
    needs=Needs(app=("count",), state=("exactly-once",), survives=("engine",)),
    judges={count_engine_death: _in_order, count_pause: _in_order},
)


def _nothing_changed(history: History) -> None:
    require_no(history, whole(history), CHANGED)
    require_fired(history, 2)


EO.requirement(
    "EO-NO-RETRACTION",
    "no output is changed once it is visible",
    """No (key, n) appears with two totals, and no (writer, seq) with two payloads.
    If it fails, the replay after a death computed something else than the first life: state, offset
    and sequence number do not come from one cut.""",
    clauses="out-same-seq eut-one-cut app-count-output",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={count_after_accept: _nothing_changed},
)


@scenario(SOME)
def count_some_deaths(context: Context, rng: random.Random) -> Scenario:
    faults = (kill(rng, "engine", 0.2, 0.4), kill(rng, "engine", 0.55, 0.8))
    # Many keys, so that some have their last value right before a death.
    return deaths(context, *faults, keyed={"keys": 30_000})


@scenario(SOME)
def count_some_trickle(context: Context, rng: random.Random) -> Scenario:
    # So slow that points wait in an engine which sends many at once, and of keys that hardly
    # ever come again.
    return carried(
        context,
        6_000,
        rate=4_000,
        faults=(kill(rng, "engine", 0.4, 0.7),),
        keyed={"keys": 1_000_000, "hot_share": 0.0, "tick": 4},
    )


EO.requirement(
    "EO-SOME",
    "with emit some, points stay true over deaths",
    """With emit "some", every point is true and the last of each key arrives, over a death of the
    engine.
    If it fails, keys that changed before the kill were forgotten as changed: keep that mark inside
    the cut.""",
    clauses="app-count-some out-have-alone",
    needs=Needs(app=("count",), state=("exactly-once",), survives=("engine",), emit=("some",)),
    judges={count_some_deaths: _exact, count_some_trickle: _exact},
)


@scenario(*ON_MERGED)
def market_worker_death(context: Context, rng: random.Random) -> Scenario:
    step = kill(rng, "worker", 0.4, 0.6)
    times: EventTimes = rng.choice(("equal", "backwards"))
    return market(context, 90_000, rate=60_000, faults=(step,), event_times=times)


EO.requirement(
    "EO-MARKET-WORKER-DEATH",
    "merged market: verdicts are right after a worker is killed",
    """A worker killed in mid-stream costs no verdict, and none is decided by a stale quote.
    If it fails, the latest quotes of its symbols were not part of the cut.""",
    clauses="ms-latest ms-emit-rejects proc-worker-death eut-one-cut",
    needs=Needs(
        app=("market-spread",), state=("exactly-once",), survives=("worker",), inputs=("merged",)
    ),
    judges={market_worker_death: _exact},
)


@scenario(*ON_MERGED)
def market_engine_death(context: Context, rng: random.Random) -> Scenario:
    step = kill(rng, "engine", 0.4, 0.6)
    times: EventTimes = rng.choice(("limits", "backwards"))
    return market(context, 90_000, rate=60_000, faults=(step,), event_times=times)


EO.requirement(
    "EO-MARKET-ENGINE-DEATH",
    "merged market: verdicts are right after an engine death",
    """All processes killed in mid-stream: each order still gets the verdict of the latest quote
    before it.
    If it fails, orders after the cut met quotes of before it, or a symbol without new quotes lost
    its old one.""",
    clauses="ms-latest ms-emit-rejects proc-restart eut-one-cut",
    needs=Needs(
        app=("market-spread",), state=("exactly-once",), survives=("engine",), inputs=("merged",)
    ),
    judges={market_engine_death: _exact},
)


@scenario(*ON_TWO)
def market_two_after_accept(context: Context, rng: random.Random) -> Scenario:
    # Once before the reply to STAGE, when no cut can name it yet, and once after it.
    faults = aimed(rng, "staged", "accepted")
    times = rng.choice(EVENT_TIMES)
    return market(context, 90_000, rate=60_000, faults=faults, event_times=times)


@scenario(TWO_REJECTS)
def market_two_rejects_deaths(context: Context, rng: random.Random) -> Scenario:
    # A replay that meets other quotes makes more or fewer rejects, and numbers them otherwise.
    faults = aimed(rng, "staged", "accepted")
    recipe = {"symbols": 8, "reject_one_in": 2}
    return market(context, 90_000, rate=60_000, faults=faults, recipe=recipe)


def _two_streams(history: History) -> None:
    changed = CHANGED if history.claims.delivery == "exactly-once" else ()
    require_values(history, (*VALUES, *LOSS, *changed))
    require_fired(history)


EO.requirement(
    "EO-TWO-STREAMS-DEATH",
    "two streams: verdicts stay right over a death",
    """After a death of the engine, the verdicts of each symbol still fit one interleaving of quotes
    and orders.
    If it fails, the offsets of the two streams come from different moments, so that orders met
    older quotes than before.""",
    clauses="ms-two-interleaving ms-two-fetched ms-two-after-restart eut-one-cut",
    needs=Needs(
        app=("market-spread",), state=("exactly-once",), survives=("engine",), inputs=("two",)
    ),
    judges={market_two_after_accept: _two_streams, market_two_rejects_deaths: _two_streams},
)


@scenario(*STATE_FIRST)
def count_checkpoint(context: Context, rng: random.Random) -> Scenario:
    # One that deaths meet may be refused. If not, it covers what the dead had done, and the second
    # fault comes right after it.
    # An answer that waits for no cut is out by then, and no cut is in place.
    fraction = round(rng.uniform(0.2, 0.35), 3)
    workers = KillStep("checkpointing", target="workers", fraction=fraction, delay_s=0.02)
    step = KillEngineStep("checkpoint", fraction=round(rng.uniform(0.5, 0.75), 3))
    # A cut takes as long as the acknowledgements before it: an answer that does not wait for it
    # comes well ahead of it.
    return carried(
        context,
        context.records(40_000),
        rate=60_000,
        faults=(workers, step) if fault_of(workers).needs in context.survives else (step,),
        sink=SinkBehaviour(ack_delay_s=0.05, budget_s=5.0),
    )


def _checkpoint_is_durable(history: History) -> None:
    for row in history.missed_faults:
        if "no checkpoint op" in row.why:
            raise NotClaimed("the engine has no checkpoint op")
    answered = history.all(events.Checkpointed)
    for event in answered:
        not_fetched_below(history, event, "a checkpoint was answered")
    require_values(history, (*VALUES, *LOSS))
    fault = require_fired(history, 1, in_flight=False)[0]
    if moment_of(fault.step) is CHECKPOINTING and any(e.t_ns < fault.t_ns for e in answered):
        raise Unknown(
            Reason.KILL_MISSED,
            "a death before the answer to the checkpoint",
            "the answer came first",
            fault=fault.text,
        )


#: Asked for in a run, so that numbers of a byte are used up. An engine that is slow gives fewer.
_MANY_CUTS: Final = 270


@scenario(SOME, *ON_TWO)
def many_checkpoints(context: Context, rng: random.Random) -> Scenario:
    return carried(
        context,
        8 * _MANY_CUTS,
        workers=1,
        recipe={"partitions": 20, "tick": 4},
        keyed={},
        faults=(kill(rng, "engine", 0.6, 0.8),),
        checkpoints=_MANY_CUTS,
    )


def _many_cuts(history: History) -> None:
    if not history.all(events.Checkpointed):
        raise NotClaimed("the engine has no checkpoint op")
    require_exact(history)
    require_fired(history, 1, in_flight=False)


EO.requirement(
    "EO-CHECKPOINT-OP",
    "what a checkpoint answer covers is never fetched again",
    """Killed right after it answered checkpoint, the engine resumes at or above everything
    processed by then. Hundreds of checkpoints in a run cost nothing.
    If it fails, the answer was sent before the cut was in place, or the cut was an older one; or
    numbers of cuts or transactions are used again. An engine that refuses the op definitely
    passes.""",
    clauses="""ctl-checkpoint ctl-optional eut-durable-covers eut-never-below-cut
    fair-aimed-kills out-txn-number""",
    needs=Needs(state=("exactly-once",), survives=("engine",), transport=("log",)),
    judges={count_checkpoint: _checkpoint_is_durable, many_checkpoints: _many_cuts},
)


#: Input of payloads beside a death: bytes, and seconds.
_PAYLOAD_BYTES: Final = 8_000_000
_PAYLOAD_S: Final = 1.5


@scenario(PASSTHROUGH)
def passthrough_deaths(context: Context, rng: random.Random) -> Scenario:
    size = sized(rng, 2**8, 2**16)
    records = max(400, _PAYLOAD_BYTES // size)
    return carried(
        context,
        context.records(records),
        rate=records / _PAYLOAD_S,
        faults=(kill(rng, "engine", 0.3, 0.7),),
        recipe={"size": size, "tick": max(1, records // 1_000)},
    )


#: The largest payloads beside a death: bytes, their number, and how many come in a second.
_LARGEST: Final = 2**20
_LARGE_RECORDS: Final = 32
_LARGE_RATE: Final = 32


@scenario(PASSTHROUGH)
def passthrough_large_death(context: Context, rng: random.Random) -> Scenario:
    # Some of them is with the sink, and in no cut.
    step = KillEngineStep("committing", fraction=round(rng.uniform(0.4, 0.6), 4), cut=True)
    recipe = {"size": _LARGEST, "tick": 1, "partitions": 2}
    return carried(context, _LARGE_RECORDS, rate=_LARGE_RATE, faults=(step,), recipe=recipe)


EO.requirement(
    "EO-PASSTHROUGH-DEATH",
    "passthrough loses nothing over a death",
    """Without any state but the offset, each payload still arrives after the engine is killed, and
    one of 1 MiB does so as often as is claimed.
    If it fails, the offset was saved before the output of its records was acknowledged; or large
    records go another way, which knows nothing of what the sink has.""",
    clauses="app-passthrough eut-one-cut proc-restart",
    needs=Needs(app=("passthrough",), state=("exactly-once",), survives=("engine",)),
    judges={passthrough_deaths: _exact, passthrough_large_death: _exact_and_met},
)


@scenario(*STATE_FIRST)
def count_all_workers_death(context: Context, rng: random.Random) -> Scenario:
    # One of them has no partition, and has to come back as the others.
    step = kill(rng, "workers", 0.35, 0.7)
    return deaths(context, step, recipe={"partitions": 2}, workers=3)


EO.requirement(
    "EO-ALL-WORKERS",
    "output is exact after all workers are killed at once",
    """All workers killed in the same moment, the coordinator alive: every value is right and none
    is missing.
    If it fails, state was recovered from a worker that no longer lived, or a coordinator without
    workers took the job for new or for over.""",
    clauses="""proc-worker-death proc-several-deaths toml-claim-survives eut-durable eut-resumes""",
    needs=Needs(state=("exactly-once",), survives=("all-workers",)),
    judges={count_all_workers_death: _exact},
)


@scenario(*STATE_FIRST)
def count_coordinator_death(context: Context, rng: random.Random) -> Scenario:
    return deaths(context, kill(rng, "coordinator", 0.35, 0.7, cut=True))


EO.requirement(
    "EO-COORDINATOR-DEATH",
    "output is exact after the coordinator is killed",
    """The coordinator killed with data in flight, the workers alive for the moment: every value is
    right and none is missing.
    If it fails, workers without a coordinator went on and wrote what its successor did not know of,
    or the successor forgot which cut was the last.""",
    clauses="proc-coordinator-death proc-restart proc-several-deaths eut-resumes",
    needs=Needs(state=("exactly-once",), survives=("coordinator",)),
    judges={count_coordinator_death: _exact},
)


@scenario(*STATE_FIRST)
def count_full_disk_at_the_end(context: Context, rng: random.Random) -> Scenario:
    # Drain is asked for before, and the rest of the input comes while nothing can be written:
    # the cut that the answer waits for is due then. At the last record, a fast engine has made
    # it before the disk is full.
    full = FillStep("fetched", fraction=round(rng.uniform(0.6, 0.8), 4), seconds=2.0, cut=True)
    death = KillEngineStep("drained")
    return carried(
        context, context.records(60_000), rate=60_000, faults=(full, death), drain_at=0.5
    )


@scenario(*STATE_FIRST)
def count_full_disk_before_the_last(context: Context, rng: random.Random) -> Scenario:
    # All so far is in a cut as the disk gets full, and the rest comes at once: the first cut that
    # fails is the one that the answer to drain waits for, with nothing that comes after it.
    full = FillStep("idle", fraction=round(rng.uniform(0.65, 0.8), 4), seconds=2.0, idle_s=0.3)
    return carried(
        context,
        15_000,
        rate=1_000_000,
        faults=(full, KillEngineStep("drained")),
        drain_at=0.5,
        recipe={"partitions": 1, "tick": 3_000},
    )


@scenario(*STATE_FIRST)
def count_full_disk(context: Context, rng: random.Random) -> Scenario:
    # Killed while nothing can be written: what was released without a cut is needed then.
    full = FillStep("fetched", fraction=round(rng.uniform(0.3, 0.5), 4), seconds=2.0, cut=True)
    # An engine that goes on without cuts has more than 16,384 outputs of a partition to repeat.
    death = kill(rng, "engine", full.fraction, full.fraction)
    death = replace(death, delay_s=1.0, burst=context.records(30_000))
    if context.transport == "kafka":  # long enough for a job to fail and start again in its process
        full, death = replace(full, seconds=5.0), replace(death, delay_s=4.0)
        return _room_again(context, rng, full, death)
    return carried(
        context,
        context.records(150_000),
        rate=60_000,
        faults=(full, death),
        recipe={"partitions": 2},
    )


def _room_again(context: Context, rng: random.Random, *later: FaultStep) -> Scenario:
    """Return a run that also dies long after a disk was full, of what was written since then.

    State that lies in topics, too, is read anew only after a death.
    """
    full, death = (replace(step, fraction=step.fraction + 0.25) for step in later)
    first = FillStep("fetched", fraction=round(rng.uniform(0.1, 0.15), 4), seconds=3.0, cut=True)
    return carried(
        context,
        context.records(150_000),
        rate=30_000,
        faults=(first, kill(rng, "engine", 0.42, 0.47), full, death),
        # So many that those that changed while it was full are not all changed again.
        keyed={"hot_share": 0.0, "keys": 16_000},
    )


@scenario(SOME, *ON_TWO, *STATE_FIRST)
def count_disk_with_room_again(context: Context, rng: random.Random) -> Scenario:
    # Killed at the first cut that gets through: it is the one that failed, or one of its own.
    if context.transport == "kafka":  # there a cut may be on the broker, and goes on
        # An engine that cuts each second, and shares two cores with others, misses less than that.
        rate = 12_000
        full = FillStep("fetched", fraction=0.15, seconds=3.0, cut=True)
        death: FaultStep = kill(rng, "engine", 0.65, 0.7)
    else:
        rate = 60_000
        full = FillStep("cuts", fraction=round(rng.uniform(0.25, 0.3), 4), seconds=2.0, cuts=2)
        # Most of what is left comes while it is full: what is tried again lies far behind it.
        death = KillEngineStep("cuts", fraction=0.9, cuts=3)
    return carried(
        context,
        context.records(90_000),
        rate=rate,
        faults=(full, death),
        recipe={"partitions": 2},
        # So large a state that the next cut, which hides what this one is, comes a little later.
        keyed={"hot_share": 0.0, "keys": 3_000 if context.dear else 40_000},
    )


def _drain_waits_for_a_disk(history: History) -> None:
    if history.claims.over_kafka:
        raise NotClaimed(f"{DOES_NOT_APPLY}: about an answer to drain, which Kafka has not")
    drained = history.all(events.Drained)
    if drained:
        not_fetched_below(history, drained[0], "drain was answered")
    require_no(history, whole(history), (*VALUES, *LOSS, *forbidden_repeats(history)))
    full = require_fired(history, 2, in_flight=False)[0]
    # What stood still had all in a cut: it is the rest that has to come while the disk is full.
    in_flight = apps.of(history).in_flight(full) or full.idle_s
    over = history.all(events.FillOver)
    if not in_flight or not over:
        raise Unknown(
            Reason.KILL_MISSED,
            "records in flight as the disk was full, and room again after that",
            "its end was not noted" if in_flight else "none in flight",
        )
    over_ns = over[0].to_ns
    if not any(event.t_ns < over_ns for event in history.all(events.DrainAsked)):
        raise Unknown(Reason.KILL_MISSED, "drain asked for before the disk had room", "it was not")
    ended = over_ns > _all_reached_ns(history, history.fetches)
    # An engine that waits for its cut has fetched what it may hold, and nothing for a time.
    ended |= over_ns > _all_reached_ns(history, history.publishes) and not _went_on(
        history, full, over_ns
    )
    if not (fell(history, full) or ended):
        raise Unknown(
            Reason.KILL_MISSED,
            "a disk that is full as the last record is fetched, or an engine that fetches "
            "nothing in the second half of that time",
            "it fetched until the disk had room again, and the last record only after that",
        )
    require_held_back(history, full, over[0])


def _went_on(history: History, full: FiredFault, over_ns: int) -> bool:
    """Tell whether what came since was fetched in the second half of a time of a full disk."""
    middle_ns = (full.t_ns + over_ns) // 2
    for one in full.partitions:
        rows = of_partition(history.fetches, one.stream, one.partition)
        meanwhile = rows[(rows["t_ns"] > middle_ns) & (rows["t_ns"] < over_ns)]
        if (meanwhile["end"] > one.published).any():
            return True
    return False


def _all_reached_ns(history: History, table: np.ndarray) -> int:
    """Return when a table of fetches, or of publications, had reached the end of the input."""
    last = 0
    for part in history.partitions:
        if part.records:
            rows = of_partition(table, part.stream, part.partition)
            times = rows["t_ns"][rows["end"] >= part.records]
            last = max(last, int(times.min(initial=np.iinfo(np.int64).max)))
    return last


def _exact_over_a_full_disk(history: History) -> None:
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        raise Fail(Reason.RELEASED, "no RELEASE of what no cut on the disk covers", event.text)
    require_exact(history)
    require_files(history)
    faults = require_fired(history, 1)
    full = [one for one in faults if isinstance(fault_of(one.step), Fill)][-1]
    over = next((one for one in history.all(events.FillOver) if one.to_ns > full.t_ns), None)
    if over is None:
        raise Unknown(Reason.KILL_MISSED, "a disk that is full for a time", "its end was not noted")
    require_held_back(history, full, over)
    died = fell(history, full) or any(full.t_ns < f.t_ns < over.to_ns for f in faults)
    if not (died or held_back(history, full, over.to_ns)):
        raise Unknown(
            Reason.KILL_MISSED,
            "a death while the disk was full, as RELEASE went on",
            "; ".join(row.why for row in history.missed_faults) or "it came later",
        )


def _exact_after_room_again(history: History) -> None:
    for event in history.all(events.Refused, code=int(Code.RELEASED)):
        raise Fail(Reason.RELEASED, "no RELEASE of what no cut on the disk covers", event.text)
    require_exact(history)
    require_files(history)
    if not len(history.releases):
        raise NotClaimed("the engine sends no RELEASE")
    full, *deaths_after = require_fired(history, in_flight=False)
    over = next(iter(history.all(events.FillOver)), None)
    if over is None:
        raise Unknown(Reason.KILL_MISSED, "a disk that is full for a time", "its end was not noted")
    require_held_back(history, full, over)
    times = history.releases["t_ns"].astype(np.int64)
    came = any(((times > over.to_ns) & (times < death.t_ns)).any() for death in deaths_after)
    if not (came or fell(history, full)):
        raise Unknown(
            Reason.KILL_MISSED,
            "a death after a cut that got through as the disk had room again",
            "the death came first",
        )


EO.requirement(
    "EO-FULL-DISK",
    "output is exact over a disk that is full for a time",
    """For a time nothing can be written, and the engine is killed in it, or at its first cut after
    it: it has released and committed nothing without a cut, and in the end all is right. It may
    wait, or end with a word and a status other than 0.
    If it fails, an error of a write was taken for success, or left half of a cut behind; or what
    was tried again has offsets of now, and the state of then.""",
    clauses="proc-full-disk eut-durable-covers log-release eut-one-cut kafka-state",
    needs=Needs(state=("exactly-once",), survives=("engine",)),
    judges={
        count_full_disk_at_the_end: _drain_waits_for_a_disk,
        count_full_disk_before_the_last: _drain_waits_for_a_disk,
        count_full_disk: _exact_over_a_full_disk,
        count_disk_with_room_again: _exact_after_room_again,
    },
)


def _damaged(context: Context, rng: random.Random, *kinds: Damaged) -> Scenario:
    """Return a run whose newest file meets one of some kinds of damage that one defect misses."""
    step = _corrupt(rng, 0.4, 0.6, rng.choice(kinds))
    # Every key comes often: whichever was damaged is asked for again.
    return carried(
        context, context.records(60_000), rate=60_000, faults=(step,), keyed={"hot_share": 0.0}
    )


def _corrupt(rng: random.Random, low: float, high: float, damage: Damaged) -> FaultStep:
    step = kill(rng, "engine", low, high, cut=True)
    return step.instead("corrupt", "state", damage=damage)


@scenario(*STATE_FIRST)
def count_damaged_checkpoint(context: Context, rng: random.Random) -> Scenario:
    return _damaged(context, rng, "half", "tail")


def _rotten(context: Context, rng: random.Random, *, damage: Damaged, partitions: int) -> Scenario:
    # So many keys that most of a file is state, and so early that nearly all of them come again.
    # In one partition they make a file of several 64 KiB.
    step = _corrupt(rng, 0.3, 0.4, damage)
    keyed = {"hot_share": 0.0, "keys": 16_000}
    return deaths(context, step, keyed=keyed, recipe={"partitions": partitions})


# Three times: one bit in three or four shows nothing, for it lies in output that was sent, or
# in what holds the file together, and then an engine may refuse it. A checksum may cover a part.
_PLACES: Final[tuple[tuple[str, Damaged, int], ...]] = (
    ("", "bit-head", 4),
    ("-2", "bit-middle", 1),
    ("-3", "bit-last", 1),
)
_ROTTEN: Final = [
    Entry(
        f"count-rotten-checkpoint{number}",
        partial(_rotten, damage=damage, partitions=partitions),
        STATE_FIRST,
    )
    for number, damage, partitions in _PLACES
]


# What holds a cut together may be whole while its state, in a file before it, is not.
@scenario(*STATE_FIRST)
def count_rotten_state(context: Context, rng: random.Random) -> Scenario:
    step = _corrupt(rng, 0.3, 0.4, "rot")
    keyed = {"hot_share": 0.0, "keys": 16_000}
    return deaths(context, step, keyed=keyed, recipe={"partitions": 1})


@scenario(*STATE_FIRST)
def count_lost_checkpoint(context: Context, rng: random.Random) -> Scenario:
    return _damaged(context, rng, "empty", "garbage")


# On its own: an engine that takes a file for empty may still take one that is gone for none yet.
@scenario(*STATE_FIRST)
def count_removed_checkpoint(context: Context, rng: random.Random) -> Scenario:
    return _damaged(context, rng, "missing")


def _right_or_noticed(history: History) -> None:
    if whole(history).first((*VALUES, *CHANGED, *LOSS)):
        for fault in history.faults:
            require_noticeable(fault)
    _right_or_refused(history)


def _right_or_refused(history: History) -> None:
    kinds = (Reason.AHEAD_OF_FETCH, *VALUES, *CHANGED, *forbidden_repeats(history))
    if history.faults and refused_clearly(history):
        raise_first(whole(history), kinds)
    else:
        whole_run = history.ended.completed
        require_no(history, whole(history), (*kinds, *LOSS) if whole_run else kinds)
    fault = require_fired(history)[0]
    was_read = any(event.read for event in history.all(events.DamageOver))
    file = fault.file or None
    # Nobody can read a file that was removed: to go on, and rightly, is all there is to see.
    # Who releases nothing shows that there was a cut by going on from one.
    removed = fault_of(fault.step).removes_file
    unread = removed or fault_of(fault.step).may_be_unread
    again, before = refetched(history, 0)
    if not file or not (fault.released or was_read or (removed and again < before)):
        raise Unknown(
            Reason.NO_CUT_BEFORE_KILL,
            "a file with content, and a RELEASE before the damage, or the file read after it, "
            "or a restart not from zero",
            f"{fault.released} records released, file {file}, not read",
        )
    if history.ended.completed and not (was_read or unread):
        raise Unknown(
            Reason.DAMAGE_UNREAD,
            "the damaged file read after the restart, or a clear refusal",
            f"the engine went on, and {file} was not seen to be read",
        )


@scenario(*STATE_FIRST)
def count_power_loss(context: Context, rng: random.Random) -> Scenario:
    # The first comes between the new name and what may follow it, the second between two cuts,
    # the third within a write: there a cut is not durable that was not synced in that order.
    def step(at: Moment, low: float, loss: Loss, **rest: Any) -> FaultStep:
        fraction = round(rng.uniform(low, low + 0.04), 4)
        return PowerStep(at, fraction=fraction, loss=loss, **rest)

    return deaths(
        context,
        step("fetched", 0.1, "all", cut=True, delay_s=round(rng.uniform(0.0, 0.06), 4)),
        step("renamed", 0.3, "content"),
        step("written", 0.5, "drawn"),
        step("fetched", 0.7, "drawn", cut=True),
    )


def _exact_over_power_losses(history: History) -> None:
    """As `_exact`; the engine had written to its state, and three losses at least came.

    One at a new name does not come to an engine that renames nothing.
    """
    require_values(history, (*VALUES, *LOSS))
    faults = require_fired(history, len(history.record.scenario.faults) - 1, in_flight=False)
    if not any(fault.writes for fault in faults):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT,
            "something written to the state before a loss of power",
            "nothing",
        )


EO.requirement(
    "EO-POWER-LOSS",
    "output is exact after the power is lost",
    """All processes end at once, and of the files of the state only what was synced is left for
    sure: every value is right and none is missing.
    If it fails, a file was not synced before it got its name or its input was released, or its
    folder was not synced after that.""",
    clauses="eut-durable eut-durable-covers eut-never-below-cut proc-power-loss",
    needs=Needs(state=("exactly-once",), survives=("engine", "power")),
    judges={count_power_loss: _exact_over_power_losses},
)


EO.requirement(
    "EO-DAMAGED-CHECKPOINT",
    "a damaged checkpoint gives no wrong values",
    """The newest file of the state, or the largest of those written with it, is cut short, changed
    in some bits, or lost while the engine is dead: it refuses clearly, or recovers from what is
    whole with every value right.
    If it fails, what was read was believed: keep a checksum of each file, and end with an error
    where none that is whole is left.""",
    clauses="proc-damaged-file proc-removed-file eut-one-cut eut-resumes",
    needs=Needs(state=("exactly-once",), survives=("engine",), transport=("log",)),
    judges={
        count_damaged_checkpoint: _right_or_refused,
        **dict.fromkeys(_ROTTEN, _right_or_refused),
        count_rotten_state: _right_or_refused,
        count_lost_checkpoint: _right_or_noticed,
        count_removed_checkpoint: _right_or_noticed,
    },
)


@scenario(*STATE_FIRST)
def count_links_cut(context: Context, rng: random.Random) -> Scenario:
    faults = (
        at_source("cut", rng.uniform(0.15, 0.25)),
        at_sink("cut", rng.uniform(0.4, 0.5)),
        at_sink("late", rng.uniform(0.65, 0.75)),
    )
    return deaths(context, *faults)


@scenario(*ON_TWO)
def market_two_links_cut(context: Context, rng: random.Random) -> Scenario:
    faults = (
        at_sink("cut", rng.uniform(0.15, 0.25)),
        at_sink("late", rng.uniform(0.4, 0.5)),
        at_source("cut", rng.uniform(0.65, 0.75)),
    )
    return market(context, 90_000, rate=60_000, faults=faults)


def _source_cut(history: History) -> None:
    require_values(history, (*VALUES, *LOSS))
    require_met(history, "cut", "source")


EO.requirement(
    "EO-SOURCE-CUT",
    "source cut in the middle of a reply: none lost or doubled",
    """Every connection to the source is reset, one of them inside a record of a reply: each record
    still counts exactly once.
    If it fails, a part of a reply was taken for the whole, or the offset moved on before its
    records were processed.""",
    clauses="conn-lost conn-again log-pieces log-fetch-again kafka-connections",
    needs=Needs(state=("exactly-once",), survives=("connection",)),
    judges={count_links_cut: _source_cut, market_two_links_cut: _source_cut},
)


def _sink_cut(history: History) -> None:
    require_exact(history)
    require_met(history, "cut", "sink")


EO.requirement(
    "EO-SINK-CUT",
    "sink cut inside an acknowledgement: none lost or doubled",
    """Output was taken and only a part of its acknowledgement left before every connection to the
    sink was reset: it is there once.
    If it fails, what had no answer was sent again without asking HAVE, or taken for delivered, or
    sent as another writer.""",
    clauses="conn-lost conn-again conn-have out-have out-commit kafka-connections",
    needs=Needs(state=("exactly-once",), survives=("connection",)),
    judges={count_links_cut: _sink_cut, market_two_links_cut: _sink_cut},
)


#: Long enough for a fault to meet the next batch of an engine.
_LONG_S: Final = 0.8


@scenario(*STATE_FIRST)
def count_links_down(context: Context, rng: random.Random) -> Scenario:
    faults = (
        at_source("half-open", rng.uniform(0.15, 0.25), seconds=_LONG_S),
        at_sink("half-open", rng.uniform(0.4, 0.5), seconds=_LONG_S),
        at_sink("refuse", rng.uniform(0.65, 0.75), seconds=round(rng.uniform(1.5, 2.5), 2)),
    )
    return deaths(context, *faults)


def _half_open(history: History) -> None:
    require_exact(history)
    require_met(history, "half-open", "source")
    require_met(history, "half-open", "sink")


EO.requirement(
    "EO-HALF-OPEN",
    "connections that stand still and then break cost nothing",
    """The connections to the source, and then those to the sink, neither read nor answer for a
    while, and are reset: each record still counts exactly once.
    If it fails, silence on a connection was taken for an answer or for the end, or the engine never
    gave it up.""",
    clauses="conn-half-open conn-again",
    needs=Needs(state=("exactly-once",), survives=("connection",)),
    judges={count_links_down: _half_open},
)
