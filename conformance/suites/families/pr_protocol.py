"""The protocol: control lines, processes and frames, which every engine needs."""

from __future__ import annotations

import json
import random
from typing import Final

from tickproof.conformance.fault_steps import PauseStep
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.json_lines import object_of
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.scenario import Scenario, SinkBehaviour
from tickproof.conformance.suites.carriers import COUNTABLE, STATELESS_FIRST
from tickproof.conformance.suites.evidence import due, outputs, sequences
from tickproof.conformance.suites.families.eo_exactly_once import (
    count_pause,
    count_worker_death_backlog,
)
from tickproof.conformance.suites.judge import Fail, Unknown
from tickproof.conformance.suites.require import (
    raise_first,
    require_completed,
    require_correct,
    require_fired,
    require_greeted,
    require_not_refused,
    require_values,
)
from tickproof.conformance.suites.requirement import OVER_LOG, Family, Needs
from tickproof.conformance.suites.scenarios import Context, carried, scenario
from tickproof.conformance.suites.workers import (
    require_all_named,
    require_standstill,
    require_working_workers,
)
from tickproof.conformance.verdicts import Reason

PR: Final = Family("PR", "Protocol", tier=0)


def _no_refusal(history: History, codes: set[Code], expected: str, *ops: str) -> None:
    require_not_refused(history, codes, expected, *ops)
    require_completed(history)
    if not history.all(events.Connected):
        raise Unknown(Reason.NOT_SEEN, "data connections", "none")


@scenario(*STATELESS_FIRST)
def passthrough(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(20_000), probes=True, fresh=True)


def _hello_is_answered(history: History) -> None:
    if not history.all(events.Started):
        require_completed(history)
    hello = history.record.hello
    if hello is None:
        require_completed(history)
        raise Fail(Reason.NO_ANSWER, "an answer to hello", "none")
    if hello.protocol != 1:
        raise Fail(Reason.BAD_ANSWER, "protocol 1", json.dumps(hello.model_dump()))


PR.requirement(
    "PR-HELLO",
    "hello is answered with name, version and protocol 1",
    """The first request, hello, gets one answer that holds name, version and protocol 1.
    If it fails, the adapter most likely did not flush its stdout, printed a banner, or exited at
    once: look at its stderr.""",
    clauses="ctl-hello ctl-lines ctl-request ctl-answer proc-start toml-argv",
    needs=OVER_LOG,
    judges={passthrough: _hello_is_answered},
)


def _deploy_is_answered(history: History) -> None:
    if not history.all(events.Deployed):
        require_completed(history)
        raise Fail(Reason.NO_ANSWER, "an answer to deploy", "none")
    if history.claims.over_kafka and not history.all(events.Connected):
        require_completed(history)
        strangers = history.all(events.NotGreeted)
        seen = strangers[0].text if strangers else "none"
        raise Fail(Reason.NO_ANSWER, "a connection to TICKPROOF_BOOTSTRAP", seen)


PR.requirement(
    "PR-DEPLOY",
    "deploy starts the app within the startup limit",
    """deploy is answered with ok once the app runs with the given params, workers and streams. Over
    Kafka, a process of the engine connects to the broker.
    If it fails, the answer was late (raise startup_timeout_s), the params were not understood, or
    the state folder was expected to hold something; over Kafka, its stderr says why.""",
    clauses="""ctl-deploy ctl-deploy-params ctl-deploy-state-dir ctl-deploy-data ctl-deploy-streams
    toml-timeouts kafka-environment kafka-security""",
    judges={passthrough: _deploy_is_answered},
)


@scenario(*STATELESS_FIRST)
def passthrough_extra_members(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 2_000, extra_members=True, fresh=True)


def _answers_only(history: History) -> None:
    require_completed(history)
    if not [row for row in history.control if row["direction"] == "from"]:
        raise Unknown(Reason.NOT_SEEN, "control lines from the engine", "none")


PR.requirement(
    "PR-CONTROL-LINES",
    "stdout holds answers and nothing else",
    """Every line on stdout is one JSON object that answers a request, at most 1 MiB long, also
    where a request has members that the engine does not know.
    If it fails, a log message or a print reached stdout, or one request was answered twice: send
    all free text to stderr; or unknown members are refused.""",
    clauses="""ctl-stdout-only ctl-bad-line ctl-line-limit ctl-answer ctl-lines
    ctl-ignore-members""",
    needs=OVER_LOG,
    judges={passthrough: _answers_only, passthrough_extra_members: _answers_only},
)


