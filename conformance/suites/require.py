"""Requirements of a run that several judges share, with their words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tickproof.conformance import apps
from tickproof.conformance.checkers.findings import Findings
from tickproof.conformance.fault_steps import Do, Target
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history import events
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import of_partition
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.suites.evidence import (
    CHANGED,
    LOSS,
    ORDER_KINDS,
    VALUES,
    outputs,
    values,
    whole,
)
from tickproof.conformance.suites.judge import BrokenOff, Fail, KitError, Unknown, WrongOutput
from tickproof.conformance.suites.promises import forbidden_repeats, ruled_out
from tickproof.conformance.suites.workers import require_at_work
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import WORTH_ANOTHER_RUN, Reason


def require_completed(history: History) -> None:
    """Expect that the run went from deploy to the engine's end, and no output from the future."""
    ended = history.ended
    if not ended.kit_failed:
        raise_first(values(history), (Reason.AHEAD_OF_FETCH,))
    if ended.engine_failed and ended.code in WORTH_ANOTHER_RUN:
        raise Unknown(ended.code, "a run from deploy to the end", ended.message)
    if ended.engine_failed:
        stderr = history.stderr_tail()
        raise BrokenOff(ended.code, "a run from deploy to the end", ended.message, stderr=stderr)
    if not ended.completed:
        raise KitError(ended.message)


def require_no(history: History, findings: Findings, kinds: Iterable[str]) -> None:
    """Expect none of the given kinds that claims rule out; the first finding is told.

    What an engine answered wrongly outweighs its failure: it says more. What it did not
    answer follows from a failure, unless that came after drain. A run that did not complete
    is no pass.
    """
    kinds = ruled_out(history, kinds)
    if history.ended.engine_failed:
        due = _all_due(history)
        # An order that was open as the run broke off was not accepted by that.
        raise_first(
            findings, (kind for kind in kinds if due or kind not in ("lost", "must-reject"))
        )
        require_completed(history)
    raise_first(findings, kinds)
    if odd := history.all(events.OddOutput):
        raise _odd(history, odd)
    require_completed(history)
    require_not_refused(history, {Code.TOO_LARGE}, "frames up to 16 MiB")
    _require_all_read(history)
    if findings.checked == 0 and history.input_records:
        raise Unknown(Reason.NOT_SEEN, "output to judge", "none was checked")


def _require_all_read(history: History) -> None:
    """Expect that drain was answered when all of the input had been fetched.

    What was not may have changed no output: quotes that no order meets.
    """
    if history.claims.over_kafka:  # fetched there is what the broker sent, which may be ahead
        return
    for drained in history.all(events.Drained):
        for one in drained.partitions if drained.ended else ():
            if one.fetched < one.published:
                raise Fail(
                    Reason.EARLY_DRAIN,
                    f"all {one.published:,} records of stream {one.stream}, partition "
                    f"{one.partition} fetched at the answer to drain",
                    f"{one.fetched:,}",
                )


def require_not_refused(history: History, codes: set[Code], expected: str, *ops: str) -> None:
    """Fail with the first refusal of one of these codes, for one of these ops if any."""
    for event in history.all(events.Refused):
        if event.code in codes and (not ops or event.op in ops):
            op = f"{event.op}: " if event.op != "?" else ""
            raise Fail(Code(event.code).name, expected, f"{op}{event.text}")


def _all_due(history: History) -> bool:
    """Tell whether drain was answered for all of the input, and the engine not started since."""
    drained = [event.t_ns for event in history.all(events.Drained) if event.ended]
    started = [event.t_ns for event in history.all(events.Started)]
    return max(drained, default=-1) > max(started, default=0)


def _odd(history: History, found: Sequence[events.OddOutput]) -> Fail:
    """Return the failure that shows the first output of another size, or of another shape."""
    first = found[0]
    if history.claims.over_kafka:
        count = sum(event.count for event in found)
        return Fail(
            Reason.WRONG_SIZE,
            f"one JSON object a message, with the members of app {history.app} [kafka-json]",
            f"{count:,} of another shape; the first: {history.odd_output(first.stream)}",
        )
    size = "several sizes" if first.record_size < 0 else f"{first.record_size} bytes"
    return Fail(
        Reason.WRONG_SIZE,
        f"output records of {first.expected} bytes",
        f"{first.count} with {size} from writer {first.writer}",
    )


