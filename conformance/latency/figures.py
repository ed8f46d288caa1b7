"""The figures of one run: all that the verdict on a profile depends on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, get_args

from pydantic import BeforeValidator, Field

from tickproof.conformance.history.run_record import Ending

#: Percentile -> the part of the samples that is at or below it, ascending.
QUANTILES: Final[Mapping[str, float]] = {
    "p50": 0.5,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p99.9": 0.999,
    "p99.99": 0.9999,
}

#: What waits in the engine's sockets, in words.
QUEUES: Final[Mapping[str, str]] = {
    "received": "received and not read",
    "sent": "sent and not taken",
}

#: Figures as JSON has them, see `as_json`.
Signed = Annotated[float, BeforeValidator(lambda data: math.inf if data == "inf" else data)]
Number = Annotated[Signed, Field(ge=0)]
Percentiles = dict[str, Number]


@dataclass(frozen=True)
class RunFigures:
    """Figures of one run; times in microseconds unless said otherwise.

    run: name of its folder. wrong: code and text of why its answers are wrong, "" when right.
    samples: measured answers of the steady phase, also where no percentile is published;
    unanswered: records to be measured that never got one. percentiles: of the steady phase
    (keys of QUANTILES and "max"); empty for a run that was not sustained. quiet_*: without
    noisy seconds. floor: of the null engine before this run, empty where that could not keep
    the rate. late: of the generator; hiccup: of the hiccup recorders. noisy: share of noisy
    seconds, 0 to 1. disturbed: share of the seconds in which others took too much of the
    processors, whatever the engine did. achieved: part of the rate that was done.
    backlog_growth: records a second, 0 when it does not grow. trend: relative change of the
    median from first to last second; trend_sure: it is real, and above that of the floor.
    recovery_s: seconds from the kill until p99 is back under its limit, inf never, None without
    a kill; quiet_recovery_s: the same where noisy seconds are passed over, None: not reckoned.
    host_changed: probes whose value is another after the run. queues: "received" and not read,
    "sent" and not taken, by all sockets of the engine at a look: percentiles of bytes.
    """

    number: int
    seed: int
    run: str
    ended: Ending
    wrong: str = ""
    samples: int = 0
    unanswered: int = 0
    percentiles: Percentiles = field(default_factory=dict)
    quiet_samples: int = 0
    quiet_percentiles: Percentiles = field(default_factory=dict)
    floor: Percentiles = field(default_factory=dict)
    late: Percentiles = field(default_factory=dict)
    hiccup: Percentiles = field(default_factory=dict)
    noisy: Number = 0.0
    disturbed: Number = 0.0
    achieved: Number = 1.0
    backlog_growth: Number = 0.0
    trend: Signed = 0.0
    trend_sure: bool = False
    recovery_s: Number | None = None
    quiet_recovery_s: Number | None = None
    host_changed: list[str] = field(default_factory=list)
    queues: dict[str, Percentiles] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.ended not in (endings := get_args(Ending)):
            raise ValueError(f"ended: expected one of {', '.join(endings)}; got {self.ended!r}")
        tables = (
            *(self.percentiles, self.quiet_percentiles, self.floor, self.late, self.hiccup),
            *self.queues.values(),
        )
        numbers = [self.noisy, self.disturbed, self.achieved, self.backlog_growth, self.trend]
        # A comparison with nan is false: it would pass for under every limit.
        if any(math.isnan(value) for table in tables for value in table.values()) or any(
            math.isnan(value) for value in (*numbers, self.recovery_s or 0.0)
        ):
            raise ValueError(f"figures of {self.run}: expected numbers; got nan")


def as_json(data: Any) -> Any:
    """Return data with each infinite number as the text "inf", which JSON has no number for."""
    if isinstance(data, dict):
        return {key: as_json(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [as_json(value) for value in data]
    return "inf" if data == math.inf else data


def shown_us(us: float) -> str:
    """Return a time in the unit that suits it, three figures that count: "1.25 ms"."""
    if math.isinf(us):
        return "never"
    unit, factor = next(
        ((name, size) for name, size in (("s", 1e6), ("ms", 1e3)) if us >= size), ("us", 1.0)
    )
    return f"{us / factor:.3g} {unit}" if us / factor < 1000 else f"{us / factor:,.0f} {unit}"
