"""The scenarios of a session, by their names, and what is decided on each."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final

from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.faults import regressions
from tickproof.conformance.faults.schedule_file import load_all
from tickproof.conformance.faults.space.dimensions import Point
from tickproof.conformance.faults.space.offers import EVERYTHING, offers
from tickproof.conformance.faults.space.scenarios import PREFIX
from tickproof.conformance.scenario import Claims, Scenario
from tickproof.conformance.session.playing import level
from tickproof.conformance.session.request import Request
from tickproof.conformance.suites import registry, space
from tickproof.conformance.suites.carriers import STATE_FIRST, Carrier
from tickproof.conformance.suites.catalog import CATALOG, JUDGES, judges_of, seconds
from tickproof.conformance.suites.judge import Judge
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.suites.selection import played_on

#: How long a point of the fault space takes, about: only used to order the runs.
_POINT_S: Final = 1.0


class Scenarios:
    """Scenarios of one engine in a session; files: given schedules by their scenarios' names."""

    def __init__(self, spec: EngineSpec, request: Request) -> None:
        self._spec, self._request = spec, request
        paths = request.schedules or tuple(regressions.beside(spec.path, request.hosts))
        self._schedules = load_all(paths)
        self.files: dict[str, Path] = dict(zip(self._schedules, paths, strict=True))
        self._offers = offers(spec, on_hosts=request.hosts > 0) or EVERYTHING
        self._offered = offered(spec)
        self._points = {name: Point.from_json(row) for name, row in request.points.items()}

    def tests(self) -> list[tuple[str, str, Judge]]:
        """Return what is to be decided: requirement, scenario and judge, lower tiers first.

        In a tier the longest scenarios come first, so that none is left to the end. Of given
        schedules or points there are no others.
        """
        request, selected = self._request, self._request.selected
        drawn = space.names_for(self._offers, request.profile)
        given = [*(self._schedules if request.schedules else self._points)]
        names = given or [*dict.fromkeys((*JUDGES, *self._schedules, *drawn))]
        tests = [
            (requirement, name, judge)
            for name in names
            if not request.again or name in request.again
            for requirement, judge in judges_of(name)
            if requirement in selected
        ]
        seconds = {name: self._seconds(name) for _, name, _ in tests}
        return sorted(tests, key=lambda test: (selected[test[0]].tier, -seconds[test[1]]))

    def _seconds(self, name: str) -> float:
        """Estimate how long a scenario lasts; given schedules come last, and in their order."""
        if name in self._schedules:
            return 0.0
        return _POINT_S if name.startswith(PREFIX) else seconds(name)

    def draw(self, name: str) -> Scenario:
        """Return the scenario of a name; raises NotClaimed if it has no app."""
        request, spec, market = self._request, self._spec, None
        kafka = spec.kafka
        if name in self._schedules:
            return self._schedules[name].with_secret(request.secret)
        if request.quotes and request.orders:
            market = {
                "kind": "market-csv",
                "quotes": str(request.quotes.resolve()),
                "orders": str(request.orders.resolve()),
                **asdict(request.reading),
            }
        context = Context(
            request.seed,
            request.profile,
            market=market,
            latency=level(spec, name),
            recovery_s=spec.timeouts.recovery_s,
            offers=self._offers,
            transport=spec.transports[0],
            finer_prices=spec.finer_prices,
            secret=request.secret,
            session_s=kafka.session_s if kafka else Context.session_s,
            transaction_s=kafka.transaction_s if kafka else Context.transaction_s,
        )
        if name.startswith(PREFIX):
            return space.entry(name, self._points.get(name)).draw(context)
        if not CATALOG[name].carriers:
            return CATALOG[name].draw(context)
        return played_on(name, context, self._offered, registry.load())

    def seed(self, scenario: Scenario) -> int:
        """Return the seed of a run: a given schedule has one of its own."""
        given = scenario.name in self._schedules
        return scenario.recipe["seed"] if given else self._request.seed


def offered(spec: EngineSpec) -> dict[Carrier, Claims]:
    """Return what scenarios can be played on, with the claims for each."""
    return {
        carrier: spec.claims(carrier.app, carrier.params)
        for carrier in STATE_FIRST
        if spec.offers(carrier.app, carrier.params)
    }
