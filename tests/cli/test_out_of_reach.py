"""Files and folders that a command may not use: status 2 with their names, and no traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long import few
from tests.modest_engine import toml
from tickproof import conformance

NOT_ROOT = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


@pytest.fixture
def refused(tmp_path):
    """Run a command without the rights of root: its status has to be 2; returns what it says."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root may enter any folder, and there is no setpriv to give that up")

    def run(*words: object) -> str:
        before = NOT_ROOT if os.geteuid() == 0 else []
        path = [str(Path(conformance.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [*before, sys.executable, "-m", "tickproof.conformance.cli.main", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
        )
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return " ".join(done.stderr.split())

    return run


@pytest.fixture
def closed(tmp_path):
    """A folder that nobody but root may enter; what is in it is there."""
    folder = tmp_path / "closed"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "engine.toml").write_text(toml("toy", ["/bin/true"]))
    shutil.copy("/bin/true", folder / "inner" / "program")
    folder.chmod(0)
    if os.geteuid() == 0:
        os.chown(folder, 65534, 65534)
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    few(
        [
            ["run", "closed/inner/engine.toml"],
            ["check", "closed/inner"],
            ["run", "closed/inner"],
            ["run", "mutant:offset-not-state", "--out", "closed/out"],
        ],
        2,
    ),
)
def test_the_folder_in_the_way_is_named(refused, closed, words):
    said = refused(*words)
    assert f"the folder {closed} cannot be entered: Permission denied" in said


def test_a_program_in_a_closed_folder_is_named_with_it(refused, closed, tmp_path):
    path = tmp_path / "engine.toml"
    program = closed / "inner" / "program"
    path.write_text(toml("toy", [str(program)]))
    said = refused("run", path)
    assert f"[engine] argv[0]: expected a program; got '{program}': the folder {closed}" in said


@pytest.mark.parametrize(
    ("command", "out"),
    few([("run", "closed/out"), ("run", "file"), ("run", "file/out"), ("survey", "closed/out")]),
)
def test_a_folder_for_reports_that_cannot_be_written_is_named(
    refused, closed, tmp_path, command, out
):
    (tmp_path / "file").write_text("")
    (tmp_path / "engine.toml").write_text(toml("toy", ["/bin/true"]))
    said = refused(command, "engine.toml", "--only", "PR-HELLO", "--out", out)
    assert "--out" in said and out in said
