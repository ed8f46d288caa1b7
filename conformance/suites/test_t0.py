"""Tier 0: the protocol, and passthrough."""

from __future__ import annotations

import json

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.suites.evidence import due, outputs, sequences, values
from tickproof.conformance.suites.judge import Fail, Unknown, decides
from tickproof.conformance.suites.require import (
    raise_first,
    require_completed,
    require_correct,
    require_no,
)
from tickproof.conformance.suites.workers import require_all_named, require_working_workers
from tickproof.conformance.verdicts import Reason


def _refused(history: History, codes: set[Code], expected: str, *ops: str) -> None:
    """Fail with the first refusal of one of these codes, for one of these ops if any."""
    for event in history.all(events.Refused):
        if event.code in codes and (not ops or event.op in ops):
            raise Fail(Code(event.code).name, expected, f"{event.op}: {event.text}")


def _no_refusal(history: History, codes: set[Code], expected: str, *ops: str) -> None:
    _refused(history, codes, expected, *ops)
    require_completed(history)
    if not history.all(events.Connected):
        raise Unknown(Reason.NOT_SEEN, "data connections", "none")


@decides("PR-HELLO", "passthrough")
def test_hello_is_answered(history: History) -> None:
    if not history.all(events.Started):
        require_completed(history)
    if not history.run.get("hello"):
        require_completed(history)
        raise Fail(Reason.NO_ANSWER, "an answer to hello", "none")
    hello = history.run["hello"]
    if hello["protocol"] != 1:
        raise Fail(Reason.BAD_ANSWER, "protocol 1", json.dumps(hello))


@decides("PR-DEPLOY", "passthrough")
def test_deploy_is_answered(history: History) -> None:
    if not history.all(events.Deployed):
        require_completed(history)
        raise Fail(Reason.NO_ANSWER, "an answer to deploy", "none")


@decides("PR-CONTROL-LINES", "passthrough")
def test_stdout_holds_answers_only(history: History) -> None:
    require_completed(history)
    if not [row for row in history.control if row["direction"] == "from"]:
        raise Unknown(Reason.NOT_SEEN, "control lines from the engine", "none")


@decides("PR-TOPOLOGY", "passthrough")
def test_topology_names_its_own_processes(history: History) -> None:
    require_completed(history)
    named = history.all(events.Topology)
    if not named or not named[0].processes:
        raise Fail(Reason.BAD_ANSWER, "at least one process in topology", "none")
    require_all_named(history)
    require_working_workers(history)


@decides("PR-TOKEN", "passthrough")
def test_every_connection_shows_the_token(history: History) -> None:
    for event in history.all(events.NotGreeted):
        raise Fail(Reason.NOT_GREETED, "HELLO with the token first", event.text)
    _no_refusal(history, {Code.NOT_ALLOWED}, "one HELLO on each connection", "HELLO")


@decides("PR-FRAMES", "passthrough")
def test_frames_are_well_formed(history: History) -> None:
    for event in history.all(events.Truncated):
        raise Fail(Reason.TRUNCATED, "whole frames", event.text)
    _no_refusal(history, {Code.BAD_FRAME, Code.TOO_LARGE}, "well-formed frames up to 16 MiB")


@decides("PR-ADDRESSES", "passthrough")
def test_only_known_streams_and_offsets_are_asked_for(history: History) -> None:
    codes = {Code.UNKNOWN_STREAM, Code.BEYOND_END}
    _no_refusal(history, codes, "streams, partitions and offsets that exist")


@decides("PR-OPTIONAL-OPS", "passthrough")
def test_an_unknown_op_is_refused_definitely(history: History) -> None:
    for event in history.all(events.ProbeRefused):
        if event.definite is True:
            return
        raise Fail(Reason.BAD_ANSWER, "ok: false, definite: true", f"definite: {event.definite}")
    if history.all(events.ProbeAccepted):
        raise Fail(Reason.BAD_ANSWER, "ok: false for an op that does not exist", "ok: true")
    require_completed(history)
    raise Unknown(Reason.NOT_SEEN, "an answer to an op that does not exist", "none")


@decides("PR-CONCURRENT-ANSWERS", "passthrough-drain-first")
def test_requests_are_answered_while_a_drain_is_pending(history: History) -> None:
    drain = _answers(history, "drain")
    during = [row for row in _answers(history, "topology") if drain and row[0] > drain[0][0]]
    if not during:
        require_completed(history)
        raise Unknown(Reason.NOT_SEEN, "topology answered after drain was asked for", "no answer")
    (_, drained), (asked, answered) = drain[0], during[0]
    if answered >= drained:
        raise Fail(
            Reason.HELD_BACK,
            "topology answered while drain was pending",
            f"no answer for {(answered - asked) / 1e6:,.1f} ms, until drain was answered",
        )


