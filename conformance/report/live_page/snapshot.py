"""A watched session as one JSON object: what the page is sent twice a second."""

from __future__ import annotations

import math
from typing import Any, Final

from tickproof.conformance.report.session_state import SessionState
from tickproof.conformance.report.style import TIER_NAMES, tier_title
from tickproof.conformance.verdicts import SEVERITY, Verdict

#: Runs that are listed.
_RUNS: Final = 20


def of(watch: SessionState) -> dict[str, Any]:
    """Return what a page shows of a session; texts are bounded and not escaped."""
    worst = watch.worst
    counts = watch.counts
    return {
        "engine": watch.engine,
        "facts": watch.facts,
        "ended": watch.ended,
        "took_s": watch.now_s - watch.began_s,
        "tier": "" if watch.tier is None else tier_title(watch.tier, TIER_NAMES),
        "verdict": watch.ended or (worst.value if worst else ""),
        "counts": [[one, counts[one]] for one in reversed(SEVERITY) if counts[one]],
        "runs": [
            {
                "name": run.name,
                "records": run.records,
                "served": run.counts["served"],
                "in": run.rates["served"],
                "out": run.rates["outputs"],
                "backlog": run.backlog,
                "wait_ms": None if math.isnan(run.wait_s) else run.wait_s * 1000,
                "memory": run.memory,
                "faults": run.faults,
            }
            for run in list(watch.runs.values())[:_RUNS]
        ],
        "more_runs": max(len(watch.runs) - _RUNS, 0),
        "played": watch.runs_ended.total(),
        "faults": list(watch.newest_faults)[::-1],
        "verdicts": sorted(
            (
                {"id": id_, **one}
                for id_, one in reversed(watch.verdicts.items())
                if one["verdict"] != Verdict.NOT_CLAIMED
            ),
            key=lambda one: one["verdict"] == Verdict.PASS,
        ),
        "seconds": watch.seconds(),
    }
