"""The language of schedules: what is written reads as itself, and what is wrong is named."""

from __future__ import annotations

import json
import string
from dataclasses import fields, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import ValidationError

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.explore import generation
from tickproof.conformance.fault_steps import DAMAGE, KINDS, LOSSES, FaultStep, LateStep, Row
from tickproof.conformance.faults import regressions, schedule_file
from tickproof.conformance.faults.error_answer import ERRORS_OF
from tickproof.conformance.faults.schedule_file import Failure, Input, Schedule, Step
from tickproof.conformance.faults.space.dimensions import Carrier
from tickproof.conformance.faults.space.offers import Offer
from tickproof.conformance.scenario import SinkBehaviour
from tickproof.conformance.suites.catalog import CATALOG, draw
from tickproof.conformance.suites.scenarios import Context
from tickproof.generators.choices import EVENT_TIMES, KEY_SHAPES

MOMENTS = ("fetched", "losing", "staged", "accepted", "committing", "checkpoint")
SHARES = st.floats(0, 1)
ANSWERS = st.sampled_from(
    [{"request": request, "error": one} for request, some in ERRORS_OF.items() for one in some]
)
SECONDS = st.floats(0.001, 3_600)
APPS = {
    "passthrough": [{}],
    "double": [{}],
    "count": [{"emit": "every"}, {"emit": "some"}],
    "market-spread": [
        {"inputs": i, "emit": e} for i in ("merged", "two") for e in ("rejects", "verdicts")
    ],
}
CONTENT = {
    "passthrough": {"size": st.integers(1, 1 << 20)},
    "double": {},
    "count": {"keys": st.integers(1, 2**24), "hot_share": SHARES, "hot_keys": SHARES,
              "edge_keys": st.booleans(), "wrap": st.booleans(), "units": st.booleans(),
              "key_shape": st.sampled_from(KEY_SHAPES)},
    "market-spread": {"symbols": st.integers(1, 3_000), "hot_share": SHARES,
                      "hot_symbols": SHARES, "reject_one_in": st.integers(0, 2**32),
                      "crossed": st.booleans(),
                      "event_times": st.sampled_from(EVENT_TIMES)},
}  # fmt: skip
NEEDED = {"passthrough": {"size": 24}}
#: What an engine says of itself, without what UTF-8 cannot hold.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


#: Of fields that only some kinds have.
VALUES = {
    "seconds": SECONDS,
    "lag_s": SECONDS,
    "rate": SECONDS,
    "down_s": SECONDS,
    "alone_s": SECONDS,
    "grace_s": SECONDS,
    "workers": st.integers(1, 1_024),
    "share": st.floats(0.01, 1),
    "damage": st.sampled_from(list(DAMAGE)),
    "loss": st.sampled_from(list(LOSSES)),
    "host": st.sampled_from(("", "host-3", "host-12")),
    "peer": st.sampled_from(("", "log", "host-2")),
    "way": st.sampled_from(("both", "out", "in")),
}


@st.composite
def steps(draw):
    """Draw a step of any kind that a schedule can say."""
    do, target = draw(st.sampled_from(sorted(KINDS)))
    kind = KINDS[do, target]
    own = {one.name: draw(VALUES[one.name]) for one in fields(kind) if one.name in VALUES}
    return kind(
        draw(st.sampled_from(MOMENTS)),
        target=target,
        fraction=draw(SHARES),
        burst=draw(st.integers(0, 2**32)),
        cut=draw(st.booleans()),
        delay_s=draw(st.floats(0, 10)),
        **own | (draw(ANSWERS) if do == "error" else {}),
    )


def rows():
    return steps().map(lambda step: Step(**step.to_json()))


@given(steps())
def test_a_step_reads_as_itself_from_its_row_and_from_what_differs_from_the_defaults(step):
    row = json.loads(json.dumps(step.to_json()))
    assert list(row) == list(Row.model_fields)
    assert FaultStep.from_json(row) == step
    said = {key: value for key, value in row.items() if value != Row.model_fields[key].default}
    assert FaultStep.from_json(said) == step
    assert Step(**row).step() == step


