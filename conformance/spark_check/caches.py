"""Caches of Spark on this machine that the next start takes up again."""

from __future__ import annotations

from pathlib import Path

from tickproof.reference import java


def folders() -> tuple[Path, ...]:
    """Return the folders of launchers for Java and of archives of classes; they may be missing."""
    return java.caches()
