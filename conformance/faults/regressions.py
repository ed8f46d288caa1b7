"""Regressions: schedules that an engine once failed, kept in a folder beside its engine.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tickproof.conformance.faults.host_fault import HostFault
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.faults.schedule_file import Schedule, load

FOLDER: Final = "regressions"


def beside(engine_toml: Path, hosts: int) -> list[Path]:
    """Return the schedules in ``regressions/`` beside an engine.toml, by name.

    Without ``hosts``, those that need none. Raises InvalidFile.
    """
    folder = engine_toml.parent / FOLDER
    found = sorted(path for path in folder.glob("*") if path.suffix in (".toml", ".json"))
    return [path for path in found if hosts or not needs_hosts(load(path))]


def needs_hosts(schedule: Schedule) -> bool:
    """Tell whether a schedule is about several hosts."""
    return any(isinstance(fault_of(one.step()), HostFault) for one in schedule.fault)


def save(text: str, folder: Path, name: str) -> Path:
    """Write a schedule into a folder under a name that is free there; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    number, path = 1, folder / f"{name}.toml"
    while path.exists() and path.read_text(encoding="utf-8") != text:
        number += 1
        path = folder / f"{name}-{number}.toml"
    path.write_text(text, encoding="utf-8")
    return path
