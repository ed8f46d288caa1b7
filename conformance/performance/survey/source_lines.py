"""Count the code of an engine, or of an app on it: lines beside its engine.toml."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: What people write; not settings, documents or what tools make.
SUFFIXES: Final = frozenset(
    (".c", ".cc", ".cpp", ".cs", ".ex", ".exs", ".go", ".h", ".java", ".js", ".kt", ".mjs", ".py",
     ".rb", ".rs", ".scala", ".sh", ".sql", ".ts", ".zig")
)  # fmt: skip
#: Folders that tools fill.
_MADE: Final = frozenset(("__pycache__", "build", "dist", "node_modules", "target", "vendor"))
#: Folder of scripts that show a failure without the kit, each named after its requirement.
REPRODUCE: Final = "reproduce"
_MAX_BYTES: Final = 1 << 20


def code_lines(folder: Path) -> int:
    """Count the lines of source files in a folder that are not blank, but for `REPRODUCE`."""
    files = (one for one in source_files(folder) if one.parent != folder / REPRODUCE)
    return sum(bool(line.strip()) for path in files for line in _lines(path))


def reproduction(folder: Path, requirement: str) -> Path | None:
    """Return the script that shows a failure of a requirement without the kit, if there is one."""
    found = folder / REPRODUCE
    return next((one for one in source_files(found) if one.stem == requirement), None)


def source_files(folder: Path) -> Iterator[Path]:
    """Yield the source files in a folder, by name; links are not followed."""
    for parent, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if one not in _MADE and not one.startswith(".")]
        folders.sort()
        for name in sorted(files):
            path = Path(parent, name)
            if path.suffix in SUFFIXES and not path.is_symlink():
                yield path


def text_of(path: Path) -> str:
    """Return the begin of a file as text, "" where it cannot be read."""
    return b"\n".join(_lines(path)).decode("utf-8", "backslashreplace")


def _lines(path: Path) -> list[bytes]:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).splitlines()
    except OSError:
        return []
