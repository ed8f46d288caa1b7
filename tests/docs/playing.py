"""Run the commands of a console block, and hold what they print against what the page shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.blocks import ROOT, Block

#: `$ tickproof run ...  # exit status 1`: what is not 0 is said behind the command.
_STATUS = re.compile(r"\s+#.*?exit status (\d+).*$")
#: What is said on a machine that gives no isolation; pages show one that does.
_NO_ISOLATION = re.compile(
    "; isolation none: nothing but trust keeps the engine from the evidence".replace(" ", r"\s+")
)


def play(block: Block, folder: Path) -> None:
    """Run each command of a block in a folder. Numbers and the width of columns may differ."""
    for command, shown in steps(block):
        status = _STATUS.search(command)
        words = shlex.split(re.sub(r"\s+#\s.*$", "", command))
        assert words[0] == "tickproof", f"{block}: only tickproof is run, not {words[0]}"
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=300,
        )
        said = _NO_ISOLATION.sub("", done.stdout + done.stderr)
        assert done.returncode == (int(status[1]) if status else 0), f"{command}\n{said}"
        printed = {shape(line) for line in said.splitlines()}
        missing = [line for line in shown if shape(line) not in printed]
        assert not missing, f"{block}: {command} does not print {missing}, but\n{said}"


def steps(block: Block) -> Iterator[tuple[str, list[str]]]:
    """Yield each command with the lines shown below it; `...` stands for lines left out."""
    for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        yield command, [line for line in shown if line.strip() not in ("", "...")]


def shape(line: str) -> str:
    """Return a line with every number alike, and its columns apart by one blank."""
    numbers = re.sub(r"\d[\d,.]*", "0", line)
    return re.sub(r"[ ─├┤▁-█]+", " ", numbers).strip()
