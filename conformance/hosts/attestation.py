"""Look at a host: every probe of the level, and what it said. Takes no privilege."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tickproof.conformance.hosts.host_files import Look, Unseen, listed
from tickproof.conformance.hosts.model import LEVELS, Attestation, Reading, Status, up_to
from tickproof.conformance.hosts.probes import comparability, essential, tail
from tickproof.conformance.hosts.probes.probe import Probe
from tickproof.conformance.text import shown

PROBES: tuple[Probe, ...] = (*essential.PROBES, *tail.PROBES, *comparability.PROBES)
_MOST_CHARS = 300


def attest(
    level: str, *, engine_cores: Iterable[int] = (), kit_cores: Iterable[int] = (),
    root: Path = Path("/"),
) -> Attestation:  # fmt: skip
    """Read every probe up to ``level`` (P0, P1, P2; none: all of them, asking nothing).

    The measuring cores are those of engine and kit; where none are given the isolated
    ones, else all that are online. root: every path is read below it, and nothing is
    tried on this machine unless it is /. Raises HostError for a level that there is not.
    """
    kit, engine = tuple(kit_cores), tuple(engine_cores)
    look = Look(root, (*kit, *engine))
    levels = up_to(level) or LEVELS
    readings = tuple(_reading(probe, look) for probe in PROBES if probe.level in levels)
    return Attestation(level, readings, kit, engine)


def _reading(probe: Probe, look: Look) -> Reading:
    try:
        seen = probe.look(look)
        path, value = seen.path, seen.value
        status = Status.OK if seen.ok else Status.NOT_OK
    except Unseen as unseen:
        path, value, status = unseen.path, unseen.why, Status.UNOBSERVABLE
    wanted = probe.wanted.format(cores=_measuring(look))
    return Reading(
        probe.name, probe.level, path, shown(value, _MOST_CHARS), wanted, status, probe.why
    )


def _measuring(look: Look) -> str:
    """Return the measuring cores as a list, for a text."""
    try:
        return listed(look.cores)
    except Unseen:
        return "of the run"