def _own_processes_named(history: History) -> None:
    require_completed(history)
    named = history.all(events.Topology)
    if not named or not named[0].processes:
        raise Fail(Reason.BAD_ANSWER, "at least one process in topology", "none")
    require_all_named(history)
    require_working_workers(history)


PR.requirement(
    "PR-TOPOLOGY",
    "topology names the engine's own processes",
    """topology lists every process that handles records with pid, role and name, and each pid
    belongs to this engine. Over Kafka, so do the processes that [kafka.roles] finds.
    If it fails, a pid is stale, is that of another program, or its environment cannot be read (pass
    TICKPROOF_RUN on to what you start); or another process than those named spoke to the log.""",
    clauses="""ctl-topology ctl-topology-roles ctl-topology-below ctl-topology-workers proc-own-pids
    proc-worker-pid kafka-roles""",
    judges={passthrough: _own_processes_named},
)


def _token_shown(history: History) -> None:
    require_greeted(history)
    _no_refusal(history, {Code.NOT_ALLOWED}, "one HELLO on each connection", "HELLO")


PR.requirement(
    "PR-TOKEN",
    "each data connection begins with HELLO and its token",
    """Every connection to the log server sends HELLO first, with the 16 bytes of the token of the
    current deploy.
    If it fails, the hex digits were sent as text, another frame came first, or a restarted engine
    still used the old token.""",
    clauses="""log-hello-first log-hello-time log-hello-once log-token log-hello-reply
    ctl-deploy-data""",
    needs=OVER_LOG,
    judges={passthrough: _token_shown},
)


def _well_formed(history: History) -> None:
    for event in history.all(events.Truncated):
        raise Fail(Reason.TRUNCATED, "whole frames", event.text)
    _no_refusal(history, {Code.BAD_FRAME, Code.TOO_LARGE}, "well-formed frames up to 16 MiB")


PR.requirement(
    "PR-FRAMES",
    "no malformed and no oversized frame",
    """Every frame has a known op, a body of the right length, and at most 16 MiB.
    If it fails, look at the byte order, at the length (it counts the op, not itself), and at how
    large batches are split.""",
    clauses="""log-frame log-little-endian log-frame-limit log-records log-error-bad-frame
    log-error-too-large""",
    needs=OVER_LOG,
    judges={passthrough: _well_formed},
)


def _known_addresses(history: History) -> None:
    codes = {Code.UNKNOWN_STREAM, Code.BEYOND_END}
    _no_refusal(history, codes, "streams, partitions and offsets that exist")


PR.requirement(
    "PR-ADDRESSES",
    "only streams, partitions and offsets that exist",
    """The engine uses the streams and partitions that deploy named, and no offset above the
    published end.
    If it fails, a partition number was taken for a stream number, or an offset was guessed where
    end_offset of the last reply tells it.""",
    clauses="log-error-unknown log-error-beyond log-end-offset log-offsets ctl-deploy-streams",
    needs=OVER_LOG,
    judges={passthrough: _known_addresses},
)


def _unknown_op_refused(history: History) -> None:
    for event in history.all(events.ProbeRefused):
        if event.definite is True:
            return
        raise Fail(Reason.BAD_ANSWER, "ok: false, definite: true", f"definite: {event.definite}")
    if history.all(events.ProbeAccepted):
        raise Fail(Reason.BAD_ANSWER, "ok: false for an op that does not exist", "ok: true")
    require_completed(history)
    raise Unknown(Reason.NOT_SEEN, "an answer to an op that does not exist", "none")


PR.requirement(
    "PR-OPTIONAL-OPS",
    "an op that the engine lacks is refused definitely",
    """checkpoint, scale and any unknown op are either done or answered with ok false and definite
    true.
    If it fails, the adapter stayed silent, crashed on an unknown op, or left definite out: then
    nobody can tell whether it happened.""",
    clauses="ctl-optional ctl-refusal ctl-checkpoint",
    needs=OVER_LOG,
    judges={passthrough: _unknown_op_refused},
)


@scenario(*STATELESS_FIRST)
def passthrough_drain_first(context: Context, rng: random.Random) -> Scenario:
    return carried(
        context,
        context.records(20_000),
        rate=25_000,
        drain_at=round(rng.uniform(0.2, 0.5), 3),
        probes=True,
    )


