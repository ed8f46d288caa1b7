"""Judging on a cluster that is there: what is expected of it, and that it is left as it was."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.long import LONG
from tickproof.conformance.engines.security import Security
from tickproof.conformance.engines.spec import EngineSpec, KafkaTimeouts, load
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import broker_settings as own
from tickproof.conformance.kafka import existing
from tickproof.conformance.kafka.broker import Broker, BrokerAddress
from tickproof.conformance.kafka.cluster import Cluster
from tickproof.conformance.kafka.transaction_log import TransactionLog
from tickproof.conformance.resources import fixtures

confluent_kafka = pytest.importorskip("confluent_kafka")

#: What the kit asks of its own broker and finds on no other.
OURS = ("transaction.state.log.num.partitions", "offsets.topic.num.partitions")
LONGEST_MS = 60_000


@pytest.fixture(scope="module")
def there(kafka: None) -> Iterator[str]:
    """Give the address of a broker whose transactions lie in many partitions."""
    with pytest.MonkeyPatch.context() as patch:
        settings = {name: value for name, value in own.SETTINGS.items() if name not in OURS}
        settings["transaction.max.timeout.ms"] = str(LONGEST_MS)
        patch.setattr(own, "SETTINGS", settings)
        with Broker() as made:
            yield made.address.kit


@pytest.fixture
def miniature() -> EngineSpec:
    return load(fixtures() / "engines" / "kafka-miniature" / "engine.toml")


def test_address_of_a_broker_that_is_there(there: str, miniature: EngineSpec) -> None:
    found = existing.reached(there, [miniature])
    port = int(there.rpartition(":")[2])
    assert found == BrokerAddress(there, [port], transaction_version=None, outlives=True)


def test_an_engine_that_logs_in_is_refused_before_anybody_is_asked(miniature: EngineSpec) -> None:
    miniature.security = Security("sasl_ssl")
    said = (
        "--kafka localhost:1: expected engines that do not log in, for no user of it is known; "
        'kafka-miniature has security = "sasl_ssl"'
    )
    with pytest.raises(KafkaUnavailable, match=re.escape(said)):
        existing.reached("localhost:1", [miniature])


@LONG
def test_nothing_is_left_of_a_run(there: str, tmp_path) -> None:
    names = "ST-TOTALS,KA-OPEN-TRANSACTION,KA-NAMES"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tickproof",
            "run",
            "kafka-miniature",
            "--only",
            names,
            "--kafka",
            there,
            "--out",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    topics = Cluster(there).partitions()
    assert set(topics) == {"__transaction_state", "__consumer_offsets"}
    assert topics["__transaction_state"] == 50


@LONG
def test_transactions_are_followed_while_their_partitions_come_to_be(kafka: None) -> None:
    many = own.SETTINGS | {"transaction.state.log.num.partitions": "200"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "SETTINGS", many)
        with Broker() as young, ThreadPoolExecutor(1) as pool:
            address = young.address.kit
            sink = confluent_kafka.Producer(
                {"bootstrap.servers": address, "transactional.id": "first"}
            )
            began = pool.submit(sink.init_transactions, 60)
            while not began.done():
                TransactionLog(address, "").close()
            began.result()


@LONG
def test_where_nobody_listens(miniature: EngineSpec) -> None:
    with pytest.raises(KafkaUnavailable, match=r"Kafka at 127\.0\.0\.1:1"):
        existing.reached("127.0.0.1:1", [miniature])


def test_a_broker_that_is_elsewhere(there: str, monkeypatch) -> None:
    monkeypatch.setattr(existing, "LOCAL_NAMES", ("here",))
    with pytest.raises(
        KafkaUnavailable, match=r"come to 127\.0\.0\.1:.*expected here in advertised"
    ):
        existing.reached(there, [])


def test_several_brokers(there: str, monkeypatch) -> None:
    two = {1: ("127.0.0.1", 1), 2: ("127.0.0.1", 2)}
    monkeypatch.setattr(Cluster, "brokers", lambda _self, _limit_s: two)
    with pytest.raises(KafkaUnavailable, match=r"expected a cluster of one broker.*it has 2"):
        existing.reached(there, [])


@pytest.mark.parametrize(
    ("session_ms", "transaction_ms", "said"),
    [
        (500, 10_000, "sessions of 1000 to .*claims session_timeout_ms = 500"),
        (3_000, LONGEST_MS + 1, "at most 60000 ms.*claims transaction_timeout_ms = 60001"),
    ],
)
def test_a_timeout_that_the_broker_refuses(
    there: str, miniature: EngineSpec, session_ms: int, transaction_ms: int, said: str
) -> None:
    miniature.kafka = KafkaTimeouts(session_ms, transaction_ms)
    with pytest.raises(KafkaUnavailable, match=said):
        existing.reached(there, [miniature])


def test_timeouts_that_there_are_none_of(there: str, miniature: EngineSpec) -> None:
    miniature.kafka = KafkaTimeouts(0, 0)
    assert existing.reached(there, [miniature]).kit == there
