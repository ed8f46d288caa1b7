"""Profiles: those that come with the kit, and what is wrong with others, in the file's words."""

import copy
import json
import tomllib

import pytest
import tomli_w

from tickproof.conformance import resources
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.profiles import Profile
from tickproof.conformance.scenario import Scenario
from tickproof.generators import recipes

FOLDER = resources.fixtures() / "profiles"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
PUBLISHED = ("wallaroo-175k", "wallaroo-3m", "wallaroo-3m-second", "wallaroo-3m-third")
CI = tomllib.loads((FOLDER / "ci.toml").read_text("utf-8"))
RECOVERY = tomllib.loads((FOLDER / "recovery.toml").read_text("utf-8"))


def changed(base, **tables):
    """Return a profile's data with keys of tables set, or removed where the value is None."""
    data = copy.deepcopy(base)
    for table, keys in tables.items():
        if keys is None:
            data.pop(table, None)
            continue
        for key, value in keys.items():
            if value is None:
                data[table].pop(key, None)
            else:
                data.setdefault(table, {})[key] = value
    return data


@pytest.fixture
def written(tmp_path):
    def write(data):
        path = tmp_path / "mine.toml"
        path.write_text(data if isinstance(data, str) else tomli_w.dumps(data), "utf-8")
        return path

    return write


def errors_of(path):
    with pytest.raises(InvalidFile) as caught:
        profiles.load(path)
    assert all(line.startswith(f"{path}: ") for line in str(caught.value).splitlines())
    return caught.value.errors


def test_the_profiles_of_the_kit_are_these_each_named_as_its_file():
    assert {*PUBLISHED, "bank-poc", "ci", "microbatch", "passthrough-1m", "recovery"} <= {*NAMES}
    assert tuple(one.name for one in profiles.available()) == NAMES
    assert [profiles.load(name).name for name in NAMES] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_survives_json(name):
    profile = profiles.load(name)
    data = json.loads(json.dumps(profile.to_json()))
    assert Profile.from_json(data) == profile
    assert {"name", "what", "source", "limits", "load"} <= data.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_is_the_profile_in_records_and_ticks(name):
    profile = profiles.load(name)
    load, scenario = profile.load, profile.scenario(7)
    seconds = load.warm_up_s + load.duration_s
    assert scenario.recipe["records"] == round(load.rate * seconds)
    assert scenario.recipe["tick"] * 1_000_000 == load.rate * load.tick_us
    assert scenario.recipe["seed"] == 7
    assert (scenario.name, scenario.rate, scenario.workers) == ("latency", load.rate, load.workers)
    assert (scenario.pace.tick_us, scenario.pace.warm_up_s) == (load.tick_us, load.warm_up_s)
    assert Scenario.from_json(json.loads(json.dumps(scenario.to_json()))) == scenario
    assert spec.load(resources.fixtures() / "engines" / "miniature").offers(
        scenario.app, scenario.params
    )


@pytest.mark.parametrize("name", ["ci", "microbatch", "passthrough-1m"])
def test_the_input_has_one_tick_for_each_tick_of_time(name, tmp_path):
    profile = profiles.load(name)
    fewer = profile.to_json()
    fewer["load"] |= {"duration_s": 1.0, "warm_up_s": 0.5}
    fewer["limits"] = {"p50": 1e6}
    scenario = Profile.from_json(fewer).scenario(1)
    built = recipes.build(scenario.recipe, tmp_path)
    assert len(built.plan) - 1 == 1.5e6 / profile.load.tick_us
    steps = built.plan.sum(axis=1)
    assert set((steps[1:] - steps[:-1]).tolist()) == {scenario.recipe["tick"]}


def test_probes_come_at_the_rate_that_was_asked_for(tmp_path):
    scenario = profiles.load("ci").scenario(3)
    built = recipes.build(scenario.recipe, tmp_path)
    tags = []
    for part in built.partitions:
        rows = part.path.read_bytes()
        size = 4 + part.record_size
        tags += [
            rows[at + size - 8 : at + size] for at in range(0, len(rows), size) if rows[at + 4] == 1
        ]
    probes = sum(tag[7] >> 7 for tag in tags)
    # 8 s of 1,000 probes; the market opens with a quote for each of its 350 symbols.
    assert 8_000 - 20 <= probes <= 8_000


def test_a_kill_becomes_a_fault_and_cores_become_those_of_the_pace():
    class Cores:
        kit, engine = (0,), (1, 2)

    scenario = profiles.load("recovery").scenario(1, Cores())
    (step,) = scenario.faults
    assert (step.do, step.target, step.at, step.fraction) == ("kill", "engine", "fetched", 0.4)
    assert (scenario.pace.kit_cores, scenario.pace.engine_cores) == ((0,), (1, 2))
    assert profiles.load("wallaroo-3m").scenario(1, Cores()).pace.priority == 50


