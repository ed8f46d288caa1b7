"""Files of a report: a reader sees the old or the new one, never a part."""

from __future__ import annotations

from pathlib import Path

from tickproof.conformance.history import plain_files


def write(path: Path, text: str) -> Path:
    """Write a text file and the folders above it, whole or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    plain_files.write(path, text.encode("utf-8"))
    return path
