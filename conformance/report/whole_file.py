"""Files of a report: a reader sees the old or the new one, never a part."""

from __future__ import annotations

from pathlib import Path

from tickproof.conformance.history import plain_files


def write(path: Path, text: str) -> Path:
    """Write a text file, whole or not at all; returns its path. Raises OSError."""
    plain_files.write(path, text.encode("utf-8"))
    return path
