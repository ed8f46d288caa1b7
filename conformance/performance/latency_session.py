"""`tickproof latency`: is the host fit, rounds until there is a verdict, the verdict.

All checks of a request come before any engine starts. Everything lies in one folder, and
`again` comes to the same verdict from that folder alone.
"""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from tickproof.conformance.engines import interruption
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.faults.kinds import needs_of
from tickproof.conformance.history.folder import History
from tickproof.conformance.hosts import realtime
from tickproof.conformance.hosts.attestation import attest
from tickproof.conformance.hosts.cores import Cores, assign
from tickproof.conformance.hosts.model import Attestation, HostError, Reading, Status
from tickproof.conformance.latency.figures import RunFigures
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.performance import latency_page, latency_terminal, measurement
from tickproof.conformance.performance.decision import decide, more_runs
from tickproof.conformance.performance.document import MeasuredEngine, this_machine
from tickproof.conformance.performance.latency_document import (
    GivenCores,
    HostFound,
    LatencySession,
    Setup,
)
from tickproof.conformance.performance.rounds import Rounds, check_room
from tickproof.conformance.report import style, templates
from tickproof.conformance.session import out_folder
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_NOT_JUDGED, Verdict, status_of

#: The most that a record, or its answer, takes on disk.
RECORD_BYTES: Final = 64
#: Seeds of the runs of a session follow each other.
_SEEDS: Final = 2**63


@dataclass(frozen=True)
class Request:
    """What was asked for. asked: words of the command line that repeat it.

    out: gets the folder of the session. anyway: play although the host is not fit. keep: see
    rounds.Rounds.
    """

    spec: EngineSpec
    profile: Profile
    seed: int
    out: Path
    anyway: bool
    keep: bool
    asked: str


@dataclass(frozen=True)
class Fitness:
    """Fitness of a host for a profile. attested: all readings."""

    cores: Cores
    problems: tuple[Reading, ...]
    attested: Attestation


def fitness(profile: Profile) -> Fitness:
    """Divide the cores and look at the host; what is not as asked is among the problems."""
    asked, problems = profile.cores, []
    cores = assign()
    if asked:
        try:
            cores = assign(asked.kit, asked.engine)
        except HostError as error:
            has = len({*cores.kit, *cores.engine, *cores.housekeeping})
            wanted = f"{asked.kit} for the kit, {asked.engine} for the engine"
            problems.append(_problem(profile, "cores", str(has), wanted, str(error)))
    if asked and asked.priority and (why := realtime.refused(asked.priority)):
        problems.append(
            _problem(
                profile,
                "priority",
                why,
                f"SCHED_FIFO {asked.priority}",
                "the generator shares its core with whatever else is ready to run",
            )
        )
    found = attest(profile.host.level, engine_cores=cores.engine, kit_cores=cores.kit)
    return Fitness(cores, (*problems, *found.problems()), found)


def _problem(profile: Profile, probe: str, value: str, wanted: str, why: str) -> Reading:
    return Reading(probe, profile.host.level, "", value, wanted, Status.NOT_OK, why)


def with_runs(profile: Profile, runs: int) -> Profile:
    """Return the profile with another number of runs to begin with; raises InvalidFile."""
    data = profile.to_json()
    most = max(runs, data["runs"]["most"])
    return Profile.from_json(data | {"runs": data["runs"] | {"least": runs, "most": most}})


def check_disk(request: Request, profile: Profile, rounds: int) -> None:
    """Raise RequestError if that many rounds do not fit on the disk."""
    records = profile.load.rate * (profile.load.warm_up_s + profile.load.duration_s)
    # Of each round the answers stay, those of its floor too; of the last, or of all, the input.
    needed = int(records * 2 * RECORD_BYTES * (rounds * (1 + request.keep) + 1))
    what = f"--out: {rounds} runs of {records:,.0f} records take up to"
    check_room(request.out, needed, what)


