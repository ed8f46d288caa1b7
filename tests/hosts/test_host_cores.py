"""Cores for kit and engine: all splits of small machines, held against what is promised."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hosts.trees import CPU, plant, tuned
from tickproof.conformance.hosts.cores import Cores, assign, divide
from tickproof.conformance.hosts.host_files import listed, parse_list
from tickproof.conformance.hosts.model import HostError


@st.composite
def machines(draw):
    """Draw (kit, engine, usable, isolated, sibling groups, nodes)."""
    count = draw(st.integers(1, 12))
    usable = draw(st.lists(st.integers(0, 15), min_size=count, max_size=count, unique=True))
    isolated = [core for core in usable if draw(st.booleans())] if draw(st.booleans()) else []
    paired = draw(st.booleans())
    groups = [(core, core + 8) if paired else (core,) for core in range(8 if paired else 16)]
    groups = [tuple(c for c in group if c in usable) for group in groups]
    nodes = [range(16)] if draw(st.booleans()) else [range(8), range(8, 16)]
    kit, engine = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    return kit, engine, usable, isolated, [g for g in groups if g], nodes


@given(machines())
def test_promises_hold_for_every_machine(machine):
    kit, engine, usable, _, groups, _ = machine
    if kit + engine > len(usable):
        with pytest.raises(HostError, match=rf"{kit} for the kit and {engine} .* {len(usable)} "):
            divide(*machine)
        return
    cores = divide(*machine)
    assert set(cores.kit) | set(cores.engine) | set(cores.housekeeping) == set(usable)
    if cores.shared:
        assert (cores.kit, cores.engine) == (tuple(sorted(usable)), tuple(sorted(usable)))
        # Only where none were asked for, and few are there.
        assert not (kit and engine)
        assert len(usable) < 4 or kit + engine == len(usable)
        return
    for asked, got in ((kit, cores.kit), (engine, cores.engine)):
        assert len(got) == asked if asked else len(got) >= 1
        assert list(got) == sorted(set(got))
    assert len(cores.kit) + len(cores.engine) + len(cores.housekeeping) == len(usable)
    if not kit and not engine:
        assert cores.housekeeping
        assert len(cores.engine) >= len(cores.kit)
    split = [g for g in groups if set(g) & set(cores.kit) and set(g) & set(cores.engine)]
    # At most one physical core is split, and only where no whole one is left for the engine.
    assert len(split) <= 1
    if not engine:
        spare = [g for g in groups if not set(g) & {*cores.kit, *cores.housekeeping}]
        assert not split or all(set(g) <= set(cores.engine) for g in spare)


@given(machines())
def test_isolated_cores_are_preferred(machine):
    kit, engine, usable, isolated, _, nodes = machine
    if not kit or not engine or kit + engine > len(usable):
        return
    cores = divide(kit, engine, usable, isolated, (), nodes)
    if kit + engine <= len(isolated):
        assert {*cores.kit, *cores.engine} <= set(isolated)
    elif isolated and kit + engine < len(usable):
        assert min(set(usable) - set(isolated)) in cores.housekeeping


PAIRS = [(core, core + 4) for core in range(4)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((0, 0, range(1)), Cores((0,), (0,), (), True)),
        ((0, 0, range(2)), Cores((0, 1), (0, 1), (), True)),
        ((1, 1, range(2)), Cores((0,), (1,), (), False)),
        ((0, 1, range(2)), Cores((0,), (1,), (), False)),
        ((0, 0, range(4)), Cores((1,), (2, 3), (0,), False)),
        ((0, 0, range(8)), Cores((1, 2), (3, 4, 5, 6, 7), (0,), False)),
        ((2, 14, range(16)), Cores((0, 1), tuple(range(2, 16)), (), False)),
        ((0, 0, range(8), (), PAIRS), Cores((1, 5), (2, 3, 6, 7), (0, 4), False)),
        ((1, 3, range(8), (), PAIRS), Cores((1,), (2, 3, 6), (0, 4, 5, 7), False)),
        ((1, 0, range(8), (), PAIRS), Cores((1,), (2, 3, 6, 7), (0, 4, 5), False)),
        ((0, 0, range(8), range(4, 8)), Cores((4,), (5, 6, 7), (0, 1, 2, 3), False)),
        (
            (0, 0, range(8), (), (), [range(3), range(3, 8)]),
            Cores((3, 4), (5, 6, 7), (0, 1, 2), False),
        ),
    ],
)
def test_known_machines(asked, expected):
    assert divide(*asked) == expected


def test_more_than_there_are_names_both():
    with pytest.raises(HostError, match=r"2 for the kit and 7 for the engine .* 8 present .*0-7"):
        divide(2, 7, range(8))
    with pytest.raises(HostError, match="expected counts from 0; got -1"):
        divide(-1, 1, range(8))


def test_a_process_starts_without_the_isolated_cores_and_may_go_there(tmp_path):
    status = "CapEff:\t00\nCpus_allowed_list:\t{}\n"
    root = plant(tmp_path, tuned() | {"proc/self/status": status.format("0-1")})
    assert assign(root=root) == Cores((2, 3), (4, 5, 6, 7), (0, 1), False)
    # Whoever chose cores gets those and no others.
    plant(root, {"proc/self/status": status.format("0,3-4")})
    assert assign(root=root) == Cores((0, 3, 4), (0, 3, 4), (), True)
    plant(root, {f"{CPU}/online": "0-3", "proc/self/status": status.format("0-127")})
    assert assign(1, 1, root=root) == Cores((2,), (3,), (0, 1), False)


def test_this_machine_gives_what_may_be_used():
    cores = assign()
    assert {*cores.kit, *cores.engine, *cores.housekeeping} >= os.sched_getaffinity(0)
    with pytest.raises(HostError, match="present"):
        assign(1, 1 << 20)


@given(st.frozensets(st.integers(0, 300)))
def test_lists_read_back(cores):
    assert (parse_list(listed(cores)) or ()) == tuple(sorted(cores))


@pytest.mark.parametrize("text", ["", "3-1", "a", "1,,2", "1-", "0-99999999", "1 2", "-1"])
def test_no_list(text):
    assert parse_list(text) is None
