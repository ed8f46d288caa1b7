"""The kit's exceptions: their base, and those that several packages raise or catch.

Every exception class of the kit derives from TickproofError, whichever module defines it.
"""

from __future__ import annotations

import os
from pathlib import Path


def out_of_reach(path: Path, error: OSError) -> str:
    """Say why a path cannot be used, and name the folder above it that is in the way, if one is."""
    for folder in reversed(path.absolute().parents):
        if folder.is_dir() and not os.access(folder, os.X_OK):
            return f"the folder {folder} cannot be entered: {error.strerror}"
    return str(error.strerror)


class TickproofError(Exception):
    """Base of all exceptions that the kit defines."""


class InvalidFile(TickproofError):
    """A file of settings cannot be used; ``errors`` holds every reason, one line each."""

    def __init__(self, path: Path, errors: list[str]) -> None:
        super().__init__(path, errors)
        self.path = path
        self.errors = errors

    def __str__(self) -> str:
        return "\n".join(f"{self.path}: {error}" for error in self.errors)


class RequestError(TickproofError):
    """A command cannot do what it was asked for; the text names the option and what it expects."""


class HistoryError(TickproofError):
    """A run folder that cannot be judged; the message names the file and why."""


class KitStopped(TickproofError):
    """The kit itself cannot go on (a full disk, say): never blamed on the engine."""


class SparkNotStarted(TickproofError):
    """Spark could not be started; the message says why, and what to do."""


class KafkaUnavailable(TickproofError):
    """There is no broker, or not what it needs; the message says why, and what to do."""
