"""How often each scene that only Kafka has comes about: `python -m tests.kafka.scenes 100 6`.

Each is played so many times on kafka-miniature, with another seed each time, and once only: a
scene that did not fire is `unknown`, and is not tried again. Prints a line for each scenario.
"""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import Final

from tickproof.conformance.engines import spec
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest.trial import Task, attempt, tests_of
from tickproof.conformance.verdicts import SEVERITY, Verdict

ENGINE: Final = "kafka-miniature"


def tasks(folder: Path, tries: int, prefix: str) -> list[Task]:
    """Return every scene that begins so with ``tries`` seeds, seed after seed."""
    toml = spec.find(ENGINE, fixtures())
    scenes = [name for name in tests_of(transport="kafka") if name.startswith(prefix)]
    return [
        Task(ENGINE, toml, scene, seed, folder / str(seed))
        for seed in range(1, tries + 1)
        for scene in scenes
    ]


def main(tries: int = 100, at_once: int = 6, prefix: str = "kafka-") -> None:
    """Play all and print the table; what did not pass is kept and named."""
    folder = Path(tempfile.mkdtemp(prefix="scenes-"))
    shared_broker.address()  # one for all processes
    found: dict[str, Counter[Verdict]] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(at_once, mp_context=context) as pool:
        for done in as_completed(pool.submit(attempt, one) for one in tasks(folder, tries, prefix)):
            trial = done.result()
            worst = max((cell.verdict for cell in trial.cells), key=SEVERITY.index)
            found.setdefault(trial.scenario, Counter())[worst] += 1
            if worst is Verdict.PASS:
                shutil.rmtree(trial.run, ignore_errors=True)
            else:
                said = next(cell for cell in trial.cells if cell.verdict is worst)
                print(f"{trial.scenario} seed {trial.seed}: {worst} {said.reason} {said.said}")
    for emptied in (*folder.iterdir(), folder):
        with suppress(OSError):  # it holds what is kept
            emptied.rmdir()
    for scene, verdicts in sorted(found.items()):
        fired = verdicts.total() - verdicts[Verdict.UNKNOWN]
        counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        print(f"{scene}: fired {fired} of {verdicts.total()} ({counts})")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
