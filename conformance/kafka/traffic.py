"""The topics of a run, and the traffic that has passed the proxy so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tickproof.conformance.history.event import StateRead
from tickproof.conformance.kafka.names import Name, NameKind
from tickproof.conformance.kafka.wire import Api, Topic
from tickproof.conformance.log_server.connection_use import ConnectionUse

#: So many names of an engine are kept.
MOST_NAMES: Final = 10_000
#: So many readings of topics of its own are kept.
MOST_READS: Final = 1_000


@dataclass(frozen=True)
class Roles:
    """The topics of a run by name: inputs with their streams, and outputs.

    Any other topic belongs to the engine alone (a changelog, say).
    """

    inputs: Mapping[str, int]
    outputs: Collection[str]


class Topics:
    """Tells what a topic is for, by its name or id; ids are learnt out of Metadata."""

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._names: dict[bytes, str] = {}

    def learn(self, names: Mapping[bytes, str]) -> None:
        """Take the names of ids that have passed: those that have a role, and some others."""
        known = {*self._roles.inputs, *self._roles.outputs}
        for id_, name in names.items():
            if name in known or len(self._names) < MOST_NAMES:
                self._names[id_] = name

    def stream(self, topic: Topic) -> int | None:
        """Return the stream of an input topic, None for any other."""
        return self._roles.inputs.get(self._name(topic))

    def is_output(self, topic: Topic) -> bool:
        """Say whether a topic takes the output of the engine."""
        return self._name(topic) in self._roles.outputs

    def own(self, topic: Topic) -> str:
        """Return the name of a topic that is the engine's own, "" for any other."""
        name = self._name(topic)
        return "" if name in self._roles.inputs or name in self._roles.outputs else name

    def _name(self, topic: Topic) -> str:
        return topic if isinstance(topic, str) else self._names.get(topic, "")


@dataclass
class Traffic:
    """Traffic so far; written in the thread of the proxy, read in any.

    fetched: records of input that were answered, also those that came again. plain,
    transactional: records of output that the broker took. commits, aborts: transactions that
    it ended. acknowledged: records of output whose answer has left. unread: (api key, version) of
    requests that are passed on unread. malformed:
    frames of a known version that are not of its shape. errors: (api key, error) of answers.
    names: what the engine calls its own, the first `MOST_NAMES` of them. timeouts_ms: what
    clients asked for, in ms, by the request that says it. by_broker: records of output by the
    number of the broker that acknowledged them. askers: by stream and partition of the input, the
    connection that named it last to fetch it: that of its owner. state_written: records that the
    broker took in topics that are the engine's own. state_reads: what was learnt of these by
    connection, topic and partition, the first `MOST_READS` of them.
    """

    fetched: int = 0
    plain: int = 0
    transactional: int = 0
    acknowledged: int = 0
    commits: int = 0
    aborts: int = 0
    malformed: int = 0
    requests: Counter[int] = field(default_factory=Counter)
    unread: Counter[tuple[int, int]] = field(default_factory=Counter)
    errors: Counter[tuple[int, int]] = field(default_factory=Counter)
    names: set[Name] = field(default_factory=set)
    timeouts_ms: dict[Api, set[int]] = field(default_factory=dict)
    by_broker: Counter[int] = field(default_factory=Counter)
    askers: dict[tuple[int, int], ConnectionUse] = field(default_factory=dict)
    state_written: Counter[tuple[str, int]] = field(default_factory=Counter)
    state_reads: dict[tuple[int, str, int], StateRead] = field(default_factory=dict)

    def note(self, names: Iterable[Name]) -> None:
        """Take names that have passed."""
        for one in names:
            if len(self.names) < MOST_NAMES:
                self.names.add(one)

    def learnt(
        self, connection: int, topic: str, partition: int, *, told: int = -1, sent: int = 0
    ) -> None:
        """Take what an answer says of a partition of a topic of the engine's own."""
        where, t_ns = (connection, topic, partition), time.monotonic_ns()
        known = self.state_reads.get(where)
        if known is None and len(self.state_reads) >= MOST_READS:
            return
        known = known or StateRead(topic, partition, connection, t_ns, t_ns, -1, 0, 0)
        self.state_reads[where] = known._replace(
            until_ns=t_ns,
            told=max(known.told, told),
            sent=max(known.sent, sent),
            written=self.state_written[topic, partition],
        )

    @property
    def transactional_ids(self) -> set[str]:
        """The transactional ids among the names."""
        return {one.text for one in self.names if one.kind is NameKind.TRANSACTIONAL_ID}

    @property
    def taken(self) -> int:
        """Records of output that the broker took, in transactions or not."""
        return self.plain + self.transactional
