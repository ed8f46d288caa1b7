"""A scenario: everything that one run does to an engine, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from conformance.latency.pace import Pace
from conformance.protocol.sink import SinkBehaviour
from conformance.schedule import FaultStep, one_each
from generators.layouts import COUNT_OUT, NUMBER, VERDICT

App = Literal["passthrough", "double", "count", "market-spread"]

_OUTPUT_SIZES: Final = {
    "double": NUMBER.itemsize,
    "count": COUNT_OUT.itemsize,
    "market-spread": VERDICT.itemsize,
}


@dataclass(frozen=True)
class Scenario:
    """One run, without its engine.

    recipe: input recipe (docs/architecture.md). rate: records a second, None for all at
    once. hold: (part of the input, seconds of silence after it). drain_at: ask for drain
    when this part of the input is published, rather than at END. ending: how the engine is
    ended. probes: also ask what an engine may refuse. fresh: start and stop an engine for it.
    pace: publish by a schedule fixed in advance, whatever the engine and the faults do.
    """

    name: str
    app: App
    params: dict[str, str]
    recipe: dict[str, Any]
    workers: int = 2
    rate: float | None = None
    sink: SinkBehaviour = field(default_factory=SinkBehaviour)
    faults: tuple[FaultStep, ...] = ()
    hold: tuple[float, float] | None = None
    drain_at: float | None = None
    ending: Literal["stop", "stdin-eof"] = "stop"
    probes: bool = False
    fresh: bool = False
    pace: Pace | None = None

    @property
    def output_size(self) -> int:
        """Payload size in bytes of the app's output."""
        return _OUTPUT_SIZES.get(self.app) or int(self.recipe["size"])

    @property
    def may_share(self) -> bool:
        """Whether an engine of an earlier run will do: its start and end are not looked at."""
        return self.ending == "stop" and not self.fresh

    @property
    def one_each(self) -> bool:
        """Whether each input record gives one output: what is missing is still in the engine."""
        return one_each(self.app, self.params)

    def longest_s(self, records: int, life_s: float) -> float:
        """Return how long a run may take if every limit is used up; ``life_s``: of one life."""
        paced = 3 * records / self.rate if self.rate else 0.0
        faults = sum(step.seconds + step.delay_s + life_s for step in self.faults)
        hold = self.hold[1] if self.hold else 0.0
        return paced + faults + life_s + hold + self.sink.stall_s + self.sink.budget_s

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict; `from_json` is its inverse."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scenario:
        """Rebuild a scenario from its dict."""
        return cls(
            **{
                **data,
                "sink": SinkBehaviour(**data["sink"]),
                "hold": tuple(data["hold"]) if data["hold"] else None,
                "faults": tuple(FaultStep.from_json(step) for step in data["faults"]),
                "pace": Pace.from_json(data.get("pace")),
            }
        )
