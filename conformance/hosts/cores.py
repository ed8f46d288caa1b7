"""Divide the cores among the kit, the engine, and everything else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tickproof.conformance.hosts import visible_cores
from tickproof.conformance.hosts.host_files import HostFiles, Unobservable, listed
from tickproof.conformance.hosts.model import HostError

#: From so many on, cores are split where no counts are asked for: one for everything else,
#: one for the kit, two for the engine.
_ENOUGH = 4
#: From so many to split on, the kit gets two where no count is asked for.
_MANY = 5


@dataclass(frozen=True)
class Cores:
    """Cores by number, ascending. shared: kit and engine have the same ones.

    housekeeping: those that neither of them got.
    """

    kit: tuple[int, ...]
    engine: tuple[int, ...]
    housekeeping: tuple[int, ...]
    shared: bool


def assign(kit: int = 0, engine: int = 0, *, root: Path = Path("/")) -> Cores:
    """Divide the cores that this process may use.

    kit, engine: how many each gets; 0: as fits. root: where the host is read, for tests.
    Raises HostError when more are asked for than there are.
    """
    host = HostFiles(root)
    try:
        usable = visible_cores.usable(host)
    except Unobservable as error:
        if not host.live:
            raise HostError(f"cores: {error}") from error
        usable = tuple(sorted(os.sched_getaffinity(0)))
    pairs = [siblings for core in usable if (siblings := visible_cores.siblings(host, core))]
    nodes = tuple(visible_cores.nodes(host).values())
    return divide(kit, engine, usable, visible_cores.isolated_of(host), pairs, nodes)


def divide(
    kit: int,
    engine: int,
    usable: Sequence[int],
    isolated: Sequence[int] = (),
    siblings: Sequence[Sequence[int]] = (),
    nodes: Sequence[Sequence[int]] = (),
) -> Cores:
    """Divide ``usable``; see assign.

    Preferred are isolated cores, then cores of one node. siblings: groups of cores that
    share a physical one; such a group goes to one side wherever that can be.
    """
    usable = tuple(sorted(set(usable)))
    _check(kit, engine, usable)
    if _cannot_be_split(kit, engine, len(usable)):
        return Cores(usable, usable, (), True)
    need = (kit or 1) + (engine or (1 if kit else 2))
    every = not (kit and engine)
    pool = _pool(need, usable, isolated, siblings, nodes, all_of_it=every)
    if not kit:
        kit = 2 if len(pool) >= _MANY and (not engine or len(pool) >= engine + 2) else 1
    groups = _groups(pool, siblings)
    for_kit = _take(groups, kit)
    left = [tuple(core for core in group if core not in for_kit) for group in groups]
    # Siblings of the kit's cores come last: they are used only where nothing else is left.
    whole = [group for group, before in zip(left, groups, strict=True) if group == before]
    rest = [group for group, before in zip(left, groups, strict=True) if group != before]
    spare = sum(map(len, whole))
    engine = engine or spare or len(pool) - kit
    for_engine = _take(whole, min(engine, spare)) | _take(rest, max(engine - spare, 0))
    others = set(usable) - for_kit - for_engine
    return Cores(
        kit=tuple(sorted(for_kit)),
        engine=tuple(sorted(for_engine)),
        housekeeping=tuple(sorted(others)),
        shared=False,
    )


def _check(kit: int, engine: int, usable: tuple[int, ...]) -> None:
    if kit < 0 or engine < 0:
        raise HostError(
            f"cores: expected counts from 0; got {kit} for the kit, {engine} for the engine"
        )
    if kit + engine > len(usable):
        raise HostError(
            f"cores: {kit} for the kit and {engine} for the engine asked for, "
            f"{len(usable)} present that may be used ({listed(usable)})"
        )


def _cannot_be_split(kit: int, engine: int, count: int) -> bool:
    if kit and engine:
        return False
    if not kit and not engine:
        return count < _ENOUGH
    return kit + engine >= count


def _pool(
    need: int,
    usable: tuple[int, ...],
    isolated: Sequence[int],
    siblings: Sequence[Sequence[int]],
    nodes: Sequence[Sequence[int]],
    *,
    all_of_it: bool,
) -> tuple[int, ...]:
    """Return the cores to divide, best choice first that has enough of them.

    all_of_it: whatever is in the pool will be used, so the largest node is taken.
    """
    set_aside = tuple(core for core in usable if core in set(isolated))
    free = _without_housekeeping(need, usable, set_aside, siblings)
    for cores in (set_aside, free, usable):
        within = [tuple(core for core in cores if core in set(node)) for node in nodes]
        enough = [part for part in within if len(part) >= need]
        if enough:
            return max(enough, key=len) if all_of_it else enough[0]
        if len(cores) >= need:
            return cores
    raise AssertionError(f"{need} of {usable}")


def _without_housekeeping(
    need: int,
    usable: tuple[int, ...],
    set_aside: tuple[int, ...],
    siblings: Sequence[Sequence[int]],
) -> tuple[int, ...]:
    """Return the cores without the first that is not isolated, which is left to others.

    Its siblings stay out too where enough are left without them.
    """
    first = min(set(usable) - set(set_aside) or usable)
    group = next((set(g) for g in siblings if first in g), {first})
    for left_out in (group, {first}):
        free = tuple(core for core in usable if core not in left_out)
        if len(free) >= need:
            return free
    return usable


def _groups(pool: Sequence[int], siblings: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the pool as groups of siblings, by their first core."""
    held = set(pool)
    groups = {tuple(sorted(held & set(group))) for group in siblings}
    groups |= {(core,) for core in held - {core for group in groups for core in group}}
    return sorted(group for group in groups if group)


def _take(groups: Sequence[tuple[int, ...]], count: int) -> set[int]:
    """Return ``count`` cores, in whole groups as far as that can be.

    Larger groups are tried first, so that what remains is filled by smaller ones; only
    what is then left takes a part of a group, of the smallest there is.
    """
    taken: set[int] = set()
    left: list[tuple[int, ...]] = []
    for group in sorted(groups, key=lambda group: (-len(group), group)):
        if len(taken) + len(group) <= count:
            taken |= set(group)
        else:
            left.append(group)
    for group in sorted(left, key=lambda group: (len(group), group)):
        taken |= set(group[: count - len(taken)])
    return taken
