"""The certificates that this machine trusts, handed to Java.

A Java that comes as a package trusts its own list only: behind a TLS proxy it can download nothing,
though every other program of the machine can.
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickproof.conformance.errors import KafkaUnavailable
from tickproof.conformance.text import shown

#: Files, or folders of files, in the order in which they are looked for.
VARIABLES: Final = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_DIR")
SYSTEM: Final = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  # Fedora, Red Hat
    "/etc/pki/tls/certs/ca-bundle.crt",  # older ones of these
    "/var/lib/ca-certificates/ca-bundle.pem",  # SUSE
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",  # Alpine
)
#: What shows that Java has been told of a trust store already.
SETTING: Final = "javax.net.ssl.trustStore"
_JAVA_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "MAVEN_OPTS")
_PEM: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[\s\w+/=]+-----END CERTIFICATE-----", re.ASCII
)
# The format JKS, which every Java reads: https://docs.oracle.com/javase/8/docs/technotes/guides
# says which programs make it. A password guards nothing here: Java checks it only if it has one.
_MAGIC, _VERSION, _TRUSTED = 0xFEEDFEED, 2, 2
_PASSWORD: Final = "changeit".encode("utf-16-be")
_SALT: Final = b"Mighty Aphrodite"


@dataclass(frozen=True)
class Trusted:
    """Certificates in DER, and where they come from: ``VARIABLE=path``, or a path."""

    source: str
    certificates: tuple[bytes, ...]

    def java_options(self, folder: Path) -> list[str]:
        """Write a trust store to a folder; return what has Java use it."""
        store = folder / "trusted.jks"
        store.write_bytes(java_store(self.certificates))
        return [f"-D{SETTING}={store}", f"-D{SETTING}Type=JKS"]


def trusted(environ: Mapping[str, str] = os.environ) -> Trusted | None:
    """Return what this machine trusts, None if it does not say, or has told Java already.

    Raises KafkaUnavailable if a variable names no certificates.
    """
    if any(SETTING in environ.get(name, "") for name in _JAVA_VARIABLES):
        return None
    for name in VARIABLES:
        if place := environ.get(name):
            source = f"{name}={shown(place, 200)}"
            if found := _certificates(Path(place)):
                return Trusted(source, found)
            raise KafkaUnavailable(
                f"{source}: expected a file of certificates in PEM, or a folder of such files; "
                f"found none; correct or unset {name}"
            )
    for path in SYSTEM:
        if found := _certificates(Path(path)):
            return Trusted(path, found)
    return None


def _certificates(place: Path) -> tuple[bytes, ...]:
    """Return the certificates of a file or a folder, each once, without those that are damaged."""
    try:
        files = sorted(place.iterdir()) if place.is_dir() else [place]
    except OSError:
        return ()
    checked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    found: dict[bytes, None] = {}
    for file in files:
        try:
            text = file.read_text("latin-1")
        except OSError:
            continue
        for block in _PEM.findall(text):
            try:
                der = ssl.PEM_cert_to_DER_cert(block)
                checked.load_verify_locations(cadata=der)
            except (ValueError, ssl.SSLError):
                continue
            found[der] = None
    return tuple(found)


def java_store(certificates: tuple[bytes, ...]) -> bytes:
    """Return a trust store of Java that holds certificates."""
    now_ms = int(time.time() * 1000)
    body = struct.pack(">III", _MAGIC, _VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        alias = b"%d" % number
        body += struct.pack(">IH", _TRUSTED, len(alias)) + alias
        body += struct.pack(">QH5sI", now_ms, 5, b"X.509", len(certificate)) + certificate
    return body + hashlib.sha1(_PASSWORD + _SALT + body).digest()


def not_trusted(trusted: Trusted | None, why: str) -> str:
    """Say that the certificate of a repository is not trusted, and what to do."""
    source = trusted.source if trusted else "Java itself"
    return (
        f"TLS: the certificate of the repository is not trusted by {source} ({why}); expected one "
        "that is, or the certificate of the TLS proxy in between: set SSL_CERT_FILE to a file in "
        "PEM that has it"
    )
