"""Is a command of the documents one that exists? Said without running it."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import click

from tests.docs.blocks import ROOT
from tickproof.conformance.cli.main import cli
from tickproof.conformance.suites import registry


class NoSuchCommand(AssertionError):
    """The text names the command and what is wrong with it."""


def names(folder: str) -> set[str]:
    """Return the names of the mutants, sound variants or engines that come with the kit."""
    return {path.stem for path in (ROOT / "fixtures" / folder).iterdir()}


def check(command: str) -> None:
    """Raise NoSuchCommand for a program, subcommand, option or name that does not exist."""
    for part in re.split(r"\s(?:&&|\|)\s", re.sub(r"\s+#\s.*$", "", command)):
        words = shlex.split(part)
        while re.fullmatch(r"\w+=\S*", words[0]):
            words.pop(0)
        program = words[0].rpartition("/")[2]
        if program not in PROGRAMS:
            raise NoSuchCommand(f"{command}: tests/docs/commands.py knows no {program}")
        try:
            PROGRAMS[program](words[1:])
        except (AssertionError, click.ClickException) as error:
            text = error.format_message() if isinstance(error, click.ClickException) else error
            raise NoSuchCommand(f"{command}: {text}") from error


def tickproof(words: list[str]) -> None:
    """Let click parse the arguments, without running the command."""
    command: click.Command = cli
    context = click.Context(cli, info_name="tickproof")
    while isinstance(command, click.Group):
        _, words, _ = command.make_parser(context).parse_args(list(words))
        if not words:
            return
        inner = command.get_command(context, words[0])
        assert inner, f"there is no command {words[0]}"
        context, command = click.Context(inner, context, words[0]), inner
        words = words[1:]
    values, left, _ = command.make_parser(context).parse_args(list(words))
    assert not left or context.allow_extra_args, f"too many arguments: {left}"
    for parameter in command.params:
        for value in listed(values.get(parameter.name or "")):
            if isinstance(parameter, click.Argument) and "ENGINE" in parameter.make_metavar(
                context
            ):
                engine_exists(value)
            elif isinstance(parameter.type, click.Choice | click.IntRange):
                parameter.type.convert(value, parameter, context)
            elif "--only" in parameter.opts or "--requirement" in parameter.opts:
                ids_exist(value)


def listed(value: Any) -> list[str]:
    """Return the values of a parameter that were given as texts."""
    values = value if isinstance(value, list | tuple) else [value]
    return [one for one in values if isinstance(one, str)]


def engine_exists(word: str) -> None:
    """A word in small letters is the name of an engine; a path or FILE is the reader's."""
    kind, _, name = word.partition(":")
    if name:
        folder = {"mutant": "mutants", "variant": "sound_variants"}.get(kind)
        assert folder, f"{word}: neither mutant nor sound variant"
        assert name == "ID" or name in names(folder), f"there is no {word}"
    elif re.fullmatch(r"[a-z-]+", word):
        assert word in names("engines"), f"there is no engine {word}"


def ids_exist(value: str) -> None:
    """Each id is a requirement, or what selftest takes: a mutant or an engine."""
    known = registry.load().keys() | names("mutants") | names("sound_variants") | names("engines")
    unknown = set(value.split(",")) - known - {"ID", "REQUIREMENT"}
    assert not unknown, f"there is no {', '.join(sorted(unknown))}"


@cache
def project() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def pip(words: list[str]) -> None:
    """The extras that are asked for are those of the project."""
    for word in words:
        asked = re.fullmatch(r"(?:\.|tickproof)\[([\w,]+)\]", word)
        extras = set(asked[1].split(",")) if asked else set()
        assert extras <= project()["optional-dependencies"].keys(), f"no extra {extras}"


def tox(words: list[str]) -> None:
    """The environment stands in tox.ini."""
    parser = configparser.RawConfigParser()
    parser.read(ROOT / "tox.ini")
    kit, _, _ = " ".join(words).partition(" -- ")
    for name in re.findall(r"-e (\S+)", kit):
        assert f"testenv:{name}" in parser or name == "py", f"no environment {name} in tox.ini"


def python(words: list[str]) -> None:
    """A module that is run with -m exists."""
    if words[:1] == ["-m"]:
        if words[1] in PROGRAMS:
            PROGRAMS[words[1]](words[2:])
        else:
            assert importlib.util.find_spec(words[1]), f"there is no module {words[1]}"


def pytest(words: list[str]) -> None:
    """Files and packages that are tested exist."""
    if "--pyargs" in words:
        package = words[words.index("--pyargs") + 1]
        assert importlib.util.find_spec(package), f"there is no package {package}"
        return
    for word in words:
        if word.startswith("tests"):
            assert (ROOT / word.partition("::")[0]).exists(), f"there is no {word}"


def pipx(words: list[str]) -> None:
    """Only ``pipx run``."""
    assert words[0] == "run" and words[1] in PROGRAMS, f"pipx {words}"
    PROGRAMS[words[1]](words[2:])


def anything(words: list[str]) -> None:
    """A program of others: its options are not looked at."""


PROGRAMS: Final[Mapping[str, Callable[[list[str]], None]]] = {
    "tickproof": tickproof,
    "pip": pip,
    "pipx": pipx,
    "tox": tox,
    "python": python,
    "python3": python,
    "pytest": pytest,
    "venv": anything,
    ".": anything,
    "ruff": anything,
    "mypy": anything,
    "pre-commit": anything,
    "mkdocs": anything,
    "git": anything,
    "podman": anything,
    "cd": anything,
    "cp": anything,
    "mkdir": anything,
    "wc": anything,
    "kill": anything,
    "ssh-keygen": anything,
}
