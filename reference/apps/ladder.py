"""Ladder: one small feature more at each step, for the sake of what it costs."""

import numpy as np

from tickproof.reference.api import (
    Application,
    Computation,
    Pipeline,
    Sink,
    Source,
    State,
    StateComputation,
    on_arrays,
)
from tickproof.reference.api.layouts import framed, new
from tickproof.reference.apps import passthrough
from tickproof.reference.apps.count import POINT, TOTAL, VALUE, count_every

#: A record with the one state that all records share.
LANED = framed(("lane", "<u8"), ("key", "<u8"), ("value", "<i8"))
SEEN = State("seen", np.dtype([("n", "<u8")]))
#: The n of a record that goes out beside its point.
AUDIT = np.uint64(2**64 - 1)


@on_arrays
def double(records: np.ndarray) -> np.ndarray:
    """Twice the value, wrapping in two's complement, as all that follows."""
    return changed(records, records["value"] * np.int64(2))


@on_arrays
def add_key(records: np.ndarray) -> np.ndarray:
    """Add the key."""
    return changed(records, records["value"] + records["key"].view("<i8"))


@on_arrays
def negate(records: np.ndarray) -> np.ndarray:
    """Change the sign."""
    return changed(records, -records["value"])


def changed(records: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return a copy of the records with other values."""
    out = records.copy()
    out["value"] = values
    return out


@on_arrays
def put_in_one_lane(records: np.ndarray) -> np.ndarray:
    """Give all records the same state."""
    out = new(len(records), LANED)
    out["key"], out["value"] = records["key"], records["value"]
    return out


@on_arrays
def number(records: np.ndarray, rows: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Number the records as they come."""
    out = new(len(records), POINT)
    out["key"], out["total"] = records["key"], records["value"]
    out["n"] = states["n"][0] + np.arange(1, len(records) + 1, dtype=np.uint64)
    states["n"][0] += np.uint64(len(records))
    return out


@on_arrays
def count_and_audit(records: np.ndarray, rows: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Each point, and beside it the record that it came from."""
    audit = new(len(records), POINT)
    audit["key"], audit["n"] = records["key"], AUDIT
    audit["total"] = records["value"]
    return np.concatenate([count_every(records, rows, states), audit])


#: The computations of each step without state; a checkpoint and exactly-once delivery come with
#: every query of Spark.
STATELESS = {
    "decode": (),
    "compute": (double,),
    "three-coalesced": (double, add_key, negate),
    "three-apart": (double, add_key, negate),
}
BY_KEY = dict.fromkeys(("state-by-key", "checkpoint", "exactly-once"), count_every)


def application(step: str | None) -> Application:
    """Return the app of a step; ValueError for one that is unknown."""
    if step == "passthrough":
        return passthrough.application()
    if step in STATELESS:
        pipeline, layout = computing(*STATELESS[step]), VALUE
    elif step == "state":
        lane = Computation("one lane", put_in_one_lane, LANED)
        numbered = StateComputation("number", SEEN, "lane", number, POINT)
        pipeline, layout = computing(double).to(lane).to(numbered), POINT
    elif function := (BY_KEY | {"audit": count_and_audit}).get(step):
        counted = StateComputation("count", TOTAL, "key", function, POINT)
        pipeline, layout = computing(double).to(counted), POINT
    else:
        raise ValueError(f"unknown step {step!r} of the ladder")
    return Application("ladder", [pipeline.into(Sink(0, layout))])


def computing(*functions) -> Pipeline:
    """Return a pipeline of computations, without its sink."""
    pipeline = Pipeline("all", Source(0, VALUE))
    for function in functions:
        pipeline = pipeline.to(Computation(function.__name__, function, VALUE))
    return pipeline
