"""Tier 4, on several hosts: a network that fails, and hosts that die.

Several faults may meet one run; each test asks for the proof that its own fault met something.
"""

from __future__ import annotations

from typing import Final

from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.scenario import FIRST, OF_CABLE, Do, FaultStep
from tickproof.conformance.suites.judge import Fail, Unknown, decides
from tickproof.conformance.suites.require import require_completed, require_correct
from tickproof.conformance.verdicts import Reason

_WHERE: Final = {"first": "the first host", "others": "another host than the first"}


def _exact(history: History, do: Do) -> None:
    """Expect that all is right, and that faults of the network were carried out and met some."""
    require_correct(history)
    _met(history, do)


def _met(history: History, do: Do) -> None:
    planned = [FaultStep.from_json(step) for step in history.run["scenario"]["faults"]]
    wanted = sum(step.do == do for step in planned)
    over = history.all(events.Network, do=do)
    if len(over) < wanted:
        if history.ended["how"] == "engine-failure":
            require_completed(history)
        missed = [one.why for one in history.missed_faults if one.step and one.step.do == do]
        why = "; ".join(missed) or "its moment did not come"
        raise Unknown(Reason.KILL_MISSED, f"{wanted} times {do} of a host", f"{len(over)} ({why})")
    if any(not one.packets for one in over):
        raise Unknown(
            Reason.NOTHING_IN_FLIGHT, f"packets that met {do} of a host", "there were none"
        )


@decides("NE-PLACES", "count-net-partition")
def test_processes_run_where_they_are_to(history: History) -> None:
    require_completed(history)
    placed = history.all(events.Placed)
    if not placed:
        raise Unknown(Reason.NOT_SEEN, "a look at the hosts of the processes", "none")
    for event in placed:
        for one in event.placed:
            if not one.host:
                continue  # it ended before it was looked at
            if one.where != "any" and (one.where == "first") != (one.host == FIRST):
                raise Fail(
                    Reason.WRONG_HOST,
                    f"a {one.role} on {_WHERE[one.where]}",
                    f"pid {one.pid} on {one.host}",
                )


@decides("NE-PARTITION", "count-net-partition")
def test_totals_after_a_partition(history: History) -> None:
    _exact(history, "partition")


@decides("NE-ONE-WAY", "count-net-one-way")
def test_totals_after_partitions_in_one_direction(history: History) -> None:
    _exact(history, "partition")


@decides("NE-CUT-OFF", "count-net-cut-off")
def test_totals_after_a_host_was_cut_off(history: History) -> None:
    _exact(history, "partition")


@decides("NE-MUTE", "count-net-mute")
def test_totals_after_a_host_was_mute(history: History) -> None:
    _exact(history, "partition")


@decides("NE-MUTE", "market-two-net-mute")
def test_verdicts_after_a_host_was_mute(history: History) -> None:
    _exact(history, "partition")


@decides("NE-HOST-DEATH", "count-host-death")
def test_totals_after_the_death_of_a_host(history: History) -> None:
    _exact(history, "kill")


@decides("NE-SLOW", "count-net-slow")
def test_totals_over_a_network_that_loses_and_is_slow(history: History) -> None:
    _exact(history, "loss")
    _met(history, "throttle")


@decides("NE-PACKETS", "count-net-packets")
def test_totals_over_late_doubled_and_damaged_packets(history: History) -> None:
    require_correct(history)
    for do in sorted(OF_CABLE):
        _met(history, do)
