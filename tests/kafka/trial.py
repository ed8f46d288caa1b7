"""One engine on fresh topics of a real broker: fed, killed, read back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.kafka.oracle import Keyed, Record
from tickproof.conformance.engines import reaper, spec
from tickproof.conformance.kafka.broker import HOST, BrokerAddress
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.input_writer import InputWriter
from tickproof.conformance.resources import fixtures
from tickproof.generators.partitioner import Texts, partitions_of

PARTITIONS = 4
AT_ONCE = 10_000
LARGEST = 8 << 20
ANSWER_S = 20.0


class Trial:
    """Topics, environment and workers of one run of an engine of fixtures/engines."""

    def __init__(
        self,
        engine: str,
        folder: Path,
        broker: BrokerAddress,
        workers: int,
        app: str,
        **params: str,
    ) -> None:
        loaded = spec.load(spec.find(engine, fixtures()))
        if preparation := loaded.preparation():
            subprocess.run(preparation, check=True, timeout=600)
        whole = loaded.command()  # that of the supervisor, up to name, version, roles and places
        self._command = whole[whole.index(loaded.version) + 3 :]
        self._folder, self._kit = folder, broker.kit
        self._partitioner = loaded.partitioner
        self._name = f"trial-{uuid.uuid4().hex[:8]}"
        self._topics = [f"{self._name}-in", f"{self._name}-out"]
        sizes = {"max.message.bytes": str(LARGEST)}
        cluster = Cluster(broker.kit)
        cluster.create(dict.fromkeys(self._topics, PARTITIONS), sizes)
        self._writer = InputWriter(cluster, {"message.max.bytes": LARGEST})
        (folder / "state").mkdir()
        self._environment = os.environ | {
            "TICKPROOF_BOOTSTRAP": f"{HOST}:{broker.engine_ports[0]}",
            "TICKPROOF_IN": self._topics[0],
            "TICKPROOF_OUT": self._topics[1],
            "TICKPROOF_APP": app,
            "TICKPROOF_GROUP": self._name,
            "TICKPROOF_STATE": str(folder / "state"),
            "TICKPROOF_WORKERS": str(workers),
        }
        self._environment |= {f"TICKPROOF_{key.upper()}": value for key, value in params.items()}
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(1 if loaded.roles else workers):
            self._start(number)

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(*self._workers)
        Cluster(self._kit).delete(self._topics)

    def feed(self, records: list[Keyed]) -> None:
        """Publish records, placed by the key as the engine's engine.toml says."""
        keys = Texts.of([key for key, _ in records])
        places = partitions_of(self._partitioner, keys, PARTITIONS)
        for (key, record), number in zip(records, places, strict=True):
            value = json.dumps(record).encode()
            assert self._writer.send(self._topics[0], int(number), key, value)
        self._writer.flush(ANSWER_S)
        assert not len(self._writer)
        self._writer.check()

    def kill(self, *numbers: int) -> None:
        """SIGKILL these workers, with all that they started."""
        for number in numbers:
            with suppress(ProcessLookupError):
                os.killpg(self._workers[number].pid, signal.SIGKILL)
        for number in numbers:
            self._workers[number].wait(ANSWER_S)

    def output(self, enough: Callable[[list[Record]], bool], limit_s: float) -> list[Record]:
        """Return what a read_committed consumer sees, from the first on, once it is ``enough``.

        Workers that ended are started again meanwhile. A second is waited for what nobody
        expects. After ``limit_s`` seconds: what there is.
        """
        seen: list[Record] = []
        deadline = time.monotonic() + limit_s
        with self._reader() as reader:
            while time.monotonic() < deadline and not enough(seen):
                for number, worker in self._workers.items():
                    if worker.poll() is not None:
                        self._start(number)
                seen += _values(reader, 0.2)
            return seen + _values(reader, 1.0)

    def said(self) -> str:
        """Return what the workers wrote."""
        return "".join(path.read_text() for path in sorted(self._folder.glob("worker-*.log")))

    def _start(self, number: int) -> None:
        with (self._folder / f"worker-{number}.log").open("ab") as log:
            self._workers[number] = subprocess.Popen(
                self._command,
                env=self._environment | {"TICKPROOF_WORKER": str(number)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                # A test that is killed takes them along.
                preexec_fn=partial(reaper.prctl, reaper.PR_SET_PDEATHSIG, signal.SIGKILL),
            )

    @contextmanager
    def _reader(self) -> Iterator[Consumer]:
        reader = Consumer(
            {
                "bootstrap.servers": self._kit,
                "group.id": f"{self._name}-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        reader.assign([TopicPartition(self._topics[1], number, 0) for number in range(PARTITIONS)])
        try:
            yield reader
        finally:
            reader.close()


def _values(reader: Consumer, wait_s: float) -> list[Record]:
    messages = reader.consume(AT_ONCE, wait_s)
    assert [message.error() for message in messages if message.error()] == []
    return [json.loads(message.value()) for message in messages]
