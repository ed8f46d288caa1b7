"""`tickproof mutate`, really run: the control, three mutants, what survives and what is listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.long import LONG
from tests.machine import no_shared_memory
from tests.selftest.houses import house
from tickproof.conformance import resources
from tickproof.conformance.cli import main
from tickproof.conformance.selftest.mutation import equivalents, judge, session, source
from tickproof.conformance.selftest.mutation.results import Head, Results
from tickproof.conformance.selftest.trial import tests_of
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import EXIT_FAIL, EXIT_NOT_JUDGED, EXIT_OK, EXIT_USAGE

LISTED = """
[[equivalent]]
file = "adapter.py"
line = "SPARE = 1"
becomes = ["SPARE = 2", "SPARE = 0"]
reason = "nothing reads it"
"""


@pytest.fixture
def minimal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the minimal engine with a line that means nothing; return its adapter."""
    if missing := no_shared_memory():
        pytest.skip(missing)
    folder = house(tmp_path / "fixtures")
    monkeypatch.setattr(resources, "fixtures", lambda: folder)
    monkeypatch.chdir(tmp_path)
    adapter = folder / "engines" / "minimal" / "adapter.py"
    adapter.write_text(adapter.read_text().replace("\nMASK =", "\nSPARE = 1\nMASK ="))
    return adapter


def mutate(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main.main(["mutate", "minimal", "--out", "out", "-n", "2", *arguments])
    return stopped.value.code


def lines() -> list[dict]:
    text = Path("out/minimal/mutants.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def line_of(adapter: Path, text: str) -> int:
    return adapter.read_text().splitlines().index(text) + 1


@LONG
def test_mutants_are_killed_or_survive_and_a_run_goes_on(
    minimal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_double = line_of(minimal, "SPARE = 1"), line_of(minimal, "MASK = 2**64 - 1  # integers wrap")
    only = "--only", "SL-DOUBLE"
    assert (
        mutate(*only, "--match", f"*:{of_double[1]}:NumberReplacer:*", "--sample", "1") == EXIT_OK
    )
    head, control, killed = lines()
    assert (head["engine"], control, killed["fate"]) == ("minimal", {"control": 1}, "killed")
    assert killed["requirement"] == "SL-DOUBLE" and killed["old"].startswith("MASK =")
    assert mutate(*only, "--match", f"*:{of_double[0]}:*") == EXIT_FAIL
    assert [line["fate"] for line in lines()[3:]] == ["survived"] * 2
    assert "-SPARE = 1" in Path("out/minimal/mutants.md").read_text()
    assert list(Path("out/minimal/work").iterdir()) == []
    listed = resources.fixtures() / "equivalents" / "minimal.toml"
    listed.parent.mkdir()
    listed.write_text(LISTED)
    capsys.readouterr()
    assert mutate(*only, "--sample", "0") == EXIT_OK  # judges nothing, and says what is known
    assert "1 of 3 mutants killed, 2 equivalent, 0 survived: score 100 %" in capsys.readouterr().out
    assert len(lines()) == 5


@LONG
def test_what_the_first_scenarios_do_not_kill_faces_all_of_them(
    minimal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "FIRST", 1)
    listed = resources.fixtures() / "equivalents" / "minimal.toml"
    listed.parent.mkdir()
    listed.write_text(LISTED.replace(', "SPARE = 0"', ""))
    only = "--only", "SL-PASSTHROUGH,SL-DOUBLE"
    # So passthrough, which does not kill the mutant, is the first of the two.
    monkeypatch.setattr(session.random.Random, "shuffle", lambda _, order: None)
    mask = line_of(minimal, "MASK = 2**64 - 1  # integers wrap")
    spare = line_of(minimal, "SPARE = 1")
    assert mutate(*only, "--match", f"*:{mask}:NumberReplacer:*", "--sample", "1") == EXIT_OK
    assert [(line["fate"], line["played"]) for line in lines()[2:]] == [
        ("survived", 1),
        ("killed", 2),
    ]
    assert mutate(*only, "--match", f"*:{spare}:*") == EXIT_FAIL
    played = [(line["new"], line["played"]) for line in lines()[4:]]
    assert sorted(played) == [("SPARE = 0", 1), ("SPARE = 0", 2), ("SPARE = 2", 1)]


def test_a_file_that_is_left_out_makes_no_mutants(
    minimal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = resources.fixtures() / "equivalents" / "minimal.toml"
    listed.parent.mkdir()
    listed.write_text('[left_out]\n"adapter.py" = "why not"\n')
    assert mutate("--only", "SL-DOUBLE") == EXIT_NOT_JUDGED
    assert "0 of 0 mutants killed" in capsys.readouterr().out
    listed.write_text('[left_out]\n"adaptor.py" = "why not"\n')
    assert mutate("--only", "SL-DOUBLE") == EXIT_USAGE
    assert "adaptor.py" in capsys.readouterr().err


@LONG
def test_an_engine_that_does_not_pass_is_not_mutated(
    minimal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    minimal.write_text(minimal.read_text().replace("2 * x & MASK", "3 * x & MASK"))
    assert mutate("--only", "SL-DOUBLE", "--sample", "1") == EXIT_USAGE
    assert "minimal, as it is, does not pass: SL-DOUBLE killed" in capsys.readouterr().err


@pytest.mark.parametrize("transport", ["log", "kafka"])
def test_a_mutant_is_judged_by_what_applies_to_its_engine(transport: str) -> None:
    known = registry.load()
    for scenario in judge.scenarios(transport):
        judges = tests_of(transport=transport)[scenario]
        assert all(known[one].needs.applies_over(transport) for one, _ in judges)
    kafka = [name for name in judge.scenarios(transport) if name.startswith("kafka-")]
    assert bool(kafka) == (transport == "kafka")


@pytest.mark.parametrize("engine", ["miniature", "single"])
def test_the_lists_of_equivalents_quote_lines_of_the_engine(engine: str) -> None:
    folder = resources.fixtures() / "engines" / engine
    known = equivalents.load(engine, resources.fixtures())
    assert known.equivalent
    for entry in known.equivalent:
        assert entry.line in (folder / entry.file).read_text(), entry


@LONG
@pytest.mark.parametrize("engine", ["miniature", "single"])
def test_the_lists_of_equivalents_name_mutants(engine: str, tmp_path: Path) -> None:
    folder = resources.fixtures() / "engines" / engine
    known = equivalents.load(engine, resources.fixtures())
    nothing = Results(tmp_path / "mutants.jsonl", Head(engine=engine, sources="", seed=1, only=[]))
    assert list(equivalents.stale(known, source.mutations(folder), nothing)) == []
