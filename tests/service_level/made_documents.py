"""Documents of measurements that nobody made: whole ones, as a test wants them."""

from __future__ import annotations

from collections.abc import Sequence

from tests.service_level.made_figures import CI
from tickproof.conformance.hosts.model import Attestation
from tickproof.conformance.latency.figures import RunFigures
from tickproof.conformance.performance.decision import Decision
from tickproof.conformance.performance.document import Machine
from tickproof.conformance.performance.latency_document import (
    GivenCores,
    HostFound,
    LatencySession,
    MeasuredEngine,
)
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
