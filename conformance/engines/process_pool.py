"""Processes of the kit that play runs side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tickproof.conformance.errors import RequestError


def process_pool(
    workers: int, plays: Callable[..., Any], initializer: Callable[[], None] | None = None
) -> ProcessPoolExecutor:
    """Return a pool of processes that call ``plays``; raises RequestError if there can be none.

    They are forked by a process that has loaded its module and has no threads: a run starts some,
    and forking this process could copy one in the middle of something. They end with this one.
    """
    try:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", plays.__module__])
        return ProcessPoolExecutor(workers, context, _begin, (initializer,))
    except (OSError, ImportError, NotImplementedError) as error:
        raise RequestError(
            "this machine cannot play runs in several processes, for they share semaphores: "
            f"expected a /dev/shm that can be written to; got: {error}"
        ) from error


def _begin(initializer: Callable[[], None] | None) -> None:
    threading.Thread(target=_end_with_the_kit, name="end with the kit", daemon=True).start()
    if initializer is not None:
        initializer()


def _end_with_the_kit() -> None:
    if kit := multiprocessing.parent_process():
        kit.join()
        os.kill(os.getpid(), signal.SIGKILL)