def _answers(history: History, op: str) -> list[tuple[int, int]]:
    """Return when each request of an op was sent and when it was answered, in ns."""
    rows = [(row["t_ns"], row["direction"], object_of(row["line"])) for row in history.control]
    answered = {line.get("id"): t_ns for t_ns, direction, line in rows if direction == "from"}
    return [
        (t_ns, answered[line["id"]])
        for t_ns, direction, line in rows
        if direction == "to" and line["op"] == op and line["id"] in answered
    ]


def _answered_while_draining(history: History) -> None:
    drain = _answers(history, "drain")
    during = [row for row in _answers(history, "topology") if drain and row[0] > drain[0][0]]
    if not during:
        require_completed(history)
        raise Unknown(Reason.NOT_SEEN, "topology answered after drain was asked for", "no answer")
    (_, drained), (asked, answered) = drain[0], during[0]
    if answered >= drained:
        if any(not event.ended for event in history.all(events.Drained)):  # PR-DRAIN-WAITS fails
            why = "drain was answered before END"
            raise Unknown(Reason.NOT_SEEN, "a topology asked for while drain waits", why)
        raise Fail(
            Reason.HELD_BACK,
            "topology answered while drain was pending",
            f"no answer for {(answered - asked) / 1e6:,.1f} ms, until drain was answered",
        )


PR.requirement(
    "PR-CONCURRENT-ANSWERS",
    "requests are answered while a drain is pending",
    """While drain waits for the end of the input, topology and other requests still get their
    answers.
    If it fails, the adapter handles drain inside the loop that reads stdin: note the request, and
    answer it later.""",
    clauses="ctl-concurrent ctl-any-order",
    needs=OVER_LOG,
    judges={passthrough_drain_first: _answered_while_draining},
)


@scenario(*STATELESS_FIRST)
def idle_worker(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 2_000, recipe={"partitions": 1}, workers=3)


def _drain_is_answered(history: History) -> None:
    require_completed(history)
    if not history.all(events.Drained):
        raise Unknown(Reason.NOT_SEEN, "an answer to drain", "none")


PR.requirement(
    "PR-DRAIN",
    "drain is answered once all input is processed",
    """With END known and every record processed, drain is answered with ok within drain_timeout_s.
    If it fails, a partition was waited for that has ended, or a worker that has none (if only the
    run with more workers than partitions fails), an acknowledgement got lost in the engine, or it
    is slower than its limit.""",
    clauses="ctl-drain toml-timeouts ctl-answer",
    needs=OVER_LOG,
    judges={passthrough: _drain_is_answered, idle_worker: _drain_is_answered},
)


def _exit_seen(history: History) -> None:
    require_completed(history)
    if not history.all(events.Exited):
        raise Unknown(Reason.NOT_SEEN, "the engine's exit", "none")


PR.requirement(
    "PR-STAYS-UP",
    "the engine runs until it is asked to end",
    """The process of argv goes on, whatever the input holds, until stop, the end of its stdin, or a
    kill by the kit. Over Kafka it may end and is started again, but not six times in a row.
    If it fails, its stderr says why it ended: an exception that nobody caught, an error of the log
    that it did not expect, or too little memory.""",
    clauses="proc-stays-up ctl-drain-stays kafka-again",
    judges={passthrough: _exit_seen},
)


def _no_early_drain(history: History) -> None:
    for event in history.all(events.Drained):
        if not event.ended:
            got = sum(one.published for one in event.partitions)
            raise Fail(
                Reason.EARLY_DRAIN,
                "no answer before END of every partition",
                f"answered when {got:,} of {history.input_records:,} records were published",
            )


def _drain_waits(history: History) -> None:
    asked = history.all(events.DrainAsked)
    _no_early_drain(history)
    for event in history.all(events.Drained):
        if event.outputs < due(history):
            raise Fail(
                Reason.EARLY_DRAIN,
                f"{due(history):,} outputs acknowledged at the answer",
                f"{event.outputs:,}",
            )
    require_completed(history)
    if not asked or asked[0].published >= history.input_records:
        raise Unknown(Reason.NOT_SEEN, "drain asked for before END", "END came first")


