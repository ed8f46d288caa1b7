"""What serves a run: a log server, or a proxy and the topics behind it, and what publishes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.faults.controller import FaultController
from tickproof.conformance.kafka import expected_output, payloads, shared_broker
from tickproof.conformance.kafka.completion import Completion
from tickproof.conformance.kafka.exchange import Exchange
from tickproof.conformance.kafka.proxy import Proxy
from tickproof.conformance.kafka.traffic import Roles
from tickproof.conformance.log_server.input_log import InputLog, PartitionSource
from tickproof.conformance.log_server.open_loop import OpenLoop
from tickproof.conformance.log_server.publisher import Publisher
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.scenario import Scenario
from tickproof.generators.layouts import framed
from tickproof.generators.partitions import BuiltInput


@dataclass(frozen=True)
class Servers:
    """What serves one run, in the ``stack`` that closes it.

    data: how the engine reaches it, for deploy. completion: what tells that an engine has
    drained that cannot be asked, given how long it may stand still.
    """

    server: LogServer | Proxy
    publisher: Publisher | OpenLoop
    data: dict[str, Any]
    completion: Callable[[float], Completion] | None = None
    exchange: Exchange | None = None


def open_servers(
    spec: EngineSpec, scenario: Scenario, built: BuiltInput, run_id: str, log: InputLog,
    recorder: Recorder, sink: Sink, faults: FaultController, stack: contextlib.ExitStack, *,
    folder: Path, event: Callable[..., None], tell: Callable[..., Any], port: int,
) -> Servers:  # fmt: skip
    """Open what serves a run; what publishes is not yet started.

    ``tell`` hears of an open loop's schedule. Raises OSError where the port is taken, or what
    publishes may not run as its pace asks, and KafkaUnavailable.
    """
    publisher: Publisher | OpenLoop
    if scenario.pace is None:
        publisher = Publisher(log, built.plan, scenario.rate, faults.limit, scenario.hold)
    else:
        publisher = OpenLoop(log, built.plan, scenario.pace, faults.limit, folder, tell)
        faults.holds_connections = False
    if spec.kafka is not None:
        servers = _over_kafka(
            spec, scenario, built, run_id, log, recorder, publisher, faults, stack, event, tell,
            port,
        )  # fmt: skip
    else:
        log_server = LogServer(log, recorder, sink, event, port, faults.observe, publisher)
        stack.enter_context(log_server)
        data = {"transport": "log", "token": log_server.token.hex()}
        servers = Servers(log_server, publisher, data)
    server = servers.server
    servers.data.update(host="127.0.0.1", port=server.port)
    faults.opened = lambda: server.connections
    faults.links = server.links
    return servers


def _over_kafka(
    spec: EngineSpec, scenario: Scenario, built: BuiltInput, run_id: str, log: InputLog,
    recorder: Recorder, publisher: Publisher | OpenLoop, faults: FaultController,
    stack: contextlib.ExitStack, event: Callable[..., None], tell: Callable[..., Any], port: int,
) -> Servers:  # fmt: skip
    address = shared_broker.address()
    inputs = [_payloads(scenario.app, one) for one in built.partitions]
    expected = expected_output.of(scenario.app, scenario.params, inputs)
    exchange = Exchange(
        address, scenario, run_id, log, recorder, built.partitions, publisher, expected,
        spec.timeouts.startup_s, event,
    )  # fmt: skip
    stack.enter_context(exchange)

    def observe(moment: str, connection: int) -> Future[bool] | None:
        exchange.observed(moment)
        return faults.observe(moment, connection)

    roles = Roles(exchange.inputs, {exchange.output})
    proxy = Proxy(address.engine_port, roles, event, observe, port, exchange.fetched)
    stack.enter_context(proxy)
    exchange.produced = lambda: proxy.traffic.plain + proxy.traffic.transactional
    assert spec.kafka is not None
    tell(kafka={
        "session_s": spec.kafka.session_ms / 1e3, "transaction_s": spec.kafka.transaction_ms / 1e3,
        "transaction_version": address.transaction_version,
    })  # fmt: skip
    return Servers(proxy, publisher, exchange.data, exchange.completion, exchange)


def _payloads(app: str, source: PartitionSource) -> np.ndarray:
    layout = payloads.input_layout(app, source.record_size)
    return np.fromfile(source.path, framed(layout))["payload"]
