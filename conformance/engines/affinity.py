"""Sets which cores a process started here may use."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator


@contextlib.contextmanager
def on_cores(cores: Collection[int]) -> Iterator[None]:
    """Restrict what this thread starts meanwhile to ``cores``; none given: no restriction.

    Raises OSError, with the cores in its text, where one does not exist or may not be used.
    """
    before = os.sched_getaffinity(0)
    try:
        if cores:
            os.sched_setaffinity(0, cores)
    except OSError as error:
        wanted = ", ".join(map(str, cores))
        raise OSError(error.errno, f"cores {wanted}: {error.strerror}") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
