"""Engines that speak Kafka, on a real broker, against an oracle; SIGKILL is real."""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kafka import oracle
from tests.kafka.oracle import Keyed, Record, counted
from tests.kafka.trial import Trial
from tests.long import LONG
from tickproof.conformance.kafka.broker import Broker

Enough = Callable[[list[Record]], bool]
LIMIT_S = 180.0
OURS = "kafka-miniature"
JAVAC = pytest.mark.skipif(not shutil.which("javac"), reason="no javac")
STREAMS = pytest.param("kafka-streams", marks=[LONG, JAVAC])
JAVA = pytest.param("kafka-java", marks=[LONG, JAVAC])
FLINK = pytest.param("flink", marks=[LONG, JAVAC])
SPARK = pytest.param("spark-kafka", marks=LONG)
GO_NEEDED = pytest.mark.skipif(not shutil.which("go"), reason="no Go")
GO = pytest.param("kafka-go", marks=[LONG, GO_NEEDED])
JET = pytest.param("hazelcast-jet", marks=[LONG, JAVAC])
KAFKAJS = pytest.param(
    "kafkajs", marks=[LONG, pytest.mark.skipif(not shutil.which("npm"), reason="no npm")]
)
RUST = pytest.param(
    "kafka-rust", marks=[LONG, pytest.mark.skipif(not shutil.which("cargo"), reason="no cargo")]
)
BYTEWAX = pytest.param(
    "bytewax",
    marks=[
        LONG,
        pytest.mark.skipif(not importlib.util.find_spec("bytewax"), reason="bytewax is missing"),
    ],
)


@pytest.fixture
def records() -> list[Keyed]:
    """Give input of count, the same each time."""
    return oracle.numbers(4_000, random.Random(7))


def has(due: list[Record]) -> Enough:
    """Return a condition: all that is due is there."""
    return lambda seen: counted(due).keys() <= counted(seen).keys()


def played(trial: Trial, due: list[Record]) -> list[Record]:
    """Return the output, once all that is due is there."""
    return trial.output(has(due), LIMIT_S)


def count_with_a_death(
    engine: str,
    folder: Path,
    broker: Broker,
    records: list[Keyed],
    dead: tuple[int, ...],
    enough: Enough | None = None,
) -> list[Record]:
    """Play count with two workers; some die when a third of the output is there."""
    third = len(records) // 3
    with Trial(engine, folder, broker.address, 2, "count", emit="every") as trial:
        trial.feed(records[:third])
        before = trial.output(lambda seen: bool(seen), LIMIT_S)
        assert before, trial.said()
        trial.feed(records[third : 2 * third])
        trial.kill(*dead)
        trial.feed(records[2 * third :])
        return trial.output(enough or has(oracle.points(records)), LIMIT_S)


@pytest.mark.parametrize(
    ("engine", "dead"),
    [
        (OURS, (0, 1)),
        pytest.param(OURS, (0,), marks=LONG),
        pytest.param(OURS, (1,), marks=LONG),
        pytest.param(*STREAMS.values, (0, 1), marks=STREAMS.marks),
        pytest.param(*STREAMS.values, (1,), marks=STREAMS.marks),
        pytest.param(*GO.values, (0, 1), marks=GO.marks),
        pytest.param(*JAVA.values, (1,), marks=JAVA.marks),
        pytest.param(*RUST.values, (0, 1), marks=RUST.marks),
        pytest.param(*FLINK.values, (0,), marks=FLINK.marks),
        pytest.param(*JET.values, (1,), marks=JET.marks),
    ],
)
def test_each_point_comes_once_over_a_death(
    engine: str, dead: tuple[int, ...], tmp_path: Path, broker: Broker, records: list[Keyed]
) -> None:
    seen = count_with_a_death(engine, tmp_path, broker, records, dead)
    assert counted(seen) == counted(oracle.points(records))


@pytest.mark.parametrize("engine", [BYTEWAX, KAFKAJS])
def test_each_point_comes_at_least_once_over_a_death(
    engine: str, tmp_path: Path, broker: Broker, records: list[Keyed]
) -> None:
    seen = count_with_a_death(engine, tmp_path, broker, records, (0, 1))
    assert counted(seen).keys() == counted(oracle.points(records)).keys()


@LONG
@GO_NEEDED
def test_totals_of_at_least_once_lack_no_record_over_a_death(
    tmp_path: Path, broker: Broker, records: list[Keyed]
) -> None:
    def lacks_none(seen: list[Record]) -> bool:
        counts: dict[int, int] = {}
        for point in seen:
            counts[point["k"]] = max(point["n"], counts.get(point["k"], 0))
        return all(counts.get(last["k"], 0) >= last["n"] for last in oracle.last_points(records))

    assert lacks_none(count_with_a_death("goka", tmp_path, broker, records, (0, 1), lacks_none))


@pytest.mark.parametrize("engine", [pytest.param(OURS, marks=LONG), STREAMS, BYTEWAX, SPARK])
def test_the_last_point_of_each_key_comes_under_some(
    engine: str, tmp_path: Path, broker: Broker, records: list[Keyed]
) -> None:
    with Trial(engine, tmp_path, broker.address, 2, "count", emit="some") as trial:
        trial.feed(records)
        seen = counted(played(trial, oracle.last_points(records)))
    assert seen.keys() <= counted(oracle.points(records)).keys()
    assert seen.keys() >= counted(oracle.last_points(records)).keys()


@pytest.mark.parametrize("emit", ["verdicts", "rejects"])
@pytest.mark.parametrize("engine", [OURS, STREAMS, BYTEWAX, JAVA, FLINK])
def test_orders_are_judged_by_the_quote_before_them(
    engine: str, emit: str, tmp_path: Path, broker: Broker
) -> None:
    records = oracle.market(1_000, random.Random(7))
    due = [one for one in oracle.verdicts(records) if emit == "verdicts" or one["verdict"]]
    with Trial(
        engine, tmp_path, broker.address, 2, "market-spread", inputs="merged", emit=emit
    ) as trial:
        trial.feed(records)
        assert counted(played(trial, due)) == counted(due), trial.said()


@pytest.mark.parametrize("engine", [OURS, STREAMS, BYTEWAX, FLINK, SPARK])
def test_passthrough_changes_no_byte(engine: str, tmp_path: Path, broker: Broker) -> None:
    rng = random.Random(7)
    sizes = [1, 2, 100, 65_536, 1 << 20]
    sent = [(b"%d" % at, {"data": rng.randbytes(size).hex()}) for at, size in enumerate(sizes)]
    due = [record for _, record in sent]
    with Trial(engine, tmp_path, broker.address, 2, "passthrough") as trial:
        trial.feed(sent)
        assert counted(played(trial, due)) == counted(due), trial.said()


def test_double_wraps(tmp_path: Path, broker: Broker) -> None:
    numbers = {3: 6, -5: -10, 2**62: -(2**63), -(2**63): 0, 2**63 - 1: -2}
    due = [{"x": twice} for twice in numbers.values()]
    with Trial(OURS, tmp_path, broker.address, 1, "double") as trial:
        trial.feed([(b"%d" % at, {"x": number}) for at, number in enumerate(numbers)])
        assert counted(played(trial, due)) == counted(due), trial.said()
