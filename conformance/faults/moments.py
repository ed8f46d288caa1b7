"""The moments at which faults come: what sets them off, and their words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from inotify_simple import flags

from tickproof.conformance.fault_steps import FaultStep
from tickproof.conformance.fault_steps import Moment as Name

_FETCHED: Final = frozenset(("fetched",))


@dataclass(frozen=True)
class Moment:
    """One moment.

    heard: what a connection comes to that may set it off; empty where the run does. words: how a
    sentence says it; "{part}" is the part of the input. placed: a part of the input says when; the
    others follow from the fault before, or the end. anew: it needs a new fetch when the step is
    due. of_output: output is sent; none comes from an engine that emits only at END until then.
    loses: the frame of the moment, and what follows it on its connection, is never taken.
    idle: an engine may hold nothing. writes: an engine that is right has a cut to make. of_file:
    which events of a file of the state are waited for, as inotify has them; 0: none.
    """

    name: Name
    words: str | Callable[[FaultStep], str]
    heard: frozenset[str] = frozenset()
    placed: bool = True
    anew: bool = False
    of_output: bool = False
    loses: bool = False
    idle: bool = False
    writes: bool = True
    of_file: int = 0

    def when(self, step: FaultStep) -> str:
        """Return when a step comes, as a sentence says it."""
        words = self.words if isinstance(self.words, str) else self.words(step)
        return words.format(part=f"{step.fraction:.0%} of the input", idle_s=step.idle_s)


def _after_cuts(step: FaultStep) -> str:
    return (
        f"after cut {step.cuts} of this life" if step.cuts else "before the first cut of this life"
    )


def _of_file(name: Name, words: str, events: int) -> Moment:
    """Return the moment after an event of a file of the state, once records were fetched."""
    return Moment(name, words, _FETCHED, of_file=events)


FETCHED: Final = Moment("fetched", "when {part} was fetched", _FETCHED, anew=True)
LOSING: Final = Moment(
    "losing",
    "before a COMMIT or APPEND was taken, which is lost, from {part} on",
    frozenset(("append-received", "commit-received")),
    of_output=True,
    loses=True,
)
JOINING: Final = Moment(
    "joining",
    "before the offsets of a transaction were taken, which are lost, from {part} on",
    frozenset(("group-received", "join-received")),
    of_output=True,
    loses=True,
)
JOINED: Final = Moment(
    "joined",
    "after the offsets of a transaction were taken and before its end, from {part} on",
    frozenset(("joined",)),
    of_output=True,
)
STAGED: Final = Moment(
    "staged",
    "after a STAGE or APPEND was taken and before its reply, from {part} on",
    frozenset(("staged", "appended")),
    of_output=True,
)
ACCEPTED: Final = Moment(
    "accepted",
    "after output was acknowledged, from {part} on",
    frozenset(("stage-acked", "append-acked")),
    of_output=True,
)
COMMITTING: Final = Moment(
    "committing",
    "after a COMMIT or APPEND was taken and before its reply, from {part} on",
    frozenset(("committed", "appended")),
    of_output=True,
)
RECOVERY: Final = Moment(
    "recovery", "at the first fetch after the fault before", _FETCHED, placed=False, idle=True
)
CHECKPOINTING: Final = Moment("checkpointing", "between a request for a checkpoint and its answer")
CHECKPOINT: Final = Moment("checkpoint", "after a checkpoint was answered", idle=True)
DRAINED: Final = Moment(
    "drained", "after drain was answered", placed=False, idle=True, writes=False
)
CUTS: Final = Moment("cuts", _after_cuts, _FETCHED, anew=True)
CUTTING: Final = _of_file(
    "cutting",
    "while a cut is written, from {part} on",
    flags.CREATE | flags.MODIFY | flags.MOVED_TO,
)
CREATED: Final = _of_file(
    "created", "after a file of the state was created, from {part} on", flags.CREATE
)
WRITTEN: Final = _of_file(
    "written", "after a write to a file of the state, from {part} on", flags.MODIFY
)
RENAMED: Final = _of_file(
    "renamed", "after a file of the state was renamed, from {part} on", flags.MOVED_TO
)
DELETED: Final = _of_file(
    "deleted", "after a file of the state was deleted, from {part} on", flags.DELETE
)
IDLE: Final = Moment(
    "idle", "after {idle_s:g} s without input, when {part} was answered", idle=True, writes=False
)
DRAINING: Final = Moment(
    "draining", "between drain and its answer, from {part} on", _FETCHED, anew=True
)
SCALING: Final = Moment(
    "scaling", "between a request to scale and its answer", placed=False, idle=True
)

_ALL: Final = (
    FETCHED, LOSING, JOINING, JOINED, STAGED, ACCEPTED, COMMITTING, RECOVERY, CHECKPOINTING,
    CHECKPOINT, DRAINED, CUTS, CUTTING, CREATED, WRITTEN, RENAMED, DELETED, IDLE, DRAINING,
    SCALING,
)  # fmt: skip
_BY_NAME: Final = {moment.name: moment for moment in _ALL}


def moment_of(step: FaultStep) -> Moment:
    """Return the moment of a step."""
    return _BY_NAME[step.at]
