"""``tickproof engines``, ``requirements`` and ``reasons``: what the kit comes with and says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click
from rich.table import Table
from rich.text import Text

from tickproof.conformance.cli import completion, options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import style
from tickproof.conformance.text import middle_cut
from tickproof.conformance.verdicts import EXIT_OK, Reason

if TYPE_CHECKING:
    from tickproof.conformance.suites.requirement import Requirement

#: Least room of a path, in characters.
_LEAST_PATH: Final = 20


@click.command(cls=Command)
@click.option("--json", "as_json", is_flag=True, help="As a JSON list.")
def engines(as_json: bool) -> None:
    """List the engines that come with the kit."""
    with loading():
        from tickproof.conformance.engines import spec
        from tickproof.conformance.resources import fixtures

    found = spec.available(fixtures())
    if as_json:
        rows = [
            {
                "name": one.name,
                "version": one.version,
                "language": one.language,
                "transports": one.transports,
                "apps": one.apps,
                "toml": str(one.path),
            }
            for one in found
        ]
        click.echo(json.dumps(rows, indent=2))
        return
    console = style.console()
    rows = [(one.name, one.version, one.language, str(one.path)) for one in found]
    head = ("engine", "version", "language", "engine.toml")
    if console.is_terminal:
        *columns, _ = zip(head, *rows, strict=True)
        taken = sum(max(map(len, column)) + 2 for column in columns)
        room = max(console.width - taken, _LEAST_PATH)
        rows = [(*row[:-1], middle_cut(row[-1], room)) for row in rows]
    table = Table(*head, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    style.print_table(console, table)


@click.command(cls=Command)
@click.argument("id_", required=False, metavar="[ID]", shell_complete=completion.requirements)
@click.option("--family", multiple=True, metavar="NAME", help="Only this family, as EO.")
@options.tiers
@click.option("--json", "as_json", is_flag=True, help="As a JSON list; of ID, one object.")
def requirements(
    id_: str | None, family: tuple[str, ...], tiers: tuple[int, ...], as_json: bool
) -> int:
    """List the requirements of engines, or explain one: ID. Family JB has those of own jobs."""
    with loading():
        from tickproof.conformance.jobs.requirements import JB
        from tickproof.conformance.suites import registry

    known = {**registry.load(), **JB}
    if id_ is not None:
        options.refuse_given(("family", "tiers"), "expected without ID")
        id_ = id_.upper()
        registry.require_known(id_, f"ID: no requirement {id_}", known)
        _explain(known[id_], as_json, of_jobs=id_ in JB)
        return EXIT_OK
    families = {name.upper() for name in family}
    names = [*registry.FAMILIES, "JB"]
    unknown = sorted(families.difference(names))
    if unknown:
        expected = ", ".join(names)
        raise click.UsageError(f"--family: expected one of {expected}; got {', '.join(unknown)}")
    chosen = [
        requirement
        for requirement in (known if families else registry.load()).values()
        if (not families or requirement.family in families)
        and (not tiers or requirement.tier in tiers)
    ]
    if not chosen:
        raise click.UsageError("--family and --tier: no requirement is in both")
    if as_json:
        click.echo(json.dumps([requirement.to_json() for requirement in chosen], indent=2))
        return EXIT_OK
    table = Table(box=None, pad_edge=False)
    for column in ("requirement", "tier", "level", "title"):
        table.add_column(column, no_wrap=column != "title")
    for requirement in chosen:
        row = (requirement.id, f"T{requirement.tier}", requirement.level, requirement.title)
        table.add_row(*map(Text, row))
    style.print_table(style.console(), table)
    return EXIT_OK


@click.command(cls=Command)
@click.argument("code", required=False, metavar="[CODE]")
def reasons(code: str | None) -> int:
    """Say what the reason codes of verdicts mean, or CODE alone."""
    known = {str(one): one for one in Reason}
    if code is not None:
        with loading():
            from tickproof.conformance.suites import registry

        registry.require_known(code, f"CODE: no reason {code}", known)
    console = style.console()
    for one in known.values() if code is None else [known[code]]:
        advice = f" Often: {one.advice}." if one.advice else ""
        console.print(Text(str(one), style="bold").append(f"  {one.meaning}{advice}", "default"))
    return EXIT_OK


def _explain(one: Requirement, as_json: bool, *, of_jobs: bool) -> None:
    """Print promise, clauses and scenarios of a requirement, and how to play it."""
    from tickproof.conformance.explain import outcomes
    from tickproof.conformance.jobs.requirements import SCHEDULE
    from tickproof.conformance.report import terminal
    from tickproof.conformance.suites import registry
    from tickproof.conformance.suites.hints import halves
    from tickproof.conformance.suites.scenarios import Context

    scenarios = {
        entry.name: outcomes.played(entry.draw(Context(seed=0, freshness_s=5.0)))
        for entry in one.judges
    }
    if as_json:
        click.echo(json.dumps({**one.to_json(), "scenarios": scenarios}, indent=2))
        return
    console = style.console()
    console.print(Text(f"{one.id}  ").append(one.title, style="bold"), soft_wrap=True)
    promise, causes = halves(one.promise)
    hosts = " --hosts 3" if one.needs.hosts else ""
    fields = [("promise", promise), ("likely", causes)]
    if not of_jobs:
        fields += [
            ("family", f"{one.family}: {registry.FAMILIES[one.family]}"),
            ("tier", f"{style.tier_title(one.tier, style.TIER_NAMES)}; {one.level}"),
            ("asked of", str(one.needs)),
            ("clauses", ", ".join(one.clauses)),
            *((("scenario", f"{name}: {played}")) for name, played in scenarios.items()),
        ]
    for label, value in fields:
        terminal.field(console, label, value)
    if of_jobs:
        terminal.line(console, "play", f"tickproof run job.toml --only {one.id}")
        if one.id == SCHEDULE:
            needs = "schedules in regressions/ beside job.toml, where `tickproof explore job.toml` "
            terminal.field(console, "needs", f"{needs}saves one; or --schedule FILE without --only")
        return
    terminal.line(console, "play", f"tickproof run ENGINE{hosts} --only {one.id}")
    terminal.line(console, "replay", "tickproof replay RUN, the run folder that a failure names")
