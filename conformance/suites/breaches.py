"""Runs that the engine broke off, and the one requirement that each of them fails.

A run without an end leaves nothing to judge for most of its tests. The requirement that names
what went wrong fails, and what else the run was to decide is blocked by it. The tables say
which requirement that is; docs/decisions/0016-one-cause.md argues for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tickproof.conformance.fault_steps import Do, FaultStep, Moment, Target
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.link_fault import LinkFault
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.json_lines import object_of
from tickproof.conformance.log_server.frames import Code
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.catalog import judges_of
from tickproof.conformance.suites.judge import NotClaimed
from tickproof.conformance.suites.requirement import check_claims
from tickproof.conformance.verdicts import Reason

#: What is no matter of a moment: these requirements name it in any run, after a fault too.
ALWAYS: Final[Mapping[str, str]] = {
    Reason.NOT_FOUND: "PR-HELLO",
    Reason.BAD_LINE: "PR-CONTROL-LINES",
    Reason.UNKNOWN_ANSWER: "PR-CONTROL-LINES",
    Reason.FOREIGN_PID: "PR-TOPOLOGY",
    Reason.NOT_GONE: "PR-NO-LEFTOVERS",
}
#: By the request that was refused, answered badly or not at all, or met by an exit.
BY_OP: Final[Mapping[str, str]] = {
    "hello": "PR-HELLO",
    "deploy": "PR-DEPLOY",
    "topology": "PR-TOPOLOGY",
    "drain": "PR-DRAIN",
    "scale": "EL-LIVE",
    "stop": "PR-STOP",
}
#: A run whose requests have members that the engine does not know.
EXTRA_MEMBERS: Final = "PR-CONTROL-LINES"
#: Requests that an engine may refuse, but has to answer: all others.
OPTIONAL: Final = "PR-OPTIONAL-OPS"
#: An exit while the app runs, whatever is pending then.
RUNNING: Final = "PR-STAYS-UP"
_PENDING_WHILE_RUNNING: Final = ("", "drain", "topology")
#: Ops that send output.
_OUTPUT_OPS: Final = ("APPEND", "STAGE", "COMMIT")
#: What the log refuses, where the run ended by it. NOT_ALLOWED goes by op.
BY_REFUSAL: Final[Mapping[int, str]] = {
    Code.BAD_FRAME: "PR-FRAMES",
    Code.TOO_LARGE: "PR-FRAMES",
    Code.UNKNOWN_STREAM: "PR-ADDRESSES",
    Code.BEYOND_END: "PR-ADDRESSES",
    Code.SEQUENCE_GAP: "PR-SEQUENCE",
    Code.RELEASED: "PR-RELEASE",
    Code.NOT_ALLOWED: "PR-SEQUENCE",
}
#: What makes a run without faults another than a plain one: who asks for that names its end.
SPECIAL: Final = (
    "PR-PIECES", "PR-EMPTY-INPUT", "PR-EMPTY-PARTITION", "SL-PAYLOAD-SIZES", "ST-HOT-KEY",
    "ST-LONG-RUN", "ST-MANY-KEYS", "ST-SILENCE", "DL-ACKNOWLEDGED",
    "BP-SLOW-SINK", "BP-FAST-SOURCE", "LT-SUSTAINED",
    "NE-PLACES",
)  # fmt: skip
#: An engine that does not go on after a fault fails by what was done to it last, ...
BY_FAULT: Final[Mapping[tuple[Do, Target | None], str]] = {
    ("kill", "engine"): "EO-ENGINE-DEATH",
    ("kill", "worker"): "EO-WORKER-DEATH",
    ("kill", "workers"): "EO-ALL-WORKERS",
    ("kill", "coordinator"): "EO-COORDINATOR-DEATH",
    ("kill", "broker"): "KA-BROKER",
    ("kill", "leader"): "KA-LEADER",
    ("cut", "source"): "EO-SOURCE-CUT",
    ("cut", "sink"): "EO-SINK-CUT",
    ("late", None): "DL-LATE-BYTES",
    ("half-open", None): "EO-HALF-OPEN",
    ("refuse", None): "DL-REFUSED",
    ("error", None): "KA-ERRORS",
    ("delay", None): "BP-SLOW-LINKS",
    ("throttle", None): "BP-SLOW-LINKS",
    ("drip", None): "BP-SLOW-LINKS",
    ("silence", None): "BP-SILENT-SOURCE",
    ("pause", None): "EO-PAUSE",
    ("pause", "leader"): "KA-HAND-OVER",
    ("fill", None): "EO-FULL-DISK",
    ("corrupt", None): "EO-DAMAGED-CHECKPOINT",
    ("wipe", None): "KA-EMPTY-DISK",
    ("power", None): "EO-POWER-LOSS",
    ("rescale", None): "EL-RESTART",
    ("scale", None): "EL-LIVE",
    ("kill", "host"): "NE-HOST-DEATH",
    ("throttle", "host"): "NE-SLOW",
    ("partition", None): "NE-PARTITION",
    ("loss", None): "NE-SLOW",
    ("delay", "host"): "NE-PACKETS",
    ("reorder", None): "NE-PACKETS",
    ("duplicate", None): "NE-PACKETS",
    ("garble", None): "NE-PACKETS",
}
#: ... or by the moment of it, ...
BY_MOMENT: Final[Mapping[Moment, str]] = {
    "staged": "DL-AFTER-STAGE",
    "accepted": "DL-AFTER-STAGE",
    "committing": "DL-AFTER-COMMIT",
    "losing": "DL-UNANSWERED",
    "recovery": "EO-DEATH-IN-RECOVERY",
    "drained": "EO-AFTER-DRAIN",
    "checkpoint": "EO-CHECKPOINT-OP",
    "scaling": "EL-MOVING",
}
#: ... or by what else the run asks for, the first of these that it decides.
RECOVERY: Final = (
    "EO-SCHEDULE", "EO-COVERING", "EO-WORKER-DEATH-BACKLOG", "EO-EARLY-DEATH", "EO-UNEVEN",
    "EO-TERMINATED", "EO-SOME", "EO-TAIL", "EO-PASSTHROUGH-DEATH", "EO-MARKET-WORKER-DEATH",
    "EO-MARKET-ENGINE-DEATH", "EO-TWO-STREAMS-DEATH", "LT-RECOVERY",
    "KA-OPEN-TRANSACTION", "KA-DOWNTIME", "KA-LOST-SESSION", "KA-REBALANCE", "KA-NOT-HELD-UP",
    "EL-BACKLOG", "EL-STEADY", "EL-MOVING", "EL-OVERLAP", "EL-AFTER", "NE-ONE-WAY", "NE-CUT-OFF",
    "NE-MUTE",
)  # fmt: skip
SECOND_FAULT: Final = "EO-TWO-DEATHS"
#: An engine that is refused what it had released, and ends by that, has no cut to go back to.
RELEASED: Final = "EO-RELEASED"


@dataclass(frozen=True)
class Breach:
    """A run that broke off. requirement: fails for it, with a code as reason.

    general: would fail for it in a run that asks for nothing else; the same where it does.
    """

    requirement: str
    general: str
    reason: str


def of(history: History) -> Breach:
    """Return who fails for a run that an engine failure ended; it never leaves that open."""
    breach = _usual(history)
    if history.record.scenario.extra_members:
        return replace(breach, requirement=EXTRA_MEMBERS)
    return breach


def _usual(history: History) -> Breach:
    code = history.ended.code
    if code in ALWAYS:
        return Breach(ALWAYS[code], ALWAYS[code], code)
    op = pending(history, answered=code in (Reason.REFUSED, Reason.BAD_ANSWER))
    if code == Reason.NO_EXIT or op == "stop":
        eof = code == Reason.NO_EXIT and history.record.scenario.ending
        general = "PR-STDIN-EOF" if eof == "stdin-eof" else "PR-STOP"
        return Breach(general, general, code)
    # An engine that ends by what the log refused may owe any answer at that moment.
    optional = op not in ("", *BY_OP) and not _refused(history)
    if code == Reason.BAD_ANSWER or optional:
        general = BY_OP.get(op, OPTIONAL)
        return Breach(general, general, code)
    if history.faults:
        general, named = _recovery(_to_blame(history))
        if history.all(events.Refused, code=int(Code.RELEASED)):
            general, code = RELEASED, Reason.RELEASED
            named = [general, *named]
    else:
        general, code = _refused(history) or (_by_op(history, code, op), code)
        named = [*SPECIAL]
    decided = _decided(history)
    return Breach(next((one for one in named if one in decided), general), general, code)


def _to_blame(history: History) -> list[FaultStep]:
    """Return the faults that fired; what the log refused of the output is none of the source's."""
    fired = [fault.step for fault in history.faults]
    output = any(event.op in _OUTPUT_OPS for event in history.all(events.Refused))
    return [step for step in fired if not (output and _of_source(step))] or fired


