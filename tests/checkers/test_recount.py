"""Points that count records again: put back to true ones if records fetched again explain them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.checkers.count import check_count
from tickproof.conformance.checkers.recount import Rewind, rewinds, without_repeats
from tickproof.conformance.history.outputs import OutputLog
from tickproof.conformance.history.rows import FETCH
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT

S = 1_000_000_000
RECORDS = 600
FAULT_NS = 2 * S


def made_input(partitions: int = 2, keys: int = 7) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    found = []
    for partition in range(partitions):
        part = np.zeros(RECORDS, COUNT_IN)
        part["key"] = rng.integers(0, keys, RECORDS) * partitions + partition
        part["value"] = rng.integers(-(2**62), 2**62, RECORDS)
        found.append(part)
    return found


@dataclass
class Engine:
    """Counts with one state for all of its lives; what it lets out is kept with its time."""

    inputs: list[np.ndarray]
    state: dict[int, tuple[int, int]] = field(default_factory=dict)
    points: list[tuple[int, int, int]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    fetches: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def life(self, base: int, end: int, t_ns: int, shown: int = RECORDS, skip: int = -1) -> Engine:
        """Process records of every partition; those from ``shown`` on are not seen outside."""
        for partition, records in enumerate(self.inputs):
            self.fetches.append((t_ns, 0, partition, base, end))
            for offset in range(base, end):
                if offset == skip:
                    continue
                key, value = int(records["key"][offset]), int(records["value"][offset])
                n, total = self.state.get(key, (0, 0))
                total = (total + value + 2**63) % 2**64 - 2**63
                self.state[key] = n + 1, total
                if offset < shown:
                    self.points.append((key, n + 1, total))
                    self.times.append(t_ns)
        return self

    @property
    def log(self) -> OutputLog:
        return output_log(np.array(self.points, COUNT_OUT), t_ns=np.array(self.times))

    def judged(self, log: OutputLog | None = None) -> Counter[str]:
        log = log or self.log
        fetches = np.array(sorted(self.fetches), FETCH)
        again = rewinds(fetches, len(self.inputs), FAULT_NS)
        once = without_repeats(self.inputs, log, again, FAULT_NS)
        counts = check_count(self.inputs, once, "every", FAULT_NS).counts
        return Counter({kind: number for kind, number in counts.items() if number})

    def seen(self) -> set[str]:
        """What claims of at least once leave to find."""
        return {*self.judged()} - {"duplicate", "step-back", "skipped-order"}


def test_a_run_is_fetched_again_if_it_begins_below_what_was_reached():
    rows = [
        (1, 0, 0, 0, 50),
        (2, 0, 1, 0, 9),
        (3, 0, 0, 40, 60),
        (4, 0, 0, 60, 70),
        (5, 0, 0, 20, 30),
        (6, 0, 0, 30, 75),
    ]
    assert rewinds(np.array(rows, FETCH), 2, 0) == [
        Rewind(0, 40, 50),
        Rewind(0, 20, 70),
        Rewind(0, 30, 70),
    ]
    assert rewinds(np.array(rows, FETCH), 2, 4) == [Rewind(0, 20, 70), Rewind(0, 30, 70)]


def test_records_that_are_fetched_again_may_count_again():
    engine = Engine(made_input()).life(0, 300, S).life(180, RECORDS, 3 * S)
    assert {"wrong-total", "beyond-input"} <= {
        *check_count(engine.inputs, engine.log, "every").counts
    }
    assert engine.seen() == set()


def test_they_may_do_so_after_each_of_several_deaths():
    engine = Engine(made_input()).life(0, 200, S).life(120, 400, 3 * S).life(250, 500, 4 * S)
    assert engine.life(450, RECORDS, 5 * S).seen() == set()


def test_state_may_be_kept_of_what_nobody_saw():
    engine = Engine(made_input()).life(0, 300, S, shown=200).life(180, RECORDS, 3 * S)
    assert engine.seen() == set()


def test_a_point_is_that_of_the_record_that_was_counted_last():
    """Of {1, 2, 2} the point is that of value 2, whatever else adds up to the same."""
    part = np.zeros(3, COUNT_IN)
    part["value"] = 11, 7, 5
    engine = Engine([part]).life(0, 2, S, shown=1).life(1, 3, 3 * S, shown=2)
    assert engine.life(1, 3, 4 * S).seen() == set()


def test_a_whole_life_may_have_shown_nothing():
    engine = Engine(made_input(keys=30)).life(0, 300, S).life(260, 320, 3 * S, shown=0)
    assert engine.life(280, RECORDS, 4 * S).seen() == set()


def test_only_the_newest_part_may_count_again():
    inputs = made_input()
    engine = Engine(inputs).life(0, 300, S)
    engine.fetches += [(3 * S - 1, 0, partition, 100, 250) for partition in range(2)]
    assert engine.life(250, RECORDS, 3 * S).seen() == set()


@pytest.mark.parametrize("skipped", [60, 299, 305, RECORDS - 1])
def test_a_record_that_never_counts_is_missed(skipped):
    engine = Engine(made_input()).life(0, 300, S, skip=skipped)
    assert {"lost", "wrong-total"} & engine.life(180, RECORDS, 3 * S, skip=skipped).seen()


def test_output_that_never_comes_is_lost_though_later_points_count_its_record():
    engine = Engine(made_input()).life(0, 300, S, shown=290).life(295, RECORDS, 3 * S)
    assert engine.seen() == {"lost"}


def test_what_was_not_fetched_again_may_not_count_again():
    engine = Engine(made_input()).life(0, 300, S).life(180, RECORDS, 3 * S)
    engine.fetches = [(S, 0, 0, 0, RECORDS), (S, 0, 1, 0, RECORDS)]
    assert "wrong-total" in engine.seen()
    engine.fetches = [
        (S, 0, 0, 0, 300),
        (S, 0, 1, 0, 300),
        (3 * S, 0, 0, 280, RECORDS),
        (3 * S, 0, 1, 280, RECORDS),
    ]
    assert "wrong-total" in engine.seen()


def test_what_counts_again_before_any_fault_is_wrong():
    engine = Engine(made_input()).life(0, 300, S).life(180, RECORDS, FAULT_NS - 1)
    assert "wrong-total" in engine.seen()


def test_a_state_that_began_at_nothing_has_lost_records():
    engine = Engine(made_input()).life(0, 300, S)
    engine.state.clear()
    assert {"lost", "wrong-total"} <= engine.life(180, RECORDS, 3 * S).seen()


@pytest.mark.parametrize("by", [1, -(2**40)])
def test_a_total_with_something_invented_is_wrong(by):
    engine = Engine(made_input()).life(0, 300, S).life(180, RECORDS, 3 * S)
    log = engine.log
    log.payloads["total"][-1] += by
    counts = engine.judged(log)
    assert counts["wrong-total"] + counts["beyond-input"] == 1


def test_counting_again_twice_after_one_death_is_wrong():
    engine = Engine(made_input()).life(0, 300, S).life(180, 300, 3 * S).life(180, RECORDS, 4 * S)
    engine.fetches = engine.fetches[:2] + engine.fetches[4:]
    assert "wrong-total" in engine.seen()


def test_one_key_with_very_many_records():
    engine = Engine(made_input(partitions=1, keys=1)).life(0, 300, S).life(180, RECORDS, 3 * S)
    assert engine.seen() == set()


def test_an_output_log_without_anything_to_put_back_is_the_same():
    inputs = made_input()
    log = Engine(inputs).life(0, RECORDS, S).log
    assert without_repeats(inputs, log, [], FAULT_NS) is log
    empty = output_log(np.empty(0, COUNT_OUT))
    assert without_repeats(inputs, empty, [Rewind(0, 0, 9)], FAULT_NS) is empty


@pytest.mark.parametrize("keys", [1, 7])
def test_two_lives_that_showed_nothing_are_explained_for_hot_keys_too(keys):
    def engine() -> Engine:
        made = Engine(made_input(keys=keys)).life(0, 300, S, shown=0)
        return made.life(0, 450, 3 * S, shown=0)

    assert engine().life(0, RECORDS, 4 * S).seen() == set()
    assert engine().life(0, RECORDS, 4 * S, skip=500).seen()


@st.composite
def lives_of_small_values(draw: st.DrawFn) -> Engine:
    """A sound engine whose totals are often those of other points; its last life shows all."""
    size = draw(st.integers(1, 24))
    part = np.zeros(size, COUNT_IN)
    part["value"] = draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size))
    part["key"] = draw(st.lists(st.integers(0, 1), min_size=size, max_size=size))
    engine, base, t_ns = Engine([part]), 0, S
    for _ in range(draw(st.integers(1, 3))):
        end = draw(st.integers(base, size))
        shown = draw(st.integers(base, end))
        engine.life(base, end, t_ns, shown)
        base, t_ns = draw(st.integers(max(base - 3, 0), shown)), t_ns + 2 * S
    return engine.life(base, size, t_ns)


@given(lives_of_small_values())
def test_a_point_may_also_be_the_true_one_of_another_record(engine):
    assert engine.seen() == set()


@pytest.mark.parametrize("value", [0, 1])
def test_fewer_points_than_places_are_a_loss_where_all_values_are_equal(value):
    part = np.array([(1, value)] * 9, COUNT_IN)
    engine = Engine([part]).life(0, 5, S, shown=4).life(3, 9, 3 * S)
    assert engine.seen() == set()
    engine.points, engine.times = engine.points[:-2], engine.times[:-2]
    assert engine.seen() == {"lost"}


@pytest.mark.parametrize(
    ("records", "lives"),
    [
        # The point of the fourth record, with the first counted twice, is the true fifth.
        ([(0, 0), (0, 5), (0, -7), (0, 11), (0, 0)], [(0, 1, 1), (0, 5, 5)]),
        # 1 and -1 add up to nothing: {1, -1, 1} is also {1, 1, -1}, the point of another record.
        ([(0, 1), (0, -1), (1, 0), (1, 0)], [(0, 2, 0), (0, 2, 1), (1, 4, 4)]),
    ],
)
def test_points_that_look_like_those_of_other_records(records: list, lives: list) -> None:
    engine = Engine([np.array(records, COUNT_IN)])
    for at, (base, end, shown) in enumerate(lives):
        engine.life(base, end, (2 * at + 1) * S, shown)
    assert engine.seen() == set()
