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
    "test_processes_run_where_they_are_to": [(_on_the_first_host, "WRONG_HOST"), FAILED],
    "test_totals_after_a_partition": _TOTALS,
    "test_totals_after_partitions_in_one_direction": _TOTALS,
    "test_totals_after_a_host_was_cut_off": _TOTALS,
    "test_totals_after_a_host_was_mute": _TOTALS,
    "test_verdicts_after_a_host_was_mute": _VERDICTS,
    "test_totals_after_the_death_of_a_host": _TOTALS,
    "test_totals_over_a_network_that_loses_and_is_slow": _TOTALS,
    "test_totals_over_late_doubled_and_damaged_packets": _TOTALS,
}
UNKNOWNS: dict[str, Cases] = {
    "test_processes_run_where_they_are_to": [(t.without("placed"), "NOT_SEEN")],
    **{name: _NOT_MET for name in REJECTS if name != "test_processes_run_where_they_are_to"},
}