def play(request: Request, console: Console, *, as_json: bool) -> int:
    """Judge the engine by the profile; print it, or JSON. Returns the exit status.

    Raises RequestError for a session that cannot be held, before anything is started.
    """
    spec, profile = request.spec, request.profile
    if not claimed(spec, profile, console, as_json=as_json):
        return EXIT_NOT_JUDGED
    out_folder.check(request.out)
    fit = fitness(profile)
    alone = bool(fit.problems) and not request.anyway
    check_disk(request, profile, 1 if alone else profile.runs.most + profile.runs.void_most)
    folder = new_folder(request)
    known = setup(request, fit)
    status = latency_terminal.Status(style.console(stderr=True))
    rounds = Rounds(spec, folder, request.keep, status)
    runs: list[RunFigures] = []

    def written(floor: dict[str, float] | None, interrupted: str | None = None) -> LatencySession:
        found = LatencySession(
            **(known.played(folder) | {"interrupted": interrupted}),
            runs=tuple(runs),
            floor=floor,
            decision=decide(profile, runs, fit.problems, floor),
        )
        found.write(folder)
        return found

    floor = None
    try:
        with status:
            if alone:
                floor = rounds.floor_alone(profile, fit.cores, request.seed)
            else:
                while wanted := more_runs(profile, runs):
                    number, last = len(runs) + 1, len(runs) + wanted
                    seed = (request.seed + number - 1) % _SEEDS
                    what = f"run {number} of {last}"
                    runs.append(rounds.timed(profile, fit.cores, number, seed, what))
    except BaseException as error:
        with interruption.deferred(), contextlib.suppress(OSError):
            found = written(None, _why(error))  # what was played can still be decided
            templates.as_extra(
                partial(latency_page.write, found, folder), style.console(stderr=True)
            )
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(f"{len(runs)} runs are reported in {folder}") from None
        raise
    found = written(floor)
    templates.as_extra(partial(latency_page.write, found, folder), style.console(stderr=True))
    return print_session(found, folder, console, as_json=as_json)


def _why(error: BaseException) -> str:
    """Say what ended a session early."""
    if isinstance(error, KeyboardInterrupt):
        return interruption.words()
    return f"ended early: {type(error).__name__}: {error}"


def setup(request: Request, fit: Fitness) -> Setup:
    """Return what is known of a session before its first run."""
    level = request.profile.host.level
    return Setup(
        machine=this_machine(),
        engine=MeasuredEngine.of(request.spec),
        profile=request.profile,
        seed=request.seed,
        cores=GivenCores(**asdict(fit.cores)),
        host=HostFound(level=level, problems=fit.problems, attested=fit.attested),
        reproduce=request.asked,
    )


def claimed(spec: EngineSpec, profile: Profile, console: Console, *, as_json: bool) -> bool:
    """Return True if the engine claims what the profile asks of it; says so where it does not."""
    load = profile.load
    words = " ".join([load.app, *(f"{key}={value}" for key, value in load.params.items())])
    if not spec.offers(load.app, load.params):
        why = f"does not offer {words}"
    else:
        scenario = profile.scenario(0)
        needs = needs_of(scenario.faults, scenario.workers)
        if needs <= set(spec.claims(load.app, load.params).survives):
            return True
        why = f"does not claim to survive a kill of {', '.join(sorted(needs))} with {words}"
    if as_json:
        print(
            json.dumps(
                {
                    "engine": MeasuredEngine.of(spec).model_dump(),
                    "profile": profile.to_json(),
                    "decision": {"verdict": Verdict.NOT_CLAIMED, "why": why},
                }
            )
        )
    else:
        line = style.badge(Verdict.NOT_CLAIMED, console)
        line.append(f"  {shown(spec.name, 60)} {why}: nothing was played, and nothing judged")
        console.print(line, soft_wrap=True)
    return False


def new_folder(request: Request) -> Path:
    """Make the folder of a session; raises OSError."""
    name = out_folder.folder_name(request.spec.name) or "engine"
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}-seed{request.seed}"
    for number in range(100):
        folder = request.out / f"{stamp}{f'-{number}' if number else ''}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        return folder
    raise FileExistsError(f"{request.out}: a hundred sessions began in the same second")


def print_session(found: LatencySession, folder: Path, console: Console, *, as_json: bool) -> int:
    """Print a session; return its exit status."""
    if as_json:
        print(found.text())
    else:
        latency_terminal.show(console, found, folder)
    return status_of([found.decision.verdict])


def measure_again(folder: Path, console: Console, *, as_json: bool) -> int:
    """Measure and decide a session again, from its folder alone; returns the exit status.

    Raises HistoryError.
    """
    then, floor = LatencySession.read(folder / LatencySession.FILE_NAME), None
    runs = tuple(_measure_run_again(folder, run, then.profile) for run in then.runs)
    if not runs and then.floor is not None:
        floor = measurement.untouched(
            folder / "floor-1", lambda: measurement.floor_of(folder / "floor-1")
        )
    decision = decide(then.profile, runs, then.host.problems, floor)
    found = then.model_copy(update={"runs": runs, "floor": floor, "decision": decision})
    return print_session(found, folder, console, as_json=as_json)


def _measure_run_again(folder: Path, run: RunFigures, profile: Profile) -> RunFigures:
    if run.ended == "kit-error":
        return run  # what the kit could not play it cannot measure
    number = run.number
    for name in (f"run-{number}", f"floor-{number}"):
        History(folder / name).verify()
    return measurement.untouched(
        folder / f"run-{number}",
        lambda: measurement.untouched(
            folder / f"floor-{number}", lambda: measurement.figures(folder, number, profile)
        ),
    )
