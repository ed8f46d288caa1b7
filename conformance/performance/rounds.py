"""Rounds of a measurement: one run of an engine, played, judged, measured, and tidied up.

A sampled round is played in this process, and its engine's memory and state are sampled. A timed
round is played in a process of its own after the floor: the same schedule with an engine that does
nothing (fixtures/floor), which shows what the kit itself adds.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tickproof.conformance import apps, resources
from tickproof.conformance.engines import spec as engine_spec
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import HistoryError, KitStopped, RequestError
from tickproof.conformance.explain.outcomes import sentence
from tickproof.conformance.history.folder import History, write_sealed_json
from tickproof.conformance.hosts.attestation import attest
from tickproof.conformance.hosts.cores import Cores
from tickproof.conformance.hosts.model import Attestation
from tickproof.conformance.latency.figures import QUANTILES, RunFigures
from tickproof.conformance.latency.profiles import Profile, measured_per_s
from tickproof.conformance.latency.statistics import samples_needed
from tickproof.conformance.performance import measurement
from tickproof.conformance.performance.engine_samples import PERIOD_S, EngineSamples, children_cpu_s
from tickproof.conformance.performance.series import AnyRound, Series
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.session import playing
from tickproof.conformance.suites.judge import Fail, KitError, Unknown
from tickproof.conformance.suites.require import earns_figures

#: The floor is measured for at least this many seconds.
LEAST_FLOOR_S: Final = 2.0
#: Called with what begins now, and how many seconds it will take (0: unknown).
Announce = Callable[[str, float], None]


def check_room(out: Path, needed: int, what: str) -> None:
    """Raise RequestError if ``needed`` bytes do not fit on the disk; what: takes them."""
    free = shutil.disk_usage(out).free
    if needed > free:
        raise RequestError(f"{what} {needed >> 20:,} MiB, but {out} has {free >> 20:,} MiB left")


@dataclass(frozen=True)
class Rounds:
    """Plays the rounds of one engine into folders of ``folder``.

    keep: leave runs as they are; else what can be made again is removed once it is measured.
    """

    spec: EngineSpec
    folder: Path
    keep: bool
    announce: Announce

    def sampled(
        self,
        series: Series[AnyRound],
        scenario: Scenario,
        name: str,
        measure: Callable[[History, EngineSamples], AnyRound],
        period_s: float = PERIOD_S,
    ) -> None:
        """Play one round of a series, unless an earlier one went wrong.

        name: of its folder. period_s: from one sample of the engine to the next.
        """
        if series.status != "measured":
            return
        series.app, series.params = scenario.app, scenario.params
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        try:
            series.rounds.append(self._figures(scenario, folder, measure, period_s))
        except Fail as fail:
            series.status, series.why = "failed", sentence(fail)
        except Unknown as unknown:
            series.status, series.why = "unknown", str(unknown)
        except (KitError, KitStopped, HistoryError, OSError) as error:
            series.status, series.why = "kit-error", str(error)
        finally:
            if series.status != "measured":
                series.run = str(folder)
                series.rounds.clear()  # an engine that is sometimes wrong gets no figures
                folder /= "input"  # the rest shows what was wrong
            if not self.keep:
                shutil.rmtree(folder, ignore_errors=True)

    def _figures(
        self,
        scenario: Scenario,
        folder: Path,
        measure: Callable[[History, EngineSamples], AnyRound],
        period_s: float,
    ) -> AnyRound:
        """Play, judge and measure a run; a fast answer that is wrong raises Fail."""
        seed, what = scenario.recipe["seed"], f"{self.spec.name}: {folder.name}"
        self.announce(what, 0)
        samples, before_s = EngineSamples(period_s), children_cpu_s()
        spec = self.spec.patient(scenario.recipe["records"])
        playing.play(scenario, spec, folder, seed=seed, usage=samples.sampler)
        samples.cpu_s = children_cpu_s() - before_s
        self.announce(f"{what}, judging", 0)
        history = History(folder)
        earns_figures(history)
        return measure(history, samples)

    def timed(
        self, profile: Profile, cores: Cores, number: int, seed: int, what: str
    ) -> RunFigures:
        """Play round ``number`` into run-N, after its floor in floor-N, and measure it.

        The host is attested before and after both. A failure of the kit is in the figures.
        Raises OSError and HistoryError for what cannot be read back.
        """
        run = self.folder / f"run-{number}"
        before = _attested(profile, cores)
        try:
            self._floor(profile, cores, number, seed, what)
            self.announce(what, profile.load.warm_up_s + profile.load.duration_s)
            playing.play(profile.scenario(seed, cores), self.spec, run, seed=seed)
        except KitStopped as error:
            return RunFigures(number, seed, run.name, "kit-error", wrong=str(error))
        looks = {"before": before, "after": _attested(profile, cores)}
        host = {name: look.to_json() for name, look in looks.items()}
        write_sealed_json(run / measurement.HOST_FILE, host)
        self.announce(f"{what}: judging and measuring", 0)
        found = measurement.figures(self.folder, number, profile, hlog=True)
        if found.ended != "kit-error":
            self._drop_input(run)
            self._drop_input(self.folder / f"floor-{number}")
        return found

    def floor_alone(self, profile: Profile, cores: Cores, seed: int) -> dict[str, float] | None:
        """Measure the floor in folder floor-1 if no run is played.

        Returns percentiles in microseconds, none if the kit fell behind; None if it could not
        be measured.
        """
        try:
            self._floor(profile, cores, 1, seed, "no run")
        except KitStopped:
            return None
        folder = self.folder / "floor-1"
        found = measurement.floor_of(folder)
        self._drop_input(folder)
        return found

    def _floor(self, profile: Profile, cores: Cores, number: int, seed: int, what: str) -> None:
        """Play the null engine by the profile's schedule; raises KitStopped."""
        seconds = floor_seconds(profile)
        self.announce(f"{what}: the floor", profile.load.warm_up_s + seconds)
        scenario = floor_scenario(profile.scenario(seed, cores), seconds)
        playing.play(scenario, null_engine(self.spec), self.folder / f"floor-{number}", seed=seed)

    def _drop_input(self, run: Path) -> None:
        if not self.keep:
            shutil.rmtree(run / "input", ignore_errors=True)


