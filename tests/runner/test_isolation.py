"""Engines that cheat with what lies outside of state_dir: none passes in a sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import platform
import socket
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from tests import cheats
from tests.engines.conftest import open_to_others
from tests.judging import judge_of
from tests.long import LONG
from tickproof.conformance.engines import isolation
from tickproof.conformance.engines.isolation import Isolation, Level
from tickproof.conformance.engines.spec import load
from tickproof.conformance.history import events
from tickproof.conformance.history.folder import History
from tickproof.conformance.runner.run import play
from tickproof.conformance.scenario import Scenario
from tickproof.conformance.suites.catalog import draw
from tickproof.conformance.suites.judge import Fail
from tickproof.conformance.suites.scenarios import Context

ROOT = Path(__file__).resolve().parents[2]


def scenario(secret: str = "") -> Scenario:
    drawn = draw("count-engine-death", Context(seed=3, secret=secret))
    return replace(drawn, recipe=drawn.recipe | {"records": 20_000})


def played(toml: Path, level: Level, secret: str = "") -> History:
    spec = load(toml)
    if level == Level.USER:
        open_to_others(toml)
    if why := isolation.obstacle(level, spec):
        pytest.skip(f"no {level} here: {why}")
    folder = toml.parents[1] / "runs" / level
    play(scenario(secret), spec, folder, seed=3, isolation=Isolation(level, (folder.parent,)))
    return History(folder)


@contextlib.contextmanager
def server(address):
    """Keep values by key, for whoever asks, until the end."""
    held: dict[str, bytes] = {}
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                one, _ = listening.accept()
                with one, one.makefile("rb") as asked:
                    key, value = pickle.loads(asked.read())
                    if value is not None:
                        held[key] = value
                    one.sendall(held.get(key, b""))

    with socket.socket(family) as listening:
        listening.bind(address)
        listening.listen()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize("level", Level)
def test_an_honest_engine_passes_at_each_level(tmp_path, level):
    history = played(cheats.single(tmp_path / "e"), level)
    judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)
    assert history.record.isolation == level
    # What is recorded of its processes are the kit's pids, and each of its lives had one.
    started = [row.pid for row in history.all(events.Started)]
    topology = [row.processes[0].pid for row in history.all(events.Topology)]
    assert len(started) == 2 and set(started) <= set(topology)
    assert started[0] in history.usage["pid"]


@pytest.mark.parametrize("level", [Level.SANDBOX, Level.NONE])
@pytest.mark.parametrize("place", ["$TMPDIR", "."])
def test_working_directory_and_tmpdir_are_emptied_at_a_death(tmp_path, level, place):
    history = played(cheats.single(tmp_path / "e", "file", place), level)
    with pytest.raises(Fail):
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


@pytest.mark.parametrize(
    "place",
    ["/dev/shm", *(pytest.param(one, marks=LONG) for one in ("/tmp", "/var/tmp", "BESIDE"))],
)
def test_what_is_written_elsewhere_is_lost_with_the_sandbox(tmp_path, place):
    place = tmp_path / "e" if place == "BESIDE" else Path(place)
    before = set(place.glob("rogue-*"))
    history = played(cheats.single(tmp_path / "e", "file", place), Level.SANDBOX)
    with pytest.raises(Fail):
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)
    assert set(place.glob("rogue-*")) == before


@pytest.mark.parametrize("kind", ["tcp", pytest.param("abstract", marks=LONG)])
def test_a_service_that_was_started_before_is_out_of_reach(tmp_path, kind):
    name = f"rogue-{uuid.uuid4().hex}"
    with server(("127.0.0.1", 0) if kind == "tcp" else f"\0{name}") as address:
        where = address[1] if kind == "tcp" else f"@{name}"
        # Without its service the engine never drains: that is waited for, and nothing else.
        history = played(cheats.single(tmp_path / "e", "service", where, drain_s=2), Level.SANDBOX)
    with pytest.raises(Fail):
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the cheat knows its numbers of calls")
@pytest.mark.parametrize(
    ("level", "error"),
    [(Level.NONE, contextlib.nullcontext()), (Level.SANDBOX, pytest.raises(Fail))],
)
def test_keys_of_the_kernel_are_out_of_reach(tmp_path, level, error):
    history = played(cheats.single(tmp_path / "e", "keyring", "user"), level)
    if level is Level.NONE and "no key of" in "".join(history.stderr_tail()):
        pytest.skip("this user may have no keys, or too few")
    with error:
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


@pytest.mark.parametrize("level", [Level.SANDBOX, Level.USER])
@pytest.mark.parametrize("cheat", ["inputs", "zeros"])
def test_the_run_folder_is_closed(tmp_path, cheat, level):
    history = played(cheats.single(tmp_path / "e", cheat, tmp_path / "runs"), level)
    with pytest.raises(Fail):
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


@pytest.mark.parametrize("place", ["scratch/{}", "{}.tmp"])
def test_what_is_none_of_the_state_is_removed_at_a_death(tmp_path, place):
    history = played(cheats.single(tmp_path / "e", "within", place), Level.NONE)
    with pytest.raises(Fail):
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


@pytest.mark.parametrize(
    ("level", "secret", "error"),
    [
        (Level.NONE, "", contextlib.nullcontext()),  # the cheat works
        (Level.NONE, "5ca1ab1e", pytest.raises(Fail)),
        (Level.SANDBOX, "", pytest.raises(Fail)),
    ],
)
def test_an_engine_that_knows_the_seed_cannot_make_its_input_again(tmp_path, level, secret, error):
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(scenario().recipe))
    history = played(cheats.single(tmp_path / "e", "seed", recipe, drain_s=5), level, secret)
    with error:
        judge_of("EO-ENGINE-DEATH", "count-engine-death")(history)


def test_another_kit_that_could_be_imported_is_out_of_sight(tmp_path, monkeypatch):
    """The generators of an installed kit make the same input as those of the checkout."""
    for part in ("conformance", "generators", "reference"):
        (tmp_path / "tickproof" / part).mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    isolation._other_kits.cache_clear()
    unseen = set(Isolation().unseen)
    isolation._other_kits.cache_clear()
    other = tmp_path / "tickproof"
    assert unseen >= {other / "conformance", other / "generators"}
    assert other / "reference" not in unseen, "an engine may need it"
    assert unseen.isdisjoint({ROOT / "conformance", ROOT / "generators"}), "the reaper knows them"


def test_nothing_is_left_of_engines_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    played(cheats.single(tmp_path / "e"), Level.SANDBOX)
    assert sorted(os.listdir(tmp_path)) == ["e", "runs"]  # noqa: PTH208
