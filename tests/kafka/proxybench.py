"""Measure the way through the proxy, plain and with TLS, beside the direct one.

`python -m tests.kafka.proxybench`.

Producer and consumer are a process of their own each, one after the other, on records of 52
bytes. The ways take turns, and the median of the rounds is shown.
"""

from __future__ import annotations

import contextlib
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
from tickproof.conformance.kafka.tls import make_identity
from tickproof.conformance.kafka.traffic import Roles

RECORDS: Final = 600_000
ROUNDS: Final = 3
PARTITIONS: Final = 4
_BATCH: Final = 10_000
_VALUE: Final = b"v" * 52


def produce(address: str, topic: str, ca: str) -> float:
    """Return records a second."""
    sink = Producer(
        {
            **_reached(address, ca),
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


def consume(address: str, topic: str, ca: str) -> float:
    """Return records a second."""
    source = Consumer({**_reached(address, ca), "group.id": uuid4().hex})
    source.list_topics(topic, timeout=10)
    began, seen = time.monotonic(), 0
    source.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    while seen < RECORDS:
        seen += len(source.consume(_BATCH, 1.0))
    return RECORDS / (time.monotonic() - began)


def _reached(address: str, ca: str) -> dict[str, str]:
    tls = {"security.protocol": "ssl", "ssl.ca.pem": ca} if ca else {}
    return {"bootstrap.servers": address, **tls}


def _peer(role: str, address: str, topic: str, ca: str) -> float:
    command = [sys.executable, "-m", "tests.kafka.proxybench", role, address, topic, ca]
    return float(subprocess.run(command, check=True, capture_output=True, timeout=300).stdout)


def main() -> None:
    """Measure, and print two lines for each role."""
    rates: dict[tuple[str, str], list[float]] = {}
    shares: dict[tuple[str, str], list[float]] = {}
    identity = make_identity()
    with Broker() as broker:
        (port,) = broker.address.engine_ports
        for _ in range(ROUNDS):
            topics = {way: f"{way}-{uuid4().hex[:8]}" for way in ("direct", "proxy", "tls")}
            Cluster(broker.address.kit).create(dict.fromkeys(topics.values(), PARTITIONS))
            with contextlib.ExitStack() as stack:
                proxies = {
                    way: stack.enter_context(
                        Proxy(
                            [port],
                            Roles({topics[way]: 0}, {topics[way]}),
                            lambda *_, **__: None,
                            tls=identity.context if way == "tls" else None,
                        )
                    )
                    for way in ("proxy", "tls")
                }
                for role in ("produce", "consume"):
                    for way, topic in topics.items():
                        proxy, ca = proxies.get(way), identity.ca if way == "tls" else ""
                        used = proxy.cpu_s if proxy else 0.0
                        address = f"127.0.0.1:{proxy.port if proxy else port}"
                        rate = _peer(role, address, topic, ca)
                        rates.setdefault((role, way), []).append(rate)
                        if proxy:
                            spent_us = (proxy.cpu_s - used) * 1e6 / RECORDS
                            shares.setdefault((role, way), []).append(spent_us)
                for proxy in proxies.values():
                    assert proxy.failure is None
                    assert proxy.traffic.plain == proxy.traffic.fetched == RECORDS
    for (role, way), spent in shares.items():
        direct, through = (statistics.median(rates[role, one]) for one in ("direct", way))
        print(
            f"{role}, {way}: {through:,.0f} records/s, {direct:,.0f} without a proxy, ratio "
            f"{through / direct:.2f}; the proxy used {statistics.median(spent):.2f} us a record"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print({"produce": produce, "consume": consume}[sys.argv[1]](*sys.argv[2:]))
    else:
        main()
