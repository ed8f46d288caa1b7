"""Load and validate the requirement registry, one TOML file a family.

Ids are stable words that are never reused. The registry says what a requirement
promises and which claims select it; the suites say how it is decided.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import TickproofError

HERE: Final = Path(__file__).parent

#: Family to title, in the order in which reports show them.
FAMILIES: Final = {
    "PR": "Protocol",
    "SL": "Stateless apps",
    "ST": "State",
    "MS": "Market Spread",
    "EO": "Exactly-once under faults",
    "DL": "Delivery",
    "BP": "Back-pressure",
    "LT": "Latency",
    "HO": "Host",
}
LEVELS: Final = ("must", "should")
TIERS: Final = (0, 1, 2, 3, 5)
#: Takes the machine for itself: played where it is asked for, or in profile full.
LATENCY_TIER: Final = 5

_ID = re.compile(r"[A-Z]{2}(-[A-Z0-9]+)+")
_CLAUSE = re.compile(r"[a-z]+(-[a-z0-9]+)+")


class RegistryError(TickproofError):
    """A registry file breaks its own rules; the text names file, entry and key."""


@dataclass(frozen=True)
class Needs:
    """The claims that select a requirement; an empty tuple asks for nothing.

    ``survives``: the engine must claim all of them. Every other field: one of
    the values must be offered or claimed (``app``, ``emit``, ``inputs``: the
    engine offers it; ``state``, ``delivery``: the claim is one of them;
    ``latency``: "claimed", a service level at all).
    """

    app: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    delivery: tuple[str, ...] = ()
    survives: tuple[str, ...] = ()
    emit: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    latency: tuple[str, ...] = ()


#: The values that each claim may have in ``needs``.
CLAIM_VALUES: Final = {
    "app": ("passthrough", "double", "count", "market-spread"),
    "state": ("none", "at-most-once", "at-least-once", "exactly-once"),
    "delivery": ("at-least-once", "exactly-once"),
    "survives": ("worker", "coordinator", "engine", "connection"),
    "emit": ("every", "some", "rejects", "verdicts"),
    "inputs": ("merged", "two"),
    "latency": ("claimed",),
}


@dataclass(frozen=True)
class Requirement:
    """One promise. ``clauses`` are ids of docs/protocol.md that it checks."""

    id: str
    title: str
    promise: str
    level: str
    tier: int
    clauses: tuple[str, ...]
    needs: Needs = Needs()

    @property
    def family(self) -> str:
        """Return the family: the part of the id before the first hyphen."""
        return self.id.partition("-")[0]


def load(folder: Path = HERE) -> dict[str, Requirement]:
    """Return every requirement by id, by family and then in file order.

    Raises RegistryError that names file, entry and key of the first mistake.
    """
    found: dict[str, Requirement] = {}
    for family in FAMILIES:
        path = folder / f"{family}.toml"
        for requirement in _read(path, family):
            if requirement.id in found:
                raise RegistryError(f"{path.name}: {requirement.id}: this id is used twice")
            found[requirement.id] = requirement
    return found


def chosen(
    known: Mapping[str, Requirement], tiers: Collection[int], only: Collection[str], profile: str
) -> dict[str, Requirement]:
    """Return the requirements of the given tiers and ids; empty: all of them.

    With neither, and profile quick, all but those of LATENCY_TIER: latency is no part of the
    quick judgement.
    """
    quick = profile == "quick" and not tiers and not only
    return {
        id_: one for id_, one in known.items()
        if (not tiers or one.tier in tiers) and (not only or id_ in only)
        and not (quick and one.tier == LATENCY_TIER)
    }  # fmt: skip


def load_unchecked(folder: Path = HERE) -> dict[str, str]:
    """Return clause id -> why no requirement checks it (clauses.toml)."""
    table = _parse(folder / "clauses.toml").get("unchecked", {})
    for clause, reason in table.items():
        if not _CLAUSE.fullmatch(clause) or not isinstance(reason, str) or not reason.strip():
            raise RegistryError(f'clauses.toml: {clause}: expected clause-id = "reason"')
    return table


def _parse(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RegistryError(f"{path.name}: cannot be read: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise RegistryError(f"{path.name}: not TOML: {error}") from error


def _read(path: Path, family: str) -> list[Requirement]:
    document = _parse(path)
    entries = document.get("requirement")
    if set(document) != {"requirement"} or not isinstance(entries, list) or not entries:
        raise RegistryError(f"{path.name}: expected [[requirement]] entries and nothing else")
    return [
        _requirement(entry, family, f"{path.name}: {entry.get('id', f'entry {number}')}")
        for number, entry in enumerate(entries, 1)
    ]


def _requirement(entry: dict[str, Any], family: str, where: str) -> Requirement:
    keys = {field.name for field in fields(Requirement)}
    _expect(not entry.keys() - keys, where, f"unknown keys {sorted(entry.keys() - keys)}")
    missing = sorted(keys - {"needs"} - entry.keys())
    _expect(not missing, where, f"missing keys {missing}")
    for key in ("id", "title", "promise"):
        value = entry[key]
        _expect(isinstance(value, str) and value.strip() != "", where, f"{key}: expected text")
    _expect(
        bool(_ID.fullmatch(entry["id"])) and entry["id"].startswith(family + "-"),
        where,
        f"id: expected {family}- and upper-case words joined by hyphens",
    )
    _expect(entry["level"] in LEVELS, where, f"level: expected one of {LEVELS}")
    tier = entry["tier"]
    _expect(type(tier) is int and tier in TIERS, where, f"tier: expected one of {TIERS}")
    clauses = _words(entry["clauses"], f"{where}: clauses")
    _expect(bool(clauses), where, "clauses: expected at least one clause id")
    for clause in clauses:
        _expect(bool(_CLAUSE.fullmatch(clause)), where, f"clauses: {clause!r} is no clause id")
    text = {key: entry[key].strip() for key in ("id", "title", "promise", "level")}
    return Requirement(**text, tier=tier, clauses=clauses, needs=_needs(entry, where))


def _needs(entry: dict[str, Any], where: str) -> Needs:
    table = entry.get("needs", {})
    _expect(isinstance(table, dict), where, "needs: expected a table")
    unknown = sorted(table.keys() - CLAIM_VALUES.keys())
    _expect(not unknown, where, f"needs: unknown keys {unknown}")
    values = {key: _words(value, f"{where}: needs.{key}") for key, value in table.items()}
    for key, words in values.items():
        for word in words:
            allowed = CLAIM_VALUES[key]
            _expect(word in allowed, where, f"needs.{key}: expected one of {allowed}, got {word!r}")
    return Needs(**values)


def _words(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise RegistryError(f"{where}: expected a list of words")
    if len(set(value)) != len(value):
        raise RegistryError(f"{where}: a word is there twice")
    return tuple(value)


def _expect(holds: bool, where: str, message: str) -> None:
    if not holds:
        raise RegistryError(f"{where}: {message}")