def _answers(history: History, op: str) -> list[tuple[int, int]]:
    """Return when each request of an op was sent and when it was answered, in ns."""
    rows = [(row["t_ns"], row["direction"], _object(row["line"])) for row in history.control]
    answered = {line.get("id"): t_ns for t_ns, direction, line in rows if direction == "from"}
    return [
        (t_ns, answered[line["id"]])
        for t_ns, direction, line in rows
        if direction == "to" and line["op"] == op and line["id"] in answered
    ]


def _object(line: str) -> dict:
    """Return the object on a control line, an empty one if there is none."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _no_early_drain(history: History) -> None:
    for event in history.all(events.Drained):
        if not event.ended:
            got = sum(one.published for one in event.partitions)
            raise Fail(
                Reason.EARLY_DRAIN,
                "no answer before END of every partition",
                f"answered when {got:,} of {history.input_records:,} records were published",
            )


@decides("PR-DRAIN-WAITS", "passthrough-drain-first")
def test_drain_waits_for_end_and_for_all_output(history: History) -> None:
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


@decides("PR-DRAIN", "passthrough")
def test_drain_is_answered(history: History) -> None:
    require_completed(history)
    if not history.all(events.Drained):
        raise Unknown(Reason.NOT_SEEN, "an answer to drain", "none")


@decides("PR-STAYS-UP", "passthrough")
def test_the_engine_ends_only_when_asked(history: History) -> None:
    require_completed(history)
    if not history.all(events.Exited):
        raise Unknown(Reason.NOT_SEEN, "the engine's exit", "none")


@decides("PR-STOP", "passthrough")
def test_stop_ends_with_status_zero(history: History) -> None:
    require_completed(history)
    status = history.all(events.Exited)[-1].returncode
    if status != 0:
        raise Fail(Reason.BAD_EXIT, "exit status 0 after stop", str(status))


@decides("PR-STDIN-EOF", "stdin-eof")
def test_end_of_stdin_ends_the_engine(history: History) -> None:
    require_completed(history)
    if not history.all(events.Exited):
        raise Unknown(Reason.NOT_SEEN, "the engine's exit", "none")


@decides("PR-NO-LEFTOVERS", "passthrough")
def test_no_process_is_left_after_stop(history: History) -> None:
    _nothing_left(history)


@decides("PR-NO-LEFTOVERS", "stdin-eof")
def test_no_process_is_left_after_the_end_of_stdin(history: History) -> None:
    _nothing_left(history)


def _nothing_left(history: History) -> None:
    left = history.run.get("left_over", [])
    if left and history.ended["how"] == "completed":
        names = ", ".join(f"{p['name']} ({p['pid']})" for p in left)
        raise Fail(Reason.LEFT_OVER, "no process after stop", names)
    require_completed(history)


@decides("PR-RELEASE", "passthrough-drain-first")
def test_released_records_are_not_asked_for(history: History) -> None:
    _no_refusal(history, {Code.RELEASED}, "no FETCH below a RELEASE")


@decides("PR-SEQUENCE", "passthrough-drain-first")
def test_writers_number_without_gaps(history: History) -> None:
    raise_first(sequences(history), ("gap", "conflict"))
    _refused(history, {Code.NOT_ALLOWED}, "one style for each writer", "APPEND", "STAGE")
    # A gap that was mended by sending the right number is no failure of the run.
    if history.ended["how"] != "completed" or len(outputs(history)) < due(history):
        _refused(history, {Code.SEQUENCE_GAP}, "numbers without gaps")
    _no_refusal(history, set(), "")


@decides("PR-PIECES", "passthrough-pieces")
def test_replies_in_pieces_are_understood(history: History) -> None:
    require_correct(history)


@decides("PR-EMPTY-INPUT", "empty-input")
def test_an_empty_input_drains(history: History) -> None:
    require_no(history, values(history), ("invented",))


@decides("PR-EMPTY-PARTITION", "empty-partitions")
def test_empty_partitions_drain(history: History) -> None:
    _no_early_drain(history)
    require_correct(history)


@decides("SL-PASSTHROUGH", "passthrough")
def test_passthrough_gives_what_it_got(history: History) -> None:
    require_correct(history)


@decides("SL-PAYLOAD-SIZES", "tiny-payloads")
def test_payloads_of_one_byte(history: History) -> None:
    require_correct(history)


@decides("SL-PAYLOAD-SIZES", "large-payloads")
def test_payloads_of_a_mebibyte(history: History) -> None:
    require_correct(history)


@decides("SL-ONE-WORKER", "stdin-eof")
def test_one_worker_does_all_partitions(history: History) -> None:
    require_correct(history)
