"""Verdicts: the closed set of answers, what goes with each, and the exit status."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final


class Verdict(enum.StrEnum):
    """How one requirement came out; see docs/verdicts.md for the exact meaning."""

    PASS = "pass"
    FAIL = "fail"
    UNKNOWN = "unknown"
    BLOCKED = "blocked"
    NOT_CLAIMED = "not-claimed"
    KNOWN_GAP = "known-gap"
    GAP_FIXED = "gap-fixed"
    KIT_ERROR = "kit-error"


class Reason(enum.StrEnum):
    """Why a verdict is no pass: stable codes, which scripts may rely on.

    ``meaning`` is one sentence, ``advice`` what to look at or do, "" where the meaning says it.
    """

    meaning: str
    advice: str

    def __new__(cls, code: str, meaning: str, advice: str = "") -> Reason:
        """Make a member of its code, what it means, and what to do."""
        member = str.__new__(cls, code)
        member._value_, member.meaning, member.advice = code, meaning, advice
        return member

    # unknown
    KILL_MISSED = (
        "KILL_MISSED",
        "The fault did not fire before the run was over.",
        "the engine was faster than the pace, or the aimed moment never came",
    )
    NOTHING_IN_FLIGHT = (
        "NOTHING_IN_FLIGHT",
        "The fault fired while no record was fetched and not yet released.",
        "the kill came before the first or after the last record",
    )
    NO_CUT_BEFORE_KILL = (
        "NO_CUT_BEFORE_KILL",
        "No cut was durable when the kill came, so recovery from it could not be seen.",
        "cuts are rare: take them more often",
    )
    STALL_TOO_SHORT = (
        "STALL_TOO_SHORT",
        "The sink stood still too briefly, or too little was waiting, to show back-pressure.",
        "the engine sent too little output before the stall",
    )
    NOT_HELD = (
        "NOT_HELD",
        "The engine undid a fault while it lasted, so what it did meanwhile shows nothing.",
        "somebody continued a stopped process, or lifted the limit that stands for a full disk",
    )
    NOT_AT_WORK = (
        "NOT_AT_WORK",
        "The process that was killed or paused had handled no record, as far as can be seen.",
        "topology names another process than the one that works, or a worker without partitions",
    )
    NO_RECOVERY_SEEN = (
        "NO_RECOVERY_SEEN",
        "After the fault nothing was fetched, though nothing shows that the engine had to.",
        "the input was already read to its end",
    )
    TIME_LIMIT = (
        "TIME_LIMIT",
        "The run was given up far beyond a time limit, though the engine still made progress.",
        "a slow engine: longer limits in engine.toml",
    )
    MACHINE_BUSY = (
        "MACHINE_BUSY",
        "The machine kept engine or kit from running, so a time limit says nothing.",
        "other programs, a hypervisor, a slow disk: give the machine fewer of them",
    )
    NOTHING_HELD_BACK = (
        "NOTHING_HELD_BACK",
        "Nothing could be written for a time, and nothing shows that the engine tried.",
        "no cut was due in that time, or the engine writes through memory maps",
    )
    DAMAGE_UNREAD = (
        "DAMAGE_UNREAD",
        "The damaged file was not read after the restart.",
        "the newest file was no part of a checkpoint: a log, a lock",
    )
    NOT_SEEN = (
        "NOT_SEEN",
        "What the promise is about did not happen in the run: no such frame, op or output.",
        "the engine does not use that part of the protocol",
    )
    RECORDED_SHORT = (
        "RECORDED_SHORT",
        "Output is missing that may have come after the recording of it ended.",
        "`tickproof judge --complete`, if the output was recorded to its end",
    )
    HOST_NOISE = (
        "HOST_NOISE",
        "What was over a limit is not so without the noisy seconds, or too few seconds were quiet.",
        "other programs on the machine, a hypervisor: give it fewer of them",
    )
    GENERATOR_LATE = (
        "GENERATOR_LATE",
        "The kit published its input too late.",
        "a lower rate, more cores, a priority",
    )
    KIT_FLOOR = (
        "KIT_FLOOR",
        "The limit is less than twice what the kit takes itself.",
        "a faster host, or a wider limit",
    )
    TOO_FEW_SAMPLES = (
        "TOO_FEW_SAMPLES",
        "Too few answers, quiet seconds or looks at processes to rest a verdict on.",
        "an engine that answers rarely, or a short run",
    )
    TOO_FEW_CORES = (
        "TOO_FEW_CORES",
        "There is one core: kit and engine cannot have one each.",
        "a small machine",
    )
    NOT_PINNED = (
        "NOT_PINNED",
        "The engine never ran on the cores assigned to it.",
        "no right to set an affinity",
    )
    NOT_AT_SCALE = (
        "NOT_AT_SCALE",
        "The test reads the whole input in one process, and there is too much of it.",
        "use `tickproof check` without `--spark`",
    )
    INTERRUPTED = (
        "INTERRUPTED",
        "The session ended before this was judged.",
        "the same command once more, to its end",
    )
    # blocked, gap-fixed, kit-error
    LOWER_TIER = (
        "LOWER_TIER",
        "A requirement of a lower tier failed, so this one does not count.",
        "fix what failed first",
    )
    GAP_FIXED = (
        "GAP_FIXED",
        "The promise holds though known_gaps of engine.toml lists it.",
        "remove the entry",
    )
    NOT_DECIDED = (
        "NOT_DECIDED",
        "Nothing decided the requirement, though it was asked for.",
        "the log of the run says what broke",
    )
    NO_SPACE = (
        "NO_SPACE",
        "A disk that the kit writes to is full; nothing after that was judged.",
        "make room in the folder that is named, or name another with --out or TMPDIR",
    )
    # fail: processes, protocol, latency
    NOT_FOUND = "NOT_FOUND", "argv cannot be run."
    EXITED = "EXITED", "argv's process ended unasked.", "its stderr.log"
    NO_ANSWER = (
        "NO_ANSWER",
        "A request was not answered, and the engine stood still for the time of engine.toml.",
    )
    NO_EXIT = "NO_EXIT", "The engine was still there after it should have ended."
    NO_RECOVERY = "NO_RECOVERY", "Nothing was fetched after a death in the time of engine.toml."
    BAD_LINE = (
        "BAD_LINE",
        "A line on stdout is not a JSON object, or longer than 1 MiB.",
        "write logs to standard error",
    )
    UNKNOWN_ANSWER = "UNKNOWN_ANSWER", "An answer on stdout belongs to no open request."
    BAD_ANSWER = "BAD_ANSWER", "Fields of an answer are missing or wrong."
    REFUSED = "REFUSED", "The engine refused a request that every engine must carry out."
    ENDLESS = "ENDLESS", "The output has no end: more than 20 times the input, in records or bytes."
    FOREIGN_PID = "FOREIGN_PID", "topology names a process that is not the engine's own."
    UNNAMED = "UNNAMED", "A process that topology did not name fetched or sent records."
    FOREIGN_NAME = (
        "FOREIGN_NAME",
        "A group, transactional id or topic contains neither the name of the run nor a UUID.",
        "put TICKPROOF_GROUP into it, or a UUID that is drawn for the run",
    )
    HELD_UP = (
        "HELD_UP",
        "Output that can be read came later after a death than the claimed timeouts allow.",
        "a transaction stays open until its timeout: end it when the engine starts again",
    )
    IDLE_WORKERS = (
        "IDLE_WORKERS",
        "Processes that topology calls workers did nothing, while others did the work.",
    )
    WRONG_HOST = (
        "WRONG_HOST",
        "A process runs on another host than [hosts] of engine.toml names for its role.",
    )
    WORKERS_NOT_NEEDED = (
        "WORKERS_NOT_NEEDED",
        "Records were processed while every process that topology calls a worker stood still.",
    )
    NOT_GONE = "NOT_GONE", "A process survived SIGKILL."
    LEFT_OVER = "LEFT_OVER", "A process outlived the engine's end."
    BAD_EXIT = "BAD_EXIT", "The exit status after stop was not 0."
    NOT_GREETED = "NOT_GREETED", "A data connection did not begin with HELLO and the token."
    TRUNCATED = "TRUNCATED", "A data connection ended inside a frame."
    BAD_FRAME = "BAD_FRAME", "A frame does not have the form that its op asks for."
    UNKNOWN_STREAM = "UNKNOWN_STREAM", "A frame names a stream or partition that does not exist."
    BEYOND_END = "BEYOND_END", "A FETCH begins beyond the published end."
    TOO_LARGE = "TOO_LARGE", "A frame is larger than the protocol allows."
    SEQUENCE_GAP = "SEQUENCE_GAP", "A writer left out numbers."
    FENCED = "FENCED", "Output came on a connection whose writer another one had taken over."
    NOT_ALLOWED = "NOT_ALLOWED", "A frame is not allowed there, such as a second HELLO."
    AFTER_FENCE = "AFTER_FENCE", "A connection went on to write after it had got error 7."
    RELEASED = "RELEASED", "A FETCH asked for what the engine had released."
    FETCHED_AGAIN = "FETCHED_AGAIN", "A FETCH asked for what drain or checkpoint covers."
    FROM_ZERO = (
        "FROM_ZERO",
        "A restarted engine began at the very beginning instead of at its last cut.",
    )
    EARLY_DRAIN = (
        "EARLY_DRAIN",
        "drain was answered before all was read or all output acknowledged, or before END.",
    )
    EARLY_COMMIT = (
        "EARLY_COMMIT",
        "Offsets were committed of records whose output was not acknowledged.",
    )
    STAGED_AT_DRAIN = "STAGED_AT_DRAIN", "drain was answered while a transaction was open."
    HELD_BACK = "HELD_BACK", "Other requests were not answered while drain was pending."
    UNBOUNDED = "UNBOUNDED", "The engine read on, or grew, while the sink stood still."
    OVER_LIMIT = "OVER_LIMIT", "A percentile lies over the limit of the claimed profile."
    HIDDEN_WAIT = (
        "HIDDEN_WAIT",
        "A percentile is over the limit only because records were left to wait in the log.",
    )
    PROBES_FIRST = "PROBES_FIRST", "Probe orders were answered sooner than others."
    NEW_LEVEL = "NEW_LEVEL", "Latency rose in the middle of the run and stayed up."
    UNANSWERED = "UNANSWERED", "Measured records have no answer."
    UNSUSTAINED = "UNSUSTAINED", "The engine did not keep up with the rate."
    SLOW_RECOVERY = (
        "SLOW_RECOVERY",
        "p99 was still over the limit when the time to recover was over.",
    )
    OFF_ITS_CORES = (
        "OFF_ITS_CORES",
        "A process of the engine ran on other cores than it was started on.",
    )
    ANOTHER_PRIORITY = (
        "ANOTHER_PRIORITY",
        "A process of the engine had another policy or nice value than it was started with.",
    )
    # fail: what a checker found in the output
    UNKNOWN_KEY = "unknown-key", "An output has a key that the input does not hold."
    BEYOND_INPUT = "beyond-input", "An output counts more records of a key than the input holds."
    WRONG_TOTAL = "wrong-total", "A total is not that of the records that it counts."
    LOST = "lost", "An output that is due never came."
    GAP = "gap", "A writer's numbers leave some out."
    DUPLICATE = "duplicate", "An output came more often than it is due."
    REDELIVERED = "redelivered", "A writer delivered the same number twice, with the same record."
    CONFLICT = "conflict", "A writer delivered the same number twice, with different records."
    RETRACTED = "retracted", "An answer came twice and the second time it was another."
    STEP_BACK = "step-back", "The count of a key went back to an earlier one."
    SKIPPED_ORDER = (
        "skipped-order",
        "The points of a key did not come in order, one for each record.",
    )
    MALFORMED = "malformed", "An output does not have the form of the app."
    INVENTED = "invented", "An output answers nothing in the input."
    WRONG_VERDICT = "wrong-verdict", "A verdict does not follow from the quote that it names."
    UNKNOWN_QUOTE = "unknown-quote", "A verdict names a quote that its symbol does not have."
    FROM_THE_FUTURE = (
        "from-the-future",
        "A verdict names a quote that was published only after the verdict had come.",
    )
    WENT_BACK = "went-back", "A verdict names an older quote than one before it."
    MUST_REJECT = "must-reject", "An order that had to be rejected was not."
    STALE_QUOTE = (
        "stale-quote",
        "A verdict names an old quote though a newer one was fetched freshness_s before the order.",
    )
    AHEAD_OF_FETCH = (
        "ahead-of-fetch",
        "An output came before a record that it comes from was fetched.",
        "the engine knows its input by another way than FETCH",
    )
    WRONG_SIZE = "wrong-size", "Output records have another size or shape than those of the app."


#: Of an unknown that another run may decide, in which the engine has the machine to itself.
WORTH_ANOTHER_RUN: frozenset[str] = frozenset((Reason.MACHINE_BUSY, Reason.TIME_LIMIT))

#: Of an unknown that says that a fault met nothing. Another says more, such as one undone.
MISSED_FAULT: frozenset[str] = frozenset(
    (
        Reason.KILL_MISSED,
        Reason.NOTHING_IN_FLIGHT,
        Reason.NO_CUT_BEFORE_KILL,
        Reason.STALL_TOO_SHORT,
        Reason.NOT_AT_WORK,
        Reason.NO_RECOVERY_SEEN,
        Reason.NOTHING_HELD_BACK,
        Reason.DAMAGE_UNREAD,
        Reason.NOT_SEEN,
    )
)

#: Best to worst: the worst of a report is the verdict of the whole.
SEVERITY: tuple[Verdict, ...] = (
    Verdict.NOT_CLAIMED,
    Verdict.PASS,
    Verdict.KNOWN_GAP,
    Verdict.UNKNOWN,
    Verdict.BLOCKED,
    Verdict.GAP_FIXED,
    Verdict.FAIL,
    Verdict.KIT_ERROR,
)

#: How the words of a not-claimed begin where the requirement is about something else.
DOES_NOT_APPLY = "does not apply"

#: A promise was tested, and held or not.
JUDGED: frozenset[Verdict] = frozenset(
    (Verdict.PASS, Verdict.FAIL, Verdict.KNOWN_GAP, Verdict.GAP_FIXED)
)

EXIT_OK, EXIT_FAIL, EXIT_USAGE, EXIT_UNKNOWN, EXIT_KIT_ERROR, EXIT_NOT_JUDGED = range(6)
#: Worst first: of several, the worst exit status is that of the command.
_STATUS_ORDER: Final = (EXIT_KIT_ERROR, EXIT_FAIL, EXIT_NOT_JUDGED, EXIT_UNKNOWN, EXIT_OK)
_FAILING: Final = frozenset((Verdict.FAIL, Verdict.GAP_FIXED, Verdict.BLOCKED))


@dataclass(frozen=True)
class Outcome:
    """One decided requirement.

    A fail, unknown, blocked or kit-error carries ``reason`` (a stable code), ``expected``
    and ``actual``; all text may come from an engine and is not safe to print raw.
    blocked_by: the requirements whose failure left nothing to judge here. general: of a run
    that broke off, the requirement that fails for the same in a plain run; "" for none.
    story: what `explain` tells of it: ``headline``, ``lines``, ``brief``, ``picture``; or empty.
    """

    requirement: str
    verdict: Verdict
    scenario: str = ""
    reason: str = ""
    stimulus: str = ""
    expected: str = ""
    actual: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    reproduce: str = ""
    seconds: float = 0.0
    story: dict[str, list[str]] = field(default_factory=dict)
    blocked_by: list[str] = field(default_factory=list)
    general: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return asdict(self) | {"verdict": self.verdict.value}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """Rebuild an outcome; raises ValueError for a verdict that does not exist."""
        return cls(**{**data, "verdict": Verdict(data["verdict"])})


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict. Nothing at all is a kit-error: no empty green."""
    found = set(verdicts)
    if not found:
        return Verdict.KIT_ERROR
    return max(found, key=SEVERITY.index)


