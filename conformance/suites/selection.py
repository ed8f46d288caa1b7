"""On which app a scenario is played, given what an engine offers and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tickproof.conformance.scenario import Claims, Scenario
from tickproof.conformance.suites.carriers import Carrier, named
from tickproof.conformance.suites.catalog import CATALOG, JUDGES
from tickproof.conformance.suites.judge import NotClaimed
from tickproof.conformance.suites.requirement import Requirement, check_claims
from tickproof.conformance.suites.scenarios import Context

#: The claims for each carrier that an engine offers.
Offered = Mapping[Carrier, Claims]


def played_on(
    name: str, context: Context, offered: Offered, known: Mapping[str, Requirement]
) -> Scenario:
    """Return a scenario on the carrier on which most of its requirements can be judged.

    Of several such carriers it is the first that the scenario names: what is judged does not
    depend on the requirements that a session asks for. Raises NotClaimed where the engine
    offers none of them.
    """
    found: list[tuple[int, Scenario]] = []
    for carrier in CATALOG[name].carriers:
        claims = offered.get(carrier)
        if claims is not None:
            here = replace(
                context,
                carrier=carrier,
                survives=claims.survives,
                freshness_s=claims.freshness_s or 0.0,
            )
            drawn = CATALOG[name].draw(here)
            found.append((_judged(name, drawn, claims, known), drawn))
    if not found:
        carriers = CATALOG[name].carriers
        what = "none of " if len(carriers) > 1 else "no "
        raise NotClaimed(f"offers {what}{named(carriers)}")
    return max(found, key=lambda pair: pair[0])[1]  # the first of equals


def _judged(name: str, scenario: Scenario, claims: Claims, known: Mapping[str, Requirement]) -> int:
    """Count the requirements that a scenario would decide."""
    number = 0
    for requirement in {requirement for requirement, _ in JUDGES.get(name, ())}:
        try:
            check_claims(known[requirement].needs, claims, scenario)
        except NotClaimed:
            continue
        number += 1
    return number
