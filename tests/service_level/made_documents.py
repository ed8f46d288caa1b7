"""Documents of measurements that nobody made: whole ones, as a test wants them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.service_level.made_figures import CI
from tickproof.conformance.hosts.model import Attestation
from tickproof.conformance.latency.figures import RunFigures
from tickproof.conformance.performance.bench_document import SteadyRound, SteadyWindow
from tickproof.conformance.performance.decision import Decision
from tickproof.conformance.performance.document import Machine, MeasuredEngine
from tickproof.conformance.performance.latency_document import GivenCores, HostFound, LatencySession
from tickproof.conformance.verdicts import Verdict

MACHINE = Machine(
    cpu="a processor", cpus=2, memory_bytes=2**30, platform="P", python="3", numpy="2", kit="1"
)


def latency_session(
    runs: Sequence[RunFigures], *, rate: int = 20_000, verdict: Verdict = Verdict.PASS
) -> LatencySession:
    """Return a session of an engine called toy on profile ci at a rate."""
    return LatencySession(
        machine=MACHINE,
        engine=MeasuredEngine(name="toy", version="1", language=""),
        profile=CI.at_rate(rate),
        seed=1,
        cores=GivenCores((0,), (1,), (), shared=False),
        host=HostFound(level="none", problems=(), attested=Attestation("none", ())),
        reproduce="",
        runs=tuple(runs),
        floor=None,
        decision=Decision(verdict, (), (), {}, ()),
    )


def steady_round(rate: float | None, progress: Any = "release", steps: int = 9, **given: Any):
    """Return the figures of one steady round; without a rate it had no window."""
    window = SteadyWindow(opens_after_s=0.5, seconds=2.0, records=9, progress=progress, steps=steps)
    figures = {
        "rate": rate,
        "window": window if rate else None,
        "whole_rate": rate,
        "us_a_record": 0.25,
        "other_cores": 0.1,
    }
    return SteadyRound(
        **figures | given,
        seed=1,
        records=10,
        outputs=10,
        release_every_s=0.5,
        whole_s=2.5,
        cpu_s=12.345,
        cores=1.5,
        kit_cores=None,
        peak_memory=3 * 2**29,
        memory_kind="pss",
        samples=9,
        state_bytes={"20%": 999, "50%": None, "end": 5000},
        state_files=1,
    )
