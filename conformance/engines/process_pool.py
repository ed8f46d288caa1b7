"""Processes of the kit that play runs side by side."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from functools import partial
from multiprocessing import forkserver
from types import TracebackType
from typing import Generic, Self, TypeVar

from tickproof.conformance.engines.loading import one_thread
from tickproof.conformance.errors import RequestError

Task = TypeVar("Task")
Result = TypeVar("Result")


class Pool(Generic[Task, Result]):
    """An executor that does tasks with ``do``; leaving it cancels what did not begin."""

    def __init__(self, executor: Executor, workers: int, do: Callable[[Task], Result]) -> None:
        self.workers, self._executor, self._do = workers, executor, do

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._executor.shutdown(cancel_futures=True)

    def start(self, task: Task) -> Future[Result]:
        """Start a task. One that finds a process dead fails like those that it had begun."""
        try:
            return self._executor.submit(self._do, task)
        except BrokenExecutor as error:
            failed: Future[Result] = Future()
            failed.set_exception(error)
            return failed

    def results(self, tasks: Iterable[Task]) -> Iterator[Result]:
        """Yield results as they come. A task is taken when there is room for it, and not before."""
        for _, ended in self.each(iter([task]) for task in tasks):
            yield ended.result()

    def each(self, chains: Iterable[Iterator[Task]]) -> Iterator[tuple[Task, Future[Result]]]:
        """Yield tasks as they end. The tasks of a chain are done one after the other.

        The next one is asked for when the end of the one before was taken, and there is room.
        """
        unbegun, begun = iter(chains), deque[Iterator[Task]]()
        running: dict[Future[Result], tuple[Task, Iterator[Task]]] = {}
        try:
            while True:
                while len(running) < self.workers and (
                    chain := next(unbegun, None) or (begun.popleft() if begun else None)
                ):
                    for task in chain:
                        running[self.start(task)] = task, chain
                        break
                if not running:
                    return
                ended = next(iter(wait(running, return_when=FIRST_COMPLETED).done))
                task, chain = running.pop(ended)
                yield task, ended
                begun.append(chain)
        finally:
            for future in running:
                future.cancel()


class TaskPool(Pool[Task, Result]):
    """``workers`` processes that call ``do`` with tasks.

    They are forked by a process that has loaded the module of ``do`` and has no threads: a run
    starts some, and forking this process could copy one in the middle of something. They end with
    this one, and have its environment. Ctrl-C, which a terminal tells them too, interrupts tasks,
    never a process that waits for one. Raises RequestError if there can be no processes.
    """

    def __init__(self, workers: int, do: Callable[[Task], Result]) -> None:
        try:
            context = multiprocessing.get_context("forkserver")
            context.set_forkserver_preload(["__main__", do.__module__])
            environment = dict(os.environ)
            with _path_told():
                forkserver.ensure_running()
            executor = ProcessPoolExecutor(workers, context, _begin, (environment,))
        except (OSError, ImportError, NotImplementedError) as error:
            raise RequestError(
                "this machine cannot play runs in several processes, for they share semaphores: "
                f"expected a /dev/shm that can be written to; got: {error}"
            ) from error
        super().__init__(executor, workers, partial(_interruptible, do))


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


def _interruptible(do: Callable[[Task], Result], task: Task) -> Result:
    """Let Ctrl-C end a task, but not the process that does it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return do(task)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _begin(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_kit, name="end with the kit", daemon=True).start()


def _end_with_the_kit() -> None:
    if kit := multiprocessing.parent_process():
        kit.join()
        os.kill(os.getpid(), signal.SIGKILL)
