"""Spark's Python processes in tests, forked from one that has their packages loaded.

Spark starts several for each small query, and on a busy machine one that imports pandas anew may
take longer than the ten seconds that Spark gives it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tickproof.conformance.resources import fixtures
from tickproof.reference import internals

ROOT = Path(__file__).parents[1]
#: What the functions of the tests import, beside what Spark's own modules do.
LOADED = (*internals.PYTHONS, "numpy", "pandas", "pyarrow", "tickproof.reference.apps")
_OWNER = """\
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import forks
server = forks.ForkServer(Path(sys.argv[3]), sys.argv[4:])
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def forked(folder: Path) -> Iterator[Path]:
    """Write a program into a folder that Spark may take for its python; it works meanwhile."""
    program = folder / "python"
    engine = fixtures() / "engines" / "spark"
    command = [sys.executable, "-c", _OWNER, engine, ROOT, program, *LOADED]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout.readline() == "ready\n"
        yield program
