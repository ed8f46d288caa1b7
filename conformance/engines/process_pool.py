"""Processes of the kit that play runs side by side."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

from tickproof.conformance.errors import RequestError


def process_pool(
    workers: int, initializer: Callable[[], None] | None = None
) -> ProcessPoolExecutor:
    """Return a pool of processes; raises RequestError if this machine cannot have one.

    They are spawned, not forked: a run starts threads and processes of its own, and forking could
    copy a thread of this process in the middle of something.
    """
    try:
        return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer)
    except (OSError, ImportError, NotImplementedError) as error:
        raise RequestError(
            "this machine cannot play runs in several processes, for they share semaphores: "
            f"expected a /dev/shm that can be written to; got: {error}"
        ) from error
