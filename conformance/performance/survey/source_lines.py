"""Count the code of an engine, or of an app on it: lines beside its engine.toml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

#: What people write; not settings, documents or what tools make.
SUFFIXES: Final = frozenset(
    (".c", ".cc", ".cpp", ".cs", ".ex", ".exs", ".go", ".h", ".java", ".js", ".kt", ".mjs", ".py",
     ".rb", ".rs", ".scala", ".sh", ".sql", ".ts", ".zig")
)  # fmt: skip
#: Folders that tools fill.
_MADE: Final = frozenset(("__pycache__", "build", "dist", "node_modules", "target", "vendor"))
_MAX_BYTES: Final = 1 << 20


def code_lines(folder: Path) -> int:
    """Count the lines of source files in a folder that are not blank; links are not followed."""
    total = 0
    for parent, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one not in _MADE and not one.startswith(".")]
        for name in files:
            path = Path(parent, name)
            if path.suffix in SUFFIXES and not path.is_symlink():
                total += _lines(path)
    return total


def _lines(path: Path) -> int:
    try:
        with path.open("rb") as file:
            return sum(bool(line.strip()) for line in file.read(_MAX_BYTES).splitlines())
    except OSError:
        return 0
