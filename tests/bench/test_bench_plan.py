"""The room that a bench asks for."""

from __future__ import annotations

import pytest

from tickproof.conformance.performance.bench_plan import Plan


@pytest.mark.parametrize(
    ("apps", "gigabytes"),
    [
        (("market-spread",), 57),
        (("double",), 24),
        (("double", "count"), 48),
        (("market-spread", "passthrough"), 112),
    ],
)
def test_a_billion_records_need_the_room_of_the_largest_app(apps, gigabytes):
    steady = Plan(apps, messages=10**9, latency=False, kills=())
    assert steady.disk_bytes == gigabytes * 10**9


def test_a_paced_run_may_need_more():
    paced = Plan(("double",), messages=1000, pace=10_000, seconds=100)
    assert paced.disk_bytes == 112 * 10**6
