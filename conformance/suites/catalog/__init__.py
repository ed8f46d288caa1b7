"""The scenarios: what is done to an engine, by name. Random parts come from the seed."""

from conformance.suites.catalog import calm, deaths, links, service, state
from conformance.suites.catalog.drawing import CATALOG, Context, draw, seconds

__all__ = ["CATALOG", "Context", "calm", "deaths", "draw", "links", "seconds", "service", "state"]
