"""Kafka transport for one run: topics, their writers and readers, and the proxy.

Imported only for such a run: what it needs takes a while to load.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.apps.app import App
from tickproof.conformance.engines.security import Access
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.faults.controller import FaultController
from tickproof.conformance.faults.kinds import meets_broker, meets_leader
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.broker_settings import REPLICAS
from tickproof.conformance.kafka.entrance import entrance
from tickproof.conformance.kafka.exchange import Exchange
from tickproof.conformance.kafka.own_brokers import OwnBrokers
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles
from tickproof.conformance.log_server.input_log import InputLog, PartitionSource
from tickproof.conformance.log_server.open_loop import OpenLoop
from tickproof.conformance.log_server.publisher import Publisher
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.scenario import Scenario
from tickproof.generators.layouts import framed
from tickproof.generators.partitions import BuiltInput
from tickproof.generators.spread_rule import decimals_of, spread_limit


def open_over_kafka(
    spec: EngineSpec,
    scenario: Scenario,
    built: BuiltInput,
    run_id: str,
    log: InputLog,
    recorder: Recorder,
    sink: Sink,
    publisher: Publisher | OpenLoop,
    faults: FaultController,
    stack: contextlib.ExitStack,
    event: Callable[..., None],
    tell: Callable[..., Any],
    port: int,
) -> tuple[Proxy, Exchange, OwnBrokers | None, Access | None]:
    """Open both, in the ``stack`` that closes them, and the run's own brokers, if one dies.

    The last is what the engine's clients need beside an address, if anything.

    Raises KafkaUnavailable, and OSError.
    """
    address, broker = shared_broker.address(), None
    if meets_broker(scenario.faults) and not address.outlives:
        nodes = REPLICAS if meets_leader(scenario.faults) else 1
        version = address.transaction_version or 2
        broker = stack.enter_context(Broker(nodes=nodes, transaction_version=version))
        address = broker.address
    app = apps.of(scenario)
    inputs = [_payloads(app, one) for one in built.partitions]
    expected = app.expected(inputs, spread_limit(decimals_of(built.recipe)))
    assert spec.kafka is not None
    way_in = entrance(address, spec.security)  # before the topics, see there
    exchange = Exchange(
        address,
        scenario,
        run_id,
        log,
        recorder,
        built.partitions,
        publisher,
        expected,
        spec.timeouts.startup_s,
        spec.kafka.session_ms,
        event,
    )
    stack.enter_context(exchange)

    def observe(moment: str, connection: int) -> Future[bool] | None:
        exchange.observed(moment)
        return faults.observe(moment, connection)

    roles = Roles(exchange.inputs, {exchange.output})
    proxy = Proxy(
        way_in.ports, roles, event, observe, port, exchange.fetched, (sink, log), way_in.tls
    )
    stack.enter_context(proxy)
    exchange.traffic = proxy.traffic
    tell(
        kafka={
            "session_s": spec.kafka.session_s,
            "transaction_s": spec.kafka.transaction_s,
            "transaction_version": address.transaction_version,
        }
    )

    if broker is None:
        return proxy, exchange, None, way_in.access
    own = OwnBrokers(broker, proxy, exchange.brokers_away)
    stack.callback(own.close)
    return proxy, exchange, own, way_in.access


def _payloads(app: App, source: PartitionSource) -> np.ndarray:
    layout = app.input_layouts(source.record_size)[source.stream]
    return np.fromfile(source.path, framed(layout))["payload"]
