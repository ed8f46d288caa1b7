"""Processes that play runs side by side: loaded once, and gone with the kit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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


#: Has a path of its own and one more variable, and asks a pool what is found with them.
ELSEWHERE = """
import os, sys
sys.path.insert(0, "mine")
import plays
from tickproof.conformance.engines.process_pool import process_pool
first = process_pool(1, plays.where)
first.submit(plays.where).result()
os.environ["LATER"] = "1"
print(*process_pool(1, plays.where).submit(plays.where).result(), sep="\\n")
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


def test_they_find_what_this_process_finds_and_have_its_environment(tmp_path: Path) -> None:
    for name in ("mine", "."):
        (tmp_path / name).mkdir(exist_ok=True)
        where = f"import os\ndef where(): return {name!r}, sorted(os.environ)"
        (tmp_path / name / "plays.py").write_text(where)
    root = next(path for path in map(Path, sys.path) if (path / "tickproof").exists())
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", ELSEWHERE]
    said = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert said.splitlines() == ["mine", str(sorted([*environment, "LATER", "LC_CTYPE"]))]
