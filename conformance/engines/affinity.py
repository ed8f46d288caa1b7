"""Which cores a process that is started here may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator


def go_to(cores: Collection[int]) -> None:
    """Let this thread, and all that it starts from now on, run on ``cores`` only.

    Raises OSError, with the cores in its text, where one does not exist or may not be used.
    """
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        wanted = ", ".join(map(str, cores))
        raise OSError(error.errno, f"cores {wanted}: {error.strerror}") from error


@contextlib.contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Let what this thread starts meanwhile run on ``cores`` only; none given: as it is.

    Raises OSError as `go_to` does.
    """
    before = os.sched_getaffinity(0)
    if cores:
        go_to(cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
