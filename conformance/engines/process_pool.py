"""Processes of the kit that play runs side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import forkserver
from typing import Any

from tickproof.conformance.engines.loading import one_thread
from tickproof.conformance.errors import RequestError


def process_pool(
    workers: int, plays: Callable[..., Any], initializer: Callable[[], None] | None = None
) -> ProcessPoolExecutor:
    """Return a pool of processes that call ``plays``; raises RequestError if there can be none.

    They are forked by a process that has loaded its module and has no threads: a run starts some,
    and forking this process could copy one in the middle of something. They end with this one,
    and have its environment.
    """
    try:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["__main__", plays.__module__])
        environment = dict(os.environ)
        with _path_told():
            forkserver.ensure_running()
        return ProcessPoolExecutor(workers, context, _begin, (environment, initializer))
    except (OSError, ImportError, NotImplementedError) as error:
        raise RequestError(
            "this machine cannot play runs in several processes, for they share semaphores: "
            f"expected a /dev/shm that can be written to; got: {error}"
        ) from error


@contextmanager
def _path_told() -> Iterator[None]:
    """Have a Python that is started meanwhile find the modules that this one finds.

    What is forked later gets sys.path by itself, but not the process that forks: it would load
    another kit that lies in the working directory, or the one that is installed beside a checkout.
    It has numpy start no threads either, as `loading` does.
    """
    told = {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONSAFEPATH": "1"} | one_thread()
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _begin(environment: Mapping[str, str], initializer: Callable[[], None] | None) -> None:
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_end_with_the_kit, name="end with the kit", daemon=True).start()
    if initializer is not None:
        initializer()


def _end_with_the_kit() -> None:
    if kit := multiprocessing.parent_process():
        kit.join()
        os.kill(os.getpid(), signal.SIGKILL)
