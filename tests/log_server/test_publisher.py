"""The publisher: merged order, pace, limit, hold and END."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from tests.log_server.logbench import DEADLINE_S, until
from tickproof.conformance.log_server.publisher import Publisher

RECORDS = 3_000


class Log:
    """Notes what is published, when, and END."""

    #: Records after which the engine fetches no more; None: it is always up to date.
    fetches_up_to = None

    def __init__(self):
        self.rows, self.times, self.ended_after = [], [], None
        self.over = threading.Event()

    @property
    def fetched(self):
        out = sum(self.rows[-1]) if self.rows else 0
        return out if self.fetches_up_to is None else min(out, self.fetches_up_to)

    def publish(self, ends):
        self.rows.append(tuple(map(int, ends)))
        self.times.append(time.monotonic())

    def end(self):
        assert self.ended_after is None
        self.ended_after = len(self.rows)
        self.over.set()


def plan(ticks=300, partitions=3, seed=1):
    """Return a cumulative plan in which every tick moves one partition by ten records."""
    moves = np.zeros((ticks + 1, partitions), np.uint64)
    chosen = np.random.default_rng(seed).integers(0, partitions, ticks)
    moves[1 + np.arange(ticks), chosen] = RECORDS // ticks
    return np.cumsum(moves, axis=0, dtype=np.uint64)


class Driven:
    """A publisher, and a thread that does what the log server does with it."""

    def __init__(self, *arguments):
        self.publisher = Publisher(*arguments)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drive, daemon=True)

    def _drive(self):
        self.publisher.start()
        while (due_ns := self.publisher.due_ns) is not None:
            if self._stop.wait(max(0.0, due_ns / 1e9 - time.monotonic())):
                return
            self.publisher.publish_due()

    def __enter__(self):
        self._thread.start()
        return self.publisher

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(DEADLINE_S)


def run(rate, limit=lambda due: due, hold=None, made=None):
    log, made = Log(), plan() if made is None else made
    with Driven(log, made, rate, limit, hold) as publisher:
        assert log.over.wait(DEADLINE_S)
    assert publisher.due_ns is None
    return log, made


@pytest.mark.parametrize("rate", [None, 20_000, 1e9])
def test_published_ends_are_rows_of_the_plan_in_order_and_end_comes_last(rate):
    log, made = run(rate)
    order = [made.tolist().index(list(row)) for row in log.rows]
    assert order == sorted(set(order))
    assert log.rows[-1] == tuple(made[-1])
    assert log.ended_after == len(log.rows)


def test_empty_input_has_its_end_at_once():
    log, _ = run(1000, made=np.zeros((1, 4), np.uint64))
    assert log.rows == []
    assert log.ended_after == 0


def test_pace_is_followed():
    log, _ = run(10_000)
    totals = np.array([sum(row) for row in log.rows])
    seconds = np.array(log.times) - log.times[0]
    # Never ahead of the pace by more than the lag that it may make up for, and a few ticks.
    ahead = totals - totals[0] - 10_000 * seconds
    assert ahead.max() <= 10_000 * 0.1 + 200


def test_nothing_is_published_beyond_the_limit_and_the_rest_follows_when_it_moves():
    log, made = Log(), plan()
    limit = [1_234]
    with Driven(log, made, None, lambda due: min(due, limit[0])) as publisher:
        until(lambda: log.rows)
        until(lambda: publisher.held_back)
        assert sum(log.rows[-1]) == 1_230  # the last whole tick below it
        assert log.ended_after is None
        limit[0] = RECORDS
        assert log.over.wait(DEADLINE_S)
        assert sum(log.rows[-1]) == RECORDS


def test_pace_does_not_run_ahead_while_the_limit_holds_it_back():
    log, made = Log(), plan()
    limit, asked = [500], []

    def bounded(due):
        asked.append(due)
        return min(due, limit[0])

    with Driven(log, made, 5_000, bounded):
        until(lambda: log.rows and sum(log.rows[-1]) == 500)
        count = len(asked)
        until(lambda: len(asked) > count + 200)
        limit[0] = RECORDS
        released = len(log.rows)
        until(lambda: len(log.rows) > released)
        # What had become due meanwhile would have come out at once.
        assert sum(log.rows[released]) <= 500 + 5_000 * 0.1 + 20


def test_hold_is_silence_in_the_middle():
    # At this pace even the tick after a stall publishes less than half.
    log, _ = run(10_000, hold=(0.5, 0.3))
    out = [sum(row) for row in log.rows]
    at = next(row for row, records in enumerate(out) if records >= RECORDS * 0.5)
    assert 0 < at < len(out) - 1
    assert log.times[at + 1] - log.times[at] >= 0.29


def test_hold_begins_when_all_that_is_out_was_fetched():
    log = Log()
    log.fetches_up_to = 0
    with Driven(log, plan(), 2_000, lambda due: due, (0.5, 0.05)):
        until(lambda: log.rows and sum(log.rows[-1]) >= RECORDS * 0.5)
        published = len(log.rows)
        # Longer than the hold: nothing was fetched, so it has not begun.
        assert not log.over.wait(0.3)
        assert len(log.rows) == published
        log.fetches_up_to = None
        assert log.over.wait(DEADLINE_S)


def test_stopped_publisher_announces_no_end():
    log = Log()
    publisher = Publisher(log, plan(), 10, lambda due: due)
    publisher.start()
    publisher.stop()
    publisher.publish_due()
    assert log.rows == []
    assert log.ended_after is None
    assert publisher.due_ns is None


def test_pace_of_less_than_a_record_a_tick_is_kept():
    # At 200 a second a tick of the publisher adds a part of a record.
    one_by_one = np.arange(31, dtype=np.uint64)[:, None]
    log, made = run(200, made=one_by_one)
    assert log.rows[-1] == tuple(made[-1])
    assert len(log.rows) > 3
