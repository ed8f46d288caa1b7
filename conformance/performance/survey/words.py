"""What a survey says of an engine, in words: for its pages and for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tickproof.conformance.performance.survey.result import (
    ClaimSet,
    Control,
    EngineRow,
    Failure,
    Load,
    Measured,
    Recovery,
    Replays,
    Settings,
    State,
    Survey,
)
from tickproof.conformance.text import counted, shown
from tickproof.conformance.verdicts import Verdict

#: The verdict that a state looks like.
LOOKS: Final = {
    State.HELD: Verdict.PASS,
    State.FAILED: Verdict.FAIL,
    State.KNOWN_GAP: Verdict.KNOWN_GAP,
    State.UNDECIDED: Verdict.UNKNOWN,
    State.NOT_CLAIMED: Verdict.NOT_CLAIMED,
    State.NOT_APPLICABLE: Verdict.NOT_CLAIMED,
}


def brief(survey: Survey) -> Iterator[str]:
    """Yield one line for each engine, and one for each promise that did not hold."""
    for one in survey.engines:
        name = f"{shown(one.engine.name, 60)} {shown(one.engine.version, 30)}"
        silence = recovery(one.recovery)
        yield f"{name}: {held(one)}, {deaths(one)}; without output after one: {silence}"
        for failure in one.failures:
            yield f"  {failure.id} failed {how_often(failure)}: {shown(failure.title, 200)}"


def over(survey: Survey) -> list[str]:
    """Return what engines were judged over, with versions; nothing for those over the log."""
    software = survey.software
    return [
        *([f"Java {software.java}"] if software.java else []),
        *([f"Apache Kafka {software.broker}"] if software.broker else []),
        *([software.client] if software.client else []),
    ]


def held(one: EngineRow) -> str:
    """Say how many promises held of those that were judged, and what else became of them."""
    gaps, undecided = one.count(State.KNOWN_GAP), one.count(State.UNDECIDED)
    more = [counted(gaps, "known gap")] if gaps else []
    more += [f"{undecided} undecided"] if undecided else []
    return f"{one.held} of {one.judged} held" + "".join(f", {text}" for text in more)


def deaths(one: EngineRow) -> str:
    """Say how many kills its runs saw."""
    return f"{counted(one.deaths, 'death')} in {counted(one.runs, 'run')}"


def recovery(found: Recovery) -> str:
    """Say how long output stayed away after kills."""
    if found.p50_s is None or found.p95_s is None:
        return "not seen"
    return f"p50 {found.p50_s:.1f} s, p95 {found.p95_s:.1f} s ({found.samples})"


def rate(found: Measured | None) -> str:
    """Say how many records an engine takes in a second."""
    return "-" if found is None or found.rate is None else f"{found.rate:,.0f}/s"


def latency(found: Measured | None) -> str:
    """Say how long answers take at the pace of the load."""
    if found is None or found.p50_s is None or found.p99_s is None:
        return "-"
    return f"p50 {found.p50_s * 1e3:,.0f} ms, p99 {found.p99_s * 1e3:,.0f} ms"


def load(found: Load) -> str:
    """Say what rate and latency were measured with."""
    times = f", the median of {found.rounds}" if found.rounds > 1 else ""
    return (
        f"Rate: passthrough, {found.messages:,} records at once. Latency: count, "
        f"{found.pace:,} records a second for {found.seconds:g} s, from the time that a record is "
        f"due to its answer. {counted(found.workers, 'worker')}, without faults{times}; each run "
        "has the machine to itself."
    )


def bounds(settings: Settings) -> str:
    """Say which timeouts bound a recovery."""
    if settings.session_timeout_ms is None or settings.transaction_timeout_ms is None:
        return f"recovery {settings.recovery_timeout_s:g} s"
    session = _bound(settings.session_timeout_ms)
    return f"session {session}, transaction {_bound(settings.transaction_timeout_ms)}"


def limits(settings: Settings) -> Iterator[str]:
    """Yield every time limit of engine.toml."""
    yield f"startup {settings.startup_timeout_s:g} s"
    yield f"drain {settings.drain_timeout_s:g} s"
    yield f"recovery {settings.recovery_timeout_s:g} s"
    yield f"cut {settings.cut_timeout_s:g} s"
    for name in ("session", "transaction"):
        if (limit := getattr(settings, f"{name}_timeout_ms")) is not None:
            yield f"{name} {_bound(limit)}"


def _bound(limit_ms: int) -> str:
    return "none" if limit_ms == 0 else f"{limit_ms / 1000:g} s"


def claims(one: EngineRow) -> Iterator[str]:
    """Yield what is claimed, and for which apps where that is not all of them."""
    for claim in one.claims:
        yield ("" if len(one.claims) == 1 else f"{', '.join(claim.apps)}: ") + _claim(claim)


def _claim(claim: ClaimSet) -> str:
    survives = ", ".join(claim.survives) or "nothing"
    rescale = f", rescale {claim.rescale}" if claim.rescale != "none" else ""
    return f"state {claim.state}, delivery {claim.delivery}, survives {survives}{rescale}"


def how_often(failure: Failure) -> str:
    """Say with how many seeds a promise failed, and in how many replays of the first."""
    if failure.confirmed:
        said = "with each seed: confirmed" if failure.of > 1 else "with the only seed"
    else:
        said = f"with {failure.failed_in} of {failure.of} seeds: not confirmed"
    if failure.replays is None:
        return said
    return f"{said}; {failure.replays.failed} of {failure.replays.of} replays failed again"


def alike(found: Replays) -> str:
    """Say by which reasons the replays failed that did; "" where that was not noted."""
    if not found.reasons:
        return ""
    if len(found.reasons) == 1:
        (reason,) = found.reasons
        return f"all by {shown(reason, 60)}"
    return ", ".join(f"{count} by {shown(one, 60)}" for one, count in found.reasons.items())


def with_less(found: Replays) -> Iterator[str]:
    """Yield what came of each variant of a failed run, which lacks something of its faults."""
    for one in found.variants:
        by = (
            f" (by {', '.join(shown(reason, 60) for reason in one.reasons)})" if one.reasons else ""
        )
        yield f"{one.changed}: {verdicts(one.verdicts)}{by}"


def control(found: Control) -> str:
    """Say what the same engine, but for its repair, came to with the seeds that failed."""
    seeds = counted(found.of, "seed")
    return (
        f"{found.engine}, the same engine but for this: {found.differs}. With the {seeds} that "
        f"failed, it passed with {found.passed}"
    )


def verdicts(found: Mapping[Verdict, int]) -> str:
    """Say how often something came out how."""
    return ", ".join(f"{count} {verdict.value}" for verdict, count in found.items())
