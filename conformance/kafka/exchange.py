"""Exchange of a run with its topics: input goes in as messages, output comes out.

Three threads: one publishes and produces what is published, one consumes the output that is
committed, one follows the offsets that the engine commits. Confluent's client does the work.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

import numpy as np

from tickproof.conformance import apps
from tickproof.conformance.errors import KafkaUnavailable, KitStopped
from tickproof.conformance.history.event import EventKind
from tickproof.conformance.kafka import payloads
from tickproof.conformance.kafka.broker import BrokerAddress
from tickproof.conformance.kafka.broker_settings import SHORTEST_HEARTBEAT_MS, SHORTEST_SESSION_MS
from tickproof.conformance.kafka.cluster import LIMIT_S, Cluster, client_library, listens
from tickproof.conformance.kafka.completion import Completion, ExpectedOutput
from tickproof.conformance.kafka.input_writer import InputWriter
from tickproof.conformance.kafka.names import NameKind, collides
from tickproof.conformance.kafka.output_end import OutputEnd
from tickproof.conformance.kafka.traffic import Traffic
from tickproof.conformance.kafka.transaction_log import State, TransactionLog, aborted
from tickproof.conformance.kafka.wire import Api
from tickproof.conformance.log_server.frames import UNNUMBERED, Append, Release
from tickproof.conformance.log_server.input_log import InputLog, PartitionSource
from tickproof.conformance.log_server.open_loop import OpenLoop
from tickproof.conformance.log_server.publisher import Publisher
from tickproof.conformance.log_server.recorder import Recorder
from tickproof.conformance.scenario import Scenario
from tickproof.generators.layouts import framed

#: Messages that are made, or taken, at once.
BATCH: Final = 5_000
#: How often the offsets that the engine commits are asked for.
OFFSETS_S: Final = 0.05
#: Stands for the size of a record that is no output of the app.
ODD: Final = -1
_NAP_S: Final = 0.02
#: Output that comes within this is parsed together: each parse costs more than each message.
TOGETHER_S: Final = 0.001
#: How soon acknowledgements of input are looked for whose time counts.
ACK_S: Final = 0.002
_FLUSH_S: Final = 5.0
_ASK_S: Final = 5.0
#: Heartbeats in a session.
_BEATS: Final = 6
#: So many aborted transactions of a run are noted.
_ABORTED: Final = 1_000
#: So many names of each kind that are not of the run are noted.
_FOREIGN: Final = 10
_TOPIC_SETTINGS: Final = {"max.message.bytes": "16777216"}
#: Engines copy times of their input to their output: there, the broker's count.
_OUTPUT_SETTINGS: Final = {"message.timestamp.type": "LogAppendTime"}


class Exchange:
    """Topics of one run, and the threads that fill and read them; use it as a context manager.

    ``data`` is what the engine's supervisor is told of them. ``failure`` says what stopped a
    thread: it is the kit's or the broker's, never the engine's.
    """

    def __init__(
        self,
        address: BrokerAddress,
        scenario: Scenario,
        run_id: str,
        log: InputLog,
        recorder: Recorder,
        partitions: Sequence[PartitionSource],
        publisher: Publisher | OpenLoop,
        expected: np.ndarray | None,
        startup_s: float,
        session_ms: int,
        on_event: Callable[..., None],
    ) -> None:
        self._address, self._scenario, self._log = address, scenario, log
        self._app = apps.of(scenario)
        self._startup_s, self._session_ms = startup_s, session_ms
        self._recorder, self._publisher, self._event = recorder, publisher, on_event
        self._partitions = list(partitions)
        #: What publishes by a schedule, if latency is measured.
        self._loop = publisher if isinstance(publisher, OpenLoop) else None
        self._numbers = [(one.stream, one.partition) for one in self._partitions]
        self._expected = ExpectedOutput(expected)
        #: A name that sorts together what belongs together, also where runs go on at once.
        self.group = f"tickproof-{run_id[:12]}"
        widths: dict[int, int] = {}
        for one in self._partitions:
            widths[one.stream] = max(widths.get(one.stream, 0), one.partition + 1)
        self._topic_of = {stream: f"{self.group}-in-{stream}" for stream in sorted(widths)}
        self.inputs = {name: stream for stream, name in self._topic_of.items()}
        self.output = f"{self.group}-out"
        self._width = max(widths.values())
        self._topics = {name: widths[stream] for name, stream in self.inputs.items()}
        self._cluster = Cluster(address.kit)
        self._kafka = client_library()
        self._client = {"bootstrap.servers": address.kit, "error_cb": self._failed, "log_level": 0}
        self._produced = [0] * len(self._partitions)
        #: Set once the engine reads its input: before, it could only fall behind.
        self._reads = threading.Event()
        self._reads_by = math.inf
        #: Whether the engine has fetched since it was started last, and how often any life of
        #: it had asked where its input ends by then.
        self._fetches, self._looks_before = True, 0
        self._end = OutputEnd(self._width)
        #: What has passed the proxy; the runner sets it once there is one.
        self.traffic = Traffic()
        #: So many records of the input it was sent that it had been sent before.
        self._again = 0
        #: So many records the committed offsets were ahead of acknowledged output, at most.
        self._ahead = 0
        #: Whether no broker takes requests because of a fault.
        self.broker_away = False
        self._over = threading.Event()
        self._wake = threading.Event()
        self.failure: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"kafka-{name}", daemon=True)
            for name, work in (
                ("input", self._feed),
                ("output", self._record),
                ("offsets", self._follow_offsets),
            )
        ]

    @property
    def data(self) -> dict[str, Any]:
        """Facts of the topics for deploy, beside host and port."""
        return {
            "transport": "kafka",
            "inputs": list(self.inputs),
            "output": self.output,
            "group": self.group,
        }

    def __enter__(self) -> Exchange:
        self._cluster.create(self._topics, _TOPIC_SETTINGS)
        self._cluster.create({self.output: self._width}, _TOPIC_SETTINGS | _OUTPUT_SETTINGS)
        if self._session_ms and not self._address.outlives:
            self._cluster.configure_group(self.group, _session(self._session_ms))
        self._transactions = TransactionLog(self._address.kit, self.group)
        self._log.changed = self._wake.set
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._record_the_rest()
        except (KitStopped, KafkaUnavailable) as error:
            self._fail(error)
        self._over.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._event(
            EventKind.KAFKA_OUTPUT,
            produced=self.traffic.taken,
            committed=self._recorder.records,
            ahead=self._ahead,
            unread=self.traffic.unread.total() + self.traffic.malformed,
        )
        self._note_names()
        self._note_state_reads()
        if self.failure is None:
            with contextlib.suppress(KafkaUnavailable):
                self._note_transactions()
                if self._address.outlives:
                    self._cluster.clean(self.group)
                else:
                    self._cluster.delete([*self._topics, self.output])
        self._transactions.close()

    def _note_names(self) -> None:
        """Note what the engine calls its own, and another run might as well."""
        others = sorted(one for one in self.traffic.names if collides(one.text, self.group))
        self._event(
            EventKind.KAFKA_NAMES,
            seen=len(self.traffic.names),
            **{
                field: [one.text for one in others if one.kind is kind][:_FOREIGN]
                for field, kind in (
                    ("groups", NameKind.GROUP),
                    ("transactional_ids", NameKind.TRANSACTIONAL_ID),
                    ("topics", NameKind.TOPIC),
                )
            },
        )

    def _note_state_reads(self) -> None:
        """Note how far the engine read topics of its own."""
        reads = [*self.traffic.state_reads.values()]
        if reads:
            self._event(EventKind.KAFKA_STATE_READS, reads=reads)

    def _note_transactions(self) -> None:
        """Note what became of the engine's transactions, by the broker's own account."""
        since_1970_ns = time.time_ns() - time.monotonic_ns()
        states = self._transactions.read(named=self.traffic.transactional_ids)
        ended = aborted(states)[:_ABORTED]
        self._event(
            EventKind.KAFKA_TRANSACTIONS,
            begun=sum(one.state is State.ONGOING for one in states),
            aborted_ns=[one.ended_ms * 1_000_000 - since_1970_ns for one in ended],
            open_ns=[one.begun_ms * 1_000_000 - since_1970_ns for one in ended],
            behind=[one.behind for one in ended],
            with_offsets=self.traffic.requests[Api.TXN_OFFSET_COMMIT],
        )

    def observed(self, moment: str) -> None:
        """Hear of a moment of one of the engine's connections."""
        if moment.startswith("fetched"):
            self._fetches = True
            self._reads.set()

    def engine_died(self) -> None:
        """Take note that nothing of the engine is left: what comes next is of another life."""
        self._fetches, self._looks_before = False, self.traffic.requests[Api.LIST_OFFSETS]

    def brokers_away(self, away: bool) -> None:
        """Take note that no broker takes requests because of a fault, or that one does again."""
        self.broker_away = away
        if not away:
            self._cluster.forget()

    def _back(self) -> bool:
        """Say whether this life of the engine has looked at its input.

        Some look where it ends, and fetch only what is there.
        """
        return self._fetches or self.traffic.requests[Api.LIST_OFFSETS] > self._looks_before

    def fetched(self, stream: int, partition: int, first: int, end: int) -> None:
        """Hear that records of the input are about to reach the engine."""
        self._again += self._log.fetched_elsewhere(stream, partition, first, end)

    def completion(self, stalled_s: float) -> Completion:
        """Return what tells when the engine has given all its output."""
        log = self._log
        # Under some, what was released may be emitted later.
        emits_later = self._scenario.params.get("emit") == "some"

        def released() -> bool:
            whole = log.ended and log.released >= log.total
            return whole and not emits_later and not self._end.hidden

        return Completion(
            complete=lambda: self._expected.complete,
            released=released,
            position=lambda: (self._recorder.records, log.fetched, log.released, log.published),
            stalled_s=stalled_s,
            again=lambda: self._again,
            back=self._back,
            recorded=self._end.caught_up,
        )

    def is_shared(self, workers: int, holders: Callable[[int], Collection[int]]) -> bool:
        """Say whether each of so many workers, if there is input for all, owns some of it.

        holders: which processes hold a connection. A partition that a dead one owned has no owner.
        """
        owners = [*self.traffic.askers.copy().values()]
        pids = {pid for one in owners for pid in holders(one.number)}
        return len(pids) >= min(workers, self._width) and not any(one.over for one in owners)

    @property
    def behind(self) -> bool:
        """True if committed output is left to record."""
        return self._end.behind

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self._event(EventKind.LOOP_FAILED, text=f"{type(error).__name__}: {error}")

    # -- input --------------------------------------------------------------------------

    def _feed(self) -> None:
        self._publisher.prepare()
        settings = {
            "error_cb": self._failed,
            "queue.buffering.max.messages": 10 * BATCH,
            "message.max.bytes": 16_000_000,
        }
        if self._loop is not None:
            settings |= {"linger.ms": 0}
        writer = InputWriter(self._cluster, settings, counted=self._loop is not None)
        files = [os.open(one.path, os.O_RDONLY) for one in self._partitions]
        try:
            while not self._over.is_set():
                if self._loop is not None:
                    self._loop.arrived(
                        [writer.taken[self._topic_of[s], p] for s, p in self._numbers]
                    )
                due_ns = self._due_ns()
                if due_ns is not None and time.monotonic_ns() >= due_ns:
                    self._publisher.publish_due()
                elif not self._produce(writer, files):
                    writer.serve()
                    self._wake.wait(min(_nap(due_ns), ACK_S if len(writer) else _NAP_S))
                    self._wake.clear()
            if writer.close(_FLUSH_S):
                writer.check()
        finally:
            for file in files:
                os.close(file)

    def _due_ns(self) -> int | None:
        """Return when to publish next: not before the engine reads, or has had time to start.

        Some look where the input ends, and fetch only what is there: an empty topic, never.
        """
        due_ns = self._publisher.due_ns
        if due_ns is None or self._reads.is_set() or self.traffic.requests[Api.LIST_OFFSETS]:
            return due_ns
        self._reads_by = min(self._reads_by, time.monotonic() + self._startup_s)
        if time.monotonic() >= self._reads_by:
            return due_ns
        if self._loop is not None:
            self._loop.postpone()
        return None

    def _produce(self, writer: InputWriter, files: Sequence[int]) -> bool:
        """Produce the next messages of each partition; False where there are none."""
        published = [state.published for state in self._log.states()]
        some = False
        for number, one in enumerate(self._partitions):
            first = self._produced[number]
            count = min(published[number] - first, BATCH)
            if count <= 0:
                continue
            some = True
            stride = one.record_size + 4
            region = os.pread(files[number], count * stride, first * stride)
            layout = self._app.input_layouts(one.record_size)[one.stream]
            records = np.frombuffer(region, framed(layout))["payload"]
            made = self._app.messages(records)
            topic = self._topic_of[one.stream]
            for key, value in zip(made.keys, made.values, strict=True):
                while not writer.send(topic, one.partition, key, value):
                    if self._over.is_set():
                        return True
                    writer.serve(0.1)
            self._produced[number] = first + count
            writer.serve()
        return some

    def _failed(self, error: Any) -> None:
        """Hear of an error of a client: a broker that is there is asked again by the client."""
        if error.fatal() or not (self.broker_away or listens(self._address.kit)):
            self.failure = self.failure or KitStopped(f"the Kafka broker: {error.str()}")

    def _consumer(self, group: str, settings: dict[str, Any]) -> Any:
        return self._kafka.Consumer(
            self._client
            | {"group.id": group, "enable.auto.commit": False, "fetch.wait.max.ms": 20}
            | settings
        )

    # -- output -------------------------------------------------------------------------

    def _record(self) -> None:
        consumer = self._consumer(
            f"{self.group}-kit", {"isolation.level": "read_committed", "enable.partition.eof": True}
        )
        try:
            consumer.assign(
                [
                    self._kafka.TopicPartition(self.output, partition, 0)
                    for partition in range(self._width)
                ]
            )
            while not self._over.is_set():
                if self._loop is None:
                    self._take(consumer.consume(BATCH, _NAP_S))
                # It waits until a batch is full: what is measured is taken as it comes.
                elif first := consumer.consume(1, _NAP_S):
                    self._take(first + consumer.consume(BATCH, TOGETHER_S))
        finally:
            consumer.close()

    def _take(self, messages: Sequence[Any]) -> None:
        found: dict[int, list[bytes | None]] = {}
        reached: dict[int, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                found.setdefault(message.partition(), []).append(message.value())
                reached[message.partition()] = message.offset() + 1
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                reached[message.partition()] = message.offset()
        size = apps.output_size(self._scenario)
        for partition, values in found.items():
            outputs = payloads.outputs(self._app, size, values)
            self._append(partition, outputs.payloads, size)
            for odd in outputs.odd:
                region = np.frombuffer(len(odd).to_bytes(4, "little") + odd, np.uint8)
                self._append(partition, region, ODD, 1)
            self._expected.see(self._app.told(outputs.payloads["payload"]))
        for partition, offset in reached.items():
            self._end.read(partition, offset, len(found.get(partition, ())))

    def _append(
        self, writer: int, records: np.ndarray, size: int, count: int | None = None
    ) -> None:
        region = memoryview(records.tobytes())
        number = len(records) if count is None else count
        self._recorder.append(Append(0, writer, UNNUMBERED, number, region, size), 0)

    def _record_the_rest(self) -> None:
        """Wait until all that the engine has committed is recorded; raises KitStopped.

        Raises KafkaUnavailable if the broker cannot be asked.
        """
        while self.failure is None:
            self._look_for_the_end(LIMIT_S)
            if not self._end.behind:
                break
            time.sleep(_NAP_S)
        traffic = self.traffic
        transactions = bool(traffic.transactional_ids)
        if not (self.failure or transactions or traffic.unread or traffic.malformed):
            self._end.expect_all()

    def _look_for_the_end(self, limit_s: float) -> None:
        """Ask the broker where the output ends."""
        asked_at = time.monotonic()
        stable, last = (
            self._cluster.ends(self.output, self._width, committed=committed, limit_s=limit_s)
            for committed in (True, False)
        )
        self._end.found(asked_at, stable, last)

    # -- offsets ------------------------------------------------------------------------

    def _follow_offsets(self) -> None:
        """Take offsets that the engine's group has committed as RELEASE."""
        # As one that reads what is committed it would wait for the end of open transactions.
        consumer = self._consumer(self.group, {"isolation.level": "read_uncommitted"})
        wanted = [
            self._kafka.TopicPartition(self._topic_of[one.stream], one.partition)
            for one in self._partitions
        ]
        try:
            while not self._over.wait(OFFSETS_S):
                try:
                    found = consumer.committed(wanted, timeout=_ASK_S)
                except self._kafka.KafkaException:
                    found = []  # the group has just been made, say
                for one in found:
                    if one.error is None and one.offset > 0:
                        self._release(self.inputs[one.topic], one.partition, one.offset)
                # What is acknowledged is read later: it can only be more than at that moment.
                self._ahead = max(self._ahead, self._log.released - self.traffic.acknowledged)
                if self._log.ended:
                    with contextlib.suppress(KafkaUnavailable):  # it is asked again
                        self._look_for_the_end(_ASK_S)
        finally:
            consumer.close()

    def _release(self, stream: int, partition: int, offset: int) -> None:
        ends = {(s.stream, s.partition): s.published for s in self._log.states()}
        self._log.release(Release(stream, partition, min(offset, ends[stream, partition])))


def _session(session_ms: int) -> dict[str, str]:
    """Return the settings of a group whose members ask the broker for their timeouts (KIP-848)."""
    beat_ms = max(SHORTEST_HEARTBEAT_MS, session_ms // _BEATS)
    return {
        "consumer.session.timeout.ms": str(max(session_ms, SHORTEST_SESSION_MS)),
        "consumer.heartbeat.interval.ms": str(beat_ms),
    }


def _nap(due_ns: int | None) -> float:
    if due_ns is None:
        return _NAP_S
    return max(0.0, min(_NAP_S, (due_ns - time.monotonic_ns()) / 1e9))
