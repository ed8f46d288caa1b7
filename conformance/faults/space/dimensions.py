"""The dimensions of the fault space, as data; a point has one value of each.

A value is written as in schedules where a schedule has a word for it. "none" is the value of a
dimension that an app's records do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Final, Self, get_type_hints


class Value(Enum):
    """One value of a dimension; the class is the dimension."""

    def __str__(self) -> str:
        return f"{DIMENSION_OF[type(self)]}={self.value}"


class Carrier(Value):
    """The app, with the params that decide its kind of output."""

    PASSTHROUGH = "passthrough"
    DOUBLE = "double"
    COUNT_EVERY = "count every"
    COUNT_SOME = "count some"
    MERGED_VERDICTS = "merged verdicts"
    MERGED_REJECTS = "merged rejects"
    TWO_VERDICTS = "two verdicts"
    TWO_REJECTS = "two rejects"


class Partitions(Value):
    """Partitions of each input stream."""

    ONE = "1"
    TWO = "2"
    FOUR = "4"
    SIXTEEN = "16"


class Shape(Value):
    """Distribution of records over the partitions."""

    EVEN = "even"
    EMPTY = "some empty"
    ENDED_EARLY = "some ended early"
    SKEWED = "skewed"


class Keys(Value):
    """Distinct keys, or symbols of a market."""

    NONE = "none"
    ONE = "1"
    SOME = "100"
    MANY = "3000"
    MOST = "1000000"


class KeyShape(Value):
    """Bits of the keys that a hash sees."""

    NONE = "none"
    SPREAD = "spread"
    DENSE = "dense"
    SAME_LOW_32 = "same-low-32"
    SAME_LOW_16 = "same-low-16"
    LIMITS = "limits"


class EventTimes(Value):
    """Order of the event times of a market."""

    NONE = "none"
    RISING = "rising"
    EQUAL = "equal"
    BACKWARDS = "backwards"
    LIMITS = "limits"


class Size(Value):
    """Bytes of a payload."""

    NONE = "none"
    LEAST = "8"
    SMALL = "24"
    LARGE = "1000"
    LARGEST = "60000"


class Rate(Value):
    """Pace of the input: at once, even, slow, or with a silence in between."""

    BACKLOG = "backlog"
    STEADY = "steady"
    TRICKLE = "trickle"
    SILENCE = "silence"


class Strike(Value):
    """A fault and its target."""

    KILL_WORKER = "kill worker"
    KILL_WORKERS = "kill workers"
    KILL_COORDINATOR = "kill coordinator"
    KILL_ENGINE = "kill engine"
    PAUSE_WORKER = "pause worker"
    PAUSE_WORKERS = "pause workers"
    CUT_SOURCE = "cut source"
    CUT_SINK = "cut sink"
    LATE_SINK = "late sink"
    HALF_OPEN_SOURCE = "half-open source"
    HALF_OPEN_SINK = "half-open sink"
    DELAY_SOURCE = "delay source"
    DELAY_SINK = "delay sink"
    THROTTLE_SOURCE = "throttle source"
    DRIP_SOURCE = "drip source"
    DRIP_SINK = "drip sink"
    REFUSE_SINK = "refuse sink"
    SILENCE_SOURCE = "silence source"
    FILL_STATE = "fill state"
    HALF_STATE = "corrupt state half"
    TAIL_STATE = "corrupt state tail"
    EMPTY_STATE = "corrupt state empty"
    BIT_STATE = "corrupt state bit"
    GARBAGE_STATE = "corrupt state garbage"
    MISSING_STATE = "corrupt state missing"
    SCALE_ENGINE = "scale engine"
    KILL_HOST = "kill host"
    PARTITION_HOST = "partition host"
    LOSS_HOST = "loss host"
    THROTTLE_HOST = "throttle host"
    DELAY_HOST = "delay host"


class When(Value):
    """Moment of the first strike in a life of the engine."""

    BEFORE_CUT = "before the first cut"
    FIRST_CUT = "after the 1st cut"
    SECOND_CUT = "after the 2nd cut"
    TENTH_CUT = "after the 10th cut"
    HUNDREDTH_CUT = "after the 100th cut"
    CUTTING = "while a cut is written"
    COMMITTING = "before the reply to output"
    IDLE = "idle"
    DRAINING = "in drain"
    RECOVERY = "in recovery"
    SECOND_RECOVERY = "in the recovery of a recovery"
    SCALING = "in a scale"


class Strikes(Value):
    """Number of strikes, and their distance."""

    ONE = "1"
    TWO_CLOSE = "2 close"
    TWO_APART = "2 apart"
    THREE = "3"


@dataclass(frozen=True)
class Point:
    """One point of the space."""

    carrier: Carrier
    partitions: Partitions
    shape: Shape
    keys: Keys
    key_shape: KeyShape
    event_times: EventTimes
    size: Size
    rate: Rate
    strike: Strike
    when: When
    strikes: Strikes

    @property
    def values(self) -> tuple[Value, ...]:
        """The value of each dimension, in their order."""
        return tuple(getattr(self, name) for name in DIMENSIONS)

    def to_json(self) -> dict[str, str]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return {name: getattr(self, name).value for name in DIMENSIONS}

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Self:
        """Rebuild a point; ValueError or KeyError for what is none."""
        return cls(**{name: kind(data[name]) for name, kind in DIMENSIONS.items()})  # type: ignore[arg-type]

    def __str__(self) -> str:
        told = [value for value in self.values if value.value != "none"]
        return ", ".join(map(str, told))


_HINTS: Final = get_type_hints(Point)
#: The dimensions by name, in their order.
DIMENSIONS: Final[dict[str, type[Value]]] = {f.name: _HINTS[f.name] for f in fields(Point)}
DIMENSION_OF: Final = {kind: name for name, kind in DIMENSIONS.items()}
