"""A run of a user's own job in words: what was done to it, what it gave, what was decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tickproof.conformance.history.job_run import JobRun
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Outcome, Verdict

#: Keys that are named of those whose output is wrong.
_MOST_KEYS = 10
_LONG = 1_000


@dataclass(frozen=True)
class Part:
    """A title, and labelled sentences; all of them are safe to print."""

    title: str
    fields: Sequence[tuple[str, str]]


def parts(run: JobRun, outcomes: Sequence[Outcome]) -> list[Part]:
    """Return what there is to say of a run, in the order in which it is read."""
    told: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for one in outcomes:  # requirements often see the same mistake
        reason = f": {one.reason}" if one.reason else ""
        said = _safe(_why(one))
        told.setdefault((("", f"{one.verdict.value}{reason}"), *said), []).append(one.requirement)
    decided = [
        Part(shown(f"{', '.join(ids)} {verdict}", 200), said)
        for ((_, verdict), *said), ids in told.items()
    ]
    return [Part(title(run), _safe(_done(run))), *decided]


def title(run: JobRun) -> str:
    """Return what a run is: "commit of orders, seed 5"."""
    return shown(f"{run.name} of {run.job_name}, seed {run.seed}", 200)


def _done(run: JobRun) -> Iterator[tuple[str, str]]:
    for one in run.fired:
        yield "fault", f"{one}" if one.counts else f"{one}; it met nothing under way"
    yield from (("missed", one) for one in run.missed)
    yield from (("changed", one) for one in run.changed)
    yield from (("exit", one) for one in run.exits)
    yield from (("timeout", f"{what}: {said}") for what, said in run.timeouts.items())
    yield from (("went on", f"{each:.1f} s after its death") for each in run.recoveries_s)
    yield from (("output", f"{name}: {counted(n, 'row')}") for name, n in run.rows.items())
    yield "end", f"after {run.seconds:.1f} s: {run.failure or run.ended}"
    if run.stalled or run.unfinished:
        yield "", "it stood still with input left" if run.stalled else "it was still at work"
    yield from (("stderr", line) for line in run.stderr)


def _why(outcome: Outcome) -> Iterator[tuple[str, str]]:
    if outcome.verdict is Verdict.PASS:
        return
    yield "expected", outcome.expected
    yield "actual", outcome.actual
    for number, sentence in enumerate(outcome.story.get("brief", ())):
        yield "" if number else "story", sentence
    keys = outcome.evidence.get("keys")
    if isinstance(keys, list) and len(keys) > 1:
        more = f", and {len(keys) - _MOST_KEYS:,} more" if len(keys) > _MOST_KEYS else ""
        yield "keys", ", ".join(map(str, keys[:_MOST_KEYS])) + more


def _safe(fields: Iterator[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Cut and escape: all of it may be the job's own words."""
    return tuple((label, shown(value, _LONG)) for label, value in fields if value)
