"""The reckoning behind tier 5 against slow and obvious oracles, and engines that must not fail."""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.suites import cases_service, tampering
from tickproof.conformance.engines import spec
from tickproof.conformance.errors import HistoryError
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.rows import FETCH
from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.figures import QUANTILES
from tickproof.conformance.latency.intervals import Load, Steps
from tickproof.conformance.latency.samples import Answers, Timetable
from tickproof.conformance.resources import fixtures
from tickproof.conformance.session.playing import level
from tickproof.conformance.suites import service
from tickproof.conformance.suites.catalog import JUDGES
from tickproof.conformance.suites.service import Service

SECOND = 1_000_000_000
MS = 1_000_000
PARTITIONS = 4


def made(
    intended: np.ndarray,
    arrived: np.ndarray,
    fetched: np.ndarray,
    tagged: np.ndarray,
    seconds: int = 14,
) -> Service:
    """Return a run of a quiet machine in which these records were measured."""
    found = Answers(intended, intended, fetched, arrived, tagged)
    begins = SECOND * np.arange(seconds)
    table = Timetable(0, MS, np.zeros((seconds * 1_000 + 1, 1), np.uint64), MS * begins)
    return Service(
        profiles.load("steady"),
        table,
        0,
        seconds * SECOND,
        found,
        begins,
        np.ones(seconds, bool),
        np.ones(len(intended), bool),
    )


def batching(seed: int, batch_ms: float, spread: float, slow_partition: float) -> tuple:
    """Play an engine that answers each partition in batches; records in any order of kind.

    batch_ms: mean time between the ends of batches. spread: how much a batch's own work
    varies. slow_partition: factor of one partition. Returns a Service and its FETCH rows.
    """
    rng = np.random.default_rng(seed)
    count = 6_000
    intended = np.sort(rng.integers(0, 14_000, count)) * MS
    partition = rng.integers(0, PARTITIONS, count)
    tagged = rng.random(count) < 0.8
    fetched, arrived = np.zeros(count, np.int64), np.zeros(count, np.int64)
    rows = []
    for number in range(PARTITIONS):
        gaps = rng.exponential(batch_ms * MS, int(30_000 / batch_ms)).astype(np.int64) + 1
        ends = np.cumsum(np.maximum(gaps, MS // 10)) + number
        work = rng.exponential(spread * batch_ms * MS, len(ends)).astype(np.int64)
        work = (work * (slow_partition if number == 0 else 1)).astype(np.int64)
        mine = partition == number
        at = np.minimum(np.searchsorted(ends, intended[mine]), len(ends) - 1)
        fetched[mine] = ends[at]
        arrived[mine] = np.maximum.accumulate(ends + work)[at]
        fetch = np.zeros(len(ends), FETCH)
        fetch["t_ns"], fetch["partition"] = ends, number
        rows.append(fetch)
    return made(intended, np.maximum(arrived, intended), fetched, tagged), np.concatenate(rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.5, 400), st.floats(0, 5), st.floats(0.1, 50))
def test_no_way_of_batching_looks_like_probes_first(seed, batch_ms, spread, slow) -> None:
    found, fetches = batching(seed, batch_ms, spread, slow)
    seen = service.compared(found, fetches, calm=False)
    assert seen.behind < 0.6 * max(seen.count, 1)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.floats(0.5, 10))
def test_probes_that_come_first_show_in_any_batching(seed, batch_ms) -> None:
    found, fetches = batching(seed, batch_ms, 0.2, 1)
    late = found.answers.arrived_ns + np.where(found.answers.tagged, 0, 100 * MS)
    cheat = replace(found, answers=replace(found.answers, arrived_ns=late))
    seen = service.compared(cheat, fetches, calm=False)
    assert seen.count >= 100
    assert seen.behind >= 0.9 * seen.count


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=50), st.sampled_from(list(QUANTILES)))
def test_percentile_is_the_smallest_value_with_its_share_below(values, name) -> None:
    got = service.percentile(np.array(values, float), name)
    at_or_below = {v: sum(w <= v for w in values) for v in values}
    share = round(QUANTILES[name] * 10_000)
    assert got == min(v for v, n in at_or_below.items() if n * 10_000 >= share * len(values))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 99)), max_size=60), st.integers(6, 8))
