"""Servers of a run: a log server, or a proxy and its topics, and the publisher."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tickproof.conformance.engines.security import Access
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.faults.controller import FaultController
from tickproof.conformance.log_server.input_log import InputLog
from tickproof.conformance.log_server.open_loop import OpenLoop
from tickproof.conformance.log_server.publisher import Publisher
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.log_server.server import LogServer
from tickproof.conformance.log_server.sink import Sink
from tickproof.conformance.scenario import Scenario
from tickproof.generators.partitions import BuiltInput

if TYPE_CHECKING:
    from tickproof.conformance.kafka.exchange import Exchange
    from tickproof.conformance.kafka.own_brokers import OwnBrokers
    from tickproof.conformance.kafka.proxy import Proxy


@dataclass(frozen=True)
class Servers:
    """Servers of one run, in the ``stack`` that closes them.

    data: how the engine reaches it, for deploy; renewed: what of it is another after a restart.
    exchange: where it is reached over Kafka. brokers: those of this run alone, if it has some.
    access: what the engine's clients need beside an address, None if all is plaintext.
    """

    server: LogServer | Proxy
    publisher: Publisher | OpenLoop
    data: dict[str, Any]
    renewed: Callable[[], dict[str, Any]] = dict
    exchange: Exchange | None = None
    brokers: OwnBrokers | None = None
    access: Access | None = None

    def reach(self, again: bool) -> dict[str, Any]:
        """Return the data member of a deploy, ``again`` after a restart."""
        if again:
            self.data.update(self.renewed())
        return self.data


def open_servers(
    spec: EngineSpec,
    scenario: Scenario,
    built: BuiltInput,
    run_id: str,
    log: InputLog,
    recorder: Recorder,
    sink: Sink,
    faults: FaultController,
    stack: contextlib.ExitStack,
    *,
    folder: Path,
    event: Callable[..., None],
    tell: Callable[..., Any],
    port: int,
) -> Servers:
    """Open what serves a run; what publishes is not yet started.

    ``tell`` hears of an open loop's schedule. Raises OSError where the port is taken, or what
    publishes may not run as its pace asks, and KafkaUnavailable.
    """
    publisher: Publisher | OpenLoop
    if scenario.pace is None:
        publisher = Publisher(log, built.plan, scenario.rate, faults.limit, scenario.hold)
    else:
        over_kafka = spec.kafka is not None
        publisher = OpenLoop(
            log, built.plan, scenario.pace, faults.limit, folder, tell, reported=over_kafka
        )
    if spec.kafka is not None:
        from tickproof.conformance.runner.kafka_servers import open_over_kafka

        proxy, exchange, brokers, access = open_over_kafka(
            spec,
            scenario,
            built,
            run_id,
            log,
            recorder,
            sink,
            publisher,
            faults,
            stack,
            event,
            tell,
            port,
        )
        servers = Servers(
            proxy, publisher, exchange.data, exchange=exchange, brokers=brokers, access=access
        )
    else:
        log_server = LogServer(log, recorder, sink, event, port, faults.observe, publisher)
        stack.enter_context(log_server)
        data = {"transport": "log", "token": log_server.token.hex()}
        renewed = lambda: {"token": log_server.renew_token()}  # noqa: E731
        servers = Servers(log_server, publisher, data, renewed)
    server = servers.server
    servers.data.update(host="127.0.0.1", port=server.port)
    return servers
