"""Sound engines on a busy machine: none may be failed.

``python -m tests.busy --loops 4 --disk --memory 14 --runs 200`` starts the load, plays sound
engines beside it as ``tickproof selftest --sound --part`` does, with one seed after another, ends
the load, and counts. Status 0: no engine was failed, however many runs stayed unknown; 1: one
was; 4: the kit broke.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tickproof.conformance.selftest.model import SelfTest
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_KIT_ERROR

#: Each part of the load ends with the process that started it, however that ends.
_ALIVE: Final = "import os, sys\nparent = os.getppid()\nalive = lambda: os.getppid() == parent\n"
LOOP: Final = _ALIVE + "while alive():\n    for _ in range(10**6): pass\n"
#: Writes files and has each reach the disk.
DISK: Final = _ALIVE + (
    "block = os.urandom(1 << 22)\n"
    "while alive():\n"
    "    with open(sys.argv[1], 'wb') as file:\n"
    "        for _ in range(16): file.write(block)\n"
    "        os.fsync(file.fileno())\n"
)
#: Holds so many GiB and keeps touching all of them.
MEMORY: Final = _ALIVE + (
    "held = bytearray(int(sys.argv[1]) << 30)\n"
    "while alive():\n"
    "    for at in range(0, len(held), 4096):\n"
    "        held[at] = (held[at] + 1) % 256\n"
)
#: What has to be left for the kit, in GiB.
LEFT_GIB: Final = 2
RUNS: Final = 200


def available_gib() -> float:
    """Return how much memory programs may still take."""
    lines = Path("/proc/meminfo").read_text("utf-8").splitlines()
    (kib,) = (int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    return kib / (1 << 20)


@contextmanager
def load(loops: int, disk: bool, memory_gib: int) -> Iterator[int]:
    """Load the machine; give the number of programs that do. Raises MemoryError for too much."""
    if memory_gib and available_gib() < memory_gib + LEFT_GIB:
        wanted = f"--memory {memory_gib}: expected {memory_gib + LEFT_GIB} GiB to be available"
        raise MemoryError(f"{wanted}, got {available_gib():.1f}: ask for less")
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tickproof-busy-"))
        programs: list[list[str]] = [[LOOP]] * loops
        programs += [[DISK, f"{folder}/written"]] * disk
        programs += [[MEMORY, str(memory_gib)]] * bool(memory_gib)
        started: list[subprocess.Popen[bytes]] = []

        def end() -> None:
            for process in started:
                process.kill()
            for process in started:
                process.wait()

        stack.callback(end)
        for words in programs:
            started.append(subprocess.Popen([sys.executable, "-S", "-c", *words]))
        yield len(started)
        if ended := [process.args for process in started if process.poll() is not None]:
            raise RuntimeError(f"the load did not last: {len(ended)} of {len(started)} ended early")


def counted(report: SelfTest) -> str:
    """Say how the runs came out, and who was failed."""
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in report.of_sound.most_common())
    sound = [one.id for one in report.subjects if one.kind == "sound"]
    cells = [cell for one in report.trials if one.subject in sound for cell in one.cells]
    unknown = Counter(cell.reason for cell in cells if cell.verdict == "unknown")
    reasons = ", ".join(f"{count} {reason}" for reason, count in unknown.most_common())
    lines = [f"seed {report.seed}: {report.runs} runs of {len(sound)} sound engines: {verdicts}"]
    lines += [f"unknown by {reasons}"] * bool(reasons)
    lines += [f"failed: {one}" for one in report.accused]
    lines += [f"kit-error: {one}" for one in report.broken]
    return "\n".join(lines)


def played(runs: int, out: Path, seed: int, options: Sequence[str]) -> Iterator[SelfTest]:
    """Play one part of the sound engines after another, until so many runs have been played.

    Raises RuntimeError for a part without a report.
    """
    while runs > 0:
        folder = out / f"seed-{seed}"
        path = folder / "selftest.json"
        path.unlink(missing_ok=True)
        part = ["selftest", "--sound", "--part", "--seed", str(seed), "--out", str(folder)]
        command = [sys.executable, "-m", "tickproof.conformance.cli.main", *part, *options]
        status = subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode
        if not path.exists():
            ended = f"which ended with status {status}"
            raise RuntimeError(f"expected {path} from {shlex.join(part)}, {ended}")
        report = SelfTest.model_validate_json(path.read_text("utf-8"))
        yield report
        runs -= report.runs
        seed += 1


def main(words: list[str]) -> int:
    """Play; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.busy", description=__doc__)
    parser.add_argument("--loops", type=int, default=4, metavar="N", help="busy loops")
    parser.add_argument("--disk", action="store_true", help="write to disk all the time")
    parser.add_argument("--memory", type=int, default=0, metavar="GIB", help="hold and touch it")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first part")
    parser.add_argument("--out", type=Path, default=Path("tickproof-out/busy"), metavar="DIR")
    asked, more = parser.parse_known_args(words)  # the rest is for `tickproof selftest`
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the load ends with this process
    reports = []
    try:
        with load(asked.loops, asked.disk, asked.memory) as programs:
            print(f"{programs} programs load {os.cpu_count()} cores", flush=True)
            for report in played(asked.runs, asked.out, asked.seed, more):
                reports.append(report)
                print(counted(report), flush=True)
    except MemoryError as error:
        parser.error(str(error))
    except RuntimeError as error:
        print(error)
        return EXIT_KIT_ERROR
    failed = sum(len(one.accused) for one in reports)
    print(f"{sum(one.runs for one in reports)} runs of sound engines, {failed} failed")
    return EXIT_KIT_ERROR if any(one.broken for one in reports) else failed and EXIT_FAIL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
