"""The output that an input calls for, where there is only one right answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tickproof.conformance.checkers import expected
from tickproof.generators.layouts import COUNT_OUT
from tickproof.generators.spread_rule import FIVE_CENTS


def of(
    app: str, params: Mapping[str, str], inputs: Sequence[np.ndarray], limit: int = FIVE_CENTS
) -> np.ndarray | None:
    """Return the payloads that have to come at least, in any order; None: that is not one set.

    inputs: payloads of each partition. With emit "some" only the last point of a key has to
    come. limit: five cents in the unit of prices.
    Two streams have no agreed order, so nobody knows which quote an order meets.
    """
    if app == "passthrough":
        return np.concatenate(inputs)
    if app == "double":
        return expected.doubled(np.concatenate(inputs))
    if app == "count":
        return _points(np.concatenate(inputs), last=params["emit"] == "some")
    if params["inputs"] == "two":
        return None
    found = [verdicts for _, verdicts in expected.merged_verdicts(inputs, limit=limit)]
    verdicts = np.concatenate(found) if found else np.empty(0, expected.ANSWER)
    return verdicts[verdicts["tail"] == 1] if params["emit"] == "rejects" else verdicts


def _points(records: np.ndarray, *, last: bool) -> np.ndarray:
    groups = expected.Groups.of(records["key"])
    points = np.empty(len(records), COUNT_OUT)
    points["key"] = np.repeat(groups.keys, groups.count)
    points["n"] = np.arange(len(records)) - np.repeat(groups.start, groups.count) + 1
    points["total"] = groups.totals(records["value"])
    return points[groups.start + groups.count - 1] if last else points
