"""The table of requirements is whole."""

import importlib
import json
import re
from pkgutil import iter_modules
from typing import get_args, get_type_hints

import pytest

from tickproof.conformance.errors import RequestError
from tickproof.conformance.scenario import Death
from tickproof.conformance.suites import families as modules
from tickproof.conformance.suites import registry
from tickproof.conformance.suites.requirement import Family, Level, Needs

#: Ids are never taken back and never given to another promise.
PUBLISHED = [
    "PR-HELLO",
    "PR-DEPLOY",
    "PR-CONTROL-LINES",
    "PR-TOPOLOGY",
    "PR-TOKEN",
    "PR-FRAMES",
    "PR-ADDRESSES",
    "PR-OPTIONAL-OPS",
    "PR-CONCURRENT-ANSWERS",
    "PR-DRAIN-WAITS",
    "PR-STOP",
    "PR-STDIN-EOF",
    "PR-NO-LEFTOVERS",
    "PR-RELEASE",
    "PR-SEQUENCE",
    "PR-FENCED",
    "PR-PIECES",
    "PR-EMPTY-INPUT",
    "PR-EMPTY-PARTITION",
    "SL-PASSTHROUGH",
    "SL-PAYLOAD-SIZES",
    "SL-ONE-WORKER",
    "SL-DOUBLE",
    "SL-DOUBLE-WRAPS",
    "ST-TOTALS",
    "ST-LAST-POINT",
    "ST-EVERY-POINT",
    "ST-KEY-ORDER",
    "ST-ALL-KEYS",
    "ST-WRAPS",
    "ST-HOT-KEY",
    "ST-SOME",
    "ST-LONG-RUN",
    "DL-COMPLETE",
    "DL-NO-CONFLICT",
    "DL-ACKNOWLEDGED",
    "DL-STAGED",
    "BP-SLOW-SINK",
    "BP-FAST-SOURCE",
    "MS-MERGED",
    "MS-REJECTS",
    "MS-ABSOLUTE-LIMIT",
    "MS-RATIO-LIMIT",
    "MS-NO-QUOTE",
    "MS-ODD-QUOTES",
    "MS-STANDARD-MIX",
    "MS-TWO-STREAMS",
    "MS-FRESHNESS",
    "MS-TWO-REJECTS",
    "EO-WORKER-DEATH",
    "EO-WORKER-DEATH-BACKLOG",
    "EO-ENGINE-DEATH",
    "EO-TWO-DEATHS",
    "EO-DEATH-IN-RECOVERY",
    "EO-PAUSE",
    "EO-ONE-CUT",
    "EO-RELEASED",
    "EO-FROM-CHECKPOINT",
    "EO-TAIL",
    "EO-AFTER-DRAIN",
    "EO-KEY-ORDER",
    "EO-NO-RETRACTION",
    "EO-SOME",
    "EO-MARKET-WORKER-DEATH",
    "EO-MARKET-ENGINE-DEATH",
    "EO-TWO-STREAMS-DEATH",
    "EO-CHECKPOINT-OP",
    "EO-PASSTHROUGH-DEATH",
    "DL-NO-LOSS",
    "DL-EXACTLY-ONCE",
    "DL-AFTER-STAGE",
    "DL-AFTER-COMMIT",
    "DL-SLOW-ACKS",
    "LT-LIMITS",
    "LT-SOURCE",
    "LT-PROBES",
    "LT-STEADY",
    "LT-SUSTAINED",
    "LT-RECOVERY",
    "HO-CORES",
    "HO-PRIORITY",
]


def families() -> list[Family]:
    """Return the families of all modules."""
    found = [
        importlib.import_module(one.name)
        for one in iter_modules(modules.__path__, f"{modules.__name__}.")
    ]
    return [
        value for module in found for value in vars(module).values() if isinstance(value, Family)
    ]


def test_every_published_id_is_still_there():
    assert set(PUBLISHED) <= registry.load().keys()
    assert len(PUBLISHED) == len(set(PUBLISHED)) == 81


def test_what_the_checked_in_registry_says():
    requirements = registry.load()
    assert {one.family for one in requirements.values()} == set(registry.FAMILIES)
    assert {one.tier for one in requirements.values()} == set(registry.TIERS)
    for one in requirements.values():
        assert one.promise.count(".") >= 2, f"{one.id}: what it means, and likely causes"
        assert "If " in one.promise, f"{one.id}: likely causes are missing"
        assert len(one.title) <= 58, one.id


def test_exactly_once_requirements_ask_for_the_claim_and_a_death():
    for one in registry.load().values():
        if one.family == "EO":
            assert one.needs.state == ("exactly-once",)
            # What a given schedule needs follows from its faults.
            deaths = set(one.needs.survives) & set(get_args(Death))
            assert deaths or one.id in ("EO-SCHEDULE", "EO-COVERING", "EO-PAUSE")
            assert one.tier == 3
    assert registry.load()["DL-EXACTLY-ONCE"].needs.delivery == ("exactly-once",)


def test_the_list_of_exactly_once_is_whole():
    by_claims = [
        id_
        for id_, one in registry.load().items()
        if (one.needs.state or one.needs.delivery)
        and one.tier == 3
        and one.family != "KA"
        and not (one.needs.rescale or one.needs.app or one.needs.inputs or one.needs.emit)
        and set(one.needs.survives) <= {"engine"}
    ]
    assert sorted(registry.EXACTLY_ONCE) == sorted(by_claims)


def test_every_entry_is_whole():
    whole = [one for family in families() for one in family.requirements]
    assert len({one.id for one in whole}) == len(whole) == len(registry.load())
    for one in whole:
        assert re.fullmatch(r"[A-Z]{2}(-[A-Z0-9]+)+", one.id), one.id
        assert one.title and one.title.strip() == one.title, one.id
        assert one.level in get_args(Level) and one.tier in registry.TIERS, one.id
        assert one.judges, one.id
        assert one.clauses and len(set(one.clauses)) == len(one.clauses), one.id
        for clause in (*one.clauses, *registry.UNCHECKED):
            assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)+", clause), (one.id, clause)
    assert all(registry.UNCHECKED.values())


def test_an_id_lies_in_the_module_of_its_family():
    for family in families():
        for one in family.requirements:
            assert one.family == family.key, one.id


def test_needs_are_words_that_an_engine_can_claim():
    hints = get_type_hints(Needs)
    for one in registry.load().values():
        for key, values in vars(one.needs).items():
            if key == "hosts":
                assert values in (True, False), one.id
                continue
            (word, _) = get_args(hints[key])
            assert set(values) <= set(get_args(word)), (one.id, key)
            assert len(set(values)) == len(values), (one.id, key)


def test_what_json_has_of_a_requirement():
    shown = registry.load()["EO-TAIL"].to_json()
    assert [*shown] == ["id", "title", "promise", "level", "tier", "clauses", "needs"]
    assert json.loads(json.dumps(shown))["needs"]["survives"] == ["engine"]


def test_an_unknown_id_is_told_with_the_nearest():
    with pytest.raises(RequestError, match="no EO-TAILS; the nearest are EO-TAIL"):
        registry.require_known("EO-TAILS", "no EO-TAILS")
