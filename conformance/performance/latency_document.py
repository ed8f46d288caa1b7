"""A session as one JSON object, latency.json, from which it is shown and decided again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import InvalidFile, TickproofError
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.history.json_lines import loads
from tickproof.conformance.hosts.cores import Cores
from tickproof.conformance.hosts.model import HostError, Reading, Status
from tickproof.conformance.latency.figures import RunFigures, as_json
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.performance.decision import Decision
from tickproof.conformance.report import machine

FORMAT: Final = 1
FILE_NAME: Final = "latency.json"
SEARCH_FILE: Final = "search.json"


class SessionError(TickproofError):
    """A folder that holds no session; the text names the file and what was expected."""


def facts(
    engine: dict[str, str],
    profile: Profile,
    seed: int,
    cores: Cores,
    problems: Sequence[Reading],
    attested: dict[str, Any],
    reproduce: str,
) -> dict[str, Any]:
    """Return what is known of a session before its first run, as JSON values."""
    return {
        "format": FORMAT,
        "machine": machine.facts(),
        "engine": engine,
        "profile": profile.to_json(),
        "seed": seed,
        "cores": asdict(cores),
        "host": {
            "level": profile.host.level,
            "problems": [asdict(one) for one in problems],
            "attested": attested,
        },
        "reproduce": reproduce,
    }


def document(
    known: dict[str, Any],
    runs: Sequence[RunFigures],
    floor: dict[str, float] | None,
    decision: Decision,
) -> dict[str, Any]:
    """Return the whole session; see docs/latency.md for each key.

    floor: percentiles in microseconds where no run was played, else None.
    """
    return known | {
        "runs": [run.to_json() for run in runs],
        "floor": as_json(floor),
        "decision": decision.to_json(),
    }


def refused(folder: Path) -> list[str]:
    """Return what could not be set in any run of a session, in words."""
    found: set[str] = set()
    for path in folder.glob("*/run.json"):
        found |= set(
            json.loads(path.read_text(encoding="utf-8")).get("cores", {}).get("refused", ())
        )
    return sorted(found)


def write(folder: Path, name: str, data: dict[str, Any]) -> None:
    """Write a document into a session's folder; raises OSError."""
    write_json(folder / name, data)


def read(folder: Path) -> dict[str, Any]:
    """Return the document of a session; raises SessionError."""
    path = folder / FILE_NAME
    try:
        data = loads(path.read_bytes())
    except FileNotFoundError:
        raise SessionError(f"{path}: not found; expected the folder of a session") from None
    except (OSError, ValueError) as error:
        raise SessionError(f"{path}: expected JSON: {error}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise SessionError(f"{path}: format: expected {FORMAT}")
    kinds = {
        "profile": dict,
        "engine": dict,
        "seed": int,
        "cores": dict,
        "host": dict,
        "runs": list,
        "reproduce": str,
    }
    for key, kind in kinds.items():
        if not isinstance(data.get(key), kind):
            raise SessionError(f"{path}: {key}: expected {kind.__name__}")
    return data


def profile_of(data: dict[str, Any], path: Path) -> Profile:
    """Return the profile of a document; raises SessionError."""
    try:
        return Profile.from_json(data["profile"])
    except InvalidFile as error:
        raise SessionError(f"{path}: profile: {error}") from error


def problems_of(data: dict[str, Any], path: Path) -> list[Reading]:
    """Return the problems of the host of a document; raises SessionError."""
    try:
        rows = data["host"]["problems"]
        return [Reading(**row | {"status": Status(row["status"])}) for row in rows]
    except (KeyError, TypeError, ValueError, HostError) as error:
        raise SessionError(f"{path}: host: expected problems: {error!r}") from error


def runs_of(data: dict[str, Any], path: Path) -> list[RunFigures]:
    """Return the figures of the runs of a document; raises SessionError."""
    try:
        return [RunFigures.from_json(row) for row in data["runs"]]
    except (TypeError, ValueError, AttributeError) as error:
        raise SessionError(f"{path}: runs: {error}") from error
