"""The reference engine as an engine under test: control lines in, answers out.

``python -m reference.adapter [--master MASTER]``. MASTER: ``local-cluster`` (the default: as
many executors as the deploy request asks for), ``standalone`` (the same with a real Master
and Workers), or the URL of a cluster. docs/protocol.md says what each op promises.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import psutil

PROTOCOL, VERSION = 1, "1.0.0"
EXECUTORS_S = 60.0  # for all executors to come up


class Adapter:
    """Reads requests on one thread; what has to wait waits on threads of its own."""

    def __init__(self, answers: TextIO, arguments: argparse.Namespace) -> None:
        self._answers = answers
        self._arguments = arguments
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def serve(self, requests: TextIO) -> int:
        """Answer until stop or the end of the requests; return the exit status."""
        for line in requests:
            request = json.loads(line)
            op = request["op"]
            if op == "stop":
                self._end()
                self._answer(request)
                return 0
            serve = getattr(self, f"_op_{op}", None)
            if serve is None:
                self._refuse(request, f"this engine has no op {op!r}", definite=True)
            elif op in ("drain", "checkpoint"):
                threading.Thread(target=self._guarded, args=(serve, request), daemon=True).start()
            else:
                self._guarded(serve, request)
        self._end()
        return 0

    def _guarded(self, serve: Callable[[dict], dict | None], request: dict) -> None:
        try:
            self._answer(request, **(serve(request) or {}))
        except ValueError as error:
            self._refuse(request, str(error), definite=True)
        except Exception as error:
            self._refuse(request, f"{type(error).__name__}: {error}", definite=False)

    def _answer(self, request: dict, **fields: Any) -> None:
        with self._lock:
            self._answers.write(json.dumps({"id": request["id"], "ok": True} | fields) + "\n")
            self._answers.flush()

    def _refuse(self, request: dict, error: str, definite: bool) -> None:
        print(f"{request['op']}: {error}", file=sys.stderr)
        self._answer(request, ok=False, error=error[:2000], definite=definite)

    def _end(self) -> None:
        if self._engine:
            self._engine.stop()

    def _op_hello(self, request: dict) -> dict:
        if request["protocol"] != PROTOCOL:
            raise ValueError(f"protocol {request['protocol']}: only {PROTOCOL} is spoken")
        return {"name": "spark", "version": VERSION, "protocol": PROTOCOL}

    def _op_deploy(self, request: dict) -> None:
        if self._engine:
            raise ValueError("an app is deployed already")
        self._engine = Engine(request, self._arguments)

    def _op_topology(self, request: dict) -> dict:
        return {"processes": self._deployed().processes()}

    def _op_drain(self, request: dict) -> None:
        self._deployed().drain()

    def _op_checkpoint(self, request: dict) -> None:
        self._deployed().checkpoint()

    def _deployed(self) -> Engine:
        if not self._engine:
            raise ValueError("nothing is deployed")
        return self._engine


class Engine:
    """A deployed app: a Spark session, its one query, its executors."""

    def __init__(self, request: dict, arguments: argparse.Namespace) -> None:
        # Spark is imported here, so that hello is answered at once.
        from reference import apps, session
        from reference.compiler import streaming
        from reference.connectors import progress
        from reference.connectors.wire import Log

        application = apps.make(request["app"], request["params"])
        folder = Path(request["state_dir"])
        data = request["data"]
        address = data["host"], data["port"], data["token"]
        inputs = {row["stream"]: row["partitions"] for row in request["inputs"]}
        self._names = [(stream, p) for stream, count in inputs.items() for p in range(count)]
        self._checkpoint = folder / "checkpoint"
        self._spark = session.start(arguments.master, request["workers"], folder / "scratch")
        self._log = Log(*address)
        self._log_lock = threading.Lock()
        self._progress = progress.Progress(Log(*address), self._checkpoint)
        self._spark.streams.addListener(self._progress)
        log = dict(zip(("host", "port", "token"), map(str, address), strict=True))
        self._query = streaming.start(self._spark, application, log, inputs, self._checkpoint)
        threading.Thread(target=self._watch, daemon=True).start()
        self._await_executors(request["workers"])

    def _watch(self) -> None:
        """End with a clear word when the query fails: its last cut is in the checkpoint."""
        try:
            self._query.awaitTermination()
            return
        except Exception as error:
            print(f"the query failed: {error}", file=sys.stderr, flush=True)
        os._exit(1)

    def _await_executors(self, workers: int) -> None:
        tracker = self._spark.sparkContext._jsc.sc().statusTracker()
        deadline = time.monotonic() + EXECUTORS_S
        while len(tracker.getExecutorInfos()) <= workers:  # the driver is one of them
            if time.monotonic() > deadline:
                raise RuntimeError(f"fewer than {workers} executors came up in {EXECUTORS_S:g} s")
            self._progress.wait(0.05)

    def processes(self) -> list[dict]:
        """Name the driver and the executors that live now."""
        rows = [{"pid": os.getpid(), "role": "coordinator", "name": "adapter"}]
        for process in psutil.Process().children(recursive=True):
            try:
                command = process.cmdline()
            except psutil.Error:
                continue  # it has just ended
            if "org.apache.spark.deploy.SparkSubmit" in command:
                rows.append({"pid": process.pid, "role": "coordinator", "name": "driver"})
            elif any(word.endswith("CoarseGrainedExecutorBackend") for word in command):
                number = command[command.index("--executor-id") + 1]
                rows.append({"pid": process.pid, "role": "worker", "name": f"executor-{number}"})
        return rows

    def drain(self) -> None:
        """Wait until all there is, up to the END of each partition, is committed."""
        while not self._is_drained():
            self._progress.wait(0.05)

    def _is_drained(self) -> bool:
        for stream, partition in self._names:
            with self._log_lock:
                tail = self._log.tail(stream, partition)
            committed = self._progress.committed.get(f"{stream}/{partition}", 0)
            if not tail.ended or committed < tail.end:
                return False
        return True

    def checkpoint(self) -> None:
        """Wait until the batch that is being worked on, if there is one, is committed."""
        planned = self._progress.planned()
        while any(self._progress.committed.get(n, 0) < at for n, at in planned.items()):
            self._progress.wait(0.05)

    def stop(self) -> None:
        """Stop the query and Spark, and end what they leave."""
        from reference import session

        self._query.stop()
        session.stop(self._spark)


def main() -> None:
    """Keep stdout for answers: whatever else is printed, by Java too, goes to stderr."""
    parser = argparse.ArgumentParser(prog="reference.adapter", description=__doc__)
    parser.add_argument("--master", default="local-cluster", help="default: %(default)s")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    status = Adapter(answers, arguments).serve(sys.stdin)
    answers.close()
    os._exit(status)


if __name__ == "__main__":
    main()