def _of_source(step: FaultStep) -> bool:
    fault = fault_of(step)
    return isinstance(fault, LinkFault) and fault.of_source


def _recovery(fired: list[FaultStep]) -> tuple[str, list[str]]:
    """Return who names an engine that does not go on after faults, and who else may."""
    general, *earlier = [
        BY_FAULT.get((step.do, step.target)) or BY_FAULT[step.do, None] for step in reversed(fired)
    ]
    named = [SECOND_FAULT] if len(fired) > 1 else []
    named += [BY_MOMENT[fired[-1].at]] if fired[-1].at in BY_MOMENT else []
    return general, [*named, general, *RECOVERY, *earlier]


def _refused(history: History) -> tuple[str, str] | None:
    """Return who names what the log refused in the run, and its code; None over Kafka."""
    if history.claims.over_kafka:
        return None
    if history.all(events.NotGreeted):
        return "PR-TOKEN", Reason.NOT_GREETED
    for event in reversed(history.all(events.Refused)):
        if event.code in BY_REFUSAL:
            hello = event.code == Code.NOT_ALLOWED and event.op == "HELLO"
            return "PR-TOKEN" if hello else BY_REFUSAL[event.code], Code(event.code).name
    return ("PR-FRAMES", Reason.TRUNCATED) if history.all(events.Truncated) else None


