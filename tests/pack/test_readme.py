"""README.txt of a pack: words, times, what is to be done first, what never came."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

# The recorded runs and the ways to tamper with them are those of the suites' tests.
from tests.suites import tampering
from tickproof.conformance.explain.facts import Facts
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history.folder import History
from tickproof.conformance.session import judging
from tickproof.conformance.session.pack import readme


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    from tests.suites.recorded import shared

    return shared(tmp_path_factory).run("count-engine-death")


@pytest.fixture
def folder(recorded_run, tmp_path):
    """A failed run: its last total is wrong."""
    copy = tmp_path / "run"
    shutil.copytree(recorded_run, copy, copy_function=os.link)
    tampering.unsealed(copy)
    tampering.alter()(copy)
    return copy


def text_of(folder: Path) -> tuple[History, str]:
    tampering.sealed(folder)
    history = History(folder)
    return history, readme.text(history, judging.recheck(folder), ["run.json"])


def test_words_come_before_the_ways_to_look_and_explain_is_the_first_of_those(folder):
    _, text = text_of(folder)
    words = text[text.index("Words\n-----") : text.index("How to look at it\n---")]
    for word in (
        "record",
        "FETCH",
        "RELEASE",
        "cut",
        "writer",
        "APPEND",
        "HAVE",
        "STAGE",
        "COMMIT",
        "ABORT",
        "drain",
        "fenced",
        "seq",
        "Outcome 1",
    ):
        assert word in words, word
    how = text[text.index("How to look at it\n---") :]
    assert 0 < how.index("tickproof explain FILE") < how.index("tickproof check FILE")
    assert max(map(len, text.splitlines())) <= 78


def test_times_are_seconds_of_the_run_beside_the_clock(folder):
    history, text = text_of(folder)
    facts = Facts.of(history)
    t_ns = int(facts.log.arrivals["t_ns"][-1])
    flat = " ".join(text.split())
    assert f"at {facts.at(t_ns)} (t_ns {t_ns})" in flat
    assert f"0.000 s of the story is t_ns {facts.origin}" in flat
    assert f"- At {facts.at(history.faults[0].t_ns)}: SIGKILL of the engine" in flat


def test_likely_causes_stand_apart_from_the_promise(folder):
    _, text = text_of(folder)
    flat = " ".join(text.split())
    assert "likely Something that the cut needs" in flat
    assert flat.index("promise output is exact") < flat.index("seen n=") < flat.index("likely")


def test_a_run_that_the_engine_ended_shows_the_end_of_its_trace(folder):
    tampering.engine_failure(folder)
    trace = "".join(f'  File "a.py", line {n}, in f{n}\n    f{n}()\n' for n in range(30))
    tampering.fresh(folder / "stderr.log").write_text(f"{trace}KeyError: 5\n", "utf-8")
    _, text = text_of(folder)
    assert "  KeyError: 5\n" in text
    assert "line 29, in f29" in text
    assert "line 28, in f28" not in text


def test_a_fault_that_never_came_does_not_read_as_if_the_run_went_on(folder):
    tampering.engine_failure(folder)
    last = Facts(History(folder)).ended
    tampering.events(
        folder,
        lambda rows: [
            *rows,
            {
                "t_ns": last + 10**9,
                "event": "fault-missed",
                "why": "it was not running",
                "step": KillEngineStep("fetched").to_json(),
            },
        ],
    )
    history, text = text_of(folder)
    flat = " ".join(text.split())
    at = Facts.of(history).at(last)
    assert f"- A further fault, kill of engine, never came: the engine had ended at {at}" in flat
    assert Facts.of(history).at(last + 10**9) not in flat
