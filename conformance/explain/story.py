"""The story of one outcome: what ran, what was done to it, what went wrong and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tickproof.conformance.explain import conduct, fault_sentences, losses, repeats, values
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.explain.moments import Moment
from tickproof.conformance.explain.passage import Part
from tickproof.conformance.history.folder import History
from tickproof.conformance.suites.evidence import CHANGED, TWICE, VALUES
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome, Verdict

#: Outcomes that have a story.
TOLD: Final = (Verdict.FAIL, Verdict.KNOWN_GAP, Verdict.UNKNOWN)
#: The longest sentence that is kept.
_LONGEST: Final = 700
#: Sentences of a brief story.
_BRIEF: Final = 5


@dataclass(frozen=True)
class Story:
    """Sentences in the order in which they are read; all of them are safe to print.

    brief: the few that say most. wrong: the moment at which the engine can be seen to be
    wrong, for the picture.
    """

    requirement: str
    verdict: Verdict
    lines: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    wrong: Moment | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict."""
        return {
            "requirement": self.requirement,
            "verdict": self.verdict.value,
            "lines": list(self.lines),
            "brief": list(self.brief),
            "wrong_ns": self.wrong.t_ns if self.wrong else None,
        }


def story(history: History, outcome: Outcome) -> Story:
    """Tell why a requirement failed, or why nobody can say; other outcomes have no lines.

    Every sentence is computed from the history. May make the input again in its folder.
    """
    if outcome.verdict not in TOLD:
        return Story(outcome.requirement, outcome.verdict)
    facts = Facts.of(history)
    if outcome.verdict is Verdict.UNKNOWN:
        lines = [_missing(facts, outcome)]
        return Story(outcome.requirement, outcome.verdict, _safe(lines), _safe(lines))
    part = _part(facts, outcome)
    said = part.said or (f"Expected was {outcome.expected}; what came is {outcome.actual}.",)
    end = conduct.status(facts)
    near = facts.before(part.mark_ns) if part.mark_ns is not None else None
    struck = (
        [fault_sentences.met(facts, near), fault_sentences.followed(facts, near)] if near else []
    )
    return Story(
        outcome.requirement,
        outcome.verdict,
        _safe([facts.title, *fault_sentences.faults(facts), *said, *part.point, *end]),
        _safe([*struck, *said[:1], *part.point, *end][:_BRIEF]),
        Moment(part.mark_ns, "X", part.mark, 0) if part.mark_ns is not None else None,
    )


def _part(facts: Facts, outcome: Outcome) -> Part:
    """Choose who tells what went wrong, by the code of the failure."""
    if outcome.reason in ("lost", "must-reject"):
        return losses.tell(facts, outcome)
    if outcome.reason in (*TWICE, *CHANGED):
        return repeats.tell(facts, outcome)
    if outcome.reason in (*VALUES, "step-back", "skipped-order", "gap"):
        return values.tell(facts, outcome)
    return conduct.tell(facts, outcome)


def _missing(facts: Facts, outcome: Outcome) -> str:
    """Say in one sentence which evidence is missing, and what there was in its place."""
    faults = " ".join(fault_sentences.struck(facts, after) for after in facts.after[:1])
    seen = faults or "No fault was carried out."
    return (
        f"Nothing was seen to be wrong, but to pass needs {outcome.expected}; there was: "
        f"{outcome.actual}. {seen}"
    )


def _safe(lines: list[str]) -> tuple[str, ...]:
    """Cut and escape every line: parts of it may be the engine's own words."""
    return tuple(shown(line, _LONGEST) for line in lines if line)
