"""Whole runs over a real broker: a sound engine passes, and what goes wrong gets its right name."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_until
from tests.judging import judge_of
from tests.long import LONG
from tickproof.conformance.engines import fair_clock
from tickproof.conformance.engines.spec import EngineSpec, load
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.broker import Broker
from tickproof.conformance.kafka.completion import QUIET_S, RELEASED_S
from tickproof.conformance.kafka.exchange import Exchange
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner import live_run
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session.pack.writer import pack
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.evidence import VALUES, outputs, whole
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.require import require_correct, require_no
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.verdicts import Verdict

TOML = """
[engine]
name = "made-up"
version = "1"
language = "python"
argv = ["{python}", "{here}/app.py"]
startup_timeout_s = 10
recovery_timeout_s = 3
transports = ["kafka"]

[kafka]
session_timeout_ms = 3000
transaction_timeout_ms = 10000

[claims]
state = "exactly-once"
delivery = "exactly-once"
survives = ["engine"]
rescale = "none"

[apps.passthrough]

[apps.count]
emit = ["every"]
"""
#: Copies its input to its output as it is: no point of count among it.
COPIES = """
import os
from confluent_kafka import Consumer, Producer
env = os.environ
consumer = Consumer({"bootstrap.servers": env["TICKPROOF_BOOTSTRAP"],
                     "group.id": env["TICKPROOF_GROUP"], "auto.offset.reset": "earliest",
                     "auto.commit.interval.ms": 100})
producer = Producer({"bootstrap.servers": env["TICKPROOF_BOOTSTRAP"]})
consumer.subscribe([env["TICKPROOF_IN"]])
while True:
    for message in consumer.consume(500, 0.1):
        if message.error() is None:
            producer.produce(env["TICKPROOF_OUT"], message.value())
    producer.flush()
"""
HIDDEN_MS = 8000
#: Before it copies, it leaves a transaction open, as a process that died would.
HIDES = (
    """
import os
from confluent_kafka import Producer
left = Producer({"bootstrap.servers": os.environ["TICKPROOF_BOOTSTRAP"],
                 "transactional.id": os.urandom(8).hex(), "transaction.timeout.ms": HIDDEN_MS})
left.init_transactions()
left.begin_transaction()
# Where it is not delivered, nothing is hidden: the supervisor starts this once more.
left.produce(os.environ["TICKPROOF_OUT"], b"{}", partition=0,
             on_delivery=lambda error, _: error and os._exit(1))
left.flush()
""".replace("HIDDEN_MS", str(HIDDEN_MS))
    + COPIES
)
#: Fetches nothing as long as the topic is empty.
LOOKS = (
    """
import os, time
from confluent_kafka import Consumer, TopicPartition
looks = Consumer({"bootstrap.servers": os.environ["TICKPROOF_BOOTSTRAP"], "group.id": "none"})
while looks.get_watermark_offsets(TopicPartition(os.environ["TICKPROOF_IN"], 0), 10)[1] == 0:
    time.sleep(0.1)