def raise_first(findings: Findings, kinds: Iterable[str]) -> None:
    """Raise Fail for the first finding of the given kinds, if there is one."""
    if found := findings.first(kinds):
        raise WrongOutput(found, {kind: count for kind, count in findings.counts.items() if count})


def require_fired(
    history: History, count: int | None = None, *, in_flight: bool = True
) -> list[FiredFault]:
    """Return the faults of the run, or raise Unknown: they missed, or met nothing.

    count: the number of faults that have to be carried out; None: all that were planned.
    """
    if count is None:
        count = len(history.record.scenario.faults)
    if history.ended.engine_failed and len(history.faults) < count:
        require_completed(history)
    if len(history.faults) < count:
        why = "; ".join(row.why for row in history.missed_faults) or "their moment did not come"
        raise Unknown(
            Reason.KILL_MISSED, f"{count} faults carried out", f"{len(history.faults)} ({why})"
        )
    for fault in history.faults[:count] if in_flight else ():
        if apps.of(history).in_flight(fault) <= 0:
            raise Unknown(
                Reason.NOTHING_IN_FLIGHT,
                "records fetched and not yet released at the fault",
                f"none: {fault.fetched} fetched, {fault.released} released",
                fault=fault.text,
            )
    for fault in history.faults if in_flight else ():
        require_at_work(history, fault)
    require_held(history)
    return history.faults


def require_held(history: History) -> None:
    """Raise Unknown where the engine undid a pause, or a full disk, before its time."""
    for pause in history.all(events.Resumed, ran=True):
        raise Unknown(
            Reason.NOT_HELD,
            "a stopped process that stands still, with all below it, until the kit continues it",
            f"process {pause.pid}, or one below it, went on before",
        )
    for full in history.all(events.FillOver):
        if full.lifted or full.grown:
            raise Unknown(
                Reason.NOT_HELD,
                "no process that can write, and no file of the state that grows, while it is full",
                f"{len(full.lifted)} processes could; files that grew: "
                f"{shown(', '.join(full.grown), 300) or 'none'}",
            )


def refused_clearly(history: History) -> bool:
    """Tell whether the restarted engine said no, by an answer or by how it ended."""
    if not history.ended.engine_failed:
        return False
    for event in history.all(events.NotRestarted, events.EndedUnasked):
        if isinstance(event, events.NotRestarted):
            return event.code == "REFUSED" or (event.code == "EXITED" and event.status != 0)
        if isinstance(event, events.EndedUnasked) and event.t_ns > history.faults[0].t_ns:
            return event.returncode != 0
    # It said no to a later request, or ended while one was on its way, which then says so.
    code, status = history.ended.code, history.ended.status
    return code == "REFUSED" or (code == "EXITED" and status not in (None, 0))


def require_noticeable(fault: FiredFault) -> None:
    """Raise Unknown where a file was removed and the engine could not know that it was there.

    It can where it has released something of all that it fetched: the log tells it so.
    """
    if not fault_of(fault.step).removes_file:
        return
    for one in fault.partitions:
        if one.fetched and not one.released:
            raise Unknown(
                Reason.NO_CUT_BEFORE_KILL,
                "a RELEASE in each partition before its file is removed",
                f"none in partition {one.partition} of stream {one.stream}",
                fault=fault.text,
            )


def require_correct(history: History) -> None:
    """Every expected record is there, right, in order, and as often as the claim allows."""
    kinds = (*VALUES, *LOSS, *CHANGED, *ORDER_KINDS, *forbidden_repeats(history))
    require_no(history, whole(history), kinds)


def require_exact(history: History) -> None:
    """State is exact, and output comes as often as the claim allows; of order nothing is said."""
    kinds = (*VALUES, *LOSS, *CHANGED, *forbidden_repeats(history))
    require_no(history, whole(history), kinds)


def require_exact_after_faults(history: History) -> None:
    """As `require_exact`, though every fault of the schedule met records under way."""
    require_exact(history)
    require_fired(history)