@given(steps(), st.sampled_from(sorted(VALUES)))
def test_a_field_that_a_kind_does_not_have_cannot_be_written(step, key):
    assume(key not in {one.name for one in fields(step)})
    value = {"damage": "bit", "loss": "all", "way": "in", "host": "host-2", "peer": "log"}
    row = step.to_json() | {key: value.get(key, 1)}
    with pytest.raises(TypeError, match=key):
        replace(step, **{key: row[key]})
    with pytest.raises(ValidationError, match="only with"):
        FaultStep.from_json(row)


@pytest.mark.parametrize(("do", "target"), [("kill", "sink"), ("late", "source"), ("cut", "host")])
def test_what_cannot_be_done_to_a_target_is_no_step(do, target):
    with pytest.raises(ValidationError, match="one of"):
        FaultStep.from_json({"do": do, "target": target, "at": "fetched"})
    with pytest.raises(ValueError, match="not one of its targets"):
        LateStep("fetched", target="source")


@st.composite
def schedules(draw):
    app = draw(st.sampled_from(sorted(APPS)))
    content = draw(st.fixed_dictionaries({}, optional=CONTENT[app]))
    content |= draw(
        st.fixed_dictionaries(
            {"records": st.integers(0, 2**32)},
            optional={
                "partitions": st.integers(1, 4_096),
                "tick": st.integers(1, 2**32),
                "skew": SHARES,
            },
        )
    )
    some = st.lists(st.integers(1, content.get("partitions", 1)), unique=True, max_size=5)
    content |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                key: some.map(lambda counted: [number - 1 for number in counted if number > 1])
                for key in ("empty", "ended_early")
            },
        )
    )
    failure = st.builds(
        Failure,
        engine=TEXT,
        reason=TEXT,
        actual=TEXT,
        confidence=st.just("3 of 3"),
        seed=st.integers(0, 2**63 - 1),
    )
    return Schedule(
        app=app,
        params=draw(st.sampled_from(APPS[app])),
        workers=draw(st.integers(1, 1_024)),
        seed=draw(st.integers(0, 2**63 - 1)),
        secret=draw(st.none() | st.from_regex("[0-9a-f]{1,32}", fullmatch=True)),
        rate=draw(st.none() | st.floats(0.1, 1e9)),
        input=Input(**(NEEDED.get(app, {}) | content)),
        fault=draw(st.lists(rows(), max_size=7)),
        failure=draw(st.none() | failure),
    )


@given(schedules())
def test_what_is_written_reads_as_itself(schedule):
    assert schedule_file.parse(schedule_file.to_toml(schedule), "it") == schedule
    as_json = json.dumps(schedule.model_dump(exclude_none=True))
    assert schedule_file.parse(as_json, "it", as_json=True) == schedule


@given(schedules())
def test_scenario_of_a_schedule_has_all_of_it(schedule):
    scenario = schedule_file.to_scenario(schedule, "x")
    again = schedule_file.from_scenario(scenario, schedule.failure)
    filled = schedule.input.model_copy(update={"tick": again.input.tick})
    assert again == schedule.model_copy(update={"input": filled})
    assert schedule_file.to_scenario(again, "x") == scenario


@given(
    generation.scenarios([Offer(carrier, ("worker", "engine"), scales=True) for carrier in Carrier])
)
def test_generated_scenarios_can_be_said(scenario):
    text = schedule_file.to_toml(schedule_file.from_scenario(scenario))
    read = schedule_file.to_scenario(schedule_file.parse(text, "it"), "x")
    assert read == replace(scenario, name="schedule-x")


def test_scenarios_of_the_catalog_with_faults_can_be_said():
    said = 0
    for name in CATALOG:
        drawn = draw(name, Context(1, freshness_s=5.0))
        plain = replace(drawn, sink=replace(drawn.sink, seed=0), point={})
        paced = drawn.pace or drawn.drain_at is not None
        if not drawn.faults or plain.sink != SinkBehaviour() or paced or drawn.checkpoints:
            continue
        said += 1
        text = schedule_file.to_toml(schedule_file.from_scenario(drawn))
        read = schedule_file.to_scenario(schedule_file.parse(text, "it"), "x")
        assert replace(read, name=name) == plain
    assert said >= 10


def test_scenario_that_a_schedule_cannot_say_is_refused():
    drawn = draw("passthrough-drain-first", Context(1))
    with pytest.raises(
        ValueError, match="drain_at, ending, probes, checkpoints, fresh, pace cannot"
    ):
        schedule_file.from_scenario(drawn)
    with pytest.raises(ValueError, match="'script' cannot be said"):
        schedule_file.from_scenario(draw("market-boundaries", Context(1)))


