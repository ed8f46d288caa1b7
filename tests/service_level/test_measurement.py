"""Which answers noise may have delayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tickproof.conformance.history.rows import HICCUP, MACHINE, PUBLISH, USAGE
from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.percentiles import percentiles_us
from tickproof.conformance.latency.samples import latencies
from tickproof.conformance.performance.measurement import RecordedRun
from tickproof.conformance.scenario import Pace, Scenario
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators.layouts import NUMBER

MS, S = 1_000_000, 1_000_000_000
T0, SECONDS, WARM_UP_S = 5 * S, 25, 10
#: Micro-batches of half a second, answered 400 ms after each; its p99 may be a second.
PROFILE = profiles.load("microbatch")
NOBODY_LOOKED = np.zeros(0, USAGE)
#: The host stands still while a batch is under way that was due in the second before.
STALL = (T0 + 18 * S + 150 * MS, T0 + 18 * S + 550 * MS)


def stalled_once(
    folder: Path, answered_ms: int = 400, usage: np.ndarray = NOBODY_LOOKED
) -> RecordedRun:
    """Return a run of micro-batches that a stall of the host delays once."""
    recipe = {"kind": "numbers", "records": 1000 * SECONDS, "seed": 1, "tick": 1, "partitions": 1}
    pace = Pace(1000, float(WARM_UP_S))
    run = RunFolder(
        folder, Scenario("made", "double", {}, recipe, rate=1000.0, pace=pace), started=0.0
    )
    run.timetable(T0, MS)
    given = run.history().inputs(NUMBER)[0]["x"]
    due = T0 + MS * np.arange(len(given), dtype=np.int64)
    done = T0 + ((due - T0) // (500 * MS) + 1) * 500 * MS + answered_ms * MS
    done[(done >= STALL[0]) & (done < STALL[1])] += STALL[1] - STALL[0]
    made = np.zeros(len(given), NUMBER)
    made["x"] = (given.view(np.uint64) * np.uint64(2)).view(np.int64)
    run.outputs(output_log(made, t_ns=done.tolist()))
    looks = [(T0 + s * S, 0, 0, 0, 0, -1) for s in range(-1, SECONDS + 2)]
    run.tables(
        publishes=np.array([(T0, 0, 0, 1), (T0 + SECONDS * S, 0, 0, len(given))], PUBLISH),
        machine=np.array(looks, MACHINE),
        usage=usage,
    )
    slept = np.arange(T0 - S, T0 + (SECONDS + 1) * S, MS)
    woke = np.where((slept >= STALL[0]) & (slept < STALL[1]), STALL[1], slept + 50_000)
    rows = zip(woke.tolist(), (woke - slept).tolist(), strict=True)
    run.hiccups(0, np.array(list(rows), HICCUP))
    return RecordedRun(folder, PROFILE.limits["p99"])


def quiet_p99_ms(run: RecordedRun) -> float:
    noisy, _ = run.noisy(PROFILE)
    return percentiles_us(latencies(run.quiet(noisy)))["p99"] / 1_000


def test_an_answer_that_waited_through_noise_is_not_quiet(tmp_path: Path) -> None:
    run = stalled_once(tmp_path / "run")
    assert percentiles_us(latencies(run.steady))["p99"] / 1_000 > 1_000
    assert quiet_p99_ms(run) < 900


def test_what_is_too_slow_does_not_hide_behind_noise_that_comes_later(tmp_path: Path) -> None:
    run = stalled_once(tmp_path / "run", answered_ms=9_000)
    noisy, share = run.noisy(PROFILE)
    longest_s = max(PROFILE.limits.values()) / 1e6
    assert quiet_p99_ms(run) > 9_000
    assert noisy.mean() < share + longest_s / SECONDS + 0.1


def test_what_waits_in_sockets_is_added_up_by_look_without_the_warm_up(tmp_path: Path) -> None:
    looks = np.zeros(2 * SECONDS + 2, USAGE)  # of two processes, once a second
    looks["t_ns"] = T0 + S * np.repeat(np.arange(SECONDS + 1), 2)
    looks["recv_queue"] = [7, 3] * (SECONDS + 1)
    looks["send_queue"][-4:] = [0, 0, 500, 100]  # the last look is at the end of the input
    looks["recv_queue"][: 2 * WARM_UP_S] = 1_000_000
    assert stalled_once(tmp_path / "looked", usage=looks).queues() == {
        "received": {"p50": 10.0, "p99": 10.0, "max": 10.0},
        "sent": {"p50": 0.0, "p99": 600.0, "max": 600.0},
    }
    looks["recv_queue"] = looks["send_queue"] = -1  # nobody looked
    assert stalled_once(tmp_path / "not", usage=looks).queues() == {}
