"""`tickproof latency ENGINE --search`: plays the steps of a search, and says what was found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from tickproof.conformance.errors import InvalidFile, RequestError
from tickproof.conformance.hosts.cores import Cores
from tickproof.conformance.latency.figures import RunFigures, shown_us
from tickproof.conformance.latency.profiles import Profile, measured_per_s
from tickproof.conformance.performance import latency_session, latency_terminal
from tickproof.conformance.performance.decision import FLOOR_FACTOR
from tickproof.conformance.performance.latency_document import SearchSession
from tickproof.conformance.performance.limits import Bounds, bounds_of, rate_bounds
from tickproof.conformance.performance.rate_search import (
    AGAIN,
    NEAR,
    Attempt,
    Kind,
    SearchResult,
    StepResult,
    bisect,
)
from tickproof.conformance.performance.rounds import Rounds
from tickproof.conformance.report import style
from tickproof.conformance.session import out_folder
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_NOT_JUDGED, EXIT_OK, EXIT_UNKNOWN

#: The range of rates, as factors of the profile's rate.
LOW, HIGH = 1 / 8, 8
_STATUS: Final[dict[Kind, int]] = {
    "found": EXIT_OK, "still-at-high": EXIT_OK, "not-even-at-low": EXIT_FAIL,
    "broken": EXIT_FAIL, "void": EXIT_UNKNOWN,
}  # fmt: skip


@dataclass(frozen=True)
class Span:
    """Rates from low to high, records a second, multiples of unit."""

    low: int
    high: int
    unit: int


def span(profile: Profile, low: int | None, high: int | None) -> Span:
    """Return the rates to search, rounded to what the profile can be played at.

    Raises RequestError for a range that is none.
    """
    unit, rate = profile.rate_step, profile.load.rate
    first = max(unit, round((low or rate * LOW) / unit) * unit)
    last = max(unit, round((high or rate * HIGH) / unit) * unit)
    if not high:
        last = min(last, 10_000_000 // unit * unit)
    if first >= last:
        raise RequestError(
            f"--low, --high: expected a range of rates, in steps of {unit:,} records a second; "
            f"got {first:,} to {last:,}"
        )
    for rate in (first, last):
        at_rate(profile, rate)
    return Span(first, last, unit)


def at_rate(profile: Profile, rate: int) -> Profile:
    """Return the profile at a rate, as much longer as its percentiles need; else RequestError."""
    load = profile.load
    lower = max(1.0, measured_per_s(load) / measured_per_s(load.model_copy(update={"rate": rate})))
    data = profile.to_json()
    ticks = -(-load.duration_s * lower * 1_000_000 // load.tick_us)
    longer = {"rate": rate, "duration_s": ticks * load.tick_us / 1_000_000}
    for change in ({"rate": rate}, longer):
        try:
            return Profile.from_json(data | {"load": data["load"] | change})
        except InvalidFile as error:
            refused = error
    raise RequestError(f"--search: at {rate:,} records a second: {refused}")


def play(request: latency_session.Request, rates: Span, console: Console, *, as_json: bool) -> int:
    """Search the highest rate; print the answer, or JSON. Returns the exit status.

    Raises RequestError for a search that cannot be made, before anything is started.
    """
    spec, profile = request.spec, request.profile
    if not latency_session.claimed(spec, profile, console, as_json=as_json):
        return EXIT_NOT_JUDGED
    out_folder.check(request.out)
    fit = latency_session.fitness(profile)
    if fit.problems and not request.anyway:
        named = ", ".join(one.probe for one in fit.problems)
        raise RequestError(f"the host is not as the profile asks: {named}; --anyway searches")
    # Few of the steps are played at the highest rate: each has half of what was left.
    latency_session.check_disk(request, at_rate(profile, rates.high), 2 * (1 + AGAIN))
    folder = latency_session.new_folder(request)
    status = latency_terminal.Status(style.console(stderr=True))
    rounds = Rounds(spec, folder, request.keep, status)
    steps = _Steps(rounds, fit.cores, profile, request.seed)
    with status:
        found = bisect(rates.low, rates.high, rates.unit, steps.attempt)
    session = SearchSession(
        **latency_session.setup(request, fit).played(folder),
        answer=answer(found, rates),
        found=found,
        runs=tuple(steps.runs),
    )
    session.write(folder)
    if as_json:
        print(session.text())
    else:
        latency_terminal.show_search(console, session, folder)
    return _STATUS[found.kind]


def answer(found: SearchResult, rates: Span) -> str:
    """Say what a search found."""
    last = found.steps[-1]
    if found.kind == "found":
        return f"{found.rate:,} records a second; not {found.below:,}"
    if found.kind == "still-at-high":
        return f"every limit still holds at {rates.high:,} records a second, the highest tried"
    if found.kind == "not-even-at-low":
        return f"not even at {rates.low:,} records a second, the lowest tried: {last.why}"
    if found.kind == "broken":
        return f"no answer: the engine failed at {last.rate:,} records a second: {last.why}"
    return f"no answer: the runs at {last.rate:,} records a second tell nothing: {last.why}"


class _Steps:
    """Plays the runs of a search, numbered through."""

    def __init__(self, rounds: Rounds, cores: Cores, profile: Profile, seed: int) -> None:
        self._rounds, self._cores, self._profile, self._seed = rounds, cores, profile, seed
        self.runs: list[RunFigures] = []

    def attempt(self, rate: int) -> Attempt:
        """Play one run at a rate."""
        profile, number = at_rate(self._profile, rate), len(self.runs) + 1
        what = f"run {number}, {rate:,} records a second"
        run = self._rounds.timed(profile, self._cores, number, self._seed + number - 1, what)
        self.runs.append(run)
        return attempt_of(profile, run)


def attempt_of(profile: Profile, run: RunFigures) -> Attempt:
    """Return what one run at a rate shows.

    Under every limit is under it, whatever the noise; over one it counts only where neither
    the machine nor the kit is to blame.
    """
    facts: dict[str, Any] = {"run": run.run, "percentiles": run.percentiles, "floor": run.floor}
    if run.ended != "completed" or run.wrong:
        result: StepResult = "void" if run.ended == "kit-error" else "broken"
        return Attempt(result, run.wrong or run.ended, **facts)
    fell, limits = rate_bounds(profile, run), bounds_of(profile, run)
    over = {name: one for name, one in limits.items() if one.over}
    if void := next((one.void for one in limits.values() if one.void), ""):
        return Attempt("void", void, **facts)
    if fell.high:
        why = f"{run.achieved:.1%} of the rate was done"
        if run.backlog_growth:
            why += f", the backlog grew by {run.backlog_growth:,.0f} a second"
        return Attempt(*(("over", why) if fell.surely else ("void", fell.excuse)), **facts)
    near = _near(limits.values())
    if not over:
        return Attempt("ok", "", near=near, **facts)
    floor = run.floor
    over = {
        name: one for name, one in over.items() if floor.get(name, 0.0) * FLOOR_FACTOR <= one.limit
    }
    if not over:
        return Attempt("void", "KIT_FLOOR", **facts)
    for name, one in over.items():
        if one.surely:
            why = f"{name} {shown_us(one.high)}, limit {shown_us(one.limit)}"
            return Attempt("over", why, near=near, **facts)
    return Attempt("void", next(iter(over.values())).excuse, **facts)


def _near(limits: Iterable[Bounds]) -> bool:
    """Return True if the figure that is furthest up its limit lies close to it."""
    return 1 / NEAR <= max(one.high / one.limit for one in limits) <= NEAR
