"""Stories: why one outcome came about, for the reports of a session, and for one run as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.errors import HistoryError
from tickproof.conformance.explain import deliveries, fault_sentences, protocol_breaches, values
from tickproof.conformance.explain.facts import Facts, Part
from tickproof.conformance.explain.picture import Moment, bounded, picture
from tickproof.conformance.explain.words import got
from tickproof.conformance.history.folder import History, opened
from tickproof.conformance.suites.evidence import CHANGED, TWICE, VALUES
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import Outcome, Reason, Verdict

#: Width of the pictures that are kept in reports.
WIDTH: Final = 76
#: Outcomes that have a story.
TOLD: Final = (Verdict.FAIL, Verdict.KNOWN_GAP, Verdict.UNKNOWN)
#: The longest sentence that is kept.
_LONGEST: Final = 700
#: Sentences of a brief story.
_BRIEF: Final = 5


@dataclass(frozen=True)
class Story:
    """Sentences in the order in which they are read; all of them are safe to print.

    headline: the one that a reader should see first. brief: the few others that say most.
    why: those that explain it. wrong: the moment at which the engine can be seen to be wrong,
    for the picture.
    """

    requirement: str
    verdict: Verdict
    lines: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    wrong: Moment | None = None
    headline: str = ""
    why: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict."""
        return {
            "requirement": self.requirement,
            "verdict": self.verdict.value,
            "headline": self.headline,
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
    said = part.said or (got(outcome),)
    end = protocol_breaches.status(facts)
    near = facts.before(part.mark_ns) if part.mark_ns is not None else None
    struck = (
        [fault_sentences.met(facts, near), fault_sentences.followed(facts, near)] if near else []
    )
    first = part.headline or (*part.point, *said)[0]
    first = first[0].upper() + first[1:]
    brief = [line for line in (*struck, *said[:1], *part.point, *end) if line != first]
    return Story(
        outcome.requirement,
        outcome.verdict,
        _safe([facts.title, *fault_sentences.faults(facts), *said, *part.point, *end]),
        _safe(brief[:_BRIEF]),
        Moment(part.mark_ns, "X", part.mark, 0) if part.mark_ns is not None else None,
        "".join(_safe([first])),
        _safe([*part.point]),
    )


def _part(facts: Facts, outcome: Outcome) -> Part:
    """Choose who tells what went wrong, by the code of the failure."""
    if outcome.reason in ("lost", "must-reject"):
        return deliveries.tell_losses(facts, outcome)
    if outcome.reason == Reason.AHEAD_OF_FETCH:
        return deliveries.tell_ahead(facts, outcome)
    if outcome.reason in (*TWICE, *CHANGED):
        return deliveries.tell_repeats(facts, outcome)
    if outcome.reason in (*VALUES, "step-back", "skipped-order", "gap"):
        return values.tell(facts, outcome)
    return protocol_breaches.tell(facts, outcome)


def _missing(facts: Facts, outcome: Outcome) -> str:
    """Say in one sentence which evidence is missing, and what there was in its place."""
    faults = " ".join(fault_sentences.struck(facts, after) for after in facts.aftermaths[:1])
    seen = faults or "No fault was carried out."
    return (
        f"Nothing was seen to be wrong, but a pass needs {outcome.expected}. "
        f"Seen instead: {outcome.actual}. {seen}"
    )


def _safe(lines: list[str]) -> tuple[str, ...]:
    """Cut and escape every line: parts of it may be the engine's own words."""
    return tuple(shown(line, _LONGEST) for line in lines if line)


# -- for many outcomes -----------------------------------------------------------------------


def with_stories(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return outcomes with story and picture where they failed or stayed unknown.

    Reads the run folders; an input that is made again for it is removed again.
    """
    found = list(outcomes)
    runs: dict[str, list[int]] = {}
    for number, outcome in enumerate(outcomes):
        if outcome.verdict in TOLD and outcome.run:
            runs.setdefault(outcome.run, []).append(number)
    for run, numbers in runs.items():
        try:
            with opened(Path(run)) as history:
                for number in numbers:
                    found[number] = _with_story(history, found[number])
        except (HistoryError, OSError) as error:
            why = [f"No story: {error}"]
            for number in numbers:
                found[number] = replace(found[number], story={"lines": why, "brief": why})
    return found


def _with_story(history: History, outcome: Outcome) -> Outcome:
    """Add story and picture. A story is an extra: what goes wrong in it costs no verdict."""
    try:
        made = story(history, outcome)
        drawn = picture(history, [made.wrong] if made.wrong else [], width=WIDTH)
    except Exception as error:
        why = [f"No story: the kit could not make one ({type(error).__name__}: {error})"]
        return replace(outcome, story={"lines": why, "brief": why})
    if outcome.verdict is Verdict.UNKNOWN:
        drawn = []  # one sentence says what is missing
    lines = {
        "headline": [made.headline] if made.headline else [],
        "why": list(made.why),
        "lines": list(made.lines),
        "brief": list(made.brief),
        "picture": drawn,
    }
    return replace(outcome, story=lines)


def text(history: History, outcomes: Sequence[Outcome], *, width: int = WIDTH) -> str:
    """Return the stories of one run as plain text, with one picture, for a file or a mail."""
    stories = _stories(history, outcomes)
    width = bounded(width)
    lines = picture(history, _first_wrong(stories), width=width)
    for made in stories:
        lines += ["", f"{made.requirement}: {made.verdict.value}", *wrapped(made.lines, width)]
    if not stories:
        held = ", ".join(outcome.requirement for outcome in outcomes) or "nothing"
        lines += ["", *_wrap(f"Nothing to explain; decided by this run: {held}.", width, "")]
    return "\n".join(lines) + "\n"


def as_json(history: History, outcomes: Sequence[Outcome], *, width: int = WIDTH) -> dict[str, Any]:
    """Return the stories of one run and its picture as a JSON-able dict."""
    stories = _stories(history, outcomes)
    return {
        "scenario": history.scenario,
        "seed": history.record.seed,
        "picture": picture(history, _first_wrong(stories), width=width),
        "stories": [made.to_json() for made in stories],
    }


def _stories(history: History, outcomes: Sequence[Outcome]) -> list[Story]:
    return [made for made in (story(history, outcome) for outcome in outcomes) if made.lines]


def _first_wrong(stories: Sequence[Story]) -> list[Moment]:
    """Return the earliest moment at which one of the stories sees something wrong, if any does."""
    wrong = [made.wrong for made in stories if made.wrong is not None]
    return sorted(wrong, key=lambda moment: moment.t_ns)[:1]


def wrapped(sentences: Sequence[str], width: int) -> list[str]:
    """Return sentences as lines of at most ``width`` characters, each indented."""
    return [line for sentence in sentences for line in _wrap(sentence, width, "  ")]


def _wrap(sentence: str, width: int, indent: str) -> list[str]:
    return textwrap.wrap(
        sentence, width, initial_indent=indent, subsequent_indent=2 * indent, break_on_hyphens=False
    )
