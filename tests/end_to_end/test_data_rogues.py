"""Each rogue of the data plane is failed by the requirement that names its defect, and no
other requirement of the data plane takes the blame."""

from __future__ import annotations

import pytest

from tests.long import LONG, few

#: Requirement -> rogue -> (the reason of its failure, what it must quote).
ROGUES = {
    "PR-TOKEN": {
        "WrongToken": ("NOT_GREETED", "HELLO with a wrong token"),
        "NoHello": ("NOT_GREETED", "the first frame is FETCH, expected HELLO"),
        "HelloTwice": ("NOT_ALLOWED", "HELLO a second time"),
    },
    "PR-FRAMES": {
        "Oversized": ("TOO_LARGE", "17825792 bytes, at most 16777216"),
        "Truncated": ("TRUNCATED", "9 bytes into a frame"),
        "Vanishes": ("TRUNCATED", "9 bytes into a frame"),
        "UnknownOp": ("BAD_FRAME", "op 0x6b does not exist"),
        "WrongCount": ("BAD_FRAME", "starts beyond the frame"),
    },
    "PR-ADDRESSES": {
        "UnknownStream": ("UNKNOWN_STREAM", "no output stream 7"),
        "UnknownPartition": ("UNKNOWN_STREAM", "no input stream 0, partition 99"),
        "BeyondEnd": ("BEYOND_END", "offset 1000000000 is beyond the end"),
    },
    "PR-RELEASE": {"BelowRelease": ("RELEASED", "offset 0 was released")},
    "PR-SEQUENCE": {
        "Gap": ("SEQUENCE_GAP", "writer 0: first_seq 1, but 0 is next"),
        "DeafGap": ("SEQUENCE_GAP", "writer 0: first_seq 1, but 0 is next"),
        "Mixed": ("NOT_ALLOWED", "writer 0 mixes numbered and unnumbered"),
    },
}


@pytest.mark.parametrize("requirement", few(ROGUES))
def test_the_requirement_that_names_the_defect_fails(sessions, requirement):
    rogues = ROGUES[requirement]
    done = sessions.judge([sessions.rogue(name) for name in rogues], *ROGUES)

    assert done.status == 1
    for rogue, (reason, quoted) in rogues.items():
        results = done.results_of(rogue)
        failed = results[requirement]
        assert (failed["verdict"], failed["reason"]) == ("fail", reason), rogue
        assert quoted in failed["actual"], rogue
        assert quoted in " ".join(done.out.split()), rogue
        for id_ in set(ROGUES) - {requirement}:
            result = results[id_]
            innocent = result["verdict"] == "pass" or result["verdict"] == "blocked"
            assert innocent, (rogue, id_, result["reason"], result["actual"])
            assert result["blocked_by"] in ([], [requirement]), (rogue, id_)


@LONG
def test_sound_engines_pass(sessions):
    """The rogues differ from the first by one change each; 300 connections are allowed."""
    sound = [sessions.rogue("Polite"), sessions.rogue("ManyConnections")]
    done = sessions.judge(sound, *ROGUES, "SL-PASSTHROUGH", "PR-STOP")

    assert done.status == 0
    for name in ("Polite", "ManyConnections"):
        assert {row["verdict"] for row in done.results_of(name).values()} == {"pass"}


@LONG
def test_a_run_that_does_not_drain_ends_at_the_drain_limit(sessions):
    names = ("NeverReads", "NeverDrains")
    engines = [sessions.rogue(name, drain=0.5) for name in names]
    done = sessions.judge(engines, "SL-PASSTHROUGH", "PR-STOP")

    assert done.status == 1
    for name in names:
        results = done.results_of(name)
        assert results["PR-DRAIN"]["verdict"] == "fail"
        assert "no answer to drain within 0.5 s" in results["PR-DRAIN"]["actual"]
        for blocked in ("PR-STOP", "SL-PASSTHROUGH"):
            assert results[blocked]["verdict"] == "blocked"
            assert results[blocked]["blocked_by"] == ["PR-DRAIN"]
