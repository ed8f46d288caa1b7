"""Options that commands share, loading engines, errors of usage."""

from __future__ import annotations

import functools
import os
import re
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from tickproof.conformance.cli import completion
from tickproof.conformance.engines.loading import loading
from tickproof.conformance.engines.network import FEWEST, MOST
from tickproof.conformance.errors import (
    InvalidFile,
    KafkaUnavailable,
    KitStopped,
    RequestError,
    out_of_reach,
)
from tickproof.conformance.text import shown
from tickproof.conformance.verdicts import EXIT_KIT_ERROR
from tickproof.generators.reading import MISSING_SIDES, TIES

if TYPE_CHECKING:
    from tickproof.conformance.engines.spec import EngineSpec

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
Numbers = Callable[[click.Context, click.Parameter, str], tuple[int, ...]]

FILE = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
#: A place in a file system of Hadoop; one letter may be a drive.
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/.*")
#: Sessions or scenarios that an error names.
_MOST: Final = 8
#: The folder of a session, named after when it began and its seed.
_SESSION: Final = re.compile(r"\d{8}-\d{6}-seed(\d{1,19})(?:-\d+)?")
#: Ports that one may connect to.
_PORTS: Final = range(1, 1 << 16)
_SEED = click.IntRange(0, 2**63 - 1)

as_json = click.option("--json", "as_json", is_flag=True, help="As one JSON object.")
random_seed = click.option("--seed", type=_SEED, metavar="N", help="Default: random, and printed.")
secret = click.option(
    "--secret",
    default=lambda: secrets.token_hex(16),
    callback=lambda _context, _parameter, given: _hexadecimal(given),
    metavar="HEX",
    help="With the same seed and secret the input is the same. Default: random.",
)
parallel = click.option(
    "-n",
    "--parallel",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Runs at the same time. Default: up to three a processor, or as engine.toml says.",
)
hosts = click.option(
    "--hosts",
    type=click.IntRange(FEWEST, MOST),
    metavar="N",
    callback=lambda _context, _parameter, given: given or 0,
    help="Run on N hosts: network namespaces of our own, on this machine.",
)


