"""A disk that loses what was not synced when its power goes: the kit's hold on its server."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import KitStopped

_SERVER: Final = Path(__file__).with_name("disk_server.py")
#: Bytes of an answer at most: some numbers, and a few paths.
_ANSWER: Final = 1 << 16
#: For the server to answer, which has to read the folder at most.
_TIMEOUT_S: Final = 60.0


class Disk(contextlib.AbstractContextManager["Disk"]):
    """The disk of one engine over all its lives: what its sandbox sees in place of a folder.

    folder: its content as it is now, which the kit sees. The server ends with this object, or with
    the kit; mounts go with the sandboxes that they are in. Safe from any thread. Raises OSError.
    """

    def __init__(self, folder: Path) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        command = [sys.executable, "-I", "-S", str(_SERVER), str(theirs.fileno()), str(folder)]
        try:
            self._server = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C at the terminal does not end it
                cwd="/",
            )
        except BaseException:
            self._control.close()
            raise
        finally:
            theirs.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server; may be called again."""
        self._control.close()
        self._server.kill()
        self._server.wait(_TIMEOUT_S)

    def serve(self, mount: int) -> None:
        """Serve a mount from now on, by the descriptor that it was made with; closes it."""
        try:
            self._ask({"do": "serve"}, [mount])
        finally:
            os.close(mount)

    def hold(self, events: int) -> Hold:
        """Return what waits for an event of inotify and lets nothing come after it."""
        return Hold(self, events)

    def cut(self) -> None:
        """Let nothing more be read or written: who waits for that gets an error."""
        self._ask({"do": "cut"})

    def lose(self, loss: str, seed: int) -> dict[str, Any]:
        """Lose what is not durable; return the fields of `disk_image.Lost`."""
        answer = self._ask({"do": "lose", "loss": loss, "seed": seed})
        del answer["done"]
        return answer

    def _ask(self, what: dict[str, Any], pass_on: list[int] | None = None) -> dict[str, Any]:
        with self._lock:
            try:
                socket.send_fds(self._control, [json.dumps(what).encode()], pass_on or [])
            except OSError as error:
                raise KitStopped(f"the server of a disk ended: {error}") from error
            while True:
                answer = self._read(_TIMEOUT_S)
                if answer is None:
                    raise KitStopped(f"the server of a disk did not {what['do']} in {_TIMEOUT_S} s")
                if answer.get("done") == what["do"]:
                    return answer

    def _read(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message, None if there is none in time; raises KitStopped."""
        if not select.select([self._control], [], [], timeout_s)[0]:
            return None
        message = self._control.recv(_ANSWER)
        if not message:
            raise KitStopped("the server of a disk ended")
        found: dict[str, Any] = json.loads(message)
        return found

    def held(self, timeout_s: float) -> str:
        """Return the path of what is held, "" if nothing is in time."""
        with self._lock:
            answer = self._read(timeout_s)
            return "" if answer is None else str(answer.get("held", ""))


class Hold(contextlib.AbstractContextManager["Hold"]):
    """Holds the next operation that inotify would see as an event, as `StateWatch` sees it.

    What is held stays so: the power goes at that moment.
    """

    def __init__(self, disk: Disk, events: int) -> None:
        self._disk, self._events = disk, events
        self._holds = False

    def __enter__(self) -> Hold:
        self._disk._ask({"do": "hold", "events": self._events})
        return self

    def __exit__(self, *_: object) -> None:
        if not self._holds:
            self._disk._ask({"do": "go"})

    def wait(self, timeout_s: float) -> str:
        """Return the file that the event came to, by its path; "" if none has in time."""
        found = self._disk.held(timeout_s)
        self._holds = bool(found)
        return found
