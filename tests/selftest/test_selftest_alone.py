"""Runs in which time counts: after all others, one by one, again where the machine was noisy."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from tickproof.conformance.selftest import session
from tickproof.conformance.selftest import trial as trials
from tickproof.conformance.selftest.model import Cell, Trial
from tickproof.conformance.selftest.mutants import Edit, Mutant
from tickproof.conformance.selftest.trial import Task
from tickproof.conformance.suites import registry
from tickproof.conformance.verdicts import Verdict


def task(subject: str, scenario: str) -> Task:
    return Task(subject, Path("engine.toml"), scenario, 1, Path("runs"))


def trial(one: Task, verdict: Verdict, reason: str = "", requirement: str = "LT-LIMITS") -> Trial:
    cell = Cell(
        requirement=requirement, test="t", verdict=verdict, reason=reason, said="", headline="it"
    )
    return Trial(
        subject=one.subject, scenario=one.scenario, seed=1, played=True, seconds=0, cells=[cell]
    )


def mutant(id_: str) -> Mutant:
    return Mutant(
        id=id_,
        defect="wrong",
        requirement="LT-LIMITS",
        shows="OVER_LIMIT",
        headline=".",
        edit=[Edit(file="adapter.py", old="a", new="b")],
    )


def test_the_scenarios_of_tier_5_are_alone_and_no_others() -> None:
    known = registry.load()
    for scenario, judges in trials.tests_of().items():
        tiers = {known[requirement].tier for requirement, _ in judges}
        assert trials.alone(scenario) == (registry.LATENCY_TIER in tiers)
        assert len(tiers) == 1 or registry.LATENCY_TIER not in tiers, scenario


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], int]]:
    """What was tried together, and by how many processes; noisy trials until the last try."""
    seen: list[tuple[list[str], int]] = []

    def tried(chains, workers):
        tasks = list(chain.from_iterable(chains))
        seen.append(([one.subject for one in tasks], workers))
        for one in tasks:
            noisy = one.subject == "noisy" and len(seen) < 4
            verdict = Verdict.UNKNOWN if noisy else Verdict.FAIL
            yield trial(one, verdict, "HOST_NOISE" if noisy else "OVER_LIMIT")

    monkeypatch.setattr(session, "_tried", tried)
    return seen


def test_they_come_last_one_by_one_and_again_after_noise(rounds) -> None:
    tasks = [task("noisy", "service"), task("a", "count"), task("b", "pinned"), task("c", "double")]
    found = list(session._each_tried(tasks, 8, {}, session._unchained))
    alone = [(["noisy"], 1)] * 3 + [(["b"], 1)]
    assert rounds == [(["a", "c"], 8), *alone]
    assert [one.subject for one in found] == ["a", "c", "noisy", "b"]
    assert found[2].cells[0].verdict is Verdict.FAIL


def test_what_lacks_evidence_beside_others_is_tried_again_alone(monkeypatch) -> None:
    tried: list[tuple[list[str], int]] = []

    def missed(chains, workers):
        tasks = list(chain.from_iterable(chains))
        tried.append(([one.subject for one in tasks], workers))
        verdict = Verdict.UNKNOWN if len(tried) < 3 else Verdict.PASS
        for one in tasks:
            yield trial(one, verdict if one.subject == "a" else Verdict.PASS, "KILL_MISSED")

    monkeypatch.setattr(session, "_tried", missed)
    found = list(
        session._each_tried([task("a", "count"), task("b", "count")], 4, {}, session._unchained)
    )
    assert tried == [(["a", "b"], 4), (["a"], 1), (["a"], 1)]
    assert [(one.subject, one.cells[0].verdict) for one in found] == [
        ("b", Verdict.PASS),
        ("a", Verdict.PASS),
    ]


def test_a_machine_that_stays_noisy_is_asked_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def tried(chains, _workers):
        tasks = list(chain.from_iterable(chains))
        asked.extend(tasks)
        return [trial(one, Verdict.UNKNOWN, "HOST_NOISE") for one in tasks]

    monkeypatch.setattr(session, "_tried", tried)
    (found,) = session._each_tried([task("m", "service")], 2, {}, session._unchained)
    assert len(asked) == 3
    assert found.cells[0].reason == "HOST_NOISE"


def test_only_what_a_mutant_names_has_to_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    from tickproof.conformance.resources import fixtures
    from tickproof.conformance.selftest import mutants

    spikes = mutants.find("mutant:spikes", fixtures())
    of_another = trial(task("m", "service"), Verdict.UNKNOWN, "HOST_NOISE", "LT-STEADY")
    assert not session._void(of_another, spikes)
    assert session._void(of_another, None)
    assert session._void(trial(task("m", "service"), Verdict.UNKNOWN, "KIT_FLOOR"), spikes)


def test_a_mutant_that_nothing_has_killed_is_tried_once_more(monkeypatch) -> None:
    from tickproof.conformance.resources import fixtures
    from tickproof.conformance.selftest import mutants

    known = {id_: mutants.find(f"mutant:{id_}", fixtures()) for id_ in ("no-have", "torn-quote")}
    tasks = [task(id_, "count") for id_ in known]
    killed = [
        Cell(
            requirement=one,
            test="t",
            verdict=Verdict.FAIL,
            reason=known["no-have"].shows,
            said="",
            headline="",
        )
        for one in known["no-have"].breaks
    ]
    monkeypatch.setattr(session, "_kills", lambda cell, _mutant, _requirement: cell in killed)
    first = trial(tasks[0], Verdict.FAIL).model_copy(update={"cells": killed})
    again: list[str] = []

    def tried(chains, workers):
        assert workers == 1
        some = list(chain.from_iterable(chains))
        again.extend(one.subject for one in some)
        return [trial(one, Verdict.FAIL) for one in some]

    monkeypatch.setattr(session, "_tried", tried)
    trials = [first, trial(tasks[1], Verdict.PASS)]
    assert len(list(session._survivors_tried(tasks, known, trials))) == 1
    assert again == ["torn-quote"]


def test_a_mutant_that_is_killed_plays_no_more() -> None:
    known = {"dies": mutant("dies"), "lives": mutant("lives")}
    tasks = [task(who, one) for one in ("slow", "quick") for who in ("dies", "lives", "sound")]
    verdicts = {"dies": Verdict.FAIL, "lives": Verdict.PASS, "sound": Verdict.PASS}
    done: list[Trial] = []
    played = []
    for tasks_of_one in session._until_killed(known, done, tasks):
        played.append([])
        for one in tasks_of_one:
            played[-1].append((one.subject, one.scenario))
            done.append(trial(one, verdicts[one.subject], "OVER_LIMIT"))
    assert played == [
        [("dies", "quick")],
        [("lives", "quick"), ("lives", "slow")],
        [("sound", "slow")],
        [("sound", "quick")],
    ]
