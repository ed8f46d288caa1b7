"""The record of a session, written as it goes: any end of the session leaves reports to be made.

It lies in the folder of the session's runs: session.json says what was asked for, and each line of
outcomes.jsonl holds what one test decided.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tickproof.conformance.engines.network import FEWEST
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.faults import regressions
from tickproof.conformance.history import plain_files
from tickproof.conformance.report import whole_file
from tickproof.conformance.report.document import Engine, engine_facts
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.schedules import REQUIREMENT
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome

FILE_NAME: Final = "session.json"
OUTCOMES: Final = "outcomes.jsonl"
_LIMIT: Final = 64 << 20
_TEXT: Final = 500
_ROW: Final = TypeAdapter(list[Outcome])


class SessionRecord(BaseModel):
    """The request of a session, as it is recorded.

    expected: requirement and scenario of each test. not_asked: see `json_report.Report`. cut: what
    ended it early, in words, and the exit status; None as long as nothing has.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    format: Literal[1] = 1
    engine: Engine
    request: Request
    expected: list[tuple[str, str]]
    not_asked: list[str]
    started: datetime
    cut: tuple[str, int] | None = None

    @classmethod
    def of(
        cls, spec: EngineSpec, request: Request, expected: Iterable[tuple[str, str]] = ()
    ) -> Self:
        """Return the record of a session that begins now."""
        return cls(
            engine=engine_facts(
                spec.name, spec.version, spec.language, spec.path, request.engine, _over(spec)
            ),
            request=request,
            expected=sorted(expected),
            not_asked=_not_asked(spec, request),
            started=datetime.now(UTC),
        )

    def write(self, session: Path) -> None:
        """Write it into the folder of a session; raises OSError."""
        whole_file.write(session / FILE_NAME, self.model_dump_json(indent=1) + "\n")

    @property
    def selected(self) -> dict[str, registry.Requirement]:
        """The requirements that were asked for."""
        return self.request.selected


def read(session: Path) -> SessionRecord:
    """Read the record in the folder of a session; raises HistoryError with what is wrong."""
    try:
        text = plain_files.read_bytes(session, FILE_NAME, _LIMIT)
        return SessionRecord.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    except OSError as error:
        why = str(error.strerror)
    raise HistoryError(f"{session / FILE_NAME}: expected a session: {shown(why, _TEXT)}")


def note(session: Path, outcomes: Iterable[Outcome]) -> None:
    """Add what one test decided: its outcome, then what blocks it. Costs no verdict if it fails."""
    rows = [one.to_json() | {"run": _relative(one.run, session)} for one in outcomes]
    # One write in append mode: lines of several processes do not mix. The line break before it
    # keeps it apart from a line that a full disk cut.
    line = f"\n{json.dumps(rows)}\n".encode()
    with contextlib.suppress(OSError), (session / OUTCOMES).open("ab", buffering=0) as file:
        file.write(line)


def _relative(run: str, session: Path) -> str:
    path = Path(run)
    return str(path.relative_to(session)) if run and path.is_relative_to(session) else run


def noted(session: Path) -> list[list[Outcome]]:
    """Return what the tests decided so far, each with what blocks it; torn lines are left out."""
    try:
        content = plain_files.read_bytes(session, OUTCOMES, _LIMIT)
    except OSError:
        return []
    found = []
    for line in filter(None, content.split(b"\n")):
        with contextlib.suppress(ValidationError):
            rows = _ROW.validate_json(line)
            found.append([replace(one, run=_within(session, one.run)) for one in rows])
    return [outcomes for outcomes in found if outcomes]


def _within(session: Path, run: str) -> str:
    """Return the path of a run of a session; "" for one that lies elsewhere."""
    path = PurePosixPath(run)
    return str(session / path) if run and not path.is_absolute() and ".." not in path.parts else ""


def _over(spec: EngineSpec) -> str:
    if spec.kafka is None:
        return ""
    from tickproof.conformance.kafka import software  # most engines need none of it

    return str(software.installed() or "")


def _not_asked(spec: EngineSpec, request: Request) -> list[str]:
    """Return what the engine would be asked as well if it ran on several hosts.

    Requirements by their ids, regressions by the names of their files.
    """
    if not spec.placement or request.hosts:
        return []
    known = registry.load()
    asked = (known, request.tiers, request.only, request.profile)
    more = [id_ for id_ in registry.chosen(*asked, True) if id_ not in registry.chosen(*asked)]
    if REQUIREMENT in registry.chosen(*asked) and not request.schedules:
        with_hosts, without = (regressions.beside(spec.path, hosts) for hosts in (FEWEST, 0))
        more += [path.name for path in with_hosts if path not in without]
    return more
