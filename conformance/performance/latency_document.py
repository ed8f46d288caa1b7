"""Documents of sessions: latency.json, which is shown and decided again, and search.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.hosts.cores import Cores
from tickproof.conformance.hosts.model import Attestation, Reading
from tickproof.conformance.latency.figures import Number, RunFigures
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.performance.decision import Decision
from tickproof.conformance.performance.document import MeasuredEngine, Measurement, Part
from tickproof.conformance.performance.rate_search import SearchResult


@dataclass(frozen=True)
class GivenCores(Cores):
    """Cores as they were divided; refused: what could not be set in a run, in words."""

    refused: tuple[str, ...] = ()


class HostFound(Part):
    """The host before the first run. problems: what is not as the profile asks by its level."""

    level: str
    problems: tuple[Reading, ...]
    attested: Attestation


def _profile(data: object) -> Profile:
    if isinstance(data, Profile):
        return data
    if not isinstance(data, Mapping):
        raise ValueError("expected an object")
    try:
        return Profile.from_json(data)
    except InvalidFile as error:
        raise ValueError("; ".join(error.errors)) from error


class Setup(Measurement):
    """What is known of a session before its first run. reproduce: the command that repeats it."""

    engine: MeasuredEngine
    profile: Annotated[Profile, BeforeValidator(_profile), PlainSerializer(Profile.to_json)]
    seed: int
    cores: GivenCores
    host: HostFound
    reproduce: str

    def played(self, folder: Path) -> dict[str, Any]:
        """Return its fields, with what was refused in the runs of a folder."""
        found: set[str] = set()
        for path in folder.glob("*/run.json"):
            run = json.loads(path.read_text(encoding="utf-8"))
            found |= set(run.get("cores", {}).get("refused", ()))
        return dict(self) | {"cores": replace(self.cores, refused=tuple(sorted(found)))}


class LatencySession(Setup):
    """A whole session; docs/latency.md has each key.

    floor: percentiles in microseconds where no run was played.
    """

    FILE_NAME = "latency.json"

    runs: tuple[RunFigures, ...]
    floor: dict[str, Number] | None
    decision: Decision


class SearchSession(Setup):
    """A search for the highest rate; answer: what was found, in words."""

    FILE_NAME = "search.json"

    answer: str
    found: SearchResult
    runs: tuple[RunFigures, ...]
