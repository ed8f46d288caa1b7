"""Plays one scenario on one engine, for every command that plays any."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines import process_table
from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.history.event_log import Listener
from tickproof.conformance.history.folder import History
from tickproof.conformance.history.input_replay import InputMaker
from tickproof.conformance.latency import profiles
from tickproof.conformance.runner import isolated, run
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites import evidence
from tickproof.conformance.suites.carriers import EVERY
from tickproof.conformance.suites.families.lt_latency import service_recovery, within_s
from tickproof.conformance.suites.scenarios import Context
from tickproof.conformance.usage.process_sample import scheduling
from tickproof.conformance.usage.sampler import UsageSampler

#: Kinds of input that cannot be made again, for files of users may change.
_KEPT: Final = ("market-csv", "keyed-csv")


def play(
    scenario: Scenario,
    spec: EngineSpec,
    folder: Path,
    *,
    seed: int,
    listener: Listener | None = None,
    port: int = 0,
    pool: EnginePool | None = None,
    isolation: Isolation = UNPROTECTED,
    inputs: InputMaker | None = None,
    usage: Callable[[Path], UsageSampler] | None = None,
) -> None:
    """Run a scenario as `runner.run.play` does; one with a pace in a process of its own.

    The engine of such a run has served no other, its input is made from its recipe, and nothing
    listens. ``usage`` samples the engine, from this process: then the run is played in it.
    Raises KitStopped, HistoryError and OSError.
    """
    if scenario.pace is None or usage is not None:
        run.play(
            scenario,
            spec,
            folder,
            seed=seed,
            listener=listener,
            port=port,
            pool=pool,
            isolation=isolation,
            inputs=inputs,
            usage=usage or run.sampler,
        )
        return
    if pool is not None:
        pool.close(spec.timeouts.drain_s)
    isolated.play_isolated(scenario, spec, folder, seed=seed, port=port, isolation=isolation)


def add_facts(history: History, spec: EngineSpec) -> None:
    """Write what reports show of a run, and what its verdict depends on."""
    facts: dict[str, Any] = {
        "known_gaps": spec.known_gaps,
        "outputs": len(evidence.outputs(history)),
    }
    if history.record.input.recipe["kind"] == "market-csv":
        facts["by_symbol"] = evidence.rejects_by_symbol(history)
    if history.record.scenario.pace:
        facts["service"] = _service_facts(spec, history.scenario)
    history.note(**facts)


def level(spec: EngineSpec, scenario: str) -> str:
    """Return the SLA profile that a scenario of tier 5 is held against.

    A recovery is one of count: state takes time, and an engine may claim less for it.
    """
    if scenario == service_recovery.name and spec.offers(EVERY.app, EVERY.params):
        return spec.claims(EVERY.app, EVERY.params).latency or Context.latency
    return spec.service_level or Context.latency


def _service_facts(spec: EngineSpec, scenario: str) -> dict[str, Any]:
    """Return what a run of tier 5 is judged by: profile, time to recover, how it was started."""
    profile = profiles.load(level(spec, scenario))
    own = process_table.read(os.getpid())
    assert own is not None
    return {
        "profile": profile.to_json(),
        "within_s": within_s(profile, spec.timeouts.recovery_s),
        # An engine inherits both from the kit.
        "manner": {key: value for key, value in scheduling(own).items() if key != "name"},
    }


def tidy(history: History) -> None:
    """Drop from a run folder what can be made again, and what no judgement needs."""
    history.cache.clear()
    (history.folder / "output" / "staged.bin").unlink(missing_ok=True)
    if history.record.input.recipe["kind"] not in _KEPT:
        shutil.rmtree(history.folder / "input", ignore_errors=True)
