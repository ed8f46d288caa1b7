"""What is told of a process that an engine left over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tickproof.conformance.engines.process_table import Proc
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
