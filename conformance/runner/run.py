"""Plays one scenario on one engine into one run folder, and never judges it."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from tickproof.conformance.engines import disk_space, interruption
from tickproof.conformance.engines.engine_reuse import EnginePool
from tickproof.conformance.engines.isolation import UNPROTECTED, Isolation
from tickproof.conformance.engines.process import EngineFailure
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.errors import KitStopped
from tickproof.conformance.history.event_log import EventLog, Listener
from tickproof.conformance.history.input_replay import InputMaker
from tickproof.conformance.history.run_record import Ended
from tickproof.conformance.runner.live_run import LiveRun
from tickproof.conformance.runner.run_loop import RunLoop
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.usage.sampler import UsageSampler
from tickproof.generators import recipes

#: Of a run that is judged by value, what waits in queues is not worth what it costs to know.
sampler: Final = partial(UsageSampler, queues=False)


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
    facts: Mapping[str, Any] | None = None,
    usage: Callable[[Path], UsageSampler] | None = sampler,
) -> None:
    """Run ``scenario`` on the engine of ``spec``; all that happens is recorded in ``folder``.

    ``pool``: where an engine that an earlier run has left may be found, and this one left.
    ``isolation``: what it is kept from, besides the run folder, which it never sees.
    ``inputs`` writes the input; None: it is made from the scenario's recipe. ``facts`` are
    added to run.json. ``usage`` samples what the engine uses; None: somebody else does.
    Engine failures are recorded, not raised. Raises KitStopped when the kit could not
    record; the folder then holds what was recorded, with that reason.
    """
    folder.mkdir(parents=True, exist_ok=scenario.pace is not None)  # then others record there too
    events = EventLog(folder / "events.jsonl", listener)
    run = LiveRun(scenario, spec, folder, seed, events, port, pool, isolation)
    run.manifest.add(**facts or {})
    try:
        run.open(inputs or partial(recipes.build, _recipe(scenario, spec)))
        _drive(run, usage)
        ended = Ended(how="completed")
    except EngineFailure as failure:
        ended = Ended(
            how="engine-failure",
            code=failure.code,
            message=failure.message,
            status=failure.status,
            stderr=list(failure.stderr_tail),
        )
        if why := disk_space.full(folder):
            # An engine whose own disk is the kit's, and full, cannot be told from a broken one.
            why = f"{os.strerror(errno.ENOSPC)}: {why}; the engine failed: {failure.message}"
            ended = Ended(how="kit-error", message=why)
    except KitStopped as error:
        ended = Ended(how="kit-error", message=str(error))
    except OSError as error:
        ended = Ended(how="kit-error", message=f"the run in {folder} cannot go on: {error}")
    except KeyboardInterrupt:
        run.close(Ended(how="kit-error", message=interruption.words()))
        raise
    except BaseException as error:
        run.close(Ended(how="kit-error", message=f"{type(error).__name__}: {error}"))
        raise
    stopped = run.close(ended)
    if stopped:
        raise KitStopped(stopped)


def _recipe(scenario: Scenario, spec: EngineSpec) -> dict[str, Any]:
    """Return the recipe of the input: over Kafka a key falls where a client of Kafka puts it."""
    return scenario.recipe | ({"partitioner": spec.partitioner} if spec.partitioner else {})


def _drive(run: LiveRun, usage: Callable[[Path], UsageSampler] | None) -> None:
    """Take the engine from start to stop; raises EngineFailure, KitStopped, OSError."""
    with usage(run.folder) if usage else contextlib.nullcontext():
        run.engine.start(resume=False)
        if run.scenario.probes:
            run.engine.probe()
        run.publisher.start()
        RunLoop(run).run_until_drained()
    run.engine.finish()