def test_limits_come_in_the_order_of_the_percentiles(written):
    data = changed(CI)
    data["limits"] = {"p99": 3e5, "p50": 5e4}
    assert list(profiles.load(written(data)).limits) == ["p50", "p99"]


def test_another_rate_keeps_whole_ticks_and_probes():
    profile = profiles.load("ci")
    assert profile.rate_step == 2_000
    slower = profile.at_rate(6_000)
    assert slower.load.rate == 6_000
    assert slower.scenario(1).recipe["probe_one_in"] == 3
    assert profile.load.rate == 20_000
    with pytest.raises(InvalidFile, match="probes_per_s: expected a whole part of the orders"):
        profile.at_rate(7_000)
    assert profiles.load("microbatch").rate_step == 1_000


def test_the_published_tables():
    first, second, third = (
        profiles.load(f"wallaroo-3m{name}").limits for name in ("", "-second", "-third")
    )
    assert list(first.values()) == [130, 500, 500, 1_000, 1_000]
    assert list(second.values()) == [66, 500, 500, 500, 1_000]
    assert third == {"p50": 66, "p99": 260, "p99.99": 1_000}
    assert list(profiles.load("wallaroo-175k").limits.values()) == [2, 32, 66, 130, 1_000]
    for name in PUBLISHED:
        profile = profiles.load(name)
        assert profile.host.level == "P1" and profile.cores.kit + profile.cores.engine == 16
        assert "not end to end" in profile.source


@pytest.mark.parametrize("tables, line", [
    ({"load": {"rate": 22_000, "tick_us": 200}},
     "[load] rate: expected whole records in each tick of 200 us, a multiple of 5,000; "
     "got 22,000, 4.4 records a tick"),
    ({"load": {"rate": 1_000, "probes_per_s": 500, "tick_us": 200}},
     "[load] rate: expected whole records in each tick of 200 us, a multiple of 5,000; "
     "got 1,000, 0.2 records a tick"),
    ({"load": {"rate": 0}}, "[load] rate: expected a number at least 1; got 0"),
    ({"load": {"rate": 10_000_001}},
     "[load] rate: expected a number at most 10,000,000; got 10000001"),
    ({"load": {"rate": 2e4}}, "[load] rate: expected a whole number; got 20000.0"),
    ({"load": {"rate": True}}, "[load] rate: expected a whole number; got True"),
    ({"load": {"rate": None}}, "[load] rate: missing"),
    ({"load": {"tick_us": 99}}, "[load] tick_us: expected a number at least 100; got 99"),
    ({"load": {"warm_up_s": -1.0}}, "[load] warm_up_s: expected a number at least 0; got -1.0"),
    ({"load": {"warm_up_s": 1.0005}},
     "[load] warm_up_s: expected a whole number of ticks of 1,000 us; got 1,000.5"),
    ({"load": {"duration_s": 198.0, "tick_us": 100}},
     "[load] tick_us: expected at most 1,048,576 ticks in warm_up_s and duration_s; "
     "got 2,000,000"),
    ({"load": {"duration_s": float("inf")}},
     "[load] duration_s: expected a finite number; got inf"),
    ({"load": {"app": "pass"}},
     "[load] app: expected one of passthrough, double, count, market-spread; got 'pass'"),
    ({"load": {"speed": 1}},
     "[load] speed: unknown key; expected one of app, rate, tick_us, partitions, "
     "workers, probes_per_s, symbols, duration_s, warm_up_s, or a table: params"),
    ({"load": {"params": {"inputs": "merged", "emit": "all"}, "probes_per_s": None}},
     "[load.params] emit: expected one of rejects, verdicts; got 'all'"),
    ({"load": {"params": {"emit": "verdicts"}, "probes_per_s": None}},
     "[load.params] inputs: expected one of merged, two; got nothing"),
    ({"load": {"probes_per_s": None}},
     "[load] probes_per_s: missing; required with emit = rejects, which answers too few "
     "records to measure"),
    ({"load": {"params": {"inputs": "merged", "emit": "verdicts"}}},
     "[load] probes_per_s: expected only with app market-spread and emit = rejects"),
    ({"load": {"probes_per_s": 999}},
     "[load] probes_per_s: expected a whole part of the orders, which are half of the rate: "
     "10,000 a second; got 999"),
    ({"limits": {"p98": 1e6}},
     "[limits] p98: unknown percentile; expected one of p50, p90, p95, p99, p99.9, p99.99"),
    ({"limits": {"max": 1e6}},
     "[limits] max: unknown percentile; expected one of p50, p90, p95, p99, p99.9, p99.99"),
    ({"limits": {"p99": 49_000}},
     "[limits] p99: expected at least the limit of p50, 50 ms; got 49 ms"),
    ({"limits": {"p99": 0}}, "[limits] p99: expected a number above 0; got 0"),
    ({"limits": {"p99.99": 1e6}},
     "[limits] p99.99: needs 29,956 samples a run; duration_s 6 gives 6,000, 1,000 a second"),
    ({"runs": {"least": 4}}, "[runs] least: expected a number at least 5; got 4"),
    ({"runs": {"most": 5}}, "[runs] most: expected a number at least 6; got 5"),
    ({"runs": {"least": 10}}, "[runs] most: expected at least least, 10; got 9"),
    ({"runs": {"most": 31}}, "[runs] most: expected a number at most 30; got 31"),
    ({"host": {"level": "P3"}}, "[host] level: expected one of none, P0, P1, P2; got 'P3'"),
    ({"host": {"noisy": 1.5}}, "[host] noisy: expected a number at most 1; got 1.5"),
    ({"cores": {"kit": 0, "engine": 1}}, "[cores] kit: expected a number at least 1; got 0"),
    ({"generator": None}, "[generator]: missing"),
    ({"profile": {"name": "../x"}},
     "[profile] name: expected 1 to 40 lower-case letters, digits and hyphens, the first no "
     "hyphen; got '../x'"),
    ({"extra": {"a": 1}},
     "[extra]: unknown key; expected one of profile, load, runs, limits, recovering, "
     "generator, host, cores"),
])  # fmt: skip
def test_a_wrong_profile_is_refused_in_its_own_words(written, tables, line):
    assert errors_of(written(changed(CI, **tables))) == [line]


