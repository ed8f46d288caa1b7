"""Jars come with the certificates that this machine trusts, and a TLS error is named as one."""

from __future__ import annotations

import hashlib
import http.server
import importlib.util
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.long import few
from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.kafka import certificates, jars
from tickproof.conformance.kafka.jars import JarList

#: A key, and a certificate for localhost that it has signed itself.
PEM = Path(__file__).with_name("localhost.pem")
OTHER = Path(__file__).with_name("other.pem")
JAR = b"not really a jar"
POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    "<groupId>org.sample</groupId><artifactId>one</artifactId><version>1.0</version></project>"
)
SAMPLE = JarList(
    name="sample",
    coordinates=["org.sample:one:1.0"],
    sha256={"one-1.0.jar": hashlib.sha256(JAR).hexdigest()},
)


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[str]:
    """Give the address of a repository over TLS, with one artifact."""
    folder = tmp_path / "repository" / "org" / "sample" / "one" / "1.0"
    folder.mkdir(parents=True)
    (folder / "one-1.0.jar").write_bytes(JAR)
    (folder / "one-1.0.pom").write_text(POM)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(PEM)
    handler = partial(Quiet, directory=tmp_path / "repository")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.handle_error = lambda *_: None  # a client that does not trust hangs up
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"https://localhost:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def clear(monkeypatch) -> None:
    """Leave no variable that says what is trusted."""
    for name in (*certificates.VARIABLES, *certificates._JAVA_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ivy(kafka: None, clear: None, repository: str, tmp_path: Path, monkeypatch) -> None:
    """Have Ivy bring jars from the repository into an empty cache."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed, which has Ivy")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_REPOSITORY", repository)


@pytest.mark.parametrize("variable", few(certificates.VARIABLES))
def test_jars_come_with_a_certificate_that_a_variable_names(ivy, monkeypatch, tmp_path, variable):
    place = PEM
    if variable == "SSL_CERT_DIR":
        place = tmp_path / "folder"
        place.mkdir()
        (place / "one.crt").write_text(PEM.read_text())
    monkeypatch.setenv(variable, str(place))
    assert {path.name for path in jars.bring(SAMPLE).iterdir()} == {"one-1.0.jar"}


def test_jars_come_with_a_certificate_of_the_system(ivy, monkeypatch):
    monkeypatch.setattr(certificates, "SYSTEM", ("/nowhere", str(PEM)))
    assert {path.name for path in jars.bring(SAMPLE).iterdir()} == {"one-1.0.jar"}


@pytest.mark.parametrize("other", [True, False])
def test_a_certificate_that_is_not_trusted_is_named(ivy, monkeypatch, other):
    monkeypatch.setattr(certificates, "SYSTEM", ())
    if other:
        monkeypatch.setenv("SSL_CERT_FILE", str(OTHER))
    with pytest.raises(KafkaUnavailable) as error:
        jars.bring(SAMPLE)
    said = str(error.value)
    assert said.startswith("TLS: the certificate of the repository is not trusted by ")
    assert ("SSL_CERT_FILE=" if other else "by Java itself") in said
    assert "set SSL_CERT_FILE to" in said


def test_what_java_has_been_told_already_counts(clear, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Djavax.net.ssl.trustStore=/own.jks")
    assert certificates.trusted() is None


@pytest.mark.parametrize("content", [None, b"", b"\xff\0no certificate", PEM.read_bytes()[:60]])
def test_a_variable_that_names_no_certificate_is_an_error(clear, monkeypatch, tmp_path, content):
    path = tmp_path / "bundle.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
    said = f"REQUESTS_CA_BUNDLE={path}: expected a file of certificates in PEM"
    with pytest.raises(KafkaUnavailable, match=said):
        certificates.trusted()


def test_each_certificate_is_taken_once_and_a_damaged_one_is_left_out(clear, monkeypatch, tmp_path):
    path = tmp_path / "bundle.pem"
    one, two = PEM.read_text().partition("-----BEGIN CERT")[1:], OTHER.read_text()
    damaged = two.replace("M", "N", 3)
    path.write_text("".join(one) + "# a remark\n" + damaged + two + "".join(one))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    found = certificates.trusted()
    assert found is not None and found.source == f"SSL_CERT_FILE={path}"
    assert len(found.certificates) == 2
