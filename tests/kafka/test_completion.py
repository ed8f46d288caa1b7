"""When an engine that cannot be asked to drain counts as drained."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tickproof.conformance.apps.count import Count
from tickproof.conformance.apps.market_spread import MarketSpread
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.kafka import completion, output_end
from tickproof.conformance.kafka.completion import Completion, ExpectedOutput
from tickproof.conformance.kafka.exchange import Exchange
from tickproof.conformance.kafka.output_end import OutputEnd
from tickproof.generators.layouts import COUNT_IN, COUNT_OUT, NUMBER, ORDER, QUOTE, VERDICT

NUMBERS = st.lists(st.integers(-3, 3), max_size=12)


def numbers(values: list[int]) -> np.ndarray:
    return np.array([(value,) for value in values], NUMBER)


@given(NUMBERS, st.lists(NUMBERS, max_size=4))
def test_output_is_complete_once_each_came_often_enough(due: list[int], came: list[list[int]]):
    expected, seen = ExpectedOutput(numbers(due)), Counter[int]()
    for values in came:
        expected.see(numbers(values))
        seen.update(values)
        assert expected.complete == (Counter(due) <= seen)


def test_of_two_streams_the_ids_of_orders_are_known() -> None:
    orders, verdicts = np.zeros(3, ORDER), np.zeros(3, VERDICT)
    orders["order_id"] = verdicts["order_id"] = [7, 2**63, 8]
    app = MarketSpread({"inputs": "two", "emit": "verdicts"})
    expected = ExpectedOutput(app.expected([np.zeros(5, QUOTE), orders[:2], orders[2:]]))
    for last in (2, 3):
        expected.see(app.told(verdicts[last - 2 : last]))
        assert expected.complete is (last == 3)
    assert MarketSpread({"inputs": "two", "emit": "rejects"}).expected([orders]) is None


def test_what_nobody_knows_is_never_complete() -> None:
    expected = ExpectedOutput(None)
    expected.see(numbers([1]))
    assert not expected.complete


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**62), 2**62)), max_size=20))
def test_points_of_count(rows: list[tuple[int, int]]) -> None:
    records = np.array(rows, COUNT_IN)
    every, last, totals = set(), {}, Counter[int]()
    ranks = Counter[int]()
    for key, value in rows:
        ranks[key] += 1
        totals[key] = (totals[key] + value + 2**63) % 2**64 - 2**63
        last[key] = (key, ranks[key], totals[key])
        every.add(last[key])
    for emit, due in (("every", every), ("some", set(last.values()))):
        found = Count({"emit": emit}).expected([records])
        assert found is not None and found.dtype == COUNT_OUT
        assert set(map(tuple, found.tolist())) == due


class Clock:
    """Stands for the time that passes between two looks."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    @staticmethod
    def monotonic_ns() -> int:
        return 1


@pytest.mark.parametrize(
    ("complete", "released", "quiet_s"),
    [(True, True, completion.QUIET_S), (False, True, completion.RELEASED_S), (False, False, 30.0)],
)
def test_how_long_it_has_to_be_quiet(monkeypatch, complete, released, quiet_s) -> None:
    clock, position = Clock(), [0]
    monkeypatch.setattr(completion, "time", clock)
    drained = Completion(lambda: complete, lambda: released, lambda: (position[0],), 30.0)
    assert not drained.done
    clock.now += quiet_s - 0.1
    assert not drained.done
    position[0] += 1  # something came: it begins anew
    assert not drained.done
    clock.now += quiet_s - 0.1
    assert not drained.done
    clock.now += 0.2
    assert drained.done and drained.answered_ns
    position[0] += 1  # nothing takes it back
    assert drained.done


@pytest.mark.parametrize("complete", [True, False])
def test_somebody_who_reads_input_again_may_give_its_output_again(monkeypatch, complete) -> None:
    clock, again = Clock(), [70]
    monkeypatch.setattr(completion, "time", clock)
    drained = Completion(lambda: complete, lambda: True, lambda: (1,), 30.0, again=lambda: again[0])
    assert not drained.done
    clock.now += completion.QUIET_S - 0.1
    again[0] += 1
    assert not drained.done
    clock.now += completion.RELEASED_S - 0.1
    assert not drained.done
    clock.now += 0.2
    assert drained.done


