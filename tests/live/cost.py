"""What it costs a run to be watched: `python -m tests.live.cost [ROUNDS]`.

The backlog of the miniature with the most keys is played in turns, alone and with the live page,
which a client reads all the time. What is compared is records a second from the first fetch to the
last output.
"""

from __future__ import annotations

import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.history.folder import History
from tickproof.conformance.latency.statistics import ratio

ROUNDS: Final = 10
_ONLY: Final = "ST-MANY-KEYS"


def played(out: Path, *, watched: bool) -> float:
    """Return records a second of one run."""
    command = [
        sys.executable,
        "-m",
        "tickproof",
        "run",
        "miniature",
        "--only",
        _ONLY,
        "-n",
        "1",
        "--profile",
        "full",
        "--seed",
        "1",
        "--out",
        str(out),
        *(["--live"] if watched else []),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        with reader(process.stdout) if watched else contextlib.nullcontext():
            process.stdout.read()
    assert process.returncode == 0
    (folder,) = out.glob("miniature/runs/*/count-many-keys")
    history = History(folder)
    arrivals = Facts.of(history).log.arrivals["t_ns"]
    took_ns = int(arrivals.max()) - int(history.fetches["t_ns"].min())
    return history.input_records / (took_ns / 1e9)


@contextlib.contextmanager
def reader(stdout: Iterator[str]) -> Iterator[None]:
    """Read the page's events meanwhile, as a browser does."""
    address = next(match[0] for line in stdout if (match := re.search(r"http://\S+", line)))
    told = 0

    def read() -> None:
        nonlocal told
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}events") as events:
            for line in events:
                if line.startswith(b"data: "):
                    told += bool(json.loads(line[6:])["engine"])

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    yield
    thread.join(10)
    assert told, "nobody watched"


def main() -> None:
    """Measure, and print the ratio with its interval."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    rates: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * rounds):
        watched = (number + number // 2) % 2 == 1  # ABBA: a drift meets both alike
        with tempfile.TemporaryDirectory() as folder:
            rates[watched].append(played(Path(folder), watched=watched))
    for watched, name in ((False, "alone"), (True, "watched")):
        print(f"{name}: median {statistics.median(rates[watched]):,.0f} records a second")
    found = ratio(rates[False], rates[True])
    assert found is not None
    print(f"watched by alone: {found.estimate:.3f}, 95 %: {found.low:.3f} to {found.high:.3f}")


if __name__ == "__main__":
    main()
