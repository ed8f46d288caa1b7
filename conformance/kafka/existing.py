"""A cluster that is there already, in place of a broker of the kit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka.broker import BrokerAddress
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.metadata import LOCAL_NAMES
from tickproof.conformance.text import shown

#: What a broker bounds by these settings, in the words of engine.toml.
_SESSION: Final = ("group.min.session.timeout.ms", "group.max.session.timeout.ms")
_TRANSACTION: Final = "transaction.max.timeout.ms"
_LIMIT_S: Final = 10.0


def reached(address: str, specs: Iterable[EngineSpec]) -> BrokerAddress:
    """Look at the cluster at host:port, and whether it takes what engines say in `[kafka]`.

    Raises KafkaUnavailable: no answer, several brokers, one that names another host than
    `LOCAL_NAMES` to its clients, a timeout that it does not allow; an engine that logs in.
    """
    where = f"--kafka {shown(address, 100)}"
    specs = list(specs)
    for spec in specs:
        if spec.security.login:
            raise KafkaUnavailable(
                f"{where}: expected engines that do not log in, for no user of it is known; "
                f'{spec.name} has security = "{spec.security.protocol}"'
            )
    cluster = Cluster(address)
    brokers = cluster.brokers(_LIMIT_S)
    if len(brokers) != 1:
        raise KafkaUnavailable(
            f"{where}: expected a cluster of one broker, for the proxy leads to one; "
            f"it has {len(brokers)}"
        )
    ((number, (host, port)),) = brokers.items()
    if host not in LOCAL_NAMES:
        raise KafkaUnavailable(
            f"{where}: its broker tells clients to come to {shown(host, 100)}:{port}, past the "
            f"proxy; expected {' or '.join(LOCAL_NAMES)} in advertised.listeners"
        )
    known = cluster.settings(number, (*_SESSION, _TRANSACTION), _LIMIT_S)
    _check_limits(where, known, specs)
    return BrokerAddress(address, [port], transaction_version=None, outlives=True)


def _check_limits(where: str, known: dict[str, str], specs: Iterable[EngineSpec]) -> None:
    """Raise KafkaUnavailable for a timeout of an engine that the broker would refuse."""
    for spec in specs:
        assert spec.kafka is not None
        session, transaction = spec.kafka.session_ms, spec.kafka.transaction_ms
        low, high = (int(known.get(name, session)) for name in _SESSION)
        longest = int(known.get(_TRANSACTION, transaction))
        if session and not low <= session <= high:
            raise KafkaUnavailable(
                f"{where}: its broker takes sessions of {low} to {high} ms; "
                f"{spec.name} claims session_timeout_ms = {session}"
            )
        if transaction > longest:
            raise KafkaUnavailable(
                f"{where}: its broker takes transactions of at most {longest} ms; "
                f"{spec.name} claims transaction_timeout_ms = {transaction}"
            )
