"""What can be wrong with --hosts: a sentence, exit status 2, and nothing is started or left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tickproof import conformance
from tickproof.conformance.engines import network

#: Hosts are a matter of namespaces, and here no more may be made.
FORBIDDEN = 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"'


@pytest.mark.parametrize("command", ["run", "explore"])
@pytest.mark.parametrize("hosts", ["0", "1", "33", "-2", "three"])
def test_a_number_of_hosts_that_there_cannot_be(tickproof, engine, tmp_path, command, hosts):
    code, _, err = tickproof(command, engine(), "--hosts", hosts, "--out", "out")
    assert code == 2
    assert "Invalid value for '--hosts'" in err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["run", "explore"])
def test_an_engine_that_runs_on_no_hosts(tickproof, engine, tmp_path, command):
    code, _, err = tickproof(command, engine(), "--hosts", "3", "--out", "out")
    assert code == 2
    assert "has no [hosts] in its engine.toml" in err
    assert not (tmp_path / "out").exists()


def test_a_role_on_a_host_by_name(tickproof, engine):
    path = engine()
    with path.open("a") as file:
        file.write('[hosts]\ncoordinator = "first"\nworker = "host-2"\n')
    code, _, err = tickproof("run", path, "--hosts", "3")
    assert code == 2
    assert "[hosts] worker: expected one of first, others, any" in err


def test_a_machine_that_allows_no_namespaces(tmp_path):
    for tool in network.TOOLS:
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}, which the kit asks for first")
    root = Path(conformance.__file__).parents[2]
    may = subprocess.run(["unshare", "-Ur", "true"], check=False, capture_output=True)
    if may.returncode:
        pytest.skip(f"no user namespace to forbid others in: {may.stderr.decode()}")
    run = [sys.executable, "-m", "tickproof", "run", "miniature", "--hosts", "3", "--out", "out"]
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", FORBIDDEN, "sh", *run],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(root)},
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    said = "--hosts: this machine cannot give them: no network for hosts: [Errno 28] unshare: "
    assert said in " ".join(done.stderr.split())
    assert list(tmp_path.iterdir()) == []
