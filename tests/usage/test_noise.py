"""Noise by the second, from tables made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tickproof.conformance.history.rows import ANY_CORE, HICCUP, MACHINE, OTHERS, PUBLISH, USAGE
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.conformance.usage.noise import (
    Seconds,
    disturbed,
    noisy,
    seconds,
    withheld,
    withheld_between_s,
)

S = 1_000_000_000
MS = 1_000_000
T0 = 5 * S


def publishes(to_s: float) -> np.ndarray:
    """Return rows of a run that publishes from T0 on for ``to_s`` seconds."""
    return np.array([(T0, 0, 0, 1), (T0 + round(to_s * S), 0, 0, 2)], PUBLISH)


def machine(*samples: tuple[float, float, float, float, float]) -> np.ndarray:
    """Return rows of (seconds after T0, busy, steal, kit, engine)."""
    return np.array([(T0 + round(at * S), *rest, -1) for at, *rest in samples], MACHINE)


def calm(seconds: int) -> np.ndarray:
    return machine(*((at, 0, 0, 0, 0) for at in range(-1, seconds + 2)))


def hiccups(to_s: float, *long: tuple[float, float]) -> np.ndarray:
    """Return the rows of a recorder; ``long``: (second when it was due, ms that it was late)."""
    due = np.arange(T0 - S, T0 + int((to_s + 1) * S), MS)
    woke = due + 50_000
    for at, late_ms in long:
        from_ns = T0 + round(at * S)
        to_ns = from_ns + round(late_ms * MS)
        woke = np.where((due >= from_ns) & (due < to_ns), to_ns, woke)
    return np.array(list(zip(woke, woke - due, strict=True)), HICCUP)


@pytest.fixture
def seconds_of(tmp_path_factory):
    """Return the seconds of a run with these tables and further keys of run.json."""

    def seconds_of(publishes, machine, hiccups, *, usage=(), others=(), **facts) -> Seconds:
        scenario = Scenario("made", "double", {}, {"kind": "numbers", "records": 1, "seed": 1})
        run = RunFolder(tmp_path_factory.mktemp("made"), scenario, **facts)
        run.tables(publishes=publishes, machine=machine, usage=usage, others=others)
        for core, rows in hiccups.items():
            run.hiccups(core, rows)
        return seconds(run.history())

    return seconds_of


def test_a_calm_run_has_no_noisy_second(seconds_of) -> None:
    found = seconds_of(publishes(3.2), calm(4), {0: hiccups(4), 1: hiccups(4)})
    assert (found.starts_ns == T0 + S * np.arange(4)).all()
    assert found.hiccup_ns.tolist() == [50_000] * 4
    assert found.foreign_s.tolist() == found.steal_s.tolist() == [0] * 4
    assert not noisy(found, hiccup_us=1_000, foreign=0.1).any()
    assert noisy(found, hiccup_us=40, foreign=0.1).all()


def test_a_hiccup_of_any_core_makes_its_second_and_the_next_noisy(seconds_of) -> None:
    found = seconds_of(publishes(6), calm(6), {0: hiccups(6), 1: hiccups(6, (2.5, 20))})
    assert found.hiccup_ns.tolist()[2] == 20 * MS
    assert noisy(found, hiccup_us=1_000, foreign=0.1).tolist() == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]
    assert not noisy(found, hiccup_us=20_000, foreign=0.1).any()


def test_a_hiccup_reaches_into_all_seconds_that_it_covers(seconds_of) -> None:
    found = seconds_of(publishes(8), calm(8), {0: hiccups(8, (1.8, 2_500))})
    assert (found.hiccup_ns > 50_000).tolist() == [False, *[True] * 4, *[False] * 3]


def test_a_hiccup_meets_records_due_just_before_it(seconds_of) -> None:
    early, later = (
        seconds_of(publishes(4), calm(4), {0: hiccups(4, (at, 20))}) for at in (2.05, 2.15)
    )
    assert (early.hiccup_ns == 20 * MS).tolist() == [False, True, True, False]
    assert (later.hiccup_ns == 20 * MS).tolist() == [False, False, True, False]


def test_what_no_recorder_saw_is_noisy(seconds_of) -> None:
    cut = hiccups(4)
    cut = cut[cut["t_ns"] < T0 + int(2.5 * S)]
    found = seconds_of(publishes(4), calm(4), {0: hiccups(4), 1: cut})
    assert found.hiccup_ns.tolist() == [50_000, 50_000, -1, -1]
    assert noisy(found, hiccup_us=1_000, foreign=0.1).tolist() == [False, False, True, True]
    for none in ({}, {0: np.zeros(0, HICCUP)}):
        assert (seconds_of(publishes(4), calm(4), none).hiccup_ns == -1).all()


def test_cpu_of_others_is_what_neither_kit_nor_engine_used(seconds_of) -> None:
    samples = machine(
        (-0.5, 10, 0, 4, 6),
        (0.5, 12, 0, 4.5, 7.5),
        (1.5, 14, 0, 5, 9),
        (2.5, 16, 0, 5.2, 9.8),
        (3.5, 18, 0, 5.7, 11.3),
        (4.5, 20, 0, 6.2, 12.8),
        (5.5, 22, 0, 6.7, 14.3),
    )
    found = seconds_of(publishes(5), samples, {0: hiccups(5)})
    # Between the samples at 1.5 and 2.5 others took a second: both seconds may have had all of it.
    assert found.foreign_s == pytest.approx([0, 1, 1, 0, 0], abs=1e-9)
    assert noisy(found, hiccup_us=1_000, foreign=0.1).tolist() == [False, True, True, True, False]
    assert not noisy(found, hiccup_us=1_000, foreign=1.1).any()


def test_what_a_hypervisor_took_counts_too(seconds_of) -> None:
    samples = machine(*((at, 0, 0.5 * max(0, at - 3), 0, 0) for at in range(-1, 8)))
    found = seconds_of(publishes(6), samples, {0: hiccups(6)})
    assert found.steal_s == pytest.approx([0, 0, 0, 0.5, 0.5, 0.5])
    assert noisy(found, hiccup_us=1_000, foreign=0.1).tolist() == [False] * 3 + [True] * 3
    # A machine with a cap loses more where the engine asks for more: no run is dropped for it.
    assert not disturbed(found, foreign=0.1).any()


def test_what_processes_of_others_took_disturbs(seconds_of) -> None:
    samples = machine(*((at, max(0, at - 3), 0, 0, 0) for at in range(-1, 8)))
    found = seconds_of(publishes(6), samples, {0: hiccups(6)})
    assert disturbed(found, foreign=0.5).tolist() == [False] * 3 + [True] * 3


def test_steps_of_the_clock_between_close_looks_are_no_noise(seconds_of) -> None:
    samples = machine(
        (-1, 0, 0, 0, 0), (1, 0, 0, 0, 0), (2.001, 0, 0, 0, 0), (2.003, 0.01, 0, 0, 0)
    )
    found = seconds_of(publishes(2), samples, {0: hiccups(2)})
    assert found.foreign_s.max() < 0.011
    # Two samples alone that are as close say nothing.
    found = seconds_of(publishes(0.003), samples[2:], {0: hiccups(2)})
    assert np.isnan(found.foreign_s).all()


def test_seconds_without_looks_are_noisy(seconds_of) -> None:
    samples = machine((1.5, 0, 0, 0, 0), (2.5, 0, 0, 0, 0), (4.2, 0, 0, 0, 0))
    found = seconds_of(publishes(5), samples, {0: hiccups(5)})
    assert np.isnan(found.foreign_s).tolist() == [True, True, False, False, True]
    assert noisy(found, hiccup_us=1_000, foreign=0.1).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("cores", "foreign"),
    [
        ({}, 3.0),
        ({"kit": [0], "engine": [1, 2], "shared": False}, 1.25),
        ({"kit": [0], "engine": [1, 2], "shared": True}, 3.0),
        ({"kit": [0], "engine": [], "shared": False}, 3.0),
    ],
)
def test_on_cores_of_their_own_only_what_ran_there_counts(seconds_of, cores, foreign) -> None:
    samples = machine(*((at, 3 * at, 0, 0, 0) for at in range(-1, 4)))
    others = np.array(
        [
            (T0 + at * S, core, used)
            for at in range(4)
            for core, used in ((1, 1.0), (ANY_CORE, 0.25), (7, 1.75))
        ],
        OTHERS,
    )
    found = seconds_of(publishes(3), samples, {0: hiccups(3)}, others=others, cores=cores)
    assert found.foreign_s == pytest.approx([foreign] * 3)


def test_waiting_of_the_engine_is_summed_over_its_processes(seconds_of) -> None:
    rows = np.zeros(8, USAGE)
    rows["t_ns"] = T0 + S * np.repeat([-1, 1, 2, 3], 2)
    rows["pid"] = [7, 8] * 4
    # A thread of 8 ends between the samples at 1 and 2: what it had waited is gone.
    rows["wait_ns"] = [5 * S, 0, 5 * S, S, 5 * S + S // 2, S // 4, 6 * S, S // 2]
    samples = machine(*((at, 0, 0, 0, 0) for at in (-1, 1, 2, 3)))
    found = seconds_of(publishes(3), samples, {0: hiccups(3)}, usage=rows)
    assert found.engine_wait_s == pytest.approx([0.5, 0.5, 0.75])


def test_the_first_second_begins_at_the_first_intended_time(seconds_of) -> None:
    pace = {"t0_ns": T0 - S // 2, "tick_ns": S, "ticks": 2}
    found = seconds_of(publishes(2), calm(3), {0: hiccups(2)}, pace=pace)
    assert found.starts_ns.tolist() == [T0 - S // 2, T0 + S // 2, T0 + 3 * S // 2]


def test_a_run_in_which_nothing_was_recorded_has_no_seconds(seconds_of) -> None:
    found = seconds_of([], [], {})
    assert [len(column) for column in vars(found).values()] == [0] * 5
    assert noisy(found, hiccup_us=1_000, foreign=0.1).tolist() == []


def test_noise_does_not_go_on_beyond_the_second_after() -> None:
    zero = np.zeros(5)
    made = Seconds(zero, np.array([0, 9_000_000, 0, 0, 0]), zero, zero, zero)
    assert noisy(made, hiccup_us=1_000, foreign=0.1).tolist() == [False, True, True, False, False]


def test_what_was_withheld_between_samples(tmp_path) -> None:
    """Of two cores the run used a half; a thread of the engine waited for 0.6 s, then for none."""
    scenario = Scenario("made", "double", {}, {"kind": "numbers", "records": 1, "seed": 1})
    run = RunFolder(tmp_path, scenario)
    waits = (0, 600 * MS, 600 * MS, 600 * MS)
    usage = [(T0 + at * S, 7, 0, 0, 0, 1, 0, 0, wait, 0, 0, 0, 3) for at, wait in enumerate(waits)]
    samples = machine((0, 0, 0, 0, 0), (1, 2, 0, 0.5, 0.5), (2, 4, 0, 1, 1), (3, 4, 1, 1, 1))
    run.tables(machine=samples, usage=usage)
    history = run.history()
    # In the third second half of the machine was stolen.
    assert withheld(history) == [(T0, T0 + S // 2), (T0 + 2 * S, T0 + 2 * S + S // 2)]
    assert withheld_between_s(history, T0 + S // 4, T0 + 3 * S) == 0.75


def test_without_samples_nothing_was_withheld(tmp_path) -> None:
    scenario = Scenario("made", "double", {}, {"kind": "numbers", "records": 1, "seed": 1})
    assert withheld(RunFolder(tmp_path, scenario).history()) == []
