"""A file of settings that cannot be used: every reason at once, each with the file's path."""

from __future__ import annotations

from pathlib import Path


class InvalidFile(Exception):
    """A file cannot be used; ``errors`` holds every reason, one line each."""

    def __init__(self, path: Path, errors: list[str]) -> None:
        super().__init__(path, errors)
        self.path = path
        self.errors = errors

    def __str__(self) -> str:
        return "\n".join(f"{self.path}: {error}" for error in self.errors)


class SparkNotStarted(RuntimeError):
    """Spark could not be started; the message says why, and what to do."""
