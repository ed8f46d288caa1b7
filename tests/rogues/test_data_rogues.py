"""Each rogue of the data plane is failed by the requirement that names its defect, and no
other requirement of the data plane takes the blame."""

from __future__ import annotations

import pytest

DATA_PLANE = ("PR-TOKEN", "PR-FRAMES", "PR-ADDRESSES", "PR-SEQUENCE", "PR-RELEASE")
#: Reasons that say only that the run did not come to its end.
NOT_ENDED = {"EXITED", "NO_ANSWER"}
#: Rogue, the requirement that must fail, with which reason, quoting what.
ROGUES = [
    ("WrongToken", "PR-TOKEN", "NOT_GREETED", "HELLO with a wrong token"),
    ("NoHello", "PR-TOKEN", "NOT_GREETED", "the first frame is FETCH, expected HELLO"),
    ("HelloTwice", "PR-TOKEN", "NOT_ALLOWED", "HELLO a second time"),
    ("Oversized", "PR-FRAMES", "TOO_LARGE", "17825792 bytes, at most 16777216"),
    ("Truncated", "PR-FRAMES", "TRUNCATED", "9 bytes into a frame"),
    ("Vanishes", "PR-FRAMES", "TRUNCATED", "9 bytes into a frame"),
    ("UnknownOp", "PR-FRAMES", "BAD_FRAME", "op 0x6b does not exist"),
    ("WrongCount", "PR-FRAMES", "BAD_FRAME", "starts beyond the frame"),
    ("UnknownStream", "PR-ADDRESSES", "UNKNOWN_STREAM", "no output stream 7"),
    ("UnknownPartition", "PR-ADDRESSES", "UNKNOWN_STREAM", "no input stream 0, partition 99"),
    ("BeyondEnd", "PR-ADDRESSES", "BEYOND_END", "offset 1000000000 is beyond the end"),
    ("BelowRelease", "PR-RELEASE", "RELEASED", "offset 0 was released"),
    ("Gap", "PR-SEQUENCE", "SEQUENCE_GAP", "writer 0: first_seq 1, but 0 is next"),
    ("DeafGap", "PR-SEQUENCE", "SEQUENCE_GAP", "writer 0: first_seq 1, but 0 is next"),
    ("Mixed", "PR-SEQUENCE", "NOT_ALLOWED", "writer 0 mixes numbered and unnumbered"),
]
HANGING = ("NeverReads", "NeverDrains")
SOUND = ("Polite", "ManyConnections")

pytestmark = pytest.mark.xdist_group("data-rogues")


@pytest.fixture(scope="module")
def judged(shared_sessions):
    """All of them, judged one after another by one command."""
    names = [*(name for name, *_ in ROGUES), *SOUND]
    engines = [shared_sessions.rogue(name) for name in names]
    engines += [shared_sessions.rogue(name, drain=0.5) for name in HANGING]
    only = ",".join((*DATA_PLANE, "SL-PASSTHROUGH", "PR-STOP"))
    return shared_sessions.tickproof(
        "run", *engines, "--only", only, "--seed", 1, "--out", "out", "-n", 1
    )


@pytest.mark.parametrize(("rogue", "requirement", "reason", "quoted"), ROGUES)
def test_the_requirement_that_names_the_defect_fails(judged, rogue, requirement, reason, quoted):
    results = judged.results_of(rogue)

    assert (results[requirement]["verdict"], results[requirement]["reason"]) == ("fail", reason)
    assert quoted in results[requirement]["actual"]
    assert quoted in " ".join(judged.out.split())
    for id_ in set(DATA_PLANE) - {requirement}:
        assert results[id_]["verdict"] == "pass" or results[id_]["reason"] in NOT_ENDED, id_


@pytest.mark.parametrize("engine", SOUND)
def test_sound_engines_pass(judged, engine):
    """The rogues differ from the first by one change each; 300 connections are allowed."""
    assert {row["verdict"] for row in judged.results_of(engine).values()} == {"pass"}


@pytest.mark.parametrize("rogue", HANGING)
def test_a_run_that_does_not_drain_ends_at_the_drain_limit(judged, rogue):
    results = judged.results_of(rogue)

    assert results["PR-STOP"]["reason"] == "NO_ANSWER"
    assert "no answer to drain within 0.5 s" in results["PR-STOP"]["actual"]
    assert results["SL-PASSTHROUGH"]["verdict"] == "fail"


def test_the_worst_engine_makes_the_exit_status(judged):
    assert judged.status == 1
    assert judged.err == ""
