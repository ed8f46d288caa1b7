"""Certificates of one proxy: an authority that lives as long as it does, and what it signed."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from dataclasses import dataclass
from typing import Any, Final

from tickproof.conformance.errors import KafkaUnavailable

#: Clients reach the proxy of one broker, or of each in a cluster, by these: on loopback, and over
#: a network of hosts (see `engines.network`).
_ADDRESSES: Final = tuple(
    f"{subnet}{number}" for subnet in ("127.0.0.", "192.0.2.") for number in range(1, 5)
)
_NAME: Final = "localhost"
#: Clocks of engines may be moved; a run takes hours at most.
_VALID: Final = datetime.timedelta(days=30)


@dataclass(frozen=True)
class ServerIdentity:
    """What a proxy shows to clients. ca: certificate of the authority, in PEM."""

    ca: str
    context: ssl.SSLContext


def make_identity() -> ServerIdentity:
    """Make an authority, and a certificate that it signs; raises KafkaUnavailable.

    No key is written to disk, and that of the authority is forgotten.
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise KafkaUnavailable(
            f'security = "ssl" and "sasl_ssl" need the package cryptography ({error}); '
            "pip install 'tickproof[kafka]'"
        ) from error
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca = _certificate("tickproof CA", authority.public_key(), authority, of_authority=True)
    own = _certificate(_NAME, server.public_key(), authority, of_authority=False)
    pem = serialization.Encoding.PEM
    key = server.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ServerIdentity(
        ca.public_bytes(pem).decode("ascii"), _context(key + own.public_bytes(pem))
    )


def _certificate(name: str, public: Any, signer: Any, *, of_authority: bool) -> Any:
    """Return a certificate for a public key, with what clients look for in one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    named = lambda text: x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])  # noqa: E731
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named("tickproof CA"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(of_authority, 0 if of_authority else None), True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
        )
        .add_extension(_usage(of_authority), True)
    )
    if not of_authority:
        addresses = [x509.IPAddress(ipaddress.ip_address(one)) for one in _ADDRESSES]
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(_NAME), *addresses]), False
        ).add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
    return builder.sign(signer, hashes.SHA256())


def _usage(of_authority: bool) -> Any:
    """Return what the key of a certificate is for: signing others, or proving who it is."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not of_authority,
        key_cert_sign=of_authority,
        crl_sign=of_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _context(key_and_certificate: bytes) -> ssl.SSLContext:
    """Return the server's side of TLS. ssl takes keys out of files only: this one is in memory."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.num_tickets = 0  # no client comes for long enough to resume
    file = os.memfd_create("tickproof-key", os.MFD_CLOEXEC)
    try:
        os.write(file, key_and_certificate)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context