def test_what_the_proxy_sends_again_is_read_again(monkeypatch) -> None:
    monkeypatch.setattr(completion, "time", clock := Clock())
    # As much of an exchange as is asked for.
    log = SimpleNamespace(fetched_elsewhere=lambda _stream, _partition, first, end: end - first)
    exchange: Any = SimpleNamespace(
        _again=0,
        _log=log,
        _scenario=SimpleNamespace(params={}),
        _expected=SimpleNamespace(complete=True),
        _end=SimpleNamespace(caught_up=lambda _since: True),
        _recorder=SimpleNamespace(records=1),
        _back=lambda: True,
    )
    log.fetched = log.released = log.published = 1
    drained = Exchange.completion(exchange, 30.0)
    assert not drained.done
    clock.now += completion.QUIET_S - 0.1
    Exchange.fetched(exchange, 0, 0, 3, 5)
    assert not drained.done
    clock.now += 0.2
    assert not drained.done
    clock.now += completion.RELEASED_S
    assert drained.done


def test_reading_the_same_for_ever_moves_nothing(monkeypatch) -> None:
    clock, again = Clock(), [0]
    monkeypatch.setattr(completion, "time", clock)
    drained = Completion(lambda: False, lambda: False, lambda: (1,), 30.0, again=lambda: again[0])
    for _ in range(30):
        assert not drained.done
        clock.now, again[0] = clock.now + 1, again[0] + 1
    assert drained.done


def test_the_silence_of_an_engine_that_is_not_back_says_nothing(monkeypatch) -> None:
    clock, back = Clock(), [False]
    monkeypatch.setattr(completion, "time", clock)
    drained = Completion(lambda: True, lambda: True, lambda: (1,), 30.0, lambda: back[0])
    assert not drained.done
    clock.now += 29.9
    assert not drained.done
    back[0] = True  # from here on its silence counts
    assert not drained.done
    clock.now += completion.QUIET_S - 0.1
    assert not drained.done
    clock.now += 0.2
    assert drained.done


def test_one_that_never_comes_back_is_not_waited_for_for_ever(monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(completion, "time", clock)
    drained = Completion(lambda: True, lambda: True, lambda: (1,), 30.0, lambda: False)
    assert not drained.done
    clock.now += 30.1
    assert drained.done


def test_a_recorder_that_is_behind_says_nothing(monkeypatch) -> None:
    clock, caught_up_at = Clock(), [0.0]
    monkeypatch.setattr(completion, "time", clock)
    drained = Completion(
        lambda: True,
        lambda: True,
        lambda: (1,),
        30.0,
        recorded=lambda since: caught_up_at[0] >= since,
    )
    assert not drained.done
    clock.now += 100
    assert not drained.done
    caught_up_at[0] = clock.now
    assert drained.done


def test_what_is_recorded_is_held_against_where_the_output_ends(monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(output_end, "time", clock)
    end = OutputEnd(2)
    end.read(0, 3, 3)
    end.found(7.0, [3, 2], [3, 2])
    assert end.behind and not end.caught_up(0.1) and not end.hidden
    end.read(1, 2, 2)
    assert not end.behind
    assert not end.caught_up(0.1)  # the broker has to say so again
    end.found(8.0, [3, 2], [3, 4])
    assert end.caught_up(8.0) and not end.caught_up(8.1) and end.hidden
    end.read(1, 1)  # a look back takes nothing back
    assert not end.behind


def test_a_recorder_that_stands_still_is_the_kits_failure(monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr(output_end, "time", clock)
    end = OutputEnd(1)
    end.found(1.0, [10], [10])
    clock.now += output_end.STALLED_S - 1
    end.read(0, 5, 5)
    end.found(2.0, [10], [10])  # slow, but it moves
    clock.now += output_end.STALLED_S - 1
    end.found(3.0, [10], [10])
    clock.now += 2
    with pytest.raises(KitStopped, match="stands at 5 of 10 offsets"):
        end.found(4.0, [10], [10])


def test_without_transactions_each_offset_is_a_message() -> None:
    end = OutputEnd(2)
    end.read(0, 3, 3)
    end.read(1, 2, 1)
    end.found(1.0, [3, 2], [3, 2])
    with pytest.raises(KitStopped, match=r"5 messages of output were produced .*; 4 were recorded"):
        end.expect_all()
    end.read(1, 2, 1)
    end.expect_all()
