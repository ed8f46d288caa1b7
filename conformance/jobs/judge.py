"""From the runs of a job to outcomes: what each requirement of JB says of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.jobs import comparison, reads
from tickproof.conformance.jobs.comparison import Claims, Finding, Kind, Level, Rows
from tickproof.conformance.jobs.declaration import Job
from tickproof.conformance.jobs.records import Record
from tickproof.conformance.jobs.requirements import CALM, JB, SCHEDULE
from tickproof.conformance.jobs.trial import IDLE, Run
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import DOES_NOT_APPLY, SEVERITY, Outcome, Reason, Verdict

#: The run with a record that the job cannot read, and those without a fault that change what may
#: make no difference.
POISON: Final = "poison"
WORKERS: Final = "workers"
PARTITIONS: Final = "partitions"
TWICE: Final = "twice"
#: Requirement -> the run that decides it.
BY_RUN: Final = {
    "JB-RESTART": "restart",
    "JB-COMMIT": "commit",
    "JB-REBALANCE": "rebalance",
    "JB-ALL": "all-at-once",
    "JB-PAUSE": "pause",
    "JB-CUT": "cut",
    "JB-REFUSE": "refuse",
    "JB-SLOW": "slow",
    "JB-ERROR": "error",
    "JB-BROKER": "broker",
    "JB-LEADER": "leader",
    "JB-UPGRADE": "upgrade",
    "JB-POISON": POISON,
    "JB-WORKERS": WORKERS,
    "JB-PARTITIONS": PARTITIONS,
    "JB-AGAIN": TWICE,
}
#: How soon the job goes on, over all runs that kill the whole of it.
RECOVERY: Final = "JB-RECOVERY"
#: Requirement -> what it says must not be found, over all runs with faults.
BY_KIND: Final = {
    "JB-LOST": Kind.LOST,
    "JB-TWICE": Kind.TWICE,
    "JB-VALUES": Kind.VALUE,
    "JB-ORDER": Kind.ORDER,
}
_WORDS: Final = {
    Kind.LOST: (Reason.LOST, "{key}: something is lost"),
    Kind.TWICE: (Reason.DUPLICATE, "{key}: a record was counted twice"),
    Kind.VALUE: (Reason.WRONG_TOTAL, "{key}: values differ"),
    Kind.ORDER: (Reason.SKIPPED_ORDER, "{key}: the order differs"),
}
_SHOWN: Final = 300
#: How many ends of workers, or keys of requests, a failure names.
_NAMED: Final = 3


@dataclass(frozen=True)
class Baseline:
    """What one output is held to. varies: what runs without faults do not agree on."""

    level: Level
    due: Rows
    claims: Claims
    ignore: tuple[str, ...] = ()
    records: Mapping[str, Sequence[Record]] = field(default_factory=dict)
    varies: str = ""
    #: All that was sent, to guess by where rows do not say whose they are.
    sent: Sequence[Record] = ()

    @property
    def by_record(self) -> bool:
        """Whether each record has a row of its own, so that one that is lost is a row less."""
        return bool(self.records) and all(len(one) == 1 for one in self.records.values())

    @cached_property
    def origins(self) -> Mapping[str, Sequence[Record]]:
        """Records by the identity of their row, by a guess if need be: to explain, not to judge."""
        return self.records or guessed(self.sent, self.due)

    def findings(self, run: Run, output: str) -> list[Finding]:
        """Return what is wrong with an output of a run."""
        got = comparison.grouped(run.rows.get(output, ()), self.ignore)
        return comparison.compared(self.level, self.due, got, self.claims)


@dataclass(frozen=True)
class Judged:
    """A run with what was found in it, by output."""

    run: Run
    folder: Path
    findings: Sequence[tuple[str, Finding]]


def unjudged(kind: Kind, baselines: Mapping[str, Baseline]) -> str:
    """Say why nothing can be said of a kind of mistake, "" where something can."""
    claims = [one.claims for one in baselines.values()]
    if all(one.state == "at-least-once" for one in claims) and kind is not Kind.LOST:
        return "state = at-least-once allows repeats and recounted values"
    if all(one.delivery == "at-least-once" for one in claims) and kind in (Kind.TWICE, Kind.ORDER):
        return "delivery = at-least-once allows repeats"
    if kind is Kind.ORDER and all(one.level is not Level.SEQUENCE for one in baselines.values()):
        return f"{DOES_NOT_APPLY}: the output has no order without faults"
    return ""


def unknown(kind: Kind, baselines: Mapping[str, Baseline]) -> str:
    """Say what the comparison is too weak for, "" where it is strong enough."""
    for name, one in baselines.items():
        if one.level is Level.IDENTITIES and not (kind is Kind.LOST and one.by_record):
            alone = "runs without faults agree on the set of identities alone"
            return f"[outputs.{name}]: {alone}: {one.varies}"
        if one.level is Level.AT_LEAST and one.claims.blind and not one.claims.ordered:
            return (
                f"[outputs.{name}]: under state = at-least-once a lost record shows only with "
                'counts = "COLUMN"'
            )
    return ""


def outcomes(
    job: Job,
    baselines: Mapping[str, Baseline],
    runs: Mapping[str, Judged],
    schedules: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """Return one outcome for each requirement but JB-CALM, and of JB-SCHEDULE for each schedule.

    schedules: the runs of them, and why one was not played, "" for no reason.
    """
    made = []
    faulty = {name: one for name, one in runs.items() if not one.run.changed}
    for id_, kind in BY_KIND.items():
        made.append(_of_kind(id_, kind, baselines, faulty))
    for id_, name in BY_RUN.items():
        made.append(_of_run(id_, name, job, baselines, runs.get(name)))
    given = schedules or {}
    found = {name: one for name, one in runs.items() if name not in BY_RUN.values()}
    for name in dict.fromkeys((*given, *found)) or {"": ""}:
        if judged := found.get(name):
            of_run = _of_run(SCHEDULE, name, job, baselines, judged)
            made.append(_of_schedule(of_run, judged))
        else:
            why = given.get(name) or "there is no schedule"
            made.append(Outcome(SCHEDULE, Verdict.NOT_CLAIMED, scenario=name, actual=why))
    return [*made, _recovery(job, faulty)]


def _recovery(job: Job, runs: Mapping[str, Judged]) -> Outcome:
    """Hold the longest recovery to the claim."""
    limit_s = job.claims.recovery_s
    if limit_s is None:
        return Outcome(RECOVERY, Verdict.NOT_CLAIMED, actual="recovery_s is not claimed")
    found = [(max(one.run.recoveries_s), one) for one in runs.values() if one.run.recoveries_s]
    if not found:
        why = "no run shows the whole job die and go on"
        return _open(RECOVERY, "faults", Reason.NOT_SEEN, why, runs)
    longest_s, slowest = max(found, key=lambda one: one[0])
    seen = [each for _, one in found for each in one.run.recoveries_s]
    outcome = Outcome(
        RECOVERY,
        Verdict.PASS,
        scenario=slowest.run.name,
        evidence={"recoveries_s": sorted(seen)},
        run=str(slowest.folder),
    )
    if longest_s <= limit_s:
        return outcome
    return replace(
        outcome,
        verdict=Verdict.FAIL,
        reason=Reason.NO_RECOVERY,
        stimulus="; ".join(map(str, slowest.run.fired)),
        expected=f"a job that goes on within {limit_s:g} s of its death",
        actual=f"it went on after {longest_s:.1f} s",
    )


def alone(outcomes: Iterable[Outcome], name: str, folder: Path) -> list[Outcome]:
    """Return what one run decides by itself: not that nothing was found in all of them."""
    return [
        one
        for one in outcomes
        if one.run == str(folder) and (one.scenario == name or one.verdict is Verdict.FAIL)
    ]


def interrupted(one: Outcome, missing: Collection[str], by: str) -> Outcome:
    """Return an outcome as it is after an interrupt: open where runs are missing that decide it.

    What was found stays found.
    """
    by_one = {**BY_RUN, SCHEDULE: one.scenario}.get(one.requirement)
    decided_by = set(missing) if by_one is None else {by_one}
    if one.verdict is Verdict.FAIL or decided_by.isdisjoint(missing):
        return one
    if by_one is None and one.verdict is Verdict.NOT_CLAIMED:
        return one
    return Outcome(
        one.requirement,
        Verdict.UNKNOWN,
        scenario=one.scenario,
        reason=Reason.INTERRUPTED,
        expected="a session that ends by itself",
        actual=by,
    )


def decisive(outcomes: Iterable[Outcome], selected: Collection[str]) -> list[Outcome]:
    """Return the worst outcome of each selected requirement; schedules may have several."""
    found: dict[str, Outcome] = {}
    for one in outcomes:
        before = found.setdefault(one.requirement, one)
        if SEVERITY.index(one.verdict) > SEVERITY.index(before.verdict):
            found[one.requirement] = one
    return [one for id_, one in found.items() if id_ in selected]


def blocked(why: Outcome) -> list[Outcome]:
    """Return the outcomes of a job that gives nothing to judge faults by."""
    said = f"{CALM} did not pass"
    return [
        Outcome(
            id_,
            Verdict.BLOCKED,
            scenario=why.scenario,
            reason=Reason.LOWER_TIER,
            expected="a job that gives what is due without faults",
            actual=said,
            blocked_by=[CALM],
        )
        for id_ in JB
        if id_ != CALM
    ]


def _of_kind(
    id_: str, kind: Kind, baselines: Mapping[str, Baseline], runs: Mapping[str, Judged]
) -> Outcome:
    if why := unjudged(kind, baselines):
        return Outcome(id_, Verdict.NOT_CLAIMED, actual=why)
    for name, judged in runs.items():
        found = [(output, one) for output, one in judged.findings if one.kind is kind]
        if found:
            return _failed(id_, name, judged, found, baselines)
    if kind in (Kind.LOST, Kind.TWICE) and (at := _untold(baselines, runs)):
        why = (
            f"{at}: whether a value that differs is due to a record that is lost, or counted "
            "twice, shows only with an oracle or counts"
        )
        return _open(id_, "faults", Reason.NOT_SEEN, why, runs)
    struck = {name: one for name, one in runs.items() if _evidence(one.run)}
    if not struck:
        return _open(id_, "faults", Reason.NOTHING_IN_FLIGHT, "no fault met work under way", runs)
    if why := unknown(kind, baselines):
        return _open(id_, "faults", Reason.NOT_SEEN, why, runs)
    faults = sum(len(one.run.fired) for one in struck.values())
    return Outcome(
        id_,
        Verdict.PASS,
        scenario="faults",
        evidence={
            "runs": sorted(struck),
            "faults": faults,
            "compared": {name: one.level.value for name, one in baselines.items()},
        },
        run=str(next(iter(struck.values())).folder),
    )


def _untold(baselines: Mapping[str, Baseline], runs: Mapping[str, Judged]) -> str:
    """Return an output with values that differ for a reason that nobody can tell, else ""."""
    for judged in runs.values():
        for output, one in judged.findings:
            if one.kind is Kind.VALUE and baselines[output].claims.blind:
                return f"[outputs.{output}]"
    return ""


def _of_run(
    id_: str, name: str, job: Job, baselines: Mapping[str, Baseline], judged: Judged | None
) -> Outcome:
    if judged is None:
        return Outcome(id_, Verdict.NOT_CLAIMED, scenario=name, actual=not_played(id_, job))
    run = judged.run
    claimed = [
        (output, one)
        for output, one in judged.findings
        if not unjudged(one.kind, {output: baselines[output]})
    ]
    ended = run.failure and (run.poison or name == BY_RUN["JB-UPGRADE"])
    if claimed and not (ended or run.unstopped):  # else that says why
        return _failed(id_, name, judged, claimed, baselines)
    if run.failure or run.stalled or run.unstopped:
        reason, expected, actual = _no_progress(run)
        return Outcome(
            id_,
            Verdict.FAIL,
            scenario=name,
            reason=reason,
            stimulus="; ".join([*run.changed, *map(str, run.fired)]),
            expected=expected,
            actual=actual,
            run=str(judged.folder),
            seconds=run.seconds,
        )
    if run.unfinished:
        why = f"the job was still at work at {run.ended}; a longer run_timeout_s lets it end"
        return _open(id_, name, Reason.TIME_LIMIT, why, {name: judged})
    if name == "commit" and not _at_commits(job, run):
        why = "no kill met a commit; let the job commit several times while its input lasts"
        if not any(map(_of_a_commit, run.moments)):
            why = (
                "the kit saw no commit, of offsets or of a transaction; let the job commit several "
                "times while its input lasts, or, if it keeps its place elsewhere, ask for JB-LOST"
            )
        return _open(id_, name, Reason.NOTHING_IN_FLIGHT, why, {name: judged})
    if not _evidence(run):
        said = "; ".join([*map(str, run.fired), *(f"missed: {one}" for one in run.missed)])
        reason = Reason.NOTHING_IN_FLIGHT if run.fired else Reason.KILL_MISSED
        return _open(id_, name, reason, said or "the fault did not fire", {name: judged})
    if why := unknown(Kind.LOST, baselines):
        return _open(id_, name, Reason.NOT_SEEN, why, {name: judged})
    return Outcome(
        id_,
        Verdict.PASS,
        scenario=name,
        evidence={
            "faults": [str(one) for one in run.fired if one.counts],
            "without_effect": sum(not one.counts for one in run.fired),
            "exits": run.exits,
            "timeouts": run.timeouts,
            "ended": run.ended,
            **({"changed": run.changed} if run.changed else {}),
        },
        run=str(judged.folder),
        seconds=run.seconds,
    )


def _no_progress(run: Run) -> tuple[Reason, str, str]:
    """Return why a job fails that has ended or stood still, or did not stop; then both sides."""
    goes_on = "a job that goes on after a fault" if run.fired else "a job that goes on"
    if run.failure:
        return Reason.EXITED, goes_on, run.failure
    if run.unstopped:
        times = "once" if len(run.exits) == 1 else f"{len(run.exits)} times"
        last = f"stopped at the poisoned record {times}, and not when it was started again"
        said = last if run.exits else "did not stop at the poisoned record"
        expected = "a job that stops at the poisoned record each time it is started"
        return Reason.NO_EXIT, expected, f"the job {said}; the run ended by {run.ended}"
    if run.settled is None:
        still = f"the job made no progress with input left to read; the run ended by {run.ended}"
    else:
        done, of = run.settled
        handled = f"{done:,} of {counted(of, 'record')}"
        still = f"the job made no progress, and the run ended by {run.ended}"
        still += f"; by its own word it handled {handled}"
    return Reason.NO_RECOVERY, goes_on, still


def _of_schedule(outcome: Outcome, judged: Judged) -> Outcome:
    """Expect that each fault of a schedule met work under way."""
    run = judged.run
    if outcome.verdict is not Verdict.PASS or sum(one.counts for one in run.fired) >= run.asked:
        return outcome
    vain = [f"{one}, with nothing under way" for one in run.fired if not one.counts]
    said = "; ".join([*(f"missed: {one}" for one in run.missed), *vain])
    reason = Reason.KILL_MISSED if run.missed else Reason.NOTHING_IN_FLIGHT
    return _open(SCHEDULE, run.name, reason, said, {run.name: judged})


def _at_commits(job: Job, run: Run) -> bool:
    """Tell whether a kill met a commit; to write to anything but a topic is one."""
    topics = all(table.kind == "topic" for table in job.outputs.values())
    met = any(_of_a_commit(one.at) for one in run.fired)
    return met or not topics or job.table.checkpoint is not None


def _of_a_commit(moment: str) -> bool:
    return not moment.startswith(("append", "fetched", IDLE))


def not_played(id_: str, job: Job) -> str:
    """Say why a run was not played: what is not claimed, or cannot be."""
    if id_ == "JB-POISON":
        return "poison is not claimed"
    if id_ == "JB-ERROR":
        gave = "no offsets to a transaction of Kafka, and no topic output without one"
        return f"{DOES_NOT_APPLY}: without faults the job gave {gave}"
    if id_ == "JB-UPGRADE":
        return "job.toml has no [upgrade]"
    if id_ == "JB-WORKERS":
        return "workers is not claimed: no other number of them"
    if id_ == "JB-PARTITIONS":
        return "partitions is not claimed: no other number of them"
    if id_ == "JB-AGAIN":
        return "idempotent is not claimed"
    if id_ in ("JB-ALL", "JB-REBALANCE") and not job.outlives_worker:
        return f"{DOES_NOT_APPLY}: the job has one worker, which JB-COMMIT kills"
    return f"not claimed by survives = {list(job.claims.survives)}"


def _evidence(run: Run) -> bool:
    return not run.unfinished and (bool(run.changed) or any(one.counts for one in run.fired))


def _open(id_: str, name: str, reason: Reason, why: str, runs: Mapping[str, Judged]) -> Outcome:
    return Outcome(
        id_,
        Verdict.UNKNOWN,
        scenario=name,
        reason=reason,
        expected="faults that meet work under way, and output that shows what they did",
        actual=why,
        run=str(next(iter(runs.values())).folder) if runs else "",
    )


def _failed(
    id_: str,
    name: str,
    judged: Judged,
    found: Sequence[tuple[str, Finding]],
    baselines: Mapping[str, Baseline],
) -> Outcome:
    output, first = found[0]
    reason, baseline = _WORDS[first.kind][0], baselines[output]
    where = f"[outputs.{output}]"
    said = _said(first, baseline)
    faults = [str(one) for one in judged.run.fired]
    wrong = {one.key for name, one in found if name == output}
    differ = f"{len(wrong)} of {counted(len(wrong | baseline.due.keys()), 'key')} differ"
    # What was done to the job stands under "stimulus".
    became = _became(first, baseline, judged.run)
    brief = [
        *explained(first, baseline),
        *([became.how, became.means] if became else []),
        *_sent_as(first, judged.run.request_keys.get(output, {})),
        f"compared: {baseline.level.value}",
        *_elsewhere(output, found, baselines),
        *_ends(judged.run.exits),
    ]
    story = {
        "headline": [f"{where} {said}; {differ}"],
        "lines": [
            f"due: {shown(first.expected, _SHOWN) or 'nothing'}",
            f"given: {shown(first.actual, _SHOWN) or 'nothing'}",
            *brief,
            *faults,
        ],
        "brief": brief,
        "why": [became.means] if became else [],
    }
    return Outcome(
        id_,
        Verdict.FAIL,
        scenario=name,
        reason=reason,
        stimulus="; ".join([*judged.run.changed, *faults]),
        expected=f"{where} {shown(first.expected, _SHOWN) or _nothing(first, baseline)}",
        actual=f"{said}: {shown(first.actual, _SHOWN) or 'the output has nothing of it'}",
        evidence={
            "keys": sorted({one.key for _, one in found})[:20],
            "compared": baseline.level.value,
            "ended": judged.run.ended,
        },
        run=str(judged.folder),
        seconds=judged.run.seconds,
        story=story,
    )


def _became(finding: Finding, baseline: Baseline, run: Run) -> reads.Told | None:
    """Say how the record of a row was read, where it has one, and its place is what it was."""
    records = baseline.origins.get(finding.key, ())
    if len(records) != 1 or run.changed:
        return None
    lives = reads.ends(run.fired, run.ends)
    return reads.told(finding.kind, records[0], run.reads.of(records[0]), lives)


def _sent_as(finding: Finding, keys: Mapping[str, Sequence[str]]) -> list[str]:
    """Say by which keys the requests of a row came that counted more than once."""
    if finding.kind is not Kind.TWICE or not (sent := keys.get(finding.key)):
        return []
    several = [shown(one, 100) for one in dict.fromkeys(filter(None, sent))]
    named = several[:_NAMED] + ([] if all(sent) else ["without one"])
    return [f"{counted(len(sent), 'request')} of the row; Idempotency-Key: {', '.join(named)}"]


def _elsewhere(
    output: str, found: Sequence[tuple[str, Finding]], baselines: Mapping[str, Baseline]
) -> list[str]:
    """Say what is wrong in other outputs, the first of each."""
    first = {name: one for name, one in reversed(found) if name != output}
    return [
        f"[outputs.{name}] {_said(one, baselines[name])}" for name, one in sorted(first.items())
    ]


def _nothing(finding: Finding, baseline: Baseline) -> str:
    """Say what was expected in place of a row too many."""
    return "the row once" if _is_again(finding, baseline) else "nothing more"


def _is_again(finding: Finding, baseline: Baseline) -> bool:
    """Tell whether a row that is due is there once more."""
    return finding.kind is Kind.TWICE and not finding.expected and finding.key in baseline.due


def _said(finding: Finding, baseline: Baseline) -> str:
    """Say what is wrong with a key."""
    words = _WORDS[finding.kind][1]
    if _is_again(finding, baseline):
        words = "{key}: a row is there twice"
    elif finding.kind in (Kind.TWICE, Kind.VALUE) and not finding.expected:
        words = "{key}: a row that should not be there"
    return words.format(key=shown(finding.key, 100))


def _ends(exits: Sequence[str]) -> list[str]:
    """Return the ends of workers that no fault brought about, each once."""
    numbers = Counter(exits).most_common(_NAMED)
    return [f"{one}, {number} times" if number > 1 else one for one, number in numbers]


def explained(finding: Finding, baseline: Baseline) -> list[str]:
    """Say which records of the key the output leaves out, or has twice, if a count tells."""
    records = baseline.origins.get(finding.key, ())
    field_ = baseline.claims.counts
    if not records:
        return []
    known = f"{counted(len(records), 'record')} of the key, the last of which is {records[-1]}"
    if not (field_ and finding.expected and finding.actual):
        return [known]
    due, got = (json.loads(text).get(field_, 0) for text in (finding.expected, finding.actual))
    word = "fewer" if got < due else "more"
    return [f"{abs(due - got)} {word} than the {known}"]


def by_key(records: Iterable[Record], identity: Callable[[Record], str]) -> dict[str, list[Record]]:
    """Return records by the identity of the row that they have an effect on."""
    found: dict[str, list[Record]] = {}
    for one in records:
        found.setdefault(identity(one), []).append(one)
    return found


def guessed(records: Sequence[Record], due: Collection[str]) -> dict[str, list[Record]]:
    """Return records by the identity of a row, where just one field of theirs has all of these.

    Each value of that field is in one record. Nothing where several fields are so, or none.
    """
    found = []
    for name in records[0].value if due and records else ():
        if all(name in one.value for one in records):
            made = by_key(records, partial(_value, name))
            if len(made) == len(records) and all(key in made for key in due):
                found.append(made)
    return found[0] if len(found) == 1 else {}


def _value(name: str, record: Record) -> str:
    return comparison.canonical([record.value[name]])


def as_evidence(run: Run) -> dict[str, Any]:
    """Return what a report says of a run without faults."""
    return {
        "rows": {name: len(rows) for name, rows in run.rows.items()},
        "ended": run.ended,
        "timeouts": run.timeouts,
        **({"names": run.shared_names} if run.shared_names else {}),
        "exits": run.exits,
        "seconds": round(run.seconds, 1),
    }
