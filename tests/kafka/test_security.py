"""TLS and SASL on the engine's listener: who gets through, who does not, and faults inside TLS."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from tests.kafka.copier import WAIT_S, Copier, Reader, Stage, client, staged, wait_until
from tests.kafka.messages import fetch_request, request
from tests.long import few
from tickproof.conformance.engines.security import Access, Security
from tickproof.conformance.engines.spec import load
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.fault_steps import KillEngineStep, fault_step
from tickproof.conformance.faults.kinds import fault_of
from tickproof.conformance.history.folder import History
from tickproof.conformance.kafka import shared_broker
from tickproof.conformance.kafka.broker import Broker, BrokerAddress
from tickproof.conformance.kafka.entrance import entrance
from tickproof.conformance.resources import fixtures
from tickproof.conformance.runner.run import play
from tickproof.conformance.session.pack.writer import pack
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.require import require_correct
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.verdicts import Verdict

TLS = Security("ssl")
BOTH = Security("sasl_ssl")
FETCH, RECORDS = 4, 60


def errors_of(stage: Stage, **settings: Any) -> list[KafkaError]:
    """Return the errors of a client that asks for metadata, until it has an answer or some."""
    errors: list[KafkaError] = []
    settings = {**stage.secured, "error_cb": errors.append, **settings}
    sink = Producer(client(stage.engine, **settings))
    try:
        wait_until(lambda: sink.poll(0.05) or errors or stage.output in known(sink))
    finally:
        sink.purge()
    return errors


def known(sink: Producer) -> Any:
    try:
        return sink.list_topics(timeout=0.2).topics
    except Exception:  # what it is shows in its errors
        return {}


@pytest.mark.parametrize(
    "security",
    few(
        [
            BOTH,
            Security("sasl_plaintext", "PLAIN"),
            TLS,
            Security("sasl_ssl", "SCRAM-SHA-512"),
            Security("sasl_ssl", "PLAIN"),
            Security("sasl_plaintext"),
        ],
        3,
    ),
)
def test_a_client_with_what_it_was_told_gets_through(broker: Broker, security: Security) -> None:
    with staged(broker, security=security) as stage:
        assert not errors_of(stage)
        assert stage.seen("connected") and not stage.seen("not-greeted")
        assert stage.proxy.failure is None


def test_a_wrong_password_is_refused_by_the_broker(broker: Broker) -> None:
    with staged(broker, security=BOTH) as stage:
        (error, *_) = errors_of(stage, **{"sasl.password": "wrong"})
        assert error.code() == KafkaError._AUTHENTICATION
        assert "invalid credentials" in error.str()
        assert stage.proxy.failure is None


def test_a_client_that_trusts_others_goes_away_and_says_why(broker: Broker) -> None:
    with staged(broker, security=TLS) as stage:
        (error, *_) = errors_of(stage, **{"ssl.ca.pem": entrance(broker.address, TLS).access.ca})  # type: ignore[union-attr]
        # Which of the two depends on where librdkafka notices.
        assert error.code() in (KafkaError._SSL, KafkaError._TRANSPORT)
        assert "certificate verify failed" in error.str()
        wait_until(lambda: stage.seen("not-greeted"))
        assert "handshake failed" in stage.seen("not-greeted")[0]["text"]


def test_plain_text_at_a_listener_of_tls_is_ended_and_noted(broker: Broker) -> None:
    with staged(broker, security=TLS) as stage, connected(stage) as sock:
        sock.sendall(sized(request(18, 0, False, b"")))
        while sock.recv(1 << 16):  # an alert of TLS at most, and no reset
            pass
        wait_until(lambda: stage.seen("not-greeted"))
        (event,) = stage.seen("not-greeted")
        assert event["text"] == ("no TLS: expected a TLS handshake; the client spoke plain text")


def test_a_client_that_only_looks_whether_somebody_listens_is_no_stranger(broker: Broker) -> None:
    with staged(broker, security=TLS) as stage:
        connected(stage).close()
        assert stage.proxy.wait_idle(WAIT_S)
        assert not stage.events


def test_a_login_whose_tokens_have_no_headers_is_ended(broker: Broker) -> None:
    with staged(broker, security=TLS) as stage, secured(stage) as sock:
        sock.sendall(sized(request(17, 0, False, struct.pack(">h", 5) + b"PLAIN")))
        assert sock.recv(1) == b""
        wait_until(lambda: stage.seen("not-greeted"))
        assert "SaslHandshake 0" in stage.seen("not-greeted")[0]["text"]


def test_a_cut_inside_tls_gives_half_of_an_answer_and_a_reset(broker: Broker) -> None:
    with staged(broker, security=TLS) as stage, connected(stage) as sock:
        stage.feed(RECORDS)
        client_ = TlsClient(sock, stage)
        asked = sized(fetch_request(FETCH, {stage.input: {0: 0}}))
        client_.send(asked)
        (size,) = struct.unpack(">i", client_.receive(4))
        client_.receive(size)
        stage.proxy.links.aim(fault_of(fault_step("cut", "source", "fetched")))()  # type: ignore[arg-type]
        client_.send(asked)
        with pytest.raises(ConnectionResetError):
            client_.receive(size + 4)
        wait_until(lambda: stage.seen("link"))
        (event,) = stage.seen("link")
        assert event["whole"] == size + 4
        assert len(client_.left) == event["sent"] == event["whole"] // 2


def test_an_end_inside_tls_that_is_no_reset_is_no_close_notify_either(broker: Broker) -> None:
    with staged(broker, security=TLS) as stage, connected(stage) as sock:
        client_ = TlsClient(sock, stage)
        client_.send(sized(request(18, 0, False, b"")))
        client_.receive(4)
        assert stage.proxy.reset_all() == 1
        with pytest.raises((ConnectionResetError, EOFError)):
            client_.receive(1 << 16)


@pytest.fixture(scope="module")
def copied(broker: Broker) -> Iterator[tuple[Stage, Reader]]:
    """Give a stage with TLS and a login on which a copier goes on."""
    with staged(broker, security=BOTH) as stage, Copier(stage):
        reader = Reader(stage)
        yield stage, reader
        reader.close()
        assert stage.proxy.failure is None and not stage.proxy.traffic.malformed


@pytest.mark.parametrize(
    ("do", "side", "fields"),
    [
        ("cut", "source", {}),
        ("cut", "sink", {}),
        ("half-open", "sink", {"seconds": 0.3}),
        ("delay", "source", {"seconds": 0.3, "lag_s": 0.1}),
        ("drip", "sink", {"seconds": 0.3}),
        (
            "error",
            "sink",
            {"seconds": 0.2, "request": "EndTxn", "error": "CONCURRENT_TRANSACTIONS"},
        ),
    ],
)
def test_faults_inside_tls_are_survived(
    copied: tuple[Stage, Reader], do: Any, side: Any, fields: dict[str, Any]
) -> None:
    stage, reader = copied
    stage.feed(RECORDS)
    reader.wait_for(stage.fed)
    before = len(stage.seen("link"))
    stage.proxy.links.aim(fault_of(fault_step(do, side, "fetched", **fields)))()  # type: ignore[arg-type]
    stage.feed(RECORDS)
    reader.wait_for(stage.fed)
    wait_until(lambda: len(stage.seen("link")) > before, f"the end of {do}")
    (event,) = stage.seen("link")[before:]
    assert (event["do"], event["target"]) == (do, side) and event["count"] >= 1


def test_a_run_with_a_login_is_exact_over_a_death_and_keeps_no_password(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(shared_broker.VARIABLE, json.dumps(asdict(broker.address)))
    engine = talkative(tmp_path / "engine")
    scenario = draw("count-engine-death", Context(seed=5, transport="kafka"))
    step = KillEngineStep("committing", fraction=0.3)
    recipe = scenario.recipe | {"records": 6_000}
    play(replace(scenario, recipe=recipe, faults=(step,)), load(engine), tmp_path / "run", seed=5)
    history = History(tmp_path / "run")
    require_correct(history)
    (fault,) = history.faults
    assert fault.step.at == "committing" and fault.pids
    # Each life of each worker wrote down all that it was told.
    said = (tmp_path / "run" / "stderr.log").read_text()
    assert said.count("'TICKPROOF_SASL_PASSWORD': '***'") >= 4
    assert "TICKPROOF_BROKER" not in said
    packed = pack(tmp_path / "run", tmp_path / "run.zip")
    assert {one.verdict for one in packed.outcomes} == {Verdict.PASS}
    shutil.unpack_archive(tmp_path / "run.zip", tmp_path / "unpacked")
    password = broker.address.password.encode()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 10 and not [one for one in written if password in one.read_bytes()]
    (authority,) = set(re.findall(r"'TICKPROOF_CA': '([^']+)'", said))
    assert not Path(authority).parents[1].exists()


def talkative(folder: Path) -> Path:
    """Copy kafka-miniature as one that logs in over TLS, and writes down all that it is told."""
    shutil.copytree(fixtures() / "engines" / "kafka-miniature", folder)
    for name, old, new in (
        ("engine.toml", "[claims]", 'security = "sasl_ssl"\n[claims]'),
        ("worker.py", "ENV = os.environ\n", "ENV = os.environ\nprint(ENV, file=sys.stderr)\n"),
    ):
        text = (folder / name).read_text()
        assert text.count(old) == 1
        (folder / name).write_text(text.replace(old, new))
    return folder


def test_a_login_needs_a_broker_of_the_kit() -> None:
    with pytest.raises(KafkaUnavailable, match='security = "sasl_ssl": expected a broker that'):
        entrance(BrokerAddress("127.0.0.1:9092", [9092]), BOTH)


def test_no_one_reads_the_password_by_accident() -> None:
    access = Access(BOTH, "", "user", "p4ss")
    address = BrokerAddress("kit", [1], username="user", password="p4ss")
    assert "p4ss" not in f"{access!r} {address!r}"


def test_the_authority_is_a_file_that_others_may_read(tmp_path: Path) -> None:
    access = Access(TLS, "PEM")
    access.write_ca(tmp_path)
    told = access.environment(tmp_path)
    assert told == {"TICKPROOF_SECURITY": "ssl", "TICKPROOF_CA": str(tmp_path / "tickproof-ca.pem")}
    assert Path(told["TICKPROOF_CA"]).read_text() == "PEM"
    assert Path(told["TICKPROOF_CA"]).stat().st_mode & 0o777 == 0o644


class TlsClient:
    """A client that sees how its socket ends: that of `ssl` makes an end of a reset."""

    def __init__(self, sock: socket.socket, stage: Stage) -> None:
        self._sock, self.left = sock, b""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = trusting(stage).wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost"
        )
        while not self._shaken():
            self._incoming.write(self._sock.recv(1 << 16))

    def _shaken(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        finally:
            self._sock.sendall(self._outgoing.read())
        return True

    def send(self, data: bytes) -> None:
        self._tls.write(data)
        self._sock.sendall(self._outgoing.read())

    def receive(self, size: int) -> bytes:
        """Return so many bytes; raises OSError for a reset, EOFError for an end.

        ``left`` has what came before. A close_notify is an error of `ssl`.
        """
        while len(self.left) < size:
            try:
                self.left += self._tls.read(1 << 16)
            except ssl.SSLWantReadError:
                got = self._sock.recv(1 << 16)
                if not got:
                    raise EOFError from None
                self._incoming.write(got)
        found, self.left = self.left[:size], self.left[size:]
        return found


def trusting(stage: Stage) -> ssl.SSLContext:
    assert stage.entrance.access is not None
    return ssl.create_default_context(cadata=stage.entrance.access.ca)


def connected(stage: Stage) -> socket.socket:
    return socket.create_connection(("127.0.0.1", stage.proxy.port), WAIT_S)


def secured(stage: Stage) -> ssl.SSLSocket:
    """Return a connection inside TLS whose certificate was checked, by addresses and by name."""
    context = trusting(stage)
    for name in ("localhost", "127.0.0.3"):
        context.wrap_socket(connected(stage), server_hostname=name).close()
    return context.wrap_socket(connected(stage), server_hostname="127.0.0.1")


def sized(frame: memoryview) -> bytes:
    return struct.pack(">i", len(frame)) + frame
