"""report.json: the one record of a session that all other reports are drawn from.

`Report` is the format, `report.schema.json` beside this file its published JSON
Schema. ``python -m tickproof.conformance.report.json_report`` writes the schema anew.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from pydantic import Field, JsonValue, model_validator

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history import seal
from tickproof.conformance.report import judged
from tickproof.conformance.report.document import (
    FORMAT,
    Document,
    Engine,
    Model,
    bounded,
    this_host,
    this_kit,
)
from tickproof.conformance.verdicts import (
    EXIT_KIT_ERROR,
    JUDGED,
    Conclusion,
    Outcome,
    Reason,
    Verdict,
    conclusion,
    worst,
)

if TYPE_CHECKING:
    from tickproof.conformance.suites.requirement import Requirement

FILE_NAME: Final = "report.json"
#: What engines of a session were kept from.
Isolated = Literal["sandbox", "user", "none"]
SCHEMA_PATH: Final = Path(__file__).with_name("report.schema.json")

#: Most entries of one list or table inside evidence.
ITEM_LIMIT: Final = 5000


class Selection(Model):
    """What was asked for; an empty list means everything."""

    tiers: list[int]
    only: list[str]
    require: list[str] = Field(default=[], description="ids that have to be judged")
    secret: str = Field(default="", description="what generated input depends on beside the seed")


class Story(Model):
    """How a failure came about, in text lines; all empty where there is nothing to tell."""

    headline: list[str] = Field(default=[], description="what went wrong, in one sentence")
    why: list[str] = Field(default=[], description="what explains it, where the run shows that")
    lines: list[str] = Field(default=[], description="one sentence each, in order")
    brief: list[str] = Field(default=[], description="the few of them that say most")
    picture: list[str] = Field(default=[], description="the run as lanes over time")


class Result(Model):
    """One requirement and how it came out."""

    id: str
    title: str
    promise: str = Field(description="what the requirement promises, and likely causes of a fail")
    level: str
    tier: int = Field(ge=0)
    verdict: Verdict
    scenario: str
    reason: str
    stimulus: str
    expected: str
    actual: str
    evidence: dict[str, JsonValue]
    run: str = Field(description="run folder, relative to the folder of this report; may be empty")
    root: str = Field(default="", description="SHA-256 of the digests of all files of the run")
    reproduce: str
    seconds: float = Field(ge=0)
    story: Story = Story()
    blocked_by: list[str] = Field(
        default=[], description="requirements whose failure left nothing to judge here"
    )

    @property
    def headline(self) -> str:
        """What went wrong, in a sentence."""
        return " ".join(self.story.headline) or f"{self.reason}: {self.actual}."


class NotJudged(Model):
    """Requirements that were not judged for one and the same reason."""

    verdict: Verdict
    why: str
    ids: list[str]


class FaultSpace(Model):
    """What a session played of the fault space; values are written "dimension=value"."""

    pairs: int = Field(ge=0, description="pairs of values that the engine's claims leave")
    covered: int = Field(ge=0, description="those of them that the points hold")
    triples: int = Field(ge=0, description="triples of values that the points hold")
    of_triples: int = Field(ge=0, description="at most so many there are")
    points: list[dict[str, str]] = Field(description="dimension to value, of each point played")
    missing: list[list[str]] = Field(description="the pairs that no point holds")


class Interrupted(Model):
    """What ended a session before everything was judged."""

    by: str = Field(description="in words: interrupted with Ctrl-C, ended by SIGTERM, ...")
    exit_status: int = Field(ge=1, description="of the command")
    judged: int = Field(ge=0, description="requirements that came out before")
    of: int = Field(ge=0, description="requirements that were asked for")

    def __str__(self) -> str:
        return f"{self.by} after {self.judged} of {self.of} requirements"


class Report(Document):
    """One engine, one session. The verdict and the exit status follow from the results."""

    FILE_NAME = FILE_NAME

    kind: Literal["session"] = "session"
    engine: Engine
    profile: str
    seed: int
    isolation: Isolated = "none"
    hosts: int = Field(default=0, ge=0, description="it ran on so many, 0: on this machine alone")
    selection: Selection
    started: datetime
    ended: datetime
    verdict: Verdict
    exit_status: int
    counts: dict[Verdict, int]
    not_judged: list[NotJudged] = Field(default=[], description="what was asked for and not judged")
    not_asked: list[str] = Field(
        default=[], description="what this engine could be asked on hosts: ids, and regressions"
    )
    requirements: list[Result]
    root: str = Field(default="", description="SHA-256 of the roots of all runs, with their names")
    fault_space: FaultSpace | None = None
    session: str = Field(default="", description="folder of its runs, in runs/; may be empty")
    interrupted: Interrupted | None = Field(
        default=None, description="it ended early: what was not judged is unknown, INTERRUPTED"
    )

    @property
    def missing(self) -> list[str]:
        """The ids that had to be judged and were not."""
        return _missing(self.selection.require, self.requirements)

    @property
    def required_gaps(self) -> list[str]:
        """The ids that had to be judged and are known gaps, which excuses nothing."""
        return _required_gaps(self.selection.require, self.requirements)

    @property
    def conclusion(self) -> Conclusion:
        """The exit status, and the word for the whole that agrees with it."""
        return _conclusion(self.selection.require, self.requirements, self.interrupted)

    @model_validator(mode="after")
    def _follows_from_results(self) -> Self:
        verdicts = [r.verdict for r in self.requirements]
        twice = [id_ for id_, n in Counter(r.id for r in self.requirements).items() if n > 1]
        if twice:
            raise ValueError(f"requirements: more than one result for {', '.join(twice)}")
        whole = _whole(verdicts, self.interrupted)
        if self.verdict is not whole:
            raise ValueError(f"verdict: expected {whole}, got {self.verdict}")
        expected = self.conclusion.status
        if self.exit_status != expected:
            raise ValueError(f"exit_status: expected {expected}, got {self.exit_status}")
        if self.counts != Counter(verdicts):
            raise ValueError("counts: not the counts of the requirements listed")
        return self


def build(
    *,
    engine: Engine,
    outcomes: Iterable[Outcome],
    selected: Mapping[str, Requirement],
    folder: Path,
    profile: str,
    seed: int,
    selection: Selection,
    started: datetime,
    ended: datetime,
    isolation: Isolated = "none",
    hosts: int = 0,
    not_asked: Iterable[str] = (),
    fault_space: FaultSpace | None = None,
) -> Report:
    """Return the report of a session: exactly one result for each selected requirement.

    A selected requirement without an outcome, one with several, and an outcome that
    nobody selected are kit-errors: a hole in the judgement must never look green.
    """
    by_id: dict[str, list[Outcome]] = {id_: [] for id_ in selected}
    for outcome in outcomes:
        by_id.setdefault(outcome.requirement, []).append(outcome)
    results = [
        result(_only_one(id_, found, id_ in selected), selected.get(id_), folder)
        for id_, found in by_id.items()
    ]
    results.sort(key=lambda r: r.tier)
    verdicts = [r.verdict for r in results]
    return Report(
        format=FORMAT,
        kit=this_kit(),
        engine=engine,
        host=this_host(),
        profile=profile,
        seed=seed,
        isolation=isolation,
        hosts=hosts,
        selection=selection,
        started=started,
        ended=ended,
        verdict=worst(verdicts),
        exit_status=_conclusion(selection.require, results).status,
        counts=dict(Counter(verdicts)),
        not_judged=[
            NotJudged(verdict=verdict, why=bounded(why), ids=ids)
            for verdict, why, ids in judged.groups(results)
        ],
        not_asked=list(not_asked),
        requirements=results,
        root=_root_of_all(results),
        fault_space=fault_space,
    )


def of_session(report: Report, session: str, interrupted: Interrupted | None) -> Report:
    """Return a report with the folder of its runs, and with what ended the session early."""
    if interrupted is not None:
        interrupted = interrupted.model_copy(update={"by": bounded(interrupted.by)})
    verdicts = [one.verdict for one in report.requirements]
    whole = _conclusion(report.selection.require, report.requirements, interrupted)
    return report.model_copy(
        update={
            "session": session,
            "interrupted": interrupted,
            "verdict": _whole(verdicts, interrupted),
            "exit_status": whole.status,
        }
    )


def _whole(verdicts: Sequence[Verdict], interrupted: Interrupted | None) -> Verdict:
    """Return the verdict of a session."""
    broke = interrupted is not None and interrupted.exit_status == EXIT_KIT_ERROR
    return Verdict.KIT_ERROR if broke else worst(verdicts)


def _conclusion(
    required: Sequence[str], results: Sequence[Result], interrupted: Interrupted | None = None
) -> Conclusion:
    verdicts = [one.verdict for one in results]
    if interrupted is not None:
        look = _whole(verdicts, interrupted)
        return Conclusion(look.value, look, interrupted.exit_status)
    return conclusion(
        verdicts,
        missing=bool(_missing(required, results)),
        gap_required=bool(_required_gaps(required, results)),
    )


def _required_gaps(required: Sequence[str], results: Sequence[Result]) -> list[str]:
    gaps = {one.id for one in results if one.verdict is Verdict.KNOWN_GAP}
    return [id_ for id_ in required if id_ in gaps]


class _Decided(Protocol):
    """What tells an outcome, or a result, that an early end left open."""

    @property
    def verdict(self) -> Verdict: ...
    @property
    def reason(self) -> str: ...


def left(one: _Decided) -> bool:
    """Tell whether something was not judged because the session ended early."""
    return one.verdict is Verdict.UNKNOWN and one.reason == Reason.INTERRUPTED


def _missing(required: Sequence[str], results: Sequence[Result]) -> list[str]:
    found = {result.id for result in results if result.verdict in JUDGED}
    found |= {result.id for result in results if not judged.applies(result)}
    return [id_ for id_ in required if id_ not in found]


def _only_one(id_: str, found: list[Outcome], selected: bool) -> Outcome:
    if not selected:
        return _kit_error(id_, "NOT_SELECTED", "no outcome", f"{len(found)} outcomes")
    if not found:
        return _kit_error(id_, "NO_OUTCOME", "one outcome", "none: no test decided it")
    if len(found) > 1:
        verdicts = ", ".join(outcome.verdict.value for outcome in found)
        return _kit_error(id_, "SEVERAL_OUTCOMES", "one outcome", f"{len(found)}: {verdicts}")
    return found[0]


def _kit_error(id_: str, reason: str, expected: str, actual: str) -> Outcome:
    return Outcome(id_, Verdict.KIT_ERROR, reason=reason, expected=expected, actual=actual)


def result(outcome: Outcome, requirement: Requirement | None, folder: Path | None = None) -> Result:
    """Return an outcome as a report shows it: safe text, run folder relative to ``folder``."""
    run = Path(outcome.run)
    for base in () if folder is None else (folder, folder.resolve()):
        if run.is_relative_to(base):
            run = run.relative_to(base)
    return Result(
        id=outcome.requirement,
        title=requirement.title if requirement else "",
        promise=" ".join(requirement.promise.split()) if requirement else "",
        level=requirement.level if requirement else "",
        tier=requirement.tier if requirement else 0,
        verdict=outcome.verdict,
        scenario=bounded(outcome.scenario),
        reason=bounded(outcome.reason),
        stimulus=bounded(outcome.stimulus),
        expected=bounded(outcome.expected),
        actual=bounded(outcome.actual),
        evidence={bounded(k): _plain(v) for k, v in outcome.evidence.items()},
        run=bounded(run.as_posix()) if outcome.run else "",
        root=_root(outcome.run),
        reproduce=bounded(outcome.reproduce),
        seconds=round(max(float(outcome.seconds), 0.0), 3),
        story=Story(
            **{
                name: [bounded(line) for line in lines[:ITEM_LIMIT]]
                for name, lines in outcome.story.items()
            }
        ),
        blocked_by=list(outcome.blocked_by),
    )


def _root(run: str) -> str:
    """Return the root of a run folder; "" if it is gone, a pack, or no path at all."""
    try:
        return seal.root(Path(run)) if run else ""
    except (OSError, ValueError, HistoryError):
        return ""


def _root_of_all(results: Iterable[Result]) -> str:
    """Return one digest for all runs; "" without a run."""
    lines = sorted({f"{one.root}  {one.run}\n" for one in results if one.root})
    return hashlib.sha256("".join(lines).encode()).hexdigest() if lines else ""


def _plain(value: Any) -> JsonValue:
    """Return evidence as JSON values: numpy scalars and arrays too, anything else as text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace").rstrip()
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {bounded(k): _plain(v) for k, v in list(value.items())[:ITEM_LIMIT]}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v) for v in list(value)[:ITEM_LIMIT]]
    return bounded(value)


def schema_text() -> str:
    """Return the JSON Schema of report.json as text, the content of SCHEMA_PATH."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Tickproof report",
        **Report.model_json_schema(mode="serialization"),
    }
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    SCHEMA_PATH.write_text(schema_text(), encoding="utf-8")