"""
    + COPIES
)
ENDS = "import sys; sys.exit('no such option')"


@pytest.fixture
def miniature(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> EngineSpec:
    monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(broker.address)))
    return load(fixtures() / "engines" / "kafka-miniature")


def drawn(name: str, records: int = 6_000) -> Scenario:
    scenario = draw(name, Context(seed=5, transport="kafka"))
    return replace(scenario, recipe=scenario.recipe | {"records": records})


def made(folder: Path, app: str) -> EngineSpec:
    folder.mkdir()
    (folder / "app.py").write_text(app)
    (folder / "engine.toml").write_text(TOML)
    return load(folder)


@LONG
def test_a_sound_engine_is_exact_though_it_is_killed_in_open_transactions(
    miniature: EngineSpec, tmp_path: Path
) -> None:
    play(drawn("kafka-open-transactions", 12_000), miniature, tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    judge_of("KA-OPEN-TRANSACTION", "kafka-open-transactions")(history)
    assert len(history.faults) == 2
    assert history.claims.over_kafka
    assert history.record.kafka.transaction_s == 10
    (output,) = history.all(events.KafkaOutput)
    assert output.committed == 12_000 < output.produced
    assert output.aborted == output.produced - 12_000


@LONG
def test_a_worker_that_dies_is_started_again(miniature: EngineSpec, tmp_path: Path) -> None:
    play(drawn("count-worker-death", 12_000), miniature, tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    judge_of("EO-WORKER-DEATH", "count-worker-death")(history)
    (fault,) = history.faults
    assert fault.step.target == "worker" and len(fault.pids) == 1
    # A run over Kafka makes a pack like any other.
    packed = pack(tmp_path / "run", tmp_path / "run.zip")
    assert packed.outcomes and {one.verdict for one in packed.outcomes} == {Verdict.PASS}


@LONG
def test_an_engine_stays_down_for_as_long_as_it_is_told(
    miniature: EngineSpec, tmp_path: Path
) -> None:
    step = KillEngineStep("fetched", fraction=0.3, down_s=2.5)
    scenario = replace(drawn("count-engine-death"), faults=(step,))
    play(scenario, miniature, tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    require_correct(history)
    (fault,) = history.faults
    again = [one.t_ns for one in history.all(events.Started) if one.resume]
    assert again[0] - fault.struck_ns >= 2.4e9
    assert "stays down for 2.5 s" in fault.text


@LONG
def test_output_that_is_no_point_is_kept_and_named(miniature: EngineSpec, tmp_path: Path) -> None:
    play(drawn("count"), made(tmp_path / "engine", COPIES), tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    assert history.all(events.OddOutput)
    assert b'{"k":' in (tmp_path / "run" / "output" / "s0.odd").read_bytes()
    with pytest.raises(Fail) as failure:
        require_no(history, whole(history), (*VALUES,))
    assert failure.value.code == "wrong-size"
    assert 'of another shape; the first: {"k":' in failure.value.actual


@LONG
def test_output_that_an_open_transaction_hides_is_waited_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(broker.address)))
    play(drawn("passthrough"), made(tmp_path / "engine", HIDES), tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    # All came in the end, after the coordinator had ended the transaction.
    require_correct(history)
    (started,) = history.all(events.Started)
    came_ns = outputs(history).arrivals["t_ns"].max()
    assert came_ns - started.t_ns > HIDDEN_MS * 1e6


@LONG
def test_a_recorder_that_is_behind_is_waited_for(
    miniature: EngineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, held = Exchange._take, threading.Event()

    def hold(self: Exchange, messages: Sequence[Any]) -> None:
        # Everything is released by now, and stays so for longer than a run has to be quiet.
        if messages and not held.is_set():
            released = self._log.total
            assert wait_until(lambda: self._log.released >= released, 60)
            time.sleep(RELEASED_S + 2 * QUIET_S)
            held.set()
        take(self, messages)

    monkeypatch.setattr(Exchange, "_take", hold)
    play(drawn("count"), miniature, tmp_path / "run", seed=5)
    assert held.is_set()
    history = History(tmp_path / "run")
    require_correct(history)
    (output,) = history.all(events.KafkaOutput)
    assert output.committed == output.produced == 6_000
    (drained,) = history.all(events.Drained)
    assert drained.outputs == 6_000


def test_output_that_the_kit_loses_is_the_kits_failure(
    miniature: EngineSpec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = Exchange._take
    monkeypatch.setattr(Exchange, "_take", lambda self, messages: take(self, messages[1:]))
    with pytest.raises(KitStopped, match="messages of output were produced without transactions"):
        play(drawn("passthrough"), made(tmp_path / "engine", COPIES), tmp_path / "run", seed=5)


def test_input_comes_though_an_engine_fetches_only_what_is_there(
    miniature: EngineSpec, tmp_path: Path
) -> None:
    toml = made(tmp_path / "engine", LOOKS).path
    toml.write_text(TOML.replace("startup_timeout_s = 10", "startup_timeout_s = 60"))
    play(drawn("passthrough"), load(toml), tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    require_correct(history)
    (started,) = history.all(events.Started)
    assert history.publishes["t_ns"].min() - started.t_ns < 60e9  # it was not waited for in vain


@LONG
def test_an_engine_that_is_slow_but_goes_on_has_its_time(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(broker.address)))
    monkeypatch.setattr(Scenario, "longest_s", lambda *_: 0.0)
    monkeypatch.setattr(live_run, "SPARE_S", 8)  # as much as it needs to start, at least
    monkeypatch.setattr(fair_clock, "MOST_TIMES", 30)
    slow = COPIES.replace("producer.produce(", "time.sleep(0.02); producer.produce(")
    slow = "import time\n" + slow.replace("consume(500,", "consume(20,")
    play(drawn("passthrough", 1_000), made(tmp_path / "engine", slow), tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    require_correct(history)
    (drained,) = history.all(events.Drained)
    (started,) = history.all(events.Started)
    assert drained.t_ns - started.t_ns > 8e9  # more than the limit of the run


def test_an_engine_that_ends_at_once_cannot_start(miniature: EngineSpec, tmp_path: Path) -> None:
    play(drawn("count"), made(tmp_path / "engine", ENDS), tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    assert history.ended.code == "EXITED"
    stderr = (tmp_path / "run" / "stderr.log").read_text()
    assert "no such option" in stderr
    assert "cannot start: it ended at once, 6 times in a row" in stderr


@LONG
def test_a_broker_that_dies_is_the_kits_failure(
    kafka: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = load(fixtures() / "engines" / "kafka-miniature")
    with Broker() as own:
        monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(own.address)))
        killed = threading.Event()

        def kill(row: dict) -> None:
            if row["event"] == "progress" and row["outputs"] and not killed.is_set():
                killed.set()
                os.kill(own.pid, signal.SIGKILL)

        scenario = replace(drawn("count", 40_000), rate=4_000.0)
        with pytest.raises(KitStopped, match="broker"):
            play(scenario, spec, tmp_path / "run", seed=5, listener=kill)
    assert killed.is_set()
    history = History(tmp_path / "run")
    assert history.ended.how == "kit-error"
