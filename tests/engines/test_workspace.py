"""The folders that an engine owns: walked and removed whatever it made of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tickproof.conformance.engines import reaper
from tickproof.conformance.engines.workspace import Workspace, folder_size, remove, walked
from tickproof.conformance.faults.state_dir import newest

DEPTH = 3_000


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """Give a folder of folders so deep that no path leads to the last one.

    Whatever becomes of the test it is removed: pytest fails at a folder as deep as this.
    """
    top = tmp_path / "deep"
    top.mkdir()
    here = Path.cwd()
    os.chdir(top)
    for number in range(DEPTH):
        Path("file").write_bytes(b"x" * (number + 1))
        Path("folder").mkdir()
        os.chdir("folder")
    os.chdir(here)
    yield top
    subprocess.run(["rm", "-rf", str(top)], check=True)


def test_a_deep_folder_is_walked_and_removed(deep):
    assert len(list(walked(deep))) > 500
    size, files = folder_size(deep)
    assert size == files * (files + 1) // 2
    assert newest(deep) is not None
    remove(deep)
    assert not deep.exists()


def test_the_reaper_removes_it_too(deep):
    reaper.remove(str(deep))
    assert not deep.exists()


def test_only_a_state_dir_counts_as_kept(tmp_path, monkeypatch):
    (tmp_path / "of-the-user").write_text("much")
    monkeypatch.chdir(tmp_path)
    workspace = Workspace()
    try:
        assert workspace.kept() == (0, 0)
        (workspace.state_dir("run") / "cut").write_bytes(b"abc")
        assert workspace.kept() == (3, 1)
    finally:
        workspace.remove()


def test_a_new_life_has_its_state_and_nothing_of_the_folder_around_it(tmp_path, monkeypatch):
    """Times, modes and attributes of a folder would outlive what lies in it."""
    workspace = Workspace()
    try:
        cut = workspace.state_dir("run") / "cut"
        cut.write_bytes(b"abc")
        inode = cut.stat().st_ino
        (workspace.states / "beside").write_text("x")
        os.utime(workspace.states, ns=(1, 1))
        workspace.states.chmod(0o711)
        before = workspace.states.stat()
        workspace.begin_life()
        after = workspace.states.stat()
        assert after.st_mtime_ns > 1 and after.st_ino != before.st_ino
        assert after.st_mode != before.st_mode
        assert [path.name for path in workspace.states.iterdir()] == ["run"]
        assert cut.read_bytes() == b"abc" and cut.stat().st_ino == inode
        assert workspace.state_dir("run") == cut.parent and cut.exists()
    finally:
        workspace.remove()


def test_what_no_path_leads_to_is_gone_in_a_new_life(tmp_path, monkeypatch):
    """No fault would meet it: neither damage nor a full disk, and no end of unfinished files."""
    workspace = Workspace()
    here = Path.cwd()
    try:
        state = workspace.state_dir("run")
        (state / "cut").write_bytes(b"abc")
        os.chdir(state)
        for _ in range(30):
            Path("d" * 200).mkdir()
            os.chdir("d" * 200)
        Path("cut").write_bytes(b"abc")
        deepest = os.open(".", os.O_RDONLY)
        os.chdir(here)
        assert folder_size(state) == (3, 1)
        workspace.begin_life()
        assert os.fstat(deepest).st_nlink == 0
        os.close(deepest)
        assert [path.name for path in workspace.states.iterdir()] == ["run"]
        assert (state / "cut").read_bytes() == b"abc"
        assert len(os.fsencode(max(walked(state))[0])) > 3_500  # what can be reached stays
    finally:
        os.chdir(here)
        workspace.remove()


def test_the_folder_around_workspaces_goes_with_the_last_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = os.umask(0o077)
    one, other = Workspace(), Workspace()
    os.umask(before)
    assert one.root.parent == other.root.parent
    assert one.root.parent.parent == tmp_path
    assert one.root.parent.stat().st_mode & 0o777 == 0o711
    one.remove()
    assert other.root.is_dir()
    other.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["file", "dangling", "open"])
def test_a_folder_that_is_in_the_way_is_left_alone(tmp_path, monkeypatch, what):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    taken = tmp_path / f"tickproof-engines-{os.geteuid()}"
    if what == "file":
        taken.write_text("mine")
    elif what == "dangling":
        taken.symlink_to(tmp_path / "nowhere")
    else:
        taken.mkdir()
        taken.chmod(0o777)
    workspace = Workspace()
    try:
        assert workspace.root.parent == tmp_path
    finally:
        workspace.remove()
    assert [path.name for path in tmp_path.iterdir()] == [taken.name]


@pytest.mark.parametrize("what", ["file", "link", "nothing"])
def test_something_else_in_place_of_the_state_is_replaced(tmp_path, what):
    workspace = Workspace()
    try:
        folder = workspace.state_dir("run")
        folder.rmdir()
        if what == "file":
            folder.write_text("no folder")
        elif what == "link":
            folder.symlink_to(tmp_path)
        workspace.begin_life()
        assert workspace.state_dir("run") == folder
        assert folder.is_dir() and not folder.is_symlink()
    finally:
        workspace.remove()


def test_removing_follows_no_link_and_needs_no_mode(tmp_path):
    mine, top = tmp_path / "mine", tmp_path / "top"
    mine.mkdir()
    (mine / "precious").write_text("kept")
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "link").symlink_to(mine)
    (top / "a" / "b" / "file").write_text("x")
    (top / "a" / "b").chmod(0)
    (top / "a").chmod(0)
    remove(top)
    assert not top.exists()
    (tmp_path / "link").symlink_to(mine)
    remove(tmp_path / "link")
    remove(tmp_path / "nothing")
    assert [path.name for path in mine.iterdir()] == ["precious"]


def test_the_caller_may_leave_folders_out(tmp_path):
    for name in ("a/x", "scratch/y"):
        (tmp_path / name).mkdir(parents=True)
    seen = []
    for path, folders, _ in walked(tmp_path):
        seen.append(Path(path).name)
        if "scratch" in folders:
            folders.remove("scratch")
    assert seen == [tmp_path.name, "a", "x"]
