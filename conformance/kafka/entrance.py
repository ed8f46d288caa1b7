"""The entrance of an engine's clients: where they come in, with TLS and a login if they want."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.engines.security import Access, Security
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka.broker import BrokerAddress
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.tls import make_identity

#: The broker has the password of PLAIN in its settings; one of SCRAM is told it as a user's.
_IN_SETTINGS: Final = "PLAIN"


@dataclass(frozen=True)
class Entrance:
    """What the proxy of a run needs. access: for the engine, None if all is plaintext."""

    ports: Sequence[int]
    tls: ssl.SSLContext | None = None
    access: Access | None = None


def entrance(address: BrokerAddress, security: Security) -> Entrance:
    """Return the entrance that a security asks for; raises KafkaUnavailable.

    What a run has made on the broker after it, is known only to brokers that know its user.
    """
    ports, username, password = address.engine_ports, "", ""
    if security.login:
        if not address.login_ports:
            raise KafkaUnavailable(
                f'security = "{security.protocol}": expected a broker that the kit has started, '
                f"for its user is there; found {address.kit}; leave --kafka out"
            )
        ports, username, password = address.login_ports, address.username, address.password
        if security.mechanism != _IN_SETTINGS:
            Cluster(address.kit).add_user(username, password, security.mechanism)
    if security.tls:
        identity = make_identity()
        access = Access(security, identity.ca, username, password)
        return Entrance(ports, identity.context, access)
    return Entrance(ports, None, Access(security, "", username, password) if username else None)
