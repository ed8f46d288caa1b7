"""The command line ``tickproof``. Thin: every verb calls one function elsewhere.

Exit status: that of tickproof.conformance.verdicts; wrong usage 2, Ctrl-C 130, SIGTERM 143,
output that nobody reads 141.
Modules with heavy imports are imported by the verb that needs them, so that
``--help`` and ``--version`` answer at once.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import click

from tickproof.conformance.cli import (
    bench,
    cache,
    compare,
    coverage,
    explain,
    explore,
    generate,
    host,
    judge,
    kafka,
    ladder,
    latency,
    lists,
    live,
    log,
    mutate,
    new_engine,
    recorded,
    report,
    run,
    runs,
    selftest,
    survey,
)
from tickproof.conformance.engines import disk_space, interruption
from tickproof.conformance.report import machine
from tickproof.conformance.verdicts import EXIT_KIT_ERROR, EXIT_OK, Reason

#: What brings a package that the core does not have.
EXTRAS: Final = {
    "pyarrow": "files",
    "confluent_kafka": "kafka",
    "pandas": "spark",
    "pyspark": "spark",
    "sqlalchemy": "sql",
    "aiohttp": "live",
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``tickproof`` and exit with its status."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets its escape, not a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    interruption.listen()
    try:
        status = _status(argv)
        sys.stdout.flush()
    except OSError:  # a closed pipe or terminal, a full disk
        with contextlib.suppress(KeyboardInterrupt):
            interruption.output_closed(sys.stdout.fileno())
        status = interruption.status()
    sys.exit(status)


def _status(argv: Sequence[str] | None) -> int:
    """Run the command line; return its exit status, having said why where it is none of a verb."""
    try:
        status = cli.main(argv, prog_name="tickproof", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt) as error:
        why = error.__cause__ if isinstance(error, click.Abort) else error
        said = ": ".join(filter(None, ("tickproof", interruption.words(), str(why or ""))))
        with contextlib.suppress(BrokenPipeError):
            click.echo(said, err=True)
        status = interruption.status()
    except SystemExit as error:  # click's answer to a pipe that nobody reads is status 1
        if interruption.unread(sys.__stdout__.fileno()):
            raise BrokenPipeError from error
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            return _broken(error)
        wanted = f"pip install 'tickproof[{EXTRAS[package]}]'"
        click.echo(
            f"Error: this needs the package {package}, which is not installed: {wanted}", err=True
        )
        status = click.UsageError.exit_code
    except Exception as error:
        status = _broken(error)
    return status if isinstance(status, int) else EXIT_OK


def _broken(error: Exception) -> int:
    if isinstance(error, OSError) and error.filename and disk_space.caused(error):
        said = f"{error.filename}: {error.strerror}: {Reason.NO_SPACE.advice}"
    else:
        traceback.print_exc()
        said = "the kit itself broke, see above"
    click.echo(f"tickproof: kit-error: {said}", err=True)
    return EXIT_KIT_ERROR


def _version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo(f"tickproof {machine.version_text()}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Print the version, and the commit in a checkout.",
)
def cli() -> None:
    """Judge stream-processing engines: exactly once, proven while processes are killed."""


for command in (
    run.run,
    survey.survey,
    recorded.check,
    judge.judge,
    explain.explain,
    report.report,
    live.live,
    log.log,
    recorded.replay,
    recorded.pack,
    runs.runs,
    explore.explore,
    coverage.coverage,
    compare.compare,
    latency.latency,
    latency.profiles,
    host.host,
    bench.bench,
    ladder.ladder,
    generate.generate,
    selftest.selftest,
    kafka.kafka,
    cache.cache,
    mutate.mutate,
    new_engine.new_engine,
    new_engine.new_job,
    lists.engines,
    lists.requirements,
    lists.reasons,
):
    cli.add_command(command)

if __name__ == "__main__":
    main()
