"""What the tests of several hosts must reject, or call unknown."""

from __future__ import annotations

from pathlib import Path

from tests.suites import tampering as t
from tests.suites.cases import FAILED, LOST, NOT_STATE, STEP_BACK, TWICE, WRONG_VERDICT, Cases


def _on_the_first_host(folder: Path) -> None:
    """Let a worker have run on the host of the coordinator."""

    def change(rows: list[dict]) -> list[dict]:
        for row in rows:
            for one in row["placed"] if row["event"] == "placed" else ():
                one[2] = "host-1"
        return rows

    t.events(folder, change)


_TOTALS: Cases = [*NOT_STATE, TWICE, STEP_BACK]
_VERDICTS: Cases = [LOST, WRONG_VERDICT, FAILED]
_NOT_MET: Cases = [
    (t.without("network"), "KILL_MISSED"),
    (t.edited("network", packets=0), "NOTHING_IN_FLIGHT"),
]

REJECTS: dict[str, Cases] = {
    "NE-PLACES:count-net-partition": [(_on_the_first_host, "WRONG_HOST"), FAILED],
    "NE-PARTITION:count-net-partition": _TOTALS,
    "NE-ONE-WAY:count-net-one-way": _TOTALS,
    "NE-CUT-OFF:count-net-cut-off": _TOTALS,
    "NE-MUTE:count-net-mute": _TOTALS,
    "NE-MUTE:market-two-net-mute": _VERDICTS,
    "NE-HOST-DEATH:count-host-death": _TOTALS,
    "NE-SLOW:count-net-slow": _TOTALS,
    "NE-PACKETS:count-net-packets": _TOTALS,
}
UNKNOWNS: dict[str, Cases] = {
    "NE-PLACES:count-net-partition": [(t.without("placed"), "NOT_SEEN")],
    **{name: _NOT_MET for name in REJECTS if name != "NE-PLACES:count-net-partition"},
}
