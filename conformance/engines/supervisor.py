"""Starts and restarts the workers of an engine that has no control plane of its own.

A script: ``supervisor.py NAME VERSION ROLES WHERE ARGV...``. It answers the control protocol on
stdin and stdout (docs/protocol.md, section 3) for an engine that is only a command: deploy starts
ARGV once for each worker, with the variables of section 8; a worker that ends is started again;
stop kills them all. ROLES, a JSON object, has a regular expression for each role: where it is not
empty, ARGV is started once and is the whole engine, and a process has the role whose expression
is found in its command line. It touches no data. Only the standard library, and what is beside
it: it starts with every engine.

A user's own job has its argv, environment and working folder in the data of deploy, where
{worker} stands for the number of the worker.

Where deploy names hosts, worker N has its place on one of those that WHERE says (`[hosts]` of
engine.toml: ``first``, ``others`` or ``any``), and stays there, as what a machine starts by itself
does: one that is on a host which does not answer may live, and is not started a second time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

sys.path.append(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120 (-I drops it)
import host_starter
import process_table

#: A worker that has ended is started again after so long; twice as long each time it ends at once.
RESTART_S = 0.2
MOST_RESTART_S = 3.0
#: A worker that has lived for so long did not end at once.
SETTLED_S = 10.0
#: One of an engine that has ended at once so often, and by itself, cannot start.
MOST_ENDS = 6
#: Where the output of a worker goes: stdout is for control lines.
_STDERR = 2
#: For all processes to end after SIGKILL.
_KILL_S = 10.0
#: For a worker that is to leave to end by SIGTERM.
_LEAVE_S = 10.0
#: For workers on other hosts to be started, at first.
_PLACED_S = 5.0
#: What a worker on another host ends with that was killed, or whose host was lost.
_KILLED_THERE = (host_starter.BY_SIGNAL + signal.SIGKILL, host_starter.LOST)


class Supervisor:
    """The workers of one engine, and the requests about them."""

    def __init__(
        self, name: str, version: str, roles: dict[str, str], where: str, argv: list[str]
    ) -> None:
        self._name, self._version, self._where, self._argv = name, version, where, argv
        self._roles = {role: re.compile(pattern) for role, pattern in roles.items()}
        self._job: dict[str, Any] = {}
        #: Of a worker on another host, what has it started there and ends with it.
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        #: Worker on another host -> its pid.
        self._pids: dict[int, int] = {}
        self._started: dict[int, float] = {}
        self._pauses: dict[int, float] = {}
        #: Worker -> how often in a row it has ended at once, by itself.
        self._ends: dict[int, int] = {}
        #: Worker -> when it is started again (time.monotonic).
        self._due: dict[int, float] = {}
        self._stay_down = False
        #: A scale that is under way: its id, and until when who leaves may take (time.monotonic).
        self._scale: tuple[Any, float] | None = None

    def run(self) -> None:
        """Serve until stop or the end of stdin."""
        wake, waker = os.pipe()
        os.set_blocking(waker, False)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(wake, selectors.EVENT_READ)
            rest = b""
            while True:
                for key, _ in selector.select(self._patience()):
                    data = os.read(key.fd, 1 << 16)
                    if key.fd == wake:
                        continue
                    if not data:
                        return self._end_workers()
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        if self._handle(json.loads(line)):
                            return None
                self._look_after_workers()

    def _patience(self) -> float | None:
        times = [] if self._stay_down else [*self._due.values()]
        if self._scale:
            times.append(self._scale[1])
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _handle(self, request: dict[str, Any]) -> bool:
        """Answer a request; True where it was the last."""
        op, answer = request["op"], {"id": request["id"], "ok": True}
        if op == "scale" and not self._roles and not self._scale:
            self._begin_scale(request)
            return False
        if op == "hello":
            answer |= {"name": self._name, "version": self._version, "protocol": 1}
        elif op == "deploy":
            self._job = request
            for worker in range(1 if self._roles else request["workers"]):
                self._start(worker)
            placed_at = time.monotonic() + _PLACED_S
            for worker in self._workers:
                self._pid(worker, max(0.0, placed_at - time.monotonic()))
        elif op == "topology":
            answer["processes"] = (self._known_by_role() if self._roles else self._copies()) or [
                {"pid": os.getpid(), "role": "engine", "name": "supervisor"}
            ]
        elif op == "replace":  # of a user's own job: for workers that are started from now on
            self._argv, self._job["workers"] = request["argv"], request["workers"]
            self._job["data"]["env"] = request["env"]
            self._due = {one: at for one, at in self._due.items() if one < request["workers"]}
        elif op == "down":  # workers that have ended, or end, are not started again until "up"
            self._stay_down = True
        elif op == "up":
            self._stay_down = False
        elif op == "stop":
            self._end_workers()
        else:
            busy = op == "scale" and self._scale
            error = "a scale is under way" if busy else f"no op {op!r}"
            answer |= {"ok": False, "error": error, "definite": True}
        _say(answer)
        return bool(op == "stop")

    def _begin_scale(self, request: dict[str, Any]) -> None:
        """Start the workers that are missing, and ask those to end that are too many."""
        workers = self._job["workers"] = request["workers"]
        self._scale = request["id"], time.monotonic() + _LEAVE_S
        self._due = {one: at for one, at in self._due.items() if one < workers}
        for worker in range(workers):
            if worker not in self._workers:
                self._start(worker)
        self._end_surplus(signal.SIGTERM)

    def _go_on_with_scale(self) -> None:
        """Answer once nobody is left who was to leave; nobody is waited for without end."""
        if self._scale is None:
            return
        answered, until = self._scale
        if any(worker >= self._job["workers"] for worker in self._workers):
            if time.monotonic() >= until:
                self._scale = answered, time.monotonic() + _LEAVE_S
                self._end_surplus(signal.SIGKILL)
            return
        self._scale = None
        _say({"id": answered, "ok": True})

    def _end_surplus(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker >= self._job["workers"] and (pid := self._pid(worker)):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

    def _copies(self) -> list[dict[str, Any]]:
        return [
            {"pid": pid, "role": "worker", "name": f"worker {worker}"}
            for worker, process in sorted(self._workers.items())
            if process.poll() is None and (pid := self._pid(worker))
        ]

    def _pid(self, worker: int, patience_s: float = 0.0) -> int:
        """Return the pid of a worker, 0 where it is not yet known."""
        process = self._workers[worker]
        if process.stdout is None:
            return process.pid
        if worker not in self._pids and select.select([process.stdout], [], [], patience_s)[0]:
            self._pids[worker] = int(process.stdout.readline() or 0)
        return self._pids.get(worker, 0)

    def _command(self, worker: int) -> tuple[list[str], int]:
        """Return what starts a worker, and where its output goes."""
        hosts: list[dict[str, Any]] = self._job.get("hosts", [])
        places = {"first": hosts[:1], "others": hosts[1:], "any": hosts}[self._where]
        host = places[worker % len(places)] if places else {"start": []}
        if not host["start"]:
            return [_numbered(word, worker) for word in self._argv], _STDERR
        tell = [sys.executable, "-I", "-S", host_starter.__file__, "tell", host["address"]]
        return [*tell, *self._argv], subprocess.PIPE

    def _known_by_role(self) -> list[dict[str, Any]]:
        """Return the processes in whose command line the expression of a role is found."""
        found = []
        for proc in _own():
            line = process_table.command_line(proc.pid)
            role = next((role for role, known in self._roles.items() if known.search(line)), None)
            if role is not None:
                found.append({"pid": proc.pid, "role": role, "name": f"{role} {proc.pid}"})
        return found

    def _start(self, worker: int) -> None:
        job, data = self._job, self._job["data"]
        topics = {
            f"TICKPROOF_IN{'' if stream == 0 else f'_{stream + 1}'}": topic
            for stream, topic in enumerate(data["inputs"])
        }
        params = {f"TICKPROOF_{name.upper()}": str(value) for name, value in job["params"].items()}
        number = {} if self._roles else {"TICKPROOF_WORKER": str(worker)}
        os.makedirs(job["state_dir"], exist_ok=True)  # noqa: PTH103 (pathlib takes a while)
        command, output = self._command(worker)
        self._pids.pop(worker, None)
        self._workers[worker] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            bufsize=0,
            cwd=data.get("cwd"),
            env=os.environ
            | {name: _numbered(text, worker) for name, text in data.get("env", {}).items()}
            | topics
            | params
            | number
            | {
                "TICKPROOF_BOOTSTRAP": f"{data['host']}:{data['port']}",
                "TICKPROOF_OUT": data["output"],
                "TICKPROOF_GROUP": data["group"],
                "TICKPROOF_APP": job["app"],
                "TICKPROOF_STATE": job["state_dir"],
                "TICKPROOF_WORKERS": str(job["workers"]),
            },
        )
        self._started[worker] = time.monotonic()
        self._due.pop(worker, None)

    def _look_after_workers(self) -> None:
        now = time.monotonic()
        most = 1 if self._roles else self._job.get("workers", 0)
        for worker, process in [*self._workers.items()]:
            if process.poll() is None or worker in self._due:
                continue
            _log(f"worker {worker} ended with {process.returncode}")
            if worker >= most:  # another version has fewer
                del self._workers[worker]
                continue
            at_once = now - self._started[worker] < SETTLED_S
            pause = self._pauses.get(worker, RESTART_S / 2) * 2 if at_once else RESTART_S
            self._pauses[worker] = min(pause, MOST_RESTART_S)
            self._due[worker] = now + self._pauses[worker]
            killed = (-signal.SIGKILL,) if process.stdout is None else _KILLED_THERE
            by_itself = at_once and process.returncode not in killed
            self._ends[worker] = self._ends.get(worker, 0) + 1 if by_itself else 0
            # A job may end for lack of input, or of a broker, and is started again.
            if self._ends[worker] == MOST_ENDS and self._job["app"] != "job":
                _log(f"worker {worker} cannot start: it ended at once, {MOST_ENDS} times in a row")
                self._end_workers()
                sys.exit(1)
            if self._roles:
                self._kill()
        self._go_on_with_scale()
        if self._stay_down:
            return
        started = [worker for worker, due in self._due.items() if due <= now]
        # Another version may have more.
        for worker in [*started, *range(len(self._workers), most if started else 0)]:
            self._start(worker)

    def _end_workers(self) -> None:
        self._kill()
        self._workers.clear()
        self._due.clear()

    def _kill(self) -> None:
        """Kill every process of the engine, the daemons too."""
        ended = lambda: all(each.poll() is not None for each in self._workers.values())  # noqa: E731
        process_table.kill_all(_own, ended, _KILL_S)


def _numbered(text: str, worker: int) -> str:
    return text.replace("{worker}", str(worker))


def _say(answer: dict[str, Any]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def _log(text: str) -> None:
    os.write(_STDERR, f"supervisor: {text}\n".encode())


def _own() -> list[process_table.Proc]:
    """Return the living processes of the engine, without this one."""
    return process_table.own(os.getpid(), os.environ[process_table.RUN_VARIABLE])


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError, KeyboardInterrupt):
        _name, _version, _roles, _where, *_argv = sys.argv[1:]
        Supervisor(_name, _version, json.loads(_roles), _where, _argv).run()
