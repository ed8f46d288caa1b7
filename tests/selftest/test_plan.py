"""What a selftest tries: a part, the order, requirements without a mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.selftest.houses import DEFECT, HARMLESS, house, mutant, sound_variant
from tickproof.conformance.errors import RequestError
from tickproof.conformance.resources import fixtures
from tickproof.conformance.selftest import mutants, plan
from tickproof.conformance.selftest.mutants import Edit, Mutant
from tickproof.conformance.suites import registry


@pytest.fixture(autouse=True)
def hosts_may_be_made(monkeypatch) -> None:
    """Plan for a machine that can have hosts, whatever this one can: nothing is started here."""
    monkeypatch.setattr(plan.network, "obstacle", lambda: "")


def made(id_: str, *breaks: str) -> Mutant:
    edit = [Edit(file="apps.py", old="a", new="b")]
    first, *also = breaks
    return Mutant(
        id=id_, defect="d", requirement=first, shows="s", headline="h", also=also, edit=edit
    )


def ids(found: list[Mutant]) -> list[str]:
    return [mutant.id for mutant in found]


def test_a_part_covers_each_requirement_with_few() -> None:
    few = [
        made("a", "SL-DOUBLE"),
        made("b", "ST-TOTALS"),
        made("c", "SL-DOUBLE-WRAPS"),
        made("d", "SL-DOUBLE", "ST-TOTALS"),
        made("e", "ST-WRAPS"),
    ]
    part = plan.covering(few)
    assert ids(part) == ["c", "d", "e"]
    assert ids(plan.covering(few[::-1])) == ids(part)


def test_each_of_several_equals_gets_its_turn() -> None:
    equals = [made(f"m{number}", "SL-DOUBLE") for number in range(9)]
    turns = [ids(plan.covering(equals, seed)) for seed in range(9)]
    assert sorted(turns) == [[mutant.id] for mutant in equals]


@pytest.mark.parametrize("seed", [1, 2, 50])
def test_a_part_of_all_mutants_covers_every_requirement(seed: int) -> None:
    timed = {one.id for one in registry.load().values() if one.tier == registry.LATENCY_TIER}
    everything = [m for m in mutants.available(fixtures()) if m.requirement not in timed]
    part = plan.covering(everything, seed)
    assert len(part) <= len(everything) / 2
    covered = {requirement for mutant in part for requirement in mutant.breaks}
    assert covered == {requirement for mutant in everything for requirement in mutant.breaks}


def test_a_part_of_nothing_is_nothing() -> None:
    assert plan.covering([]) == []


def test_every_requirement_has_a_mutant() -> None:
    assert plan.without_mutant(mutants.available(fixtures())) == []


def test_a_requirement_without_a_mutant_is_named() -> None:
    missing = plan.without_mutant([made("a", "SL-DOUBLE", "ST-TOTALS")])
    assert set(missing) == registry.load().keys() - {"SL-DOUBLE", "ST-TOTALS"}


def test_sound_variants_name_what_exists() -> None:
    known = registry.load()
    for variant in mutants.sound_variants(fixtures()):
        for pattern in (*variant.not_claimed, *variant.undecided):
            assert pattern.endswith("*") or pattern in known, (variant.id, pattern)


def test_a_mutant_plays_the_scenarios_of_what_it_names_only(tmp_path: Path) -> None:
    folder = house(tmp_path / "fixtures")
    mutant(folder, "wrong-app", DEFECT)
    sound_variant(folder, "harmless", HARMLESS)
    engines = {engine.id: engine for engine in plan.chosen(folder, tmp_path / "out")}
    assert engines.keys() == {"wrong-app", "harmless", *plan.SOUND} - {*plan.KAFKA}
    assert engines["wrong-app"].scenarios == ("double",)
    assert set(engines["harmless"].scenarios) <= {"double"}
    assert len(engines["miniature"].scenarios) > 30
    (alone,) = plan.chosen(folder, tmp_path / "out", only=("harmless",))
    assert alone.scenarios == ("double",)


def test_spark_is_tried_on_what_fails_its_mutants(tmp_path: Path) -> None:
    engines = plan.chosen(fixtures(), tmp_path, base=plan.SPARK)
    spark = next(engine for engine in engines if engine.id == plan.SPARK)
    of_mutants = {name for e in engines if e.mutant for name in e.scenarios}
    assert set(spark.scenarios) == of_mutants
    assert len(engines) > 3


@pytest.mark.parametrize(("asked", "share"), [({}, 4), ({"sound": True}, 1)])
def test_sound_variants_share_the_scenarios(tmp_path: Path, asked: dict, share: int) -> None:
    engines = [
        e
        for e in plan.chosen(fixtures(), tmp_path, base="miniature", **asked)
        if e.variant and not e.variant.apps
    ]
    assert len(engines) > share
    everything = {
        scenario for scenario in plan.tests_of(transport="log") if not plan.alone(scenario)
    }
    assert set().union(*(engine.scenarios for engine in engines)) == everything
    assert all(len(e.scenarios) <= len(everything) // share + 1 for e in engines)


def test_sound_engines_of_a_part_play_a_few_scenarios_and_all_of_them_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "SHARE_OF_PART", 12)
    folder = house(tmp_path / "fixtures")
    mutant(folder, "wrong-app", DEFECT)
    sound_variant(folder, "harmless", HARMLESS)
    played = {"single": set(), "harmless": set()}
    for seed in range(plan.SHARE_OF_PART):
        engines = {e.id: e for e in plan.chosen(folder, tmp_path / "out", part=True, seed=seed)}
        assert engines.keys() == {"wrong-app", "harmless", *plan.SOUND} - {*plan.KAFKA}
        for name, seen in played.items():
            assert 0 < len(engines[name].scenarios) <= 10
            seen.update(engines[name].scenarios)
    assert played["single"] == {
        one for one in plan.tests_of(transport="log") if not plan.alone(one)
    }
    assert played["harmless"] == {"double"}


def test_a_part_of_sound_engines_has_no_mutants(tmp_path: Path) -> None:
    folder = house(tmp_path / "fixtures")
    mutant(folder, "wrong-app", DEFECT)
    both = plan.chosen(folder, tmp_path / "out", part=True)
    sound = plan.chosen(folder, tmp_path / "out", part=True, sound=True)
    assert sound == [engine for engine in both if engine.mutant is None] != []


def test_rounds_begin_with_the_longest_and_repeat_sound_engines_only(tmp_path: Path) -> None:
    folder = house(tmp_path / "fixtures")
    mutant(folder, "wrong-app", DEFECT)
    engines = plan.chosen(folder, tmp_path / "out", only=("wrong-app", "miniature"))
    rounds = plan.rounds(engines, tmp_path / "runs", seed=3)
    first, second = next(rounds), next(rounds)
    lengths = [plan.seconds_of(task.scenario, "miniature") for task in first]
    assert lengths == sorted(lengths, reverse=True)
    assert {task.subject for task in first} == {"wrong-app", "miniature"}
    assert {(task.subject, task.seed) for task in second} == {("miniature", 4)}
    assert len({(task.folder, task.scenario) for task in first + second}) == len(first + second)


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"only": ["none"]}, "--only: no mutant, sound variant or sound engine none"),
     ({"only": ["wrong-app"], "sound": True}, "nothing is in all of them"),
     ({"only": ["wrong-app"], "base": "spark"}, "nothing is in all of them")],
)  # fmt: skip
def test_what_cannot_be_met_is_refused(tmp_path: Path, asked: dict, said: str) -> None:
    folder = house(tmp_path / "fixtures")
    mutant(folder, "wrong-app", DEFECT)
    with pytest.raises(RequestError, match=said):
        plan.chosen(folder, tmp_path / "out", **asked)


def test_without_hosts_nothing_is_tried_on_them(tmp_path: Path, monkeypatch) -> None:
    asked = {"only": ["hosts-on-the-first", "miniature"]}
    monkeypatch.setattr(plan.network, "obstacle", lambda: "")
    with_hosts = plan.chosen(fixtures(), tmp_path, **asked)
    assert [one.id for one in with_hosts] == ["hosts-on-the-first", "miniature"]
    assert any(map(plan.on_hosts, with_hosts[1].scenarios))
    monkeypatch.setattr(plan.network, "obstacle", lambda: "no rights")
    (sound,) = plan.chosen(fixtures(), tmp_path, **asked)
    assert sound.id == "miniature" and not any(map(plan.on_hosts, sound.scenarios))


def test_as_many_trials_go_on_as_the_engine_bears_that_bears_most(monkeypatch) -> None:
    monkeypatch.setattr(plan.machine, "usable_cpus", lambda: 2)
    monkeypatch.setattr(plan.machine, "memory_bytes", lambda: 1 << 40)
    folder = fixtures() / "engines"
    slow, quick = (
        plan.Engine(name, folder / name / "engine.toml", name, ())
        for name in ("spark", "miniature")
    )
    assert plan.runs_at_once([slow]) == plan.machine.runs_at_once(1) == 2
    assert plan.runs_at_once([slow, quick]) == plan.machine.runs_at_once() > 2
