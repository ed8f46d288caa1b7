"""The floor: what the kit itself adds, measured with an engine that does nothing.

The null engine (fixtures/floor) is fed by the same schedule. Apps that answer every record
are stood for by passthrough with records as long as the app's output: what matters is how
much goes each way and when.
"""

from __future__ import annotations

from dataclasses import replace

from tickproof.conformance import apps, resources
from tickproof.conformance.engines import spec
from tickproof.conformance.engines.spec import EngineSpec
from tickproof.conformance.scenario import Scenario


def engine() -> EngineSpec:
    """Return the null engine."""
    return spec.load(resources.fixtures() / "floor")


def scenario_of(scenario: Scenario, seconds: float | None = None) -> Scenario:
    """Return the scenario by which the floor under ``scenario`` is measured.

    It has the same rate, ticks, partitions and cores, no faults, and after the warm-up at
    most ``seconds``. Raises ValueError for a scenario without a pace.
    """
    if scenario.pace is None or not scenario.rate:
        raise ValueError(f"scenario {scenario.name}: expected a pace and a rate")
    recipe = dict(scenario.recipe)
    if seconds is not None:
        tick = recipe["tick"]
        longest = int(scenario.rate * (scenario.pace.warm_up_s + seconds)) // tick * tick
        recipe["records"] = min(recipe["records"], longest)
    if not apps.of(scenario).sparse:
        kept = ("seed", "records", "partitions", "tick")
        recipe = {key: recipe[key] for key in kept if key in recipe}
        recipe |= {"kind": "payloads", "size": apps.output_size(scenario)}
        scenario = replace(scenario, app="passthrough", params={})
    return replace(scenario, name="floor", recipe=recipe, faults=())
