"""The command `prepare` of engine.toml: run once, and nothing left of it but what it built."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.modest_engine import toml
from tickproof.conformance.engines import isolation, preparation, spec
from tickproof.conformance.engines.isolation import Level
from tickproof.conformance.engines.output_streams import MAX_STDERR
from tickproof.conformance.errors import InvalidFile, KitStopped


@pytest.fixture
def engine(tmp_path):
    """Make an engine whose prepare is a shell script."""

    def make(script: str, *more: str) -> spec.EngineSpec:
        command = json.dumps(["/bin/sh", "-c", script, *more])
        path = tmp_path / "engine.toml"
        path.write_text(toml("rogue", ["{here}/built"], language="python", prepare=command))
        return spec.load(path)

    return make


def test_it_runs_in_the_folder_of_the_engine_and_may_make_its_program(engine, tmp_path):
    made = engine(
        "echo $0 $1; echo told >&2; printenv TICKPROOF_RUN; cp /bin/true built",
        "{python}",
        "{here}",
    )
    with pytest.raises(InvalidFile, match=r"argv\[0\]: expected a program; no such file"):
        made.command()
    output = tmp_path / "out" / "prepare.log"
    preparation.prepare(made, output)
    first, second, run_id = output.read_text().splitlines()
    assert (first, second) == (f"{sys.executable} {tmp_path}", "told")
    assert len(run_id) == 32
    assert subprocess.run(made.command(), check=False).returncode == 0


def test_what_takes_long_is_said_once(engine, tmp_path, monkeypatch):
    told = []

    def say(text):
        told.append(text)
        (tmp_path / "told").touch()

    monkeypatch.setattr(preparation, "say", say)
    monkeypatch.setattr(preparation, "_SILENT_S", 0.5)
    script = "echo first; echo bringing 3 jars; until [ -e told ]; do sleep 0.05; done"
    preparation.prepare(engine(script), tmp_path / "log")
    (said,) = told
    assert said == f"preparing rogue (bringing 3 jars); its output is {tmp_path / 'log'}"
    preparation.prepare(engine("true"), tmp_path / "log")
    assert told == [said]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("printf 'no \\033[1mcompiler\\n' >&2; exit 3", "got: status 3"),
        ("echo no compiler; kill -9 $$", "got: signal SIGKILL"),
        ("echo no compiler; sleep 600", "got: still running after 0.5 s"),
    ],
)
def test_a_failure_names_file_and_key_and_says_what_was_printed(engine, tmp_path, script, said):
    with pytest.raises(InvalidFile) as raised:
        preparation.prepare(engine(script), tmp_path / "log", 0.5)
    (error,) = raised.value.errors
    assert error.startswith("[engine] prepare: expected status 0") and said in error
    assert "compiler" in error and "\033" not in error
    assert "compiler" in (tmp_path / "log").read_text()


def test_a_program_that_is_missing_is_named(engine, tmp_path):
    made = engine("true")
    text = made.path.read_text().replace("/bin/sh", "no-such-compiler")
    made.path.write_text(text)
    with pytest.raises(InvalidFile, match=r"prepare\[0\]: expected a program on PATH"):
        preparation.prepare(spec.load(made.path), tmp_path / "log")


def test_what_it_leaves_behind_is_ended(engine, tmp_path, carriers):
    preparation.prepare(engine("printenv TICKPROOF_RUN; setsid sleep 600 &"), tmp_path / "log")
    run_id = (tmp_path / "log").read_text().strip()
    assert carriers(run_id) == []


def test_what_it_leaves_behind_under_another_name_is_ended_too(engine, tmp_path):
    """A build server, say, that clears its environment and is nobody's child any more."""
    command = f"env -i /bin/sh -c 'echo $$ >{tmp_path}/pid; exec /bin/sleep 600' &"
    preparation.prepare(
        engine(f"{command} until test -s {tmp_path}/pid; do :; done"), tmp_path / "log"
    )
    assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))


def test_its_output_is_bounded(engine, tmp_path):
    preparation.prepare(engine("head -c 70M /dev/zero"), tmp_path / "log")
    assert (tmp_path / "log").stat().st_size < MAX_STDERR + 100


def test_an_engine_without_one_makes_no_file(engine, tmp_path):
    made = engine("true")
    made.path.write_text(toml("rogue", ["true"], language="python"))
    preparation.prepare(spec.load(made.path), tmp_path / "log")
    assert not (tmp_path / "log").exists()


def test_in_a_sandbox_it_writes_to_its_folder_and_the_cache_alone(engine, tmp_path, monkeypatch):
    if why := isolation.sandbox_obstacle():
        pytest.skip(f"no sandbox here: {why}")
    here, cache, beside = (tmp_path / name for name in ("here", "cache", "beside"))
    for folder in (here, beside):
        folder.mkdir()
    made = engine("exit 1")
    made.path.rename(made.path.parent / "here" / made.path.name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    kit = Path(preparation.__file__)
    before = kit.read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"""
import contextlib, pathlib, socket
socket.create_connection(("127.0.0.1", {port}))
for name in ("here/built", "cache/jar", "beside/lost"):
    pathlib.Path({str(tmp_path)!r}, name).write_text(name)
with contextlib.suppress(OSError):  # lost, or refused where it belongs to another user
    pathlib.Path({str(kit)!r}).write_text("pass")
"""
        command = json.dumps([sys.executable, "-c", script])
        text = toml("rogue", ["{here}/built"], language="python", prepare=command)
        (here / "engine.toml").write_text(text)
        preparation.prepare(spec.load(here / "engine.toml"), tmp_path / "log", protected=True)
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert found == [
        "beside", "cache", "cache/jar", "here", "here/built", "here/engine.toml", "log",
    ]  # fmt: skip
    assert kit.read_bytes() == before


@pytest.mark.parametrize("change", ["echo x >>", "rm", "echo x >new", "ln -sf /"])
def test_outside_of_one_a_changed_kit_ends_the_session(engine, tmp_path, monkeypatch, change):
    (tmp_path / "conformance").mkdir()
    (tmp_path / "conformance" / "judge.py").write_text("judge")
    monkeypatch.setattr(preparation, "_KIT", tmp_path)
    preparation.prepare(engine("echo x >built"), tmp_path / "log")
    with pytest.raises(KitStopped, match=r"1 files that it changed in .*: conformance/"):
        preparation.prepare(engine(f"cd conformance && {change} judge.py"), tmp_path / "log")


def test_no_other_user_protects_the_kit_from_what_prepares_an_engine(engine, monkeypatch):
    monkeypatch.setattr(isolation, "sandbox_obstacle", lambda: "no namespaces")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    why = isolation.obstacle(Level.USER, engine("true"))
    assert why.startswith("prepare could change the kit") and why.endswith("no namespaces")