BASE = 'app = "count"\nparams = { emit = "every" }\n'
INPUT = BASE + "input = { records = 10 }\n"
PARTED = '[[fault]]\ndo = "partition"\ntarget = "host"\nat = "fetched"\nseconds = 1.0\n'
KILL = '[[fault]]\ndo = "kill"\ntarget = "engine"\n'
ERROR = '[[fault]]\ndo = "error"\ntarget = "sink"\nat = "accepted"\nseconds = 1.0\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("app = ", "f.toml: expected TOML; "),
        ("app = 1\ninput = { records = 1 }", "f.toml: app: expected one of passthrough, double, "),
        ('app = "ladder"\ninput = { records = 1 }', "app: expected one of passthrough, double, "),
        (BASE, "f.toml: [input]: missing"),
        (BASE + "input = 3", "f.toml: [input]: expected a table; got 3"),
        (BASE + "input = { records = -1 }", "[input] records: expected a number at least 0"),
        (BASE + "input = { records = 1, colour = 2 }", "[input] colour: unknown key; expected one"),
        (INPUT + KILL + 'at = "fetched"\ndamage = "bit"\n',
         "[[fault]] 1: damage: expected only with corrupt; got 'bit'"),
        (INPUT + KILL + 'at = "fetched"\nloss = "all"\n',
         "[[fault]] 1: loss: expected only with power; got 'all'"),
        (INPUT + '[[fault]]\ndo = "corrupt"\ntarget = "state"\nat = "fetched"\ndamage = "x"\n',
         "[[fault]] 1: damage: expected one of half, tail, empty, bit, bit-head, bit-middle, "
         "bit-last, garbage, missing, rot; got 'x'"),
        (BASE + "input = { records = 1, empty = [1] }",
         "f.toml: [input] empty: expected partitions 0 to 0; got [1]"),
        (BASE + "input = { records = 9, partitions = 2, ended_early = [0, 1] }",
         "[input] ended_early: expected at least one partition that has records left out; got [0"),
        (BASE + "input = { records = 1, partitions = 2, empty = [0, 1] }",
         "empty: expected at least one of 2 partitions left out"),
        (BASE + 'input = { records = 1, key_shape = "flat" }',
         "[input] key_shape: expected one of spread, dense, same-low-32, same-low-16, limits"),
        (BASE + "input = { records = 1, size = 8 }", "[input] size: expected one of records, "),
        ('app = "passthrough"\ninput = { records = 1 }', "[input] size: expected a value, which"),
        ('app = "count"\ninput = { records = 1 }', "[params]: expected emit for count; got ''"),
        (INPUT.replace("every", "all"), "[params] emit: expected one of every, some; got 'all'"),
        ("wrokers = 2\n" + INPUT, "f.toml: wrokers: unknown key; expected one of app, workers, "),
        (INPUT + KILL, "f.toml: [[fault]] 1: at: missing"),
        (INPUT + KILL + 'at = "noon"', "[[fault]] 1: at: expected one of fetched, losing, "),
        (INPUT + KILL + 'at = "recovery"', "[[fault]] 1: at: expected a fault before a recovery"),
        (INPUT + KILL + 'at = "scaling"', "[[fault]] 1: at: expected a scale before it"),
        (INPUT + KILL + 'at = "fetched"\nseconds = 1.0', "[[fault]] 1: seconds: expected only "),
        (INPUT + KILL + 'at = "drained"\nfraction = 0.5', "[[fault]] 1: fraction: expected none "),
        (INPUT + KILL + 'at = "fetched"\nfraction = nan', "[[fault]] 1: fraction: expected "),
        (INPUT + KILL.replace("engine", "sink") + 'at = "fetched"',
         "[[fault]] 1: target: expected one of worker, workers, coordinator, engine, "),
        (INPUT + KILL.replace("engine", "host") + 'at = "fetched"',
         "[[fault]] 1: down_s: expected a number above 0 for kill of a host; got 0.0"),
        (INPUT + KILL + 'at = "fetched"\nhost = "host-1"',
         "[[fault]] 1: host: expected only with target host; got 'host-1'"),
        (INPUT + PARTED + 'host = "host 1"', "[[fault]] 1: host: expected "),
        (INPUT + PARTED + 'host = "host-2"\npeer = "host-2"',
         "[[fault]] 1: host: expected the name of another host of the engine; got 'host-2'"),
        (INPUT + PARTED.replace("partition", "kill").replace("seconds", "down_s")
         + 'host = "host-1"', "[[fault]] 1: host: expected another host than the first"),
        (INPUT + PARTED + 'way = "up"', "[[fault]] 1: way: expected one of both, out, in; got"),
        (INPUT + PARTED + "share = 0.5", "[[fault]] 1: share: expected only with "
         "duplicate, garble, loss, reorder; got 0.5"),
        (INPUT + KILL.replace("kill", "pause").replace("engine", "worker") + 'at = "fetched"',
         "[[fault]] 1: seconds: expected a number above 0 for pause; got 0.0"),
        (INPUT + ERROR, "[[fault]] 1: request: expected one of Produce, OffsetCommit, "),
        (INPUT + ERROR + 'request = "EndTxn"\nerror = "ILLEGAL_GENERATION"',
         "[[fault]] 1: error: expected one of COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, "
         "CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED for EndTxn; got"),
        (INPUT + KILL + 'at = "fetched"\nrequest = "EndTxn"',
         "[[fault]] 1: request: expected only with error; got 'EndTxn'"),
        (INPUT + KILL + 'at = "drained"\n' + KILL + 'at = "fetched"',
         "[[fault]] 2: at: expected drained, as the step before; got 'fetched'"),
        (INPUT + '[failure]\nengine = "e"\nreason = "r"\nconfidence = "sure"\nseed = 1',
         "[failure] confidence: expected text such as "),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_file_key_and_what_was_expected(text, said):
    with pytest.raises(InvalidFile) as error:
        schedule_file.parse(text, "f.toml")
    assert said in str(error.value)
    assert all(line.startswith("f.toml: ") for line in str(error.value).splitlines())


