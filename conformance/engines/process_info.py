"""Facts of a process: one that an engine left over, or argv's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tickproof.conformance.engines.process_table import Proc, read
from tickproof.conformance.text import shown


@dataclass(frozen=True)
class ProcessInfo:
    """A process that was left over; ``name`` is escaped and cut."""

    pid: int
    ppid: int
    name: str

    @classmethod
    def of(cls, proc: Proc) -> Self:
        """Return what is told of a row of the process table."""
        return cls(proc.pid, proc.ppid, shown(proc.name, 60))


def paused(pid: int, returncode: int | None) -> str:
    """Say, for the text of a failure, that a process is stopped; "" where it is not, or ended."""
    proc = read(pid) if returncode is None else None
    return "; its process is stopped by a signal" if proc and proc.state in "Tt" else ""
