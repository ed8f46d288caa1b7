"""The apps of the protocol, each a page."""

from __future__ import annotations

from collections.abc import Mapping

from tickproof.reference.api import Application
from tickproof.reference.apps import count, double, market_spread, passthrough


def make(app: str, params: Mapping[str, str]) -> Application:
    """Return the app that a deploy request names; ValueError says what is unknown."""
    match app, params.get("inputs"), params.get("emit"):
        case "passthrough", None, None:
            return passthrough.application()
        case "double", None, None:
            return double.application()
        case "count", None, "every" | "some" as emit:
            return count.application(emit)
        case "market-spread", "merged", "rejects" | "verdicts" as emit:
            return market_spread.merged(emit)
        case "market-spread", "two", "rejects" | "verdicts" as emit:
            return market_spread.two_streams(emit)
    raise ValueError(f"unknown app {app!r} with params {dict(params)!r}")
