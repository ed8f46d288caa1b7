"""Rules of nftables and tc that make a fault of the network, as text, and bad cables.

Pure functions. The rules lie on the switch, where no process of an engine can reach them; only what
slows down what a host sends lies on that host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from tickproof.conformance.engines.network import LOG, port
from tickproof.conformance.fault_steps import BetweenStep, Way

#: Of so many packets one is the smallest share that can be lost.
_OF: Final = 10_000
_BURST: Final = "32kb"
_QUEUE: Final = "1mb"


def table(number: int) -> str:
    """Return the name of the table of a fault, counted from 1 in its run."""
    return f"fault{number}"


def drop(name: str, host: str, peer: str, way: Way, share: float = 1.0) -> str:
    """Return a table that drops what passes between a host and its peer, all or a ``share``.

    Packets of TCP are counted: others say nothing about an engine. A reset by the log passes: it is
    another fault, TCP does not send it again, and who only waits for a reply would wait for ever.
    """
    passing = {"out": _passing(host, peer), "in": _passing(peer, host)}
    lost = max(1, round(share * _OF))
    random = f"numgen random mod {_OF} < {lost} " if lost < _OF else ""
    rules = [f"{_passing(LOG, '')} tcp flags & rst == rst accept"]
    for one in _ways(way):
        rules.append(f"{passing[one]} ip protocol tcp {random}counter drop")
        rules += [] if random else [f"{passing[one]} drop"]
    chain = "\n".join(["type filter hook forward priority 0;", *rules])
    return f"table bridge {name} {{\nchain passing {{\n{chain}\n}}\n}}\n"


def _ways(way: Way) -> tuple[Way, ...]:
    return ("out", "in") if way == "both" else (way,)


def _passing(source: str, target: str) -> str:
    found = [f"iifname {_ports(source)}"] if source else []
    return " ".join([*found, f"oifname {_ports(target)}"] if target else found)


def _ports(host: str) -> str:
    """Return what a host is on the bridge as: itself, or the end of a bad cable."""
    return f'{{ "{host}", "{port(host)}" }}'


def cable(step: BetweenStep) -> dict[str, Any]:
    """Return what a bad cable of a host does, as cable.py has it."""
    row = step.to_json()
    return {key: row[key] for key in ("do", "lag_s", "share")} | {
        "ways": _ways(step.way),
        "peer": step.peer,
    }


def dropped(listing: str) -> int:
    """Return the packets that a table has dropped, from ``nft -j list table``."""
    rules = [row["rule"]["expr"] for row in json.loads(listing)["nftables"] if "rule" in row]
    return sum(one["counter"]["packets"] for rule in rules for one in rule if "counter" in one)


def slow(device: str, rate: float) -> list[str]:
    """Return the command that lets a device send ``rate`` bytes a second."""
    bits = max(8, round(rate * 8))
    words = f"tc qdisc replace dev {device} root tbf rate {bits}bit burst {_BURST} limit {_QUEUE}"
    return words.split()


def held_up(listings: Iterable[str]) -> int:
    """Return how often something had to wait, from ``tc -s -j qdisc show`` of devices."""
    rows = [row for listing in listings for row in json.loads(listing)]
    return sum(int(row.get("overlimits", 0)) for row in rows if row.get("kind") == "tbf")
