"""The apps of the protocol, each a page."""

from __future__ import annotations

from collections.abc import Mapping

from tickproof.reference.api import Application
from tickproof.reference.apps import count, double, market_spread, passthrough


def make(app: str, params: Mapping[str, str], on_arrays: bool = True) -> Application:
    """Return the app that a deploy request names; ValueError says what is unknown.

    on_arrays: with functions on many records, else on one. On one, count gives every point.
    """
    one = not on_arrays
    match app, params.get("inputs"), params.get("emit"):
        case "passthrough", None, None:
            return passthrough.application()
        case "double", None, None:
            return double.application(double.double) if one else double.application()
        case "count", None, "every" | "some" as emit:
            return count.application(emit, count.count if one else None)
        case "market-spread", "merged", "rejects" | "verdicts" as emit:
            return market_spread.merged(emit, **market_spread.MERGED_ON_RECORDS if one else {})
        case "market-spread", "two", "rejects" | "verdicts" as emit:
            return market_spread.two_streams(emit, **market_spread.TWO_ON_RECORDS if one else {})
    raise ValueError(f"unknown app {app!r} with params {dict(params)!r}")