def test_every_error_is_told_at_once():
    with pytest.raises(InvalidFile) as error:
        schedule_file.parse(BASE + "workers = 0\ninput = { records = -1 }", "f.toml")
    assert len(str(error.value).splitlines()) == 2


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidFile, match=r"\.toml or \.json"):
        schedule_file.load(tmp_path / "schedule.yaml")
    with pytest.raises(InvalidFile, match="there is no such file"):
        schedule_file.load(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_bytes(b"app = \xff")
    with pytest.raises(InvalidFile, match="expected UTF-8; byte 6 is not"):
        schedule_file.load(tmp_path / "bad.toml")
    (tmp_path / "bad.json").write_text("[" * 100_000)
    with pytest.raises(InvalidFile, match="expected JSON"):
        schedule_file.load(tmp_path / "bad.json")


def test_files_of_one_name_are_scenarios_of_their_own(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a b.toml").write_text(INPUT)
    found = schedule_file.load_all(sorted(tmp_path.glob("*/*")))
    assert list(found) == ["schedule-a-b", "schedule-a-b-2"]
    assert [scenario.name for scenario in found.values()] == list(found)


@given(st.text(string.printable, max_size=30))
def test_no_text_breaks_the_reader(text):
    with pytest.raises(InvalidFile):
        schedule_file.parse(text, "it")


def test_regressions_are_found_beside_the_engine_and_never_overwritten(tmp_path):
    schedule = schedule_file.parse(INPUT, "it")
    engine = tmp_path / "engine.toml"
    assert regressions.beside(engine, 0) == []
    folder = tmp_path / regressions.FOLDER
    first = regressions.save(schedule_file.to_toml(schedule), folder, "kill")
    assert regressions.save(schedule_file.to_toml(schedule), folder, "kill") == first
    other = regressions.save(
        schedule_file.to_toml(schedule.model_copy(update={"workers": 3})), folder, "kill"
    )
    assert other != first
    (folder / "notes.md").write_text("not a schedule")
    assert regressions.beside(engine, 0) == sorted([first, other])
    assert schedule_file.load(first) == schedule
    on_hosts = regressions.save(
        schedule_file.to_toml(schedule_file.parse(INPUT + PARTED, "it")), folder, "partition"
    )
    assert regressions.beside(engine, 0) == sorted([first, other])
    assert regressions.beside(engine, 3) == sorted([first, other, on_hosts])