def _hexadecimal(given: str) -> str:
    from tickproof.generators.recipes import secret_of

    try:
        return secret_of(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def spark(what: str) -> Decorator:
    """Return --spark and --master as one parameter ``master``: where Spark runs, None: nowhere."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--spark", is_flag=True, help=what)
        @click.option(
            "--master", metavar="URL", help="Where Spark runs, with --spark. Default: local[*]"
        )
        @functools.wraps(command)
        def decorated(*, spark: bool, master: str | None, **options: Any) -> Any:
            if master is not None and not spark:
                raise click.UsageError("--master: expected together with --spark")
            return command(master=(master or "local[*]") if spark else None, **options)

        return decorated

    return decorate


def _run_folder(_context: click.Context, _parameter: click.Parameter, run: Path) -> Path:
    return _expected_run(run)


def _run_or_uri(_context: click.Context, _parameter: click.Parameter, run: str) -> Path | str:
    return run if _URI.fullmatch(run) else _expected_run(Path(run))


def _expected_run(run: Path) -> Path:
    try:
        run.stat()
    except PermissionError as error:
        raise click.UsageError(f"RUN: {run}: {out_of_reach(run, error)}") from error
    except OSError:
        raise click.UsageError(f"RUN: {run} does not exist{_kept_beside(run)}") from None
    if run.is_dir() and not any((run / name).is_file() for name in ("run.json", "job-run.json")):
        raise click.UsageError(f"RUN: {run} holds no run.json: expected a run folder")
    if not run.is_dir() and not run.is_file():
        raise click.UsageError(f"RUN: {run}: expected a run folder or a pack, a regular file")
    return run


def _kept_beside(run: Path) -> str:
    """Say where a run of an earlier session went: which sessions are kept, and how to play it."""
    path = Path(os.path.normpath(run.absolute()))
    session = next((one for one in (path, *path.parents) if _SESSION.fullmatch(one.name)), None)
    if session is None or not session.parent.is_dir():
        return ""
    if session.is_dir():
        return f"; this session played {', '.join(_folders(session)) or 'nothing'}"
    seed = _SESSION.sub(r"\1", session.name)
    return (
        f": only the newest sessions are kept; in {session.parent} these are: "
        f"{', '.join(_folders(session.parent)) or 'none'}. `tickproof run ENGINE --seed {seed}` "
        "plays it again; `tickproof pack` keeps a run"
    )


def _folders(folder: Path) -> list[str]:
    """Return the names of at most _MOST folders, the newest first."""
    names = sorted((path.name for path in folder.iterdir() if path.is_dir()), reverse=True)
    return [shown(name, 80) for name in names[:_MOST]]


def unwritable(option: str, path: Path, error: OSError) -> RequestError:
    """Return the error of usage for a file that an option names and that cannot be written."""
    expected = f"{option}: expected a file that can be written, got {path}"
    is_file = isinstance(error, FileExistsError)  # in place of a folder above it
    return RequestError(
        f"{expected}: {f'{error.filename} is a file' if is_file else error.strerror}"
    )


#: A recorded run: its folder, or a pack of it.
RUN = click.argument(
    "run",
    type=click.Path(readable=True, path_type=Path),
    metavar="RUN",
    callback=_run_folder,
    shell_complete=completion.runs,
)


#: A run folder, a pack, or the URI of a run folder, which is not looked at.
RUN_OR_URI = click.argument(
    "run", metavar="RUN", callback=_run_or_uri, shell_complete=completion.runs
)


class Command(click.Command):
    """A command that reports as wrong usage what cannot be: requests, files, a broker.

    What stops the kit itself is a kit-error.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except (RequestError, InvalidFile, KafkaUnavailable) as error:
            raise click.UsageError(str(error), ctx) from error
        except KitStopped as error:
            click.echo(f"tickproof: kit-error: {error}", err=True)
            return EXIT_KIT_ERROR
        except PermissionError as error:
            if error.filename is None:
                raise
            path = Path(os.fsdecode(error.filename))
            said = f"expected a path that can be used, got {path}: {out_of_reach(path, error)}"
            raise click.UsageError(said, ctx) from error


#: What `reading` adds.
READING: Final = ("strict", "missing_side", "ties")


def reading(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the choices of how a recorded market is read; together they make a Reading."""
    for option in (
        click.option(
            "--ties",
            type=click.Choice(TIES),
            default="quote-first",
            show_default=True,
            help="What is first of a quote and an order of one time; file: the lower seq.",
        ),
        click.option(
            "--missing-side",
            type=click.Choice(MISSING_SIDES),
            help="What becomes of a quote without bid or offer. Default: zero, with a warning.",
        ),
        click.option("--strict", is_flag=True, help="What is doubtful in a market is an error."),
    ):
        command = option(command)
    return command


def refuse_given(names: tuple[str, ...], why: str) -> None:
    """Raise UsageError if one of these options was given, and say why it must not be."""
    context = click.get_current_context()
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if option.name in names and source is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"{option.opts[0]}: {why}")


def whole_numbers(what: str, most: int, example: str, *, distinct: bool = True) -> Numbers:
    """Return a callback for a list of numbers from 1 to ``most``; ``what`` they are, for errors.

    distinct: none is taken twice.
    """

    def read(_context: click.Context, option: click.Parameter, given: str) -> tuple[int, ...]:
        texts = [part.strip() for part in given.split(",")]
        found = [int(text) if text.isdecimal() else 0 for text in texts]
        if not all(0 < one <= most for one in found):
            expected = f"{what} from 1 to {most:,}, as {example}"
            raise click.UsageError(f"{option.opts[0]}: expected {expected}; got {given}")
        return tuple(dict.fromkeys(found) if distinct else found)

    return read


def listed(
    _context: click.Context, option: click.Parameter, given: str | tuple[str, ...]
) -> tuple[str, ...]:
    """Return the parts of comma-separated lists, in order, none twice.

    An empty part is wrong usage: a list that is empty by mistake would select everything.
    """
    texts = (given,) if isinstance(given, str) else given
    found = [part.strip() for text in texts for part in text.split(",")]
    if not all(found):
        got = " ".join(repr(text) for text in texts)
        raise click.UsageError(f"{option.opts[0]}: expected names between commas; got {got}")
    return tuple(dict.fromkeys(found))


def _ids(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(id_.upper() for id_ in listed(context, option, given)))


def _tiers(
    context: click.Context, option: click.Parameter, given: tuple[str, ...]
) -> tuple[int, ...]:
    """Return the numbers of tiers: "3", "t3", "0,1"."""
    found = []
    for part in listed(context, option, given):
        if not re.fullmatch(r"[tT]?\d", part):
            raise click.UsageError(f"--tier: expected numbers of tiers, as 0,1 or t3; got {part}")
        found.append(int(part[-1]))
    return tuple(found)


def address(_context: click.Context, _option: click.Parameter, given: str | None) -> str | None:
    """Check the form of a host:port."""
    if given is not None:
        host, _, port = given.rpartition(":")
        if not re.fullmatch(r"[\w.-]+", host) or not port.isdecimal() or int(port) not in _PORTS:
            raise click.UsageError(f"--kafka: expected HOST:PORT, as localhost:9092; got {given}")
    return given


tiers = click.option(
    "--tier", "tiers", multiple=True, metavar="N[,N...]", callback=_tiers, help="Only these tiers."
)


def only(what: str) -> Decorator:
    """Return the option --only, ids of requirements; ``what``: its help."""
    return click.option(
        "--only",
        multiple=True,
        metavar="ID[,ID...]",
        callback=_ids,
        shell_complete=completion.requirements,
        help=what,
    )


def out(default: str, what: str) -> Decorator:
    """Return the option --out, a folder; ``what``: "reports go", say."""
    return click.option(
        "--out", type=FOLDER, default=Path(default), show_default=True, help=f"Where {what}."
    )


def number(name: str, kind: click.ParamType, default: float, text: str) -> Decorator:
    """Return an option that is a number with a default."""
    metavar = "S" if isinstance(kind, click.FloatRange) else "N"
    return click.option(
        name, type=kind, default=default, show_default=True, metavar=metavar, help=text
    )


def seed(limit: int = 2**63 - 1) -> Decorator:
    """Return the option --seed with 1 as its default."""
    kind = click.IntRange(0, limit)
    return click.option("--seed", type=kind, default=1, show_default=True, metavar="N")


def load_engines(names: Sequence[str], out: Path, *, protected: bool = False) -> list[EngineSpec]:
    """Load every ENGINE before any is started; all errors end in one usage error.

    An ENGINE is a name, a path to an engine.toml, or a mutant or a sound variant of one of
    the kit's engines (mutant:ID, variant:ID), which is made under ``out``. protected: what an
    engine needs built is built in a sandbox, if this machine gives one.
    """
    from tickproof.conformance.engines import spec
    from tickproof.conformance.resources import fixtures
    from tickproof.conformance.suites import registry

    if not names:
        found = ", ".join(engine.name for engine in spec.available(fixtures()))
        raise click.UsageError(f"ENGINE: expected a path to an engine.toml, or one of: {found}")
    known, loaded, errors = registry.load(), [], []
    for name in names:
        try:
            is_copy = name.startswith(("mutant:", "variant:", "oddity:"))
            path = _copied(name, out) if is_copy else spec.find(name, fixtures())
            engine = spec.load(path, known)
            engine.asked = name
            if not engine.preparation():  # which may be what makes it
                engine.command()  # argv must be found before anything is started
            loaded.append(engine)
        except (RequestError, InvalidFile) as error:
            errors.append(str(error))
    if errors:
        raise click.UsageError("\n".join(errors))
    _prepare(loaded, out, protected)
    return loaded


def _copied(name: str, out: Path) -> Path:
    """Make a mutant or a sound variant below ``out``; return the path of its engine.toml."""
    from tickproof.conformance.resources import fixtures, require_checkout

    require_checkout(name)
    from tickproof.conformance.selftest import mutants

    copy = mutants.find(name, fixtures())
    return mutants.make(copy, fixtures(), out / "mutants" / copy.id)


def _prepare(specs: Sequence[EngineSpec], out: Path, protected: bool) -> None:
    """Let engines build what they need; the first that cannot ends in a usage error."""
    from tickproof.conformance.engines.preparation import prepare

    for number, spec in enumerate(specs, 1):
        try:
            prepare(spec, out / f"prepare-{number}.log", protected=protected)
            spec.command()
        except InvalidFile as error:
            raise click.UsageError(str(error)) from error
        except OSError as error:
            expected = f"expected a folder that can be written, got {out}"
            raise click.UsageError(f"{expected}: {error.strerror}") from error


def names_job(path: Path) -> bool:
    """Tell whether an argument names a job.toml, or a folder with one and no engine.toml.

    A file of another name is one if it has the table [job].
    """
    if path.is_dir():
        return (path / "job.toml").is_file() and not (path / "engine.toml").is_file()
    if path.name in ("job.toml", "engine.toml") or path.suffix != ".toml":
        return path.name == "job.toml"
    with loading():
        from tickproof.conformance import strict_toml
    try:
        return "job" in strict_toml.read(path)
    except InvalidFile:
        return False  # whoever takes it for an engine says what is wrong
