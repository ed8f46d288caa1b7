"""Engines that name workers which do not work are failed; one whose workers get the records by
pipe, and never speak to the log, is not."""

from __future__ import annotations

import pytest

from tests import cheats
from tests.long import LONG

#: What an engine passes whose workers can die without harm.
DEATHS = ("EO-WORKER-DEATH", "EO-WORKER-DEATH-BACKLOG", "EO-PAUSE", "EO-ALL-WORKERS")


@pytest.fixture
def rogue(tmp_path):
    return lambda name: cheats.workers(tmp_path / name, name)


@LONG
def test_workers_that_do_nothing_are_seen_without_a_fault(sessions, rogue):
    done = sessions.judge([rogue("Idle")], "PR-TOPOLOGY", "SL-PASSTHROUGH")

    assert done.status == 1
    assert done.results["SL-PASSTHROUGH"]["verdict"] == "pass"
    assert done.results["PR-TOPOLOGY"]["reason"] == "IDLE_WORKERS"


@LONG
def test_the_death_of_a_worker_that_did_nothing_shows_nothing(sessions, rogue):
    done = sessions.judge([rogue("Idle")], "EO-WORKER-DEATH", "EO-PAUSE")

    assert done.status == 3
    for id_ in ("EO-WORKER-DEATH", "EO-PAUSE"):
        assert done.results[id_]["reason"] == "NOT_AT_WORK"


@pytest.mark.parametrize(
    "name", ["Connected", *(pytest.param(one, marks=LONG) for one in ("Fetching", "Burning"))]
)
def test_what_goes_on_while_all_workers_stand_still_is_not_their_work(sessions, rogue, name):
    done = sessions.judge([rogue(name)], "PR-WORKERS-WORK")

    assert done.status == 1
    assert done.results["PR-WORKERS-WORK"]["reason"] == "WORKERS_NOT_NEEDED"


@LONG
def test_a_pause_that_the_engine_ends_by_itself_shows_nothing(sessions, rogue):
    done = sessions.judge([rogue("Wakes")], "EO-PAUSE")

    assert done.status == 3
    assert done.results["EO-PAUSE"]["reason"] == "NOT_HELD"


def test_the_death_of_a_coordinator_that_coordinates_nothing_shows_nothing(sessions, tmp_path):
    rogue = cheats.workers(tmp_path / "rogue", "Figurehead", survives=["worker", "coordinator"])
    done = sessions.judge([rogue], "EO-COORDINATOR-DEATH")

    assert done.status == 3
    assert done.results["EO-COORDINATOR-DEATH"]["reason"] == "NOT_AT_WORK"


def test_workers_that_come_to_fetch_what_others_fetch_share_no_work(sessions, tmp_path):
    rogue = cheats.workers(tmp_path / "rogue", "Swelling", rescale="live")
    done = sessions.judge([rogue], "EL-LIVE")

    assert done.status == 3
    assert done.results["EL-LIVE"]["reason"] == "NOT_SEEN"
    assert "alone fetched" in done.results["EL-LIVE"]["expected"]


def test_the_child_of_a_worker_dies_with_it(sessions, rogue):
    done = sessions.judge([rogue("Shelled")], "EO-WORKER-DEATH")

    assert done.status == 1
    assert done.results["EO-WORKER-DEATH"]["reason"] == "EXITED"


@LONG
def test_workers_that_get_the_records_by_pipe_work(sessions, rogue):
    done = sessions.judge([rogue("Piped")], "PR-TOPOLOGY", "PR-WORKERS-WORK", *DEATHS)

    verdicts = {id_: row["verdict"] for id_, row in done.results.items()}
    assert verdicts == dict.fromkeys(("PR-TOPOLOGY", "PR-WORKERS-WORK", *DEATHS), "pass")
    assert done.status == 0
