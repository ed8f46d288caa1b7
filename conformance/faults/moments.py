"""At which moments of a connection the faults of a schedule fire."""

from __future__ import annotations

from typing import Final

#: What a connection comes to, by the moment of a fault that it may set off.
MOMENTS: Final = {
    "fetched": {"fetched"},
    "recovery": {"fetched"},
    "cuts": {"fetched"},
    "draining": {"fetched"},
    "cutting": {"fetched"},
    "losing": {"append-received", "commit-received"},
    "staged": {"staged", "appended"},
    "accepted": {"stage-acked", "append-acked"},
    "committing": {"committed", "appended"},
}

#: Moments that need a new fetch when the step is due.
ANEW: Final = frozenset(("fetched", "cuts", "draining"))

#: Moments at which output is sent: none comes from an engine that emits only at END until then.
OF_OUTPUT: Final = frozenset(("losing", "staged", "accepted", "committing"))
