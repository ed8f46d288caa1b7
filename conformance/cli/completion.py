"""Words that a shell offers: engines, requirements, SLA profiles, run folders."""

from __future__ import annotations

import re
from pathlib import Path

import click
from click.shell_completion import CompletionItem

#: Run folders offered at most; a shell lists no more than that well.
_MOST = 100
#: Depth of run folders below the folder of reports: ENGINE/runs/SESSION/SCENARIO.
_RUNS = "*/*/*/*/run.json"


def engines(
    _context: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Offer the kit's engines; a path if none begins as typed."""
    from tickproof.conformance.engines import spec
    from tickproof.conformance.resources import fixtures

    return _beginning(typed, spec.names(fixtures())) or [CompletionItem(typed, type="file")]


def requirements(
    _context: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Offer ids of requirements, the last of a list between commas."""
    from tickproof.conformance.suites import registry

    before, comma, last = typed.rpartition(",")
    return [
        CompletionItem(f"{before}{comma}{one.id}", help=one.title)
        for one in registry.load().values()
        if one.id.startswith(last.upper())
    ]


def profiles(
    _context: click.Context, _parameter: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Offer the kit's SLA profiles; a path if none begins as typed."""
    from tickproof.conformance.latency.profiles import available

    names = [profile.name for profile in available()]
    return _beginning(typed, names) or [CompletionItem(typed, type="file")]


def runs(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
    """Offer the run folders below tickproof-out, the newest first; a path if none fits."""
    found = [str(file.parent) for file in Path("tickproof-out").glob(_RUNS)]
    found.sort(key=lambda run: re.findall(r"\d{8}-\d{6}", run), reverse=True)
    return _beginning(typed, found)[:_MOST] or [CompletionItem(typed, type="file")]


def _beginning(typed: str, names: list[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(typed)]
