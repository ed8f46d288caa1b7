"""Real-time policy: whether it may be set, tried in a thread that ends at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

#: What SCHED_FIFO and SCHED_RR take.
LEAST_PRIORITY, MOST_PRIORITY = 1, 99


def refused(priority: int = LEAST_PRIORITY) -> str:
    """Return why SCHED_FIFO at ``priority`` may not be set, "" where it may.

    It is set for a thread made for this and nothing else, so nothing of the process changes.
    """
    answers: list[str] = []

    def attempt() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
        except OSError as error:
            answers.append((error.strerror or "refused").lower())

    _in_thread(attempt)
    return answers[0] if answers else ""


def settable(cores: tuple[int, ...]) -> tuple[int, ...]:
    """Return those of ``cores`` that the kernel lets a thread of this process be set to."""
    answers: list[set[int]] = []

    def attempt() -> None:
        try:
            os.sched_setaffinity(0, cores)
        except OSError:
            return
        answers.append(os.sched_getaffinity(0))

    _in_thread(attempt)
    return tuple(sorted(answers[0])) if answers else ()


def _in_thread(attempt: Callable[[], None]) -> None:
    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join()
