"""Settings of the brokers of the kit: server.properties of each node, as pure functions."""

from __future__ import annotations

from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
SHORTEST_SESSION_MS: Final = 1000
SHORTEST_HEARTBEAT_MS: Final = 300
#: Brokers of a cluster in which one may die: a majority keeps what was acknowledged.
REPLICAS: Final = 3
#: The node that says who leads, where it is not the only broker.
CONTROLLER: Final = 100
#: The listener for engines that log in.
_LOGIN: Final = "ENGINE_LOGIN"
_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
#: What differs from Kafka's own defaults, beside names, ports and folders.
SETTINGS: Final = {
    "auto.leader.rebalance.enable": "false",
    # The kit reads the time line of commits from these two, and all of it.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # A run takes minutes, and nothing gets too old in it. By its timestamps, input of last year is
    # too old at once for a topic with a retention of its own, as Kafka Streams makes them. So Kafka
    # looks for such records once, when it starts and leads nothing yet, and then in ten years.
    "log.cleaner.enable": "false",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": str(10 * 365 * 86_400_000),
    "log.initial.task.delay.ms": "0",
    # Engines say how long a dead member or transaction may hold up others; a test should not
    # wait longer than that, nor be told that it may not say so.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(SHORTEST_HEARTBEAT_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.max.timeout.ms": "3600000",
    # A topic that nobody made is a mistake of the engine, not a topic.
    "auto.create.topics.enable": "false",
    # Runs come and go.
    "log.segment.delete.delay.ms": "1000",
    # Two cores are shared with the engine and the kit.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}
#: Beside that, for a cluster: after how long without a word a broker is taken for dead.
CLUSTER_SETTINGS: Final = {
    "default.replication.factor": str(REPLICAS),
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}


class Ports(NamedTuple):
    """Ports of a broker: for the kit, for engines without and with a login, for its peers.

    told_peers: what it tells those.
    """

    kit: int
    engine: int
    login: int
    peer: int
    told_peers: int


class User(NamedTuple):
    """Who may come in by the listener with a login."""

    name: str
    password: str


def combined(ports: Ports, controller: int, user: User) -> dict[str, str]:
    """Return the settings of the only broker, its own controller at the port ``controller``."""
    clients = _clients(ports)
    return _common(1, controller) | {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"{clients},{_listener('CONTROLLER', controller)}",
        "advertised.listeners": clients,
        "inter.broker.listener.name": "KIT",
        **_login(user),
        **_copies(1),
    }


def controller_alone(controller: int) -> dict[str, str]:
    """Return the settings of the controller of a cluster, at the port ``controller``."""
    return _common(CONTROLLER, controller) | {
        "process.roles": "controller",
        "node.id": str(CONTROLLER),
        "listeners": _listener("CONTROLLER", controller),
        **_copies(REPLICAS),
        **CLUSTER_SETTINGS,
    }


def broker_alone(number: int, ports: Ports, controller: int, user: User) -> dict[str, str]:
    """Return the settings of a broker of a cluster, whose controller is at a port."""
    clients = _clients(ports)
    return _common(CONTROLLER, controller) | {
        "process.roles": "broker",
        "node.id": str(number),
        "listeners": f"{clients},{_listener('PEER', ports.peer)}",
        "advertised.listeners": f"{clients},{_listener('PEER', ports.told_peers)}",
        "inter.broker.listener.name": "PEER",
        **_login(user),
        **_copies(REPLICAS),
        **CLUSTER_SETTINGS,
    }


def _common(leads: int, controller: int) -> dict[str, str]:
    """Return what all nodes know; leads: the number of the controller."""
    plain = ("KIT", "ENGINE", "PEER", "CONTROLLER")
    protocols = [f"{name}:PLAINTEXT" for name in plain] + [f"{_LOGIN}:SASL_PLAINTEXT"]
    return SETTINGS | {
        "controller.quorum.voters": f"{leads}@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": ",".join(protocols),
    }


def _login(user: User) -> dict[str, str]:
    """Return how clients log in who have to; users of SCRAM are no settings, but records."""
    listener = f"listener.name.{_LOGIN.lower()}"
    modules = "org.apache.kafka.common.security"
    plain = f'{modules}.plain.PlainLoginModule required user_{user.name}="{user.password}";'
    scram = f"{modules}.scram.ScramLoginModule required;"
    return {
        f"{listener}.sasl.enabled.mechanisms": ",".join(("PLAIN", *_SCRAM)),
        f"{listener}.plain.sasl.jaas.config": plain,
        **{f"{listener}.{one.lower()}.sasl.jaas.config": scram for one in _SCRAM},
    }


def _copies(number: int) -> dict[str, str]:
    """Return how many copies Kafka keeps of its own topics, of which it may lose one."""
    least = str(max(1, number - 1))
    return {
        "offsets.topic.replication.factor": str(number),
        "transaction.state.log.replication.factor": str(number),
        "transaction.state.log.min.isr": least,
        "share.coordinator.state.topic.replication.factor": str(number),
        "share.coordinator.state.topic.min.isr": least,
    }


def _clients(ports: Ports) -> str:
    named = (("KIT", ports.kit), ("ENGINE", ports.engine), (_LOGIN, ports.login))
    return ",".join(_listener(name, port) for name, port in named)


def _listener(name: str, port: int) -> str:
    return f"{name}://{HOST}:{port}"
