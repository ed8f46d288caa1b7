"""``tickproof selftest``: the judge is judged."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
from rich.text import Text

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.report import style

#: Reports count the ids instead of naming them where there are more than this.
_NAMED: Final = 8


@click.command(cls=Command)
@click.option(
    "--only",
    multiple=True,
    metavar="ID[,ID...]",
    callback=options.listed,
    help="Only these mutants or engines.",
)
@click.option(
    "--part",
    is_flag=True,
    help="A mutant for each requirement, and a run or two of each sound engine.",
)
@click.option("--sound", is_flag=True, help="Sound engines only.")
@click.option(
    "--engine",
    type=click.Choice(["miniature", "spark", "kafka-miniature"]),
    help="Only what is made of this engine.",
)
@options.number(
    "--runs",
    click.IntRange(0),
    0,
    "At least so many runs of sound engines, each round with another seed.",
)
@options.seed(2**31)
@options.out("tickproof-out/selftest", "reports and runs go")
@options.parallel
def selftest(
    only: tuple[str, ...],
    part: bool,
    sound: bool,
    engine: str | None,
    runs: int,
    seed: int,
    out: Path,
    parallel: int | None,
) -> int:
    """Try every mutant and every sound engine on the kit.

    Each mutant has to fail, and no sound engine may.
    """
    from tickproof.conformance.engines import interruption
    from tickproof.conformance.report.templates import as_extra
    from tickproof.conformance.resources import fixtures, require_checkout

    require_checkout("tickproof selftest")
    with loading():
        from tickproof.conformance.selftest import markdown, mutants, page, plan, session, terminal
        from tickproof.conformance.session import out_folder

    if part and only:
        raise click.UsageError("--part: expected without --only")
    out_folder.check(out)
    engines = plan.chosen(
        fixtures(), out, only=only, base=engine, part=part, sound=sound, seed=seed
    )
    known = mutants.available(fixtures())
    console = style.console()
    console.print(Text(f"seed {seed}, {len(engines)} engines", style="dim"))
    with out_folder.held(out), terminal.TrialProgress(console) as progress:
        report = session.run(
            engines,
            out.resolve(),
            seed=seed,
            workers=parallel or plan.runs_at_once(engines),
            runs=runs,
            until_killed=part,
            uncovered=[] if only or sound else plan.without_mutant(known),
            selection=_selection(only, part, sound, engine),
            on_trial=progress,
        )
        with interruption.deferred():
            report.write(out)
            markdown.write(report, out)
            as_extra(lambda: page.write(report, out), console)
    terminal.summary(console, report, out)
    if report.interrupted:
        raise KeyboardInterrupt(f"{len(report.trials):,} trials are reported in {out}")
    return report.exit_status


def _selection(ids: tuple[str, ...], part: bool, sound: bool, engine: str | None) -> str:
    """Say in words what was asked for."""
    what = ", ".join(ids) or "all mutants and all sound engines"
    if len(ids) > _NAMED:
        what = f"{len(ids)} mutants and engines by name"
    if part:
        few = "a run or two of each sound engine"
        what = few if sound else f"a mutant for each requirement, {few}"
    elif sound:
        what = f"sound engines{f': {what}' if ids else ''}"
    return f"{what}, of {engine} only" if engine else what