PR.requirement(
    "PR-DRAIN-WAITS",
    "drain is not answered before END and all records",
    """The answer to drain comes after END of every partition is known and every record up to it is
    processed.
    If it fails, the engine took a pause of the input for its end: only the END flag says that no
    more will come.""",
    clauses="ctl-drain log-end-flag log-fetch-wait",
    needs=OVER_LOG,
    judges={passthrough_drain_first: _drain_waits},
)


def _status_zero(history: History) -> None:
    require_completed(history)
    status = history.all(events.Exited)[-1].returncode
    if status != 0:
        raise Fail(Reason.BAD_EXIT, "exit status 0 after stop", str(status))


@scenario(*STATELESS_FIRST)
def stop_in_drain(context: Context, _rng: random.Random) -> Scenario:
    # END does not come meanwhile: whoever waits for drain does not stop.
    held = (0.5, 600.0)
    return carried(context, 2_000, rate=4_000, hold=held, drain_at=0.3, ending="stop-in-drain")


def _stopped_in_drain(history: History) -> None:
    _status_zero(history)
    if history.all(events.Drained) or not history.all(events.DrainAsked):
        raise Unknown(Reason.NOT_SEEN, "stop asked for while drain was pending", "it was not")


PR.requirement(
    "PR-STOP",
    "stop is answered, then the engine exits with status 0",
    """stop gets ok, also while a drain is pending, and the process of argv then exits with status
    0.
    If it fails, a thread or a waiting FETCH kept the process alive, stop waits for drain, or it
    died of an exception on the way out.""",
    clauses="ctl-stop ctl-stop-promise",
    needs=OVER_LOG,
    judges={passthrough: _status_zero, stop_in_drain: _stopped_in_drain},
)


@scenario(*STATELESS_FIRST)
def stdin_eof(context: Context, _rng: random.Random) -> Scenario:
    # With one worker, so that one start of an engine serves both questions.
    return carried(context, 10_000, recipe={"partitions": 3}, workers=1, ending="stdin-eof")


PR.requirement(
    "PR-STDIN-EOF",
    "end of file on stdin ends the engine",
    """When stdin closes, the engine exits with all its processes.
    If it fails, nobody reads stdin while the app runs, or a child process inherited the pipe and
    waits for itself.""",
    clauses="ctl-stdin-eof",
    needs=OVER_LOG,
    judges={stdin_eof: _exit_seen},
)


def _nothing_left(history: History) -> None:
    left = history.record.left_over
    if left and history.ended.completed:
        names = ", ".join(f"{p.name} ({p.pid})" for p in left)
        raise Fail(Reason.LEFT_OVER, "no process after stop", names)
    require_completed(history)


PR.requirement(
    "PR-NO-LEFTOVERS",
    "no process is left over",
    """After stop, and after end of file on stdin, no process of the engine is alive.
    If it fails, workers outlived their coordinator: let each one watch a pipe to it, or ask the
    kernel for a parent-death signal.""",
    clauses="proc-no-leftovers ctl-stop ctl-stdin-eof",
    needs=OVER_LOG,
    judges={passthrough: _nothing_left, stdin_eof: _nothing_left},
)


def _not_below_a_release(history: History) -> None:
    _no_refusal(history, {Code.RELEASED}, "no FETCH below a RELEASE")


PR.requirement(
    "PR-RELEASE",
    "nothing is fetched below a released offset",
    """Once the engine released an offset it never fetches below it again, in a run without deaths
    too.
    If it fails, RELEASE was sent with the offset of the fetched records rather than of the durable
    ones.""",
    clauses="log-release log-release-discards log-error-released eut-never-below-cut",
    needs=OVER_LOG,
    judges={passthrough_drain_first: _not_below_a_release},
)


def _no_gaps(history: History) -> None:
    raise_first(sequences(history), ("gap", "conflict"))
    require_not_refused(history, {Code.NOT_ALLOWED}, "one style for each writer", "APPEND", "STAGE")
    # A gap that was mended by sending the right number is no failure of the run.
    if not history.ended.completed or len(outputs(history)) < due(history):
        require_not_refused(history, {Code.SEQUENCE_GAP}, "numbers without gaps")
    _no_refusal(history, set(), "")


PR.requirement(
    "PR-SEQUENCE",
    "output numbers have no gap, and a writer keeps one style",
    """A writer that numbers its records does so from 0 without gaps, and never changes between
    numbered and unnumbered.
    If it fails, the number was advanced for a batch that was not sent, or two threads share one
    writer.""",
    clauses="""out-seq out-seq-next out-seq-one-style out-seq-space out-seq-unnumbered
    out-writer""",
    needs=OVER_LOG,
    judges={passthrough_drain_first: _no_gaps},
)


