"""Requirements: a promise, who is asked, and the judge of each scenario that decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal

from tickproof.conformance.faults.kinds import faults_of, needs_of
from tickproof.conformance.scenario import Claims, Death, JudgedApp, Scenario, survived
from tickproof.conformance.suites.judge import Judge, NotClaimed
from tickproof.conformance.suites.scenarios import Entry
from tickproof.conformance.verdicts import DOES_NOT_APPLY

Level = Literal["must", "should"]


@dataclass(frozen=True)
class Needs:
    """The claims that select a requirement; an empty tuple asks for nothing.

    ``survives``: the engine must claim all of them. Every other field: one of
    the values must be offered or claimed (``app``, ``emit``, ``inputs``: the
    engine offers it; ``state``, ``delivery``, ``rescale``: the claim is one of them;
    ``latency``: "claimed", a service level at all; ``transport``: what the engine speaks).
    ``hosts``: it is about engines that run on several hosts, and played with --hosts only.
    """

    app: tuple[JudgedApp, ...] = ()
    state: tuple[Literal["none", "at-most-once", "at-least-once", "exactly-once"], ...] = ()
    delivery: tuple[Literal["at-least-once", "exactly-once"], ...] = ()
    rescale: tuple[Literal["restart", "live"], ...] = ()
    survives: tuple[Death, ...] = ()
    emit: tuple[Literal["every", "some", "rejects", "verdicts"], ...] = ()
    inputs: tuple[Literal["merged", "two"], ...] = ()
    latency: tuple[Literal["claimed"], ...] = ()
    transport: tuple[Literal["log", "kafka"], ...] = ()
    hosts: bool = False

    def __str__(self) -> str:
        """Return in words which engines are asked."""
        parts = []
        for key, values in vars(self).items():
            if values is True:
                parts.append(f"engines on several {key}")
            elif values:
                joint = " and " if key == "survives" else " or "
                parts.append(f"{key} {joint.join(values)}")
        return "; ".join(parts) or "every engine"

    def applies_over(self, transport: str) -> bool:
        """Tell whether a requirement says anything of an engine that speaks ``transport``."""
        return not self.transport or transport in self.transport


#: Of engines that speak the protocol of the log, and nothing else.
OVER_LOG: Final = Needs(transport=("log",))


@dataclass(frozen=True)
class Requirement:
    """One promise. ``clauses`` are ids of docs/protocol.md that it checks."""

    id: str
    title: str
    promise: str
    level: Level
    tier: int
    clauses: tuple[str, ...]
    needs: Needs
    judges: Mapping[Entry, Judge] = field(compare=False, repr=False, default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return all but the judges as JSON values."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        del values["judges"]
        return values | {"needs": asdict(self.needs)}

    @property
    def family(self) -> str:
        """Return the family: the part of the id before the first hyphen."""
        return self.id.partition("-")[0]


@dataclass(frozen=True)
class Family:
    """Requirements whose ids begin with ``key``, of one tier unless they name another."""

    key: str
    title: str
    tier: int
    requirements: list[Requirement] = field(default_factory=list)

    def requirement(
        self,
        id_: str,
        title: str,
        promise: str,
        *,
        clauses: str,
        judges: Mapping[Entry, Judge],
        needs: Needs = Needs(),
        tier: int | None = None,
    ) -> None:
        """Add a requirement.

        promise: what holds, then its likely causes of a failure, from the first "If" on. clauses:
        ids, separated by spaces. judges: scenario -> the judge of its runs.
        """
        self.requirements.append(
            Requirement(
                id_,
                title,
                " ".join(promise.split()),
                "must",
                self.tier if tier is None else tier,
                tuple(clauses.split()),
                needs,
                judges,
            )
        )


def check_transport(needs: Needs, transport: str) -> None:
    """Raise NotClaimed where a requirement says nothing of engines that speak ``transport``."""
    if not needs.applies_over(transport):
        spoken = " or ".join(needs.transport)
        about = f"about the transport {spoken}; it speaks {transport}"
        raise NotClaimed(f"{DOES_NOT_APPLY}: {about}")


def check_hosts(needs: Needs, placement: Mapping[str, str]) -> None:
    """Raise NotClaimed where a requirement is about several hosts and [hosts] is missing."""
    if needs.hosts and not placement:
        about = "about engines on several hosts; its engine.toml has no [hosts]"
        raise NotClaimed(f"{DOES_NOT_APPLY}: {about}")


def check_claims(needs: Needs, claims: Claims, scenario: Scenario) -> None:
    """Raise NotClaimed where app or ``claims`` are not what a test needs."""
    check_transport(needs, claims.transport)
    played = {"app": scenario.app, **scenario.params}
    for name in ("app", "inputs", "emit"):
        wanted = getattr(needs, name)
        if wanted and played.get(name) not in wanted:
            raise NotClaimed(f"offers no {name} {' or '.join(wanted)}".replace("no app ", ""))
    for name in ("state", "delivery", "rescale"):
        wanted = getattr(needs, name)
        if wanted and (claimed := getattr(claims, name)) not in wanted:
            raise NotClaimed(f"claims {name} = {claimed}")
    if needs.latency and not claims.latency:
        raise NotClaimed("claims no service level (latency)")
    for fault in faults_of(scenario.faults):
        if fault.rescale_claims and claims.rescale not in fault.rescale_claims:
            raise NotClaimed(f"claims rescale = {claims.rescale}")
    asked = {*needs.survives, *needs_of(scenario.faults, scenario.workers)}
    missing = asked - set(survived(claims.survives))
    if missing:
        raise NotClaimed(f"does not claim to survive: {', '.join(sorted(missing))}")