def status_of(
    verdicts: Iterable[Verdict], *, missing: bool = False, gap_required: bool = False
) -> int:
    """Return the process exit status for a set of verdicts.

    missing: something that had to be judged was not. gap_required: a known gap is of what had
    to be judged, and nothing excuses that.
    """
    found = set(verdicts)
    if worst(found) is Verdict.KIT_ERROR:
        return EXIT_KIT_ERROR
    if gap_required or found & _FAILING:
        return EXIT_FAIL
    if missing or found == {Verdict.NOT_CLAIMED}:
        return EXIT_NOT_JUDGED
    if Verdict.UNKNOWN in found:
        return EXIT_UNKNOWN
    return EXIT_OK


@dataclass(frozen=True)
class Conclusion:
    """How a whole came out, in a word that agrees with its exit status.

    look: the verdict that it is shown like.
    """

    word: str
    look: Verdict
    status: int


def conclusion(
    verdicts: Iterable[Verdict], *, missing: bool = False, gap_required: bool = False
) -> Conclusion:
    """Return word and exit status of a whole; for the arguments see `status_of`."""
    found = set(verdicts)
    verdict = worst(found)
    status = status_of(found, missing=missing, gap_required=gap_required)
    if status == EXIT_NOT_JUDGED:
        return Conclusion("not judged", Verdict.UNKNOWN, status)
    if status == EXIT_FAIL and verdict not in _FAILING:
        verdict = Verdict.FAIL
    return Conclusion(verdict.value, verdict, status)


def concluded(*, broken: bool, wrong: bool, unknown: bool, judged: bool) -> Conclusion:
    """Return word and exit status of what has findings in place of verdicts.

    judged: something was; without it nothing is green.
    """
    flags = {Verdict.KIT_ERROR: broken, Verdict.FAIL: wrong, Verdict.UNKNOWN: unknown}
    found = [verdict for verdict, holds in flags.items() if holds]
    return conclusion([*found, Verdict.PASS], missing=not judged)


def worst_status(statuses: Iterable[int]) -> int:
    """Return the exit status of a command with several parts. No part at all: nothing judged."""
    return min(statuses, key=_STATUS_ORDER.index, default=EXIT_NOT_JUDGED)
