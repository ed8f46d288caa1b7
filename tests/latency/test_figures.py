"""Figures of a run survive a file, and words for times are short."""

import dataclasses
import json
import math

import pytest

from tickproof.conformance.latency.figures import RunFigures, shown_us

RUN = RunFigures(
    3,
    7,
    "run-3",
    "completed",
    samples=10,
    percentiles={"p50": 1.5, "p99": math.inf},
    recovery_s=math.inf,
    host_changed=["governor"],
    trend=-0.5,
    trend_sure=True,
)


def test_figures_survive_json_with_infinity_and_without():
    text = json.dumps(RUN.to_json(), allow_nan=False)
    assert RunFigures.from_json(json.loads(text)) == RUN


def test_a_run_named_inf_stays_a_text():
    named = dataclasses.replace(RUN, run="inf", wrong="inf")
    assert RunFigures.from_json(named.to_json()) == named


def test_unknown_keys_and_endings_are_refused():
    with pytest.raises(ValueError, match="unknown keys p50"):
        RunFigures.from_json(RUN.to_json() | {"p50": 1})
    with pytest.raises(ValueError, match="expected one of completed"):
        RunFigures(1, 1, "run-1", "done")


@pytest.mark.parametrize("key", ["percentiles", "floor", "late"])
def test_nan_is_no_figure(key):
    with pytest.raises(ValueError, match="run-3: expected numbers; got nan"):
        dataclasses.replace(RUN, **{key: {"p99": math.nan}})
    with pytest.raises(ValueError, match="got nan"):
        dataclasses.replace(RUN, achieved=math.nan)


@pytest.mark.parametrize("us, text", [
    (0.25, "0.25 us"), (2, "2 us"), (130, "130 us"), (1_250, "1.25 ms"), (250_000, "250 ms"),
    (1_000_000, "1 s"), (5_000e6, "5,000 s"), (math.inf, "never"), (0, "0 us"),
])  # fmt: skip
def test_a_time_is_shown_in_the_unit_that_suits_it(us, text):
    assert shown_us(us) == text
