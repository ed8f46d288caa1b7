"""The scenarios: what is done to an engine, by name. Random parts come from the seed."""

from tickproof.conformance.suites.catalog import (
    connections,
    deaths,
    fault_free,
    hosts,
    kafka,
    rescale,
    service,
    space,
    state,
)
from tickproof.conformance.suites.catalog.builders import CATALOG, Context, draw, seconds

__all__ = [
    "CATALOG",
    "Context",
    "connections",
    "deaths",
    "draw",
    "fault_free",
    "hosts",
    "kafka",
    "rescale",
    "seconds",
    "service",
    "space",
    "state",
]
