"""How fast records pass the proxy, beside the way without it: `python -m tests.kafka.proxybench`.

Producer and consumer are a process of their own each, one after the other, on records of 52
bytes. The ways take turns, and the median of the rounds is shown.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Final
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition

from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles

RECORDS: Final = 600_000
ROUNDS: Final = 3
PARTITIONS: Final = 4
_BATCH: Final = 10_000
_VALUE: Final = b"v" * 52


def produce(address: str, topic: str) -> float:
    """Return records a second."""
    sink = Producer(
        {
            "bootstrap.servers": address,
            "linger.ms": 5,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 2 * RECORDS,
        }
    )
    sink.list_topics(topic, timeout=10)
    began = time.monotonic()
    batch = [{"value": _VALUE}] * _BATCH
    for number in range(RECORDS // _BATCH):
        sink.produce_batch(topic, batch, partition=number % PARTITIONS)
    assert sink.flush(120) == 0
    return RECORDS / (time.monotonic() - began)


def consume(address: str, topic: str) -> float:
    """Return records a second."""
    source = Consumer({"bootstrap.servers": address, "group.id": uuid4().hex})
    source.list_topics(topic, timeout=10)
    began, seen = time.monotonic(), 0
    source.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while seen < RECORDS:
        seen += len(source.consume(_BATCH, 1.0))
    return RECORDS / (time.monotonic() - began)


def _peer(role: str, address: str, topic: str) -> float:
    command = [sys.executable, "-m", "tests.kafka.proxybench", role, address, topic]
    return float(subprocess.run(command, check=True, capture_output=True, timeout=300).stdout)


def main() -> None:
    """Measure, and print a line for each role."""
    rates: dict[tuple[str, str], list[float]] = {}
    shares: dict[str, list[float]] = {"produce": [], "consume": []}
    with Broker() as broker:
        for _ in range(ROUNDS):
            topics = {way: f"{way}-{uuid4().hex[:8]}" for way in ("direct", "proxy")}
            Cluster(broker.address.kit).create(dict.fromkeys(topics.values(), PARTITIONS))
            roles = Roles({topics["proxy"]: 0}, {topics["proxy"]})
            port = broker.address.engine_ports[0]
            with Proxy([port], roles, lambda *_, **__: None) as proxy:
                for role in shares:
                    for way, topic in topics.items():
                        address = f"127.0.0.1:{proxy.port if way == 'proxy' else port}"
                        used = proxy.cpu_s
                        rate = _peer(role, address, topic)
                        rates.setdefault((role, way), []).append(rate)
                        if way == "proxy":
                            shares[role].append((proxy.cpu_s - used) / (RECORDS / rate))
                assert proxy.failure is None
                assert proxy.traffic.plain == proxy.traffic.fetched == RECORDS
    for role, share in shares.items():
        direct, through = (statistics.median(rates[role, way]) for way in ("direct", "proxy"))
        print(
            f"{role}: {through:,.0f} records/s through the proxy, {direct:,.0f} without it, "
            f"ratio {through / direct:.2f}; the proxy used {statistics.median(share):.0%} of a core"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print({"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:]))
    else:
        main()
