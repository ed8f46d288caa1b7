"""Processes that play runs side by side: loaded once, and gone with the kit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import psutil

from tickproof.conformance.engines.process_pool import process_pool

#: Starts a pool, says who works in it, and waits to be killed.
KIT = """
from time import sleep
from tests.engines.test_process_pool import who
from tickproof.conformance.engines.process_pool import process_pool
pool = process_pool(2, who)
print(pool.submit(who).result(), flush=True)
sleep(600)
"""


def who() -> int:
    return os.getpid()


def test_all_are_forked_by_one_process_that_is_not_this_one() -> None:
    with process_pool(2, who) as pool:
        worker = psutil.Process(pool.submit(who).result())
        above = worker.parent()
    with process_pool(1, who) as pool:
        assert psutil.Process(pool.submit(who).result()).parent() == above
    assert above is not None and above.pid != os.getpid()


def test_they_end_with_the_kit(wait_until: Callable[..., bool]) -> None:
    kit = subprocess.Popen([sys.executable, "-c", KIT], stdout=subprocess.PIPE, text=True)
    worker = psutil.Process(int(kit.stdout.readline()))
    started = [worker, *worker.parents()[:1]]
    kit.send_signal(signal.SIGKILL)
    kit.wait()
    kit.stdout.close()
    assert wait_until(lambda: not any(process.is_running() for process in started))