@pytest.mark.parametrize("tables, line", [
    ({"recovering": {"at": None}}, "[recovering] at: missing"),
    ({"recovering": {"at": 1.0}}, "[recovering] at: expected a number below 1; got 1.0"),
    ({"recovering": {"kill": "source"}},
     "[recovering] kill: expected one of worker, workers, coordinator, engine; got 'source'"),
    ({"recovering": {"at": 0.09}},
     "[recovering] at: expected a kill after the warm-up, above 0.0909; got 0.09"),
    ({"recovering": {"at": 0.6}},
     "[recovering] within_s: expected less than what is left after the kill, 8.8 s; got 10"),
    ({"limits": {"p99": None}},
     "[limits] p99: missing; [recovering] ends when p99 is back under it"),
    ({"load": {"rate": 1_000}, "limits": {"p99.99": 1e6}},
     "[limits] p99.99: needs 29,956 samples a run; duration_s 20 less within_s 10 gives "
     "10,000, 1,000 a second"),
    ({"load": {"params": {}}},
     "[load.params] emit: expected one of every, some; got nothing"),
    ({"load": {"symbols": 5}},
     "[load] symbols: expected only with app market-spread; got count"),
    ({"load": {"params": {"emit": "every", "inputs": "two"}}},
     "[load.params] inputs: unknown param of count; expected emit"),
])  # fmt: skip
def test_a_wrong_profile_with_a_kill_is_refused_in_its_own_words(written, tables, line):
    assert errors_of(written(changed(RECOVERY, **tables))) == [line]


def test_every_error_is_told_at_once(written):
    tables = {"load": {"tick_us": 130}, "limits": {"p99": 1.0}, "runs": {"least": 10}}
    found = errors_of(written(changed(CI, **tables)))
    where = ["[load] rate", "[load] duration_s", "[load] warm_up_s", "[limits] p99", "[runs] most"]
    assert [line.split(":")[0] for line in found] == where


def test_what_is_no_profile_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidFile, match=r"no-such.*one of bank-poc, ci, .*") as caught:
        profiles.load("no-such")
    assert "did you mean" not in str(caught.value)
    with pytest.raises(InvalidFile, match=r"did you mean microbatch\?"):
        profiles.load("microbatches")
    assert errors_of(tmp_path / "none.toml") == ["there is no such file"]
    assert errors_of(tmp_path) == ["expected a readable file; Is a directory"]


@pytest.mark.parametrize("content, line", [
    (b"a = ", "expected TOML; "), (b"\xff", "expected UTF-8; byte 0 is not"),
    (b"", "[profile]: missing"),
])  # fmt: skip
def test_what_cannot_be_read_is_said_so(tmp_path, content, line):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    assert errors_of(path)[0].startswith(line)


def test_a_file_of_that_name_is_found_where_no_profile_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = changed(CI, profile={"name": "mine"})
    (tmp_path / "mine.toml").write_text(tomli_w.dumps(data), "utf-8")
    assert profiles.load("mine.toml").name == "mine"


def test_text_of_a_profile_is_made_safe(written):
    (line,) = errors_of(written(changed(CI, load={"app": "\x1b[31m"})))
    assert "\x1b" not in line
