"""Figures of a run survive a file, and words for times are short."""

import dataclasses
import json
import math

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from tickproof.conformance.latency.figures import RunFigures, as_json, shown_us

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


class Holder(BaseModel):
    """A document that has figures of a run."""

    model_config = ConfigDict(strict=True, extra="forbid")

    run: RunFigures


def written(run: RunFigures) -> str:
    return json.dumps({"run": as_json(dataclasses.asdict(run))}, allow_nan=False)


def test_figures_survive_json_with_infinity_and_without():
    assert Holder.model_validate_json(written(RUN)).run == RUN


def test_a_run_named_inf_stays_a_text():
    named = dataclasses.replace(RUN, run="inf", wrong="inf")
    assert Holder.model_validate_json(written(named)).run == named


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("p50", 1, "p50\n  Unexpected keyword argument"),
        ("samples", "10", "samples\n  Input should be a valid integer"),
        ("percentiles", {"p99": -1.0}, "percentiles.p99\n  Input should be greater than or equal"),
        ("trend", "-inf", "trend\n  Input should be a valid number"),
        ("ended", "done", "ended\n  Input should be 'completed', 'engine-failure' or 'kit-error'"),
    ],
)
def test_what_is_not_written_so_is_refused(key, value, said):
    data = json.loads(written(RUN))
    data["run"][key] = value
    with pytest.raises(ValidationError, match=said):
        Holder.model_validate_json(json.dumps(data))


def test_another_ending_is_refused():
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
