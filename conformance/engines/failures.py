"""Stable codes for failures of an engine as a process and on its control channel."""

from __future__ import annotations

import enum

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.text import shown


class Code(enum.StrEnum):
    """Reasons to give up on an engine; names are stable, reports quote them."""

    NOT_FOUND = "NOT_FOUND"  # argv cannot be run
    EXITED = "EXITED"  # argv's process ended before it answered
    NO_ANSWER = "NO_ANSWER"  # a deadline passed
    NO_EXIT = "NO_EXIT"  # still there after it should have exited
    BAD_LINE = "BAD_LINE"  # not JSON, not an object, longer than 1 MiB
    UNKNOWN_ANSWER = "UNKNOWN_ANSWER"  # an answer to no open request
    ENDLESS = "ENDLESS"  # output without an end
    TIME_LIMIT = "TIME_LIMIT"  # not over, though the engine still made progress: no verdict
    MACHINE_BUSY = "MACHINE_BUSY"  # the machine kept the engine from running: no verdict
    NO_RECOVERY = "NO_RECOVERY"  # did not fetch again after a death
    REFUSED = "REFUSED"  # ok: false
    BAD_ANSWER = "BAD_ANSWER"  # fields missing, or of the wrong type
    FOREIGN_PID = "FOREIGN_PID"  # topology names a process that is not the engine's
    NOT_GONE = "NOT_GONE"  # survived SIGKILL to the deadline


class EngineFailure(TickproofError):
    """An engine broke the protocol or a claim, or missed a deadline.

    ``message`` and ``stderr_tail`` (oldest line first, 32 at most) are escaped and cut.
    ``error`` and ``definite`` are set for REFUSED; ``status`` for EXITED: the exit
    status, or minus the signal's number.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        stderr_tail: tuple[str, ...] = (),
        *,
        error: str = "",
        definite: bool | None = None,
        status: int | None = None,
    ) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.stderr_tail = tuple(shown(line, 500) for line in stderr_tail)
        self.error = error
        self.definite = definite
        self.status = status

    def __str__(self) -> str:
        lines = [f"{self.code}: {self.message}"]
        if self.stderr_tail:
            lines.append("last lines of standard error:")
            lines.extend(f"  {line}" for line in self.stderr_tail)
        return "\n".join(lines)