def require_once(history: History) -> None:
    """Nothing is lost, nothing changed, and nothing comes twice if that is claimed."""
    require_no(history, whole(history), (*LOSS, *CHANGED, *forbidden_repeats(history)))


def require_greeted(history: History) -> None:
    """Every connection to the log began with HELLO and the token of the deploy of that time."""
    for event in history.all(events.NotGreeted):
        raise Fail(Reason.NOT_GREETED, "HELLO with the token first", event.text)


def require_values(history: History, kinds: Iterable[str]) -> None:
    """Expect none of the given kinds among the findings about values."""
    require_no(history, values(history), kinds)


def require_settled(history: History) -> None:
    """Every transaction with records was committed or aborted when drain was answered."""
    for event in history.all(events.Drained):
        if event.staged_open:
            raise Fail(
                Reason.STAGED_AT_DRAIN,
                "every transaction settled when drain is answered",
                f"{event.staged_open} with records, neither committed nor aborted",
            )


def require_acknowledged(history: History) -> None:
    """Nothing was open when drain was answered, and nothing came after it."""
    arrivals = outputs(history).arrivals
    for event in history.all(events.Drained):
        if event.open_acknowledgements:
            raise Fail(
                Reason.EARLY_DRAIN,
                "every output acknowledged when drain is answered",
                f"{event.open_acknowledgements} frames without an answer",
            )
        restarts = [e.t_ns for e in history.all(events.Started) if e.t_ns > event.t_ns]
        late = (arrivals["t_ns"] > event.t_ns) & (
            arrivals["t_ns"] < min(restarts, default=2**63 - 1)
        )
        if late.any():
            raise Fail(
                Reason.EARLY_DRAIN,
                "no output after drain is answered",
                f"{int(arrivals['count'][late].sum())} records came later",
            )


def not_fetched_below(
    history: History, event: events.Drained | events.Checkpointed, what: str
) -> None:
    """Expect no record fetched after ``event`` that it already covered.

    Over Kafka nobody asks the engine to drain: it covers what the engine has committed.
    """
    over_kafka = history.claims.over_kafka
    for stream, partition, _, _, fetched, released in event.partitions:
        covered = released if over_kafka else fetched
        rows = of_partition(history.fetches, stream, partition)
        later = rows[(rows["t_ns"] > event.t_ns) & (rows["base"] < covered)]
        if len(later):
            raise Fail(
                Reason.FETCHED_AGAIN,
                f"no FETCH below {covered} once {what}",
                f"offset {int(later['base'][0])} of stream {stream}, partition {partition}",
            )
    for refusal in history.all(events.Refused, code=int(Code.RELEASED)):
        raise Fail(Reason.FETCHED_AGAIN, f"no FETCH of what was durable once {what}", refusal.text)


def require_met(history: History, do: Do, target: Target) -> None:
    """Expect that a fault was carried out and met something, or raise Unknown."""
    name = f"{do} of the {target}"
    struck = [f for f in history.faults if fault_of(f.step).lane == (do, target)]
    proofs = history.all(events.Link, do=do, target=target)
    if not struck or not proofs:
        if history.ended.engine_failed:
            require_completed(history)
        missed: list[events.FaultMissed | events.LinkMissed]
        missed = history.all(events.FaultMissed, events.LinkMissed)
        whys = [one.why for one in missed if one.step and fault_of(one.step).lane == (do, target)]
        why = "; ".join(whys) or "its moment did not come"
        raise Unknown(Reason.KILL_MISSED, f"{name} carried out", f"it was not ({why})")
    if not proofs[0].count:
        raise Unknown(Reason.NOTHING_IN_FLIGHT, f"{name} to meet something", "it met nothing")
    if proofs[0].outcome == "dropped":
        raise Unknown(Reason.KILL_MISSED, "a late frame handled", "the run was over before")


def earns_figures(history: History) -> None:
    """Everything went right in a run whose speed or latency is measured.

    After a death, the values are those that the engine claims.
    """
    require_completed(history)
    require_acknowledged(history)
    require_correct(history)
    require_fired(history, in_flight=False)
