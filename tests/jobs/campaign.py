"""Judge the kit's own jobs with many seeds: no run of a sound one fails, each twin is found out.

``python -m tests.jobs.campaign [--seeds 1-20] [--twins] [--no-oracle] [JOB ...]`` prints a line for
each session and the sums, as Markdown; ``--twins`` judges the twins in place of the jobs. Status 1
if a verdict was wrong. A session takes a minute, one on Spark several.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.jobs.twins import JOBS, copy, judged, twins
from tickproof.conformance.jobs.judge import BY_KIND, BY_RUN
from tickproof.conformance.verdicts import Outcome, Verdict

#: The second of two workers takes partitions over without any fault: then no calm run is right.
ALONE = {"forgets": {"workers = 2\n": ""}}


def wrong(found: dict[str, Outcome], named: str) -> Iterator[str]:
    """Yield what a verdict should not be: of a twin, that of the requirement that names it."""
    if named:
        if found[named].verdict is not Verdict.FAIL:
            yield f"{named} {found[named].verdict}: {found[named].actual}"
        return
    for id_, one in found.items():
        if one.verdict not in (Verdict.PASS, Verdict.NOT_CLAIMED):
            yield f"{id_} {one.verdict}: {one.actual}"


def _played(named: str) -> tuple[tuple[str, ...], ...]:
    """Return what to play of a twin, one after the other until it has failed.

    A mistake that any run may show has failed if a part of the runs show it. Where one run alone
    decides, it is played once: a second try would hide a requirement that finds by luck.
    """
    if not named:
        return ((),)
    return (("JB-COMMIT",), ()) if named in BY_KIND else ((named,),)


def main(words: list[str]) -> int:
    """Judge all that was asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.jobs.campaign")
    parser.add_argument("jobs", nargs="*", default=sorted(one.name for one in JOBS.iterdir()))
    parser.add_argument("--seeds", default="1-3", help="FIRST-LAST")
    parser.add_argument("--twins", action="store_true")
    parser.add_argument("--no-oracle", action="store_true")
    asked = parser.parse_args(words)
    first, _, last = asked.seeds.partition("-")
    print("| job | seed | oracle | verdict | s | load |\n|---|---|---|---|---|---|")
    sessions = faulty = mistakes = 0
    for seed in range(int(first), int(last or first) + 1):
        for name in asked.jobs:
            for twin in twins(name) if asked.twins else ("",):
                named = twins(name)[twin]["requirement"] if twin else ""
                began, oracle = time.monotonic(), not asked.no_oracle
                with tempfile.TemporaryDirectory() as made:
                    folder, changed = Path(made), ALONE.get(twin)
                    job = copy(name, folder, twin=twin, oracle=oracle, replaced=changed)
                    for only in _played(named):
                        found = judged(job, folder, seed, only=only)
                        if named and found[named].verdict is Verdict.FAIL:
                            break
                bad = "; ".join(wrong(found, named))
                sessions, mistakes = sessions + 1, mistakes + bool(bad)
                decided = sum(found[id_].verdict is Verdict.PASS for id_ in BY_RUN)
                faulty += 0 if twin else decided
                verdict = bad or (f"{named} fail" if named else f"{decided} runs pass")
                cells = ("-".join(filter(None, (name, twin))), seed, "yes" if oracle else "no")
                spent = f"{time.monotonic() - began:.0f} | {os.getloadavg()[0]:.0f}"
                print(f"| {' | '.join(map(str, cells))} | {verdict} | {spent} |", flush=True)
    print(f"\n{sessions} sessions, {mistakes} wrong; {faulty} runs of sound jobs with faults pass")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
