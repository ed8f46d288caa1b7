"""Processes that play runs side by side: loaded once, and gone with the kit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import psutil
import pytest

from tickproof.conformance.engines.process_pool import TaskPool

#: Starts a pool, says who works in it, and waits to be killed.
KIT = """
from time import sleep
from tests.engines.test_process_pool import who
from tickproof.conformance.engines.process_pool import TaskPool
pool = TaskPool(2, who)
print(pool.start(None).result(), flush=True)
sleep(600)
"""


#: Has a path of its own and one more variable, and asks a pool what is found with them.
ELSEWHERE = """
import os, sys
sys.path.insert(0, "mine")
import plays
from tickproof.conformance.engines.process_pool import TaskPool
with TaskPool(1, plays.where) as first:
    first.start(None).result()
os.environ["LATER"] = "1"
with TaskPool(1, plays.where) as second:
    print(*second.start(None).result(), sep="\\n")
"""


def who(_task: object) -> int:
    return os.getpid()


def spelled(word: str) -> str:
    """Return a word, but for what a word asks: to be interrupted, or to die."""
    if word == "interrupted":
        os.kill(os.getpid(), signal.SIGINT)
    if word == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    return word


def test_all_are_forked_by_one_process_that_is_not_this_one() -> None:
    with TaskPool(2, who) as pool:
        worker = psutil.Process(pool.start(None).result())
        above = worker.parent()
    with TaskPool(1, who) as pool:
        assert psutil.Process(pool.start(None).result()).parent() == above
    assert above is not None and above.pid != os.getpid()


def test_they_end_with_the_kit(wait_until: Callable[..., bool]) -> None:
    # Who is killed leaves the folder of its sockets, whose paths have to be short.
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder}
        command = [sys.executable, "-c", KIT]
        kit = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        _ends_with_the_kit(kit, wait_until)


def _ends_with_the_kit(kit: subprocess.Popen[str], wait_until: Callable[..., bool]) -> None:
    worker = psutil.Process(int(kit.stdout.readline()))
    started = [worker, *worker.parents()[:1]]
    kit.send_signal(signal.SIGKILL)
    kit.wait()
    kit.stdout.close()
    assert wait_until(lambda: not any(process.is_running() for process in started))


def test_they_find_what_this_process_finds_and_have_its_environment(tmp_path: Path) -> None:
    for name in ("mine", "."):
        (tmp_path / name).mkdir(exist_ok=True)
        where = f"import os\ndef where(_): return {name!r}, sorted(os.environ)"
        (tmp_path / name / "plays.py").write_text(where)
    root = next(path for path in map(Path, sys.path) if (path / "tickproof").exists())
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", ELSEWHERE]
    said = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert said.splitlines() == ["mine", str(sorted([*environment, "LATER", "LC_CTYPE"]))]


def test_a_chain_goes_on_when_the_end_of_its_task_was_taken() -> None:
    seen: list[str] = []

    def chain_of(letter: str, numbers: str) -> Iterator[str]:
        for at, number in enumerate(numbers):
            assert [one for one in seen if one[0] == letter] == [letter + n for n in numbers[:at]]
            yield letter + number

    with TaskPool(2, spelled) as pool:
        for task, ended in pool.each([chain_of("a", "123"), iter([]), chain_of("b", "1")]):
            assert ended.result() == task
            seen.append(task)
    assert sorted(seen) == ["a1", "a2", "a3", "b1"]


def test_a_task_is_taken_when_there_is_room_for_it_and_none_after_the_end() -> None:
    taken: list[str] = []

    def words() -> Iterator[str]:
        for word in "abcdef":
            taken.append(word)
            yield word

    with TaskPool(2, spelled) as pool:
        found = pool.results(words())
        for number in range(1, 4):
            next(found)
            assert len(taken) == number + 1


def test_an_interrupt_ends_a_task_and_leaves_its_process() -> None:
    with TaskPool(1, spelled) as pool:
        with pytest.raises(KeyboardInterrupt):
            pool.start("interrupted").result()
        assert list(pool.results(["a", "b"])) == ["a", "b"]


def test_all_tasks_fail_once_a_process_has_died() -> None:
    with TaskPool(1, spelled) as pool:
        found = list(pool.each([iter(["dies", "a"]), iter(["b"])]))
    assert [task for task, _ in found] == ["dies", "b", "a"]
    assert all(isinstance(ended.exception(), BrokenProcessPool) for _, ended in found)
