"""The plan: what would tune this host for one run, and how to undo it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tickproof.conformance.hosts import tuning_tools
from tickproof.conformance.hosts.attestation import attest
from tickproof.conformance.hosts.cores import Cores, assign
from tickproof.conformance.hosts.host_files import HostFiles, Unobservable
from tickproof.conformance.hosts.model import Attestation
from tickproof.conformance.hosts.remedies import Cannot, Context, Step, by_hand


@dataclass(frozen=True)
class Impossible:
    """A probe that is not OK, and why nothing on this host can change that."""

    probe: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """by_hand: a step for each probe that can be put right. by_tool: the same with tools that
    do several at once. start: how to start the kit. impossible: what cannot be done here."""

    cores: Cores
    attestation: Attestation
    by_hand: tuple[Step, ...]
    by_tool: tuple[Step, ...]
    start: tuple[Step, ...]
    impossible: tuple[Impossible, ...]


def plan(kit: int = 0, engine: int = 0, *, root: Path = Path("/")) -> Plan:
    """Return the plan for a run with so many cores (0: as fits). Changes nothing.

    Raises HostError when more cores are asked for than there are.
    """
    cores = assign(kit, engine, root=root)
    attested = attest("P2", kit_cores=cores.kit, engine_cores=cores.engine, root=root)
    host = HostFiles(root, (*cores.kit, *cores.engine))
    others = _others(host)
    problems = {reading.probe: reading for reading in attested.problems()}
    steps: list[Step] = []
    impossible: list[Impossible] = []
    boot = {probe for probe in problems if probe in tuning_tools.BOOT}
    for probe, reading in problems.items():
        try:
            if probe not in boot:
                steps.append(by_hand(Context(host, reading, host.cores, others)))
            elif probe == min(boot):
                steps.append(tuning_tools.boot(host, boot, host.cores, others))
        except Cannot as cannot:
            together = sorted(boot) if probe in boot else [probe]
            impossible += [Impossible(one, str(cannot)) for one in together]
    able = set(problems) - {one.probe for one in impossible}
    by_tool = tuning_tools.by_tool(host, able, host.cores, others)
    start = tuning_tools.start(host, cores)
    return Plan(cores, attested, tuple(steps), tuple(by_tool), tuple(start), tuple(impossible))


def _others(host: HostFiles) -> tuple[int, ...]:
    """Return the cores online that are not measuring ones."""
    try:
        return tuple(core for core in host.online if core not in host.cores)
    except Unobservable:
        return ()
