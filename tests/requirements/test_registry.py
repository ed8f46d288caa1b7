"""The registry loads as a whole, and each way to break an entry is told exactly."""

from typing import get_args

import pytest

from tickproof.conformance.errors import InvalidFile
from tickproof.conformance.requirements import registry
from tickproof.conformance.scenario import Death

GOOD = """
[[requirement]]
id = "PR-ONE"
title = "one"
promise = "It holds."
level = "must"
tier = 0
clauses = ["ctl-hello"]
needs = { app = ["count"], survives = ["worker", "engine"] }
"""
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


@pytest.fixture
def folder(tmp_path):
    for family in registry.FAMILIES:
        text = GOOD.replace("PR-ONE", f"{family}-ONE")
        (tmp_path / f"{family}.toml").write_text(text)
    return tmp_path


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
    assert sorted(registry.load_exactly_once()) == sorted(by_claims)


def test_a_list_of_exactly_once_with_a_strange_id(folder):
    (folder / "exactly-once.toml").write_text('requirements = ["PR-ONE", "PR-TWO"]\n')
    with pytest.raises(InvalidFile, match="PR-TWO: no such requirement"):
        registry.load_exactly_once(folder)


def test_a_requirement_as_it_stands_in_the_file(folder):
    loaded = registry.load(folder)
    assert list(loaded) == [f"{family}-ONE" for family in registry.FAMILIES]
    assert loaded["PR-ONE"] == registry.Requirement(
        id="PR-ONE",
        title="one",
        promise="It holds.",
        level="must",
        tier=0,
        clauses=("ctl-hello",),
        needs=registry.Needs(app=("count",), survives=("worker", "engine")),
    )
    assert loaded["PR-ONE"].family == "PR"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('id = "PR-ONE"', 'id = "XX-ONE"', "PR.toml: [[requirement]] XX-ONE: id: expected PR-"),
        ('id = "PR-ONE"', 'id = "PR-one"', "id: expected upper-case words"),
        ('id = "PR-ONE"', "", "PR.toml: [[requirement]] 1: id: missing"),
        ('title = "one"', 'title = " "', "PR-ONE: title: expected text that is not empty; got ' '"),
        (
            'title = "one"',
            'titel = "one"',
            "PR-ONE: titel: unknown key; expected one of id, title, ",
        ),
        ('level = "must"', 'level = "may"', "level: expected one of must, should; got 'may'"),
        ("tier = 0", "tier = 9", "tier: expected one of 0, 1, 2, 3, 4, 5; got 9"),
        ("tier = 0", "tier = false", "tier: expected a whole number; got False"),
        ('clauses = ["ctl-hello"]', "clauses = []", "clauses: expected a list that is not empty"),
        (
            'clauses = ["ctl-hello"]',
            'clauses = "ctl-hello"',
            "clauses: expected a list; got 'ctl-hello'",
        ),
        (
            'clauses = ["ctl-hello"]',
            'clauses = ["Hello"]',
            "clauses[0]: expected the id of a clause; got 'Hello'",
        ),
        ('["ctl-hello"]', '["ctl-hello", "ctl-hello"]', "clauses: expected each word once; got "),
        ('app = ["count"]', 'apps = ["count"]', "needs.apps: unknown key; expected one of app, "),
        ('app = ["count"]', 'app = ["counts"]', "needs.app[0]: expected one of passthrough, "),
        ('app = ["count"]', 'app = "count"', "needs.app: expected a list; got 'count'"),
        ("needs = {", "needs = 1 # {", "needs: expected a table"),
        ("[[requirement]]", "[[requirements]]", "[[requirement]]: missing"),
        ("tier = 0", "tier = ", "PR.toml: expected TOML; "),
    ],
)
def test_a_broken_entry_is_named(folder, old, new, message):
    assert GOOD.count(old) == 1
    (folder / "PR.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(InvalidFile) as caught:
        registry.load(folder)
    assert message in str(caught.value)
    assert all(line.startswith(f"{folder}/PR.toml: ") for line in str(caught.value).splitlines())


def test_an_id_used_twice_is_an_error(folder):
    (folder / "PR.toml").write_text(GOOD + GOOD)
    with pytest.raises(InvalidFile, match=r"PR-ONE: id: .* this one is used twice"):
        registry.load(folder)


def test_a_missing_family_is_an_error(folder):
    (folder / "EO.toml").unlink()
    with pytest.raises(InvalidFile, match=r"EO\.toml: there is no such file"):
        registry.load(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('ctl-hello = ""', "[unchecked] ctl-hello: expected text that is not empty; got ''"),
        ("ctl-hello = 1", "[unchecked] ctl-hello: expected text; got 1"),
        ('Hello = "why"', "[unchecked] Hello: expected the id of a clause; got 'Hello'"),
    ],
)
def test_an_unchecked_clause_needs_an_id_and_a_reason(tmp_path, text, message):
    (tmp_path / "clauses.toml").write_text(f"[unchecked]\n{text}\n")
    with pytest.raises(InvalidFile) as caught:
        registry.load_unchecked(tmp_path)
    assert caught.value.errors == [message]
