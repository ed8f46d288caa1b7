"""A page whose commands build on each other, walked: files, a log, jobs that are killed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from tests.conftest import wait_until
from tests.docs.blocks import ROOT, Block
from tests.docs.playing import shape, steps

DEADLINE_S = 180
#: What makes the environment that a test has already.
SET_UP = ("mkdir", "python3", "pip")
#: Runs one program after the other, so that they share a Spark.
RUN_EACH = """
import runpy, sys
for line in sys.stdin:
    runpy.run_path(line.strip(), run_name="__main__")
    print("-- done", flush=True)
"""


def _shape(line: str) -> str:
    """Return a line with every number alike, and every token."""
    return shape(re.sub(r"\b[0-9a-f]{32}\b", "TOKEN", line))


class Program:
    """A program that was started in a folder, and what it prints."""

    def __init__(self, folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL) -> None:
        self.arguments, self._read = arguments, 0
        self._output, self._errors = (
            folder / f"{name}-{len(list(folder.glob('stdout-*')))}.txt"
            for name in ("stdout", "stderr")
        )
        programs = Path(sys.executable).parent  # where Spark finds its python3
        with self._output.open("w") as output, self._errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-u", *arguments],
                cwd=folder,
                text=True,
                stdin=stdin,
                stdout=output,
                stderr=errors,
                env=os.environ
                | {
                    "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
                    "PYTHONPATH": str(ROOT),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                },
            )

    def line(self) -> str:
        """Return the next line that it prints; it has to come."""

        def lines() -> list[str]:
            return self._output.read_text().split("\n")[:-1]

        def come() -> bool:
            return len(lines()) > self._read or self.process.poll() is not None

        wait_until(come, DEADLINE_S)
        assert len(lines()) > self._read, f"{self.arguments}: no further line\n{self.errors()}"
        self._read += 1
        return lines()[self._read - 1]

    def rest(self, status: int = 0) -> list[str]:
        """Wait for its end; return the lines that were not read."""
        assert self.process.wait(DEADLINE_S) == status, f"{self.arguments}\n{self.errors()}"
        return self._output.read_text().splitlines()[self._read :]

    def errors(self) -> str:
        """Return what it wrote to standard error."""
        return self._errors.read_text()


class Walk:
    """Does with the blocks of a page what its reader would do; a context manager.

    before_a_kill: returns once the time for it has come. Programs that start a Spark and end are
    run one after the other in one process.
    """

    def __init__(self, folder: Path, before_a_kill: Callable[[], None]) -> None:
        self._folder, self._before_a_kill = folder, before_a_kill
        self._started: list[Program] = []
        self._log: Program | None = None
        self._job: Program | None = None
        self._one_spark: Program | None = None
        self._address: list[str] = []
        #: Programs that were run, by file, and how often a job was killed.
        self.ran: list[str] = []
        self.kills = 0

    def follow(self, block: Block) -> None:
        """Write the file that a block is, or run its commands and expect the lines it shows."""
        if block.file:
            (self._folder / block.file).write_text(block.body)
        for command, shown in steps(block) if block.kind == "console" else ():
            words = shlex.split(command)
            if words[0] in SET_UP:
                continue
            said = self._run(words)
            printed = {_shape(line) for line in said}
            missing = [line for line in shown if _shape(line) not in printed]
            assert not missing, f"{block}: {command} does not print {missing}, but {said}"

    def _run(self, words: list[str]) -> list[str]:
        """Run a command; return what it has printed when the reader goes on."""
        match words:
            case ["tickproof", "log", *_]:
                self._log = self._start("-m", *words)
                said = self._log.line()
                self._address = said.split()
                return [said]
            case ["python", file, _host, _port, _token, limit]:
                self.ran.append(file)
                self._job = self._start(file, *self._address, limit)
                # Until one was killed, the reader has something else to do meanwhile.
                return [self._job.line(), *(self._job.rest() if self.kills else ())]
            case ["python", file]:
                self.ran.append(file)
                if "session.start" in (self._folder / file).read_text():
                    return self._with_one_spark(file)
                return self._start(file).rest()
            case ["pytest", *_]:
                return self._start("-m", *words, "-p", "no:cacheprovider").rest()
            case ["kill", "-9", _]:
                self._kill()
                return []
            case ["wc", *_]:
                done = subprocess.run(words, cwd=self._folder, capture_output=True, check=True)
                return done.stdout.decode().splitlines()
        raise AssertionError(f"nobody has said how {words} is walked")

    def _start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> Program:
        self._started.append(Program(self._folder, *arguments, stdin=stdin))
        return self._started[-1]

    def _with_one_spark(self, file: str) -> list[str]:
        if self._one_spark is None:
            self._one_spark = self._start("-c", RUN_EACH, stdin=subprocess.PIPE)
        assert self._one_spark.process.stdin
        self._one_spark.process.stdin.write(f"{file}\n")
        self._one_spark.process.stdin.flush()
        said: list[str] = []
        while (line := self._one_spark.line()) != "-- done":
            said.append(line)
        return said

    def _kill(self) -> None:
        assert self._job
        self._before_a_kill()
        below = psutil.Process(self._job.process.pid).children(recursive=True)
        self._job.process.kill()
        self._job.rest(-signal.SIGKILL)
        self.kills += 1
        # Its JVM, and what that has started, end when they see that the driver is gone.
        _, left = psutil.wait_procs(below, DEADLINE_S)
        assert below and not left

    def __enter__(self) -> Walk:
        return self

    def __exit__(self, *_: object) -> None:
        if self._one_spark:
            assert self._one_spark.process.stdin
            self._one_spark.process.stdin.close()
        if self._log:
            self._log.process.terminate()
        for program in self._started:
            try:
                program.process.wait(DEADLINE_S if program in (self._log, self._one_spark) else 0)
            except subprocess.TimeoutExpired:
                program.process.kill()
                program.process.wait()
