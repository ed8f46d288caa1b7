"""The selftest judges the kit: a mutant that is none, a sound engine that is not, really run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.long import LONG
from tests.machine import needs, no_shared_memory
from tests.selftest.houses import DEFECT, HARMLESS, house, mutant, sound_variant
from tickproof.conformance import resources
from tickproof.conformance.cli import main
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_KIT_ERROR, EXIT_OK, EXIT_USAGE

pytestmark = needs(no_shared_memory())


@pytest.fixture
def fixtures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = house(tmp_path / "fixtures")
    monkeypatch.setattr(resources, "fixtures", lambda: folder)
    monkeypatch.chdir(tmp_path)
    return folder


def selftest(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main.main(["selftest", "--out", "out", "-n", "2", *arguments])
    return stopped.value.code


def report() -> dict:
    return json.loads(Path("out/selftest.json").read_text("utf-8"))


def test_a_mutant_is_killed_and_its_run_is_dropped(fixtures: Path) -> None:
    mutant(fixtures, "wrong-app", DEFECT)
    assert selftest("--only", "wrong-app") == EXIT_OK
    made = report()
    assert (made["killed"], made["mutants"], made["survivors"]) == (1, 1, [])
    assert [trial["run"] for trial in made["trials"]] == [""]
    assert not Path("out/runs/wrong-app").exists()


def test_a_mutant_that_is_none_survives(fixtures: Path, capsys) -> None:
    mutant(fixtures, "no-mutant", HARMLESS)
    mutant(fixtures, "wrong-app", DEFECT)
    assert selftest("--only", "no-mutant,wrong-app") == EXIT_FAIL
    made = report()
    assert made["survivors"] == ["no-mutant"]
    assert (made["killed"], made["mutants"]) == (1, 2)
    # Nothing has killed it: it was played once more, alone.
    kept, again = [trial["run"] for trial in made["trials"] if trial["run"]]
    assert kept == again
    assert Path("out", kept, "run.json").is_file()
    said = capsys.readouterr().out
    assert "no-mutant: SL-DOUBLE says pass" in said
    assert "1 of 2 mutants killed, score 50 %" in said


@LONG
def test_a_mutant_must_fail_by_what_it_shows(fixtures: Path) -> None:
    mutant(fixtures, "wrong-words", DEFECT, shows='"something else"')
    assert selftest("--only", "wrong-words") == EXIT_FAIL
    (subject,) = report()["subjects"]
    assert (subject["kills"][0]["verdict"], subject["kills"][0]["killed"]) == ("fail", False)


@LONG
def test_each_requirement_that_a_mutant_names_must_fail(fixtures: Path) -> None:
    mutant(fixtures, "half-killed", DEFECT, also='["SL-DOUBLE-WRAPS", "PR-EMPTY-INPUT"]')
    assert selftest("--only", "half-killed") == EXIT_FAIL
    (subject,) = report()["subjects"]
    assert {kill["requirement"]: kill["killed"] for kill in subject["kills"]} == {
        "SL-DOUBLE": True,
        "SL-DOUBLE-WRAPS": True,
        "PR-EMPTY-INPUT": False,
    }


def test_a_sound_engine_with_a_defect_is_reported(fixtures: Path) -> None:
    sound_variant(fixtures, "harmless", HARMLESS)
    sound_variant(fixtures, "defective", DEFECT)
    assert selftest("--sound", "--only", "harmless,defective") == EXIT_FAIL
    accused = report()["accused"]
    assert accused
    assert all(line.startswith("defective: SL-DOUBLE") for line in accused)
    kept = {trial["subject"]: bool(trial["run"]) for trial in report()["trials"]}
    assert kept == {"harmless": False, "defective": True}


@LONG
def test_a_sound_engine_that_claims_too_little_is_reported(fixtures: Path) -> None:
    less = ("engine.toml", "[apps.double]\n", "")
    sound_variant(fixtures, "offers-less", less)
    sound_variant(fixtures, "says-so", less, not_claimed='["SL-DOUBLE*"]')
    assert selftest("--sound", "--only", "offers-less,says-so") == EXIT_FAIL
    assert {line.partition(":")[0] for line in report()["accused"]} == {"offers-less"}
    assert report()["runs"] == 0


@LONG
def test_rounds_go_on_until_there_are_enough_runs(fixtures: Path) -> None:
    sound_variant(fixtures, "harmless", HARMLESS)
    assert selftest("--sound", "--only", "harmless", "--runs", "3", "--seed", "5") == EXIT_OK
    made = report()
    assert made["runs"] == 3
    assert sorted(trial["seed"] for trial in made["trials"]) == [5, 6, 7]


def test_an_engine_that_cannot_be_tried_is_a_kit_error(fixtures: Path, monkeypatch) -> None:
    from tickproof.conformance.selftest import mutants

    sound_variant(fixtures, "gone", HARMLESS)
    make = mutants.make

    def made_and_lost(*arguments):
        toml = make(*arguments)
        toml.unlink()
        return toml

    monkeypatch.setattr(mutants, "make", made_and_lost)
    assert selftest("--sound", "--only", "gone") == EXIT_KIT_ERROR
    assert "InvalidFile" in report()["broken"][0]


@pytest.mark.parametrize(
    "arguments", [("--only", "no-such-mutant"), ("--part", "--only", "wrong-app")]
)
def test_wrong_usage_starts_nothing(fixtures: Path, arguments: tuple[str, ...]) -> None:
    mutant(fixtures, "wrong-app", DEFECT)
    assert selftest(*arguments) == EXIT_USAGE
    assert not Path("out/selftest.json").exists()
