"""The applications that engines run: one module each, behind one interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from tickproof.conformance.apps.app import App
from tickproof.conformance.apps.count import Count
from tickproof.conformance.apps.double import Double
from tickproof.conformance.apps.ladder import Ladder
from tickproof.conformance.apps.market_spread import MarketSpread
from tickproof.conformance.apps.passthrough import Passthrough
from tickproof.conformance.scenario import Scenario

#: Name -> app, the simplest first.
APPS: Final[Mapping[str, type[App]]] = {
    app.name: app for app in (Passthrough, Double, Count, MarketSpread, Ladder)
}


class Named(Protocol):
    """A scenario, a history, a load: whatever names an app and its params."""

    @property
    def app(self) -> Any:
        """Name of the app."""

    @property
    def params(self) -> Mapping[str, str]:
        """Params of the deploy."""


def of(named: Named) -> App:
    """Return the app that is named, with its params; raises KeyError for an unknown name."""
    return APPS[named.app](named.params)


def output_size(scenario: Scenario) -> int:
    """Return the payload size in bytes of the output of a scenario."""
    return of(scenario).output_layout(int(scenario.recipe.get("size", 0))).itemsize
