"""Judge a sound engine again and again, another seed each time: it must pass each time.

    python tests/soundness.py [ENGINE] [--runs 20] [--first-seed 1] [--out DIR]

A kit that fails a sound engine is worse than none. Exit status 0 when every run passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path


def main() -> int:
    """Run the sessions one after another; print one line each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engine", nargs="?", default="miniature")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("tickproof-out/soundness"))
    options = parser.parse_args()
    bad = 0
    for seed in range(options.first_seed, options.first_seed + options.runs):
        out = options.out / f"seed{seed}"
        began = time.monotonic()
        command = [sys.executable, "-m", "conformance.cli", "run", options.engine,
                   "--seed", str(seed), "--out", str(out)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        reports = list(out.glob("*/report.json"))
        counts = json.loads(reports[0].read_text())["counts"] if reports else done.stderr[-500:]
        bad += done.returncode != 0
        print(f"seed {seed}: exit {done.returncode}, {seconds:.0f} s, {counts}", flush=True)
    print(f"{options.runs - bad} of {options.runs} passed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
