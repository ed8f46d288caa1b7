"""Rules for faults of the network, as text, and what is read from their counters."""

from __future__ import annotations

import json

import pytest

from tickproof.conformance.fault_steps import ReorderStep
from tickproof.conformance.faults import network_rules as rules

#: As itself, and as the end of a bad cable.
HOST_2 = '{ "host-2", "host-2-port" }'
LOG = '{ "log", "log-port" }'


@pytest.mark.parametrize(
    ("way", "passing"),
    [
        ("out", [f"iifname {HOST_2} oifname {LOG}"]),
        ("in", [f"iifname {LOG} oifname {HOST_2}"]),
        ("both", [f"iifname {HOST_2} oifname {LOG}", f"iifname {LOG} oifname {HOST_2}"]),
    ],
)
def test_a_partition_counts_tcp_and_drops_all(way, passing):
    text = rules.drop("one", "host-2", "log", way)
    said = [line for line in text.splitlines() if "drop" in line]
    expected = [
        line for one in passing for line in (f"{one} ip protocol tcp counter drop", f"{one} drop")
    ]
    assert said == expected


def test_without_a_peer_all_others_are_meant():
    text = rules.drop("one", "host-2", "", "both")
    lines = text.splitlines()
    said = [line for line in lines if line.endswith(" drop") and "tcp" not in line]
    assert said == [f"iifname {HOST_2} drop", f"oifname {HOST_2} drop"]


def test_a_loss_drops_a_share_and_nothing_else():
    text = rules.drop("one", "host-2", "", "out", 0.05)
    said = [line for line in text.splitlines() if "drop" in line]
    random = "numgen random mod 10000 < 500"
    assert said == [f"iifname {HOST_2} ip protocol tcp {random} counter drop"]


@pytest.mark.parametrize(("share", "said"), [(1e-9, "< 1 "), (0.99999, "tcp counter")])
def test_a_share_is_never_none_and_may_be_all(share, said):
    assert said in rules.drop("one", "host-2", "", "both", share)


def test_counters_add_up():
    rows = [{"metainfo": {}}, {"table": {}}, {"rule": {"expr": [{"drop": None}]}}]
    rows += [{"rule": {"expr": [{"counter": {"packets": n, "bytes": 9}}]}} for n in (3, 4)]
    assert rules.dropped(json.dumps({"nftables": rows})) == 7


def test_a_rate_is_given_in_bits():
    assert "800000bit" in rules.slow("host-1", 100_000.0)


def test_what_had_to_wait_is_counted_over_devices():
    one = json.dumps([{"kind": "tbf", "overlimits": 5}, {"kind": "noqueue"}])
    assert rules.held_up([one, one]) == 10


def test_a_cable_is_told_what_to_do_to_whose_packets():
    step = ReorderStep("fetched", seconds=1.0, share=0.2, lag_s=0.02, peer="log", way="in")
    said = rules.cable(step)
    assert said == {"do": "reorder", "lag_s": 0.02, "share": 0.2, "ways": ("in",), "peer": "log"}
