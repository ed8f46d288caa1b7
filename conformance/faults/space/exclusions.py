"""Values of the fault space that exclude one another, as data, with the reason.

All of it is pairs, so that "can these values lie in one point?" is a search in a graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from tickproof.conformance.faults.space.dimensions import (
    Carrier,
    EventTimes,
    Keys,
    KeyShape,
    Partitions,
    Rate,
    Shape,
    Size,
    Strike,
    Strikes,
    Value,
    When,
)

COUNTS: Final = frozenset((Carrier.COUNT_EVERY, Carrier.COUNT_SOME))
MARKETS: Final = frozenset((
    Carrier.MERGED_VERDICTS, Carrier.MERGED_REJECTS, Carrier.TWO_VERDICTS, Carrier.TWO_REJECTS,
))  # fmt: skip
_TWO: Final = frozenset((Carrier.TWO_VERDICTS, Carrier.TWO_REJECTS))
_OF_SINK: Final = frozenset(strike for strike in Strike if strike.value.endswith("sink"))
_DAMAGE: Final = frozenset(strike for strike in Strike if strike.value.startswith("corrupt"))
#: Of engines that run on several hosts.
OF_HOSTS: Final = frozenset(strike for strike in Strike if strike.value.endswith("host"))
_OF_PROCESSES: Final = frozenset(
    one for one in Strike if one.value.startswith(("kill", "pause")) and one not in OF_HOSTS
)
_RECOVERIES: Final = frozenset((When.RECOVERY, When.SECOND_RECOVERY))
_SEVERAL: Final = frozenset(Strikes) - {Strikes.ONE}


@dataclass(frozen=True)
class Exclusion:
    """No value of ``these`` goes with one of ``those``."""

    these: frozenset[Value]
    those: frozenset[Value]
    why: str

    def pairs(self) -> Iterator[tuple[Value, Value]]:
        """Yield the pairs that are excluded."""
        return ((one, other) for one in self.these for other in self.those)


def _not(these: Iterable[Value], those: Iterable[Value], why: str) -> Exclusion:
    return Exclusion(frozenset(these), frozenset(those), why)


def _only(carriers: frozenset[Carrier], values: type[Value], none: Value) -> list[Exclusion]:
    """Return what gives a dimension to some carriers, and its value none to all others."""
    why = f"records of {', '.join(sorted(c.value for c in carriers))} have it, and no others"
    others = frozenset(Carrier) - carriers
    return [_not(carriers, {none}, why), _not(others, set(values) - {none}, why)]


#: What makes no sense, or shows nothing, on any engine.
EXCLUSIONS: Final[tuple[Exclusion, ...]] = (
    *_only(COUNTS | MARKETS, Keys, Keys.NONE),
    *_only(COUNTS, KeyShape, KeyShape.NONE),
    *_only(MARKETS, EventTimes, EventTimes.NONE),
    *_only(frozenset((Carrier.PASSTHROUGH,)), Size, Size.NONE),
    _not({Partitions.ONE}, set(Shape) - {Shape.EVEN}, "there is one partition"),
    _not(MARKETS, {Keys.MOST}, "a market has 3,000 symbols at most"),
    _not({When.BEFORE_CUT, *_RECOVERIES}, _OF_SINK, "no connection of the sink is open yet"),
    _not({When.BEFORE_CUT}, _DAMAGE, "there is no cut that could be damaged"),
    _not(_SEVERAL, _DAMAGE, "an engine may refuse to go on after damage"),
    _not(_SEVERAL, {When.HUNDREDTH_CUT, When.SECOND_RECOVERY}, "a run would last for too long"),
    _not({When.SCALING}, frozenset(Strike) - _OF_PROCESSES, "workers and their connections change"),
    _not({Strike.SCALE_ENGINE}, {When.CUTTING, When.COMMITTING, When.DRAINING, *_RECOVERIES},
         "an engine may refuse to scale while it is about something else"),
    _not(OF_HOSTS, {Strikes.TWO_CLOSE}, "a host that is cut off cannot be cut off again"),
    _not({Strike.THROTTLE_HOST}, {Rate.TRICKLE}, "a slow network lets a trickle pass"),
    _not({When.HUNDREDTH_CUT}, {Rate.BACKLOG, Rate.SILENCE},
         "a hundred cuts need input that comes bit by bit"),
    _not({When.TENTH_CUT, When.HUNDREDTH_CUT}, {Size.LARGEST}, "many cuts need more records"),
)  # fmt: skip


#: What there is not over Kafka.
NOT_OVER_KAFKA: Final[tuple[Exclusion, ...]] = (
    _not({Strike.LATE_SINK}, frozenset(When), "what comes late meets the broker's fencing"),
    _not({Strike.FILL_STATE, *_DAMAGE}, frozenset(When), "a cut may be in topics, not in files"),
    _not({When.CUTTING}, frozenset(Strike), "a cut may be in topics, not in files"),
    _not({When.DRAINING}, frozenset(Strike), "nobody asks for drain"),
    _not(_TWO, set(Shape) - {Shape.EVEN}, "probes have symbols of their own, which place them"),
)
#: The same, of a session of profile quick.
RARE_OVER_KAFKA: Final[tuple[Exclusion, ...]] = (
    _not({When.TENTH_CUT}, frozenset(Strike), "some engines commit once a second"),
)
#: What takes longer than a session of profile quick has.
HURRIED: Final[tuple[Exclusion, ...]] = (
    _not(frozenset(Strike), {When.HUNDREDTH_CUT}, "a hundred cuts take some ten seconds"),
)