def _by_op(history: History, code: str, op: str) -> str:
    if code == Reason.EXITED and op in _PENDING_WHILE_RUNNING:
        return RUNNING
    if code == Reason.ENDLESS:
        return "DL-COMPLETE"
    if op == "topology" and history.all(events.DrainAsked):
        return "PR-CONCURRENT-ANSWERS"
    return BY_OP.get(op, RUNNING)


def _decided(history: History) -> set[str]:
    """Return the requirements that the run decides, as far as the engine claims them."""
    known, scenario = registry.load(), history.record.scenario
    found = set()
    for id_, _ in judges_of(history.scenario):
        try:
            check_claims(known[id_].needs, history.claims, scenario)
        except NotClaimed:
            continue
        found.add(id_)
    return found


@dataclass(frozen=True)
class Control:
    """Requests of the control channel. waiting: (op, t_ns) of those that the engine owes an answer.

    answered: the op that it answered last. asked: whether any request was sent.
    """

    waiting: list[tuple[str, int]]
    answered: str
    asked: bool


def control(history: History) -> Control:
    """Return what the engine was asked, as far as its last process has to answer it."""
    waiting: dict[int, tuple[str, int]] = {}
    last, asked = "", False
    for row in history.control:
        line = object_of(row["line"])
        sent, number = row["direction"] == "to", line.get("id")
        asked |= sent
        if not isinstance(number, int):
            continue
        if not sent:
            last, _ = waiting.pop(number, (last, 0))
            continue
        if line.get("op") == "hello":
            waiting.clear()  # a new process: nobody answers what the last one was asked
        waiting[number] = (str(line.get("op")), int(row["t_ns"]))
    return Control(list(waiting.values()), last, asked)


def pending(history: History, *, answered: bool = False) -> str:
    """Return the op of the request that the engine owes an answer, "" for none.

    ``answered``: of the last request that it did answer.
    """
    found = control(history)
    if answered:
        return found.answered
    if not found.asked:
        return "hello"  # it did not live to be asked
    # Only the last one is waited for; drain waits in the background.
    return found.waiting[-1][0] if found.waiting else ""