def test_medians_by_group(pairs, count) -> None:
    groups = np.array([group for group, _ in pairs], np.int64)
    values = np.array([value for _, value in pairs], np.int64)
    middle, sizes = service._medians(groups, values, count)
    for group in range(count):
        mine = sorted(value for one, value in pairs if one == group)
        assert sizes[group] == len(mine)
        assert middle[group] == (mine[len(mine) // 2] if mine else 0)


LEVEL = st.floats(1e6, 1e9)


@given(st.lists(st.floats(0.55, 1.8), min_size=14, max_size=14), LEVEL)
def test_a_level_that_wanders_within_a_factor_of_two_is_no_new_one(factors, level) -> None:
    factors = np.clip(factors, 0.72, 1.38)
    yes = np.ones(14, bool)
    assert service.rise(yes, yes, np.array(factors) * level) is None


@given(st.integers(3, 11), LEVEL, st.lists(st.floats(0.9, 1.1), min_size=14, max_size=14))
def test_a_new_level_is_found_where_it_begins(split, level, factors) -> None:
    levels = np.array(factors) * level
    levels[split:] = levels[split:] * 3 + 2 * service.STEADY_NS
    yes = np.ones(14, bool)
    found = service.rise(yes, yes, levels)
    assert found is not None
    assert found == split


def test_one_bad_second_is_no_new_level_and_neither_is_a_rise_that_goes_again() -> None:
    yes = np.ones(14, bool)
    levels = np.full(14, 5.0 * MS)
    levels[[4, 9]] = 900 * MS
    assert service.rise(yes, yes, levels) is None
    levels[8:13] = 900 * MS
    assert service.rise(yes, yes, levels) is None


def test_seconds_that_were_not_quiet_prove_no_rise() -> None:
    levels = np.full(14, 5.0 * MS)
    levels[8:] = 100 * MS
    yes, quiet = np.ones(14, bool), np.arange(14) < 9
    assert service.rise(quiet, yes, levels) == 8
    assert service.rise(quiet, quiet, levels) is None


@given(st.lists(st.floats(0, 30e6), min_size=14, max_size=14), st.integers(0, 11))
def test_levels_that_are_too_low_to_rise_do_not_rise_whatever_noise_hid(levels, hidden) -> None:
    levels = np.array(levels)
    if service.too_low_to_rise(levels):
        levels[:hidden] = 0.0
        yes = np.ones(14, bool)
        assert service.rise(yes, yes, levels) is None


def test_noise_changes_nothing_where_nothing_is_wrong(recorded, tmp_path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(recorded.run("service"), folder, copy_function=os.link)
    tampering.unsealed(folder)
    cases_service.noisy(folder)
    assert not service.service(History(folder)).quiet.any()
    for _, judge in JUDGES["service"]:
        judge(History(folder))


def test_a_rate_is_missed_by_what_is_never_in_time_not_by_the_last_blink() -> None:
    due = Steps(MS * np.arange(14_000), np.arange(1, 14_001))
    intended = MS * np.arange(14_000)
    found = made(intended, intended, intended, np.zeros(14_000, bool))
    blink = Load(due, Steps.of_events(np.where(intended > 13_700 * MS, 14_400 * MS, intended)))
    assert service.late_share(found, blink) == 1.0
    assert service.share(blink, 0, 14 * SECOND, 150 * MS) < service.ACHIEVED
    slower = Load(due, Steps.of_events(intended + intended // 33))
    assert service.late_share(found, slower) < service.ACHIEVED


def test_a_backlog_grows_that_adds_to_the_limit_of_p99() -> None:
    intended = MS // 20 * np.arange(14 * 20_000)
    found = made(intended, intended, intended, np.zeros(len(intended), bool))
    due = Steps(intended, np.arange(1, len(intended) + 1))
    for slower, grows in ((0.03, True), (0.01, True), (0.001, False), (0.0, False)):
        load = Load(due, Steps.of_events(intended + (intended * slower).astype(np.int64)))
        assert bool(service.backlog_growth(found, load, 0, 14 * SECOND)) is grows, slower


def test_longest_quiet_row_of_seconds() -> None:
    none = np.zeros(0, np.int64)
    found = made(none, none, none, none.astype(bool))
    assert service.longest_quiet(found) == (0, 14 * SECOND)
    quiet = np.array([True, False, True, True, True, False, *[True] * 3, *[False] * 5])
    assert service.longest_quiet(replace(found, quiet=quiet)) == (2 * SECOND, 5 * SECOND)
    assert service.longest_quiet(replace(found, quiet=~np.ones(14, bool))) == (0, 0)


def test_what_was_under_way_in_a_noisy_second_is_not_calm() -> None:
    begins, quiet = SECOND * np.arange(4), np.array([True, True, False, True])
    intended = np.array([0.5, 1.5, 1.5, 2.5, 3.5, 1.2]) * SECOND
    arrived = np.array([0.9, 1.9, 3.5, 2.6, 9.0, -1]) * SECOND
    found = Answers(
        *(x.astype(np.int64) for x in (intended, intended, intended, arrived)), np.zeros(6, bool)
    )
    found = replace(found, arrived_ns=np.where(arrived < 0, -1, arrived).astype(np.int64))
    assert service._calm(found, begins, quiet).tolist() == [True, True, False, False, True, True]
    assert service._quiet(begins, begins - 1, ~quiet).tolist() == [True, False, False, True]


def test_an_unanswered_record_is_slower_than_any_limit(recorded) -> None:
    found = service.service(History(recorded.run("service")))
    waits = found.since(found.answers.intended_ns)
    assert waits.max() < 5 * MS
    none = replace(found, answers=replace(found.answers, arrived_ns=np.full(len(waits), -1)))
    assert math.isinf(none.since(found.answers.intended_ns).min())


def test_a_run_of_another_tier_is_refused(recorded) -> None:
    with pytest.raises(HistoryError, match=r"service\.profile"):
        service.service(History(recorded.run("count")))


def test_after_a_kill_the_level_claimed_for_count_counts():
    spark = spec.load(fixtures() / "engines" / "spark")
    assert level(spark, "service") == level(spark, "pinned") == "microbatch"
    assert level(spark, "service-recovery") == "microbatch-state"
    miniature = spec.load(fixtures() / "engines" / "miniature")
    assert level(miniature, "service") == level(miniature, "service-recovery") == "steady"
