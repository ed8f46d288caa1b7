"""The options of a conformance session: what pytest loads in every project that has the kit.

All else is in `pytest_plugin`: it is slow to load, takes signals and gives meaning to a mark.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tickproof.conformance.session.request import Request

PLUGIN = "tickproof.conformance.session.pytest_plugin"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of a conformance session."""
    group = parser.getgroup("tickproof", "conformance of a stream-processing engine")
    group.addoption("--engine", metavar="ENGINE", help="a name or a path to an engine.toml")
    group.addoption("--tickproof-out", metavar="DIR", default="tickproof-out/pytest")
    group.addoption(
        "--tickproof-seed",
        type=int,
        default=1,
        metavar="N",
        help="Decides inputs and kills. Default: 1, the same in each session.",
    )
    group.addoption("--tickproof-secret", metavar="HEX")
    group.addoption("--tickproof-profile", choices=("quick", "full"), default="quick")
    group.addoption("--tickproof-tier", type=int, action="append", metavar="N")
    group.addoption("--tickproof-only", action="append", metavar="ID")
    group.addoption("--tickproof-port", type=int, metavar="N")
    group.addoption("--tickproof-quotes", metavar="FILE")
    group.addoption("--tickproof-orders", metavar="FILE")
    group.addoption("--tickproof-strict", action="store_true")
    group.addoption("--tickproof-schedule", action="append", metavar="FILE")
    # All of the above in one, from `tickproof run` to its processes.
    group.addoption("--tickproof-request", metavar="JSON", help=argparse.SUPPRESS)


def pytest_configure(config: pytest.Config) -> None:
    """Load the kit if an engine is to be judged."""
    if config.option.engine is None:
        return
    from tickproof.conformance.engines.loading import loading

    with loading():
        config.pluginmanager.import_plugin(PLUGIN)


def request(option: Any) -> Request:
    """Return what the options ask for."""
    from tickproof.conformance.session.request import Request

    return Request(
        out=Path(option.tickproof_out),
        seed=option.tickproof_seed,
        secret=option.tickproof_secret,
        profile=option.tickproof_profile,
        tiers=tuple(option.tickproof_tier or ()),
        only=tuple(option.tickproof_only or ()),
        port=option.tickproof_port,
        quotes=option.tickproof_quotes and Path(option.tickproof_quotes),
        orders=option.tickproof_orders and Path(option.tickproof_orders),
        strict=option.tickproof_strict,
        schedules=tuple(map(Path, option.tickproof_schedule or ())),
    )
