"""The control channel without its pipes: requests, answers in any order, violations."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NoReturn

from tickproof.conformance.engines.answer_shapes import CHECKS
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.output_streams import MAX_LINE
from tickproof.conformance.text import shown

#: After so many violations the engine's stdout is no longer read as control lines.
MAX_VIOLATIONS = 16
#: Members of a request that no engine knows: none may mind them (ctl-ignore-members).
UNKNOWN_MEMBERS: Final[Mapping[str, Any]] = {
    "note": None,
    "hints": {
        "ids": [1, -0.5, 2**64, []],
        "text": 'a "quoted" \u00e9\u4e16\U0001f600\n',
        "on": True,
    },
}
#: Where the ids of requests may begin, and how they go on: whole numbers, which a double holds.
_IDS: Final = (
    *((1, 1), (250, 1), (2**16 - 3, 1), (2**31 - 3, 1), (2**32 - 3, 1), (2**53 - 10_000, 1)),
    *((2**16 + 3, -1), (2**31 + 3, -1), (2**32 + 3, -7)),
)


@dataclass(frozen=True)
class Style:
    """The form of requests, as far as that is free.

    first_id, step: ids. separators: as json.dumps has them. reversed: the last member comes first.
    """

    first_id: int = 1
    step: int = 1
    separators: tuple[str, str] = (", ", ": ")
    reversed: bool = False

    @classmethod
    def drawn(cls, rng: random.Random) -> Style:
        """Return any style."""
        separators = rng.choice(((", ", ": "), (",", ":"), (" ,\t", " : ")))
        return cls(*rng.choice(_IDS), separators, rng.random() < 0.5)

    def line(self, members: Mapping[str, Any]) -> str:
        """Return a request as a line, without its end."""
        items = list(members.items())
        ordered = dict(items[::-1] if self.reversed else items)
        return json.dumps(ordered, separators=self.separators)


class Pending:
    """A request under way. ``sent_ns`` and ``answered_ns`` are monotonic times."""

    def __init__(self, channel: ControlChannel, number: int, op: str) -> None:
        self.number = number
        self.op = op
        self.sent_ns = time.monotonic_ns()
        self.answered_ns = 0
        self.outcome: dict[str, Any] | EngineFailure | None = None
        self._channel = channel

    @property
    def done(self) -> bool:
        """True if there is an answer, good or bad; never raises."""
        return self.outcome is not None

    def wait(self, timeout_s: float) -> dict[str, Any]:
        """Return the answer; raises EngineFailure (BAD_ANSWER, REFUSED, NO_ANSWER, ...)."""
        self._channel.wait_for(lambda: self.done, timeout_s, f"no answer to {self.op}")
        if self.outcome is None:
            self._channel.raise_if_over(f"before it answered {self.op}")
            self._channel.fail(Code.NO_ANSWER, f"no answer to {self.op} within {timeout_s:.3g} s")
        if isinstance(self.outcome, EngineFailure):
            raise self.outcome
        return self.outcome


class ControlChannel:
    """Matches answers to requests. Lines come from one thread, requests from any.

    ``tail`` gives the last lines of stderr, ``process_note`` what is known of the process right
    now ("; it is stopped by a signal" or ""). One condition guards all state. ``clock`` measures
    time limits. Requests are written in a ``style``; each has the ``extra`` members.
    """

    def __init__(
        self,
        tail: Callable[[], tuple[str, ...]],
        process_note: Callable[[], str],
        style: Style = Style(),
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._tail = tail
        self._process_note = process_note
        self._changed = threading.Condition()
        self._pending: dict[int, Pending] = {}
        self._style, self._asked, self._extra = style, 0, extra
        self.violations: list[EngineFailure] = []
        self.returncode: int | None = None
        self.kit_error: BaseException | None = None
        self.clock = FairClock()

    def submit(self, op: str, fields: dict[str, Any]) -> tuple[Pending, str]:
        """Open a request; return it with its line (no newline). Raises as `Pending.wait`."""
        self.raise_if_over(f"before {op} was asked")
        with self._changed:
            number = self._style.first_id + self._asked * self._style.step
            self._asked += 1
            self._pending[number] = pending = Pending(self, number, op)
        return pending, self._style.line({"id": number, "op": op, **self._extra, **fields})

    def receive(self, line: bytes, overlong: bool, t_ns: int) -> None:
        """Take one line of the engine's stdout."""
        quoted = shown(line.decode("utf-8", "backslashreplace"), 200)
        if overlong:
            return self._violate(Code.BAD_LINE, f"a line longer than {MAX_LINE} bytes: {quoted}")
        try:
            answer = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            return self._violate(Code.BAD_LINE, f"a line on stdout that is not JSON: {quoted}")
        if not isinstance(answer, dict):
            return self._violate(Code.BAD_LINE, f"expected a JSON object a line; got {quoted}")
        number = answer.get("id")
        with self._changed:
            pending = self._pending.pop(number, None) if type(number) is int else None
            if pending is not None:
                # After a violation no answer counts: else its timing would decide the run.
                judged = self._judged(pending.op, answer, quoted)
                pending.outcome = self.violations[0] if self.violations else judged
                pending.answered_ns = t_ns
                self._changed.notify_all()
                return None
        first, step = self._style.first_id, self._style.step
        twice = type(number) is int and number in range(first, first + self._asked * step, step)
        which = f"id {number} a second time" if twice else "no request of the kit"
        return self._violate(Code.UNKNOWN_ANSWER, f"an answer to {which}: {quoted}")

    def _judged(self, op: str, answer: dict[str, Any], quoted: str) -> dict | EngineFailure:
        ok, error, definite = answer.get("ok"), answer.get("error"), answer.get("definite")
        if ok is True:
            problem = CHECKS[op](answer) if op in CHECKS else ""
            if not problem:
                return answer
        elif ok is not False:
            problem = "ok: expected true or false"
        elif not isinstance(error, str):
            problem = "error: expected text with ok false"
        elif not isinstance(definite, bool):
            problem = "definite: expected true or false with ok false"
        else:
            known = "" if definite else " (outcome not known)"
            message = f"{op} was refused{known}: {shown(error, 500)}"
            return self.failure(Code.REFUSED, message, error=error, definite=definite)
        return self.failure(Code.BAD_ANSWER, f"answer to {op}: {problem}; got {quoted}")

    def _violate(self, code: Code, message: str) -> None:
        with self._changed:
            self.violations.append(self.failure(code, message))
            self._changed.notify_all()

    @property
    def abandoned(self) -> bool:
        """True if the engine broke the protocol too often for its lines to count."""
        return len(self.violations) >= MAX_VIOLATIONS

    def exited(self, returncode: int) -> None:
        """Note the end of argv's process: open requests fail with EXITED."""
        with self._changed:
            self.returncode = returncode
            self._changed.notify_all()

    def kit_failed(self, error: BaseException) -> None:
        """Note that the kit itself failed (a full disk, say): every later call raises it."""
        with self._changed:
            self.kit_error = self.kit_error or error
            self._changed.notify_all()

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for a condition, the end of the engine, a violation or the deadline.

        Raises EngineFailure as `FairClock.overdue`, which says ``what``.
        """

        def over() -> bool:
            ended = self.returncode is not None or self.kit_error or self.violations
            return bool(condition() or ended)

        with self._changed:
            self.clock.wait(partial(self._changed.wait_for, over), timeout_s, what)

    def wait_for_exit(self, timeout_s: float) -> int | None:
        """Return the return code, or None at the deadline; raises as `wait_for`."""
        self.clock.wait(
            lambda left_s: self.exits_within(left_s) is not None,
            timeout_s,
            "no end of argv's process",
        )
        return self.returncode

    def exits_within(self, seconds: float) -> int | None:
        """Wait for some seconds of the wall clock, no longer; return the return code or None."""
        with self._changed:
            self._changed.wait_for(lambda: self.returncode is not None, seconds)
        return self.returncode

    def raise_if_over(self, when: str) -> None:
        """Raise what makes further answers impossible or meaningless."""
        if self.kit_error is not None:
            raise self.kit_error
        if self.violations:
            raise self.violations[0]
        if self.returncode is not None:
            self.fail(Code.EXITED, f"the engine {ending(self.returncode)} {when}")

    def failure(self, code: Code, message: str, **facts: Any) -> EngineFailure:
        """Make a failure with the last lines of stderr."""
        return EngineFailure(code, message, self._tail(), **facts)

    def fail(self, code: Code, message: str) -> NoReturn:
        """Raise a failure with what is known of the process."""
        raise self.failure(code, message + self._process_note(), status=self.returncode)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def ending(returncode: int) -> str:
    """Say how a process ended: "exited with status 3", "was killed by SIGKILL"."""
    if returncode >= 0:
        return f"exited with status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return f"was killed by {name}"
