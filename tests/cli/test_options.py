"""What several commands share: a list of numbers is read as one."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tickproof.conformance.cli import options
from tickproof.conformance.cli.main import cli
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.verdicts import EXIT_KIT_ERROR

SIZES = click.Option(["--sizes"])


@pytest.mark.parametrize(("distinct", "found"), [(True, (12, 8)), (False, (12, 8, 12))])
def test_a_list_of_numbers_has_none_twice_unless_that_is_wanted(distinct, found):
    read = options.whole_numbers("sizes", 100, "8,12", distinct=distinct)
    assert read(click.Context(click.Command("x")), SIZES, "12, 8,12") == found


@pytest.mark.parametrize(
    "given", ["0", "101", "8,", "", "8;12", "-8", "1.5", "\N{SUPERSCRIPT TWO}"]
)
def test_what_is_no_list_of_numbers_is_told_with_what_was_expected(given):
    read = options.whole_numbers("sizes", 100, "8,12")
    with pytest.raises(click.UsageError) as error:
        read(click.Context(click.Command("x")), SIZES, given)
    assert str(error.value) == f"--sizes: expected sizes from 1 to 100, as 8,12; got {given}"


def test_no_summary_of_a_command_is_cut_off_at_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    groups = [(), *((name,) for name, one in cli.commands.items() if isinstance(one, click.Group))]
    for group in groups:
        summaries = CliRunner().invoke(cli, [*group, "--help"]).output.partition("\nCommands:")[2]
        assert summaries and "..." not in summaries, group


def test_what_stops_the_kit_is_a_kit_error_in_one_line(capsys):
    @click.command(cls=options.Command)
    def stops() -> None:
        raise KitStopped("engine.toml: prepare: expected a kit as it was before")

    assert stops.main([], standalone_mode=False) == EXIT_KIT_ERROR
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tickproof: kit-error: engine.toml: prepare: expected")
