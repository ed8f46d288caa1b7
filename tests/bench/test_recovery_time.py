"""Silence after a kill: which outputs are new, and which gap is the longest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.handmade import Moves
from tickproof.conformance.fault_steps import KillStep
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.performance.recovery import beyond, recovery, silence, silences
from tickproof.conformance.testing.output_log import output_log
from tickproof.generators.layouts import COUNT_OUT, opaque
from tickproof.generators.numbers import Payloads
from tickproof.generators.placement import Placement

SECOND = 1_000_000_000


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), max_size=40))
def test_new_is_what_lies_beyond_all_before_it(rows):
    best, expected = {}, []
    for key, n in rows:
        expected.append(n > best.get(key, -1))
        best[key] = max(n, best.get(key, -1))
    key, n = np.array(rows, np.int64).reshape(-1, 2).T
    assert beyond(key.astype(np.uint64), n).tolist() == expected


@given(st.lists(st.integers(1, 10**9), max_size=20), st.integers(1, 10**9))
def test_silence_is_the_longest_gap_from_the_kill_on(times, kill):
    times.sort()
    before = [t for t in times if t <= kill][-1:] or [kill]
    line = before + [t for t in times if t > kill]
    gaps = [b - a for a, b in pairwise(line)]
    found = silence(np.array(times, np.int64), kill)
    assert found == (pytest.approx(max(gaps) / 1e9) if gaps else None)


@pytest.fixture
def played(tmp_path):
    """Return a run of an app with a kill, or with several; rows: (second, payload)."""

    def play(app, rows, releases, kill_s, inputs=None):
        kills = kill_s if isinstance(kill_s, tuple) else (kill_s,)
        released = [(int(t * SECOND), p, n) for t, p, n in releases]
        run = Moves([100, 100], [], released, None).run(tmp_path, app, inputs)
        dtype = COUNT_OUT if app == "count" else opaque(52)
        payloads = np.array([payload for _, payload in rows], dtype)
        run.outputs(output_log(payloads, t_ns=[int(t * SECOND) for t, _ in rows]))
        run.events(
            *(
                FiredFault(
                    t_ns=int(at * SECOND),
                    step=KillStep("fetched", target="worker"),
                    moment="",
                    text="",
                    outputs=0,
                    partitions=(),
                    pids=(),
                )
                for at in kills
            )
        )
        return run.history()

    return play


def keys_of(partition, count=2):
    keys = np.arange(1, 100, dtype=np.uint64)
    return keys[Placement(count).of_keys(keys) == partition]


def test_a_partition_that_goes_on_does_not_hide_the_other(played):
    alive, dead = int(keys_of(0)[0]), int(keys_of(1)[0])
    rows = [(t / 10, (alive, t, 0)) for t in range(1, 101)]
    rows += [(t / 10, (dead, t, 0)) for t in [*range(1, 51), *range(80, 101)]]
    found = recovery(played("count", sorted(rows), [], 5.05))
    assert found.output_s == pytest.approx(3.0)
    assert found.usual_output_s == pytest.approx(0.1)
    assert found.release_s is None


def test_what_is_delivered_again_is_no_recovery(played):
    key, other = int(keys_of(0)[0]), int(keys_of(1)[0])
    rows = [(t, (k, t, 0)) for t in range(1, 5) for k in (key, other)]
    rows += [(6, (key, 3, 0)), (7, (key, 4, 0)), (9, (key, 5, 0)), (9, (other, 5, 0))]
    assert recovery(played("count", rows, [], 4.5)).output_s == pytest.approx(5.0)


def test_a_partition_that_stays_silent_gives_no_figure(played):
    key, other = int(keys_of(0)[0]), int(keys_of(1)[0])
    rows = [(t, (key, t, 0)) for t in range(1, 9)] + [(1, (other, 1, 0))]
    found = recovery(played("count", sorted(rows), [], 4.5))
    assert found.output_s is None


def test_releases_are_looked_at_by_partition_too(played):
    rows = [(t, (int(keys_of(p)[0]), t, 0)) for t in range(1, 9) for p in (0, 1)]
    releases = [(t, 0, t) for t in range(1, 9)] + [(t, 1, t) for t in (1, 2, 3, 4, 8)]
    assert recovery(played("count", rows, releases, 4.5)).release_s == pytest.approx(4.0)


def test_the_payload_of_passthrough_tells_its_partition(played):
    made = Payloads(3, 52).records(0, 20)["payload"]
    rows = [(i + 1.0, made[i]) for i in (0, 1, 2, 3, 5, 7, 9, 11, 12, 13)]
    inputs = {0: made[0::2], 1: made[1::2]}
    history = played("passthrough", sorted(rows, key=lambda row: row[0]), [], 4.5, inputs)
    # Partition 0 has records 0, 2 and 12: it is silent from 3 s to 13 s.
    assert recovery(history).output_s == pytest.approx(10.0)


def test_each_kill_has_its_silence_up_to_the_next_fault(played):
    key, other = int(keys_of(0)[0]), int(keys_of(1)[0])
    rows = [(t, (key, t, 0)) for t in (1, 2, 3, 5, 6, 7, 8)]
    rows += [(t, (other, t, 0)) for t in (1, 2, 3, 6, 7, 9)]
    history = played("count", sorted(rows), [], (3.5, 6.5, 9.5))
    # From 3 s to 6 s, from 7 s to 9 s; after the last kill nothing came.
    assert silences(history) == [pytest.approx(3.0), pytest.approx(2.0)]


def test_a_partition_that_is_silent_to_the_next_fault_was_silent_until_then(played):
    key, other = int(keys_of(0)[0]), int(keys_of(1)[0])
    rows = [(t, (key, t, 0)) for t in (1, 2, 3, 4, 5, 6, 7, 8)]
    rows += [(t, (other, t, 0)) for t in (1, 2, 3, 8)]
    # The second partition has nothing new between the kills, and something after the last.
    assert silences(played("count", sorted(rows), [], (3.5, 6.5))) == [
        pytest.approx(3.5),
        pytest.approx(5.0),
    ]
