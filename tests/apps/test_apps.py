"""The interface of apps: what each says of itself, and what an app of somebody's own needs."""

from __future__ import annotations

import json
from typing import get_args

import numpy as np
import pytest

from tickproof.conformance import apps
from tickproof.conformance.apps.app import App
from tickproof.conformance.checkers.findings import Findings, SurplusPayload
from tickproof.conformance.fault_steps import KillEngineStep
from tickproof.conformance.history.events import FiredFault
from tickproof.conformance.scenario import App as Name
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.testing.output_log import output_log
from tickproof.conformance.testing.run_folder import RunFolder
from tickproof.generators import recipes
from tickproof.generators.layouts import opaque

RECIPE = {"kind": "payloads", "size": 24, "records": 10, "partitions": 2, "seed": 1, "tick": 1}


class Totals(App):
    """A job of somebody's own: JSON objects in and out, and a function that knows the total."""

    name = "totals"
    about = "totals adds up the cents of each customer."

    def check(self, history, log, leeway):
        found = Findings(len(log))
        for at, line in enumerate(log.payloads["bytes"].tolist()):
            cents = json.loads(line.rstrip(b"\0"))["cents"]
            if cents != int(self.params["cents"]):
                found.add(SurplusPayload("wrong-value", {"index": at}, line))
        return found


@pytest.fixture
def history(tmp_path):
    run = RunFolder(tmp_path / "run", Scenario("made", "passthrough", {}, RECIPE))
    lines = np.zeros(2, opaque(24))
    lines["bytes"] = [b'{"cents": 5}', b'{"cents": 7}']
    run.outputs(output_log(lines, t_ns=1))
    return run.history()


def test_every_name_has_an_app():
    assert tuple(apps.APPS) == get_args(Name)


@pytest.mark.parametrize("app", apps.APPS.values(), ids=apps.APPS)
def test_an_app_names_a_recipe_and_says_what_it_does(app):
    assert app.kind in recipes.KEYS
    assert app.about.startswith(app.name)


@pytest.mark.parametrize("app", apps.APPS.values(), ids=apps.APPS)
def test_the_members_of_a_message_are_the_fields_of_an_output(app):
    made = app({"inputs": "merged", "emit": "verdicts", "step": "state"})
    fields = [field for _, field in app.members.values()]
    assert set(fields) <= set(made.output_layout(8).names)


def test_an_app_of_somebodys_own_needs_a_name_and_a_check(history):
    app = Totals({"cents": "5"})
    log = app.output(history)
    assert app.check(history, log, None).counts == {"wrong-value": 1}
    assert app.due(history) == 0
    assert app.match(history, log) is None
    assert app.expected([]) is None
    assert not list(app.lanes(history))
    assert app.processed(history, log.payloads) == len(log) == 2


@pytest.mark.parametrize("app", apps.APPS.values(), ids=apps.APPS)
def test_without_an_output_nothing_is_known_to_be_processed(app, history):
    made = app({"inputs": "merged", "emit": "some", "step": "state"})
    assert made.processed(history, np.zeros(0, made.output_layout(8))) == 0


@pytest.mark.parametrize(("app", "held"), [("passthrough", 9), ("count", 4)])
def test_a_record_without_its_output_is_in_flight_if_each_has_one(app, held):
    fault = FiredFault.from_row(
        {
            "event": "fault",
            "at_ns": 5,
            "t_ns": 9,
            "step": KillEngineStep("fetched").to_json(),
            "moment": "fetched",
            "text": "kill",
            "outputs": 2,
            "partitions": [[0, 0, 10, 8, 6, 4], [0, 1, 5, 5, 5, 3]],
            "pids": [7],
            "number": 0,
            "total": 15,
        }
    )
    assert fault.held == held - 5 * (held == 9)
    assert apps.APPS[app]({"emit": "some"}).in_flight(fault) == held
