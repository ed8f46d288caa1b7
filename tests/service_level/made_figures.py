"""Figures of made-up runs: quiet, right and fast unless a test says otherwise."""

from tickproof.conformance.latency import profiles
from tickproof.conformance.latency.figures import QUANTILES, RunFigures

CI = profiles.load("ci")
RECOVERY = profiles.load("recovery")
NAMES = (*QUANTILES, "max")
#: Well under each limit of the profile ci, which are 50, 250 and 500 ms.
FAST = dict(zip(NAMES, (5e3, 8e3, 10e3, 20e3, 50e3, 60e3, 70e3), strict=True))
#: Over the limit of p99 only.
SLOW = FAST | {"p99": 300e3, "p99.9": 400e3, "p99.99": 450e3, "max": 460e3}


def run(number=1, percentiles=FAST, **given):
    """Return figures of one run; percentiles of the quiet seconds are the same by default."""
    made = {
        "seed": number,
        "run": f"run-{number}",
        "ended": "completed",
        "samples": 6_000,
        "percentiles": percentiles,
        "quiet_samples": 6_000,
        "quiet_percentiles": percentiles,
        "floor": dict.fromkeys(NAMES, 2e3),
        "late": dict.fromkeys(NAMES, 500.0),
        "hiccup": dict.fromkeys(NAMES, 100.0),
    }
    return RunFigures(number, **made | given)


def runs(count, percentiles=FAST, first=1, **given):
    """Return figures of ``count`` equal runs."""
    return [run(number, percentiles, **given) for number in range(first, first + count)]
