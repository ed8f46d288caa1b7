"""A watched session as metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tickproof.conformance.report.session_state import SessionState
from tickproof.conformance.verdicts import SEVERITY


class SessionCollector(Collector):
    """Gives the metrics of the session that is watched now; each has the label ``engine``."""

    def __init__(self, watch: SessionState) -> None:
        self.watch = watch

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        watch = self.watch
        engine = [watch.engine]
        for key, what in (
            ("published", "Records that the log server made available."),
            ("served", "Records that the engine fetched; again counts again."),
            ("outputs", "Records of output that came."),
            ("released", "Records that the engine let the log server drop."),
        ):
            yield _counter(f"tickproof_records_{key}", what, {(): watch.totals[key]}, engine)
        yield _counter(
            "tickproof_runs",
            "Runs that have ended, by how.",
            {(how,): number for how, number in watch.runs_ended.items()},
            engine,
            "ended",
        )
        yield _counter(
            "tickproof_faults",
            "Faults that fired.",
            {(do, target): number for (do, target), number in watch.faults.items()},
            engine,
            "do",
            "target",
        )
        counts = watch.counts
        yield _gauge(
            "tickproof_requirements",
            "Requirements by verdict so far.",
            {(one.value,): counts[one] for one in SEVERITY},
            engine,
            "verdict",
        )
        running = list(watch.runs.values())
        for name, what, value in (
            ("tickproof_runs_active", "Runs that go on.", len(running)),
            (
                "tickproof_backlog_records",
                "Records published and not fetched yet.",
                sum(run.backlog for run in running),
            ),
            (
                "tickproof_engine_memory_bytes",
                "Resident memory of the engine's processes.",
                sum(run.memory for run in running),
            ),
            (
                "tickproof_tier",
                "The tier whose outcomes count now.",
                -1 if watch.tier is None else watch.tier,
            ),
            (
                "tickproof_session_active",
                "1 while the session goes on.",
                int(bool(watch.engine) and not watch.ended),
            ),
        ):
            yield _gauge(name, what, {(): value}, engine)


def registry(collector: SessionCollector) -> CollectorRegistry:
    """Return a registry of these metrics alone."""
    made = CollectorRegistry()
    made.register(collector)
    return made


def _counter(
    name: str, what: str, values: dict[tuple[str, ...], int], engine: list[str], *labels: str
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, what, labels=["engine", *labels])
    for key, value in values.items():
        family.add_metric([*engine, *key], value)
    return family


def _gauge(
    name: str, what: str, values: dict[tuple[str, ...], int], engine: list[str], *labels: str
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, what, labels=["engine", *labels])
    for key, value in values.items():
        family.add_metric([*engine, *key], value)
    return family
