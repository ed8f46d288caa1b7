"""The registry: every requirement of every family, and the clauses that none checks.

Ids are stable words that are never reused.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from tickproof.conformance.errors import RequestError
from tickproof.conformance.suites.families.bp_back_pressure import BP
from tickproof.conformance.suites.families.dl_delivery import DL
from tickproof.conformance.suites.families.el_elasticity import EL
from tickproof.conformance.suites.families.eo_exactly_once import EO
from tickproof.conformance.suites.families.ho_host import HO
from tickproof.conformance.suites.families.ka_kafka import KA
from tickproof.conformance.suites.families.lt_latency import LT
from tickproof.conformance.suites.families.ms_market_spread import MS
from tickproof.conformance.suites.families.ne_network import NE
from tickproof.conformance.suites.families.pr_protocol import PR
from tickproof.conformance.suites.families.sl_stateless import SL
from tickproof.conformance.suites.families.st_state import ST
from tickproof.conformance.suites.requirement import Requirement
from tickproof.conformance.text import shown

#: In the order in which reports show them.
_FAMILIES: Final = (PR, SL, ST, MS, EO, DL, BP, KA, EL, NE, LT, HO)
#: Family to title.
FAMILIES: Final = {family.key: family.title for family in _FAMILIES}
TIERS: Final = (0, 1, 2, 3, 4, 5)
#: Takes the machine for itself: played where it is asked for, or in profile full.
LATENCY_TIER: Final = 5
#: What every engine has to face that claims state and delivery exactly-once and to survive
#: "engine", on whatever app it offers. Each that is missing here must be explained by what it
#: needs: an app of its own, or another death.
EXACTLY_ONCE: Final = (
    "EO-ENGINE-DEATH",
    "EO-TERMINATED",
    "EO-EARLY-DEATH",
    "EO-TWO-DEATHS",
    "EO-UNEVEN",
    "EO-COVERING",
    "EO-DEATH-IN-RECOVERY",
    "EO-SCHEDULE",
    "EO-PAUSE",
    "EO-ONE-CUT",
    "EO-RELEASED",
    "EO-FROM-CHECKPOINT",
    "EO-TAIL",
    "EO-AFTER-DRAIN",
    "EO-NO-RETRACTION",
    "EO-CHECKPOINT-OP",
    "EO-FULL-DISK",
    "EO-DAMAGED-CHECKPOINT",
    "DL-NO-LOSS",
    "DL-EXACTLY-ONCE",
    "DL-AFTER-STAGE",
    "DL-AFTER-COMMIT",
    "DL-UNANSWERED",
    "DL-SLOW-ACKS",
)
#: Clauses of docs/protocol.md that no requirement checks, each with the reason. Every clause is
#: either named by a requirement or listed here, never both.
UNCHECKED: Final[Mapping[str, str]] = {
    # About the kit: held by its own tests.
    "app-distinct": "about the kit's input: checked by tests/generators",
    "ctl-undeploy": "about saved time: a run on an engine that was kept is judged like any other",
    "ctl-stderr": "about the kit, and free for the engine: checked by tests/engines",
    "eut-kit-clock": "about the kit: every time in a run folder is its own",
    "eut-kit-owns-processes": "about the kit: checked by tests/engines",
    "fair-latency-apart": "about the kit: tier 5 is played where it is asked for, checked by "
    "tests/cli",
    "fair-limits": "about the kit: checked by tests/usage, with engines that are starved or hang",
    "fair-noise": "about the kit: checked by tests/suites, with histories of noisy seconds",
    "fair-who-worked": "about the kit: checked by tests/suites and "
    "tests/end_to_end/test_worker_rogues.py",
    "fair-paced": "about the kit: scenarios with faults are paced, checked where the scenarios are",
    "log-release-lower": "about the kit: checked by tests/protocol",
    "out-append-empty": "about the kit, and a permission: checked by tests/protocol",
    "out-commit-checks": "about the kit: checked by tests/protocol; a refused COMMIT shows as "
    "missing output",
    "out-have-first": "about the kit: checked by tests/protocol",
    "out-seq-gap": "about the kit: checked by tests/protocol; by itself no failure of the engine",
    "out-stage-empty": "about the kit, and a permission: checked by tests/protocol",
    "kafka-bootstrap": "about the kit: checked by tests/kafka",
    "kafka-drained": "about the kit: checked by tests/kafka",
    "toml-apps": "about engine.toml: a break is an error before anything starts, checked by "
    "tests/engines",
    "toml-apps-finer-prices": "about engine.toml: a market that an engine cannot take is refused, "
    "checked by tests/cli",
    "toml-apps-override": "about engine.toml: checked by tests/engines",
    "toml-apps-params": "about engine.toml: a break is an error before anything starts, checked by "
    "tests/engines",
    "toml-claims": "about the kit: what is not claimed is reported as not-claimed",
    "toml-control": "about the kit: `tickproof survey` judges it, checked by tests/survey",
    "toml-errors": "about engine.toml: checked by tests/engines",
    "toml-kafka": "about engine.toml: a break is an error before anything starts, checked by "
    "tests/engines",
    "toml-known-gaps": "about the kit: known-gap and gap-fixed are verdicts, see docs/verdicts.md",
    "toml-prepare": "about engine.toml: a failure is an error before any engine starts, checked by "
    "tests/engines and tests/cli",
    "toml-required": "about engine.toml: a break is an error before anything starts, checked by "
    "tests/engines",
    "toml-runs": "about the kit: how many runs it plays at the same time",
    "toml-transports": "about engine.toml: checked by tests/engines",
    # Permissions and advice: nothing that an engine could break.
    "log-connections": "a permission: any number of connections is in order",
    "log-release-optional": "a permission: an engine that never releases is in order",
}


def load() -> dict[str, Requirement]:
    """Return every requirement by id, by family and then in the order of its module."""
    return {one.id: one for family in _FAMILIES for one in family.requirements}


def require_known(id_: str, wrong: str, known: Collection[str] | None = None) -> None:
    """Raise RequestError for an id that is not among ``known``; ``wrong`` says so.

    None: the requirements of engines.
    """
    if id_ not in (known := load() if known is None else known):
        near = difflib.get_close_matches(id_, known, n=3, cutoff=0.4)
        hint = f"; the nearest are {', '.join(near)}" if near else ""
        raise RequestError(f"{shown(wrong, 160)}{hint}")


def chosen(
    known: Mapping[str, Requirement],
    tiers: Collection[int],
    only: Collection[str],
    profile: str,
    hosts: bool = False,
) -> dict[str, Requirement]:
    """Return the requirements of the given tiers and ids; empty: all of them.

    With neither, and profile quick, all but those of LATENCY_TIER: latency is no part of the
    quick judgement. ``hosts``: those that need several hosts, too.
    """
    quick = profile == "quick" and not tiers and not only
    return {
        id_: one
        for id_, one in known.items()
        if (not tiers or one.tier in tiers)
        and (not only or id_ in only)
        and not (quick and one.tier == LATENCY_TIER)
        and (hosts or not one.needs.hosts)
    }