@scenario(*COUNTABLE)
def count_all_paused(context: Context, rng: random.Random) -> Scenario:
    # What comes out meanwhile comes from somebody else than the workers.
    step = PauseStep(
        "fetched", target="workers", fraction=round(rng.uniform(0.2, 0.4), 4), seconds=0.6
    )
    return carried(context, context.records(60_000), rate=60_000, faults=(step,))


def _standstill(history: History) -> None:
    require_standstill(history)
    require_completed(history)
    require_fired(history, in_flight=False)
    if not history.all(events.Resumed):
        raise Unknown(Reason.KILL_MISSED, "processes stopped and continued", "none was continued")


PR.requirement(
    "PR-WORKERS-WORK",
    "nothing is processed while all workers stand still",
    """All processes that topology calls workers are stopped: until they go on, no output comes for
    records that are fetched meanwhile.
    If it fails, other processes do the work: name these as the workers.""",
    tier=3,
    clauses="ctl-topology-workers ctl-topology-roles",
    needs=Needs(survives=("worker",)),
    judges={count_all_paused: _standstill},
)


def _silent(history: History) -> None:
    for event in history.all(events.HaveAfterFence, events.OutputAfterFence):
        raise Fail(Reason.AFTER_FENCE, "silence on a connection that got error 7", event.KIND)
    require_completed(history)
    require_fired(history)


PR.requirement(
    "PR-FENCED",
    "a process that was fenced stays silent",
    """After error 7 a process sends nothing more for that writer and does not ask HAVE again.
    If it fails, the error was treated as one to retry: it means that a newer process owns the
    writer, so the older one must end.""",
    tier=3,
    clauses="out-fenced out-have-owner",
    needs=Needs(survives=("worker",), transport=("log",)),
    judges={count_worker_death_backlog: _silent, count_pause: _silent},
)


@scenario(*STATELESS_FIRST)
def passthrough_pieces(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, context.records(20_000), sink=SinkBehaviour(pieces=True, budget_s=2.0))


PR.requirement(
    "PR-PIECES",
    "replies that arrive in pieces are understood",
    """Replies that come a few bytes at a time are put together to the same frames.
    If it fails, one read was taken for one frame: read until length bytes are there.""",
    clauses="log-pieces log-frame log-reply-order kafka-connections",
    judges={passthrough_pieces: require_correct},
)


@scenario(*STATELESS_FIRST)
def empty_input(context: Context, _rng: random.Random) -> Scenario:
    return carried(context, 0)


def _nothing_came(history: History) -> None:
    require_values(history, kinds=("invented",))
    if not history.all(events.Connected):
        raise Unknown(Reason.NOT_SEEN, "an engine that looks at its input", "no connection")


PR.requirement(
    "PR-EMPTY-INPUT",
    "an input without any record is drained",
    """With END at offset 0 in every partition, drain is answered and no output appears.
    If it fails, the engine waited for a first record that never comes.""",
    clauses="log-end-flag ctl-drain app-nothing-else kafka-topics",
    judges={empty_input: _nothing_came},
)


@scenario(*STATELESS_FIRST)
def empty_partitions(context: Context, rng: random.Random) -> Scenario:
    # The first partition of either worker ends early, one of them without a record; another
    # empty one ends with the rest. Drain is asked for long before that. So many partitions that
    # a number of six, or of eight, bits does not tell them apart; many have a single record.
    number = rng.randrange(66, 81) if context.dear else rng.randrange(258, 273)
    recipe = {"partitions": number, "empty": [0, rng.randrange(2, number)], "ended_early": [0, 1]}
    records = number + number // 8
    return carried(context, records, recipe=recipe | {"tick": 4}, rate=3 * records, drain_at=0.3)


def _empty_partitions_drain(history: History) -> None:
    _no_early_drain(history)
    require_correct(history)


PR.requirement(
    "PR-EMPTY-PARTITION",
    "one empty partition among full ones holds nothing up",
    """A partition that ends at offset 0 delays neither the others nor the drain.
    If it fails, a reader waited on the empty partition while the others had records, or there are
    more partitions than the engine tells apart.""",
    clauses="log-end-flag ctl-drain log-fetch-blocks",
    judges={empty_partitions: _empty_partitions_drain},
)
