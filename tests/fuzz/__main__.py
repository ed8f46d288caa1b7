"""Feed hostile input to everything that reads what others wrote, until the time is over.

``python -m tests.fuzz --seconds 60 [--seed N] [--target NAME ...]``: prints how many inputs each
target was fed, and each input that broke one, by its seed; status 1 where one did.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.fuzz.targets import TARGETS

#: Findings that are shown of one target: the next ones are likely the same.
SHOWN = 5


def feed(name: str, folder: Path, seed: int, until: float, most: int) -> tuple[int, list[str]]:
    """Feed one target; return how many inputs it was fed, and what broke it.

    ``until``: time.monotonic; ``most``: rounds. Round k has the seed "NAME-SEED-k".
    """
    folder.mkdir(parents=True)
    target = TARGETS[name](folder)
    fed, number, broken = 0, 0, list[str]()
    while number < most and time.monotonic() < until and len(broken) < SHOWN:
        key = f"{name}-{seed}-{number}"
        number += 1
        try:
            fed += target(random.Random(key))
        except Exception:
            broken.append(f"{key}: {traceback.format_exc()}")
    return fed, broken


def main() -> int:
    """Feed the targets, each for its share of the time."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--target", choices=TARGETS, action="append")
    given = parser.parse_args()
    names, total, found = given.target or list(TARGETS), 0, 0
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory(prefix="tickproof-fuzz-") as folder:
        for name in names:
            until = time.monotonic() + given.seconds / len(names)
            fed, broken = feed(name, Path(folder) / name, given.seed, until, sys.maxsize)
            total, found = total + fed, found + len(broken)
            print(f"{name}: {fed:,} inputs, {len(broken)} broke it", flush=True)
            print("\n".join(broken), end="\n" * bool(broken), flush=True)
    print(f"{total:,} inputs, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
