"""Attest a host: run every probe of a level. Needs no privilege."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed
from tickproof.conformance.hosts.model import LEVELS, Attestation, Reading, Status, up_to
from tickproof.conformance.hosts.probes import comparability, essential, tail
from tickproof.conformance.hosts.probes.probe import Probe
from tickproof.conformance.text import shown

PROBES: tuple[Probe, ...] = (*essential.PROBES, *tail.PROBES, *comparability.PROBES)
_MOST_CHARS = 300


def attest(
    level: str,
    *,
    engine_cores: Iterable[int] = (),
    kit_cores: Iterable[int] = (),
    root: Path = Path("/"),
) -> Attestation:
    """Run every probe up to ``level`` (P0, P1, P2; none: all of them, and demand nothing).

    The measuring cores are those of engine and kit; where none are given, the isolated
    ones; else all that are online. root: every path is read below it, and nothing is
    tried on this machine unless it is /. Raises HostError for an unknown level.
    """
    kit, engine = tuple(kit_cores), tuple(engine_cores)
    host = HostFiles(root, (*kit, *engine))
    levels = up_to(level) or LEVELS
    readings = tuple(_reading(probe, host) for probe in PROBES if probe.level in levels)
    return Attestation(level, readings, kit, engine)


def _reading(probe: Probe, host: HostFiles) -> Reading:
    try:
        observed = probe.observe(host)
        path, value = observed.path, observed.value
        status = Status.OK if observed.ok else Status.NOT_OK
    except Unobservable as error:
        path, value, status = error.path, error.why, Status.UNOBSERVABLE
    wanted = probe.wanted.format(cores=_measuring(host))
    return Reading(
        probe.name, probe.level, path, shown(value, _MOST_CHARS), wanted, status, probe.why
    )


def _measuring(host: HostFiles) -> str:
    """Return the measuring cores as text."""
    try:
        return listed(host.cores)
    except Unobservable:
        return "of the run"
