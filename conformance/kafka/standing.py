"""A broker that stays: `tickproof kafka start`. One for each user.

It is held by a process of its own, this module run with ``-m``, which keeps a lock on a file that
says where the broker is. Whoever can lock that file knows that none runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import jars
from tickproof.conformance.kafka.broker import START_S, Broker, BrokerAddress
from tickproof.conformance.kafka.cluster import client_library
from tickproof.conformance.text import shown

STOP_S: Final = 60.0
_ALIVE_S: Final = 1.0
_LOCK_S: Final = 2.0
_LOOK_S: Final = 0.02
_MOST: Final = 1 << 16


@dataclass(frozen=True)
class Standing:
    """A broker that stays; ``pid`` is the process that holds it."""

    pid: int
    address: BrokerAddress


def start(*, kit_port: int = 0, transaction_version: int = 2) -> Standing:
    """Start a broker that stays; raises KafkaUnavailable, also where one runs already."""
    client_library()
    jars.bring(jars.load(jars.BROKER))
    file = _file()
    if (found := status()) is not None:
        raise KafkaUnavailable(f"{found.address.kit} runs already; see `tickproof kafka stop`")
    with file.with_suffix(".log").open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", __name__, str(kit_port), str(transaction_version)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert keeper.stdout is not None
    with keeper.stdout as said:
        ready = select.select([said], [], [], START_S + STOP_S)[0]
        line = said.readline() if ready else b""
    answer = _answer(line)
    if "address" not in answer:
        keeper.kill()
        keeper.wait()
        why = answer.get("error", f"its process said nothing; see {log.name}")
        raise KafkaUnavailable(str(why))
    return _standing(answer)


def status() -> Standing | None:
    """Return the broker that runs; None without one. Raises KafkaUnavailable."""
    file = _file()
    with contextlib.suppress(FileNotFoundError), file.open("rb") as held:
        if not _locked(held.fileno()):
            return None
        answer = _answer(held.read(_MOST))
        if "address" not in answer:  # it has not come up yet
            return None
        return _standing(answer)
    return None


def stop() -> Standing | None:
    """End the broker that runs, and return where it was; raises KafkaUnavailable."""
    found = status()
    if found is None:
        return None
    try:
        process = os.pidfd_open(found.pid)
    except ProcessLookupError:
        return None
    try:
        if status() != found:  # it has ended meanwhile, and another process may have its pid
            return None
        signal.pidfd_send_signal(process, signal.SIGTERM)
        if not select.select([process], [], [], STOP_S)[0]:
            signal.pidfd_send_signal(process, signal.SIGKILL)
            select.select([process], [], [])
    finally:
        os.close(process)
    return found


def main(kit_port: int, transaction_version: int) -> int:
    """Hold a broker until SIGTERM comes, or it ends; say on stdout where it is, or what failed."""
    told = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, told)
    try:
        with (
            _held(_file()) as held,
            Broker(kit_port=kit_port, transaction_version=transaction_version) as broker,
        ):
            text = json.dumps(asdict(Standing(os.getpid(), broker.address)))
            os.ftruncate(held, 0)
            os.pwrite(held, text.encode(), 0)
            _say(text)
            while broker.returncode is None and not signal.sigtimedwait(told, _ALIVE_S):
                pass
            return broker.returncode or 0
    except KafkaUnavailable as error:
        _say(json.dumps({"error": str(error)}))
        return 1


def _say(line: str) -> None:
    """Write the one line that the starter waits for; it may be gone."""
    with contextlib.suppress(BrokenPipeError):
        os.write(1, line.encode() + b"\n")


@contextlib.contextmanager
def _held(path: Path) -> Iterator[int]:
    """Give the descriptor of a file that this process alone has locked, emptied at the end."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + _LOCK_S
        while _locked(held, fcntl.LOCK_EX):  # for a moment by one who only looks
            if time.monotonic() > deadline:
                raise KafkaUnavailable("a broker is being started, or runs already")
            time.sleep(_LOOK_S)
        os.ftruncate(held, 0)
        yield held
        os.ftruncate(held, 0)
    finally:
        os.close(held)


def _locked(descriptor: int, kind: int = fcntl.LOCK_SH) -> bool:
    """Take a lock; say whether another process has it instead."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _file() -> Path:
    """Return the file that says where the broker is. Not in the cache, which may be cleared."""
    home = Path(os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser())
    folder = home / "tickproof"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise KafkaUnavailable(f"{folder} cannot be made: {error.strerror}") from error
    return folder / "kafka-broker.json"


def _answer(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _standing(answer: dict[str, Any]) -> Standing:
    try:
        return Standing(int(answer["pid"]), BrokerAddress(**answer["address"]))
    except (KeyError, TypeError, ValueError) as error:
        raise KafkaUnavailable(f"{_file()}: {shown(repr(answer), 200)} names no broker") from error


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
