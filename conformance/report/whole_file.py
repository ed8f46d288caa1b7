"""Files of a report: a reader sees the old or the new one, never a part."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str) -> Path:
    """Write a text file, whole or not at all; returns its path. Raises OSError."""
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return path
