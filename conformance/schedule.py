"""Fault steps: what is done, to whom, and at which moment of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

Do = Literal[
    "kill", "pause",
    "cut", "late", "half-open", "delay", "throttle", "drip", "refuse", "silence",
    "fill", "corrupt",
]  # fmt: skip
Target = Literal["worker", "workers", "coordinator", "engine", "source", "sink", "state"]
Moment = Literal[
    "fetched", "losing", "staged", "accepted", "committing", "recovery", "checkpoint", "drained"
]  # fmt: skip

#: What can be done to whom.
TARGETS: Final[Mapping[Do, tuple[Target, ...]]] = {
    "kill": ("worker", "workers", "coordinator", "engine"),
    "pause": ("worker", "workers", "coordinator"),
    "cut": ("source", "sink"),
    "late": ("sink",),
    "half-open": ("source", "sink"),
    "delay": ("source", "sink"),
    "throttle": ("source", "sink"),
    "drip": ("source", "sink"),
    "refuse": ("sink",),
    "silence": ("source",),
    "fill": ("state",),
    "corrupt": ("state",),
}
#: Faults that last, for ``seconds``.
LASTING: Final = frozenset(
    ("pause", "half-open", "delay", "throttle", "drip", "refuse", "silence", "fill")
)
#: Faults after which connections are gone: an engine has to open new ones.
_BREAKING: Final = frozenset(("cut", "late", "half-open", "refuse"))


@dataclass(frozen=True)
class FaultStep:
    """One fault of a schedule. Steps fire in order, one at a time.

    do, to processes: "kill" (SIGKILL), "pause" (SIGSTOP, after ``seconds`` SIGCONT).
    do, to the connections of source (those that FETCH) or sink (those that send output):
    "cut" (reset in the middle of a reply), "late" (reset, but what the engine had sent is
    handled only once it has connected again), "half-open" (no byte either way, then reset),
    "delay" (each reply leaves ``lag_s`` later), "throttle" (replies leave at ``rate`` bytes a
    second), "drip" (replies leave byte by byte), "refuse" (output gets error 8),
    "silence" (FETCH answers that nothing new exists).
    do, to the folder of the state: "fill" (for ``seconds`` no byte more can be written, or
    until the engine starts again), "corrupt" (the engine is killed, and its newest file
    damaged before it starts again).

    at: "fetched" (a part of the input was fetched), "staged" (a STAGE or APPEND was taken,
    its reply not sent), "accepted" (it was acknowledged), "committing" (a COMMIT or APPEND
    was taken, its reply not sent), "losing" (a COMMIT or APPEND is held for delay_s, the
    fault comes, and the frame is treated as never sent: a death a moment before it),
    "recovery" (first records fetched after the step before), "checkpoint" (a checkpoint
    op was answered), "drained" (drain was answered).
    fraction: armed once this part of the input was fetched; 1.0 is its last record.
    burst: records published at once when the step is due: the backlog that it meets.
    delay_s: from the moment to the fault. seconds: how long a fault lasts; of connections,
    from the first thing that it meets. cut: wait for a RELEASE before the fault, so that
    there is a cut to recover from.
    """

    do: Do
    target: Target
    at: Moment
    fraction: float = 0.0
    burst: int = 0
    delay_s: float = 0.0
    seconds: float = 0.0
    cut: bool = False
    lag_s: float = 0.0
    rate: float = 0.0

    @property
    def ends_engine(self) -> bool:
        """Whether every process of the engine dies by it."""
        return self.target == "engine" or self.do == "corrupt"

    @property
    def needs(self) -> str | None:
        """What an engine must claim to survive; None: nothing, any engine must bear it."""
        if self.do in _BREAKING:
            return "connection"
        if self.do == "corrupt":
            return "engine"
        return {"worker": "worker", "workers": "worker", "coordinator": "coordinator",
                "engine": "engine"}.get(self.target)  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FaultStep:
        """Rebuild a step from its dict."""
        return cls(**data)

    def __str__(self) -> str:
        backlog = f", with {self.burst} records of backlog" if self.burst else ""
        return f"{self._what()} {self._when()}{backlog}"

    def _what(self) -> str:
        length = f"for {self.seconds:g} s"
        whom = {
            "worker": "a worker", "workers": "all workers", "coordinator": "the coordinator",
            "engine": "the engine", "source": "the source", "sink": "the sink",
            "state": "the folder of the state",
        }[self.target]  # fmt: skip
        return {
            "kill": f"SIGKILL of {whom}",
            "pause": f"SIGSTOP {length} of {whom}",
            "cut": f"connections to {whom} reset in the middle of a reply",
            "late": f"connections to {whom} reset, what was under way handled late",
            "half-open": f"connections to {whom} half open {length}, then reset",
            "delay": f"replies of {whom} {self.lag_s:g} s late {length}",
            "throttle": f"replies of {whom} at {self.rate:g} bytes a second {length}",
            "drip": f"replies of {whom} byte by byte {length}",
            "refuse": f"output refused by {whom} {length}",
            "silence": f"no new records from {whom} {length}",
            "fill": f"{whom} full {length}",
            "corrupt": f"SIGKILL of the engine and its newest file in {whom} damaged",
        }[self.do]

    def _when(self) -> str:
        part = f"{self.fraction:.0%} of the input"
        return {
            "fetched": f"when {part} was fetched",
            "staged": f"after a STAGE or APPEND was taken and before its reply, from {part} on",
            "losing": f"before a COMMIT or APPEND was taken, which is lost, from {part} on",
            "accepted": f"after output was acknowledged, from {part} on",
            "committing": "after a COMMIT or APPEND was taken and before its reply, "
            f"from {part} on",
            "recovery": "at the first fetch after the fault before",
            "checkpoint": "after a checkpoint was answered",
            "drained": "after drain was answered",
        }[self.at]


def one_each(app: str, params: Mapping[str, str]) -> bool:
    """Tell whether an app gives one output for each input record."""
    return app in ("passthrough", "double") or params.get("emit") == "every"
