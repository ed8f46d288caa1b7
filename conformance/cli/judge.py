"""``tickproof judge``: the recorded input and output of a job that somebody else ran."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tickproof.conformance.cli import options
from tickproof.conformance.cli.options import Command
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.errors import RequestError
from tickproof.conformance.jobs.user_code import FUNCTION, FUNCTION_WORDS
from tickproof.conformance.report import style
from tickproof.conformance.verdicts import conclusion

if TYPE_CHECKING:
    from tickproof.conformance.jobs.pair import Rules
    from tickproof.conformance.jobs.recording import Recording

_TYPES = ("integer", "number", "boolean")


def _types(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """Return types by column: "cents=integer,paid=boolean"."""
    found = {}
    for part in options.listed(context, option, given):
        name, _, kind = part.rpartition("=")
        if not name or kind not in _TYPES:
            expected = f"COLUMN=TYPE with {', '.join(_TYPES)}"
            raise click.UsageError(f"--types: expected {expected}; got {part}")
        found[name] = kind
    return found


def _function(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    if given is not None and not re.fullmatch(FUNCTION, given):
        raise click.UsageError(f"--oracle: expected {FUNCTION_WORDS}; got {given}")
    return given


def _fields(name: str, text: str) -> options.Decorator:
    """Return an option that takes the names of fields."""
    return click.option(
        f"--{name}", multiple=True, metavar="FIELD[,...]", callback=options.listed, help=text
    )


@click.command(cls=Command)
@click.argument("given", metavar="IN", type=click.Path())
@click.argument("output", metavar="OUT", type=click.Path())
@_fields("identity", "What says which output belongs to which input.")
@_fields("key", "What order is kept by: the outputs of a key come as its inputs do.")
@_fields("value", "What has to be equal. Default: all fields of both sides.")
@_fields("ignore", "What need not be equal.")
@click.option(
    "--oracle",
    metavar=FUNCTION_WORDS,
    callback=_function,
    help="Says what is due for (state of the key, record), as that of a job.toml.",
)
@click.option(
    "--delivery",
    type=click.Choice(["exactly-once", "at-least-once"]),
    default="exactly-once",
    show_default=True,
)
@click.option("--unordered", is_flag=True, help="A key's outputs may come in any order.")
@click.option(
    "--complete", is_flag=True, help="OUT was recorded to its end: what is missing is lost."
)
@click.option(
    "--types", multiple=True, metavar="COLUMN=TYPE[,...]", callback=_types,
    help="Types of columns of CSV, which are text: integer, number, boolean.",
)  # fmt: skip
@options.number("--examples", click.IntRange(1, 100), 3, "Examples of each mistake.")
@options.as_json
def judge(
    given: str,
    output: str,
    identity: tuple[str, ...],
    key: tuple[str, ...],
    value: tuple[str, ...],
    ignore: tuple[str, ...],
    oracle: str | None,
    delivery: str,
    unordered: bool,
    complete: bool,
    types: dict[str, str],
    examples: int,
    as_json: bool,
) -> int:
    """Judge OUT, a recorded output of a job, by IN, its input.

    Nothing is started. Each is a file (JSON lines, CSV or Parquet, packed or not) or a topic, as
    kafka://HOST:PORT/TOPIC, which is read once, as far as it is committed. A record of IN leads
    to one of OUT with the same identity, or to what an oracle says.
    """
    if not identity and oracle is None:
        raise click.UsageError("--identity: expected the fields that both sides have, or --oracle")
    with loading():
        from tickproof.conformance.jobs import pair, pair_report
        from tickproof.conformance.report import terminal

    rules = pair.Rules(identity, key, value or None, ignore, delivery, unordered, complete, oracle)
    with tempfile.TemporaryDirectory(prefix="tickproof-judge-") as folder:
        sides = _opened(given, output, rules, types, Path(folder))
        found = pair.judged(*sides, rules, Path(folder))
    outcomes = pair_report.outcomes(found, rules, examples)
    verdicts = [one.verdict for one in outcomes]
    if as_json:
        whole = conclusion(verdicts)
        names = [given, output]
        click.echo(pair_report.document(found, rules, names, outcomes, whole).text())
        return whole.status
    console = style.console()
    for name, path, count in (("IN", given, found.records_in), ("OUT", output, found.records_out)):
        terminal.line(console, name, f"{path}  {count:,} records")
    terminal.line(
        console, "compared", f"{rules.level.value}: {', '.join(found.fields) or 'identity'}"
    )
    terminal.not_held(console, pair_report.results(outcomes), None)
    terminal.line(console, "verdict", style.counts_line(Counter(verdicts), console).plain)
    return terminal.status(console, verdicts)


def _opened(
    given: str, output: str, rules: Rules, types: dict[str, str], folder: Path
) -> list[Recording]:
    """Return both recordings; topics are read into a folder."""
    from tickproof.conformance.jobs import recording, topic

    ends = {}
    for one in (output, given):  # so that the input of each output that is read is read as well
        if topic.is_topic(one):
            ends[one] = topic.located(one)
    if given == output or _same_file(given, output):
        raise RequestError(f"OUT: expected another recording than IN, got {output}")
    with_keys = topic.KEY in (*rules.identity, *rules.key, *(rules.values or ()))
    sides = [
        topic.Topic(name, ends[one], folder, with_keys=with_keys)
        if one in ends
        else recording.opened(name, Path(one), types)
        for name, one in (("IN", given), ("OUT", output))
    ]
    known = {column for one in sides if isinstance(one, recording.Csv) for column in one.types}
    if unknown := [column for column in types if column not in known]:
        raise RequestError(f"--types {unknown[0]}: expected a column of a CSV file")
    return sides


def _same_file(one: str, other: str) -> bool:
    paths = Path(one), Path(other)
    return all(path.exists() for path in paths) and paths[0].samefile(paths[1])