def _attested(profile: Profile, cores: Cores) -> Attestation:
    return attest(profile.host.level, engine_cores=cores.engine, kit_cores=cores.kit)


def floor_seconds(profile: Profile) -> float:
    """Return how long the floor has to be measured so that its percentiles have samples."""
    per_s = measured_per_s(profile.load)
    most = max(samples_needed(QUANTILES[name]) for name in profile.limits)
    return min(profile.load.duration_s, max(LEAST_FLOOR_S, most / per_s))


def null_engine(beside: EngineSpec) -> EngineSpec:
    """Return the engine that does nothing, over the transport of another one."""
    floor = resources.fixtures() / "floor"
    return engine_spec.load(floor if beside.kafka is None else floor / "kafka")


def floor_scenario(scenario: Scenario, seconds: float | None = None) -> Scenario:
    """Return the scenario by which the floor under ``scenario`` is measured.

    It has the same rate, ticks, partitions and cores, no faults, and after the warm-up at
    most ``seconds``. An app that answers every record is replaced by passthrough with records as
    long as the app's output: what matters is how much goes each way and when. Raises ValueError
    for a scenario without a pace.
    """
    if scenario.pace is None or not scenario.rate:
        raise ValueError(f"scenario {scenario.name}: expected a pace and a rate")
    recipe = dict(scenario.recipe)
    if seconds is not None:
        tick = recipe["tick"]
        longest = int(scenario.rate * (scenario.pace.warm_up_s + seconds)) // tick * tick
        recipe["records"] = min(recipe["records"], longest)
    if not apps.of(scenario).sparse:
        kept = ("seed", "records", "partitions", "tick")
        recipe = {key: recipe[key] for key in kept if key in recipe}
        recipe |= {"kind": "payloads", "size": apps.output_size(scenario)}
        scenario = replace(scenario, app="passthrough", params={})
    return replace(scenario, name="floor", recipe=recipe, faults=())
