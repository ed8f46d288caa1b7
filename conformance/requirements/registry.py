"""Load and validate the requirement registry, one TOML file a family.

Ids are stable words that are never reused. The registry says what a requirement
promises and which claims select it; the suites say how it is decided.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import AfterValidator, ConfigDict, Field

from tickproof.conformance import strict_toml
from tickproof.conformance.errors import InvalidFile, RequestError
from tickproof.conformance.scenario import Death, JudgedApp
from tickproof.conformance.strict_toml import Table, matching, wrong
from tickproof.conformance.text import shown

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
    "KA": "Kafka",
    "EL": "Growing and shrinking",
    "NE": "Network",
    "LT": "Latency",
    "HO": "Host",
}
Level = Literal["must", "should"]
TIERS: Final = (0, 1, 2, 3, 4, 5)
#: Takes the machine for itself: played where it is asked for, or in profile full.
LATENCY_TIER: Final = 5


def _once(words: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(words)) < len(words):
        raise wrong("each word once", list(words))
    return words


def _known_tier(tier: int) -> int:
    if tier not in TIERS:
        raise wrong(f"one of {', '.join(map(str, TIERS))}", tier)
    return tier


_Word = TypeVar("_Word", bound=str)
_Words = Annotated[tuple[_Word, ...], Field(strict=False), AfterValidator(_once)]
_Text = Annotated[str, Field(min_length=1)]
_Clause = Annotated[str, matching(r"[a-z]+(-[a-z0-9]+)+", "the id of a clause")]


class Needs(Table):
    """The claims that select a requirement; an empty tuple asks for nothing.

    ``survives``: the engine must claim all of them. Every other field: one of
    the values must be offered or claimed (``app``, ``emit``, ``inputs``: the
    engine offers it; ``state``, ``delivery``, ``rescale``: the claim is one of them;
    ``latency``: "claimed", a service level at all; ``transport``: what the engine speaks).
    ``hosts``: it is about engines that run on several hosts, and played with --hosts only.
    """

    app: _Words[JudgedApp] = ()
    state: _Words[Literal["none", "at-most-once", "at-least-once", "exactly-once"]] = ()
    delivery: _Words[Literal["at-least-once", "exactly-once"]] = ()
    rescale: _Words[Literal["restart", "live"]] = ()
    survives: _Words[Death] = ()
    emit: _Words[Literal["every", "some", "rejects", "verdicts"]] = ()
    inputs: _Words[Literal["merged", "two"]] = ()
    latency: _Words[Literal["claimed"]] = ()
    transport: _Words[Literal["log", "kafka"]] = ()
    hosts: bool = False

    def applies_over(self, transport: str) -> bool:
        """Tell whether a requirement says anything of an engine that speaks ``transport``."""
        return not self.transport or transport in self.transport


class Requirement(Table):
    """One promise. ``clauses`` are ids of docs/protocol.md that it checks."""

    model_config = ConfigDict(str_strip_whitespace=True)

    id: Annotated[str, matching(r"[A-Z]{2}(-[A-Z0-9]+)+", "upper-case words joined by hyphens")]
    title: _Text
    promise: _Text
    level: Level
    tier: Annotated[int, AfterValidator(_known_tier)]
    clauses: Annotated[_Words[_Clause], Field(min_length=1)]
    needs: Needs = Needs()

    @property
    def family(self) -> str:
        """Return the family: the part of the id before the first hyphen."""
        return self.id.partition("-")[0]


class _Family(Table):
    requirement: Annotated[list[Requirement], Field(min_length=1)]


class _Unchecked(Table):
    unchecked: dict[_Clause, _Text] = Field(default_factory=dict)


class _ExactlyOnce(Table):
    requirements: Annotated[_Words[str], Field(min_length=1)]


def load(folder: Path = HERE) -> dict[str, Requirement]:
    """Return every requirement by id, by family and then in file order.

    The kit's own files are read once. Raises InvalidFile with every mistake of the first file
    that has one.
    """
    return dict(_own()) if folder == HERE else _read(folder)


@cache
def _own() -> dict[str, Requirement]:
    return _read(HERE)


def _read(folder: Path) -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    for family in FAMILIES:
        path, errors = folder / f"{family}.toml", []
        for one in strict_toml.load(path, _Family).requirement:
            where = f"[[requirement]] {one.id}: id"
            if one.family != family:
                errors.append(f"{where}: expected {family}- and upper-case words")
            if one.id in found:
                errors.append(f"{where}: expected each id once; this one is used twice")
            found[one.id] = one
        if errors:
            raise InvalidFile(path, errors)
    return found


def require_known(id_: str, wrong: str) -> None:
    """Raise RequestError for an id that does not exist; ``wrong`` says so."""
    if id_ not in _own():
        near = difflib.get_close_matches(id_, _own(), n=3, cutoff=0.4)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise RequestError(f"{shown(wrong, 160)}{hint}")


def chosen(
    known: Mapping[str, Requirement],
    tiers: Collection[int],
    only: Collection[str],
    profile: str,
    hosts: bool = False,
) -> dict[str, Requirement]:
    """Return the requirements of the given tiers and ids; empty: all of them.

    With neither, and profile quick, all but those of LATENCY_TIER: latency is no part of the
    quick judgement. ``hosts``: those that need several hosts, too.
    """
    quick = profile == "quick" and not tiers and not only
    return {
        id_: one
        for id_, one in known.items()
        if (not tiers or one.tier in tiers)
        and (not only or id_ in only)
        and not (quick and one.tier == LATENCY_TIER)
        and (hosts or not one.needs.hosts)
    }


def load_unchecked(folder: Path = HERE) -> dict[str, str]:
    """Return clause id -> why no requirement checks it (clauses.toml)."""
    return strict_toml.load(folder / "clauses.toml", _Unchecked).unchecked


def load_exactly_once(folder: Path = HERE) -> tuple[str, ...]:
    """Return the ids that every engine which claims exactly-once over "engine" has to face.

    They are judged on whatever app it offers (exactly-once.toml).
    """
    known = load(folder)
    path = folder / "exactly-once.toml"
    found = strict_toml.load(path, _ExactlyOnce).requirements
    if strange := [id_ for id_ in found if id_ not in known]:
        raise InvalidFile(path, [f"requirements: {id_}: no such requirement" for id_ in strange])
    return found
