"""Hiding things from tests: what is hidden is gone, and nothing else is."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import bare
from tests.long import LONG
from tests.test_repo import ROOT

HIDE = "from tests import bare; failed = bare.hide_spaces({things!r}); print(failed);"


def hidden(things: list[str], then: str) -> subprocess.CompletedProcess[str]:
    """Hide things from a process of its own, and run a program there; skip if it is not allowed."""
    program = HIDE.format(things=things) + f"\nif not failed:\n {then}"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, check=False
    )
    if not done.stdout.startswith("{}"):
        pytest.skip(f"nothing can be hidden here: {done.stdout.strip()}")
    return done


def test_programs_are_hidden_and_the_first_of_each_name_stays(tmp_path: Path) -> None:
    for place, names in (("one", ("nft", "sort")), ("two", ("nft", "sort", "cat"))):
        for name in names:
            (tmp_path / place).mkdir(exist_ok=True)
            (tmp_path / place / name).write_text(place)
            (tmp_path / place / name).chmod(0o755)
    links = tmp_path / "links"
    links.mkdir()
    path = bare.hide_programs(f"{tmp_path}/one:/nowhere:{tmp_path}/two", {"nft"}, links)
    assert shutil.which("nft", path=path) is None
    assert [Path(shutil.which(name, path=path)).read_text() for name in ("sort", "cat")] == [
        "one",
        "two",
    ]
    assert path.split(os.pathsep)[0] == str(Path(sys.executable).parent)


@pytest.mark.parametrize(
    ("thing", "tried", "error"),
    [
        ("network", "__import__('socket').create_connection(('192.0.2.1', 80), 5)", "unreachable"),
        ("shm", "__import__('multiprocessing').Lock()", "Read-only file system"),
        (
            "postgres",
            "from tickproof.conformance.jobs import postgres; postgres._programs()",
            "needs a server",
        ),
        (
            "fuse",
            "from tickproof.conformance.engines.isolation import disk_obstacle as why\n"
            " raise OSError(why())",
            "cannot mount FUSE: Invalid argument",
        ),
        ("namespaces", "bare.call(bare._libc.unshare, bare._NEWUSER)", "No space left on device"),
    ],
)
def test_what_is_hidden_is_gone(thing: str, tried: str, error: str) -> None:
    done = hidden([thing], tried)
    assert done.returncode == 1
    assert error in done.stderr


def test_a_loopback_is_left() -> None:
    done = hidden(
        ["network"],
        "import socket; s = socket.create_server(('127.0.0.1', 0));"
        " socket.create_connection(s.getsockname()[:2], 5)",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        ["selftest", "--only", "a-little-less"],
        pytest.param(["explore", "single", "--budget", "1s"], marks=LONG),
        pytest.param(
            ["mutate", "minimal"],
            marks=[
                LONG,
                pytest.mark.skipif(
                    importlib.util.find_spec("cosmic_ray") is None, reason="no cosmic-ray"
                ),
            ],
        ),
    ],
)
def test_a_command_that_needs_shared_semaphores_says_so(command: list[str], tmp_path: Path) -> None:
    arguments = [*command, "--out", str(tmp_path / "out")]
    done = hidden(["shm"], f"from tickproof.conformance.cli.main import main; main({arguments!r})")
    assert done.returncode == 2, done.stderr
    assert "expected a /dev/shm that can be written to" in " ".join(done.stderr.split())
