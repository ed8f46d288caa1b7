"""One round: the floor, then a run of the engine, the host attested before and after both."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.history.folder import write_json
from tickproof.conformance.hosts.attestation import attest
from tickproof.conformance.hosts.cores import Cores
from tickproof.conformance.hosts.model import Attestation
from tickproof.conformance.latency.figures import QUANTILES, RunFigures
from tickproof.conformance.latency.order_statistics import samples_needed
from tickproof.conformance.latency.profiles import Profile, measured_per_s
from tickproof.conformance.runner.isolated import play_isolated
from tickproof.conformance.service_level import floor, measurement

#: The floor is measured for at least so long, in seconds.
LEAST_FLOOR_S: Final = 2.0
#: What happens now, and how many seconds it will take, 0 where nobody knows.
Announce = Callable[[str, float], None]


@dataclass(frozen=True)
class Rounds:
    """Plays rounds on an engine into folders run-N and floor-N of ``folder``.

    keep: leave the input of a run where it is; else it is removed once the run is measured (it
    can be made again from run.json).
    """

    spec: EngineSpec
    folder: Path
    cores: Cores
    keep: bool
    announce: Announce

    def play(self, profile: Profile, number: int, seed: int, what: str) -> RunFigures:
        """Play round ``number`` and measure it; a failure of the kit is in the figures.

        Raises OSError and HistoryError for what cannot be read back.
        """
        scenario = profile.scenario(seed, self.cores)
        run = self.folder / f"run-{number}"
        before = self._attested(profile)
        try:
            self._floor(profile, number, seed, what)
            self.announce(what, profile.load.warm_up_s + profile.load.duration_s)
            play_isolated(scenario, self.spec, run, seed=seed)
        except KitStopped as error:
            return RunFigures(number, seed, run.name, "kit-error", wrong=str(error))
        looks = {"before": before, "after": self._attested(profile)}
        host = {name: look.to_json() for name, look in looks.items()}
        write_json(run / measurement.HOST_FILE, host)
        self.announce(f"{what}: judging and measuring", 0)
        found = measurement.figures(self.folder, number, profile, hlog=True)
        if found.ended != "kit-error":
            self._tidy(run)
            self._tidy(self.folder / f"floor-{number}")
        return found

    def floor_alone(self, profile: Profile, seed: int) -> dict[str, float] | None:
        """Measure the floor where no run is played, into folder floor-1.

        Returns percentiles in microseconds, none where the kit fell behind; None where it
        could not be measured.
        """
        try:
            self._floor(profile, 1, seed, "no run")
        except KitStopped:
            return None
        folder = self.folder / "floor-1"
        found = measurement.floor_of(folder)
        self._tidy(folder)
        return found

    def _floor(self, profile: Profile, number: int, seed: int, what: str) -> None:
        """Play the null engine by the profile's schedule; raises KitStopped."""
        scenario = profile.scenario(seed, self.cores)
        seconds = floor_seconds(profile)
        self.announce(f"{what}: the floor", profile.load.warm_up_s + seconds)
        folder = self.folder / f"floor-{number}"
        play_isolated(floor.scenario_of(scenario, seconds), floor.engine(), folder, seed=seed)

    def _attested(self, profile: Profile) -> Attestation:
        return attest(profile.host.level, engine_cores=self.cores.engine, kit_cores=self.cores.kit)

    def _tidy(self, folder: Path) -> None:
        if not self.keep:
            shutil.rmtree(folder / "input", ignore_errors=True)


def floor_seconds(profile: Profile) -> float:
    """Return how long the floor has to be measured so that its percentiles have samples."""
    per_s = measured_per_s(profile.load)
    most = max(samples_needed(QUANTILES[name]) for name in profile.limits)
    return min(profile.load.duration_s, max(LEAST_FLOOR_S, most / per_s))
