"""A request and its answer as the proxy sees them: what they mean, and their moments."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tickproof.conformance.kafka import transaction_messages, wire
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.names import names
from tickproof.conformance.kafka.traffic import Topics, Traffic
from tickproof.conformance.kafka.transaction_messages import GroupAdded, Offsets, TransactionEnd
from tickproof.conformance.kafka.wire import (
    Api,
    EndRequest,
    FetchRequest,
    Header,
    ProduceRequest,
    Topic,
)
from tickproof.conformance.log_server.timed_faults import Lasting

#: What a request means, None where it means nothing here.
Meaning = FetchRequest | EndRequest | ProduceRequest | Offsets | GroupAdded | TransactionEnd | None


class Moments(NamedTuple):
    """Moments of a request: before the broker sees it, ...

    before the client sees the answer, and after that.
    """

    received: str
    taken: str
    acked: str


PLAIN: Final = Moments("append-received", "appended", "append-acked")
STAGED: Final = Moments("stage-received", "staged", "stage-acked")
COMMIT: Final = Moments("commit-received", "committed", "commit-acked")
JOIN: Final = Moments("join-received", "joined", "join-acked")
OFFSETS: Final = Moments("offsets-received", "offsets-taken", "offsets-acked")
GROUP: Final = Moments("group-received", "group-added", "group-acked")

#: The side that a request makes its connection belong to.
_SIDES: Final = {
    Api.FETCH: "source", Api.PRODUCE: "sink", Api.END_TXN: "sink", Api.TXN_OFFSET_COMMIT: "sink",
}  # fmt: skip


@dataclass(eq=False)
class Exchange:
    """A request that was passed on, until its answer comes.

    records: of output. refused: the answer of the proxy, which takes the place of the broker's.
    fault: that has this answer, if one of its own does. passed: the broker sees it all the same.
    """

    head: Header
    meaning: Meaning = None
    moments: Moments | None = None
    records: int = 0
    refused: bytes | None = None
    fault: Lasting | None = None
    passed: bool = False
    asked_at: float = field(default_factory=time.monotonic)

    @property
    def side(self) -> str:
        """The side that its connection belongs to by it, "" for none."""
        return _SIDES.get(self.head.key, "")  # type: ignore[call-overload]

    @property
    def answered(self) -> bool:
        """True if an answer will come."""
        return not (isinstance(self.meaning, ProduceRequest) and self.meaning.acks == 0)

    @property
    def has_effect(self) -> bool:
        """True if it changes something that others see."""
        return isinstance(self.meaning, ProduceRequest | Offsets | GroupAdded | TransactionEnd)

    @property
    def refusable(self) -> bool:
        """True if a client sends it again where the broker says that it has not taken it."""
        return bool(self.records) and self.answered


class Conversation:
    """The requests of one connection that wait for their answers, and how far it has read.

    Answers come in the order of requests. ``open``: producers of the run whose transaction
    holds something, for all connections.
    """

    def __init__(self, topics: Topics, traffic: Traffic, open_: set[int]) -> None:
        self._topics, self._traffic, self._open = topics, traffic, open_
        self._waiting: deque[Exchange] = deque()
        self._positions: dict[tuple[Topic, int], int] = {}

    @property
    def owes_effects(self) -> int:
        """How many requests that change something have no answer yet."""
        return sum(one.has_effect for one in self._waiting)

    def understand(self, head: Header, frame: memoryview) -> Exchange:
        """Read a request as far as it means something."""
        self._traffic.requests[head.key] += 1
        exchange = Exchange(head)
        if not head.read:
            if head.key in wire.READ:
                self._traffic.unread[head.key, head.version] += 1
            return exchange
        try:
            self._read(exchange, frame)
        except Malformed:
            self._traffic.malformed += 1
        return exchange

    def _read(self, exchange: Exchange, frame: memoryview) -> None:
        head = exchange.head
        self._traffic.note(names(frame, head))
        match head.key:
            case Api.FETCH:
                asked = wire.fetch_request(frame, head)
                exchange.meaning = asked
                for topic, partition, offset in asked.positions:
                    self._positions[topic, partition] = offset
            case Api.LIST_OFFSETS:
                exchange.meaning = wire.end_request(frame, head)
            case Api.PRODUCE:
                exchange.meaning = produced = wire.produce_request(frame, head)
                exchange.records = sum(
                    one.batch.size for one in produced.batches if self._topics.is_output(one.topic)
                )
                if produced.transactional:
                    self._open.update(one.batch.producer_id for one in produced.batches)
                if exchange.records:
                    exchange.moments = STAGED if produced.transactional else PLAIN
            case _:
                exchange.meaning = meaning = transaction_messages.transaction_request(frame, head)
                match meaning:
                    case Offsets(producer_id=producer_id):
                        # Offsets of a transaction that holds nothing leave nothing open.
                        joins = JOIN if producer_id in self._open else None
                        if producer_id is not None:
                            self._open.add(producer_id)
                        exchange.moments = OFFSETS if producer_id is None else joins
                    case GroupAdded():
                        exchange.moments = GROUP
                    case TransactionEnd(producer_id=producer_id, commit=True):
                        # To lose a commit of nothing, or die at it, shows nothing.
                        exchange.moments = COMMIT if producer_id in self._open else None

    def asked(self, exchange: Exchange) -> None:
        """Expect the answer to a request that is passed on now."""
        if exchange.answered:
            self._waiting.append(exchange)

    def answered(self, frame: memoryview) -> Exchange | None:
        """Return the request that an answer belongs to; None where there is none."""
        correlation = wire.correlation(frame)
        while self._waiting:
            exchange = self._waiting.popleft()
            if exchange.head.correlation == correlation:
                return exchange
        return None

    def first(self, one: wire.Fetched, offset: int) -> int:
        """Return the first offset that a client takes: a batch may begin before what it asked."""
        return max(offset, self._positions.get((one.topic, one.partition), offset))

    def taken(self, exchange: Exchange, frame: memoryview) -> bool:
        """Count what a broker has taken, or not; False: it has refused all of it."""
        head, traffic = exchange.head, self._traffic
        match exchange.meaning:
            case ProduceRequest() as produced:
                found = wire.produce_errors(frame, head)
                for one in (error for error in found.values() if error):
                    traffic.errors[head.key, one] += 1
                records = 0
                for topic, partition, batch in produced.batches:
                    if found.get((topic, partition), 0):
                        continue
                    if self._topics.is_output(topic):
                        records += batch.size
                    elif name := self._topics.own(topic):
                        traffic.state_written[name, partition] += batch.size
                if produced.transactional:
                    traffic.transactional += records
                else:
                    traffic.plain += records
                exchange.records = records
                return bool(records)
            case None | FetchRequest() | EndRequest():
                return True
        if error := transaction_messages.transaction_error(frame, head):
            traffic.errors[head.key, error] += 1
            return False
        if isinstance(end := exchange.meaning, TransactionEnd):
            self._open.discard(end.producer_id)
            traffic.commits += end.commit
            traffic.aborts += not end.commit
        return True
