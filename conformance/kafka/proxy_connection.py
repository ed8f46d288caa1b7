"""One connection of an engine through the proxy: requests one way, answers the other.

Each direction is a task that reads whole frames and passes them on, in order. Where a
fault or an observer holds the connection, both stand still.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol

from tickproof.conformance.errors import TickproofError
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.kafka import metadata, refusals, wire
from tickproof.conformance.kafka.channels import NoTls, PlainChannel, channel
from tickproof.conformance.kafka.exchanges import COMMIT, PLAIN, STAGED, Conversation, Exchange
from tickproof.conformance.kafka.fields import Malformed
from tickproof.conformance.kafka.frame_stream import Budget, FrameStream, sized
from tickproof.conformance.kafka.traffic import Topics, Traffic
from tickproof.conformance.kafka.wire import Api, EndRequest, Fetched, FetchRequest, ProduceRequest
from tickproof.conformance.log_server.connection_faults import Broken, Links
from tickproof.conformance.log_server.connection_tasks import ended
from tickproof.conformance.log_server.connection_use import ConnectionUse
from tickproof.conformance.log_server.frame_splitter import Truncated
from tickproof.conformance.log_server.obstacle import Obstacle
from tickproof.conformance.log_server.outbox import Outbox
from tickproof.conformance.log_server.serving import Observer
from tickproof.conformance.log_server.sink import Input, Sink
from tickproof.conformance.log_server.timed_faults import Lasting, pieces

#: How long the broker may take to handle what a dead client has left behind.
LEFT_S: Final = 5.0
#: How long a part of an answer may take to reach the client before a cut.
REACHED_S: Final = 1.0
#: Moments of what a sink takes.
_OUTPUT: Final = (PLAIN, STAGED, COMMIT)
#: Key and version of a SaslHandshake after which tokens come without headers; newer ones have
#: SaslAuthenticate (Kafka 1.0).
_RAW_LOGIN: Final = (17, 0)
#: Api keys and versions beyond any that exist: what sends them is no Kafka client.
_KEYS: Final = range(256)


class _Lost(TickproofError):
    """A fault came before this frame: it counts as never sent, and what follows it too."""


class Hub(Protocol):
    """The proxy as its connections see it; `proxy.Proxy` is one."""

    #: Of the brokers, in the order of their numbers.
    upstream_ports: Sequence[int]
    #: The server's side of TLS, None if clients speak plain text.
    tls: ssl.SSLContext | None
    observer: Observer
    event: Callable[..., None]
    greeted: Callable[[ConnectionUse], None]
    links: Links
    topics: Topics
    traffic: Traffic
    #: Producers whose transaction holds something.
    open_transactions: set[int]
    #: Longest timeout in ms that the broker is told, by the request that says one.
    longest_ms: dict[Api, int]
    #: Of the buffers of all connections.
    budget: Budget
    #: What clients meet while a fault lasts that is not of their links.
    obstacle: Obstacle
    #: Hears of records of input that leave: stream, partition, first offset, end offset.
    fetched: Callable[[int, int, int, int], None]
    #: Delays the answers to output, by how far the input is fetched; None: nothing does.
    sink: tuple[Sink, Input] | None

    @property
    def silent(self) -> bool:
        """True if answers hide the records of input; `hid` is told of each that does."""

    def hid(self) -> None:
        """Hear that an answer hides records."""

    async def changed(self, until: float) -> None:
        """Wait until a time (time.monotonic), or until faults have changed."""

    def broker_for(self, host: str) -> int:
        """Return the number of the broker that a client meant who came by a host of the proxy."""

    async def connect(self, sock: socket.socket, broker: int) -> bool:
        """Connect to the broker of a number; False if it takes no connection."""

    async def look_for_broker(self, broker: int) -> None:
        """See whether a broker still listens: it ended a connection."""


class Connection:
    """Both directions of one connection; `run` ends when the connection has."""

    def __init__(self, hub: Hub, sock: socket.socket, use: ConnectionUse) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._hub, self.sock, self.use = hub, sock, use
        self._channel = channel(sock, hub.tls)
        came_by = sock.getsockname()[:2]
        self._doors = metadata.doors(hub.upstream_ports, came_by)
        #: The number of the broker that it leads to.
        self.broker = hub.broker_for(came_by[0])
        self.link = hub.links.opened(use.number, sock)
        self._upstream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._upstream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._talk = Conversation(hub.topics, hub.traffic, hub.open_transactions)
        self._greeted = self._client_gone = False
        #: How many observers hold the connection.
        self._holds = 0
        self._free = asyncio.Event()
        self._free.set()
        #: Whether it carries out a cut: then it ends by itself.
        self.breaking = False
        self._loop = asyncio.get_running_loop()

    @property
    def owes_effects(self) -> int:
        """How many requests that change something have no answer yet."""
        return self._talk.owes_effects

    # -- its life --------------------------------------------------------------------------

    async def run(self) -> None:
        """Pass frames on until either end, or a fault, ends the connection."""
        try:
            if await self._hub.connect(self._upstream, self.broker) and await self._channel.open():
                await self._converse()
        except Broken:
            pass  # the fault that broke it has its own event
        except _Lost:
            self._note(EventKind.FRAME_LOST)
        except Truncated as error:
            self._note(EventKind.TRUNCATED, text=str(error))
        except OSError as error:
            self._note(EventKind.CONNECTION_LOST, text=str(error))
        except NoTls as error:
            self._note(EventKind.NOT_GREETED, text=f"no TLS: {error}")
        except Malformed as error:
            kind = EventKind.CONNECTION_LOST if self._greeted else EventKind.NOT_GREETED
            self._note(kind, text=f"no Kafka: {error}")
        finally:
            self.use.over = True
            self._hub.links.closed(self.link)
            self._upstream.close()
            self.sock.close()

    async def _converse(self) -> None:
        requests = asyncio.create_task(self._requests())
        answers = asyncio.create_task(self._answers())
        async with ended(requests, answers):
            await asyncio.wait((requests, answers), return_when=asyncio.FIRST_COMPLETED)
            if requests.done() and not answers.done() and self._left(requests.exception()):
                # What a dead client had sent is handled, as if it were only away.
                self._client_gone = True
                until = time.monotonic() + LEFT_S
                while self._talk.owes_effects and not answers.done() and time.monotonic() < until:
                    await asyncio.wait([answers], timeout=0.005)

    @staticmethod
    def _left(error: BaseException | None) -> bool:
        """Say whether a client went away by itself."""
        return error is None or isinstance(error, OSError | Truncated)

    def _note(self, kind: EventKind, **fields: Any) -> None:
        self._hub.event(kind, connection=self.use.number, **fields)

    # -- waiting ---------------------------------------------------------------------------

    async def _moment(self, moment: str) -> bool:
        """Tell of a moment, and hold the connection as long as that takes."""
        deed = self._hub.observer(moment, self.use.number)
        if deed is None:
            return False
        self._holds += 1
        self._free.clear()
        try:
            return await self._done(deed)
        finally:
            self._holds -= 1
            if not self._holds:
                self._free.set()

    async def _done(self, deed: Future[bool]) -> bool:
        """Wait for what another thread does; unlike `wrap_future`, never cancels it."""
        over, loop = asyncio.Event(), self._loop

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the proxy has ended
                loop.call_soon_threadsafe(over.set)

        deed.add_done_callback(tell)
        await over.wait()
        return deed.result()

    async def _may_pass(self) -> None:
        """Wait while an observer holds the connection, or it is half open."""
        while self._holds or self.link.deaf:
            if self.link.deaf:
                await self._stand_still()
            await self._free.wait()

    async def _stand_still(self) -> None:
        """Wait, half open, for the reset."""
        self._hub.links.met_half_open(self.link)
        while not self.link.broken:
            await self._hub.changed(math.inf)
        raise Broken

    async def _pause(self, until: float, over: Callable[[], bool]) -> None:
        """Wait until a time, or until ``over``."""
        while time.monotonic() < until and not over():
            await self._hub.changed(until)

    # -- requests --------------------------------------------------------------------------

    async def _requests(self) -> None:
        with contextlib.closing(FrameStream(self._channel, self._hub.budget)) as stream:
            while await stream.read():
                for frame in stream.frames():
                    await self._request(frame)
                await asyncio.sleep(0)  # others come in between

    async def _request(self, frame: memoryview) -> None:
        hub, body = self._hub, frame[4:]
        head = wire.header(body)
        if head[:2] == _RAW_LOGIN:
            raise Malformed("SaslHandshake 0, after which no frame is a request; expected 1")
        if not self._greeted:
            self._greet(head)
        exchange = self._talk.understand(head, body)
        if head.read and head.key in wire.TIMEOUTS:
            frame = self._with_timeout(frame, head)
        if exchange.side:
            hub.links.joined(self.link, exchange.side)
        if isinstance(exchange.meaning, FetchRequest):
            for topic, partition, _ in exchange.meaning.positions:
                if (stream := hub.topics.stream(topic)) is not None:
                    hub.traffic.askers[stream, partition] = self.use
        await self._may_pass()
        if exchange.moments and await self._moment(exchange.moments.received):
            raise _Lost
        await self._may_pass()
        if hub.links.busy and exchange.refusable and hub.links.refuses():
            assert isinstance(exchange.meaning, ProduceRequest)
            exchange.refused = wire.refusal(head, exchange.meaning, wire.NOT_ENOUGH_REPLICAS)
            # The broker is asked something else, so that answers keep their order.
            frame = sized(wire.harmless(head))
        elif hub.links.busy and (fault := hub.links.error_for(refusals.request_of(exchange))):
            error = fault.fault.error_for(refusals.request_of(exchange))
            exchange.fault = fault
            exchange.refused = refusals.refusal(exchange, refusals.CODES[error])
            exchange.passed = error in refusals.UNCERTAIN
            frame = frame if exchange.passed else sized(wire.harmless(head))
        elif hub.obstacle.errs and hub.obstacle.error(asked := refusals.request_of(exchange)):
            exchange.refused = refusals.refusal(exchange, refusals.OF_JOBS[asked])
            frame = sized(wire.harmless(head))
        self._talk.asked(exchange)
        await self._loop.sock_sendall(self._upstream, frame)

    def _with_timeout(self, frame: memoryview, head: wire.Header) -> memoryview:
        """Note the timeout that a request asks for; lower it in the request if it is too long."""
        api = Api(head.key)
        with self._counted():
            found = wire.timeout(frame[4:], head)
            if found is None:
                return frame
            at, asked_ms = found
            self._hub.traffic.timeouts_ms.setdefault(api, set()).add(asked_ms)
            if asked_ms > (most := self._hub.longest_ms.get(api, asked_ms)):
                frame = memoryview(bytearray(frame))
                frame[4 + at : 8 + at] = most.to_bytes(4, "big")
        return frame

    def reset(self) -> None:
        """End the connection with a reset, as a fault of the network does."""
        with contextlib.suppress(OSError):  # it has ended by itself
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.sock.shutdown(socket.SHUT_RDWR)

    def _greet(self, head: wire.Header) -> None:
        """Check the first request of a connection; raises Malformed."""
        if head.key not in _KEYS or head.version not in _KEYS:
            raise Malformed(f"api key {head.key}, version {head.version}")
        self._greeted = True
        self._note(EventKind.CONNECTED)
        self._hub.greeted(self.use)

    # -- answers ---------------------------------------------------------------------------

    async def _answers(self) -> None:
        try:
            answers = PlainChannel(self._upstream)
            with contextlib.closing(FrameStream(answers, self._hub.budget)) as stream:
                while await stream.read():
                    for frame in stream.frames():
                        await self._may_pass()
                        await self._answer(frame)
                    await asyncio.sleep(0)
        except (OSError, Truncated):
            await self._hub.look_for_broker(self.broker)
            raise
        await self._hub.look_for_broker(self.broker)

    async def _answer(self, frame: memoryview) -> None:
        body = frame[4:]
        exchange = self._talk.answered(body)
        if exchange is None:
            await self._send(frame)
        elif exchange.refused is not None:
            await self._send_refused(body, exchange, exchange.refused)
        elif exchange.head.key in metadata.NAMES_BROKERS:
            await self._send(self._named_brokers(frame, exchange))
        elif isinstance(exchange.meaning, FetchRequest):
            frame = self._named_leaders(frame, exchange)
            await self._send_fetched(frame, exchange, exchange.meaning)
        elif isinstance(exchange.meaning, EndRequest):
            await self._send_ends(frame, exchange, exchange.meaning)
        elif isinstance(exchange.meaning, ProduceRequest):
            await self._send_taken(self._named_leaders(frame, exchange), exchange)
        elif exchange.has_effect:
            await self._send_taken(frame, exchange)
        else:
            await self._send(frame)

    async def _send_refused(self, body: memoryview, exchange: Exchange, refused: bytes) -> None:
        """Answer in place of the broker, which may have carried the request out."""
        if exchange.passed:
            with self._counted():
                self._talk.taken(exchange, body)
        await self._send(sized(refused))
        if exchange.fault and not self._client_gone:
            self._hub.links.answered(exchange.fault)

    def _named_brokers(self, frame: memoryview, exchange: Exchange) -> memoryview:
        """Lead clients to the proxy; learn the ids of topics."""
        hub = self._hub
        if exchange.head.key == Api.METADATA and exchange.head.read:
            with self._counted():
                hub.topics.learn(metadata.topic_ids(frame[4:], exchange.head))
        return memoryview(metadata.with_addresses(frame, self._doors))

    def _named_leaders(self, frame: memoryview, exchange: Exchange) -> memoryview:
        body = led = frame[4:]
        with self._counted():
            led = metadata.with_leaders_addresses(body, exchange.head, self._doors)
        return frame if led is body else sized(bytes(led))

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """Count an answer that is not of the shape that it should have."""
        try:
            yield
        except Malformed:
            self._hub.traffic.malformed += 1

    async def _send_taken(self, frame: memoryview, exchange: Exchange) -> None:
        """Pass on what the broker says of something that it should take."""
        taken = False
        with self._counted():
            taken = self._talk.taken(exchange, frame[4:])
        moments = exchange.moments if taken else None
        if taken:
            self.use.sent += exchange.records
            self._hub.traffic.by_broker[self.broker] += exchange.records
        if moments:
            await self._moment(moments.taken)
        if moments in _OUTPUT:
            await self._bear_sink()
        if moments and exchange.side and self._cuts("sink"):
            await self._cut("sink", frame)
        await self._send(frame)
        if taken:
            self._hub.traffic.acknowledged += exchange.records
        if moments:
            await self._moment(moments.acked)

    async def _bear_sink(self) -> None:
        """Wait as the sink has it before output is acknowledged; it ends with the engine."""
        if self._hub.sink is None or not self._hub.sink[0].waits:
            return
        sink, log = self._hub.sink
        over = lambda: sink.released or self._client_gone  # noqa: E731
        if (stall := sink.stall(self._hub.traffic)) is not None:
            await self._pause(stall.until, over)
            sink.stalled(stall)
        if delay_s := sink.acknowledgement_delay(log):
            await self._pause(time.monotonic() + delay_s, over)

    # -- input -----------------------------------------------------------------------------

    async def _send_fetched(
        self, frame: memoryview, exchange: Exchange, asked: FetchRequest
    ) -> None:
        found: list[tuple[int, Fetched, int, int, int]] = []
        with self._counted():
            found = self._input(frame[4:], exchange)
        if found and self._hub.silent:
            hidden = [(one, first) for _, one, first, *_ in found]
            silent = wire.without_records(frame[4:], exchange.head, hidden)
            self._hub.hid()
            # As a broker that has nothing: it waits as long as it was asked to.
            until = exchange.asked_at + asked.max_wait_ms / 1000
            await self._pause(until, lambda: not self._hub.silent or self.link.deaf)
            if self._hub.silent:
                frame, found = sized(silent), []
            await self._may_pass()
        for stream, one, first, end, count in found:
            self.use.fetched += count
            self._hub.traffic.fetched += count
            self._hub.fetched(stream, one.partition, first, end)
        if found and self._cuts("source"):
            await self._cut("source", frame)
        await self._send(frame)
        await self._moment("fetched" if found else "fetched-nothing")

    def _input(
        self, body: memoryview, exchange: Exchange
    ) -> list[tuple[int, Fetched, int, int, int]]:
        """Return the records of input in an answer: stream, where, first, end, count.

        Those of topics of the engine's own are noted.
        """
        found = []
        for one in wire.fetched(body, exchange.head):
            if (stream := self._hub.topics.stream(one.topic)) is None:
                self._sent_state(one)
                continue
            if batches := list(one.batches()):
                begin, end = batches[0].first, batches[-1].end
                first = self._talk.first(one, begin)
                if first < end:
                    count = sum(batch.size for batch in batches) - (first - begin)
                    found.append((stream, one, first, end, max(count, 0)))
        return found

    def _sent_state(self, one: Fetched) -> None:
        """Note records of a topic of the engine's own."""
        if (name := self._hub.topics.own(one.topic)) and (batches := list(one.batches())):
            sent = batches[-1].end
            self._hub.traffic.learnt(self.use.number, name, one.partition, sent=sent)

    async def _send_ends(self, frame: memoryview, exchange: Exchange, asked: EndRequest) -> None:
        """Pass on where partitions end; note those of topics of the engine's own."""
        with self._counted():
            for (topic, partition), end in wire.offsets(frame[4:], exchange.head).items():
                if (topic, partition) in asked.partitions and self._hub.topics.own(topic):
                    self._hub.traffic.learnt(self.use.number, topic, partition, told=end)
        await self._send(frame)

    # -- sending ---------------------------------------------------------------------------

    async def _send(self, frame: memoryview) -> None:
        """Send an answer as the faults of its sides have it."""
        if self._client_gone:
            return
        if lag_s := self._hub.obstacle.lag():
            await asyncio.sleep(lag_s)
        try:
            if slowing := self._hub.links.slowing(self.link):
                await self._send_slowly(frame, slowing)
            elif self._hub.sink and self._hub.sink[0].behaviour.pieces:
                await self._send_in_pieces(frame, self._hub.sink[0])
            else:
                await self._channel.send(frame)
        except OSError:
            # The other direction hears of it too, and knows what was left.
            self._client_gone = True
        await self._may_pass()

    async def _send_in_pieces(self, frame: memoryview, sink: Sink) -> None:
        for part in sink.pieces(frame):
            await self._channel.send(part.data)
            if part.pause_s:
                await asyncio.sleep(part.pause_s)

    async def _send_slowly(self, frame: memoryview, slowing: list[Lasting]) -> None:
        for fault in slowing:
            self._hub.links.slowed(fault, len(frame))
            if fault.fault.lag_s:
                await self._rest(fault, fault.fault.lag_s)
        await self._may_pass()
        for piece in pieces(frame, slowing):
            await self._channel.send(piece.data)
            if piece.fault:
                await self._rest(piece.fault, piece.pause_s)

    async def _rest(self, fault: Lasting, seconds: float) -> None:
        """Wait, no longer than the fault lasts."""
        until = min(time.monotonic() + seconds, fault.until)
        await self._pause(until, lambda: fault.over or self._client_gone)

    def _cuts(self, side: str) -> bool:
        links = self._hub.links
        return links.busy and not self._client_gone and links.takes(self.link, side)

    async def _cut(self, side: str, frame: memoryview) -> None:
        """Send half of an answer, reset all connections of the side."""
        self.breaking = True
        half = len(frame) // 2
        await self._channel.send(frame[:half])
        # A reset discards what has not reached the client.
        outbox, deadline = Outbox(self.sock), time.monotonic() + REACHED_S
        while (left := outbox.on_its_way()) and time.monotonic() < deadline:
            await asyncio.sleep(0.001)
        self._hub.links.cut(self.link, side, half - left, len(frame))
        raise Broken
