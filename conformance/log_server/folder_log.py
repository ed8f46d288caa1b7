"""A folder of partition files as a log: what is there is served, and what is appended later."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from tickproof.conformance.errors import RequestError
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.history.event_log import EventLog
from tickproof.conformance.log_server import partition_files
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.partition_files import FileShrunk, GrowingFile
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.scenario import SinkBehaviour

#: How often files, and what may have broken, are looked at.
PERIOD_S: Final = 0.1

#: Hears a sentence that the user should read.
Say = Callable[[str], None]


class Address(NamedTuple):
    """The address of a log, as its clients want it. token: hexadecimal digits."""

    host: str
    port: int
    token: str


def serve(
    folder: Path,
    out: Path,
    output_sizes: Sequence[int],
    say: Say,
    on_ready: Callable[[Address, Sequence[GrowingFile]], None],
) -> None:
    """Serve the partition files of a folder until something is raised, KeyboardInterrupt say.

    out: a folder that is made; it gets output, the tables of `InputLog`, and events.jsonl.
    output_sizes: payload bytes of the records of output stream 0, 1, ... on_ready: called once
    all that the files hold is published. Raises RequestError for files that cannot be served
    (see `partition_files`), for ``out`` where it is there already, and when the log cannot go on.
    """
    with ExitStack() as made:
        files = partition_files.found(folder)
        for file in files:
            made.enter_context(closing(file))
            if file.rest:
                say(f"{file.path}: {file.rest} bytes at its end are no whole record yet")
        try:
            out.mkdir(parents=True)
            once = cache(say)  # each sentence
            events = made.enter_context(closing(EventLog(out / "events.jsonl", _Listener(once))))
            log = InputLog(files, out, events.add)
            recorder = Recorder(out, dict(enumerate(output_sizes)), events.add, stage_in_log=False)
            made.callback(recorder.close)
            follower = _FileFollower(files, log, once)
            sink = Sink(SinkBehaviour(), events.add)
            server = LogServer(log, recorder, sink, events.add, clock=follower)
            made.callback(server.close)
        except FileExistsError as error:
            raise RequestError(
                f"--out {out}: expected a new folder; this one exists, and is left unchanged"
            ) from error
        except OSError as error:
            raise RequestError(f"--out {out}: {error.strerror}") from error
        on_ready(Address("127.0.0.1", server.port, server.token.hex()), files)
        raise _broken(out, [follower, log, recorder, events, server])


def _broken(out: Path, parts: Iterable[Any]) -> BaseException:
    """Wait until a part has failed; return what is to be raised."""
    while not (failures := [part.failure for part in parts if part.failure]):
        time.sleep(PERIOD_S)
    if isinstance(failures[0], OSError):  # a full disk, say
        return RequestError(f"--out {out}: the recording has stopped: {failures[0].strerror}")
    return failures[0]


class _FileFollower:
    """Publishes what files have grown by: the clock of the log server, called in its thread."""

    def __init__(self, files: Sequence[GrowingFile], log: InputLog, on_problem: Say) -> None:
        self._files, self._log, self._on_problem = files, log, on_problem
        #: What ends the log, None while all is well.
        self.failure: FileShrunk | None = None
        self._publish()
        #: When files are looked at next (monotonic).
        self.due_ns: int | None = time.monotonic_ns()

    def prepare(self) -> None:
        """Nothing to prepare in the thread that publishes."""

    def publish_due(self) -> None:
        """Publish the whole records that have come, of each file a bounded step."""
        before = [file.records for file in self._files]
        more = False
        for file in self._files:
            try:
                more |= file.grow()
            except FileShrunk as error:
                self.failure = self.failure or error
            except RequestError as error:
                # Whoever wrote it may mend it.
                self._on_problem(f"{error}; until it is mended, the partition ends before it")
        if [file.records for file in self._files] != before:
            self._publish()
        self.due_ns = time.monotonic_ns() + (0 if more else int(PERIOD_S * 1e9))

    def _publish(self) -> None:
        self._log.publish([file.records for file in self._files])


class _Listener:
    """Hears the events of a log, and says what its user has to know."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def __call__(self, row: dict[str, Any]) -> None:
        match row["event"]:
            case EventKind.ODD_OUTPUT:
                self._say(
                    f"--output: output stream {row['stream']} got records of "
                    f"{row['record_size']} bytes, expected {row['expected']}; these are in "
                    f"s{row['stream']}.odd"
                )
            case EventKind.NOT_GREETED:
                self._say(f"a connection was refused: {row['text']}")
