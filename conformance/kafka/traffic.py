"""The topics of a run, and the traffic that has passed the proxy so far."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tickproof.conformance.history.event import StateRead
from tickproof.conformance.kafka.names import Name, NameKind
from tickproof.conformance.kafka.wire import Api, Fetched, Topic
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
        return self._roles.inputs.get(self.name(topic))

    def is_output(self, topic: Topic) -> bool:
        """Say whether a topic takes the output of the engine."""
        return self.name(topic) in self._roles.outputs

    def name(self, topic: Topic) -> str:
        """Return the name of a topic, "" of an id that nobody has named."""
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
    connection that named it last to fetch it: that of its owner. state_reads: by connection,
    topic and partition, the first `MOST_READS` of them.
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
    state_reads: dict[tuple[int, str, int], StateRead] = field(default_factory=dict)

    def note(self, names: Iterable[Name]) -> None:
        """Take names that have passed."""
        for one in names:
            if len(self.names) < MOST_NAMES:
                self.names.add(one)

    def note_state(self, connection: int, topic: str, fetched: Fetched) -> None:
        """Take an answer that brings records of a topic of the engine's own."""
        brought, t_ns = list(fetched.batches()), time.monotonic_ns()
        where = connection, topic, fetched.partition
        known = self.state_reads.get(where)
        if not brought or (known is None and len(self.state_reads) >= MOST_READS):
            return
        began_ns, first = (known.began_ns, known.first) if known else (t_ns, brought[0].first)
        end, stable, high = brought[-1].end, fetched.stable, fetched.high
        self.state_reads[where] = StateRead(
            topic, fetched.partition, connection, began_ns, t_ns, first, end, stable, high
        )

    @property
    def transactional_ids(self) -> set[str]:
        """The transactional ids among the names."""
        return {one.text for one in self.names if one.kind is NameKind.TRANSACTIONAL_ID}

    @property
    def taken(self) -> int:
        """Records of output that the broker took, in transactions or not."""
        return self.plain + self.transactional
