"""Security of the listener that an engine's Kafka clients reach, and what they are told of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

SecurityProtocol = Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
DEFAULT_MECHANISM: Final[Mechanism] = "SCRAM-SHA-256"
#: Name of the CA's file in the engine's TMPDIR.
CA_FILE: Final = "tickproof-ca.pem"


@dataclass(frozen=True)
class Security:
    """What `security` and `sasl_mechanism` of engine.toml or job.toml ask for."""

    protocol: SecurityProtocol = "plaintext"
    mechanism: Mechanism = DEFAULT_MECHANISM

    @property
    def tls(self) -> bool:
        """True if clients speak TLS."""
        return self.protocol in ("ssl", "sasl_ssl")

    @property
    def login(self) -> bool:
        """True if clients log in by SASL."""
        return self.protocol in ("sasl_plaintext", "sasl_ssl")

    def names(self) -> set[str]:
        """Return the names of what clients are told: placeholders of job.toml."""
        found = {"security"} if self.tls or self.login else set()
        found |= {"ca"} if self.tls else set()
        return found | (
            {"sasl.mechanism", "sasl.username", "sasl.password"} if self.login else set()
        )


PLAINTEXT: Final = Security()


@dataclass(frozen=True)
class Access:
    """Access to a listener that is not plaintext, for one engine.

    ca: the certificate of the authority that signed the listener's, in PEM; "" without TLS. No
    username: there is no login.
    """

    security: Security
    ca: str = ""
    username: str = ""
    password: str = field(default="", repr=False)

    def values(self, folder: Path) -> dict[str, str]:
        """Return what clients set, by the names of job.toml; the CA's file is in ``folder``."""
        all_ = {
            "security": self.security.protocol,
            "ca": str(folder / CA_FILE),
            "sasl.mechanism": self.security.mechanism,
            "sasl.username": self.username,
            "sasl.password": self.password,
        }
        return {name: all_[name] for name in all_ if name in self.security.names()}

    def environment(self, folder: Path) -> dict[str, str]:
        """Return the variables of the engine; the CA's file is in ``folder``."""
        return {
            f"TICKPROOF_{name.upper().replace('.', '_')}": value
            for name, value in self.values(folder).items()
        }

    def write_ca(self, folder: Path) -> None:
        """Write the CA's certificate, which is public: the engine may run as another user."""
        if self.ca:
            (folder / CA_FILE).write_text(self.ca, "ascii")
            (folder / CA_FILE).chmod(0o644)


def conflicts(where: str, protocol: object, mechanism: object) -> Iterator[str]:
    """Find a mechanism beside a protocol that has no login, in the table ``where``."""
    if mechanism is not None and protocol not in ("sasl_plaintext", "sasl_ssl"):
        yield (
            f"{where} sasl_mechanism: expected only beside security = "
            '"sasl_plaintext" or "sasl_ssl"'
        )
