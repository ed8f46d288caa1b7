"""One start of an engine: its processes, its control lines, and its end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.affinity import on_cores
from tickproof.conformance.engines.control_channel import ControlChannel, Pending, Style, ending
from tickproof.conformance.engines.failures import Code, EngineFailure
from tickproof.conformance.engines.fair_clock import FairClock
from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation, Level
from tickproof.conformance.engines.launcher import launch
from tickproof.conformance.engines.output_streams import MAX_STDERR, LineSplitter, StderrLog
from tickproof.conformance.engines.process_info import ProcessInfo, paused
from tickproof.conformance.engines.security import Access
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.engines.topology import Member, Roster, Unsettled
from tickproof.conformance.engines.workspace import Workspace
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.text import shown

__all__ = ["Engine", "EngineFailure", "Pending", "ProcessInfo"]

REAPER_TIMEOUT_S = 30.0  # for the kit's own reaper to come up
KILL_TIMEOUT_S = 15.0  # for processes to die of SIGKILL
FOLLOW_TIMEOUT_S = 1.0  # for the other processes to follow an exit with status 0

_CHUNK = 1 << 16
# What a pipe can hold: so much is read at most to see what came before an exit.
_PIPE_MAX = 1 << 20

#: Called with direction, line and time in ns.
OnLine = Callable[[str, str, int], None]


class Engine:
    """A started engine; use it as a context manager, so that no process outlives it.

    ``on_line(direction, line, t_ns)`` sees every control line, "to" or "from" the engine, one
    at a time and before it has any effect; it must not call the engine. Standard error goes to
    ``stderr_path``. ``workspace`` is the caller's to remove. ``clock`` measures time limits; its
    progress is that of the run. ``access`` is told in variables, and its password is masked in what
    the engine writes. Safe from any thread.
    """

    def __init__(
        self,
        spec: EngineSpec,
        run_id: str,
        stderr_path: Path,
        on_line: OnLine,
        workspace: Workspace,
        *,
        isolation: Isolation = UNPROTECTED,
        stderr_limit: int = MAX_STDERR,
        clock: FairClock | None = None,
        style: Style = Style(),  # noqa: B008 - it cannot be changed
        extra: Mapping[str, Any] = MappingProxyType({}),
        access: Access | None = None,
    ) -> None:
        self.spec = spec
        self._access = access
        self.run_id = run_id
        self.workspace = workspace
        self.isolation = isolation
        #: Where the engine reaches the kit in its sandbox, none outside of one; see `start`.
        self.listeners: list[socket.socket] = []
        self._above = 0
        self._roster = Roster(0, run_id)  # of nobody, until it is started
        self.pid = 0
        self._stderr_path = stderr_path
        self._stderr_limit = stderr_limit
        self._on_line = on_line
        self._line_lock = threading.Lock()
        note = lambda: paused(self.pid, self.returncode)  # noqa: E731
        self._channel = ControlChannel(self._stderr_tail, note, style, extra)
        self._channel.clock = clock or self._channel.clock
        self._started = False
        self._reaper: subprocess.Popen[bytes]
        self._status_lines: list[str] = []
        self._status_changed = threading.Condition()
        self._status_ended = False
        self._end_lock = threading.Lock()
        self._outbox = bytearray()
        self._outbox_lock = threading.Lock()
        self._stdin_wanted = True
        self._open: dict[str, int] = {}

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # -- start ---------------------------------------------------------------

    def start(self, cores: Collection[int] = (), ports: Sequence[int] = (0,)) -> None:
        """Start argv's process, on ``cores`` where some are given.

        ``ports`` are those that ``listeners`` get, in a sandbox.
        Raises EngineFailure NOT_FOUND when it cannot be run, OSError for cores that cannot be.
        """
        try:
            command = self.spec.command()
        except InvalidFile as error:
            raise EngineFailure(Code.NOT_FOUND, str(error)) from error
        self._stderr = self._stderr_log(self._stderr_path)
        self.workspace.begin_life()
        self.isolation.prepare(self.workspace)
        environment: dict[str, str] = {}
        if self._access is not None:
            self._access.write_ca(self.workspace.tmp)
            environment = self._access.environment(self.workspace.tmp)
        with on_cores(cores):
            self._reaper, self._open = launch(
                command, self.run_id, self.workspace, self.isolation, ports, environment
            )
        self._started = True
        self._thread = threading.Thread(target=self._io, name="engine-io", daemon=True)
        self._thread.start()
        up = lambda: any(line.startswith(("started", "failed")) for line in self._status_lines)  # noqa: E731
        self._await_status(up, REAPER_TIMEOUT_S, "the kit's reaper did not start")
        said = dict(line.partition(" ")[::2] for line in reversed(self._status_lines))
        self._above = int(said.get("above", 0)) or self._reaper.pid
        self._roster = Roster(self._above, self.run_id, self._channel.clock)
        word = "failed" if "failed" in said else "started" if "started" in said else ""
        rest = said.get(word, "")
        if word == "failed":
            why = os.strerror(int(rest))
            raise EngineFailure(Code.NOT_FOUND, f"cannot run {shown(command[0], 300)}: {why}")
        if word != "started":
            raise RuntimeError("the kit's reaper did not start\n" + "\n".join(self._stderr_tail()))
        # One that has ended meanwhile has no number out here.
        self.pid = self._roster.pid_of(int(rest)) or 0

    def hand_over(self, stderr_path: Path, on_line: OnLine, clock: FairClock) -> None:
        """Hand the engine over to a later run, which gets its control lines and its stderr."""
        self._channel.clock = self._roster.clock = clock
        self._write_stderr_to(stderr_path, on_line)

    def set_aside(self) -> None:
        """End its part in a run: what it says until a later one takes it over belongs to none."""
        self._write_stderr_to(Path(os.devnull), lambda *_: None)

    def _write_stderr_to(self, path: Path, on_line: OnLine) -> None:
        stderr = self._stderr_log(path)
        with self._line_lock:
            self._on_line = on_line
            before, self._stderr = self._stderr, stderr
        before.close()

    def _stderr_log(self, path: Path) -> StderrLog:
        secret = self._access.password if self._access is not None else ""
        return StderrLog(path, self._stderr_limit, secret)

    # -- talk ----------------------------------------------------------------

    def submit(self, op: str, **fields: Any) -> Pending:
        """Send a request and return at once; raises EngineFailure if it makes no sense now.

        Never blocks: what the engine's stdin cannot hold yet is sent as it reads.
        """
        with self._line_lock:
            pending, line = self._channel.submit(op, fields)
            self._on_line("to", line, pending.sent_ns)
        with self._outbox_lock:
            self._outbox += line.encode() + b"\n"
            self._flush()
        return pending

    def request(self, op: str, timeout_s: float, **fields: Any) -> dict[str, Any]:
        """Send a request and return the answer; raises EngineFailure (see `Code`)."""
        return self.submit(op, **fields).wait(timeout_s)

    def topology(self, timeout_s: float, survives: Collection[str] = ()) -> list[Member]:
        """Ask for the processes and prove each the engine's own (else FOREIGN_PID).

        See `Roster.ask` for answers that it is asked again for. survives: what the app claims.
        """
        ask = lambda left_s: self.request("topology", left_s)["processes"]  # noqa: E731
        claimed = survives, self.pid, self.spec.timeouts.recovery_s
        try:
            return self._roster.ask(ask, self._channel.exits_within, timeout_s, *claimed)
        except Unsettled as wrong:
            raise (wrong if self.returncode is None else self.exited()) from None

    def close_stdin(self) -> None:
        """End the engine's stdin, once it has read what was sent."""
        with self._outbox_lock:
            self._stdin_wanted = False
            self._flush()

    def _flush(self) -> None:
        """Write what stdin takes (the outbox lock is held); leave the rest to the thread."""
        descriptor = self._open.get("stdin")
        if descriptor is None:
            self._outbox.clear()
            return
        try:
            while self._outbox:
                del self._outbox[: os.write(descriptor, self._outbox[:_CHUNK])]
        except BlockingIOError:
            self._wake()
            return
        except BrokenPipeError:
            # The engine no longer reads: its exit or a deadline will show it.
            self._outbox.clear()
        if not self._stdin_wanted:
            os.close(self._open.pop("stdin"))

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._open["waker"], b"w")

    @property
    def violations(self) -> list[EngineFailure]:
        """Violations on stdout so far; every later request raises the first."""
        return self._channel.violations

    @property
    def returncode(self) -> int | None:
        """The exit status of argv's process, minus the signal's number, None while alive."""
        return self._channel.returncode

    def exited(self) -> EngineFailure:
        """Return the failure that says how argv's process ended, for an exit not asked for."""
        how = "still runs" if (code := self.returncode) is None else ending(code)
        return self._channel.failure(Code.EXITED, f"the engine {how}, unasked", status=code)

    def wait_exit(self, timeout_s: float) -> int:
        """Wait for the end of argv's process; raises EngineFailure NO_EXIT at the deadline."""
        returncode = self._channel.wait_for_exit(timeout_s)
        if returncode is None:
            after = "" if self._stdin_wanted else " after the end of its stdin"
            self._channel.fail(Code.NO_EXIT, f"still running {timeout_s:.3g} s{after or ' later'}")
        return returncode

    def _stderr_tail(self) -> tuple[str, ...]:
        return self._stderr.tail() if self._started else ()

    # -- the thread that reads -------------------------------------------------

    def _io(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self._channel.kit_failed(error)
            self._add_status(None)
            raise

    def _follow(self) -> None:
        """Read stdout, stderr and the reaper's status until the reaper is gone."""
        self._lines = LineSplitter()
        selector = selectors.DefaultSelector()
        for name in ("stdout", "stderr", "wake", "status"):
            selector.register(self._open[name], selectors.EVENT_READ, name)
        with selector:
            while not self._status_ended:
                with self._outbox_lock:
                    waiting = self._open.get("stdin") if self._outbox else None
                    if waiting is not None:
                        selector.register(waiting, selectors.EVENT_WRITE, "stdin")
                ready = {key.data for key, _ in selector.select()}
                if waiting is not None:
                    selector.unregister(waiting)
                if "stdin" in ready:
                    with self._outbox_lock:
                        self._flush()
                for name in ("stdout", "stderr"):
                    if name in ready and not self._take(name):
                        selector.unregister(self._open[name])
                if "wake" in ready:
                    os.read(self._open["wake"], _CHUNK)
                if "status" in ready:
                    self._take_status()

    def _take(self, name: str) -> bool:
        """Take one chunk of stdout or stderr; False at its end."""
        chunk = os.read(self._open[name], _CHUNK)
        try:
            if name == "stderr":
                with self._line_lock:
                    self._stderr.write(chunk)
            elif not self._channel.abandoned and self._channel.kit_error is None:
                self._listen(chunk)
        except Exception as error:  # the engine must not block on a pipe that nobody reads
            self._channel.kit_failed(error)
        return bool(chunk)

    def _listen(self, chunk: bytes) -> None:
        t_ns = time.monotonic_ns()
        for line, overlong in self._lines.feed(chunk):
            with self._line_lock:
                self._on_line("from", line.decode("utf-8", "backslashreplace"), t_ns)
            self._channel.receive(line, overlong, t_ns)
            if self._channel.abandoned:
                return

    def _take_status(self) -> None:
        """Read the reaper's status lines; each is written whole."""
        with socket.socket(fileno=os.dup(self._open["status"])) as status:
            words, passed, _, _ = socket.recv_fds(status, _CHUNK, 1)
        if passed:
            self._take_over(passed[0], words.decode().splitlines()[-1])
        for line in words.decode().splitlines():
            if line.startswith("exited "):
                # All that was said before the exit is in the pipes by now: it comes first.
                self._take_rest()
                code = os.waitstatus_to_exitcode(int(line.split()[1]))
                if code == 0 and (rest := self._lines.rest()):  # an end without its newline
                    self._channel.receive(rest, False, time.monotonic_ns())
                self._channel.exited(code)
            self._add_status(line)
        if not words:
            self._take_rest()
            if self.returncode is None:  # the reaper was killed, and with it the engine
                self._channel.exited(-signal.SIGKILL)
            self._add_status(None)

    def _take_over(self, descriptor: int, line: str) -> None:
        """Take what came with a line of the reaper."""
        if line == "listening":
            self.listeners.append(socket.socket(fileno=descriptor))
        else:
            assert self.isolation.disk is not None
            self.isolation.disk.serve(descriptor)

    def _add_status(self, line: str | None) -> None:
        with self._status_changed:
            if line is None:
                self._status_ended = True
            else:
                self._status_lines.append(line)
            self._status_changed.notify_all()

    def _take_rest(self) -> None:
        for name in ("stdout", "stderr"):
            with contextlib.suppress(BlockingIOError):
                for _ in range(_PIPE_MAX // _CHUNK + 1):
                    if not self._take(name):
                        break

    def _await_status(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        over = partial(self._status_changed.wait_for, lambda: condition() or self._status_ended)
        with self._status_changed:
            self._channel.clock.wait(over, timeout_s, what, moves=False)

    # -- end -----------------------------------------------------------------

    def kill(self) -> list[int]:
        """Kill every process of the engine as one; return their pids once all are gone.

        Raises EngineFailure NOT_GONE when one survives SIGKILL for 15 s.
        """
        with self._end_lock:
            pids = [proc.pid for proc in self.living()]
            self._kill()
            return pids

    def terminate(self, grace_s: float) -> list[int]:
        """Send every process SIGTERM, and wait until none is left, ``grace_s`` at most.

        Returns the pids of all that lived: one may end because another has.
        """
        lived = self.living()
        for proc in lived:
            process_table.send(proc, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while (left := self.living()) and time.monotonic() < deadline:
            process_table.wait_for_one(left)
        return [proc.pid for proc in lived]

    def end(self) -> list[ProcessInfo]:
        """Kill what is left, close everything, return what was left; may be called again.

        After an exit with status 0, or the end of stdin, other processes get a second to follow.
        """
        with self._end_lock:
            if not self._open:
                return []
            try:
                asked = self.returncode == 0 or (self.returncode and not self._stdin_wanted)
                left = self._followed() if asked else self.living()
                self._kill()
            finally:
                self._close()
            return [ProcessInfo.of(proc) for proc in left]

    def _gone(self) -> bool:
        """Return True if the reaper has said that nothing is left (or was never started)."""
        words = self._status_lines[-1:]
        return not self._open or (bool(words) and words[0].split()[0] in ("gone", "failed"))

    def living(self) -> list[process_table.Proc]:
        """Return the processes of the engine that live now, those it has not named too."""
        return [] if self._gone() else self._roster.living()

    def _followed(self) -> list[process_table.Proc]:
        # Only the reaper knows when none is left: a reading of the process table misses a
        # child that was forked meanwhile by a parent that has ended since.
        alone = lambda: "alone" in self._status_lines  # noqa: E731
        self._await_status(alone, FOLLOW_TIMEOUT_S, "processes outlive the engine's end")
        return self.living()

    def start_host(self, number: int) -> None:
        """Have the starter of a host run again; ``number``: 1 for the second host, and so on."""
        with self._end_lock, contextlib.suppress(BrokenPipeError, KeyError):  # or it has ended
            os.write(self._open["control"], bytes([number]))

    def _kill(self) -> None:
        if self._gone():
            return
        if self.isolation.level != Level.SANDBOX:
            # An engine may have stopped the reaper, and must not do so again.
            process_table.stop_all(self.living, 0.0)
            self._reaper.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            os.write(self._open["control"], b"e")
        self._await_status(lambda: False, KILL_TIMEOUT_S, "processes survive SIGKILL")
        if not self._gone():
            self._sweep()

    def _sweep(self) -> None:
        """Do the reaper's work after it was killed or held up."""
        left = process_table.kill_all(self._roster.living, lambda: True, KILL_TIMEOUT_S)
        self._reaper.kill()
        if left:
            pids = ", ".join(str(proc.pid) for proc in left)
            # What waits for a disk dies when the disk answers: that is no choice of its own.
            held = all(proc.state == "D" for proc in left)
            code = Code.MACHINE_BUSY if held else Code.NOT_GONE
            raise EngineFailure(code, f"processes survive SIGKILL: {pids}")

    def _close(self) -> None:
        if not self._status_ended:
            self._reaper.kill()
        self._reaper.wait(REAPER_TIMEOUT_S)
        self._thread.join(REAPER_TIMEOUT_S)
        self._roster.close()
        self._stderr.close()
        for listener in self.listeners:
            listener.close()
        with self._outbox_lock:
            while self._open:
                os.close(self._open.popitem()[1])
