"""Fault steps: what is done, to whom, and at which moment of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Do = Literal["kill", "pause"]
Target = Literal["worker", "engine"]
Moment = Literal[
    "fetched", "losing", "staged", "accepted", "committing", "recovery", "checkpoint", "drained"
]  # fmt: skip


@dataclass(frozen=True)
class FaultStep:
    """One fault of a schedule. Steps fire in order, one at a time.

    at: "fetched" (a part of the input was fetched), "staged" (a STAGE or APPEND was taken,
    its reply not sent), "accepted" (it was acknowledged), "committing" (a COMMIT or APPEND
    was taken, its reply not sent), "losing" (a COMMIT or APPEND is held for delay_s, the
    fault comes, and the frame is treated as never sent: a death a moment before it),
    "recovery" (first records fetched after the step before), "checkpoint" (a checkpoint
    op was answered), "drained" (drain was answered).
    fraction: armed once this part of the input was fetched; 1.0 is its last record.
    burst: records published at once when the step is due: the backlog that it meets.
    delay_s: from the moment to the fault. seconds: length of a pause. cut: wait for a
    RELEASE before the fault, so that there is a cut to recover from.
    """

    do: Do
    target: Target
    at: Moment
    fraction: float = 0.0
    burst: int = 0
    delay_s: float = 0.0
    seconds: float = 0.0
    cut: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able dict."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FaultStep:
        """Rebuild a step from its dict."""
        return cls(**data)

    def __str__(self) -> str:
        verb = "SIGKILL" if self.do == "kill" else f"SIGSTOP for {self.seconds:g} s"
        when = {
            "fetched": f"when {self.fraction:.0%} of the input was fetched",
            "staged": "after a STAGE or APPEND was taken and before its reply, "
            f"from {self.fraction:.0%} of the input on",
            "losing": "before a COMMIT or APPEND was taken, which is lost, "
            f"from {self.fraction:.0%} of the input on",
            "accepted": f"after output was acknowledged, from {self.fraction:.0%} of the input on",
            "committing": "after a COMMIT or APPEND was taken and before its reply, "
            f"from {self.fraction:.0%} of the input on",
            "recovery": "at the first fetch after the fault before",
            "checkpoint": "after a checkpoint was answered",
            "drained": "after drain was answered",
        }[self.at]
        backlog = f", with {self.burst} records of backlog" if self.burst else ""
        whom = "a worker" if self.target == "worker" else "the engine"
        return f"{verb} of {whom} {when}{backlog}"


def one_each(app: str, params: Mapping[str, str]) -> bool:
    """Tell whether an app gives one output for each input record."""
    return app in ("passthrough", "double") or params.get("emit") == "every"
